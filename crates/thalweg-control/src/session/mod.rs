//! The source's side of a stream: its sinks, the plan of each, and when a new plan takes over.
//!
//! *The idea.* The source owns its stream, so no agreement protocol is needed. A [`Session`] holds
//! one `Sink` per subscribed node and drives its deployments:
//!
//! ```text
//!  subscribed ─► PlanWanted ─► handle_plan ─► Prepare ─► all Ready ─► Switched: ADUs carry the epoch;
//!                    ▲                         │ Refuse or silence    the old one drains, then
//!                    └────── after RETRY ◄─────┘                      it is released
//! ```
//!
//! Every deployed plan has a number of its own, the epoch, which its ADUs carry. So old and new
//! plan coexist during a switch, and no ADU meets half of each. Everything installed has a lease
//! that is renewed: what a dead source leaves behind expires.
//!
//! ADUs sent under a plan with a broken path (by the map, or by a report of a silent node) and not
//! acknowledged are resent as soon as a plan with an intact path is in force; the data path keeps
//! them. The sinks of a held stream may be unreachable for the hold time, and have no plan meanwhile.
//!
//! *What it does not do.* It neither plans nor sends nor holds keys; it emits requests ([`Output`]).
//!
//! *Sources.* spec PA-20…PA-29 (planning protocol, switch-over) and 1(d) "Planning protocol as
//! message sequence".

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::limits::KEEP_AGE_MAX;
use thalweg_base::time::{Duration, Instant};

mod absence;
mod deployment;
mod graft;
mod leave;
mod look;
mod output;
mod rekey;
mod retiring;
mod standby;
#[cfg(test)]
mod tests;

pub use deployment::Graft;
use deployment::{Deployment, Renewals};
use look::ReplanPace;
pub use look::{LOOK_PACE, SINKS_FEW};
pub use output::{Output, Part};
pub use rekey::REKEY_MIN;
use rekey::Rekey;
use retiring::Retiring;
pub use thalweg_base::feed::{Feed, Given, Sinkward};

/// Lifetime of what is installed on a node without a renewal.
pub const LEASE: Duration = Duration::from_secs(30);

const _: () = assert!(
    LEASE.as_nanos() == KEEP_AGE_MAX.as_nanos(),
    "what is kept for a sink lives as long as its subscription"
);

/// Interval of renewals of leases and subscriptions: two of them may be lost.
pub const RENEW: Duration = Duration::from_secs(10);

/// Renewals are aligned to multiples of this, so that one message to a node renews all plans that
/// pass it: a hub has one for each of its sinks.
pub const RENEW_GRID: Duration = Duration::from_millis(2_500);

/// Interval at which an unanswered part is resent: above the round trip of a slow path with a full queue.
pub const RESEND: Duration = Duration::from_millis(1_000);

/// Time after which a deployment with missing answers fails.
pub const DEPLOY_MAX: Duration = Duration::from_secs(10);

/// Time from a failed deployment to the next request for a plan.
pub const RETRY: Duration = Duration::from_secs(2);

/// A lease is still valid at its last instant and has lapsed one nanosecond later.
const PAST_LEASE: Duration = Duration::from_nanos(1);

/// The sinks of one stream, at its source.
#[derive(Debug, Default)]
pub struct Session {
    epoch_last: u32,
    sinks: BTreeMap<NodeId, Sink>,
    retiring: Vec<Retiring>,
    /// Nodes reported silent, and until when that counts.
    silent: BTreeMap<NodeId, Instant>,
    /// Until when the path of some plan in force is doubted: so long, no plan replaces a healthy one.
    doubt_until: Instant,
    replan: ReplanPace,
    /// The next timeout, cached since the last input.
    due: Option<Instant>,
    outputs: VecDeque<Output>,
    /// Whether plans may be grafted on others.
    is_recast: bool,
    /// How long a replaced plan stays on a node that wants to leave, so that ADUs in flight drain;
    /// zero if none waits.
    drain_time: Duration,
    /// How long ADUs that cannot be sent are held; zero if they are not.
    hold: Duration,
    /// How long an unreachable sink stays subscribed beyond its lease.
    absence: Duration,
    rekey: Rekey,
}

#[derive(Debug, Default)]
struct Sink {
    lease: Instant,
    /// Since when its lease has lapsed while it is unreachable.
    absent_since: Option<Instant>,
    active: Option<Deployment>,
    pending: Option<Deployment>,
    /// When to request a plan again; `None` while one is requested, pending or active.
    retry: Option<Instant>,
    /// Former plans with broken paths: what is not acknowledged of them is to be resent.
    broken: Vec<Epoch>,
    /// A plan has been in force for it, so it has the start of the stream and goes on from there.
    has_begun: bool,
}

impl Sink {
    /// Returns the plan that its ADUs will be sent under.
    fn next_plan(&self) -> Option<&Deployment> {
        self.pending.as_ref().or(self.active.as_ref())
    }

    fn plans_mut(&mut self) -> impl Iterator<Item = &mut Deployment> {
        self.active.iter_mut().chain(&mut self.pending)
    }

    /// Returns whether it has a plan, and none with a broken path.
    fn is_healthy(&self) -> bool {
        let mut plans = self.pending.iter().chain(&self.active);
        self.next_plan().is_some() && self.broken.is_empty() && !plans.any(Deployment::is_doubted)
    }
}

impl Session {
    /// Returns a session that grafts plans on one another; `deadline` bounds how long an ADU is in flight.
    pub fn recast(deadline: Duration) -> Self {
        Self {
            is_recast: true,
            drain_time: deadline.min(RENEW),
            ..Self::default()
        }
    }

    /// Returns a session with sinks that may be unreachable for this long, while their ADUs are held.
    pub fn holding(hold: Duration) -> Self {
        Self {
            hold,
            ..Self::default()
        }
    }

    /// Handles a subscription or its renewal.
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

    /// Handles the end of a subscription.
    pub fn handle_unsubscribe(&mut self, node: NodeId, now: Instant) {
        self.due = None;
        self.leave(node, ([now + RENEW; 2], false), now);
        self.request_orphans();
    }

    /// Handles the end of the stream: ADUs in flight are still copied.
    pub fn handle_close(&mut self, now: Instant) {
        self.due = None;
        self.rekey.due = None;
        while let Some((node, _)) = self.sinks.first_key_value() {
            self.leave(*node, ([now + RENEW, now + LEASE], true), now);
        }
    }

    fn leave(&mut self, node: NodeId, (stay, is_wanted): ([Instant; 2], bool), now: Instant) {
        let Some(sink) = self.sinks.remove(&node) else {
            return;
        };
        for deployment in sink.active.into_iter().chain(sink.pending) {
            // A plan that carried nothing has nothing to report.
            let stay = if deployment.has_carried {
                stay
            } else {
                [now; 2]
            };
            self.retire(deployment, stay, is_wanted);
        }
        self.outputs.push_back(Output::Gone { sink: node });
    }

    /// Handles a plan for a sink, source first and sink last, and starts to deploy it; returns its epoch.
    ///
    /// A plan equal to the active one is not deployed again, except if its path broke meanwhile, it
    /// can be grafted nearer to its sink, it has lost its base, or the stream has another key.
    pub fn handle_plan(&mut self, node: NodeId, parts: Vec<Part>, now: Instant) -> Option<Epoch> {
        self.due = None;
        let is_standby = self.must_stand_by(node, now);
        let graft = self.graft_for(node, &parts, is_standby, now);
        let start = graft.map_or(0, |graft| graft.at);
        let live = self.live();
        let takeover = self.takeover(is_standby, graft);
        let first = self.rekey.first;
        let sink = self.sinks.get_mut(&node)?;
        sink.retry = None;
        // A restarted node has lost its part and its ADUs, and shows only as a brief gap in the map. So a
        // plan with a broken path is deployed again under a new epoch, even if it is equal.
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
                self.request_orphans();
            }
            return None;
        }
        if let Some(pending) = sink.pending.as_mut().filter(|plan| is_same(plan)) {
            let is_taken_up = pending.stands_by() && !is_standby;
            if is_taken_up {
                pending.activate(now);
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
        deployment.takeover = takeover;
        if let Some(before) = sink.pending.replace(deployment) {
            self.abandon(before, now);
        }
        self.request_orphans();
        self.send_due(now);
        Some(epoch)
    }

    /// Handles a failed planning; another is requested after [`RETRY`].
    ///
    /// A held stream sends nothing on a path that the map shows broken, and no stream sends with a
    /// former key.
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

    /// Handles a report, valid until then, that `to` does not answer `from`: the sinks with this
    /// hop are replanned.
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
            if deployment.leads(from, to) && mark_broken(&mut self.sinks, deployment) {
                affected.extend(deployment.parts.last().map(|part| part.node));
            }
        }
        self.request_around(to, &affected);
    }

    /// Handles a node that has installed its part.
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

    /// Handles a node that lacks parts that were to be renewed: they are sent again.
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

    /// Handles a node that has started to copy a plan that is grafted there.
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

    /// Brings into force each pending plan that is ready and has its base in force.
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
            // ADUs in flight through a leaver may be late for it; a stream without grafts resends
            // to be safe.
            let is_at_risk = before.has_leaver && !self.is_recast;
            if before.is_doubted() || before.suspect_until > now || is_at_risk {
                before.is_broken = true;
                sink.broken.push(before.epoch);
            }
            let from = core::mem::take(&mut sink.broken);
            self.retire_replaced(before, now);
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
        self.activate_followers(epoch, now);
        // Grafts on it may be waiting for it.
        self.switch(now);
        self.request_orphans();
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

    /// Handles a node that refuses its part; a refusal from outside the plan is ignored.
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

    /// Handles a sink that restarted and lost everything: it starts again.
    pub fn handle_restarted(&mut self, node: NodeId) {
        if let Some(sink) = self.sinks.get_mut(&node) {
            sink.has_begun = false;
            if let Some(pending) = &mut sink.pending {
                pending.begins = true;
            }
        }
    }

    /// Abandons a sink's deployment, pending or active, and requests another plan later.
    ///
    /// If the plan with the present key fails, one with a former key does not go on.
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
        self.doubt_grafts_on(epoch);
        self.outputs.push_back(Output::Failed {
            sink: node,
            epoch,
            reason,
            unanswered,
        });
        self.request_orphans();
    }

    /// Handles what is due: resends, renewals, failures, retries, releases, leases. `is_in_flight` tells
    /// whether ADUs of a replaced plan are in flight or unaccounted for: then it stays longer.
    ///
    /// Cost    O(sinks), and O(1) before [`Session::poll_timeout`] without new input
    pub fn handle_timeout(&mut self, is_in_flight: impl Fn(Epoch) -> bool, now: Instant) {
        let due = self.poll_timeout();
        if now < due {
            self.due = Some(due);
            return;
        }
        self.silent.retain(|_, until| *until > now);
        self.handle_rekey_timeout(now);
        self.handle_doubt_timeout(now);
        if self.replan.handle_timeout(now) {
            self.request_plans(|_, _| true);
        }
        self.handle_lease_timeout(now);
        let mut renewals = Renewals::new();
        self.handle_plan_timeout(now, &mut renewals);
        self.extend_in_flight(is_in_flight, now);
        self.handle_retiring_timeout(now, &mut renewals);
        self.renew(renewals);
        self.due = Some(self.find_due());
    }

    /// Sends the due messages of all plans.
    fn send_due(&mut self, now: Instant) {
        let mut renewals = Renewals::new();
        self.handle_plan_timeout(now, &mut renewals);
        self.renew(renewals);
    }

    fn renew(&mut self, renewals: Renewals) {
        let renewals = renewals.into_iter();
        self.outputs
            .extend(renewals.map(|(route, epochs)| Output::Renew { epochs, route }));
    }

    /// Sends the due messages of plans in force and pending, and fails those that have waited too long.
    fn handle_plan_timeout(&mut self, now: Instant, renewals: &mut Renewals) {
        let mut failed = Vec::new();
        for (node, sink) in &mut self.sinks {
            if sink.retry.take_if(|retry| *retry <= now).is_some() {
                self.outputs.push_back(Output::PlanWanted { sink: *node });
            }
            match &mut sink.pending {
                Some(pending) if pending.give_up <= now && !pending.is_idle_standby() => {
                    let unanswered = pending.waiting_for.iter().copied().collect();
                    failed.push((*node, pending.epoch, pending.failure_reason(), unanswered));
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

    /// Returns the next action for the driver.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when [`Session::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Instant {
        debug_assert!(
            self.due.is_none_or(|due| due <= self.find_due()),
            "every input that makes something due resets the cache"
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
            let pending = sink.pending.as_ref().filter(|d| !d.is_idle_standby());
            let give_up = pending.map_or(Instant::NEVER, |d| d.give_up);
            sends
                .min(give_up)
                .min(sink.lease + PAST_LEASE)
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
            .chain([self.replan.poll_timeout()])
            .chain(self.doubt_due())
            .min()
            .unwrap_or(Instant::NEVER)
    }

    /// Returns the plan in force of each served sink.
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

/// Marks the path of a former plan as broken; returns whether that is news.
fn mark_broken(sinks: &mut BTreeMap<NodeId, Sink>, former: &mut Deployment) -> bool {
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
