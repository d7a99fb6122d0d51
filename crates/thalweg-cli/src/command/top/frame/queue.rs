//! The outbox of the selected link: totals, drops by cause, and a bar for each band of importance.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::palette::{Palette, Tone};
use crate::command::top::figure;
use crate::command::top::reading::{Band, Outbox};
use crate::command::top::view::LinkView;

/// Cells of a bar's line outside the bar: `224–255 `, ` 12.3k`, ` 12.3 MB`.
const BAND_CELLS: usize = 7 + 1 + 1 + 6 + 1 + 7;

/// The end of a bar, in eighths of a cell.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Returns the lines of a link's queue, with its bars in one column or in two.
pub fn height(link: Option<&LinkView>, in_two: bool) -> usize {
    let Some(outbox) = link.and_then(|link| link.outbox.as_ref()) else {
        return 1;
    };
    let bands = outbox.by_importance.len();
    2 + if in_two { bands.div_ceil(2) } else { bands }
}

/// Draws the queue.
pub fn draw(
    link: Option<&LinkView>,
    in_two: bool,
    palette: Palette,
    area: Rect,
    buffer: &mut Buffer,
) {
    let Some(link) = link else {
        return;
    };
    let width = usize::from(area.width);
    let mut lines = area.rows();
    let mut write_line = |text: &str, tone| {
        if let Some(line) = lines.next() {
            buffer.set_string(
                line.x,
                line.y,
                figure::fit(text, width),
                palette.style(tone),
            );
        }
    };
    let Some(outbox) = &link.outbox else {
        let why = if link.is_up() {
            "it does not report its queue"
        } else {
            "there is no link at present"
        };
        write_line(&format!("queue to {}: {why}", link.name), Tone::Dim);
        return;
    };
    write_line(&title(link, outbox, width), Tone::Strong);
    let has_drops = link.drops_per_second.is_some_and(|rate| rate > 0.0);
    let tone = if has_drops { Tone::Warn } else { Tone::Plain };
    write_line(&dropped(outbox, width), tone);
    let lines: Vec<Rect> = lines.collect();
    bars(&outbox.by_importance, in_two, palette, &lines, buffer);
}

/// Returns the title with the totals; a long name is cut in favour of the figures.
fn title(link: &LinkView, outbox: &Outbox, width: usize) -> String {
    let adus = figure::short(outbox.waiting_adus as f64);
    let bytes = figure::bytes(outbox.waiting_bytes);
    let sums = format!("{adus} ADUs, {bytes}");
    let bps = outbox.sendable_bps.filter(|bps| *bps > 0);
    let figures = match bps.filter(|_| outbox.waiting_bytes > 0) {
        Some(bps) => {
            let millis = outbox.waiting_bytes as f64 * 8e3 / bps as f64;
            format!("{sums}, {} to send", figure::lasting(millis))
        }
        None => sums,
    };
    let taken = "queue to : ".len() + figure::width(&figures);
    let name = figure::fit(&link.name, width.saturating_sub(taken));
    format!("queue to {name}: {figures}")
}

fn dropped(outbox: &Outbox, width: usize) -> String {
    let label = "dropped there: ";
    let forms = figure::drops(&outbox.dropped);
    if forms.is_empty() {
        return format!("{label}none");
    }
    label.to_string() + &figure::first_that_fits(&forms, width.saturating_sub(label.len()))
}

/// Draws the bars, the most important first, down the first column and then down the second.
fn bars(bands: &[Band], in_two: bool, palette: Palette, lines: &[Rect], buffer: &mut Buffer) {
    let most = bands.iter().map(|band| band.bytes).max().unwrap_or(0);
    let rows = if in_two {
        bands.len().div_ceil(2)
    } else {
        bands.len()
    };
    for (at, band) in bands.iter().rev().enumerate() {
        let Some(line) = lines.get(at % rows) else {
            continue;
        };
        let width = if in_two { line.width / 2 } else { line.width };
        let area = Rect {
            x: line.x + if at < rows { 0 } else { width },
            width: width - u16::from(in_two),
            ..*line
        };
        draw_band(band, most, palette, area, buffer);
    }
}

fn draw_band(band: &Band, most: u64, palette: Palette, area: Rect, buffer: &mut Buffer) {
    let cells = usize::from(area.width).saturating_sub(BAND_CELLS);
    let label = format!("{:>3}–{:<3}", band.from, band.from.saturating_add(31));
    let is_empty = band.adus == 0;
    let tone = if is_empty { Tone::Dim } else { Tone::Plain };
    buffer.set_string(area.x, area.y, label, palette.style(tone));
    let bar = bar(band.bytes, most, cells);
    buffer.set_string(area.x + 8, area.y, bar, palette.style(Tone::Bar));
    let adus = figure::short(band.adus as f64);
    let figures = format!("{adus:>6} {:>7}", figure::bytes(band.bytes));
    let x = area.x + 9 + cells as u16;
    let room = usize::from(area.right().saturating_sub(x));
    buffer.set_stringn(x, area.y, figures, room, palette.style(tone));
}

/// Returns a bar; a value above zero gets at least an eighth of a cell.
fn bar(value: u64, most: u64, cells: usize) -> String {
    if value == 0 || cells == 0 {
        return String::new();
    }
    let eighths = u128::from(value) * cells as u128 * 8 / u128::from(most.max(1));
    let eighths = (eighths as usize).clamp(1, cells * 8);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}
