//! Proves where a receiver can begin: at each kind of key picture, and after a wait where there is
//! none.

use super::*;

/// A programme of one picture stream of a type.
fn video_of(stream_type: u8) -> Programme {
    Programme {
        streams: vec![Elementary {
            pid: VIDEO,
            stream_type,
            descriptors: Bytes::new(),
        }],
        ..programme()
    }
}

fn unmarked(stream_type: u8, index: u64, data: &[u8]) -> AccessUnit {
    AccessUnit {
        stream_type,
        random_access: false,
        data: Bytes::copy_from_slice(data),
        ..picture(index)
    }
}

/// What a subscriber receives if every tenth picture is `key` and none is marked.
fn received(stream_type: u8, key: &[u8], other: &[u8]) -> Vec<AccessUnit> {
    let mut sent = vec![Unit::Programme(video_of(stream_type))];
    sent.extend((5..45).map(|n| {
        let data = if n % 10 == 0 { key } else { other };
        Unit::Access(unmarked(stream_type, n, data))
    }));
    // The input's own packets, written without regard to key pictures.
    let mut bytes = write(&sent[..1]);
    let mut counter = 0;
    for unit in &sent[1..] {
        let Unit::Access(unit) = unit else { continue };
        let header = pes::Header {
            stream_id: 0xe0,
            aligned: true,
            pts: unit.pts_90khz,
            dts: unit.dts_90khz,
            options: Bytes::new(),
            bytes: 0,
        };
        let packet = [pes::write(&header, unit.data.len()), unit.data.to_vec()].concat();
        bytes.extend(foreign(VIDEO, true, counter, &packet));
        counter = (counter + 1) & 0x0f;
    }
    let mut publisher = Publisher::new();
    let mut subscriber = Subscriber::new();
    publisher.push(&bytes);
    publisher.finish();
    let mut out = Vec::new();
    while let Some((_, payload)) = publisher.poll_adu() {
        out.extend_from_slice(&subscriber.handle_payload(&payload).expect("our own"));
    }
    of_pid(&read(&out, 1000).0, VIDEO)
}

#[test]
fn unmarked_key_pictures_are_found() {
    let (recovery, plain) = (
        [0, 0, 1, 6, 5, 2, 8, 8, 6, 1, 0x84, 0x80],
        [0, 0, 1, 6, 5, 1, 6, 0x80],
    );
    let h264 = |sei: &[u8]| [sei, &[0, 0, 1, 0x41, 9, 9]].concat();
    let sei265 = [0, 0, 1, 39 << 1, 1, 6, 1, 0x84, 0x80, 0, 0, 1, 1 << 1, 1, 7];
    for (name, stream_type, key, other) in [
        ("H.264 IDR", 0x1b, vec![0, 0, 1, 0x65, 9], h264(&plain)),
        ("H.264 recovery point", 0x1b, h264(&recovery), h264(&plain)),
        (
            "H.265 CRA",
            0x24,
            vec![0, 0, 1, 21 << 1, 1, 7],
            vec![0, 0, 1, 2, 1, 7],
        ),
        (
            "H.265 BLA",
            0x24,
            vec![0, 0, 1, 16 << 1, 1, 7],
            vec![0, 0, 1, 2, 1, 7],
        ),
        (
            "H.265 recovery point",
            0x24,
            sei265.to_vec(),
            vec![0, 0, 1, 2, 1, 7],
        ),
        (
            "H.266 GDR",
            0x33,
            vec![0, 0, 1, 0, 10 << 3 | 1, 7],
            vec![0, 0, 1, 0, 1, 7],
        ),
        (
            "MPEG-2 sequence",
            0x02,
            vec![0, 0, 1, 0xb3, 9, 0, 0, 1, 0, 0, 2 << 3, 7],
            vec![0, 0, 1, 0, 0, 2 << 3, 7],
        ),
        (
            "MPEG-1 I picture",
            0x01,
            vec![0, 0, 1, 0, 0, 1 << 3, 7],
            vec![0, 0, 1, 0, 0, 3 << 3, 7],
        ),
        (
            "MPEG-4 I picture",
            0x10,
            vec![0, 0, 1, 0xb6, 0x11],
            vec![0, 0, 1, 0xb6, 0x51],
        ),
        (
            "VC-1 entry point",
            0xea,
            vec![0, 0, 1, 0x0e, 7],
            vec![0, 0, 1, 0x0d, 7],
        ),
        (
            "AVS I picture",
            0x42,
            vec![0, 0, 1, 0xb3, 7],
            vec![0, 0, 1, 0xb6, 7],
        ),
    ] {
        let got = received(stream_type, &key, &other);
        assert_eq!(got.len(), 35, "{name}");
        assert!(got[0].random_access && got[10].random_access, "{name}");
        assert!(!got[1].random_access, "{name}");
    }
}

#[test]
fn video_without_keys_begins_late() {
    let data = [0, 0, 1, 0x41, 9, 9];
    for timed in [true, false] {
        let mut writer = Writer::new();
        writer.write(&Unit::Programme(video_of(0x1b)));
        let mut withheld = 0;
        for n in 0.. {
            let mut unit = unmarked(0x1b, n, &data);
            if !timed {
                (unit.pts_90khz, unit.dts_90khz) = (None, None);
            }
            if !writer.write(&Unit::Access(unit)).is_empty() {
                break;
            }
            withheld = n + 1;
            assert!(withheld < 1000, "it never begins");
        }
        // Five seconds, of 25 pictures each, or of 50 where that is not known.
        assert_eq!(withheld, if timed { 125 } else { 249 });
        assert_eq!(writer.withheld().before_key, withheld);
    }
}

#[test]
fn facts_without_key_are_no_start() {
    let mut publisher = Publisher::new();
    // A key picture every 12, at 25 a second, and facts every second besides.
    let sent: Vec<_> = (0..60_u64)
        .map(|n| {
            let index = u64::from(n != 0 && n != 40);
            let mut unit = picture(index);
            let shift = n.cast_signed() - index.cast_signed();
            unit.shift_90khz(shift * FRAME_90KHZ.cast_signed());
            Unit::Access(unit)
        })
        .collect();
    publisher.push(&write(&[vec![Unit::Programme(programme())], sent].concat()));
    publisher.finish();
    let mut starts = 0;
    let mut facts = 0;
    let mut follows = false;
    while let Some((marks, payload)) = publisher.poll_adu() {
        let is_start = marks.flags.contains(Flags::KEY);
        match unit::decode(&payload).expect("our own") {
            Unit::Programme(_) => facts += 1,
            Unit::Access(unit) => assert_eq!(follows, unit.random_access),
            Unit::Packets(_) => {}
        }
        starts += u32::from(is_start);
        follows = is_start;
    }
    assert_eq!(starts, 2);
    assert_eq!(facts, 4);
}
