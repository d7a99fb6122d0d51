//! Proves what is refused, what is pre-empted, and that the bounds hold for any input.

use alloc::vec::Vec;
use core::num::NonZeroU8;

use thalweg_base::adu::Importance;
use thalweg_base::event::DropCause;
use thalweg_base::needs::Order;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::super::{Entry, FlowId, Outbox, Refused, Settings, Ticket, WEIGHT_USUAL};
use super::{at, drain, drops, entry, next, push, with_flow};

/// An outbox of this many ADUs and bytes, with flows of these weights.
fn bounded<const N: usize>(adus: usize, bytes: u64, weights: [u8; N]) -> (Outbox, [FlowId; N]) {
    let mut outbox = Outbox::new(Settings {
        adus_max: adus,
        bytes_max: DataSize::from_bytes(bytes),
        ..Settings::default()
    });
    let flows = weights.map(|weight| {
        let weight = NonZeroU8::new(weight).expect("it is not zero");
        outbox.open_flow(weight, Order::Importance).expect("few")
    });
    (outbox, flows)
}

fn cause(outbox: &mut Outbox, flow: FlowId, entry: Entry) -> DropCause {
    let refused = outbox.push(Instant::ZERO, flow, entry);
    refused.expect_err("it must not be taken").drop_cause()
}

#[test]
fn deadline_of_now_is_refused() {
    let (mut outbox, flow) = with_flow();
    let now = at(100);
    let late = outbox.push(now, flow, entry(0, 9, at(99), 0));
    let expired = Refused::Expired {
        late: Duration::from_millis(1),
    };
    assert_eq!(late, Err(expired));
    assert!(outbox.push(now, flow, entry(0, 9, now, 0)).is_err());
    let soon = now + Duration::from_nanos(1);
    assert!(outbox.push(now, flow, entry(0, 9, soon, 0)).is_ok());
    assert_eq!(outbox.drops().of(DropCause::Expired), 2);
}

#[test]
fn oversized_adu_is_refused() {
    let (mut outbox, flow) = with_flow();
    // Nothing is known of the path.
    assert!(
        outbox
            .push(at(0), flow, entry(0, 9, at(1), 1 << 20))
            .is_ok()
    );
    outbox.set_ceiling(Some(Bitrate::from_kbps(800)));
    assert!(outbox.push(at(0), flow, entry(1, 9, at(10), 1_000)).is_ok());
    let refused = outbox.push(at(0), flow, entry(2, 9, at(10), 1_001));
    let oversized = Refused::Oversized {
        size: DataSize::from_bytes(1_001),
        carried: DataSize::from_bytes(1_000),
    };
    assert_eq!(refused, Err(oversized));
    assert!(
        outbox
            .push(at(0), flow, entry(3, 9, Instant::NEVER, 1 << 20))
            .is_ok()
    );
}

#[test]
fn full_outbox_preempts_last_adu() {
    let (mut outbox, [flow]) = bounded(3, 1 << 20, [16]);
    let worst = push(&mut outbox, flow, entry(0, 3, at(20), 10));
    push(&mut outbox, flow, entry(1, 3, at(10), 10));
    push(&mut outbox, flow, entry(2, 4, at(90), 10));
    assert_eq!(
        cause(&mut outbox, flow, entry(3, 3, at(20), 10)),
        DropCause::Overflow
    );
    assert_eq!(
        cause(&mut outbox, flow, entry(4, 3, at(21), 10)),
        DropCause::Overflow
    );
    assert_eq!(drops(&mut outbox), []);
    push(&mut outbox, flow, entry(5, 3, at(19), 10));
    let dropped = drops(&mut outbox);
    assert_eq!(
        (dropped[0].ticket, dropped[0].cause),
        (worst, DropCause::Preempted)
    );
    assert_eq!((dropped.len(), outbox.len()), (1, 3));
}

#[test]
fn byte_bound_refuses_giant() {
    let (mut outbox, [flow]) = bounded(99, 100, [16]);
    push(&mut outbox, flow, entry(0, 3, at(20), 50));
    push(&mut outbox, flow, entry(1, 2, at(20), 50));
    assert_eq!(
        cause(&mut outbox, flow, entry(2, 9, at(20), 101)),
        DropCause::Overflow
    );
    assert_eq!(drops(&mut outbox), []);
    push(&mut outbox, flow, entry(3, 9, at(20), 50));
    assert_eq!(drops(&mut outbox).len(), 1);
    push(&mut outbox, flow, entry(4, 9, at(19), 100));
    assert_eq!(
        (drops(&mut outbox).len(), outbox.queued().as_bytes()),
        (2, 100)
    );
    assert_eq!(
        cause(&mut outbox, flow, entry(5, 0, at(20), usize::MAX)),
        DropCause::Overflow
    );
}

#[test]
fn greedy_flow_makes_room() {
    let (mut outbox, [greedy, modest, heavy]) = bounded(8, 1 << 20, [16, 16, 64]);
    for sequence in 0..4 {
        push(&mut outbox, greedy, entry(sequence, 255, at(20), 10));
        push(&mut outbox, heavy, entry(sequence, 0, at(20), 10));
    }
    let kept = push(&mut outbox, modest, entry(0, 0, at(20), 10));
    assert_eq!(drops(&mut outbox)[0].flow, greedy);
    // The modest flow would hold as much as the greedy one for a third of its weight, and then its
    // own ADUs compare.
    push(&mut outbox, modest, entry(1, 0, at(20), 10));
    assert_eq!(drops(&mut outbox)[0].flow, greedy);
    assert_eq!(
        cause(&mut outbox, modest, entry(2, 0, at(20), 10)),
        DropCause::Overflow
    );
    assert!(drain(&mut outbox, at(0)).contains(&kept));
}

#[test]
fn departed_adus_count_against_bound() {
    let (mut outbox, [flow]) = bounded(2, 1 << 20, [16]);
    let tickets = [0, 1].map(|sequence| push(&mut outbox, flow, entry(sequence, 0, at(20), 10)));
    assert!(tickets.iter().all(|_| next(&mut outbox, at(0)).is_some()));
    assert_eq!(outbox.queued(), DataSize::ZERO);
    assert_eq!(
        cause(&mut outbox, flow, entry(2, 255, at(20), 10)),
        DropCause::Overflow
    );
    assert!(outbox.finish(tickets[0]));
    assert!(!outbox.finish(tickets[0]), "acknowledged twice");
    push(&mut outbox, flow, entry(3, 0, at(20), 10));
}

#[test]
fn unsent_adu_cannot_finish() {
    let (mut outbox, flow) = with_flow();
    let waiting = push(&mut outbox, flow, entry(0, 0, at(20), 10));
    assert!(!outbox.finish(waiting));
    let other = Ticket {
        index: 99,
        generation: 0,
    };
    assert!(!outbox.finish(other));
    assert!(!outbox.handle_available(other, 5));
    assert!(!outbox.cancel(other, DropCause::Cancelled));
    assert_eq!(outbox.len(), 1);
}

#[test]
fn unpolled_drops_are_bounded() {
    let (mut outbox, [flow]) = bounded(10, 1 << 20, [16]);
    let mut taken = 0;
    for sequence in 0..1_000 {
        if let Ok(ticket) = outbox.push(at(0), flow, entry(sequence, 0, at(20), 10)) {
            taken += 1;
            assert!(outbox.cancel(ticket, DropCause::Cancelled));
        }
    }
    assert_eq!((taken, drops(&mut outbox).len()), (20, 20));
    push(&mut outbox, flow, entry(0, 0, at(20), 10));
}

#[test]
fn preempted_base_refuses_dependant() {
    let (mut outbox, [flow]) = bounded(1, 1 << 20, [16]);
    push(&mut outbox, flow, entry(0, 0, at(20), 10));
    let mut dependant = entry(1, 9, at(20), 10);
    dependant.depends_on = Some(thalweg_base::id::Sequence(0));
    assert_eq!(cause(&mut outbox, flow, dependant), DropCause::Dependant);
    assert_eq!(drops(&mut outbox)[0].cause, DropCause::Preempted);
}

#[test]
fn flows_are_bounded() {
    let mut outbox = Outbox::new(Settings {
        flows_max: 2,
        ..Settings::default()
    });
    let mut open = || outbox.open_flow(WEIGHT_USUAL, Order::Importance);
    let flows: Vec<_> = core::iter::from_fn(&mut open).collect();
    assert_eq!(flows.len(), 2);
    outbox.close_flow(flows[0]);
    assert!(outbox.open_flow(WEIGHT_USUAL, Order::Importance).is_some());
    assert!(outbox.open_flow(WEIGHT_USUAL, Order::Importance).is_none());
}

/// The capacity of each of the outbox's lists.
fn capacities(outbox: &Outbox) -> [usize; 4] {
    [
        outbox.slab.capacity(),
        outbox.deadlines.capacity(),
        outbox.families.capacity(),
        outbox.flows.capacity(),
    ]
}

#[test]
fn steady_load_keeps_memory() {
    let (mut outbox, [one, other]) = bounded(300, 1 << 20, [16, 16]);
    let (mut random, mut warm) = (SplitMix::new(5), None);
    for sequence in 0..60_000 {
        let flow = if sequence % 3 == 0 { one } else { other };
        let deadline = at(sequence + 1 + random.next_below(400));
        let mut entry = entry(sequence, random.next_below(8) as u8, deadline, 10);
        let base = sequence.saturating_sub(random.next_below(9));
        entry.depends_on = (base < sequence).then_some(thalweg_base::id::Sequence(base));
        let pushed = outbox.push(at(sequence), flow, entry);
        match (random.next_below(4), pushed) {
            (0, Ok(ticket)) => {
                outbox.cancel(ticket, DropCause::Cancelled);
            }
            (1, Ok(ticket)) => {
                outbox.set_importance(ticket, Importance(9));
            }
            _ => {}
        }
        if let Some(chunk) = next(&mut outbox, at(sequence)) {
            outbox.finish(chunk.ticket);
        }
        while outbox.poll_drop().is_some() {}
        if sequence == 20_000 {
            warm = Some(capacities(&outbox));
        }
    }
    assert_eq!(Some(capacities(&outbox)), warm);
}

#[test]
fn lost_link_drops_all() {
    let (mut outbox, flow) = with_flow();
    for sequence in 0..3 {
        push(&mut outbox, flow, entry(sequence, 0, at(20), 10));
    }
    next(&mut outbox, at(0));
    outbox.cancel_all(DropCause::PathLost);
    let dropped = drops(&mut outbox);
    assert!(
        dropped
            .iter()
            .all(|dropped| dropped.cause == DropCause::PathLost)
    );
    assert_eq!((dropped.len(), outbox.is_empty()), (3, true));
    assert_eq!(next(&mut outbox, at(0)), None);
    assert_eq!(outbox.poll_timeout(), Instant::NEVER);
}
