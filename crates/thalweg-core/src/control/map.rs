//! From the directory to the planner's input, and from its plan back to nodes by key.
//!
//! *The idea.* The planner speaks in names, the network in keys. A [`Map`] is made for one planning: it names every
//! node once (two nodes of one name are told apart by their keys) and keeps both directions.
//!
//! Trust is what is granted, or the source's own configuration where nothing is; who may not relay is on the map of its
//! own streams only; slots, rates and what is secure come from the signed records. Of two ends
//! that say different things about a link, the more careful is believed: the planner knows one rate of a link, so one that
//! carries less one way is planned with that.
//!
//! Of a link whose rate is known no more, what it was is believed for as long as there is a way with that. If there is none the link
//! is taken to carry anything, like one that was never measured: so the stream that has no other way is what measures it anew.
//!
//! Of a stream that can do without a part of it, for it has a deadline and is not sent until it arrives, something comes also where
//! all ways were measured as too slow: it is planned as if they carried twice as much, or four times, until there is a plan, and
//! what does not fit is given up by importance. What an operator says is never stretched.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::continuity::Avoid;
use super::{Controller, Publication};
use crate::admission::Rights;
use crate::id::NodeId;
use crate::model::{Catalogue, Edge, NodeIndex, NodeName, Snapshot, Stream, Topology, Traffic};
use crate::planner::{self, Plan, Policy, Shortfall};
use crate::session::Part;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, Ratio};
use crate::wire::record::Neighbour;

/// What a link of unknown rate is taken to carry: more than any stream, so that the unknown does not stop it.
const RATE_UNKNOWN: Bitrate = Bitrate::from_kbps(1_000_000);

/// So often what was measured is doubled at most, to find a way for a stream that it is too slow for.
const DOUBLINGS_MAX: u32 = 10;

/// The planner's input, with the way back to keys.
#[derive(Clone, Debug)]
pub(super) struct Map {
    pub(super) snapshot: Snapshot,
    keys: BTreeMap<NodeName, NodeId>,
    /// Links that are planned with what they carried formerly, by their places, and what else is known of them.
    former: Vec<(usize, Bitrate)>,
    /// Links of which it was measured that they carry no more, by their places.
    measured: Vec<usize>,
}

impl Map {
    /// Draws the map for a stream of this node's and one sink.
    ///
    /// Fails   a sentence that says which node is not on the map
    pub(super) fn new(
        control: &Controller,
        publication: &Publication,
        sink: NodeId,
        avoid: Avoid,
        now: Instant,
    ) -> Result<Self, String> {
        let is_taken = |ends| !control.is_avoided(ends, sink, avoid, now);
        Self::between(control, publication, control.id(), sink, is_taken)
    }

    /// Draws the map for a stream between two nodes, as this node sees them, with these links only.
    ///
    /// Fails   a sentence that says which node is not on the map
    pub(super) fn between(
        control: &Controller,
        publication: &Publication,
        source: NodeId,
        sink: NodeId,
        is_taken: impl Fn([NodeId; 2]) -> bool,
    ) -> Result<Self, String> {
        let mut topology = Topology::default();
        let mut places = BTreeMap::new();
        let mut keys = BTreeMap::new();
        let (mut former, mut measured) = (Vec::new(), Vec::new());
        let may_stand =
            |node| node == sink || node == source || control.roll.may(node, Rights::RELAY);
        let records = || control.directory.records();
        for record in records().filter(|record| may_stand(record.node)) {
            let name = unique(&keys, &control.name_of(record.node), record.node);
            let trusted = record.node == source || control.trusts(record.node);
            let index = topology.add_node(name.clone(), record.slots, trusted);
            places.insert(record.node, (index, name.clone()));
            keys.insert(name, record.node);
        }
        let is_open = |ends: [NodeId; 2]| ends.into_iter().all(may_stand) && is_taken(ends);
        let links = control.directory.links();
        let links = links.filter(|link| link.is_for([source, sink]));
        for link in links.filter(|link| is_open([link.near.node, link.far.node])) {
            let ends = [places[&link.near.node].0, places[&link.far.node].0];
            let was_silent = control.was_silent([link.near.node, link.far.node]);
            let (there, back) = (link.there, link.back.unwrap_or(link.there));
            let mut edge = edge(ends, there, back, was_silent);
            if is_measured([there, back], edge.rate) {
                measured.push(topology.links().len());
            }
            let of = |near, far| control.directory.former_rate(near, far);
            let before = of(link.near.node, link.far.node).into_iter();
            let before = before.chain(of(link.far.node, link.near.node)).min();
            if let Some(before) = before.filter(|before| *before < edge.rate) {
                former.push((topology.links().len(), edge.rate));
                edge.rate = before;
            }
            topology.add_link(edge);
        }
        let name = |node: NodeId| {
            let place = places.get(&node).map(|(_, name)| name.clone());
            place.ok_or_else(|| format!("{} is not on the map", control.name_of(node)))
        };
        let weights = control.settings.weights;
        let stream = Stream {
            name: publication.name.clone(),
            from: name(source)?,
            to: vec![name(sink)?],
            layers: publication.layers.clone(),
            needs: publication.needs,
            importance: Stream::IMPORTANCE_DEFAULT,
            pack_ratio: publication.pack_ratio,
            seal_overhead: None,
            traffic: Traffic::default(),
        };
        let catalogue = Catalogue::standard(&weights, &stream);
        Ok(Self {
            snapshot: Snapshot {
                topology,
                weights,
                stream,
                catalogue,
            },
            keys,
            former,
            measured,
        })
    }

    /// Plans, with what links carried formerly only if there is a plan with that.
    ///
    /// Cost    that of [`planner::plan`], at most twice
    pub(super) fn plan(&mut self, policy: Policy) -> (Plan, Vec<Shortfall>) {
        let (plan, shortfalls) = planner::plan(&self.snapshot, &policy);
        if plan.feasible || self.former.is_empty() {
            return (plan, shortfalls);
        }
        let links = self.snapshot.topology.links_mut();
        for (place, rate) in self.former.drain(..) {
            links[place].rate = rate;
        }
        planner::plan(&self.snapshot, &policy)
    }

    /// Plans a stream for which all ways were measured as too slow, and which can do without what does not fit: by the way that is
    /// the least too slow, within a factor of two. To be asked when there is no plan.
    ///
    /// Cost    that of [`planner::plan`], at most five times
    pub(super) fn stretch(&mut self, policy: Policy) -> Option<Plan> {
        let needs = &self.snapshot.stream.needs;
        // What must come whole would wait for ever longer, and what is held waits at the source.
        let is_to_wait = needs.deadline.is_never() || needs.reliability.is_ordered();
        if is_to_wait || needs.is_held() || self.measured.is_empty() {
            return None;
        }
        let links = self.snapshot.topology.links();
        let known = self.measured.iter().map(|place| links[*place].rate);
        let known: Vec<Bitrate> = known.collect();
        let mut plan_at = |doublings: u32| {
            let links = self.snapshot.topology.links_mut();
            for (place, rate) in self.measured.iter().zip(&known) {
                let stretched = rate.as_bps().saturating_mul(1 << doublings);
                links[*place].rate = Bitrate::from_bps(stretched).min(RATE_UNKNOWN.max(*rate));
            }
            let (plan, _) = planner::plan(&self.snapshot, &policy);
            plan.feasible.then_some(plan)
        };
        let mut best = plan_at(DOUBLINGS_MAX)?;
        // More is never worse: the least that is enough lies above `low`, at `high` or below.
        let (mut low, mut high) = (0, DOUBLINGS_MAX);
        while high - low > 1 {
            let middle = low.midpoint(high);
            match plan_at(middle) {
                Some(plan) => (best, high) = (plan, middle),
                None => low = middle,
            }
        }
        Some(best)
    }

    /// Returns the node of a name on the map.
    pub(super) fn key(&self, name: &NodeName) -> Option<NodeId> {
        self.keys.get(name).copied()
    }

    /// Returns the parts of a plan, node by node.
    ///
    /// Fails   a sentence about what no node can run, or which node is gone
    pub(super) fn parts(&self, plan: &Plan) -> Result<Vec<Part>, String> {
        if let Some(adapter) = plan.declared_adapter() {
            return Err(format!(
                "the plan wants `{adapter}`, which is declared for planning and which no node can run"
            ));
        }
        let confidential = self.snapshot.stream.needs.confidential;
        let mut sealed_in = vec![false];
        sealed_in.extend(plan.links.iter().map(|link| link.sealed));
        let part = |(name, sealed): (&NodeName, bool)| {
            let node = self
                .keys
                .get(name)
                .ok_or_else(|| format!("{name} has left the map"))?;
            Ok(Part {
                node: *node,
                adapters: plan
                    .adapters_at(name)
                    .iter()
                    .map(ToString::to_string)
                    .collect(),
                plaintext: !(confidential && sealed),
            })
        };
        plan.path.iter().zip(sealed_in).map(part).collect()
    }
}

/// Returns the name, or the name with a piece of the key if another node has it or it is no name.
fn unique(taken: &BTreeMap<NodeName, NodeId>, name: &str, node: NodeId) -> NodeName {
    let plain = name.parse().ok().filter(|name| !taken.contains_key(name));
    plain.unwrap_or_else(|| {
        let short: String = name.chars().filter(|c| !c.is_control()).take(20).collect();
        let long = format!("{}@{}", short.trim(), node);
        let cut: String = long.chars().take(60).collect();
        cut.parse()
            .or_else(|_| node.short().parse())
            .expect("digits of a key are a name")
    })
}

/// Returns a link as the planner knows it, from what its ends say of it.
///
/// Both measure the same round trip. The first that an end sees is too long where it was busy, so the shorter is believed; but after a
/// silence an end that did not hear it goes on telling for half a minute how long it was.
fn edge(ends: [NodeIndex; 2], there: &Neighbour, back: &Neighbour, was_silent: bool) -> Edge {
    let known = [there.rate, back.rate]
        .into_iter()
        .filter(|rate| *rate > Bitrate::ZERO)
        .min();
    let rtt = if was_silent {
        there.rtt.max(back.rtt)
    } else {
        there.rtt.min(back.rtt)
    };
    let loss_ppm = there.loss_ppm.max(back.loss_ppm);
    let mut edge = Edge::new(ends, known.unwrap_or(RATE_UNKNOWN));
    edge.delay = Duration::from_nanos(rtt.as_nanos() / 2);
    edge.loss = Ratio::new(f64::from(loss_ppm) / 1e6).unwrap_or(Ratio::ONE);
    edge.secure = there.secure && back.secure;
    edge
}

/// Returns whether the rate that a link is planned with was measured, and no operator says the same.
fn is_measured(ends: [&Neighbour; 2], rate: Bitrate) -> bool {
    let mut sayers = ends.into_iter().filter(|end| end.rate == rate).peekable();
    sayers.peek().is_some() && sayers.all(|end| end.is_measured)
}
