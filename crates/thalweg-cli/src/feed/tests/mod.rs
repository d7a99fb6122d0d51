//! Proves the feed on a generated clip: units come in order, a looped file continues in time,
//! trouble is reported.

mod silence;

use bytes::Bytes;
use bytes::BytesMut;
use thalweg_media::ts::{AccessUnit, Elementary, Marked, Programme, Unit, Writer};

use super::*;
use thalweg_io::url::End;

const FRAME_90KHZ: u64 = 3600;

/// A clip of this many one-slice pictures at 25 per second; every tenth is a key picture.
fn clip(pictures: u64) -> BytesMut {
    clip_of((0..pictures).map(|picture| (picture, 400)))
}

/// A clip of these pictures: number and size in bytes.
fn clip_of(pictures: impl Iterator<Item = (u64, usize)>) -> BytesMut {
    let mut writer = Writer::new();
    let mut clip = BytesMut::new();
    let programme = Programme {
        transport_stream_id: 1,
        network_pid: None,
        number: 1,
        table_pid: 0x1000,
        clock_pid: 0x100,
        descriptors: Bytes::new(),
        streams: vec![Elementary {
            pid: 0x100,
            stream_type: 0x1b,
            descriptors: Bytes::new(),
        }],
    };
    clip.extend_from_slice(&writer.write(&Unit::Programme(programme)));
    for (picture, bytes) in pictures {
        clip.extend_from_slice(&writer.write(&picture_of(0x100, picture, bytes, 90_000)));
    }
    clip
}

/// A picture of a PID, on a clock that begins at `origin`.
fn picture_of(pid: u16, picture: u64, bytes: usize, origin: u64) -> Unit {
    let kind = if picture.is_multiple_of(10) {
        0x65
    } else {
        0x41
    };
    let mut data = vec![0, 0, 0, 1, kind];
    data.resize(bytes, picture as u8 | 1);
    Unit::Access(AccessUnit {
        pid,
        stream_type: 0x1b,
        stream_id: 0xe0,
        pts_90khz: Some(origin + picture * FRAME_90KHZ),
        dts_90khz: None,
        random_access: picture.is_multiple_of(10),
        aligned: true,
        damaged: false,
        options: Bytes::new(),
        data: data.into(),
    })
}

async fn feed(bytes: &[u8], repeat: bool) -> (Feed, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("clip.ts");
    std::fs::write(&file, bytes).expect("room");
    let source = Source::open(&End::File(file)).await.expect("the file");
    (Feed::new(source, repeat), folder)
}

#[tokio::test]
async fn looped_file_continues_in_time() {
    let (mut feed, _folder) = feed(&clip(25), true).await;
    let mut times = Vec::new();
    while times.len() < 60 {
        let unit = feed.next().await.expect("readable").expect("without end");
        let Marked { marks, payload, .. } = unit;
        if payload.len() > 300 {
            times.push(marks.decode_time.as_micros());
        }
    }
    let steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step == 40_000), "{steps:?}");
}

#[tokio::test]
async fn measuring_loses_no_unit() {
    let (mut measured, _a) = feed(&clip(100), false).await;
    let rate = measured.measure().await.expect("readable").expect("units");
    // 25 pictures of 400 bytes a second, and their framing.
    assert!((80_000..110_000).contains(&rate.as_bps()), "{rate}");
    let (mut plain, _b) = feed(&clip(100), false).await;
    loop {
        let unit = plain.next().await.expect("readable");
        assert_eq!(measured.next().await.expect("readable"), unit);
        if unit.is_none() {
            break;
        }
    }
}

#[tokio::test]
async fn broken_file_gives_its_usable_units() {
    let mut bytes = clip(20);
    let whole = bytes.len();
    bytes.truncate(whole - 100);
    let (mut feed, _folder) = feed(&bytes, false).await;
    let mut units = 0;
    while feed.next().await.expect("readable").is_some() {
        units += 1;
    }
    assert!(units > 19, "{units}");
    let sentence = feed.trouble().sentence().expect("it is cut");
    assert!(
        sentence.contains("88 bytes after the last whole packet"),
        "{sentence}"
    );
}

#[tokio::test]
async fn garbage_gives_nothing() {
    let garbage: Vec<u8> = (0..50_000_u32)
        .map(|n| ((n * n) >> 7) as u8 & 0x3f)
        .collect();
    let (mut feed, _folder) = feed(&garbage, true).await;
    assert_eq!(feed.measure().await.expect("readable"), None);
    assert!(feed.trouble().counts.skipped_bytes > 0);
}

#[tokio::test]
async fn oversized_picture_is_reported() {
    let at_most = thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX - 128;
    for (bytes, is_reported) in [(at_most, false), (at_most + 256, true)] {
        let (mut feed, _folder) = feed(
            &clip_of([(0, 400), (1, bytes), (2, 400)].into_iter()),
            false,
        )
        .await;
        while feed.next().await.expect("readable").is_some() {}
        let sentence = feed.trouble().sentence().unwrap_or_default();
        let told = "1 units were dropped: an ADU holds at most 8 MiB";
        assert_eq!(
            sentence.contains(told),
            is_reported,
            "{bytes} bytes: {sentence}"
        );
    }
}

#[tokio::test]
async fn two_clocks_are_measured_apart() {
    let (mut mixed, mut writer) = (BytesMut::new(), Writer::new());
    let programme = |number: u16| Programme {
        transport_stream_id: 1,
        network_pid: None,
        number,
        table_pid: number << 8,
        clock_pid: (number << 8) + 1,
        descriptors: Bytes::new(),
        streams: vec![Elementary {
            pid: (number << 8) + 1,
            stream_type: 0x1b,
            descriptors: Bytes::new(),
        }],
    };
    for number in [1, 2] {
        mixed.extend_from_slice(&writer.write(&Unit::Programme(programme(number))));
    }
    for picture in 0..100 {
        for number in [1, 2_u16] {
            let unit = picture_of((number << 8) + 1, picture, 400, u64::from(number) << 31);
            mixed.extend_from_slice(&writer.write(&unit));
        }
    }
    let (mut feed, _folder) = feed(&mixed, false).await;
    let rate = feed.measure().await.expect("readable").expect("units");
    assert!((160_000..220_000).contains(&rate.as_bps()), "{rate}");
}

#[tokio::test]
async fn file_without_tables_is_read_once() {
    let bytes = clip(20);
    let packets = bytes
        .chunks(188)
        .filter(|raw| raw[1] & 0x1f != 0 || raw[2] != 0);
    let bytes: Vec<u8> = packets.flatten().copied().collect();
    let (mut feed, _folder) = feed(&bytes, true).await;
    assert_eq!(feed.measure().await.expect("readable"), None);
    assert_eq!(feed.lack(), Some(Lack::Association { broken: 0 }));
}

#[tokio::test]
async fn gathered_units_keep_their_order() {
    let (mut gathered, _a) = feed(&clip(100), false).await;
    gathered.gather().await.expect("readable");
    let (mut plain, _b) = feed(&clip(100), false).await;
    loop {
        let unit = plain.next().await.expect("readable");
        assert_eq!(gathered.next().await.expect("readable"), unit);
        if unit.is_none() {
            break;
        }
    }
    assert_eq!(gathered.trouble().unwanted_units, 0);
}
