//! Proves that each ADU sent by a plan is reported once, as received by its sink or as resent, and
//! that the number of entries is bounded.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use thalweg_base::adu::{Flags, Header, Importance};
use thalweg_base::count::Band;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::limits::KEEP_ADUS_MAX;
use thalweg_base::seen::Held;

use super::Awaited;

const DESK: NodeId = NodeId([1; 32]);
const WALL: NodeId = NodeId([2; 32]);

fn header(sequence: u64) -> Header {
    Header::new(StreamId(7), Sequence(sequence))
}

fn give(awaited: &mut Awaited, epoch: u32, sequences: Range<u64>) {
    for sequence in sequences {
        awaited.handle_given(Epoch(epoch), &header(sequence));
    }
}

fn had(awaited: &mut Awaited, epochs: &[u32], held: &Held) -> Vec<u32> {
    let epochs: Vec<Epoch> = epochs.iter().copied().map(Epoch).collect();
    let mut had = Vec::new();
    awaited.handle_receipt(&epochs, held, |epoch, _| had.push(epoch.0));
    had
}

fn again(awaited: &mut Awaited, sink: NodeId, sequence: u64) -> Vec<u32> {
    let mut resent = Vec::new();
    awaited.handle_again(sink, &header(sequence), |epoch, _| resent.push(epoch.0));
    resent
}

fn below(floor: u64) -> Held {
    Held {
        floor,
        ranges: Vec::new(),
    }
}

#[test]
fn each_adu_is_reported_once_per_plan() {
    let mut awaited = Awaited::default();
    give(&mut awaited, 1, 0..4);
    give(&mut awaited, 2, 4..6);
    let held = Held {
        floor: 1,
        ranges: vec![2..5, 7..8],
    };
    assert_eq!(had(&mut awaited, &[1], &held), [1, 1, 1]);
    assert_eq!(had(&mut awaited, &[1, 2], &held), [2]);
    assert_eq!(had(&mut awaited, &[1, 2], &below(9)), [1, 2]);
    assert_eq!(had(&mut awaited, &[1, 2], &below(9)), []);
}

#[test]
fn reports_have_bands_and_skip_the_end() {
    let mut awaited = Awaited::default();
    let mut header = header(0);
    header.importance = Importance(200);
    awaited.handle_given(Epoch(1), &header);
    (header.sequence, header.flags) = (Sequence(1), Flags::END);
    awaited.handle_given(Epoch(1), &header);
    let mut bands = Vec::new();
    awaited.handle_receipt(&[Epoch(1)], &below(2), |_, band| bands.push(band));
    assert_eq!(bands, [Band::of(Importance(200))]);
}

#[test]
fn resent_adu_leaves_broken_plan() {
    let mut awaited = Awaited::default();
    give(&mut awaited, 1, 0..4);
    assert_eq!(again(&mut awaited, DESK, 2), [], "its path is intact");
    awaited.handle_broken(DESK, &[Epoch(1)]);
    assert_eq!(again(&mut awaited, WALL, 2), [], "it went to another sink");
    assert_eq!(again(&mut awaited, DESK, 2), [1]);
    assert_eq!(again(&mut awaited, DESK, 2), []);
    assert_eq!(again(&mut awaited, DESK, 9), [], "it is new");
    give(&mut awaited, 2, 2..3);
    assert_eq!(had(&mut awaited, &[1, 2], &below(4)), [1, 1, 1, 2]);
}

#[test]
fn sequences_may_be_sent_in_any_order() {
    let mut awaited = Awaited::default();
    give(&mut awaited, 1, 5..8);
    give(&mut awaited, 1, 2..4);
    give(&mut awaited, 1, 6..7);
    awaited.handle_broken(DESK, &[Epoch(1)]);
    for sequence in [2, 3, 5, 6, 7] {
        assert_eq!(again(&mut awaited, DESK, sequence), [1]);
    }
}

#[test]
fn blanket_receipt_names_no_adu() {
    let mut awaited = Awaited::default();
    give(&mut awaited, 1, 0..4);
    assert_eq!(had(&mut awaited, &[1], &Held::everything()), []);
    assert_eq!(had(&mut awaited, &[1], &below(4)), []);
}

#[test]
fn oldest_entries_are_dropped() {
    let mut awaited = Awaited::default();
    let most = KEEP_ADUS_MAX as u64;
    give(&mut awaited, 1, 0..most + 2);
    assert_eq!(awaited.adus, KEEP_ADUS_MAX);
    awaited.handle_broken(DESK, &[Epoch(1)]);
    assert_eq!(again(&mut awaited, DESK, 1), []);
    assert_eq!(again(&mut awaited, DESK, 2), [1]);
    give(&mut awaited, 2, 0..3);
    assert_eq!(awaited.adus, KEEP_ADUS_MAX);
    awaited.retain(|epoch| epoch == Epoch(2));
    assert_eq!(awaited.adus, 3);
    assert_eq!(again(&mut awaited, DESK, 3), []);
}
