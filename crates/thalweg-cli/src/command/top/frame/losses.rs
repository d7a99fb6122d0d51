//! The table of losses of streams published here: where, why, and of what importance.
//!
//! *The idea.* It gets the lines that links, queue and streams leave. The largest losses come
//! first, planned drops last; if not all rows fit, the heading has the total.
//!
//! *What it does not do.* Losses of other streams are known at their sources only.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Frame;
use super::columns::{self, Cell, Column};
use super::palette::Tone;
use crate::command::top::figure;
use crate::command::top::reading::Loss;
use crate::command::top::view::{StreamView, View};

/// Most rows in a frame without a terminal.
const ROWS_MAX: usize = 20;

/// Returns how many lines the table wants, with its heading; zero without losses.
pub fn height(view: &View) -> usize {
    match all(view).count().min(ROWS_MAX) {
        0 => 0,
        rows => 1 + rows,
    }
}

/// Draws the table, if there is room for at least one row.
pub fn draw(frame: &Frame, area: Rect, buffer: &mut Buffer) {
    let mut losses: Vec<_> = all(frame.view).collect();
    if losses.is_empty() || area.height < 2 {
        return;
    }
    losses.sort_by_key(|(_, loss)| (is_planned(loss), std::cmp::Reverse(loss.adus)));
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

/// Returns whether the plan drops it on purpose, or the stream had no subscriber.
fn is_planned(loss: &Loss) -> bool {
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
