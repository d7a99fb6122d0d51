//! Streams whose program is gone: what it gave drains, and their names are free.
//!
//! *The idea.* A stream is announced until what was given has reached its sinks, or is given up; for as long
//! they keep their plans. Its name is taken only while its program is there: another may publish it
//! meanwhile, as another stream. The sinks of the first come to its end, which says that it was cut off
//! ([`sequel`](super::sequel)), and take the next.
//!
//! ```text
//! open ─► program gone: draining ─► settled, or room is wanted: withdrawn ─► over
//!   └──────── finished ─────────────────────────────────────────┘
//! ```
//!
//! *What it does not do.* It does not know what has settled: the driver withdraws the stream then.
//!
//! *Sources.* docs/recast.md §7.

use super::source::Source;
use super::{Controller, Keys, Note};
use crate::id::{NodeId, StreamId};
use crate::limits::{HOLD_TOTAL_BYTES_MAX, STREAMS_PER_NODE_MAX};
use crate::needs::Needs;
use crate::replay::OPENING_MAX;
use crate::time::Instant;

/// How far a published stream is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its publisher is there.
    Open,
    /// Its publisher's program is gone since then: what it gave is still carried to the sinks that the stream
    /// has, and another program may publish the name.
    Draining(Instant),
    /// It is withdrawn.
    Withdrawn,
}

impl Source {
    /// Returns whether the stream stands in this node's record: its publisher is there, or what it gave still
    /// drains.
    pub(super) const fn is_announced(&self) -> bool {
        !matches!(self.stage, Stage::Withdrawn)
    }

    /// Returns whether a sink is served that asks now. What a program gave that died soon is for the sinks that waited for it.
    pub(super) fn takes(&self, sink: NodeId, now: Instant) -> bool {
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
    /// Returns how many streams this node announces, and how much payload they may have held.
    pub(super) fn announced_load(&self) -> (usize, u64) {
        let announced = self.sources.values().filter(|one| one.is_announced());
        announced.fold((0, 0), |(streams, held), source| {
            (streams + 1, held + held_bytes(&source.publication.needs))
        })
    }

    /// Withdraws those streams that have drained for longest, where a publisher that is there would lack
    /// their room.
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

    /// Takes in that the program that published a stream is gone: the stream's name is free, what was given
    /// is still carried to its sinks.
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

/// Returns how much payload a stream may have held.
pub(super) fn held_bytes(needs: &Needs) -> u64 {
    if needs.is_held() {
        needs.hold_size.as_bytes()
    } else {
        0
    }
}
