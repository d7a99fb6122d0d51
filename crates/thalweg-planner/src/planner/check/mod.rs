//! Verifies a plan against its snapshot, independently of the search.
//!
//! *The idea.* The plan is executed on paper: a stream with all layers, unpacked and unsealed,
//! follows the path, every adapter is applied to it, and every constraint is checked where it
//! applies. The search's tables are not used, so that a mistake in them is found. The same list
//! says what an infeasible plan breaks, with numbers.
//!
//! *Sources.* docs/concepts/planner.md §2.

mod violation;

use alloc::string::ToString;
use alloc::vec::Vec;

use thalweg_base::limits::PATH_NODES_MAX;
use thalweg_base::time::Duration;

use super::product::{LinkUse, Plan};
use crate::model::{
    Adapter, AdapterName, Catalogue, Edge, Layer, NodeName, PACK, Place, Profile, Role, SEAL,
    Snapshot, Table, Transform,
};

pub use violation::Violation;
pub(super) use violation::rate;

/// Relative tolerance of a stated number: above rounding errors, below any relevant difference.
const TOLERANCE: f64 = 1e-9;

/// Utilities within this are equal.
const UTILITY_TIE: f64 = 1e-12;

/// Why an adapter cannot work.
enum Unfit {
    /// It does not exist, or does not apply to the state.
    Misplaced,
    /// An earlier adapter's transform covers the layer that it works on.
    Beneath(AdapterName),
}

/// Returns everything a plan breaks; empty if it may be deployed and its own numbers are true.
///
/// Cost    O(path · (layers + path))
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    execute(snapshot, plan).violations
}

/// Returns a plan's true cost and what it breaks, ignoring its own numbers.
pub(super) fn assess(snapshot: &Snapshot, plan: &Plan) -> (f64, Vec<Violation>) {
    let mut walk = execute(snapshot, plan);
    walk.violations
        .retain(|violation| !matches!(violation, Violation::Misstated { .. }));
    (
        walk.adapters_cost + walk.links_cost + walk.quality_cost(),
        walk.violations,
    )
}

fn execute<'a>(snapshot: &'a Snapshot, plan: &Plan) -> Walk<'a> {
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

/// A stream on its way along a plan.
struct Walk<'a> {
    snapshot: &'a Snapshot,
    /// The transcoder's table of the layers; `None` for the stream's own.
    table: Option<&'a Table>,
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
            table: None,
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

    /// Returns the layers that are kept.
    fn kept(&self) -> &'a [Layer] {
        let all = &self.snapshot.stream.layers;
        let all = self.table.map_or(all, |table| &table.layers);
        &all[..self.layers.min(all.len())]
    }

    /// Returns the transforms that are on.
    fn transforms_on(&self) -> impl Iterator<Item = &'a Transform> {
        let transforms = self.snapshot.catalogue.transforms.iter().zip(&self.on);
        transforms
            .filter(|(_, on)| **on)
            .map(|(transform, _)| transform)
    }

    fn rate_bps(&self) -> f64 {
        let plain = (self.kept().iter()).fold(0.0, |bps, layer| bps + layer.rate.as_bps() as f64);
        self.transforms_on()
            .fold(plain, |bps, transform| bps * transform.rate_factor)
    }

    fn utility(&self) -> f64 {
        let plain = self.kept().iter().map(|layer| layer.utility).sum();
        self.transforms_on()
            .fold(plain, |share, transform| share * transform.quality_factor)
    }

    fn is_hidden(&self) -> bool {
        self.transforms_on().any(|transform| transform.hides)
    }

    /// Returns the declared adapters that were applied.
    fn declared(&self) -> Vec<AdapterName> {
        let on = self.transforms_on().map(|transform| transform.name);
        let table = self.table.iter().map(|table| table.name);
        table.chain(on.filter(|name| !name.is_standard())).collect()
    }

    fn is_on(&self, transform: usize) -> bool {
        self.on.get(transform).is_some_and(|on| *on)
    }

    /// Checks that the path is not too long, visits no node twice, and that adapters are only on
    /// the path.
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
        // The node sees the stream at arrival, and after each adapter.
        let mut seen = !self.is_hidden();
        let mut cores = 0.0;
        for adapter in adapters {
            self.run(node, *adapter, &mut cores);
            seen |= !self.is_hidden();
        }
        if let Some(has_cores) = node.cpu_cores
            && cores > has_cores * (1.0 + TOLERANCE)
        {
            self.violations.push(Violation::LittleCpu {
                node: name.clone(),
                needs_cores: cores,
                has_cores,
            });
        }
        if guarded && seen {
            self.violations
                .push(Violation::PlainNode { node: name.clone() });
        }
    }

    /// Runs an adapter at a node.
    fn run(&mut self, place: &Place, adapter: Adapter, cores: &mut f64) {
        let node = || place.name.clone();
        if !place.holds(adapter.kind()) {
            let node = node();
            self.violations.push(Violation::NotHeld { node, adapter });
        }
        let profiles = self.snapshot.catalogue.profiles.iter();
        let mut profiles = profiles.filter(|profile| is_of(profile, adapter));
        let fits = match profiles.next() {
            None => Err(Unfit::Misplaced),
            Some(profile) => {
                let input_mbps = self.rate_bps() / 1e6;
                *cores += profile.cpu_per_mbps * input_mbps;
                self.adapters_cost += profile.cost_per_mbps * input_mbps;
                self.delay += profile.delay;
                self.apply(profile, adapter)
            }
        };
        let node = node();
        match fits {
            Ok(()) => {}
            Err(Unfit::Misplaced) => {
                self.violations.push(Violation::Misplaced { node, adapter });
            }
            Err(Unfit::Beneath(above)) => self.violations.push(Violation::OutOfOrder {
                node,
                adapter,
                above,
            }),
        }
    }

    /// Applies an adapter to the state, if it can work there.
    fn apply(&mut self, profile: &Profile, adapter: Adapter) -> Result<(), Unfit> {
        if profile.needs_plaintext && self.is_hidden() {
            return Err(Unfit::Misplaced);
        }
        let transforms = &self.snapshot.catalogue.transforms;
        let class = match profile.role {
            Role::Do(bit) | Role::Undo(bit) => transforms.get(bit).map(|of| of.order),
            Role::Transcode(_) => Some(0),
            Role::Keep => None,
        };
        let recoded = matches!(profile.role, Role::Transcode(_));
        let above =
            |on: &&Transform| class.is_some_and(|class| on.order > class) || recoded && !on.stays;
        if let Some(above) = self.transforms_on().find(above) {
            return Err(Unfit::Beneath(above.name));
        }
        let works = match (profile.role, adapter) {
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
            (Role::Transcode(table), _) => self.transcode(table),
        };
        if works { Ok(()) } else { Err(Unfit::Misplaced) }
    }

    /// Replaces the stream's own layers by a table's, if they have at least its utility.
    fn transcode(&mut self, table: usize) -> bool {
        let Some(table) = self.snapshot.catalogue.tables.get(table) else {
            return false;
        };
        let worth = |layers: &[Layer]| layers.iter().map(|layer| layer.utility).sum::<f64>();
        let able = self.table.is_none() && worth(self.kept()) >= worth(&table.layers) - UTILITY_TIE;
        if able {
            (self.table, self.layers) = (Some(table), table.layers.len());
        }
        able
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
        let declared = self.declared();
        if link.transforms != declared {
            self.violations.push(Violation::Misstated {
                what: "transforms".to_string(),
                says: link.transforms.len() as f64,
                is: declared.len() as f64,
            });
        }
    }

    /// Checks the load of a link against its limits.
    fn load(&mut self, edge: &Edge, from: NodeName, to: NodeName) {
        let (needs_bps, has_bps) = (self.rate_bps(), edge.rate.as_bps() as f64);
        let confidential = self.snapshot.stream.needs.confidential;
        if confidential && self.snapshot.topology.must_seal(edge) && !self.is_hidden() {
            let (from, to) = (from.clone(), to.clone());
            self.violations.push(Violation::PlainLink { from, to });
        }
        let (loses, bears) = (
            edge.loss.as_f64(),
            self.snapshot.stream.needs.loss_max.as_f64(),
        );
        if loses > bears && !self.transforms_on().any(|on| on.repairs >= loses) {
            let (from, to) = (from.clone(), to.clone());
            self.violations.push(Violation::LossyLink {
                from,
                to,
                loses,
                bears,
            });
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
        if self.transforms_on().any(|transform| !transform.stays)
            && let Some(node) = plan.path.last()
        {
            self.violations
                .push(Violation::NotPlain { node: node.clone() });
        }
        self.check_worth();
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

    /// Checks that what arrives is worth delivering.
    fn check_worth(&mut self) {
        let stream = &self.snapshot.stream;
        let least = stream.least_layers();
        let of_least = stream.layers.iter().take(usize::from(least));
        let needs: f64 = of_least.map(|layer| layer.utility).sum();
        let has: f64 = self.kept().iter().map(|layer| layer.utility).sum();
        if self.table.is_none() && self.layers < usize::from(least) {
            self.violations.push(Violation::Layers {
                has: self.layers as u32,
                needs: u32::from(least),
            });
        }
        if self.table.is_some() && least > 1 && has < needs - UTILITY_TIE {
            self.violations.push(Violation::LowUtility { has, needs });
        }
    }

    fn quality_cost(&self) -> f64 {
        let lost = self.snapshot.weights.quality * (1.0 - self.utility());
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

/// Returns whether a profile describes an adapter.
fn is_of(profile: &Profile, adapter: Adapter) -> bool {
    match (profile.role, adapter) {
        (Role::Keep, Adapter::Keep(_)) => true,
        _ => profile.adapter == adapter,
    }
}
