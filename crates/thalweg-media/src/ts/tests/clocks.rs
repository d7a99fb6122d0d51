//! Proves that each programme follows its own clock, and that streams of another clock do not move
//! it.

use super::*;

/// A programme of one picture stream, which has the clock, and one of metadata.
fn numbered(number: u16) -> Programme {
    let pid = number << 8;
    let stream = |pid, stream_type| Elementary {
        pid,
        stream_type,
        descriptors: Bytes::new(),
    };
    Programme {
        number,
        table_pid: pid,
        clock_pid: pid + 1,
        network_pid: None,
        streams: vec![stream(pid + 1, 0x1b), stream(pid + 2, 0x06)],
        ..programme()
    }
}

/// Picture `index` of a programme on a clock that begins at `origin`.
fn picture_of(number: u16, origin: u64, index: u64) -> Unit {
    Unit::Access(AccessUnit {
        pid: (number << 8) + 1,
        pts_90khz: Some(origin + index * FRAME_90KHZ),
        dts_90khz: None,
        ..picture(index)
    })
}

/// Metadata of another clock.
fn stray(number: u16, time: u64) -> Unit {
    Unit::Access(AccessUnit {
        pid: (number << 8) + 2,
        stream_type: 0x06,
        stream_id: 0xbd,
        pts_90khz: Some(time),
        random_access: false,
        ..sound(1)
    })
}

/// Returns the number of clock references of a PID in the output, and of the jumps among them.
fn jumps(bytes: &[u8], pid: u16) -> (usize, usize) {
    let references: Vec<u64> = bytes
        .chunks(PACKET_BYTES)
        .filter(|raw| u16::from_be_bytes([raw[1] & 0x1f, raw[2]]) == pid)
        .filter(|raw| raw[3] & 0x20 != 0 && raw[4] > 6 && raw[5] & 0x10 != 0)
        .map(|raw| u64::from_be_bytes([0, 0, 0, raw[6], raw[7], raw[8], raw[9], raw[10]]) >> 7)
        .collect();
    let far = references
        .windows(2)
        .filter(|pair| pair[0].abs_diff(pair[1]) > 90_000);
    (references.len(), far.count())
}

const A: u64 = 100 * 90_000;
const B: u64 = 40_000 * 90_000;

#[test]
fn programmes_keep_their_own_clocks() {
    let mut sent = vec![Unit::Programme(numbered(1)), Unit::Programme(numbered(2))];
    for n in 0..100 {
        sent.push(picture_of(1, A, n));
        sent.push(picture_of(2, B, n));
    }
    let bytes = write(&sent);
    for pid in [0x101, 0x201] {
        let (references, jumps) = jumps(&bytes, pid);
        assert!(references >= 90 && jumps == 0, "{references}, {jumps}");
    }
    let mut publisher = Publisher::new();
    publisher.push(&bytes);
    publisher.finish();
    let marks: Vec<_> = core::iter::from_fn(|| publisher.poll_adu())
        .map(|adu| adu.0)
        .collect();
    for (clock, origin) in [(1, A), (2, B)] {
        let of_clock = marks.iter().filter(|marks| marks.clock == clock);
        let times: Vec<_> = of_clock.map(|marks| marks.decode_time.as_90khz()).collect();
        let pictures = times.iter().filter(|&&time| time >= origin).count();
        assert!(pictures >= 100, "{clock}: {pictures}");
    }
    assert_eq!(publisher.counts().stray_times, 0);
}

#[test]
fn replayed_programmes_continue() {
    let mut sent = vec![Unit::Programme(numbered(1)), Unit::Programme(numbered(2))];
    for n in 0..50 {
        sent.push(picture_of(1, A, n));
        sent.push(picture_of(2, B, n));
    }
    let bytes = write(&sent);
    let mut publisher = Publisher::new();
    let mut times: std::collections::BTreeMap<u16, Vec<u64>> = std::collections::BTreeMap::new();
    for _ in 0..3 {
        publisher.push(&bytes);
        publisher.finish();
        while let Some((_, payload)) = publisher.poll_adu() {
            if let Ok(Unit::Access(unit)) = unit::decode(&payload) {
                times.entry(unit.pid).or_default().extend(unit.pts_90khz);
            }
        }
        publisher.restart_input();
    }
    for (pid, origin) in [(0x101, A), (0x201, B)] {
        let expected: Vec<u64> = (0..150).map(|n| origin + n * FRAME_90KHZ).collect();
        assert_eq!(times[&pid], expected, "{pid:#x}");
    }
}

#[test]
fn stray_times_move_no_clock() {
    // Before the first picture, between pictures, and at times that would be another round of the
    // clock.
    for far in [70_000 * 90_000, (1 << 33) - 1000, 0, A + 400_000] {
        let mut sent = vec![Unit::Programme(numbered(1)), stray(1, far)];
        for n in 0..100 {
            sent.push(picture_of(1, A, n));
            if n % 5 == 0 {
                sent.push(stray(1, far + n * FRAME_90KHZ));
            }
        }
        let bytes = write(&sent);
        let (references, jumps) = jumps(&bytes, 0x101);
        assert!(references >= 100 && jumps == 0, "{references}, {jumps}");
        let mut publisher = Publisher::new();
        let mut last = A;
        for _ in 0..2 {
            publisher.push(&bytes);
            publisher.finish();
            while let Some((marks, payload)) = publisher.poll_adu() {
                let time = marks.decode_time.as_90khz();
                let Ok(Unit::Access(_)) = unit::decode(&payload) else {
                    continue;
                };
                // A unit before the first picture has no time yet.
                assert!(
                    time == 0 || (last..=last + 3700).contains(&time),
                    "{far}: {time}"
                );
                last = last.max(time);
            }
            publisher.restart_input();
        }
        // A time that is near might be meant.
        let strays = if far == A + 400_000 { 0 } else { 40 };
        assert_eq!(publisher.counts().stray_times, strays, "{far}");
    }
}

#[test]
fn lone_data_moves_clock_later() {
    let mut facts = numbered(1);
    facts.streams.remove(0);
    facts.clock_pid = 0x102;
    let only = |facts: Programme, first: u64| {
        let data = (0..400).map(|n| stray(1, A + n * FRAME_90KHZ));
        let mut sent = vec![Unit::Programme(facts)];
        sent.extend((0..first).map(|n| picture_of(1, B, n)));
        sent.extend(data);
        write(&sent)
    };
    // An only stream leads, even if it is data.
    assert_eq!(jumps(&only(facts, 0), 0x102).1, 0);
    // If pictures have led and then stop, one jump follows, ten seconds later.
    let (references, jumps) = jumps(&only(numbered(1), 25), 0x101);
    assert!((70..150).contains(&references), "{references}");
    assert_eq!(jumps, 1);
}

#[test]
fn audio_moves_clock_without_video() {
    let mut writer = Writer::new();
    writer.write(&Unit::Programme(programme()));
    let mut bytes = writer.write(&Unit::Access(picture(0))).to_vec();
    for n in 0..100 {
        bytes.extend_from_slice(&writer.write(&Unit::Access(sound(n))));
    }
    let (references, jumps) = jumps(&bytes, VIDEO);
    assert!(references >= 45 && jumps == 0, "{references}, {jumps}");
}
