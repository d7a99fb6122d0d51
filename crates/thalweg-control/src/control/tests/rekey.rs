//! Proves that a node that loses the right to a stream's key never gets the next, and that the
//! others lose nothing.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, StreamId};
use thalweg_planner::planner::Planner;

use super::{A, B, C, D, Duration, E, Fabric, FakeKeys, NodeId, Note, publication};
use crate::admission::Rights;
use crate::session::{REKEY_MIN, RETRY};
use crate::sources::keys::StreamKeys;

const SEE: Rights = Rights::MEMBER.with(Rights::SEE_PLAINTEXT);

/// A publishes; C, D and E subscribe through B, which may not see plaintext.
fn fabric() -> (Fabric, StreamId) {
    let members = [(B, Rights::MEMBER), (C, SEE), (D, SEE), (E, SEE)];
    let mut fabric = Fabric::owned(&[[A, B], [B, C], [B, D], [B, E]], &members);
    let stream = fabric.publish(A, publication(Some(Planner::Exact), true));
    // The last of them in the order of ids has the base of the others.
    for sink in [E, D, C] {
        fabric.subscribe(sink);
    }
    (fabric, stream)
}

impl Fabric {
    /// Returns the numbers of the keys that a node has had.
    fn key_numbers(&self, node: NodeId) -> Vec<u32> {
        let seen = self.node(node).keys_seen.iter();
        seen.map(|(number, _)| *number).collect()
    }

    /// Returns the plans in force, after checking that each sink has its part and that its key is
    /// the source's.
    fn in_force(&self, stream: StreamId, sinks: &[NodeId]) -> Vec<Epoch> {
        let given = &self.node(A).given[&stream];
        let serves: BTreeSet<Epoch> = given.iter().flat_map(|g| g.serves.clone()).collect();
        let mut served = Vec::new();
        for epoch in serves {
            let root = given.iter().find(|g| g.serves.contains(&epoch));
            let root = root.expect("it serves it").epoch;
            let (_, source) = &self.node(A).installed[&(stream, root)];
            let ends = |id: &NodeId| self.node(*id).installed.contains_key(&(stream, epoch));
            let sink = sinks.iter().find(|id| ends(id)).expect("one of the sinks");
            let (_, secrets) = &self.node(*sink).installed[&(stream, epoch)];
            assert!(
                secrets.key.is_some() && secrets.key == source.key,
                "{sink:?}"
            );
            served.push((*sink, epoch));
        }
        served.sort_unstable();
        let of: Vec<NodeId> = served.iter().map(|(sink, _)| *sink).collect();
        assert_eq!(of, sinks, "each is served");
        served.iter().map(|(_, epoch)| *epoch).collect()
    }
}

#[test]
fn revoked_node_never_gets_next_key() {
    let (mut fabric, stream) = fabric();
    let before = fabric.in_force(stream, &[C, D, E]);
    fabric.revoke(A, C).expect("the owner may");
    let after = fabric.in_force(stream, &[D, E]);
    assert!(
        before.iter().max() < after.iter().min(),
        "{before:?}, {after:?}"
    );
    assert_eq!(fabric.key_numbers(C), [1]);
    assert_eq!(fabric.key_numbers(B), []);
    for id in [A, D, E] {
        assert_eq!(fabric.key_numbers(id), [1, 2]);
    }
    // ADUs in flight under the former plans can still be opened.
    let is_installed = |id, epoch| fabric.node(id).installed.contains_key(&(stream, epoch));
    assert!(is_installed(D, before[1]) && is_installed(E, before[2]));
    let notes = fabric.notes(A);
    let is_rekeyed = |note: &&Note| matches!(note, Note::Rekeyed { key_epoch: 2, .. });
    assert_eq!(notes.iter().filter(is_rekeyed).count(), 1);
    // After renewals, and with the former plans released, they are the same.
    fabric.pass(Duration::from_secs(60));
    assert_eq!(fabric.in_force(stream, &[D, E]), after);
    assert_eq!(fabric.key_numbers(C), [1]);
}

#[test]
fn reduced_grant_changes_key() {
    let (mut fabric, stream) = fabric();
    fabric.grant(A, C, Rights::MEMBER);
    fabric.settle();
    assert_eq!(fabric.key_numbers(C), [1]);
    assert_eq!(fabric.key_numbers(D), [1, 2]);
    fabric.in_force(stream, &[D, E]);
}

#[test]
fn burst_of_revocations_makes_two_keys() {
    let (mut fabric, stream) = fabric();
    fabric.revoke(A, C).expect("the owner may");
    fabric.revoke(A, D).expect("the owner may");
    assert_eq!(fabric.key_numbers(E), [1, 2]);
    fabric.pass(REKEY_MIN);
    fabric.settle();
    assert_eq!(fabric.key_numbers(D), [1, 2], "it was there for the second");
    assert_eq!(fabric.key_numbers(E), [1, 2, 3]);
    fabric.in_force(stream, &[E]);
}

#[test]
fn unaffected_nodes_keep_the_key() {
    let (mut fabric, stream) = fabric();
    let before = fabric.in_force(stream, &[C, D, E]);
    fabric.grant(A, C, SEE.without(Rights::PUBLISH));
    fabric.grant(A, B, Rights::MEMBER.without(Rights::PUBLISH));
    fabric.settle();
    fabric.pass(REKEY_MIN);
    assert_eq!(fabric.in_force(stream, &[C, D, E]), before);
    assert_eq!(fabric.key_numbers(A), [1]);
}

#[test]
fn late_sink_gets_key_unknown_to_revoked() {
    let (mut fabric, stream) = fabric();
    fabric.revoke(A, C).expect("the owner may");
    fabric.pass(REKEY_MIN);
    for sink in [D, E] {
        fabric.at(sink, |c, now, keys| {
            c.unsubscribe(&"cam".parse().expect("a name"), now, keys);
        });
    }
    fabric.settle();
    fabric.revoke(A, D).expect("the owner may");
    fabric.subscribe(E);
    fabric.in_force(stream, &[E]);
    assert_eq!(fabric.key_numbers(D), [1, 2]);
    assert_eq!(fabric.key_numbers(E), [1, 2, 3]);
}

#[test]
fn plan_keeps_its_key() {
    let mut held = StreamKeys::draw(&mut FakeKeys { id: A, drawn: 0 }).expect("a caricature");
    let first = held.of(Epoch(1)).clone();
    held.change([2; 32], Epoch(5), Epoch(3));
    assert_eq!(*held.of(Epoch(4)), first);
    assert_eq!(held.of(Epoch(5)).key, [2; 32]);
    // Plans 5 and 6 are not over, those before are.
    held.change([3; 32], Epoch(7), Epoch(5));
    assert_eq!(held.of(Epoch(6)).key, [2; 32]);
    assert_eq!(
        (held.of(Epoch(7)).key, held.of(Epoch(7)).key_epoch),
        ([3; 32], 3)
    );
    assert_ne!(*held.of(Epoch(4)), first, "it is forgotten");
}

#[test]
fn lagging_sink_is_no_base() {
    let (mut fabric, stream) = fabric();
    fabric.nodes.get_mut(&E).expect("it runs").unknown = ["open"].into();
    fabric.revoke(A, C).expect("the owner may");
    assert_eq!(fabric.key_numbers(D), [1, 2]);
    assert_eq!(fabric.key_numbers(E), [1, 2]);
    // It has the key, but not the part: until its old plan is given up, its ADUs are sealed with
    // the former key.
    fabric.pass(RETRY);
    fabric.settle();
    fabric.in_force(stream, &[D]);
}
