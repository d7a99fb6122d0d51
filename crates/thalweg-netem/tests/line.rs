//! Proves that a line's losses and jitter match their parameters, and that every packet is
//! accounted for.
//!
//! The statistics of 100,000 packets are compared with their parameters. The seeds are fixed, so a
//! test that passes once always passes, and the tolerances cover chance.

use proptest::prelude::*;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_netem::{Impairment, Line};

fn size(bytes: u64) -> DataSize {
    DataSize::from_bytes(bytes)
}

/// Offers `count` packets of 100 bytes to a line of 8 Mbit/s, one each 100 µs, and returns when
/// each came out.
fn arrivals(impairment: Impairment, count: u64, seed: u64) -> (Vec<(Instant, u64)>, Line<u64>) {
    let mut line = Line::new(impairment, seed);
    let (mut out, mut now) = (Vec::new(), Instant::ZERO);
    for number in 0..count {
        line.handle_packet(now, size(100), number);
        now = now + Duration::from_micros(100);
        drain(&mut line, now, &mut out);
    }
    drain(&mut line, now + Duration::from_secs(60), &mut out);
    (out, line)
}

/// Polls everything out at the very times that the line gives.
fn drain(line: &mut Line<u64>, until: Instant, out: &mut Vec<(Instant, u64)>) {
    while line.poll_timeout() <= until {
        let now = line.poll_timeout();
        while let Some(number) = line.poll_packet(now) {
            out.push((now, number));
        }
    }
}

fn quick() -> Impairment {
    Impairment {
        rate: Bitrate::from_kbps(8_000),
        delay: Duration::from_millis(20),
        ..Impairment::default()
    }
}

fn share(value: f64) -> Ratio {
    Ratio::new(value).expect("a share")
}

#[test]
fn losses_have_mean_and_burst_length() {
    for (loss, burst, burst_loss) in [
        (0.01, 1.0, 1.0),
        (0.05, 4.0, 1.0),
        (0.02, 20.0, 1.0),
        (0.1, 8.0, 0.5),
        (0.6, 1.2, 1.0),
    ] {
        let impairment = Impairment {
            loss: share(loss),
            burst,
            burst_loss: share(burst_loss),
            ..quick()
        };
        let (out, line) = arrivals(impairment, 100_000, 11);
        assert_eq!(out.len() as u64 + line.counters().lost, 100_000);
        let measured = line.counters().lost as f64 / 100_000.0;
        // The deviation of a mean over n packets in bursts of b is about sqrt(2 b p / n): six of
        // them, at most.
        let slack = 6.0 * (2.0 * burst * loss / 100_000.0_f64).sqrt();
        assert!(
            (measured - loss).abs() < slack,
            "{loss} {burst}: {measured}"
        );
        if burst_loss < 1.0 || loss > 0.5 {
            continue;
        }
        let gaps = out.windows(2).filter(|pair| pair[1].1 > pair[0].1 + 1);
        let length = line.counters().lost as f64 / gaps.count() as f64;
        // Independent losses form runs too: a run lasts 1 / (1 − p).
        let expected = if burst > 1.0 {
            burst
        } else {
            1.0 / (1.0 - loss)
        };
        assert!((length / expected - 1.0).abs() < 0.15, "{burst}: {length}");
    }
}

#[test]
fn jitter_fills_range_in_order() {
    let impairment = Impairment {
        jitter: Duration::from_millis(8),
        ..quick()
    };
    // Packets 40 ms apart do not wait for each other.
    let mut line = Line::new(impairment, 5);
    let mut sum = 0.0;
    for number in 0..10_000 {
        let sent = Instant::ZERO + Duration::from_millis(40 * number);
        line.handle_packet(sent, size(100), number);
        // On the line for 0.1 ms first, then in propagation.
        assert_eq!(line.poll_packet(sent + Duration::from_micros(100)), None);
        let arrival = line.poll_timeout();
        assert_eq!(line.poll_packet(arrival), Some(number));
        let late = arrival.saturating_since(sent + Duration::from_micros(20_100));
        assert!(late <= Duration::from_millis(8), "{late}");
        sum += late.as_millis_f64();
    }
    assert!((sum / 10_000.0 - 4.0).abs() < 0.15, "{sum}");
    let (out, _) = arrivals(impairment, 100_000, 6);
    assert!(out.windows(2).all(|pair| pair[0].1 < pair[1].1));
}

#[test]
fn unordered_line_overtakes_by_jitter() {
    let impairment = Impairment {
        jitter: Duration::from_millis(8),
        ordered: false,
        ..quick()
    };
    let (out, line) = arrivals(impairment, 100_000, 6);
    assert_eq!(line.counters().packets, 100_000);
    assert!(out.windows(2).any(|pair| pair[1].1 < pair[0].1));
    let mut sum = 0.0;
    for (at, number) in &out {
        // On the line for 0.1 ms first, and a new packet each 0.1 ms.
        let due = Instant::ZERO + Duration::from_micros(20_100 + 100 * number);
        assert!(*at >= due, "{number}");
        let late = at.saturating_since(due);
        assert!(late <= Duration::from_millis(8), "{late}");
        sum += late.as_millis_f64();
    }
    assert!((sum / 100_000.0 - 4.0).abs() < 0.05, "{sum}");
}

#[test]
fn only_the_held_back_share_is_overtaken() {
    let impairment = Impairment {
        reorder: share(0.03),
        ..quick()
    };
    let (out, line) = arrivals(impairment, 100_000, 9);
    assert_eq!(line.counters().packets, 100_000);
    let mut latest = 0;
    let mut overtaken = 0;
    for (_, number) in &out {
        overtaken += u64::from(*number < latest);
        latest = latest.max(*number);
    }
    assert!((2_700..3_300).contains(&overtaken), "{overtaken}");
    // Half of 20 ms, by which the first of them is late.
    let first = out.windows(2).find(|pair| pair[1].1 < pair[0].1);
    let (at, number) = first.expect("some are overtaken")[1];
    let due = Instant::ZERO + Duration::from_micros(100 * number + 100) + Duration::from_millis(30);
    assert_eq!(at, due);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// For any input, every packet is counted, the queue keeps its bound, and only packets that are
    /// held back are overtaken.
    #[test]
    fn packets_are_conserved_in_order(
        seed in any::<u64>(),
        steps in prop::collection::vec((0u64..30, 40u64..1_500, 0u8..40), 1..300),
        kbps in 50u64..5_000,
        jitter_ms in 0u64..30,
        loss in 0.0..0.5f64,
        burst in 1.0..10.0f64,
        queue in 0u64..20_000,
    ) {
        let mut impairment = Impairment {
            rate: Bitrate::from_kbps(kbps),
            delay: Duration::from_millis(10),
            jitter: Duration::from_millis(jitter_ms),
            loss: share(loss),
            burst,
            queue: size(queue),
            ..Impairment::default()
        };
        let mut line = Line::new(impairment, seed);
        let (mut now, mut last) = (Instant::ZERO, None);
        for (number, (gap_ms, bytes, what)) in (0u64..).zip(steps) {
            now = now + Duration::from_millis(gap_ms);
            match what {
                0 => impairment.up = !impairment.up,
                1 => impairment.delay = Duration::from_millis(gap_ms),
                2 => impairment.rate = Bitrate::from_kbps(kbps / 2),
                _ => {}
            }
            if what < 3 {
                line.handle_change(now, impairment);
            }
            line.handle_packet(now, size(bytes), number);
            prop_assert!(line.queued() <= size(queue.max(1_500)));
            while let Some(number) = line.poll_packet(now) {
                prop_assert!(last < Some(number));
                last = Some(number);
            }
            let counters = line.counters();
            let inside = line.inside() as u64;
            let gone = counters.packets + counters.lost + counters.overflowed + counters.cut;
            prop_assert_eq!(counters.offered, gone + inside);
            prop_assert!(line.inside() == 0 || line.poll_timeout() > now);
        }
    }
}
