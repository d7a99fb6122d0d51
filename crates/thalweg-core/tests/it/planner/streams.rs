//! Many streams: links are never overbooked, the most important has what it would have alone, blockers make way, and
//! what was refused is told.

use thalweg_core::model::{Snapshot, Stream, Topology, Weights};
use thalweg_core::needs::Needs;
use thalweg_core::planner::{Demand, Policy, Shared, check_all, plan_all};
use thalweg_core::units::Bitrate;

use super::cases::{Net, path};
use super::worlds::{self, Dice};

fn solve(topology: &Topology, demands: &[Demand]) -> Shared {
    let weights = Weights::default();
    let shared = plan_all(topology, &weights, demands, &Policy::default());
    let broken = check_all(topology, &weights, demands, &shared);
    assert_eq!(broken, [], "{shared:#?}");
    shared
}

fn demand(stream: &Stream, name: &str, importance: u8) -> Demand {
    let mut stream = stream.clone();
    stream.name = name.parse().expect("a valid name");
    Demand { stream, importance }
}

/// Returns some streams of one small world.
fn several(seed: u64) -> (Topology, Vec<Demand>) {
    let snapshot = worlds::random(seed);
    let nodes = snapshot.topology.nodes();
    let mut dice = Dice::new(!seed);
    let mut demands = vec![];
    for at in 0..2 + dice.below(4) {
        let mut stream = snapshot.stream.clone();
        stream.from = nodes[dice.below(nodes.len())].name.clone();
        stream.to = vec![nodes[dice.below(nodes.len())].name.clone()];
        if stream.to[0] != stream.from {
            stream.needs.least_layers = 1;
            demands.push(demand(&stream, &format!("s{at}"), dice.pick(&[1, 1, 5, 9])));
        }
    }
    (snapshot.topology, demands)
}

#[test]
fn links_are_never_overbooked_and_the_most_important_is_served_as_if_alone() {
    let (mut improved, mut refused) = (0, 0);
    for seed in 0..1_500 {
        let (topology, demands) = several(seed);
        let shared = solve(&topology, &demands);
        let Some(first) = (0..demands.len()).max_by_key(|at| demands[*at].importance) else {
            continue;
        };
        let top = demands[first].importance;
        if demands
            .iter()
            .filter(|other| other.importance == top)
            .count()
            == 1
        {
            let admission = &shared.admissions[first];
            assert_eq!(admission.plan.layers, admission.alone.layers, "seed {seed}");
        }
        for admission in &shared.admissions {
            assert_eq!(admission.plan.feasible, admission.shortfalls.is_empty());
            assert!(admission.plan.cost >= admission.alone.cost - 1e-9 || !admission.plan.feasible);
        }
        improved += u32::from(shared.cost < shared.cost_by_importance - 1e-9);
        refused += shared
            .admissions
            .iter()
            .filter(|a| a.alone.feasible && !a.plan.feasible)
            .count();
        assert_eq!(shared, solve(&topology, &demands), "seed {seed}");
    }
    assert!(
        improved > 5 && refused > 20,
        "{improved} improved, {refused} refused"
    );
}

fn two_ways() -> Snapshot {
    Net::default()
        .node("s", 0)
        .node("x", 0)
        .node("y", 0)
        .node("t", 0)
        .link("s-x", 2_000, 0)
        .link("x-t", 1_000, 0)
        .link("s-y", 2_000, 0)
        .link("y-t", 900, 0)
        .stream(&[800], Needs::default())
}

#[test]
fn a_stream_with_another_way_makes_way_for_one_without() {
    let snapshot = two_ways();
    let important = demand(&snapshot.stream, "a", 9);
    let mut bound = demand(&snapshot.stream, "b", 1);
    bound.stream.from = worlds::name("x");
    let demands = [important, bound];
    let shared = solve(&snapshot.topology, &demands);
    assert_eq!(path(&shared.admissions[0].alone), "s x t");
    assert_eq!(path(&shared.admissions[0].plan), "s y t");
    assert_eq!(path(&shared.admissions[1].plan), "x t");
    assert!(shared.cost < shared.cost_by_importance);
    let text = shared.explain(&snapshot.topology, &demands);
    assert!(text.contains("made way"), "{text}");
}

#[test]
fn what_is_refused_is_told_with_what_is_left() {
    let mut snapshot = two_ways();
    snapshot.topology.links_mut()[3].up = false;
    let demands = [
        demand(&snapshot.stream, "a", 1),
        demand(&snapshot.stream, "b", 9),
    ];
    let shared = solve(&snapshot.topology, &demands);
    assert!(!shared.admissions[0].plan.feasible && shared.admissions[1].plan.feasible);
    let text = shared.explain(&snapshot.topology, &demands);
    let said = "link x → t has 200 kbit/s, the stream needs 800 kbit/s";
    assert!(text.contains(said), "{text}");
}

#[test]
fn a_shared_link_says_who_has_how_much() {
    let mut snapshot = two_ways();
    snapshot.topology.links_mut()[1].rate = Bitrate::from_kbps(2_000);
    let demands = ["a", "b"].map(|name| demand(&snapshot.stream, name, 5));
    let shared = solve(&snapshot.topology, &demands);
    let text = shared.explain(&snapshot.topology, &demands);
    assert!(
        text.contains("a 800 kbit/s (40.0 %), b 800 kbit/s (40.0 %)"),
        "{text}"
    );
}
