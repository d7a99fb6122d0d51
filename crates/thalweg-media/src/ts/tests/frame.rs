//! Proves that packets are found in every frame format, and that missing tables are reported.

use super::read::HELD_PACKETS_MAX;
use super::*;

/// The same packets with an arrival time of four bytes before each.
fn with_stamps(bytes: &[u8]) -> Vec<u8> {
    let packets = bytes.chunks(PACKET_BYTES).enumerate();
    packets
        .flat_map(|(n, packet)| [&(n as u32 * 3000).to_be_bytes(), packet].concat())
        .collect()
}

/// The same packets with sixteen bytes of code after each.
fn with_code(bytes: &[u8]) -> Vec<u8> {
    let packets = bytes.chunks(PACKET_BYTES);
    packets
        .flat_map(|packet| [packet, &[0x11; 16]].concat())
        .collect()
}

#[test]
fn packets_of_192_and_204_are_read() {
    let sent = units(40);
    let plain = write(&sent);
    let packets = (plain.len() / PACKET_BYTES) as u64;
    for (bytes, gap) in [(with_stamps(&plain), 4), (with_code(&plain), 16)] {
        for slice in [1, 188, 1000, bytes.len()] {
            let (got, counts) = read(&bytes, slice);
            assert!(of_pid(&got, VIDEO) == of_pid(&sent, VIDEO), "{slice}");
            assert!(of_pid(&got, AUDIO) == of_pid(&sent, AUDIO), "{slice}");
            let expected = Counts {
                packets,
                framing_bytes: packets * gap,
                ..Counts::default()
            };
            assert_eq!(counts, expected, "slices of {slice}");
        }
    }
}

#[test]
fn mid_packet_start_is_read() {
    let sent = units(60);
    for bytes in [
        write(&sent),
        with_stamps(&write(&sent)),
        with_code(&write(&sent)),
    ] {
        for from in [1, 3, 100, 187] {
            let (got, counts) = read(&bytes[from..], 1472);
            let pictures = of_pid(&got, VIDEO).len();
            assert!(pictures > 40, "from {from}: {pictures}, {counts:?}");
            assert!(counts.skipped_bytes < 204, "{counts:?}");
        }
    }
}

#[test]
fn lost_bytes_mark_damage() {
    let bytes = write(&units(60));
    let pieces: Vec<&[u8]> = bytes.chunks(1472).collect();
    let mut lossy = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        if at != 9 {
            lossy.extend_from_slice(piece);
        }
    }
    let (got, counts) = read(&lossy, 1472);
    assert_eq!(counts.sync_losses, 1);
    assert!(counts.skipped_bytes > 0 && counts.continuity_errors > 0);
    let all: Vec<_> = [VIDEO, AUDIO].map(|pid| of_pid(&got, pid)).concat();
    let damaged = all.iter().filter(|unit| unit.damaged).count() as u64;
    assert!(damaged > 0);
    assert_eq!(counts.damaged_units, damaged);
}

#[test]
fn counts_are_all_named_and_added() {
    let one = read(&write(&units(3))[50..], 188).1;
    let names: std::collections::BTreeSet<_> = one.each().map(|(name, _)| name).into();
    assert_eq!(names.len(), one.each().len());
    let two = one.plus(one);
    assert!(
        one.each()
            .iter()
            .zip(two.each())
            .all(|(a, b)| 2 * a.1 == b.1)
    );
}

#[test]
fn missing_tables_are_named() {
    let all = write(&units(3));
    let without = |pids: &[u16]| -> Vec<u8> {
        let packets = all.chunks(PACKET_BYTES);
        let pid = |raw: &[u8]| u16::from_be_bytes([raw[1] & 0x1f, raw[2]]);
        packets
            .filter(|raw| !pids.contains(&pid(raw)))
            .flatten()
            .copied()
            .collect()
    };
    let lack = |bytes: &[u8]| {
        let mut publisher = Publisher::new();
        publisher.push(bytes);
        publisher.finish();
        while publisher.poll_adu().is_some() {}
        publisher.lack()
    };
    let mut broken = all.clone();
    for raw in broken.chunks_mut(PACKET_BYTES) {
        raw[20] ^= u8::from(raw[1].trailing_zeros() >= 5 && raw[2] == 0);
    }
    assert_eq!(lack(b"no transport stream"), Some(Lack::Packets));
    let null = foreign(NULL_PID, false, 0, &[0; 184]).repeat(5);
    assert_eq!(lack(&null), Some(Lack::Content));
    let missing = Lack::Association { broken: 0 };
    assert_eq!(lack(&without(&[0])), Some(missing));
    let found = lack(&broken).expect("no PAT is sound");
    assert!(
        matches!(found, Lack::Association { broken: 1.. }),
        "{found}"
    );
    assert!(found.to_string().contains("PAT") && found.to_string().contains("CRC"));
    let pids = vec![0x1000];
    assert_eq!(
        lack(&without(&[0x1000])),
        Some(Lack::Maps { pids, broken: 0 })
    );
    let pids = vec![VIDEO, AUDIO, 0x102];
    assert_eq!(lack(&without(&[VIDEO, AUDIO])), Some(Lack::Units { pids }));
    assert_eq!(lack(&all), None);
}

#[test]
fn table_not_yet_in_force_is_no_error() {
    let mut section = section::write_pat(core::iter::once(&programme()), 3);
    let body = section.len() - 4;
    section[5] &= 0xfe;
    let crc = crate::crc::extend(crate::crc::START, &section[..body]);
    section[body..].copy_from_slice(&crc.to_be_bytes());
    let mut payload = [&[0], &section[..]].concat();
    payload.resize(184, 0xff);
    let (_, counts) = read(&foreign(0, true, 0, &payload).repeat(1), 188);
    assert_eq!((counts.packets, counts.bad_pats), (1, 0));
}

#[test]
fn early_packets_are_held() {
    let sent = units(30);
    let bytes = write(&sent);
    let is_table = |raw: &&[u8]| matches!((raw[1] & 0x1f, raw[2]), (0 | 0x10, 0));
    let tables: Vec<&[u8]> = bytes.chunks(PACKET_BYTES).filter(is_table).collect();
    let content = bytes.chunks(PACKET_BYTES).filter(|raw| !is_table(raw));
    let content: Vec<&[u8]> = content.collect();
    // Tables in the middle, in either order.
    for (first, second) in [(0, 1), (1, 0)] {
        let (before, after) = content.split_at(content.len() / 2);
        let two = [tables[first], tables[second]];
        let late = [before, &two, after].concat().concat();
        let (got, counts) = read(&late, 1000);
        assert!(of_pid(&got, VIDEO) == of_pid(&sent, VIDEO), "{counts:?}");
        assert!(of_pid(&got, AUDIO) == of_pid(&sent, AUDIO), "{counts:?}");
        assert_eq!((counts.early_packets, counts.continuity_errors), (0, 0));
    }
    let long = content.concat().repeat(50);
    let mut reader = Reader::new();
    reader.push(&long);
    let packets = long.len() / PACKET_BYTES;
    assert!(packets > HELD_PACKETS_MAX);
    assert_eq!(
        reader.counts().early_packets,
        (packets - HELD_PACKETS_MAX) as u64
    );
    reader.finish();
    assert_eq!(reader.counts().early_packets, packets as u64);
}
