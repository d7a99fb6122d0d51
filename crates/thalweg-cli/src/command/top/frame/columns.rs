//! Tables that fit: figure columns keep their width, text columns shrink, and columns without room
//! are left out.
//!
//! *The idea.* A figure column is as wide as its widest figure can be, so that nothing moves
//! between frames. When a row is too wide, text shrinks to a legible minimum; then whole columns
//! go, the least important first.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::palette::{Palette, Tone};
use crate::command::top::figure;

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its heading.
    pub title: String,
    /// Minimum width; for figures also the maximum.
    pub least: usize,
    /// Whether it holds text, which is left-aligned and may be wider.
    pub is_text: bool,
    /// Columns with the lowest rank are left out first.
    pub rank: u8,
}

/// A cell with ever shorter forms of its text; the first that fits is drawn.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    forms: Vec<String>,
    tone: Tone,
}

/// A column's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    column: usize,
    start: usize,
    width: usize,
}

impl Column {
    /// Returns a column of figures.
    pub fn figure(title: &str, least: usize, rank: u8) -> Self {
        Self {
            title: title.to_string(),
            least,
            is_text: false,
            rank,
        }
    }

    /// Returns a column of text.
    pub fn text(title: impl Into<String>, least: usize, rank: u8) -> Self {
        Self {
            title: title.into(),
            least,
            is_text: true,
            rank,
        }
    }
}

impl Cell {
    /// Makes a cell of this tone.
    pub fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            forms: vec![text.into()],
            tone,
        }
    }

    /// Makes a cell with shorter forms of its text.
    pub fn with_short_forms(forms: Vec<String>) -> Self {
        Self {
            forms,
            tone: Tone::Plain,
        }
    }

    /// Makes a cell of a figure; `–` if the value is unknown.
    pub fn of<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> Self {
        match value {
            Some(value) => Self::new(show(value), Tone::Plain),
            None => Self::new(figure::UNKNOWN, Tone::Dim),
        }
    }

    fn width(&self) -> usize {
        self.forms.first().map_or(0, |text| figure::width(text))
    }

    /// Returns the cell in another tone if `is_so`.
    #[must_use]
    pub fn with_tone_if(self, condition: bool, tone: Tone) -> Self {
        Self {
            tone: if condition { tone } else { self.tone },
            ..self
        }
    }
}

/// Draws a heading and as many rows as fit; returns where the first column ends.
pub fn draw<const N: usize>(
    columns: &[Column; N],
    rows: &[[Cell; N]],
    palette: Palette,
    area: Rect,
    buffer: &mut Buffer,
) -> u16 {
    let places = places(columns, rows, area.width.into());
    let heading: [Cell; N] = columns
        .each_ref()
        .map(|column| Cell::new(column.title.clone(), Tone::Head));
    let lines = std::iter::once(&heading).chain(rows);
    for (y, cells) in (area.top()..area.bottom()).zip(lines) {
        for place in &places {
            let (column, cell) = (&columns[place.column], &cells[place.column]);
            let text = figure::first_that_fits(&cell.forms, place.width);
            let pad = place.width - figure::width(&text);
            let indent = if column.is_text { 0 } else { pad };
            let x = area.x + (place.start + indent) as u16;
            buffer.set_string(x, y, text, palette.style(cell.tone));
        }
    }
    if let Some(heading) = area.rows().next() {
        buffer.set_style(heading, palette.style(Tone::Head));
    }
    area.x + places.first().map_or(0, |place| place.width as u16)
}

/// Returns the columns' positions, one cell apart.
fn places<const N: usize>(columns: &[Column; N], rows: &[[Cell; N]], width: usize) -> Vec<Place> {
    let mut kept: Vec<usize> = (0..N).collect();
    let least = |kept: &[usize]| {
        let widths: usize = kept.iter().map(|&at| columns[at].least).sum();
        widths + kept.len().saturating_sub(1)
    };
    while kept.len() > 1 && least(&kept) > width {
        let lowest = kept.iter().copied().min_by_key(|&at| columns[at].rank);
        kept.retain(|&at| Some(at) != lowest);
    }
    let mut spare = width.saturating_sub(least(&kept));
    let mut start = 0;
    let mut places = Vec::with_capacity(kept.len());
    for column in kept {
        let Column { least, is_text, .. } = columns[column];
        let cells = rows.iter().map(|row| row[column].width());
        let widest = cells.fold(figure::width(&columns[column].title), usize::max);
        let wanted = if is_text {
            widest.saturating_sub(least)
        } else {
            0
        };
        let more = wanted.min(spare);
        spare -= more;
        let width = (least + more).min(width);
        places.push(Place {
            column,
            start,
            width,
        });
        start += width + 1;
    }
    places
}
