//! `thalweg send FILE… NODE`: files go to nodes where `thalweg receive` runs.
//!
//! *The idea.* The node's library sends; here are the arguments, the bar and the last sentence. The files may be sent
//! before anybody receives: that is said, and waited for.
//!
//! *What it does not do.* It sends no folders.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use thalweg_core::units::Bitrate;
use thalweg_node::transfer::{self, SendOptions, Sent, TransferError};

use super::receive::bar::{Bar, seconds, size};
use crate::exit::{Code, Failure, OrCode as _, Outcome};
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg send survey.tif base
  thalweg send *.jpg base --limit '1 Mbit/s'
  thalweg send map.mbtiles base --also truck --also 3530…0a16
  tar -cf logs.tar logs && thalweg send logs.tar base

At each receiver, before or after: thalweg receive. What was interrupted goes on when both ends are
run again: the same files are known by their hash. Live streams come first on every link.

Exit codes: 0 everybody has everything; 1 somebody has not, or a file changed; 2 no such node or file;
4 no running node answers.";

/// Send files to nodes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "thalweg send [OPTIONS] <FILE>... <TO>")]
pub struct Arguments {
    /// The files, and at the end where to: a node's name or key, as `thalweg ls` shows them.
    // One list, for a name that begins with `-` is not taken after `--` by the last of two.
    #[arg(required = true, num_args = 2.., value_names = ["FILE", "TO"])]
    words: Vec<OsString>,

    /// Another node that gets the same files; may be given several times.
    #[arg(long, value_name = "TO")]
    also: Vec<String>,

    /// Take no more than this of the link, such as `1 Mbit/s`.
    #[arg(long, value_name = "RATE")]
    limit: Option<Bitrate>,

    /// Nodes and links that may not see the files must not: they are sealed there.
    #[arg(long)]
    confidential: bool,

    /// The length of a block in bytes, a power of two from 1024; chosen by size and path unless given.
    #[arg(long, value_name = "BYTES")]
    block: Option<u64>,

    /// Print what was sent as one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: Socket,
}

/// Sends until every receiver has everything, or somebody asks to stop.
pub async fn run(arguments: &Arguments) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    // Says at once, and with its own code, that there is no node.
    arguments.socket.connect().await?;
    let (to, files) = arguments
        .words
        .split_last()
        .expect("the command line has two or more");
    let mut targets = vec![to.to_string_lossy().into_owned()];
    targets.extend_from_slice(&arguments.also);
    let options = SendOptions {
        socket: arguments.socket.path()?,
        files: files.iter().map(PathBuf::from).collect(),
        targets,
        limit: arguments.limit,
        confidential: arguments.confidential,
        block_bytes: arguments.block,
    };
    let bar = Bar::new("sending");
    let sent = tokio::select! {
        sent = transfer::send(options, |event| bar.show(event)) => sent,
        () = shutdown.asked() => {
            bar.clear();
            terminal::tell("stopped; what has arrived is kept there: the same command goes on");
            return crate::exit::fail(Code::Failed, "not everybody has everything");
        }
    };
    bar.clear();
    let sent = sent.or_else(|error| {
        let code = code(&error);
        Err(error).or_code(code)
    })?;
    tell(arguments, &sent)?;
    Ok(Code::Done)
}

fn code(error: &TransferError) -> Code {
    match error {
        TransferError::Node(_)
        | TransferError::NoFile { .. }
        | TransferError::Name(_)
        | TransferError::Manifest(_)
        | TransferError::File { verb: "read", .. } => Code::BadInput,
        _ => Code::Failed,
    }
}

fn tell(arguments: &Arguments, sent: &Sent) -> Result<(), Failure> {
    let again = sent.bytes_given.saturating_sub(sent.bytes);
    let again = if again > 0 {
        format!(", {} of it again", size(again))
    } else {
        String::new()
    };
    terminal::tell(&format!(
        "sent {} to {} in {}{again}",
        size(sent.bytes),
        sent.whole.join(", "),
        seconds(sent.bytes, sent.ended_unix - sent.began_unix),
    ));
    if arguments.json {
        terminal::print(&format!("{}\n", serde_json::to_string(sent)?))?;
    }
    Ok(())
}
