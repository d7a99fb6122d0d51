//! Proves that strangers and liars change nothing.

use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::Duration;
use thalweg_base::wire::control::{self as wire, Body, Message, Prepare, Routed};
use thalweg_base::wire::record::{self, Announced, Record};

use super::super::{Note, Output};
use super::{A, B, C, Fabric, FakeKeys, name, publication, signature};
use crate::records::stream_id::{borrowed_stream, stream_id};
use crate::session::LEASE;

/// Returns an envelope of `sender` for B, as its neighbour C would forward it.
fn envelope(sender: NodeId, route: &[NodeId], body: &Body) -> Bytes {
    let body = wire::encode_body(body);
    let signed = [&b"thalweg routed v1"[..], &B.0, &body].concat();
    let routed = Routed {
        route: route.to_vec(),
        position: route.len() - 1,
        body,
        signature: signature(sender, &signed),
    };
    wire::encode(&Message::Routed(routed)).into()
}

fn prepare(stream: StreamId, adapters: usize) -> Body {
    Body::Prepare(Prepare {
        name: name(),
        stream,
        epoch: Epoch(9),
        previous: C,
        next: None,
        adapters: vec!["null".to_string(); adapters],
        reliability: thalweg_base::needs::Reliability::None,
        order: thalweg_base::needs::Order::Importance,
        weight: thalweg_base::needs::WEIGHT_USUAL,
        plaintext: true,
        base: None,
        envelope: None,
    })
}

#[test]
fn only_publisher_installs_within_slots() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let stream = fabric.publish(A, publication(None, false));
    let mut attack = |frame: Bytes| {
        fabric.at(B, |c, now, keys| c.handle_frame(C, &frame, now, keys));
        fabric.settle();
        let notes = core::mem::take(&mut fabric.nodes.get_mut(&B).expect("linked").notes);
        (fabric.node(B).parts().len(), notes)
    };
    let (installed, _) = attack(envelope(C, &[C, B], &prepare(stream, 0)));
    assert_eq!(installed, 0, "C does not publish the stream");
    let (installed, notes) = attack(envelope(C, &[A, C, B], &prepare(stream, 0)));
    assert_eq!(
        (installed, &notes[..]),
        (0, &[Note::EnvelopeForged { sender: A }][..])
    );
    let (installed, notes) = attack(envelope(A, &[A, B], &prepare(stream, 0)));
    assert_eq!(
        (installed, &notes[..]),
        (0, &[Note::EnvelopeAstray { from: C }][..])
    );
    let (installed, _) = attack(envelope(A, &[A, C, B], &prepare(stream, 5)));
    assert_eq!(installed, 0, "B has four slots");
    let (installed, _) = attack(envelope(A, &[A, C, B], &prepare(stream, 4)));
    assert_eq!(installed, 1, "the publisher may, on any route");
    let release = Body::Release {
        stream,
        epoch: Epoch(9),
    };
    let (installed, _) = attack(envelope(C, &[C, B], &release));
    assert_eq!(installed, 1, "another may not take it away");
    let (installed, _) = attack(envelope(A, &[A, C, B], &release));
    assert_eq!(installed, 0);
}

#[test]
fn only_source_renews_and_hears_of_lack() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let stream = fabric.publish(A, publication(None, false));
    let epochs = [Epoch(9), Epoch(10)].to_vec();
    let renew = Body::Renew { stream, epochs };
    // Hands B a frame, and returns the addressees and bodies of its answers.
    let mut answers = |frame: Bytes| {
        fabric.at(B, |c, now, keys| c.handle_frame(C, &frame, now, keys));
        let b = fabric.nodes.get_mut(&B).expect("linked");
        let outputs = core::iter::from_fn(|| b.controller.poll_output());
        let bodies = outputs.filter_map(|output| match output {
            Output::Send { frame, .. } => match wire::decode(&frame) {
                Ok(Message::Routed(routed)) => wire::decode_body(&routed.body).ok(),
                _ => None,
            },
            _ => None,
        });
        bodies.collect::<Vec<_>>()
    };
    let lacking = |epochs: &[u32]| {
        let epochs = epochs.iter().map(|epoch| Epoch(*epoch)).collect();
        [Body::Lacking { stream, epochs }]
    };
    assert_eq!(answers(envelope(A, &[A, C, B], &renew)), lacking(&[9, 10]));
    answers(envelope(A, &[A, C, B], &prepare(stream, 0)));
    // It is being installed: that outcome will be the answer.
    assert_eq!(answers(envelope(A, &[A, C, B], &renew)), lacking(&[10]));
    fabric.at(B, |c, now, keys| {
        c.handle_installed(stream, Epoch(9), Ok(()), now, keys);
    });
    fabric.settle();
    for second in 0..LEASE.as_millis() / 1_000 {
        fabric.pass(Duration::from_secs(1));
        let by_its_source = second < 15;
        let sender = if by_its_source { A } else { C };
        let route = if by_its_source {
            &[A, C, B][..]
        } else {
            &[C, B]
        };
        let renew = envelope(sender, route, &renew);
        fabric.at(B, |c, now, keys| c.handle_frame(C, &renew, now, keys));
        fabric.settle();
        assert_eq!(fabric.node(B).parts().len(), 1);
    }
    fabric.pass(Duration::from_secs(14));
    assert_eq!(fabric.node(B).parts().len(), 1, "renewed after 15 s");
    fabric.pass(Duration::from_secs(2));
    assert_eq!(fabric.node(B).parts().len(), 0, "and by C never");
}

#[test]
fn part_released_in_install_is_removed() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let stream = fabric.publish(A, publication(None, false));
    let (frame, epoch) = (envelope(A, &[A, C, B], &prepare(stream, 0)), Epoch(9));
    let release = envelope(A, &[A, C, B], &Body::Release { stream, epoch });
    let mut outputs = |frame: &[u8]| {
        fabric.at(B, |c, now, keys| match frame {
            [] => c.handle_installed(stream, epoch, Ok(()), now, keys),
            frame => c.handle_frame(C, frame, now, keys),
        });
        let b = fabric.nodes.get_mut(&B).expect("linked");
        core::iter::from_fn(|| b.controller.poll_output()).collect::<Vec<_>>()
    };
    assert!(matches!(outputs(&frame)[..], [Output::Install { .. }]));
    assert!(outputs(&frame).is_empty(), "asked for once");
    assert!(outputs(&release).is_empty());
    assert!(matches!(outputs(&[])[..], [Output::Remove { .. }]));
    assert!(fabric.node(B).parts().is_empty());
}

#[test]
fn borrowed_stream_id_is_refused() {
    let record = |node: NodeId, publisher: NodeId| {
        let start = [3; 8];
        let keys = FakeKeys { id: node, drawn: 0 };
        let stream = Announced {
            id: stream_id(publisher, &name(), start, &keys),
            start,
            name: name(),
            confidential: false,
            layers: Vec::new(),
        };
        Record {
            node,
            sequence: 1,
            name: "n".into(),
            slots: 0,
            box_key: [0; 32],
            neighbours: Vec::new(),
            streams: vec![stream],
        }
    };
    let keys = FakeKeys { id: C, drawn: 0 };
    assert_eq!(borrowed_stream(&record(A, A), &keys), None);
    assert_eq!(borrowed_stream(&record(B, A), &keys), Some(&name()));
    let mut renamed = record(A, A);
    renamed.streams[0].name = "cam2".parse().expect("a name");
    assert!(borrowed_stream(&renamed, &keys).is_some());
}

#[test]
fn changed_record_is_refused() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let known = fabric.node(A).controller.directory().signed();
    let signed = known.last().expect("records").clone();
    let known = record::decode(&signed.record).expect("it is known");
    for ahead in [-1, 0, 1] {
        let mut changed = known.clone();
        changed.sequence = changed.sequence.saturating_add_signed(ahead);
        changed.name = "another".into();
        let frame = wire::encode(&Message::Record {
            record: record::encode(&changed),
            signature: signed.signature,
        });
        fabric.at(B, |c, now, keys| c.handle_frame(A, &frame, now, keys));
        let b = fabric.nodes.get_mut(&B).expect("linked");
        let outputs: Vec<_> = core::iter::from_fn(|| b.controller.poll_output()).collect();
        let is_note = |output: &Output| matches!(output, Output::Note(Note::RecordForged { .. }));
        assert!(outputs.iter().all(is_note), "{outputs:?}");
        assert_eq!(outputs.len(), 1, "{ahead} ahead");
        let record = b.controller.directory().record(known.node);
        assert_eq!(record, Some(&known));
    }
}

#[test]
fn repeated_record_has_no_effect() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    let known = fabric.node(A).controller.directory().signed();
    let known: Vec<_> = known.cloned().collect();
    for signed in known {
        let frame = wire::encode(&Message::Record {
            record: signed.record,
            signature: signed.signature,
        });
        fabric.at(B, |c, now, keys| c.handle_frame(A, &frame, now, keys));
        let b = fabric.nodes.get_mut(&B).expect("linked");
        assert!(b.controller.poll_output().is_none());
    }
}

proptest! {
    #[test]
    fn random_frames_do_not_panic_or_change_map(
        frame in proptest::collection::vec(any::<u8>(), 0..512),
    ) {
        let mut fabric = Fabric::linked(&[[A, B]]);
        let stream = fabric.publish(A, publication(None, false));
        fabric.subscribe(B);
        fabric.at(B, |c, now, keys| c.handle_frame(A, &frame, now, keys));
        fabric.settle();
        prop_assert_eq!(fabric.node(B).controller.directory().records().count(), 2);
        prop_assert_eq!(fabric.plan_path(A, stream).1, [A, B]);
    }
}
