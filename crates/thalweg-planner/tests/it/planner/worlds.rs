//! Small random worlds, by seed: chains and graphs with scarce slots, mixed trust, and frequent
//! ties.

use thalweg_base::needs::Needs;
use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{
    Edge, Layer, NodeIndex, NodeName, Snapshot, Stream, Topology, Traffic, Weights,
};

/// A random number generator: the same seed yields the same world everywhere.
pub struct Rng(SplitMix);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix::new(seed))
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.0.next_u64() % n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

pub fn name(text: &str) -> NodeName {
    text.parse().expect("a test's node name is valid")
}

/// Returns a world of 2 to 6 nodes.
pub fn random(seed: u64) -> Snapshot {
    let mut rng = Rng::new(seed);
    let mut names: Vec<&str> = vec!["a", "b", "c", "d", "e", "f"];
    let nodes = 2 + rng.below(5);
    let mut topology = Topology::default();
    let mut slots_left = 7;
    let trusting = rng.pick(&[40, 80, 100]);
    let mut ends = Vec::new();
    for _ in 0..nodes {
        let slots = rng.below(4).min(slots_left);
        slots_left -= slots;
        let name = name(names.swap_remove(rng.below(names.len())));
        ends.push(topology.add_node(name, slots as u32, rng.chance(trusting)));
    }
    let pairs = links(&mut rng, nodes);
    for (a, b) in pairs {
        let edge = random_edge(&mut rng, [ends[a], ends[b]]);
        topology.add_link(edge);
    }
    let stream = random_stream(&mut rng, &topology, nodes);
    let mut weights = Weights::default();
    if rng.chance(30) {
        weights.quality = rng.pick(&[0.0, 0.5, 3.0]);
        weights.seal = rng.pick(&[0.0, 0.4, 1.0]);
        weights.keep = rng.pick(&[0.0, 0.1, 2.0]);
    }
    Snapshot::new(topology, weights, stream)
}

/// Returns a graph of `nodes` nodes, about four links each, with a stream between two of them.
pub fn mesh(seed: u64, nodes: usize) -> Snapshot {
    let mut rng = Rng::new(seed);
    let mut topology = Topology::default();
    for node in 0..nodes {
        let (slots, trusted) = (1 + rng.below(3), rng.chance(85));
        topology.add_node(name(&format!("n{node}")), slots as u32, trusted);
    }
    for node in 1..nodes {
        for _ in 0..2 {
            // Most links are between close nodes, so that paths are long.
            let near = 1 + rng.below(node.min(8));
            let ends = [node, node - near].map(|end| NodeIndex(end as u32));
            topology.add_link(random_edge(&mut rng, ends));
        }
    }
    let stream = random_stream(&mut rng, &topology, nodes);
    let mut world = Snapshot::new(topology, Weights::default(), stream);
    if !world.stream.needs.deadline.is_never() {
        world.stream.needs.deadline = Duration::from_millis(rng.pick(&[90, 140, 200]));
    }
    world
}

/// A chain, or a tree with further links, parallel ones included.
fn links(rng: &mut Rng, nodes: usize) -> Vec<(usize, usize)> {
    if rng.chance(40) {
        return (1..nodes).map(|node| (node - 1, node)).collect();
    }
    let mut pairs: Vec<_> = (1..nodes).map(|node| (rng.below(node), node)).collect();
    for _ in 0..rng.below(nodes + 1) {
        let (a, b) = (rng.below(nodes), rng.below(nodes));
        if a != b {
            pairs.push((a, b));
        }
    }
    pairs
}

fn random_edge(rng: &mut Rng, ends: [NodeIndex; 2]) -> Edge {
    let kbps = rng.pick(&[100, 150, 300, 1_000, 2_000, 10_000]);
    let mut edge = Edge::new(ends, Bitrate::from_kbps(kbps));
    edge.delay = Duration::from_millis(rng.pick(&[0, 5, 10, 10, 40]));
    edge.secure = rng.chance(70);
    edge.up = rng.chance(95);
    edge
}

fn random_stream(rng: &mut Rng, topology: &Topology, nodes: usize) -> Stream {
    let from = if rng.chance(70) { 0 } else { rng.below(nodes) };
    let mut to = if rng.chance(70) {
        nodes - 1
    } else {
        rng.below(nodes)
    };
    if to == from {
        to = (to + 1) % nodes;
    }
    let utilities: &[f64] = rng.pick(&[&[1.0][..], &[0.6, 0.4], &[0.5, 0.3, 0.2], &[0.5, 0.5]]);
    let layers = utilities.iter().map(|utility| Layer {
        rate: Bitrate::from_kbps(rng.pick(&[50, 100, 100, 200, 400])),
        utility: *utility,
    });
    let layers: Vec<_> = layers.collect();
    let deadline = match rng.below(3) {
        0 => Duration::NEVER,
        _ => Duration::from_millis(rng.pick(&[10, 20, 30, 45, 60, 90])),
    };
    Stream {
        name: "s".parse().expect("a valid stream name"),
        from: topology.nodes()[from].name.clone(),
        to: vec![topology.nodes()[to].name.clone()],
        needs: Needs {
            confidential: rng.chance(60),
            deadline,
            least_layers: 1 + rng.below(layers.len()) as u8,
            ..Needs::default()
        },
        layers,
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: rng.pick(&[None, Some(1.0), Some(0.3), Some(1.2)]),
        seal_overhead: rng.pick(&[None, Some(0.0), Some(0.5)]),
        traffic: Traffic::default(),
    }
}
