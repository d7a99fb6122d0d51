//! The arrivals that a receiver recorded.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use thalweg_base::time::{Duration, Instant};
use thalweg_netem::LineCounters;
use thalweg_testbed::system::clock;

use super::end::{self, UP};
use super::schedule::{NO_ADU, Schedule, number_of};

/// An ADU that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Its number in the schedule; for bulk, its flow.
    pub(super) number: u32,
    /// When its last byte was handed over, on the machine's clock.
    pub(super) at: Instant,
    /// Length of its payload.
    pub(super) bytes: usize,
}

/// Records the arrivals of a side's receiving end; clones share the record.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    came: Mutex<Vec<Arrival>>,
    is_up: AtomicBool,
}

/// The results of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Recording {
    /// Latency of each ADU of the schedule since it was due; `None` if it did not arrive.
    latencies: Vec<Option<Duration>>,
    /// The line's counters from the beginning until nothing was in flight: from the sender, and back.
    pub(super) passed: [LineCounters; 2],
    /// The line's counters from the sender while ADUs were due.
    pub(super) meanwhile: LineCounters,
    /// The emulator's maximum lateness with a packet: the instrument's own share of a latency.
    pub(super) late: Duration,
}

impl Arrivals {
    /// Reports once that the connection is up.
    pub(super) fn up(&self) {
        if !self.0.is_up.swap(true, Ordering::Relaxed) {
            end::send_line(UP);
        }
    }

    /// Records a whole payload.
    pub(super) fn note(&self, payload: &[u8]) {
        if let Some(number) = number_of(payload) {
            self.note_number(number, payload.len());
        }
    }

    /// Records the whole ADU of this number.
    pub(super) fn note_number(&self, number: u32, bytes: usize) {
        if number == NO_ADU {
            return;
        }
        let at = clock::now();
        let came = Arrival { number, at, bytes };
        // No code that can panic runs under this lock.
        let mut all = self.0.came.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(came);
    }

    /// Writes the arrivals to a file.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let came = self.0.came.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for Arrival { number, at, bytes } in &*came {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{number} {} {bytes}", at.as_nanos());
        }
        std::fs::write(path, text).context("the recording cannot be written")
    }
}

/// Reads a receiver's arrivals from a file.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Arrival>> {
    let text = std::fs::read_to_string(path).context("the receiver has written no recording")?;
    let arrivals: Option<Vec<Arrival>> = text.lines().map(of_line).collect();
    arrivals.context("the receiver's recording cannot be read")
}

fn of_line(line: &str) -> Option<Arrival> {
    let mut numbers = line.split(' ').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    Some(Arrival {
        number: next()?.try_into().ok()?,
        at: Instant::from_nanos(next()?),
        bytes: next()?.try_into().ok()?,
    })
}

impl Recording {
    /// Matches arrivals with the schedule. Of duplicates the first counts; a truncated ADU does not count.
    pub(super) fn new(schedule: &Schedule, begin: Instant, arrivals: &[Arrival]) -> Self {
        let mut latencies = vec![None; schedule.dues().len()];
        for arrival in arrivals {
            let number = arrival.number as usize;
            let due = schedule.dues().get(number);
            if let Some(due) = due.filter(|due| due.bytes == arrival.bytes) {
                let latency = arrival.at.saturating_since(begin + due.at);
                latencies[number].get_or_insert(latency);
            }
        }
        Self {
            latencies,
            ..Self::default()
        }
    }

    /// Returns an ADU's latency; `None` if it did not arrive.
    pub(super) fn latency(&self, number: usize) -> Option<Duration> {
        self.latencies.get(number).copied().flatten()
    }
}
