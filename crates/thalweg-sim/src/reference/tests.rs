//! Proves the model's three laws on hand-made cases; every run proves that it agrees with the machine.

use thalweg_base::adu::{Flags, Header};
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::needs::{Order, Reliability, WEIGHT_USUAL};
use thalweg_base::time::{Duration, Instant};
use thalweg_control::control::Installation;

use super::{Model, Step};

const STREAM: StreamId = StreamId(7);

fn node(number: u8) -> NodeId {
    NodeId([number; 32])
}

fn part(next: Option<NodeId>, adapters: &[&str], plaintext: bool) -> Installation {
    Installation {
        name: "s".parse().expect("a letter"),
        stream: STREAM,
        epoch: Epoch(1),
        source: node(0),
        previous: node(0),
        next,
        adapters: adapters.iter().map(ToString::to_string).collect(),
        reliability: Reliability::UntilDeadline,
        order: Order::Sequence,
        weight: WEIGHT_USUAL,
        plaintext,
        base: None,
    }
}

fn header(sequence: u64, layer: u8) -> Header {
    let mut header = Header::new(STREAM, Sequence(sequence));
    header.epoch = Epoch(1);
    header.layer = layer;
    header
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

#[test]
fn adu_follows_its_part() {
    let mut model = Model::default();
    let from = Some(node(0));
    assert_eq!(model.step(1, from, &header(0, 0)), Step::Nowhere);
    model.handle_installed(1, part(Some(node(2)), &["keep:2", "pack"], true));
    assert_eq!(model.step(1, from, &header(0, 1)), Step::Onward(node(2)));
    assert_eq!(model.step(1, from, &header(0, 2)), Step::Nowhere);
    assert_eq!(model.step(1, Some(node(9)), &header(0, 0)), Step::Nowhere);
    assert_eq!(model.step(1, None, &header(0, 0)), Step::Onward(node(2)));
    model.handle_installed(2, part(None, &[], false));
    assert_eq!(model.step(2, from, &header(0, 0)), Step::Nowhere);
    let mut sealed = header(0, 0);
    sealed.flags = Flags::SEALED;
    assert_eq!(model.step(2, from, &sealed), Step::Here);
    model.handle_removed(1, STREAM, Epoch(1));
    assert_eq!(model.step(1, from, &header(0, 0)), Step::Nowhere);
    model.handle_gone(2);
    assert_eq!(model.step(2, from, &sealed), Step::Nowhere);
}

#[test]
fn gap_waits_until_deadline() {
    let mut model = Model::default();
    let reader = (1, 0);
    model.handle_subscribed(reader, true);
    model.handle_found(reader, STREAM);
    let due = |sequence, ms| {
        let mut header = header(sequence, 0);
        header.deadline = at(ms);
        header
    };
    model.handle_arrived(reader, (&due(0, 100), 0), at(0));
    model.handle_arrived(reader, (&due(2, 120), 0), at(10));
    assert_eq!(model.take_expected(reader, at(10)), [0]);
    assert_eq!(model.take_expected(reader, at(119)), []);
    assert_eq!(model.take_expected(reader, at(120)), [2]);
    // The place of 1 has been given up.
    model.handle_arrived(reader, (&due(1, 500), 0), at(121));
    model.handle_arrived(reader, (&due(3, 500), 0), at(121));
    model.handle_arrived(reader, (&due(3, 500), 0), at(121));
    assert_eq!(model.take_expected(reader, at(600)), [3]);
}

#[test]
fn unordered_delivers_once_until_end() {
    let mut model = Model::default();
    let reader = (1, 0);
    model.handle_subscribed(reader, false);
    model.handle_arrived(reader, (&header(5, 0), 0), at(0));
    model.handle_found(reader, STREAM);
    for sequence in [2, 1, 2] {
        model.handle_arrived(reader, (&header(sequence, 0), 0), at(0));
    }
    let mut end = header(3, 0);
    end.flags = Flags::END;
    model.handle_arrived(reader, (&end, 0), at(0));
    model.handle_arrived(reader, (&header(0, 0), 0), at(1_999));
    model.handle_arrived(reader, (&header(4, 0), 0), at(1_999));
    assert_eq!(model.take_expected(reader, at(1_999)), [2, 1, 0]);
}

#[test]
fn unordered_end_waits_for_gap() {
    let reader = (1, 0);
    for (last, expected) in [(59_999, &[0, 2, 1][..]), (60_000, &[0, 2])] {
        let mut model = Model::default();
        model.handle_subscribed(reader, false);
        model.handle_found(reader, STREAM);
        let mut end = header(3, 0);
        end.flags = Flags::END;
        for header in [header(0, 0), header(2, 0), end] {
            model.handle_arrived(reader, (&header, 0), at(0));
        }
        model.handle_arrived(reader, (&header(1, 0), 0), at(last));
        assert_eq!(model.take_expected(reader, at(last)), expected);
    }
}
