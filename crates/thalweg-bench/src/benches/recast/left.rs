//! What came at the node behind when the one in the middle had left.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};
use thalweg_testbed::role::note::Note;

use super::worlds::{BREAK, INTERVAL, START};
use crate::peers::tree::Record;

/// What became of the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Left {
    /// The longest time in which nothing came, from the last picture before the break on.
    pub(super) silence_ms: f64,
    pub(super) lost: f64,
    pub(super) twice: f64,
}

impl Left {
    /// Puts together what the producer gave and the subscriber received.
    pub(super) fn of_notes(given: &[Note], received: &[Note]) -> anyhow::Result<Self> {
        let first = given.first().context("the producer gave nothing")?;
        let broken = first.due + BREAK.saturating_sub(START).as_nanos();
        let all: Vec<u64> = given.iter().map(|note| note.media_us).collect();
        let came = received.iter().map(|note| (note.media_us, note.at));
        Self::of(&all, came, broken)
    }

    /// Does the same with what a peer's sink wrote down of the ADUs from one number up to another.
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
        let mut moments: Vec<u64> = times
            .values()
            .filter_map(|times| times.first().copied())
            .collect();
        moments.sort_unstable();
        let before = moments.iter().rposition(|moment| *moment < broken);
        let since = &moments[before.context("nothing came before the break")?..];
        ensure!(since.len() > 1, "nothing came after the break");
        let gaps = since.windows(2).map(|pair| pair[1] - pair[0]);
        Ok(Self {
            silence_ms: gaps.max().unwrap_or(0) as f64 / 1e6,
            lost: times.values().filter(|times| times.is_empty()).count() as f64,
            twice: times
                .values()
                .map(|times| times.len().saturating_sub(1))
                .sum::<usize>() as f64,
        })
    }
}

/// The time between two pictures.
pub(super) const PACE: std::time::Duration = std::time::Duration::from_nanos(INTERVAL.as_nanos());
