//! Proves that links carry one copy for any number of sinks, in the worlds of `worlds/recast`, and that
//! streams stay whole when the base plan's sink leaves and when the copying relay dies. A sink that
//! joins late begins with the newest key picture.
//!
//! The laws are the oracle's: one copy per link outside changes, and where there is another path every
//! given ADU is delivered.

use std::ops::Range;

use thalweg_base::event::DropCause;
use thalweg_base::needs::{Order, Reliability};
use thalweg_base::time::{Duration, Instant};
use thalweg_planner::model::World;
use thalweg_sim::oracle::{continuity, recast};
use thalweg_sim::play::{Options, Played, play};
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
        .expect("a world of the repository")
    };
}

fn place(world: &World, name: &str) -> usize {
    let mut nodes = world.nodes.keys();
    let place = nodes.position(|node| node.as_str() == name);
    place.expect("it is in the world")
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Runs a world with some seeds; outside of changes each link must carry one copy.
fn plays(world: &World, changes: &[Range<Instant>], look: impl Fn(u64, &Played)) {
    for seed in 0..SEEDS {
        let played = run_by_law(world, seed);
        let doubled = recast::doubled(world, &played.doubled, changes);
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
fn sinks_share_link_to_relay() {
    let world = recast_world!("fork");
    plays(&world, &[], stays_whole(&world));
}

/// Returns the world of a camera and this many sinks behind one relay.
fn crowd(sinks: usize) -> World {
    let names: Vec<String> = (0..sinks).map(|sink| format!("s{sink}")).collect();
    let line = |ends: [&str; 2], rate: &str| {
        let [a, b] = ends;
        format!("[[link]]\nends = [\"{a}\", \"{b}\"]\nrate = \"{rate}\"\ndelay = \"5 ms\"\n")
    };
    let mut text = String::from("length = \"5 s\"\n[node.cam]\n[node.hub]\n");
    text.extend(names.iter().map(|name| format!("[node.{name}]\n")));
    text += &line(["cam", "hub"], "3 Mbit/s");
    text.extend(names.iter().map(|name| line(["hub", name], "10 Mbit/s")));
    let stream = format!(
        "[[stream]]\nname = \"video\"\nfrom = \"cam\"\nto = {names:?}\npack_ratio = 1.0\n\
         layers = [{{ rate = \"1 Mbit/s\", utility = 1.0 }}]\nneeds = {{ deadline = \"1 s\" }}\n\
         traffic = {{ frames = 10.0, start = \"1 s\", stop = \"2500 ms\" }}\n"
    );
    text += &stream;
    thalweg_world::load_str(&text, Format::Toml, "crowd").expect("it is right")
}

#[test]
fn two_hundred_sinks_cost_one_copy() {
    let world = crowd(200);
    let played = run_by_law(&world, 0);
    let doubled = recast::doubled(&world, &played.doubled, &[]);
    assert_eq!(doubled, [] as [&str; 0]);
    assert_eq!(played.report.streams.len(), 200);
    stays_whole(&world)(0, &played);
}

#[test]
fn slow_sink_delays_no_repaired_sink() {
    let world = recast_world!("slow-sink");
    let of = |played: &Played, sink: &str| {
        let mut streams = played.report.streams.iter();
        let stream = streams.find(|stream| stream.sink == sink);
        stream.expect("it is a sink").clone()
    };
    plays(&world, &[], |seed, played| {
        let [ann, eve] = ["ann", "eve"].map(|sink| of(played, sink));
        assert_eq!(ann.delivered, ann.sent, "seed {seed}: {ann:?}");
        assert!(ann.latency_ms.p99 < Some(100.0), "seed {seed}: {ann:?}");
        let dropped = eve.by_cause.get(DropCause::Overflow.name());
        let dropped = dropped.copied().unwrap_or(0);
        assert!(dropped > 0, "seed {seed}: {eve:?}");
        assert_eq!(eve.delivered + dropped, eve.sent, "seed {seed}: {eve:?}");
    });
    // A stream of full reliability delays the fast sink and crosses the first link twice.
    let mut whole = world;
    whole.streams[0].needs.reliability = Reliability::Full;
    let played = run_by_law(&whole, 0);
    let [ann, eve] = ["ann", "eve"].map(|sink| of(&played, sink));
    assert_eq!((ann.delivered, eve.delivered), (ann.sent, eve.sent));
    assert!(ann.latency_ms.p99 > Some(1_000.0), "{ann:?}");
}

#[test]
fn subscribing_relay_forwards() {
    let world = recast_world!("watcher");
    plays(&world, &[], stays_whole(&world));
}

#[test]
fn tree_links_carry_one_copy() {
    let world = recast_world!("tree");
    plays(&world, &[], stays_whole(&world));
}

#[test]
fn base_sink_leave_costs_nothing() {
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
fn relay_crash_moves_all_sinks() {
    let world = recast_world!("relay-crash");
    plays(&world, &[at(4_500)..at(6_500)], stays_whole(&world));
}

#[test]
fn sink_relay_crash_delays_no_sink_behind() {
    let world = recast_world!("watcher-crash");
    plays(&world, &[at(4_500)..at(10_000)], |seed, played| {
        let desk = played.report.streams.iter().find(|s| s.sink == "desk");
        let desk = desk.expect("it is in the world");
        assert_eq!(desk.in_time, desk.sent, "seed {seed}: {desk:?}");
        let latest = desk.latency_ms.max.expect("some came");
        assert!(latest < 350.0, "seed {seed}: {latest} ms");
    });
}

#[test]
fn leaving_relay_is_drained() {
    let world = recast_world!("relay-leaves");
    plays(&world, &[at(5_000)..at(5_500)], stays_whole(&world));
}

#[test]
fn narrower_plan_doubles_no_slow_link() {
    let world = recast_world!("narrower");
    // From when the new plan takes over to the end: it filters layers at the source, so the first link
    // carries both.
    plays(&world, &[at(12_000)..at(30_000)], |seed, played| {
        let [hub, eve] = ["hub", "eve"].map(|name| place(&world, name));
        let doubled = played.doubled.iter();
        let doubled = doubled.filter(|doubled| doubled.link == [hub, eve]).count();
        assert_eq!(doubled, 0, "seed {seed}");
        let eve = played.report.streams.iter().find(|s| s.sink == "eve");
        let eve = eve.expect("it is in the world");
        let filtered = eve.by_cause.get(DropCause::Filtered.name());
        let filtered = filtered.copied().unwrap_or(0);
        assert!(filtered > 0, "seed {seed}: {eve:?}");
        assert_eq!(eve.in_time + filtered, eve.sent, "seed {seed}: {eve:?}");
    });
}

#[test]
fn late_join_costs_first_link_nothing() {
    let world = recast_world!("late");
    plays(&world, &[], |seed, played| {
        for stream in &played.report.streams {
            let least = if stream.sink == "bob" { 85 } else { 170 };
            assert!(stream.in_time >= least, "seed {seed}: {stream:?}");
        }
    });
}

/// Returns the ADUs that a node's subscriber received since its last start, each with the time in seconds.
fn given_since_start(text: &str, node: &str) -> Vec<(f64, u64)> {
    let mut given = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [_, at, "start", ..] if at == node => given.clear(),
            [time, at, "delivered", _, sequence, ..] if at == node => {
                let sequence = sequence.trim_start_matches("sequence=").parse();
                let time = time.parse().expect("it is in seconds");
                given.push((time, sequence.expect("it is a number")));
            }
            _ => {}
        }
    }
    given
}

#[test]
fn late_join_begins_with_key_picture() {
    const JOINED: f64 = 3.2;
    let world = recast_world!("join");
    for order in [Order::Sequence, Order::Importance] {
        let mut world = world.clone();
        world.streams[0].needs.order = order;
        plays(&world, &[], |_, _| {});
        let options = Options {
            is_text_wanted: true,
            ..Options::default()
        };
        let played = play(&world, "join", &[None], options).expect("there is no film");
        let text = played.text.expect("it was wanted");
        for sink in ["bob", "eve"] {
            let given = given_since_start(&text, sink);
            let mut sequences: Vec<u64> = given.iter().map(|(_, sequence)| *sequence).collect();
            sequences.sort_unstable();
            let all: Vec<u64> = (50..175).collect();
            assert_eq!(sequences, all, "{sink}: pictures 50 and 100 are keys");
            let after = |key| {
                let mut given = given.iter();
                let (time, _) = given.find(|(_, sequence)| *sequence == key)?;
                Some(1_000.0 * (time - JOINED))
            };
            let (first, next) = (after(50).expect("given"), after(100).expect("given"));
            println!(
                "{order:?}: {sink} had a key picture after {first:.0} ms, the next after {next:.0} ms"
            );
            assert!(first < next / 4.0, "{sink}: {first} ms and {next} ms");
        }
        for stream in &played.report.streams {
            assert_eq!(stream.replayed > 0, stream.sink != "ann", "{stream:?}");
        }
    }
}

#[test]
fn stalled_recorder_delays_no_viewer() {
    let world = recast_world!("stalled");
    // One seed only: 26,000 ADUs take a while in a debug build.
    for seed in 0..1 {
        let played = run_by_law(&world, seed);
        let [samples, live] = &played.report.streams[..] else {
            panic!("the world has two streams")
        };
        assert_eq!(live.in_time, live.sent, "seed {seed}");
        assert_eq!(samples.delivered, samples.sent, "seed {seed}");
        // The source waits once its store is full, 16 s after the recorder's mailbox is.
        let waited = samples.latency_ms.max;
        assert!(waited > Some(2_000.0), "{waited:?}, seed {seed}");
    }
}

#[test]
fn killed_publisher_starts_again_at_once() {
    let world = recast_world!("republish");
    for seed in 0..2 {
        let played = run_by_law(&world, seed);
        for stream in &played.report.streams {
            // The simulator's publisher does not keep a stream's opening: what it gives before its
            // first plan is lost, and told.
            let unplanned = stream.by_cause.get("no-subscriber").copied().unwrap_or(0);
            let most = if stream.sink == "desk" { 100 } else { 600 };
            assert!(unplanned < most, "{stream:?}, seed {seed}");
            // What has a deadline cannot wait for the frozen recorder.
            if stream.stream.as_str() == "cam/samples" || stream.sink == "desk" {
                assert_eq!(stream.delivered + unplanned, stream.sent, "{stream:?}");
            }
        }
    }
}
