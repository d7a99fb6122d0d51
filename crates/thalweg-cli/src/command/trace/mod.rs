//! `thalweg trace STREAM`: where the latency of a live stream comes from, hop by hop.

mod summary;
#[cfg(test)]
mod tests;

use clap::Args;
use serde_json::json;
use thalweg_base::id::StreamName;
use thalweg_base::time::Duration;
use thalweg_node::TraceEvent;
use thalweg_node::local::{LocalError, LocalTracer};

use tokio::time::{Instant, timeout_at};

use crate::exit::{Code, Outcome, fail};
use crate::input::{parse_time, whole};
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal::{self, Colour};

use summary::Summary;

/// The longest interval and wait: an hour.
const WAIT_MAX: Duration = Duration::from_secs(3_600);

/// The most ADUs of one run; a whole day at ten per second needs several runs.
const COUNT_MAX: u32 = 10_000;

const EXAMPLES: &str = "\
Examples:
  thalweg trace truck/cam1
  thalweg trace truck/cam1 --count 100 --every 100ms
  thalweg trace truck/cam1 --json | jq -c 'select(.hops) | [.sum_us, .budget_us]'

Times are in ms, by each node's own clock:
  in node  waiting for the rest of an ADU or for processing
  lift     in adapters
  wait     in the outbox; at the sink for room in a subscriber's mailbox
  link     half of the shortest recent round trip to the next node
A source has at most ten ADUs a second traced, and fewer with more than
five sinks.";

/// Show what each hop costs a live stream's ADUs: on nodes, in modules, in queues and on links.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The stream's name.
    #[arg(value_name = "STREAM")]
    stream: StreamName,

    /// How many ADUs to trace.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = whole::<u32>(1..=u64::from(COUNT_MAX)))]
    count: u32,

    /// The interval between traced ADUs.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_wait)]
    every: Duration,

    /// How long to wait for the next traced ADU.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_wait)]
    wait: Duration,

    #[command(flatten)]
    socket: Socket,

    /// Print one JSON object for each traced ADU as it arrives, and a summary.
    #[arg(long)]
    json: bool,
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if time <= WAIT_MAX {
        Ok(time)
    } else {
        Err("at most an hour".into())
    }
}

/// Asks, gathers and prints.
pub async fn run(arguments: &Arguments) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    let node = arguments.socket.connect().await?;
    let mut tracer = node
        .trace(arguments.stream.clone(), arguments.every)
        .await?;
    let mut summary = Summary::new(arguments.count);
    let mut sinks = None;
    let ended = loop {
        let patience = Instant::now() + arguments.wait.max(arguments.every).into();
        let end = tokio::select! {
            end = next(&mut tracer, &mut summary, &mut sinks, patience, arguments.json) => end?,
            () = shutdown.requested() => Some(End::Asked),
        };
        if let Some(end) = end {
            break end;
        }
    };
    if summary.is_empty()
        && let End::Quiet = ended
    {
        return fail(Code::Failed, silence(arguments, tracer.source(), sinks));
    }
    let text = if arguments.json {
        json!({ "summary": summary.groups() }).to_string() + "\n"
    } else {
        summary.describe(&arguments.stream, Colour::of_stdout())
    };
    terminal::print(&text)?;
    Ok(Code::Done)
}

/// Why the trace ended.
enum End {
    /// All ADUs were traced.
    Full,
    /// None came within the wait.
    Quiet,
    /// A request to end.
    Asked,
}

/// Handles events until an ADU was traced, and prints it with `--json`.
async fn next(
    tracer: &mut LocalTracer,
    summary: &mut Summary,
    sinks: &mut Option<u32>,
    patience: Instant,
    is_json: bool,
) -> Result<Option<End>, crate::exit::Failure> {
    loop {
        let Ok(event) = timeout_at(patience, tracer.recv()).await else {
            return Ok(Some(End::Quiet));
        };
        match event {
            Ok(TraceEvent::Sinks(now)) => *sinks = Some(now),
            Ok(TraceEvent::Adu(adu)) => {
                let text = serde_json::to_string(&adu)? + "\n";
                if !summary.add(adu, sinks.unwrap_or(1)) {
                    return Ok(Some(End::Full));
                }
                if is_json {
                    terminal::print(&text)?;
                }
                return Ok(summary.is_full().then_some(End::Full));
            }
            // The node repeats the reason when it closes the connection.
            Ok(TraceEvent::Refused(reason)) => return Err(LocalError::Refused(reason).into()),
            // What was measured before the stream ended is still shown.
            Err(LocalError::Refused(_)) if !summary.is_empty() => return Ok(Some(End::Quiet)),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Says why there is nothing to show.
fn silence(arguments: &Arguments, source: &str, sinks: Option<u32>) -> String {
    let stream = &arguments.stream;
    let seconds = arguments.wait.max(arguments.every).as_secs_f64();
    match sinks {
        None => format!("{source}, the source of `{stream}`, has not answered for {seconds} s"),
        Some(0) => format!("`{stream}` has no subscriber, so {source} does not send it"),
        Some(sinks) => format!(
            "{source} traces `{stream}`, which has {sinks} sink(s), and no traced ADU has been told of for {seconds} s: \
             its producer sends none, none arrives, or a node on the path adds no stamps; see `thalweg ls`"
        ),
    }
}
