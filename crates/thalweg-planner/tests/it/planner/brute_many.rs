//! The oracle for many streams: all paths of each stream alone, then every combination that the
//! links can carry.
//!
//! Like `brute`, it implements states, rates and costs again for the five adapters. A stream's
//! option is dropped if another is at least as good in cost, quality and load on every link, as the
//! other is then no worse in any combination.

use thalweg_planner::model::{Snapshot, Topology};
use thalweg_planner::planner::Plan;

/// Quality of a combination, compared in order: by class of importance, streams refused and quality
/// lost; then total cost.
pub type Worth = Vec<f64>;

/// One option of a stream, with its load on links by direction.
#[derive(Clone, Debug)]
struct Way {
    cost: f64,
    lacks: f64,
    refused: f64,
    loads: Vec<f64>,
}

/// Layers, packed, sealed.
type State = (usize, bool, bool);

struct Search<'a> {
    snapshot: &'a Snapshot,
    ways: Vec<Way>,
}

/// The position of a stream on its path.
struct Point {
    node: usize,
    entered: u32,
    delay: u64,
    state: State,
    cost: f64,
    loads: Vec<f64>,
}

/// Returns whether one quality is above another, in the first number that differs.
pub fn is_worse(one: &Worth, other: &Worth) -> bool {
    let differs = |(a, b): &(&f64, &f64)| (*a - *b).abs() > 1e-9;
    let first = one.iter().zip(other).find(differs);
    first.is_some_and(|(a, b)| a > b)
}

/// Returns the quality of the best combination.
pub fn best(snapshots: &[Snapshot]) -> Worth {
    let ways: Vec<Vec<Way>> = snapshots.iter().map(ways_of).collect();
    let links = snapshots[0].topology.links().len();
    let mut best = None;
    choose(
        snapshots,
        &ways,
        &mut vec![],
        &vec![0.0; 2 * links],
        &mut best,
    );
    best.expect("all may be refused")
}

/// Returns the quality of plans; empty ones are refused.
pub fn worth_of(snapshots: &[Snapshot], plans: &[&Plan]) -> Worth {
    let all: Vec<Way> = snapshots
        .iter()
        .zip(plans)
        .map(|(snapshot, plan)| {
            if !plan.feasible {
                return refused(snapshot);
            }
            Way {
                cost: plan.cost,
                lacks: plan.cost_parts.quality,
                refused: 0.0,
                loads: vec![],
            }
        })
        .collect();
    worth(snapshots, &all.iter().collect::<Vec<_>>())
}

fn refused(snapshot: &Snapshot) -> Way {
    Way {
        cost: snapshot.weights.quality,
        lacks: snapshot.weights.quality,
        refused: 1.0,
        loads: vec![0.0; 2 * snapshot.topology.links().len()],
    }
}

fn worth(snapshots: &[Snapshot], chosen: &[&Way]) -> Worth {
    let mut classes: Vec<u8> = snapshots.iter().map(|s| s.stream.importance).collect();
    classes.sort_unstable_by(|a, b| b.cmp(a));
    classes.dedup();
    let mut worth = vec![];
    for class in classes {
        let of_class = || {
            let all = snapshots.iter().zip(chosen);
            all.filter(move |(snapshot, _)| snapshot.stream.importance == class)
        };
        worth.push(of_class().map(|(_, way)| way.refused).sum());
        worth.push(of_class().map(|(_, way)| way.lacks).sum());
    }
    worth.push(chosen.iter().map(|way| way.cost).sum());
    worth
}

/// Tries every option of the next stream that the links can still carry.
fn choose<'a>(
    snapshots: &[Snapshot],
    ways: &'a [Vec<Way>],
    chosen: &mut Vec<&'a Way>,
    loads: &[f64],
    best: &mut Option<Worth>,
) {
    let Some(next) = ways.get(chosen.len()) else {
        let worth = worth(snapshots, chosen);
        if best.as_ref().is_none_or(|held| is_worse(held, &worth)) {
            *best = Some(worth);
        }
        return;
    };
    for way in next {
        let sum: Vec<f64> = loads.iter().zip(&way.loads).map(|(a, b)| a + b).collect();
        if fits(&snapshots[0].topology, &sum) {
            chosen.push(way);
            choose(snapshots, ways, chosen, &sum, best);
            chosen.pop();
        }
    }
}

fn fits(topology: &Topology, loads: &[f64]) -> bool {
    let mut links = topology.links().iter().zip(loads.chunks(2));
    links.all(|(edge, both)| {
        let most = edge.rate.as_bps() as f64 * (1.0 + 1e-9);
        both.iter().all(|load| *load <= most)
    })
}

/// Returns the options of one stream that no other option dominates, refusal included.
fn ways_of(snapshot: &Snapshot) -> Vec<Way> {
    let topology = &snapshot.topology;
    let at = |name| topology.find(name).expect("a node").0 as usize;
    let mut search = Search {
        snapshot,
        ways: vec![refused(snapshot)],
    };
    let node = at(&snapshot.stream.from);
    search.visit(&Point {
        node,
        entered: 1 << node,
        delay: 0,
        state: (snapshot.stream.layers.len(), false, false),
        cost: 0.0,
        loads: vec![0.0; 2 * topology.links().len()],
    });
    search.ways
}

impl Search<'_> {
    fn rate_bps(&self, (layers, packed, sealed): State) -> f64 {
        let stream = &self.snapshot.stream;
        let weights = &self.snapshot.weights;
        let layers = stream.layers[..layers].iter();
        let mut bps: f64 = layers.map(|layer| layer.rate.as_bps() as f64).sum();
        if packed {
            bps *= stream.pack_ratio.unwrap_or(weights.pack_ratio);
        }
        if sealed {
            bps *= 1.0 + stream.seal_overhead.unwrap_or(weights.seal_overhead);
        }
        bps
    }

    fn may_be(&self, node: usize, (_, _, sealed): State) -> bool {
        let trusted = self.snapshot.topology.nodes()[node].trusted;
        !self.snapshot.stream.needs.confidential || trusted || sealed
    }

    /// Returns every state that the adapters of a node can produce from one, with its minimum cost.
    fn adapted(&self, node: usize, state: State) -> Vec<(State, f64)> {
        let weights = &self.snapshot.weights;
        let mut all = vec![(state, 0.0)];
        let mut last = all.clone();
        for _ in 0..self.snapshot.topology.nodes()[node].slots {
            let mut next: Vec<(State, f64)> = vec![];
            for (from, cost) in &last {
                let (layers, packed, sealed) = *from;
                let mbps = self.rate_bps(*from) / 1e6;
                let mut made: Vec<(State, f64)> = (1..layers)
                    .map(|fewer| ((fewer, packed, sealed), weights.keep))
                    .collect();
                if !sealed {
                    let weight = if packed { weights.unpack } else { weights.pack };
                    made.push(((layers, !packed, sealed), weight));
                }
                let weight = if sealed { weights.open } else { weights.seal };
                made.push(((layers, packed, !sealed), weight));
                next.extend(made.iter().map(|(to, weight)| (*to, cost + weight * mbps)));
            }
            next.retain(|(to, cost)| {
                let known = all.iter().find(|(other, _)| other == to);
                self.may_be(node, *to) && known.is_none_or(|(_, held)| cost < held)
            });
            for (to, cost) in &next {
                match all.iter_mut().find(|(other, _)| other == to) {
                    Some((_, held)) => *held = held.min(*cost),
                    None => all.push((*to, *cost)),
                }
            }
            last = next;
        }
        all
    }

    fn visit(&mut self, at: &Point) {
        let needs = &self.snapshot.stream.needs;
        let topology = &self.snapshot.topology;
        if at.delay > needs.deadline.as_nanos() || !self.may_be(at.node, at.state) {
            return;
        }
        let at_sink = topology.nodes()[at.node].name == self.snapshot.stream.to[0];
        for (state, cost) in self.adapted(at.node, at.state) {
            let cost = at.cost + cost;
            let (layers, packed, sealed) = state;
            if at_sink {
                if !packed && !sealed && layers >= usize::from(needs.least_layers) {
                    self.offer(layers, cost, &at.loads);
                }
                continue;
            }
            let bps = self.rate_bps(state);
            for (link, edge) in topology.links().iter().enumerate() {
                let ends = edge.ends.map(|end| end.0 as usize);
                let Some(side) = ends.iter().position(|end| *end == at.node) else {
                    continue;
                };
                let node = ends[1 - side];
                let has = edge.rate.as_bps() as f64;
                let exposed = needs.confidential && !edge.secure && !sealed;
                let fits = bps <= has * (1.0 + 1e-9);
                if edge.up && fits && !exposed && at.entered >> node & 1 == 0 {
                    let mut loads = at.loads.clone();
                    loads[2 * link + side] += bps;
                    self.visit(&Point {
                        node,
                        entered: at.entered | 1 << node,
                        delay: at.delay + edge.delay.as_nanos(),
                        state,
                        cost: cost + bps / has,
                        loads,
                    });
                }
            }
        }
    }

    fn offer(&mut self, layers: usize, cost: f64, loads: &[f64]) {
        let kept = self.snapshot.stream.layers[..layers].iter();
        let utility: f64 = kept.map(|layer| layer.utility).sum();
        let lacks = (self.snapshot.weights.quality * (1.0 - utility)).max(0.0);
        let way = Way {
            cost: cost + lacks,
            lacks,
            refused: 0.0,
            loads: loads.to_vec(),
        };
        let beats = |one: &Way, other: &Way| {
            let mut loads = one.loads.iter().zip(&other.loads);
            one.refused <= other.refused
                && one.lacks <= other.lacks
                && one.cost <= other.cost
                && loads.all(|(a, b)| a <= b)
        };
        if !self.ways.iter().any(|held| beats(held, &way)) {
            self.ways.retain(|held| !beats(&way, held));
            self.ways.push(way);
        }
    }
}
