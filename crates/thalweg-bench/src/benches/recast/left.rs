//! Evaluates the arrivals at the node behind a relay that left.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use thalweg_testbed::role::note::Note;

use super::worlds::{BREAK, INTERVAL, START};
use crate::benches::continuity::longest_gap;
use crate::peers::tree::Record;
use crate::sample::Summary;

/// The effect on the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Left {
    /// The longest time without an arrival, from the last picture before the break on, ms.
    pub(super) silence_ms: f64,
    /// The same in the second before the break, ms.
    pub(super) before_ms: f64,
    /// Median increase of a picture's latency on the other path, ms: even with an ideal switch the
    /// first picture comes that much later than an interval.
    pub(super) longer_ms: f64,
    pub(super) lost: f64,
    pub(super) twice: f64,
}

impl Left {
    /// Evaluates the producer's and the subscriber's notes.
    pub(super) fn of_notes(given: &[Note], received: &[Note]) -> anyhow::Result<Self> {
        let first = given.first().context("the producer published nothing")?;
        let broken = first.due + BREAK.saturating_sub(START).as_nanos();
        let all: Vec<u64> = given.iter().map(|note| note.media_us).collect();
        let came = received.iter().map(|note| (note.media_us, note.at));
        Self::of(&all, came, broken)
    }

    /// Evaluates the records of a peer's sink, for ADUs with these numbers.
    pub(super) fn of_records(
        records: &[Record],
        numbers: std::ops::Range<u32>,
        broken_nanos: u64,
    ) -> anyhow::Result<Self> {
        let all: Vec<u64> = numbers.map(u64::from).collect();
        let came = records
            .iter()
            .map(|record| (u64::from(record.number), record.came_nanos));
        Self::of(&all, came, broken_nanos)
    }

    fn of(
        given: &[u64],
        received: impl Iterator<Item = (u64, u64)>,
        broken: u64,
    ) -> anyhow::Result<Self> {
        let mut times: BTreeMap<u64, Vec<u64>> =
            given.iter().map(|name| (*name, Vec::new())).collect();
        for (name, at) in received {
            if let Some(times) = times.get_mut(&name) {
                times.push(at);
            }
        }
        let first = |times: &Vec<u64>| times.first().copied();
        let mut moments: Vec<u64> = times.values().filter_map(first).collect();
        moments.sort_unstable();
        let before = moments.iter().rposition(|moment| *moment < broken);
        let before = before.context("nothing arrived before the break")?;
        let since = &moments[before..];
        ensure!(since.len() > 1, "nothing arrived after the break");
        let second = broken.saturating_sub(SECOND);
        let from = moments.partition_point(|moment| *moment < second);
        Ok(Self {
            silence_ms: longest_gap(since),
            before_ms: longest_gap(&moments[from..=before]),
            longer_ms: later(times.values().map(first), |at| at >= broken + SECOND)
                - later(times.values().map(first), |at| at < broken),
            lost: times.values().filter(|times| times.is_empty()).count() as f64,
            twice: times
                .values()
                .map(|times| times.len().saturating_sub(1))
                .sum::<usize>() as f64,
        })
    }
}

const SECOND: u64 = 1_000_000_000;

/// Returns the median lateness of the pictures that arrived at counted times, in milliseconds relative
/// to a fixed moment; zero if none arrived.
fn later(times: impl Iterator<Item = Option<u64>>, is_counted: impl Fn(u64) -> bool) -> f64 {
    let due = (0..).map(|place| f64::from(place) * PACE.as_nanos() as f64);
    let came = times.zip(due).filter_map(|(at, due)| Some((at?, due)));
    let counted = came.filter(|(at, _)| is_counted(*at));
    let late: Vec<f64> = counted.map(|(at, due)| at as f64 - due).collect();
    if late.is_empty() {
        return 0.0;
    }
    Summary::of(late).median / 1e6
}

/// The interval between two pictures.
pub(super) const PACE: std::time::Duration = std::time::Duration::from_nanos(INTERVAL.as_nanos());
