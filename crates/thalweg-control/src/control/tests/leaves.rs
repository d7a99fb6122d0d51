//! Proves that leaves at a hub are sent the records of other leaves in turns, at a rate that does not
//! grow with their number; that their maps are complete in the end; that one which publishes or has
//! another link has the rest before anything that depends on it; and that no stream waits for it.

use alloc::vec::Vec;

use super::{Duration, Fabric, NodeId, name, publication};
use crate::mail::flood::LINKS_FEW;
use crate::records::leaves::{TURN, TURN_RECORDS};

const HUB: NodeId = NodeId([200; 32]);
const HUB_BEYOND: NodeId = NodeId([201; 32]);

/// More leaves than a hub has links without withholding anything.
const LEAVES: usize = 4 * LINKS_FEW;

/// The interval at which the hub announces its links.
const HUB_PACE: Duration = Duration::from_millis(2 * LEAVES as u64);

fn leaf(number: usize) -> NodeId {
    NodeId([number as u8 + 1; 32])
}

fn wires(leaves: usize, hub: NodeId) -> Vec<[NodeId; 2]> {
    (0..leaves).map(|number| [leaf(number), hub]).collect()
}

/// Returns a hub with leaves that have come just now.
fn star() -> Fabric {
    Fabric::linked(&wires(LEAVES, HUB))
}

impl Fabric {
    fn known(&self, node: NodeId) -> usize {
        self.node(node).controller.directory().signed().count()
    }

    /// Returns the number of records that all leaves together have.
    fn known_of_leaves(&self) -> usize {
        let known = (0..LEAVES).map(|number| self.known(leaf(number)));
        known.sum()
    }
}

#[test]
fn leaves_learn_of_others_in_turns() {
    let mut fabric = star();
    let last = leaf(LEAVES - 1);
    assert_eq!(fabric.known(last), 2, "itself and the hub");
    assert_eq!(fabric.known(HUB), LEAVES + 1);
    let before = fabric.known_of_leaves();
    fabric.pass(Duration::from_nanos(10 * TURN.as_nanos()));
    let sent = fabric.known_of_leaves() - before;
    // A leaf that asks by a summary may exceed a turn, and the next turns pay for it.
    assert!(
        (5 * TURN_RECORDS..=10 * TURN_RECORDS + LEAVES).contains(&sent),
        "{sent}"
    );
    // 64 leaves lack 64 records each, at 1,000 a second.
    fabric.pass(Duration::from_secs(6));
    for number in 0..LEAVES {
        assert_eq!(fabric.known(leaf(number)), LEAVES + 1, "leaf {number}");
    }
    let due = fabric.at(HUB, |c, _, _| c.poll_timeout());
    assert!(due > fabric.now + TURN, "nothing is left to send");
}

#[test]
fn leaf_beside_leaf_is_served_at_once() {
    let mut fabric = star();
    fabric.pass(HUB_PACE);
    let [source, sink] = [leaf(LEAVES - 1), leaf(LEAVES - 2)];
    fabric.subscribe(sink);
    assert!(fabric.known(source) < LEAVES);
    let stream = fabric.publish(source, publication(None, false));
    assert_eq!(fabric.plan_path(source, stream).1, [source, HUB, sink]);
    assert_eq!(fabric.known(source), LEAVES + 1, "it has the rest");
    // What it publishes no longer is told to all at once, too.
    fabric.at(source, |c, now, keys| c.unpublish(stream, now, keys));
    fabric.settle();
    let directory = fabric.node(sink).controller.directory();
    assert!(directory.publisher(&name()).is_none());
}

#[test]
fn leaf_with_another_link_joins_maps() {
    let mut fabric = star();
    fabric.pass(HUB_PACE);
    let far = NodeId([199; 32]);
    fabric.start(far, Duration::from_secs(1_000));
    fabric.start(HUB_BEYOND, Duration::from_secs(1_000));
    fabric.link([far, HUB_BEYOND]);
    fabric.settle();
    let bridge = leaf(LEAVES - 1);
    fabric.link([bridge, HUB_BEYOND]);
    fabric.pass(HUB_PACE);
    for node in [bridge, HUB, HUB_BEYOND, far] {
        assert_eq!(fabric.known(node), LEAVES + 3, "{node:?}");
    }
    // A leaf beside the bridge reaches what is beyond it.
    fabric.subscribe(leaf(LEAVES - 2));
    let stream = fabric.publish(far, publication(None, false));
    let path = [far, HUB_BEYOND, bridge, HUB, leaf(LEAVES - 2)];
    assert_eq!(fabric.plan_path(far, stream).1, path);
}

#[test]
fn returning_leaf_is_sent_what_it_lacks() {
    let mut fabric = star();
    fabric.pass(Duration::from_secs(6));
    let [back, other] = [leaf(LEAVES - 1), leaf(LEAVES - 2)];
    fabric.cut([back, HUB]);
    fabric.cut([other, HUB]);
    fabric.pass(Duration::from_secs(1));
    fabric.link([back, HUB]);
    fabric.settle();
    let directory = fabric.node(back).controller.directory();
    let hub = directory.record(HUB).expect("it is met");
    assert!(
        hub.neighbour(other).is_none(),
        "the hub's record comes at once"
    );
    fabric.link([other, HUB]);
    fabric.pass(Duration::from_secs(6));
    assert_eq!(fabric.known(back), LEAVES + 1);
}

#[test]
fn leaf_needs_hubs_record_for_its_own_link() {
    let mut fabric = star();
    fabric.pass(Duration::from_secs(6));
    let new = NodeId([199; 32]);
    fabric.start(new, Duration::from_secs(1_000));
    let sequence = |fabric: &Fabric, node| {
        let directory = fabric.node(node).controller.directory();
        let hub = directory.record(HUB).expect("it is met");
        (hub.sequence, hub.neighbour(new).is_some())
    };
    let old = leaf(3);
    let before = sequence(&fabric, old);
    fabric.link([new, HUB]);
    fabric.pass(Duration::from_millis(40));
    assert!(sequence(&fabric, new).1, "its link is on its map at once");
    assert_eq!(sequence(&fabric, old), before, "others need it later");
    fabric.pass(Duration::from_secs(2));
    assert_eq!(sequence(&fabric, old), sequence(&fabric, HUB));
    // A link that is lost to a publisher is known at once.
    let stream = fabric.publish(new, publication(None, false));
    fabric.subscribe(old);
    assert_eq!(fabric.plan_path(new, stream).1, [new, HUB, old]);
    fabric.cut([new, HUB]);
    fabric.pass(HUB_PACE);
    assert!(!sequence(&fabric, old).1);
}
