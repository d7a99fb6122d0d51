//! The newest group of each stream that passes a node, so that a late joiner need not wait for the
//! next key ADU.
//!
//! *The idea.* A receiver can start at a key ADU of the base layer, and needs everything after it.
//! So each plan has one *group*: the newest such ADU that has arrived completely, and all ADUs
//! after it. When another key ADU is complete, older ADUs are dropped. A joiner gets the group,
//! then the live stream.
//!
//! ```text
//!  key 40 · 41 · 42 · … · 64 │ key 65 · 66            65 still arrives: the group begins at 40
//!                            │ key 65 · 66 · 67       65 is here: the group begins at 65, 40 to 64 are gone
//! ```
//!
//! A group with a hole is worthless, so evictions take whole groups. A plan without key ADUs has no group.
//!
//! What a node keeps of all its streams is bounded by one [`Budget`], which their `Replay`s share.
//!
//! *What it does not do.* It sends nothing, and does not know which sinks join. The end of a stream
//! is not kept.
//!
//! *Sources.* docs/concepts/recast.md §6.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use thalweg_base::adu::{Adu, Flags, Header, Mark};
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::limits::{
    REPLAY_ADUS_MAX, REPLAY_BYTES_MAX, REPLAY_GROUPS_MAX, REPLAY_TOTAL_BYTES_MAX,
};
use thalweg_base::time::{Duration, Instant};

mod opening;
#[cfg(test)]
mod tests;

pub use opening::Opening;
pub use thalweg_base::limits::OPENING_MAX;

/// A stream and the plan that brings its ADUs; at the source, where they come under none, [`Epoch`] 0.
pub type Plan = (StreamId, Epoch);

/// The groups of the plans of a node, or of one of its streams.
#[derive(Debug, Default)]
pub struct Replay {
    groups: BTreeMap<Plan, Group>,
    bytes: u64,
    budget: Budget,
}

/// What the groups of several [`Replay`]s take together, within the bounds of a node.
#[derive(Clone, Debug, Default)]
pub struct Budget(Arc<Used>);

#[derive(Debug, Default)]
struct Used {
    bytes: AtomicU64,
    groups: AtomicUsize,
}

#[derive(Debug)]
struct Group {
    /// The sequence of its key ADU, once that is complete.
    key: Option<u64>,
    /// The sequence of the first key ADU that began to arrive; earlier ADUs are not kept.
    first_key: u64,
    adus: BTreeMap<u64, Adu>,
    bytes: u64,
    newest: Newest,
}

/// The ADU with the greatest sequence, as it arrived.
#[derive(Clone, Copy, Debug)]
struct Newest {
    sequence: u64,
    /// The time that was left until its deadline; `None` without a deadline.
    time_left: Option<Duration>,
    mark: Mark,
}

impl Budget {
    /// Takes room for one more group; returns whether there was some.
    fn take_group(&self) -> bool {
        let groups = &self.0.groups;
        if groups.fetch_add(1, Relaxed) < REPLAY_GROUPS_MAX {
            return true;
        }
        groups.fetch_sub(1, Relaxed);
        false
    }

    /// Handles a group that took `before` bytes and takes `after` now.
    fn handle_resized(&self, before: u64, after: u64) {
        if after > before {
            self.0.bytes.fetch_add(after - before, Relaxed);
        } else {
            self.0.bytes.fetch_sub(before - after, Relaxed);
        }
    }

    fn is_exceeded(&self) -> bool {
        self.0.bytes.load(Relaxed) > REPLAY_TOTAL_BYTES_MAX.as_bytes()
    }
}

impl Replay {
    /// Returns an empty one whose groups share a bound with others.
    pub const fn within(budget: Budget) -> Self {
        Self {
            groups: BTreeMap::new(),
            bytes: 0,
            budget,
        }
    }

    /// Handles the start of an ADU; returns whether to call [`Replay::handle_whole`] when it is complete.
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
        if !self.groups.contains_key(&plan) && !self.budget.take_group() {
            return false;
        }
        let group = self.groups.entry(plan).or_insert_with(|| Group {
            key: None,
            first_key: sequence,
            adus: BTreeMap::new(),
            bytes: 0,
            newest: Newest {
                sequence,
                time_left: None,
                mark: Mark::NONE,
            },
        });
        sequence >= group.start()
    }

    /// Handles a complete ADU that [`Replay::handle_begun`] asked for.
    ///
    /// Cost    O(log ADUs); for a key ADU O(dropped ADUs)
    pub fn handle_whole(&mut self, plan: Plan, adu: &Adu, now: Instant) {
        let Some(group) = self.groups.get_mut(&plan) else {
            return;
        };
        let before = group.bytes;
        group.insert(adu, now);
        let is_too_long =
            group.adus.len() > REPLAY_ADUS_MAX || group.bytes > REPLAY_BYTES_MAX.as_bytes();
        self.bytes = self.bytes - before + group.bytes;
        self.budget.handle_resized(before, group.bytes);
        // A group with a hole is worthless: one that is too long waits for the next key ADU.
        if is_too_long {
            self.forget(plan);
        }
        // Beyond the bound of all groups together, the longest here goes first.
        while self.budget.is_exceeded() {
            let longest = self.groups.iter().max_by_key(|(_, group)| group.bytes);
            let Some((longest, _)) = longest else {
                return;
            };
            self.forget(*longest);
        }
    }

    /// Drops the group of a plan.
    pub fn forget(&mut self, plan: Plan) {
        if let Some(group) = self.groups.remove(&plan) {
            self.bytes -= group.bytes;
            self.budget.handle_resized(group.bytes, 0);
            self.budget.0.groups.fetch_sub(1, Relaxed);
        }
    }

    /// Returns the group of a plan in sequence, as if it arrived now; nothing if its key ADU is not
    /// complete.
    ///
    /// Cost    O(ADUs); payloads are shared
    pub fn group(&self, plan: Plan, now: Instant) -> Vec<Adu> {
        let group = self.groups.get(&plan);
        let Some((group, key)) = group.and_then(|group| Some((group, group.key?))) else {
            return Vec::new();
        };
        // A group is late by design. All of it gets the time that the newest ADU had left, counted
        // from now, so that it has one deadline and leaves in sequence.
        let deadline = group
            .newest
            .time_left
            .map_or(Instant::NEVER, |left| now + left);
        let adus = group.adus.range(key..).map(|(_, adu)| {
            let mut adu = adu.clone();
            adu.header.deadline = deadline;
            adu.header.set_mark(group.newest.mark);
            adu
        });
        adus.collect()
    }

    /// Returns the number of kept ADUs and their payload bytes.
    ///
    /// Cost    O(groups)
    pub fn size(&self) -> (usize, u64) {
        let adus = self.groups.values().map(|group| group.adus.len());
        (adus.sum(), self.bytes)
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.budget.handle_resized(self.bytes, 0);
        self.budget.0.groups.fetch_sub(self.groups.len(), Relaxed);
    }
}

impl Group {
    /// Returns the first sequence to be kept.
    fn start(&self) -> u64 {
        self.key.unwrap_or(self.first_key)
    }

    fn insert(&mut self, adu: &Adu, now: Instant) {
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
                time_left: has_deadline.then(|| header.deadline.saturating_since(now)),
                mark: header.mark(),
            };
        }
        self.bytes += adu.payload.len() as u64;
        if let Some(duplicate) = self.adus.insert(sequence, adu.clone()) {
            self.bytes -= duplicate.payload.len() as u64;
        }
    }
}

/// Returns whether a receiver can start at an ADU: a key of the base layer, which the other layers need.
const fn is_key(header: &Header) -> bool {
    header.layer == 0 && header.flags.contains(Flags::KEY)
}
