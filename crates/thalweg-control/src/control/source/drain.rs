//! Draining streams: the publisher is gone, and what it sent still reaches the sinks.
//!
//! *The idea.* A stream is announced until what was sent has reached its sinks or is dropped; so
//! long, they keep their plans. Its name is taken only while its program is connected: another
//! program may publish it meanwhile, as another stream. The sinks of the first reach its end, which
//! marks it as cut off ([`Sequel`](crate::control::Sequel)), and switch to the next.
//!
//! ```text
//! open ─► program gone: draining ─► settled, or room is needed: withdrawn ─► over
//!   └──────── finished ──────────────────────────────────────────┘
//! ```
//!
//! *What it does not do.* It does not know when the stream has settled: the driver withdraws it then.
//!
//! *Sources.* docs/concepts/recast.md §7.

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::limits::OPENING_MAX;
use thalweg_base::limits::{HOLD_TOTAL_BYTES_MAX, STREAMS_PER_NODE_MAX};
use thalweg_base::needs::Needs;
use thalweg_base::time::Instant;

use super::Source;
use crate::control::{Controller, Keys, Note};

/// The stages of a published stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its publisher is connected.
    Open,
    /// Its publisher is gone since then. What it sent goes to the sinks that the stream has, and
    /// another program may publish the name.
    Draining(Instant),
    /// It is withdrawn.
    Withdrawn,
}

impl Source {
    /// Returns whether the stream stands in this node's record: it is open or drains.
    pub(in crate::control) const fn is_announced(&self) -> bool {
        !matches!(self.stage, Stage::Withdrawn)
    }

    /// Returns whether a sink that asks now is served. Shortly after the publisher is gone new
    /// sinks are served too: what a short-lived program sent is for the sinks that waited for it.
    pub(super) fn accepts(&self, sink: NodeId, now: Instant) -> bool {
        match self.stage {
            Stage::Open => true,
            Stage::Draining(since) => self.sinks.contains_key(&sink) || now < since + OPENING_MAX,
            Stage::Withdrawn => false,
        }
    }

    const fn drains_since(&self) -> Option<Instant> {
        match self.stage {
            Stage::Draining(since) => Some(since),
            Stage::Open | Stage::Withdrawn => None,
        }
    }
}

impl Controller {
    /// Returns how many streams this node announces, and how many payload bytes they may hold.
    pub(super) fn announced_load(&self) -> (usize, u64) {
        let announced = self.sources.values().filter(|one| one.is_announced());
        announced.fold((0, 0), |(streams, held), source| {
            (streams + 1, held + held_bytes(&source.publication.needs))
        })
    }

    /// Withdraws the streams that have drained longest, if a new publisher would otherwise lack room.
    pub(super) fn make_room(&mut self, needs: &Needs, now: Instant, keys: &mut dyn Keys) {
        loop {
            let (streams, held) = self.announced_load();
            let has_room = streams < STREAMS_PER_NODE_MAX
                && held + held_bytes(needs) <= HOLD_TOTAL_BYTES_MAX.as_bytes();
            let draining = self.sources.values();
            let draining = draining.filter_map(|one| Some((one.drains_since()?, one.stream())));
            let Some((_, oldest)) = draining.min().filter(|_| !has_room) else {
                return;
            };
            self.unpublish(oldest, now, keys);
        }
    }

    /// Handles the disconnection of a stream's publisher: the name is free, and what was sent drains.
    pub fn drain(&mut self, stream: StreamId, now: Instant, keys: &mut dyn Keys) {
        let Some(source) = self.sources.get_mut(&stream).filter(|one| one.is_open()) else {
            return;
        };
        source.stage = Stage::Draining(now);
        let name = source.publication.name.clone();
        self.note(Note::Draining { stream: name });
        self.announce(now, keys);
        self.settle(now, keys);
    }
}

/// Returns how many payload bytes a stream may hold.
pub(super) fn held_bytes(needs: &Needs) -> u64 {
    if needs.is_held() {
        needs.hold_size.as_bytes()
    } else {
        0
    }
}
