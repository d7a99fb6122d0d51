//! Columns of text, as wide as their widest cell.

use ratatui::text::Span;

use crate::terminal::{Colour, Paint};

#[cfg(test)]
mod tests;

/// Lays rows out in columns; the first row is the heading. A column that is empty below its heading is left out.
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
            // Not by the padding of `format!`, which takes every character for one cell.
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

/// Returns how many cells a text takes on a terminal: two for each of `漢字`, none for an accent that is a character of its own.
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}
