//! Proves that every value survives the wire, and that every byte string is a value or an error.

mod bodies;
mod described;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option;
use proptest::prelude::*;

use super::account::{Entry, Made, Report, Statement};
use super::admission::tests::{credentials, warrants};
use super::control::{Body, Message, Prepare, Routed};
use super::receipt::{Advice, Receipt, Silence};
use super::record::{Announced, Neighbour, Record};
use super::summary::{Lack, Prefix, Summary};
use super::{VARINT_MAX, WireError, adu, control, record, varint};
use crate::adu::{Flags, Header, Importance, Mark, MediaTime};
use crate::feed::Feed;
use crate::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use crate::limits::{
    ADU_HEADER_BYTES_MAX, ADU_PAYLOAD_BYTES_MAX, LAYERS_MAX, PATH_NODES_MAX, RECEIPT_RANGES_MAX,
    RENEWALS_MAX, TRACE_BYTES_MAX, TRACE_STAMPS_MAX,
};
use crate::needs::{Order, Reliability};
use crate::seen::Held;
use crate::time::{Duration, Instant};
use crate::trace::{Stamp, Trace, Traced};
use crate::units::Bitrate;

fn encoded(header: &Header, payload_bytes: usize, now: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    adu::encode_header(header, payload_bytes, now, &mut bytes);
    bytes
}

#[test]
fn varint_is_shortest_at_edges() {
    let edges = [
        (0, 1),
        (63, 1),
        (64, 2),
        (16_383, 2),
        (16_384, 4),
        ((1 << 30) - 1, 4),
        (1 << 30, 8),
    ];
    for (value, length) in edges.into_iter().chain([(VARINT_MAX, 8)]) {
        let mut bytes = Vec::new();
        varint::encode(value, &mut bytes);
        assert_eq!(bytes.len(), length);
        assert_eq!(varint::decode(&bytes), Some((value, length)));
        assert_eq!(varint::decode(&bytes[..length - 1]), None);
    }
}

#[test]
fn budget_shrinks_by_holding_time() {
    let mut header = Header::new(StreamId(7), Sequence(1));
    let sent = Instant::from_nanos(5_000_000);
    header.deadline = sent + Duration::from_millis(300);
    let bytes = encoded(&header, 0, sent + Duration::from_millis(20));
    let arrived = Instant::from_nanos(77);
    let decoded = adu::decode_header(&bytes, arrived)
        .expect("well formed")
        .expect("whole");
    assert_eq!(
        decoded.header.deadline,
        arrived + Duration::from_millis(280)
    );
}

#[test]
fn expired_adu_has_no_budget() {
    let mut header = Header::new(StreamId(7), Sequence(1));
    let now = Instant::from_nanos(9_000_000);
    let read = |header: &Header| {
        let bytes = encoded(header, 0, now);
        adu::decode_header(&bytes, now)
            .expect("well formed")
            .expect("whole")
            .header
            .deadline
    };
    assert_eq!(read(&header), Instant::NEVER);
    header.deadline = Instant::from_nanos(1);
    assert_eq!(read(&header), now);
}

#[test]
fn header_limits_are_exact() {
    let mut widest = Header::new(StreamId(u64::MAX), Sequence(VARINT_MAX - 1));
    widest.epoch = Epoch(u32::MAX);
    widest.media_time = MediaTime::MAX;
    widest.depends_on = u32::MAX;
    widest.layer = LAYERS_MAX as u8 - 1;
    widest.deadline = Instant::from_nanos(u64::MAX - 1);
    let mut bytes = encoded(&widest, ADU_PAYLOAD_BYTES_MAX, Instant::ZERO);
    assert!(bytes.len() <= ADU_HEADER_BYTES_MAX);
    assert!(
        adu::decode_header(&bytes, Instant::ZERO)
            .expect("well formed")
            .is_some()
    );
    // The successor of the largest sequence cannot be encoded.
    let mut beyond = widest;
    beyond.sequence = Sequence(VARINT_MAX);
    let error = adu::decode_header(&encoded(&beyond, 1, Instant::ZERO), Instant::ZERO);
    let error = error.expect_err("one too high");
    assert!(matches!(
        error,
        WireError::TooLarge {
            what: "sequence",
            ..
        }
    ));
    bytes[3] = LAYERS_MAX as u8;
    let error = adu::decode_header(&bytes, Instant::ZERO).expect_err("one layer too high");
    assert!(matches!(error, WireError::TooLarge { what: "layer", .. }));
    let bytes = encoded(&widest, ADU_PAYLOAD_BYTES_MAX + 1, Instant::ZERO);
    let error = adu::decode_header(&bytes, Instant::ZERO).expect_err("one byte too long");
    assert!(matches!(
        error,
        WireError::TooLarge {
            what: "payload length",
            ..
        }
    ));
    assert_eq!(
        adu::decode_header(&[9], Instant::ZERO),
        Err(WireError::Version(9))
    );
}

#[test]
fn long_reason_is_cut_at_character() {
    let reason = "é".repeat(4_000);
    let body = Body::Refuse {
        stream: StreamId(1),
        epoch: Epoch(1),
        reason,
    };
    let read = control::decode_body(&control::encode_body(&body)).expect("well formed");
    assert!(matches!(read, Body::Refuse { reason, .. } if reason.len() == 1024));
}

#[test]
fn account_entries_are_ascending() {
    let entry = |what| Entry { what, count: 1 };
    let statement = |distance, entries: &[u8]| Statement {
        distance,
        since: (distance != 30).then_some(1),
        entries: entries.iter().copied().map(entry).collect(),
    };
    let read = |statements| {
        let report = Report {
            stream: StreamId(3),
            epoch: Epoch(2),
            open: Mark::from_index(2),
            made: Made::from_bits(5),
            statements,
        };
        let frame = control::encode(&Message::Account(report));
        assert_eq!(control::accounted(&frame), Some((StreamId(3), Epoch(2))));
        control::decode(&frame)
    };
    assert!(read([statement(0, &[1, 2]), statement(30, &[0, 255])].into()).is_ok());
    let malformed = |what| Err(WireError::Malformed(what));
    assert_eq!(read([statement(31, &[1])].into()), malformed("distance"));
    assert_eq!(
        read([statement(1, &[]), statement(1, &[])].into()),
        malformed("distance")
    );
    assert_eq!(read([statement(0, &[2, 2])].into()), malformed("what"));
    assert_eq!(read([statement(0, &[2, 1])].into()), malformed("what"));
    // A node that has always been counting.
    let head = [3, 0, 0, 0, 0, 0, 0, 0, 3, 2];
    let read = |rest: &[u8]| control::decode(&[&head[..], rest].concat());
    assert!(read(&[255, 255, 0]).is_ok());
    assert!(read(&[0, 0, 1, 0, 1, 0]).is_ok());
    assert_eq!(read(&[0, 0, 1, 0, 0, 0]), malformed("since"));
    assert!(read(&[0, 0, 1, 128, 0]).is_ok());
    assert_eq!(read(&[0, 0, 1, 128 + 31, 0]), malformed("distance"));
    assert_eq!(control::accounted(&[2, 0, 0]), None);
    assert_eq!(control::accounted(&[3, 0, 0]), None);
}

#[test]
fn stamp_wraps_around() {
    let at = |millis| Made::at(Instant::ZERO + Duration::from_millis(millis));
    for (later, earlier, apart) in [
        (16_384 + 5, 5, 0),
        (16_384 + 5, 16_380, 9),
        (16_380, 16_384 + 5, -9),
        (8_191, 0, 8_191),
        (8_192, 0, -8_192),
    ] {
        assert_eq!(at(later).since(at(earlier)), apart);
        assert_eq!(at(earlier).plus(apart), at(later));
    }
}

#[test]
fn receipt_ranges_ascend_apart() {
    // The frame up to the number of ranges: kind, stream, epoch, since, floor 10.
    let head = [5, 0, 0, 0, 0, 0, 0, 0, 3, 2, 9, 10];
    let read = |ranges: &[u8]| control::decode(&[&head[..], ranges].concat());
    let held = |ranges: &[core::ops::Range<u64>]| {
        Ok(Message::Receipt(Receipt {
            stream: StreamId(3),
            epoch: Epoch(2),
            since: 9,
            held: Held {
                floor: 10,
                ranges: ranges.to_vec(),
            },
        }))
    };
    assert_eq!(read(&[0]), held(&[]));
    assert_eq!(read(&[2, 1, 1, 2, 5]), held(&[11..12, 14..19]));
    let malformed = Err(WireError::Malformed("ranges"));
    assert_eq!(read(&[1, 0, 1]), malformed, "it touches the floor");
    assert_eq!(read(&[1, 1, 0]), malformed, "it is empty");
    let huge = [1, 255, 255, 255, 255, 255, 255, 255, 255, 1];
    assert_eq!(read(&huge), malformed, "it ends beyond all sequences");
    let (what, value, limit) = ("ranges", 33, 32);
    let many = WireError::TooLarge { what, value, limit };
    assert_eq!(read(&[33]), Err(many));
    for kind in [6, 11] {
        let far = [kind, 0, 0, 0, 0, 0, 0, 0, 3, 2, 31];
        assert_eq!(control::decode(&far), Err(WireError::Malformed("distance")));
    }
}

prop_compose! {
    fn receipts()(
        (stream, epoch, since) in (any::<u64>(), any::<u32>(), 0..=VARINT_MAX),
        floor in 0..1_u64 << 40,
        runs in vec((1..1_u64 << 40, 1..1_u64 << 40), 0..=RECEIPT_RANGES_MAX),
    ) -> Receipt {
        let mut at = floor;
        let range = |(gap, run): &(u64, u64)| {
            let start = at + gap;
            at = start + run;
            start..at
        };
        let ranges = runs.iter().map(range).collect();
        let held = Held { floor, ranges };
        Receipt { stream: StreamId(stream), epoch: Epoch(epoch), since, held }
    }
}

prop_compose! {
    fn headers()(
        (stream, sequence, epoch) in (any::<u64>(), 0..VARINT_MAX, any::<u32>()),
        (importance, layer) in (any::<u8>(), 0..LAYERS_MAX as u8),
        (media, depends_on, flags) in (0..=VARINT_MAX, any::<u32>(), 0..128_u8),
        budget in option::of(0..1_000_000_000_u64),
    ) -> Header {
        Header {
            stream: StreamId(stream),
            sequence: Sequence(sequence),
            epoch: Epoch(epoch),
            media_time: MediaTime::from_micros(media),
            importance: Importance(importance),
            layer,
            depends_on,
            deadline: budget.map_or(Instant::NEVER, |us| Instant::ZERO + Duration::from_micros(us)),
            flags: Flags::from_bits(flags).expect("seven bits are known"),
        }
    }
}

fn names() -> impl Strategy<Value = StreamName> {
    "[a-z0-9._-]{0,19}[a-z0-9](/[a-z0-9]{1,9}){0,3}".prop_map(|name| name.parse().expect("made so"))
}

fn nodes() -> impl Strategy<Value = NodeId> {
    any::<[u8; 32]>().prop_map(NodeId)
}

prop_compose! {
    fn neighbours()(
        node in nodes(), rtt in 0..1_u64 << 40, loss_ppm in 0..=1_000_000_u32, half in 0..1_u64 << 50, is_measured: bool, secure: bool,
    ) -> Neighbour {
        Neighbour { node, rtt: Duration::from_micros(rtt), loss_ppm, rate: Bitrate::from_bps(2 * half), is_measured, secure }
    }
}

prop_compose! {
    fn streams()(id: u64, start: [u8; 8], name in names(), confidential: bool, layers in vec(0..1_u64 << 50, 0..9)) -> Announced {
        let layers = layers.into_iter().map(Bitrate::from_bps).collect();
        Announced { id: StreamId(id), start, name, confidential, layers }
    }
}

prop_compose! {
    fn records()(
        node in nodes(), sequence in 0..=VARINT_MAX, name in "\\PC{0,16}", slots: u32, box_key: [u8; 32],
        neighbours in vec(neighbours(), 0..5), streams in vec(streams(), 0..5),
    ) -> Record {
        Record { node, sequence, name, slots, box_key, neighbours, streams }
    }
}

fn signatures() -> impl Strategy<Value = [u8; 64]> {
    vec(any::<u8>(), 64).prop_map(|bytes| bytes.try_into().expect("64 were made"))
}

/// Statements in ascending order of distance, entries in ascending order of what they count.
fn reports() -> impl Strategy<Value = Report> {
    let entries = btree_map(any::<u8>(), 0..=VARINT_MAX, 0..9);
    let statements = btree_map(0..31_u8, (option::of(1..=VARINT_MAX), entries), 0..5);
    let ids = (any::<u64>(), any::<u32>(), 0..4_u8, any::<u16>());
    (ids, statements).prop_map(|((stream, epoch, open, made), statements)| {
        let entry = |(what, count)| Entry { what, count };
        let statement = |(distance, (since, entries)): (_, (_, BTreeMap<u8, u64>))| Statement {
            distance,
            since,
            entries: entries.into_iter().map(entry).collect(),
        };
        Report {
            stream: StreamId(stream),
            epoch: Epoch(epoch),
            open: Mark::from_index(open),
            made: Made::from_bits(made),
            statements: statements.into_iter().map(statement).collect(),
        }
    })
}

/// What new neighbours send each other, and descriptions.
fn of_meetings() -> impl Strategy<Value = Message> {
    prop_oneof![
        btree_map(any::<[u8; 8]>(), 0..=VARINT_MAX, 0..9).prop_map(|records| {
            let records = records.into_iter();
            let records = records.map(|(prefix, sequence)| (Prefix(prefix), sequence));
            Message::Summary(Summary {
                records: records.collect(),
            })
        }),
        btree_set(any::<[u8; 8]>(), 0..9).prop_map(|nodes| {
            let nodes = nodes.into_iter().map(Prefix).collect();
            Message::Lack(Lack { nodes })
        }),
        (vec(any::<u8>(), 0..99), signatures()).prop_map(|(description, signature)| {
            Message::Description {
                description,
                signature,
            }
        }),
        btree_set(any::<u64>(), 0..9).prop_map(|streams| {
            Message::Undescribed(streams.into_iter().map(StreamId).collect())
        }),
    ]
}

fn messages() -> impl Strategy<Value = Message> {
    let routed = (
        vec(nodes(), 1..8),
        any::<usize>(),
        vec(any::<u8>(), 0..99),
        signatures(),
    );
    prop_oneof![
        reports().prop_map(Message::Account),
        credentials().prop_map(Message::Grant),
        warrants().prop_map(Message::Revocation),
        receipts().prop_map(Message::Receipt),
        (any::<u64>(), any::<u32>(), 0..31_u8, any::<bool>()).prop_map(
            |(stream, epoch, distance, is_doubt)| {
                let (stream, epoch) = (StreamId(stream), Epoch(epoch));
                Message::Advice(Advice {
                    stream,
                    epoch,
                    distance,
                    is_doubt,
                })
            }
        ),
        (any::<u64>(), any::<u32>()).prop_map(|(stream, epoch)| {
            let (stream, epoch) = (StreamId(stream), Epoch(epoch));
            Message::Silence(Silence { stream, epoch })
        }),
        (vec(any::<u8>(), 0..99), signatures())
            .prop_map(|(record, signature)| Message::Record { record, signature }),
        of_meetings(),
        routed.prop_map(|(route, position, body, signature)| {
            let position = position % route.len();
            Message::Routed(Routed {
                route,
                position,
                body,
                signature,
            })
        }),
    ]
}

/// Stamps with encodable times.
fn stamps() -> impl Strategy<Value = Stamp> {
    let time = || (0..1u64 << 30).prop_map(Duration::from_micros);
    (time(), time(), time(), time()).prop_map(|(inside, lift, wait, line)| Stamp {
        inside,
        lift,
        wait,
        line,
    })
}

#[test]
fn record_cannot_be_requested_twice() {
    let lack = |nodes: &[u8]| {
        let nodes = nodes.iter().map(|node| Prefix([*node; 8])).collect();
        control::decode(&control::encode(&Message::Lack(Lack { nodes })))
    };
    let malformed = Err(WireError::Malformed("order of nodes"));
    assert!(lack(&[0, 1, 2]).is_ok());
    assert_eq!(lack(&[0, 1, 1]), malformed);
    assert_eq!(lack(&[0, 2, 1]), malformed);
}

#[test]
fn trace_has_bounded_stamps() {
    let header = Header::new(StreamId(1), Sequence(1));
    let endless = Stamp {
        wait: Duration::NEVER,
        ..Stamp::default()
    };
    let full = Trace::arrived(Vec::from([endless; TRACE_STAMPS_MAX - 1]), Instant::ZERO);
    let mut bytes = Vec::new();
    adu::encode_traced(&header, &full, 0, Instant::ZERO, &mut bytes);
    let decoded = adu::decode_header(&bytes, Instant::ZERO);
    let decoded = decoded.expect("well formed").expect("whole");
    let trace = adu::decode_trace(&bytes, &decoded, Instant::ZERO).expect("it bears stamps");
    assert_eq!(trace.stamps()[0].wait, Duration::from_micros((1 << 30) - 1));
    let mut longer = Vec::new();
    adu::encode_traced(&header, &trace, 0, Instant::ZERO, &mut longer);
    assert_eq!(
        longer,
        encoded(&header, 0, Instant::ZERO),
        "it goes on untraced"
    );
    let at = decoded.header_bytes - decoded.trace_bytes;
    bytes[at] = 0;
    assert_eq!(
        adu::decode_header(&bytes, Instant::ZERO),
        Err(WireError::Malformed("stamps"))
    );
    bytes[at] = TRACE_STAMPS_MAX as u8 + 1;
    let error = adu::decode_header(&bytes, Instant::ZERO).expect_err("one too many");
    assert!(matches!(error, WireError::TooLarge { what: "stamps", .. }));
}

proptest! {
    #[test]
    fn header_survives(header in headers(), payload_bytes in 0..=ADU_PAYLOAD_BYTES_MAX, tail in vec(any::<u8>(), 0..9)) {
        let mut bytes = encoded(&header, payload_bytes, Instant::ZERO);
        let header_bytes = bytes.len();
        bytes.extend(tail);
        let decoded = adu::decode_header(&bytes, Instant::ZERO).expect("well formed").expect("whole");
        prop_assert_eq!(decoded, adu::Decoded { header, payload_bytes, header_bytes, trace_bytes: 0 });
        for length in 0..header_bytes {
            prop_assert_eq!(adu::decode_header(&bytes[..length], Instant::ZERO), Ok(None));
        }
    }

    #[test]
    fn traced_header_survives(
        header in headers(),
        payload_bytes in 0..=ADU_PAYLOAD_BYTES_MAX,
        before in vec(stamps(), 0..TRACE_STAMPS_MAX),
        tail in vec(any::<u8>(), 0..9),
    ) {
        let at = |micros| Instant::ZERO + Duration::from_micros(micros);
        let mut trace = Trace::arrived(before.clone(), at(0));
        trace.queue(at(5), Duration::from_micros(40));
        let mut bytes = Vec::new();
        adu::encode_traced(&header, &trace, payload_bytes, Instant::ZERO, &mut bytes);
        let header_bytes = bytes.len();
        prop_assert!(header_bytes <= ADU_HEADER_BYTES_MAX + TRACE_BYTES_MAX);
        bytes.extend(tail);
        let decoded = adu::decode_header(&bytes, Instant::ZERO).expect("well formed").expect("whole");
        prop_assert_eq!((decoded.header, decoded.payload_bytes), (header, payload_bytes), "no bit of it is left in the flags");
        prop_assert_eq!(decoded.header_bytes, header_bytes);
        let read = adu::decode_trace(&bytes, &decoded, at(9)).expect("it bears stamps");
        prop_assert_eq!(read.stamps().len(), before.len() + 1);
        prop_assert_eq!(&read.stamps()[..before.len()], &before[..]);
        prop_assert_eq!(read.stamps()[before.len()], trace.stamp(Instant::ZERO));
        for length in 0..header_bytes {
            prop_assert_eq!(adu::decode_header(&bytes[..length], Instant::ZERO), Ok(None));
        }
    }

    #[test]
    fn record_survives(original in records()) {
        prop_assert_eq!(record::decode(&record::encode(&original)), Ok(original));
    }

    #[test]
    fn message_survives(original in messages()) {
        prop_assert_eq!(control::decode(&control::encode(&original)), Ok(original));
    }

    #[test]
    fn body_survives(original in bodies::any_body()) {
        prop_assert_eq!(control::decode_body(&control::encode_body(&original)), Ok(original));
    }

    #[test]
    fn any_bytes_decode_or_fail(bytes in vec(any::<u8>(), 0..300)) {
        let header = adu::decode_header(&bytes, Instant::ZERO);
        if let Ok(Some(decoded)) = header {
            let trace = adu::decode_trace(&bytes, &decoded, Instant::ZERO);
            prop_assert_eq!(trace.is_some(), decoded.trace_bytes > 0, "skipped stamps can be read");
        }
        prop_assert!(bytes.len() < adu::window(&bytes) || header != Ok(None), "a full window is decided");
        let _ = (record::decode(&bytes), control::decode(&bytes), control::decode_body(&bytes));
    }

    #[test]
    fn damaged_message_decodes_or_fails(original in messages(), body in bodies::any_body(), at: usize, with: u8) {
        for (mut bytes, inner) in [(control::encode(&original), false), (control::encode_body(&body), true)] {
            let at = at % bytes.len();
            bytes[at] ^= with;
            let _ = if inner { control::decode_body(&bytes).map(drop) } else { control::decode(&bytes).map(drop) };
            bytes.truncate(at);
            let _ = if inner { control::decode_body(&bytes).map(drop) } else { control::decode(&bytes).map(drop) };
        }
    }
}
