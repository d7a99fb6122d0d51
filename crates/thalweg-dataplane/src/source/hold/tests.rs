//! Proves what is held for unreachable sinks: for how long, how much, in which order, and that
//! drops are reported once.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header, Importance};
use thalweg_base::event::DropCause::{self, Cancelled, Expired, NoSubscriber, Overflow};
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::needs::{Needs, Order};
use thalweg_base::seen::Held;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;

use super::{Due, Hold, Sinkward};

const A: NodeId = NodeId([1; 32]);
const B: NodeId = NodeId([2; 32]);
const C: NodeId = NodeId([3; 32]);

fn hold(order: Order) -> Hold {
    let needs = Needs {
        hold: Duration::from_secs(60),
        hold_size: DataSize::from_bytes(100),
        order,
        ..Needs::default()
    };
    Hold::new(&needs).expect("it is to be held")
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn give(hold: &mut Hold, sequence: u64, importance: u8, now: Instant) {
    let mut header = Header::new(StreamId(7), Sequence(sequence));
    header.importance = Importance(importance);
    let payload = Bytes::from_static(&[0; 10]);
    hold.handle_adu(Adu { header, payload }, now);
}

fn give_end(hold: &mut Hold, sequence: u64) {
    let mut header = Header::new(StreamId(7), Sequence(sequence));
    header.flags = Flags::END;
    let payload = Bytes::new();
    hold.handle_adu(Adu { header, payload }, at(0));
}

fn sinks(hold: &mut Hold, sinks: &[(NodeId, Option<u32>)]) {
    sinks_at(hold, sinks, at(0));
}

fn sinks_at(hold: &mut Hold, sinks: &[(NodeId, Option<u32>)], now: Instant) {
    let sinkward = |(sink, plan): &(NodeId, Option<u32>)| Sinkward {
        sink: *sink,
        plan: plan.map(|plan| (Epoch(plan), u8::MAX)),
    };
    let sinks: Vec<Sinkward> = sinks.iter().map(sinkward).collect();
    hold.handle_sinks(&sinks, now);
}

fn sent(hold: &mut Hold, now: Instant) -> Vec<(NodeId, u32, u64)> {
    let due = core::iter::from_fn(|| hold.poll_due(now));
    due.map(
        |Due {
             adu, sink, plan, ..
         }| (sink, plan.0, adu.header.sequence.0),
    )
    .collect()
}

fn dropped(hold: &mut Hold) -> Vec<(u64, DropCause)> {
    let dropped = core::iter::from_fn(|| hold.poll_dropped());
    dropped
        .map(|dropped| (dropped.header.sequence.0, dropped.cause))
        .collect()
}

fn has(sequences: core::ops::Range<u64>) -> Held {
    Held {
        floor: 0,
        ranges: vec![sequences],
    }
}

#[test]
fn early_adus_reach_every_sink_once() {
    let mut hold = hold(Order::Importance);
    give(&mut hold, 0, 9, at(0));
    give(&mut hold, 1, 9, at(1));
    assert_eq!(sent(&mut hold, at(2)), []);
    sinks(&mut hold, &[(B, None)]);
    assert_eq!(sent(&mut hold, at(2)), [], "it is known, and unreachable");
    sinks(&mut hold, &[(A, Some(2)), (B, Some(1))]);
    let both = [(A, 2, 0), (B, 1, 0), (A, 2, 1), (B, 1, 1)];
    assert_eq!(sent(&mut hold, at(2)), both);
    give(&mut hold, 2, 9, at(3));
    assert_eq!(sent(&mut hold, at(3)), [(A, 2, 2), (B, 1, 2)]);
    assert_eq!(sent(&mut hold, at(3)), []);
    for sink in [A, B] {
        hold.handle_receipt(sink, &has(0..3));
    }
    assert_eq!((hold.lacked(), dropped(&mut hold)), ((0, 0), vec![]));
}

#[test]
fn late_sink_gets_unexpired_store() {
    let mut hold = hold(Order::Sequence);
    sinks(&mut hold, &[(A, Some(1))]);
    for sequence in 0..4 {
        give(&mut hold, sequence, 9, at(10 * sequence));
    }
    assert_eq!(sent(&mut hold, at(30)).len(), 4);
    hold.handle_receipt(A, &has(0..3));
    sinks_at(&mut hold, &[(A, Some(1)), (B, Some(2))], at(60));
    assert_eq!(sent(&mut hold, at(60)), [(B, 2, 1), (B, 2, 2), (B, 2, 3)]);
    hold.handle_receipt(A, &has(0..4));
    hold.handle_receipt(B, &has(1..4));
    let all = [(A, Some(1)), (B, Some(2)), (C, Some(3))];
    sinks_at(&mut hold, &all, at(89));
    assert_eq!(sent(&mut hold, at(89)), [(C, 3, 3)]);
    hold.expire(at(90));
    assert_eq!((hold.size(), dropped(&mut hold)), ((0, 0), vec![]));
}

#[test]
fn acknowledged_adus_are_evicted_first() {
    let mut hold = hold(Order::Importance);
    sinks(&mut hold, &[(A, Some(1))]);
    for sequence in 0..10 {
        give(&mut hold, sequence, 200, at(0));
    }
    assert_eq!(sent(&mut hold, at(0)).len(), 10);
    hold.handle_receipt(A, &has(0..5));
    give(&mut hold, 10, 1, at(0));
    assert_eq!((hold.size(), hold.lacked()), ((10, 100), (6, 60)));
    assert!(hold.is_pressed(), "six wait for A or for its receipt");
    hold.handle_receipt(A, &has(0..6));
    assert_eq!((hold.size(), hold.lacked()), ((10, 100), (5, 50)));
    assert!(!hold.is_pressed());
    for sequence in 11..16 {
        give(&mut hold, sequence, 1, at(0));
    }
    assert_eq!((hold.size(), hold.lacked()), ((10, 100), (10, 100)));
    assert_eq!(dropped(&mut hold), [], "A has what went");
}

#[test]
fn early_stream_waits_for_more_sinks() {
    let mut hold = hold(Order::Sequence);
    give(&mut hold, 0, 9, at(0));
    give_end(&mut hold, 1);
    sinks_at(&mut hold, &[(A, Some(1))], at(10));
    assert_eq!(sent(&mut hold, at(10)), [(A, 1, 0)]);
    hold.handle_receipt(A, &has(0..1));
    assert_eq!(sent(&mut hold, at(10)), [(A, 1, 1)]);
    hold.handle_receipt(A, &has(0..2));
    assert_eq!(hold.poll_settled(), at(16));
    sinks_at(&mut hold, &[(A, Some(1)), (B, Some(2))], at(15));
    assert_eq!(hold.poll_settled(), at(60), "B lacks it");
    assert_eq!(sent(&mut hold, at(15)), [(B, 2, 0)]);
    hold.handle_receipt(B, &has(0..1));
    assert_eq!(sent(&mut hold, at(15)), [(B, 2, 1)]);
    hold.handle_receipt(B, &has(0..2));
    assert_eq!(hold.poll_settled(), at(16));
}

#[test]
fn importance_overtakes_unless_in_sequence() {
    for (order, first) in [(Order::Importance, 1), (Order::Sequence, 0)] {
        let mut hold = hold(order);
        give(&mut hold, 0, 5, at(0));
        give(&mut hold, 1, 200, at(0));
        give(&mut hold, 2, 5, at(0));
        sinks(&mut hold, &[(A, Some(1))]);
        let order: Vec<u64> = sent(&mut hold, at(1)).iter().map(|sent| sent.2).collect();
        assert_eq!((order[0], order[2]), (first, 2));
    }
}

#[test]
fn broken_path_requeues_unacknowledged() {
    let mut hold = hold(Order::Sequence);
    sinks(&mut hold, &[(A, Some(1))]);
    for sequence in 0..4 {
        give(&mut hold, sequence, 9, at(0));
    }
    assert_eq!(sent(&mut hold, at(0)).len(), 4);
    hold.handle_broken(A, &[Epoch(7)]);
    assert_eq!(sent(&mut hold, at(0)), [], "of another plan");
    sinks(&mut hold, &[(A, None)]);
    hold.handle_broken(A, &[Epoch(1)]);
    give(&mut hold, 4, 9, at(1));
    hold.handle_receipt(A, &has(1..3));
    sinks(&mut hold, &[(A, Some(2))]);
    let again = sent(&mut hold, at(2));
    assert_eq!(again, [(A, 2, 0), (A, 2, 3), (A, 2, 4)]);
}

#[test]
fn missing_plan_pauses_its_queue() {
    let mut hold = hold(Order::Sequence);
    sinks(&mut hold, &[(A, Some(1))]);
    give(&mut hold, 0, 9, at(0));
    let due = hold.poll_due(at(0)).expect("it can be sent");
    hold.handle_astray(&due);
    assert_eq!(sent(&mut hold, at(0)), []);
    sinks(&mut hold, &[(A, Some(2))]);
    assert_eq!(sent(&mut hold, at(0)), [(A, 2, 0)]);
}

#[test]
fn overflow_drops_least_important() {
    let mut hold = hold(Order::Importance);
    sinks(&mut hold, &[(A, None)]);
    for sequence in 0..10 {
        give(
            &mut hold,
            sequence,
            if sequence < 3 { 200 } else { 5 },
            at(0),
        );
    }
    assert_eq!((hold.size(), dropped(&mut hold)), ((10, 100), vec![]));
    give(&mut hold, 10, 200, at(0));
    give(&mut hold, 11, 5, at(0));
    assert_eq!(dropped(&mut hold), [(3, Overflow), (4, Overflow)]);
    assert_eq!(hold.size(), (10, 100));
    // ADUs that were sent, and may have arrived, are evicted before those that were never sent.
    sinks(&mut hold, &[(A, Some(1))]);
    assert_eq!(
        hold.poll_due(at(0)).map(|due| due.adu.header.sequence.0),
        Some(0)
    );
    sinks(&mut hold, &[(A, None)]);
    give(&mut hold, 12, 1, at(0));
    assert_eq!((hold.size(), dropped(&mut hold)), ((10, 100), vec![]));
}

#[test]
fn expiry_is_reported_once_per_sink() {
    let mut hold = hold(Order::Importance);
    give(&mut hold, 0, 9, at(0));
    assert_eq!(hold.poll_settled(), at(60));
    hold.expire(at(60));
    assert_eq!(dropped(&mut hold), [(0, NoSubscriber)]);
    sinks(&mut hold, &[(A, None), (B, Some(2))]);
    give(&mut hold, 1, 9, at(60));
    assert_eq!(sent(&mut hold, at(61)), [(B, 2, 1)]);
    sinks(&mut hold, &[(A, Some(3)), (B, Some(2))]);
    assert_eq!(sent(&mut hold, at(120)), [], "too late for the first");
    assert_eq!(dropped(&mut hold), [(1, Expired)]);
    // An ADU sent by a broken path is accounted for where it was lost.
    give(&mut hold, 2, 9, at(120));
    assert_eq!(sent(&mut hold, at(120)).len(), 2);
    hold.handle_broken(A, &[Epoch(3)]);
    hold.expire(at(300));
    assert_eq!((hold.size(), dropped(&mut hold)), ((0, 0), vec![]));
}

#[test]
fn leaving_sink_cancels_its_queue() {
    let mut hold = hold(Order::Importance);
    sinks(&mut hold, &[(A, None), (B, None)]);
    give(&mut hold, 0, 9, at(0));
    sinks(&mut hold, &[(B, None)]);
    assert_eq!(dropped(&mut hold), [(0, Cancelled)]);
    sinks(&mut hold, &[]);
    assert_eq!(dropped(&mut hold), [(0, Cancelled)]);
    assert_eq!(hold.lacked(), (0, 0));
    give(&mut hold, 1, 9, at(0));
    sinks(&mut hold, &[(C, Some(1))]);
    assert_eq!(
        sent(&mut hold, at(0)),
        [(C, 1, 0), (C, 1, 1)],
        "held for the first sink to come"
    );
}

#[test]
fn end_is_sent_last() {
    let mut hold = hold(Order::Importance);
    sinks(&mut hold, &[(A, Some(1))]);
    give(&mut hold, 0, 1, at(0));
    give_end(&mut hold, 1);
    assert_eq!(sent(&mut hold, at(0)), [(A, 1, 0)]);
    hold.handle_receipt(A, &has(0..1));
    assert_eq!(sent(&mut hold, at(0)), [(A, 1, 1)]);
    hold.handle_receipt(A, &has(0..2));
    assert_eq!((hold.lacked(), hold.poll_settled()), ((0, 0), at(0)));
}

#[test]
fn producer_waits_at_half_while_draining() {
    let mut hold = hold(Order::Importance);
    for sequence in 0..6 {
        give(&mut hold, sequence, 9, at(0));
    }
    assert!(!hold.is_pressed(), "it is not draining");
    sinks(&mut hold, &[(A, Some(1))]);
    assert!(hold.is_pressed());
    hold.handle_receipt(A, &has(0..1));
    assert!(!hold.is_pressed());
}

#[test]
fn held_gap_counts_as_missing() {
    let mut hold = hold(Order::Sequence);
    sinks(&mut hold, &[(A, Some(1))]);
    for sequence in 0..6 {
        give(&mut hold, sequence, 0, at(0));
    }
    assert_eq!(sent(&mut hold, at(0)).len(), 6);
    give(&mut hold, 6, 0, at(0));
    let held = Held {
        floor: 1,
        ranges: vec![3..4, 8..9],
    };
    hold.handle_receipt(A, &held);
    let missing = |sink, plan, now| hold.missing(sink, Epoch(plan), &held, now);
    assert_eq!(missing(A, 1, at(0)), 4, "1, 2, 4 and 5; 6 was not sent");
    assert_eq!(missing(A, 2, at(0)), 0);
    assert_eq!(missing(B, 1, at(0)), 0);
    assert_eq!(missing(A, 1, at(60)), 0, "it is not held any more");
}
