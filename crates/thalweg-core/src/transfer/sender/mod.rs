//! The sender of a transfer: what goes next, by what the receivers say.
//!
//! *The idea.* Each hop keeps the order of the stream, so a receiver that has got to sequence *n* will never have what
//! went before *n* and has not come. Each receipt says *n* and what is missing; what is missing and was not sent at *n*
//! or later goes again. So nothing is sent twice on suspicion. If nothing is left to send and a receiver still misses
//! something, an offer goes now and then: it comes last, and the answer to it says what was lost before it.
//!
//! ```text
//! receipt ─► missing − under way ─► todo ─► poll: offer | part of the manifest | block ─► under way, by sequence
//!                          ▲                                                                   │
//!                          └───────────── forgotten below the least `next` of all ─────────────┘
//! ```
//!
//! Receivers share one stream. A transfer begins when all have answered an offer, or the patience for the others is
//! over; who comes later is served by what it is missing.
//!
//! *What it does not do.* It reads no file and keeps no bytes: who drives it reads a block when it is asked for.
//!
//! *Sources.* docs/files.md §3.

mod target;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::block;
use super::manifest::Layout;
use super::message::{Receipt, State};
use super::ranges::Ranges;
use crate::id::StreamId;
use crate::limits::{TRANSFER_PARCELS_MAX, TRANSFER_WINDOW_BYTES};
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

pub use target::Outcome;
use target::{Phase, Target};

/// How long the first of several receivers waits for the others.
pub const GATHER: Duration = Duration::from_secs(3);

/// How long after an offer the next one goes, if nothing is heard: several round trips of a wide network.
pub const PROBE_MIN: Duration = Duration::from_millis(250);

/// The same after many offers of which nothing was heard.
pub const PROBE_MAX: Duration = Duration::from_secs(5);

/// How often an offer goes beside blocks while a receiver has not had one.
pub const GREET: Duration = Duration::from_secs(1);

/// A receiver of which nothing was heard for so long holds up nobody: five heartbeats.
pub const SILENCE: Duration = Duration::from_secs(10);

/// How late a parcel may be asked for without costing the limit anything: a timer's lateness, and a scheduler's.
const LATENESS_MAX: Duration = Duration::from_millis(20);

/// What is to be sent now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The offer.
    Offer,
    /// These bytes of the manifest.
    Manifest(Range<u64>),
    /// This block.
    Block(u32),
}

/// How far a transfer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that the receiver furthest behind has verified, of those that have not given up.
    pub bytes: u64,
    /// Bytes of blocks that were given, again or not.
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
    /// The stream that carries it now, and the sequence of its next ADU.
    stream: Option<StreamId>,
    sequence: u64,
    /// What is under way, the first of sequence `log_start`.
    log: VecDeque<(Next, u64)>,
    log_start: u64,
    log_bytes: u64,
    /// When a block was sent last, for those in the log.
    sent: BTreeMap<u32, u64>,
    todo: Ranges,
    /// The first block that was not sent yet, nor any behind it.
    fresh: u32,
    /// Where the manifest goes on, if somebody wants it.
    manifest_at: u64,
    begun: bool,
    first_heard: Option<Instant>,
    probe_at: Instant,
    probe_wait: Duration,
    greet_at: Instant,
    /// When the limit lets the next parcel go.
    free_at: Instant,
    given: u64,
}

impl Sender {
    /// Returns the sender of a transfer to so many receivers, which takes no more of its link than the limit.
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
            log: VecDeque::new(),
            log_start: 0,
            log_bytes: 0,
            sent: BTreeMap::new(),
            todo: Ranges::default(),
            fresh: 0,
            manifest_at: 0,
            begun: false,
            first_heard: None,
            probe_at: Instant::ZERO,
            probe_wait: PROBE_MIN,
            greet_at: Instant::ZERO,
            free_at: Instant::ZERO,
            given: 0,
        }
    }

    /// Takes word that the stream begins, or begins anew: nothing is under way, and its sequences count from zero.
    pub fn handle_stream(&mut self, now: Instant, stream: StreamId) {
        self.stream = Some(stream);
        self.sequence = 0;
        self.log.clear();
        self.log_start = 0;
        self.log_bytes = 0;
        self.sent.clear();
        // What is missing will be said again.
        self.todo.clear();
        self.fresh = 0;
        self.manifest_at = 0;
        self.handle_wanted(now);
        self.targets.iter_mut().for_each(Target::restart);
    }

    /// Takes word that somebody receives the stream who did not before.
    pub fn handle_wanted(&mut self, now: Instant) {
        self.probe_at = now;
        self.probe_wait = PROBE_MIN;
    }

    /// Takes a receipt.
    ///
    /// Cost    O((ranges + under way) log under way)
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
        // Of another stream: the one before a restart, or that of another sender of the same files.
        if self.stream != Some(receipt.stream) {
            return;
        }
        // What nobody has sent cannot have come.
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
        // The blocks follow the manifest at once: who has none of it has none of them.
        if is_first {
            self.todo.insert(0..self.layout.blocks());
        }
        let under_way = self.log.iter().enumerate().any(|(place, (what, _))| {
            let covers =
                matches!(what, Next::Manifest(part) if part.start <= has && part.end > has);
            covers && self.log_start + place as u64 >= next
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
                if sequence >= next {
                    self.todo.insert(from..block);
                    from = block + 1;
                }
            }
            self.todo.insert(from..end);
        }
    }

    /// Forgets what no receiver waits for any more.
    fn forget(&mut self) {
        let waiting = self.targets.iter().filter(|target| target.counts());
        let least = waiting.map(|target| target.next).min();
        self.forget_below(least.unwrap_or(self.sequence));
    }

    fn forget_below(&mut self, next: u64) {
        while self.log_start < next {
            let Some((what, bytes)) = self.log.pop_front() else {
                break;
            };
            if let Next::Block(block) = what
                && self.sent.get(&block) == Some(&self.log_start)
            {
                self.sent.remove(&block);
            }
            self.log_start += 1;
            self.log_bytes -= bytes;
        }
    }

    /// Returns what is to be sent now, as the next ADU of the stream; nothing if there is none before the timeout.
    pub fn poll_next(&mut self, now: Instant) -> Option<Next> {
        if self.is_over() || now < self.free_at {
            return None;
        }
        for target in &mut self.targets {
            target.look(now);
        }
        self.forget();
        let next = self.choose(now)?;
        Some(self.send(now, next))
    }

    fn choose(&mut self, now: Instant) -> Option<Next> {
        self.begun = self.begun || self.may_begin(now);
        let is_strange = |target: &Target| target.outcome.is_none() && target.next == 0;
        if self.begun && now >= self.greet_at && self.targets.iter().any(is_strange) {
            self.greet_at = now + GREET;
            return Some(Next::Offer);
        }
        if self.begun && self.has_room() {
            if let Some(part) = self.part() {
                self.manifest_at = part.end;
                return Some(Next::Manifest(part));
            }
            // What one of several receivers missed delays nobody: it goes when all have been sent everything once.
            if let Some(block) = self.todo.pop_from(self.fresh) {
                self.fresh = self.fresh.max(block + 1);
                return Some(Next::Block(block));
            }
        }
        if now < self.probe_at {
            return None;
        }
        // Offers that nobody says have come are under way too, for who answers without getting on.
        if self.log.len() >= 2 * TRANSFER_PARCELS_MAX {
            self.probe_at = now + PROBE_MAX;
            return None;
        }
        Some(Next::Offer)
    }

    /// Returns whether everybody has answered, or was waited for long enough.
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
        self.log.len() < TRANSFER_PARCELS_MAX && self.log_bytes < TRANSFER_WINDOW_BYTES
    }

    /// Returns the next part of the manifest, if somebody wants it.
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
            // What was not used is not saved up, but for the lateness of whoever asks.
            let is_late = now.saturating_since(self.free_at) > LATENESS_MAX;
            let from = if is_late { now } else { self.free_at };
            let taken = DataSize::from_bytes(block::on_the_wire(bytes));
            self.free_at = from + limit.time_for(taken);
        }
        self.log.push_back((next.clone(), bytes));
        self.log_bytes += bytes;
        self.sequence += 1;
        next
    }

    /// Returns when to ask again, if nothing else comes before.
    pub fn poll_timeout(&self) -> Instant {
        if self.is_over() {
            return Instant::NEVER;
        }
        let gathered = match self.first_heard {
            Some(first) if !self.begun => first + GATHER,
            _ => Instant::NEVER,
        };
        let has_work = !self.todo.is_empty() || self.part().is_some();
        let is_due = self.begun && self.has_room() && has_work;
        let next = if is_due { self.free_at } else { Instant::NEVER };
        self.probe_at.min(gathered).min(next).max(self.free_at)
    }

    /// Returns whether every receiver has everything or wants nothing.
    pub fn is_over(&self) -> bool {
        self.targets.iter().all(|target| target.outcome.is_some())
    }

    /// Returns what became of a receiver; nothing while it is not known.
    pub fn outcome(&self, target: usize) -> Option<&Outcome> {
        self.targets.get(target)?.outcome.as_ref()
    }

    /// Returns whether a receiver has said anything in the last while.
    pub fn is_heard(&self, target: usize, now: Instant) -> bool {
        let heard = self.targets.get(target).and_then(|target| target.heard);
        heard.is_some_and(|heard| now.saturating_since(heard) < SILENCE)
    }

    /// Returns whether the transfer has begun: what is measured of its rate counts from here.
    pub const fn has_begun(&self) -> bool {
        self.begun
    }

    /// Gives a receiver up, for a reason of the sender's own.
    pub fn give_up(&mut self, target: usize, reason: String) {
        if let Some(target) = self.targets.get_mut(target) {
            target.outcome.get_or_insert(Outcome::Refused(reason));
        }
        self.forget();
    }

    /// Returns how far the transfer is.
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
