//! Proves the order in which ADUs go, and what changes it.

use alloc::vec::Vec;
use core::num::NonZeroU8;

use thalweg_base::adu::Importance;
use thalweg_base::event::DropCause;
use thalweg_base::id::Sequence;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::super::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, WEIGHT_USUAL};
use super::{PLENTY, at, drain, drops, entry, next, outbox, push, with_flow};

#[test]
fn importance_precedes_deadline() {
    let (mut outbox, flow) = with_flow();
    let late = push(&mut outbox, flow, entry(0, 9, at(20), 10));
    let second = push(&mut outbox, flow, entry(2, 9, at(10), 10));
    let first = push(&mut outbox, flow, entry(1, 9, at(10), 10));
    let top = push(&mut outbox, flow, entry(3, 10, Instant::NEVER, 10));
    assert_eq!(drain(&mut outbox, at(0)), [top, first, second, late]);
}

#[test]
fn equal_adus_go_first_in_first_out() {
    let (mut outbox, flow) = with_flow();
    let tickets: Vec<_> = (0..5_000)
        .map(|_| push(&mut outbox, flow, entry(0, 5, at(10), 1)))
        .collect();
    assert_eq!(drain(&mut outbox, at(0)), tickets);
}

#[test]
fn sequence_flow_ignores_importance() {
    let mut outbox = outbox();
    let flow = outbox
        .open_flow(WEIGHT_USUAL, Order::Sequence)
        .expect("it is the first");
    let first = push(&mut outbox, flow, entry(5, 0, at(90), 10));
    let second = push(&mut outbox, flow, entry(1, 255, at(10), 10));
    assert!(outbox.set_importance(second, Importance(255)));
    assert_eq!(drain(&mut outbox, at(0)), [first, second]);
}

#[test]
fn sequence_flow_waits_for_arriving_adu() {
    let mut outbox = outbox();
    let flow = outbox
        .open_flow(WEIGHT_USUAL, Order::Sequence)
        .expect("it is the first");
    let mut partial = entry(0, 0, at(90), 10);
    partial.available_bytes = 4;
    let first = push(&mut outbox, flow, partial);
    let second = push(&mut outbox, flow, entry(1, 0, at(90), 10));
    assert_eq!(
        next(&mut outbox, at(0)).expect("4 bytes are here").range,
        0..4
    );
    assert_eq!(next(&mut outbox, at(0)), None);
    assert!(outbox.cancel(first, DropCause::Cancelled));
    assert_eq!(
        next(&mut outbox, at(0)).expect("it is first now").ticket,
        second
    );
    assert!(drops(&mut outbox)[0].has_begun);
}

#[test]
fn urgent_adu_overtakes_between_chunks() {
    let (mut outbox, flow) = with_flow();
    outbox.set_rate(Some(Bitrate::from_kbps(10_000)));
    let large = push(&mut outbox, flow, entry(0, 1, Instant::NEVER, 100_000));
    let chunk = next(&mut outbox, at(0)).expect("it waits");
    // 2 ms at 10 Mbit/s.
    assert_eq!((chunk.ticket, chunk.range), (large, 0..2_500));
    let urgent = push(&mut outbox, flow, entry(1, 2, at(5), 100));
    let chunk = next(&mut outbox, at(0)).expect("it waits");
    assert_eq!(
        (chunk.ticket, chunk.is_first, chunk.is_last),
        (urgent, true, true)
    );
    let chunk = next(&mut outbox, at(0)).expect("it waits");
    assert_eq!((chunk.ticket, chunk.range), (large, 2_500..5_000));
}

#[test]
fn arriving_adu_blocks_no_other() {
    let (mut outbox, flow) = with_flow();
    let mut arriving = entry(0, 9, at(90), 100);
    arriving.available_bytes = 0;
    let arriving = push(&mut outbox, flow, arriving);
    let other = push(&mut outbox, flow, entry(1, 1, at(90), 10));
    assert_eq!(next(&mut outbox, at(0)).expect("it waits").ticket, other);
    assert_eq!(next(&mut outbox, at(0)), None);
    assert!(outbox.handle_available(arriving, 30));
    // A stale report, or one of more bytes than there are, changes nothing.
    assert!(outbox.handle_available(arriving, 20));
    let chunk = next(&mut outbox, at(0)).expect("30 bytes are here");
    assert_eq!((chunk.range, chunk.is_last), (0..30, false));
    assert!(outbox.handle_available(arriving, 101));
    let chunk = next(&mut outbox, at(0)).expect("the rest is here");
    assert_eq!((chunk.range, chunk.is_last), (30..100, true));
}

#[test]
fn empty_adu_is_sent_once() {
    let (mut outbox, flow) = with_flow();
    push(&mut outbox, flow, entry(0, 9, at(90), 0));
    let chunk = next(&mut outbox, at(0)).expect("it is an ADU");
    assert_eq!(
        (chunk.range, chunk.is_first, chunk.is_last),
        (0..0, true, true)
    );
    assert_eq!(next(&mut outbox, at(0)), None);
}

#[test]
fn flows_share_by_weight() {
    let mut outbox = outbox();
    outbox.set_rate(Some(Bitrate::from_kbps(1_000)));
    let weights = [1, 16, 48].map(|weight| NonZeroU8::new(weight).expect("it is not zero"));
    let flows = weights.map(|weight| outbox.open_flow(weight, Order::Importance).expect("few"));
    let mut sent = [0; 3];
    // Sizes that do not divide into chunks; the light flow's ADUs are the most important, which
    // does not affect the others.
    for sequence in 0..4_000 {
        for (place, bytes) in [(0, 3_001), (1, 100), (2, 1_300)] {
            let importance = 255 - 100 * place as u8;
            let entry = entry(sequence, importance, Instant::NEVER, bytes);
            push(&mut outbox, flows[place], entry);
        }
    }
    while sent.iter().sum::<usize>() < 600_000 {
        let chunk = next(&mut outbox, at(0)).expect("all have more");
        let place = flows
            .iter()
            .position(|flow| *flow == chunk.flow)
            .expect("it is one of them");
        sent[place] += chunk.range.len();
        // An ADU's overhead besides its bytes.
        sent[place] += if chunk.is_first { 64 } else { 0 };
        if chunk.is_last {
            outbox.finish(chunk.ticket);
        }
    }
    for (place, weight) in weights.into_iter().enumerate() {
        let share = sent[place] as f64 / sent.iter().sum::<usize>() as f64;
        let due = f64::from(weight.get()) / 65.0;
        assert!(
            (share - due).abs() < 0.01,
            "{share} of the bytes where {due} are due"
        );
    }
}

#[test]
fn returning_flow_goes_first() {
    let mut outbox = outbox();
    outbox.set_rate(Some(Bitrate::from_kbps(1_000)));
    let bulk = [0; 3].map(|_| {
        outbox
            .open_flow(WEIGHT_USUAL, Order::Importance)
            .expect("few")
    });
    let sparse = outbox
        .open_flow(WEIGHT_USUAL, Order::Importance)
        .expect("few");
    for flow in bulk {
        push(&mut outbox, flow, entry(0, 9, Instant::NEVER, 1 << 20));
    }
    for _ in 0..10 {
        next(&mut outbox, at(0));
    }
    push(&mut outbox, sparse, entry(0, 0, Instant::NEVER, 100));
    let chunk = next(&mut outbox, at(0)).expect("all have more");
    assert_eq!(chunk.flow, sparse);
    assert!(outbox.finish(chunk.ticket));
    // Now it always returns with a whole quantum the moment it has sent the last.
    let mut turns = 0;
    for sequence in 1..=400 {
        if outbox.len() < 4 {
            push(
                &mut outbox,
                sparse,
                entry(sequence, 0, Instant::NEVER, 1_200),
            );
        }
        let chunk = next(&mut outbox, at(0)).expect("all have more");
        turns += u32::from(chunk.flow == sparse);
        if chunk.is_last {
            outbox.finish(chunk.ticket);
        }
    }
    // A header's worth less than a quarter, for its ADUs are new each time.
    assert!((90..=100).contains(&turns), "{turns} of 400 chunks");
}

#[test]
fn urgent_flow_takes_turn_early() {
    let mut outbox = outbox();
    outbox.set_rate(Some(Bitrate::from_kbps(1_000)));
    let flows = [0; 8].map(|_| {
        outbox
            .open_flow(WEIGHT_USUAL, Order::Importance)
            .expect("few")
    });
    for flow in flows {
        push(&mut outbox, flow, entry(0, 9, Instant::NEVER, 1 << 20));
    }
    let last = (0..21).map(|_| next(&mut outbox, at(0)).expect("all have more").flow);
    // This flow just had its turn, and may take only one ahead.
    let caller = last.last().expect("there were 21");
    let urgent = push(&mut outbox, caller, entry(1, 10, Instant::NEVER, 1_200));
    let chunk = next(&mut outbox, at(0)).expect("all have more");
    assert_eq!(chunk.ticket, urgent);
    assert!(outbox.finish(urgent));
    let waits = |outbox: &mut super::Outbox, sequence, importance| {
        let urgent = push(
            outbox,
            caller,
            entry(sequence, importance, Instant::NEVER, 1_200),
        );
        let order = core::iter::from_fn(|| next(outbox, at(0)));
        let waits = order.take_while(|chunk| chunk.ticket != urgent).count();
        assert!(outbox.finish(urgent));
        waits
    };
    // Seven flows end their round, and have the next.
    assert_eq!(waits(&mut outbox, 2, 11), 14);
    // An ADU as important as the last one waits for the round; a more important one does not.
    assert_eq!(waits(&mut outbox, 3, 11), 7);
    assert_eq!(waits(&mut outbox, 4, 12), 0);
    // A flow that takes its turn early as often as it can still gets its eighth.
    let mut turns = 0;
    for sequence in 5..805 {
        let importance = if sequence % 2 == 0 { 10 } else { 200 };
        if sequence % 4 < 2 {
            let deadline = at(1_000 + sequence);
            push(
                &mut outbox,
                caller,
                entry(sequence, importance, deadline, 1_136),
            );
        }
        let chunk = next(&mut outbox, at(0)).expect("all have more");
        turns += u32::from(chunk.flow == caller);
        if chunk.is_last {
            outbox.finish(chunk.ticket);
        }
    }
    assert!((98..=102).contains(&turns), "{turns} of 800 chunks");
}

#[test]
fn queued_adu_can_change() {
    let (mut outbox, flow) = with_flow();
    let first = push(&mut outbox, flow, entry(0, 5, at(10), 10));
    let second = push(&mut outbox, flow, entry(1, 5, at(20), 10));
    assert!(outbox.set_importance(second, Importance(6)));
    assert!(outbox.set_deadline(first, at(40)));
    assert!(outbox.set_weight(flow, NonZeroU8::MAX));
    assert_eq!(outbox.poll_timeout(), at(20));
    assert_eq!(drain(&mut outbox, at(0)), [second, first]);
    assert!(
        !outbox.set_importance(second, Importance(1)),
        "it has ended"
    );
    assert!(!outbox.set_deadline(first, at(50)), "it has ended");
    assert_eq!(outbox.poll_timeout(), Instant::NEVER);
}

#[test]
fn deadline_drops_in_any_state() {
    let (mut outbox, flow) = with_flow();
    outbox.set_rate(Some(Bitrate::from_kbps(10_000)));
    let departed = push(&mut outbox, flow, entry(0, 9, at(10), 100));
    let half = push(&mut outbox, flow, entry(1, 8, at(10), 10_000));
    let waiting = push(&mut outbox, flow, entry(2, 7, at(10), 100));
    let timeless = push(&mut outbox, flow, entry(3, 6, Instant::NEVER, 100));
    assert_eq!(next(&mut outbox, at(0)).expect("it waits").ticket, departed);
    assert_eq!(next(&mut outbox, at(0)).expect("it waits").ticket, half);
    assert_eq!(outbox.poll_timeout(), at(10));
    outbox.handle_timeout(at(9));
    assert_eq!(drops(&mut outbox), []);
    outbox.handle_timeout(at(10));
    let dropped = drops(&mut outbox);
    let told: Vec<_> = dropped.iter().map(|d| (d.ticket, d.has_begun)).collect();
    assert_eq!(told, [(departed, true), (half, true), (waiting, false)]);
    assert!(
        dropped
            .iter()
            .all(|dropped| dropped.cause == DropCause::Expired)
    );
    assert!(!outbox.finish(departed), "it was dropped before");
    assert_eq!(drain(&mut outbox, at(10)), [timeless]);
    assert!(outbox.is_empty());
}

#[test]
fn dropped_base_drops_chain() {
    let (mut outbox, flow) = with_flow();
    // The last of the chain comes first.
    for sequence in (0..2_000).rev() {
        let mut entry = entry(sequence, 9, Instant::NEVER, 10);
        entry.depends_on = sequence.checked_sub(1).map(Sequence);
        push(&mut outbox, flow, entry);
    }
    let free = push(&mut outbox, flow, entry(5_000, 0, Instant::NEVER, 10));
    let base = next(&mut outbox, at(0)).expect("all wait").ticket;
    assert!(outbox.finish(base));
    let second = next(&mut outbox, at(0)).expect("all wait").ticket;
    assert!(outbox.finish(second), "its base has arrived");
    let third = outbox.families.first_child(0, 1);
    let third = outbox.slab.ticket(third);
    assert!(outbox.cancel(third, DropCause::Cancelled));
    let dropped = drops(&mut outbox);
    assert_eq!(dropped.len(), 1_998);
    assert_eq!(outbox.drops().of(DropCause::Dependant), 1_997);
    assert_eq!(drain(&mut outbox, at(0)), [free]);
    assert_eq!(outbox.families.len(), 0);
}

#[test]
fn lost_base_refuses_until_copy() {
    let (mut outbox, flow) = with_flow();
    let base = push(&mut outbox, flow, entry(7, 9, at(10), 10));
    outbox.handle_timeout(at(10));
    assert_eq!(drops(&mut outbox)[0].ticket, base);
    let mut dependant = entry(8, 9, at(90), 10);
    dependant.depends_on = Some(Sequence(7));
    let refused = outbox.push(at(10), flow, dependant).expect_err("7 is lost");
    assert_eq!(refused.drop_cause(), DropCause::Dependant);
    // 8 is lost itself now.
    let mut next_one = entry(9, 9, at(90), 10);
    next_one.depends_on = Some(Sequence(8));
    assert!(outbox.push(at(10), flow, next_one).is_err());
    push(&mut outbox, flow, entry(7, 9, at(90), 10));
    assert!(outbox.push(at(10), flow, dependant).is_ok());
}

#[test]
fn departed_base_keeps_dependants() {
    let (mut outbox, flow) = with_flow();
    push(&mut outbox, flow, entry(0, 9, at(10), 10));
    let mut dependant = entry(1, 8, at(90), 10);
    dependant.depends_on = Some(Sequence(0));
    let dependant = push(&mut outbox, flow, dependant);
    assert!(next(&mut outbox, at(0)).expect("both wait").is_last);
    outbox.handle_timeout(at(10));
    assert_eq!(drops(&mut outbox).len(), 1);
    assert_eq!(drain(&mut outbox, at(10)), [dependant]);
}

#[test]
fn credit_cuts_no_packet() {
    let (mut outbox, flow) = with_flow();
    push(&mut outbox, flow, entry(0, 9, at(90), 5_000));
    let least = DataSize::from_bytes(CHUNK_BYTES_MIN.into());
    let below = least.saturating_sub(DataSize::from_bytes(1));
    assert_eq!(outbox.poll_chunk(at(0), below), None);
    let chunk = outbox.poll_chunk(at(0), least).expect("a packet fits");
    assert_eq!(chunk.range, 0..1_200);
    let chunk = outbox
        .poll_chunk(at(0), DataSize::from_bytes(3_700))
        .expect("more fits");
    assert_eq!(chunk.range, 1_200..4_900);
    // An ADU smaller than a packet needs only its own size.
    let rest = outbox.poll_chunk(at(0), DataSize::from_bytes(99));
    assert_eq!(rest, None);
    let rest = outbox.poll_chunk(at(0), DataSize::from_bytes(100));
    assert_eq!(rest.expect("it fits").range, 4_900..5_000);
    push(&mut outbox, flow, entry(1, 9, at(90), 0));
    assert_eq!(outbox.poll_chunk(at(0), DataSize::ZERO), None);
    assert!(outbox.poll_chunk(at(0), DataSize::from_bytes(1)).is_some());
}

#[test]
fn chunks_fill_a_packet() {
    for (packet, kbps, expected) in [
        (0, 2_000, 1_200),
        (1_200, 2_000, 1_200),
        (1_248, 2_000, 1_200),
        (1_249, 2_000, 1_201),
        (1_452, 150, 1_404),
        (1_452, 5_616, 1_404),
        (1_452, 10_000, 2_500),
        (u64::MAX, 2_000, u64::from(CHUNK_BYTES_MAX)),
    ] {
        let (mut outbox, _) = with_flow();
        outbox.set_packet(DataSize::from_bytes(packet));
        outbox.set_rate(Some(Bitrate::from_kbps(kbps)));
        assert_eq!(outbox.chunk(), DataSize::from_bytes(expected), "{packet}");
    }
}

#[test]
fn untaken_bytes_keep_their_place() {
    for order in [Order::Importance, Order::Sequence] {
        let mut outbox = outbox();
        let flow = outbox.open_flow(WEIGHT_USUAL, order).expect("few");
        let first = push(&mut outbox, flow, entry(0, 9, at(90), 1_000));
        push(&mut outbox, flow, entry(1, 8, at(90), 1_000));
        assert!(next(&mut outbox, at(0)).expect("both wait").is_last);
        assert!(outbox.handle_unsent(first, 300));
        assert_eq!(outbox.queued().as_bytes(), 2_000);
        let chunk = next(&mut outbox, at(0)).expect("both wait");
        assert_eq!((chunk.ticket, chunk.range), (first, 700..1_000));
        assert_eq!((chunk.is_first, chunk.is_last), (false, true));
        assert!(outbox.handle_unsent(first, 0) && outbox.finish(first));
        assert!(!outbox.handle_unsent(first, 1), "it has ended");
    }
}

#[test]
fn stalled_reader_blocks_itself() {
    let (mut outbox, flow) = with_flow();
    outbox.set_rate(Some(Bitrate::from_kbps(10_000)));
    let held = push(&mut outbox, flow, entry(0, 9, at(50), 10_000));
    let other = push(&mut outbox, flow, entry(1, 1, at(90), 100));
    assert_eq!(next(&mut outbox, at(0)).expect("both wait").ticket, held);
    assert!(outbox.set_blocked(held, true));
    assert!(outbox.set_blocked(held, true));
    assert_eq!(drain(&mut outbox, at(0)), [other]);
    assert!(outbox.set_blocked(held, false));
    assert_eq!(
        next(&mut outbox, at(0)).expect("it is released").ticket,
        held
    );
    assert!(outbox.set_blocked(held, true));
    outbox.handle_timeout(at(50));
    assert_eq!(drops(&mut outbox)[0].cause, DropCause::Expired);
    assert!(!outbox.set_blocked(held, false), "it has ended");
}

#[test]
fn clock_that_steps_back_stalls_nothing() {
    let (mut outbox, flow) = with_flow();
    let mut order = Vec::new();
    for (sequence, now) in [1_000, 10, 2_000, 0].into_iter().enumerate() {
        let entry = entry(sequence as u64, 9, at(now + 100), 10);
        order.push(
            outbox
                .push(at(now), flow, entry)
                .expect("it is in time by then"),
        );
        let chunk = next(&mut outbox, at(now)).expect("it is in time");
        assert_eq!(chunk.ticket, order[sequence]);
    }
    // The ADUs due at 110 expired when the clock was at 2,000.
    assert_eq!(drops(&mut outbox).len(), 2);
    assert_eq!(outbox.poll_timeout(), at(100));
}

#[test]
fn closed_flow_drops_its_adus() {
    let (mut outbox, flow) = with_flow();
    let ticket = push(&mut outbox, flow, entry(0, 9, at(90), 10));
    outbox.close_flow(flow);
    assert_eq!(drops(&mut outbox)[0].ticket, ticket);
    let another = outbox
        .open_flow(WEIGHT_USUAL, Order::Importance)
        .expect("few");
    assert_eq!((another.index(), another == flow), (flow.index(), false));
    assert!(outbox.push(at(0), flow, entry(1, 9, at(90), 10)).is_err());
    assert!(!outbox.set_weight(flow, WEIGHT_USUAL));
    let ticket = push(&mut outbox, another, entry(1, 9, at(90), 10));
    outbox.close_flow(flow);
    let chunk = outbox.poll_chunk(at(0), PLENTY).expect("the other is open");
    assert_eq!(chunk.ticket, ticket);
}

#[test]
fn hopeless_adu_is_dropped() {
    let (mut outbox, flow) = with_flow();
    outbox.set_transit(Duration::from_millis(20));
    outbox.set_ceiling(Some(Bitrate::from_kbps(800)));
    // 10 ms on the line, 20 ms of delay.
    push(&mut outbox, flow, entry(0, 9, at(100), 1_000));
    push(&mut outbox, flow, entry(1, 9, at(101), 1_000));
    push(&mut outbox, flow, entry(2, 9, Instant::NEVER, 1_000));
    let sent = core::iter::from_fn(|| next(&mut outbox, at(71)));
    assert_eq!(sent.filter(|chunk| chunk.is_last).count(), 2);
    let dropped = drops(&mut outbox);
    assert_eq!(dropped.len(), 1);
    assert_eq!(
        (dropped[0].sequence.0, dropped[0].cause),
        (0, DropCause::Expired)
    );
}

#[test]
fn transit_takes_quarter_of_time() {
    let (mut outbox, flow) = with_flow();
    // A satellite link's return path may be slow while its forward path is not.
    outbox.set_transit(Duration::from_secs(10));
    push(&mut outbox, flow, entry(0, 9, at(100), 1_000));
    push(&mut outbox, flow, entry(1, 9, at(101), 1_000));
    let sent = next(&mut outbox, at(75));
    assert!(sent.is_some_and(|chunk| chunk.is_last));
    assert!(next(&mut outbox, at(76)).is_none());
    assert_eq!(drops(&mut outbox).len(), 1);
}
