//! `thalweg top`: a node's links, queues and streams, refreshed at an interval.
//!
//! *The idea.* Two successive readings of the node make a [`view::View`]; a frame is a function of
//! the view and the person's choices. So the terminal, `--once` and the tests use the same code,
//! and `--json` prints the same figures.
//!
//! ```text
//! socket ─► feed ─► reading ─┬─► view ─► frame ─► terminal (live) · text (--once)
//!              reading before┘     └───► JSON (--json)
//! ```
//!
//! *What it does not do.* It changes nothing at the node and keeps no history: `/metrics` is for that.

mod feed;
mod figure;
mod frame;
mod live;
mod reading;
mod state;
#[cfg(test)]
mod tests;
mod view;

use std::io::{self, IsTerminal as _};

use anyhow::bail;
use clap::Args;
use ratatui::crossterm::terminal::size;
use thalweg_base::time::Duration;
use thalweg_base::units::parse_duration;

use self::feed::Feed;
use self::frame::Frame;
use self::frame::palette::Palette;
use self::state::State;
use self::view::View;
use crate::exit::{Code, Outcome, fail};
use crate::shutdown::Shutdown;
use crate::socket::Socket;
use crate::terminal;

const EXAMPLES: &str = "\
Examples:
  thalweg top
  thalweg top --node /run/thalweg/node.sock --interval 500ms
  thalweg top --once
  thalweg top --json | jq --unbuffered '.links[] | {name, waiting: .outbox.waiting_adus}'

Keys: q quits, the arrows select a link and its queue, s sorts the streams, ? explains the columns.";

/// The shortest interval that still leaves a node most of its time.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The longest interval; a slower view would not be current.
const INTERVAL_MAX: Duration = Duration::from_secs(3_600);

/// The width of a frame that is not for a terminal.
const WIDTH_DEFAULT: u16 = 80;

/// Watch a node: links, queues by importance, latency, streams, and drops with their causes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    socket: Socket,

    /// The refresh interval, over which rates are computed.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    /// Print one frame as plain text after one interval, and exit.
    #[arg(long)]
    once: bool,

    /// Print one JSON object a line for each interval; with --once, just one.
    #[arg(long)]
    json: bool,
}

/// Shows the node.
pub async fn run(arguments: &Arguments) -> Outcome {
    let every = arguments.interval.into();
    let feed = Feed::new(arguments.socket.clone(), every);
    if arguments.once {
        return once(feed, arguments.json).await;
    }
    if arguments.json {
        return lines(feed).await;
    }
    if !terminal::is_drawn_on(&io::stdout()) {
        return fail(
            Code::BadInput,
            "standard output is not a terminal with cursor control: use `thalweg top --once` for one frame as text, or `--json` for an object a line",
        );
    }
    live::run(feed, in_words(arguments.interval)).await
}

/// Prints the view at the end of one interval.
async fn once(mut feed: Feed, as_json: bool) -> Outcome {
    let before = feed.ask().await?;
    let now = feed.next().await?;
    let view = View::new(Some(&before), &now);
    let text = if as_json {
        serde_json::to_string(&view)? + "\n"
    } else {
        let mut state = State::default();
        state.handle_view(&view);
        let frame = Frame {
            view: &view,
            state: &state,
            note: None,
            every: None,
            palette: Palette { has_colours: false },
        };
        frame::text(&frame, width())
    };
    terminal::print(&text)?;
    Ok(Code::Done)
}

/// Prints one object a line until a request to end; while the node is gone, it keeps trying.
async fn lines(mut feed: Feed) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    let mut before = feed.ask().await?;
    let mut is_gone = false;
    loop {
        let answer = tokio::select! {
            answer = feed.next() => answer,
            () = shutdown.requested() => return Ok(Code::Done),
        };
        match answer {
            Ok(now) => {
                // After an outage the node may have been restarted, with its counters at zero.
                let view = View::new((!is_gone).then_some(&before), &now);
                terminal::print(&(serde_json::to_string(&view)? + "\n"))?;
                (before, is_gone) = (now, false);
            }
            Err(failure) if !is_gone => {
                terminal::print_notice(&gone("", &failure.sentence()));
                is_gone = true;
            }
            Err(_) => {}
        }
    }
}

/// Returns the line about a node that does not answer, and since when.
fn gone(silent: &str, why: &str) -> String {
    let silent = match silent {
        "" => String::new(),
        time => format!(" for {time}"),
    };
    format!("the node has not answered{silent}, retrying: {why}")
}

/// Returns the width of a plain-text frame: the terminal's, if it goes to one.
fn width() -> u16 {
    if io::stdout().is_terminal()
        && let Ok((width, _)) = size()
    {
        return width.max(WIDTH_DEFAULT);
    }
    WIDTH_DEFAULT
}

fn parse_interval(text: &str) -> anyhow::Result<Duration> {
    let interval = parse_duration(text)?;
    if !(INTERVAL_MIN..=INTERVAL_MAX).contains(&interval) {
        bail!(
            "{text} is not between {} and {}",
            in_words(INTERVAL_MIN),
            in_words(INTERVAL_MAX)
        );
    }
    Ok(interval)
}

fn in_words(interval: Duration) -> String {
    match interval.as_millis() {
        millis if millis % 1_000 == 0 => figure::time(interval.as_secs_f64()),
        millis => format!("{millis} ms"),
    }
}
