//! The schedule: the ADUs of a producer, in the order in which they are due.
//!
//! All sides use the same list. An ADU's index is its number, which its payload carries, so that the
//! receiver can identify it. The sender's process gets the list as a file, one line per ADU.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use thalweg_base::time::{Duration, Instant};

/// Bytes of the number in a payload.
pub(super) const NUMBER_BYTES: usize = 4;

/// The number of a probe that only tests whether a line is up.
pub(super) const NO_ADU: u32 = u32::MAX;

/// An ADU that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// When it is due, since the beginning.
    pub(super) at: Duration,
    /// The stream, of those that share the line.
    pub(super) stream: u32,
    /// Its frame in the stream.
    pub(super) frame: u32,
    /// Its layer in the frame.
    pub(super) layer: u8,
    /// Number of layers of a frame.
    pub(super) layers: u8,
    /// Its importance.
    pub(super) importance: u8,
    /// Length of its payload in bytes.
    pub(super) bytes: usize,
}

/// The ADUs of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule(Vec<Due>);

impl Schedule {
    /// Returns the schedule of these ADUs, which it sorts.
    pub(super) fn new(mut dues: Vec<Due>) -> Self {
        // Layers come last in the key, so that a frame's base precedes what depends on it.
        dues.sort_by_key(|due| (due.at, due.stream, due.frame, due.layer));
        for due in &mut dues {
            due.bytes = due.bytes.max(NUMBER_BYTES);
        }
        Self(dues)
    }

    /// Returns the ADUs.
    pub(super) fn dues(&self) -> &[Due] {
        &self.0
    }

    /// Returns when the last one is due.
    pub(super) fn length(&self) -> Duration {
        self.0.last().map_or(Duration::ZERO, |due| due.at)
    }

    /// Writes the schedule to a file.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        std::fs::write(path, self.text()).context("the schedule cannot be written")
    }

    /// Reads a schedule from a file.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).context("the schedule cannot be read")?;
        Self::of_text(&text).context("the schedule is invalid")
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for due in &self.0 {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{} {} {} {} {} {} {}",
                due.at.as_nanos(),
                due.stream,
                due.frame,
                due.layer,
                due.layers,
                due.importance,
                due.bytes
            );
        }
        text
    }

    pub(super) fn of_text(text: &str) -> Option<Self> {
        let dues: Option<Vec<Due>> = text.lines().map(of_line).collect();
        Some(Self(dues?))
    }
}

fn of_line(line: &str) -> Option<Due> {
    let mut numbers = line.split(' ').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    Some(Due {
        at: Duration::from_nanos(next()?),
        stream: next()?.try_into().ok()?,
        frame: next()?.try_into().ok()?,
        layer: next()?.try_into().ok()?,
        layers: next()?.try_into().ok()?,
        importance: next()?.try_into().ok()?,
        bytes: next()?.try_into().ok()?,
    })
}

impl Due {
    /// Returns when it is no longer useful.
    pub(super) fn deadline(&self, begin: Instant, budget: Duration) -> Instant {
        begin + self.at + budget
    }

    /// Returns the payload of the ADU of this number.
    pub(super) fn payload(&self, number: u32) -> Vec<u8> {
        payload(number, self.bytes)
    }

    /// Returns its sequence number in its stream.
    pub(super) const fn sequence(&self) -> u64 {
        self.frame as u64 * self.layers as u64 + self.layer as u64
    }
}

/// Returns a payload of this length that carries a number.
pub(super) fn payload(number: u32, bytes: usize) -> Vec<u8> {
    let mut payload = vec![0; bytes.max(NUMBER_BYTES)];
    payload[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
    payload
}

/// Returns the number that a payload carries.
pub(super) fn number_of(payload: &[u8]) -> Option<u32> {
    let number = payload.first_chunk::<NUMBER_BYTES>()?;
    Some(u32::from_be_bytes(*number))
}
