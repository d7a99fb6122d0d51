//! Proves that a node of more links than its record names serves all its neighbours, tells of none that it need not, and names
//! those first who carry for others.

use alloc::vec::Vec;

use super::{A, B, C, D, Duration, Fabric, LINK, NodeId, publication};
use crate::limits::NEIGHBOURS_MAX;
use crate::session::LEASE;
use crate::wire::record::Record;

const HUB: NodeId = NodeId([200; 32]);

/// A neighbour of whom no more is known than that there is a link; before all others by its key.
fn stranger(number: usize) -> NodeId {
    let mut key = [0; 32];
    key[1..3].copy_from_slice(&(number as u16).to_be_bytes());
    NodeId(key)
}

/// Returns a hub with so many strangers, and then with each of these.
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
        // As long as a node of so many links waits to tell of them.
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
fn who_is_not_named_publishes_and_subscribes_all_the_same() {
    let mut fabric = crowd(NEIGHBOURS_MAX, &[]);
    let before = fabric.record_of_hub().sequence;
    fabric.join([A, HUB]);
    fabric.join([D, HUB]);
    assert_eq!(fabric.named().len(), NEIGHBOURS_MAX);
    assert!(!fabric.named().contains(&A) && !fabric.named().contains(&D));
    assert_eq!(
        fabric.record_of_hub().sequence,
        before,
        "nothing was to be told"
    );
    fabric.subscribe(D);
    let stream = fabric.publish(A, publication(None, false));
    assert_eq!(fabric.way(A, stream).1, [A, HUB, D]);
    // That he is gone nobody says; but he asks for nothing any more.
    fabric.cut([D, HUB]);
    fabric.pass(LEASE + LEASE);
    let active = fabric.node(A).active.get(&stream);
    assert!(active.is_none_or(Vec::is_empty), "{active:?}");
}

#[test]
fn who_carries_for_others_is_named_before_who_does_not() {
    let mut fabric = crowd(NEIGHBOURS_MAX, &[A, B]);
    assert!(!fabric.named().contains(&B));
    fabric.join([B, C]);
    assert!(fabric.named().contains(&B) && !fabric.named().contains(&A));
    assert_eq!(fabric.named().len(), NEIGHBOURS_MAX);
    fabric.subscribe(C);
    let stream = fabric.publish(A, publication(None, false));
    assert_eq!(fabric.way(A, stream).1, [A, HUB, B, C]);
    // And stays so while others come.
    let before = fabric.named();
    fabric.join([D, HUB]);
    assert_eq!(fabric.named(), before);
}

#[test]
fn all_are_named_as_soon_as_there_is_room() {
    let mut fabric = crowd(NEIGHBOURS_MAX - 1, &[A]);
    assert_eq!(fabric.named().len(), NEIGHBOURS_MAX);
    assert!(fabric.named().contains(&A), "the last place is his");
    fabric.join([D, HUB]);
    assert!(!fabric.named().contains(&D));
    fabric.at(HUB, |c, now, keys| {
        c.handle_link_down(stranger(7), now, keys);
    });
    fabric.pass(Duration::from_secs(2));
    assert!(fabric.named().contains(&A) && fabric.named().contains(&D));
    assert!(!fabric.named().contains(&stranger(7)));
}
