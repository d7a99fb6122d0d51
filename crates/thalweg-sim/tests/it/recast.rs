//! Proves that links bear one copy for any number of sinks, in the worlds of `worlds/recast`, and that streams go on whole
//! when the sink that others are fed beside leaves, when the relay that feeds them dies, and when one joins late.
//!
//! The laws are the oracle's: one copy a link outside changes, and where there is another way all that is given is delivered.

use std::ops::Range;

use thalweg_core::event::DropCause;
use thalweg_core::model::World;
use thalweg_core::time::{Duration, Instant};
use thalweg_sim::oracle::{continuity, recast};
use thalweg_sim::play::Played;
use thalweg_world::Format;

use super::worlds::run_by_law;

/// Seeds of each world.
const SEEDS: u64 = 5;

macro_rules! recast_world {
    ($name:literal) => {
        thalweg_world::load_str(
            include_str!(concat!("../../../../worlds/recast/", $name, ".toml")),
            Format::Toml,
            $name,
        )
        .expect("it is one of the repository's")
    };
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Plays a world with some seeds by all laws; outside of changes each link bears one copy.
fn plays(world: &World, changes: &[Range<Instant>], look: impl Fn(u64, &Played)) {
    for seed in 0..SEEDS {
        let played = run_by_law(world, seed);
        let doubled = recast::doubled(world, &played, changes);
        assert_eq!(doubled, [] as [&str; 0], "seed {seed}");
        look(seed, &played);
    }
}

fn stays_whole(world: &World) -> impl Fn(u64, &Played) {
    move |seed, played| {
        let broken = continuity::broken(world, &played.report);
        assert_eq!(broken, [] as [&str; 0], "seed {seed}");
    }
}

#[test]
fn three_sinks_behind_one_relay_share_the_way_to_it() {
    let world = recast_world!("fork");
    plays(&world, &[], stays_whole(&world));
}

#[test]
fn a_relay_that_watches_passes_on_what_it_has() {
    let world = recast_world!("watcher");
    plays(&world, &[], stays_whole(&world));
}

#[test]
fn every_link_of_a_tree_two_deep_bears_one_copy() {
    let world = recast_world!("tree");
    plays(&world, &[], stays_whole(&world));
}

#[test]
fn when_the_sink_of_the_base_leaves_the_others_miss_nothing() {
    let world = recast_world!("base-leaves");
    plays(&world, &[at(4_000)..at(6_500)], |seed, played| {
        for stream in played.report.streams.iter().filter(|s| s.sink != "ann") {
            let unplanned = stream.by_cause.get(DropCause::NoSubscriber.name());
            let given = stream.sent - unplanned.copied().unwrap_or(0);
            assert_eq!(stream.in_time, given, "seed {seed}: {stream:?}");
        }
    });
}

#[test]
fn when_the_relay_dies_all_its_sinks_move_and_miss_nothing() {
    let world = recast_world!("relay-crash");
    plays(&world, &[at(4_500)..at(6_500)], stays_whole(&world));
}

#[test]
fn a_relay_that_leaves_in_good_order_is_left_before_it_goes() {
    let world = recast_world!("relay-leaves");
    plays(&world, &[at(5_000)..at(5_500)], stays_whole(&world));
}

#[test]
fn who_joins_in_the_middle_costs_the_first_link_nothing() {
    let world = recast_world!("late");
    plays(&world, &[], |seed, played| {
        for stream in &played.report.streams {
            let least = if stream.sink == "bob" { 85 } else { 170 };
            assert!(stream.in_time >= least, "seed {seed}: {stream:?}");
        }
    });
}
