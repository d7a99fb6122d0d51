//! The table of links: one row each; a link that is down shows a sentence.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::columns::{self, Cell, Column};
use super::palette::Tone;
use super::{Frame, title};
use crate::command::top::figure;
use crate::command::top::view::LinkView;

/// Loss shares from which a link is shown as a warning, and as bad.
const LOSSES: (f64, f64) = (0.01, 0.1);

/// Draws the table so that the selected link is visible.
pub fn draw(frame: &Frame, area: Rect, buffer: &mut Buffer) {
    let links = &frame.view.links;
    let room = usize::from(area.height).saturating_sub(1);
    let selected = frame.state.selected(frame.view);
    let first = selected.map_or(0, |at| (at + 1).saturating_sub(room.div_ceil(2)));
    let first = first.min(links.len().saturating_sub(room));
    let shown = links.iter().enumerate().skip(first).take(room);
    let rows: Vec<_> = shown
        .clone()
        .map(|(at, link)| row(link, frame.is_live() && selected == Some(at)))
        .collect();
    let title = title("link", first, rows.len(), links.len());
    let columns = [
        Column::text(format!("  {title}"), 14, 255),
        Column::figure("rtt ms", 6, 8),
        Column::figure("loss %", 6, 3),
        Column::figure("sent", 5, 9),
        Column::figure("can send", 8, 7),
        Column::figure("waiting", 7, 6),
        Column::figure("bytes", 7, 1),
        Column::figure("p50 ms", 6, 4),
        Column::figure("p99", 5, 5),
        Column::figure("p99.9", 5, 0),
        Column::figure("max", 5, 2),
    ];
    let names_end = columns::draw(&columns, &rows, frame.palette, area, buffer);
    if links.is_empty() {
        let text = "  none: no peer is connected, and none is configured";
        frame.write_line(text, Tone::Dim, area, 1, buffer);
    }
    // The reason takes the place of the figures, which are unknown while a link is down.
    let start = names_end + 1;
    let rest = Rect {
        x: start,
        width: area.right().saturating_sub(start),
        ..area
    };
    for (line, (_, link)) in shown.enumerate().filter(|(_, (_, link))| !link.is_up()) {
        let reason = link.reason.as_ref();
        let text = reason.map_or_else(
            || link.state.clone(),
            |why| format!("{}: {why}", link.state),
        );
        let blank = " ".repeat(rest.width.into());
        frame.write_line(&blank, Tone::Plain, rest, line + 1, buffer);
        frame.write_line(&text, Tone::Bad, rest, line + 1, buffer);
    }
}

fn row(link: &LinkView, is_marked: bool) -> [Cell; 11] {
    let mark = if is_marked { "▸ " } else { "  " };
    let name = Cell::new(format!("{mark}{}", link.name), Tone::Plain);
    let outbox = link.outbox.as_ref();
    let latency = outbox.and_then(|outbox| outbox.latency_ms);
    let loss = link.loss.unwrap_or(0.0);
    let millis = |value: Option<f64>| Cell::of(value, figure::millis);
    let bps = |value: Option<u64>| Cell::of(value, |bps| figure::short(bps as f64));
    [
        name.with_tone_if(is_marked, Tone::Strong),
        millis(link.rtt_ms),
        Cell::of(link.loss, figure::percent)
            .with_tone_if(loss >= LOSSES.0, Tone::Warn)
            .with_tone_if(loss >= LOSSES.1, Tone::Bad),
        bps(link.sent_bps),
        bps(outbox.and_then(|outbox| outbox.sendable_bps)),
        Cell::of(outbox, |outbox| figure::short(outbox.waiting_adus as f64)),
        Cell::of(outbox, |outbox| figure::bytes(outbox.waiting_bytes)),
        millis(latency.map(|latency| latency.p50)),
        millis(latency.map(|latency| latency.p99)),
        millis(latency.map(|latency| latency.p999)),
        millis(latency.map(|latency| latency.max)),
    ]
}
