//! What happened to a stream when its path was cut, from the recorded notes and logs.

use std::collections::BTreeMap;

use anyhow::Context as _;
use thalweg_testbed::role::note::Note;

use super::worlds::{BREAK, INTERVAL, START};
use crate::sample::Summary;

/// The relevant messages of a log, with their times in seconds of the machine's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeLog {
    silences: Vec<f64>,
    plans: Vec<f64>,
}

/// The effect of a cut on the stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cut {
    pub(super) lost: f64,
    pub(super) twice: f64,
    pub(super) delayed: f64,
    /// The longest time between two arrivals, ms.
    pub(super) gap_ms: f64,
    /// From the break until a node reports that a neighbour does not answer, ms.
    pub(super) detection_ms: f64,
    /// From then until the source reports that another plan is in force, ms.
    pub(super) repath_ms: f64,
}

const DAY_S: f64 = 86_400.0;

impl NodeLog {
    /// Parses a log with lines that begin with the time of day; `unix_at_zero_s` is the Unix time of
    /// the machine clock's zero.
    pub(super) fn read(log: &str, unix_at_zero_s: f64) -> Self {
        let moments = |words: &str| {
            let lines = log.lines().filter(|line| line.contains(words));
            let of_day = lines.filter_map(second_of_day);
            // A log line has only a time of day. The run is far shorter than a day, so taking the
            // time since the machine's start modulo a day is unambiguous.
            of_day
                .map(|second| (second - unix_at_zero_s).rem_euclid(DAY_S))
                .collect()
        };
        Self {
            silences: moments("neighbour does not answer"),
            plans: moments("plan in force"),
        }
    }
}

/// Returns the second of the day of a log line that begins like `2026-11-22T12:00:00.000001Z`.
fn second_of_day(line: &str) -> Option<f64> {
    let (_, time) = line.split_once('T')?;
    let (time, _) = time.split_once('Z')?;
    let parts: Vec<f64> = time
        .split(':')
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    match parts[..] {
        [hours, minutes, seconds] => Some(hours * 3_600.0 + minutes * 60.0 + seconds),
        _ => None,
    }
}

impl Cut {
    /// Combines the producer's notes, the subscriber's notes, and the nodes' logs, the source first.
    ///
    /// Fails   no node noticed the break, or no new plan came into force
    pub(super) fn new(given: &[Note], received: &[Note], logs: &[NodeLog]) -> anyhow::Result<Self> {
        let first = given.first().context("the producer published nothing")?;
        let began_s = first.due as f64 / 1e9 - START.as_secs_f64();
        let broken_s = began_s + BREAK.as_secs_f64();
        let mut came: BTreeMap<u64, u64> = BTreeMap::new();
        for note in received {
            came.entry(note.media_us).or_insert(note.at);
        }
        let latency = |note: &&Note| Some((came.get(&note.media_us)? - note.due) as f64 / 1e6);
        let is_before = |note: &&Note| (note.due as f64 / 1e9) < broken_s - 1.0;
        let before: Vec<f64> = given
            .iter()
            .filter(is_before)
            .filter_map(|note| latency(&note))
            .collect();
        let usual_ms = Summary::of(before).median;
        let late_ms = usual_ms + INTERVAL.as_millis_f64();
        let all = given.iter().filter_map(|note| latency(&note));
        let mut moments: Vec<u64> = came.values().copied().collect();
        moments.sort_unstable();
        let since = |moment: f64, from: f64| (moment - from).rem_euclid(DAY_S);
        let soonest = |moments: &mut dyn Iterator<Item = f64>, from: f64| {
            let after = moments.map(|moment| since(moment, from));
            // Modulo a day, a time before the break appears as almost a day after it.
            after
                .filter(|passed| *passed < DAY_S / 2.0)
                .reduce(f64::min)
        };
        let mut silences = logs.iter().flat_map(|log| log.silences.iter().copied());
        let detection_s = soonest(&mut silences, broken_s).context("no node noticed the break")?;
        let mut plans = logs
            .first()
            .into_iter()
            .flat_map(|log| log.plans.iter().copied());
        let repath_s =
            soonest(&mut plans, broken_s + detection_s).context("no new plan came into force")?;
        Ok(Self {
            lost: (given.len() - came.len()) as f64,
            twice: (received.len() - came.len()) as f64,
            delayed: all.filter(|latency| *latency > late_ms).count() as f64,
            gap_ms: longest_gap(&moments),
            detection_ms: detection_s * 1e3,
            repath_ms: repath_s * 1e3,
        })
    }
}

/// Returns the longest time between two consecutive moments, in milliseconds.
pub(in super::super) fn longest_gap(moments: &[u64]) -> f64 {
    let gaps = moments.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or(0) as f64 / 1e6
}
