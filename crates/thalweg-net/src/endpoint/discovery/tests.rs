//! Proves which of the found nodes are dialled, and until when.

use thalweg_base::id::NodeId;

use super::{Action, DIALLED_MAX, FOUND_MAX, Found};

fn node(number: usize) -> NodeId {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&number.to_be_bytes());
    NodeId(id)
}

fn none(_: NodeId) -> bool {
    false
}

fn all(_: NodeId) -> bool {
    true
}

#[test]
fn only_admitted_nodes_are_dialled() {
    let mut found = Found::default();
    found.handle_found(node(1));
    assert_eq!(found.actions(none, none), []);
    assert_eq!(found.actions(all, none), [Action::Dial(node(1))]);
    assert_eq!(found.actions(all, all), [], "once");
    assert_eq!(found.actions(none, all), [Action::Forget(node(1))]);
}

#[test]
fn configured_peers_are_left_alone() {
    let mut found = Found::default();
    found.handle_found(node(1));
    assert_eq!(found.actions(all, all), []);
    found.handle_gone(node(1));
    assert_eq!(found.actions(all, all), [], "nor forgotten");
}

#[test]
fn expired_node_makes_room() {
    let mut found = Found::default();
    (0..FOUND_MAX + 5).for_each(|number| found.handle_found(node(number)));
    assert_eq!(found.found.len(), FOUND_MAX);
    assert_eq!(found.actions(all, none).len(), DIALLED_MAX);
    assert_eq!(found.actions(all, none), []);
    found.handle_gone(node(0));
    assert_eq!(
        found.actions(all, none),
        [Action::Forget(node(0)), Action::Dial(node(DIALLED_MAX))]
    );
}
