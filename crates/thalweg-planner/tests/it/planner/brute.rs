//! The oracle: every simple path and every sequence of adapters at every node, without tables or
//! optimisations.
//!
//! It shares with the planner only the snapshot's topology, stream and weights, and the
//! declarations. States, rates and costs are implemented again here for the five standard adapters
//! and the kinds of declared ones, in plain floats. Paths that are already dearer than the best are
//! abandoned.

use std::collections::BTreeMap;

use thalweg_base::time::Duration;
use thalweg_planner::model::{AdapterName, Declaration, Edge, Layer, Place, Snapshot};

/// The declarations of a world.
pub type Declared = BTreeMap<AdapterName, Declaration>;

/// Costs closer than this tie.
const TIE: f64 = 1e-9;

/// A whole plan: cost, then the tie-break in its order.
#[derive(Clone, Debug)]
pub struct Found {
    pub cost: f64,
    pub path: Vec<String>,
    /// The adapters of each node of the path, empty lists included.
    pub adapters: Vec<Vec<String>>,
    pub links: Vec<usize>,
}

#[derive(Clone, Copy)]
struct State {
    /// The transcoder that made the layers.
    made_by: Option<AdapterName>,
    layers: usize,
    packed: bool,
    sealed: bool,
    /// The declared transforms that are on, as a bit mask by declaration index.
    on: u32,
}

struct Search<'a> {
    snapshot: &'a Snapshot,
    declared: &'a Declared,
    best: Option<Found>,
    current: Found,
    nodes: Vec<usize>,
    delay: Duration,
    /// CPU used by the adapters of the current node.
    cores: f64,
}

/// Returns the best of all plans with the standard adapters.
pub fn best(snapshot: &Snapshot) -> Option<Found> {
    best_with(snapshot, &Declared::new())
}

/// Returns the best of all plans.
pub fn best_with(snapshot: &Snapshot, declared: &Declared) -> Option<Found> {
    let topology = &snapshot.topology;
    let at = |name| topology.nodes().iter().position(|node| node.name == name);
    let source = at(snapshot.stream.from.clone()).expect("the source is a node");
    let state = State {
        made_by: None,
        layers: snapshot.stream.layers.len(),
        packed: false,
        sealed: false,
        on: 0,
    };
    let mut search = Search {
        snapshot,
        declared,
        best: None,
        current: Found {
            cost: 0.0,
            path: vec![snapshot.stream.from.to_string()],
            adapters: vec![vec![]],
            links: vec![],
        },
        nodes: vec![source],
        delay: Duration::ZERO,
        cores: 0.0,
    };
    search.visit(state);
    search.best
}

impl<'a> Search<'a> {
    fn kept(&self, state: State) -> &'a [Layer] {
        let made = state.made_by.map(|name| &self.declared[&name].layers);
        let made = made.and_then(Option::as_ref);
        &made.unwrap_or(&self.snapshot.stream.layers)[..state.layers]
    }

    /// Returns the declared transforms that are on.
    fn on(&self, state: State) -> impl Iterator<Item = &'a Declaration> {
        let all = self.declared.values().enumerate();
        all.filter(move |(at, _)| state.on >> at & 1 == 1)
            .map(|(_, one)| one)
    }

    fn rate_bps(&self, state: State) -> f64 {
        let stream = &self.snapshot.stream;
        let weights = &self.snapshot.weights;
        let mut bps = 0.0;
        for layer in self.kept(state) {
            bps += layer.rate.as_bps() as f64;
        }
        if state.packed {
            bps *= stream.pack_ratio.unwrap_or(weights.pack_ratio);
        }
        if state.sealed {
            bps *= 1.0 + stream.seal_overhead.unwrap_or(weights.seal_overhead);
        }
        for transform in self.on(state) {
            bps *= transform.rate_factor.unwrap_or(1.0);
        }
        bps
    }

    fn is_hidden(&self, state: State) -> bool {
        state.sealed || self.on(state).any(|on| on.hides == Some(true))
    }

    /// Returns whether a transform of a higher class is on.
    fn is_beneath(&self, state: State, class: u8) -> bool {
        let standard = state.packed && class < 1 || state.sealed && class < 2;
        standard || self.on(state).any(|on| class < class_of(on))
    }

    fn is_worth_delivering(&self, state: State) -> bool {
        let least = usize::from(self.snapshot.stream.needs.least_layers);
        if state.made_by.is_none() {
            return state.layers >= least;
        }
        let utility = worth(&self.snapshot.stream.layers[..least]);
        least == 1 || worth(self.kept(state)) >= utility - 1e-12
    }

    /// Ends here if allowed, runs each adapter that works here, and leaves over each link.
    fn visit(&mut self, state: State) {
        let dearer = |best: &Found| self.current.cost > best.cost + 2.0 * TIE;
        if self.best.as_ref().is_some_and(dearer) {
            return;
        }
        let node = *self.nodes.last().expect("a path has a node");
        let place = &self.snapshot.topology.nodes()[node];
        let needs = &self.snapshot.stream.needs;
        let shown = needs.confidential && !place.trusted && !self.is_hidden(state);
        let short = (place.cpu_cores).is_some_and(|has| self.cores > has * (1.0 + 1e-9));
        if shown || short || self.delay > needs.deadline {
            return;
        }
        let at_sink = place.name == self.snapshot.stream.to[0];
        let undone = !state.packed && !state.sealed && self.on(state).all(|on| on.pair.is_none());
        if at_sink && undone && self.is_worth_delivering(state) {
            self.offer(state);
        }
        let used = self.current.adapters.last().map_or(0, Vec::len);
        if used < usize::from(place.slots) {
            self.run_each(state, place);
            self.run_each_declared(state, place);
        }
        if !at_sink {
            for link in 0..self.snapshot.topology.links().len() {
                self.cross(state, node, link);
            }
        }
    }

    fn run_each(&mut self, state: State, place: &Place) {
        let weights = self.snapshot.weights;
        let State { packed, sealed, .. } = state;
        for layers in 1..state.layers {
            let kept = State { layers, ..state };
            self.run(place, state, &format!("keep:{layers}"), weights.keep, kept);
        }
        if !self.is_hidden(state) && !self.is_beneath(state, 1) {
            let (word, weight) = if packed {
                ("unpack", weights.unpack)
            } else {
                ("pack", weights.pack)
            };
            let packed = !packed;
            self.run(place, state, word, weight, State { packed, ..state });
        }
        if !self.is_beneath(state, 2) {
            let (word, weight) = if sealed {
                ("open", weights.open)
            } else {
                ("seal", weights.seal)
            };
            let sealed = !sealed;
            self.run(place, state, word, weight, State { sealed, ..state });
        }
    }

    fn run_each_declared(&mut self, state: State, place: &Place) {
        for (at, (name, one)) in self.declared.iter().enumerate() {
            let is_undo = self
                .declared
                .values()
                .any(|other| other.pair == Some(*name));
            if name.is_standard() || is_undo {
                continue;
            }
            if let Some(layers) = &one.layers {
                let paired = self.on(state).any(|on| on.pair.is_some());
                let able = state.made_by.is_none()
                    && !(state.packed || state.sealed || paired)
                    && !self.is_beneath(state, 0)
                    && worth(self.kept(state)) >= worth(layers) - 1e-12;
                let made = State {
                    made_by: Some(*name),
                    layers: layers.len(),
                    ..state
                };
                if able && self.may_see(state, one, true) {
                    let weight = one.cost_per_mbps.unwrap_or(0.0);
                    self.run(place, state, name.as_str(), weight, made);
                }
                continue;
            }
            if self.is_beneath(state, class_of(one)) {
                continue;
            }
            let on = state.on ^ 1 << at;
            let doer = if state.on >> at & 1 == 0 {
                Some((*name, one, one.pair.is_none()))
            } else {
                one.pair.map(|undo| (undo, &self.declared[&undo], false))
            };
            if let Some((name, one, must_see)) = doer
                && self.may_see(state, one, must_see)
            {
                let weight = one.cost_per_mbps.unwrap_or(0.0);
                self.run(place, state, name.as_str(), weight, State { on, ..state });
            }
        }
    }

    fn may_see(&self, state: State, one: &Declaration, unless_stated: bool) -> bool {
        !(one.needs_plaintext.unwrap_or(unless_stated) && self.is_hidden(state))
    }

    fn run(&mut self, place: &Place, before: State, adapter: &str, weight: f64, after: State) {
        let kind = adapter.split(':').next().expect("a word");
        let held = (place.held.as_ref()).is_none_or(|held| held.iter().any(|k| k.as_str() == kind));
        if !held {
            return;
        }
        let (cost, delay, cores) = (self.current.cost, self.delay, self.cores);
        let mbps = self.rate_bps(before) / 1e6;
        if let Some(one) = self
            .declared
            .get(&kind.parse::<AdapterName>().expect("a name"))
        {
            self.delay += one.delay;
            self.cores += one.cpu_per_mbps.unwrap_or(0.0) * mbps;
        }
        self.current.cost += weight * mbps;
        self.here().push(adapter.to_owned());
        self.visit(after);
        self.here().pop();
        (self.current.cost, self.delay, self.cores) = (cost, delay, cores);
    }

    fn here(&mut self) -> &mut Vec<String> {
        self.current.adapters.last_mut().expect("a path has a node")
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
        let needs = &self.snapshot.stream.needs;
        let exposed = !edge.secure && needs.confidential && !self.is_hidden(state);
        let loss = edge.loss.as_f64();
        let repairs = |on: &Declaration| on.repairs.is_some_and(|most| most.as_f64() >= loss);
        let lossy = loss > needs.loss_max.as_f64() && !self.on(state).any(repairs);
        if lossy || !edge.up || self.nodes.contains(&to) || exposed || bps > has * (1.0 + 1e-9) {
            return;
        }
        let (cost, delay, cores) = (self.current.cost, self.delay, self.cores);
        self.cores = 0.0;
        self.current.cost += bps / has;
        self.delay = delay + edge.delay;
        self.nodes.push(to);
        let name = self.snapshot.topology.nodes()[to].name.to_string();
        self.current.path.push(name);
        self.current.adapters.push(vec![]);
        self.current.links.push(link);
        self.visit(state);
        self.current.links.pop();
        self.current.adapters.pop();
        self.current.path.pop();
        self.nodes.pop();
        (self.current.cost, self.delay, self.cores) = (cost, delay, cores);
    }

    fn offer(&mut self, state: State) {
        let mut utility = worth(self.kept(state));
        for transform in self.on(state) {
            utility *= transform.quality_factor.unwrap_or(1.0);
        }
        let mut found = self.current.clone();
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

fn worth(layers: &[Layer]) -> f64 {
    layers.iter().map(|layer| layer.utility).sum()
}

fn class_of(transform: &Declaration) -> u8 {
    transform
        .order
        .unwrap_or(match (transform.repairs, transform.pair) {
            (Some(_), _) => 3,
            (None, Some(_)) => 1,
            (None, None) => 0,
        })
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
