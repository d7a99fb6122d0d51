//! The oracle for trees of two sinks: every trunk, every branching place, every pair of paths that
//! share nothing more.
//!
//! Like `brute`, it implements states, rates and costs again for the five adapters. A path is
//! represented by what it takes from the other: the nodes that it enters, and the slots that it
//! uses at the branching node.

use std::collections::BTreeMap;

use thalweg_planner::model::Snapshot;

/// The position of a stream: node, layers, packed, sealed, slots used here, nodes entered, delay in
/// nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    node: usize,
    layers: usize,
    packed: bool,
    sealed: bool,
    used: usize,
    entered: u32,
    delay: u64,
}

/// By nodes entered and slots used at the first node: the minimum cost of a path.
type Ways = BTreeMap<(u32, usize), f64>;

struct Oracle<'a> {
    snapshot: &'a Snapshot,
    sinks: [usize; 2],
    ways: BTreeMap<(Point, usize), Ways>,
    trees: BTreeMap<Point, f64>,
}

/// Returns the cost of the best tree; infinite if there is none.
pub fn best(snapshot: &Snapshot) -> f64 {
    let at = |name| snapshot.topology.find(name).expect("a node").0 as usize;
    let source = at(&snapshot.stream.from);
    let mut oracle = Oracle {
        snapshot,
        sinks: [at(&snapshot.stream.to[0]), at(&snapshot.stream.to[1])],
        ways: BTreeMap::new(),
        trees: BTreeMap::new(),
    };
    oracle.tree(Point {
        node: source,
        layers: snapshot.stream.layers.len(),
        packed: false,
        sealed: false,
        used: 0,
        entered: 1 << source,
        delay: 0,
    })
}

impl Oracle<'_> {
    fn rate_bps(&self, at: &Point) -> f64 {
        let stream = &self.snapshot.stream;
        let weights = &self.snapshot.weights;
        let layers = stream.layers[..at.layers].iter();
        let mut bps: f64 = layers.map(|layer| layer.rate.as_bps() as f64).sum();
        if at.packed {
            bps *= stream.pack_ratio.unwrap_or(weights.pack_ratio);
        }
        if at.sealed {
            bps *= 1.0 + stream.seal_overhead.unwrap_or(weights.seal_overhead);
        }
        bps
    }

    fn may_be(&self, at: &Point) -> bool {
        let trusted = self.snapshot.topology.nodes()[at.node].trusted;
        !self.snapshot.stream.needs.confidential || trusted || at.sealed
    }

    /// Returns the results of one adapter at a point, with its cost.
    fn adapted(&self, at: &Point) -> Vec<(Point, f64)> {
        if at.used >= usize::from(self.snapshot.topology.nodes()[at.node].slots) {
            return vec![];
        }
        let weights = &self.snapshot.weights;
        let (packed, sealed) = (at.packed, at.sealed);
        let mut all: Vec<(Point, f64)> = (1..at.layers)
            .map(|layers| (Point { layers, ..*at }, weights.keep))
            .collect();
        if !sealed {
            let weight = if packed { weights.unpack } else { weights.pack };
            all.push((
                Point {
                    packed: !packed,
                    ..*at
                },
                weight,
            ));
        }
        let weight = if sealed { weights.open } else { weights.seal };
        all.push((
            Point {
                sealed: !sealed,
                ..*at
            },
            weight,
        ));
        let mbps = self.rate_bps(at) / 1e6;
        for (point, cost) in &mut all {
            point.used += 1;
            *cost *= mbps;
        }
        all.retain(|(point, _)| self.may_be(point));
        all
    }

    /// Returns the points one link further, with the link's cost.
    fn crossed(&self, at: &Point) -> Vec<(Point, f64)> {
        let bps = self.rate_bps(at);
        let confidential = self.snapshot.stream.needs.confidential;
        let mut all = vec![];
        for edge in self.snapshot.topology.links() {
            let ends = edge.ends.map(|end| end.0 as usize);
            let node = match ends {
                [a, b] if a == at.node => b,
                [a, b] if b == at.node => a,
                _ => continue,
            };
            let has = edge.rate.as_bps() as f64;
            let exposed = confidential && !edge.secure && !at.sealed;
            let next = Point {
                node,
                used: 0,
                entered: at.entered | 1 << node,
                delay: at.delay + edge.delay.as_nanos(),
                ..*at
            };
            let again = at.entered >> node & 1 == 1;
            let late = next.delay > self.snapshot.stream.needs.deadline.as_nanos();
            let fits = bps <= has * (1.0 + 1e-9);
            if edge.up && fits && !exposed && !again && !late && self.may_be(&next) {
                all.push((next, bps / has));
            }
        }
        all
    }

    /// Returns all paths from a point to a sink, the best of each kind.
    fn ways(&mut self, at: Point, sink: usize) -> Ways {
        if let Some(known) = self.ways.get(&(at, sink)) {
            return known.clone();
        }
        let mut ways = Ways::new();
        let mut offer = |key, cost: f64| {
            let held = ways.entry(key).or_insert(f64::INFINITY);
            *held = held.min(cost);
        };
        let stream = &self.snapshot.stream;
        let plain = !at.packed && !at.sealed;
        let enough = at.layers >= usize::from(stream.needs.least_layers);
        if at.node == sink && plain && enough {
            let utility: f64 = stream.layers[..at.layers].iter().map(|l| l.utility).sum();
            offer((0, 0), self.snapshot.weights.quality * (1.0 - utility));
        }
        for (next, paid) in self.adapted(&at) {
            for ((entered, used), cost) in self.ways(next, sink) {
                offer((entered, used + 1), paid + cost);
            }
        }
        if at.node != sink {
            for (next, paid) in self.crossed(&at) {
                for ((entered, _), cost) in self.ways(next, sink) {
                    offer((entered | 1 << next.node, 0), paid + cost);
                }
            }
        }
        self.ways.insert((at, sink), ways.clone());
        ways
    }

    /// Returns the cost of the best tree from a point.
    fn tree(&mut self, at: Point) -> f64 {
        if let Some(known) = self.trees.get(&at) {
            return *known;
        }
        let mut best = f64::INFINITY;
        if self.may_be(&at) {
            let slots = usize::from(self.snapshot.topology.nodes()[at.node].slots);
            let [one, other] = self.sinks.map(|sink| self.ways(at, sink));
            for ((entered, used), cost) in &one {
                for ((taken, more), rest) in &other {
                    if entered & taken == 0 && at.used + used + more <= slots {
                        best = best.min(cost + rest);
                    }
                }
            }
            for (next, paid) in self.adapted(&at).into_iter().chain(self.crossed(&at)) {
                best = best.min(paid + self.tree(next));
            }
        }
        self.trees.insert(at, best);
        best
    }
}
