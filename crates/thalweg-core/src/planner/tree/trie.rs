//! Ways that begin alike, as a trie of moves.
//!
//! *The idea.* Two ways share a move exactly if they share all moves before it. So the trie of their moves is the tree:
//! each edge is an adapter that runs once or a link that carries one copy.

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;

use super::super::check::Violation;
use super::super::cost::Cost;
use super::super::problem::{Move, Problem, Route};
use super::super::product::{Plan, link_cost};
use super::super::search::Seed;
use super::super::states::States;
use crate::model::{Adapter, LinkIndex, NodeName, Snapshot};

/// A trie of moves, with what they cost.
pub(super) struct Trie {
    twigs: Vec<Seed>,
    /// By twig: its children, by their places.
    children: Vec<Vec<u32>>,
    /// By node: how many adapters run there, and what they take of its CPU where that is bounded.
    used: BTreeMap<u32, (u8, u64)>,
    /// What adapters cost, each once.
    pub(super) run: Cost,
    /// What links cost, each once.
    pub(super) links: Cost,
}

impl Trie {
    /// Merges routes from their common source; there may be none yet.
    pub(super) fn of(problem: &Problem<'_>, ways: &[Option<Route>]) -> Self {
        let mut trie = Self {
            twigs: vec![Seed::source(problem)],
            children: vec![Vec::new()],
            used: BTreeMap::new(),
            run: Cost::ZERO,
            links: Cost::ZERO,
        };
        for route in ways.iter().flatten() {
            let mut at = 0u32;
            for step in &route.moves {
                let mut children = trie.children[at as usize].iter();
                let known = children.find(|child| trie.twigs[**child as usize].via == Some(*step));
                at = match known {
                    Some(known) => *known,
                    None => trie.grow(problem, at, *step),
                };
            }
        }
        for twig in &mut trie.twigs {
            let used = trie.used.get(&twig.node).copied();
            (twig.slots, twig.picocores) = used.unwrap_or_default();
        }
        trie
    }

    fn grow(&mut self, problem: &Problem<'_>, parent: u32, step: Move) -> u32 {
        let mut twig = self.twigs[parent as usize];
        twig.parent = Some(parent);
        twig.via = Some(step);
        match step {
            Move::Run(adapter) => {
                let step = problem.states.step(twig.state, adapter);
                let step = step.expect("a route runs adapters that work in its states");
                self.run += step.run_cost;
                twig.delay += step.delay;
                twig.state = step.to;
                twig.adapters += 1;
                let (slots, picocores) = self.used.entry(twig.node).or_default();
                *slots += 1;
                *picocores = problem.used_picocores(twig.node, *picocores, step);
            }
            Move::Hop { link, to } => {
                let edge = problem.topology().link(link);
                let rate_bps = problem.states.rate_bps(twig.state);
                self.links += link_cost(rate_bps, edge.rate.as_bps() as f64);
                twig.delay += edge.delay;
                twig.node = to as u32;
                twig.hops += 1;
            }
        }
        let at = self.twigs.len() as u32;
        self.twigs.push(twig);
        self.children.push(Vec::new());
        self.children[parent as usize].push(at);
        at
    }

    /// Returns the nodes it enters, the source included.
    pub(super) fn nodes(&self) -> Vec<u32> {
        let entered = self.twigs.iter();
        let entered = entered.filter(|twig| !matches!(twig.via, Some(Move::Run(_))));
        entered.map(|twig| twig.node).collect()
    }

    /// Returns every place on it as one where a search may begin.
    pub(super) fn seeds(&self) -> &[Seed] {
        &self.twigs
    }

    /// Returns whether no node is entered twice and none runs more adapters, or takes more CPU, than it may.
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

/// Returns the cost of what a route does not deliver.
pub(super) fn lacks(states: &States, route: &Route) -> Cost {
    states.quality(end_state(states, route))
}

/// Adds what the paths of a tree break by sharing: a node entered in two ways, or more adapters than it has slots.
pub(super) fn check_sharing(snapshot: &Snapshot, paths: &[Plan], violations: &mut Vec<Violation>) {
    // By node: how the stream came, and the beginnings of its chains, each once.
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
