//! Proves that the newest record wins, that a link needs both ends, and that what is silent ages out.

use alloc::vec::Vec;

use super::{Directory, News, RECORD_AGE_MAX, Signed};
use crate::id::NodeId;
use crate::time::{Duration, Instant};
use crate::units::Bitrate;
use crate::wire::record::{Neighbour, Record};

fn node(number: u8) -> NodeId {
    NodeId([number; 32])
}

fn record(number: u8, sequence: u64, neighbours: &[u8]) -> Record {
    let link = |n: &u8| Neighbour {
        node: node(*n),
        rtt: Duration::from_millis(10),
        loss_ppm: 0,
        rate: Bitrate::from_kbps(150),
        secure: true,
    };
    Record {
        node: node(number),
        sequence,
        name: "n".into(),
        slots: 1,
        box_key: [0; 32],
        neighbours: neighbours.iter().map(link).collect(),
        streams: Vec::new(),
    }
}

fn learn(directory: &mut Directory, record: Record, now: Instant) -> News {
    directory.handle_record(
        record,
        Signed {
            record: Vec::new(),
            signature: [0; 64],
        },
        now,
    )
}

#[test]
fn only_newer_records_are_news_and_weather_is_no_change() {
    let mut directory = Directory::default();
    assert_eq!(
        learn(&mut directory, record(1, 5, &[2]), Instant::ZERO),
        News::Changed
    );
    assert_eq!(
        learn(&mut directory, record(1, 5, &[]), Instant::ZERO),
        News::Old
    );
    assert_eq!(
        learn(&mut directory, record(1, 4, &[]), Instant::ZERO),
        News::Old
    );
    let mut weather = record(1, 6, &[2]);
    weather.neighbours[0].rtt = Duration::from_millis(99);
    assert_eq!(
        learn(&mut directory, weather, Instant::ZERO),
        News::Refreshed
    );
    assert_eq!(
        learn(&mut directory, record(1, 7, &[]), Instant::ZERO),
        News::Changed
    );
}

#[test]
fn a_link_needs_both_ends() {
    let mut directory = Directory::default();
    learn(&mut directory, record(1, 1, &[2]), Instant::ZERO);
    learn(&mut directory, record(2, 1, &[3]), Instant::ZERO);
    learn(&mut directory, record(3, 1, &[2]), Instant::ZERO);
    assert_eq!(directory.path(node(1), node(3)), None);
    assert_eq!(directory.links().count(), 1);
    learn(&mut directory, record(2, 2, &[1, 3]), Instant::ZERO);
    assert_eq!(
        directory.path(node(1), node(3)),
        Some([1, 2, 3].map(node).to_vec())
    );
    assert_eq!(directory.path(node(1), node(1)), Some([node(1)].to_vec()));
    assert_eq!(directory.path(node(1), node(9)), None);
}

#[test]
fn a_silent_node_leaves_the_map_at_its_age_and_oneself_never() {
    let mut directory = Directory::default();
    learn(&mut directory, record(1, 1, &[2]), Instant::ZERO);
    learn(&mut directory, record(2, 1, &[1]), Instant::ZERO);
    let edge = Instant::ZERO + RECORD_AGE_MAX;
    assert!(!directory.handle_timeout(node(1), edge));
    assert!(directory.handle_timeout(node(1), edge + Duration::from_nanos(1)));
    assert!(directory.record(node(1)).is_some() && directory.record(node(2)).is_none());
}
