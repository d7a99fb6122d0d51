//! The table of what streams that are published here lost on their way: where, why, and how much it mattered.
//!
//! *The idea.* It has the lines that links, queue and streams leave over; what was lost most comes first, what plans
//! drop on purpose last, and how many rows there would be is told where not all fit.
//!
//! *What it does not do.* What was lost of other streams their sources know.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Frame;
use super::columns::{self, Cell, Column};
use super::palette::Tone;
use crate::command::top::figure;
use crate::command::top::reading::Loss;
use crate::command::top::view::{StreamView, View};

/// More rows than this nobody reads in a frame without a terminal.
const ROWS_MAX: usize = 20;

/// Returns how many lines it wants, its heading among them; none if nothing was lost.
pub fn height(view: &View) -> usize {
    match all(view).count().min(ROWS_MAX) {
        0 => 0,
        rows => 1 + rows,
    }
}

/// Draws it, if there is room for a row at least.
pub fn draw(frame: &Frame, area: Rect, buffer: &mut Buffer) {
    let mut losses: Vec<_> = all(frame.view).collect();
    if losses.is_empty() || area.height < 2 {
        return;
    }
    losses.sort_by_key(|(_, loss)| (is_meant(loss), std::cmp::Reverse(loss.adus)));
    let room = usize::from(area.height) - 1;
    let rows: Vec<_> = losses.iter().take(room).map(row).collect();
    let title = match losses.len() {
        all if all > rows.len() => format!("lost, {} of {all}", rows.len()),
        _ => "lost".to_string(),
    };
    let columns = [
        Column::text(format!("  {title}"), 16, 255),
        Column::text("at".to_string(), 10, 200),
        Column::text("cause".to_string(), 13, 220),
        Column::figure("importance", 10, 210),
        Column::figure("ADUs", 7, 230),
    ];
    columns::draw(&columns, &rows, frame.palette, area, buffer);
}

fn all(view: &View) -> impl Iterator<Item = (&StreamView, &Loss)> {
    let of_stream = |stream| std::iter::repeat(stream);
    let streams = view.streams.iter();
    streams.flat_map(move |stream| of_stream(stream).zip(&stream.losses))
}

/// Whether a plan drops it on purpose, or nobody asked for it.
fn is_meant(loss: &Loss) -> bool {
    ["filtered", "no-subscriber"].contains(&loss.cause.as_str())
}

fn row((stream, loss): &(&StreamView, &Loss)) -> [Cell; 5] {
    let [least, most] = loss.importance;
    [
        Cell::new(format!("  {}", stream.name), Tone::Plain),
        Cell::new(loss.hop.as_str(), Tone::Plain),
        Cell::new(loss.cause.as_str(), Tone::Plain),
        Cell::new(format!("{least}–{most}"), Tone::Plain),
        Cell::new(figure::short(loss.adus as f64), Tone::Plain),
    ]
}
