//! Encoding and decoding, the directory of records, and resequencing of ADUs.

use std::hint::black_box;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Header};
use thalweg_base::id::{NodeId, Sequence, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_base::wire::adu as wire;
use thalweg_base::wire::record::{self, Neighbour, Record};
use thalweg_control::routing::{Directory, Signed};
use thalweg_dataplane::mailbox::Resequencer;

/// Number of nodes in the directory of the record and path tests: a ring.
const NODES: u64 = 64;

pub(super) fn encode_header(rounds: u64) {
    let mut out = Vec::with_capacity(256);
    for sequence in 0..rounds {
        out.clear();
        wire::encode_header(black_box(&header(sequence)), 1_000, now(), &mut out);
        black_box(&out);
    }
}

pub(super) fn decode_header(rounds: u64) {
    let mut bytes = Vec::new();
    wire::encode_header(&header(77), 1_000, now(), &mut bytes);
    for _ in 0..rounds {
        let decoded = wire::decode_header(black_box(&bytes), now());
        black_box(decoded.expect("it was encoded above"));
    }
}

pub(super) fn encode_record(rounds: u64) {
    let record = of_node(0, 1);
    for _ in 0..rounds {
        black_box(record::encode(black_box(&record)));
    }
}

pub(super) fn decode_record(rounds: u64) {
    let bytes = record::encode(&of_node(0, 1));
    for _ in 0..rounds {
        black_box(record::decode(black_box(&bytes)).expect("it was encoded above"));
    }
}

/// A newer record of a known node, which differs only in its sequence: a directory's usual work.
pub(super) fn handle_record(rounds: u64) {
    let mut directory = directory();
    for round in 0..rounds {
        let (record, signed) = signed(of_node(round % NODES, 2 + round / NODES));
        black_box(directory.handle_record(record, signed, now()));
    }
}

/// The path over ten hops of the ring.
pub(super) fn find_path(rounds: u64) {
    let directory = directory();
    for round in 0..rounds {
        let from = round % NODES;
        let to = (from + 10) % NODES;
        let path = directory.path(node(from), node(to));
        black_box(path.expect("a ring has a path"));
    }
}

pub(super) fn resequence_in_order(rounds: u64) {
    resequence(rounds, |sequence| sequence);
}

/// Resequences pairs of ADUs that arrive swapped.
pub(super) fn resequence_swapped(rounds: u64) {
    resequence(rounds, |sequence| sequence ^ 1);
}

fn resequence(rounds: u64, order: fn(u64) -> u64) {
    let mut resequencer = Resequencer::default();
    let payload = Bytes::from_static(&[0; 1_000]);
    // An even number, so that each has its partner.
    for sequence in (0..rounds.next_multiple_of(2)).map(order) {
        let adu = Adu {
            header: header(sequence),
            payload: payload.clone(),
        };
        resequencer.handle_adu(adu, true, now());
        while let Some(adu) = resequencer.poll_adu(now()) {
            black_box(adu);
        }
    }
}

fn now() -> Instant {
    Instant::from_nanos(1_000_000_000)
}

fn header(sequence: u64) -> Header {
    let mut header = Header::new(StreamId(0x1234_5678_9abc_def0), Sequence(sequence));
    header.deadline = now() + Duration::from_millis(300);
    header
}

fn directory() -> Directory {
    let mut directory = Directory::default();
    for place in 0..NODES {
        let (record, signed) = signed(of_node(place, 1));
        directory.handle_record(record, signed, now());
    }
    directory
}

fn signed(record: Record) -> (Record, Signed) {
    let signed = Signed {
        record: record::encode(&record),
        signature: [0; 64],
    };
    (record, signed)
}

fn of_node(place: u64, sequence: u64) -> Record {
    let link = |place: u64| Neighbour {
        node: node(place),
        rtt: Duration::from_millis(20),
        loss_ppm: 1_000,
        rate: Bitrate::from_kbps(2_000),
        is_measured: false,
        secure: true,
    };
    Record {
        node: node(place),
        sequence,
        name: format!("node{place}"),
        slots: 4,
        box_key: [9; 32],
        neighbours: vec![link((place + NODES - 1) % NODES), link((place + 1) % NODES)],
        streams: Vec::new(),
    }
}

fn node(place: u64) -> NodeId {
    NodeId([place as u8; 32])
}
