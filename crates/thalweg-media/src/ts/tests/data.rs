//! Proves that messages of data PIDs leave apart, and come back into the stream with their times.

use super::*;

const KLV: u16 = 0x120;
const NOTES: u16 = 0x121;

/// A programme with asynchronous KLV, other private data, and subtitles, which stay with the picture.
fn drone() -> Programme {
    let stream = |pid, stream_type, descriptors| Elementary {
        pid,
        stream_type,
        descriptors: Bytes::from_static(descriptors),
    };
    let mut programme = programme();
    programme.streams.extend([
        stream(KLV, 0x06, &[0x05, 4, b'K', b'L', b'V', b'A']),
        stream(NOTES, 0x06, &[]),
        stream(0x122, 0x06, &[0x59, 0]),
        stream(0x123, 0x15, &[]),
    ]);
    programme
}

fn message(pid: u16, number: u64) -> AccessUnit {
    AccessUnit {
        pid,
        stream_type: 0x06,
        stream_id: 0xbd,
        pts_90khz: Some(90_000 + number * FRAME_90KHZ),
        dts_90khz: None,
        random_access: false,
        aligned: true,
        damaged: false,
        options: Bytes::new(),
        data: Bytes::from(format!("\x06\x0e\x2b\x34 {pid:#x} {number}")),
    }
}

fn units() -> Vec<Unit> {
    let mut units = vec![Unit::Programme(drone())];
    for number in 0..13 {
        units.push(Unit::Access(picture(number)));
        units.push(Unit::Access(message(KLV, number)));
        if number % 3 == 0 {
            units.push(Unit::Access(message(NOTES, number)));
        }
    }
    units
}

fn marked(bytes: &[u8]) -> Vec<Marked> {
    let mut publisher = Publisher::splitting();
    publisher.push(bytes);
    publisher.finish();
    core::iter::from_fn(|| publisher.poll_marked()).collect()
}

#[test]
fn only_messages_leave() {
    let of = |pid: u16| {
        let programme = drone();
        DataPid::of(programme.stream(pid).expect("listed"))
    };
    let is_klv = |pid| of(pid).map(|data| data.is_klv);
    assert_eq!(is_klv(KLV), Some(true));
    assert_eq!(is_klv(NOTES), Some(false));
    assert_eq!(is_klv(0x123), Some(true));
    assert_eq!(is_klv(0x122), None);
    assert_eq!(is_klv(VIDEO), None);
    assert_eq!(is_klv(AUDIO), None);
}

#[test]
fn messages_return_with_their_times() {
    let marked = marked(&write(&units()));
    let mut subscriber = Subscriber::new();
    let mut out = Vec::new();
    for marked in &marked {
        let packets = match marked.data {
            None => subscriber.handle_payload(&marked.payload).expect("our own"),
            Some(data) => {
                let described = DataPid::described(&data.description()).expect("it says so");
                assert_eq!(described, data);
                let time = marked.marks.media_time;
                subscriber.handle_message(described, time, &marked.payload)
            }
        };
        out.extend_from_slice(&packets);
    }
    check_stream(&out);
    let messages = |bytes: &[u8]| -> Vec<AccessUnit> {
        let mut reader = Reader::new();
        reader.push(bytes);
        reader.finish();
        let units = core::iter::from_fn(|| reader.poll_unit());
        let access = units.filter_map(|unit| match unit {
            Unit::Access(unit) if [KLV, NOTES].contains(&unit.pid) => Some(unit),
            _ => None,
        });
        access.collect()
    };
    let expected: Vec<_> = units()
        .into_iter()
        .filter_map(|unit| match unit {
            Unit::Access(unit) if [KLV, NOTES].contains(&unit.pid) => Some(unit),
            _ => None,
        })
        .collect();
    assert_eq!(messages(&out), expected);
    let klv = marked
        .iter()
        .filter(|marked| marked.data.is_some_and(|data| data.pid == KLV));
    let times: Vec<u64> = klv
        .map(|marked| marked.marks.media_time.as_90khz())
        .collect();
    let due: Vec<u64> = (0..13)
        .map(|number| 90_000 + number * FRAME_90KHZ)
        .collect();
    assert_eq!(times, due);
}

#[test]
fn pictures_depend_on_pictures_alone() {
    let main: Vec<_> = marked(&write(&units()))
        .into_iter()
        .filter(|marked| marked.data.is_none())
        .collect();
    for (at, marked) in main.iter().enumerate() {
        let back = marked.marks.depends_on as usize;
        if back > 0 {
            let base = unit::decode(&main[at - back].payload).expect("our own");
            assert!(matches!(base, Unit::Access(unit) if unit.pid == VIDEO));
        }
    }
    assert!(main.iter().any(|marked| marked.marks.depends_on > 0));
}

#[test]
fn a_foreign_description_is_no_pid() {
    let with = |pid: &str, kind: &str| {
        let data = DataPid {
            pid: KLV,
            stream_type: 0x06,
            is_klv: true,
        };
        let mut description = data.description();
        description.labels.insert("ts.pid".into(), pid.into());
        description.labels.insert("ts.type".into(), kind.into());
        DataPid::described(&description)
    };
    assert!(with("288", "6").is_some());
    for (pid, kind) in [
        ("0", "6"),
        ("8191", "6"),
        ("x", "6"),
        ("288", "27"),
        ("288", "262"),
    ] {
        assert_eq!(with(pid, kind), None, "{pid} {kind}");
    }
}
