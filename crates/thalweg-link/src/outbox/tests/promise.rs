//! Proves what is begun, and what is finished first: each rule at its edge from both sides.
//!
//! A byte takes a microsecond on the path, so a chunk of 2,000 bytes takes 2,064 µs with an ADU's
//! overhead.

use thalweg_base::adu::Importance;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;

use super::super::{FlowId, Outbox, WEIGHT_USUAL};
use super::{entry, next, outbox, push};

fn micros(micros: u64) -> Instant {
    Instant::ZERO + Duration::from_micros(micros)
}

/// An outbox with a known rate and this many equal flows.
fn outbox_with<const FLOWS: usize>() -> (Outbox, [FlowId; FLOWS]) {
    let mut outbox = outbox();
    outbox.set_rate(Some(Bitrate::from_kbps(8_000)));
    let flows = [(); FLOWS].map(|()| {
        let flow = outbox.open_flow(WEIGHT_USUAL, Order::Importance);
        flow.expect("they are few")
    });
    (outbox, flows)
}

#[test]
fn late_adu_is_postponed() {
    for (bytes, through) in [(10_000, 10_064), (2_000, 2_064), (300, 364)] {
        for (deadline, goes_first) in [(through, true), (through - 1, false)] {
            let (mut outbox, [flow]) = outbox_with();
            let tight = push(&mut outbox, flow, entry(0, 9, micros(deadline), bytes));
            let other = push(&mut outbox, flow, entry(1, 9, micros(50_000), bytes));
            let chunk = next(&mut outbox, Instant::ZERO).expect("two wait");
            let due = if goes_first { tight } else { other };
            assert_eq!(chunk.ticket, due, "{bytes} bytes in {deadline} µs");
        }
    }
}

#[test]
fn share_counts_sending_flows() {
    // The first chunk goes at once, the other 8,000 bytes at half the rate.
    for (deadline, goes_first) in [(18_064, true), (18_063, false)] {
        let (mut outbox, [flow, beside]) = outbox_with();
        push(&mut outbox, beside, entry(0, 9, Instant::NEVER, 50_000));
        let first = next(&mut outbox, Instant::ZERO).expect("one waits");
        assert_eq!(first.flow, beside);
        let tight = push(&mut outbox, flow, entry(0, 9, micros(deadline), 10_000));
        push(&mut outbox, flow, entry(1, 9, micros(50_000), 10_000));
        let chunk = next(&mut outbox, Instant::ZERO).expect("three wait");
        assert_eq!(chunk.ticket == tight, goes_first, "in {deadline} µs");
        // Once the other flow is gone, or has hardly any weight, there is time.
        outbox.close_flow(beside);
        let later = push(&mut outbox, flow, entry(2, 10, micros(deadline), 10_000));
        push(&mut outbox, flow, entry(3, 10, micros(50_000), 10_000));
        let chunk = next(&mut outbox, Instant::ZERO).expect("they wait");
        assert_eq!(chunk.ticket, later);
    }
}

#[test]
fn postponed_adu_goes_last() {
    let (mut outbox, [flow]) = outbox_with();
    let tight = push(&mut outbox, flow, entry(0, 9, micros(8_000), 10_000));
    let lesser = push(&mut outbox, flow, entry(1, 8, micros(50_000), 1_000));
    let chunk = next(&mut outbox, Instant::ZERO).expect("two wait");
    assert_eq!(chunk.ticket, tight, "it is more important");
    assert!(outbox.set_importance(tight, Importance(8)));
    let chunk = next(&mut outbox, Instant::ZERO).expect("two wait");
    assert_eq!(chunk.ticket, lesser, "they are equals now");
    let chunk = next(&mut outbox, Instant::ZERO).expect("one waits");
    assert_eq!(chunk.ticket, tight);
    // A later deadline lifts the postponement.
    let other = push(&mut outbox, flow, entry(2, 8, micros(40_000), 1_000));
    assert!(outbox.set_deadline(tight, micros(30_000)));
    let chunk = next(&mut outbox, Instant::ZERO).expect("two wait");
    assert_eq!((chunk.ticket, chunk.ticket == other), (tight, false));
}

#[test]
fn begun_adu_is_finished_in_time() {
    // 8,000 bytes are left, and 2,000 of the other come between: each is charged 64 bytes.
    for (deadline, is_finished) in [(8_064, true), (10_127, true), (10_128, false)] {
        let (mut outbox, [flow]) = outbox_with();
        let begun = push(&mut outbox, flow, entry(0, 9, micros(50_000), 10_000));
        assert_eq!(
            next(&mut outbox, Instant::ZERO).map(|c| c.ticket),
            Some(begun)
        );
        assert!(outbox.set_deadline(begun, micros(deadline)));
        let urgent = push(&mut outbox, flow, entry(1, 9, micros(8_000), 2_000));
        let chunk = next(&mut outbox, Instant::ZERO).expect("two wait");
        let due = if is_finished { begun } else { urgent };
        assert_eq!(chunk.ticket, due, "due in {deadline} µs");
    }
}

#[test]
fn late_begun_adu_makes_way() {
    for (deadline, importance) in [(8_063, 9), (8_064, 10)] {
        let (mut outbox, [flow]) = outbox_with();
        let begun = push(&mut outbox, flow, entry(0, 9, micros(50_000), 10_000));
        assert_eq!(
            next(&mut outbox, Instant::ZERO).map(|c| c.ticket),
            Some(begun)
        );
        assert!(outbox.set_deadline(begun, micros(deadline)));
        let urgent = push(
            &mut outbox,
            flow,
            entry(1, importance, micros(8_000), 2_000),
        );
        let chunk = next(&mut outbox, Instant::ZERO).expect("two wait");
        assert_eq!(
            chunk.ticket, urgent,
            "due in {deadline} µs, importance {importance}"
        );
    }
}
