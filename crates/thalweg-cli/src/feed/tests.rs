//! Proves the feed on a clip made here: units come in order, a repeated file goes on in time, trouble is told.

use bytes::BytesMut;
use thalweg_media::ts::{AccessUnit, Elementary, Programme, Unit, Writer};

use super::*;
use crate::ends::End;

const FRAME_90KHZ: u64 = 3600;

/// A clip of so many one-slice pictures, every tenth of them a key picture, at 25 a second.
fn clip(pictures: u64) -> BytesMut {
    clip_of((0..pictures).map(|picture| (picture, 400)))
}

/// A clip of these pictures, of so many bytes.
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
        let kind = if picture % 10 == 0 { 0x65 } else { 0x41 };
        let mut data = vec![0, 0, 0, 1, kind];
        data.resize(bytes, picture as u8 | 1);
        clip.extend_from_slice(&writer.write(&Unit::Access(AccessUnit {
            pid: 0x100,
            stream_type: 0x1b,
            stream_id: 0xe0,
            pts_90khz: Some(90_000 + picture * FRAME_90KHZ),
            dts_90khz: None,
            random_access: picture % 10 == 0,
            aligned: true,
            damaged: false,
            options: Bytes::new(),
            data: data.into(),
        })));
    }
    clip
}

async fn feed(bytes: &[u8], repeat: bool) -> (Feed, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("clip.ts");
    std::fs::write(&file, bytes).expect("room");
    let source = Source::open(&End::File(file)).await.expect("the file");
    (Feed::new(source, repeat), folder)
}

#[tokio::test]
async fn a_repeated_file_goes_on_in_time() {
    let (mut feed, _folder) = feed(&clip(25), true).await;
    let mut times = Vec::new();
    while times.len() < 60 {
        let (marks, payload) = feed.next().await.expect("readable").expect("without end");
        if payload.len() > 300 {
            times.push(marks.decode_time.as_micros());
        }
    }
    let steps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.iter().all(|step| *step == 40_000), "{steps:?}");
}

#[tokio::test]
async fn the_rate_is_measured_and_no_unit_is_lost_by_it() {
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
async fn what_can_be_used_of_a_broken_file_is_given_and_the_rest_is_told() {
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
async fn garbage_gives_nothing_and_says_so() {
    let garbage: Vec<u8> = (0..50_000_u32)
        .map(|n| ((n * n) >> 7) as u8 & 0x3f)
        .collect();
    let (mut feed, _folder) = feed(&garbage, true).await;
    assert_eq!(feed.measure().await.expect("readable"), None);
    assert!(feed.trouble().skipped_bytes > 0);
}

#[tokio::test]
async fn a_picture_larger_than_an_adu_is_told() {
    let at_most = thalweg_core::limits::ADU_PAYLOAD_BYTES_MAX - 128;
    for (bytes, is_told) in [(at_most, false), (at_most + 256, true)] {
        let (mut feed, _folder) = feed(
            &clip_of([(0, 400), (1, bytes), (2, 400)].into_iter()),
            false,
        )
        .await;
        while feed.next().await.expect("readable").is_some() {}
        let sentence = feed.trouble().sentence();
        let told = "1 units are left out, for an ADU has 8 MiB at most";
        assert_eq!(
            sentence.as_deref(),
            is_told.then_some(told),
            "{bytes} bytes"
        );
    }
}
