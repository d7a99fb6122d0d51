//! One frame of `thalweg top`: its layout at any size from 60 by 16 up.
//!
//! ```text
//! thalweg top  camera  up 3 h 12 min  2 of 3 links up  4 streams          every 1 s
//! (a sentence, if the node does not answer)
//! link …        a row each, the selected one marked
//! queue to …    sums, drops by cause, a bar for each band of importance
//! stream …      a row each
//! input …       a row each, if the node has any
//! lost          a row for each hop, cause and importance, in what is left
//! keys
//! ```
//!
//! *The idea.* The queue has a fixed height; links and streams share the rest, and a part that
//! needs less than half leaves the remainder to the other. A frame without a terminal is as high as
//! its content, and has no keys.
//!
//! *What it does not do.* It does no I/O: a frame is a function of the view and the person's choices.

mod columns;
mod ends;
pub mod help;
mod links;
mod losses;
pub mod palette;
mod queue;
mod streams;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Span;
use ratatui::widgets::Widget;

use self::palette::{Palette, Tone};
use super::figure;
use super::state::State;
use super::view::{LinkView, View};

/// In a smaller window nothing is legible.
const SIZE_MIN: (u16, u16) = (50, 10);

/// From this height on blank lines separate the parts.
const HEIGHT_AIRY: u16 = 20;

/// From this height on the bars are in one column.
const HEIGHT_TALL: u16 = 36;

const KEYS: &str = "q quit   ↑↓ link   s sort   PgUp PgDn streams   ? help";

/// The content of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// The node's status.
    pub view: &'a View,
    /// The person's choices.
    pub state: &'a State,
    /// A sentence, if the node does not answer.
    pub note: Option<&'a str>,
    /// The polling interval, in words; `None` for `--once`.
    pub every: Option<&'a str>,
    /// The colours.
    pub palette: Palette,
}

/// The number of lines of each part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Heights {
    links: usize,
    queue: usize,
    streams: usize,
    gap: usize,
}

/// Cuts an area into parts, from the top.
struct Parts(Rect);

impl Frame<'_> {
    /// Returns the height of a frame with room for everything.
    pub fn height(&self) -> u16 {
        let view = self.view;
        let rows = view.links.len().max(1) + view.streams.len().max(1);
        let fixed = 2 + 1 + 1 + queue::height(self.link(), false) + 1 + 1;
        // A longer table would not be read; the heading has the total.
        let losses = match losses::height(view) {
            0 => 0,
            height => 1 + height,
        };
        let ends = match ends::height(view) {
            0 => 0,
            height => 1 + height,
        };
        (rows + fixed + ends + losses).min(1_000) as u16
    }

    /// Returns whether the frame is for a terminal.
    fn is_live(&self) -> bool {
        self.every.is_some()
    }

    fn link(&self) -> Option<&LinkView> {
        self.view.links.get(self.state.selected(self.view)?)
    }

    fn heights(&self, area: Rect, in_two: bool) -> Heights {
        let gap = usize::from(!self.is_live() || area.height >= HEIGHT_AIRY);
        let note = gap.max(usize::from(self.note.is_some()));
        let wanted = queue::height(self.link(), in_two);
        let rest = usize::from(area.height).saturating_sub(1 + note + usize::from(self.is_live()));
        // Two headings, and at least a row of each.
        let queue = if rest >= wanted + 4 + 2 * gap {
            wanted
        } else {
            0
        };
        let gaps = if queue > 0 { 2 * gap } else { gap };
        let rows = rest.saturating_sub(2 + queue + gaps);
        let links_wanted = self.view.links.len().max(1);
        let streams_wanted = self.view.streams.len().max(1);
        let streams = streams_wanted.min((rows / 2).max(rows.saturating_sub(links_wanted)));
        let links = links_wanted.min(rows.saturating_sub(streams));
        Heights {
            links,
            queue,
            streams,
            gap,
        }
    }

    fn header(&self, area: Rect, buffer: &mut Buffer) {
        let view = self.view;
        let strong = self.palette.style(Tone::Strong);
        let mut x = area.x;
        let mut put = |text: &str, style| {
            let room = usize::from(area.right().saturating_sub(x));
            (x, _) = buffer.set_stringn(x, area.y, text, room, style);
            x = x.saturating_add(2);
        };
        put("thalweg top", strong);
        put(
            &figure::fit(&view.node, usize::from(area.width) / 4),
            strong,
        );
        let plain = self.palette.style(Tone::Plain);
        if let Some(seconds) = view.uptime_seconds {
            put(&format!("up {}", figure::time(seconds)), plain);
        }
        let (up, links) = (view.links_up(), view.links.len());
        let tone = if up < links { Tone::Warn } else { Tone::Plain };
        let links = format!("{up} of {}", counted(links, "link"));
        put(&format!("{links} up"), self.palette.style(tone));
        put(&counted(view.streams.len(), "stream"), plain);
        let Some(every) = self.every else {
            return;
        };
        let every = format!("every {every}");
        let start = area.right().saturating_sub(every.len() as u16);
        if start >= x {
            buffer.set_string(start, area.y, every, self.palette.style(Tone::Dim));
        }
    }

    /// Writes a text into a line of an area, if the line exists.
    fn write_line(&self, text: &str, tone: Tone, area: Rect, line: usize, buffer: &mut Buffer) {
        if let Some(line) = area.rows().nth(line) {
            let text = figure::fit(text, line.width.into());
            buffer.set_string(line.x, line.y, text, self.palette.style(tone));
        }
    }

    fn body(&self, parts: &mut Parts, area: Rect, buffer: &mut Buffer) {
        let in_two = self.is_live() && area.height < HEIGHT_TALL;
        let heights = self.heights(area, in_two);
        let note = parts.take(heights.gap.max(usize::from(self.note.is_some())));
        if let Some(text) = self.note {
            self.write_line(text, Tone::Bad, note, 0, buffer);
        }
        let below = Rect {
            y: note.bottom(),
            height: parts.0.bottom().saturating_sub(note.bottom()),
            ..area
        };
        links::draw(self, parts.take(1 + heights.links), buffer);
        parts.take(heights.gap);
        if heights.queue > 0 {
            let area = parts.take(heights.queue);
            queue::draw(self.link(), in_two, self.palette, area, buffer);
            parts.take(heights.gap);
        }
        streams::draw(self, parts.take(1 + heights.streams), buffer);
        parts.take(heights.gap);
        let room = usize::from(parts.0.height);
        let ends = ends::height(self.view).min(room);
        if ends > 1 {
            ends::draw(self, parts.take(ends), buffer);
            parts.take(heights.gap);
        }
        losses::draw(self, parts.0, buffer);
        if self.note.is_some() {
            // The content is old: the node does not answer.
            buffer.set_style(below, Modifier::DIM);
        }
    }
}

impl Widget for Frame<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let (width, height) = SIZE_MIN;
        if self.is_live() && (area.width < width || area.height < height) {
            let text = format!("too small: {width}×{height} at least");
            self.write_line(&text, Tone::Plain, area, 0, buffer);
            return;
        }
        let mut parts = Parts(area);
        if self.is_live() {
            let footer = parts.take_last();
            self.write_line(KEYS, Tone::Dim, footer, 0, buffer);
        }
        self.header(parts.take(1), buffer);
        if self.state.has_help {
            help::draw(self.palette, parts.0, buffer);
        } else {
            self.body(&mut parts, area, buffer);
        }
    }
}

impl Parts {
    fn take(&mut self, lines: usize) -> Rect {
        let lines = (lines as u16).min(self.0.height);
        let taken = Rect {
            height: lines,
            ..self.0
        };
        self.0.y += lines;
        self.0.height -= lines;
        taken
    }

    fn take_last(&mut self) -> Rect {
        self.0.height = self.0.height.saturating_sub(1);
        Rect {
            y: self.0.bottom(),
            height: 1,
            ..self.0
        }
    }
}

/// Returns a table's title, with the range of shown rows if not all fit.
fn title(name: &str, first: usize, shown: usize, all: usize) -> String {
    if shown >= all {
        return name.to_string();
    }
    format!("{name} {}–{}/{all}", first + 1, first + shown)
}

/// Returns the lines of a frame of this width as text, without trailing blanks.
pub fn text(frame: &Frame, width: u16) -> String {
    let area = Rect::new(0, 0, width, frame.height());
    let mut buffer = Buffer::empty(area);
    frame.render(area, &mut buffer);
    lines(&buffer).join("\n") + "\n"
}

/// Returns the content of a buffer, line by line.
pub fn lines(buffer: &Buffer) -> Vec<String> {
    let rows = buffer
        .content()
        .chunks(usize::from(buffer.area.width).max(1));
    let line = |row: &[ratatui::buffer::Cell]| {
        let mut text = String::new();
        let mut covered = 0;
        for cell in row {
            if covered > 0 {
                covered -= 1;
                continue;
            }
            text.push_str(cell.symbol());
            covered = Span::raw(cell.symbol()).width().saturating_sub(1);
        }
        text.trim_end().to_string()
    };
    rows.map(line).collect()
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
