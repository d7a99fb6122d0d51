//! Replanning: the steps lead to the new plan and are minimal, a plan is kept unless a change pays,
//! a change that cannot matter needs no planning, and reused bounds find the same plan as planning
//! from scratch.

use proptest::prelude::*;
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, Ratio};
use thalweg_planner::model::{Adapter, LinkIndex, Snapshot, Topology};
use thalweg_planner::planner::{
    FoundBy, Plan, Policy, Replanner, Step, Switching, Verdict, diff, plan, reconsider, stays_best,
};

use super::cases::{Net, path};
use super::worlds::{self, Rng};

fn solve(snapshot: &Snapshot) -> Plan {
    plan(snapshot, &Policy::default()).0
}

/// Applies the steps on a node's chain: stops from the back, then starts from the front.
fn changed(chain: &[Adapter], node: &str, steps: &[Step]) -> Vec<Adapter> {
    let mut chain = chain.to_vec();
    for step in steps.iter().rev() {
        match step {
            Step::Stop { node: here, at, .. } if here.as_str() == node => {
                chain.remove(*at);
            }
            _ => {}
        }
    }
    for step in steps {
        match step {
            Step::Start {
                node: here,
                adapter,
                at,
            } if here.as_str() == node => {
                chain.insert(*at, *adapter);
            }
            _ => {}
        }
    }
    chain
}

/// Returns the same world with one link changed.
fn with_one_link_changed(before: &Snapshot, rng: &mut Rng) -> (Snapshot, LinkIndex) {
    let mut after = before.clone();
    let at = rng.below(before.topology.links().len());
    let link = &mut after.topology.links_mut()[at];
    match rng.below(5) {
        0 => link.rate = Bitrate::from_kbps(rng.pick(&[60, 100, 300, 1_000])),
        1 => link.delay = Duration::from_millis(rng.pick(&[0, 10, 60])),
        2 => link.up = !link.up,
        3 => link.loss = Ratio::new(rng.pick(&[0.0, 0.02, 0.2])).expect("a share"),
        _ => link.secure = !link.secure,
    }
    (after, LinkIndex(at as u32))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn steps_turn_old_plan_into_new(seed: u64) {
        let before = worlds::random(seed);
        let (after, _) = with_one_link_changed(&before, &mut Rng::new(!seed));
        let (old, new) = (solve(&before), solve(&after));
        let steps = diff(&old, &new);
        prop_assert_eq!(steps.is_empty(), old.path == new.path && old.placements == new.placements
            && old.links.iter().map(|link| link.link).eq(new.links.iter().map(|link| link.link)));
        for node in &new.path {
            let chain = changed(old.adapters_at(node), node.as_str(), &steps);
            prop_assert_eq!(&chain[..], new.adapters_at(node));
        }
        prop_assert!(diff(&new, &new).is_empty());
    }

    #[test]
    fn irrelevant_change_needs_no_plan(seed: u64) {
        let before = worlds::random(seed);
        let old = solve(&before);
        let (after, link) = with_one_link_changed(&before, &mut Rng::new(!seed));
        let [was, is] = [&before, &after].map(|snapshot| snapshot.topology.link(link));
        if stays_best(&old, link, was, is) {
            prop_assert_eq!(old, solve(&after));
        }
    }
}

/// Changes some links, or now and then a node, of a world.
fn change(world: &mut Snapshot, rng: &mut Rng) {
    for _ in 0..=rng.below(2) * rng.below(3) {
        let (after, _) = with_one_link_changed(world, rng);
        *world = after;
    }
    if !rng.chance(15) {
        return;
    }
    let mut topology = Topology::default();
    let chosen = rng.below(world.topology.nodes().len());
    for (at, place) in world.topology.nodes().iter().enumerate() {
        let (slots, trusted) = match (at == chosen, rng.chance(50)) {
            (true, true) => (rng.below(4) as u32, place.trusted),
            (true, false) => (u32::from(place.slots), !place.trusted),
            _ => (u32::from(place.slots), place.trusted),
        };
        topology.add_node(place.name.clone(), slots, trusted);
    }
    for edge in world.topology.links() {
        topology.add_link(*edge);
    }
    world.topology = topology;
}

/// Follows a world through changes and compares each plan with one from scratch; returns how the
/// plans were found.
fn follow(world: &mut Snapshot, rng: &mut Rng, changes: usize) -> Vec<FoundBy> {
    if rng.chance(50) {
        world.stream.needs.loss_max = Ratio::new(0.1).expect("a share");
    }
    let mut replanner = Replanner::new(Policy::default());
    let mut ways = Vec::new();
    for step in 0..=changes {
        let fresh = plan(world, &Policy::default());
        assert_eq!(replanner.plan(world), fresh, "after {step} changes");
        ways.push(replanner.way());
        change(world, rng);
    }
    ways
}

#[test]
fn replanner_matches_fresh_plan() {
    let mut ways = Vec::new();
    for seed in 0..1_000 {
        let mut rng = Rng::new(!seed);
        ways.extend(follow(&mut worlds::random(seed), &mut rng, 10));
    }
    for seed in 0..30 {
        let mut rng = Rng::new(!seed);
        ways.extend(follow(&mut worlds::mesh(seed, 60), &mut rng, 30));
    }
    // The test is useful only if every way occurs often.
    for way in [
        FoundBy::FromScratch,
        FoundBy::Kept,
        FoundBy::Bounded,
        FoundBy::Searched,
    ] {
        let taken = ways.iter().filter(|taken| **taken == way).count();
        assert!(
            taken > ways.len() / 100,
            "{way:?}: {taken} of {}",
            ways.len()
        );
    }
}

fn two_ways(slow_kbps: u64) -> Snapshot {
    Net::default()
        .node("s", 0)
        .node("x", 0)
        .node("y", 0)
        .node("t", 0)
        .link("s-x", 1_000, 0)
        .link("x-t", slow_kbps, 0)
        .link("s-y", 1_000, 0)
        .link("y-t", 900, 0)
        .stream(&[500], Needs::default())
}

#[test]
fn plan_is_kept_unless_change_pays() {
    let old = solve(&two_ways(1_000));
    assert_eq!(path(&old), "s x t");
    let policy = Policy::default();
    // The other path is cheaper by 500/510 − 500/900 = 0.425; changing takes four steps.
    let now = two_ways(510);
    let within = |session| Switching {
        session,
        ..Switching::default()
    };
    let short = reconsider(&now, &old, &policy, &within(Duration::from_secs(9)));
    assert!(matches!(short, Verdict::Keep { .. }), "{short:?}");
    let long = reconsider(&now, &old, &policy, &within(Duration::from_secs(10)));
    let Verdict::Replace { plan, steps, .. } = long else {
        panic!("{long:?}");
    };
    assert_eq!(path(&plan), "s y t");
    let printed: Vec<_> = steps.iter().map(ToString::to_string).collect();
    assert_eq!(
        printed,
        ["y joins", "y sends to t", "s sends to y", "x leaves"]
    );
}

#[test]
fn broken_plan_is_replaced_at_once() {
    let old = solve(&two_ways(1_000));
    let dear = Switching {
        step: 1e9,
        ..Switching::default()
    };
    let verdict = reconsider(&two_ways(100), &old, &Policy::default(), &dear);
    assert!(matches!(verdict, Verdict::Replace { .. }), "{verdict:?}");
    let same = reconsider(&two_ways(1_000), &old, &Policy::default(), &dear);
    assert!(matches!(same, Verdict::Keep { .. }), "{same:?}");
}
