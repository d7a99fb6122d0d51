//! The exact planner: relax, search, tighten what was broken, search again.
//!
//! *The idea.* Two constraints make labels incomparable and searches long, and seldom bind: that a path visits a node
//! once (a second visit would find fresh slots, so the best *walk* may be cheaper than the best path), and the
//! deadline. So both are left out at first. The best walk of a relaxed problem that breaks neither is the best plan;
//! one that does tells exactly what to watch: the deadline, or the nodes it visited twice. Each round watches more, so
//! the rounds end.
//!
//! *Sources.* docs/planner.md §4; Righini and Salani 2008 (decremental state-space relaxation).

use alloc::vec;
use alloc::vec::Vec;

use super::bounds::Bounds;
use super::cost::Cost;
use super::search;
use super::states::States;
use crate::limits::ADAPTERS_PER_NODE_MAX;
use crate::model::{Adapter, Catalogue, LinkIndex, Snapshot, Topology};
use crate::time::Duration;

/// Which constraints only cost a penalty instead of binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent constraints, each kept or lifted"
)]
pub(super) struct Relaxation {
    pub(super) deadline: bool,
    pub(super) rate: bool,
    pub(super) slots: bool,
    pub(super) trust: bool,
}

/// What a lifted constraint costs per unit of breach (a second, a link's rate, an adapter, a plaintext link): above
/// any cost that is worth comparing, so that the least breach comes first.
const PENALTY: f64 = 1e9;

/// A direction of a link that is up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) to: u32,
    pub(super) link: u32,
    pub(super) rate_bps: f64,
    pub(super) delay_ns: u64,
    /// Whether the stream must be hidden on it.
    pub(super) hide: bool,
}

/// One move of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// An adapter at the present node.
    Run(Adapter),
    /// Over a link to the next node.
    Hop { link: LinkIndex, to: usize },
}

/// A way from source to sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) source: usize,
    pub(super) moves: Vec<Move>,
    pub(super) delay: Duration,
}

/// A search kept as many labels as it may, and had not found the best way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted {
    pub(super) labels: u32,
}

/// A snapshot made ready for searching.
pub(super) struct Problem<'a> {
    snapshot: &'a Snapshot,
    pub(super) states: States,
    pub(super) source: usize,
    pub(super) sink: usize,
    pub(super) relaxation: Relaxation,
    arcs: Vec<Arc>,
    first_arc: Vec<u32>,
}

/// What a search has to watch beyond cost, rates, slots and trust.
pub(super) struct Watch {
    /// Whether the deadline binds.
    pub(super) deadline: bool,
    /// By node: its bit among the nodes that may be visited once only.
    pub(super) once: Vec<Option<u32>>,
    /// How many have a bit.
    pub(super) once_count: u32,
}

impl<'a> Problem<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        [source, sink]: [usize; 2],
        relaxation: Relaxation,
    ) -> Self {
        let topology = &snapshot.topology;
        let confidential = snapshot.stream.needs.confidential;
        let mut first_arc = vec![0u32; topology.nodes().len() + 1];
        let usable = |edge: &&crate::model::Edge| edge.up && edge.rate.as_bps() > 0;
        for edge in topology.links().iter().filter(usable) {
            for end in edge.ends {
                first_arc[end.0 as usize + 1] += 1;
            }
        }
        for node in 1..first_arc.len() {
            first_arc[node] += first_arc[node - 1];
        }
        let nowhere = Arc {
            to: 0,
            link: 0,
            rate_bps: 0.0,
            delay_ns: 0,
            hide: false,
        };
        let mut arcs = vec![nowhere; first_arc[topology.nodes().len()] as usize];
        let mut filled = first_arc.clone();
        for (link, edge) in topology.links().iter().enumerate() {
            if !usable(&edge) {
                continue;
            }
            for end in edge.ends {
                let place = &mut filled[end.0 as usize];
                arcs[*place as usize] = Arc {
                    to: edge.far_end(end).0,
                    link: link as u32,
                    rate_bps: edge.rate.as_bps() as f64,
                    delay_ns: edge.delay.as_nanos(),
                    hide: confidential && topology.must_seal(edge),
                };
                *place += 1;
            }
        }
        Self {
            snapshot,
            states: States::new(snapshot),
            source,
            sink,
            relaxation,
            arcs,
            first_arc,
        }
    }

    pub(super) fn topology(&self) -> &'a Topology {
        &self.snapshot.topology
    }

    /// Returns the adapters there are.
    pub(super) fn catalogue(&self) -> &'a Catalogue {
        &self.snapshot.catalogue
    }

    /// Returns the links out of a node.
    pub(super) fn arcs_from(&self, node: u32) -> &[Arc] {
        let node = node as usize;
        &self.arcs[self.first_arc[node] as usize..self.first_arc[node + 1] as usize]
    }

    /// Returns the latest arrival, `NEVER` if any is in time.
    pub(super) fn deadline(&self) -> Duration {
        if self.relaxation.deadline {
            Duration::NEVER
        } else {
            self.snapshot.stream.needs.deadline
        }
    }

    /// Returns whether every state at a node must be hidden.
    pub(super) fn hides_at(&self, node: u32) -> bool {
        self.snapshot.stream.needs.confidential
            && !self.relaxation.trust
            && !self.topology().nodes()[node as usize].trusted
    }

    /// Returns what one more adapter costs at a node that already runs some, or `None` if there is no slot.
    pub(super) fn slot_penalty(&self, node: u32, used: u8) -> Option<Cost> {
        if used < self.topology().nodes()[node as usize].slots {
            return Some(Cost::ZERO);
        }
        let free = self.relaxation.slots && usize::from(used) < ADAPTERS_PER_NODE_MAX;
        free.then(|| Cost::from_f64(PENALTY))
    }

    /// Returns what it costs to cross a link in a state, or `None` if that may not be.
    pub(super) fn hop_cost(&self, arc: &Arc, state: u16) -> Option<Cost> {
        let rate_bps = self.states.rate_bps(state);
        let mut cost = super::product::link_cost(rate_bps, arc.rate_bps);
        if !super::states::fits(rate_bps, self.topology().links()[arc.link as usize].rate) {
            if !self.relaxation.rate {
                return None;
            }
            cost += Cost::from_f64(PENALTY * (rate_bps / arc.rate_bps - 1.0));
        }
        if arc.hide && !self.states.is_hidden(state) {
            if !self.relaxation.trust {
                return None;
            }
            cost += Cost::from_f64(PENALTY);
        }
        if self.relaxation.deadline {
            cost += Cost::from_f64(PENALTY * (arc.delay_ns as f64 / 1e9));
        }
        Some(cost)
    }

    /// Returns what an adapter's delay costs where the deadline is lifted.
    pub(super) fn delay_penalty(&self, delay: Duration) -> Cost {
        if self.relaxation.deadline {
            Cost::from_f64(PENALTY * delay.as_secs_f64())
        } else {
            Cost::ZERO
        }
    }

    /// Returns the best route, or `None` if there is none.
    pub(super) fn solve(&self, labels_max: u32) -> Result<Option<Route>, Exhausted> {
        let bounds = Bounds::new(self);
        let mut watch = Watch {
            deadline: false,
            once: vec![None; self.topology().nodes().len()],
            once_count: 0,
        };
        loop {
            let Some(route) = search::best_walk(self, &bounds, &watch, labels_max)? else {
                return Ok(None);
            };
            let late = route.delay > self.deadline();
            debug_assert!(!(late && watch.deadline), "a watched deadline was missed");
            watch.deadline |= late;
            let twice = self.visited_twice(&route);
            if twice.is_empty() && !late {
                return Ok(Some(route));
            }
            for node in twice {
                let bit = &mut watch.once[node];
                debug_assert!(bit.is_none(), "a watched node was visited twice");
                if bit.is_none() {
                    *bit = Some(watch.once_count);
                    watch.once_count += 1;
                }
            }
        }
    }

    /// Returns the nodes that a route visits more than once, each once.
    fn visited_twice(&self, route: &Route) -> Vec<usize> {
        let mut seen: Vec<usize> = vec![self.source];
        for step in &route.moves {
            if let Move::Hop { to, .. } = step {
                seen.push(*to);
            }
        }
        seen.sort_unstable();
        let mut twice: Vec<usize> = seen
            .windows(2)
            .filter(|pair| pair[0] == pair[1])
            .map(|pair| pair[0])
            .collect();
        twice.dedup();
        twice
    }
}
