//! Places nodes in the picture.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_planner::model::{NodeIndex, Snapshot, Topology};

use super::Drawn;

/// More nodes than this cannot be told apart in a picture.
pub(super) const NODES_MAX: usize = 60;

const COLUMN: f64 = 270.0;
const ROW: f64 = 130.0;

/// The positions of the shown nodes.
pub(super) struct Places(BTreeMap<u32, [f64; 2]>);

impl Places {
    /// Puts nodes in columns by their hops from the source.
    pub(super) fn of(snapshot: &Snapshot, plans: &[Drawn<'_>]) -> Self {
        let topology = &snapshot.topology;
        let neighbours = neighbours(topology);
        let hops = hops_from_source(snapshot, &neighbours);
        let mut columns: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for node in shown(topology, plans, &neighbours) {
            columns.entry(hops[node as usize]).or_default().push(node);
        }
        let tallest = columns.values().map(Vec::len).max().unwrap_or(1);
        let mut places = Self(BTreeMap::new());
        for (column, (_, nodes)) in columns.into_iter().enumerate() {
            // Each node stands near its neighbours in earlier columns.
            let mut ranked: Vec<(f64, u32)> = nodes
                .into_iter()
                .map(|node| (places.height(&neighbours[node as usize]), node))
                .collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let top = (tallest - ranked.len()) as f64 / 2.0;
            for (row, (_, node)) in ranked.into_iter().enumerate() {
                let at = [column as f64 * COLUMN, (top + row as f64) * ROW];
                places.0.insert(node, at);
            }
        }
        places
    }

    /// Returns the position of a node; `None` if it is not shown.
    pub(super) fn get(&self, node: u32) -> Option<[f64; 2]> {
        self.0.get(&node).copied()
    }

    /// Returns all shown nodes with their positions.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, [f64; 2])> + '_ {
        self.0.iter().map(|(node, at)| (*node, *at))
    }

    /// Returns the mean height of those `nodes` that have a position.
    fn height(&self, nodes: &[u32]) -> f64 {
        let heights = nodes.iter().filter_map(|node| self.get(*node));
        let heights: Vec<f64> = heights.map(|[_, y]| y).collect();
        heights.iter().sum::<f64>() / heights.len().max(1) as f64
    }
}

/// Returns the nodes to show: all, or those of the plans and some of their neighbours.
fn shown(topology: &Topology, plans: &[Drawn<'_>], neighbours: &[Vec<u32>]) -> BTreeSet<u32> {
    let count = topology.nodes().len();
    if count <= NODES_MAX {
        return (0..count as u32).collect();
    }
    let names: BTreeSet<_> = plans.iter().flat_map(|drawn| &drawn.plan.path).collect();
    let nodes = topology.nodes().iter().enumerate();
    let used = nodes.filter(|(_, place)| names.contains(&place.name));
    let used: Vec<u32> = used.map(|(at, _)| at as u32).collect();
    let mut shown: BTreeSet<u32> = used.iter().copied().collect();
    for near in used.iter().flat_map(|node| &neighbours[*node as usize]) {
        if shown.len() >= NODES_MAX {
            break;
        }
        shown.insert(*near);
    }
    shown
}

/// Returns the neighbours of each node, each once.
fn neighbours(topology: &Topology) -> Vec<Vec<u32>> {
    let mut neighbours: Vec<Vec<u32>> = vec![Vec::new(); topology.nodes().len()];
    for edge in topology.links() {
        let [a, b] = edge.ends.map(|end| end.0);
        neighbours[a as usize].push(b);
        neighbours[b as usize].push(a);
    }
    for near in &mut neighbours {
        near.sort_unstable();
        near.dedup();
    }
    neighbours
}

/// Returns each node's hops from the source over all links; unreachable nodes come last.
fn hops_from_source(snapshot: &Snapshot, neighbours: &[Vec<u32>]) -> Vec<u32> {
    let count = neighbours.len() as u32;
    let mut hops = vec![count; neighbours.len()];
    let Some(NodeIndex(source)) = snapshot.topology.find(&snapshot.stream.from) else {
        return hops;
    };
    hops[source as usize] = 0;
    let mut begun = vec![source];
    while !begun.is_empty() {
        let mut next = vec![];
        for node in begun {
            for far in &neighbours[node as usize] {
                if hops[*far as usize] == count {
                    hops[*far as usize] = hops[node as usize] + 1;
                    next.push(*far);
                }
            }
        }
        begun = next;
    }
    hops
}
