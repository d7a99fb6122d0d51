//! Proves that a node with more links than its record can name serves all its neighbours, announces
//! no change that its record does not show, and names neighbours that relay first.

use alloc::vec::Vec;

use thalweg_base::limits::NEIGHBOURS_MAX;
use thalweg_base::wire::record::Record;

use super::{A, B, C, D, Duration, E, Fabric, LINK, NodeId, publication};
use crate::session::LEASE;

const HUB: NodeId = NodeId([200; 32]);

/// A neighbour that is known only by its link, with a key smaller than all others.
fn stranger(number: usize) -> NodeId {
    let mut key = [0; 32];
    key[1..3].copy_from_slice(&(number as u16).to_be_bytes());
    NodeId(key)
}

/// Returns a hub with this many strangers, linked then to each of the others.
fn crowd(strangers: usize, others: &[NodeId]) -> Fabric {
    let mut fabric = Fabric::default();
    fabric.start(HUB, Duration::from_secs(1_000));
    for number in 0..strangers {
        fabric.at(HUB, |c, now, keys| {
            c.handle_link_up(stranger(number), LINK, now, keys);
        });
    }
    fabric.pass(Duration::from_secs(2));
    for other in others {
        fabric.join([*other, HUB]);
    }
    fabric
}

impl Fabric {
    fn join(&mut self, ends: [NodeId; 2]) {
        for id in ends {
            self.start(id, Duration::from_secs(1_000));
        }
        self.link(ends);
        // A node with this many links waits this long to announce them.
        self.pass(Duration::from_secs(2));
    }

    fn record_of_hub(&self) -> &Record {
        let directory = self.node(HUB).controller.directory();
        directory.record(HUB).expect("a node knows itself")
    }

    fn named(&self) -> Vec<NodeId> {
        let neighbours = self.record_of_hub().neighbours.iter();
        neighbours.map(|there| there.node).collect()
    }
}

#[test]
fn unnamed_neighbour_is_served() {
    let mut fabric = crowd(NEIGHBOURS_MAX, &[]);
    let before = fabric.record_of_hub().sequence;
    fabric.join([A, HUB]);
    fabric.join([D, HUB]);
    assert_eq!(fabric.named().len(), NEIGHBOURS_MAX);
    assert!(!fabric.named().contains(&A) && !fabric.named().contains(&D));
    assert_eq!(
        fabric.record_of_hub().sequence,
        before,
        "its record does not change"
    );
    fabric.subscribe(D);
    let stream = fabric.publish(A, publication(None, false));
    assert_eq!(fabric.plan_path(A, stream).1, [A, HUB, D]);
    // No record shows its departure, but its subscription is no longer renewed.
    fabric.cut([D, HUB]);
    fabric.pass(LEASE + LEASE);
    let active = fabric.node(A).active.get(&stream);
    assert!(active.is_none_or(Vec::is_empty), "{active:?}");
}

#[test]
fn relaying_neighbours_are_named_first() {
    let mut fabric = crowd(NEIGHBOURS_MAX, &[A, B]);
    assert!(!fabric.named().contains(&B));
    fabric.join([B, C]);
    assert!(fabric.named().contains(&B) && !fabric.named().contains(&A));
    assert_eq!(fabric.named().len(), NEIGHBOURS_MAX);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    assert_eq!(fabric.plan_path(A, stream).1, [A, HUB, B, C]);
    // And it stays named while others come.
    let before = fabric.named();
    fabric.join([D, HUB]);
    assert_eq!(fabric.named(), before);
}

#[test]
fn all_are_named_once_there_is_room() {
    let mut fabric = crowd(NEIGHBOURS_MAX - 1, &[A]);
    assert_eq!(fabric.named().len(), NEIGHBOURS_MAX);
    assert!(fabric.named().contains(&A), "it gets the last place");
    fabric.join([D, HUB]);
    assert!(!fabric.named().contains(&D));
    fabric.at(HUB, |c, now, keys| {
        c.handle_link_down(stranger(7), now, keys);
    });
    fabric.pass(Duration::from_secs(2));
    assert!(fabric.named().contains(&A) && fabric.named().contains(&D));
    assert!(!fabric.named().contains(&stranger(7)));
}

#[test]
fn leaf_beyond_first_full_record_is_served() {
    let mut fabric = crowd(NEIGHBOURS_MAX - 3, &[A]);
    fabric.publish(A, publication(None, false));
    // The last three come between two announcements, of which the second has no room for each.
    let late = [B, C, D];
    for node in [E, B, C, D] {
        fabric.start(node, Duration::from_secs(1_000));
        fabric.link([node, HUB]);
    }
    fabric.pass(Duration::from_secs(2));
    assert_eq!(fabric.named().len(), NEIGHBOURS_MAX);
    assert!(late.iter().any(|node| !fabric.named().contains(node)));
    for node in late {
        fabric.subscribe(node);
        let parts = fabric.node(node).installed.values();
        assert!(parts.map(|(part, _)| part.next).eq([None]), "{node:?}");
    }
}
