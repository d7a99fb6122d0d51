//! A snapshot prepared for searching: nodes, links and states as dense arrays.
//!
//! *The idea.* What the searches look up repeatedly is computed once: links by node, in both
//! directions; what a node may see and how many adapters it runs; what an adapter does in a state.
//! A link's demands on the state (hidden, or repairing losses) are one set of patterns, so that one
//! test covers them. A constraint may be lifted; breaking it then costs a penalty above any cost
//! worth comparing.
//!
//! *Sources.* docs/concepts/planner.md §2, §3.

use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::limits::{ADAPTERS_PER_NODE_MAX, PATH_NODES_MAX};
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;

use super::cost::{Cost, link_cost};
use super::states::{RATE_TOLERANCE, States, Step, patterns_with, picocores};
use crate::model::{Adapter, Catalogue, Edge, LinkIndex, NodeIndex, Place, Snapshot, Topology};

/// The constraints that are lifted: breaking one costs a penalty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent constraints, each kept or lifted"
)]
pub(super) struct Relaxation {
    pub(super) deadline: bool,
    pub(super) length: bool,
    pub(super) rate: bool,
    pub(super) slots: bool,
    pub(super) trust: bool,
    pub(super) loss: bool,
    pub(super) held: bool,
    pub(super) cpu: bool,
}

/// Penalty per unit of breach of a lifted constraint (second, hop, link rate, adapter, plaintext
/// link, lossy link, adapter not held, core). Above any cost worth comparing, so the least breach
/// comes first.
const PENALTY: f64 = 1e9;

/// A direction of a link that is up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) to: u32,
    pub(super) link: u32,
    pub(super) rate_bps: f64,
    /// Largest rate that it may carry, tolerance included.
    pub(super) most_bps: f64,
    /// The same in the other direction.
    pub(super) back_most_bps: f64,
    pub(super) delay_ns: u64,
    /// The patterns in which the stream may cross it, as a bit mask.
    pub(super) patterns: u64,
}

impl Arc {
    /// Returns the direction of a link that leaves `from`; zero capacity if the link is down.
    fn of(edge: &Edge, from: NodeIndex, link: LinkIndex, patterns: u64) -> Self {
        let rate_bps = edge.rate.as_bps() as f64;
        let most_bps = if is_usable(edge) {
            rate_bps * (1.0 + RATE_TOLERANCE)
        } else {
            -1.0
        };
        Self {
            to: edge.far_end(from).0,
            link: link.0,
            rate_bps,
            most_bps,
            back_most_bps: most_bps,
            delay_ns: edge.delay.as_nanos(),
            patterns,
        }
    }
}

/// Returns whether a link can carry anything.
fn is_usable(edge: &Edge) -> bool {
    edge.up && edge.rate.as_bps() > 0
}

/// A node's adapter slots and visibility.
#[derive(Clone, Copy, Debug)]
struct NodeLimits {
    slots: u8,
    /// Every state at the node must be hidden.
    hide: bool,
}

/// A node's adapter resources other than slots.
#[derive(Clone, Copy, Debug)]
struct AdapterResources {
    /// The profiles that it holds, as a bit mask by catalogue index.
    held: u64,
    /// `MAX` if its CPU is unbounded.
    picocores: u64,
}

/// One move of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// An adapter at the current node.
    Run(Adapter),
    /// Over a link to the next node.
    Hop { link: LinkIndex, to: usize },
}

/// A path from source to sink with its adapters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) source: usize,
    pub(super) moves: Vec<Move>,
    pub(super) delay: Duration,
}

impl Route {
    /// Returns the number of links.
    pub(super) fn hops(&self) -> u32 {
        let hops = self
            .moves
            .iter()
            .filter(|step| matches!(step, Move::Hop { .. }));
        hops.count() as u32
    }
}

/// A search reached its label limit before it found the best route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted {
    pub(super) labels: u32,
}

/// A snapshot prepared for searching.
pub(super) struct Problem<'a> {
    snapshot: &'a Snapshot,
    pub(super) states: States,
    pub(super) source: usize,
    pub(super) sink: usize,
    pub(super) relaxation: Relaxation,
    needs: Needs,
    /// By node: no link may be taken to it.
    closed: Vec<bool>,
    node_limits: Vec<NodeLimits>,
    /// By node; empty if every node holds all adapters and has unbounded CPU.
    resources: Vec<AdapterResources>,
    arcs: Vec<Arc>,
    first_arc: Vec<u32>,
}

/// A problem's own data, kept while its snapshot changes.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    states: States,
    pub(super) source: usize,
    pub(super) sink: usize,
    relaxation: Relaxation,
    needs: Needs,
    closed: Vec<bool>,
    node_limits: Vec<NodeLimits>,
    resources: Vec<AdapterResources>,
    arcs: Vec<Arc>,
    first_arc: Vec<u32>,
}

impl<'a> Problem<'a> {
    /// Returns the tables without the snapshot.
    pub(super) fn into_tables(self) -> Tables {
        Tables {
            states: self.states,
            source: self.source,
            sink: self.sink,
            relaxation: self.relaxation,
            needs: self.needs,
            closed: self.closed,
            node_limits: self.node_limits,
            resources: self.resources,
            arcs: self.arcs,
            first_arc: self.first_arc,
        }
    }

    /// Continues with the tables of a snapshot that differs in links only; the caller passes each
    /// of those to [`Self::set_link`].
    pub(super) fn resume(snapshot: &'a Snapshot, tables: Tables) -> Self {
        Self {
            snapshot,
            states: tables.states,
            source: tables.source,
            sink: tables.sink,
            relaxation: tables.relaxation,
            needs: tables.needs,
            closed: tables.closed,
            node_limits: tables.node_limits,
            resources: tables.resources,
            arcs: tables.arcs,
            first_arc: tables.first_arc,
        }
    }

    /// Updates a link from the snapshot. A link that is down stays in the tables with zero
    /// capacity. One that was down when the tables were made is not in them: then this does nothing
    /// and returns false.
    pub(super) fn set_link(&mut self, link: LinkIndex) -> bool {
        let edge = self.snapshot.topology.link(link);
        let patterns = patterns_of(self.snapshot, &self.states, &self.needs, edge);
        for end in edge.ends {
            let [first, next] = [end.0, end.0 + 1].map(|at| self.first_arc[at as usize] as usize);
            let mut arcs = self.arcs[first..next].iter_mut();
            let Some(arc) = arcs.find(|arc| arc.link == link.0) else {
                return false;
            };
            *arc = Arc::of(edge, end, link, patterns);
        }
        true
    }

    /// Prepares the path to one sink with the stream's needs.
    pub(super) fn new(snapshot: &'a Snapshot, ends: [usize; 2], relaxation: Relaxation) -> Self {
        Self::with_needs(snapshot, ends, relaxation, snapshot.stream.needs)
    }

    /// Prepares the path to one sink with its own needs; confidentiality is the stream's.
    pub(super) fn with_needs(
        snapshot: &'a Snapshot,
        [source, sink]: [usize; 2],
        relaxation: Relaxation,
        needs: Needs,
    ) -> Self {
        let confidential = snapshot.stream.needs.confidential;
        let limits_of = |place: &Place| NodeLimits {
            slots: place.slots,
            hide: confidential && !relaxation.trust && !place.trusted,
        };
        let states = States::new(snapshot, needs.least_layers.max(1));
        let (arcs, first_arc) = arcs_of(snapshot, &states, &needs);
        let mut closed = vec![false; snapshot.topology.nodes().len()];
        // A path never returns to its source.
        closed[source] = true;
        Self {
            snapshot,
            states,
            needs,
            closed,
            source,
            sink,
            relaxation,
            node_limits: snapshot.topology.nodes().iter().map(limits_of).collect(),
            resources: resources_of(snapshot),
            arcs,
            first_arc,
        }
    }

    pub(super) fn topology(&self) -> &'a Topology {
        &self.snapshot.topology
    }

    /// Returns the adapter catalogue.
    pub(super) fn catalogue(&self) -> &'a Catalogue {
        &self.snapshot.catalogue
    }

    /// Returns the number of nodes.
    pub(super) fn nodes(&self) -> usize {
        self.node_limits.len()
    }

    /// Returns the links out of a node; they are also those into it.
    pub(super) fn arcs_from(&self, node: u32) -> &[Arc] {
        let node = node as usize;
        &self.arcs[self.first_arc[node] as usize..self.first_arc[node + 1] as usize]
    }

    /// Returns the latest arrival; `NEVER` without a deadline.
    pub(super) fn deadline(&self) -> Duration {
        if self.relaxation.deadline {
            Duration::NEVER
        } else {
            self.needs.deadline
        }
    }

    /// Returns the maximum number of hops of a path.
    pub(super) fn hops_max(&self) -> u32 {
        if self.relaxation.length {
            u32::MAX
        } else {
            PATH_NODES_MAX as u32 - 1
        }
    }

    /// Changes the sink and its needs; only the source is closed.
    pub(super) fn retarget(&mut self, sink: usize, needs: Needs) {
        self.sink = sink;
        self.needs = needs;
        self.states = States::new(self.snapshot, needs.least_layers.max(1));
        let source = self.source as u32;
        self.close_only([source]);
    }

    /// Forbids links to exactly these nodes.
    pub(super) fn close_only(&mut self, nodes: impl IntoIterator<Item = u32>) {
        self.closed.fill(false);
        for node in nodes {
            self.closed[node as usize] = true;
        }
    }

    /// Returns whether a link may be taken to a node.
    pub(super) fn may_enter(&self, node: u32) -> bool {
        !self.closed[node as usize]
    }

    /// Returns a node's adapter slots.
    pub(super) fn slots(&self, node: u32) -> u8 {
        self.node_limits[node as usize].slots
    }

    /// Returns whether every state at a node must be hidden.
    pub(super) fn hides_at(&self, node: u32) -> bool {
        self.node_limits[node as usize].hide
    }

    /// Returns whether a stream may be in a state at a node.
    pub(super) fn may_be(&self, node: u32, state: u16) -> bool {
        !self.hides_at(node) || self.states.is_hidden(state)
    }

    /// Returns the penalty of one more adapter at a node that runs `used`; `None` if no slot is
    /// left.
    pub(super) fn slot_penalty(&self, node: u32, used: u8) -> Option<Cost> {
        if used < self.node_limits[node as usize].slots {
            return Some(Cost::ZERO);
        }
        let free = self.relaxation.slots && usize::from(used) < ADAPTERS_PER_NODE_MAX;
        free.then(|| Cost::from_f64(PENALTY))
    }

    /// Returns the penalty of one more adapter at a node that lacks the adapter, or lacks CPU
    /// beyond what is used already; `None` if that is forbidden.
    pub(super) fn shortage_penalty(
        &self,
        node: u32,
        used_picocores: u64,
        step: &Step,
    ) -> Option<Cost> {
        let Some(resource) = self.resources.get(node as usize) else {
            return Some(Cost::ZERO);
        };
        let is_missing = resource.held >> step.profile & 1 == 0;
        let then = used_picocores.saturating_add(step.picocores);
        let over = then.saturating_sub(resource.picocores.max(used_picocores));
        if is_missing && !self.relaxation.held || over > 0 && !self.relaxation.cpu {
            return None;
        }
        let units = f64::from(u8::from(is_missing)) + over as f64 / 1e12;
        Some(Cost::from_f64(PENALTY * units))
    }

    /// Returns the CPU used at a node after one more adapter; zero where it is unbounded.
    pub(super) fn used_picocores(&self, node: u32, used_picocores: u64, step: &Step) -> u64 {
        match self.resources.get(node as usize) {
            Some(resource) if resource.picocores < u64::MAX => {
                used_picocores.saturating_add(step.picocores)
            }
            _ => 0,
        }
    }

    /// Returns whether a node may run a profile.
    pub(super) fn holds(&self, node: u32, profile: u8) -> bool {
        let resource = self.resources.get(node as usize);
        self.relaxation.held || resource.is_none_or(|resource| resource.held >> profile & 1 == 1)
    }

    /// Returns whether a node has this much CPU.
    pub(super) fn has_picocores(&self, node: u32, picocores: u64) -> bool {
        let resource = self.resources.get(node as usize);
        resource.is_none_or(|resource| picocores <= resource.picocores)
    }

    /// Returns whether a node may run adapters at all.
    pub(super) fn may_adapt(&self, node: u32) -> bool {
        self.slot_penalty(node, 0).is_some()
    }

    /// Returns whether a link can carry the stream's lowest rate in either direction.
    pub(super) fn is_of_use(&self, arc: &Arc) -> bool {
        let least = self.states.least_rate_bps();
        self.relaxation.rate || least <= arc.most_bps || least <= arc.back_most_bps
    }

    /// Reduces what a link may carry from a node on; the cost of using it stays.
    pub(super) fn reserve(&mut self, from: u32, link: LinkIndex, bps: f64) {
        let Some(at) = self.arc_at(from, link) else {
            return;
        };
        self.arcs[at].most_bps -= bps;
        if let Some(back) = self.arc_at(self.arcs[at].to, link) {
            self.arcs[back].back_most_bps -= bps;
        }
    }

    /// Limits what each link may carry; the cost of using it stays.
    pub(super) fn limit(&mut self, bps: f64) {
        for arc in &mut self.arcs {
            arc.most_bps = if arc.most_bps < bps {
                arc.most_bps
            } else {
                bps
            };
            let back = arc.back_most_bps;
            arc.back_most_bps = if back < bps { back } else { bps };
        }
    }

    /// Returns the index of a link's arc from a node; a node's arcs are sorted by link.
    fn arc_at(&self, from: u32, link: LinkIndex) -> Option<usize> {
        let first = self.first_arc[from as usize] as usize;
        let arcs = self.arcs_from(from);
        let at = arcs.binary_search_by_key(&link.0, |arc| arc.link).ok()?;
        Some(first + at)
    }

    /// Returns the cost of crossing a link from its far end in a state; `None` if forbidden.
    pub(super) fn back_cost(&self, arc: &Arc, state: u16) -> Option<Cost> {
        let most_bps = arc.back_most_bps;
        self.hop_cost(&Arc { most_bps, ..*arc }, state)
    }

    /// Returns the cost of crossing a link in a state; `None` if forbidden.
    pub(super) fn hop_cost(&self, arc: &Arc, state: u16) -> Option<Cost> {
        let rate_bps = self.states.rate_bps(state);
        let too_fast = rate_bps > arc.most_bps;
        let is_fit = arc.patterns >> self.states.pattern_of(state) & 1 == 1;
        let relaxation = &self.relaxation;
        if too_fast && !relaxation.rate {
            return None;
        }
        let mut cost = link_cost(rate_bps, arc.rate_bps);
        if too_fast {
            cost += Cost::from_f64(PENALTY * (rate_bps / arc.rate_bps - 1.0));
        }
        if !is_fit {
            cost += self.unfit_penalty(arc, state)?;
        }
        // With the length lifted each hop has a penalty, so that the shortest path is best.
        if relaxation.length {
            cost += Cost::from_f64(PENALTY);
        }
        Some(cost + self.delay_penalty(Duration::from_nanos(arc.delay_ns)))
    }

    /// Returns the penalty of crossing a link in a state that does not fit it; `None` if forbidden.
    #[cold]
    fn unfit_penalty(&self, arc: &Arc, state: u16) -> Option<Cost> {
        let topology = self.topology();
        let edge = topology.link(LinkIndex(arc.link));
        let is_hidden = self.states.is_hidden(state);
        let is_confidential = self.snapshot.stream.needs.confidential;
        let is_shown = is_confidential && topology.must_seal(edge) && !is_hidden;
        let repaired = repairing(self.snapshot, edge.loss.as_f64());
        let is_lossy = edge.loss.as_f64() > self.needs.loss_max.as_f64()
            && repaired >> self.states.pattern_of(state) & 1 == 0;
        if is_shown && !self.relaxation.trust || is_lossy && !self.relaxation.loss {
            return None;
        }
        let breaches = u8::from(is_shown) + u8::from(is_lossy);
        Some(Cost::from_f64(PENALTY * f64::from(breaches)))
    }

    /// Returns the penalty of a delay if the deadline is lifted.
    pub(super) fn delay_penalty(&self, delay: Duration) -> Cost {
        if self.relaxation.deadline {
            Cost::from_f64(PENALTY * delay.as_secs_f64())
        } else {
            Cost::ZERO
        }
    }
}

/// Returns the directions of all links that are up, by the node they leave, and the index of each
/// node's first.
fn arcs_of(snapshot: &Snapshot, states: &States, needs: &Needs) -> (Vec<Arc>, Vec<u32>) {
    let topology = &snapshot.topology;
    let nodes = topology.nodes().len();
    let mut first_arc = vec![0u32; nodes + 1];
    let usable = |edge: &&Edge| is_usable(edge);
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
        most_bps: 0.0,
        back_most_bps: 0.0,
        delay_ns: 0,
        patterns: 0,
    };
    let mut arcs = vec![nowhere; first_arc[nodes] as usize];
    let mut filled = first_arc.clone();
    for (link, edge) in topology.links().iter().enumerate() {
        if !usable(&edge) {
            continue;
        }
        let patterns = patterns_of(snapshot, states, needs, edge);
        for end in edge.ends {
            let place = &mut filled[end.0 as usize];
            arcs[*place as usize] = Arc::of(edge, end, LinkIndex(link as u32), patterns);
            *place += 1;
        }
    }
    (arcs, first_arc)
}

/// Returns the patterns in which the stream may cross a link, as a bit mask.
fn patterns_of(snapshot: &Snapshot, states: &States, needs: &Needs, edge: &Edge) -> u64 {
    let mut patterns = u64::MAX;
    if snapshot.stream.needs.confidential && snapshot.topology.must_seal(edge) {
        patterns &= states.hidden_patterns();
    }
    let loss = edge.loss.as_f64();
    if loss > needs.loss_max.as_f64() {
        patterns &= repairing(snapshot, loss);
    }
    patterns
}

/// Returns the patterns that repair this loss, as a bit mask.
fn repairing(snapshot: &Snapshot, loss: f64) -> u64 {
    let transforms = &snapshot.catalogue.transforms;
    let transforms = &transforms[..transforms.len().min(Catalogue::TRANSFORMS_MAX)];
    patterns_with(transforms, |transform| transform.repairs >= loss)
}

/// Returns each node's adapter resources; empty if all are unlimited.
fn resources_of(snapshot: &Snapshot) -> Vec<AdapterResources> {
    let nodes = snapshot.topology.nodes();
    let is_short = |place: &Place| place.held.is_some() || place.cpu_cores.is_some();
    if !nodes.iter().any(is_short) {
        return Vec::new();
    }
    let profiles = &snapshot.catalogue.profiles;
    let profiles = &profiles[..profiles.len().min(Catalogue::PROFILES_MAX)];
    let resource = |place: &Place| AdapterResources {
        held: profiles.iter().enumerate().fold(0, |set, (at, profile)| {
            set | u64::from(place.holds(profile.adapter.kind())) << at
        }),
        picocores: place
            .cpu_cores
            .map_or(u64::MAX, |cores| picocores(cores * (1.0 + RATE_TOLERANCE))),
    };
    nodes.iter().map(resource).collect()
}
