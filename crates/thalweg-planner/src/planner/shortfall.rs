//! What would have to change for a stream to have a plan.
//!
//! *The idea.* One constraint after another is lifted and broken as little as possible; what the
//! best plan then breaks is exactly what is missing, with numbers. Each lifted constraint that
//! suffices is one way out. If none suffices alone, all are lifted together; if even that yields
//! nothing, there is no path.
//!
//! *What it does not do.* A plan that shows plaintext where it is forbidden is reported, never
//! returned.
//!
//! *Sources.* docs/concepts/planner.md §4.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};
use thalweg_base::units::Ratio;

use super::check::{Violation, check, rate};
use super::effort::Effort;
use super::exact;
use super::problem::{Exhausted, Problem, Relaxation};
use super::product::Plan;
use crate::model::{LinkIndex, NodeIndex, NodeName, Snapshot};

/// A constraint that may prevent a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Need {
    /// The path must be fast enough.
    Deadline,
    /// The path must be short enough to be deployed.
    Length,
    /// Links must be fast enough.
    Rate,
    /// Nodes must have adapter slots.
    Slots,
    /// Plaintext must stay on trusted nodes and secure links.
    Confidential,
    /// Links must lose no more than the stream tolerates, or a transform must repair it.
    Loss,
    /// Nodes must hold adapters.
    Held,
    /// Nodes must have CPU for adapters.
    Cpu,
    /// Several of these at once.
    Several,
    /// There must be a path.
    Path,
    /// The stream must be valid for the planner.
    Input,
    /// The search must end within its limit; whether there is a plan is unknown.
    Effort,
}

/// One way out: a plan exists once all that it lists is remedied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shortfall {
    /// The constraint that is broken.
    pub need: Need,
    /// What is missing, where, and by how much.
    pub lacks: Vec<Violation>,
}

impl From<Exhausted> for Shortfall {
    fn from(exhausted: Exhausted) -> Self {
        Self {
            need: Need::Effort,
            lacks: vec![Violation::Exhausted {
                labels: exhausted.labels,
            }],
        }
    }
}

impl Shortfall {
    /// Returns the shortfall of a sink that was not analysed; a plan for it alone would do that.
    pub(super) fn not_looked_into(sink: NodeName) -> Self {
        Self {
            need: Need::Effort,
            lacks: vec![Violation::NotLookedInto { sink }],
        }
    }

    pub(super) fn of_input(violation: Violation) -> Self {
        Self {
            need: Need::Input,
            lacks: vec![violation],
        }
    }

    /// Returns the shortfall that lists what the best plan of an inexact planner breaks.
    pub(super) fn of_broken(lacks: Vec<Violation>) -> Self {
        let need_of = |lack: &Violation| match lack {
            Violation::Late { .. } => Need::Deadline,
            Violation::LongPath { .. } => Need::Length,
            Violation::SlowLink { .. } => Need::Rate,
            Violation::FewSlots { .. } => Need::Slots,
            Violation::PlainLink { .. } | Violation::PlainNode { .. } => Need::Confidential,
            Violation::LossyLink { .. } => Need::Loss,
            Violation::NotHeld { .. } => Need::Held,
            Violation::LittleCpu { .. } => Need::Cpu,
            _ => Need::Several,
        };
        let need = lacks.first().map_or(Need::Several, need_of);
        let alone = lacks.iter().all(|lack| need_of(lack) == need);
        Self {
            need: if alone { need } else { Need::Several },
            lacks,
        }
    }

    /// Returns the shortfall of a sink that no links reach. If a path fails only on links that are
    /// down, lists those of the path with the fewest.
    pub(super) fn no_path(snapshot: &Snapshot) -> Self {
        let from = snapshot.stream.from.clone();
        let to = snapshot.stream.to[0].clone();
        let mut lacks = down_between(snapshot, &from, &to);
        if lacks.is_empty() {
            lacks.push(Violation::NoPath { from, to });
        }
        Self {
            need: Need::Path,
            lacks,
        }
    }

    /// Returns whether the shortfall would show plaintext where it is forbidden.
    pub(super) fn shows_plaintext(&self) -> bool {
        let shows = |lack: &Violation| {
            matches!(
                lack,
                Violation::PlainLink { .. } | Violation::PlainNode { .. }
            )
        };
        self.lacks.iter().any(shows)
    }

    /// Returns the remedy in words.
    pub fn fix(&self) -> String {
        let fixes: Vec<String> = self.lacks.iter().map(fix_of).collect();
        fixes.join("; and ")
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, lack) in self.lacks.iter().enumerate() {
            if at > 0 {
                f.write_str("; and ")?;
            }
            write!(f, "{lack}")?;
        }
        Ok(())
    }
}

/// Returns the links that are down on the path with the fewest of them; empty if there is no such
/// path either.
fn down_between(snapshot: &Snapshot, from: &NodeName, to: &NodeName) -> Vec<Violation> {
    let topology = &snapshot.topology;
    let (Some(source), Some(sink)) = (topology.find(from), topology.find(to)) else {
        return Vec::new();
    };
    let mut links_of: Vec<Vec<u32>> = vec![Vec::new(); topology.nodes().len()];
    for (at, edge) in topology.links().iter().enumerate() {
        for end in edge.ends {
            links_of[end.0 as usize].push(at as u32);
        }
    }
    // A link that is up costs 0, one that is down 1. Names break ties, so that the order of a
    // world's text does not matter.
    let name = |node: NodeIndex| &topology.node(node).name;
    let mut best = vec![u32::MAX; links_of.len()];
    let mut came: Vec<Option<u32>> = vec![None; links_of.len()];
    let mut queue = BTreeSet::from([(0, name(source), source)]);
    best[source.0 as usize] = 0;
    while let Some((down, _, node)) = queue.pop_first() {
        if down > best[node.0 as usize] {
            continue;
        }
        for link in &links_of[node.0 as usize] {
            let edge = topology.link(LinkIndex(*link));
            let far = edge.far_end(node);
            let then = down + u32::from(!edge.up);
            if then < best[far.0 as usize] {
                best[far.0 as usize] = then;
                came[far.0 as usize] = Some(*link);
                queue.insert((then, name(far), far));
            }
        }
    }
    let mut lacks = Vec::new();
    let mut at = sink;
    while let Some(link) = came[at.0 as usize].filter(|_| at != source) {
        let edge = topology.link(LinkIndex(link));
        let before = edge.far_end(at);
        if !edge.up {
            let [from, to] = [before, at].map(|node| topology.node(node).name.clone());
            lacks.push(Violation::LinkDown { from, to });
        }
        at = before;
    }
    lacks.reverse();
    lacks
}

/// Returns the remedy of one violation.
fn fix_of(lack: &Violation) -> String {
    match lack {
        Violation::SlowLink {
            from,
            to,
            needs_bps,
            has_bps,
        } => format!(
            "give {from} → {to} {} more ({} in all), or let the stream send less",
            rate(needs_bps - has_bps),
            rate(*needs_bps)
        ),
        Violation::FewSlots { node, needs, has } => {
            let more = needs - has;
            let plural = if more == 1 { "" } else { "s" };
            format!("give {node} {more} more slot{plural} ({needs} in all)")
        }
        Violation::PlainLink { from, to } => {
            format!("secure {from} → {to} and trust both ends, or drop `confidential`")
        }
        Violation::PlainNode { node } => format!("trust {node}, or drop `confidential`"),
        Violation::LossyLink {
            from, to, loses, ..
        } => format!(
            "let the stream tolerate a loss of {loses}, lower that of {from} → {to}, or declare an adapter that repairs it"
        ),
        Violation::NotHeld { node, adapter } => format!("let {node} hold {}", adapter.kind()),
        Violation::LittleCpu {
            node, needs_cores, ..
        } => format!("give {node} {needs_cores} cores for the stream"),
        Violation::Late {
            takes_ms,
            allows_ms,
        } => format!(
            "allow {takes_ms} ms ({} ms more), or make a link faster",
            takes_ms - allows_ms
        ),
        Violation::LongPath { nodes, most } => {
            format!(
                "add links so that the path has {} fewer nodes",
                nodes - most
            )
        }
        Violation::NoPath { from, to } => {
            format!("link {from} with {to}, directly or through other nodes")
        }
        Violation::NotLookedInto { sink } => format!("plan {sink} alone to find out"),
        Violation::NoTree { sink } => format!("send to {sink} by a separate stream"),
        Violation::LinkDown { from, to } => format!("bring {from} → {to} up"),
        Violation::Sinks { .. } => "name one sink".to_string(),
        Violation::UnknownNode { node } => format!("add a node {node}"),
        Violation::Exhausted { .. } => {
            "plan a smaller network, or allow the search more labels".to_string()
        }
        Violation::Layers { .. } => "ask for fewer layers, or give the stream more".to_string(),
        other => format!("fix this: {other}"),
    }
}

/// Returns each constraint lifted by itself.
pub(super) fn each_alone() -> [(Need, Relaxation); 8] {
    let mut all = [
        Need::Deadline,
        Need::Length,
        Need::Rate,
        Need::Slots,
        Need::Confidential,
        Need::Loss,
        Need::Held,
        Need::Cpu,
    ]
    .map(|need| (need, Relaxation::default()));
    all[0].1.deadline = true;
    all[1].1.length = true;
    all[2].1.rate = true;
    all[3].1.slots = true;
    all[4].1.trust = true;
    all[5].1.loss = true;
    all[6].1.held = true;
    all[7].1.cpu = true;
    all
}

/// Returns the plan with the least breach and the ways out, for a problem without a plan.
pub(super) fn least_bad(
    snapshot: &Snapshot,
    ends: [usize; 2],
    labels_max: u32,
) -> (Plan, Vec<Shortfall>) {
    least_bad_within(snapshot, ends, Effort::of(labels_max))
}

/// Does the same within a limit.
pub(super) fn least_bad_within(
    snapshot: &Snapshot,
    ends: [usize; 2],
    effort: Effort<'_>,
) -> (Plan, Vec<Shortfall>) {
    let all_but_trust = Relaxation {
        deadline: true,
        length: true,
        rate: true,
        slots: true,
        trust: false,
        loss: true,
        held: true,
        cpu: true,
    };
    let all = Relaxation {
        trust: true,
        ..all_but_trust
    };
    let mut ways_out = WaysOut {
        snapshot,
        ends,
        effort,
        best: None,
        shortfalls: Vec::new(),
        exhausted: None,
    };
    for (need, relaxation) in each_alone() {
        ways_out.attempt(need, relaxation);
    }
    // No single constraint suffices: lift all that show no plaintext.
    if ways_out.best.is_none() {
        ways_out.attempt(Need::Several, all_but_trust);
    }
    // Only with plaintext shown: report it, without a plan.
    if ways_out.shortfalls.is_empty() {
        ways_out.attempt(Need::Several, all);
    }
    ways_out.end()
}

/// The ways out found so far.
struct WaysOut<'a> {
    snapshot: &'a Snapshot,
    ends: [usize; 2],
    effort: Effort<'a>,
    /// The first plan that shows no plaintext.
    best: Option<Plan>,
    shortfalls: Vec<Shortfall>,
    /// A search reached its limit, so a way out may have been missed.
    exhausted: Option<Exhausted>,
}

impl WaysOut<'_> {
    /// Plans with constraints lifted, and records what the plan breaks.
    fn attempt(&mut self, need: Need, relaxation: Relaxation) {
        let needs = &self.snapshot.stream.needs;
        let nodes = || self.snapshot.topology.nodes().iter();
        // Lifting a constraint that does not exist changes nothing.
        let idle = match need {
            Need::Deadline => needs.deadline.is_never(),
            Need::Confidential => !needs.confidential,
            Need::Loss => needs.loss_max == Ratio::ONE,
            Need::Held => nodes().all(|place| place.held.is_none()),
            Need::Cpu => nodes().all(|place| place.cpu_cores.is_none()),
            _ => false,
        };
        if idle {
            return;
        }
        let problem = Problem::new(self.snapshot, self.ends, relaxation);
        match exact::solve_within(&problem, self.effort) {
            Ok(Some(route)) => {
                let plan = Plan::of_route(self.snapshot, &route, false);
                let lacks = check(self.snapshot, &plan);
                debug_assert!(
                    !lacks.is_empty(),
                    "the search missed a plan without breaches"
                );
                self.shortfalls.push(Shortfall { need, lacks });
                if !relaxation.trust && self.best.is_none() {
                    self.best = Some(plan);
                }
            }
            Ok(None) => {}
            Err(cut) => self.exhausted = Some(cut.into()),
        }
    }

    /// Returns the results; if there are none, there is no path, or the search reached its limit.
    fn end(mut self) -> (Plan, Vec<Shortfall>) {
        if self.shortfalls.is_empty() {
            self.shortfalls.push(match self.exhausted {
                Some(exhausted) => exhausted.into(),
                None => Shortfall::no_path(self.snapshot),
            });
        }
        (self.best.unwrap_or_default(), self.shortfalls)
    }
}
