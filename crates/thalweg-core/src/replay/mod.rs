//! What a node keeps of the streams that pass it, so that who joins late need not wait for the next key ADU.
//!
//! *The idea.* A receiver can start at a key ADU of the base layer, and needs what follows it. So of each plan there is one
//! *group*: the newest such ADU that is here whole, and all that has come after it. When another has come whole, what is older
//! goes. A joiner is given the group, then what is live.
//!
//! ```text
//!  key 40 · 41 · 42 · … · 64 │ key 65 · 66            65 still arrives: the group begins at 40
//!                            │ key 65 · 66 · 67       65 is here: the group begins at 65, and 40 to 64 are gone
//! ```
//!
//! A group that has a hole in the middle is worth nothing, so what goes for want of room goes whole: of one that is too long
//! nothing is kept until the next key ADU, and of all together the longest goes first. A plan without key ADUs has no group.
//!
//! What is in a group is late by design. It is given out as if it came now: with what the newest of it had left of its time when
//! it came, counted from now, so that all of it has one deadline and goes by sequence.
//!
//! *What it does not do.* It sends nothing, and does not know who joins. The end of a stream is not kept.
//!
//! *Sources.* docs/recast.md §6.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::adu::{Adu, Flags, Header, Mark};
use crate::id::{Epoch, StreamId};
use crate::limits::{REPLAY_ADUS_MAX, REPLAY_BYTES_MAX, REPLAY_GROUPS_MAX, REPLAY_TOTAL_BYTES_MAX};
use crate::time::{Duration, Instant};

mod opening;
#[cfg(test)]
mod tests;

pub use opening::{OPENING_MAX, Opening};

/// A stream and the plan under which its ADUs come; at its source, where they come under none, [`Epoch`] 0.
pub type Plan = (StreamId, Epoch);

/// The groups of all plans on a node.
#[derive(Debug, Default)]
pub struct Replay {
    groups: BTreeMap<Plan, Group>,
    bytes: u64,
}

#[derive(Debug)]
struct Group {
    /// The sequence of the key ADU that it begins with, once that is here whole.
    key: Option<u64>,
    /// That of the first key ADU that began to come: until one is here nothing before it is wanted.
    coming: u64,
    adus: BTreeMap<u64, Adu>,
    bytes: u64,
    newest: Newest,
}

/// What is known of the ADU of the greatest sequence when it came.
#[derive(Clone, Copy, Debug)]
struct Newest {
    sequence: u64,
    /// What it had left of its time; `None` if it has no deadline.
    left: Option<Duration>,
    mark: Mark,
}

impl Replay {
    /// Takes in that an ADU begins to come; returns whether it is to be told when it is whole.
    ///
    /// Cost    O(log groups)
    pub fn handle_begun(&mut self, plan: Plan, header: &Header) -> bool {
        let sequence = header.sequence.0;
        if header.flags.contains(Flags::END) {
            return false;
        }
        if !is_key(header) {
            let group = self.groups.get(&plan);
            return group.is_some_and(|group| sequence > group.start());
        }
        if !self.groups.contains_key(&plan) && self.groups.len() >= REPLAY_GROUPS_MAX {
            return false;
        }
        let group = self.groups.entry(plan).or_insert_with(|| Group {
            key: None,
            coming: sequence,
            adus: BTreeMap::new(),
            bytes: 0,
            newest: Newest {
                sequence,
                left: None,
                mark: Mark::NONE,
            },
        });
        sequence >= group.start()
    }

    /// Takes in an ADU that is here whole, and of which that was wanted.
    ///
    /// Cost    O(log ADUs); of a key ADU O(ADUs that go)
    pub fn handle_whole(&mut self, plan: Plan, adu: &Adu, now: Instant) {
        let Some(group) = self.groups.get_mut(&plan) else {
            return;
        };
        let before = group.bytes;
        group.take(adu, now);
        let is_too_long =
            group.adus.len() > REPLAY_ADUS_MAX || group.bytes > REPLAY_BYTES_MAX.as_bytes();
        self.bytes = self.bytes - before + group.bytes;
        if is_too_long {
            self.forget(plan);
        }
        while self.bytes > REPLAY_TOTAL_BYTES_MAX.as_bytes() {
            let longest = self.groups.iter().max_by_key(|(_, group)| group.bytes);
            let Some((longest, _)) = longest else {
                return;
            };
            self.forget(*longest);
        }
    }

    /// Forgets the group of a plan.
    pub fn forget(&mut self, plan: Plan) {
        if let Some(group) = self.groups.remove(&plan) {
            self.bytes -= group.bytes;
        }
    }

    /// Returns the group of a plan by sequence, as if it came now; nothing if its key ADU is not here.
    ///
    /// Cost    O(ADUs); payloads are shared
    pub fn group(&self, plan: Plan, now: Instant) -> Vec<Adu> {
        let group = self.groups.get(&plan);
        let Some((group, key)) = group.and_then(|group| Some((group, group.key?))) else {
            return Vec::new();
        };
        let deadline = group.newest.left.map_or(Instant::NEVER, |left| now + left);
        let adus = group.adus.range(key..).map(|(_, adu)| {
            let mut adu = adu.clone();
            adu.header.deadline = deadline;
            adu.header.set_mark(group.newest.mark);
            adu
        });
        adus.collect()
    }

    /// Returns how many ADUs are kept, and how many payload bytes.
    ///
    /// Cost    O(groups)
    pub fn size(&self) -> (usize, u64) {
        let adus = self.groups.values().map(|group| group.adus.len());
        (adus.sum(), self.bytes)
    }
}

impl Group {
    /// Returns the sequence before which nothing is wanted.
    fn start(&self) -> u64 {
        self.key.unwrap_or(self.coming)
    }

    fn take(&mut self, adu: &Adu, now: Instant) {
        let header = &adu.header;
        let sequence = header.sequence.0;
        if sequence < self.start() {
            return;
        }
        if is_key(header) {
            self.key = Some(sequence);
            let kept = self.adus.split_off(&sequence);
            let gone = core::mem::replace(&mut self.adus, kept);
            let gone = gone.values().map(|adu| adu.payload.len() as u64);
            self.bytes -= gone.sum::<u64>();
        }
        if sequence >= self.newest.sequence {
            let has_deadline = !header.deadline.is_never();
            self.newest = Newest {
                sequence,
                left: has_deadline.then(|| header.deadline.saturating_since(now)),
                mark: header.mark(),
            };
        }
        self.bytes += adu.payload.len() as u64;
        if let Some(twin) = self.adus.insert(sequence, adu.clone()) {
            self.bytes -= twin.payload.len() as u64;
        }
    }
}

/// Returns whether a receiver can start at an ADU: a key of the base layer, for the others need that.
const fn is_key(header: &Header) -> bool {
    header.layer == 0 && header.flags.contains(Flags::KEY)
}
