//! Proves that every generated world is sound, that a seed makes one world, and that the kinds that
//! are promised occur.

use std::collections::BTreeSet;

use thalweg_planner::model::Change;

use super::{Length, world};

#[test]
fn every_world_is_sound_and_runs_for_seconds_or_a_minute() {
    for seed in 0..2_000 {
        for (length, seconds) in [(Length::Seconds, 2..=6), (Length::Minute, 60..=100)] {
            let world = world(seed, length);
            assert_eq!(world.faults(), [], "seed {seed}");
            let is_as_long = seconds.contains(&(world.length().as_millis() / 1_000));
            assert!(is_as_long, "seed {seed}: {}", world.length());
        }
    }
}

#[test]
fn a_seed_makes_one_world_and_another_makes_another() {
    for length in [Length::Seconds, Length::Minute] {
        assert_eq!(world(7, length), world(7, length));
        assert_ne!(world(7, length), world(8, length));
    }
}

#[test]
fn every_combination_of_needs_and_every_event_occurs() {
    let (mut needs, mut events, mut sizes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut copy_times = BTreeSet::new();
    for world in (0..1_000).map(|seed| world(seed, Length::Seconds)) {
        sizes.insert(world.nodes.len());
        copy_times.extend(world.nodes.values().map(|node| node.copy_time));
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
    assert_eq!(copy_times.len(), 1 + 6, "{copy_times:?}");
    assert_eq!(events.len(), 4 + 8, "{events:?}");
}
