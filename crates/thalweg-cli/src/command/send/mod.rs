//! `thalweg send FILE… NODE`: sends files to nodes that run `thalweg receive`, or with `--code` by
//! a phrase.
//!
//! *The idea.* The node's library does the transfer; this file has the arguments, the bar and the
//! summary. The sender may start before the receiver: it says so and waits.
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
  thalweg send *.jpg --code --uses 3 --valid-for 10m

With --code no node is named: tell someone the phrase, and `thalweg receive 7-otter-lantern` on any other
node of the fabric gets the files, encrypted end to end. Three wrong phrases end it.

At each receiver, before or after, run: thalweg receive. To resume an interrupted transfer, run both ends
again: the files are recognized by their hash. Live streams take precedence on every link.

Exit codes: 0 every receiver has everything; 1 a receiver has not, none came, or a file changed; 2 no such node or file;
4 no running node answers.";

/// Send files to nodes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = "thalweg send [OPTIONS] <FILE>... <TO>\n       thalweg send [OPTIONS] <FILE>... --code")]
pub struct Arguments {
    /// The files, then the receiver (not with --code): a node's name or key, as `thalweg ls` shows them.
    // One list: after `--`, clap would not give a name that begins with `-` to the last of two arguments.
    #[arg(required = true, num_args = 1.., value_names = ["FILE", "TO"])]
    words: Vec<OsString>,

    /// Another node that gets the same files; may be given several times.
    #[arg(long, value_name = "TO", conflicts_with = "code")]
    also: Vec<String>,

    /// Print a phrase instead of naming a node; `thalweg receive PHRASE` on any node gets the files.
    #[arg(long)]
    code: bool,

    /// How many nodes may receive the files by the phrase.
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = parse_uses, requires = "code")]
    uses: usize,

    /// How long the phrase is valid: 30s, 10m, 2h, 7d.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_span, requires = "code")]
    valid_for: Duration,

    /// Use at most this rate, such as `1 Mbit/s`.
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    limit: Option<Bitrate>,

    /// Encrypt the files wherever they cross a node or link that must not see them.
    #[arg(long)]
    confidential: bool,

    /// The block length in bytes, a power of two from 1024 [default: chosen by size and path].
    #[arg(long, value_name = "BYTES", value_parser = whole::<u64>(0..=u64::MAX))]
    block_size: Option<u64>,

    /// Print one JSON object: what was sent, which nodes have it and which stopped early.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: Socket,
}

impl Arguments {
    /// Returns the files and the receivers; no receivers with `--code`.
    fn split(&self) -> Result<(Vec<PathBuf>, Vec<String>), Failure> {
        let (to, files) = self.words.split_last().expect("it is required");
        if self.code {
            return Ok((self.words.iter().map(PathBuf::from).collect(), Vec::new()));
        }
        if files.is_empty() {
            return Err(anyhow!(
                "no receiver given: name a node after the files, or use --code for a phrase"
            ))
            .or_code(Code::BadInput);
        }
        let mut targets = vec![to.to_string_lossy().into_owned()];
        targets.extend_from_slice(&self.also);
        Ok((files.iter().map(PathBuf::from).collect(), targets))
    }

    /// Returns the sentence for a request to stop.
    const fn stopped(&self, has_begun: bool) -> &'static str {
        match (self.code, has_begun) {
            (false, _) => {
                "stopped before every receiver had everything; what has arrived is kept: run the same command to resume"
            }
            (true, true) => {
                "stopped before every receiver had everything; what has arrived is kept: send with a new phrase to resume"
            }
            (true, false) => {
                "stopped before any receiver used the phrase, which is no longer valid"
            }
        }
    }

    /// Merges the transfers into one, if all receivers have everything.
    fn all_of(&self, mut sent: impl Iterator<Item = Sent>) -> Option<Sent> {
        let mut all = sent.next()?;
        // With a phrase there is one transfer per receiver; without, one for all.
        let others = if self.code { self.uses - 1 } else { 0 };
        for _ in 0..others {
            all.add(sent.next()?);
        }
        Some(all)
    }

    /// Prints the phrase to standard output for programs, and instructions for people to standard error.
    fn print_phrase(&self, bar: &Bar, phrase: &str) {
        let line = if self.json {
            format!("{}\n", json!({ "phrase": phrase }))
        } else {
            format!("{phrase}\n")
        };
        // If standard output is closed, the phrase is still in the sentence.
        let _ = terminal::print(&line);
        let sentence = format!("at the other end: thalweg receive {phrase}");
        bar.show(Event::Notice(sentence));
    }
}

/// Sends until every receiver has everything, or until a request to stop.
pub async fn run(arguments: &Arguments) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    // Fails at once, with the right exit code, if there is no node.
    arguments.socket.connect().await?;
    let (files, targets) = arguments.split()?;
    let options = SendOptions {
        socket: arguments.socket.path()?,
        files,
        targets,
        limit: arguments.limit,
        confidential: arguments.confidential,
        block_bytes: arguments.block_size,
    };
    let bar = Bar::new("sending");
    // With a phrase, the transfer begins when a receiver connects with it.
    let has_begun = AtomicBool::new(false);
    let (through, sent) = channel();
    let sending = async {
        let events = |event| match event {
            Event::Phrase(phrase) => arguments.print_phrase(&bar, &phrase),
            Event::Sent(sent) => {
                // Read after a request to stop, if there is one.
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
                open_for: arguments.valid_for,
            };
            transfer::send_by_code(options, code, events).await
        } else {
            transfer::send(options, events).await
        }
    };
    let sent = tokio::select! {
        sent = sending => sent,
        () = shutdown.requested() => {
            bar.clear();
            if let Some(sent) = arguments.all_of(sent.try_iter()) {
                print_summary(arguments, &sent)?;
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
    print_summary(arguments, &sent)?;
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

fn print_summary(arguments: &Arguments, sent: &Sent) -> Result<(), Failure> {
    let again = sent.bytes_sent.saturating_sub(sent.bytes);
    let again = if again > 0 {
        format!(", {} of it resent", size(again))
    } else {
        String::new()
    };
    terminal::print_notice(&format!(
        "sent {} to {} in {}{again}",
        size(sent.bytes),
        sent.complete.join(", "),
        seconds(sent.bytes, sent.ended_unix - sent.began_unix),
    ));
    print(arguments, sent)
}

/// Prints a JSON object with what each receiver has.
fn print(arguments: &Arguments, sent: &Sent) -> Result<(), Failure> {
    if arguments.json {
        terminal::print(&format!("{}\n", serde_json::to_string(sent)?))?;
    }
    Ok(())
}
