//! Formats numbers in few cells: three significant digits and a unit.

use std::collections::BTreeMap;

use thalweg_base::time::Rough;

pub use crate::table::width;

/// Stands for an unknown value.
pub const UNKNOWN: &str = "–";

/// Formats a number as `0`, `7`, `940`, `1.20k`, `12.3M`: at most five characters; a fraction as
/// `0.25`, `12.5`.
pub fn short(value: f64) -> String {
    const SCALES: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    // A value that rounds up to a thousand of one scale belongs to the next.
    let scale = SCALES.iter().find(|(scale, _)| value >= scale * 0.9995);
    match scale {
        Some((scale, letter)) => digits(value / scale) + letter,
        // Counts are whole, and so are rates of zero.
        None if value < 0.05 || value.fract() < 1e-9 => format!("{value:.0}"),
        None => digits(value),
    }
}

/// Formats bytes as `0 B`, `940 B`, `12.3 MB`: at most seven characters.
pub fn bytes(value: u64) -> String {
    let text = short(value as f64);
    match text.chars().last() {
        Some(letter) if letter.is_ascii_alphabetic() => {
            format!("{} {letter}B", text.trim_end_matches(letter))
        }
        _ => text + " B",
    }
}

/// Formats milliseconds as `0.35`, `12.3`, `310`, `60000`, `134k`: at most five characters.
pub fn millis(value: f64) -> String {
    if value >= 99_999.5 {
        short(value)
    } else if value >= 999.5 {
        format!("{value:.0}")
    } else {
        digits(value)
    }
}

/// Formats milliseconds with a suitable unit: `310 ms`, `3.98 s`, `59 min 39 s`.
pub fn lasting(millis: f64) -> String {
    match millis {
        _ if millis < 999.5 => digits(millis) + " ms",
        _ if millis < 60e3 => digits(millis / 1e3) + " s",
        _ => time(millis / 1e3),
    }
}

/// Formats a share in percent, as `0.4`.
pub fn percent(share: f64) -> String {
    format!("{:.1}", share * 100.0)
}

/// Formats a duration as `12 s`, `3 min 20 s`, `5 h 3 min`, `2 d 4 h`.
pub fn time(seconds: f64) -> String {
    Rough(seconds.max(0.0) as u64).to_string()
}

/// Formats drops as `expired 12, pre-empted 3`, the most frequent first, and then in ever shorter forms.
pub fn drops(by_cause: &BTreeMap<String, u64>) -> Vec<String> {
    let mut causes: Vec<_> = by_cause.iter().filter(|(_, count)| **count > 0).collect();
    causes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let count = |count: u64| match count {
        0..10_000 => count.to_string(),
        _ => short(count as f64),
    };
    let words: Vec<String> = causes
        .iter()
        .map(|(cause, of_it)| format!("{cause} {}", count(**of_it)))
        .collect();
    let form = |shown: usize| match words.len() - shown {
        0 => words.join(", "),
        more => format!("{}, {more} more", words[..shown].join(", ")),
    };
    let mut forms: Vec<String> = (1..=words.len()).rev().map(form).collect();
    if words.len() > 1 {
        forms.push(format!("{} +{}", words[0], words.len() - 1));
    }
    forms
}

/// Returns the first text that fits, or the last one, cut.
pub fn first_that_fits(texts: &[String], cells: usize) -> String {
    let fitting = texts.iter().find(|text| width(text) <= cells);
    let text = fitting.or(texts.last()).map_or("", String::as_str);
    fit(text, cells)
}

/// Cuts a text to `cells` cells, with a mark at the cut.
pub fn fit(text: &str, cells: usize) -> String {
    if width(text) <= cells {
        return text.to_string();
    }
    let mut cut = String::new();
    for character in text.chars() {
        cut.push(character);
        if width(&cut) + 1 > cells {
            cut.pop();
            break;
        }
    }
    if cells > 0 {
        cut.push('…');
    }
    cut
}

/// Formats a number below a thousand with three digits.
fn digits(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}
