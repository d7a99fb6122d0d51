//! Columns of text, as wide as their widest cell.

use ratatui::text::Span;

use crate::terminal::{Colour, Paint};

#[cfg(test)]
mod tests;

/// Lays rows out in columns; the first row is the heading. A column with only a heading is left out.
pub fn lay_out<const N: usize>(rows: &[[String; N]], colour: Colour) -> String {
    let shown: Vec<usize> = (0..N)
        .filter(|&column| rows.iter().skip(1).any(|row| !row[column].is_empty()))
        .collect();
    let widths: Vec<usize> = shown
        .iter()
        .map(|&column| {
            rows.iter()
                .map(|row| width(&row[column]))
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (&column, &widest) in shown.iter().zip(&widths) {
            // The padding of `format!` counts every character as one cell.
            let pad = widest - width(&row[column]);
            line.push_str(&row[column]);
            line.push_str(&" ".repeat(pad + 2));
        }
        let line = line.trim_end();
        if at == 0 {
            text.push_str(&colour.paint(Paint::Dim, line));
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

/// Returns the width of a text in terminal cells: two for each of `漢字`, zero for a combining accent.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}
