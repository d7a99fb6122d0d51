//! Proves which drops count as crowded out, and which do not.

use thalweg_base::event::DropCause;
use thalweg_base::id::Sequence;
use thalweg_base::needs::Order;
use thalweg_base::units::DataSize;

use super::{PLENTY, at, entry, push, with_flow};
use crate::outbox::{Entry, FlowId, Outbox, WEIGHT_USUAL};

const BYTES: usize = 5_000;

fn needing(base: u64, entry: Entry) -> Entry {
    Entry {
        depends_on: Some(Sequence(base)),
        ..entry
    }
}

/// A key frame is to be sent, there is no credit for it, and its deadline passes.
fn with_expired_key_frame() -> (Outbox, FlowId) {
    let (mut outbox, flow) = with_flow();
    push(&mut outbox, flow, entry(0, 9, at(100), BYTES));
    push(&mut outbox, flow, needing(0, entry(1, 5, at(140), BYTES)));
    assert!(outbox.has_chunk(at(0)));
    assert_eq!(outbox.poll_chunk(at(0), DataSize::ZERO), None);
    outbox.handle_timeout(at(101));
    (outbox, flow)
}

#[test]
fn crowded_out_counts_dependants() {
    let (mut outbox, flow) = with_expired_key_frame();
    let bytes = |adus: u64| DataSize::from_bytes(adus * BYTES as u64);
    assert_eq!(outbox.take_crowded_out(), bytes(2));
    // The path is idle meanwhile.
    assert!(!outbox.has_chunk(at(102)));
    for sequence in 2..5 {
        let late = needing(sequence - 1, entry(sequence, 5, at(300), BYTES));
        assert!(outbox.push(at(150), flow, late).is_err());
    }
    assert_eq!(outbox.take_crowded_out(), bytes(3));
    assert_eq!(outbox.take_crowded_out(), DataSize::ZERO);
}

#[test]
fn rest_of_begun_adu_counts() {
    let (mut outbox, flow) = with_flow();
    push(&mut outbox, flow, entry(0, 9, at(100), BYTES));
    let chunk = outbox.poll_chunk(at(0), DataSize::from_bytes(2_000));
    assert_eq!(chunk.map(|chunk| chunk.range.len()), Some(2_000));
    assert_eq!(outbox.poll_chunk(at(0), DataSize::ZERO), None);
    outbox.handle_timeout(at(101));
    assert_eq!(outbox.take_crowded_out(), DataSize::from_bytes(3_000));
}

#[test]
fn late_arrival_is_uncounted() {
    let (mut outbox, flow) = with_flow();
    assert!(
        outbox
            .push(at(100), flow, entry(0, 9, at(90), BYTES))
            .is_err()
    );
    let child = needing(0, entry(1, 5, at(300), BYTES));
    assert!(outbox.push(at(100), flow, child).is_err());
    // In time, but not with the path's delay; there is credit.
    outbox.set_transit(at(40).saturating_since(at(0)));
    push(&mut outbox, flow, entry(2, 9, at(120), BYTES));
    assert_eq!(outbox.poll_chunk(at(119), PLENTY), None);
    assert_eq!(outbox.take_crowded_out(), DataSize::ZERO);
}

#[test]
fn missing_bytes_are_uncounted() {
    let (mut outbox, flow) = with_flow();
    let arriving = Entry {
        available_bytes: 0,
        ..entry(0, 9, at(100), BYTES)
    };
    push(&mut outbox, flow, arriving);
    let other = outbox.open_flow(WEIGHT_USUAL, Order::Importance);
    push(
        &mut outbox,
        other.expect("it is the second"),
        entry(0, 5, at(900), BYTES),
    );
    assert_eq!(outbox.poll_chunk(at(0), DataSize::ZERO), None);
    outbox.handle_timeout(at(101));
    assert_eq!(outbox.take_crowded_out(), DataSize::ZERO);
}

#[test]
fn cancelled_adu_is_uncounted() {
    let (mut outbox, flow) = with_expired_key_frame();
    outbox.take_crowded_out();
    let sent = push(&mut outbox, flow, entry(10, 9, at(200), BYTES));
    while outbox.poll_chunk(at(110), PLENTY).is_some() {}
    assert!(outbox.has_departed(sent));
    let waits = push(&mut outbox, flow, entry(11, 9, at(300), BYTES));
    assert_eq!(outbox.poll_chunk(at(110), DataSize::ZERO), None);
    assert!(outbox.cancel(waits, DropCause::Cancelled));
    outbox.handle_timeout(at(201));
    assert_eq!(outbox.take_crowded_out(), DataSize::ZERO);
    assert!(outbox.is_empty());
}
