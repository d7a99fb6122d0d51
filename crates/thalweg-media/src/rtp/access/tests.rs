//! Proves that access units come back whole from their packets, in any order within the window; that
//! a lost packet costs its own NAL unit only; and that any bytes are survived.

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_base::adu::{Flags, MediaTime};

use super::{Assembler, Carried, Splitter};
use crate::Marks;
use crate::nal::Role;

const START: [u8; 4] = [0, 0, 0, 1];

/// Returns a NAL unit of this type and size without start codes inside.
fn unit(carried: Carried, kind: u8, bytes: usize) -> Vec<u8> {
    let header = match carried {
        Carried::H264 => vec![0x60 | kind],
        _ => vec![kind << 1, 1],
    };
    let body = (0..bytes).map(|at| 1 + (at % 250) as u8);
    header.into_iter().chain(body).collect()
}

fn access(units: &[Vec<u8>]) -> Vec<u8> {
    units
        .iter()
        .flat_map(|unit| [&START[..], unit].concat())
        .collect()
}

fn assembled(carried: Carried, packets: &[Vec<u8>]) -> (Vec<(Marks, Bytes)>, Assembler) {
    let mut assembler = Assembler::new(carried);
    for packet in packets {
        assembler.push(&Bytes::from(packet.clone()));
    }
    assembler.flush();
    let units = std::iter::from_fn(|| assembler.poll_unit()).collect();
    (units, assembler)
}

#[test]
fn h264_group_comes_back_with_marks() {
    let carried = Carried::H264;
    let key = access(&[
        unit(carried, 7, 20),
        unit(carried, 8, 4),
        unit(carried, 5, 9_000),
    ]);
    let reference = access(&[unit(carried, 1, 3_000)]);
    // No other picture refers to one with its two reference bits clear.
    let mut free = unit(carried, 1, 100);
    free[0] &= 0x1f;
    let free = access(&[free]);
    let mut splitter = Splitter::new(carried, 7, u16::MAX - 3);
    let mut packets = Vec::new();
    for (at, picture) in [&key, &reference, &free].into_iter().enumerate() {
        packets.extend(splitter.split(picture, MediaTime::from_micros(at as u64 * 40_000)));
    }
    assert!(packets.iter().all(|packet| packet.len() <= 1_212));
    packets.swap(2, 4);
    let (units, assembler) = assembled(carried, &packets);
    let payloads: Vec<&[u8]> = units.iter().map(|(_, unit)| &unit[..]).collect();
    assert_eq!(payloads, [&key[..], &reference, &free]);
    let marks: Vec<Marks> = units.iter().map(|(marks, _)| *marks).collect();
    assert_eq!(marks[0].flags, Flags::KEY);
    assert_eq!(marks[2].flags, Flags::DISCARDABLE);
    assert_eq!([0, 1, 1], [0, 1, 2].map(|at| marks[at].depends_on));
    assert_eq!(marks[0].importance, Role::Key.importance(0, 0));
    assert_eq!(marks[2].media_time, MediaTime::from_micros(80_000));
    assert_eq!(assembler.counts().rtp.lost, 0);
}

#[test]
fn h265_group_comes_back() {
    let carried = Carried::H265;
    let sets = [32, 33, 34].map(|kind| unit(carried, kind, 30));
    let key = access(&[&sets[..], &[unit(carried, 19, 5_000)]].concat());
    let reference = access(&[unit(carried, 1, 2_000)]);
    let mut splitter = Splitter::new(carried, 7, 1);
    let mut packets = splitter.split(&key, MediaTime::default());
    packets.extend(splitter.split(&reference, MediaTime::from_micros(40_000)));
    let (units, _) = assembled(carried, &packets);
    let payloads: Vec<&[u8]> = units.iter().map(|(_, unit)| &unit[..]).collect();
    assert_eq!(payloads, [&key[..], &reference]);
    assert_eq!(units[0].0.flags, Flags::KEY);
}

#[test]
fn opus_packet_is_a_unit() {
    let mut splitter = Splitter::new(Carried::Opus, 7, 1);
    let packets: Vec<Vec<u8>> = (0..3)
        .flat_map(|at| {
            splitter.split(
                &[at + 1; 80],
                MediaTime::from_micros(20_000 * u64::from(at)),
            )
        })
        .collect();
    let (units, _) = assembled(Carried::Opus, &packets);
    assert_eq!(units.len(), 3);
    assert_eq!(units[2].0.media_time, MediaTime::from_micros(40_000));
    assert_eq!(units[1].1[..], [2; 80]);
}

#[test]
fn lost_fragment_costs_its_unit_only() {
    let carried = Carried::H264;
    let parts = [
        unit(carried, 7, 20),
        unit(carried, 5, 5_000),
        unit(carried, 6, 50),
    ];
    let mut splitter = Splitter::new(carried, 7, 1);
    let mut packets = splitter.split(&access(&parts), MediaTime::default());
    packets.remove(2);
    let next = access(&[unit(carried, 1, 10)]);
    packets.extend(splitter.split(&next, MediaTime::from_micros(40_000)));
    let (units, assembler) = assembled(carried, &packets);
    let rest = access(&[parts[0].clone(), parts[2].clone()]);
    let payloads: Vec<&[u8]> = units.iter().map(|(_, unit)| &unit[..]).collect();
    assert_eq!(payloads, [&rest[..], &next]);
    assert_eq!(assembler.counts().rtp.lost, 1);
}

#[test]
fn aggregate_is_taken_apart() {
    let mut splitter = Splitter::new(Carried::Opus, 7, 1);
    // STAP-A: two units behind their lengths.
    let payload = [&[24][..], &[0, 2, 0x67, 9], &[0, 3, 0x65, 8, 7]].concat();
    let packet = splitter.split(&payload, MediaTime::default());
    let (units, _) = assembled(Carried::H264, &packet);
    assert_eq!(
        units[0].1[..],
        [0, 0, 0, 1, 0x67, 9, 0, 0, 0, 1, 0x65, 8, 7]
    );
    let cut = splitter.split(&payload[..7], MediaTime::default());
    let (_, assembler) = assembled(Carried::H264, &cut);
    assert_eq!(assembler.counts().unreadable, 1);
}

proptest! {
    #[test]
    fn any_packets_are_survived(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..30),
    ) {
        for carried in [Carried::H264, Carried::H265, Carried::Opus] {
            let mut splitter = Splitter::new(Carried::Opus, 7, 1);
            let packets: Vec<Vec<u8>> = payloads
                .iter()
                .flat_map(|payload| splitter.split(payload, MediaTime::default()))
                .collect();
            let (units, _) = assembled(carried, &packets);
            prop_assert!(units.iter().all(|(_, unit)| !unit.is_empty()));
            assembled(carried, &payloads);
        }
    }
}
