//! `thalweg publish NAME --from …`: publishes a transport stream, or messages, as a stream of the fabric.
//!
//! *The idea.* The first seconds of the source are read ahead, because the planner needs a rate. Then the
//! stream is announced, and units are sent when they are due. Without a subscriber nothing is sent: a file
//! waits; a live source is kept for [`SUBSCRIBER_WAIT`] and then dropped, unless the stream has `--hold`.
//!
//! *What it does not do.* It does not transcode, and opens no link: the node does, through its Unix socket.

mod data;
mod described;
mod messages;

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::sync::atomic::Ordering;
use std::time::Instant as StdInstant;

use anyhow::Context as _;
use bytes::Bytes;
use clap::{Args, ValueEnum};
use serde_json::Value;
use thalweg_base::id::StreamName;
use thalweg_base::needs::{Needs, Reliability, WEIGHT_USUAL};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_io::format::{Field, Format};
use thalweg_io::url::End;
use thalweg_media::Marks;
use thalweg_media::ts::Marked;
use thalweg_node::Publication;
use thalweg_node::local::LocalError;
use thalweg_planner::planner::Planner;

use crate::ends::messages::{SUBSCRIBER_WAIT, outgoing};
use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::feed::{Feed, Monitor, nothing, stopped};
use crate::input::{parse_rate, parse_time, whole};
use crate::lasting::{Lasting, LastingPublisher};
use crate::pace::{Pacer, Speed};
use crate::progress::{self, Progress};
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal;
use data::Beside;
use described::Described;

const EXAMPLES: &str = "\
Examples:
  thalweg publish truck/cam1 --from clip.ts
  thalweg publish truck/cam1 --from clip.ts --loop --deadline '500 ms'
  thalweg publish truck/cam1 --from udp://:5004 --confidential
  thalweg publish drone/cam --from udp://:5004 --split-data    # drone/cam, and drone/cam/klv
  thalweg publish truck/cam1 --from udp://:5004 --weight 32    # twice what another stream gets
  thalweg publish ship/log --from clip.ts --hold '10 min'       # held while there is no path
  thalweg publish truck/cam1 --from clip.ts --json | jq .ledger.losses
  thalweg publish ship/gps --from serial:///dev/ttyUSB0?baud=4800 --format nmea
  thalweg publish survey/radar --from udp://:6000 --format packets --deadline '1 s'
  thalweg publish yard/cam --from rtp://:5004 --format rtp:h264 --deadline '500 ms'
  thalweg publish farm/log --from exec:'journalctl -f -o json' --format lines --importance 90
  thalweg publish try/me --from test://telemetry?rate=20 --importance-from .severity
  thalweg publish arm/pose --from exec:./pose --format length --encoding protobuf --schema arm.Pose --label site=north
  ffmpeg -re -i clip.mp4 -c copy -f mpegts - | thalweg publish truck/cam1 --from -";

/// Publish MPEG-TS, or messages of another format, as a stream.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line and goes no further"
)]
pub struct Arguments {
    /// The stream's name, such as truck/cam1.
    name: StreamName,

    /// A file, `-` for standard input, udp://ADDRESS:PORT (plain or RTP; multicast groups are joined),
    /// `tcp://ADDRESS:PORT` or `unix://PATH` (with `?listen` it waits for a connection),
    /// `serial://DEVICE?baud=9600`, `exec:COMMAND`, or `test://telemetry?rate=10&bytes=100`.
    #[arg(long, value_name = "SOURCE")]
    from: End,

    /// How the source is cut into messages: ts, lines, length (32 bits before each), packets (a datagram
    /// each), fixed:N, nmea, or rtp:h264, rtp:h265 and rtp:opus (access units in RTP packets) [default: ts;
    /// lines for `test://telemetry`].
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    #[command(flatten)]
    described: Described,

    /// Publish KLV and other data of the transport stream as streams of their own, beside its picture:
    /// NAME/klv, NAME/data.
    #[arg(long)]
    split_data: bool,

    /// Importance of each message, 0 to 255; MPEG-TS has its own [default: 128].
    #[arg(long, value_name = "N")]
    importance: Option<u8>,

    /// The JSON field that holds a message's importance, such as `.severity`.
    #[arg(long, value_name = "FIELD")]
    importance_from: Option<Field>,

    /// The JSON field that holds a message's time in seconds; a file is played at these times.
    #[arg(long, value_name = "FIELD")]
    time_from: Option<Field>,

    /// The JSON field that is true, or not 0, in a message with which a subscriber may begin.
    #[arg(long, value_name = "FIELD")]
    key_from: Option<Field>,

    /// Read the file in a loop; timestamps continue.
    #[arg(long = "loop")]
    repeat: bool,

    /// Playback speed: a multiple of real time, or `max`. Live sources are sent as they arrive.
    // Scripts in the field call it by its first name.
    #[arg(long, value_name = "SPEED", default_value = "1", alias = "rate")]
    speed: Speed,

    /// Drop an access unit after this long, such as `500 ms` [default: never].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    deadline: Option<Duration>,

    /// What happens to an access unit that is lost or late.
    #[arg(long, value_enum, default_value_t = Loss::UntilDeadline)]
    reliability: Loss,

    /// Encrypt the stream wherever it crosses a node or link that must not see its content.
    #[arg(long)]
    confidential: bool,

    /// The stream's share of a full link relative to other streams, 1 to 255: 32 gets twice what 16 gets.
    #[arg(long, value_name = "WEIGHT", default_value_t = WEIGHT_USUAL, value_parser = parse_weight)]
    weight: NonZeroU8,

    /// While no path to the subscriber exists, hold data for up to this long, such as `10 min`, and
    /// send it when there is a path. At the end of the source the program waits for that; Ctrl-C
    /// leaves it to the node [default: hold nothing].
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    hold: Option<Duration>,

    /// Hold at most this much; the least important data is dropped first, and of that the oldest.
    #[arg(long, value_name = "SIZE", default_value = "16 MiB", requires = "hold")]
    hold_size: DataSize,

    /// Wait at most this long, such as `30 s`, for a subscriber that reads nothing or cannot be reached;
    /// then continue without it and report what it lacks. Only a stream without a deadline waits.
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10 min")]
    wait_at_most: Duration,

    /// The rate that the stream needs of a link, such as `2 Mbit/s` [default: measured over its
    /// first two seconds].
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    bitrate: Option<Bitrate>,

    /// Take the shortest path, without a plan.
    #[arg(long)]
    unplanned: bool,

    /// Start at once, without waiting for a subscriber; without one, data is dropped.
    #[arg(long)]
    no_wait: bool,

    /// Print a JSON summary at the end; nothing after Ctrl-C, when the node finishes alone.
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    lasting: Lasting,

    #[command(flatten)]
    socket: Socket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Loss {
    /// Send once.
    None,
    /// Retransmit until the deadline.
    UntilDeadline,
    /// Retransmit until it arrives.
    Full,
}

fn parse_weight(text: &str) -> Result<NonZeroU8, String> {
    let weight = whole(1..=255)(text)?;
    Ok(NonZeroU8::new(weight).expect("it is above 0"))
}

/// Publishes until the source ends or a request to stop.
pub async fn run(arguments: &Arguments) -> Outcome {
    let from = &arguments.from;
    let (needs, format) = (needs(arguments), format(arguments));
    check(arguments, needs, format)?;
    if format != Format::Ts {
        return messages::run(arguments, format, needs).await;
    }
    let mut shutdown = Shutdown::listen()?;
    let mut monitor = Monitor::open(from);
    let source = tokio::select! {
        source = monitor.source(from) => source.or_code(source_code(from))?,
        () = shutdown.requested() => return Ok(Code::Done),
    };
    let mut feed = Feed::new(source, arguments.repeat).split(arguments.split_data);
    let rate = tokio::select! {
        rate = monitor.measure(&mut feed) => rate.with_context(|| format!("cannot read {from}"))?,
        () = shutdown.requested() => return stopped(from, &feed),
    };
    let Some(rate) = rate else {
        return nothing(from, &feed);
    };
    let rate = speed(arguments, feed.is_live()).rate(rate);
    let rate = arguments.bitrate.unwrap_or(rate);
    let publication = publication(arguments, needs, rate, Format::Ts.encoding(None));
    let waits = waits(arguments, feed.is_live());
    let mut publisher = tokio::select! {
        publisher = open(arguments, publication, waits) => publisher?,
        () = shutdown.requested() => return Ok(Code::Done),
    };
    let mut data = Beside::new(arguments, needs);
    data.open(&feed).await?;
    let mut is_stopped = tokio::select! {
        // A failure of the source is reported by the next read.
        ready = wait(arguments, waits, async { drop(feed.gather().await) }, &mut publisher) => {
            ready?;
            false
        }
        () = shutdown.requested() => true,
    };
    let progress = Progress::start("publishing", false);
    let sent = if is_stopped {
        Ok(())
    } else {
        tokio::select! {
            sent = send(arguments, (&mut feed, &mut monitor), (&mut publisher, &mut data), &progress) => sent,
            () = shutdown.requested() => { is_stopped = true; Ok(()) }
        }
    };
    data.finish(is_stopped).await;
    // ADUs that the node has are waited for even after the source failed.
    let ended = finish(arguments, publisher, progress, &mut shutdown, is_stopped).await?;
    let Some((passed, summary)) = ended else {
        return Ok(Code::Done);
    };
    report(arguments, &passed, summary, feed.trouble().json())?;
    if let Some(trouble) = feed.trouble().sentence() {
        terminal::print_notice(&format!("in {from}: {trouble}"));
    }
    sent?;
    Ok(Code::Done)
}

/// Refuses options that do not go together.
fn check(arguments: &Arguments, needs: Needs, format: Format) -> Result<(), Failure> {
    let from = &arguments.from;
    let bad = |sentence: String| fail(Code::BadInput, sentence);
    if arguments.repeat && !matches!(from, End::File(_)) {
        return bad(format!("--loop needs a file, and {from} is not one"));
    }
    if let Some((key, why)) = needs.fault() {
        return bad(format!("--{}: {why}", key.replace('_', "-")));
    }
    arguments.described.check()?;
    if format != Format::Ts && arguments.split_data {
        return bad(format!(
            "--split-data is for MPEG-TS, and the format is {format}"
        ));
    }
    let is_field_read = arguments.importance_from.is_some()
        || arguments.time_from.is_some()
        || arguments.key_from.is_some();
    if format == Format::Ts && (arguments.importance.is_some() || is_field_read) {
        return bad(
            "MPEG-TS says importance and time itself: give another --format, such as lines".into(),
        );
    }
    Ok(())
}

/// Returns how the source is cut: as the user says, else as its end is known to be.
fn format(arguments: &Arguments) -> Format {
    let usual = match arguments.from {
        End::Telemetry { .. } => Format::Lines,
        _ => Format::Ts,
    };
    arguments.format.unwrap_or(usual)
}

/// Ends the stream; returns what passed and its summary, or `None` if a request to stop leaves the rest to
/// the node, which is reported here.
async fn finish(
    arguments: &Arguments,
    publisher: LastingPublisher,
    progress: Progress,
    shutdown: &mut Shutdown,
    is_stopped: bool,
) -> Result<Option<(String, Value)>, Failure> {
    let summary = end(publisher, shutdown, is_stopped).await;
    let passed = progress.finish();
    if let Some(summary) = summary? {
        return Ok(Some((passed, summary)));
    }
    let what = if arguments.hold.is_some() {
        "the held data"
    } else {
        "the data in flight"
    };
    terminal::print_notice(&format!(
        "published {passed}; the node continues with {what}"
    ));
    Ok(None)
}

/// Ends the stream; returns its summary, or `None` if a request to stop leaves the rest to the node.
async fn end(
    mut publisher: LastingPublisher,
    shutdown: &mut Shutdown,
    is_stopped: bool,
) -> Result<Option<Value>, Failure> {
    if is_stopped {
        publisher.stop_reconnecting();
    }
    let is_node_gone = publisher.node_gone_flag();
    tokio::select! {
        summary = publisher.finish() => Ok(Some(summary?)),
        // The node has the ADUs and sends them without this program.
        () = shutdown.requested() => {
            if is_node_gone.load(Ordering::Relaxed) {
                return fail(Code::Failed, "the node is gone, and what it had not sent on is lost");
            }
            Ok(None)
        }
    }
}

/// Prints what became of the stream; in JSON, with what is told of its source.
fn report(
    arguments: &Arguments,
    passed: &str,
    mut summary: Value,
    source: Value,
) -> Result<(), Failure> {
    print_summary(passed, &summary);
    summary["source"] = source;
    if arguments.json {
        terminal::print(&format!("{summary}\n"))?;
    }
    Ok(())
}

/// A missing file is bad input; a port in use is a failure.
fn source_code(from: &End) -> Code {
    match from {
        End::File(_) => Code::BadInput,
        _ => Code::Failed,
    }
}

fn needs(arguments: &Arguments) -> Needs {
    Needs {
        confidential: arguments.confidential,
        deadline: arguments.deadline.unwrap_or(Duration::NEVER),
        reliability: match arguments.reliability {
            Loss::None => Reliability::None,
            Loss::UntilDeadline => Reliability::UntilDeadline,
            Loss::Full => Reliability::Full,
        },
        weight: arguments.weight,
        hold: arguments.hold.unwrap_or(Duration::ZERO),
        hold_size: arguments.hold_size,
        wait_at_most: arguments.wait_at_most,
        ..Needs::default()
    }
}

/// Returns the stream; `encoding` is what its messages are unless the user says otherwise.
fn publication(arguments: &Arguments, needs: Needs, rate: Bitrate, encoding: &str) -> Publication {
    Publication {
        description: arguments.described.description(encoding),
        needs,
        // Video and audio are compressed already; a compression adapter would gain nothing.
        pack_ratio: Some(1.0),
        planner: (!arguments.unplanned).then_some(Planner::Exact),
        ..Publication::new(arguments.name.clone(), rate)
    }
}

async fn open(
    arguments: &Arguments,
    publication: Publication,
    waits: bool,
) -> Result<LastingPublisher, Failure> {
    let socket = arguments.socket.path()?;
    let publisher = LastingPublisher::publish(socket, publication, arguments.lasting, waits).await;
    publisher.map_err(|error| {
        let code = match error {
            LocalError::Connect { .. } => Code::NoNode,
            _ => Code::Failed,
        };
        let error = error.into();
        Failure { code, error }
    })
}

/// Returns whether the source waits for a subscriber: a live source cannot, a held stream need not.
const fn waits(arguments: &Arguments, is_live: bool) -> bool {
    !arguments.no_wait && arguments.hold.is_none() && !is_live
}

/// Returns how fast the source is played; a live one is sent as it arrives.
const fn speed(arguments: &Arguments, is_live: bool) -> Speed {
    if is_live { Speed::Max } else { arguments.speed }
}

/// Waits for a subscriber: a live source until `gathered` or for [`SUBSCRIBER_WAIT`], while a subscriber
/// that waits hears of the stream and is planned for; another source for as long as it takes.
async fn wait(
    arguments: &Arguments,
    waits: bool,
    gathered: impl Future<Output = ()>,
    publisher: &mut LastingPublisher,
) -> Result<(), Failure> {
    if arguments.no_wait || arguments.hold.is_some() || publisher.is_wanted() {
        return Ok(());
    }
    if !waits {
        return tokio::select! {
            wanted = publisher.wanted() => Ok(wanted?),
            () = gathered => Ok(()),
            () = tokio::time::sleep(SUBSCRIBER_WAIT) => Ok(()),
        };
    }
    terminal::print_notice(&format!(
        "`{}` has no subscriber yet; waiting",
        arguments.name
    ));
    Ok(publisher.wanted().await?)
}

/// Sends units when they are due.
struct Playback {
    pacer: Pacer,
    start: StdInstant,
}

impl Playback {
    fn new(speed: Speed) -> Self {
        Self {
            pacer: Pacer::new(speed),
            start: StdInstant::now(),
        }
    }

    async fn send(
        &mut self,
        (marks, payload): (Marks, Bytes),
        publisher: &mut LastingPublisher,
        progress: &Progress,
    ) -> Result<(), Failure> {
        self.wait(&marks).await;
        progress.count(payload.len());
        Ok(publisher.send(outgoing(marks, payload)).await?)
    }

    /// Waits until a unit is due.
    async fn wait(&mut self, marks: &Marks) {
        let now = Instant::ZERO + self.start.elapsed().into();
        let wait = self.pacer.wait(now, marks.clock, marks.decode_time);
        if wait > Duration::ZERO {
            tokio::time::sleep(wait.into()).await;
        }
    }
}

async fn send(
    arguments: &Arguments,
    (feed, monitor): (&mut Feed, &mut Monitor),
    (publisher, data): (&mut LastingPublisher, &mut Beside<'_>),
    progress: &Progress,
) -> Result<(), Failure> {
    let mut playback = Playback::new(speed(arguments, feed.is_live()));
    loop {
        let unit = tokio::select! {
            biased;
            unit = monitor.next(feed, |sentence| progress.notify(sentence)) => unit,
            error = publisher.gone() => {
                publisher.reconnect_after(error).await?;
                continue;
            }
        };
        let unit = unit.with_context(|| format!("cannot read more from {}", arguments.from))?;
        let Some(Marked {
            data: of,
            marks,
            payload,
        }) = unit
        else {
            return Ok(());
        };
        match of {
            None => playback.send((marks, payload), publisher, progress).await?,
            Some(of) => {
                playback.wait(&marks).await;
                data.send(of, outgoing(marks, payload), feed).await?;
            }
        }
    }
}

/// Prints the summary.
fn print_summary(passed: &str, summary: &Value) {
    let count = |key: &str| summary[key].as_u64().unwrap_or(0);
    let dropped: BTreeMap<String, u64> =
        serde_json::from_value(summary["dropped"].clone()).unwrap_or_default();
    let counted: Vec<String> = [
        ("sent", "sent"),
        ("acknowledged", "acknowledged"),
        ("unconfirmed", "left without acknowledgement"),
        ("delivered", "delivered on this machine"),
    ]
    .into_iter()
    // `sent` always; other counts if they are not zero.
    .filter(|(key, _)| *key == "sent" || count(key) > 0)
    .map(|(key, title)| format!("{title} {}", count(key)))
    .collect();
    let ledger = &summary["ledger"];
    // A copy that arrived twice is no loss.
    let is_loss = |loss: &&Value| loss["cause"] != "duplicate";
    let losses = ledger["losses"].as_array().into_iter().flatten();
    let losses: Vec<String> = losses.filter(is_loss).map(loss).collect();
    let is_delivered = ledger["delivered"].as_u64() >= ledger["published"].as_u64();
    let is_whole = is_delivered && losses.is_empty() && ledger["pending"] == 0;
    let resent = if is_whole && !dropped.is_empty() {
        " (copies on this node; each ADU arrived)"
    } else {
        ""
    };
    terminal::print_notice(&format!(
        "published {passed}; {}, dropped: {}{resent}",
        counted.join(", "),
        progress::drops(&dropped)
    ));
    if !losses.is_empty() {
        terminal::print_notice(&format!("lost on the path: {}", losses.join(", ")));
    }
}

/// Describes the ADUs lost at one node for one cause.
fn loss(loss: &Value) -> String {
    let text = |key: &str| loss[key].as_str().unwrap_or("unknown").to_string();
    format!(
        "{} {} at {} (importance {} to {})",
        loss["adus"],
        text("cause"),
        text("hop"),
        loss["importance"][0],
        loss["importance"][1]
    )
}
