//! What each hop cost an ADU: stamps that it bears along its way, each by one node's own clock.
//!
//! *The idea.* A node knows how long an ADU was there, from the reading of its header to the writing of it, and half of the
//! shortest round trip to the next node. It writes both behind the header when the ADU leaves, so the sink has the ledger
//! of the whole way and no two clocks need agree. An ADU that nobody asked about bears nothing.
//!
//! ```text
//! header read ── inside ──┬─ lift ─┬── wait ──► header written ── line ──► header read …
//!              gathering, │ modules│ outbox                       half of the shortest
//!              turns      │        │                              round trip of late
//! ```
//!
//! *What it does not do.* A stamp is a node's word and is signed by nobody. What of a payload is still to come when its
//! header is written is on no stamp of that node: the next node's `inside` has it, if it must wait for the whole.
//!
//! *Sources.* docs/trace.md; docs/protocol.md §3.5; docs/decisions/0018.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::adu::Header;
use crate::id::{Epoch, NodeId, Sequence, StreamId};
use crate::limits::{STAMP_BYTES_MAX, TRACE_STAMPS_MAX};
use crate::time::{Duration, Instant};

/// The most often that ADUs of a stream are traced, whoever asks: ten a second.
pub const EVERY_MIN: Duration = Duration::from_millis(100);

/// How much longer that is for each sink, so that the source hears no more than fifty stamped ways a second of a stream.
const EVERY_PER_SINK: Duration = Duration::from_millis(20);

/// How long a source traces for who does not ask again.
pub const LEASE: Duration = Duration::from_secs(5);

/// How often who still wants to know asks again: two of these may be lost.
pub const RENEW: Duration = Duration::from_millis(1_500);

/// What an ADU cost at one node, and on the line behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamp {
    /// From the reading of its header until it was queued, without the modules: waiting for the rest of it, for a turn.
    pub inside: Duration,
    /// In modules.
    pub lift: Duration,
    /// In the outbox, until its header was written; at the sink, for room in a mailbox.
    pub wait: Duration,
    /// On the line to the next node: half of the shortest round trip of late. Nothing at the sink.
    pub line: Duration,
}

/// The stamps that an ADU came with, and what this node has to say for its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    stamps: Vec<Stamp>,
    arrived: Instant,
    lift: Duration,
    queued: Instant,
    line: Duration,
}

/// The whole way of one ADU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Which stream.
    pub stream: StreamId,
    /// The plan under which it came to the sink.
    pub epoch: Epoch,
    /// Which ADU.
    pub sequence: Sequence,
    /// What was left of its deadline when it was given to the source; `NEVER` if it had none.
    pub budget: Duration,
    /// The nodes of the way, if the source has written them down: as many as stamps, or none.
    pub path: Vec<NodeId>,
    /// One for each node, the source's first.
    pub stamps: Vec<Stamp>,
}

/// When a source marks ADUs of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    every: Duration,
    until: Instant,
    next: Instant,
}

impl Stamp {
    /// Returns all of it together.
    pub fn sum(&self) -> Duration {
        self.inside + self.lift + self.wait + self.line
    }
}

impl Trace {
    /// Returns the trace of an ADU that begins here.
    pub const fn begin(now: Instant) -> Self {
        Self::arrived(Vec::new(), now)
    }

    /// Returns the trace of an ADU that came with these stamps.
    pub const fn arrived(stamps: Vec<Stamp>, now: Instant) -> Self {
        Self {
            stamps,
            arrived: now,
            lift: Duration::ZERO,
            queued: now,
            line: Duration::ZERO,
        }
    }

    /// Returns the stamps that it came with.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// Notes how long it was in modules here.
    pub fn add_lift(&mut self, lift: Duration) {
        self.lift += lift;
    }

    /// Notes that it waits from now on for its turn on a link, or for a mailbox; `line` is how long it will be on its way.
    pub const fn queue(&mut self, now: Instant, line: Duration) {
        self.queued = now;
        self.line = line;
    }

    /// Returns this node's stamp, if the ADU leaves now.
    pub fn stamp(&self, now: Instant) -> Stamp {
        let here = self.queued.saturating_since(self.arrived);
        Stamp {
            inside: here.saturating_sub(self.lift),
            lift: self.lift,
            wait: now.saturating_since(self.queued),
            line: self.line,
        }
    }

    /// Returns whether one more stamp fits: a way that is longer than any plan's goes on untraced.
    pub fn has_room(&self) -> bool {
        self.stamps.len() < TRACE_STAMPS_MAX
    }

    /// Returns how many bytes its stamps take on the wire at most, this node's with them.
    pub const fn bytes_max(&self) -> usize {
        1 + (self.stamps.len() + 1) * STAMP_BYTES_MAX
    }

    /// Returns the whole way, at the sink, once the ADU is delivered.
    pub fn finish(self, header: &Header, now: Instant) -> Traced {
        let last = self.stamp(now);
        let held = |sum, stamp: &Stamp| sum + stamp.inside + stamp.lift + stamp.wait;
        let before = self.stamps.iter().fold(Duration::ZERO, held);
        let left = header.deadline.saturating_since(self.arrived);
        let mut stamps = self.stamps;
        stamps.push(last);
        Traced {
            stream: header.stream,
            epoch: header.epoch,
            sequence: header.sequence,
            budget: if left.is_never() {
                Duration::NEVER
            } else {
                left + before
            },
            path: Vec::new(),
            stamps,
        }
    }
}

impl Traced {
    /// Returns what the way took altogether.
    pub fn sum(&self) -> Duration {
        self.stamps
            .iter()
            .fold(Duration::ZERO, |sum, stamp| sum + stamp.sum())
    }
}

impl Marking {
    /// Returns the marking for who asks for an ADU each `every`, of a stream with so many sinks.
    pub fn new(every: Duration, sinks: usize, now: Instant) -> Self {
        let for_sinks = Duration::from_nanos(EVERY_PER_SINK.as_nanos() * sinks as u64);
        Self {
            every: every.max(EVERY_MIN).max(for_sinks),
            until: now + LEASE,
            next: now,
        }
    }

    /// Goes on for who asks again, and for others that ask meanwhile: as often as the most curious wants.
    pub fn renew(&mut self, asked: Self) {
        self.until = self.until.max(asked.until);
        self.every = asked.every;
        self.next = self.next.min(asked.next + asked.every);
    }

    /// Returns whether nobody wants to know any more.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Returns the trace of an ADU that is given now, if it is one to be traced.
    pub fn mark(&mut self, now: Instant) -> Option<Box<Trace>> {
        if self.is_over(now) || now < self.next {
            return None;
        }
        self.next = now + self.every;
        Some(Box::new(Trace::begin(now)))
    }
}
