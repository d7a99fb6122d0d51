//! Proves that a plan moves the bytes that it predicted, within 2 % on every link, and shows no
//! plaintext where none may be seen.
//!
//! *How.* Worlds without losses, events and nearly full links, so that only the plan decides what is
//! carried. The ADUs given while a plan was in force span a known number of frames, and so a known
//! time; the bytes handed to each link over that time are compared with the plan's rate of that link.
//! The ratios ρ and ε, inputs of the planner, are true in these worlds: payloads pack to ρ, and ε is
//! what sealing adds to ADUs of their size.
//!
//! The run's own oracles check secrecy, and that every ADU is in the state that its plan says.

use std::collections::BTreeMap;
use std::path::Path;

use thalweg_base::needs::{Needs, Order, Reliability};
use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_planner::model::{Layer, Link, Node, NodeName, Stream, Traffic, Weights, World};
use thalweg_planner::planner::{Policy, plan};
use thalweg_sim::promise::{Carried, Promise};
use thalweg_world::{Format, load_str};

use crate::worlds::run;

/// Number of generated worlds; two in three have a plan with room to spare.
const WORLDS: u64 = 320;

/// Minimum number of worlds that can be judged.
const JUDGED_MIN: usize = 200;

/// Maximum relative deviation of the carried bytes from the prediction.
const TOLERANCE: f64 = 0.02;

/// Bytes that sealing adds to a payload: a tag of 16 bytes and a trailer of 11 (docs/reference/protocol.md
/// §3.4)
/// while fewer than 64 ADUs have been sealed, and one more after.
const SEAL_BYTES: f64 = 27.5;

fn pick<T: Copy>(rng: &mut SplitMix, from: &[T]) -> T {
    from[rng.next_below(from.len() as u64) as usize]
}

/// Returns a small world with one stream, and links that are fast or have room for part of it.
fn world(seed: u64) -> World {
    let rng = &mut SplitMix::new(seed);
    let names: Vec<NodeName> = (1..=2 + rng.next_below(4))
        .map(|number| format!("n{number}").parse().expect("a letter and a digit"))
        .collect();
    let (stream, seal_overhead) = stream(&names, rng);
    let whole: u64 = stream.layers.iter().map(|layer| layer.rate.as_bps()).sum();
    let mut pairs: Vec<[usize; 2]> = (1..names.len()).map(|at| [at - 1, at]).collect();
    if names.len() > 2 && rng.next_below(2) == 0 {
        pairs.push([
            names.len() - 1,
            rng.next_below(names.len() as u64 - 2) as usize,
        ]);
    }
    let link = |[a, b]: [usize; 2]| {
        let percent = pick(rng, &[1_000, 1_000, 1_000, 115, 90, 60, 35]);
        Link {
            delay: Duration::from_millis(1 + rng.next_below(15)),
            secure: rng.next_below(3) > 0,
            queue: DataSize::from_kib(1_024),
            ..Link::new(
                [names[a].clone(), names[b].clone()],
                Bitrate::from_bps(whole * percent / 100),
            )
        }
    };
    let links = pairs.into_iter().map(link).collect();
    let is_end = |name: &NodeName| *name == stream.from || stream.to.contains(name);
    let node = |name: &NodeName| {
        let node = Node {
            slots: pick(rng, &[1, 2, 3, 16]),
            trusted: is_end(name) || rng.next_below(3) > 0,
            ..Node::default()
        };
        (name.clone(), node)
    };
    let nodes: BTreeMap<NodeName, Node> = names.iter().map(node).collect();
    World {
        length: Some(Duration::from_millis(1_600)),
        nodes,
        links,
        streams: vec![stream],
        weights: Weights {
            seal_overhead,
            ..Weights::default()
        },
        ..World::default()
    }
}

/// Returns a stream, and the ε of its ADUs.
fn stream(names: &[NodeName], rng: &mut SplitMix) -> (Stream, f64) {
    let pack_ratio = pick(rng, &[1.0, 1.0, 0.75, 0.5]);
    // Sizes leave room for a seal in the last packet. If sealing may follow packing they are long
    // enough that it hardly matters to which of the two sizes the seal adds.
    let sizes: &[u64] = if pack_ratio < 1.0 {
        &[2_700, 5_500]
    } else {
        &[200, 500, 1_300, 2_700]
    };
    let bytes = pick(rng, sizes);
    let frames = pick(rng, &[5, 10, 20]);
    let layer = Layer {
        rate: Bitrate::from_bps(8 * bytes * frames),
        utility: 0.0,
    };
    let count = 1 + rng.next_below(3) as usize;
    let utility = 1.0 / count as f64;
    let reliability = [
        Reliability::None,
        Reliability::UntilDeadline,
        Reliability::Full,
    ];
    let stream = Stream {
        name: "s".parse().expect("a letter"),
        from: names[0].clone(),
        to: vec![names[names.len() - 1].clone()],
        layers: vec![Layer { utility, ..layer }; count],
        needs: Needs {
            confidential: rng.next_below(2) == 0,
            reliability: pick(rng, &reliability),
            order: pick(rng, &[Order::Importance, Order::Sequence]),
            ..Needs::default()
        },
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: Some(pack_ratio),
        seal_overhead: None,
        traffic: Traffic {
            frames: frames as f64,
            ..Traffic::default()
        },
    };
    (stream, SEAL_BYTES / bytes as f64)
}

/// Returns the time span of the ADUs given under a promise, in seconds.
fn seconds(world: &World, promise: &Promise) -> f64 {
    let stream = &world.streams[promise.stream];
    promise.given as f64 / stream.layers.len() as f64 / stream.traffic.frames
}

fn carried_bps(world: &World, promise: &Promise, link: &Carried) -> f64 {
    link.bytes as f64 * 8.0 / seconds(world, promise)
}

/// Returns the plan's share of its fullest link.
fn fullest(world: &World, promise: &Promise) -> f64 {
    let share = |link: &Carried| {
        let ends = [&link.hop.from, &link.hop.to];
        let joins = |road: &&Link| ends.iter().all(|end| road.ends.contains(end));
        let road = world
            .links
            .iter()
            .find(joins)
            .expect("plans are made of links");
        link.hop.rate_bps / road.rate.as_bps() as f64
    };
    promise.links.iter().map(share).fold(0.0, f64::max)
}

#[test]
fn plan_moves_predicted_bytes() {
    let (mut judged, mut sealed, mut packed, mut kept) = (0, 0, 0, 0);
    for seed in 0..WORLDS {
        let world = world(seed);
        assert_eq!(world.faults(), [], "seed {seed}");
        let name = &world.streams[0].name;
        let snapshot = world.snapshot(name).expect("it is its stream");
        let (plan, _) = plan(&snapshot, &Policy::default());
        if !plan.feasible {
            continue;
        }
        let played = run(&world, seed);
        assert_eq!(played.report.violations, [] as [&str; 0], "seed {seed}");
        let [promise] = &played.promises[..] else {
            // It was replanned, because the measured links have changed.
            continue;
        };
        // Control frames and QUIC's acknowledgements are not part of a plan.
        if fullest(&world, promise) > 0.9 {
            continue;
        }
        judged += 1;
        for link in &promise.links {
            let (predicted, carried) = (link.hop.rate_bps, carried_bps(&world, promise, link));
            let off = carried / predicted - 1.0;
            let context = || format!("seed {seed}: {off:+.4} at {link:?} of {world:?}");
            assert!(off.abs() <= TOLERANCE, "{}", context());
            sealed += u32::from(link.hop.sealed);
            packed += u32::from(link.hop.packed);
            kept += u32::from(usize::from(link.hop.layers) < world.streams[0].layers.len());
        }
    }
    println!("{judged} worlds; links: {sealed} sealed, {packed} packed, {kept} with fewer layers");
    assert!(
        judged >= JUDGED_MIN,
        "{judged} worlds were fit to be judged"
    );
    // Each kind of state must occur, or nothing is proven of it.
    assert!(sealed > 20 && packed > 20 && kept > 20);
}

/// Returns a world of the repository, without video and events.
fn named(file: &str) -> World {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    let path = Path::new(&here).join("../../worlds").join(file);
    let text = std::fs::read_to_string(path).expect("the world is in the repository");
    let mut world = load_str(&text, Format::of_file_name(file), file).expect("it is sound");
    world.length = Some(Duration::from_secs(4));
    world.events.clear();
    for link in &mut world.links {
        (link.loss, link.reorder) = (Ratio::ZERO, Ratio::ZERO);
        link.queue = DataSize::from_kib(1_024);
    }
    for stream in &mut world.streams {
        stream.traffic.video = false;
        stream.traffic.spread = Ratio::ZERO;
        stream.needs.deadline = Duration::from_secs(30);
    }
    world
}

#[test]
fn repository_worlds_match_prediction() {
    for file in ["demo.toml", "pa9.toml", "diamond.toml", "ladder/4g.toml"] {
        let world = named(file);
        let played = run(&world, 1);
        assert_eq!(played.report.violations, [] as [&str; 0], "{file}");
        for promise in &played.promises {
            let stream = &world.streams[promise.stream];
            let epsilon = stream.seal_overhead(&world.weights);
            for link in &promise.links {
                let (said, carried) = (link.hop.rate_bps, carried_bps(&world, promise, link));
                let adus = link.adus as f64 / seconds(&world, promise);
                let predicted = if link.hop.sealed {
                    said / (1.0 + epsilon) + adus * SEAL_BYTES * 8.0
                } else {
                    said
                };
                let off = carried / predicted - 1.0;
                println!(
                    "{file} {}->{}: {said:.0} {carried:.0} {off:+.4}",
                    link.hop.from, link.hop.to
                );
                assert!(off.abs() <= TOLERANCE, "{file}: {off:+.4} at {link:?}");
            }
        }
    }
}
