//! From the directory to the planner's input, and from its plan back to nodes by key.
//!
//! *The idea.* The planner uses names, the network keys. A [`Map`] is made for one planning: it
//! gives every node a unique name (nodes of the same name are told apart by their keys) and maps
//! both ways. Trust follows the grants, or the source's configuration where there are none. Slots,
//! rates and security come from signed records.
//!
//! *Unknown rates.* A measured rate that is no longer valid is used for as long as a plan exists
//! with it. If none does, the link counts as unlimited, like one that was never measured: a stream
//! without any other path then measures it.
//!
//! *Stretching.* If all paths were measured as too slow, a stream that tolerates loss (it has a deadline,
//! and is not sent until it arrives) is planned as if they carried 2, 4, … times as much, until there is a
//! plan; what does not fit is dropped by importance. Rates set by an operator are never stretched.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, Ratio};
use thalweg_base::wire::record::{Neighbour, Record};
use thalweg_planner::model::{
    Catalogue, Edge, NodeIndex, NodeName, Snapshot, Stream, Topology, Traffic,
};
use thalweg_planner::planner::{self, Plan, Policy, Shortfall};

use super::Publication;
use crate::admission::Rights;
use crate::facts::Facts;
use crate::session::Part;

/// The rate assumed for a link of unknown rate: more than any stream needs.
const RATE_UNKNOWN: Bitrate = Bitrate::from_kbps(1_000_000);

/// Maximum number of doublings of measured rates in [`Map::stretch`].
const DOUBLINGS_MAX: u32 = 10;

/// The planner's input, with the way back from names to keys.
#[derive(Clone, Debug)]
pub(crate) struct Map {
    pub(crate) snapshot: Snapshot,
    keys: BTreeMap<NodeName, NodeId>,
    /// Links planned with a former rate: index, and the rate that is known now.
    former: Vec<(usize, Bitrate)>,
    /// Links with a measured rate: index.
    measured: Vec<usize>,
}

impl Map {
    /// Makes the map for a stream between two nodes, as this node sees them, restricted to the
    /// links of `is_usable`. `was_silent` says of a link that its properties may have changed.
    ///
    /// Fails   if a node is not on the map; the sentence names it
    pub(crate) fn between(
        facts: &Facts<'_>,
        publication: &Publication,
        [source, sink]: [NodeId; 2],
        is_usable: impl Fn([NodeId; 2]) -> bool,
        was_silent: impl Fn([NodeId; 2]) -> bool,
    ) -> Result<Self, String> {
        let mut topology = Topology::default();
        let mut places = BTreeMap::new();
        let mut keys = BTreeMap::new();
        let (mut former, mut measured) = (Vec::new(), Vec::new());
        // A node without the right to relay is on the map of its own streams only.
        let may_appear = |node| node == sink || node == source || facts.may(node, Rights::RELAY);
        let records = facts.directory.between([source, sink]);
        let records: Vec<&Record> = records.filter(|record| may_appear(record.node)).collect();
        for record in &records {
            let name = unique(&keys, &facts.name_of(record.node), record.node);
            let trusted = record.node == source || facts.trusts(record.node);
            let index = topology.add_node(name.clone(), record.slots, trusted);
            places.insert(record.node, (index, name.clone()));
            keys.insert(name, record.node);
        }
        let is_among = |node| places.contains_key(&node);
        let links = facts.directory.links_among(records.into_iter(), is_among);
        let links = links.filter(|link| link.is_for([source, sink]));
        for link in links.filter(|link| is_usable([link.near.node, link.far.node])) {
            let ends = [places[&link.near.node].0, places[&link.far.node].0];
            let was_silent = was_silent([link.near.node, link.far.node]);
            let (there, back) = (link.there, link.back.unwrap_or(link.there));
            let mut edge = edge(ends, there, back, was_silent);
            if is_measured([there, back], edge.rate) {
                measured.push(topology.links().len());
            }
            let of = |near, far| facts.directory.former_rate(near, far);
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
            place.ok_or_else(|| format!("{} is not on the map", facts.name_of(node)))
        };
        let weights = facts.local.settings.weights;
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

    /// Plans with the former rates of links, then without them if there is no plan.
    ///
    /// Cost    that of [`planner::plan`], at most twice
    pub(crate) fn plan(&mut self, policy: Policy) -> (Plan, Vec<Shortfall>) {
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

    /// Plans a stream that tolerates loss where all measured paths are too slow: by the least slow
    /// path, within a factor of two. For use when there is no plan.
    ///
    /// Cost    that of [`planner::plan`], at most five times
    pub(crate) fn stretch(&mut self, policy: Policy) -> Option<Plan> {
        let needs = &self.snapshot.stream.needs;
        // A stream that must arrive whole would fall behind without bound, and a held one waits at
        // the source.
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
        // Feasibility grows with the rate, so this is a binary search: `low` is too little, `high`
        // is enough.
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
    pub(crate) fn key(&self, name: &NodeName) -> Option<NodeId> {
        self.keys.get(name).copied()
    }

    /// Returns the parts of a plan, node by node.
    ///
    /// Fails   a sentence that names an adapter that no node can run, or a node that is gone
    pub(crate) fn parts(&self, plan: &Plan) -> Result<Vec<Part>, String> {
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

/// Returns the name, made unique with a piece of the key if another node has it or it is no valid name.
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

/// Returns a link as the planner sees it, from the records of both ends.
///
/// The planner knows one rate per link, so the lower of the two counts, as does the less secure
/// end. Both ends measure the same round trip. An end that was busy measures too much at first, so
/// the shorter value counts. After a silence, an end that did not notice it announces the old value
/// for half a minute, so then the longer one counts.
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

/// Returns whether the rate that a link is planned with was measured, and is not also configured at an end.
fn is_measured(ends: [&Neighbour; 2], rate: Bitrate) -> bool {
    let mut ends_with_rate = ends.into_iter().filter(|end| end.rate == rate).peekable();
    ends_with_rate.peek().is_some() && ends_with_rate.all(|end| end.is_measured)
}
