//! Silent producers: the next nodes report them, and sinks switch to another producer of the name.
//!
//! *The idea.* When a producer's node dies, its neighbours notice within moments
//! ([`Controller::handle_hearing`]); its sinks only when its links leave the map, after 8 s. So the
//! neighbours send a report along the path of the ADUs to the sinks. There another producer of that
//! name takes over, if there is one. If there is none, nothing changes: the silent one may return.
//!
//! ```text
//! producer ✂ ── relay ── Silence ──► relay ── Silence ──► sink: Subscribe ──► the producer that stands by
//! ```
//!
//! A source with another path switches before the report is sent, [`SILENCE_REPORT_DELAY`] after the silence.
//! Its sinks then have a newer plan, and ignore a report on an older one.
//!
//! *What it does not do.* It switches no sink back: a sink stays with the producer that it switched to.
//!
//! *Sources.* docs/concepts/continuity.md §1, docs/concepts/recast.md; docs/reference/protocol.md §4.8.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::Message;
use thalweg_base::wire::receipt::Silence;

use super::part::Part;
use super::sink::Subscription;
use super::suspects::SUSPECT_HOLD;
use super::{Controller, Note};

/// How long a source is silent before its sinks are notified: twice as long as it takes to switch
/// to another path.
pub(super) const SILENCE_REPORT_DELAY: Duration = Duration::from_millis(500);

/// Silent producers of wanted streams, and until when that is remembered.
#[derive(Debug, Default)]
pub(super) struct SilentProducers(BTreeMap<NodeId, Instant>);

impl SilentProducers {
    /// Returns whether a producer is silent.
    pub(super) fn has(&self, producer: NodeId) -> bool {
        self.0.contains_key(&producer)
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.0.values().min().copied().unwrap_or(Instant::NEVER)
    }

    /// Records a silent producer; returns whether that is news.
    fn insert(&mut self, producer: NodeId, until: Instant) -> bool {
        self.0.insert(producer, until).is_none()
    }

    /// Handles an answer of a producer.
    pub(super) fn remove(&mut self, producer: NodeId) {
        self.0.remove(&producer);
    }

    /// Forgets silences that are over; returns whether there were any.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|_, until| *until > now);
        self.0.len() != before
    }
}

impl Controller {
    /// Reports a silent neighbour as a silent source, for every plan of its streams that comes from it.
    pub(super) fn report_source_silent(&mut self, peer: NodeId, now: Instant) {
        let parts = self.parts.iter();
        let of_peer = parts.filter(|(_, part)| part.installation().source == peer);
        let comes = |(stream, epoch): (StreamId, Epoch)| self.upstream(stream, epoch) == Some(peer);
        let plans = of_peer.map(|(key, _)| *key).filter(|key| comes(*key));
        let plans: Vec<(StreamId, Epoch)> = plans.collect();
        for (stream, epoch) in plans {
            self.forward_source_silent(stream, epoch, now);
        }
    }

    pub(super) fn handle_source_silent(&mut self, from: NodeId, silence: Silence, now: Instant) {
        let Silence { stream, epoch } = silence;
        let part = self.parts.get(&(stream, epoch)).map(Part::installation);
        if part.is_none_or(|part| part.previous != from) {
            // Checked before the search over all parts: any neighbour may send this.
            return self.note(Note::SilenceAstray { from });
        }
        let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
        let epochs = self.parts.range(of_stream).map(|((_, epoch), _)| *epoch);
        // Plans that are grafted here are fed from there too.
        let behind = epochs.filter(|behind| self.via(stream, *behind) == Some((from, epoch)));
        let behind: Vec<Epoch> = behind.collect();
        for epoch in behind {
            self.forward_source_silent(stream, epoch, now);
        }
    }

    /// Forwards the report to the next node of a plan, or applies it where the plan ends.
    fn forward_source_silent(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let part = self.parts.get(&(stream, epoch));
        let Some(part) = part.map(Part::installation) else {
            return;
        };
        match (part.next, part.source) {
            (Some(next), _) => self.send(next, &Message::Silence(Silence { stream, epoch })),
            (None, producer) if self.newest_ending(stream) == Some(epoch) => {
                self.suspect_producer(stream, producer, now);
            }
            (None, _) => {}
        }
    }

    /// Returns the newest plan of a stream that ends here.
    pub(super) fn newest_ending(&self, stream: StreamId) -> Option<Epoch> {
        let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
        let mut newest_first = self.parts.range(of_stream).rev();
        let ends_here = |part: &Part| part.installation().next.is_none();
        let (plan, _) = newest_first.find(|(_, part)| ends_here(part))?;
        Some(plan.1)
    }

    /// Handles a silent producer of a stream that ends here.
    fn suspect_producer(&mut self, stream: StreamId, producer: NodeId, now: Instant) {
        let is_it = |subscription| matches!(subscription, Subscription::Found { stream: of, .. } if of == stream);
        let mut wanted = self.wanted.iter();
        let name = wanted.find(|(_, wanted)| is_it(wanted.subscription));
        let Some(name) = name.map(|(name, _)| name.clone()) else {
            return;
        };
        let has_other = {
            let mut producers = self.directory.publishers(&name);
            producers.any(|(other, _)| other != producer)
        };
        if !has_other {
            return;
        }
        let until = now + SUSPECT_HOLD;
        if self.continuity.silent_producers.insert(producer, until) {
            self.is_changed = true;
            self.note(Note::ProducerSilent {
                stream: name,
                producer,
            });
        }
    }
}
