//! The oracle: every simple path, every sequence of adapters at every node, no table and no cleverness.
//!
//! It shares nothing with the planner but the snapshot's fields: states, rates and costs are written out again here for
//! the five adapters of the design, in plain floats. Ways that are already dearer than the best are not continued.

use thalweg_core::model::{Edge, Snapshot};
use thalweg_core::time::Duration;

/// Costs closer than this tie.
const TIE: f64 = 1e-9;

/// A whole plan: cost, then the tie-break in its order.
#[derive(Clone, Debug)]
pub struct Found {
    pub cost: f64,
    pub path: Vec<String>,
    /// The adapters of each node of the path, none included.
    pub adapters: Vec<Vec<String>>,
    pub links: Vec<usize>,
}

#[derive(Clone, Copy)]
struct State {
    layers: usize,
    packed: bool,
    sealed: bool,
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    best: Option<Found>,
    way: Found,
    nodes: Vec<usize>,
    delay: Duration,
}

/// Returns the best plan of all there are.
pub fn best(snapshot: &Snapshot) -> Option<Found> {
    let topology = &snapshot.topology;
    let at = |name| topology.nodes().iter().position(|node| node.name == name);
    let source = at(snapshot.stream.from.clone()).expect("the source is a node");
    let state = State {
        layers: snapshot.stream.layers.len(),
        packed: false,
        sealed: false,
    };
    let mut search = Search {
        snapshot,
        best: None,
        way: Found {
            cost: 0.0,
            path: vec![snapshot.stream.from.to_string()],
            adapters: vec![vec![]],
            links: vec![],
        },
        nodes: vec![source],
        delay: Duration::ZERO,
    };
    search.visit(state);
    search.best
}

impl Search<'_> {
    fn rate_bps(&self, state: State) -> f64 {
        let stream = &self.snapshot.stream;
        let weights = &self.snapshot.weights;
        let mut bps = 0.0;
        for layer in &stream.layers[..state.layers] {
            bps += layer.rate.as_bps() as f64;
        }
        if state.packed {
            bps *= stream.pack_ratio.unwrap_or(weights.pack_ratio);
        }
        if state.sealed {
            bps *= 1.0 + stream.seal_overhead.unwrap_or(weights.seal_overhead);
        }
        bps
    }

    /// Ends here if that may be, runs each adapter that works here, and leaves over each link.
    fn visit(&mut self, state: State) {
        let dearer = |best: &Found| self.way.cost > best.cost + 2.0 * TIE;
        if self.best.as_ref().is_some_and(dearer) {
            return;
        }
        let node = *self.nodes.last().expect("a path has a node");
        let place = &self.snapshot.topology.nodes()[node];
        let needs = &self.snapshot.stream.needs;
        if needs.confidential && !place.trusted && !state.sealed {
            return;
        }
        let at_sink = place.name == self.snapshot.stream.to[0];
        let plain = !state.packed && !state.sealed;
        if at_sink && plain && state.layers >= usize::from(needs.least_layers) {
            self.offer(state);
        }
        let used = self.way.adapters.last().map_or(0, Vec::len);
        if used < usize::from(place.slots) {
            self.run_each(state);
        }
        if !at_sink {
            for link in 0..self.snapshot.topology.links().len() {
                self.cross(state, node, link);
            }
        }
    }

    fn run_each(&mut self, state: State) {
        let weights = self.snapshot.weights;
        let State { packed, sealed, .. } = state;
        for layers in 1..state.layers {
            self.run(
                state,
                &format!("keep:{layers}"),
                weights.keep,
                State { layers, ..state },
            );
        }
        if !sealed && !packed {
            self.run(
                state,
                "pack",
                weights.pack,
                State {
                    packed: true,
                    ..state
                },
            );
        }
        if !sealed && packed {
            self.run(
                state,
                "unpack",
                weights.unpack,
                State {
                    packed: false,
                    ..state
                },
            );
        }
        if sealed {
            self.run(
                state,
                "open",
                weights.open,
                State {
                    sealed: false,
                    ..state
                },
            );
        } else {
            self.run(
                state,
                "seal",
                weights.seal,
                State {
                    sealed: true,
                    ..state
                },
            );
        }
    }

    fn run(&mut self, before: State, adapter: &str, weight: f64, after: State) {
        let cost = self.way.cost;
        self.way.cost += weight * self.rate_bps(before) / 1e6;
        self.here().push(adapter.to_owned());
        self.visit(after);
        self.here().pop();
        self.way.cost = cost;
    }

    fn here(&mut self) -> &mut Vec<String> {
        self.way.adapters.last_mut().expect("a path has a node")
    }

    fn cross(&mut self, state: State, node: usize, link: usize) {
        let edge: &Edge = &self.snapshot.topology.links()[link];
        let ends = edge.ends.map(|end| end.0 as usize);
        let to = match ends {
            [a, b] if a == node => b,
            [a, b] if b == node => a,
            _ => return,
        };
        let bps = self.rate_bps(state);
        let has = edge.rate.as_bps() as f64;
        let exposed = !edge.secure && self.snapshot.stream.needs.confidential && !state.sealed;
        if !edge.up || self.nodes.contains(&to) || exposed || bps > has * (1.0 + 1e-9) {
            return;
        }
        let (cost, delay) = (self.way.cost, self.delay);
        self.way.cost += bps / has;
        self.delay = delay + edge.delay;
        self.nodes.push(to);
        let name = self.snapshot.topology.nodes()[to].name.to_string();
        self.way.path.push(name);
        self.way.adapters.push(vec![]);
        self.way.links.push(link);
        if self.delay <= self.snapshot.stream.needs.deadline {
            self.visit(state);
        }
        self.way.links.pop();
        self.way.adapters.pop();
        self.way.path.pop();
        self.nodes.pop();
        (self.way.cost, self.delay) = (cost, delay);
    }

    fn offer(&mut self, state: State) {
        let layers = &self.snapshot.stream.layers[..state.layers];
        let utility: f64 = layers.iter().map(|layer| layer.utility).sum();
        let mut found = self.way.clone();
        found.cost += self.snapshot.weights.quality * (1.0 - utility);
        let better = self.best.as_ref().is_none_or(|best| {
            if (found.cost - best.cost).abs() > TIE {
                found.cost < best.cost
            } else {
                found.tie_break() < best.tie_break()
            }
        });
        if better {
            self.best = Some(found);
        }
    }
}

impl Found {
    fn tie_break(&self) -> impl Ord + '_ {
        let adapters: usize = self.adapters.iter().map(Vec::len).sum();
        (
            adapters,
            self.links.len(),
            &self.path,
            &self.adapters,
            &self.links,
        )
    }
}
