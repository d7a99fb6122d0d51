//! Producers that do not answer: the node next to one tells those behind, and a sink turns to another of that name.
//!
//! *The idea.* When a producer's node dies, its neighbours know within moments ([`Controller::handle_silence`]), its sinks
//! only when its links are given up, after 8 s. So what its next nodes know goes the way of ADUs, to the sinks; there another
//! producer of that name takes over, if there is one. Where there is none, nothing changes: who is silent may come back.
//!
//! ```text
//! producer ✂ ── relay ── Silence ──► relay ── Silence ──► sink: Subscribe ──► the producer that stands by
//! ```
//!
//! A source that has another way takes it before the word goes round, [`TELL_AFTER`] the silence; its sinks then have a newer plan,
//! and what is said of an older one is passed over.
//!
//! *What it does not do.* It sends nobody back: who has turned to another stays there.
//!
//! *Sources.* docs/continuity.md §1, docs/recast.md; docs/protocol.md §4.8.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::part::Part;
use super::sink::Subscription;
use super::suspects::SUSPECT_HOLD;
use super::{Controller, Note};
use crate::id::{Epoch, NodeId, StreamId};
use crate::time::{Duration, Instant};
use crate::wire::control::Message;
use crate::wire::receipt::Silence;

/// How long a source is silent before its sinks are told: twice as long as one with another way takes to go by that.
pub(super) const TELL_AFTER: Duration = Duration::from_millis(500);

/// Producers of wanted streams that do not answer, and until when that is remembered.
#[derive(Debug, Default)]
pub(super) struct SilentProducers(BTreeMap<NodeId, Instant>);

impl SilentProducers {
    /// Returns whether a producer does not answer.
    pub(super) fn has(&self, producer: NodeId) -> bool {
        self.0.contains_key(&producer)
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.0.values().min().copied().unwrap_or(Instant::NEVER)
    }

    /// Returns whether that is news.
    fn insert(&mut self, producer: NodeId, until: Instant) -> bool {
        self.0.insert(producer, until).is_none()
    }

    /// Takes in that a producer answers.
    pub(super) fn remove(&mut self, producer: NodeId) {
        self.0.remove(&producer);
    }

    /// Returns whether any is forgotten.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let before = self.0.len();
        self.0.retain(|_, until| *until > now);
        self.0.len() != before
    }
}

impl Controller {
    /// Says of every plan of a silent neighbour's streams that it is silent.
    pub(super) fn tell_source_silent(&mut self, peer: NodeId, now: Instant) {
        let parts = self.parts.iter();
        let of_peer = parts.filter(|(_, part)| part.installation().source == peer);
        let comes = |(stream, epoch): (StreamId, Epoch)| self.way_up(stream, epoch) == Some(peer);
        let plans = of_peer.map(|(key, _)| *key).filter(|key| comes(*key));
        let plans: Vec<(StreamId, Epoch)> = plans.collect();
        for (stream, epoch) in plans {
            self.pass_source_silent(stream, epoch, now);
        }
    }

    pub(super) fn handle_source_silent(&mut self, from: NodeId, silence: Silence, now: Instant) {
        let Silence { stream, epoch } = silence;
        let part = self.parts.get(&(stream, epoch)).map(Part::installation);
        if part.is_none_or(|part| part.previous != from) {
            // Before all parts are gone through: anybody may say it.
            return self.note(Note::SilenceAstray { from });
        }
        let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
        let epochs = self.parts.range(of_stream).map(|((_, epoch), _)| *epoch);
        // What is grafted here has its ADUs from there too.
        let behind = epochs.filter(|behind| self.via(stream, *behind) == Some((from, epoch)));
        let behind: Vec<Epoch> = behind.collect();
        for epoch in behind {
            self.pass_source_silent(stream, epoch, now);
        }
    }

    /// Tells the node after that the source of a plan does not answer, or takes it in where the plan ends.
    fn pass_source_silent(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let part = self.parts.get(&(stream, epoch));
        let Some(part) = part.map(Part::installation) else {
            return;
        };
        match (part.next, part.source) {
            (Some(next), _) => self.send(next, &Message::Silence(Silence { stream, epoch })),
            (None, producer) if self.newest_ending(stream) == Some(epoch) => {
                self.doubt_producer(stream, producer, now);
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

    /// Takes in that the producer of a stream that ends here does not answer.
    fn doubt_producer(&mut self, stream: StreamId, producer: NodeId, now: Instant) {
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
