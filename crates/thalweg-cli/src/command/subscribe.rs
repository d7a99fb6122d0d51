//! `thalweg subscribe NAME --to …`: writes a stream of the fabric as a transport stream, or as messages.
//!
//! *The idea.* ADUs arrive in sequence, and each is written on arrival. A subscriber may start
//! before its stream: it says so and waits.
//!
//! *What it does not do.* It does not decode: ffmpeg and VLC get what was published, minus losses.

use std::fmt::Write as _;

use clap::Args;
use serde_json::{Value, json};
use thalweg_base::adu::{Adu, Header};
use thalweg_base::description::Description;
use thalweg_base::id::{Sequence, StreamId, StreamName};
use thalweg_io::format::Format;
use thalweg_io::url::{End, Sink};
use thalweg_media::ts::Withheld;
use thalweg_node::local::{Client, LocalError, LocalSubscriber};
use thalweg_node::{SubscribeOptions, SubscriberEvent};

use crate::ends::writer::{Writer, format};
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::lasting::{self, Backoff, Lasting};
use crate::progress::Progress;
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg subscribe truck/cam1 --to clip.ts
  thalweg subscribe truck/cam1 --to - | ffplay -
  thalweg subscribe truck/cam1 --to udp://127.0.0.1:5004    # then: vlc udp://@:5004
  thalweg subscribe farm/log --to log.jsonl
  thalweg subscribe survey/radar --to udp://127.0.0.1:6001
  thalweg subscribe arm/pose --format length --to pose.bin
  thalweg subscribe yard/cam --to rtp://127.0.0.1:5006    # H.264 in RTP, as it was published

It waits while the stream is not published, after its producer died, and while the node is gone\n(not with --no-reconnect). Ctrl-C ends it; the output ends with a whole packet.";

/// Receive a stream as MPEG-TS, or as messages, into a file, a pipe, a socket or a program.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The stream's name, such as truck/cam1.
    name: StreamName,

    /// A file, `-` for standard output, udp://address:port, rtp://address:port, `tcp://address:port` or
    /// `unix://path` (with `?listen` it waits for a connection), `serial://device?baud=9600` or
    /// `exec:COMMAND`.
    #[arg(long, value_name = "TARGET")]
    to: End,

    /// How messages are written: ts, lines, length, packets, fixed:N, nmea or rtp:CODEC [default: by the
    /// stream's encoding, which `thalweg ls` shows; ts if it has none].
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Print a JSON summary at the end: what was received and what was left out; not with `--to -`.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    lasting: Lasting,

    #[command(flatten)]
    socket: Socket,
}

/// Returns the writer; at the first ADU, the one that its stream's encoding asks for.
fn writer_for<'a>(
    writer: &'a mut Option<Writer>,
    arguments: &Arguments,
    described: Option<&Description>,
) -> Result<&'a mut Writer, Failure> {
    let made = if let Some(writer) = writer.take() {
        writer
    } else {
        let (stream, to) = (&arguments.name, &arguments.to);
        Writer::new(format(stream, to, described).or_code(Code::BadInput)?, to)
    };
    Ok(writer.insert(made))
}

/// What was written, and what was not.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    /// Bytes written.
    written: u64,
    /// Payloads that are not media units.
    unreadable: u64,
    /// ADUs that a lost node had reported as missing, or that passed while it was gone, as far as is known.
    missing: u64,
    /// Stream and sequence of the last ADU.
    last: Option<(StreamId, Sequence)>,
}

impl Totals {
    /// Records an ADU and returns whether it is new: a node that is back delivers the newest ADU
    /// again. The sequence of the first new ADU after the outage shows how many are missing.
    fn is_new(&mut self, header: &Header, is_back: &mut bool) -> bool {
        let known = self.last.filter(|(stream, _)| *stream == header.stream);
        if let Some((_, last)) = known {
            if header.sequence <= last {
                return false;
            }
            if *is_back {
                self.missing += header.sequence.0 - last.0 - 1;
            }
        }
        *is_back = false;
        self.last = Some((header.stream, header.sequence));
        true
    }
}

/// Refuses options that do not go together.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.json && arguments.to == End::Standard {
        let sentence =
            "--json and `--to -` both write to standard output: give --to another target";
        return fail(Code::BadInput, sentence);
    }
    let format = arguments.format;
    format.map_or(Ok(()), |format| {
        arguments.to.check_out(format).or_code(Code::BadInput)
    })
}

/// Receives until the stream ends or a request to stop.
pub async fn run(arguments: &Arguments) -> Outcome {
    check(arguments)?;
    let mut shutdown = Shutdown::listen()?;
    let client = arguments.socket.connect().await?;
    let mut sink = Sink::open(&arguments.to).await.or_code(Code::Failed)?;
    let options = SubscribeOptions {
        name: arguments.name.clone(),
        in_sequence: true,
    };
    let subscriber = client.subscribe(options.clone()).await;
    let mut subscriber = subscriber.or_code(Code::Failed)?;
    let mut progress = Progress::start("receiving", matches!(arguments.to, End::Standard));
    let mut writer = arguments
        .format
        .map(|format| Writer::new(format, &arguments.to));
    let mut totals = Totals::default();
    let received = tokio::select! {
        received = async {
            loop {
                let received =
                    receive(arguments, &mut subscriber, &mut sink, &mut writer, &mut progress, &mut totals).await;
                match received {
                    Err(Stop::Gone(_)) if !arguments.lasting.no_reconnect => {
                        subscriber = reconnect(arguments, &options, &progress).await?;
                    }
                    Err(Stop::Gone(error)) => return Err(error.into()),
                    Err(Stop::Failed(failure)) => return Err(failure),
                    Ok(()) => return Ok(()),
                }
            }
        } => received,
        () = Sink::reader_gone(&arguments.to) => {
            fail::<()>(Code::Failed, "cannot write to standard output: its reader is gone")
        }
        () = shutdown.requested() => Ok(()),
    };
    let finished = sink.finish().await;
    let counts = progress.counts();
    let passed = progress.finish();
    let withheld = writer
        .as_ref()
        .map_or(Some(Withheld::default()), Writer::withheld);
    terminal::print_notice(&format!(
        "received {passed}; missing {}, unreadable {}{}",
        subscriber.skipped() + totals.missing,
        totals.unreadable,
        withheld.as_ref().map_or_else(String::new, in_words)
    ));
    if arguments.json {
        let missing = subscriber.skipped() + totals.missing;
        let report = report(
            (counts.adus, counts.bytes, missing),
            &totals,
            &withheld.unwrap_or_default(),
        );
        terminal::print(&format!("{report}\n"))?;
    }
    received?;
    finished?;
    if counts.adus > 0 && totals.written == 0 {
        let sentence = format!(
            "nothing was written to {}: none of {} received ADUs could be used",
            arguments.to, counts.adus
        );
        return fail(Code::Failed, sentence);
    }
    Ok(Code::Done)
}

/// Makes the JSON summary: what arrived, what is missing and what was left out.
fn report((adus, bytes, missing): (u64, u64, u64), totals: &Totals, withheld: &Withheld) -> Value {
    json!({
        "adus": adus,
        "bytes": bytes,
        "missing": missing,
        "unreadable": totals.unreadable,
        "withheld": {
            "without_tables": withheld.without_tables,
            "before_key": withheld.before_key,
            "crowded_out": withheld.crowded_out,
            "tables": withheld.tables,
        },
        "written_bytes": totals.written,
    })
}

/// Describes what was withheld and why: `before the first key picture` always, other counts if they
/// are not zero.
fn in_words(withheld: &Withheld) -> String {
    let mut text = format!(", before the first key picture {}", withheld.before_key);
    for (count, what) in [
        (withheld.without_tables, "before the tables"),
        (withheld.crowded_out, "of more than 64 programmes"),
        (withheld.tables, "on PIDs of tables"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {what} {count}");
        }
    }
    text
}

/// Why the subscription stopped before the end of the stream.
enum Stop {
    /// The node is gone, and may come back.
    Gone(LocalError),
    /// The output cannot be written, or the node refused.
    Failed(Failure),
}

async fn receive(
    arguments: &Arguments,
    subscriber: &mut LocalSubscriber,
    sink: &mut Sink,
    writer: &mut Option<Writer>,
    progress: &mut Progress,
    totals: &mut Totals,
) -> Result<(), Stop> {
    let mut is_back = true;
    loop {
        let event = match subscriber.recv().await {
            Ok(Some(event)) => event,
            Ok(None) => return Ok(()),
            Err(error) if lasting::is_gone(&error) => return Err(Stop::Gone(error)),
            Err(error) => return Err(Stop::Failed(error.into())),
        };
        match event {
            SubscriberEvent::Notice(notice) => progress.notify(&notice),
            SubscriberEvent::Adu(Adu { header, payload }) => {
                if totals.is_new(&header, &mut is_back) {
                    let description = subscriber.description();
                    let writer =
                        writer_for(writer, arguments, description).map_err(Stop::Failed)?;
                    progress.count(payload.len());
                    match writer.join(&payload) {
                        Ok(bytes) => {
                            let written = write(sink, writer, totals, &header, &bytes).await;
                            written.map_err(Stop::Failed)?;
                        }
                        Err(sentence) => {
                            totals.unreadable += 1;
                            if !sentence.is_empty() {
                                progress.notify(&sentence);
                            }
                        }
                    }
                }
            }
        }
    }
}

async fn write(
    sink: &mut Sink,
    writer: &mut Writer,
    totals: &mut Totals,
    header: &Header,
    bytes: &[u8],
) -> Result<(), Failure> {
    writer.write(sink, header, bytes).await?;
    totals.written += bytes.len() as u64;
    Ok(())
}

/// Subscribes again when the node is back.
async fn reconnect(
    arguments: &Arguments,
    options: &SubscribeOptions,
    progress: &Progress,
) -> Result<LocalSubscriber, Failure> {
    let socket = arguments.socket.path()?;
    lasting::report_gone(&socket, |sentence| progress.notify(sentence));
    let mut backoff = Backoff::new();
    loop {
        backoff.wait().await;
        let subscribed = async {
            Client::connect(&socket)
                .await?
                .subscribe(options.clone())
                .await
        };
        match subscribed.await {
            Ok(subscriber) => {
                lasting::report_back(&socket, |sentence| progress.notify(sentence));
                return Ok(subscriber);
            }
            Err(error) if lasting::is_gone(&error) => tracing::debug!(%error, "not back"),
            Err(error) => return Err(error.into()),
        }
    }
}
