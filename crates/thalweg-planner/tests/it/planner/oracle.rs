//! Proves that the exact planner finds what enumeration finds: the same cost and, under the
//! tie-break, the same plan.

use thalweg_planner::model::Snapshot;
use thalweg_planner::planner::{Plan, Policy, check, plan};

use super::brute::{self, Found};
use super::worlds;

/// Number of worlds to compare, unless `THALWEG_ORACLE_WORLDS` is set: a debug test of some
/// seconds.
const WORLDS: u64 = 10_000;

fn worlds_to_compare() -> u64 {
    let asked = std::env::var("THALWEG_ORACLE_WORLDS").ok();
    asked.map_or(WORLDS, |count| count.parse().expect("a number of worlds"))
}

pub fn assert_same(seed: u64, snapshot: &Snapshot, plan: &Plan, found: &Found) {
    let context = || format!("seed {seed}: {plan:#?}\nagainst {found:#?}");
    assert!((plan.cost - found.cost).abs() <= 1e-9, "{}", context());
    let path: Vec<_> = plan.path.iter().map(ToString::to_string).collect();
    assert_eq!(path, found.path, "{}", context());
    for (node, adapters) in plan.path.iter().zip(&found.adapters) {
        let placed: Vec<_> = plan
            .adapters_at(node)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(&placed, adapters, "{}", context());
    }
    let links: Vec<_> = plan.links.iter().map(|link| link.link.0 as usize).collect();
    assert_eq!(links, found.links, "{}", context());
    assert_eq!(check(snapshot, plan), [], "{}", context());
}

#[test]
fn exact_equals_enumeration() {
    let (mut feasible, mut infeasible) = (0, 0);
    let worlds = worlds_to_compare();
    for seed in 0..worlds {
        let snapshot = worlds::random(seed);
        let (plan, shortfalls) = plan(&snapshot, &Policy::default());
        if let Some(found) = brute::best(&snapshot) {
            assert!(plan.feasible, "seed {seed}: missed {found:#?}");
            assert!(shortfalls.is_empty(), "seed {seed}");
            assert_same(seed, &snapshot, &plan, &found);
            feasible += 1;
        } else {
            assert!(!plan.feasible, "seed {seed}: {plan:#?}");
            assert!(!shortfalls.is_empty(), "seed {seed}");
            infeasible += 1;
        }
    }
    // The generator is useful only if both outcomes are frequent.
    assert!(
        feasible > worlds / 4 && infeasible > worlds / 10,
        "{feasible} and {infeasible}"
    );
}
