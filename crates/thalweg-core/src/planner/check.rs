//! Verifies a plan against its snapshot, by other means than the search.
//!
//! *The idea.* The plan is executed on paper: a stream with all layers, unpacked and unsealed, is led along the path,
//! every adapter is applied to it, every constraint is looked at where it holds. The search's tables are not used, so
//! that a mistake in them shows. The same list says what an infeasible plan breaks, with numbers.
//!
//! *Sources.* docs/planner.md §2.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::product::{LinkUse, Plan};
use crate::limits::PATH_NODES_MAX;
use crate::model::{Adapter, Catalogue, Edge, NodeName, PACK, Profile, Role, SEAL, Snapshot};
use crate::time::Duration;
use crate::units::Bitrate;

/// How far a stated number may be from the true one, relatively: beyond any rounding, below any meaning.
const TOLERANCE: f64 = 1e-9;

/// One thing that a plan breaks, or that keeps a plan from existing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Violation {
    /// No links that are up lead from source to sink.
    #[error("no links that are up lead from {from} to {to}")]
    NoPath {
        /// The source.
        from: NodeName,
        /// The sink.
        to: NodeName,
    },
    /// A link is too slow for what the plan sends on it.
    #[error("link {from} → {to} has {}, the stream needs {}", rate(*has_bps), rate(*needs_bps))]
    SlowLink {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
        /// The stream's rate on it.
        needs_bps: f64,
        /// The link's rate.
        has_bps: f64,
    },
    /// A link of the path is down.
    #[error("link {from} → {to} is down")]
    LinkDown {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
    },
    /// A node runs more adapters than it has slots.
    #[error("node {node} has {has} adapter slots, the plan needs {needs}")]
    FewSlots {
        /// The node.
        node: NodeName,
        /// Adapters placed on it.
        needs: u32,
        /// Its slots.
        has: u32,
    },
    /// A link that may not carry plaintext does.
    #[error("link {from} → {to} may not carry plaintext, and would")]
    PlainLink {
        /// The sender.
        from: NodeName,
        /// The receiver.
        to: NodeName,
    },
    /// A node that may not see plaintext does.
    #[error("node {node} may not see plaintext, and would")]
    PlainNode {
        /// The node.
        node: NodeName,
    },
    /// The path takes longer than the deadline allows.
    #[error("the path takes {takes_ms} ms, the deadline allows {allows_ms} ms")]
    Late {
        /// The sum of all delays.
        takes_ms: f64,
        /// The deadline.
        allows_ms: f64,
    },
    /// The path has more nodes than can be deployed.
    #[error("the path has {nodes} nodes, {most} are the most")]
    LongPath {
        /// Its nodes.
        nodes: u32,
        /// [`crate::limits::PATH_NODES_MAX`].
        most: u32,
    },
    /// The stream has, or would arrive with, a wrong number of layers.
    #[error(
        "{has} layers, where {needs} to {} are needed",
        crate::limits::LAYERS_MAX
    )]
    Layers {
        /// Layers there are.
        has: u32,
        /// Layers needed at least.
        needs: u32,
    },
    /// Each sink alone can be reached, but no tree to all of them was found.
    #[error("no tree was found that leads to {sink} and to the other sinks")]
    NoTree {
        /// One of the sinks.
        sink: NodeName,
    },
    /// The stream does not have exactly one sink.
    #[error("the stream has {count} sinks, a path leads to one: plan a tree, or each alone")]
    Sinks {
        /// How many.
        count: u32,
    },
    /// An end of the stream is not in the network.
    #[error("there is no node {node}")]
    UnknownNode {
        /// The name.
        node: NodeName,
    },
    /// The search gave up.
    #[error("the search gave up at {labels} labels; whether there is a plan is not known")]
    Exhausted {
        /// Labels it kept.
        labels: u32,
    },
    /// The path does not lead from the stream's source to its sink over the links that the plan lists.
    #[error("the path is broken at {at}: {what}")]
    BrokenPath {
        /// Where.
        at: String,
        /// How.
        what: String,
    },
    /// An adapter cannot work where the plan places it.
    #[error("{adapter} cannot work on what arrives at {node}")]
    Misplaced {
        /// The node.
        node: NodeName,
        /// The adapter.
        adapter: Adapter,
    },
    /// The stream arrives packed or sealed.
    #[error("the stream reaches {node} packed or sealed")]
    NotPlain {
        /// The sink.
        node: NodeName,
    },
    /// The plan says of itself what is not so.
    #[error("the plan says {what} is {says}, it is {is}")]
    Misstated {
        /// Of what.
        what: String,
        /// What it says.
        says: f64,
        /// What is so.
        is: f64,
    },
}

/// Prints a rate that need not be whole, rounded up, as the world file writes it.
pub(super) fn rate(bps: f64) -> Bitrate {
    let whole = bps as u64;
    // A product of decimal ratios lies a hair beside the whole number it means.
    let up = bps - whole as f64 > 1e-6;
    Bitrate::from_bps(whole.saturating_add(u64::from(up)))
}

/// Returns everything a plan breaks; empty if it may be deployed and is what it says it is.
///
/// Cost    O(path · (layers + path))
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    led_through(snapshot, plan).violations
}

/// Returns what a plan costs and what it breaks, whatever it says of itself.
pub(super) fn assess(snapshot: &Snapshot, plan: &Plan) -> (f64, Vec<Violation>) {
    let mut walk = led_through(snapshot, plan);
    walk.violations
        .retain(|violation| !matches!(violation, Violation::Misstated { .. }));
    (
        walk.adapters_cost + walk.links_cost + walk.quality_cost(),
        walk.violations,
    )
}

fn led_through<'a>(snapshot: &'a Snapshot, plan: &Plan) -> Walk<'a> {
    let mut walk = Walk::new(snapshot);
    let ends = [plan.path.first(), plan.path.last()];
    let sinks = &snapshot.stream.to;
    if ends[0] != Some(&snapshot.stream.from) || !ends[1].is_some_and(|end| sinks.contains(end)) {
        walk.broken("its ends", "it does not lead from the source to the sink");
        return walk;
    }
    if plan.links.len() + 1 != plan.path.len() {
        walk.broken("its links", "it needs one link fewer than nodes");
        return walk;
    }
    walk.check_places(plan);
    for (at, node) in plan.path.iter().enumerate() {
        walk.visit(node, plan.adapters_at(node));
        if let Some(link) = plan.links.get(at) {
            walk.cross(node, &plan.path[at + 1], link);
        }
    }
    walk.arrive(plan);
    walk
}

/// A stream on its way through a plan.
struct Walk<'a> {
    snapshot: &'a Snapshot,
    layers: usize,
    on: Vec<bool>,
    adapters_cost: f64,
    links_cost: f64,
    delay: Duration,
    violations: Vec<Violation>,
}

impl<'a> Walk<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let transforms = snapshot.catalogue.transforms.len();
        Self {
            snapshot,
            layers: snapshot.stream.layers.len(),
            on: alloc::vec![false; transforms.min(Catalogue::TRANSFORMS_MAX)],
            adapters_cost: 0.0,
            links_cost: 0.0,
            delay: Duration::ZERO,
            violations: Vec::new(),
        }
    }

    fn broken(&mut self, at: &str, what: &str) {
        self.violations.push(Violation::BrokenPath {
            at: at.to_string(),
            what: what.to_string(),
        });
    }

    fn rate_bps(&self) -> f64 {
        let plain = self.snapshot.stream.rate_of(self.layers).as_bps() as f64;
        let transforms = self.snapshot.catalogue.transforms.iter().zip(&self.on);
        transforms
            .filter(|(_, on)| **on)
            .fold(plain, |bps, (transform, _)| bps * transform.rate_factor)
    }

    fn is_hidden(&self) -> bool {
        let mut transforms = self.snapshot.catalogue.transforms.iter().zip(&self.on);
        transforms.any(|(transform, on)| transform.hides && *on)
    }

    fn is_on(&self, transform: usize) -> bool {
        self.on.get(transform).is_some_and(|on| *on)
    }

    /// Checks that the path is not too long, no node comes twice and adapters are placed on the path only.
    fn check_places(&mut self, plan: &Plan) {
        if plan.path.len() > PATH_NODES_MAX {
            self.violations.push(Violation::LongPath {
                nodes: plan.path.len() as u32,
                most: PATH_NODES_MAX as u32,
            });
        }
        for (at, node) in plan.path.iter().enumerate() {
            if plan.path[..at].contains(node) {
                self.broken(node.as_str(), "the node is visited twice");
            }
        }
        for (at, placement) in plan.placements.iter().enumerate() {
            let node = &placement.node;
            if !plan.path.contains(node) {
                self.broken(node.as_str(), "adapters are placed off the path");
            }
            if plan.placements[..at]
                .iter()
                .any(|other| other.node == *node)
            {
                self.broken(node.as_str(), "adapters are placed twice");
            }
        }
    }

    fn visit(&mut self, name: &NodeName, adapters: &[Adapter]) {
        let Some(index) = self.snapshot.topology.find(name) else {
            self.violations
                .push(Violation::UnknownNode { node: name.clone() });
            return;
        };
        let node = self.snapshot.topology.node(index);
        if adapters.len() > usize::from(node.slots) {
            self.violations.push(Violation::FewSlots {
                node: name.clone(),
                needs: adapters.len() as u32,
                has: u32::from(node.slots),
            });
        }
        let guarded = self.snapshot.stream.needs.confidential && !node.trusted;
        let mut seen = !self.is_hidden();
        for adapter in adapters {
            if !self.apply(*adapter) {
                self.violations.push(Violation::Misplaced {
                    node: name.clone(),
                    adapter: *adapter,
                });
            }
            seen |= !self.is_hidden();
        }
        if guarded && seen {
            self.violations
                .push(Violation::PlainNode { node: name.clone() });
        }
    }

    /// Applies an adapter and returns whether it can work here.
    fn apply(&mut self, adapter: Adapter) -> bool {
        let profiles = &self.snapshot.catalogue.profiles;
        let Some(profile) = profiles.iter().find(|profile| is_of(profile, adapter)) else {
            return false;
        };
        let input_mbps = self.rate_bps() / 1e6;
        self.adapters_cost += profile.cost_per_mbps * input_mbps;
        self.delay += profile.delay;
        if profile.needs_plaintext && self.is_hidden() {
            return false;
        }
        match (profile.role, adapter) {
            (Role::Keep, Adapter::Keep(layers)) => {
                let layers = usize::from(layers);
                let lowers = (1..self.layers).contains(&layers);
                if lowers {
                    self.layers = layers;
                }
                lowers
            }
            (Role::Keep, _) => false,
            (Role::Do(bit), _) => self.switch(bit, true),
            (Role::Undo(bit), _) => self.switch(bit, false),
        }
    }

    fn switch(&mut self, bit: usize, to: bool) -> bool {
        match self.on.get_mut(bit) {
            Some(on) if *on != to => {
                *on = to;
                true
            }
            _ => false,
        }
    }

    fn cross(&mut self, from: &NodeName, to: &NodeName, link: &LinkUse) {
        let topology = &self.snapshot.topology;
        let Some(edge) = topology.links().get(link.link.0 as usize) else {
            self.broken(from.as_str(), "its link does not exist");
            return;
        };
        let names = edge.ends.map(|end| &topology.node(end).name);
        let joins = names == [from, to] || names == [to, from];
        if !joins || [&link.from, &link.to] != [from, to] {
            self.broken(from.as_str(), "its link leads elsewhere");
            return;
        }
        let (from, to) = (from.clone(), to.clone());
        if !edge.up {
            self.violations.push(Violation::LinkDown { from, to });
            return;
        }
        self.load(edge, from, to);
        self.links_cost += self.rate_bps() / edge.rate.as_bps() as f64;
        self.delay += edge.delay;
        self.stated("rate_bps", link.rate_bps, self.rate_bps());
        self.stated("layers", f64::from(link.layers), self.layers as f64);
        let flag = |on: bool| f64::from(u8::from(on));
        self.stated("packed", flag(link.packed), flag(self.is_on(PACK)));
        self.stated("sealed", flag(link.sealed), flag(self.is_on(SEAL)));
    }

    /// Checks what a link carries against what it may carry.
    fn load(&mut self, edge: &Edge, from: NodeName, to: NodeName) {
        let (needs_bps, has_bps) = (self.rate_bps(), edge.rate.as_bps() as f64);
        let confidential = self.snapshot.stream.needs.confidential;
        if confidential && self.snapshot.topology.must_seal(edge) && !self.is_hidden() {
            let (from, to) = (from.clone(), to.clone());
            self.violations.push(Violation::PlainLink { from, to });
        }
        if needs_bps > has_bps * (1.0 + TOLERANCE) {
            self.violations.push(Violation::SlowLink {
                from,
                to,
                needs_bps,
                has_bps,
            });
        }
    }

    fn arrive(&mut self, plan: &Plan) {
        let stream = &self.snapshot.stream;
        if self.on.iter().any(|on| *on)
            && let Some(node) = plan.path.last()
        {
            self.violations
                .push(Violation::NotPlain { node: node.clone() });
        }
        if self.layers < usize::from(stream.least_layers()) {
            self.violations.push(Violation::Layers {
                has: self.layers as u32,
                needs: u32::from(stream.least_layers()),
            });
        }
        if self.delay > stream.needs.deadline {
            self.violations.push(Violation::Late {
                takes_ms: self.delay.as_millis_f64(),
                allows_ms: stream.needs.deadline.as_millis_f64(),
            });
        }
        let quality = self.quality_cost();
        let parts = plan.cost_parts;
        self.stated("layers", f64::from(plan.layers), self.layers as f64);
        self.stated("cost of adapters", parts.adapters, self.adapters_cost);
        self.stated("cost of links", parts.links, self.links_cost);
        self.stated("cost of quality", parts.quality, quality);
        self.stated(
            "cost",
            plan.cost,
            self.adapters_cost + self.links_cost + quality,
        );
        let delay_ms = self.delay.as_millis_f64();
        self.stated("delay_ms", plan.delay.as_millis_f64(), delay_ms);
    }

    fn quality_cost(&self) -> f64 {
        let utilities = self.snapshot.stream.layers.iter().take(self.layers);
        let utility: f64 = utilities.map(|layer| layer.utility).sum();
        let lost = self.snapshot.weights.quality * (1.0 - utility);
        if lost > 0.0 { lost } else { 0.0 }
    }

    fn stated(&mut self, what: &str, says: f64, is: f64) {
        let scale = if is.abs() > 1.0 { is.abs() } else { 1.0 };
        let so = (says - is).abs() <= TOLERANCE * scale;
        if !so {
            let what = what.to_string();
            self.violations
                .push(Violation::Misstated { what, says, is });
        }
    }
}

/// Returns whether a profile is that of an adapter.
fn is_of(profile: &Profile, adapter: Adapter) -> bool {
    match (profile.role, adapter) {
        (Role::Keep, Adapter::Keep(_)) => true,
        _ => profile.adapter == adapter,
    }
}
