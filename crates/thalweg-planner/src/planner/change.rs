//! The steps from one plan to the next, and whether they pay.
//!
//! *The idea.* A plan costs while it is in force, a change costs once. Both are compared in one
//! unit, cost × time: a plan is replaced if what the new one saves until the session ends, or until
//! the network is expected to change again, exceeds the price of the steps. So a plan survives
//! small changes, and a short session keeps the plan that was quick to find. A plan that breaks a
//! constraint is replaced at any price.
//!
//! *Sources.* docs/concepts/planner.md §11; PA-19, PA-27.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use thalweg_base::time::Duration;

use super::check::assess;
use super::product::Plan;
use super::shortfall::Shortfall;
use super::{Policy, plan};
use crate::model::{Adapter, Edge, LinkIndex, NodeName, Snapshot};

/// One step on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// The node joins the path.
    Join {
        /// The node.
        node: NodeName,
    },
    /// The node leaves the path.
    Leave {
        /// The node.
        node: NodeName,
    },
    /// An adapter starts at this position of the node's new chain.
    Start {
        /// The node.
        node: NodeName,
        /// The adapter.
        adapter: Adapter,
        /// Its position in the chain.
        at: usize,
    },
    /// An adapter stops at this position of the node's old chain.
    Stop {
        /// The node.
        node: NodeName,
        /// The adapter.
        adapter: Adapter,
        /// Its position in the chain.
        at: usize,
    },
    /// The node sends over another link from now on.
    Send {
        /// The node.
        node: NodeName,
        /// The far end of the link.
        to: NodeName,
        /// The link.
        link: LinkIndex,
    },
}

/// Prices of changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Switching {
    /// Price of one step, in cost × seconds.
    pub step: f64,
    /// How long the network is expected to stay unchanged.
    pub horizon: Duration,
    /// Remaining duration of the session, if known.
    pub session: Duration,
}

/// The decision about a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It stays: no better plan was found, or the better one does not pay.
    Keep {
        /// What the better plan would save, in cost × seconds.
        gain: f64,
        /// The price of changing to it, in cost × seconds.
        price: f64,
    },
    /// It is replaced.
    Replace {
        /// The new plan.
        plan: Plan,
        /// The steps to it.
        steps: Vec<Step>,
        /// What the new plan does not satisfy.
        shortfalls: Vec<Shortfall>,
    },
}

impl Default for Switching {
    /// A step is worth one cost unit for a second; a network stays unchanged for a minute.
    fn default() -> Self {
        Self {
            step: 1.0,
            horizon: Duration::from_secs(60),
            session: Duration::NEVER,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join { node } => write!(f, "{node} joins"),
            Self::Leave { node } => write!(f, "{node} leaves"),
            Self::Start { node, adapter, .. } => write!(f, "{node} starts {adapter}"),
            Self::Stop { node, adapter, .. } => write!(f, "{node} stops {adapter}"),
            Self::Send { node, to, .. } => write!(f, "{node} sends to {to}"),
        }
    }
}

/// Returns the smallest set of steps from one plan to another.
///
/// Nodes of the new path come first, from the sink upstream, then those that leave: each receiver
/// is ready before anything is sent to it. Chains are compared by their longest common subsequence,
/// so no adapter is stopped to be restarted.
///
/// Cost    O(path · adapters²)
pub fn diff(old: &Plan, new: &Plan) -> Vec<Step> {
    let mut steps = Vec::new();
    for (at, node) in new.path.iter().enumerate().rev() {
        if !old.path.contains(node) {
            steps.push(Step::Join { node: node.clone() });
        }
        diff_chain(
            node,
            old.adapters_at(node),
            new.adapters_at(node),
            &mut steps,
        );
        let sent = old.links.iter().find(|link| link.from == *node);
        if let Some(link) = new.links.get(at)
            && sent.is_none_or(|sent| sent.link != link.link)
        {
            steps.push(Step::Send {
                node: node.clone(),
                to: link.to.clone(),
                link: link.link,
            });
        }
    }
    for node in old.path.iter().filter(|node| !new.path.contains(node)) {
        steps.push(Step::Leave { node: node.clone() });
    }
    steps
}

/// Adds the steps that turn one chain into another.
fn diff_chain(node: &NodeName, old: &[Adapter], new: &[Adapter], steps: &mut Vec<Step>) {
    // common[i][j]: length of the longest common subsequence of old[i..] and new[j..].
    let mut common = vec![vec![0usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            let (node, adapter) = (node.clone(), old[i]);
            steps.push(Step::Stop {
                node,
                adapter,
                at: i,
            });
            i += 1;
        } else {
            let (node, adapter) = (node.clone(), new[j]);
            steps.push(Step::Start {
                node,
                adapter,
                at: j,
            });
            j += 1;
        }
    }
}

/// Returns whether a best plan stays best when one link changes: it does not use the link, and the
/// link is no better than before. Then no new plan is needed.
///
/// Cost    O(path)
pub fn stays_best(plan: &Plan, link: LinkIndex, before: &Edge, after: &Edge) -> bool {
    let unused = plan.links.iter().all(|used| used.link != link);
    let no_better = after.rate <= before.rate
        && after.delay >= before.delay
        && after.loss >= before.loss
        && before.secure >= after.secure
        && before.up >= after.up;
    plan.feasible && unused && no_better
}

/// Decides whether a plan stays in a network that may have changed.
///
/// A plan that breaks a constraint now is replaced. Any other is replaced if
///
/// ```text
/// (cost of the old − cost of the new) · min(session, horizon) > steps · price of a step
/// ```
pub fn reconsider(
    snapshot: &Snapshot,
    old: &Plan,
    policy: &Policy,
    switching: &Switching,
) -> Verdict {
    let (old_cost, broken) = assess(snapshot, old);
    let (new, shortfalls) = plan(snapshot, policy);
    let steps = diff(old, &new);
    let lasting = switching.session.min(switching.horizon);
    let gain = (old_cost - new.cost) * lasting.as_secs_f64();
    let price = switching.step * steps.len() as f64;
    let worse = !new.feasible || gain <= price;
    if broken.is_empty() && worse || steps.is_empty() {
        return Verdict::Keep { gain, price };
    }
    Verdict::Replace {
        plan: new,
        steps,
        shortfalls,
    }
}
