//! Proves that the newest record wins, that a link needs both ends, and that who has no way leaves the map and comes back.

use alloc::vec::Vec;

use super::{AGED, Directory, LOOK_AFTER, News, Signed, UNREACHED_MAX};
use crate::id::NodeId;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};
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
fn only_newer_records_are_news_and_a_repetition_is_no_change() {
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
    assert_eq!(
        learn(&mut directory, record(1, 6, &[2]), Instant::ZERO),
        News::Refreshed
    );
    let mut slower = record(1, 7, &[2]);
    slower.neighbours[0].rtt = Duration::from_millis(99);
    assert_eq!(learn(&mut directory, slower, Instant::ZERO), News::Changed);
    assert_eq!(
        learn(&mut directory, record(1, 8, &[]), Instant::ZERO),
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

/// Three in a row, seen from the first, whose map was looked at once.
fn row() -> Directory {
    let mut directory = Directory::default();
    learn(&mut directory, record(1, 1, &[2]), Instant::ZERO);
    learn(&mut directory, record(2, 1, &[1, 3]), Instant::ZERO);
    learn(&mut directory, record(3, 1, &[2]), Instant::ZERO);
    let now = directory.poll_timeout();
    assert!(!directory.handle_timeout(node(1), now));
    directory
}

#[test]
fn who_is_reached_need_not_repeat_himself_until_his_record_is_old() {
    let mut directory = row();
    assert_eq!(directory.poll_timeout(), Instant::ZERO + AGED);
    assert!(directory.handle_timeout(node(1), Instant::ZERO + AGED));
    assert!(directory.record(node(1)).is_some(), "oneself stays");
    assert!(directory.record(node(2)).is_none());
}

#[test]
fn a_node_without_a_way_leaves_the_map_at_its_time_and_comes_back_with_the_way() {
    let mut directory = row();
    let cut = Instant::ZERO + Duration::from_secs(100);
    assert_eq!(
        learn(&mut directory, record(2, 2, &[1]), cut),
        News::Changed
    );
    assert!(!directory.handle_timeout(node(1), cut + LOOK_AFTER));
    let edge = cut + UNREACHED_MAX;
    assert!(!directory.handle_timeout(node(1), edge) && directory.record(node(3)).is_some());
    assert!(directory.handle_timeout(node(1), edge + Duration::from_nanos(1)));
    assert!(directory.record(node(3)).is_none() && directory.record(node(2)).is_some());
    assert_eq!(directory.signed().count(), 3, "its record is kept");
    assert_eq!(
        learn(&mut directory, record(3, 1, &[2]), edge),
        News::Old,
        "and refuses what is older"
    );
    let heal = edge + Duration::from_secs(50);
    learn(&mut directory, record(2, 3, &[1, 3]), heal);
    assert_eq!(directory.poll_timeout(), heal, "who comes back is wanted");
    assert!(directory.handle_timeout(node(1), heal));
    assert_eq!(
        directory.path(node(1), node(3)).map(|way| way.len()),
        Some(3)
    );
}

#[test]
fn its_size_is_that_of_its_records() {
    let mut directory = row();
    let sum = |directory: &Directory| {
        let sizes = directory.signed();
        let sizes = sizes.map(|signed| signed.record.len() as u64 + super::FRAME_BYTES);
        DataSize::from_bytes(sizes.sum())
    };
    assert_eq!(directory.size(), sum(&directory));
    learn(&mut directory, record(2, 9, &[]), Instant::ZERO);
    directory.remove(node(3));
    assert_eq!(directory.size(), sum(&directory));
}
