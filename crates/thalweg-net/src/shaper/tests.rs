//! Proves the model of a line in virtual time: its rate over any second, its order, its queue, its losses.

use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::{Bitrate, DataSize, Ratio};

use super::pipe::{Impairment, Pipe};

fn line(rate: Bitrate) -> Impairment {
    Impairment {
        rate,
        delay: Duration::from_millis(20),
        loss: Ratio::ZERO,
        queue: DataSize::from_kib(64),
    }
}

fn size(bytes: u64) -> DataSize {
    DataSize::from_bytes(bytes)
}

/// Offers a packet every `gap` for `seconds`, asks every millisecond, and returns when each came out.
fn drive(pipe: &mut Pipe<u64>, bytes: u64, gap: Duration, seconds: u64) -> Vec<(Instant, u64)> {
    let (mut out, mut next, mut number) = (Vec::new(), Instant::ZERO, 0);
    for millis in 0..seconds * 1000 {
        let now = Instant::ZERO + Duration::from_millis(millis);
        while next <= now {
            pipe.handle_packet(next, size(bytes), number);
            (next, number) = (next + gap, number + 1);
        }
        while let Some(packet) = pipe.poll_packet(now) {
            out.push((now, packet));
        }
    }
    out
}

#[test]
fn saturated_line_passes_its_rate_in_every_second() {
    for (rate, gap) in [
        (Bitrate::from_kbps(150), Duration::from_millis(20)),
        (Bitrate::from_kbps(2_000), Duration::from_millis(3)),
        (Bitrate::from_kbps(100_000), Duration::from_micros(100)),
    ] {
        let mut pipe = Pipe::new(line(rate), 1);
        let out = drive(&mut pipe, 1_280, gap, 10);
        for second in 1..10 {
            let since = Instant::ZERO + Duration::from_secs(second);
            let until = since + Duration::from_secs(1);
            let bits = out
                .iter()
                .filter(|(at, _)| (since..until).contains(at))
                .count() as f64
                * 1_280.0
                * 8.0;
            // A packet more or less at the edges of a second is 7 % at 150 kbit/s; sums are held to 3 % below.
            let slack = 0.03_f64.max(1_280.0 * 8.0 / rate.as_bps() as f64);
            let ratio = bits / rate.as_bps() as f64;
            assert!(
                (1.0 - slack..=1.0 + slack).contains(&ratio),
                "{rate} {second} {ratio}"
            );
        }
        let total = out.len() as f64 * 1_280.0 * 8.0;
        let ratio = total / (rate.as_bps() as f64 * 9.98);
        assert!((0.97..=1.03).contains(&ratio), "{rate} {ratio}");
    }
}

#[test]
fn packet_comes_out_after_its_bits_and_the_delay() {
    // 1,250 bytes at 1 Mbit/s take 10 ms.
    let mut pipe = Pipe::new(line(Bitrate::from_kbps(1_000)), 1);
    pipe.handle_packet(Instant::ZERO, size(1_250), 1);
    let due = Instant::ZERO + Duration::from_millis(30);
    assert_eq!(pipe.poll_packet(due - Duration::from_nanos(1)), None);
    assert_eq!(pipe.poll_timeout(), due);
    assert_eq!(pipe.poll_packet(due), Some(1));
    assert_eq!(pipe.poll_timeout(), Instant::NEVER);
}

#[test]
fn full_queue_drops_the_newcomer_and_counts_it() {
    let impairment = Impairment {
        queue: size(2_500),
        ..line(Bitrate::from_kbps(1_000))
    };
    let mut pipe = Pipe::new(impairment, 1);
    // One on the line, two in the queue, one too many.
    for number in 0..4 {
        pipe.handle_packet(Instant::ZERO, size(1_250), number);
    }
    assert_eq!(pipe.counters().overflowed, 1);
    let end = Instant::ZERO + Duration::from_secs(1);
    let out: Vec<_> = std::iter::from_fn(|| pipe.poll_packet(end)).collect();
    assert_eq!(out, [0, 1, 2]);
    assert_eq!(pipe.counters().bytes, 3 * 1_250);
}

#[test]
fn losses_follow_the_seed_and_their_share() {
    let impairment = Impairment {
        loss: Ratio::new(0.1).expect("a share"),
        ..line(Bitrate::from_kbps(100_000))
    };
    let run = |seed| {
        let mut pipe = Pipe::new(impairment, seed);
        let out = drive(&mut pipe, 100, Duration::from_millis(1), 20);
        (out, pipe.counters().lost)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
    let (_, lost) = run(5);
    // 20,000 trials of 0.1: the deviation is 42.
    assert!((1_800..=2_200).contains(&lost), "{lost}");
}

#[test]
fn change_of_rate_applies_to_what_is_left_of_a_packet() {
    let mut pipe = Pipe::new(line(Bitrate::from_kbps(1_000)), 1);
    pipe.handle_packet(Instant::ZERO, size(1_250), 1);
    let half = Instant::ZERO + Duration::from_millis(5);
    pipe.handle_change(half, line(Bitrate::from_kbps(500)));
    // The other half at half the rate: 10 ms more, then 20 ms of delay.
    assert_eq!(
        pipe.poll_packet(Instant::ZERO + Duration::from_millis(34)),
        None
    );
    assert_eq!(
        pipe.poll_packet(Instant::ZERO + Duration::from_millis(35)),
        Some(1)
    );
}

#[test]
fn stopped_line_holds_packets_until_it_runs_again() {
    let mut pipe = Pipe::new(line(Bitrate::ZERO), 1);
    pipe.handle_packet(Instant::ZERO, size(1_250), 1);
    assert_eq!(pipe.poll_timeout(), Instant::NEVER);
    let later = Instant::ZERO + Duration::from_secs(60);
    assert_eq!(pipe.poll_packet(later), None);
    pipe.handle_change(later, line(Bitrate::from_kbps(1_000)));
    assert_eq!(pipe.poll_packet(later + Duration::from_millis(30)), Some(1));
}

#[test]
fn shorter_delay_never_reorders() {
    let mut pipe = Pipe::new(line(Bitrate::from_kbps(100_000)), 1);
    pipe.handle_packet(Instant::ZERO, size(100), 1);
    let now = Instant::ZERO + Duration::from_millis(1);
    let quick = Impairment {
        delay: Duration::ZERO,
        ..line(Bitrate::from_kbps(100_000))
    };
    pipe.handle_change(now, quick);
    pipe.handle_packet(now, size(100), 2);
    let end = Instant::ZERO + Duration::from_secs(1);
    let out: Vec<_> = std::iter::from_fn(|| pipe.poll_packet(end)).collect();
    assert_eq!(out, [1, 2]);
}
