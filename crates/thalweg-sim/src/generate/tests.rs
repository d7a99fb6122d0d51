//! Proves that every made-up world is sound, that a seed makes one world, and that the kinds that are promised occur.

use std::collections::BTreeSet;

use thalweg_core::model::Change;

use super::world;

#[test]
fn every_world_is_sound_and_runs_for_a_few_seconds() {
    for seed in 0..2_000 {
        let world = world(seed);
        assert_eq!(world.faults(), [], "seed {seed}");
        assert!(
            (2..=6).contains(&(world.length().as_millis() / 1_000)),
            "seed {seed}"
        );
    }
}

#[test]
fn a_seed_makes_one_world_and_another_makes_another() {
    assert_eq!(world(7), world(7));
    assert_ne!(world(7), world(8));
}

#[test]
fn every_combination_of_needs_and_every_event_occurs() {
    let (mut needs, mut events, mut sizes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for world in (0..1_000).map(world) {
        sizes.insert(world.nodes.len());
        for stream in &world.streams {
            let n = stream.needs;
            needs.insert(format!(
                "{:?} {:?} {} {}",
                n.reliability,
                n.order,
                n.confidential,
                n.deadline.is_never()
            ));
        }
        for event in world.events {
            events.insert(match event.change {
                Change::Link { set, .. } => format!("{:?} {:?}", set.up, set.rate.is_some()),
                Change::Node { action, .. } => format!("{action:?}"),
            });
        }
    }
    assert_eq!(needs.len(), 4 * 2 * 2 * 2);
    assert_eq!(
        sizes.into_iter().collect::<Vec<_>>(),
        (2..=8).collect::<Vec<_>>()
    );
    assert_eq!(events.len(), 4 + 3, "{events:?}");
}
