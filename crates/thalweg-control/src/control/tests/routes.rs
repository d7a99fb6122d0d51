//! Proves that paths between two nodes follow the map, from any node, and that each alternative is
//! what is left.

use alloc::string::ToString;
use alloc::vec::Vec;

use thalweg_planner::planner::Planner;

use super::{A, B, C, D, Fabric, NodeId, name, publication};
use crate::control::Paths;

fn names(path: &[NodeId]) -> Vec<alloc::string::String> {
    path.iter().map(NodeId::short).collect()
}

fn path(report: &thalweg_planner::planner::report::Report) -> Vec<alloc::string::String> {
    report.path.iter().map(ToString::to_string).collect()
}

fn paths(fabric: &Fabric, at: NodeId, from: NodeId, to: NodeId) -> Paths {
    let paths = fabric.node(at).controller.paths(from, to, None);
    paths.expect("all are on the map")
}

#[test]
fn alternatives_are_best_without_their_link() {
    let fabric = Fabric::linked(&[[A, B], [B, C], [A, D], [C, D]]);
    for at in [A, B, D] {
        let paths = paths(&fabric, at, A, C);
        assert_eq!(path(&paths.best), names(&[A, B, C]), "{at:?}");
        assert_eq!(paths.hops.len(), 2);
        let [other] = &paths.alternatives[..] else {
            panic!("one other path: {:?}", paths.alternatives);
        };
        assert_eq!(path(&other.plan), names(&[A, D, C]));
        assert_eq!(other.without.len(), 2, "whichever of the two links is lost");
        assert!(other.plan.cost >= paths.best.cost);
        assert!(!paths.explanation.is_empty());
    }
}

#[test]
fn chain_has_no_alternative() {
    let mut fabric = Fabric::linked(&[[A, B], [B, C]]);
    assert_eq!(paths(&fabric, B, A, C).alternatives, []);
    fabric.publish(A, publication(Some(Planner::Exact), true));
    for at in [A, C] {
        let controller = &fabric.node(at).controller;
        let paths = controller
            .paths(A, C, Some(&name()))
            .expect("it is announced");
        assert!(paths.confidential);
        assert_eq!(paths.rate_bps, 100_000);
    }
}

#[test]
fn unknown_node_or_stream_is_named() {
    let fabric = Fabric::linked(&[[A, B]]);
    let controller = &fabric.node(A).controller;
    let far = controller.paths(A, D, None).expect_err("D is nowhere");
    assert!(
        far.contains(&D.short()) && far.contains("not on the map"),
        "{far}"
    );
    let stream = controller
        .paths(A, B, Some(&name()))
        .expect_err("no node publishes it");
    assert!(stream.contains("`cam`"), "{stream}");
    assert!(controller.paths(A, A, None).is_err());
}
