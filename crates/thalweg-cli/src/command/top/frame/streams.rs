//! The table of streams: the node's role, the rate, and what was dropped and why.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::columns::{self, Cell, Column};
use super::palette::Tone;
use super::{Frame, title};
use crate::command::top::figure;
use crate::command::top::state::Sort;
use crate::command::top::view::StreamView;

/// Draws the table in the chosen order.
pub fn draw(frame: &Frame, area: Rect, buffer: &mut Buffer) {
    let streams = frame.state.sorted(frame.view);
    let room = usize::from(area.height).saturating_sub(1);
    let first = frame.state.first_stream;
    let first = first.min(streams.len().saturating_sub(room));
    let shown = streams.iter().skip(first).take(room);
    let rows: Vec<_> = shown.map(|stream| row(stream)).collect();
    let mark = |sort| {
        if frame.is_live() && frame.state.sort == sort {
            "▾"
        } else {
            ""
        }
    };
    let title = title("stream", first, rows.len(), streams.len());
    let rate = format!("ADU/s{}", mark(Sort::Rate));
    let columns = [
        Column::text(format!("  {title}{}", mark(Sort::Name)), 14, 255),
        Column::text("role", 6, 3),
        Column::figure(&rate, 6, 9),
        Column::figure("announced", 9, 2),
        Column::figure("waiting", 7, 4),
        Column::figure("delivered", 9, 7),
        Column::text(format!("dropped{}", mark(Sort::Drops)), 18, 8),
    ];
    columns::draw(&columns, &rows, frame.palette, area, buffer);
    if streams.is_empty() {
        let text = "  none: this node knows of no published stream";
        frame.write_line(text, Tone::Dim, area, 1, buffer);
    }
}

fn row(stream: &StreamView) -> [Cell; 7] {
    let is_dropping = stream.drops_per_second.is_some_and(|rate| rate > 0.0);
    let short = |value: u64| figure::short(value as f64);
    [
        Cell::new(format!("  {}", stream.name), Tone::Plain),
        Cell::new(stream.role.name(), Tone::Plain),
        Cell::of(stream.adus_per_second, figure::short),
        Cell::new(short(stream.rate_bps), Tone::Plain),
        Cell::of(stream.waiting_adus, short),
        Cell::new(short(stream.delivered), Tone::Plain),
        Cell::with_short_forms(figure::drops(&stream.dropped))
            .with_tone_if(is_dropping, Tone::Warn),
    ]
}
