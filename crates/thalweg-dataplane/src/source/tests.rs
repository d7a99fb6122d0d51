//! Proves what a source keeps, holds and sends again, by what its plans and its needs say, and when
//! its producer waits.

use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Header};
use thalweg_base::event::DropCause;
use thalweg_base::feed::Sinkward;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::needs::{Needs, Order, Reliability, WEIGHT_USUAL};
use thalweg_base::part::Installation;
use thalweg_base::seen::Held;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;

use super::{Lacking, Plan, Served, Source};

const STREAM: StreamId = StreamId(7);
const SINK: NodeId = NodeId([2; 32]);
const NOW: Instant = Instant::from_nanos(7_000_000_000);

fn part(next: Option<NodeId>) -> Installation {
    Installation {
        name: "cam".parse().expect("a name"),
        stream: STREAM,
        epoch: Epoch(1),
        source: NodeId([1; 32]),
        previous: NodeId([1; 32]),
        next,
        adapters: Vec::new(),
        reliability: Reliability::UntilDeadline,
        order: Order::Importance,
        weight: WEIGHT_USUAL,
        plaintext: true,
        base: None,
    }
}

fn adu(epoch: u32, sequence: u64, layer: u8) -> Adu {
    Adu {
        header: Header {
            epoch: Epoch(epoch),
            layer,
            ..Header::new(STREAM, Sequence(sequence))
        },
        payload: Bytes::from_static(b"payload"),
    }
}

fn served(epoch: u32, layers: u8) -> Served {
    Served {
        epoch: Epoch(epoch),
        layers,
    }
}

fn sequences(adus: &[Adu]) -> Vec<u64> {
    adus.iter().map(|adu| adu.header.sequence.0).collect()
}

fn held_needs() -> Needs {
    Needs {
        hold: Duration::from_secs(60),
        hold_size: DataSize::from_bytes(1_000),
        ..Needs::default()
    }
}

#[test]
fn only_layers_of_a_sink_are_kept() {
    let mut source = Source::new(&Needs::default());
    let serves = [served(1, 1), served(2, 2)];
    for (sequence, layer) in [(0, 0), (1, 1), (2, 2)] {
        source.handle_sent(&adu(1, sequence, layer), &serves, &part(Some(SINK)), NOW);
    }
    assert_eq!(sequences(&source.resend(&[Epoch(1)], NOW)), [0]);
    assert_eq!(sequences(&source.resend(&[Epoch(2)], NOW)), [0, 1]);
    assert!(source.resend(&[Epoch(1), Epoch(2)], NOW).is_empty(), "once");
}

#[test]
fn adu_for_this_node_is_not_kept() {
    let mut source = Source::new(&Needs::default());
    source.handle_sent(&adu(1, 0, 0), &[served(1, 1)], &part(None), NOW);
    assert!(source.resend(&[Epoch(1)], NOW).is_empty());
}

#[test]
fn receipt_releases_and_is_counted() {
    let mut source = Source::new(&Needs::default());
    for sequence in 0..3 {
        let adu = adu(1, sequence, 0);
        source.handle_sent(&adu, &[served(1, 1)], &part(Some(SINK)), NOW);
    }
    let held = Held {
        floor: 1,
        ranges: core::iter::once(2..3).collect(),
    };
    let mut had = Vec::new();
    let lacking = source.handle_receipt(
        (SINK, &[Epoch(1)]),
        Some(Epoch(1)),
        &held,
        NOW,
        |epoch, _| had.push(epoch),
    );
    let expected = Lacking {
        missing: 1,
        given_up: None,
    };
    assert_eq!((lacking, had), (expected, vec![Epoch(1); 2]));
    assert_eq!(sequences(&source.resend(&[Epoch(1)], NOW)), [1]);
}

#[test]
fn resent_adu_counts_for_broken_plan() {
    let mut source = Source::new(&Needs::default());
    let part = part(Some(SINK));
    source.handle_sent(&adu(1, 0, 0), &[served(1, 1)], &part, NOW);
    source.handle_broken(SINK, &[Epoch(1)]);
    let mut resent = Vec::new();
    for _ in 0..2 {
        source.handle_again(SINK, &adu(0, 0, 0).header, |epoch, _| resent.push(epoch));
    }
    assert_eq!(resent, [Epoch(1)], "once");
}

#[test]
fn unknown_plan_carries_all_layers() {
    let mut source = Source::new(&Needs::default());
    let plan = Plan {
        epoch: Epoch(1),
        serves: vec![served(1, 2), served(3, 1)],
    };
    source.handle_plans(vec![plan.clone()]);
    assert_eq!(source.plans(), [plan]);
    assert_eq!(source.served(Epoch(3)), served(3, 1));
    assert_eq!(source.served(Epoch(4)), served(4, u8::MAX));
}

#[test]
fn held_adu_leaves_under_a_plan() {
    let mut source = Source::new(&held_needs());
    assert!(source.is_held() && !source.is_shared());
    assert!(source.handle_adu(adu(0, 0, 0), NOW).is_none());
    assert_eq!(source.hold_window(), None, "no sink");
    let sink = Sinkward {
        sink: SINK,
        plan: Some((Epoch(1), 1)),
    };
    source.handle_sinks(&[sink], NOW);
    assert_eq!(source.hold_window(), Some(crate::route::window(7, false)));
    let due = source.poll_due(NOW).expect("a sink has a plan");
    assert!(!source.handle_due(&due, None), "the plan is gone");
    assert!(source.poll_due(NOW).is_none(), "until there is another");
    source.handle_sinks(&[sink], NOW);
    let due = source.poll_due(NOW).expect("it waits again");
    assert!(source.handle_due(&due, Some(&part(Some(SINK)))));
    source.handle_broken(SINK, &[Epoch(1)]);
    let again = source.poll_due(NOW).expect("its path broke");
    assert!(source.handle_due(&again, Some(&part(None))));
    source.handle_broken(SINK, &[Epoch(1)]);
    assert!(source.poll_due(NOW).is_none(), "it ended here");
}

#[test]
fn unheld_adu_is_returned() {
    let mut source = Source::new(&Needs::default());
    assert!(source.is_shared());
    assert!(source.handle_adu(adu(0, 0, 0), NOW).is_some());
    assert!(source.poll_dropped(NOW).is_none());
}

#[test]
fn held_adu_expires_at_its_source() {
    let mut source = Source::new(&held_needs());
    source.handle_adu(adu(0, 0, 0), NOW);
    let until = NOW + Duration::from_secs(60);
    let before = until - Duration::from_nanos(1);
    assert!(source.poll_dropped(before).is_none());
    assert_eq!(source.poll_settled(), until);
    let dropped = source.poll_dropped(until).expect("it is too old");
    assert_eq!(dropped.cause, DropCause::NoSubscriber);
}

#[test]
fn drain_time_follows_needs() {
    let needs = |reliability, hold| Needs {
        reliability,
        hold: Duration::from_secs(hold),
        deadline: Duration::from_secs(1),
        ..Needs::default()
    };
    let cases = [
        (Reliability::UntilDeadline, 0, 10),
        (Reliability::UntilDeadline, 60, 60),
        (Reliability::Repaired, 0, 10),
    ];
    for (reliability, hold, expected) in cases {
        let source = Source::new(&needs(reliability, hold));
        assert_eq!(source.drain_time(), Duration::from_secs(expected));
    }
    let full = Needs {
        reliability: Reliability::Full,
        ..Needs::default()
    };
    let promised = full.waits().expect("it waits");
    assert_eq!(
        Source::new(&full).drain_time(),
        promised.max(super::FINISH_MAX)
    );
}
