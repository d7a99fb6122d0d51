//! `thalweg send FILE… NODE`: files go to nodes where `thalweg receive` runs; or, with `--code`, to who has a phrase.
//!
//! *The idea.* The node's library sends; here are the arguments, the bar and the last sentence. The files may be sent
//! before anybody receives: that is said, and waited for.
//!
//! *What it does not do.* It sends no folders.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use anyhow::anyhow;
use clap::Args;
use serde_json::json;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_node::transfer::{self, CodeOptions, Event, SendOptions, Sent, TransferError};

use super::invite::{parse_span, parse_uses};
use super::receive::bar::{Bar, seconds, size};
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::input::{parse_rate, whole};
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg send survey.tif base
  thalweg send *.jpg base --limit '1 Mbit/s'
  thalweg send map.mbtiles base --also truck --also 3530…0a16
  tar -cf logs.tar logs && thalweg send logs.tar base
  thalweg send survey.tif --code              # prints a phrase, such as 7-otter-lantern
  thalweg send *.jpg --code --uses 3 --open-for 10m

With --code no node is named: say the phrase to somebody, and `thalweg receive 7-otter-lantern` at any
other node of the fabric gets the files, sealed on their whole way. Three wrong phrases end it.

At each receiver, before or after: thalweg receive. What was interrupted goes on when both ends are
run again: the same files are known by their hash. Live streams come first on every link.

Exit codes: 0 everybody has everything; 1 somebody has not, nobody came, or a file changed; 2 no such node or file;
4 no running node answers.";

/// Send files to nodes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "thalweg send [OPTIONS] <FILE>... <TO>\n       thalweg send [OPTIONS] <FILE>... --code")]
pub struct Arguments {
    /// The files, and at the end where to, unless by a phrase: a node's name or key, as `thalweg ls` shows them.
    // One list, for a name that begins with `-` is not taken after `--` by the last of two.
    #[arg(required = true, num_args = 1.., value_names = ["FILE", "TO"])]
    words: Vec<OsString>,

    /// Another node that gets the same files; may be given several times.
    #[arg(long, value_name = "TO", conflicts_with = "code")]
    also: Vec<String>,

    /// Print a phrase instead of naming a node: who says it to `thalweg receive` gets the files.
    #[arg(long)]
    code: bool,

    /// How many nodes may have the files by the phrase.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = parse_uses, requires = "code")]
    uses: usize,

    /// For how long the phrase is good: 30s, 10m, 2h, 7d.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_span, requires = "code")]
    open_for: Duration,

    /// Take no more than this of the link, such as `1 Mbit/s`.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    limit: Option<Bitrate>,

    /// Nodes and links that may not see the files must not: they are sealed there.
    #[arg(long)]
    confidential: bool,

    /// The length of a block in bytes, a power of two from 1024; chosen by size and path unless given.
    #[arg(long, value_name = "BYTES", value_parser = whole::<u64>(0..=u64::MAX))]
    block: Option<u64>,

    /// Print what was sent, who has it and who took no more, as one JSON object.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: Socket,
}

impl Arguments {
    /// Returns the files, and the nodes that get them; none where a phrase says who.
    fn split(&self) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
        let (to, files) = self.words.split_last().expect("it is required");
        if self.code {
            return Ok((self.words.iter().map(PathBuf::from).collect(), Vec::new()));
        }
        if files.is_empty() {
            return Err(anyhow!(
                "files and where to are needed: give a node at the end, or --code for a phrase"
            ))
            .or_code(Code::BadInput);
        }
        let mut targets = vec![to.to_string_lossy().into_owned()];
        targets.extend_from_slice(&self.also);
        Ok((files.iter().map(PathBuf::from).collect(), targets))
    }

    /// Returns what it means that somebody asked to stop.
    const fn stopped(&self, has_begun: bool) -> &'static str {
        match (self.code, has_begun) {
            (false, _) => {
                "stopped before everybody had everything; what has arrived is kept there: the same command goes on"
            }
            (true, true) => {
                "stopped before everybody had everything; what has arrived is kept there, and goes on by a new phrase"
            }
            (true, false) => {
                "stopped before anybody came with the phrase, which is of no use any more"
            }
        }
    }

    /// Returns what was sent as one, if all for whom it was have everything.
    fn all_of(&self, mut sent: impl Iterator<Item = Sent>) -> Option<Sent> {
        let mut all = sent.next()?;
        // By a phrase it is one for each; without, one for all.
        let others = if self.code { self.uses - 1 } else { 0 };
        for _ in 0..others {
            all.add(sent.next()?);
        }
        Some(all)
    }

    /// Prints the phrase for programs and says to people what to do with it.
    fn tell_phrase(&self, bar: &Bar, phrase: &str) {
        let line = if self.json {
            format!("{}\n", json!({ "phrase": phrase }))
        } else {
            format!("{phrase}\n")
        };
        // Who has closed standard output reads it in the sentence.
        let _ = terminal::print(&line);
        let sentence = format!("at the other end: thalweg receive {phrase}");
        bar.show(Event::Notice(sentence));
    }
}

/// Sends until every receiver has everything, or somebody asks to stop.
pub async fn run(arguments: &Arguments) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    // Says at once, and with its own code, that there is no node.
    arguments.socket.connect().await?;
    let (files, targets) = arguments.split()?;
    let options = SendOptions {
        socket: arguments.socket.path()?,
        files,
        targets,
        limit: arguments.limit,
        confidential: arguments.confidential,
        block_bytes: arguments.block,
    };
    let bar = Bar::new("sending");
    // By a phrase nothing begins before somebody has come with it.
    let has_begun = AtomicBool::new(false);
    let (through, sent) = channel();
    let sending = async {
        let events = |event| match event {
            Event::Phrase(phrase) => arguments.tell_phrase(&bar, &phrase),
            Event::Sent(sent) => {
                // It is taken once somebody asks to stop, if ever.
                let _ = through.send(*sent);
            }
            event => {
                if matches!(event, Event::Begun { .. }) {
                    has_begun.store(true, Ordering::Relaxed);
                }
                bar.show(event);
            }
        };
        if arguments.code {
            let code = CodeOptions {
                uses: arguments.uses,
                open_for: arguments.open_for,
            };
            transfer::send_by_code(options, code, events).await
        } else {
            transfer::send(options, events).await
        }
    };
    let sent = tokio::select! {
        sent = sending => sent,
        () = shutdown.asked() => {
            bar.clear();
            if let Some(sent) = arguments.all_of(sent.try_iter()) {
                tell(arguments, &sent)?;
                return Ok(Code::Done);
            }
            return fail(Code::Failed, arguments.stopped(has_begun.load(Ordering::Relaxed)));
        }
    };
    bar.clear();
    if let Err(TransferError::Refused(sent)) = &sent {
        print(arguments, sent)?;
    }
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
        | TransferError::Folder { .. }
        | TransferError::NoFile { .. }
        | TransferError::Length { .. }
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
    print(arguments, sent)
}

/// Prints for programs what each receiver has.
fn print(arguments: &Arguments, sent: &Sent) -> Result<(), Failure> {
    if arguments.json {
        terminal::print(&format!("{}\n", serde_json::to_string(sent)?))?;
    }
    Ok(())
}
