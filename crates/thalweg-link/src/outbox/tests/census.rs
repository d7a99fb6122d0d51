//! Proves that the census equals a list kept beside the outbox.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::num::NonZeroU8;

use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_base::adu::Importance;
use thalweg_base::event::DropCause;
use thalweg_base::event::DropCounts;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::needs::Order;
use thalweg_base::time::Instant;
use thalweg_base::units::{Bitrate, DataSize};

use super::super::census::{BANDS, FlowReading, OutboxReading, Waiting, band, band_start};
use super::super::{Ticket, WEIGHT_USUAL};
use super::{drops, entry, next, outbox, push, with_flow};

fn waiting(adus: usize, bytes: u64) -> Waiting {
    Waiting {
        adus,
        bytes: DataSize::from_bytes(bytes),
    }
}

/// An ADU in the list beside the outbox: its flow, its importance, its bytes not handed over.
type Beside = BTreeMap<Ticket, (usize, u8, u64)>;

fn sum(beside: &Beside, is_meant: impl Fn(usize, u8) -> bool) -> Waiting {
    let mut sum = Waiting::default();
    for (flow, importance, bytes) in beside.values() {
        if is_meant(*flow, *importance) {
            sum += waiting(1, *bytes);
        }
    }
    sum
}

proptest! {
    #[test]
    fn census_equals_kept_list(
        steps in vec((0..4u8, 0..3usize, any::<u8>(), 0..40_000usize), 0..120),
    ) {
        let mut outbox = outbox();
        let flows: Vec<_> = (1..=3u8)
            .map(|weight| outbox.open_flow(NonZeroU8::new(weight).expect("from one"), Order::Importance).expect("room"))
            .collect();
        let mut beside = Beside::new();
        for (sequence, (step, flow, importance, bytes)) in steps.into_iter().enumerate() {
            match step {
                0 | 1 => {
                    let entry = entry(sequence as u64, importance, Instant::NEVER, bytes);
                    let ticket = push(&mut outbox, flows[flow], entry);
                    beside.insert(ticket, (flow, importance, bytes as u64));
                }
                2 => if let Some(chunk) = next(&mut outbox, Instant::ZERO) {
                    let row = beside.get_mut(&chunk.ticket).expect("it waits");
                    row.2 -= chunk.range.len() as u64;
                    if chunk.is_last {
                        beside.remove(&chunk.ticket);
                    }
                },
                _ => if let Some((ticket, _)) = beside.pop_first() {
                    prop_assert!(outbox.cancel(ticket, DropCause::Cancelled));
                    drops(&mut outbox);
                },
            }
        }
        let census = outbox.census();
        prop_assert_eq!(census.waiting, sum(&beside, |_, _| true));
        for (band, found) in census.by_importance.iter().enumerate() {
            let from = 32 * band;
            prop_assert_eq!(*found, sum(&beside, |_, importance| (from..from + 32).contains(&importance.into())));
        }
        prop_assert_eq!(census.flows.len(), flows.len());
        for (at, found) in census.flows.iter().enumerate() {
            prop_assert_eq!((found.flow, found.weight.get()), (flows[at], at as u8 + 1));
            prop_assert_eq!(found.waiting, sum(&beside, |flow, _| flow == at));
        }
    }
}

#[test]
fn departed_adu_is_not_queued() {
    let (mut outbox, flow) = with_flow();
    push(&mut outbox, flow, entry(0, 200, Instant::NEVER, 1_000));
    let chunk = next(&mut outbox, Instant::ZERO).expect("it is sent");
    assert_eq!((outbox.census().waiting, outbox.len()), (waiting(0, 0), 1));
    assert!(outbox.handle_unsent(chunk.ticket, 400));
    assert_eq!(outbox.census().waiting, waiting(1, 400));
    assert_eq!(outbox.census().by_importance[6], waiting(1, 400));
}

#[test]
fn closed_flow_leaves_census() {
    let (mut outbox, flow) = with_flow();
    let other = outbox
        .open_flow(WEIGHT_USUAL, Order::Sequence)
        .expect("room");
    push(&mut outbox, flow, entry(0, 1, Instant::NEVER, 10));
    outbox.close_flow(flow);
    let census = outbox.census();
    assert_eq!(census.waiting, waiting(0, 0));
    let flows: Vec<_> = census.flows.iter().map(|flow| flow.flow).collect();
    assert_eq!(flows, [other]);
}

#[test]
fn every_importance_has_its_band() {
    for importance in 0..=255 {
        let at = band(Importance(importance));
        assert!(band_start(at).0 <= importance && importance - band_start(at).0 < 32);
    }
    assert_eq!(band_start(BANDS - 1), Importance(224));
    assert_eq!(band_start(BANDS), Importance(255));
}

#[test]
fn reading_names_known_flows() {
    let (mut outbox, known) = with_flow();
    let unknown = outbox
        .open_flow(WEIGHT_USUAL, Order::Importance)
        .expect("room");
    push(&mut outbox, known, entry(0, 255, Instant::NEVER, 30));
    push(&mut outbox, unknown, entry(0, 0, Instant::NEVER, 12));
    let rate = Some(Bitrate::from_kbps(500));
    let name = |flow| (flow == known).then_some((StreamId(7), Epoch(2)));
    let reading = OutboxReading::new(&outbox.census(), rate, None, DropCounts::ZERO, name);
    assert_eq!(
        (reading.sendable_rate, reading.waiting),
        (rate, waiting(2, 42))
    );
    let flow = FlowReading {
        stream: StreamId(7),
        epoch: Epoch(2),
        weight: WEIGHT_USUAL,
        waiting: waiting(1, 30),
    };
    assert_eq!(reading.flows, [flow]);
}
