//! Progress of a publication or a subscription, and its summary.
//!
//! *The idea.* On a terminal one line is redrawn a few times a second; elsewhere only the summary
//! is printed, so that logs stay short. All of it goes to standard error; machine-readable output
//! does not pass through here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal::{is_drawn_on, print_notice_above};

#[cfg(test)]
mod tests;

/// How often the line is redrawn.
const REDRAW_HZ: u8 = 5;

/// A line of progress and the counts behind it.
pub struct Progress {
    bar: ProgressBar,
    start: Instant,
    adus: AtomicU64,
    bytes: AtomicU64,
}

/// What has passed so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// ADUs: access units, tables and the like.
    pub adus: u64,
    /// Their payload bytes.
    pub bytes: u64,
}

impl Progress {
    /// Starts a line that begins with `verb`, if standard error is a terminal and `quiet` is off.
    pub fn start(verb: &'static str, quiet: bool) -> Self {
        let bar = if quiet || !is_drawn_on(&std::io::stderr()) {
            ProgressBar::hidden()
        } else {
            let target = ProgressDrawTarget::stderr_with_hz(REDRAW_HZ);
            let bar = ProgressBar::with_draw_target(None, target);
            let style = ProgressStyle::with_template("{spinner} {prefix} {elapsed_precise}  {msg}");
            bar.set_style(style.expect("the template is well formed"));
            bar.set_prefix(verb);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        };
        Self {
            bar,
            start: Instant::now(),
            adus: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Counts an ADU.
    pub fn count(&self, bytes: usize) {
        self.adus.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
        if !self.bar.is_hidden() {
            let text = self.counts().describe(self.start.elapsed());
            self.bar.set_message(text);
        }
    }

    /// Prints a sentence above the line.
    pub fn notify(&self, sentence: &str) {
        print_notice_above(&self.bar, sentence);
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        Counts {
            adus: self.adus.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }

    /// Removes the line and returns the summary: counts and elapsed time.
    pub fn finish(self) -> String {
        self.bar.finish_and_clear();
        self.counts().describe(self.start.elapsed())
    }
}

impl Counts {
    /// Returns `250 ADUs, 1.3 MB in 10.0 s, 1.0 Mbit/s`.
    fn describe(self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64();
        let mbit = self.bytes as f64 * 8.0 / 1e6 / seconds.max(1e-3);
        format!(
            "{} ADUs, {} in {seconds:.1} s, {mbit:.2} Mbit/s",
            self.adus,
            size(self.bytes)
        )
    }
}

/// Returns bytes as `1.3 MB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Returns drops by cause as `expired 3, path-lost 1`, or `none`.
pub fn drops(by_cause: &BTreeMap<String, u64>) -> String {
    let mut text = String::new();
    for (cause, count) in by_cause.iter().filter(|(_, count)| **count > 0) {
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}{cause} {count}");
    }
    if text.is_empty() { "none".into() } else { text }
}
