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
//! The sinks of a stream that is held ([`Hold`]) may be out of reach for as long as that says, and have no plan meanwhile.
//!
//! *What it does not do.* It neither plans nor sends nor holds keys; it says what is wanted ([`Output`]).
//!
//! *Sources.* spec PA-20…PA-29 (planning protocol, switch-over) and 1(d) "Planning protocol as message sequence".

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use crate::id::{Epoch, NodeId};
use crate::time::{Duration, Instant};

mod absence;
mod awaited;
mod deployment;
mod graft;
mod hold;
mod keep;
mod leave;
mod look;
mod output;
mod rekey;
mod retiring;
mod standby;
#[cfg(test)]
mod tests;

pub use awaited::Awaited;
use deployment::{Deployment, Renewals};
pub use graft::{Feed, Given, Graft};
pub use hold::{Dropped, Due, Hold, Sinkward};
pub use keep::{KEEP_AGE_MAX, Keep};
use look::Look;
pub use look::{LOOK_PACE, SINKS_FEW};
pub use output::{Output, Part};
pub use rekey::REKEY_MIN;
use rekey::Rekey;
use retiring::Retiring;

/// How long what is installed on a node stays without being renewed.
pub const LEASE: Duration = Duration::from_secs(30);

/// How often leases and subscriptions are renewed: two renewals may be lost.
pub const RENEW: Duration = Duration::from_secs(10);

/// Leases are renewed at multiples of this, so that one message to a node renews all plans that pass it: a hub has one for each of its
/// sinks.
pub const RENEW_GRID: Duration = Duration::from_millis(2_500);

/// How often a part that has not been answered is sent again: above the round trip of a slow path with a full queue.
pub const RESEND: Duration = Duration::from_millis(1_000);

/// After this long without all answers a deployment is given up.
pub const DEPLOY_MAX: Duration = Duration::from_secs(10);

/// How long after a failed deployment another plan is asked for.
pub const RETRY: Duration = Duration::from_secs(2);

/// A lease still holds at its end and has lapsed right after, so that is when to come back for it.
const LAPSE: Duration = Duration::from_nanos(1);

/// The sinks of one stream, at its source.
#[derive(Debug, Default)]
pub struct Session {
    epoch_last: u32,
    sinks: BTreeMap<NodeId, Sink>,
    retiring: Vec<Retiring>,
    /// Nodes that were said not to answer, and until when that is believed.
    silent: BTreeMap<NodeId, Instant>,
    /// Until when the way of a plan in force is doubted: as long nothing takes over from a plan that is well.
    doubt_until: Instant,
    look: Look,
    /// When there is something to do, if that was found since anything was taken in.
    due: Option<Instant>,
    outputs: VecDeque<Output>,
    /// Whether plans may be grafted on others.
    is_recast: bool,
    /// How long what was given before a plan took over may be on its way by a node that waits to leave; zero if nobody waits for it.
    linger: Duration,
    /// How long what cannot be sent is held; zero if it is not.
    hold: Duration,
    /// How long a sink that cannot be reached stays subscribed beyond its lease.
    absence: Duration,
    rekey: Rekey,
}

#[derive(Debug, Default)]
struct Sink {
    lease: Instant,
    /// Since when its lease has lapsed and it cannot be reached.
    absent_since: Option<Instant>,
    active: Option<Deployment>,
    pending: Option<Deployment>,
    /// When to ask for a plan again; `None` while one is wanted, pending or active.
    retry: Option<Instant>,
    /// Plans that were in force and whose ways broke: what is not acknowledged of them is to be sent again.
    broken: Vec<Epoch>,
    /// A plan has been in force for it: it has what came before, and goes on from there.
    has_begun: bool,
}

impl Sink {
    /// Returns the plan that its ADUs will travel under.
    fn coming(&self) -> Option<&Deployment> {
        self.pending.as_ref().or(self.active.as_ref())
    }

    fn plans_mut(&mut self) -> impl Iterator<Item = &mut Deployment> {
        self.active.iter_mut().chain(&mut self.pending)
    }

    /// Returns whether it has a plan, and the map shows none of its ways broken.
    fn is_well(&self) -> bool {
        let mut plans = self.pending.iter().chain(&self.active);
        self.coming().is_some() && self.broken.is_empty() && !plans.any(Deployment::is_doubted)
    }
}

impl Session {
    /// Returns a session whose plans are grafted on one another; `deadline` is how long an ADU may be on its way.
    pub fn recast(deadline: Duration) -> Self {
        Self {
            is_recast: true,
            linger: deadline.min(RENEW),
            ..Self::default()
        }
    }

    /// Returns a session whose sinks may be out of reach for so long, while what is for them is held.
    pub fn holding(hold: Duration) -> Self {
        Self {
            hold,
            ..Self::default()
        }
    }

    /// Takes in a subscription or its renewal.
    pub fn handle_subscribe(&mut self, node: NodeId, now: Instant) {
        let known = self.sinks.contains_key(&node);
        let sink = self.sinks.entry(node).or_default();
        sink.lease = now + LEASE + self.hold;
        sink.absent_since = None;
        if !known {
            self.due = None;
            self.outputs.push_back(Output::PlanWanted { sink: node });
        }
    }

    /// Takes in the end of a subscription.
    pub fn handle_unsubscribe(&mut self, node: NodeId, now: Instant) {
        self.due = None;
        self.leave(node, ([now + RENEW; 2], false), now);
        self.want_orphans();
    }

    /// Takes in that the stream is over: what was given may be on its way, and is still to be copied.
    pub fn handle_close(&mut self, now: Instant) {
        self.due = None;
        self.rekey.due = None;
        while let Some((node, _)) = self.sinks.first_key_value() {
            self.leave(*node, ([now + RENEW, now + LEASE], true), now);
        }
    }

    fn leave(&mut self, node: NodeId, (lies, is_wanted): ([Instant; 2], bool), now: Instant) {
        let Some(sink) = self.sinks.remove(&node) else {
            return;
        };
        for deployment in sink.active.into_iter().chain(sink.pending) {
            // Of what never carried anything there is nothing to tell.
            let lies = if deployment.has_carried {
                lies
            } else {
                [now; 2]
            };
            self.retire(deployment, lies, is_wanted);
        }
        self.outputs.push_back(Output::Gone { sink: node });
    }

    /// Takes in a plan for a sink, source first and sink last, and begins to deploy it; returns its epoch.
    ///
    /// A plan equal to the active one is not deployed again, unless its way was broken meanwhile, or it can be grafted on
    /// another nearer to its sink, or has lost its base, or the stream has another key since.
    pub fn handle_plan(&mut self, node: NodeId, parts: Vec<Part>, now: Instant) -> Option<Epoch> {
        self.due = None;
        let is_standby = self.is_put_off(node, now);
        let graft = self.graft_for(node, &parts, is_standby, now);
        let start = graft.map_or(0, |graft| graft.at);
        let live = self.live();
        let turn = self.turn(is_standby, graft);
        let first = self.rekey.first;
        let sink = self.sinks.get_mut(&node)?;
        sink.retry = None;
        let is_renewed = !sink.broken.is_empty();
        let is_fed = |plan: &Deployment| plan.graft.is_none_or(|graft| live.contains(&graft.base));
        let is_same = |plan: &Deployment| {
            let is_sealed_so = plan.epoch >= first;
            plan.parts == parts && is_sealed_so && is_fed(plan) && plan.start() >= start
        };
        let is_kept = |active: &Deployment| is_same(active) && !active.is_doubted();
        if sink.active.as_ref().is_some_and(is_kept) && !is_renewed {
            if let Some(pending) = sink.pending.take() {
                self.abandon(pending, now);
                self.want_orphans();
            }
            return None;
        }
        if let Some(pending) = sink.pending.as_mut().filter(|plan| is_same(plan)) {
            let is_taken_up = pending.stands_by() && !is_standby;
            if is_taken_up {
                pending.take_up(now);
            }
            let is_doubted = pending.is_doubted();
            if is_doubted {
                pending.begin(now);
            }
            if is_taken_up || is_doubted {
                self.switch(now);
                self.send_due(now);
            }
            return None;
        }
        self.epoch_last += 1;
        let epoch = Epoch(self.epoch_last);
        let mut deployment = Deployment::new(epoch, parts, graft, now);
        deployment.begins = !sink.has_begun;
        deployment.turn = turn;
        if let Some(before) = sink.pending.replace(deployment) {
            self.abandon(before, now);
        }
        self.want_orphans();
        self.send_due(now);
        Some(epoch)
    }

    /// Takes in that no plan can be found now; another is asked for after [`RETRY`].
    ///
    /// What is held is not given to a way that the map shows broken, and nothing to one that is of a former key.
    pub fn handle_no_plan(&mut self, node: NodeId, now: Instant) {
        self.due = None;
        let first = self.rekey.first;
        let Some(sink) = self.sinks.get_mut(&node) else {
            return;
        };
        sink.retry = Some(now + RETRY);
        let is_held = self.hold > Duration::ZERO;
        let is_lost = |plan: &mut Deployment| (is_held && plan.is_doubted()) || plan.epoch < first;
        if let Some(mut lost) = sink.active.take_if(is_lost) {
            lost.is_broken = true;
            sink.broken.push(lost.epoch);
            self.abandon(lost, now);
        }
    }

    /// Takes in that a node does not hear from the one after it, which is believed until then: whose plans lead that way
    /// are looked at anew.
    pub fn handle_suspect(&mut self, from: NodeId, to: NodeId, until: Instant) {
        self.due = None;
        self.silent.insert(to, until);
        let mut affected = BTreeSet::new();
        for (node, sink) in &mut self.sinks {
            for deployment in sink.plans_mut() {
                if deployment.leads(from, to) {
                    deployment.suspect_until = until;
                    affected.insert(*node);
                }
            }
        }
        for Retiring { deployment, .. } in &mut self.retiring {
            if deployment.leads(from, to) && note_broken(&mut self.sinks, deployment) {
                affected.extend(deployment.parts.last().map(|part| part.node));
            }
        }
        self.want_around(to, &affected);
    }

    /// Takes in that a node has installed its part.
    pub fn handle_ready(&mut self, from: NodeId, epoch: Epoch, now: Instant) {
        self.due = None;
        if let Some(deployment) = self.find(epoch) {
            let is_ready = deployment.handle_ready(from, now);
            let is_due = deployment.send_next <= now;
            if is_ready {
                self.switch(now);
            } else if is_due {
                self.send_due(now);
            }
        }
    }

    /// Takes in that a node has no part of plans that were to be renewed there: it is told them again.
    pub fn handle_lacking(&mut self, from: NodeId, epochs: &[Epoch], now: Instant) {
        self.due = None;
        let plans = self.sinks.values_mut().flat_map(Sink::plans_mut);
        let former = self.retiring.iter_mut();
        let former = former.map(|retiring| &mut retiring.deployment);
        for plan in plans.chain(former) {
            if epochs.contains(&plan.epoch) {
                plan.restore(from, now, &mut self.outputs);
            }
        }
    }

    /// Takes in that a node casts a plan that is grafted there.
    pub fn handle_casting(&mut self, from: NodeId, epoch: Epoch, now: Instant) {
        self.due = None;
        if let Some(deployment) = self.find(epoch)
            && deployment.handle_casting(from, now)
        {
            self.switch(now);
        }
    }

    fn find(&mut self, epoch: Epoch) -> Option<&mut Deployment> {
        let mut plans = self.sinks.values_mut().flat_map(Sink::plans_mut);
        plans.find(|plan| plan.epoch == epoch)
    }

    /// Brings into force what is ready, and whose base is in force.
    fn switch(&mut self, now: Instant) {
        let in_force: BTreeSet<Epoch> = self.active().map(|(_, epoch)| epoch).collect();
        let is_due = |plan: &Deployment| {
            let is_fed = plan
                .graft
                .is_none_or(|graft| in_force.contains(&graft.base));
            plan.is_ready() && is_fed && !plan.stands_by()
        };
        let mut sinks = self.sinks.iter_mut();
        let due = sinks.find_map(|(node, sink)| {
            let pending = sink.pending.take_if(|plan| is_due(plan))?;
            Some((*node, pending, sink))
        });
        let Some((node, mut pending, sink)) = due else {
            return;
        };
        let epoch = pending.epoch;
        let begins = core::mem::take(&mut pending.begins);
        pending.has_carried = true;
        let is_replayed = begins && pending.graft.is_none();
        sink.has_begun = true;
        let before = sink.active.replace(pending);
        if let Some(mut before) = before {
            // What must be whole does not trust that all that is under way by a node that leaves arrives before it goes.
            let is_at_risk = before.is_left && !self.is_recast;
            if before.is_doubted() || before.suspect_until > now || is_at_risk {
                before.is_broken = true;
                sink.broken.push(before.epoch);
            }
            let from = core::mem::take(&mut sink.broken);
            self.replaced(before, now);
            self.switched(node, epoch, from);
        } else {
            let from = core::mem::take(&mut sink.broken);
            self.switched(node, epoch, from);
        }
        if is_replayed {
            let replay = Output::Replay {
                sink: node,
                to: epoch,
            };
            self.outputs.push_back(replay);
        }
        self.take_along(epoch, now);
        // What is grafted on it may be waiting for it.
        self.switch(now);
        self.want_orphans();
    }

    fn switched(&mut self, sink: NodeId, epoch: Epoch, from: Vec<Epoch>) {
        self.outputs.push_back(Output::Switched { sink, epoch });
        if !from.is_empty() {
            let (to, under) = (epoch, self.root(epoch));
            self.outputs.push_back(Output::Resend {
                sink,
                from,
                to,
                under,
            });
        }
    }

    /// Takes in that a node will not install its part; the word of a node outside the plan does not count.
    pub fn handle_refuse(&mut self, from: NodeId, epoch: Epoch, reason: &str, now: Instant) {
        self.due = None;
        let affected = self.sinks.iter().find(|(_, sink)| {
            let deployments = sink.pending.iter().chain(&sink.active);
            deployments
                .into_iter()
                .any(|deployment| deployment.epoch == epoch && deployment.runs_on(from))
        });
        if let Some((&sink, _)) = affected {
            let reason = alloc::format!("{} refused: {reason}", from.short());
            self.fail((sink, epoch), reason, Vec::new(), now);
        }
    }

    /// Takes in that a sink was restarted, with nothing of what had come: it begins anew.
    pub fn handle_restarted(&mut self, node: NodeId) {
        if let Some(sink) = self.sinks.get_mut(&node) {
            sink.has_begun = false;
            if let Some(pending) = &mut sink.pending {
                pending.begins = true;
            }
        }
    }

    /// Gives up a sink's deployment, pending or active, and asks for another plan later.
    ///
    /// A plan of a former key does not go on because the one of the present key failed.
    fn fail(
        &mut self,
        (node, epoch): (NodeId, Epoch),
        reason: String,
        unanswered: Vec<NodeId>,
        now: Instant,
    ) {
        let first = self.rekey.first;
        let Some(sink) = self.sinks.get_mut(&node) else {
            return;
        };
        let is_it = |deployment: &mut Deployment| deployment.epoch == epoch;
        let pending = sink.pending.take_if(is_it);
        let is_over =
            |plan: &mut Deployment| is_it(plan) || pending.is_some() && plan.epoch < first;
        let mut active = sink.active.take_if(is_over);
        if let Some(deployment) = &mut active {
            deployment.is_broken = true;
            sink.broken.push(deployment.epoch);
        }
        sink.retry = Some(now + RETRY);
        for deployment in pending.into_iter().chain(active) {
            self.abandon(deployment, now);
        }
        self.doubt_grafts(epoch);
        self.outputs.push_back(Output::Failed {
            sink: node,
            epoch,
            reason,
            unanswered,
        });
        self.want_orphans();
    }

    /// Does what is due: resends, renews, gives up, retries, releases, ends leases. `is_under_way` says of a plan that gave way whether
    /// ADUs are under way by it, or ended without a word: it lies longer.
    ///
    /// Cost    O(sinks), and O(1) before [`Session::poll_timeout`] while nothing was taken in
    pub fn handle_timeout(&mut self, is_under_way: impl Fn(Epoch) -> bool, now: Instant) {
        let due = self.poll_timeout();
        if now < due {
            self.due = Some(due);
            return;
        }
        self.silent.retain(|_, until| *until > now);
        self.time_rekey(now);
        self.time_doubt(now);
        if self.look.handle_timeout(now) {
            self.want_plans(|_, _| true);
        }
        self.time_leases(now);
        let mut renewals = Renewals::new();
        self.time_plans(now, &mut renewals);
        self.keep_under_way(is_under_way, now);
        self.time_retiring(now, &mut renewals);
        self.renew(renewals);
        self.due = Some(self.find_due());
    }

    /// Tells the nodes of plans what is due now.
    fn send_due(&mut self, now: Instant) {
        let mut renewals = Renewals::new();
        self.time_plans(now, &mut renewals);
        self.renew(renewals);
    }

    fn renew(&mut self, renewals: Renewals) {
        let renewals = renewals.into_iter();
        self.outputs
            .extend(renewals.map(|(route, epochs)| Output::Renew { epochs, route }));
    }

    /// Tells the nodes of plans in force, or to come into it, what is due, and gives up those that wait for too long.
    fn time_plans(&mut self, now: Instant, renewals: &mut Renewals) {
        let mut failed = Vec::new();
        for (node, sink) in &mut self.sinks {
            if sink.retry.take_if(|retry| *retry <= now).is_some() {
                self.outputs.push_back(Output::PlanWanted { sink: *node });
            }
            match &mut sink.pending {
                Some(pending) if pending.give_up <= now && !pending.is_standing() => {
                    let unanswered = pending.waiting_for.iter().copied().collect();
                    failed.push((*node, pending.epoch, pending.silence(), unanswered));
                }
                Some(pending) => pending.send_due(now, &mut self.outputs, renewals),
                None => {}
            }
            if let Some(active) = &mut sink.active {
                active.send_due(now, &mut self.outputs, renewals);
            }
        }
        for (node, epoch, reason, unanswered) in failed {
            self.fail((node, epoch), reason, unanswered, now);
        }
    }

    /// Returns what the driver is to do next.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when [`Session::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Instant {
        debug_assert!(
            self.due.is_none_or(|due| due <= self.find_due()),
            "what makes something due earlier says so"
        );
        self.due.unwrap_or_else(|| self.find_due())
    }

    fn find_due(&self) -> Instant {
        let of_sink = |sink: &Sink| {
            let deployments = sink.pending.iter().chain(&sink.active);
            let sends = deployments
                .map(|d| d.send_next)
                .min()
                .unwrap_or(Instant::NEVER);
            let pending = sink.pending.as_ref().filter(|d| !d.is_standing());
            let give_up = pending.map_or(Instant::NEVER, |d| d.give_up);
            sends
                .min(give_up)
                .min(sink.lease + LAPSE)
                .min(sink.retry.unwrap_or(Instant::NEVER))
        };
        let bases = self.bases();
        let retiring = self.retiring.iter();
        let retiring =
            retiring.map(|retiring| retiring.due(bases.contains(&retiring.deployment.epoch)));
        self.sinks
            .values()
            .map(of_sink)
            .chain(retiring)
            .chain(self.rekey.due)
            .chain([self.look.poll_timeout()])
            .chain(self.doubt_due())
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
