//! `thalweg timeline STREAM`: arrivals, travel times and drops of a stream over a while, as a picture.
//!
//! *The idea.* For a while the command is a subscriber like any other, in order of arrival, and follows
//! what the node records of drops: in the mailboxes of all its subscribers, elsewhere on the node, and on
//! the way. Clocks of two machines are not compared: how much later than its time an ADU arrives is known
//! up to a constant, which traced ADUs give if the source traces.
//!
//! *Sources.* spec SO-15, SO-16, SO-20: figures 5.3 to 5.7 of SOAR.

mod picture;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use thalweg_base::id::StreamName;
use thalweg_base::mailbox::{MailboxOptions, Policy};
use thalweg_base::time::Duration;
use thalweg_node::local::{Client, LocalDrops};
use thalweg_node::status::DropStatus;
use thalweg_node::{SubscribeOptions, SubscriberEvent, TraceEvent, TracedAdu};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::exit::{Code, Failure, OrCode as _, Outcome, fail};
use crate::input::parse_time;
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal;

use picture::{Arrival, Recorded};

/// The longest picture: an hour.
const LAST_MAX: Duration = Duration::from_secs(3_600);

/// ADUs that are remembered at most: an hour of 1,000 a second.
const ARRIVALS_MAX: usize = 3_600_000;

/// How often an ADU is traced.
const TRACE_EVERY: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  thalweg timeline survey/radar
  thalweg timeline survey/radar --for '1 min' --out radar.svg

It is a subscriber itself for that time. Drops are those of all mailboxes on this node, of the node and its
links, and what is missing; the ledger at the publisher has those of other nodes (`thalweg ls`).";

/// Draw arrivals, travel times and drops of a stream over a while, as SVG.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The stream's name.
    #[arg(value_name = "STREAM")]
    stream: StreamName,

    /// How long to look.
    #[arg(long = "for", value_name = "TIME", default_value = "10 s", value_parser = parse_last)]
    last: Duration,

    /// The file [default: the stream's name with `.svg`, `/` as `-`].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    #[command(flatten)]
    socket: Socket,
}

fn parse_last(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if time <= LAST_MAX {
        Ok(time)
    } else {
        Err("at most an hour".into())
    }
}

/// What is seen of the stream.
enum Seen {
    Arrival(Arrival),
    Dropped(Vec<DropStatus>),
    Traced(TracedAdu),
    Notice(String),
    /// The subscription is over.
    Ended,
}

/// Looks for a while, and draws.
pub async fn run(arguments: &Arguments) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    let socket = arguments.socket.path()?;
    let name = &arguments.stream;
    let default = || PathBuf::from(format!("{}.svg", name.as_str().replace('/', "-")));
    let out = arguments.out.clone().unwrap_or_else(default);
    let client = arguments.socket.connect().await?;
    let drops = LocalDrops::follow(client, name.clone(), false).await?;
    let (seen, mut all) = mpsc::unbounded_channel();
    let mut tasks = JoinSet::new();
    let begun = Instant::now();
    let began_unix = picture::unix_now();
    tasks.spawn(watch_drops(drops, seen.clone()));
    let client = Client::connect(&socket).await.or_code(Code::NoNode)?;
    // A viewer that loses rather than slows the stream down, and after all others.
    let mailbox = MailboxOptions {
        policy: Some(Policy::DropOld),
        priority: 0,
        ..MailboxOptions::default()
    };
    let options = SubscribeOptions::new(name.clone(), false).with_mailbox(mailbox);
    let subscriber = client.subscribe(options).await?;
    tasks.spawn(watch_arrivals(subscriber, begun, seen.clone()));
    let client = Client::connect(&socket).await.or_code(Code::NoNode)?;
    tasks.spawn(watch_traces(client, name.clone(), seen));
    let mut recorded = Recorded::new(began_unix);
    let end = begun + arguments.last.into();
    let looked = async {
        while let Ok(Some(one)) = timeout_at(end, all.recv()).await {
            match one {
                Seen::Arrival(arrival) if recorded.arrivals.len() < ARRIVALS_MAX => {
                    recorded.arrivals.push(arrival);
                }
                Seen::Arrival(_) | Seen::Ended => return,
                Seen::Dropped(new) => recorded.drops.extend(new),
                Seen::Traced(adu) => recorded.handle_traced(&adu),
                Seen::Notice(sentence) => terminal::print_notice(&sentence),
            }
        }
    };
    tokio::select! {
        () = looked => {}
        () = shutdown.requested() => {}
    }
    recorded.seconds = begun.elapsed().as_secs_f64();
    if recorded.arrivals.is_empty() && recorded.drops.is_empty() {
        let sentence = format!(
            "nothing of `{name}` came here for {:.1} s, and nothing of it was dropped",
            recorded.seconds
        );
        return fail(Code::Failed, sentence);
    }
    write(arguments, &out, &recorded)?;
    Ok(Code::Done)
}

fn write(arguments: &Arguments, out: &PathBuf, recorded: &Recorded) -> Result<(), Failure> {
    let svg = recorded.timeline(&arguments.stream).svg();
    std::fs::write(out, svg).with_context(|| format!("cannot write to {}", out.display()))?;
    terminal::print(&format!("{}\nin {}\n", recorded.summary(), out.display()))?;
    Ok(())
}

async fn watch_drops(mut drops: LocalDrops, seen: mpsc::UnboundedSender<Seen>) {
    while let Ok(new) = drops.recv().await {
        // The receiver is gone at the end.
        let _ = seen.send(Seen::Dropped(new));
    }
}

async fn watch_arrivals(
    mut subscriber: thalweg_node::local::LocalSubscriber,
    begun: Instant,
    seen: mpsc::UnboundedSender<Seen>,
) {
    while let Ok(Some(event)) = subscriber.recv().await {
        let _ = seen.send(match event {
            SubscriberEvent::Adu(adu) => Seen::Arrival(Arrival {
                second: begun.elapsed().as_secs_f64(),
                sequence: adu.header.sequence.0,
                media_second: adu.header.media_time.as_micros() as f64 / 1e6,
                bytes: adu.payload.len(),
            }),
            SubscriberEvent::Notice(sentence) => Seen::Notice(sentence),
        });
    }
    let _ = seen.send(Seen::Ended);
}

/// Traces the stream once it is there; without traces only differences are known.
async fn watch_traces(client: Client, name: StreamName, seen: mpsc::UnboundedSender<Seen>) {
    let Ok(mut tracer) = client.trace(name, TRACE_EVERY).await else {
        return;
    };
    while let Ok(event) = tracer.recv().await {
        if let TraceEvent::Adu(adu) = event {
            let _ = seen.send(Seen::Traced(adu));
        }
    }
}
