//! Proves that the oracle's worlds are valid, reproducible, and of the promised kinds.

use thalweg_base::time::Duration;
use thalweg_planner::planner::{Policy, plan};

use super::{world, worlds};

#[test]
fn seed_makes_same_valid_world() {
    for seed in 0..300 {
        let (text, _) = world(seed, None).expect("a generated world is valid");
        assert_eq!(text, world(seed, None).expect("it was just made").0);
        let nodes = worlds::world(seed, None).expect("as above").nodes.len();
        assert!((10..=30).contains(&nodes), "seed {seed}: {nodes} nodes");
    }
}

#[test]
fn requested_size_is_kept() {
    for nodes in [2, 10, 50] {
        let made = worlds::world(7, Some(nodes)).expect("any size can be generated");
        assert_eq!(made.nodes.len(), nodes);
    }
}

#[test]
fn most_worlds_have_plans() {
    let (mut planned, mut late, mut bound) = (0, 0, 0);
    for seed in 0..100 {
        let (_, mut snapshot) = world(seed, None).expect("a generated world is valid");
        let (best, _) = plan(&snapshot, &Policy::default());
        planned += usize::from(best.feasible);
        if snapshot.stream.needs.deadline == Duration::NEVER {
            continue;
        }
        late += 1;
        snapshot.stream.needs.deadline = Duration::NEVER;
        let (free, _) = plan(&snapshot, &Policy::default());
        bound += usize::from(!best.feasible || best.cost > free.cost + 1e-9);
    }
    assert!(planned > 70 && planned < 100, "{planned} have a plan");
    assert!(late > 20 && late < 50, "{late} have a deadline");
    assert!(bound > 5, "{bound} deadlines bind");
}
