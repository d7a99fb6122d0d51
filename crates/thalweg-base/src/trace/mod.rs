//! The latency of each hop of an ADU: stamps that it carries, each measured with one node's own
//! clock.
//!
//! *The idea.* A node knows how long an ADU stayed there, from reading its header to writing it,
//! and half of the recent minimum RTT to the next node. It appends both after the header when the
//! ADU leaves, so the sink has the latencies of the whole path without synchronised clocks. An
//! untraced ADU carries no stamps.
//!
//! ```text
//! header read ── inside ──┬─ lift ─┬── wait ──► header written ── line ──► header read …
//!              gathering, │ modules│ outbox                       half of the recent
//!              turns      │        │                              minimum RTT
//! ```
//!
//! *What it does not do.* Stamps are unsigned claims of the nodes. The part of a payload that
//! arrives after its header was written is in no stamp of that node: it is in the next node's
//! `inside`, if that node waits for the whole ADU.
//!
//! *Sources.* docs/concepts/trace.md; docs/reference/protocol.md §3.5; docs/decisions/0018.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::adu::Header;
use crate::id::{Epoch, NodeId, Sequence, StreamId};
use crate::limits::{STAMP_BYTES_MAX, TRACE_STAMPS_MAX};
use crate::time::{Duration, Instant};

/// Minimum interval of traced ADUs of a stream: ten a second.
pub const EVERY_MIN: Duration = Duration::from_millis(100);

/// Additional interval per sink, so that the source receives at most fifty traces of a stream a
/// second.
const EVERY_PER_SINK: Duration = Duration::from_millis(20);

/// How long a source traces after a request.
pub const LEASE: Duration = Duration::from_secs(5);

/// Interval of repeated requests: two of them may be lost.
pub const RENEW: Duration = Duration::from_millis(1_500);

/// An ADU's latency at one node and on the link after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stamp {
    /// From reading the header until queueing, without modules: waiting for the rest of the ADU and
    /// for earlier ones.
    pub inside: Duration,
    /// In modules.
    pub lift: Duration,
    /// In the outbox until its header was written; at the sink, waiting for room in a mailbox.
    pub wait: Duration,
    /// On the link to the next node: half of the recent minimum RTT. Zero at the sink.
    pub line: Duration,
}

/// An ADU's received stamps, and the state of this node's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    stamps: Vec<Stamp>,
    arrived: Instant,
    lift: Duration,
    queued: Instant,
    line: Duration,
}

/// The complete trace of one ADU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// The stream.
    pub stream: StreamId,
    /// The plan under which it reached the sink.
    pub epoch: Epoch,
    /// The ADU.
    pub sequence: Sequence,
    /// The remaining time to its deadline when it was given to the source; `NEVER` without a
    /// deadline.
    pub budget: Duration,
    /// The nodes of the path if the source recorded them, one per stamp; else empty.
    pub path: Vec<NodeId>,
    /// One per node, the source first.
    pub stamps: Vec<Stamp>,
}

/// Decides which ADUs of one stream a source traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    every: Duration,
    until: Instant,
    next: Instant,
}

impl Stamp {
    /// Returns the sum of all parts.
    pub fn sum(&self) -> Duration {
        self.inside + self.lift + self.wait + self.line
    }
}

impl Trace {
    /// Returns the trace of an ADU that starts here.
    pub const fn begin(now: Instant) -> Self {
        Self::arrived(Vec::new(), now)
    }

    /// Returns the trace of an ADU that arrived with these stamps.
    pub const fn arrived(stamps: Vec<Stamp>, now: Instant) -> Self {
        Self {
            stamps,
            arrived: now,
            lift: Duration::ZERO,
            queued: now,
            line: Duration::ZERO,
        }
    }

    /// Returns the stamps that it arrived with.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// Adds time spent in modules here.
    pub fn add_lift(&mut self, lift: Duration) {
        self.lift += lift;
    }

    /// Starts the wait for a link or a mailbox; `line` is the latency of the link.
    pub const fn queue(&mut self, now: Instant, line: Duration) {
        self.queued = now;
        self.line = line;
    }

    /// Returns this node's stamp if the ADU leaves now.
    pub fn stamp(&self, now: Instant) -> Stamp {
        let here = self.queued.saturating_since(self.arrived);
        Stamp {
            inside: here.saturating_sub(self.lift),
            lift: self.lift,
            wait: now.saturating_since(self.queued),
            line: self.line,
        }
    }

    /// Returns whether one more stamp fits: beyond the longest path of a plan an ADU continues
    /// without.
    pub fn has_room(&self) -> bool {
        self.stamps.len() < TRACE_STAMPS_MAX
    }

    /// Returns the maximum size of its stamps on the wire, this node's included, in bytes.
    pub const fn bytes_max(&self) -> usize {
        1 + (self.stamps.len() + 1) * STAMP_BYTES_MAX
    }

    /// Returns the complete trace, at the sink, on delivery.
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
    /// Returns the total latency of the path.
    pub fn sum(&self) -> Duration {
        self.stamps
            .iter()
            .fold(Duration::ZERO, |sum, stamp| sum + stamp.sum())
    }
}

impl Marking {
    /// Starts tracing one ADU every `every`, limited by the number of sinks.
    pub fn new(every: Duration, sinks: usize, now: Instant) -> Self {
        let for_sinks = Duration::from_nanos(EVERY_PER_SINK.as_nanos() * sinks as u64);
        Self {
            every: every.max(EVERY_MIN).max(for_sinks),
            until: now + LEASE,
            next: now,
        }
    }

    /// Extends the lease, and adopts the new request's interval.
    pub fn renew(&mut self, asked: Self) {
        self.until = self.until.max(asked.until);
        self.every = asked.every;
        self.next = self.next.min(asked.next + asked.every);
    }

    /// Returns whether the lease has expired.
    pub fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Returns a new trace if the ADU that is given now is to be traced.
    pub fn mark(&mut self, now: Instant) -> Option<Box<Trace>> {
        if self.is_over(now) || now < self.next {
            return None;
        }
        self.next = now + self.every;
        Some(Box::new(Trace::begin(now)))
    }
}
