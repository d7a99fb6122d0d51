//! One TCP connection of a session: the bytes handed to it, which of those have arrived, and its pacer.
//!
//! *The idea.* The log holds what was handed over and not acknowledged, each entry with the
//! position at which it ends. One cumulative number from the peer releases all entries up to it.
//!
//! *What it does not do.* It knows no stream.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::Pacing;
use super::values::SessionError;
use crate::tcp_mux::acked::PaceA;
use crate::tcp_mux::frame::{Decoder, Frame, StreamNumber};
use crate::tcp_mux::kernel::{KernelPath, PaceK};
use crate::tcp_mux::settings::{
    REPORT_BYTES, REPORT_BYTES_MAX, REPORT_DELAY, REPORT_DELAY_MAX, UNREAD_MAX,
};

#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) decoder: Decoder,
    pacer: Pacer,
    sent: u64,
    acknowledged: u64,
    log: VecDeque<Entry>,
    received: u64,
    reported: u64,
    report_by: Instant,
    keep_alive: Duration,
    ping_at: Instant,
    srtt: Duration,
    timeouts: u32,
}

/// How often this end reports what has arrived, as the peer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReportPolicy {
    bytes: u64,
    delay: Duration,
}

#[derive(Debug)]
struct Entry {
    end: u64,
    at: Instant,
    item: SentItem,
}

/// What an entry of the log stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SentItem {
    /// The oldest unacknowledged chunk of a stream.
    Chunk(StreamNumber),
    /// A frame that is resent unchanged.
    Control(Frame),
    /// A message that is not resent.
    Datagram,
    /// A frame that means something only now and on this carrier: a ping, a takeover.
    Transient,
}

#[derive(Debug)]
enum Pacer {
    Kernel(PaceK),
    Acked(PaceA),
}

impl Carrier {
    /// Returns a standby connection; `keep_alive` is how long it may be idle before it is pinged.
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
            reported: 0,
            report_by: Instant::NEVER,
            keep_alive,
            ping_at: now + keep_alive,
            srtt: Duration::ZERO,
            timeouts: 0,
        }
    }

    /// Handles that this carrier becomes the active one: its use as a standby shows nothing of its rate.
    pub(super) fn handle_activated(&mut self, pacing: Pacing, keep_alive: Duration, now: Instant) {
        self.keep_alive = keep_alive;
        self.ping_at = self.ping_at.min(now + keep_alive);
        // Only with nothing outstanding: otherwise the count of the old pacer would be lost.
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

    /// Returns whether the kernel is to be asked again; never if the peer's reports pace.
    pub(super) fn is_used_up(&self) -> bool {
        matches!(&self.pacer, Pacer::Kernel(pacer) if pacer.is_used_up())
    }

    /// Handles the arrival of a counted frame.
    pub(super) fn handle_counted(&mut self, now: Instant, bytes: u64, policy: &ReportPolicy) {
        self.received += bytes;
        self.report_by = self.report_by.min(now + policy.delay);
    }

    /// Handles a ping: the report goes at once. The ping shows that the peer lives, so this end
    /// pings later, once it knows how long answers take.
    pub(super) fn handle_ping(&mut self, now: Instant) {
        self.report_by = now;
        if self.srtt != Duration::ZERO {
            self.ping_at = self.ping_at.max(now + self.keep_alive);
        }
    }

    /// Handles that a counted frame was handed over.
    pub(super) fn handle_sent(
        &mut self,
        now: Instant,
        bytes: u64,
        item: SentItem,
        is_limited: bool,
    ) {
        self.sent += bytes;
        self.ping_at = now + self.keep_alive;
        self.log.push_back(Entry {
            end: self.sent,
            at: now,
            item,
        });
        match &mut self.pacer {
            Pacer::Kernel(pacer) => pacer.handle_written(DataSize::from_bytes(bytes)),
            Pacer::Acked(pacer) => pacer.handle_sent(now, bytes, is_limited),
        }
    }

    /// Handles the peer's position; returns how many of the oldest entries have arrived.
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
            // A pacer that was replaced started its count at zero.
            let before = self.sent - pacer.sent();
            pacer.handle_received(now, position.saturating_sub(before));
        }
        // A report covers only a few entries.
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

    /// Removes and returns what the oldest `count` entries stood for.
    pub(super) fn take_oldest(&mut self, count: usize) -> impl Iterator<Item = SentItem> + '_ {
        self.log.drain(..count).map(|entry| entry.item)
    }

    /// Returns the position to report, if a report is due.
    pub(super) fn poll_position(
        &mut self,
        now: Instant,
        at_once: bool,
        policy: &ReportPolicy,
    ) -> Option<u64> {
        let unreported = self.received - self.reported;
        let is_due =
            unreported >= policy.bytes || now >= self.report_by || (at_once && unreported > 0);
        is_due.then(|| self.position())
    }

    /// Returns the same if a report is due soon: it is appended to a packet that goes anyway.
    pub(super) fn poll_soon(&mut self, now: Instant, policy: &ReportPolicy) -> Option<u64> {
        let half = Duration::from_nanos(policy.delay.as_nanos() / 2);
        let is_soon = self.report_by <= now + half;
        is_soon.then(|| self.position())
    }

    const fn position(&mut self) -> u64 {
        self.reported = self.received;
        self.report_by = Instant::NEVER;
        self.reported
    }

    pub(super) fn is_ping_due(&self, now: Instant) -> bool {
        now >= self.ping_at
    }

    pub(super) fn is_outstanding(&self) -> bool {
        self.acknowledged < self.sent
    }

    /// Returns how much may be handed over; nothing while the peer does not read what its kernel
    /// accepts.
    pub(super) fn credit(&self, now: Instant) -> DataSize {
        match &self.pacer {
            Pacer::Kernel(_) if self.is_unread(now) => DataSize::ZERO,
            Pacer::Kernel(pacer) => pacer.credit(),
            Pacer::Acked(pacer) => pacer.credit(),
        }
    }

    /// Returns whether the peer's kernel accepts bytes that the peer itself does not read.
    pub(super) fn is_unread(&self, now: Instant) -> bool {
        let Pacer::Kernel(pacer) = &self.pacer else {
            return false;
        };
        let rtt = pacer.path().rtt;
        let oldest = self.log.front();
        // The log is ordered by time, so its oldest entry decides.
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
        self.report_by.min(self.ping_at)
    }

    pub(super) fn into_unacknowledged(self) -> Vec<SentItem> {
        self.log.into_iter().map(|entry| entry.item).collect()
    }

    /// Smooths the round trip by an eighth of each sample: RFC 6298 §2.
    fn smooth(&mut self, sample: Duration) {
        self.srtt = match self.srtt.as_nanos() {
            // A round trip below the clock's resolution counts as one nanosecond, for zero means
            // unknown.
            0 => sample.max(Duration::from_nanos(1)),
            srtt => Duration::from_nanos(srtt - srtt / 8 + sample.as_nanos() / 8),
        };
    }
}

impl ReportPolicy {
    /// Returns what the peer requests, within bounds.
    pub(super) fn asked(bytes: u64, delay_ms: u64) -> Self {
        Self {
            bytes: bytes.clamp(REPORT_BYTES, REPORT_BYTES_MAX),
            delay: Duration::from_millis(delay_ms).clamp(REPORT_DELAY, REPORT_DELAY_MAX),
        }
    }
}

impl Default for ReportPolicy {
    fn default() -> Self {
        Self {
            bytes: REPORT_BYTES,
            delay: REPORT_DELAY,
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
