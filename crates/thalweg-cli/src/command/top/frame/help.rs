//! The page behind `?`: the meaning of columns and keys.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::palette::{Palette, Tone};

/// The lines fit a window of 60 by 16, with a line of header and one of footer.
pub const LINES: [&str; 14] = [
    "link    ▸ is the one whose queue is shown below",
    "rtt, loss, sent   round trip; packets lost; in bits a second",
    "can send          what the path is estimated to carry",
    "waiting           ADUs of which not all has been handed over",
    "p50, p99, max     ms from sending to acknowledgement, 10 s",
    "queue   bytes by importance, 255 is the most important",
    "stream  as source, relay or sink of this node",
    "ADU/s   sent on, or given to subscribers here",
    "announced         bits a second, as its publisher says",
    "delivered         given to subscribers here, or gone to",
    "                  the next node and not known to be lost",
    "dropped           by cause, since it was published",
    "↑ ↓ or k j  link    s  sort streams    PgUp PgDn  streams",
    "q or Ctrl-C  quit   Ctrl-L  redraw     any key  back",
];

/// Draws the page.
pub fn draw(palette: Palette, area: Rect, buffer: &mut Buffer) {
    for (line, text) in area.rows().zip(LINES) {
        let style = palette.style(Tone::Plain);
        buffer.set_stringn(line.x, line.y, text, line.width.into(), style);
    }
}
