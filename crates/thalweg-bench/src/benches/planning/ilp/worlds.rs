//! Worlds for the oracle, by seed: 10 to 30 nodes and every constraint of the planner's model.
//!
//! A fifth are chains, the rest geometric (nodes in a square, linked within the radius that gives six
//! neighbours) and scale-free (Barabási and Albert 1999), in equal parts. Nodes have 0 to 4 slots, one
//! in eight is not trusted; one link in five is insecure, one in eight has a parallel one, some are
//! down. Half of the worlds have round rates, of which many plans cost nearly or exactly the same, half
//! have any. Streams have 1 to 6 layers. A third have a deadline, from a little less than the quickest
//! path takes to 1.6 times that; so it binds often, and sometimes makes the world infeasible. Worlds
//! are drawn without asking a planner, so their difficulty is not tuned.

use std::collections::BTreeMap;

use thalweg_base::needs::Needs;
use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Layer, Link, Node, NodeName, Stream, Traffic, Weights, World};

/// Separates this generator from others with the same seed.
const GENERATOR: u64 = 0x6f72_6163_6c65_3330;

/// Mean number of neighbours in a geometric graph.
const NEIGHBOURS: f64 = 6.0;

/// Two nodes to be linked, and their distance, 1 at most.
type Pair = (usize, usize, f64);

/// Returns the world of a seed, optionally with this many nodes.
pub(super) fn world(seed: u64, nodes: Option<usize>) -> anyhow::Result<World> {
    let mut rng = SplitMix::new(seed ^ GENERATOR);
    let drawn = 10 + below(&mut rng, 21);
    let count = nodes.unwrap_or(drawn);
    let pairs = match below(&mut rng, 5) {
        0 => (1..count).map(|at| (at - 1, at, 0.5)).collect(),
        1 | 2 => geometric(&mut rng, count),
        _ => scale_free(&mut rng, count),
    };
    let names: Vec<NodeName> = (0..count)
        .map(|at| format!("n{at}").parse())
        .collect::<Result<_, _>>()?;
    let links = links(&mut rng, &names, &pairs);
    let nodes = names.iter().enumerate().map(|(at, name)| {
        let is_end = at == 0 || at + 1 == count;
        (name.clone(), node(&mut rng, is_end))
    });
    let nodes: BTreeMap<_, _> = nodes.collect();
    let mut stream = stream(&mut rng, &names[0], &names[count - 1])?;
    if one_in(&mut rng, 3)
        && let Some(quickest) = quickest(&links, &stream)
    {
        let percent = 97 + rng.next_below(64);
        stream.needs.deadline = Duration::from_nanos(quickest.as_nanos() / 100 * percent);
    }
    Ok(World {
        weights: weights(&mut rng),
        nodes,
        links,
        streams: vec![stream],
        ..World::default()
    })
}

fn below(rng: &mut SplitMix, bound: usize) -> usize {
    rng.next_below(bound as u64) as usize
}

fn one_in(rng: &mut SplitMix, so_many: u64) -> bool {
    rng.next_below(so_many) == 0
}

fn pick<T: Copy>(rng: &mut SplitMix, from: &[T]) -> T {
    from[below(rng, from.len())]
}

/// Returns a geometric graph with nodes sorted by one coordinate, so that the first and the last are
/// far apart.
fn geometric(rng: &mut SplitMix, count: usize) -> Vec<Pair> {
    let radius = (NEIGHBOURS / (std::f64::consts::PI * count as f64)).sqrt();
    let mut points: Vec<(f64, f64)> = (0..count)
        .map(|_| (rng.next_unit(), rng.next_unit()))
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut pairs = Vec::new();
    for (at, here) in points.iter().enumerate() {
        for (other, there) in points.iter().enumerate().skip(at + 1) {
            let apart = (here.0 - there.0).hypot(here.1 - there.1) / radius;
            // Consecutive nodes are always linked, or many of these worlds would be disconnected.
            if apart < 1.0 || other == at + 1 {
                pairs.push((at, other, apart.min(1.0)));
            }
        }
    }
    pairs
}

/// Returns a scale-free graph: each new node is linked with two, in proportion to their links.
fn scale_free(rng: &mut SplitMix, count: usize) -> Vec<Pair> {
    let mut ends = vec![0, 1];
    let mut pairs = vec![(0, 1, rng.next_unit())];
    for node in 2..count {
        let first = pick(rng, &ends);
        let mut second = pick(rng, &ends);
        while second == first {
            second = pick(rng, &ends);
        }
        for other in [first, second] {
            pairs.push((other, node, rng.next_unit()));
            ends.extend([other, node]);
        }
    }
    pairs
}

fn links(rng: &mut SplitMix, names: &[NodeName], pairs: &[Pair]) -> Vec<Link> {
    let is_round = one_in(rng, 2);
    let mut links = Vec::new();
    for (a, b, apart) in pairs {
        let parallel = 1 + usize::from(one_in(rng, 8));
        for _ in 0..parallel {
            let rate = if is_round {
                Bitrate::from_kbps(pick(rng, &[150, 500, 1_000, 2_000, 5_000, 10_000, 20_000]))
            } else {
                // From 120 kbit/s up to 32 times that, uniform in the logarithm.
                Bitrate::from_bps((120_000.0 * (rng.next_unit() * 5.0).exp2()) as u64)
            };
            let micros = (apart * 20_000.0) as u64 + rng.next_below(5_000);
            links.push(Link {
                delay: Duration::from_micros(micros),
                secure: !one_in(rng, 5),
                up: !one_in(rng, 100),
                ..Link::new([names[*a].clone(), names[*b].clone()], rate)
            });
        }
    }
    links
}

/// Returns a node; the ends of the stream have at least one slot, and are nearly always trusted.
fn node(rng: &mut SplitMix, is_end: bool) -> Node {
    let slots = if is_end {
        1 + rng.next_below(4)
    } else {
        rng.next_below(5)
    };
    Node {
        slots: slots as u32,
        trusted: !one_in(rng, if is_end { 200 } else { 8 }),
        ..Node::default()
    }
}

fn stream(rng: &mut SplitMix, from: &NodeName, to: &NodeName) -> anyhow::Result<Stream> {
    let count = 1 + below(rng, 6);
    let is_round = one_in(rng, 2);
    let shares: Vec<u64> = (0..count).map(|_| 1 + rng.next_below(9)).collect();
    let sum: u64 = shares.iter().sum();
    let layers = shares.iter().enumerate().map(|(at, share)| Layer {
        // A base that fits nearly every link, and refinements on top.
        rate: match (is_round, at) {
            (true, 0) => Bitrate::from_kbps(pick(rng, &[50, 100])),
            (true, _) => Bitrate::from_kbps(pick(rng, &[50, 100, 200, 400, 800])),
            (false, 0) => Bitrate::from_bps(40_000 + rng.next_below(90_000)),
            (false, _) => Bitrate::from_bps(40_000 + rng.next_below(1_000_000)),
        },
        utility: *share as f64 / sum as f64,
    });
    let layers: Vec<Layer> = layers.collect();
    let least = if one_in(rng, 5) { below(rng, count) } else { 0 };
    Ok(Stream {
        name: "oracle".parse()?,
        from: from.clone(),
        to: vec![to.clone()],
        layers,
        needs: Needs {
            confidential: !one_in(rng, 4),
            least_layers: 1 + least as u8,
            ..Needs::default()
        },
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: pick(rng, &[None, Some(0.3), Some(0.72), Some(1.0), Some(1.2)]),
        seal_overhead: pick(rng, &[None, None, Some(0.0), Some(0.05), Some(0.5)]),
        traffic: Traffic::default(),
    })
}

/// Returns the default weights in half of the worlds, else random ones.
fn weights(rng: &mut SplitMix) -> Weights {
    let mut weights = Weights::default();
    if one_in(rng, 2) {
        return weights;
    }
    weights.quality = pick(rng, &[0.0, 1.0, 10.0, 100.0, 1_000.0]);
    for weight in [
        &mut weights.keep,
        &mut weights.pack,
        &mut weights.unpack,
        &mut weights.seal,
        &mut weights.open,
    ] {
        *weight = pick(rng, &[0.0, 0.05, 0.3, 1.0, 3.0]);
    }
    weights
}

/// Returns the least delay from source to sink over links that are up (Bellman–Ford).
fn quickest(links: &[Link], stream: &Stream) -> Option<Duration> {
    let mut delays = BTreeMap::from([(&stream.from, Duration::ZERO)]);
    loop {
        let mut is_better = false;
        for link in links.iter().filter(|link| link.up) {
            let [a, b] = &link.ends;
            for (near, far) in [(a, b), (b, a)] {
                let Some(there) = delays.get(near).map(|delay| *delay + link.delay) else {
                    continue;
                };
                if delays.get(far).is_none_or(|known| there < *known) {
                    delays.insert(far, there);
                    is_better = true;
                }
            }
        }
        if !is_better {
            return delays.get(&stream.to[0]).copied();
        }
    }
}
