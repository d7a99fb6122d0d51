//! Columns of text, as wide as their widest cell.

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
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (&column, &width) in shown.iter().zip(&widths) {
            // Counted by characters, for the padding of `format!` counts the bytes of paint as well.
            let pad = width - row[column].chars().count();
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
