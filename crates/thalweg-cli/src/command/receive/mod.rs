//! `thalweg receive`: writes files sent to this node into a folder.
//!
//! *The idea.* As in `send`, the node's library does the transfer; this file is the user interface. A file
//! gets its name only when it is complete; until then it is in a folder whose name ends in `.part`.
//!
//! *What it does not do.* It replaces no file without `--force`.

pub mod bar;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use thalweg_node::transfer::{self, Event, Inbox, ReceiveOptions, Received, TransferError};

use self::bar::{Bar, seconds, size};
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal;

/// How long the goodbye to the sender may take after a request to stop. Left alone it takes 6 s at most.
const GOODBYE_MAX: Duration = Duration::from_secs(8);

const EXAMPLES: &str = "\
Examples:
  thalweg receive
  thalweg receive --to incoming --from camera
  thalweg receive 7-otter-lantern             # the phrase printed by `thalweg send FILE --code`
  thalweg receive --stay --from camera        # one transfer after the other, until Ctrl-C

It waits for a sender. An interrupted transfer is kept in thalweg-….part in the target folder; run the
command again to resume it. While a sender is stalled, the next sender is served. Without --from, any node
on the map may send; with a phrase, only the sender that printed it. A phrase may be typed with spaces and
in capitals.

Exit codes: 0 all files are complete; 1 a name is taken, the disk is full, the phrase is wrong, used or expired, or the
command was stopped early; 2 no such node or folder, or not a phrase; 4 no running node answers. With --stay, failures
are reported and the next transfer follows; Ctrl-C ends it with 0.";

/// Receive files that are sent to this node.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line and goes no further"
)]
pub struct Arguments {
    /// The sender's phrase, such as 7-otter-lantern.
    #[arg(value_name = "PHRASE", num_args = 1.., conflicts_with_all = ["from", "stay"])]
    phrase: Vec<String>,

    /// The folder to write the files to.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    to: PathBuf,

    /// Receive only from this node: its name, its key, or the digits of it that `thalweg ls` shows.
    #[arg(long, value_name = "FROM")]
    from: Option<String>,

    /// Replace files that have the same name.
    #[arg(long)]
    force: bool,

    /// Give files the default mode and the current time instead of the sender's.
    #[arg(long)]
    no_preserve: bool,

    /// Receive one transfer after the other, until Ctrl-C.
    #[arg(long)]
    stay: bool,

    /// Print one JSON object for each received transfer.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: Socket,
}

/// Receives one transfer, or until a request to stop.
pub async fn run(arguments: &Arguments) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    arguments.socket.connect().await?;
    if !arguments.to.is_dir() {
        let folder = arguments.to.display();
        return fail(
            Code::BadInput,
            format!("{folder} is not a folder: create it first"),
        );
    }
    let phrase = match &arguments.phrase[..] {
        [] => None,
        words => Some(words.join(" ").parse().or_code(Code::BadInput)?),
    };
    let mut inbox = Inbox::new(ReceiveOptions {
        phrase,
        socket: arguments.socket.path()?,
        folder: arguments.to.clone(),
        from: arguments.from.clone(),
        force: arguments.force,
        keeps_modes: !arguments.no_preserve,
    });
    loop {
        let bar = Bar::new("receiving");
        let (ended, is_requested) = one(&mut inbox, &bar, &mut shutdown).await;
        bar.clear();
        match ended {
            Ended::Finished(Ok(received)) => print_summary(arguments, &received)?,
            Ended::Finished(Err(error)) if arguments.stay && error.is_of_one() => {
                terminal::print_notice(&error.to_string());
            }
            Ended::Finished(Err(error)) => {
                let code = code(&error);
                return Err(error).or_code(code);
            }
            Ended::Unconfirmed => {
                terminal::print_notice(
                    "everything is here, but the sender may not have been notified",
                );
            }
            Ended::Stopped if arguments.stay => {}
            Ended::Stopped => {
                return fail(
                    Code::Failed,
                    "stopped before everything had arrived; run it again to resume",
                );
            }
        }
        if is_requested || !arguments.stay {
            return Ok(Code::Done);
        }
    }
}

/// How one transfer ended.
enum Ended {
    /// The transfer ended by itself.
    Finished(Result<Received, TransferError>),
    /// A request to stop came before all files were complete.
    Stopped,
    /// After a request to stop, all files were complete, but the sender did not confirm that in time.
    Unconfirmed,
}

/// Receives one transfer, or until a request to stop, and returns whether there was one. If all
/// files are complete by then, the sender still gets its confirmation.
async fn one(inbox: &mut Inbox, bar: &Bar, shutdown: &mut Shutdown) -> (Ended, bool) {
    let is_whole = AtomicBool::new(false);
    let receiving = inbox.receive(|event| {
        if event == Event::Whole {
            is_whole.store(true, Ordering::Relaxed);
        }
        bar.show(event);
    });
    tokio::pin!(receiving);
    tokio::select! {
        received = &mut receiving => return (Ended::Finished(received), false),
        () = shutdown.requested() => {}
    }
    if !is_whole.load(Ordering::Relaxed) {
        return (Ended::Stopped, true);
    }
    let received = tokio::time::timeout(GOODBYE_MAX, receiving).await;
    let ended = received.map_or(Ended::Unconfirmed, Ended::Finished);
    (ended, true)
}

fn code(error: &TransferError) -> Code {
    match error {
        TransferError::Node(_) => Code::BadInput,
        _ => Code::Failed,
    }
}

fn print_summary(arguments: &Arguments, received: &Received) -> Result<(), Failure> {
    let names: Vec<String> = received
        .files
        .iter()
        .map(|file| format!("\"{}\"", transfer::shown(file)))
        .collect();
    let what = match &names[..] {
        [one] => one.clone(),
        names => format!("{} files", names.len()),
    };
    let came = received.bytes - received.bytes_before;
    let before = if received.bytes_before > 0 {
        format!(", {} were already here", size(received.bytes_before))
    } else {
        String::new()
    };
    terminal::print_notice(&format!(
        "received {what} from {}: {} in {}{before}",
        received.from,
        size(came),
        seconds(came, received.ended_unix - received.began_unix),
    ));
    if arguments.json {
        terminal::print(&format!("{}\n", serde_json::to_string(received)?))?;
    }
    Ok(())
}
