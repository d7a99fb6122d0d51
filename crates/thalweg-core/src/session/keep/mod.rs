//! What a source has sent and its sink has not acknowledged: kept, to be sent again by another way.
//!
//! *The idea.* A next node's acknowledgement says that it has an ADU, not that the sink will: it may crash with it, or its
//! own link may be cut. So the source keeps what its stream does not let go lightly until the sink says that it has it, until
//! its deadline, or until a bound is reached; then the oldest goes. What is kept is the ADU as its producer gave it, before
//! any adapter: another plan may have others, and seals anew. It is kept once, however many sinks have not said that they
//! have it.
//!
//! *What it does not do.* It sends nothing, and does not know which way is broken: the session says.
//!
//! *Sources.* docs/continuity.md §2; spec RA-8, RA-13.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::adu::{Adu, Flags};
use crate::id::{Epoch, NodeId, Sequence};
use crate::limits::{KEEP_ADUS_MAX, KEEP_BYTES_MAX, OUTBOX_BYTES_MAX};
use crate::mailbox::{BACKLOG_BYTES, Held, PATIENCE_MAX};
use crate::needs::{Needs, Reliability};
use crate::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long an ADU that has a deadline is kept at most: as long as a subscription lives without a word of its sink.
pub const KEEP_AGE_MAX: Duration = super::LEASE;

/// How long the end of a stream waits for sinks that go on receiving, at whatever pace: as long as a subscriber waits behind a gap
/// for what may be under way.
const END_SURE: Duration = PATIENCE_MAX;

/// The same at most, and so long only if at their pace all is there by then. What a relay has before a slower link, half an outbox,
/// takes 67 min on the slowest line that a subscriber waits on ([`BACKLOG_BYTES`] in [`PATIENCE_MAX`]); who takes longer is a
/// subscriber that hardly reads, and would hold up its producer's end for days.
const END_MAX: Duration = Duration::from_secs(4_200);

/// What a sink tells so soon after all had been given it may have had before: it tells a second after the last at the earliest, and a
/// burst is in its queue at once.
const END_TOLD: Duration = Duration::from_secs(5);

const _: () = assert!(
    OUTBOX_BYTES_MAX.as_bytes() / 2 * (PATIENCE_MAX.as_nanos() / 1_000_000_000)
        <= END_MAX.as_nanos() / 1_000_000_000 * BACKLOG_BYTES,
    "what a relay has before a slow line arrives"
);

/// What is kept of one stream, by its sequence.
#[derive(Debug)]
pub struct Keep {
    kept: BTreeMap<u64, Kept>,
    bytes: u64,
    /// How long an ADU is kept at most.
    age_max: Duration,
    /// Whether its producer waits rather than that anything is given up for want of room.
    is_lossless: bool,
    /// Plans whose sinks took nothing for so long that nothing is kept for them, until they take something.
    given_up: BTreeSet<Epoch>,
    overflowed: u64,
    /// The sequence after the last that was given.
    given: u64,
    /// When all had been given.
    ended: Instant,
    /// What each sink has said last, and when one last said something else.
    told: BTreeMap<NodeId, Told>,
    advanced: Instant,
}

/// What a sink has said.
#[derive(Debug)]
struct Told {
    held: Held,
    /// How much it did not have when all had been given, and how much it has had since. What is told, was told no more behind newer
    /// ranges and is told again counts twice in both.
    lacked: u64,
    taken: u64,
}

#[derive(Debug)]
struct Kept {
    adu: Adu,
    until: Instant,
    /// The plans by which it went to sinks that have not said that they have it.
    plans: Vec<Epoch>,
}

impl Told {
    /// Measures from here.
    fn begin(&mut self, given: u64) {
        self.lacked = given.saturating_sub(self.held.count());
        self.taken = 0;
    }
}

impl Default for Keep {
    fn default() -> Self {
        Self::new(&Needs {
            deadline: KEEP_AGE_MAX,
            ..Needs::default()
        })
    }
}

impl Keep {
    /// Returns what keeps a stream of these needs.
    pub fn new(needs: &Needs) -> Self {
        let wait = needs.waits();
        Self {
            kept: BTreeMap::new(),
            bytes: 0,
            age_max: wait.unwrap_or(KEEP_AGE_MAX),
            is_lossless: wait.is_some(),
            given_up: BTreeSet::new(),
            overflowed: 0,
            given: 0,
            ended: Instant::ZERO,
            told: BTreeMap::new(),
            advanced: Instant::ZERO,
        }
    }

    /// Takes in an ADU that is sent, and by which plans it goes to sinks: one, or those that are grafted on it too.
    ///
    /// Cost    O(log kept + plans)
    pub fn handle_given(
        &mut self,
        adu: &Adu,
        plans: &[Epoch],
        reliability: Reliability,
        now: Instant,
    ) {
        self.given = self.given.max(adu.header.sequence.0 + 1);
        let is_kept = match reliability {
            // What is lost of it is not wanted, or is asked for; that it has ended nobody would ask.
            Reliability::None | Reliability::Repaired => adu.header.flags.contains(Flags::END),
            Reliability::UntilDeadline | Reliability::Full => true,
        };
        self.expire(now);
        let plans: Vec<Epoch> = plans
            .iter()
            .filter(|plan| !self.given_up.contains(plan))
            .copied()
            .collect();
        if !is_kept || plans.is_empty() {
            return;
        }
        let header = &adu.header;
        let mut kept = Kept {
            adu: adu.clone(),
            until: header.deadline.min(now + self.age_max),
            plans,
        };
        self.bytes += kept.adu.payload.len() as u64;
        if let Some(before) = self.kept.remove(&header.sequence.0) {
            self.bytes -= before.adu.payload.len() as u64;
            kept.plans.extend(before.plans);
            kept.plans.sort_unstable();
            kept.plans.dedup();
        }
        self.kept.insert(header.sequence.0, kept);
        // A producer that waits gives one more at most, and the end.
        let more = u64::from(self.is_lossless);
        while self.kept.len() > KEEP_ADUS_MAX << more
            || self.bytes > KEEP_BYTES_MAX.as_bytes() << more
        {
            self.pop_first();
            self.overflowed += 1;
        }
    }

    /// Takes in what the sink of these plans says that it has.
    ///
    /// Cost    O(kept · plans)
    pub fn handle_receipt(&mut self, epochs: &[Epoch], held: &Held) {
        let bytes = &mut self.bytes;
        self.kept.retain(|_, kept| {
            if held.has(kept.adu.header.sequence) {
                kept.plans.retain(|plan| !epochs.contains(plan));
            }
            if kept.plans.is_empty() {
                *bytes -= kept.adu.payload.len() as u64;
            }
            !kept.plans.is_empty()
        });
    }

    /// Takes in that a sink has said what it has, now; returns whether that is other than what it said before.
    ///
    /// Of many ranges only the newest are told, so how much they are says nothing: they may be others, and as much.
    /// Cost    O(log sinks + ranges²)
    pub fn handle_word(&mut self, sink: NodeId, held: &Held, now: Instant) -> bool {
        let before = self.told.remove(&sink);
        let is_news = before.as_ref().is_none_or(|before| before.held != *held);
        if is_news {
            self.advanced = now;
        }
        if *held == Held::everything() {
            // It has left, or wants nothing more.
            return is_news;
        }
        let mut told = before.unwrap_or_else(|| Told {
            held: Held::default(),
            lacked: self.given,
            taken: 0,
        });
        told.taken = told.taken.saturating_add(held.more_than(&told.held));
        told.held.clone_from(held);
        if now < self.ended + END_TOLD {
            told.begin(self.given);
        }
        self.told.insert(sink, told);
        is_news
    }

    /// Takes in that the sink of these plans takes something again: it is waited for as before.
    pub fn take_up(&mut self, epochs: &[Epoch]) {
        self.given_up.retain(|plan| !epochs.contains(plan));
    }

    /// Takes in that all has been given, the end too.
    pub fn handle_ended(&mut self, now: Instant) {
        self.ended = now;
        let given = self.given;
        self.told.values_mut().for_each(|told| told.begin(given));
    }

    /// Returns how many of those that went by a plan its sink is known to lack, though it has later ones.
    ///
    /// Cost    O(kept)
    pub fn missing(&self, plan: Epoch, held: &Held, now: Instant) -> u64 {
        let missing = self.kept.values().filter(|kept| {
            let sequence = kept.adu.header.sequence;
            now < kept.until && kept.plans.contains(&plan) && held.lacks(sequence)
        });
        missing.count() as u64
    }

    /// Returns below which sequence nothing is kept for the sink of these plans, if it lacks something there though it has later ones:
    /// that was given up.
    ///
    /// Only where a producer waits: elsewhere what is not kept may be under way.
    /// Cost    O(kept · plans)
    pub fn given_up_below(&self, epochs: &[Epoch], held: &Held) -> Option<Sequence> {
        let first = held.ranges.first()?.start;
        let mut kept = self.kept.iter();
        let is_for_it = |kept: &Kept| kept.plans.iter().any(|plan| epochs.contains(plan));
        let lowest = kept.find(|(_, kept)| is_for_it(kept));
        let below = lowest.map_or(self.given, |(sequence, _)| *sequence);
        // What lies before the first range is lacking as a whole, and of that alone it is known.
        (self.is_lossless && held.floor < below).then_some(Sequence(below.min(first)))
    }

    /// Gives out what went by these plans and is still worth sending, by sequence, and keeps it no longer for their sinks.
    ///
    /// Whoever sends it again says so by [`Keep::handle_given`].
    /// Cost    O(kept · plans)
    pub fn take(&mut self, epochs: &[Epoch], now: Instant) -> Vec<Adu> {
        let mut taken = Vec::new();
        let bytes = &mut self.bytes;
        self.kept.retain(|_, kept| {
            let before = kept.plans.len();
            kept.plans.retain(|plan| !epochs.contains(plan));
            if kept.plans.len() < before && now < kept.until {
                taken.push(kept.adu.clone());
            }
            if kept.plans.is_empty() {
                *bytes -= kept.adu.payload.len() as u64;
            }
            !kept.plans.is_empty()
        });
        taken
    }

    /// Returns whether nothing that is worth sending again waits for its acknowledgement.
    ///
    /// Cost    O(kept)
    pub fn is_settled(&self, now: Instant) -> bool {
        self.poll_settled() <= now
    }

    /// Returns when nothing will be worth sending again, unless the sink says sooner that it has it.
    ///
    /// Cost    O(kept)
    pub fn poll_settled(&self) -> Instant {
        let ends = self.kept.values().map(|kept| kept.until);
        ends.max().unwrap_or(Instant::ZERO)
    }

    /// Returns until when somebody who has given all waits for the word of its sinks: until what is kept is of no use, none of them
    /// has had anything new for so long, or their end is not in sight.
    ///
    /// What is under way arrives also when it is too old to be sent again, as where the rest lies before a slow line.
    /// Cost    O(kept + sinks)
    pub fn poll_acknowledged(&self, patience: Duration) -> Instant {
        let deadlines = self.kept.values().map(|kept| kept.adu.header.deadline);
        let of_use = deadlines.max().unwrap_or(Instant::ZERO);
        let news = self.advanced.max(self.ended) + patience;
        of_use.min(news).min(self.poll_in_sight())
    }

    /// Returns until when the end is in sight: at its pace since all had been given the sink that is furthest has all within the
    /// longest time, if it has one more now.
    ///
    /// ```text
    /// ended + max(sure, longest · (taken + 1) / lacked)
    /// ```
    fn poll_in_sight(&self) -> Instant {
        let is_waiting = |told: &&Told| told.held.floor < self.given;
        let in_sight = |told: &Told| {
            let lacked = u128::from(told.lacked.max(1));
            let taken = u128::from(told.taken) + 1;
            let nanos = u128::from(END_MAX.as_nanos()) * taken / lacked;
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(END_MAX)
        };
        let longest = self.told.values().filter(is_waiting).map(in_sight).max();
        self.ended + longest.unwrap_or(Duration::ZERO).max(END_SURE)
    }

    /// Returns how many ADUs are kept, and how many payload bytes.
    pub fn size(&self) -> (usize, u64) {
        (self.kept.len(), self.bytes)
    }

    /// Returns how many were given up because too many were kept.
    pub const fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Lets go of the oldest that are too late; what is older is due no later. Where a producer waits, those that took nothing for so
    /// long are not waited for any more.
    ///
    /// Cost    O(1) if nothing is too late; O(kept · plans) where a sink is given up
    pub fn expire(&mut self, now: Instant) {
        while let Some(first) = self.kept.first_entry()
            && first.get().until <= now
        {
            if self.is_lossless {
                let plans = first.get().plans.clone();
                self.take(&plans, now);
                self.given_up.extend(plans);
            } else {
                self.pop_first();
            }
        }
    }

    /// Returns whether its producer has to wait: it keeps all that it may, and gives nothing up.
    pub fn is_pressed(&self) -> bool {
        let is_full = self.kept.len() >= KEEP_ADUS_MAX || self.bytes >= KEEP_BYTES_MAX.as_bytes();
        self.is_lossless && is_full
    }

    /// Returns the plans by which what it has kept for longest went: their sinks hold the stream up.
    pub fn hindered_by(&self) -> &[Epoch] {
        let first = self.kept.first_key_value();
        first.map_or(&[], |(_, kept)| &kept.plans)
    }

    /// Returns when the oldest is too late.
    pub fn poll_timeout(&self) -> Instant {
        let first = self.kept.first_key_value();
        first.map_or(Instant::NEVER, |(_, kept)| kept.until)
    }

    fn pop_first(&mut self) {
        if let Some((_, kept)) = self.kept.pop_first() {
            self.bytes -= kept.adu.payload.len() as u64;
        }
    }
}
