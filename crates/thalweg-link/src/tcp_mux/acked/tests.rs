//! Proves `PaceA` on a line as arithmetic: a rate, a delay, an unbounded queue.
//!
//! The sender uses all its credit; each chunk leaves the line when those before it have, and is
//! acknowledged a delay later. So the longest queue is what `PaceA` let into it.

use alloc::collections::VecDeque;

use super::*;

struct Line {
    rate: Bitrate,
    rtt: Duration,
    free: Instant,
    /// When each chunk's acknowledgement arrives, and the position that it reports.
    acks: VecDeque<(Instant, u64)>,
    sent: u64,
}

impl Line {
    fn new(rate_kbps: u64, rtt_ms: u64) -> Self {
        Self {
            rate: Bitrate::from_kbps(rate_kbps),
            rtt: Duration::from_millis(rtt_ms),
            free: Instant::ZERO,
            acks: VecDeque::new(),
            sent: 0,
        }
    }

    /// Sends for this long in steps of a millisecond, at most `offered` a step; returns the bytes
    /// delivered and the longest queueing delay over the second half.
    fn play(
        &mut self,
        pacer: &mut PaceA,
        start: Instant,
        span: Duration,
        offered: u64,
    ) -> (u64, Duration) {
        let (mut now, mut delivered, mut longest) = (start, 0, Duration::ZERO);
        let half = start + Duration::from_nanos(span.as_nanos() / 2);
        while now < start + span {
            while let Some((at, position)) = self.acks.front().copied().filter(|ack| ack.0 <= now) {
                pacer.handle_received(at.max(start), position);
                self.acks.pop_front();
                delivered += u64::from(now >= half) * 1_200;
            }
            let mut left = offered;
            while left >= 1_200 && pacer.credit().as_bytes() >= 1_200 {
                left -= 1_200;
                let is_limited = left >= 1_200 && pacer.credit().as_bytes() < 2_400;
                pacer.handle_sent(now, 1_200, is_limited);
                self.sent += 1_200;
                if now >= half {
                    longest = longest.max(self.free.saturating_since(now));
                }
                self.free = self.free.max(now) + self.rate.time_for(DataSize::from_bytes(1_200));
                self.acks.push_back((self.free + self.rtt, self.sent));
            }
            now = now + Duration::from_millis(1);
        }
        (delivered, longest)
    }
}

const ALL: u64 = u64::MAX / 2;

#[test]
fn full_line_keeps_queue_near_target() {
    for (rate_kbps, rtt_ms) in [(1_000, 20), (10_000, 50), (10_000, 100), (50_000, 30)] {
        let (mut line, mut pacer) = (Line::new(rate_kbps, rtt_ms), PaceA::new(Instant::ZERO));
        let (delivered, longest) =
            line.play(&mut pacer, Instant::ZERO, Duration::from_secs(20), ALL);
        let most = (line.rate * Duration::from_secs(10)).as_bytes();
        assert!(
            delivered * 100 >= most * 90,
            "{rate_kbps} kbit/s, {rtt_ms} ms: {delivered} of {most}"
        );
        let allowed = Duration::from_nanos(3 * TARGET.as_nanos())
            + line.rate.time_for(DataSize::from_bytes(4_800));
        assert!(
            longest <= allowed,
            "{rate_kbps} kbit/s, {rtt_ms} ms: {longest}"
        );
    }
}

#[test]
fn slower_line_is_accepted_in_rounds() {
    let (mut line, mut pacer) = (Line::new(20_000, 40), PaceA::new(Instant::ZERO));
    line.play(&mut pacer, Instant::ZERO, Duration::from_secs(5), ALL);
    line.rate = Bitrate::from_kbps(2_000);
    let start = Instant::ZERO + Duration::from_secs(5);
    let (_, longest) = line.play(&mut pacer, start, Duration::from_secs(20), ALL);
    assert!(longest <= Duration::from_millis(60), "{longest}");
}

#[test]
fn app_limited_sender_keeps_rate() {
    let (mut line, mut pacer) = (Line::new(10_000, 50), PaceA::new(Instant::ZERO));
    line.play(&mut pacer, Instant::ZERO, Duration::from_secs(5), ALL);
    let known = pacer.rate().expect("five seconds of samples");
    let start = Instant::ZERO + Duration::from_secs(5);
    // 1,200 bytes a step would be 9.6 Mbit/s; one step in twenty is offered.
    for step in 0..100 {
        let start = start + Duration::from_millis(20 * step);
        line.play(&mut pacer, start, Duration::from_millis(1), 1_200);
        line.play(&mut pacer, start, Duration::from_millis(19), 0);
    }
    let now = pacer.rate().expect("still known");
    assert!(
        now.as_bps() * 10 >= known.as_bps() * 9,
        "{known} then {now}"
    );
}

#[test]
fn initial_credit_is_two_chunks() {
    let mut pacer = PaceA::new(Instant::ZERO);
    assert_eq!(pacer.credit().as_bytes(), 2_400);
    pacer.handle_sent(Instant::ZERO, 2_399, true);
    assert_eq!(pacer.credit().as_bytes(), 1);
    pacer.handle_sent(Instant::ZERO, 1, true);
    assert_eq!(pacer.credit(), DataSize::ZERO);
}

#[test]
fn false_and_stale_positions_are_capped() {
    let mut pacer = PaceA::new(Instant::ZERO);
    pacer.handle_sent(Instant::ZERO, 1_000, false);
    let later = Instant::ZERO + Duration::from_millis(10);
    pacer.handle_received(later, u64::MAX);
    assert_eq!(pacer.outstanding(), DataSize::ZERO);
    pacer.handle_received(later, 0);
    assert_eq!(pacer.outstanding(), DataSize::ZERO);
}
