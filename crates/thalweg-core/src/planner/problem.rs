//! A snapshot made ready for searching: nodes, links and states as dense arrays.
//!
//! *The idea.* What the searches ask again and again is computed once: links by node, both ways; what a node may see and
//! how many adapters it runs; what an adapter does in a state. What a link demands of a state (to be hidden, to repair
//! losses) is one set of patterns, so the searches ask one question of it. A constraint may be lifted; breaking it then
//! costs a penalty above anything worth comparing.
//!
//! *Sources.* docs/planner.md §2, §3.

use alloc::vec;
use alloc::vec::Vec;

use super::cost::Cost;
use super::states::{RATE_TOLERANCE, States, Step, patterns_with, picocores};
use crate::limits::{ADAPTERS_PER_NODE_MAX, PATH_NODES_MAX};
use crate::model::{Adapter, Catalogue, Edge, LinkIndex, NodeIndex, Place, Snapshot, Topology};
use crate::needs::Needs;
use crate::time::Duration;

/// Which constraints only cost a penalty instead of binding.
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

/// What a lifted constraint costs per unit of breach (a second, a hop, a link's rate, an adapter, a plaintext link, a
/// lossy link, an adapter not held, a core): above any cost that is worth comparing, so that the least breach comes first.
const PENALTY: f64 = 1e9;

/// A direction of a link that is up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) to: u32,
    pub(super) link: u32,
    pub(super) rate_bps: f64,
    /// What it may carry at most, tolerance included.
    pub(super) most_bps: f64,
    /// The same of the other direction.
    pub(super) back_most_bps: f64,
    pub(super) delay_ns: u64,
    /// The patterns in which the stream may cross it, one bit each.
    pub(super) patterns: u64,
}

impl Arc {
    /// Returns the direction of a link that leaves one of its ends; of a link that is down, one that carries nothing.
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

/// What a node gives.
#[derive(Clone, Copy, Debug)]
struct Spot {
    slots: u8,
    /// Whether every state at it must be hidden.
    hide: bool,
}

/// What a node gives to adapters beside slots.
#[derive(Clone, Copy, Debug)]
struct Gift {
    /// The profiles that it holds, one bit each by their place in the catalogue.
    held: u64,
    /// `MAX` if it is never short of CPU.
    picocores: u64,
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

impl Route {
    /// Returns how many links it takes.
    pub(super) fn hops(&self) -> u32 {
        let hops = self
            .moves
            .iter()
            .filter(|step| matches!(step, Move::Hop { .. }));
        hops.count() as u32
    }
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
    needs: Needs,
    /// By node: whether no link may be taken to it.
    closed: Vec<bool>,
    spots: Vec<Spot>,
    /// By node; empty if every node holds everything and is never short of CPU.
    gifts: Vec<Gift>,
    arcs: Vec<Arc>,
    first_arc: Vec<u32>,
}

/// What a problem holds of its own: kept while its snapshot changes.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    states: States,
    pub(super) source: usize,
    pub(super) sink: usize,
    relaxation: Relaxation,
    needs: Needs,
    closed: Vec<bool>,
    spots: Vec<Spot>,
    gifts: Vec<Gift>,
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
            spots: self.spots,
            gifts: self.gifts,
            arcs: self.arcs,
            first_arc: self.first_arc,
        }
    }

    /// Goes on with tables of another snapshot that differs from this one in links at most; each of those is to be told
    /// to [`Self::set_link`].
    pub(super) fn resume(snapshot: &'a Snapshot, tables: Tables) -> Self {
        Self {
            snapshot,
            states: tables.states,
            source: tables.source,
            sink: tables.sink,
            relaxation: tables.relaxation,
            needs: tables.needs,
            closed: tables.closed,
            spots: tables.spots,
            gifts: tables.gifts,
            arcs: tables.arcs,
            first_arc: tables.first_arc,
        }
    }

    /// Takes over a link from the snapshot. One that is down stays in the tables and carries nothing; one that was down
    /// when they were made is not in them: then this returns false, and nothing is done.
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

    /// Prepares the way to one sink with the stream's needs.
    pub(super) fn new(snapshot: &'a Snapshot, ends: [usize; 2], relaxation: Relaxation) -> Self {
        Self::with_needs(snapshot, ends, relaxation, snapshot.stream.needs)
    }

    /// Prepares the way to one sink with needs of its own; what is confidential is for the stream to say.
    pub(super) fn with_needs(
        snapshot: &'a Snapshot,
        [source, sink]: [usize; 2],
        relaxation: Relaxation,
        needs: Needs,
    ) -> Self {
        let confidential = snapshot.stream.needs.confidential;
        let spot = |place: &Place| Spot {
            slots: place.slots,
            hide: confidential && !relaxation.trust && !place.trusted,
        };
        let states = States::new(snapshot, needs.least_layers.max(1));
        let (arcs, first_arc) = arcs_of(snapshot, &states, &needs);
        let mut closed = vec![false; snapshot.topology.nodes().len()];
        closed[source] = true;
        Self {
            snapshot,
            states,
            needs,
            closed,
            source,
            sink,
            relaxation,
            spots: snapshot.topology.nodes().iter().map(spot).collect(),
            gifts: gifts_of(snapshot),
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

    /// Returns how many nodes there are.
    pub(super) fn nodes(&self) -> usize {
        self.spots.len()
    }

    /// Returns the links out of a node; they are also those into it.
    pub(super) fn arcs_from(&self, node: u32) -> &[Arc] {
        let node = node as usize;
        &self.arcs[self.first_arc[node] as usize..self.first_arc[node + 1] as usize]
    }

    /// Returns the latest arrival, `NEVER` if any is in time.
    pub(super) fn deadline(&self) -> Duration {
        if self.relaxation.deadline {
            Duration::NEVER
        } else {
            self.needs.deadline
        }
    }

    /// Returns how many hops a path may have.
    pub(super) fn hops_max(&self) -> u32 {
        if self.relaxation.length {
            u32::MAX
        } else {
            PATH_NODES_MAX as u32 - 1
        }
    }

    /// Leads to another sink, with other needs; only the source is closed.
    pub(super) fn aim(&mut self, sink: usize, needs: Needs) {
        self.sink = sink;
        self.needs = needs;
        self.states = States::new(self.snapshot, needs.least_layers.max(1));
        let source = self.source as u32;
        self.close_only([source]);
    }

    /// Forbids to take a link to these nodes, and allows it to all others.
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

    /// Returns how many adapters a node may run.
    pub(super) fn slots(&self, node: u32) -> u8 {
        self.spots[node as usize].slots
    }

    /// Returns whether every state at a node must be hidden.
    pub(super) fn hides_at(&self, node: u32) -> bool {
        self.spots[node as usize].hide
    }

    /// Returns whether a stream may be in a state at a node.
    pub(super) fn may_be(&self, node: u32, state: u16) -> bool {
        !self.hides_at(node) || self.states.is_hidden(state)
    }

    /// Returns what one more adapter costs at a node that already runs some, or `None` if there is no slot.
    pub(super) fn slot_penalty(&self, node: u32, used: u8) -> Option<Cost> {
        if used < self.spots[node as usize].slots {
            return Some(Cost::ZERO);
        }
        let free = self.relaxation.slots && usize::from(used) < ADAPTERS_PER_NODE_MAX;
        free.then(|| Cost::from_f64(PENALTY))
    }

    /// Returns what one more adapter costs at a node that lacks it, or lacks CPU beyond what is used already; `None` if
    /// that may not be.
    pub(super) fn lack_penalty(&self, node: u32, used_picocores: u64, step: &Step) -> Option<Cost> {
        let Some(gift) = self.gifts.get(node as usize) else {
            return Some(Cost::ZERO);
        };
        let is_missing = gift.held >> step.profile & 1 == 0;
        let then = used_picocores.saturating_add(step.picocores);
        let over = then.saturating_sub(gift.picocores.max(used_picocores));
        if is_missing && !self.relaxation.held || over > 0 && !self.relaxation.cpu {
            return None;
        }
        let units = f64::from(u8::from(is_missing)) + over as f64 / 1e12;
        Some(Cost::from_f64(PENALTY * units))
    }

    /// Returns what is used of a node's CPU after one more adapter; nothing where it is never short of it.
    pub(super) fn used_picocores(&self, node: u32, used_picocores: u64, step: &Step) -> u64 {
        match self.gifts.get(node as usize) {
            Some(gift) if gift.picocores < u64::MAX => {
                used_picocores.saturating_add(step.picocores)
            }
            _ => 0,
        }
    }

    /// Returns whether a node may run a profile.
    pub(super) fn holds(&self, node: u32, profile: u8) -> bool {
        let gift = self.gifts.get(node as usize);
        self.relaxation.held || gift.is_none_or(|gift| gift.held >> profile & 1 == 1)
    }

    /// Returns whether a node has so much CPU.
    pub(super) fn has_picocores(&self, node: u32, picocores: u64) -> bool {
        let gift = self.gifts.get(node as usize);
        gift.is_none_or(|gift| picocores <= gift.picocores)
    }

    /// Returns whether a node may run adapters at all.
    pub(super) fn may_adapt(&self, node: u32) -> bool {
        self.slot_penalty(node, 0).is_some()
    }

    /// Returns whether a link may carry the least rate that the stream can have, this way or the other.
    pub(super) fn is_of_use(&self, arc: &Arc) -> bool {
        let least = self.states.least_rate_bps();
        self.relaxation.rate || least <= arc.most_bps || least <= arc.back_most_bps
    }

    /// Takes a rate away from what a link may carry from a node on; what it costs to use stays.
    pub(super) fn burden(&mut self, from: u32, link: LinkIndex, bps: f64) {
        let Some(at) = self.arc_at(from, link) else {
            return;
        };
        self.arcs[at].most_bps -= bps;
        if let Some(back) = self.arc_at(self.arcs[at].to, link) {
            self.arcs[back].back_most_bps -= bps;
        }
    }

    /// Lets no link carry more than a rate; what it costs to use stays.
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

    /// Returns where the arc of a link from a node is; the arcs of a node lie in the order of their links.
    fn arc_at(&self, from: u32, link: LinkIndex) -> Option<usize> {
        let first = self.first_arc[from as usize] as usize;
        let arcs = self.arcs_from(from);
        let at = arcs.binary_search_by_key(&link.0, |arc| arc.link).ok()?;
        Some(first + at)
    }

    /// Returns what it costs to come over a link from its far end in a state, or `None` if that may not be.
    pub(super) fn back_cost(&self, arc: &Arc, state: u16) -> Option<Cost> {
        let most_bps = arc.back_most_bps;
        self.hop_cost(&Arc { most_bps, ..*arc }, state)
    }

    /// Returns what it costs to cross a link in a state, or `None` if that may not be.
    pub(super) fn hop_cost(&self, arc: &Arc, state: u16) -> Option<Cost> {
        let rate_bps = self.states.rate_bps(state);
        let too_fast = rate_bps > arc.most_bps;
        let is_fit = arc.patterns >> self.states.pattern_of(state) & 1 == 1;
        let relaxation = &self.relaxation;
        if too_fast && !relaxation.rate {
            return None;
        }
        let mut cost = super::product::link_cost(rate_bps, arc.rate_bps);
        if too_fast {
            cost += Cost::from_f64(PENALTY * (rate_bps / arc.rate_bps - 1.0));
        }
        if !is_fit {
            cost += self.unfit_penalty(arc, state)?;
        }
        if relaxation.length {
            cost += Cost::from_f64(PENALTY);
        }
        Some(cost + self.delay_penalty(Duration::from_nanos(arc.delay_ns)))
    }

    /// Returns what it costs to cross a link in a state that does not fit it, or `None` if that may not be.
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

    /// Returns what a delay costs where the deadline is lifted.
    pub(super) fn delay_penalty(&self, delay: Duration) -> Cost {
        if self.relaxation.deadline {
            Cost::from_f64(PENALTY * delay.as_secs_f64())
        } else {
            Cost::ZERO
        }
    }
}

/// Returns the directions of all links that are up, by the node they leave, and where each node's begin.
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

/// Returns the patterns in which the stream may cross a link, one bit each.
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

/// Returns the patterns in which so much loss does no harm, one bit each.
fn repairing(snapshot: &Snapshot, loss: f64) -> u64 {
    let transforms = &snapshot.catalogue.transforms;
    let transforms = &transforms[..transforms.len().min(Catalogue::TRANSFORMS_MAX)];
    patterns_with(transforms, |transform| transform.repairs >= loss)
}

/// Returns what each node gives to adapters, nothing if no node is short of anything.
fn gifts_of(snapshot: &Snapshot) -> Vec<Gift> {
    let nodes = snapshot.topology.nodes();
    let is_short = |place: &Place| place.held.is_some() || place.cpu_cores.is_some();
    if !nodes.iter().any(is_short) {
        return Vec::new();
    }
    let profiles = &snapshot.catalogue.profiles;
    let profiles = &profiles[..profiles.len().min(Catalogue::PROFILES_MAX)];
    let gift = |place: &Place| Gift {
        held: profiles.iter().enumerate().fold(0, |set, (at, profile)| {
            set | u64::from(place.holds(profile.adapter.kind())) << at
        }),
        picocores: place
            .cpu_cores
            .map_or(u64::MAX, |cores| picocores(cores * (1.0 + RATE_TOLERANCE))),
    };
    nodes.iter().map(gift).collect()
}
