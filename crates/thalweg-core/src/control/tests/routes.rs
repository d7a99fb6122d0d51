//! Proves that paths between two nodes follow the map, from any node, and that each alternative is
//! what is left.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::{A, B, C, D, Fabric, NodeId, name, publication};
use crate::control::Ways;
use crate::planner::Planner;

fn names(path: &[NodeId]) -> Vec<alloc::string::String> {
    path.iter().map(NodeId::short).collect()
}

fn path(way: &crate::planner::report::Report) -> Vec<alloc::string::String> {
    way.path.iter().map(ToString::to_string).collect()
}

fn ways(fabric: &Fabric, at: NodeId, from: NodeId, to: NodeId) -> Ways {
    let ways = fabric.node(at).controller.ways(from, to, None);
    ways.expect("all are on the map")
}

#[test]
fn alternatives_are_best_without_their_link() {
    let fabric = Fabric::linked(&[[A, B], [B, C], [A, D], [C, D]]);
    for at in [A, B, D] {
        let ways = ways(&fabric, at, A, C);
        assert_eq!(path(&ways.best), names(&[A, B, C]), "{at:?}");
        assert_eq!(ways.hops.len(), 2);
        let [other] = &ways.alternatives[..] else {
            panic!("one other path: {:?}", ways.alternatives);
        };
        assert_eq!(path(&other.way), names(&[A, D, C]));
        assert_eq!(other.without.len(), 2, "whichever of the two links is lost");
        assert!(other.way.cost >= ways.best.cost);
        assert!(!ways.why.is_empty());
    }
}

#[test]
fn chain_has_no_alternative() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    assert_eq!(ways(&fabric, B, A, C).alternatives, []);
    fabric.publish(A, publication(Some(Planner::Exact), true));
    for at in [A, C] {
        let controller = &fabric.node(at).controller;
        let ways = controller
            .ways(A, C, Some(&name()))
            .expect("it is announced");
        assert!(ways.confidential);
        assert_eq!(ways.rate_bps, 100_000);
    }
}

#[test]
fn unknown_node_or_stream_is_named() {
    let fabric = Fabric::linked(&[[A, B]]);
    let controller = &fabric.node(A).controller;
    let far = controller.ways(A, D, None).expect_err("D is nowhere");
    assert!(
        far.contains(&D.short()) && far.contains("not on the map"),
        "{far}"
    );
    let stream = controller
        .ways(A, B, Some(&name()))
        .expect_err("no node publishes it");
    assert!(stream.contains("`cam`"), "{stream}");
    assert!(controller.ways(A, A, None).is_err());
}
