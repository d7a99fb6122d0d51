//! `thalweg top`: links, queues and streams of a node, as they are now and again a second later.
//!
//! *The idea.* One moment of the node and the one before make a [`view::View`]; a frame is a function of that and of what
//! the person at the terminal chose. So what is seen on a terminal, printed by `--once` and looked at by a test comes out
//! of one place, and `--json` prints the same figures.
//!
//! ```text
//! socket ─► feed ─► reading ─┬─► view ─► frame ─► terminal (live) · text (--once)
//!              reading before┘     └───► JSON (--json)
//! ```
//!
//! *What it does not do.* It changes nothing at the node, and it keeps no history: that is for what reads `/metrics`.

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

Keys: q quits, the arrows select the link whose queue is shown, s sorts the streams, ? says what the columns mean.";

/// How often a node can be asked and still has most of its time for its work.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Beyond this a view is no view of now.
const INTERVAL_MAX: Duration = Duration::from_secs(3_600);

/// The width of a frame that is not for a terminal.
const WIDTH_USUAL: u16 = 80;

/// Watch a node: links, what waits on them by importance, how late it is, streams, and what was dropped and why.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    socket: Socket,

    /// How often the node is asked; rates are over this time.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,

    /// Print one frame as plain text, after one interval, and end.
    #[arg(long)]
    once: bool,

    /// Print one JSON object a line for each interval, without a terminal; with --once one altogether.
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
            "standard output is not a terminal that can be drawn on: `thalweg top --once` prints one frame as text, `--json` an object a line",
        );
    }
    live::run(feed, in_words(arguments.interval)).await
}

/// Prints what is to be seen at the end of one interval.
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

/// Prints an object a line until somebody asks to end; a node that goes away is waited for.
async fn lines(mut feed: Feed) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    let mut before = feed.ask().await?;
    let mut is_gone = false;
    loop {
        let answer = tokio::select! {
            answer = feed.next() => answer,
            () = shutdown.asked() => return Ok(Code::Done),
        };
        match answer {
            Ok(now) => {
                // After a silence it may be another run of the node, whose counters began anew.
                let view = View::new((!is_gone).then_some(&before), &now);
                terminal::print(&(serde_json::to_string(&view)? + "\n"))?;
                (before, is_gone) = (now, false);
            }
            Err(failure) if !is_gone => {
                terminal::tell(&gone("", &failure.sentence()));
                is_gone = true;
            }
            Err(_) => {}
        }
    }
}

/// Returns the sentence on a node that does not answer, and for how long.
fn gone(silent: &str, why: &str) -> String {
    let silent = match silent {
        "" => String::new(),
        time => format!(" for {time}"),
    };
    format!("the node has not answered{silent}, trying again: {why}")
}

/// Returns how wide a frame of plain text is: as the terminal, if it goes to one.
fn width() -> u16 {
    if io::stdout().is_terminal()
        && let Ok((width, _)) = size()
    {
        return width.max(WIDTH_USUAL);
    }
    WIDTH_USUAL
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
