//! Proves when a drain is started and what it takes for competing flows: neither the flow's own
//! packets, nor the delay of their acknowledgements.

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;

use super::super::drain::Drain;
use super::super::ledger::Sample;
use super::super::rivals::is_own_queue;
use super::super::{Controller, Mode};
use super::{PACKET, Path, ms};

/// Shows a controller a round trip, and a rate if there is one.
fn see(controller: &mut Controller, now: Instant, rtt: Duration, rate: Option<Bitrate>) {
    let sample = Sample {
        sent: now,
        size: PACKET,
        rtt,
        rtt_max: rtt,
        acked: PACKET,
        rate,
        app_limited: false,
        ends_round: false,
    };
    let path = &mut controller.path;
    path.handle_sample(now, &sample, Duration::ZERO, true);
}

#[test]
fn early_ack_shows_no_empty_queue() {
    let began = Instant::ZERO + ms(100);
    let mut drain = Drain::new(began, 0.0, [Bitrate::ZERO; 2], None);
    let mut ack = |sent: Duration, rtt: Duration, rtt_max: Duration| {
        let sample = Sample {
            sent: began + sent,
            size: PACKET,
            rtt,
            rtt_max,
            acked: PACKET,
            rate: None,
            app_limited: false,
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
    assert_eq!(ack(ms(0), ms(20), ms(20)), None, "it begins to hold");
    assert_eq!(ack(ms(21), ms(1), ms(30)), None, "the first packet alone");
    assert_eq!(ack(ms(30), ms(25), ms(25)), Some(ms(25)));
}

#[test]
fn delayed_acks_are_no_queue() {
    let floor_of = |waits: [u64; 2]| {
        let begun = Instant::ZERO + ms(1_000);
        let rate = Bitrate::from_kbps(1_000);
        let mut drain = Drain::new(begun, 0.0, [rate, rate], None);
        let base_and_smooth = [ms(40), ms(100)];
        let mut ack = |sent: Instant, ack_delay: u64| {
            let sample = Sample {
                sent,
                size: PACKET,
                rtt: ms(78),
                rtt_max: ms(78),
                acked: PACKET,
                rate: None,
                app_limited: false,
                ends_round: false,
            };
            drain.handle_ack(sent + ms(78), &sample, ms(ack_delay), true, base_and_smooth)
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
        "the second was acknowledged at once"
    );
    assert_eq!(floor_of([0, 25]), Some(ms(78)));
    assert_eq!(floor_of([0, 0]), Some(ms(78)));
}

/// Returns how many drains a path starts in this time.
fn drains(path: &mut Path, time: Duration) -> usize {
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
fn own_two_packets_start_no_drain() {
    for kbps in [1_000, 1_500, 2_000] {
        let mut path = Path::new(Bitrate::from_kbps(kbps), ms(20));
        // The base is as small packets measured it: a large one's serialization delay looks like a
        // queue.
        see(&mut path.controller, path.now, ms(20), None);
        path.run_for(Duration::from_secs(5));
        assert!(
            path.controller.rivals.rate_uncontended() > Bitrate::ZERO,
            "{kbps} kbit/s: drains found no rival"
        );
        assert_eq!(
            drains(&mut path, Duration::from_secs(60)),
            0,
            "{kbps} kbit/s"
        );
        // A line that became slower is measured again.
        path.rate = Bitrate::from_kbps(kbps * 7 / 10);
        assert!(
            drains(&mut path, Duration::from_secs(2)) > 0,
            "{kbps} kbit/s"
        );
        assert_eq!(path.controller.mode(), Mode::Quiet, "{kbps} kbit/s");
    }
}

#[test]
fn rate_and_length_show_own_queue() {
    // Two packets take 9.6 ms; a queue counts as empty up to 7.8 ms and as long from 28.8 ms.
    let of = |then: u64, now: u64, queueing: u64| {
        let mut controller = Controller::new(PACKET);
        let at = Instant::ZERO + Duration::from_secs(1);
        let rate = Some(Bitrate::from_kbps(now));
        see(&mut controller, at, ms(20), rate);
        for after in 1..20 {
            let at = at + ms(after * 100);
            see(&mut controller, at, ms(20 + queueing), None);
        }
        is_own_queue(Bitrate::from_kbps(then), &controller.path)
    };
    assert!(of(2_000, 2_000, 10));
    assert!(of(2_000, 1_600, 10) && !of(2_000, 1_599, 10), "slower");
    assert!(of(2_000, 2_500, 10) && !of(2_000, 2_501, 10), "faster");
    assert!(of(2_000, 2_000, 28) && !of(2_000, 2_000, 29), "long");
    assert!(!of(0, 2_000, 10), "never known to be alone");
    assert!(
        of(3_100, 3_100, 10) && !of(3_300, 3_300, 10),
        "two packets count as empty"
    );
}

#[test]
fn rivals_reset_uncontended_rate() {
    let mut path = Path::new(Bitrate::from_kbps(2_000), ms(20));
    path.run_for(Duration::from_secs(5));
    assert!(path.controller.rivals.rate_uncontended() > Bitrate::ZERO);
    // A rival keeps 100 ms in the queue.
    for _ in 0..2_000 {
        path.free = path.free.max(path.now + ms(100));
        path.run_for(ms(1));
    }
    assert_eq!(path.controller.mode(), Mode::Compete);
    assert_eq!(path.controller.rivals.rate_uncontended(), Bitrate::ZERO);
}
