//! Proves that the newest record wins, that a link needs both ends, and that an unreached node
//! leaves the map and returns.

use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::limits::NEIGHBOURS_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_base::wire::record::{Neighbour, Record};

use super::{Directory, EXPIRY, News, SEARCH_DELAY, Signed, UNREACHED_MAX};

fn node(number: u8) -> NodeId {
    NodeId([number; 32])
}

fn record(number: u8, sequence: u64, neighbours: &[u8]) -> Record {
    let link = |n: &u8| Neighbour {
        node: node(*n),
        rtt: Duration::from_millis(10),
        loss_ppm: 0,
        rate: Bitrate::from_kbps(150),
        is_measured: false,
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
fn only_newer_record_is_news() {
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
fn link_needs_both_ends() {
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

const HUB: u8 = 250;

/// Returns the record of a hub that lists `named` and `others` neighbours without a record.
fn hub(number: u8, named: &[u8], others: usize) -> Record {
    let mut hub = record(number, 1, named);
    let pattern = record(number, 1, &[0]).neighbours[0];
    let other = |at: usize| Neighbour {
        node: NodeId(
            [[number, at as u8, 1, 1]; 8]
                .as_flattened()
                .try_into()
                .expect("32"),
        ),
        ..pattern
    };
    hub.neighbours.extend((0..others).map(other));
    hub
}

/// A hub with a source and, unlisted by it, two sinks, each of which has a node behind it.
fn crowd(others: usize) -> Directory {
    let mut directory = Directory::default();
    learn(&mut directory, hub(HUB, &[1], others), Instant::ZERO);
    learn(&mut directory, record(1, 1, &[HUB]), Instant::ZERO);
    for (sink, behind) in [(2, 3), (4, 5)] {
        learn(
            &mut directory,
            record(sink, 1, &[HUB, behind]),
            Instant::ZERO,
        );
        learn(&mut directory, record(behind, 1, &[sink]), Instant::ZERO);
    }
    directory
}

fn path(directory: &Directory, from: u8, to: u8) -> Option<Vec<NodeId>> {
    directory.path(node(from), node(to))
}

#[test]
fn one_sided_link_ends_paths_only() {
    let full = crowd(NEIGHBOURS_MAX - 1);
    let over = |ends: [u8; 2]| Some([ends[0], HUB, ends[1]].map(node).to_vec());
    assert_eq!(path(&full, 1, 2), over([1, 2]));
    assert_eq!(path(&full, 2, 1), over([2, 1]));
    assert_eq!(path(&full, 2, 4), over([2, 4]));
    assert_eq!(path(&full, HUB, 2).map(|path| path.len()), Some(2));
    assert_eq!(path(&full, 2, HUB).map(|path| path.len()), Some(2));
    assert!(full.is_joined(node(2), node(HUB)) && full.is_joined(node(HUB), node(2)));
    // Nothing is reachable through the end of a one-sided link.
    assert_eq!(path(&full, 1, 3), None);
    assert_eq!(path(&full, 3, 1), None);
    assert_eq!(path(&full, HUB, 3), None);
    assert_eq!(path(&full, 2, 3).map(|path| path.len()), Some(2));

    let one_sided: Vec<_> = full.links().filter(|link| link.back.is_none()).collect();
    assert_eq!(one_sided.len(), 2);
    for link in one_sided {
        assert_eq!(link.far.node, node(HUB));
        let end = link.near.node;
        assert!(link.is_for([node(1), end]) && link.is_for([end, node(1)]));
        assert!(!link.is_for([node(1), node(HUB)]));
    }
}

#[test]
fn record_with_room_has_no_one_sided_links() {
    let room = crowd(NEIGHBOURS_MAX - 2);
    assert_eq!(path(&room, 1, 2), None);
    assert_eq!(path(&room, 2, 1), None);
    assert!(!room.is_joined(node(2), node(HUB)) && !room.is_joined(node(HUB), node(2)));
    assert!(room.links().all(|link| link.back.is_some()));
}

#[test]
fn one_sided_end_stays_on_map() {
    for (own, last) in [(1, 4), (2, 4)] {
        let mut directory = crowd(NEIGHBOURS_MAX - 1);
        directory.handle_timeout(node(own), directory.poll_timeout());
        let gone = Instant::ZERO + UNREACHED_MAX + Duration::from_nanos(1);
        directory.handle_timeout(node(own), gone);
        let is_there = |number| directory.record(node(number)).is_some();
        assert!(is_there(HUB) && is_there(1) && is_there(2) && is_there(last));
        assert_eq!((is_there(3), is_there(5)), (own == 2, false), "from {own}");
    }
}

#[test]
fn two_full_hubs_share_no_one_sided_path() {
    let mut directory = crowd(NEIGHBOURS_MAX - 1);
    let mut other = hub(200, &[6], NEIGHBOURS_MAX - 1);
    learn(&mut directory, record(6, 1, &[200]), Instant::ZERO);
    learn(&mut directory, other.clone(), Instant::ZERO);
    assert_eq!(path(&directory, 1, 6), None);
    // A listing by the hub alone does not suffice: it is not at the end of the path.
    other.sequence = 2;
    other.neighbours[1].node = node(HUB);
    learn(&mut directory, other, Instant::ZERO);
    assert_eq!(path(&directory, 1, 6), None);
    assert_eq!(path(&directory, 200, 1).map(|path| path.len()), Some(3));
}

/// Three nodes in a row, seen from the first, after the first search.
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
fn reached_record_stays_until_it_expires() {
    let mut directory = row();
    assert_eq!(directory.poll_timeout(), Instant::ZERO + EXPIRY);
    assert!(directory.handle_timeout(node(1), Instant::ZERO + EXPIRY));
    assert!(directory.record(node(1)).is_some(), "the own record stays");
    assert!(directory.record(node(2)).is_none());
}

#[test]
fn unreached_node_leaves_and_returns() {
    let mut directory = row();
    let cut = Instant::ZERO + Duration::from_secs(100);
    assert_eq!(
        learn(&mut directory, record(2, 2, &[1]), cut),
        News::Changed
    );
    assert!(!directory.handle_timeout(node(1), cut + SEARCH_DELAY));
    let edge = cut + UNREACHED_MAX;
    assert!(!directory.handle_timeout(node(1), edge) && directory.record(node(3)).is_some());
    assert!(directory.handle_timeout(node(1), edge + Duration::from_nanos(1)));
    assert!(directory.record(node(3)).is_none() && directory.record(node(2)).is_some());
    assert_eq!(directory.signed().count(), 3, "the record is kept");
    assert_eq!(
        learn(&mut directory, record(3, 1, &[2]), edge),
        News::Old,
        "and rejects older ones"
    );
    let heal = edge + Duration::from_secs(50);
    learn(&mut directory, record(2, 3, &[1, 3]), heal);
    assert_eq!(
        directory.poll_timeout(),
        heal,
        "a returning node is searched at once"
    );
    assert!(directory.handle_timeout(node(1), heal));
    assert_eq!(
        directory.path(node(1), node(3)).map(|path| path.len()),
        Some(3)
    );
}

#[test]
fn size_is_sum_of_records() {
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

#[test]
fn former_rate_is_kept_while_link_is_unknown() {
    let mut directory = Directory::default();
    let mut sequence = 0;
    let mut former_after = |kbps: Option<u64>| {
        sequence += 1;
        let ends = kbps.map(|_| 2);
        let mut record = record(1, sequence, ends.as_slice());
        for link in &mut record.neighbours {
            link.rate = Bitrate::from_kbps(kbps.unwrap_or_default());
        }
        learn(&mut directory, record, Instant::ZERO);
        let former = directory.former_rate(node(1), node(2));
        former.map(|rate| rate.as_bps() / 1_000)
    };
    assert_eq!(former_after(Some(0)), None, "never measured");
    assert_eq!(former_after(Some(50)), None, "currently known");
    assert_eq!(
        [former_after(Some(0)), former_after(Some(0))],
        [Some(50); 2]
    );
    assert_eq!(
        [former_after(Some(60)), former_after(Some(0))],
        [None, Some(60)]
    );
    assert_eq!(
        [former_after(None), former_after(Some(0))],
        [None; 2],
        "another link"
    );
}

/// Returns the links that may have come or gone since the last call, by the numbers of their ends.
fn changed(directory: &mut Directory) -> Option<Vec<[u8; 2]>> {
    let changes = directory.take_link_changes();
    let links = changes.links()?;
    Some(links.map(|ends| ends.map(|end| end.0[0])).collect())
}

#[test]
fn only_links_that_differ_are_changed() {
    let mut directory = Directory::default();
    let at = Instant::ZERO;
    learn(&mut directory, record(1, 1, &[2, 3]), at);
    learn(&mut directory, record(3, 1, &[1]), at);
    assert_eq!(changed(&mut directory), Some([[1, 2], [1, 3]].to_vec()));
    assert_eq!(changed(&mut directory), Some(Vec::new()));
    // A link that stays is not among them, whatever has changed of it.
    let mut slower = record(1, 2, &[3, 4]);
    slower.neighbours[0].rtt = Duration::from_millis(99);
    learn(&mut directory, slower, at);
    assert_eq!(changed(&mut directory), Some([[1, 2], [1, 4]].to_vec()));
    learn(&mut directory, record(1, 3, &[3, 4]), at);
    assert_eq!(changed(&mut directory), Some(Vec::new()));
    directory.remove(node(3));
    assert_eq!(changed(&mut directory), Some([[1, 3]].to_vec()));
}

#[test]
fn full_record_changes_any_link() {
    let mut directory = Directory::default();
    let at = Instant::ZERO;
    learn(&mut directory, hub(HUB, &[1], NEIGHBOURS_MAX - 2), at);
    assert!(changed(&mut directory).is_some());
    let full = Record {
        sequence: 2,
        ..hub(HUB, &[1], NEIGHBOURS_MAX - 1)
    };
    learn(&mut directory, full, at);
    assert_eq!(changed(&mut directory), None);
    // As long as it stays full, its links come and go one by one.
    let other = Record {
        sequence: 3,
        ..hub(HUB, &[2], NEIGHBOURS_MAX - 1)
    };
    learn(&mut directory, other, at);
    assert_eq!(changed(&mut directory), Some([[1, HUB], [2, HUB]].to_vec()));
}

#[test]
fn node_off_the_map_changes_its_links() {
    let mut directory = Directory::default();
    learn(&mut directory, record(1, 1, &[2]), Instant::ZERO);
    learn(&mut directory, record(2, 1, &[1, 3]), Instant::ZERO);
    learn(&mut directory, record(3, 1, &[2]), Instant::ZERO);
    directory.handle_timeout(node(1), Instant::ZERO + SEARCH_DELAY);
    learn(
        &mut directory,
        record(2, 2, &[1]),
        Instant::ZERO + SEARCH_DELAY,
    );
    let lost = Instant::ZERO + SEARCH_DELAY + SEARCH_DELAY;
    directory.handle_timeout(node(1), lost);
    changed(&mut directory);
    directory.handle_timeout(node(1), lost + UNREACHED_MAX + SEARCH_DELAY);
    assert!(directory.record(node(3)).is_none());
    assert_eq!(changed(&mut directory), Some([[2, 3]].to_vec()));
}

#[test]
fn leaves_are_between_no_other_nodes() {
    let mut directory = Directory::default();
    let at = Instant::ZERO;
    learn(&mut directory, record(1, 1, &[2, 3, 4]), at);
    for leaf in [2, 3, 4] {
        learn(&mut directory, record(leaf, 1, &[1]), at);
    }
    let between = |directory: &Directory, ends: [u8; 2]| -> Vec<u8> {
        let records = directory.between(ends.map(node));
        records.map(|record| record.node.0[0]).collect()
    };
    assert_eq!(between(&directory, [2, 4]), [1, 2, 4]);
    assert_eq!(between(&directory, [2, 9]), [1, 2]);
    learn(&mut directory, record(3, 2, &[1, 4]), at);
    assert_eq!(between(&directory, [2, 4]), [1, 2, 3, 4]);
    learn(&mut directory, record(3, 3, &[1]), at);
    learn(&mut directory, record(1, 2, &[2]), at);
    assert_eq!(between(&directory, [2, 4]), [2, 4]);
}
