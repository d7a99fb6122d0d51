//! Trees: every one keeps the rules, none beats the oracle, proven ones meet it, and the gap of the
//! others is known.

use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_planner::model::Snapshot;
use thalweg_planner::planner::{Need, Policy, Sink, Tree, check_tree, plan, plan_tree};

use super::brute_tree;
use super::cases::{Net, chains, confidential};
use super::worlds::{self, Rng, name};

const WORLDS: u64 = 5_000;

fn solve(snapshot: &Snapshot) -> Tree {
    let sinks = Sink::all_of(&snapshot.stream);
    let (tree, left_out) = plan_tree(snapshot, &sinks, &Policy::default());
    assert_eq!(tree.feasible, left_out.is_empty());
    assert_eq!(check_tree(snapshot, &sinks, &tree), [], "{tree:#?}");
    assert!(tree.bound <= tree.cost + 1e-9, "{tree:#?}");
    tree
}

/// Returns a small world with a stream to two sinks.
fn two_sinks(seed: u64) -> Option<Snapshot> {
    let mut snapshot = worlds::random(seed);
    let nodes = snapshot.topology.nodes();
    let mut rng = Rng::new(!seed);
    let other = nodes[rng.below(nodes.len())].name.clone();
    let taken = other == snapshot.stream.from || snapshot.stream.to.contains(&other);
    if taken || nodes.len() > 5 {
        return None;
    }
    snapshot.stream.to.push(other);
    Some(snapshot)
}

#[test]
fn no_tree_beats_enumeration() {
    let (mut feasible, mut proven, mut missed, mut none) = (0u32, 0u32, 0u32, 0u32);
    for snapshot in (0..WORLDS).filter_map(two_sinks) {
        let tree = solve(&snapshot);
        let best = brute_tree::best(&snapshot);
        if !tree.feasible {
            none += u32::from(best.is_finite());
            continue;
        }
        feasible += 1;
        assert!(tree.cost >= best - 1e-9, "{best} against {tree:#?}");
        assert!(tree.bound <= best + 1e-9, "{best} against {tree:#?}");
        if tree.is_proven() {
            proven += 1;
            assert!((tree.cost - best).abs() <= 1e-9, "{best}: {tree:#?}");
        }
        missed += u32::from(tree.cost > best + 1e-9);
    }
    assert!(feasible > 60, "{feasible}");
    // The shares of inexact results are known: docs/concepts/planner.md §9.
    assert!(proven * 10 >= feasible * 6, "{proven} of {feasible}");
    assert!(missed * 50 <= feasible, "{missed} of {feasible}");
    assert!(none * 50 <= feasible, "{none} beside {feasible}");
}

#[test]
fn lower_sink_is_filtered_at_branch() {
    let mut snapshot = Net::default()
        .node("s", 3)
        .blind("m", 1)
        .node("t", 3)
        .node("u", 3)
        .link("s~m", 2_000, 5)
        .link("m~t", 2_000, 5)
        .link("m~u", 150, 5)
        .stream(&[100, 300, 600], confidential());
    snapshot.stream.to.push(name("u"));
    snapshot.stream.pack_ratio = Some(1.0);
    snapshot.catalogue.transforms[0].rate_factor = 1.0;
    let tree = solve(&snapshot);
    assert_eq!(chains(&tree.paths[0]), "s[seal] t[open]");
    assert_eq!(chains(&tree.paths[1]), "s[seal] m[keep:1] u[open]");
    assert_eq!(tree.links().len(), 3);
    assert!(tree.cost < tree.apart, "{tree:#?}");
    assert!(tree.is_proven());
}

#[test]
fn each_sink_has_its_own_needs() {
    let snapshot = Net::default()
        .node("s", 3)
        .node("m", 3)
        .node("t", 3)
        .node("u", 3)
        .link("s-m", 2_000, 5)
        .link("m-t", 2_000, 5)
        .link("m-u", 100, 5)
        .link("m-u", 2_000, 50)
        .stream(&[100, 300], Needs::default());
    let sink = |node: &str, ms, least_layers| Sink {
        node: name(node),
        deadline: Duration::from_millis(ms),
        least_layers,
    };
    let plan = |sinks: &[Sink]| {
        let (tree, left_out) = plan_tree(&snapshot, sinks, &Policy::default());
        assert_eq!(check_tree(&snapshot, sinks, &tree), []);
        (tree, left_out)
    };
    let (tree, _) = plan(&[sink("t", 10, 2), sink("u", 10, 1)]);
    assert_eq!([tree.paths[0].layers, tree.paths[1].layers], [2, 1]);
    let (tree, _) = plan(&[sink("t", 10, 2), sink("u", 60, 2)]);
    assert_eq!([tree.paths[0].layers, tree.paths[1].layers], [2, 2]);
    let (tree, left_out) = plan(&[sink("t", 10, 2), sink("u", 10, 2)]);
    assert!(!tree.feasible);
    assert_eq!(left_out[0].sink, name("u"));
    assert_eq!([tree.paths[0].layers, tree.paths[1].layers], [2, 0]);
}

#[test]
fn sink_may_lie_on_path_to_another() {
    let mut snapshot = Net::default()
        .node("s", 1)
        .node("t", 1)
        .node("u", 1)
        .link("s-t", 2_000, 5)
        .link("t-u", 150, 5)
        .stream(&[100, 300], Needs::default());
    snapshot.stream.to.push(name("u"));
    let tree = solve(&snapshot);
    assert_eq!([tree.paths[0].layers, tree.paths[1].layers], [2, 1]);
    assert_eq!(chains(&tree.paths[1]), "t[keep:1]");
}

#[test]
fn unservable_sink_is_left_out() {
    let mut snapshot = Net::default()
        .node("s", 1)
        .node("t", 1)
        .node("u", 0)
        .node("v", 0)
        .link("s-t", 2_000, 5)
        .link("s~u", 2_000, 5)
        .link("t-v", 50, 5)
        .stream(&[100, 300], confidential());
    snapshot.stream.to.extend([name("u"), name("v")]);
    let sinks = Sink::all_of(&snapshot.stream);
    let (tree, left_out) = plan_tree(&snapshot, &sinks, &Policy::default());
    assert!(!tree.feasible);
    assert_eq!(check_tree(&snapshot, &sinks, &tree), []);
    assert_eq!([0, 1, 2].map(|sink| tree.paths[sink].path.len()), [2, 0, 0]);
    for left_out in &left_out {
        let alone = snapshot.clone().for_sink(left_out.sink.clone());
        assert_eq!(left_out.shortfalls, plan(&alone, &Policy::default()).1);
    }
    let strict = Policy {
        strict: true,
        ..Policy::default()
    };
    assert_eq!(
        plan_tree(&snapshot, &sinks, &strict),
        (Tree::default(), left_out)
    );
}

#[test]
fn crowded_out_sink_reports_its_lack() {
    // One slot at the relay, and both sinks need their own filter there.
    let mut snapshot = Net::default()
        .node("s", 0)
        .node("m", 1)
        .node("t", 0)
        .node("u", 0)
        .link("s-m", 2_000, 5)
        .link("m-t", 400, 5)
        .link("m-u", 100, 5)
        .stream(&[100, 300, 600], Needs::default());
    snapshot.stream.pack_ratio = Some(1.0);
    let mut snapshot = Snapshot::new(snapshot.topology, snapshot.weights, snapshot.stream);
    snapshot.stream.to.push(name("u"));
    let sinks = Sink::all_of(&snapshot.stream);
    let needs = |node: &str, least_layers| Sink {
        node: name(node),
        least_layers,
        ..sinks[0].clone()
    };
    let sinks = [needs("t", 2), needs("u", 1)];
    let (tree, left_out) = plan_tree(&snapshot, &sinks, &Policy::default());
    assert_eq!(check_tree(&snapshot, &sinks, &tree), []);
    let [left_out] = &left_out[..] else {
        panic!("{left_out:?}");
    };
    let needs: Vec<_> = left_out.shortfalls.iter().map(|one| one.need).collect();
    assert!(needs.contains(&Need::Slots), "{left_out:?}");
}
