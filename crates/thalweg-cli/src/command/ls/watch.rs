//! `thalweg ls --watch`: the listing on a terminal, refreshed until a request to end.
//!
//! *The idea.* As `watch(1)`: it draws on the alternate screen from the upper left corner, so that
//! nothing flickers and the terminal is restored at the end. Output beyond the terminal's size is
//! cut, with a count of the cut lines. While the node does not answer, the last listing stays,
//! under a line that says for how long.
//!
//! *What it does not do.* It takes no keys and computes no rates: `thalweg top` does.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Instant;

use anyhow::Context as _;
use ratatui::crossterm::cursor::{Hide, MoveTo, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::Print;
use ratatui::crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    size,
};
use tokio::time::{Duration, MissedTickBehavior, interval};

use super::Arguments;
use crate::exit::{Code, Outcome};
use crate::shutdown::Shutdown;
use crate::table;
use crate::terminal::{self, Colour, Paint};

/// The refresh interval; the node's rates cover a second too.
const INTERVAL: Duration = Duration::from_secs(1);

/// The size of a terminal that does not report its own.
const SIZE_DEFAULT: (u16, u16) = (80, 24);

/// The alternate screen, left on drop.
struct Screen(io::Stdout);

/// Shows the listing on the terminal until a request to end.
pub async fn run(arguments: &Arguments) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    // A missing node at the start is an error; only later is it waited for.
    let mut status = arguments.status().await?;
    let mut answered = Instant::now();
    let mut silence = None;
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut screen = Screen::enter()?;
    loop {
        let colour = Colour::of_stdout();
        let note = silence.as_deref().map(|why| note(answered, why));
        let (width, height) = size().unwrap_or(SIZE_DEFAULT);
        let listing = arguments.describe(&status, colour);
        let text = frame(&listing, note.as_deref(), height, colour);
        screen.draw(&narrowed(&text, width.into()))?;
        let answer = tokio::select! {
            answer = async { ticks.tick().await; arguments.status().await } => answer,
            () = shutdown.requested() => return Ok(Code::Done),
        };
        match answer {
            Ok(new) => (status, answered, silence) = (new, Instant::now(), None),
            Err(failure) => silence = Some(failure.sentence()),
        }
    }
}

/// Prints one object a line for each answer until a request to end; while the node is gone, it
/// keeps trying.
pub async fn lines(arguments: &Arguments) -> Outcome {
    let mut shutdown = Shutdown::listen()?;
    terminal::print(&(serde_json::to_string(&arguments.status().await?)? + "\n"))?;
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut is_gone = false;
    loop {
        let answer = tokio::select! {
            answer = async { ticks.tick().await; arguments.status().await } => answer,
            () = shutdown.requested() => return Ok(Code::Done),
        };
        match answer {
            Ok(status) => {
                terminal::print(&(serde_json::to_string(&status)? + "\n"))?;
                is_gone = false;
            }
            Err(failure) if !is_gone => {
                let why = failure.sentence();
                terminal::print_notice(&format!("the node has not answered, retrying: {why}"));
                is_gone = true;
            }
            Err(_) => {}
        }
    }
}

/// Returns the line about a node that does not answer.
fn note(answered: Instant, why: &str) -> String {
    let seconds = answered.elapsed().as_secs();
    format!("the node has not answered for {seconds} s, retrying: {why}")
}

/// Returns a frame of at most `height` lines: note, listing, and the count of cut lines.
fn frame(listing: &str, note: Option<&str>, height: u16, colour: Colour) -> String {
    let mut text = String::new();
    let mut room = usize::from(height);
    if let Some(note) = note {
        let _ = writeln!(text, "{}", colour.paint(Paint::Yellow, note));
        room = room.saturating_sub(1);
    }
    let lines: Vec<&str> = listing.lines().collect();
    if lines.len() <= room {
        text.push_str(&lines.join("\n"));
        return text;
    }
    let shown = room.saturating_sub(1);
    for line in &lines[..shown] {
        let _ = writeln!(text, "{line}");
    }
    let cut = format!("{} more lines", lines.len() - shown);
    text.push_str(&colour.paint(Paint::Dim, &cut));
    text
}

/// Cuts lines to `width` cells and marks a cut with `…`. Colour sequences have no width.
fn narrowed(text: &str, width: usize) -> String {
    let lines = text.lines().map(|line| cut(line, width));
    lines.collect::<Vec<String>>().join("\n")
}

fn cut(line: &str, width: usize) -> String {
    let (mut places, mut last) = (0, None);
    let (mut is_in_paint, mut is_painted) = (false, false);
    for (at, c) in line.char_indices() {
        if c == '\x1b' || is_in_paint {
            is_in_paint = c != 'm';
            is_painted = true;
            continue;
        }
        places += table::width(c.encode_utf8(&mut [0; 4]));
        if places >= width {
            last.get_or_insert(at);
        }
    }
    if places <= width {
        return line.to_owned();
    }
    let mark = if width == 0 { "" } else { "…" };
    let end = if is_painted { "\x1b[0m" } else { "" };
    format!("{}{mark}{end}", &line[..last.unwrap_or_default()])
}

impl Screen {
    fn enter() -> anyhow::Result<Self> {
        let mut terminal = io::stdout();
        execute!(terminal, EnterAlternateScreen, DisableLineWrap, Hide)
            .context("cannot draw on the terminal")?;
        Ok(Self(terminal))
    }

    /// Draws over the previous frame: clears each line after its end, and the screen below the last line.
    fn draw(&mut self, text: &str) -> anyhow::Result<()> {
        let mut out = Vec::with_capacity(text.len() * 2);
        execute!(out, MoveTo(0, 0))?;
        for (at, line) in text.lines().enumerate() {
            let feed = if at == 0 { "" } else { "\r\n" };
            execute!(
                out,
                Print(feed),
                Print(line),
                Clear(ClearType::UntilNewLine)
            )?;
        }
        execute!(out, Clear(ClearType::FromCursorDown))?;
        let drawn = self.0.write_all(&out).and_then(|()| self.0.flush());
        drawn.context("cannot draw on the terminal")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, there is nowhere to report to.
        let _ = execute!(self.0, Show, EnableLineWrap, LeaveAlternateScreen);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Nine lines: three headings, three tables, and the blank lines between them.
    fn listing() -> String {
        let status = json!({"node": {"key": "a"}, "nodes": [{"key": "a", "name": "camera", "slots": 1, "neighbours": []}]});
        super::super::describe(&status, Colour::NEVER)
    }

    #[test]
    fn fitting_listing_is_shown_whole() {
        let whole = listing();
        let lines = whole.lines().count();
        let height = u16::try_from(lines).expect("a few");
        assert_eq!(frame(&listing(), None, height, Colour::NEVER) + "\n", whole);
    }

    #[test]
    fn low_terminal_counts_cut_lines() {
        let lines = listing().lines().count();
        let height = u16::try_from(lines - 1).expect("a few");
        let text = frame(&listing(), None, height, Colour::NEVER);
        assert_eq!(text.lines().count(), lines - 1);
        assert!(text.ends_with("\n2 more lines"), "{text}");
    }

    #[test]
    fn silent_node_takes_one_line() {
        let text = frame(&listing(), Some("silent"), 24, Colour::NEVER);
        assert!(text.starts_with("silent\nnodes\n"), "{text}");
        for height in 0..3 {
            frame(&listing(), Some("silent"), height, Colour::NEVER);
        }
    }

    #[test]
    fn long_line_ends_in_a_mark() {
        let painted = "\x1b[1mtrusted\x1b[0m  datagrams";
        for (line, width, shown) in [
            ("trusted", 7, "trusted"),
            ("trusted", 6, "trust…"),
            ("träge", 5, "träge"),
            ("träge", 4, "trä…"),
            ("trusted", 1, "…"),
            ("trusted", 0, ""),
            ("", 0, ""),
            ("漢字漢", 6, "漢字漢"),
            ("漢字漢", 5, "漢字…"),
            ("漢字漢", 4, "漢…"),
            (painted, 18, painted),
            (painted, 10, "\x1b[1mtrusted\x1b[0m  …\x1b[0m"),
        ] {
            assert_eq!(cut(line, width), shown, "{width}");
        }
        assert_eq!(narrowed("one\ntwo words", 4), "one\ntwo…");
    }
}
