//! What a planner returns: path, placements, and what they cost.

use alloc::vec::Vec;

use super::cost::Cost;
use super::problem::{Move, Route};
use super::states::States;
use crate::model::{Adapter, AdapterName, LinkIndex, NodeName, PACK, SEAL, Snapshot};
use crate::time::Duration;

/// A path and the adapters on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Whether it satisfies all needs.
    pub feasible: bool,
    /// Its cost, the sum of the parts.
    pub cost: f64,
    /// What the cost is made of.
    pub cost_parts: CostParts,
    /// The nodes in order, source and sink included; empty if there is no plan at all.
    pub path: Vec<NodeName>,
    /// Layers that reach the sink.
    pub layers: u8,
    /// The adapters of each node that has any, in the order of the path.
    pub placements: Vec<Placement>,
    /// What each link carries, in the order of the path.
    pub links: Vec<LinkUse>,
    /// The sum of the links' and adapters' delays.
    pub delay: Duration,
}

/// What a plan's cost is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostParts {
    /// Σ κ · input rate.
    pub adapters: f64,
    /// Σ R / rate.
    pub links: f64,
    /// Λ · (1 − Σ u).
    pub quality: f64,
}

/// The adapters of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The node.
    pub node: NodeName,
    /// In the order in which an ADU passes them.
    pub adapters: Vec<Adapter>,
}

/// What one link of the path carries.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkUse {
    /// Which link of the snapshot's topology.
    pub link: LinkIndex,
    /// The node that sends on it.
    pub from: NodeName,
    /// The node that receives.
    pub to: NodeName,
    /// R, the rate of the stream on it, in bit/s.
    pub rate_bps: f64,
    /// Layers kept.
    pub layers: u8,
    /// Whether it is packed.
    pub packed: bool,
    /// Whether it is sealed.
    pub sealed: bool,
    /// What declared adapters have done to it: the transcoder whose layers they are, then the transforms that are on.
    pub transforms: Vec<AdapterName>,
}

impl Plan {
    /// Returns the adapters at a node, none if the plan places none there.
    pub fn adapters_at(&self, node: &NodeName) -> &[Adapter] {
        let at = self.placements.iter().find(|here| here.node == *node);
        at.map_or(&[], |here| &here.adapters)
    }

    /// Returns how many adapters it places.
    pub fn adapters(&self) -> usize {
        self.placements.iter().map(|here| here.adapters.len()).sum()
    }

    /// Returns an adapter of it that is not one of the standard ones, if there is any.
    pub fn declared_adapter(&self) -> Option<Adapter> {
        let mut adapters = self.placements.iter().flat_map(|here| &here.adapters);
        let declared = adapters.find(|adapter| !adapter.kind().is_standard());
        declared.copied()
    }

    /// Walks a route and sums up what it costs, free of any penalty that found it.
    pub(super) fn of_route(snapshot: &Snapshot, route: &Route, feasible: bool) -> Self {
        Self::through(snapshot, &States::new(snapshot, 1), route, feasible)
    }

    /// The same with the snapshot's states at hand; how many layers they take to be enough does not matter.
    pub(super) fn through(
        snapshot: &Snapshot,
        states: &States,
        route: &Route,
        feasible: bool,
    ) -> Self {
        let topology = &snapshot.topology;
        let name = |node: usize| topology.nodes()[node].name.clone();
        let mut plan = Self {
            feasible,
            path: alloc::vec![name(route.source)],
            ..Self::default()
        };
        let (mut node, mut state) = (route.source, states.start());
        let (mut run, mut links) = (Cost::ZERO, Cost::ZERO);
        let mut here: Vec<Adapter> = Vec::new();
        let place = |placements: &mut Vec<Placement>, node, here: &mut Vec<Adapter>| {
            if !here.is_empty() {
                let adapters = core::mem::take(here);
                let node = name(node);
                placements.push(Placement { node, adapters });
            }
        };
        for step in &route.moves {
            match *step {
                Move::Run(adapter) => {
                    let step = states
                        .step(state, adapter)
                        .expect("a route runs adapters that work in its states");
                    run += step.run_cost;
                    plan.delay += step.delay;
                    state = step.to;
                    here.push(adapter);
                }
                Move::Hop { link, to } => {
                    place(&mut plan.placements, node, &mut here);
                    let edge = topology.link(link);
                    let rate_bps = states.rate_bps(state);
                    links += link_cost(rate_bps, edge.rate.as_bps() as f64);
                    plan.delay += edge.delay;
                    plan.links.push(LinkUse {
                        link,
                        from: name(node),
                        to: name(to),
                        rate_bps,
                        layers: states.layers_of(state),
                        packed: states.is_on(state, PACK),
                        sealed: states.is_on(state, SEAL),
                        transforms: declared(snapshot, states, state),
                    });
                    plan.path.push(name(to));
                    node = to;
                }
            }
        }
        place(&mut plan.placements, node, &mut here);
        plan.layers = states.layers_of(state);
        let quality = states.quality(state);
        plan.cost = (run + links + quality).as_f64();
        plan.cost_parts = CostParts {
            adapters: run.as_f64(),
            links: links.as_f64(),
            quality: quality.as_f64(),
        };
        plan
    }
}

/// Returns what declared adapters have made of the stream in a state.
pub(super) fn declared(snapshot: &Snapshot, states: &States, state: u16) -> Vec<AdapterName> {
    let catalogue = &snapshot.catalogue;
    let table = states
        .table_of(state)
        .map(|table| catalogue.tables[table].name);
    let transforms = catalogue.transforms.iter().enumerate();
    let on = transforms
        .filter(|(bit, transform)| states.is_on(state, *bit) && !transform.name.is_standard());
    let on = on.map(|(_, transform)| transform.name);
    table.into_iter().chain(on).collect()
}

/// Returns R / rate.
pub(super) fn link_cost(rate_bps: f64, link_bps: f64) -> Cost {
    Cost::from_f64(rate_bps / link_bps)
}
