//! Proves that silence and foreign input are each reported once, and that their end is reported.

use std::time::Duration as StdDuration;

use thalweg_media::rtp::PortCounts;

use super::*;
use crate::feed::watch::Watch;

fn at(millis: u64) -> StdDuration {
    StdDuration::from_millis(millis)
}

/// A snapshot of a port that received `bytes` bytes, `foreign` of the RTP packets being foreign.
fn port(bytes: u64, foreign: u64, lack: Option<Lack>, units: u64) -> Snapshot {
    let port = PortCounts {
        bytes,
        foreign,
        foreign_type: (foreign > 0).then_some(96),
        ..PortCounts::default()
    };
    let seen = ReceivedInput {
        bytes,
        head: vec![0, 0, 0, 0x18, b'f', b't', b'y', b'p'],
        port: Some(port),
    };
    let trouble = Trouble {
        port,
        ..Trouble::default()
    };
    Snapshot {
        seen,
        trouble,
        lack,
        units,
    }
}

#[test]
fn silence_and_its_end_are_reported() {
    let mut watch = Watch::new("udp://:5004".into(), at(0));
    assert!(watch.patience(at(0)) < at(3_000));
    let lacks = Some(Lack::Packets);
    let said = watch.check(at(2_500), port(0, 0, lacks.clone(), 0), false);
    let said = said.expect("nothing came");
    assert!(said.contains("no data received from udp://:5004"), "{said}");
    assert_eq!(watch.check(at(5_000), port(0, 0, lacks, 0), false), None);
    let works = watch.check(at(6_000), port(9_000, 0, None, 3), true);
    assert_eq!(works.as_deref(), Some("receiving MPEG-TS from udp://:5004"));
    assert_eq!(watch.check(at(6_040), port(9_900, 0, None, 4), true), None);
    let second = watch.check(at(8_540), port(9_900, 0, None, 4), false);
    assert!(second.expect("it stopped").contains("no data received"));
}

#[test]
fn sparse_source_is_reported_less() {
    let mut watch = Watch::new("-".into(), at(0));
    let (mut now, mut said) = (at(0), 0);
    // A unit every ten seconds, for an hour.
    for unit in 1..360 {
        let next = at(unit * 10_000);
        watch.begin(now);
        while now + watch.patience(now) < next {
            now += watch.patience(now);
            let silence = watch.check(now, port(unit, 0, None, unit - 1), false);
            said += u32::from(silence.is_some());
        }
        now = next;
        watch.check(now, port(unit, 0, None, unit), true);
    }
    assert!((1..=3).contains(&said), "{said}");
}

#[test]
fn foreign_input_is_named() {
    let mut watch = Watch::new("udp://:5004".into(), at(0));
    let mut look = |snapshot| watch.check(at(0), snapshot, false).expect("another kind");
    let other = look(port(9_000, 0, Some(Lack::Packets), 0));
    assert!(
        other.contains("9000 bytes") && other.contains("an MP4 or MOV file"),
        "{other}"
    );
    let rtp = look(port(99_000, 70, Some(Lack::Packets), 0));
    assert!(rtp.contains("70 RTP packets of payload type 96"), "{rtp}");
    let mut tables = port(99_000, 0, Some(Lack::Association { broken: 2 }), 0);
    tables.trouble.counts.packets = 500;
    let tables = look(tables);
    assert!(
        tables.contains("500 MPEG-TS packets") && tables.contains("2 PATs"),
        "{tables}"
    );
}

#[test]
fn each_count_has_its_phrase() {
    let mut trouble = Trouble::default();
    assert_eq!(trouble.sentence(), None);
    let counts = &mut trouble.counts;
    (
        counts.skipped_bytes,
        counts.truncated_bytes,
        counts.sync_losses,
    ) = (101, 102, 103);
    (
        counts.continuity_errors,
        counts.duplicates,
        counts.damaged_packets,
    ) = (54, 105, 50);
    (counts.early_packets, counts.bad_pats, counts.bad_pmts) = (106, 107, 108);
    (counts.unlisted_pmts, counts.bad_units, counts.damaged_units) = (109, 110, 111);
    (counts.discarded_units, counts.stray_times) = (112, 113);
    let port = &mut trouble.port;
    (port.foreign, port.foreign_type, port.unknown) = (114, Some(97), 115);
    (
        port.rtp.lost,
        port.rtp.late,
        port.rtp.stray,
        port.rtp.restarts,
    ) = (116, 117, 118, 119);
    (trouble.early_units, trouble.unwanted_units) = (120, 121);
    trouble.missing_pmts = vec![(122, 0x123)];
    let sentence = trouble.sentence().expect("there is trouble");
    for count in 101..=122 {
        assert!(sentence.contains(&count.to_string()), "{count}: {sentence}");
    }
    let json = trouble.json();
    assert_eq!(json["stray_times"], 113);
    assert_eq!(json["programmes_without_pmt"], serde_json::json!([122]));
    trouble.port.datagrams = 1;
    assert_eq!(trouble.json()["port"]["rtp"]["stray"], 118);
}
