//! Many streams on one network.
//!
//! *The idea.* Streams are admitted in the order of importance, each by the exact planner on what
//! the others left of every link and direction. In that order a stream may take a link that it does
//! not need, while another has no alternative. So every stream that got less, or pays more, than it
//! would alone is revisited: the streams that block it are removed, it is planned, and they are
//! planned again on the rest. The change stays only if it is better, first by class of importance
//! (fewer streams refused, then less quality lost), then by total cost. So the result is never
//! worse than admission by importance alone, and no class loses quality to a lower one.
//!
//! *What it does not do.* It does not guarantee the best division, because that problem contains
//! many knapsacks. A stream with several sinks is one stream per sink, with a copy each. Slots are
//! counted per stream.
//!
//! *Sources.* docs/concepts/planner.md §10.

mod division;
mod loads;
mod words;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use division::Division;

use super::check::{Violation, check};
use super::product::{LinkUse, Plan};
use super::shortfall::Shortfall;
use super::{Policy, states};
use crate::model::{LinkIndex, NodeName, Snapshot};

/// A link is reported from this load on, even if a single stream uses it.
const NEARLY_FULL: f64 = 0.9;

/// The result for one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Admission {
    /// The stream's plan beside the others; empty if it was refused.
    pub plan: Plan,
    /// The stream's plan if it were alone.
    pub alone: Plan,
    /// The stream's plan after admission by importance, before any concession; empty if it was
    /// refused then.
    pub by_importance: Plan,
    /// The reasons for a refusal: what it lacks alone, or the links on which the others left too
    /// little.
    pub shortfalls: Vec<Shortfall>,
}

/// A stream that took another path, or got less, in favour of another stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Concession {
    /// Index of the stream that made way.
    pub by: usize,
    /// Index of the stream that gained.
    pub to: usize,
    /// Cost of the stream that made way, before and after; a refused one costs as if nothing were
    /// delivered.
    pub by_cost: [f64; 2],
    /// Cost of the stream that gained, before and after.
    pub to_cost: [f64; 2],
}

/// One direction of a link that several streams use, or that lacks room for a stream that wants it.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedLink {
    /// Index in the topology.
    pub link: LinkIndex,
    /// The sending node.
    pub from: NodeName,
    /// The receiving node.
    pub to: NodeName,
    /// The link's rate, in bit/s.
    pub has_bps: f64,
    /// Streams on the link by index, with their rates in bit/s; the most important first.
    pub shares: Vec<(usize, f64)>,
    /// Streams that would use the link alone but do not fit beside the others, with their rates in
    /// bit/s.
    pub missed: Vec<(usize, f64)>,
}

/// The results for all streams.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared {
    /// One per stream, in their order.
    pub admissions: Vec<Admission>,
    /// Sum of the costs; a refused stream costs as if nothing were delivered.
    pub cost: f64,
    /// The same sum after admission by importance alone.
    pub cost_by_importance: f64,
    /// Differences from admission by importance.
    pub concessions: Vec<Concession>,
    /// The links that streams compete for, in topology order.
    pub links: Vec<SharedLink>,
}

impl SharedLink {
    /// Returns the sum of the streams' rates on the link, in bit/s.
    pub fn load_bps(&self) -> f64 {
        self.shares.iter().map(|(_, bps)| bps).sum()
    }
}

impl Shared {
    /// Returns whether no stream was refused.
    pub fn is_feasible(&self) -> bool {
        self.admissions
            .iter()
            .all(|admission| admission.plan.feasible)
    }
}

/// Plans many streams on one network, always with the exact planner.
///
/// Each snapshot has its own stream with one sink, and all have the topology of the first. A strict
/// policy admits all or none: if one is refused, no plan is returned.
///
/// Cost    O(streams) plans; then as many again as docs/concepts/planner.md §10 allows for improvement
/// Source  docs/concepts/planner.md §10
pub fn plan_all(snapshots: &[Snapshot], policy: &Policy) -> Shared {
    let mut shared = Division::new(snapshots, policy.labels_max).divide();
    if policy.strict && !shared.is_feasible() {
        for admission in &mut shared.admissions {
            admission.plan = Plan::default();
            admission.by_importance = Plan::default();
        }
        (shared.links, shared.concessions) = (Vec::new(), Vec::new());
    } else {
        shared.links = links_of(snapshots, &shared.admissions);
    }
    shared
}

/// By link and sending node.
type Rivals = BTreeMap<(u32, NodeName), SharedLink>;

/// Returns the links that streams compete for.
fn links_of(snapshots: &[Snapshot], admissions: &[Admission]) -> Vec<SharedLink> {
    let Some(first) = snapshots.first() else {
        return Vec::new();
    };
    let topology = &first.topology;
    let mut rivals = Rivals::new();
    let entry = |rivals: &mut Rivals, used: &LinkUse| {
        let has_bps = topology.link(used.link).rate.as_bps() as f64;
        let key = (used.link.0, used.from.clone());
        rivals.entry(key.clone()).or_insert_with(|| SharedLink {
            link: used.link,
            from: used.from.clone(),
            to: used.to.clone(),
            has_bps,
            shares: Vec::new(),
            missed: Vec::new(),
        });
        key
    };
    for (at, admission) in admissions.iter().enumerate() {
        for used in &admission.plan.links {
            let key = entry(&mut rivals, used);
            rivals
                .entry(key)
                .and_modify(|link| link.shares.push((at, used.rate_bps)));
        }
    }
    for (at, admission) in admissions.iter().enumerate() {
        let uses = |used: &LinkUse| {
            let links = &admission.plan.links;
            links.iter().any(|other| {
                (other.link, &other.from) == (used.link, &used.from)
                    && other.rate_bps >= used.rate_bps
            })
        };
        for used in admission.alone.links.iter().filter(|used| !uses(used)) {
            let key = entry(&mut rivals, used);
            rivals.entry(key).and_modify(|link| {
                let others = link.shares.iter().filter(|(other, _)| *other != at);
                let taken: f64 = others.map(|(_, bps)| bps).sum();
                if taken + used.rate_bps > link.has_bps * (1.0 + states::RATE_TOLERANCE) {
                    link.missed.push((at, used.rate_bps));
                }
            });
        }
    }
    let is_reported = |link: &SharedLink| {
        let full = link.load_bps() >= link.has_bps * NEARLY_FULL;
        link.shares.len() > 1 || !link.missed.is_empty() || full
    };
    let mut links: Vec<SharedLink> = rivals.into_values().filter(is_reported).collect();
    for link in &mut links {
        let key =
            |(at, _): &(usize, f64)| (core::cmp::Reverse(snapshots[*at].stream.importance), *at);
        link.shares.sort_by_key(key);
        link.missed.sort_by_key(key);
    }
    links
}

/// Returns everything that the plans of many streams break: each alone, and the links by their
/// total load.
pub fn check_all(snapshots: &[Snapshot], shared: &Shared) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut loads: BTreeMap<(u32, &NodeName), (&LinkUse, f64)> = BTreeMap::new();
    for (snapshot, admission) in snapshots.iter().zip(&shared.admissions) {
        if !admission.plan.feasible {
            continue;
        }
        violations.extend(check(snapshot, &admission.plan));
        for link in &admission.plan.links {
            let known = loads.entry((link.link.0, &link.from));
            known.or_insert((link, 0.0)).1 += link.rate_bps;
        }
    }
    for (link, needs_bps) in loads.into_values() {
        let has_bps = snapshots[0].topology.link(link.link).rate.as_bps() as f64;
        if needs_bps > has_bps * (1.0 + 1e-9) {
            violations.push(Violation::SlowLink {
                from: link.from.clone(),
                to: link.to.clone(),
                needs_bps,
                has_bps,
            });
        }
    }
    violations
}
