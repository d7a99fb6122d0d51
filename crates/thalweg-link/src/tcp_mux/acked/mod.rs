//! `PaceA`: hands over as much as lately arrived in a round trip, by the peer's reports.
//!
//! *The idea.* This pacer needs no help from the kernel: the peer reports how many bytes have
//! arrived. From that follow the delivery rate (the greatest of the last rounds, as BBR measures
//! it) and the minimum round trip. Outstanding bytes, in the socket or on the line, are limited to
//! their product.
//!
//! ```text
//! outstanding ≤ max(2 chunks, rate · (least RTT + target) + probe)        twice that at the start
//! probe: per round one chunk more if the limit was reached and the queue was below the target, else half
//! ```
//!
//! The allowance of `target` is itself a probe: while the line is not full, each round delivers a
//! little more than the one before. At the start the limit is doubled, until three limited rounds
//! in a row gain less than a quarter.
//!
//! *What it does not do.* It leaves losses to TCP, which it cannot outpace: bytes that TCP holds
//! back wait in the socket and count as outstanding. A peer that reports falsely harms only its own
//! rate.
//!
//! *Sources.* PL-10, PL-11; draft-ietf-ccwg-bbr §4.1.1 (samples), §5.3.1 (start); spec 3(d).

mod rate;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use self::rate::{MaxRate, MinRtt};
use super::settings::TARGET;
use crate::outbox::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, CHUNK_TIME};

/// Limited rounds without growth that end the start.
const FLAT_ROUNDS: u32 = 3;

/// The pacer that goes by the peer's reports.
#[derive(Clone, Debug)]
pub struct PaceA {
    sent: u64,
    delivered: u64,
    delivered_at: Instant,
    /// When the first byte of the current sample was sent.
    first_sent: Instant,
    log: VecDeque<Entry>,
    rates: MaxRate,
    rtt_min: MinRtt,
    rtt_last: Duration,
    /// The round ends when this position is acknowledged.
    round_end: u64,
    was_limited: bool,
    round_limited: bool,
    probe: u64,
    start: Option<Start>,
}

/// The state when some bytes were sent.
#[derive(Clone, Copy, Debug)]
struct Entry {
    end: u64,
    at: Instant,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
    is_limited: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Start {
    rate: Bitrate,
    flat_rounds: u32,
}

impl PaceA {
    /// Returns the pacer of a connection that has carried nothing.
    pub fn new(now: Instant) -> Self {
        Self {
            sent: 0,
            delivered: 0,
            delivered_at: now,
            first_sent: now,
            log: VecDeque::new(),
            rates: MaxRate::default(),
            rtt_min: MinRtt::default(),
            rtt_last: Duration::ZERO,
            round_end: 0,
            was_limited: false,
            round_limited: false,
            probe: 0,
            start: Some(Start::default()),
        }
    }

    /// Handles that `bytes` were handed over; `is_limited` if credit was what limited them.
    pub fn handle_sent(&mut self, now: Instant, bytes: u64, is_limited: bool) {
        if self.outstanding() == DataSize::ZERO {
            // Idle time must not lower a rate.
            (self.first_sent, self.delivered_at) = (now, now);
        }
        self.sent += bytes;
        self.was_limited |= is_limited;
        let entry = Entry {
            end: self.sent,
            at: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            is_limited,
        };
        match self.log.back_mut() {
            // Bytes sent at one moment are one sample, so that small frames keep the log short.
            Some(last) if last.at == now && last.delivered == self.delivered => *last = entry,
            _ => self.log.push_back(entry),
        }
    }

    /// Handles the peer's report of its total position.
    ///
    /// A position beyond what was sent counts as all of it. A lower position than before is stale.
    pub fn handle_received(&mut self, now: Instant, position: u64) {
        // A lying peer must not make `sent - delivered` underflow.
        let position = position.min(self.sent);
        if position <= self.delivered {
            return;
        }
        self.delivered = position;
        self.delivered_at = now;
        let mut latest = None;
        while let Some(entry) = self.log.front().filter(|entry| entry.end <= position) {
            latest = Some(*entry);
            self.log.pop_front();
        }
        if let Some(entry) = latest {
            self.sample(now, &entry);
        }
        if position >= self.round_end {
            self.end_round();
        }
    }

    /// Returns how much may be handed over now.
    pub fn credit(&self) -> DataSize {
        self.limit().saturating_sub(self.outstanding())
    }

    /// Returns how much may be outstanding.
    pub fn limit(&self) -> DataSize {
        let rate = self.rates.max();
        let time = self.rtt_min.get() + TARGET;
        // In the start each round may double the rate, as in slow start.
        let gain = if self.start.is_some() { 2 } else { 1 };
        let bytes = (rate * time).as_bytes() * gain + self.probe;
        DataSize::from_bytes(bytes.max(2 * self.chunk()))
    }

    /// Returns how much was handed over and is not reported as arrived.
    pub const fn outstanding(&self) -> DataSize {
        DataSize::from_bytes(self.sent - self.delivered)
    }

    /// Returns how much was handed over in all.
    pub const fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the delivery rate; `None` before the first sample.
    pub fn rate(&self) -> Option<Bitrate> {
        let rate = self.rates.max();
        (rate != Bitrate::ZERO).then_some(rate)
    }

    /// Returns whether the path was ever found full.
    pub const fn has_been_full(&self) -> bool {
        self.start.is_none()
    }

    /// Returns the recent minimum round trip; zero before the first sample.
    pub fn rtt_min(&self) -> Duration {
        self.rtt_min.get()
    }

    /// Returns how many bytes take [`CHUNK_TIME`], within the outbox's bounds.
    fn chunk(&self) -> u64 {
        let bytes = (self.rates.max() * CHUNK_TIME).as_bytes();
        bytes.clamp(CHUNK_BYTES_MIN.into(), CHUNK_BYTES_MAX.into())
    }

    fn sample(&mut self, now: Instant, entry: &Entry) {
        self.rtt_last = now.saturating_since(entry.at);
        self.rtt_min.handle_sample(now, self.rtt_last);
        // Bunched acknowledgements would show a rate that no line has: bytes cannot arrive faster
        // than they were sent.
        let send_time = entry.at.saturating_since(entry.first_sent);
        let arrival_time = now.saturating_since(entry.delivered_at);
        self.first_sent = entry.at;
        let delivered = DataSize::from_bytes(self.delivered - entry.delivered);
        let rate = delivered / send_time.max(arrival_time);
        self.rates.handle_sample(rate, entry.is_limited);
    }

    fn end_round(&mut self) {
        // A round that was not limited by credit shows nothing about the line.
        self.round_limited = self.was_limited;
        self.was_limited = false;
        self.round_end = self.sent;
        if !self.round_limited {
            return;
        }
        let is_queue_short = self.rtt_last <= self.rtt_min.get() + TARGET;
        if let Some(start) = &mut self.start {
            let rate = self.rates.max();
            if rate.as_bps() >= start.rate.as_bps() / 4 * 5 {
                *start = Start {
                    rate,
                    flat_rounds: 0,
                };
            } else {
                start.flat_rounds += 1;
            }
            if start.flat_rounds >= FLAT_ROUNDS {
                self.start = None;
            }
        } else if is_queue_short {
            // At most a bandwidth-delay product: beyond that a larger limit teaches nothing.
            let most = (self.rates.max() * self.rtt_min.get()).as_bytes();
            self.probe = (self.probe + self.chunk()).min(most);
        } else {
            // The queue grew beyond the target: give half of the probe back at once.
            self.probe /= 2;
        }
        self.rates.handle_round();
    }
}
