//! Proves what a look takes for a queue of others, and when one is taken: not of one's own packets, nor of what they wait for.

use super::super::drain::Drain;
use super::super::ledger::Sample;
use super::super::{Controller, Mode};
use super::{PACKET, Path, ms};
use crate::time::{Duration, Instant};
use crate::units::Bitrate;

#[test]
fn a_look_takes_no_acknowledgement_that_is_told_too_early_for_an_empty_queue() {
    let began = Instant::ZERO + ms(100);
    let mut drain = Drain::new(began, 0.0, [Bitrate::ZERO; 2], None);
    let mut look = |sent: Duration, rtt: Duration, rtt_most: Duration| {
        let sample = Sample {
            sent: began + sent,
            size: PACKET,
            rtt,
            rtt_most,
            acked: PACKET,
            rate: None,
            is_short: false,
            ends_round: false,
        };
        drain.handle_ack(
            began + sent + rtt,
            &sample,
            Duration::ZERO,
            true,
            [ms(20); 2],
        )
    };
    assert_eq!(look(ms(0), ms(20), ms(20)), None, "it begins to hold");
    assert_eq!(look(ms(21), ms(1), ms(30)), None, "the first packet alone");
    assert_eq!(look(ms(30), ms(25), ms(25)), Some(ms(25)));
}

#[test]
fn what_every_packet_of_a_look_waited_for_a_second_is_no_queue() {
    let floor_of = |waits: [u64; 2]| {
        let begun = Instant::ZERO + ms(1_000);
        let rate = Bitrate::from_kbps(1_000);
        let mut drain = Drain::new(begun, 0.0, [rate, rate], None);
        let base_and_smooth = [ms(40), ms(100)];
        let mut ack = |sent: Instant, waited: u64| {
            let sample = Sample {
                sent,
                size: PACKET,
                rtt: ms(78),
                rtt_most: ms(78),
                acked: PACKET,
                rate: None,
                is_short: false,
                ends_round: false,
            };
            drain.handle_ack(sent + ms(78), &sample, ms(waited), true, base_and_smooth)
        };
        // What is in flight fits; the first packet alone says nothing.
        assert_eq!(ack(begun - ms(78), 0), None);
        assert_eq!(ack(begun + ms(1), waits[0]), None);
        ack(begun + ms(12), waits[1])
    };
    assert_eq!(floor_of([25, 25]), Some(ms(53)));
    assert_eq!(
        floor_of([25, 0]),
        Some(ms(78)),
        "the second waited for nobody"
    );
    assert_eq!(floor_of([0, 25]), Some(ms(78)));
    assert_eq!(floor_of([0, 0]), Some(ms(78)));
}

/// Returns how often a path looks in this time.
fn looks(path: &mut Path, time: Duration) -> usize {
    let mut count = 0;
    let mut was = path.controller.mode();
    let until = path.now + time;
    while path.now < until {
        path.run_for(ms(1));
        let is = path.controller.mode();
        count += usize::from(is == Mode::Drain && was != Mode::Drain);
        was = is;
    }
    count
}

#[test]
fn who_found_nobody_does_not_look_at_his_own_two_packets() {
    for kbps in [1_000, 1_500, 2_000] {
        let mut path = Path::new(Bitrate::from_kbps(kbps), ms(20));
        // As small packets measure it: what a large one takes seems to be a queue.
        path.controller
            .delay
            .handle_sample(path.now, ms(20), ms(20));
        path.run_for(Duration::from_secs(5));
        assert!(
            path.controller.rate_empty > Bitrate::ZERO,
            "{kbps} kbit/s: looks found nobody"
        );
        assert_eq!(
            looks(&mut path, Duration::from_secs(60)),
            0,
            "{kbps} kbit/s"
        );
        // A line that has become slower is looked at.
        path.rate = Bitrate::from_kbps(kbps * 7 / 10);
        assert!(
            looks(&mut path, Duration::from_secs(2)) > 0,
            "{kbps} kbit/s"
        );
        assert_eq!(path.controller.mode(), Mode::Quiet, "{kbps} kbit/s");
    }
}

#[test]
fn a_queue_is_ones_own_by_its_rate_and_its_length() {
    // Two packets take 9.6 ms, a queue counts as empty up to 7.8 and as long from 28.8.
    let of = |then: u64, now: u64, queueing: u64| {
        let mut controller = Controller::new(PACKET);
        controller.rate_empty = Bitrate::from_kbps(then);
        controller
            .rates
            .handle_sample(Bitrate::from_kbps(now), false);
        let at = Instant::ZERO + Duration::from_secs(1);
        controller.delay.handle_sample(at, ms(20), ms(20));
        for after in 1..20 {
            controller.delay.handle_sample(
                at + ms(after * 100),
                ms(20 + queueing),
                ms(20 + queueing),
            );
        }
        controller.is_queue_own()
    };
    assert!(of(2_000, 2_000, 10));
    assert!(of(2_000, 1_600, 10) && !of(2_000, 1_599, 10), "slower");
    assert!(of(2_000, 2_500, 10) && !of(2_000, 2_501, 10), "faster");
    assert!(of(2_000, 2_000, 28) && !of(2_000, 2_000, 29), "long");
    assert!(!of(0, 2_000, 10), "not known to be alone");
    assert!(
        of(3_100, 3_100, 10) && !of(3_300, 3_300, 10),
        "two packets seem empty"
    );
}

#[test]
fn who_meets_others_forgets_at_which_rate_he_was_alone() {
    let mut path = Path::new(Bitrate::from_kbps(2_000), ms(20));
    path.run_for(Duration::from_secs(5));
    assert!(path.controller.rate_empty > Bitrate::ZERO);
    // Somebody keeps 100 ms in the queue.
    for _ in 0..2_000 {
        path.free = path.free.max(path.now + ms(100));
        path.run_for(ms(1));
    }
    assert_eq!(path.controller.mode(), Mode::Compete);
    assert_eq!(path.controller.rate_empty, Bitrate::ZERO);
}
