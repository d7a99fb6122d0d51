//! A planner's result: path, placements, and their cost.

use alloc::vec::Vec;

use thalweg_base::time::Duration;

use super::cost::{Cost, link_cost};
use super::problem::{Move, Route};
use super::states::States;
use crate::model::{Adapter, AdapterName, LinkIndex, NodeName, PACK, SEAL, Snapshot};

/// A path and its adapters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Whether the plan satisfies all needs.
    pub feasible: bool,
    /// Total cost, the sum of the parts.
    pub cost: f64,
    /// The parts of the cost.
    pub cost_parts: CostParts,
    /// The nodes in order, source and sink included; empty if there is no plan.
    pub path: Vec<NodeName>,
    /// Layers that reach the sink.
    pub layers: u8,
    /// The adapters of each node that has any, in path order.
    pub placements: Vec<Placement>,
    /// The stream on each link, in path order.
    pub links: Vec<LinkUse>,
    /// The sum of the links' and adapters' delays.
    pub delay: Duration,
}

/// The parts of a plan's cost.
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

/// The stream on one link of the path.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkUse {
    /// Index in the snapshot's topology.
    pub link: LinkIndex,
    /// The sending node.
    pub from: NodeName,
    /// The receiving node.
    pub to: NodeName,
    /// R, the stream's rate on the link, in bit/s.
    pub rate_bps: f64,
    /// Layers kept.
    pub layers: u8,
    /// Whether the stream is packed.
    pub packed: bool,
    /// Whether the stream is sealed.
    pub sealed: bool,
    /// Declared adapters applied: the transcoder that made the layers, then the transforms that are
    /// on.
    pub transforms: Vec<AdapterName>,
}

impl Plan {
    /// Returns the adapters at a node.
    pub fn adapters_at(&self, node: &NodeName) -> &[Adapter] {
        let at = self.placements.iter().find(|here| here.node == *node);
        at.map_or(&[], |here| &here.adapters)
    }

    /// Returns the number of adapters placed.
    pub fn adapters(&self) -> usize {
        self.placements.iter().map(|here| here.adapters.len()).sum()
    }

    /// Returns an adapter outside the standard ones, if the plan has any.
    pub fn declared_adapter(&self) -> Option<Adapter> {
        let mut adapters = self.placements.iter().flat_map(|here| &here.adapters);
        let declared = adapters.find(|adapter| !adapter.kind().is_standard());
        declared.copied()
    }

    /// Builds the plan of a route; its cost excludes penalties of lifted constraints.
    pub(super) fn of_route(snapshot: &Snapshot, route: &Route, feasible: bool) -> Self {
        Self::through(snapshot, &States::new(snapshot, 1), route, feasible)
    }

    /// Builds the plan of a route with existing states; their least layers do not matter.
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

/// Returns the declared adapters applied in a state.
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
