//! Relations between the plans of two equivalent or comparable inputs: order, names, absent links,
//! several improvements at once.
//!
//! *How.* Plans are compared as the bytes of their JSON reports: path, adapters, every number,
//! every sentence. Names break ties, so renamings here keep their order; for other renamings see
//! `laws`, which compares only what a tie cannot change. Among parallel links the first wins a tie,
//! so their relative order is kept.

use proptest::prelude::*;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Edge, Snapshot, Topology};
use thalweg_planner::planner::report::Report;
use thalweg_planner::planner::{Policy, Sink, Tree, plan, plan_tree};

use super::laws::changed;
use super::worlds::{self, Rng};

/// Plans, and returns the printed report.
fn json(snapshot: &Snapshot) -> String {
    let (plan, shortfalls) = plan(snapshot, &Policy::default());
    let report = Report::new(&plan, &shortfalls, Duration::ZERO);
    serde_json::to_string(&report).expect("a report can be written")
}

fn cost(snapshot: &Snapshot) -> Option<f64> {
    let (plan, _) = plan(snapshot, &Policy::default());
    plan.feasible.then_some(plan.cost)
}

fn tree(snapshot: &Snapshot) -> Tree {
    plan_tree(
        snapshot,
        &Sink::all_of(&snapshot.stream),
        &Policy::default(),
    )
    .0
}

/// Returns the snapshot with its nodes in this order.
fn with_nodes_in(order: &[usize], before: &Snapshot) -> Snapshot {
    let mut topology = Topology::default();
    for at in order {
        let place = &before.topology.nodes()[*at];
        topology.add_node(place.name.clone(), u32::from(place.slots), place.trusted);
    }
    for edge in before.topology.links() {
        let at = |end| topology.find(&before.topology.node(end).name);
        let ends = edge.ends.map(|end| at(end).expect("every node was added"));
        topology.add_link(Edge { ends, ..*edge });
    }
    Snapshot {
        topology,
        ..before.clone()
    }
}

/// Returns the snapshot with these of its links, in this order.
fn with_links_in(order: &[usize], before: &Snapshot) -> Snapshot {
    let mut topology = Topology::default();
    for place in before.topology.nodes() {
        topology.add_node(place.name.clone(), u32::from(place.slots), place.trusted);
    }
    for at in order {
        topology.add_link(before.topology.links()[*at]);
    }
    Snapshot {
        topology,
        ..before.clone()
    }
}

fn shuffled(count: usize, rng: &mut Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        order.swap(at, rng.below(at + 1));
    }
    order
}

/// Returns an order of the links in which parallel ones keep their relative order.
fn shuffled_links(topology: &Topology, rng: &mut Rng) -> Vec<usize> {
    let links = topology.links();
    let pair = |at: &usize| {
        let [a, b] = links[*at].ends;
        (a.min(b), a.max(b))
    };
    let mut order = shuffled(links.len(), rng);
    for one in 0..order.len() {
        for other in one + 1..order.len() {
            if pair(&order[one]) == pair(&order[other]) && order[one] > order[other] {
                order.swap(one, other);
            }
        }
    }
    order
}

/// Improves some properties and worsens none: rates, slots, trust, delays, the deadline, the
/// minimum layers, prices.
fn better(before: &Snapshot, rng: &mut Rng) -> Snapshot {
    let mut link_rng = Rng::new(rng.below(usize::MAX) as u64);
    let topology = changed(
        &before.topology,
        |_, place| {
            place.slots += rng.below(3) as u8;
            place.trusted |= rng.chance(30);
        },
        |_, edge| {
            let rng = &mut link_rng;
            edge.rate = Bitrate::from_bps(edge.rate.as_bps() + 1_000 * rng.below(500) as u64);
            edge.secure |= rng.chance(30);
            edge.up |= rng.chance(50);
            if rng.chance(30) {
                edge.delay = Duration::from_nanos(edge.delay.as_nanos() / 2);
            }
        },
    );
    let mut after = Snapshot {
        topology,
        ..before.clone()
    };
    let needs = &mut after.stream.needs;
    needs.deadline += Duration::from_millis(rng.below(30) as u64);
    needs.least_layers = needs.least_layers.saturating_sub(rng.below(2) as u8).max(1);
    needs.confidential &= rng.chance(80);
    let mut weights = after.weights;
    for weight in [
        &mut weights.keep,
        &mut weights.seal,
        &mut weights.open,
        &mut weights.quality,
    ] {
        *weight *= rng.pick(&[1.0, 1.0, 0.5, 0.0]);
    }
    Snapshot::new(after.topology, weights, after.stream)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn improvement_never_costs_more(seed: u64) {
        let before = worlds::random(seed);
        let after = better(&before, &mut Rng::new(!seed));
        if let Some(before_cost) = cost(&before) {
            let after_cost = cost(&after);
            prop_assert!(
                after_cost.is_some_and(|after_cost| after_cost <= before_cost + 1e-9),
                "{before_cost} and then {after_cost:?}: {before:?}\n{after:?}"
            );
        }
    }

    #[test]
    fn input_order_does_not_matter(seed: u64) {
        let before = worlds::random(seed);
        let mut rng = Rng::new(!seed);
        let nodes = shuffled(before.topology.nodes().len(), &mut rng);
        let links = shuffled_links(&before.topology, &mut rng);
        let mut after = with_links_in(&links, &with_nodes_in(&nodes, &before));
        after.topology = changed(&after.topology, |_, _| {}, |_, edge| {
            if rng.chance(50) {
                edge.ends.reverse();
            }
        });
        prop_assert_eq!(json(&before), json(&before), "the same input");
        prop_assert_eq!(json(&before), json(&after));
    }

    #[test]
    fn order_keeping_names_change_names_only(seed: u64) {
        let before = worlds::random(seed);
        let long = |name: &str| format!("relabelled-{name}");
        let renamed = |name: &str| worlds::name(&long(name));
        let topology = changed(
            &before.topology,
            |_, place| place.name = renamed(place.name.as_str()),
            |_, _| {},
        );
        let mut after = Snapshot { topology, ..before.clone() };
        after.stream.from = renamed(before.stream.from.as_str());
        after.stream.to[0] = renamed(before.stream.to[0].as_str());
        let mut renamed = json(&after);
        for place in before.topology.nodes() {
            let name = place.name.as_str();
            renamed = renamed.replace(&long(name), name);
        }
        prop_assert_eq!(json(&before), renamed);
    }

    #[test]
    fn removed_unused_link_changes_nothing(seed: u64) {
        let before = worlds::random(seed);
        let (found, _) = plan(&before, &Policy::default());
        if found.feasible {
            let unused = |at: &usize| found.links.iter().all(|link| link.link.0 as usize != *at);
            let links = before.topology.links().len();
            for without in (0..links).filter(unused) {
                let rest: Vec<usize> = (0..links).filter(|at| *at != without).collect();
                prop_assert_eq!(json(&before), json(&with_links_in(&rest, &before)));
            }
        }
    }

    #[test]
    fn tree_is_reproducible_and_bound_order_free(seed: u64) {
        let mut before = worlds::random(seed);
        let mut rng = Rng::new(!seed);
        let places = before.topology.nodes();
        let other = places[rng.below(places.len())].name.clone();
        if other != before.stream.from && !before.stream.to.contains(&other) {
            before.stream.to.push(other);
            let nodes = shuffled(places.len(), &mut rng);
            let links = shuffled_links(&before.topology, &mut rng);
            let after = with_links_in(&links, &with_nodes_in(&nodes, &before));
            let (one, two) = (tree(&before), tree(&after));
            prop_assert_eq!(format!("{one:?}"), format!("{:?}", tree(&before)));
            prop_assert_eq!(one.feasible, two.feasible);
            if one.feasible {
                prop_assert!((one.bound - two.bound).abs() <= 1e-9, "{one:?}\n{two:?}");
                prop_assert!((one.cost - two.cost).abs() <= 1e-9, "{one:?}\n{two:?}");
            }
        }
    }
}
