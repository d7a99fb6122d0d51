//! The table of inputs and outputs: what each does, and why one does not run.
//!
//! *The idea.* A node without any has no table. Those that do not run come first.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Frame;
use super::columns::{self, Cell, Column};
use super::palette::Tone;
use crate::command::top::figure;
use crate::command::top::reading::End;
use crate::command::top::view::View;

/// Most rows, so that losses have room.
const ROWS_MAX: usize = 8;

/// Returns how many lines the table wants, with its heading; zero without inputs and outputs.
pub fn height(view: &View) -> usize {
    match view.ends.len().min(ROWS_MAX) {
        0 => 0,
        rows => 1 + rows,
    }
}

/// Draws the table, if there is room for at least one row.
pub fn draw(frame: &Frame, area: Rect, buffer: &mut Buffer) {
    if frame.view.ends.is_empty() || area.height < 2 {
        return;
    }
    let mut ends: Vec<&End> = frame.view.ends.iter().collect();
    ends.sort_by_key(|end| end.state == "running");
    let room = usize::from(area.height) - 1;
    let rows: Vec<_> = ends.iter().take(room).map(|end| row(end)).collect();
    let columns = [
        Column::text("  input, output".to_string(), 16, 255),
        Column::text("kind", 7, 100),
        Column::text("state", 9, 240),
        Column::figure("ADUs", 7, 230),
        Column::figure("restarts", 8, 210),
        Column::text("reason".to_string(), 18, 220),
    ];
    columns::draw(&columns, &rows, frame.palette, area, buffer);
}

fn row(end: &End) -> [Cell; 6] {
    let is_failed = end.state == "retrying";
    [
        Cell::new(format!("  {}", end.name), Tone::Plain),
        Cell::new(end.kind.as_str(), Tone::Plain),
        Cell::new(end.state.as_str(), Tone::Plain).with_tone_if(is_failed, Tone::Bad),
        Cell::new(figure::short(end.adus as f64), Tone::Plain),
        Cell::new(figure::short(end.restarts as f64), Tone::Plain),
        Cell::new(end.reason.clone().unwrap_or_default(), Tone::Plain),
    ]
}
