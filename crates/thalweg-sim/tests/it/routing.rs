//! Proves that plans follow the links' measured capacity, in the worlds of `worlds/routing`. A line
//! that falls for good is left; one that has become too long is not taken again; a noisy one is not
//! left; one that was cut is used as before; one that was slow is tried when nothing else is left; one
//! that is too slow carries what fits. An idle network is nearly silent.

use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_planner::model::World;
use thalweg_sim::play::{Options, Played, play};
use thalweg_world::Format;

use super::worlds::run_by_law;

/// Seeds of each world: they vary connection ids, keys and frames.
const SEEDS: u64 = 5;

macro_rules! routing_world {
    ($name:literal) => {
        thalweg_world::load_str(
            include_str!(concat!("../../../../worlds/routing/", $name, ".toml")),
            Format::Toml,
            $name,
        )
        .expect("a world of the repository")
    };
}

/// Returns the nodes on each plan's path, plan by plan.
fn paths(played: &Played) -> Vec<Vec<String>> {
    let path = |promise: &thalweg_sim::promise::Promise| {
        let first = promise.links.first().map(|link| link.hop.from.to_string());
        let rest = promise.links.iter().map(|link| link.hop.to.to_string());
        first.into_iter().chain(rest).collect()
    };
    played.promises.iter().map(path).collect()
}

/// Runs a world with unconfigured link rates.
fn run_unsaid(world: &World, seed: u64) -> Played {
    let options = Options {
        seed,
        is_rate_unconfigured: true,
        ..Options::default()
    };
    let films = vec![None; world.streams.len()];
    let played = play(world, "unsaid", &films, options).expect("there is no film");
    assert_eq!(played.report.violations, [] as [&str; 0], "seed {seed}");
    played
}

/// Runs a world in which the direct line is left for the relay and taken again.
fn came_back(world: &World, seed: u64) -> Played {
    let played = run_by_law(world, seed);
    let paths = paths(&played);
    let (last, before) = paths.split_last().expect("it has plans");
    assert_eq!(last[..], ["cam", "desk"], "seed {seed}");
    assert!(
        before.iter().any(|path| path.len() == 3),
        "seed {seed}: {before:?}"
    );
    played
}

/// Runs a world in which the direct line is left once for the relay; returns how many ADUs did not come.
fn left_once(world: &World, seed: u64) -> u64 {
    let played = run_by_law(world, seed);
    let [direct, detour] = &paths(&played)[..] else {
        panic!("seed {seed}: {:?}", paths(&played));
    };
    assert_eq!(direct[..], ["cam", "desk"], "seed {seed}");
    assert_eq!(detour[..], ["cam", "relay", "desk"], "seed {seed}");
    let video = &played.report.streams[0];
    video.sent - video.delivered
}

#[test]
fn fallen_line_is_left_for_good() {
    let world = routing_world!("rate-fall");
    for seed in 0..SEEDS {
        let late = left_once(&world, seed);
        // A fall is reported after 4.75 s at the latest, and the detour takes over a moment later: of
        // 25 ADUs a second those given until then may be late, and none after.
        assert!(late < 5 * 25, "seed {seed}: {late} late");
    }
}

#[test]
fn dependent_pictures_leave_fallen_line() {
    let world = routing_world!("groups");
    for seed in 0..SEEDS {
        let missing = left_once(&world, seed);
        // As above. If only queued bytes showed that a line is full, it would not be left in 29 s, and
        // half would be missing.
        assert!(missing < 5 * 25, "seed {seed}: {missing} missing");
    }
}

#[test]
fn steady_line_is_never_left() {
    let mut world = routing_world!("rate-fall");
    world.events.clear();
    for seed in 0..SEEDS {
        assert_eq!(paths(&run_by_law(&world, seed)).len(), 1, "seed {seed}");
    }
}

#[test]
fn cut_line_is_used_once_back() {
    let world = routing_world!("outage");
    for seed in 0..SEEDS {
        let played = run_by_law(&world, seed);
        let video = &played.report.streams[0];
        // Of 25 ADUs a second, from the cut until the screen behind the line is back, plus a second for
        // its new plan.
        let missing = video.sent - video.delivered;
        assert!(missing < 9 * 25, "seed {seed}: {missing} missing");
    }
}

#[test]
fn too_long_line_is_not_retaken() {
    let world = routing_world!("delay-rise");
    for seed in 0..SEEDS {
        let late = left_once(&world, seed);
        assert!(late < 25, "seed {seed}: {late} late");
    }
}

#[test]
fn briefly_long_line_is_retaken() {
    let mut world = routing_world!("delay-rise");
    let rise = world.events[0].clone();
    let mut fall = rise.clone();
    fall.time = rise.time + Duration::from_secs(1);
    if let thalweg_planner::model::Change::Link { set, .. } = &mut fall.change {
        set.delay = Some(Duration::from_millis(10));
    }
    world.events.push(fall);
    for seed in 0..SEEDS {
        let paths = paths(&run_by_law(&world, seed));
        assert_eq!(
            paths.last().expect("a plan")[..],
            ["cam", "desk"],
            "seed {seed}: {paths:?}"
        );
    }
}

#[test]
fn noise_changes_no_plan() {
    let world = routing_world!("noise");
    assert!(world.events.len() > 100 && world.length() > Duration::from_secs(20));
    for seed in 0..SEEDS {
        let paths = paths(&run_by_law(&world, seed));
        assert_eq!(paths.len(), 1, "seed {seed}: {paths:?}");
    }
}

#[test]
fn once_slow_line_is_last_resort() {
    let world = routing_world!("mended");
    for seed in 0..SEEDS {
        let played = run_unsaid(&world, seed);
        let [first, detour, last] = &paths(&played)[..] else {
            panic!("seed {seed}: {:?}", paths(&played));
        };
        assert_eq!(first[..], ["cam", "desk"], "seed {seed}");
        assert_eq!(detour[..], ["cam", "relay", "desk"], "seed {seed}");
        assert_eq!(last, first, "seed {seed}");
        // The cost of the fall; after the relay's crash only ADUs in flight are lost.
        let video = &played.report.streams[0];
        let missing = video.sent - video.delivered;
        assert!(missing < 6 * 25, "seed {seed}: {missing} missing");
    }
}

#[test]
fn slow_line_untried_beside_another() {
    let mut world = routing_world!("mended");
    // Without the crash, and then without the recovery either.
    for end in [50, 19].map(Duration::from_secs) {
        world.events.retain(|event| event.time < end);
        for seed in 0..SEEDS {
            let paths = paths(&run_unsaid(&world, seed));
            assert_eq!(paths.len(), 2, "seed {seed}: {paths:?}");
        }
    }
}

#[test]
fn too_slow_line_carries_important() {
    let world = routing_world!("too-slow");
    // The same world without its later part: the difference is what came after the screen was restarted.
    let mut before = world.clone();
    before
        .events
        .retain(|event| event.time < Duration::from_secs(13));
    for seed in 0..SEEDS {
        let [all, first] = [&world, &before].map(|world| {
            let played = run_unsaid(world, seed);
            played.report.streams[0].delivered
        });
        // Half of 25 ADUs a second would fit for eleven seconds.
        assert!(all - first > 80, "seed {seed}: {first} and {all}");
    }
}

/// Returns the bytes that crossed each direction of each link of a world until its end.
fn bytes_of_lines(world: &World) -> Vec<u64> {
    let report = run_by_law(world, 1).report;
    report.links.iter().map(|link| link.bytes).collect()
}

#[test]
fn idle_nodes_take_under_one_percent() {
    // Each has two neighbours on a ring and two across it.
    let nodes = 0..12;
    let names = nodes.clone().map(|at| format!("[node.n{at}]\n"));
    let ends = nodes.flat_map(|at| [1, 5].map(|far| (at, (at + far) % 12)));
    let links = ends.map(|(a, b)| {
        format!("[[link]]\nends = [\"n{a}\", \"n{b}\"]\nrate = \"150 kbit/s\"\ndelay = \"20 ms\"\n")
    });
    let start = String::from("length = \"120 s\"\n");
    let text: String = std::iter::once(start).chain(names).chain(links).collect();
    let mut world = thalweg_world::load_str(&text, Format::Toml, "rest").expect("it is a world");
    let begun = bytes_of_lines(&world);
    let rest = Duration::from_secs(600);
    world.length = Some(world.length() + rest);
    let ended = bytes_of_lines(&world);
    assert_eq!(ended.len(), 2 * 24);
    for (begun, ended) in begun.into_iter().zip(ended) {
        // All traffic with UDP and IP headers: records, keep-alives, and acknowledgements.
        let taken = DataSize::from_bytes(ended - begun) / rest;
        assert!(taken < Bitrate::from_bps(150_000 / 100), "{taken} at rest");
    }
}

#[test]
fn returning_stream_keeps_window() {
    let world = routing_world!("return");
    for seed in 0..SEEDS {
        let played = came_back(&world, seed);
        let video = &played.report.streams[0];
        // Losses at the start, before the line is measured, and during an outage that is not yet detected.
        let lost = video.sent - video.in_time;
        assert!(lost <= 24, "seed {seed}: {lost} ADUs");
        assert!(!video.by_cause.contains_key("oversized"), "seed {seed}");
    }
}

#[test]
fn new_link_starts_at_old_rate() {
    let world = routing_world!("reconnected");
    for seed in 0..SEEDS {
        let played = came_back(&world, seed);
        let video = &played.report.streams[0];
        // Losses at the start, before the line is measured, and during an outage that is not yet detected.
        let lost = video.sent - video.delivered;
        assert!(lost <= 80, "seed {seed}: {lost} ADUs");
    }
}
