//! ADUs that were sent and are not acknowledged by their sinks, kept for a resend by another path.
//!
//! *The idea.* A next node's acknowledgement shows that it has an ADU, not that the sink will get it: the
//! node may crash, or its link may break. So the source keeps each ADU of a stream that must not lose it
//! easily until the sink acknowledges it, its deadline passes, or a bound is reached; then the oldest is
//! dropped. The ADU is kept as its producer sent it, before any adapter, as another plan may have other
//! adapters and seals again. It is stored once, for any number of sinks.
//!
//! *What it does not do.* It sends nothing, and does not know which path is broken: the session does.
//!
//! *Sources.* docs/concepts/continuity.md §2; spec RA-8, RA-13.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use thalweg_base::adu::{Adu, Flags};
use thalweg_base::id::{Epoch, NodeId, Sequence};
use thalweg_base::limits::{
    BACKLOG_BYTES, KEEP_ADUS_MAX, KEEP_AGE_MAX, KEEP_BYTES_MAX, OUTBOX_BYTES_MAX, PATIENCE_MAX,
};
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::seen::Held;
use thalweg_base::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long the end of a stream waits for sinks that still receive, at any pace: as long as a
/// subscriber waits behind a gap for what may be in flight.
const END_WAIT_MIN: Duration = PATIENCE_MAX;

/// The maximum of that wait, granted only to sinks that would have everything by then at their
/// pace. What a relay queues before a slower link, half an outbox, takes 67 min on the slowest link
/// that a subscriber waits on ([`BACKLOG_BYTES`] in [`PATIENCE_MAX`]). A slower subscriber hardly
/// reads, and would delay its producer's end for days.
const END_WAIT_MAX: Duration = Duration::from_secs(4_200);

/// Receipts within this time after the end may report earlier arrivals: a sink reports one second
/// after the last receipt at the earliest, and a burst is in its queue at once.
const END_SETTLE: Duration = Duration::from_secs(5);

const _: () = assert!(
    OUTBOX_BYTES_MAX.as_bytes() / 2 * (PATIENCE_MAX.as_nanos() / 1_000_000_000)
        <= END_WAIT_MAX.as_nanos() / 1_000_000_000 * BACKLOG_BYTES,
    "what a relay has before a slow line arrives"
);

/// The kept ADUs of one stream, by sequence.
#[derive(Debug)]
pub struct Keep {
    kept: BTreeMap<u64, Kept>,
    bytes: u64,
    /// Maximum time that an ADU is kept.
    age_max: Duration,
    /// Whether its producer waits rather than lose an ADU for lack of room (backpressure).
    is_lossless: bool,
    /// Plans with sinks that acknowledged nothing for so long that nothing is kept for them until they do.
    given_up: BTreeSet<Epoch>,
    overflowed: u64,
    /// The sequence after the last one sent.
    given: u64,
    /// When the producer had sent everything.
    ended: Instant,
    /// The progress of each sink, and when one last changed its receipt.
    progress: BTreeMap<NodeId, Progress>,
    last_change: Instant,
}

/// The progress of a sink.
#[derive(Debug)]
struct Progress {
    held: Held,
    /// How much it lacked when the producer had sent everything, and how much it has received
    /// since. Ranges that leave a receipt behind newer ones and return count twice in both.
    lacked: u64,
    taken: u64,
}

#[derive(Debug)]
struct Kept {
    adu: Adu,
    until: Instant,
    /// The plans that it was sent by, to sinks that have not acknowledged it.
    plans: Vec<Epoch>,
}

impl Progress {
    /// Restarts the measurement.
    fn restart(&mut self, given: u64) {
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
    /// Returns the store for a stream with these needs.
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
            progress: BTreeMap::new(),
            last_change: Instant::ZERO,
        }
    }

    /// Handles an ADU that is sent, and the plans in force that carry it: one, or several with
    /// their grafts.
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
            // Losses of these are accepted, or repaired on request; but no sink would request the end.
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
        // A producer under backpressure may still send one more ADU, and the end.
        let more = u64::from(self.is_lossless);
        while self.kept.len() > KEEP_ADUS_MAX << more
            || self.bytes > KEEP_BYTES_MAX.as_bytes() << more
        {
            self.pop_first();
            self.overflowed += 1;
        }
    }

    /// Handles a receipt of the sink of these plans.
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

    /// Records a receipt of a sink; returns whether it differs from the one before.
    ///
    /// A receipt names only the newest of many ranges, so its total shows nothing: other ranges may
    /// add up to as much.
    ///
    /// Cost    O(log sinks + ranges²)
    pub fn handle_word(&mut self, sink: NodeId, held: &Held, now: Instant) -> bool {
        let before = self.progress.remove(&sink);
        let is_news = before.as_ref().is_none_or(|before| before.held != *held);
        if is_news {
            self.last_change = now;
        }
        if *held == Held::everything() {
            // It has left, or wants nothing more.
            return is_news;
        }
        let mut sink_progress = before.unwrap_or_else(|| Progress {
            held: Held::default(),
            lacked: self.given,
            taken: 0,
        });
        sink_progress.taken = sink_progress
            .taken
            .saturating_add(held.more_than(&sink_progress.held));
        sink_progress.held.clone_from(held);
        if now < self.ended + END_SETTLE {
            sink_progress.restart(self.given);
        }
        self.progress.insert(sink, sink_progress);
        is_news
    }

    /// Handles the sign that the sink of these plans receives again: its ADUs are kept as before.
    pub fn take_up(&mut self, epochs: &[Epoch]) {
        self.given_up.retain(|plan| !epochs.contains(plan));
    }

    /// Handles the end of the stream: the producer has sent everything.
    pub fn handle_ended(&mut self, now: Instant) {
        self.ended = now;
        let given = self.given;
        self.progress
            .values_mut()
            .for_each(|sink_progress| sink_progress.restart(given));
    }

    /// Returns how many ADUs sent by a plan its sink lacks, though it has later ones.
    ///
    /// Cost    O(kept)
    pub fn missing(&self, plan: Epoch, held: &Held, now: Instant) -> u64 {
        let missing = self.kept.values().filter(|kept| {
            let sequence = kept.adu.header.sequence;
            now < kept.until && kept.plans.contains(&plan) && held.lacks(sequence)
        });
        missing.count() as u64
    }

    /// Returns the sequence below which nothing is kept for the sink of these plans, if it lacks
    /// something there though it has later ones: that was given up.
    ///
    /// Only under backpressure: otherwise what is not kept may be in flight.
    ///
    /// Cost    O(kept · plans)
    pub fn given_up_below(&self, epochs: &[Epoch], held: &Held) -> Option<Sequence> {
        let first = held.ranges.first()?.start;
        let mut kept = self.kept.iter();
        let is_for_it = |kept: &Kept| kept.plans.iter().any(|plan| epochs.contains(plan));
        let lowest = kept.find(|(_, kept)| is_for_it(kept));
        let below = lowest.map_or(self.given, |(sequence, _)| *sequence);
        // Only the gap before the first range is known to be lacking as a whole.
        (self.is_lossless && held.floor < below).then_some(Sequence(below.min(first)))
    }

    /// Removes and returns the ADUs sent by these plans that are still worth sending, by sequence.
    ///
    /// The caller resends them and reports this by [`Keep::handle_given`].
    ///
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

    /// Returns whether no ADU that is worth a resend awaits its acknowledgement.
    ///
    /// Cost    O(kept)
    pub fn is_settled(&self, now: Instant) -> bool {
        self.poll_settled() <= now
    }

    /// Returns when nothing will be worth a resend, unless the sink acknowledges it earlier.
    ///
    /// Cost    O(kept)
    pub fn poll_settled(&self) -> Instant {
        let ends = self.kept.values().map(|kept| kept.until);
        ends.max().unwrap_or(Instant::ZERO)
    }

    /// Returns until when a producer that has sent everything waits for receipts: until what is
    /// kept is useless, no sink has made progress for this patience, or no completion is in sight.
    ///
    /// What is in flight arrives even when it is too old for a resend, as when the rest is queued
    /// before a slow link.
    ///
    /// Cost    O(kept + sinks)
    pub fn poll_acknowledged(&self, patience: Duration) -> Instant {
        let deadlines = self.kept.values().map(|kept| kept.adu.header.deadline);
        let of_use = deadlines.max().unwrap_or(Instant::ZERO);
        let news = self.last_change.max(self.ended) + patience;
        of_use.min(news).min(self.completion_limit())
    }

    /// Returns until when completion is in sight: when the furthest sink has everything at its pace
    /// since the end, counting one more ADU now, within the maximum.
    ///
    /// ```text
    /// ended + max(END_WAIT_MIN, END_WAIT_MAX · (received + 1) / lacked)
    /// ```
    fn completion_limit(&self) -> Instant {
        let is_waiting = |sink_progress: &&Progress| sink_progress.held.floor < self.given;
        let limit_of = |sink_progress: &Progress| {
            let lacked = u128::from(sink_progress.lacked.max(1));
            let taken = u128::from(sink_progress.taken) + 1;
            let nanos = u128::from(END_WAIT_MAX.as_nanos()) * taken / lacked;
            Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(END_WAIT_MAX)
        };
        let longest = self
            .progress
            .values()
            .filter(is_waiting)
            .map(limit_of)
            .max();
        self.ended + longest.unwrap_or(Duration::ZERO).max(END_WAIT_MIN)
    }

    /// Returns the number of kept ADUs and their payload bytes.
    pub fn size(&self) -> (usize, u64) {
        (self.kept.len(), self.bytes)
    }

    /// Returns how many were dropped because too many were kept.
    pub const fn overflowed(&self) -> u64 {
        self.overflowed
    }

    /// Drops expired ADUs, oldest first; deadlines grow with the sequence. Under backpressure, the
    /// sinks that acknowledged nothing for so long are given up.
    ///
    /// Cost    O(1) if nothing has expired; O(kept · plans) if a sink is given up
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

    /// Returns whether its producer must wait (backpressure): the store is full, and may lose nothing.
    pub fn is_pressed(&self) -> bool {
        let is_full = self.kept.len() >= KEEP_ADUS_MAX || self.bytes >= KEEP_BYTES_MAX.as_bytes();
        self.is_lossless && is_full
    }

    /// Returns the plans of the oldest kept ADU: their sinks hold the stream up.
    pub fn hindered_by(&self) -> &[Epoch] {
        let first = self.kept.first_key_value();
        first.map_or(&[], |(_, kept)| &kept.plans)
    }

    /// Returns when the oldest expires.
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
