//! Routes with common beginnings, as a trie of moves.
//!
//! *The idea.* Two routes share a move exactly if they share all moves before it. So the trie of
//! their moves is the tree: each edge is an adapter that runs once or a link that carries one copy.

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::super::check::Violation;
use super::super::cost::{Cost, link_cost};
use super::super::problem::{Move, Problem, Route};
use super::super::product::Plan;
use super::super::search::Seed;
use super::super::states::States;
use crate::model::{Adapter, LinkIndex, NodeName, Snapshot};

/// A trie of moves, with their cost.
pub(super) struct Trie {
    places: Vec<Seed>,
    /// By twig: the indices of its children.
    children: Vec<Vec<u32>>,
    /// By node: adapters, and their CPU where it is bounded.
    used: BTreeMap<u32, (u8, u64)>,
    /// Cost of adapters, each once.
    pub(super) run: Cost,
    /// Cost of links, each once.
    pub(super) links: Cost,
}

impl Trie {
    /// Merges routes from their common source; all of them may be `None`.
    pub(super) fn of(problem: &Problem<'_>, ways: &[Option<Route>]) -> Self {
        let mut trie = Self {
            places: vec![Seed::source(problem)],
            children: vec![Vec::new()],
            used: BTreeMap::new(),
            run: Cost::ZERO,
            links: Cost::ZERO,
        };
        for route in ways.iter().flatten() {
            let mut at = 0u32;
            for step in &route.moves {
                let mut children = trie.children[at as usize].iter();
                let known = children.find(|child| trie.places[**child as usize].via == Some(*step));
                at = match known {
                    Some(known) => *known,
                    None => trie.grow(problem, at, *step),
                };
            }
        }
        for place in &mut trie.places {
            let used = trie.used.get(&place.node).copied();
            (place.slots, place.picocores) = used.unwrap_or_default();
        }
        trie
    }

    fn grow(&mut self, problem: &Problem<'_>, parent: u32, step: Move) -> u32 {
        let mut place = self.places[parent as usize];
        place.parent = Some(parent);
        place.via = Some(step);
        match step {
            Move::Run(adapter) => {
                let step = problem.states.step(place.state, adapter);
                let step = step.expect("a route runs adapters that work in its states");
                self.run += step.run_cost;
                place.delay += step.delay;
                place.state = step.to;
                place.adapters += 1;
                let (slots, picocores) = self.used.entry(place.node).or_default();
                *slots += 1;
                *picocores = problem.used_picocores(place.node, *picocores, step);
            }
            Move::Hop { link, to } => {
                let edge = problem.topology().link(link);
                let rate_bps = problem.states.rate_bps(place.state);
                self.links += link_cost(rate_bps, edge.rate.as_bps() as f64);
                place.delay += edge.delay;
                place.node = to as u32;
                place.hops += 1;
            }
        }
        let at = self.places.len() as u32;
        self.places.push(place);
        self.children.push(Vec::new());
        self.children[parent as usize].push(at);
        at
    }

    /// Returns the nodes that the trie enters, the source included.
    pub(super) fn nodes(&self) -> Vec<u32> {
        let entered = self.places.iter();
        let entered = entered.filter(|place| !matches!(place.via, Some(Move::Run(_))));
        entered.map(|place| place.node).collect()
    }

    /// Returns every place of the trie as a start of a search.
    pub(super) fn seeds(&self) -> &[Seed] {
        &self.places
    }

    /// Returns whether no node is entered twice or exceeds its slots or CPU.
    pub(super) fn is_tree(&self, problem: &Problem<'_>) -> bool {
        let mut nodes = self.nodes();
        let fits = (self.used.iter()).all(|(node, (slots, picocores))| {
            *slots <= problem.slots(*node) && problem.has_picocores(*node, *picocores)
        });
        nodes.sort_unstable();
        fits && nodes.windows(2).all(|pair| pair[0] != pair[1])
    }
}

/// Returns the state in which a route delivers.
pub(super) fn end_state(states: &States, route: &Route) -> u16 {
    let mut state = states.start();
    for step in &route.moves {
        if let Move::Run(adapter) = step {
            let step = states.step(state, *adapter);
            state = step
                .expect("a route runs adapters that work in its states")
                .to;
        }
    }
    state
}

/// Returns the cost of a route's missing quality.
pub(super) fn lacks(states: &States, route: &Route) -> Cost {
    states.quality(end_state(states, route))
}

/// Adds what the paths of a tree break by sharing: a node that is entered in two ways, or exceeds
/// its slots.
pub(super) fn check_sharing(snapshot: &Snapshot, paths: &[Plan], violations: &mut Vec<Violation>) {
    // By node: the moves up to it, and the distinct prefixes of its adapter chains.
    type Way = (Vec<Adapter>, Option<LinkIndex>);
    type Seen<'a> = (&'a NodeName, Vec<Way>, Vec<Vec<Adapter>>);
    let mut seen: Vec<Seen<'_>> = Vec::new();
    for path in paths {
        let mut way: Vec<Way> = Vec::new();
        for (at, node) in path.path.iter().enumerate() {
            let chain = path.adapters_at(node);
            let known = seen.iter().position(|(name, ..)| *name == node);
            let known = known.unwrap_or_else(|| {
                seen.push((node, way.clone(), Vec::new()));
                seen.len() - 1
            });
            let (_, came, chains) = &mut seen[known];
            if *came != way {
                violations.push(Violation::BrokenPath {
                    at: node.to_string(),
                    what: "two ways of the tree enter it differently".to_string(),
                });
            }
            for end in 1..=chain.len() {
                if !chains.iter().any(|begun| begun[..] == chain[..end]) {
                    chains.push(chain[..end].to_vec());
                }
            }
            let link = path.links.get(at).map(|link| link.link);
            way.push((chain.to_vec(), link));
        }
    }
    for (name, _, chains) in seen {
        let slots = snapshot.topology.find(name);
        let slots = slots.map_or(0, |index| snapshot.topology.node(index).slots);
        if chains.len() > usize::from(slots) {
            violations.push(Violation::FewSlots {
                node: name.clone(),
                needs: chains.len() as u32,
                has: u32::from(slots),
            });
        }
    }
}
