//! Compares what a producer gave with what one sink received.
//!
//! An ADU is identified by its time in the medium and its layer, which no hop changes; so a stream that
//! is published again, with sequence numbers from zero, is still the same stream of the world. The
//! nodes' counters explain missing ADUs:
//!
//! ```text
//! sent = delivered + cancelled + lost + unaccounted
//! ```
//!
//! Nodes count a stream for all of its sinks together, so no more is taken from their counters than is
//! missing here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_base::event::DropCause;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};
use thalweg_planner::model::Stream;
use thalweg_sim::film::Film;
use thalweg_sim::report::{StreamReport, Tally};
use thalweg_sim::viewer::Viewer;

use crate::role::note::Note;

#[cfg(test)]
mod tests;

/// The results of a stream at one sink.
#[derive(Clone, Debug, PartialEq)]
pub struct Score {
    /// In figures.
    pub stream: StreamReport,
    /// What should never have happened, one sentence each.
    pub violations: Vec<String>,
}

/// Compares a producer's notes with a subscriber's; `drops` are the nodes' counters of the stream.
///
/// Fails   only if pictures cannot be compared
pub fn score(
    stream: &Stream,
    sink: &str,
    given: &[Note],
    received: &[Note],
    drops: &[(String, DropCause, u64)],
    film: Option<Arc<Film>>,
) -> anyhow::Result<Score> {
    let deadline = stream.needs.deadline;
    let key = |note: &Note| (note.media_us, note.layer);
    let sent: BTreeMap<_, &Note> = given.iter().map(|note| (key(note), note)).collect();
    let mut tally = Tally::default();
    let mut viewer = film.map(|film| Viewer::new(film, deadline));
    for note in given {
        tally.handle_sent(note.importance, note.bytes);
        if let Some(viewer) = &mut viewer {
            viewer.handle_sent(frame(stream, note), Instant::from_nanos(note.at));
        }
    }
    let mut faults = Faults::default();
    let mut seen = BTreeSet::new();
    for note in received {
        let Some(original) = sent.get(&key(note)) else {
            faults.unknown += 1;
            continue;
        };
        if original.fingerprint != note.fingerprint {
            faults.changed += 1;
        }
        if stream.needs.order == Order::Sequence
            && seen.last().is_some_and(|last| *last > key(note))
        {
            faults.disordered += 1;
        }
        if !seen.insert(key(note)) {
            faults.repeated += 1;
            continue;
        }
        let latency = Duration::from_nanos(note.at.saturating_sub(original.due));
        let at = Instant::from_nanos(note.at);
        let in_time = at <= Instant::from_nanos(original.at) + deadline;
        tally.handle_delivered(note.importance, note.bytes, latency, in_time);
        if let Some(viewer) = &mut viewer {
            viewer.handle_delivered(frame(stream, note), note.layer, at);
        }
    }
    let mut missing = (given.len() - seen.len()) as u64;
    for (node, cause, count) in drops {
        let count = missing.min(*count);
        if count > 0 {
            tally.handle_dropped(*cause, node, count);
        }
        missing -= count;
    }
    let mut report = tally.report(stream.name.as_str(), sink);
    report.psnr = viewer.map(|viewer| viewer.report()).transpose()?.flatten();
    let violations = faults.sentences(stream.name.as_str(), sink);
    Ok(Score {
        stream: report,
        violations,
    })
}

/// Returns the index of an ADU's frame, from its time in the medium, which was rounded down to microseconds.
fn frame(stream: &Stream, note: &Note) -> u64 {
    (note.media_us as f64 * stream.traffic.frames / 1e6).round() as u64
}

/// Counts of what should never happen.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    unknown: u64,
    changed: u64,
    repeated: u64,
    disordered: u64,
}

impl Faults {
    fn sentences(self, stream: &str, sink: &str) -> Vec<String> {
        let kinds = [
            (self.unknown, "were not published by the producer"),
            (self.changed, "had a different payload than published"),
            (self.repeated, "were delivered more than once"),
            (
                self.disordered,
                "arrived after later ones although the stream is in sequence",
            ),
        ];
        let found = kinds.into_iter().filter(|(count, _)| *count > 0);
        found
            .map(|(count, what)| format!("`{stream}` at `{sink}`: {count} ADU(s) {what}"))
            .collect()
    }
}
