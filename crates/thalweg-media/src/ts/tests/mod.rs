//! Proves the transport stream rooms: units survive writing and reading in any slicing, damage is
//! counted and bounded, the output keeps the standard's intervals and counters, and every decoder
//! survives any bytes.

mod adus;
mod begin;
mod clocks;
mod data;
mod frame;
mod options;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::adu::{Flags, Importance};

use super::packet::{NULL_PID, SYNC};
use super::unit::UnitError;
use super::*;

const VIDEO: u16 = 0x100;
const AUDIO: u16 = 0x101;
const FRAME_90KHZ: u64 = 3600;

fn programme() -> Programme {
    let stream = |pid, stream_type, descriptors| Elementary {
        pid,
        stream_type,
        descriptors: Bytes::from_static(descriptors),
    };
    Programme {
        transport_stream_id: 3,
        network_pid: Some(0x10),
        number: 1,
        table_pid: 0x1000,
        clock_pid: VIDEO,
        descriptors: Bytes::from_static(&[0x05, 4, b'T', b'E', b'S', b'T']),
        streams: vec![
            stream(VIDEO, 0x1b, b""),
            stream(AUDIO, 0x0f, &[0x0a, 4, b'd', b'e', b'u', 0]),
            stream(0x102, 0x86, b""),
        ],
    }
}

/// Picture `index` of a group of twelve: a key, then reference and non-reference pictures in turn.
fn picture(index: u64) -> AccessUnit {
    let nal: &[u8] = match index % 12 {
        0 => &[0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 1, 0, 0, 1, 0x65],
        n if n % 2 == 1 => &[0, 0, 0, 1, 0x41],
        _ => &[0, 0, 0, 1, 0x01],
    };
    let mut data = nal.to_vec();
    let bytes = 150 + (index as usize * 97) % 1500;
    data.extend((0..bytes).map(|n| (n as u8 ^ index as u8) | 2));
    let dts = 90_000 + index * FRAME_90KHZ;
    AccessUnit {
        pid: VIDEO,
        stream_type: 0x1b,
        stream_id: 0xe0,
        pts_90khz: Some(dts + FRAME_90KHZ),
        dts_90khz: Some(dts),
        random_access: index.is_multiple_of(12),
        aligned: true,
        damaged: false,
        options: Bytes::new(),
        data: data.into(),
    }
}

fn sound(index: u64) -> AccessUnit {
    AccessUnit {
        pid: AUDIO,
        stream_type: 0x0f,
        stream_id: 0xc0,
        pts_90khz: Some(90_000 + index * FRAME_90KHZ + 100),
        dts_90khz: None,
        random_access: true,
        aligned: false,
        damaged: false,
        options: Bytes::new(),
        data: vec![index as u8; 300].into(),
    }
}

/// The facts, then pictures and sound in turn.
fn units(pictures: u64) -> Vec<Unit> {
    let both = |n| [Unit::Access(picture(n)), Unit::Access(sound(n))];
    let facts = core::iter::once(Unit::Programme(programme()));
    facts.chain((0..pictures).flat_map(both)).collect()
}

fn write(units: &[Unit]) -> Vec<u8> {
    let mut writer = Writer::new();
    units.iter().flat_map(|unit| writer.write(unit)).collect()
}

fn read(bytes: &[u8], slice: usize) -> (Vec<Unit>, Counts) {
    let mut reader = Reader::new();
    let mut units = Vec::new();
    for piece in bytes.chunks(slice) {
        reader.push(piece);
        units.extend(core::iter::from_fn(|| reader.poll_unit()));
    }
    reader.finish();
    units.extend(core::iter::from_fn(|| reader.poll_unit()));
    (units, reader.counts())
}

/// Units of one PID, facts left out.
fn of_pid(units: &[Unit], pid: u16) -> Vec<AccessUnit> {
    let access = |unit: &Unit| match unit {
        Unit::Access(unit) if unit.pid == pid => Some(unit.clone()),
        _ => None,
    };
    units.iter().filter_map(access).collect()
}

/// One packet with a whole payload of 184 bytes or less, as foreign equipment might write it.
fn foreign(pid: u16, starts: bool, counter: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut counter = counter;
    packet::write(
        &mut out,
        pid,
        starts,
        packet::Adaptation::default(),
        &mut counter,
        payload,
    );
    out
}

#[test]
fn units_survive_in_any_slicing() {
    let sent = units(40);
    let bytes = write(&sent);
    for slice in [1, 7, 188, 1000, bytes.len()] {
        let (got, counts) = read(&bytes, slice);
        assert_eq!(
            of_pid(&got, VIDEO),
            of_pid(&sent, VIDEO),
            "slices of {slice}"
        );
        assert_eq!(
            of_pid(&got, AUDIO),
            of_pid(&sent, AUDIO),
            "slices of {slice}"
        );
        assert_eq!(got[0], sent[0]);
        let packets = (bytes.len() / PACKET_BYTES) as u64;
        assert_eq!(
            counts,
            Counts {
                packets,
                ..Counts::default()
            }
        );
    }
}

#[test]
fn facts_precede_key_pictures() {
    let (got, _) = read(&write(&units(30)), 500);
    for (index, unit) in got.iter().enumerate() {
        if matches!(unit, Unit::Access(unit) if unit.pid == VIDEO && unit.random_access) {
            assert_eq!(got[index - 1], Unit::Programme(programme()));
        }
    }
    let facts = got.iter().filter(|unit| matches!(unit, Unit::Programme(_)));
    // The original facts, and one repetition before each key picture.
    assert_eq!(facts.count(), 4);
}

#[test]
fn facts_repeat_every_second() {
    let mut facts = programme();
    facts.clock_pid = AUDIO;
    let sounds = (0..100).map(|n| Unit::Access(sound(n)));
    let sent: Vec<_> = core::iter::once(Unit::Programme(facts))
        .chain(sounds)
        .collect();
    let (got, _) = read(&write(&sent), 500);
    let facts = got.iter().filter(|unit| matches!(unit, Unit::Programme(_)));
    assert_eq!(facts.count(), 4);
}

#[test]
fn garbage_is_skipped_and_counted() {
    let sent = units(40);
    let bytes = write(&sent);
    let mut mixed = vec![0x47; 50];
    mixed.extend_from_slice(&[1; 333]);
    let half = bytes.len() / 2 / PACKET_BYTES * PACKET_BYTES;
    mixed.extend_from_slice(&bytes[..half]);
    mixed.extend_from_slice(&[2; 500]);
    mixed.extend_from_slice(&bytes[half..]);
    mixed.extend_from_slice(&bytes[..100]);
    for slice in [1, 99, 10_000] {
        let (got, counts) = read(&mixed, slice);
        // The packet before the garbage might be halves of two packets.
        let mut pictures = of_pid(&got, VIDEO);
        assert!(pictures.iter().filter(|unit| unit.damaged).count() <= 1);
        for unit in &mut pictures {
            unit.damaged = false;
        }
        assert!(pictures == of_pid(&sent, VIDEO));
        assert_eq!((counts.skipped_bytes, counts.truncated_bytes), (883, 100));
        assert_eq!(counts.sync_losses, 1);
    }
}

#[test]
fn lost_packet_damages_one_unit() {
    let bytes = write(&units(12));
    let packets: Vec<_> = bytes.chunks(PACKET_BYTES).collect();
    let second = |raw: &&[u8]| raw[1] == 0x01 && raw[2] == 0x00;
    let lost = packets
        .iter()
        .position(second)
        .expect("a picture of two packets");
    let rest: Vec<u8> = [&packets[..lost], &packets[lost + 1..]].concat().concat();
    let (got, counts) = read(&rest, 400);
    assert_eq!(counts.continuity_errors, 1);
    let damaged: Vec<_> = of_pid(&got, VIDEO)
        .iter()
        .map(|unit| unit.damaged)
        .collect();
    assert_eq!(damaged.iter().filter(|damaged| **damaged).count(), 1);
    assert_eq!(damaged.len(), 12);
}

#[test]
fn packets_sent_twice_are_dropped() {
    let sent = units(12);
    let bytes = write(&sent);
    let twice: Vec<u8> = bytes
        .chunks(PACKET_BYTES)
        .flat_map(|raw| [raw, raw].concat())
        .collect();
    let (got, counts) = read(&twice, 1000);
    assert_eq!(of_pid(&got, VIDEO), of_pid(&sent, VIDEO));
    assert!(counts.duplicates > 30 && counts.continuity_errors == 0);
}

#[test]
fn broken_table_is_not_written() {
    let mut bytes = write(&units(1));
    bytes[PACKET_BYTES + 20] ^= 1;
    let (got, counts) = read(&bytes[..3 * PACKET_BYTES], 188);
    assert_eq!((got.len(), counts.bad_pmts), (0, 1));
}

#[test]
fn timestamps_go_on_over_their_wrap() {
    let mut clock = clock::Clock::default();
    let wrap = 1u64 << 33;
    let near = [wrap - 7200, wrap - 3600, 0, 3600, wrap - 3600, 7200];
    let full: Vec<_> = near.iter().map(|&ticks| clock.unwrap(ticks)).collect();
    let expected = [
        wrap - 7200,
        wrap - 3600,
        wrap,
        wrap + 3600,
        wrap - 3600,
        wrap + 7200,
    ];
    assert_eq!(full, expected);

    let mut sent = units(20);
    for unit in &mut sent {
        if let Unit::Access(unit) = unit {
            unit.shift_90khz((wrap - 90_000 - 5 * FRAME_90KHZ).cast_signed());
        }
    }
    let (got, _) = read(&write(&sent), 1000);
    assert_eq!(of_pid(&got, VIDEO), of_pid(&sent, VIDEO));
    assert_eq!(of_pid(&got, AUDIO), of_pid(&sent, AUDIO));
}

#[test]
fn late_receiver_begins_at_key() {
    let sent = units(40);
    let mut writer = Writer::new();
    let late = &sent[20..];
    assert!(late.iter().all(|unit| writer.write(unit).is_empty()));
    assert_eq!(writer.withheld().without_tables, late.len() as u64);
    let mut bytes = writer.write(&sent[0]).to_vec();
    bytes.extend(late.iter().flat_map(|unit| writer.write(unit)));
    let (got, counts) = read(&bytes, 1000);
    assert_eq!(counts.continuity_errors, 0);
    let pictures = of_pid(&got, VIDEO);
    assert_eq!(pictures[0], picture(12));
    assert_eq!(pictures.len(), 28);
}

#[test]
fn any_unit_subset_is_valid() {
    let sent = units(200);
    for keep in [1, 2, 3, 7, 40] {
        let some = sent.iter().enumerate();
        let some: Vec<_> = some
            .filter(|(n, unit)| matches!(unit, Unit::Programme(_)) || n % keep == 1 % keep)
            .map(|(_, unit)| unit.clone())
            .collect();
        check_stream(&write(&some));
    }
}

/// Checks counters, clock distance and order, and that the stream is whole packets.
fn check_stream(bytes: &[u8]) {
    let mut counters = std::collections::BTreeMap::new();
    let mut clock: Option<u64> = None;
    for raw in bytes.chunks(PACKET_BYTES) {
        let raw = raw.try_into().expect("whole packets");
        let packet = packet::Packet::read(raw).expect("sound packets");
        let last = counters.insert(packet.pid, packet.counter);
        let step = u8::from(packet.payload.is_some());
        assert!(last.is_none_or(|last| packet.counter == (last + step) & 0x0f));
        if raw[3] & 0x20 != 0 && raw[4] > 0 && raw[5] & 0x10 != 0 {
            let field =
                u64::from_be_bytes([0, 0, raw[6], raw[7], raw[8], raw[9], raw[10], raw[11]]);
            let now = field >> 15;
            if let Some(last) = clock.replace(now) {
                assert!(now > last && now - last <= 9000, "{last} then {now}");
            }
        }
    }
    assert!(clock.is_some());
}

#[test]
fn time_jump_is_marked() {
    let mut writer = Writer::new();
    writer.write(&Unit::Programme(programme()));
    let mut marked = |ticks: i64| {
        let mut unit = picture(12);
        unit.shift_90khz(ticks);
        let bytes = writer.write(&Unit::Access(unit));
        let packets = bytes.chunks(PACKET_BYTES);
        packets
            .filter(|raw| raw[3] & 0x20 != 0 && raw[4] > 0 && raw[5] & 0x80 != 0)
            .count()
    };
    assert_eq!(marked(0), 0);
    assert_eq!(marked(40_000), 0);
    assert_eq!(marked(3_600_000), 1);
    assert_eq!(marked(0), 1);
    assert_eq!(marked(-3600), 0);
}

#[test]
fn unknown_pids_pass_through() {
    let mut bytes = write(&units(2));
    let section = [&[0, 0x42, 0xb0, 5][..], &[1, 2, 3, 4, 5]].concat();
    for counter in [9, 10] {
        bytes.extend(foreign(0x11, true, counter, &section));
    }
    let splice = [&[0, 0xfc, 0x30, 3][..], &[7; 3]].concat();
    bytes.extend(foreign(0x102, true, 0, &splice));
    let mut scrambled = foreign(AUDIO, true, 2, &[9; 184]);
    scrambled[3] |= 0x80;
    bytes.extend(&scrambled);
    bytes.extend(foreign(NULL_PID, false, 0, &[0; 184]));
    bytes.extend((0..9).flat_map(|n| foreign(0x333, false, n, &[n; 184])));
    let (got, counts) = read(&bytes, 321);
    assert_eq!(counts.null_packets, 1);
    let packets = |unit: &Unit| match unit {
        Unit::Packets(packets) => Some((packets.pid, packets.data.len() / PACKET_BYTES)),
        _ => None,
    };
    let bundles: Vec<_> = got.iter().filter_map(packets).collect();
    let expected = [
        (0x11, 1),
        (0x11, 1),
        (0x102, 1),
        (AUDIO, 1),
        (0x333, 7),
        (0x333, 2),
    ];
    assert_eq!(bundles, expected);
    let (again, counts) = read(&write(&got), 188);
    assert_eq!(counts.continuity_errors, 0);
    assert_eq!(
        again.iter().filter_map(packets).collect::<Vec<_>>(),
        expected
    );
}

#[test]
fn two_packet_table_round_trips() {
    let mut facts = programme();
    facts.streams[1].descriptors = vec![7; 600].into();
    let (got, counts) = read(&write(&[Unit::Programme(facts.clone())]), 188);
    assert_eq!(got, [Unit::Programme(facts)]);
    assert_eq!(counts.packets, 5);
}

#[test]
fn endless_unit_is_dropped() {
    let mut reader = Reader::new();
    reader.push(&write(&[Unit::Programme(programme())]));
    reader.push(&foreign(
        VIDEO,
        true,
        0,
        &[&[0, 0, 1, 0xe0, 0, 0, 0x80, 0, 0][..], &[1; 175]].concat(),
    ));
    let packets: Vec<u8> = (1..17)
        .flat_map(|n| foreign(VIDEO, false, n & 15, &[1; 184]))
        .collect();
    for _ in 0..(9 << 20) / packets.len() {
        reader.push(&packets);
    }
    assert_eq!(reader.counts().discarded_units, 1);
    assert!(reader.counts().early_packets > 0);
}

/// A PES packet of open length over packets with payloads of the given lengths, each at most 184
/// bytes.
fn open_pes(parts: &[usize]) -> (Vec<u8>, Vec<u8>) {
    let head = [0, 0, 1, 0xe0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 5, 0xbf, 0x21];
    let total = parts.iter().sum::<usize>();
    let data: Vec<u8> = (0..total - head.len()).map(|n| n as u8 | 1).collect();
    let whole = [&head[..], &data].concat();
    let mut rest = whole.as_slice();
    let mut out = Vec::new();
    for (counter, &bytes) in parts.iter().enumerate() {
        let (part, tail) = rest.split_at(bytes);
        out.extend(foreign(VIDEO, counter == 0, counter as u8, part));
        rest = tail;
    }
    (out, data)
}

#[test]
fn stuffing_ends_open_unit() {
    for (last, now) in [
        (184, false),
        (183, true),
        (182, true),
        (60, true),
        (1, true),
    ] {
        let mut reader = Reader::new();
        reader.push(&write(&[Unit::Programme(programme())]));
        let (bytes, data) = open_pes(&[184, 184, last]);
        reader.push(&bytes);
        let units: Vec<_> = core::iter::from_fn(|| reader.poll_unit()).collect();
        // A last packet without stuffing is known to be the last only when the next unit begins.
        assert_eq!(units.len(), 1 + usize::from(now), "last packet of {last}");
        reader.finish();
        let rest = core::iter::from_fn(|| reader.poll_unit());
        let pictures = of_pid(&units.into_iter().chain(rest).collect::<Vec<_>>(), VIDEO);
        assert_eq!(pictures.len(), 1);
        assert_eq!(pictures[0].data, data);
        assert!(pictures[0].pts_90khz.is_some());
    }
}

#[test]
fn early_stuffing_loses_nothing() {
    let (bytes, data) = open_pes(&[184, 100, 184, 100, 20]);
    let tables = write(&[Unit::Programme(programme())]);
    let (got, counts) = read(&[tables, bytes].concat(), 77);
    let parts = of_pid(&got, VIDEO);
    let joined: Vec<u8> = parts.iter().flat_map(|unit| unit.data.clone()).collect();
    assert_eq!((parts.len(), joined), (3, data));
    assert_eq!((counts.early_packets, counts.bad_units), (0, 0));
    assert!(parts[0].pts_90khz.is_some() && parts[1].pts_90khz.is_none());
}

#[test]
fn framing_error_names_the_fault() {
    let decode = |bytes: &[u8]| unit::decode(&Bytes::copy_from_slice(bytes));
    assert_eq!(decode(&[]), Err(UnitError::Short { bytes: 0 }));
    assert_eq!(decode(&[9, 0]), Err(UnitError::Version { found: 9 }));
    assert_eq!(decode(&[1, 3]), Err(UnitError::Kind { found: 3 }));
    assert!(matches!(
        decode(&[1, 1, 0, 0, 1, 1, 0]),
        Err(UnitError::Field { field: "pid" })
    ));
    assert!(matches!(
        decode(&[1, 1, 1, 0, 1, 1, 0x80]),
        Err(UnitError::Field { field: "flag" })
    ));
    assert!(matches!(
        decode(&[1, 2, 1, 0, 0x47]),
        Err(UnitError::Field { .. })
    ));
    for unit in units(1) {
        let whole = unit::encode(&unit);
        assert_eq!(unit::decode(&whole), Ok(unit.clone()));
        for cut in 0..whole.len() {
            let part = unit::decode(&whole.slice(..cut));
            assert_ne!(part, Ok(unit.clone()), "cut at {cut}");
        }
    }
}

/// Any bytes, with sync bytes at packet starts and meaningful PIDs.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let pid = prop_oneof![
        Just(0u16),
        Just(0x1000),
        Just(VIDEO),
        Just(AUDIO),
        Just(0x102),
        0..0x2000u16
    ];
    let packet = (
        pid,
        any::<[u8; 4]>(),
        proptest::collection::vec(any::<u8>(), 182),
    )
        .prop_map(|(pid, [a, b, c, sync], rest)| {
            let [high, low] = pid.to_be_bytes();
            let sync = if sync == 0 { 0 } else { SYNC };
            [&[sync, a & 0x60 | high, low, b, c & 0x3f, c][..], &rest].concat()
        });
    proptest::collection::vec(packet, 0..20).prop_map(|packets| packets.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn slicing_does_not_matter(tail in hostile(), slice in 1..700usize) {
        let mut bytes = write(&units(2));
        bytes.extend_from_slice(&tail);
        let whole = read(&bytes, bytes.len());
        prop_assert_eq!(&read(&bytes, slice), &whole);
        let c = whole.1;
        let between = c.skipped_bytes + c.truncated_bytes + c.framing_bytes;
        let total = c.packets * PACKET_BYTES as u64 + between;
        prop_assert_eq!(total, bytes.len() as u64);
        // A unit that was read can be written, framed and read again.
        let mut subscriber = Subscriber::new();
        let mut out = Vec::new();
        for unit in &whole.0 {
            if let Ok(bytes) = subscriber.handle_payload(&unit::encode(unit)) {
                out.extend_from_slice(&bytes);
            }
        }
        prop_assert!(out.len().is_multiple_of(PACKET_BYTES));
        read(&out, 1000);
        read(&tail, slice);
    }

    #[test]
    fn any_payload_is_a_unit_or_an_error(
        kind in 0..4u8, rest in proptest::collection::vec(any::<u8>(), 0..80), raw in any::<bool>(),
    ) {
        let bytes = if raw { rest } else { [&[1, kind][..], &rest].concat() };
        let mut writer = Writer::new();
        writer.write(&Unit::Programme(programme()));
        if let Ok(unit) = unit::decode(&Bytes::from(bytes)) {
            prop_assert_eq!(unit::decode(&unit::encode(&unit)), Ok(unit.clone()));
            let out = writer.write(&unit);
            prop_assert!(out.len().is_multiple_of(PACKET_BYTES));
        }
    }
}
