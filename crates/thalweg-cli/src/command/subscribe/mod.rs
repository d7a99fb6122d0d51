//! `thalweg subscribe NAME --to …`: writes a stream of the fabric as a transport stream, or as messages.
//!
//! *The idea.* ADUs arrive in sequence, and each is written on arrival. A subscriber may start
//! before its stream: it says so and waits.
//!
//! *What it does not do.* It does not decode: ffmpeg and VLC get what was published, minus losses.

mod aligned;
mod drops;
mod many;
mod received;
mod wishes;

use std::fmt::Write as _;
use std::path::Path;

use clap::Args;
use serde_json::{Value, json};
use thalweg_base::id::{StreamName, StreamPattern};
use thalweg_base::time::Duration;
use thalweg_io::format::Format;
use thalweg_io::url::{End, Sink};
use thalweg_media::ts::Withheld;
use thalweg_node::SubscribeOptions;
use thalweg_node::local::{Client, LocalError, LocalSubscriber};

use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::input::parse_time;
use crate::lasting::{self, Backoff, Lasting};
use crate::progress::Progress;
use crate::selection;
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal;

use drops::Drops;
use received::{Received, Stop, Target};
use wishes::Wishes;

const EXAMPLES: &str = "\
Examples:
  thalweg subscribe truck/cam1 --to clip.ts
  thalweg subscribe truck/cam1 --to - | ffplay -
  thalweg subscribe truck/cam1 --to udp://127.0.0.1:5004    # then: vlc udp://@:5004
  thalweg subscribe farm/log --to log.jsonl
  thalweg subscribe survey/radar --to udp://127.0.0.1:6001
  thalweg subscribe arm/pose --format length --to pose.bin
  thalweg subscribe 'survey/*' --to survey/                 # a file a stream, also of later ones
  thalweg subscribe drone/cam --with drone/cam/klv --to flight.ts    # one transport stream again
  thalweg subscribe arm/pose --with arm/force --to -                 # JSON lines, in the order of their times
  thalweg subscribe yard/cam --to rtp://127.0.0.1:5006    # H.264 in RTP, as it was published
  thalweg subscribe survey/radar --policy drop-old --depth '2 s' --to exec:./display
  thalweg subscribe arm/pose --policy newest --format lines --to exec:./planner
  thalweg subscribe survey/radar --drops drops.jsonl --to radar.bin
  echo 1 | thalweg subscribe yard/still --policy newest --pull=stdin --to still.jpg

A pattern has `*` for any characters of a part, `?` for one, `**` for any number of parts. It ends with Ctrl-C.
It waits while the stream is not published, after its producer died, and while the node is gone\n(not with --no-reconnect). Ctrl-C ends it; the output ends with a whole packet.";

/// Receive a stream as MPEG-TS, or as messages, into a file, a pipe, a socket or a program.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The stream's name, such as truck/cam1, or a pattern, such as 'survey/*'.
    name: StreamPattern,

    /// A file, `-` for standard output, udp://address:port, rtp://address:port, `tcp://address:port` or
    /// `unix://path` (with `?listen` it waits for a connection), `serial://device?baud=9600` or
    /// `exec:COMMAND`.
    #[arg(long, value_name = "TARGET")]
    to: End,

    /// How messages are written: ts, lines, length, packets, fixed:N, nmea or rtp:CODEC [default: by the
    /// stream's encoding, which `thalweg ls` shows; ts if it has none].
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// A stream of the same clock, given out together with this one in the order of their times; may be
    /// repeated. Data that `publish --split-data` took out of a transport stream goes back into it; other
    /// messages become JSON lines, one for each message and each gap.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["format", "labels", "pull", "drops"])]
    with: Vec<StreamName>,

    /// How long a stream of which nothing comes holds up the others, with --with.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "500 ms")]
    with_wait: Duration,

    /// Of a pattern only streams with this label, such as kind=radar; may be repeated.
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = selection::parse_label)]
    labels: Vec<(String, String)>,

    /// How many streams of a pattern are received at once.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    at_most: u16,

    /// Print a JSON summary at the end: what was received and what was left out; not with `--to -`.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    lasting: Lasting,

    #[command(flatten)]
    socket: Socket,

    // The last: its heading would stand over what follows.
    #[command(flatten)]
    wishes: Wishes,
}

/// Refuses options that do not go together.
fn check(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.json && arguments.to == End::Standard {
        let sentence =
            "--json and `--to -` both write to standard output: give --to another target";
        return fail(Code::BadInput, sentence);
    }
    if !arguments.labels.is_empty() && arguments.name.name().is_some() {
        let sentence = "--label narrows a pattern, and this is a name: leave it out, or write '**'";
        return fail(Code::BadInput, sentence);
    }
    let is_one = arguments.name.name().is_some();
    arguments.wishes.check(is_one)?;
    let format = arguments.format;
    format.map_or(Ok(()), |format| {
        arguments.to.check_out(format).or_code(Code::BadInput)
    })
}

/// Receives until the stream ends or a request to stop.
pub async fn run(arguments: &Arguments) -> Outcome {
    check(arguments)?;
    match arguments.name.name() {
        Some(name) if !arguments.with.is_empty() => aligned::receive(arguments, name).await,
        Some(name) => receive(arguments, name).await,
        None if !arguments.with.is_empty() => {
            let sentence = "--with goes with the name of one stream, and this is a pattern";
            fail(Code::BadInput, sentence)
        }
        None => many::receive(arguments).await,
    }
}

/// Receives one stream.
async fn receive(arguments: &Arguments, name: StreamName) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    let client = arguments.socket.connect().await?;
    let sink = Sink::open(&arguments.to).await.or_code(Code::Failed)?;
    let target = Target::Open(name.clone(), arguments.to.clone(), Some(sink));
    let mailbox = arguments.wishes.options();
    let dropped = match Drops::create(arguments.wishes.drops.as_ref()).await? {
        Some(file) => {
            let socket = arguments.socket.path()?;
            let following = file.follow(&socket, name.clone()).await;
            Some(following.or_code(Code::Failed)?)
        }
        None => None,
    };
    let options = SubscribeOptions::new(name, true).with_mailbox(mailbox);
    let subscriber = client.subscribe(options.clone()).await;
    let mut subscriber = subscriber.or_code(Code::Failed)?;
    let progress = Progress::start("receiving", matches!(arguments.to, End::Standard));
    let mut received = Received::new(target, arguments.format);
    let mut pull = arguments.wishes.pull();
    let outcome = tokio::select! {
        outcome = async {
            loop {
                let notify = |sentence: &str| progress.notify(sentence);
                let part = received.receive(&mut subscriber, &mut pull, &progress, notify);
                match part.await {
                    Err(Stop::Gone(_)) if !arguments.lasting.no_reconnect => {
                        let again = async |socket: &Path| subscribe(socket, &options).await;
                        subscriber = reconnect(arguments, &progress, again).await?;
                    }
                    Err(Stop::Gone(error)) => return Err(error.into()),
                    Err(Stop::Failed(failure)) => return Err(failure),
                    Ok(()) => return Ok(()),
                }
            }
        } => outcome,
        () = Sink::reader_gone(&arguments.to) => {
            fail::<()>(Code::Failed, "cannot write to standard output: its reader is gone")
        }
        () = shutdown.requested() => Ok(()),
    };
    if let Some(dropped) = dropped {
        dropped.finish().await;
    }
    let withheld = received.withheld();
    let report = report(&received);
    let finished = received.finish().await;
    let passed = progress.finish();
    terminal::print_notice(&format!(
        "received {passed}; missing {}, unreadable {}{}",
        received.missing(),
        received.unreadable(),
        withheld.as_ref().map_or_else(String::new, in_words)
    ));
    if arguments.json {
        terminal::print(&format!("{report}\n"))?;
    }
    outcome?;
    finished?;
    if received.counts().adus > 0 && received.written() == 0 {
        let sentence = format!(
            "nothing was written to {}: none of {} received ADUs could be used",
            arguments.to,
            received.counts().adus
        );
        return fail(Code::Failed, sentence);
    }
    Ok(Code::Done)
}

/// Makes the JSON summary: what arrived, what is missing and what was left out.
fn report(received: &Received) -> Value {
    let withheld = received.withheld().unwrap_or_default();
    json!({
        "adus": received.counts().adus,
        "bytes": received.counts().bytes,
        "missing": received.missing(),
        "unreadable": received.unreadable(),
        "withheld": {
            "without_tables": withheld.without_tables,
            "before_key": withheld.before_key,
            "crowded_out": withheld.crowded_out,
            "tables": withheld.tables,
        },
        "written_bytes": received.written(),
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

async fn subscribe(
    socket: &Path,
    options: &SubscribeOptions,
) -> Result<LocalSubscriber, LocalError> {
    let client = Client::connect(socket).await?;
    client.subscribe(options.clone()).await
}

/// Subscribes again by `subscribe` when the node is back.
async fn reconnect<T>(
    arguments: &Arguments,
    progress: &Progress,
    subscribe: impl AsyncFn(&Path) -> Result<T, LocalError>,
) -> Result<T, Failure> {
    let socket = arguments.socket.path()?;
    lasting::report_gone(&socket, |sentence| progress.notify(sentence));
    let mut backoff = Backoff::new();
    loop {
        backoff.wait().await;
        match subscribe(&socket).await {
            Ok(subscribed) => {
                lasting::report_back(&socket, |sentence| progress.notify(sentence));
                return Ok(subscribed);
            }
            Err(error) if lasting::is_gone(&error) => tracing::debug!(%error, "not back"),
            Err(error) => return Err(error.into()),
        }
    }
}
