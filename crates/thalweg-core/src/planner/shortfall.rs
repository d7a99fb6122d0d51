//! What would have to change for a stream to be planned.
//!
//! *The idea.* One constraint after another is lifted and broken as little as possible; what the best plan then breaks
//! is exactly what is missing, with numbers. Each lifted constraint that suffices is one way out. If none suffices
//! alone, all are lifted together; if even that finds nothing, there is no path.
//!
//! *What it does not do.* A plan that shows plaintext where none may be seen is reported, never returned.
//!
//! *Sources.* docs/planner.md §4.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use super::check::{Violation, check, rate};
use super::exact::{Problem, Relaxation};
use super::product::Plan;
use crate::model::Snapshot;

/// A constraint that may be what stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Need {
    /// The path must be quick enough.
    Deadline,
    /// Links must be fast enough.
    Rate,
    /// Nodes must have room for adapters.
    Slots,
    /// Nobody may see plaintext who may not.
    Confidential,
    /// Several of these at once.
    Several,
    /// There must be a path.
    Path,
    /// The stream must be one that can be planned.
    Input,
}

/// One way out: if all it lists were mended, a plan would exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shortfall {
    /// What stands in the way.
    pub need: Need,
    /// What is missing, where, and by how much.
    pub lacks: Vec<Violation>,
}

impl Shortfall {
    pub(super) fn of_input(violation: Violation) -> Self {
        Self {
            need: Need::Input,
            lacks: vec![violation],
        }
    }

    /// Returns what would mend it, in words.
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

/// Returns what would mend one violation.
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
            format!("give {node} {} more slots ({needs} in all)", needs - has)
        }
        Violation::PlainLink { from, to } => {
            format!("secure {from} → {to} and trust both ends, or drop `confidential`")
        }
        Violation::PlainNode { node } => format!("trust {node}, or drop `confidential`"),
        Violation::Late {
            takes_ms,
            allows_ms,
        } => format!(
            "allow {takes_ms} ms ({} ms more), or make a link quicker",
            takes_ms - allows_ms
        ),
        Violation::NoPath { from, to } => {
            format!("link {from} with {to}, directly or through other nodes")
        }
        Violation::LinkDown { from, to } => format!("bring {from} → {to} up"),
        Violation::Sinks { .. } => "name one sink".to_string(),
        Violation::UnknownNode { node } => format!("add a node {node}"),
        Violation::Layers { .. } => "ask for fewer layers, or give the stream more".to_string(),
        other => format!("mend this: {other}"),
    }
}

/// Returns the least bad plan and the ways out, for a problem without a plan.
pub(super) fn least_bad(snapshot: &Snapshot, ends: [usize; 2]) -> (Plan, Vec<Shortfall>) {
    let none = Relaxation::default();
    let all_but_trust = Relaxation {
        deadline: true,
        rate: true,
        slots: true,
        trust: false,
    };
    let single = [
        (
            Need::Deadline,
            Relaxation {
                deadline: true,
                ..none
            },
        ),
        (Need::Rate, Relaxation { rate: true, ..none }),
        (
            Need::Slots,
            Relaxation {
                slots: true,
                ..none
            },
        ),
        (
            Need::Confidential,
            Relaxation {
                trust: true,
                ..none
            },
        ),
    ];
    let mut best: Option<Plan> = None;
    let mut shortfalls = Vec::new();
    let mut attempt = |need, relaxation: Relaxation, shortfalls: &mut Vec<Shortfall>| {
        if let Some((plan, shortfall)) = lift(snapshot, ends, need, relaxation) {
            if !relaxation.trust && best.is_none() {
                best = Some(plan);
            }
            shortfalls.push(shortfall);
        }
    };
    for (need, relaxation) in single {
        attempt(need, relaxation, &mut shortfalls);
    }
    let safe = shortfalls
        .iter()
        .any(|shortfall| shortfall.need != Need::Confidential);
    if !safe {
        attempt(Need::Several, all_but_trust, &mut shortfalls);
    }
    if shortfalls.is_empty() {
        let all = Relaxation {
            trust: true,
            ..all_but_trust
        };
        attempt(Need::Several, all, &mut shortfalls);
    }
    if shortfalls.is_empty() {
        let [from, to] = ends.map(|end| snapshot.topology.nodes()[end].name.clone());
        shortfalls.push(Shortfall {
            need: Need::Path,
            lacks: vec![Violation::NoPath { from, to }],
        });
    }
    (best.unwrap_or_default(), shortfalls)
}

/// Plans with constraints lifted, and returns the plan and what it breaks; `None` if that does not help.
fn lift(
    snapshot: &Snapshot,
    ends: [usize; 2],
    need: Need,
    relaxation: Relaxation,
) -> Option<(Plan, Shortfall)> {
    let needs = &snapshot.stream.needs;
    let idle = match need {
        Need::Deadline => needs.deadline.is_never(),
        Need::Confidential => !needs.confidential,
        _ => false,
    };
    if idle {
        return None;
    }
    let route = Problem::new(snapshot, ends, relaxation).solve()?;
    let plan = Plan::of_route(snapshot, &route, false);
    let lacks = check(snapshot, &plan);
    debug_assert!(!lacks.is_empty(), "a plan that breaks nothing was missed");
    Some((plan, Shortfall { need, lacks }))
}
