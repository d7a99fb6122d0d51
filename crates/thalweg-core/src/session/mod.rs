//! The source's side of a stream: who wants it, which plan serves whom, and when a new plan takes over.
//!
//! *The idea.* The source owns its stream, so there is nothing to agree on. A [`Session`] holds one `Sink` per
//! subscribed node and walks it through a deployment:
//!
//! ```text
//!  subscribed ─► PlanWanted ─► handle_plan ─► Prepare to every node ─► all Ready ─► Switched: ADUs carry the epoch
//!                    ▲                              │ Refuse or silence           the epoch before lingers, then
//!                    └──────── after RETRY ◄────────┘                             is released
//! ```
//!
//! Every deployed plan has a number of its own, the epoch, and ADUs carry it; so the old and the new plan live side by
//! side while one takes over, and no ADU meets half of each. Everything installed has a lease and is renewed: what a
//! dead source leaves behind goes away by itself.
//!
//! A node that was restarted has forgotten its part and what it carried, and the map shows it without its links for a
//! moment. So where the way of a plan was broken and the same plan is found again, it is deployed as a new one.
//!
//! What was sent under a plan whose way broke, by the map or by the word of a node whose next one does not answer, and
//! which the sink has not acknowledged ([`Keep`]), is sent again as soon as a plan is in force whose way is whole.
//!
//! *What it does not do.* It neither plans nor sends nor holds keys; it says what is wanted ([`Output`]).
//!
//! *Sources.* spec PA-20…PA-29 (planning protocol, switch-over) and 1(d) "Planning protocol as message sequence".

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{Epoch, NodeId};
use crate::time::{Duration, Instant};

mod keep;
#[cfg(test)]
mod tests;

pub use keep::{KEEP_AGE_MAX, Keep};

/// How long what is installed on a node stays without being renewed.
pub const LEASE: Duration = Duration::from_secs(30);

/// How often leases and subscriptions are renewed: two renewals may be lost.
pub const RENEW: Duration = Duration::from_secs(10);

/// How often a part that has not been answered is sent again: above the round trip of a slow path with a full queue.
pub const RESEND: Duration = Duration::from_millis(1_000);

/// After this long without all answers a deployment is given up.
pub const DEPLOY_MAX: Duration = Duration::from_secs(10);

/// How long after a failed deployment another plan is asked for.
pub const RETRY: Duration = Duration::from_secs(2);

/// A lease still holds at its end and has lapsed right after, so that is when to come back for it.
const LAPSE: Duration = Duration::from_nanos(1);

/// One node's part of a plan that is to be deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The node that it runs on.
    pub node: NodeId,
    /// Its adapters, in order.
    pub adapters: Vec<String>,
    /// Whether ADUs arrive there unsealed.
    pub plaintext: bool,
}

/// Something for the driver to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Find a plan for this sink and give it to [`Session::handle_plan`].
    PlanWanted {
        /// For whom.
        sink: NodeId,
    },
    /// Send a part of a plan to its node, along the plan's own path.
    Prepare {
        /// Which plan.
        epoch: Epoch,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
        /// The node after the addressee; `None` at the sink.
        next: Option<NodeId>,
        /// What to install.
        part: Part,
    },
    /// From now on ADUs for this sink carry this epoch; said again when a plan that was doubted is in force after all.
    Switched {
        /// For whom.
        sink: NodeId,
        /// Under which plan.
        epoch: Epoch,
    },
    /// What was sent under these plans and is not acknowledged is sent again under this one, before anything new.
    Resend {
        /// For whom.
        sink: NodeId,
        /// Under which plans it was sent; their ways are broken.
        from: Vec<Epoch>,
        /// The plan in force.
        to: Epoch,
    },
    /// Forget an epoch on a node; at the source itself the route has one node.
    Release {
        /// Which plan.
        epoch: Epoch,
        /// The path from the source up to the addressee.
        route: Vec<NodeId>,
    },
    /// A deployment failed; another plan is asked for after [`RETRY`].
    Failed {
        /// For whom.
        sink: NodeId,
        /// Under which plan.
        epoch: Epoch,
        /// Why, as a sentence.
        reason: String,
    },
    /// A sink's subscription ended; nothing is sent to it any more.
    Gone {
        /// Who.
        sink: NodeId,
    },
}

/// The sinks of one stream, at its source.
#[derive(Debug, Default)]
pub struct Session {
    epoch_last: u32,
    sinks: BTreeMap<NodeId, Sink>,
    retiring: Vec<(Instant, Deployment)>,
    outputs: VecDeque<Output>,
}

#[derive(Debug, Default)]
struct Sink {
    lease: Instant,
    active: Option<Deployment>,
    pending: Option<Deployment>,
    /// When to ask for a plan again; `None` while one is wanted, pending or active.
    retry: Option<Instant>,
    /// Plans that were in force and whose ways broke: what is not acknowledged of them is to be sent again.
    broken: Vec<Epoch>,
}

#[derive(Clone, Debug)]
struct Deployment {
    epoch: Epoch,
    parts: Vec<Part>,
    waiting_for: BTreeSet<NodeId>,
    send_next: Instant,
    give_up: Instant,
    /// The map has shown its way broken since all its nodes had their parts: one may have been restarted.
    is_doubted: bool,
    /// Until when a node of its way is believed that the next one does not answer.
    suspect_until: Instant,
    /// What was sent under it is to be sent again, or has been.
    is_broken: bool,
}

impl Session {
    /// Takes in a subscription or its renewal.
    pub fn handle_subscribe(&mut self, node: NodeId, now: Instant) {
        let known = self.sinks.contains_key(&node);
        self.sinks.entry(node).or_default().lease = now + LEASE;
        if !known {
            self.outputs.push_back(Output::PlanWanted { sink: node });
        }
    }

    /// Takes in the end of a subscription.
    pub fn handle_unsubscribe(&mut self, node: NodeId, now: Instant) {
        let Some(sink) = self.sinks.remove(&node) else {
            return;
        };
        for deployment in sink.active.into_iter().chain(sink.pending) {
            self.retiring.push((now + RENEW, deployment));
        }
        self.outputs.push_back(Output::Gone { sink: node });
    }

    /// Takes in a plan for a sink, source first and sink last, and begins to deploy it; returns its epoch.
    ///
    /// A plan equal to the active one is not deployed again, unless its way was broken meanwhile.
    pub fn handle_plan(&mut self, node: NodeId, parts: Vec<Part>, now: Instant) -> Option<Epoch> {
        let sink = self.sinks.get_mut(&node)?;
        sink.retry = None;
        let is_renewed = !sink.broken.is_empty();
        let is_same = |active: &&Deployment| active.parts == parts && !active.is_doubted;
        if sink.active.as_ref().is_some_and(|active| is_same(&active)) && !is_renewed {
            sink.pending = None;
            return None;
        }
        if let Some(pending) = sink.pending.as_mut().filter(|plan| plan.parts == parts) {
            if core::mem::take(&mut pending.is_doubted) {
                pending.begin(now);
                self.handle_timeout(now);
            }
            return None;
        }
        self.epoch_last += 1;
        let epoch = Epoch(self.epoch_last);
        let mut deployment = Deployment {
            epoch,
            parts,
            waiting_for: BTreeSet::new(),
            send_next: now,
            give_up: now,
            is_doubted: false,
            suspect_until: Instant::ZERO,
            is_broken: false,
        };
        deployment.begin(now);
        sink.pending = Some(deployment);
        self.handle_timeout(now);
        Some(epoch)
    }

    /// Takes in that no plan can be found now; another is asked for after [`RETRY`].
    pub fn handle_no_plan(&mut self, node: NodeId, now: Instant) {
        if let Some(sink) = self.sinks.get_mut(&node) {
            sink.retry = Some(now + RETRY);
        }
    }

    /// Takes in that the map changed: every sink's plan is asked for anew, and those whose nodes are not joined one to
    /// the next are doubted.
    pub fn handle_change(&mut self, is_joined: impl Fn(NodeId, NodeId) -> bool) {
        for sink in self.sinks.values_mut() {
            for deployment in sink.active.iter_mut().chain(&mut sink.pending) {
                deployment.is_doubted |= !deployment.is_joined(&is_joined);
            }
        }
        for (_, deployment) in &mut self.retiring {
            if !deployment.is_joined(&is_joined) {
                note_broken(&mut self.sinks, deployment);
            }
        }
        self.want_plans(|_| true);
    }

    /// Takes in that a node does not hear from the one after it, which is believed until then: whose plans lead that way
    /// are looked at anew.
    pub fn handle_suspect(&mut self, from: NodeId, to: NodeId, until: Instant) {
        let mut affected = BTreeSet::new();
        for (node, sink) in &mut self.sinks {
            for deployment in sink.active.iter_mut().chain(&mut sink.pending) {
                if deployment.leads(from, to) {
                    deployment.suspect_until = until;
                    affected.insert(*node);
                }
            }
        }
        for (_, deployment) in &mut self.retiring {
            if deployment.leads(from, to) && note_broken(&mut self.sinks, deployment) {
                affected.extend(deployment.parts.last().map(|part| part.node));
            }
        }
        self.want_plans(|sink| affected.contains(sink));
    }

    /// Asks for the plans of these sinks, unless that is asked already.
    fn want_plans(&mut self, of: impl Fn(&NodeId) -> bool) {
        let wanted = self.sinks.keys().filter(|sink| of(sink));
        let wanted = wanted.map(|sink| Output::PlanWanted { sink: *sink });
        let wanted: Vec<Output> = wanted
            .filter(|output| !self.outputs.contains(output))
            .collect();
        self.outputs.extend(wanted);
    }

    /// Takes in that a node has installed its part.
    pub fn handle_ready(&mut self, from: NodeId, epoch: Epoch, now: Instant) {
        for (node, sink) in &mut self.sinks {
            let mut deployments = sink.pending.iter_mut().chain(&mut sink.active);
            let Some(deployment) = deployments.find(|deployment| deployment.epoch == epoch) else {
                continue;
            };
            // A renewal is answered like the rest; nobody waits for that.
            if !deployment.waiting_for.remove(&from) || !deployment.waiting_for.is_empty() {
                return;
            }
            deployment.send_next = now + RENEW;
            if let Some(pending) = sink.pending.take_if(|pending| pending.epoch == epoch)
                && let Some(mut before) = sink.active.replace(pending)
            {
                if before.is_doubted || before.suspect_until > now {
                    before.is_broken = true;
                    sink.broken.push(before.epoch);
                }
                self.retiring.push((now + LEASE, before));
            }
            let from = core::mem::take(&mut sink.broken);
            let sink = *node;
            self.outputs.push_back(Output::Switched { sink, epoch });
            if !from.is_empty() {
                let to = epoch;
                self.outputs.push_back(Output::Resend { sink, from, to });
            }
            return;
        }
    }

    /// Takes in that a node will not install its part; the word of a node outside the plan does not count.
    pub fn handle_refuse(&mut self, from: NodeId, epoch: Epoch, reason: &str, now: Instant) {
        let affected = self.sinks.iter().find(|(_, sink)| {
            let deployments = sink.pending.iter().chain(&sink.active);
            deployments
                .into_iter()
                .any(|deployment| deployment.epoch == epoch && deployment.runs_on(from))
        });
        if let Some((&sink, _)) = affected {
            self.fail(
                sink,
                epoch,
                alloc::format!("{} refused: {reason}", from.short()),
                now,
            );
        }
    }

    /// Gives up a sink's deployment, pending or active, and asks for another plan later.
    fn fail(&mut self, node: NodeId, epoch: Epoch, reason: String, now: Instant) {
        let Some(sink) = self.sinks.get_mut(&node) else {
            return;
        };
        let is_it = |deployment: &mut Deployment| deployment.epoch == epoch;
        if let Some(deployment) = sink.pending.take_if(is_it) {
            self.retiring.push((now, deployment));
        }
        if let Some(mut deployment) = sink.active.take_if(is_it) {
            deployment.is_broken = true;
            sink.broken.push(epoch);
            self.retiring.push((now, deployment));
        }
        sink.retry = Some(now + RETRY);
        self.outputs.push_back(Output::Failed {
            sink: node,
            epoch,
            reason,
        });
    }

    /// Does what is due: resends, renews, gives up, retries, releases, ends leases.
    pub fn handle_timeout(&mut self, now: Instant) {
        let overdue: Vec<NodeId> = self
            .sinks
            .iter()
            .filter(|(_, s)| s.lease < now)
            .map(|(node, _)| *node)
            .collect();
        for node in overdue {
            self.handle_unsubscribe(node, now);
        }
        let mut failed = Vec::new();
        for (node, sink) in &mut self.sinks {
            if sink.retry.take_if(|retry| *retry <= now).is_some() {
                self.outputs.push_back(Output::PlanWanted { sink: *node });
            }
            match &mut sink.pending {
                Some(pending) if pending.give_up <= now => {
                    failed.push((*node, pending.epoch, silence(pending)));
                }
                Some(pending) => pending.send_due(now, &mut self.outputs),
                None => {}
            }
            if let Some(active) = &mut sink.active {
                active.send_due(now, &mut self.outputs);
            }
        }
        for (node, epoch, reason) in failed {
            self.fail(node, epoch, reason, now);
        }
        let (due, rest) = self.retiring.drain(..).partition(|(when, _)| *when <= now);
        self.retiring = rest;
        let due: Vec<(Instant, Deployment)> = due;
        for (_, deployment) in due {
            deployment.release(&mut self.outputs);
        }
    }

    /// Returns what the driver is to do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when [`Session::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Instant {
        let of_sink = |sink: &Sink| {
            let deployments = sink.pending.iter().chain(&sink.active);
            let sends = deployments
                .map(|d| d.send_next)
                .min()
                .unwrap_or(Instant::NEVER);
            let give_up = sink.pending.as_ref().map_or(Instant::NEVER, |d| d.give_up);
            sends
                .min(give_up)
                .min(sink.lease + LAPSE)
                .min(sink.retry.unwrap_or(Instant::NEVER))
        };
        let retiring = self.retiring.iter().map(|(when, _)| *when);
        self.sinks
            .values()
            .map(of_sink)
            .chain(retiring)
            .min()
            .unwrap_or(Instant::NEVER)
    }

    /// Returns the plan that each served sink's ADUs travel under.
    pub fn active(&self) -> impl Iterator<Item = (NodeId, Epoch)> {
        self.sinks
            .iter()
            .filter_map(|(node, sink)| Some((*node, sink.active.as_ref()?.epoch)))
    }

    /// Returns the subscribed nodes, served or not.
    pub fn sinks(&self) -> impl Iterator<Item = NodeId> {
        self.sinks.keys().copied()
    }
}

/// Remembers that the way of a former plan broke; says whether that is news.
fn note_broken(sinks: &mut BTreeMap<NodeId, Sink>, former: &mut Deployment) -> bool {
    let sink = former
        .parts
        .last()
        .and_then(|part| sinks.get_mut(&part.node));
    let is_news = !core::mem::replace(&mut former.is_broken, true);
    if let Some(sink) = sink.filter(|_| is_news) {
        sink.broken.push(former.epoch);
    }
    is_news
}

/// Says who has not answered.
fn silence(pending: &Deployment) -> String {
    let silent: Vec<String> = pending.waiting_for.iter().map(NodeId::short).collect();
    alloc::format!("no answer from {} within {DEPLOY_MAX}", silent.join(", "))
}

impl Deployment {
    fn runs_on(&self, node: NodeId) -> bool {
        self.parts.iter().any(|part| part.node == node)
    }

    /// Has every node told its part, and wait for all their answers.
    fn begin(&mut self, now: Instant) {
        self.waiting_for = self.parts.iter().map(|part| part.node).collect();
        self.send_next = now;
        self.give_up = now + DEPLOY_MAX;
    }

    /// Returns whether its way leads from one node straight to another.
    fn leads(&self, from: NodeId, to: NodeId) -> bool {
        let is_it = |pair: &[Part]| (pair[0].node, pair[1].node) == (from, to);
        self.parts.windows(2).any(is_it)
    }

    fn is_joined(&self, is_joined: impl Fn(NodeId, NodeId) -> bool) -> bool {
        self.parts
            .windows(2)
            .all(|pair| is_joined(pair[0].node, pair[1].node))
    }

    /// Sends the parts that are due: at first to those that have not answered, then to all, as renewal.
    fn send_due(&mut self, now: Instant, outputs: &mut VecDeque<Output>) {
        if self.send_next > now {
            return;
        }
        // One that is still to take over is given up then; one in force stays so, with a node that is slow to answer.
        if self.give_up <= now {
            self.waiting_for.clear();
        }
        let renewal = self.waiting_for.is_empty();
        self.send_next = now + if renewal { RENEW } else { RESEND };
        for (position, part) in self.parts.iter().enumerate() {
            if renewal || self.waiting_for.contains(&part.node) {
                outputs.push_back(Output::Prepare {
                    epoch: self.epoch,
                    route: self.route_to(position),
                    next: self.parts.get(position + 1).map(|next| next.node),
                    part: part.clone(),
                });
            }
        }
    }

    fn release(&self, outputs: &mut VecDeque<Output>) {
        outputs.extend((0..self.parts.len()).map(|position| Output::Release {
            epoch: self.epoch,
            route: self.route_to(position),
        }));
    }

    fn route_to(&self, position: usize) -> Vec<NodeId> {
        self.parts[..=position]
            .iter()
            .map(|part| part.node)
            .collect()
    }
}
