//! One TCP connection of a session: what was given to it, what of that has arrived, and its pacer.
//!
//! *The idea.* The log holds what was given and not acknowledged, each with the position at which it ends; one cumulative
//! number from the peer lets go of all before it.
//!
//! *What it does not do.* It knows no stream.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Pacing;
use super::values::SessionError;
use crate::pace::acked::PaceA;
use crate::pace::frame::{Decoder, Frame, StreamNumber};
use crate::pace::kernel::{KernelPath, PaceK};
use crate::pace::settings::{TELL_BYTES, TELL_BYTES_MAX, TELL_DELAY, TELL_DELAY_MAX, UNREAD_MAX};
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) decoder: Decoder,
    pacer: Pacer,
    sent: u64,
    acknowledged: u64,
    log: VecDeque<Entry>,
    received: u64,
    told: u64,
    tell_by: Instant,
    keep_alive: Duration,
    ping_at: Instant,
    srtt: Duration,
    timeouts: u32,
}

/// How often the peer is told what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tell {
    bytes: u64,
    delay: Duration,
}

#[derive(Debug)]
struct Entry {
    end: u64,
    at: Instant,
    what: What,
}

/// What a position on a carrier stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The oldest chunk of a stream that is not acknowledged.
    Chunk(StreamNumber),
    /// A frame that is sent again as it is.
    Control(Frame),
    /// A message that is not sent again.
    Datagram,
    /// What means something only now and here: a ping, a takeover.
    Passing,
}

#[derive(Debug)]
enum Pacer {
    Kernel(PaceK),
    Acked(PaceA),
}

impl Carrier {
    /// Begins with a connection that stands by; `keep_alive` is how long it may be silent until it is asked whether it lives.
    pub(super) fn new(
        pacing: Pacing,
        decoder: Decoder,
        keep_alive: Duration,
        now: Instant,
    ) -> Self {
        Self {
            decoder,
            pacer: Pacer::new(pacing, now),
            sent: 0,
            acknowledged: 0,
            log: VecDeque::new(),
            received: 0,
            told: 0,
            tell_by: Instant::NEVER,
            keep_alive,
            ping_at: now + keep_alive,
            srtt: Duration::ZERO,
            timeouts: 0,
        }
    }

    /// Takes in that this is the active one from now on: what it did while standing by says nothing of its rate.
    pub(super) fn handle_activated(&mut self, pacing: Pacing, keep_alive: Duration, now: Instant) {
        self.keep_alive = keep_alive;
        self.ping_at = self.ping_at.min(now + keep_alive);
        if let (Pacer::Acked(_), 0) = (&self.pacer, self.sent - self.acknowledged) {
            self.pacer = Pacer::new(pacing, now);
        }
    }

    pub(super) fn handle_kernel(&mut self, path: KernelPath) {
        self.timeouts = path.timeouts;
        if let Pacer::Kernel(pacer) = &mut self.pacer {
            pacer.handle_path(path);
        }
    }

    /// Returns whether the kernel is to be asked again, if it is the kernel that paces.
    pub(super) fn is_used_up(&self) -> bool {
        matches!(&self.pacer, Pacer::Kernel(pacer) if pacer.is_used_up())
    }

    /// Takes in that a counted frame has arrived.
    pub(super) fn handle_counted(&mut self, now: Instant, bytes: u64, tell: &Tell) {
        self.received += bytes;
        self.tell_by = self.tell_by.min(now + tell.delay);
    }

    /// Takes in that the peer asks whether it lives, and so shows that it does: it is told at once, and not asked itself, once it is
    /// known how long its answers take.
    pub(super) fn handle_ping(&mut self, now: Instant) {
        self.tell_by = now;
        if self.srtt != Duration::ZERO {
            self.ping_at = self.ping_at.max(now + self.keep_alive);
        }
    }

    /// Takes in that a counted frame was given out.
    pub(super) fn handle_sent(&mut self, now: Instant, bytes: u64, what: What, is_limited: bool) {
        self.sent += bytes;
        self.ping_at = now + self.keep_alive;
        self.log.push_back(Entry {
            end: self.sent,
            at: now,
            what,
        });
        match &mut self.pacer {
            Pacer::Kernel(pacer) => pacer.handle_written(DataSize::from_bytes(bytes)),
            Pacer::Acked(pacer) => pacer.handle_sent(now, bytes, is_limited),
        }
    }

    /// Takes in how much the peer has; returns how many of the oldest entries that was.
    pub(super) fn handle_received(
        &mut self,
        now: Instant,
        position: u64,
    ) -> Result<usize, SessionError> {
        if position > self.sent {
            return Err(SessionError::NeverSent {
                position,
                sent: self.sent,
            });
        }
        self.acknowledged = self.acknowledged.max(position);
        if let Pacer::Acked(pacer) = &mut self.pacer {
            // A reset of the pacer begins its count anew.
            let before = self.sent - pacer.sent();
            pacer.handle_received(now, position.saturating_sub(before));
        }
        // A word is of the next few.
        let arrived = self.log.iter().take_while(|entry| entry.end <= position);
        let (mut count, mut sent_at) = (0, None);
        for entry in arrived {
            (count, sent_at) = (count + 1, Some(entry.at));
        }
        if let Some(sent_at) = sent_at {
            self.smooth(now.saturating_since(sent_at));
        }
        Ok(count)
    }

    /// Gives out what so many of the oldest entries stood for.
    pub(super) fn take_oldest(&mut self, count: usize) -> impl Iterator<Item = What> + '_ {
        self.log.drain(..count).map(|entry| entry.what)
    }

    /// Gives out the position to tell the peer, if it is time to.
    pub(super) fn poll_position(
        &mut self,
        now: Instant,
        at_once: bool,
        tell: &Tell,
    ) -> Option<u64> {
        let untold = self.received - self.told;
        let is_due = untold >= tell.bytes || now >= self.tell_by || (at_once && untold > 0);
        is_due.then(|| self.position())
    }

    /// The same if it is time to before long: what goes anyway takes it along.
    pub(super) fn poll_soon(&mut self, now: Instant, tell: &Tell) -> Option<u64> {
        let half = Duration::from_nanos(tell.delay.as_nanos() / 2);
        let is_soon = self.tell_by <= now + half;
        is_soon.then(|| self.position())
    }

    const fn position(&mut self) -> u64 {
        self.told = self.received;
        self.tell_by = Instant::NEVER;
        self.told
    }

    pub(super) fn is_ping_due(&self, now: Instant) -> bool {
        now >= self.ping_at
    }

    pub(super) fn is_outstanding(&self) -> bool {
        self.acknowledged < self.sent
    }

    /// Returns how much may be handed over; nothing while the peer reads nothing of what it was given, though its kernel takes it.
    pub(super) fn credit(&self, now: Instant) -> DataSize {
        match &self.pacer {
            Pacer::Kernel(_) if self.is_unread(now) => DataSize::ZERO,
            Pacer::Kernel(pacer) => pacer.credit(),
            Pacer::Acked(pacer) => pacer.credit(),
        }
    }

    /// Returns whether the peer's kernel takes what the peer itself does not read.
    pub(super) fn is_unread(&self, now: Instant) -> bool {
        let Pacer::Kernel(pacer) = &self.pacer else {
            return false;
        };
        let rtt = pacer.path().rtt;
        let oldest = self.log.front();
        oldest.is_some_and(|oldest| oldest.at + rtt + rtt + UNREAD_MAX < now)
    }

    pub(super) fn rate(&self) -> Option<Bitrate> {
        match &self.pacer {
            Pacer::Kernel(pacer) => pacer.rate(),
            Pacer::Acked(pacer) => pacer.rate(),
        }
    }

    pub(super) fn rtt_min(&self) -> Duration {
        match &self.pacer {
            Pacer::Kernel(pacer) => pacer.path().rtt_min,
            Pacer::Acked(pacer) => pacer.rtt_min(),
        }
    }

    pub(super) const fn has_been_full(&self) -> bool {
        match &self.pacer {
            Pacer::Kernel(pacer) => pacer.has_been_full(),
            Pacer::Acked(pacer) => pacer.has_been_full(),
        }
    }

    pub(super) fn unsent_max(&self) -> Option<DataSize> {
        match &self.pacer {
            Pacer::Kernel(pacer) => Some(pacer.sliver()),
            Pacer::Acked(_) => None,
        }
    }

    /// Returns whether the kernel can be asked about it.
    pub(super) const fn asks_kernel(&self) -> bool {
        matches!(self.pacer, Pacer::Kernel(_))
    }

    pub(super) const fn rtt(&self) -> Duration {
        self.srtt
    }

    pub(super) const fn timeouts(&self) -> u32 {
        self.timeouts
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        self.tell_by.min(self.ping_at)
    }

    pub(super) fn into_unacknowledged(self) -> Vec<What> {
        self.log.into_iter().map(|entry| entry.what).collect()
    }

    /// RFC 6298 §2: an eighth of each new sample.
    fn smooth(&mut self, sample: Duration) {
        self.srtt = match self.srtt.as_nanos() {
            // A round trip below the clock's grain is one of its grains, for zero means unknown.
            0 => sample.max(Duration::from_nanos(1)),
            srtt => Duration::from_nanos(srtt - srtt / 8 + sample.as_nanos() / 8),
        };
    }
}

impl Tell {
    /// Returns what the peer asks for, within bounds.
    pub(super) fn asked(bytes: u64, delay_ms: u64) -> Self {
        Self {
            bytes: bytes.clamp(TELL_BYTES, TELL_BYTES_MAX),
            delay: Duration::from_millis(delay_ms).clamp(TELL_DELAY, TELL_DELAY_MAX),
        }
    }
}

impl Default for Tell {
    fn default() -> Self {
        Self {
            bytes: TELL_BYTES,
            delay: TELL_DELAY,
        }
    }
}

impl Pacer {
    fn new(pacing: Pacing, now: Instant) -> Self {
        match pacing {
            Pacing::Kernel => Self::Kernel(PaceK::default()),
            Pacing::Acked => Self::Acked(PaceA::new(now)),
        }
    }
}
