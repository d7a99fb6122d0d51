//! The progress bar of a transfer: amount, rate, remaining time.
//!
//! *The idea.* On a terminal one line is redrawn a few times a second; elsewhere only sentences are
//! printed, so that logs stay short.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thalweg_node::transfer::Event;

use crate::terminal;

/// How often the line is redrawn.
const REDRAW_HZ: u8 = 5;

/// A line of progress.
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// Makes a line that begins with `verb`, if standard error is a terminal.
    pub fn new(verb: &'static str) -> Self {
        let bar = if terminal::is_drawn_on(&std::io::stderr()) {
            let target = ProgressDrawTarget::stderr_with_hz(REDRAW_HZ);
            let bar = ProgressBar::with_draw_target(None, target);
            let style = ProgressStyle::with_template(
                "{prefix} {msg}  {wide_bar} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left",
            );
            bar.set_style(style.expect("the template is well formed"));
            bar.set_prefix(verb);
            bar
        } else {
            ProgressBar::hidden()
        };
        Self { bar }
    }

    /// Shows an event of the transfer.
    pub fn show(&self, event: Event) {
        match event {
            Event::Looking { bytes, of } => {
                self.bar.set_message("hashing the files");
                self.bar.set_length(of);
                self.bar.set_position(bytes);
            }
            Event::Begun { what, of } => {
                self.bar.set_message(what);
                self.bar.set_length(of);
                self.bar.set_position(0);
                self.bar.reset_elapsed();
            }
            Event::Progress { bytes } => {
                // Bytes from an earlier attempt count as present, but not for the rate.
                if self.bar.position() == 0 {
                    self.bar.reset_eta();
                }
                self.bar.set_position(bytes);
            }
            Event::Notice(sentence) => terminal::print_notice_above(&self.bar, &sentence),
            _ => {}
        }
    }

    /// Removes the line.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// Returns a size with its unit, as `1.3 MB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// Returns duration and rate, as `42.1 s, 1.99 Mbit/s`.
pub fn seconds(bytes: u64, seconds: f64) -> String {
    let mbit = bytes as f64 * 8.0 / 1e6 / seconds.max(1e-3);
    format!("{seconds:.1} s, {mbit:.2} Mbit/s")
}
