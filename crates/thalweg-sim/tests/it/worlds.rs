//! Proves that a world's course follows from its seed alone, that worlds of every kind have no
//! violations, and that a report adds up.

use thalweg_base::time::Duration;
use thalweg_planner::model::World;
use thalweg_sim::generate::{self, Length};
use thalweg_sim::play::{Ledgers, Options, Played, play};

/// Runs a generated world.
pub fn generated(seed: u64, length: Length) -> Played {
    run(&generate::world(seed, length), seed)
}

/// Runs a world without video.
pub fn run(world: &World, seed: u64) -> Played {
    let options = Options {
        seed,
        ledgers: Ledgers::Mended,
        ..Options::default()
    };
    let films = vec![None; world.streams.len()];
    play(world, "test", &films, options).expect("without video there is no picture to compare")
}

/// Runs a world with this seed, and asserts that it has no violations.
pub fn run_by_law(world: &World, seed: u64) -> Played {
    let played = run(world, seed);
    assert_eq!(played.report.violations, [] as [&str; 0], "seed {seed}");
    played
}

/// Trace hashes of a few seeds. They change only when what is sent or decided changes, and are the same
/// on every machine, in debug and in release builds. To renew one: `thalweg simulate --generate --seed
/// N`.
const GOLDEN: [(u64, &str); 4] = [
    (1, "dc8fcac10e0e5a6c"),
    (2, "5ed221ddcb93fc64"),
    (3, "ef09ec22168bbcb7"),
    (5, "1c07deab7b36878a"),
];

#[test]
fn golden_hashes_hold() {
    // All are run before they are compared, so that one failure names all changes.
    let played = GOLDEN.map(|(seed, _)| {
        let report = generated(seed, Length::Seconds).report;
        assert_eq!(report.violations, [] as [&str; 0], "seed {seed}");
        (seed, report.trace_hash.expect("it was played"))
    });
    let golden = GOLDEN.map(|(seed, hash)| (seed, hash.to_owned()));
    assert_eq!(played, golden);
}

/// The trace hash of a world in which a relay's processor is slow.
const GOLDEN_SLOW: &str = "3494ed1d96880354";

#[test]
fn golden_hash_of_slow_relay_holds() {
    let text = include_str!("../../../../worlds/outbox/slow-relay.toml");
    let format = thalweg_world::Format::Toml;
    let world = thalweg_world::load_str(text, format, "world").expect("a world of the repository");
    let played = run_by_law(&world, 1);
    assert_eq!(played.report.trace_hash.as_deref(), Some(GOLDEN_SLOW));
}

#[test]
fn generated_slow_nodes_drop_what_is_late() {
    for seed in [103, 135, 228, 599] {
        let world = generate::world(seed, Length::Seconds);
        let played = run_by_law(&world, seed);
        assert!(played.lagging > 0, "seed {seed}");
    }
}

#[test]
fn seed_changes_course_of_same_world() {
    let mut world = generate::world(4, Length::Seconds);
    world.length = Some(Duration::from_secs(2));
    let hash = |seed| run(&world, seed).report.trace_hash;
    assert_eq!(hash(1), hash(1));
    assert_ne!(hash(1), hash(2));
}

#[test]
fn every_adu_is_in_one_sum() {
    for seed in 10..16 {
        for stream in generated(seed, Length::Seconds).report.streams {
            let ended = stream.delivered + stream.cancelled + stream.lost;
            assert_eq!(
                (stream.sent, stream.unaccounted),
                (ended, 0),
                "seed {seed}: {stream:?}"
            );
            let caused: u64 = stream.by_cause.values().sum();
            assert_eq!(
                caused,
                stream.cancelled + stream.lost,
                "seed {seed}: {stream:?}"
            );
            let placed: u64 = stream
                .by_hop
                .values()
                .flat_map(|causes| causes.values())
                .sum();
            assert_eq!(
                placed, caused,
                "seed {seed}: every cause has its place: {stream:?}"
            );
        }
    }
}
