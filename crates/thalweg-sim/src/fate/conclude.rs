//! Closes the accounts: derives how each passage ended and sums the results for the report.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_control::ledger::Band;
use thalweg_link::hop::{Carriage, Outcome};
use thalweg_planner::model::{NodeName, World};

use super::{Attempt, Copy, Fates, Hop, Passage};
use crate::oracle::ledger::{Truth, is_link_cause, is_planned};
use crate::report::Tally;

/// If nothing has moved for this long, QUIC delivers nothing more: an outage of 8 s ends a link.
const QUIET: Duration = Duration::from_secs(10);

/// How an ADU's passage to a sink ended.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// The subscriber received it at this time.
    Delivered(Instant),
    /// It was kept in the mailbox and replayed to a subscriber that came later.
    Replayed,
    /// It was dropped at a node or on a link, `a->b`.
    Dropped(DropCause, String),
    /// A datagram left and did not arrive, so the line lost it.
    Vanished {
        /// The sending node.
        from: usize,
        /// The receiving node.
        to: usize,
        /// Payload bytes.
        bytes: u64,
    },
    /// No node accounts for it; the sentence says how far it got.
    Unaccounted(String),
}

/// Whether an ADU reached the node at which a grafted plan copies it.
enum CopySource<'a> {
    /// The plan carries the ADU itself, or a copy was made.
    Own,
    /// The ADU was whole at that node, and no copy was made there.
    Reached(usize),
    /// As `Reached`, but no copy is expected: the node or the sink was gone meanwhile.
    Left(usize),
    /// The ADU did not reach the node; this is the attempt that should have brought it there.
    Missing(&'a Attempt),
}

/// The closed accounts of a run.
#[derive(Clone, Debug, Default)]
pub struct Conclusion {
    /// The tally of each sink, by stream.
    pub tallies: Vec<Vec<Tally>>,
    /// The copies that no node accounts for, with how far they got.
    pub holes: Vec<(Copy, String)>,
    /// Payload bytes that vanished in datagrams, per direction of a link.
    pub vanished: BTreeMap<(usize, usize), u64>,
}

impl Fates {
    /// Returns whether every ADU sent has ended, as far as can be known before the run is over.
    pub fn is_settled(&self, now: Instant) -> bool {
        let is_quiet = now >= self.moved + QUIET;
        let is_crossing = |hop: &Hop| hop.is_whole || self.is_open(hop, is_quiet);
        let is_coming = |stream, adu, epoch: Epoch, attempt: &Attempt| {
            let copy_source = self.copy_source(stream, adu, epoch, attempt);
            let is_cast = !matches!(copy_source, CopySource::Left(_));
            let attempt = match copy_source {
                CopySource::Missing(base) => base,
                CopySource::Own | CopySource::Reached(_) | CopySource::Left(_) => attempt,
            };
            is_cast && attempt.dropped.is_none() && attempt.hops.iter().all(is_crossing)
        };
        let is_open = |stream, adu, passage: &Passage| {
            let mut attempts = passage.attempts.iter();
            let mut coming = attempts
                .by_ref()
                .map(|(epoch, attempt)| is_coming(stream, adu, *epoch, attempt));
            passage.delivered.is_none()
                && (passage.attempts.is_empty() || coming.any(|is_coming| is_coming))
        };
        let mut streams = self.streams.iter().enumerate();
        !streams.any(|(stream, fates)| {
            fates.passages.iter().any(|passages| {
                let mut passages = passages.iter().enumerate();
                passages.any(|(adu, passage)| is_open(stream, adu, passage))
            })
        })
    }

    /// Returns whether a grafted plan's copies can have begun.
    fn copy_source<'a>(
        &'a self,
        stream: usize,
        adu: usize,
        epoch: Epoch,
        attempt: &'a Attempt,
    ) -> CopySource<'a> {
        if !attempt.hops.is_empty() || attempt.dropped.is_some() {
            return CopySource::Own;
        }
        let given = attempt.given.unwrap_or(Instant::ZERO);
        self.copy_source_since((epoch, given), (stream, adu), epoch)
    }

    /// Returns how far the base plan brought an ADU towards the node that copies it for plan `epoch`,
    /// counting only crossings since `given`: a resent ADU crosses again although the base's own sink
    /// had it before. The plan of interest, `of`, is `epoch` itself or is grafted on it.
    fn copy_source_since(
        &self,
        (of, given): (Epoch, Instant),
        (stream, adu): (usize, usize),
        epoch: Epoch,
    ) -> CopySource<'_> {
        let mut ids = self.streams[stream].ids.iter().rev();
        let Some(id) = ids.find(|id| self.published[*id].1 <= adu) else {
            return CopySource::Own;
        };
        let Some((base, node)) = self.grafts.get(&(*id, epoch)) else {
            return CopySource::Own;
        };
        let sink = self.planned.get(&(*id, *base));
        let passage = sink.and_then(|sink| self.streams[stream].passages[*sink].get(adu));
        let Some(first) = passage.and_then(|passage| passage.attempts.get(base)) else {
            return CopySource::Own;
        };
        let has_come = |hop: &&Hop| hop.to == *node && hop.is_whole && hop.arrived_at >= given;
        if let Some(hop) = first.hops.iter().find(has_come) {
            let sink = self.planned.get(&(*id, epoch));
            let sink = sink.map_or(*node, |sink| self.streams[stream].sinks[*sink]);
            let is_left = self.is_gone(*node, hop.handed)
                || self.is_gone(sink, hop.handed)
                || self.had_stopped_copying((*id, of), (*id, epoch), [given, hop.arrived_at]);
            return if is_left {
                CopySource::Left(*node)
            } else {
                CopySource::Reached(*node)
            };
        }
        let is_under_way = first.hops.iter().any(|hop| hop.handed >= given);
        if is_under_way || first.dropped.is_some() {
            return CopySource::Missing(first);
        }
        match self.copy_source_since((of, given), (stream, adu), *base) {
            CopySource::Own => CopySource::Missing(first),
            copy_source => copy_source,
        }
    }

    /// Returns whether copying for a plan had already stopped when the ADU came, because the plan's
    /// sink had left.
    ///
    /// The source stops the copies when it learns that the sink left, and that message overtakes ADUs
    /// queued on the way to the copying node. The source counts what was copied, so these ADUs appear
    /// in no count. An ADU qualifies if it was given before the copies stopped, whether or not the
    /// source knew; after that the source gives no more.
    fn had_stopped_copying(
        &self,
        plan: (StreamId, Epoch),
        copied: (StreamId, Epoch),
        [given, arrived_at]: [Instant; 2],
    ) -> bool {
        let (left, ceased) = (self.left.get(&plan), self.ceased.get(&copied));
        left.zip(ceased).is_some_and(|(left, ceased)| {
            left <= ceased && given < *ceased && *ceased <= arrived_at
        })
    }

    pub(super) fn is_gone(&self, node: usize, since: Instant) -> bool {
        self.gone.get(&node).is_some_and(|at| *at >= since)
    }

    /// Closes the accounts.
    pub fn conclude(&self, world: &World, names: &[NodeName]) -> Conclusion {
        let mut conclusion = Conclusion::default();
        for (stream, fates) in self.streams.iter().enumerate() {
            let deadline = world.streams[stream].needs.deadline;
            let mut tallies = Vec::new();
            // All sinks with copies made behind the link share one datagram, so it is counted once.
            let mut vanished = BTreeSet::new();
            for (sink, passages) in fates.passages.iter().enumerate() {
                let mut tally = Tally::default();
                for (adu, (sent, passage)) in fates.sent.iter().zip(passages).enumerate() {
                    let bytes = sent.payload.len();
                    tally.handle_sent(sent.importance.0, bytes);
                    match self.end((stream, adu), passage, names) {
                        End::Delivered(at) => {
                            let latency = at.saturating_since(sent.due);
                            let in_time = at <= sent.due + deadline;
                            tally.handle_delivered(sent.importance.0, bytes, latency, in_time);
                        }
                        End::Replayed => tally.handle_replayed(sent.importance.0, bytes),
                        End::Dropped(cause, place) => tally.handle_dropped(cause, &place, 1),
                        End::Vanished { from, to, bytes } => {
                            if vanished.insert((adu, from, to)) {
                                let sum = conclusion.vanished.entry((from, to)).or_default();
                                *sum += bytes;
                            }
                            tally.handle_dropped(DropCause::PathLost, &link(from, to, names), 1);
                        }
                        End::Unaccounted(how) => {
                            let copy = Copy {
                                stream,
                                sink,
                                adu,
                                epoch: Epoch(0),
                            };
                            conclusion.holes.push((copy, how));
                        }
                    }
                }
                tallies.push(tally);
            }
            conclusion.tallies.push(tallies);
        }
        conclusion
    }

    /// Returns the fate of a stream's ADUs that were given under a plan, for comparison with the
    /// source's ledger.
    pub fn truth(&self, stream: usize, names: &[NodeName]) -> Truth {
        let fates = &self.streams[stream];
        let mut truth = Truth::default();
        for passages in &fates.passages {
            for (adu, (sent, passage)) in fates.sent.iter().zip(passages).enumerate() {
                // The delivering copy may be one that the source has not counted yet: a relay copies
                // before it reports.
                truth.delivered += u64::from(passage.delivered.is_some());
                for (epoch, attempt) in &passage.attempts {
                    for hop in attempt.hops.iter().filter(|hop| hop.is_returned()) {
                        let place = (hop.from, Band::of(sent.importance));
                        *truth.returned.entry(place).or_default() += 1;
                    }
                    if passage.delivered.is_some_and(|(_, by)| by == *epoch) {
                        continue;
                    }
                    // An ADU that never reached the copying node is counted under the base plan, where
                    // it was lost.
                    if matches!(
                        self.copy_source(stream, adu, *epoch, attempt),
                        CopySource::Missing(_)
                    ) {
                        continue;
                    }
                    let end = self.end_of_attempt((stream, adu), (*epoch, attempt), names);
                    if let Some((cause, node)) = cause_of_end(&end, fates.source, names)
                        && is_planned(cause)
                    {
                        let loss = (node, cause, Band::of(sent.importance));
                        *truth.lost.entry(loss).or_default() += 1;
                    }
                }
            }
        }
        truth
    }

    /// Returns, for each ADU of a stream that a link did not bring: when it was handed over and when
    /// its outcome was known, the sending node, and its band. The line lost its datagram, or the sender
    /// dropped it.
    pub fn vanished(&self, stream: usize) -> Vec<([Instant; 2], (usize, Band))> {
        let fates = &self.streams[stream];
        let mut vanished = Vec::new();
        for passages in &fates.passages {
            for (sent, passage) in fates.sent.iter().zip(passages) {
                for attempt in passage.attempts.values() {
                    let last = attempt.hops.iter().find(|hop| !hop.is_whole);
                    let is_lost = |hop: &&Hop| {
                        let is_datagram = hop.carriage == Carriage::Datagram;
                        let cause = hop.outcome.and_then(Outcome::drop_cause);
                        is_datagram && hop.outcome == Some(Outcome::Departed)
                            || cause.is_some_and(is_link_cause)
                    };
                    if let Some(hop) = last.filter(is_lost) {
                        let at = [hop.handed, hop.ended];
                        vanished.push((at, (hop.from, Band::of(sent.importance))));
                    }
                }
            }
        }
        vanished
    }

    /// Returns how an ADU ended; of several failed attempts, the last counts.
    ///
    /// An ADU given while its sink had no plan may have been kept and replayed later. If the replay
    /// failed, the first attempt counts.
    fn end(&self, adu: (usize, usize), passage: &Passage, names: &[NodeName]) -> End {
        let early = passage.attempts.get(&Epoch(0));
        let early = early.and_then(|attempt| attempt.dropped);
        match (passage.delivered, early) {
            (Some(_), Some(_)) if passage.is_replayed => return End::Replayed,
            (Some((at, _)), _) => return End::Delivered(at),
            (None, Some((cause, node))) if passage.is_replayed => {
                return End::Dropped(cause, names[node].to_string());
            }
            (None, _) => {}
        }
        let none = Attempt::default();
        let none = (Epoch(0), &none);
        let last = passage.attempts.iter().next_back();
        let last = last.map_or(none, |(epoch, attempt)| (*epoch, attempt));
        self.end_of_attempt(adu, last, names)
    }

    fn end_of_attempt(
        &self,
        (stream, adu): (usize, usize),
        (epoch, attempt): (Epoch, &Attempt),
        names: &[NodeName],
    ) -> End {
        let attempt = match self.copy_source(stream, adu, epoch, attempt) {
            CopySource::Own => attempt,
            CopySource::Missing(base) => base,
            CopySource::Left(node) => {
                return End::Dropped(DropCause::PathLost, names[node].to_string());
            }
            CopySource::Reached(node) => {
                return End::Unaccounted(format!("it was not copied at {}", names[node]));
            }
        };
        if let Some((cause, node)) = attempt.dropped {
            return End::Dropped(cause, names[node].to_string());
        }
        if let Some(hop) = attempt.hops.iter().find(|hop| !hop.is_whole) {
            return self.end_of_hop(hop, names);
        }
        let source = self.streams[stream].source;
        let at = attempt.hops.last().map_or(source, |hop| hop.to);
        End::Unaccounted(format!("it was last seen whole at {}", names[at]))
    }

    /// Returns whether a hop may still complete.
    fn is_open(&self, hop: &Hop, is_quiet: bool) -> bool {
        match hop.outcome {
            None => !hop.is_orphan,
            Some(Outcome::Departed) if hop.carriage != Carriage::Datagram => {
                !self.is_cut(hop) && !hop.is_orphan
            }
            // It may wait in QUIC for an outage to end.
            Some(Outcome::Departed) => !is_quiet && !self.is_cut(hop),
            Some(_) => false,
        }
    }

    /// Returns whether the link was down, or one of its ends gone, since the hop began.
    fn is_cut(&self, hop: &Hop) -> bool {
        let since = |at: Option<&Instant>| at.is_some_and(|at| *at >= hop.handed);
        since(
            self.downs
                .get(&(hop.from, hop.to))
                .and_then(|downs| downs.last()),
        ) || since(self.gone.get(&hop.from))
            || since(self.gone.get(&hop.to))
    }

    /// Returns why a hop failed: by the sender's report, else the receiver's, else what else is known.
    fn end_of_hop(&self, hop: &Hop, names: &[NodeName]) -> End {
        let place = link(hop.from, hop.to, names);
        if let Some(cause) = hop.outcome.and_then(Outcome::drop_cause).or(hop.failed) {
            return End::Dropped(cause, place);
        }
        match hop.outcome {
            Some(Outcome::Departed) if hop.carriage == Carriage::Datagram => End::Vanished {
                from: hop.from,
                to: hop.to,
                bytes: hop.bytes,
            },
            Some(_) if self.is_cut(hop) => End::Dropped(DropCause::PathLost, place),
            _ if hop.is_orphan => End::Dropped(DropCause::PathLost, place),
            Some(outcome) => End::Unaccounted(format!(
                "{place} reported `{}`, but it did not arrive at {}",
                outcome.name(),
                names[hop.to]
            )),
            None => End::Unaccounted(format!(
                "it was handed to {place}, which reported no outcome"
            )),
        }
    }
}

/// Returns the cause and the node of a loss, if the ADU was lost.
fn cause_of_end(end: &End, source: usize, names: &[NodeName]) -> Option<(DropCause, usize)> {
    match end {
        End::Dropped(cause, place) => {
            let node = place.split("->").next().unwrap_or_default();
            let node = names.iter().position(|name| name.as_str() == node);
            Some((*cause, node.unwrap_or(source)))
        }
        End::Vanished { from, .. } => Some((DropCause::PathLost, *from)),
        // Holes are violations of their own: every ADU must have a cause and a place.
        End::Delivered(_) | End::Replayed | End::Unaccounted(_) => None,
    }
}

fn link(from: usize, to: usize, names: &[NodeName]) -> String {
    format!("{}->{}", names[from], names[to])
}
