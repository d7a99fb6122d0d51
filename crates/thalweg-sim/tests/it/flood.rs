//! Proves that all nodes reach the same map, soon and with few frames, on networks of up to 200 nodes
//! with churn, partitions, crashes, and nodes that lie and replay.
//!
//! *How.* Control planes only, on wires of 150 kbit/s and 2 to 20 ms. Some time after the last change,
//! every node's map is compared with the truth: the links in that node's part of the network.

use std::collections::BTreeSet;

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::needs::Needs;
use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_base::wire::control::{self as wire, Message};
use thalweg_control::control::Controller;
use thalweg_link::gauge::Sample;
use thalweg_sim::flood::{Flood, Shape, Wire};

const SLOW: Bitrate = Bitrate::from_kbps(150);

/// Wire size of the record of a node with four neighbours, from which the bounds below are computed.
const RECORD_BYTES: u64 = 400;

/// Returns the nodes reachable from a node over links that are up, itself included.
fn part_of(flood: &Flood, at: usize) -> BTreeSet<usize> {
    let mut part = BTreeSet::from([at]);
    loop {
        let before = part.len();
        for (wire, is_up) in flood.links() {
            if is_up && wire.ends.iter().any(|end| part.contains(end)) {
                part.extend(wire.ends);
            }
        }
        if part.len() == before {
            return part;
        }
    }
}

/// Returns the links in a part of the network, by the ids of their ends.
fn truth(flood: &Flood, part: &BTreeSet<usize>) -> BTreeSet<[NodeId; 2]> {
    let up = flood.links().filter(|(_, is_up)| *is_up);
    let inside = up.filter(|(wire, _)| part.contains(&wire.ends[0]));
    let pair = |ends: [usize; 2]| {
        let [a, b] = ends.map(|end| flood.id(end));
        [a.min(b), a.max(b)]
    };
    inside.map(|(wire, _)| pair(wire.ends)).collect()
}

/// Returns the links on a node's map that are within its part of the network.
fn map_of(flood: &Flood, at: usize, part: &BTreeSet<usize>) -> Option<BTreeSet<[NodeId; 2]>> {
    let inside: BTreeSet<NodeId> = part.iter().map(|at| flood.id(*at)).collect();
    let directory = flood.controller(at)?.directory();
    let links = directory.links();
    let links = links.filter(|link| inside.contains(&link.near.node));
    Some(links.map(|link| [link.near.node, link.far.node]).collect())
}

/// Asserts that each running node has the truth on its map.
fn agree(flood: &Flood, nodes: usize, context: &str) {
    let mut done = BTreeSet::new();
    for at in 0..nodes {
        if flood.controller(at).is_none() || done.contains(&at) {
            continue;
        }
        let part = part_of(flood, at);
        let truth = truth(flood, &part);
        for at in &part {
            let map = map_of(flood, *at, &part);
            assert_eq!(map.as_ref(), Some(&truth), "{context}: n{at}");
        }
        done.extend(part);
    }
}

fn frame_of(flood: &Flood, at: usize) -> Bytes {
    let id = flood.id(at);
    let directory = flood.controller(at).expect("it runs").directory();
    let mut all = directory.records().zip(directory.signed());
    let (_, signed) = all
        .find(|(record, _)| record.node == id)
        .expect("its own record");
    let record = Message::Record {
        record: signed.record.clone(),
        signature: signed.signature,
    };
    wire::encode(&record).into()
}

/// Applies a random change to a network.
fn weather(flood: &mut Flood, nodes: usize, links: usize, rng: &mut SplitMix) {
    let at = rng.next_below(nodes as u64) as usize;
    let link = rng.next_below(links as u64) as usize;
    match rng.next_below(6) {
        0 | 1 => flood.cut(link),
        2 | 3 => flood.heal(link),
        4 => flood.crash(at),
        _ => flood.restart(at),
    }
}

#[test]
fn maps_converge_with_few_frames() {
    for nodes in [3, 20, 100, 200] {
        let shape = Shape::grown(nodes, SLOW, nodes as u64);
        let links = shape.wires.len() as u64;
        let mut flood = Flood::start(&shape, 1);
        flood.pass(Duration::from_secs(60));
        agree(&flood, nodes, &format!("{nodes} nodes"));
        // At the start a node makes a record for each of its links, and few nodes renew theirs every
        // 7.5 s; a record crosses a link at most once in each direction.
        let begun = flood.traffic_of_all();
        let records = 2 * links + 9 * nodes as u64;
        assert!(begun.frames <= 2 * links * records, "{nodes}: {begun:?}");
        // One link is lost: two records, each at most once over each link in each direction.
        flood.cut(0);
        flood.pass(Duration::from_secs(5));
        agree(&flood, nodes, "a link is cut");
        let spent = flood.traffic_of_all().frames - begun.frames;
        // Few nodes renew their records meanwhile.
        assert!(spent <= 2 * 2 * links + nodes as u64, "{nodes}: {spent}");
    }
}

#[test]
fn idle_control_takes_under_one_percent() {
    for nodes in [10, 100] {
        let shape = Shape::grown(nodes, SLOW, 7);
        let mut flood = Flood::start(&shape, 1);
        flood.pass(Duration::from_secs(60));
        let begun = flood.busiest_link_bytes();
        let hour = Duration::from_secs(3_600);
        flood.pass(hour);
        let rate = DataSize::from_bytes(flood.busiest_link_bytes() - begun) / hour;
        assert!(rate.as_bps() * 100 < SLOW.as_bps(), "{nodes} nodes: {rate}");
    }
}

/// Returns a hub with `leaves` leaves; if `is_passed`, behind each leaf is one more node without
/// another link.
fn star(leaves: usize, is_passed: bool) -> Shape {
    let wire = |ends| Wire {
        ends,
        delay: Duration::from_millis(30),
        rate: Bitrate::from_kbps(3_000),
    };
    let passed = if is_passed { leaves } else { 0 };
    let behind = (1..=passed).map(|leaf| [leaf, leaves + leaf]);
    let ends = (1..=leaves).map(|leaf| [0, leaf]).chain(behind);
    Shape {
        nodes: 1 + leaves + passed,
        wires: ends.map(wire).collect(),
    }
}

/// Makes all leaves of a star measure, within one second, a shorter RTT to the hub; it is announced ten
/// seconds later.
fn find_nearer(flood: &mut Flood, leaves: usize, rtt: Duration) {
    const MILLI: Duration = Duration::from_millis(1);
    let sample = Sample {
        rtt,
        latest: rtt,
        loss: Ratio::ZERO,
        sent: DataSize::ZERO,
        waiting: DataSize::ZERO,
        heard: 0,
    };
    let hub = flood.id(0);
    for milli in 0..11_500 {
        for leaf in 1..=leaves {
            let begun = leaf as u64 * 1_000 / leaves as u64;
            if milli >= begun && (milli - begun).is_multiple_of(250) && milli < begun + 10_500 {
                flood.at(leaf, |control, now, keys| {
                    control.handle_link_sample(hub, (now, sample), now, keys);
                });
            }
        }
        flood.pass(MILLI);
    }
}

/// Returns how many nodes know this RTT between a node and the hub.
fn knowing(flood: &Flood, nodes: usize, of: usize, rtt: Duration) -> usize {
    let knows = |at: &usize| {
        let directory = flood.controller(*at).map(Controller::directory);
        let record = directory.and_then(|directory| directory.record(flood.id(of)));
        let hub = record.and_then(|record| record.neighbour(flood.id(0)));
        hub.is_some_and(|hub| hub.rtt == rtt)
    };
    (0..nodes).filter(knows).count()
}

#[test]
fn record_swarm_is_batched() {
    const LEAVES: usize = 60;
    let nearer = Duration::from_millis(20);
    // The leaves may carry streams to the nodes behind them, so the state of their links is news.
    let star = star(LEAVES, true);
    let mut flood = Flood::start(&star, 1);
    flood.pass(Duration::from_secs(60));
    agree(&flood, star.nodes, "a star");
    let before = flood.traffic(0);
    find_nearer(&mut flood, LEAVES, nearer);
    let hub = flood.id(0);
    let (after, swarm) = (flood.traffic(0), (LEAVES * (LEAVES - 1)) as u64);
    let (frames, writes) = (after.frames - before.frames, after.writes - before.writes);
    // Few nodes renew their records meanwhile.
    assert!(frames >= swarm && frames < swarm * 5 / 4, "{frames} frames");
    assert!(writes * 5 < frames, "{writes} writes");
    let knowing = (1..=LEAVES).map(|leaf| knowing(&flood, LEAVES + 1, leaf, nearer));
    assert_eq!(knowing.sum::<usize>(), LEAVES * (LEAVES + 1));
    // A broken link is known as soon as delay and wire allow.
    flood.cut(0);
    flood.pass(Duration::from_millis(45));
    for leaf in 2..=LEAVES {
        let directory = flood.controller(leaf).map(Controller::directory);
        let record = directory.and_then(|directory| directory.record(hub));
        let record = record.expect("it is known");
        assert_eq!(record.neighbours.len(), LEAVES - 1, "n{leaf}");
    }
}

#[test]
fn leaf_link_changes_wait_for_renewal() {
    const LEAVES: usize = 60;
    let mut flood = Flood::start(&star(LEAVES, false), 1);
    flood.pass(Duration::from_secs(60));
    let before = flood.traffic(0).frames;
    let nearer = Duration::from_millis(20);
    find_nearer(&mut flood, LEAVES, nearer);
    let frames = flood.traffic(0).frames - before;
    // One or two nodes renew their records meanwhile.
    assert!(frames <= 2 * LEAVES as u64, "{frames} frames");
    // The change spreads with the renewals, so in time from all nodes.
    flood.pass(Duration::from_secs(3_600));
    let knowing = (1..=LEAVES).map(|leaf| knowing(&flood, LEAVES + 1, leaf, nearer));
    assert_eq!(knowing.sum::<usize>(), LEAVES * (LEAVES + 1));
}

#[test]
fn maps_survive_churn() {
    for (nodes, seed, rounds) in [(8, 1, 8), (8, 2, 8), (30, 3, 8), (30, 4, 8), (200, 5, 2)] {
        let shape = Shape::grown(nodes, SLOW, seed);
        let mut flood = Flood::start(&shape, seed);
        let mut rng = SplitMix::new(seed);
        flood.pass(Duration::from_secs(30));
        for round in 0..rounds {
            for _ in 0..10 {
                weather(&mut flood, nodes, shape.wires.len(), &mut rng);
                flood.pass(Duration::from_millis(rng.next_below(2_000)));
            }
            // Sending all records over a new link takes its time on wires of this rate, hop by hop.
            let dump = SLOW.time_for(DataSize::from_bytes(nodes as u64 * RECORD_BYTES));
            for _ in 0..10 {
                flood.pass(dump);
            }
            flood.pass(Duration::from_secs(5));
            agree(&flood, nodes, &format!("seed {seed}, round {round}"));
        }
        // Much later, unreachable nodes are off the map, and back on it as soon as there is a path.
        flood.pass(Duration::from_secs(200));
        agree(&flood, nodes, "long after");
        (0..nodes).for_each(|at| flood.restart(at));
        (0..shape.wires.len()).for_each(|link| flood.heal(link));
        flood.pass(Duration::from_secs(120));
        agree(&flood, nodes, "healed");
        assert_eq!(part_of(&flood, 0).len(), nodes);
    }
}

#[test]
fn forged_and_replayed_records_refused() {
    let nodes = 30;
    let shape = Shape::grown(nodes, SLOW, 9);
    let mut flood = Flood::start(&shape, 9);
    flood.pass(Duration::from_secs(30));
    let old = frame_of(&flood, 0);
    let liar = shape.wires[0].ends;
    flood.cut(1);
    flood.pass(Duration::from_secs(10));
    let refused = flood.refused(liar[1]);
    for turn in 0_u8..50 {
        // A replayed record was true once; a forged one has no valid signature.
        flood.inject(liar[0], liar[1], old.clone());
        let mut forged = frame_of(&flood, nodes - 1).to_vec();
        let place = usize::from(turn) + forged.len() / 3;
        let last = forged.len() - 1;
        forged[place.min(last)] ^= 1 + turn;
        flood.inject(liar[0], liar[1], forged.into());
    }
    let before = flood.traffic_of_all().frames;
    flood.pass(Duration::from_secs(20));
    agree(&flood, nodes, "after lies");
    assert_eq!(flood.refused(liar[1]), refused + 50, "each is counted");
    let spread = flood.traffic_of_all().frames - before;
    let repeated = 2 * shape.wires.len() as u64 * 3;
    assert!(
        spread <= repeated,
        "refused records are not forwarded: {spread}"
    );
}

#[test]
fn asymmetric_rate_reaches_every_map() {
    let shape = Shape::grown(20, Bitrate::from_kbps(4_000), 3);
    let mut flood = Flood::start(&shape, 3);
    flood.pass(Duration::from_secs(30));
    let [near, far] = shape.wires[0].ends;
    let peer = flood.id(far);
    // Only a quarter of what is queued leaves in this direction.
    for step in 1..40_u64 {
        let sample = Sample {
            rtt: Duration::from_millis(10),
            latest: Duration::from_millis(10),
            loss: Ratio::ZERO,
            sent: DataSize::from_bytes(step * 31_250),
            waiting: DataSize::from_kib(200),
            heard: step,
        };
        flood.at(near, |control, now, keys| {
            control.handle_link_sample(peer, (now, sample), now, keys);
        });
        flood.pass(Duration::from_millis(250));
    }
    flood.pass(Duration::from_secs(2));
    for at in 0..20 {
        let directory = flood.controller(at).expect("it runs").directory();
        let rate = |from: usize, to: usize| {
            let record = directory.record(flood.id(from)).expect("it is on the map");
            let to = flood.id(to);
            let there = record.neighbours.iter().find(|there| there.node == to);
            there.expect("they are neighbours").rate
        };
        let told = rate(near, far).as_bps() as f64 / 1e6;
        assert!((0.95..1.05).contains(&told), "n{at}: {told}");
        assert_eq!(rate(far, near), Bitrate::from_kbps(4_000), "n{at}");
    }
}

#[test]
fn stream_reroutes_within_a_second() {
    for seed in 0..3 {
        let nodes = 100;
        let shape = Shape::grown(nodes, SLOW, seed);
        let mut flood = Flood::start(&shape, seed);
        flood.pass(Duration::from_secs(60));
        let name = "cam".parse().expect("a name");
        let publication = thalweg_control::control::Publication {
            needs: Needs::default(),
            pack_ratio: None,
            planner: None,
            ..thalweg_control::control::Publication::new(name, Bitrate::from_kbps(20))
        };
        let name = publication.name.clone();
        let stream = flood.at(0, |control, now, keys| {
            control.publish(publication, None, now, keys)
        });
        let stream = stream.expect("it runs").expect("it is sound");
        flood.subscribe(nodes - 1, &name);
        flood.pass(Duration::from_secs(5));
        let (_, before) = flood.active(0, stream).expect("it is served").clone();
        let path = flood.controller(0).expect("it runs").directory();
        let path = path.path(flood.id(0), flood.id(nodes - 1)).expect("a way");
        let is_last = |ends: [usize; 2]| {
            let ends = ends.map(|end| flood.id(end));
            path[path.len() - 2..]
                .iter()
                .all(|node| ends.contains(node))
        };
        let link = flood.links().position(|(wire, _)| is_last(wire.ends));
        let cut = flood.now();
        flood.cut(link.expect("a link of the way"));
        flood.pass(Duration::from_secs(3));
        let (since, after) = flood.active(0, stream).expect("it is served").clone();
        assert_ne!(before, after, "seed {seed}");
        let took = since.saturating_since(cut);
        assert!(took < Duration::from_secs(1), "seed {seed}: {took}");
    }
}
