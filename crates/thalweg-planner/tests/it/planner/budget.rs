//! Planning with a limit: with enough time the result is the exact plan, and plan and bound hold
//! wherever it stops.

use thalweg_planner::planner::{Bounded, Policy, check, plan, plan_until};

use super::worlds;

/// Plans a world and stops at the `asked`th poll.
fn within(snapshot: &thalweg_planner::model::Snapshot, asked: u32) -> Bounded {
    let mut left = asked;
    plan_until(snapshot, &Policy::default(), &mut || {
        left = left.saturating_sub(1);
        left == 0
    })
}

#[test]
fn unlimited_time_finds_exact_plan() {
    for seed in 0..1_000 {
        let world = worlds::random(seed);
        let (best, shortfalls) = plan(&world, &Policy::default());
        let found = plan_until(&world, &Policy::default(), &mut || false);
        assert!(found.proven, "seed {seed}");
        assert_eq!(
            found.bound,
            best.feasible.then_some(best.cost),
            "seed {seed}"
        );
        assert_eq!(
            (found.plan, found.shortfalls),
            (best, shortfalls),
            "seed {seed}"
        );
    }
}

#[test]
fn plan_and_bound_hold_at_any_stop() {
    let (mut open, mut closed) = (0, 0);
    for seed in 0..60 {
        let world = worlds::mesh(seed, 150);
        let (best, _) = plan(&world, &Policy::default());
        for asked in [1, 2, 3, 4, 6, 10, 20, 40] {
            let found = within(&world, asked);
            if found.plan.feasible {
                assert_eq!(check(&world, &found.plan), [], "seed {seed}");
                assert!(found.plan.cost >= best.cost - 1e-9, "seed {seed}");
            }
            assert_eq!(
                found.plan.feasible,
                found.shortfalls.is_empty(),
                "seed {seed}"
            );
            match found.bound {
                Some(bound) if best.feasible => {
                    assert!(
                        bound <= best.cost + 1e-9,
                        "seed {seed}: {bound} above {}",
                        best.cost
                    );
                }
                Some(_) => assert!(!found.proven, "seed {seed}"),
                None => assert!(found.proven && !best.feasible, "seed {seed}"),
            }
            if found.proven && best.feasible {
                assert!((found.plan.cost - best.cost).abs() <= 1e-9, "seed {seed}");
                assert_eq!(found.gap(), Some(0.0), "seed {seed}");
            }
            let count = if found.proven { &mut closed } else { &mut open };
            *count += 1;
        }
    }
    assert!(
        open > 100 && closed > 50,
        "{open} were stopped, {closed} were not"
    );
}
