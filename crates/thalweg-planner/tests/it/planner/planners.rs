//! The path planners: their plans are valid, none is cheaper than exact, merging works, and the
//! textbook example has the textbook's results.

use thalweg_planner::model::Snapshot;
use thalweg_planner::planner::{Plan, Planner, Policy, check, plan};

use super::cases::{Net, chains, confidential};
use super::worlds;

const WORLDS: u64 = 1_000;

fn by(planner: Planner, snapshot: &Snapshot) -> Plan {
    let policy = Policy {
        planner,
        ..Policy::default()
    };
    let (plan, shortfalls) = plan(snapshot, &policy);
    assert_eq!(plan.feasible, shortfalls.is_empty());
    plan
}

#[test]
fn every_planner_keeps_rules_and_none_beats_exact() {
    let mut feasible = [0u64; 4];
    for seed in 0..WORLDS {
        let snapshot = worlds::random(seed);
        let plans = Planner::ALL.map(|planner| by(planner, &snapshot));
        for (at, plan) in plans.iter().enumerate() {
            if plan.feasible {
                feasible[at] += 1;
                assert_eq!(check(&snapshot, plan), [], "seed {seed}: {plan:#?}");
                assert!(plans[0].feasible, "seed {seed}: exact missed {plan:#?}");
                let beaten = plans[0].cost <= plan.cost + 1e-9;
                assert!(beaten, "seed {seed}: {:#?} against {plan:#?}", plans[0]);
            }
        }
        let [_, heuristic, exhaustive, incremental] = &plans;
        if heuristic.feasible {
            assert!(exhaustive.feasible, "seed {seed}: {heuristic:#?}");
            let no_better = exhaustive.cost <= heuristic.cost + 1e-9;
            assert!(no_better, "seed {seed}: {exhaustive:#?} {heuristic:#?}");
        }
        if incremental.feasible && heuristic.feasible {
            let pays = heuristic.cost <= incremental.cost + 100.0;
            assert!(pays, "seed {seed}: {heuristic:#?} {incremental:#?}");
        }
    }
    // Each must be useful on these worlds, in the order that Panda found.
    assert!(feasible[3] > WORLDS / 8, "{feasible:?}");
    assert!(feasible.is_sorted_by(|a, b| a >= b), "{feasible:?}");
}

#[test]
fn textbook_planners_differ_by_kind() {
    let mut snapshot = Net::default()
        .node("s", 3)
        .node("m", 3)
        .node("t", 3)
        .link("s~m", 2_000, 10)
        .link("m-t", 150, 10)
        .stream(&[100, 300, 600], confidential());
    snapshot.stream.pack_ratio = Some(1.0);
    snapshot.catalogue.transforms[0].rate_factor = 1.0;
    let placed = |planner| chains(&by(planner, &snapshot));
    assert_eq!(placed(Planner::Incremental), "s[seal] m[open keep:1]");
    assert_eq!(placed(Planner::Heuristic), "s[keep:1 seal] m[open]");
    assert_eq!(placed(Planner::Exhaustive), placed(Planner::Heuristic));
}

#[test]
fn remedies_of_two_links_are_merged() {
    let snapshot = Net::default()
        .node("s", 2)
        .node("m", 2)
        .node("n", 2)
        .node("t", 2)
        .link("s~m", 2_000, 0)
        .link("m-n", 2_000, 0)
        .link("n~t", 2_000, 0)
        .stream(&[500], confidential());
    let placed = |planner| chains(&by(planner, &snapshot));
    assert_eq!(
        placed(Planner::Incremental),
        "s[seal] m[open] n[seal] t[open]"
    );
    assert_eq!(placed(Planner::Heuristic), "s[seal] t[open]");
    assert_eq!(placed(Planner::Exhaustive), "s[seal] t[open]");
}

#[test]
fn remedy_without_slot_moves_away() {
    let snapshot = Net::default()
        .node("s", 1)
        .node("m", 0)
        .blind("n", 3)
        .node("t", 1)
        .link("s-m", 2_000, 0)
        .link("m-n", 2_000, 0)
        .link("n-t", 2_000, 0)
        .stream(&[500], confidential());
    for planner in Planner::ALL {
        assert_eq!(
            chains(&by(planner, &snapshot)),
            "s[seal] t[open]",
            "{planner}"
        );
    }
}

#[test]
fn infeasible_plan_lists_its_breaches() {
    let snapshot = Net::default()
        .node("s", 0)
        .node("t", 0)
        .link("s~t", 2_000, 0)
        .stream(&[500], confidential());
    for planner in [
        Planner::Heuristic,
        Planner::Exhaustive,
        Planner::Incremental,
    ] {
        let policy = Policy {
            planner,
            ..Policy::default()
        };
        let (plan, shortfalls) = plan(&snapshot, &policy);
        assert!(!plan.feasible);
        let text = shortfalls[0].to_string();
        assert!(
            text.contains("has 0 adapter slots, the plan needs 1"),
            "{text}"
        );
    }
}

#[test]
fn endless_enumeration_is_rejected() {
    let mut net = Net::default().node("s", 9);
    for at in 1..30 {
        net = net.node(&format!("n{at}"), 9);
    }
    net = net.node("t", 9).link("s~n1", 10_000, 0);
    for at in 1..29 {
        let joint = if at % 2 == 0 { '~' } else { '-' };
        net = net.link(&format!("n{at}{joint}n{}", at + 1), 10_000, 0);
    }
    let snapshot = net.link("n29~t", 10_000, 0).stream(&[500], confidential());
    let policy = Policy {
        planner: Planner::Exhaustive,
        ..Policy::default()
    };
    let (plan, shortfalls) = plan(&snapshot, &policy);
    assert!(plan.path.is_empty());
    assert!(
        shortfalls[0].to_string().contains("gave up"),
        "{shortfalls:?}"
    );
    assert!(by(Planner::Heuristic, &snapshot).feasible);
}
