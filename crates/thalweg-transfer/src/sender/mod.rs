//! The sender of a transfer: decides what to send next from the receivers' receipts.
//!
//! *The idea.* Each hop keeps the order of the stream, so a receiver that has sequence *n* will
//! never receive an earlier parcel that has not arrived. A receipt reports *n* and the missing
//! blocks; a missing block that was not sent at *n* or later is resent. So nothing is resent on
//! suspicion. If there is nothing to send but a receiver still lacks something, an offer is sent
//! from time to time as a probe: it arrives last, and the answer to it reveals earlier losses.
//!
//! ```text
//! receipt ─► missing − in flight ─► todo ─► poll: offer | part of the manifest | block ─► in flight
//!                          ▲                                                                   │
//!                          └───────────── forgotten below the least `next` of all ─────────────┘
//! ```
//!
//! Receivers share one stream. A transfer begins when all have answered an offer, or after
//! [`GATHER`]; a later receiver gets the blocks that it reports as missing.
//!
//! *What it does not do.* It reads no file and stores no content: the driver reads a block on
//! demand.
//!
//! *Sources.* docs/concepts/files.md §3.

mod target;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use thalweg_base::id::StreamId;
use thalweg_base::limits::{TRANSFER_PARCELS_MAX, TRANSFER_WINDOW_BYTES};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::block;
use super::manifest::Layout;
use super::message::{Receipt, State};
use super::ranges::Ranges;

pub use target::Outcome;
use target::{Phase, Target};

/// How long the first of several receivers waits for the others.
pub const GATHER: Duration = Duration::from_secs(3);

/// Initial interval of probing offers without an answer: several round trips of a wide network.
pub const PROBE_MIN: Duration = Duration::from_millis(250);

/// Maximum interval of probing offers, after many without an answer.
pub const PROBE_MAX: Duration = Duration::from_secs(5);

/// Interval of offers among the blocks while a receiver has not received one.
pub const OFFER_EVERY: Duration = Duration::from_secs(1);

/// A receiver that was silent for this long holds up no other: five heartbeats.
pub const SILENCE: Duration = Duration::from_secs(10);

/// Delay of a poll that the rate limit compensates: the lateness of a timer and of the scheduler.
const LATENESS_MAX: Duration = Duration::from_millis(20);

/// The next parcel to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The offer.
    Offer,
    /// These bytes of the manifest.
    Manifest(Range<u64>),
    /// This block.
    Block(u32),
}

/// The progress of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Verified bytes of the slowest receiver that has not ended.
    pub bytes: u64,
    /// Bytes of blocks sent, resends included.
    pub given: u64,
    /// Receivers that have everything.
    pub whole: usize,
}

/// The sender of one transfer.
#[derive(Clone, Debug)]
pub struct Sender {
    layout: Layout,
    manifest_bytes: u64,
    targets: Vec<Target>,
    limit: Option<Bitrate>,
    /// The transfer's current stream, and the sequence of its next ADU.
    stream: Option<StreamId>,
    sequence: u64,
    /// Parcels in flight with their bytes; the first has sequence `in_flight_start`.
    in_flight: VecDeque<(Next, u64)>,
    in_flight_start: u64,
    in_flight_bytes: u64,
    /// By block in the log: the sequence of its last sending.
    sent: BTreeMap<u32, u64>,
    todo: Ranges,
    /// The first block that was never sent; nor were those after it.
    first_unsent: u32,
    /// Next offset of the manifest, if a receiver wants it.
    manifest_at: u64,
    has_started: bool,
    first_heard: Option<Instant>,
    probe_at: Instant,
    probe_wait: Duration,
    offer_at: Instant,
    /// Earliest time of the next parcel under the rate limit.
    allowed_at: Instant,
    given: u64,
}

impl Sender {
    /// Returns the sender of a transfer to `targets` receivers, within the rate limit.
    pub fn new(
        layout: Layout,
        manifest_bytes: u64,
        targets: usize,
        limit: Option<Bitrate>,
    ) -> Self {
        Self {
            layout,
            manifest_bytes,
            targets: (0..targets).map(|_| Target::default()).collect(),
            limit,
            stream: None,
            sequence: 0,
            in_flight: VecDeque::new(),
            in_flight_start: 0,
            in_flight_bytes: 0,
            sent: BTreeMap::new(),
            todo: Ranges::default(),
            first_unsent: 0,
            manifest_at: 0,
            has_started: false,
            first_heard: None,
            probe_at: Instant::ZERO,
            probe_wait: PROBE_MIN,
            offer_at: Instant::ZERO,
            allowed_at: Instant::ZERO,
            given: 0,
        }
    }

    /// Starts, or restarts, with a stream: nothing is in flight, and sequences count from zero.
    pub fn handle_stream(&mut self, now: Instant, stream: StreamId) {
        self.stream = Some(stream);
        self.sequence = 0;
        self.in_flight.clear();
        self.in_flight_start = 0;
        self.in_flight_bytes = 0;
        self.sent.clear();
        // Receipts will report missing blocks again.
        self.todo.clear();
        self.first_unsent = 0;
        self.manifest_at = 0;
        self.handle_wanted(now);
        self.targets.iter_mut().for_each(Target::restart);
    }

    /// Takes in that a further receiver subscribes to the stream.
    pub fn handle_wanted(&mut self, now: Instant) {
        self.probe_at = now;
        self.probe_wait = PROBE_MIN;
    }

    /// Takes in a receipt.
    ///
    /// Cost    O((ranges + in flight) log in flight)
    pub fn handle_receipt(&mut self, now: Instant, target: usize, receipt: Receipt) {
        let Some(known) = self.targets.get_mut(target) else {
            return;
        };
        known.heard = Some(now);
        if let Some(outcome) = Outcome::of(&receipt.state) {
            known.outcome = Some(outcome);
            self.forget();
            return;
        }
        // The receipt is about another stream: one before a restart, or another sender's of the
        // same files.
        if self.stream != Some(receipt.stream) {
            return;
        }
        // A sequence that was not sent cannot have arrived.
        if receipt.next > self.sequence || receipt.next < known.next {
            return;
        }
        if receipt.next > known.next {
            self.probe_wait = PROBE_MIN;
            self.probe_at = now + self.probe_wait;
        }
        known.next = receipt.next;
        if known.next > 0 {
            self.first_heard.get_or_insert(now);
        }
        match receipt.state {
            State::Manifest { has } => self.want_manifest(target, has),
            State::Blocks { bytes, missing } => self.want_blocks(target, bytes, &missing),
            State::Whole | State::Refused(_) => {}
        }
        self.forget();
    }

    fn want_manifest(&mut self, target: usize, has: u64) {
        let known = &mut self.targets[target];
        let is_first = known.phase == Phase::Unknown;
        known.phase = Phase::Manifest;
        let next = known.next;
        // Blocks follow the manifest at once: a receiver without any of it has none of them.
        if is_first {
            self.todo.insert(0..self.layout.blocks());
        }
        let under_way = self.in_flight.iter().enumerate().any(|(place, (what, _))| {
            let covers =
                matches!(what, Next::Manifest(part) if part.start <= has && part.end > has);
            covers && self.in_flight_start + place as u64 >= next
        });
        if !under_way && has < self.manifest_bytes {
            self.manifest_at = self.manifest_at.min(has);
        }
    }

    fn want_blocks(&mut self, target: usize, bytes: u64, missing: &[Range<u32>]) {
        let blocks = self.layout.blocks();
        let known = &mut self.targets[target];
        known.phase = Phase::Blocks;
        known.bytes = bytes.min(self.layout.size());
        let next = known.next;
        for range in missing {
            let mut from = range.start.min(blocks);
            let end = range.end.min(blocks);
            for (&block, &sequence) in self.sent.range(from..end) {
                // Sent after the latest arrival: still in flight.
                if sequence >= next {
                    self.todo.insert(from..block);
                    from = block + 1;
                }
            }
            self.todo.insert(from..end);
        }
    }

    /// Forgets the parcels that no receiver waits for.
    fn forget(&mut self) {
        let waiting = self.targets.iter().filter(|target| target.holds_parcels());
        let least = waiting.map(|target| target.next).min();
        self.forget_below(least.unwrap_or(self.sequence));
    }

    fn forget_below(&mut self, next: u64) {
        while self.in_flight_start < next {
            let Some((what, bytes)) = self.in_flight.pop_front() else {
                break;
            };
            if let Next::Block(block) = what
                && self.sent.get(&block) == Some(&self.in_flight_start)
            {
                self.sent.remove(&block);
            }
            self.in_flight_start += 1;
            self.in_flight_bytes -= bytes;
        }
    }

    /// Returns the parcel to send now, as the next ADU of the stream; `None` until the timeout.
    pub fn poll_next(&mut self, now: Instant) -> Option<Next> {
        if self.is_over() || now < self.allowed_at {
            return None;
        }
        for target in &mut self.targets {
            target.update_silence(now);
        }
        self.forget();
        let next = self.choose(now)?;
        Some(self.send(now, next))
    }

    fn choose(&mut self, now: Instant) -> Option<Next> {
        self.has_started = self.has_started || self.may_begin(now);
        let has_no_offer = |target: &Target| target.outcome.is_none() && target.next == 0;
        if self.has_started && now >= self.offer_at && self.targets.iter().any(has_no_offer) {
            self.offer_at = now + OFFER_EVERY;
            return Some(Next::Offer);
        }
        if self.has_started && self.has_room() {
            if let Some(part) = self.part() {
                self.manifest_at = part.end;
                return Some(Next::Manifest(part));
            }
            // Blocks that one receiver lacks delay no other: they are resent after each block was
            // sent once.
            if let Some(block) = self.todo.pop_from(self.first_unsent) {
                self.first_unsent = self.first_unsent.max(block + 1);
                return Some(Next::Block(block));
            }
        }
        if now < self.probe_at {
            return None;
        }
        // Unanswered offers are in flight too, and a receiver may answer without any progress.
        if self.in_flight.len() >= 2 * TRANSFER_PARCELS_MAX {
            self.probe_at = now + PROBE_MAX;
            return None;
        }
        Some(Next::Offer)
    }

    /// Returns whether all receivers have answered, or the wait for them is over.
    fn may_begin(&self, now: Instant) -> bool {
        let mut waiting = self
            .targets
            .iter()
            .filter(|target| target.outcome.is_none());
        let all = waiting.all(|target| target.next > 0 && target.phase != Phase::Unknown);
        self.first_heard
            .is_some_and(|first| all || now.saturating_since(first) >= GATHER)
    }

    fn has_room(&self) -> bool {
        self.in_flight.len() < TRANSFER_PARCELS_MAX && self.in_flight_bytes < TRANSFER_WINDOW_BYTES
    }

    /// Returns the next part of the manifest, if a receiver wants it.
    fn part(&self) -> Option<Range<u64>> {
        let wants = |target: &Target| target.outcome.is_none() && target.phase == Phase::Manifest;
        let start = self.manifest_at;
        if start >= self.manifest_bytes || !self.targets.iter().any(wants) {
            return None;
        }
        let end = (start + self.layout.block_bytes()).min(self.manifest_bytes);
        Some(start..end)
    }

    fn send(&mut self, now: Instant, next: Next) -> Next {
        let bytes = match &next {
            Next::Offer => {
                self.probe_wait = (self.probe_wait + self.probe_wait).min(PROBE_MAX);
                0
            }
            Next::Manifest(part) => part.end - part.start,
            Next::Block(block) => {
                self.sent.insert(*block, self.sequence);
                let bytes = self
                    .layout
                    .place(*block)
                    .map_or(0, |place| place.bytes as u64);
                self.given += bytes;
                bytes
            }
        };
        self.probe_at = now + self.probe_wait;
        if let Some(limit) = self.limit {
            // Unused rate is not accumulated, except for the lateness of polls.
            let is_late = now.saturating_since(self.allowed_at) > LATENESS_MAX;
            let from = if is_late { now } else { self.allowed_at };
            let taken = DataSize::from_bytes(block::on_the_wire(bytes));
            self.allowed_at = from + limit.time_for(taken);
        }
        self.in_flight.push_back((next.clone(), bytes));
        self.in_flight_bytes += bytes;
        self.sequence += 1;
        next
    }

    /// Returns when to poll again, if there is no input before.
    pub fn poll_timeout(&self) -> Instant {
        if self.is_over() {
            return Instant::NEVER;
        }
        let gathered = match self.first_heard {
            Some(first) if !self.has_started => first + GATHER,
            _ => Instant::NEVER,
        };
        let has_work = !self.todo.is_empty() || self.part().is_some();
        let is_due = self.has_started && self.has_room() && has_work;
        let next = if is_due {
            self.allowed_at
        } else {
            Instant::NEVER
        };
        self.probe_at.min(gathered).min(next).max(self.allowed_at)
    }

    /// Returns whether every receiver has everything or has refused.
    pub fn is_over(&self) -> bool {
        self.targets.iter().all(|target| target.outcome.is_some())
    }

    /// Returns a receiver's outcome; `None` until it is known.
    pub fn outcome(&self, target: usize) -> Option<&Outcome> {
        self.targets.get(target)?.outcome.as_ref()
    }

    /// Returns whether a receiver was heard within [`SILENCE`].
    pub fn is_heard(&self, target: usize, now: Instant) -> bool {
        let heard = self.targets.get(target).and_then(|target| target.heard);
        heard.is_some_and(|heard| now.saturating_since(heard) < SILENCE)
    }

    /// Returns whether the transfer has begun; its rate is measured from here.
    pub const fn has_begun(&self) -> bool {
        self.has_started
    }

    /// Gives up a receiver, for a reason of the sender's own.
    pub fn give_up(&mut self, target: usize, reason: String) {
        if let Some(target) = self.targets.get_mut(target) {
            target.outcome.get_or_insert(Outcome::Refused(reason));
        }
        self.forget();
    }

    /// Returns the progress of the transfer.
    pub fn progress(&self) -> Progress {
        let whole = |target: &&Target| target.outcome == Some(Outcome::Whole);
        let open = self
            .targets
            .iter()
            .filter(|target| target.outcome.is_none());
        let least = open.map(|target| target.bytes).min();
        Progress {
            bytes: least.unwrap_or(self.layout.size()),
            given: self.given,
            whole: self.targets.iter().filter(whole).count(),
        }
    }
}
