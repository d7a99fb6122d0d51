//! `test://telemetry`: JSON lines at a rate, to try a network out.
//!
//! *The idea.* Each line is due at its number divided by the rate, so that pauses do not add up. Its severity
//! goes round from 0 to 255 in steps of 51, for `--importance-from .severity`.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use tokio::time::{Duration, Instant, sleep_until};

/// Makes lines.
pub struct Telemetry {
    rate: u32,
    bytes: usize,
    count: u64,
    begun: Option<Instant>,
    number: u64,
}

impl Telemetry {
    /// Makes so many lines a second, of so many bytes each without the newline.
    pub const fn new(rate: u32, bytes: usize, count: u64) -> Self {
        Self {
            rate,
            bytes,
            count,
            begun: None,
            number: 0,
        }
    }

    /// Waits until the next line is due; `None` after the last. Cancel safe.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        if self.number >= self.count {
            return None;
        }
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let due = Duration::from_secs_f64(self.number as f64 / f64::from(self.rate));
        sleep_until(begun + due).await;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut line = json!({
            "number": self.number,
            "time": since.unwrap_or_default().as_secs_f64(),
            "severity": self.number % 6 * 51,
            "pad": "",
        })
        .to_string();
        let missing = self.bytes.saturating_sub(line.len());
        let pad = line.find("\"pad\":\"").expect("it was written") + "\"pad\":\"".len();
        line.insert_str(pad, &"x".repeat(missing));
        line.push('\n');
        self.number += 1;
        Some(line.into_bytes())
    }
}
