//! Proves what counts as given up for want of the path, and what does not.

use super::{PLENTY, at, entry, push, with_flow};
use crate::event::DropCause;
use crate::id::Sequence;
use crate::needs::Order;
use crate::outbox::{Entry, FlowId, Outbox, WEIGHT_USUAL};
use crate::units::DataSize;

const BYTES: usize = 5_000;

fn needing(base: u64, entry: Entry) -> Entry {
    Entry {
        depends_on: Some(Sequence(base)),
        ..entry
    }
}

/// A picture that others need is to be sent, there is no credit for it, and its time goes by.
fn with_a_picture_expired() -> (Outbox, FlowId) {
    let (mut outbox, flow) = with_flow();
    push(&mut outbox, flow, entry(0, 9, at(100), BYTES));
    push(&mut outbox, flow, needing(0, entry(1, 5, at(140), BYTES)));
    assert!(outbox.has_chunk(at(0)));
    assert_eq!(outbox.poll_chunk(at(0), DataSize::ZERO), None);
    outbox.handle_timeout(at(101));
    (outbox, flow)
}

#[test]
fn what_expires_for_want_of_credit_counts_with_all_that_needs_it_also_what_comes_later() {
    let (mut outbox, flow) = with_a_picture_expired();
    let bytes = |adus: u64| DataSize::from_bytes(adus * BYTES as u64);
    assert_eq!(outbox.take_crowded_out(), bytes(2));
    // It is idle meanwhile.
    assert!(!outbox.has_chunk(at(102)));
    for sequence in 2..5 {
        let late = needing(sequence - 1, entry(sequence, 5, at(300), BYTES));
        assert!(outbox.push(at(150), flow, late).is_err());
    }
    assert_eq!(outbox.take_crowded_out(), bytes(3));
    assert_eq!(outbox.take_crowded_out(), DataSize::ZERO);
}

#[test]
fn of_what_was_begun_the_rest_counts() {
    let (mut outbox, flow) = with_flow();
    push(&mut outbox, flow, entry(0, 9, at(100), BYTES));
    let chunk = outbox.poll_chunk(at(0), DataSize::from_bytes(2_000));
    assert_eq!(chunk.map(|chunk| chunk.range.len()), Some(2_000));
    assert_eq!(outbox.poll_chunk(at(0), DataSize::ZERO), None);
    outbox.handle_timeout(at(101));
    assert_eq!(outbox.take_crowded_out(), DataSize::from_bytes(3_000));
}

#[test]
fn what_came_late_counts_nothing_nor_what_needs_it() {
    let (mut outbox, flow) = with_flow();
    assert!(
        outbox
            .push(at(100), flow, entry(0, 9, at(90), BYTES))
            .is_err()
    );
    let child = needing(0, entry(1, 5, at(300), BYTES));
    assert!(outbox.push(at(100), flow, child).is_err());
    // In time, but not if it takes as long as a byte does on this path; there is credit.
    outbox.set_transit(at(40).saturating_since(at(0)));
    push(&mut outbox, flow, entry(2, 9, at(120), BYTES));
    assert_eq!(outbox.poll_chunk(at(119), PLENTY), None);
    assert_eq!(outbox.take_crowded_out(), DataSize::ZERO);
}

#[test]
fn what_has_yet_to_arrive_here_is_no_want_of_this_path() {
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
fn what_is_cancelled_or_handed_over_counts_nothing() {
    let (mut outbox, flow) = with_a_picture_expired();
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
