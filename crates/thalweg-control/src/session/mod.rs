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
//! Each part of it has an owner: the `sinks` with their plans in force and pending, the former plans
//! (`retiring`), the `standby` doubts, the next key (`rekey`), the pace of replanning (`look`). The
//! session joins them: what one reports concerns another, or becomes an [`Output`].
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

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, Sequence};
use thalweg_base::limits::KEEP_AGE_MAX;
use thalweg_base::time::{Duration, Instant};

use crate::routing::LinkChanges;

mod deployment;
mod graft;
mod look;
mod output;
mod path;
mod rekey;
mod retiring;
mod sinks;
mod standby;
#[cfg(test)]
mod tests;

pub use deployment::Graft;
use deployment::{Deployment, Found, Takeover};
use graft::Bases;
use look::ReplanPace;
pub use look::{LOOK_PACE, SINKS_FEW};
pub use output::{Output, Part};
use output::{Outputs, Renewals};
pub use rekey::REKEY_MIN;
use rekey::Rekey;
use retiring::{Fate, FormerPlans};
use sinks::{Failure, Sink, Sinks, Verdict};
use standby::Doubts;
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

/// The sinks of one stream, at its source.
#[derive(Debug, Default)]
pub struct Session {
    epoch_last: u32,
    sinks: Sinks,
    former: FormerPlans,
    doubts: Doubts,
    replan: ReplanPace,
    rekey: Rekey,
    outputs: Outputs,
    /// Whether plans may be grafted on others.
    is_recast: bool,
    /// The next timeout, cached since the last input.
    due: Option<Instant>,
}

impl Session {
    /// Returns a session that grafts plans on one another; `deadline` bounds how long an ADU is in flight.
    pub fn recast(deadline: Duration) -> Self {
        Self {
            is_recast: true,
            former: FormerPlans::draining(deadline.min(RENEW)),
            ..Self::default()
        }
    }

    /// Returns a session with sinks that may be unreachable for this long, while their ADUs are held.
    pub fn holding(hold: Duration) -> Self {
        Self {
            sinks: Sinks::holding(hold),
            ..Self::default()
        }
    }

    /// Returns the session with sinks that stay subscribed this long beyond their lease while they
    /// are unreachable.
    #[must_use]
    pub fn with_absence(mut self, absence: Duration) -> Self {
        self.sinks.set_absence(absence);
        self
    }

    /// Handles a subscription or its renewal.
    pub fn handle_subscribe(&mut self, node: NodeId, now: Instant) {
        if self.sinks.handle_subscribe(node, now) {
            self.due = None;
            self.outputs.push(Output::PlanWanted { sink: node });
        }
    }

    /// Handles the end of a subscription.
    pub fn handle_unsubscribe(&mut self, node: NodeId, now: Instant) {
        self.due = None;
        if let Some(plans) = self.sinks.remove(node) {
            for plan in plans {
                self.former.abandon(plan, Fate::Arrives, now);
            }
            self.outputs.push(Output::Gone { sink: node });
        }
        self.outputs.request(self.sinks.orphans());
    }

    /// Handles the end of the stream: ADUs in flight are still copied.
    pub fn handle_close(&mut self, now: Instant) {
        self.due = None;
        self.rekey.handle_close();
        let nodes: Vec<NodeId> = self.sinks.nodes().collect();
        for node in nodes {
            for plan in self.sinks.remove(node).into_iter().flatten() {
                self.former.close(plan, now);
            }
            self.outputs.push(Output::Gone { sink: node });
        }
    }

    /// Handles a plan for a sink, source first and sink last, and starts to deploy it; returns its epoch.
    ///
    /// A plan equal to the active one is not deployed again, except if its path broke meanwhile, it
    /// can be grafted nearer to its sink, it has lost its base, or the stream has another key.
    pub fn handle_plan(&mut self, node: NodeId, parts: Vec<Part>, now: Instant) -> Option<Epoch> {
        self.due = None;
        let first = self.rekey.first();
        // While a link is doubted, what would replace a healthy plan stands by.
        let is_standby = self.doubts.is_open(now) && self.sinks.is_sound(node, first, now);
        let graft = self.graft_for(node, &parts, is_standby, now);
        let found = Found {
            parts,
            graft,
            takeover: self.takeover(is_standby, graft),
        };
        match self.sinks.weigh(node, &found, first, now)? {
            Verdict::Stay(pending) => {
                if let Some(pending) = pending {
                    self.former.abandon(pending, Fate::Arrives, now);
                    self.outputs.request(self.sinks.orphans());
                }
                None
            }
            Verdict::GoOn => {
                self.switch(node, now);
                self.send_due(now);
                None
            }
            Verdict::Wait => None,
            Verdict::Deploy => {
                self.epoch_last += 1;
                let epoch = Epoch(self.epoch_last);
                if let Some(before) = self.sinks.deploy(node, epoch, found, now) {
                    self.former.abandon(before, Fate::Arrives, now);
                }
                self.outputs.request(self.sinks.orphans());
                self.send_due(now);
                Some(epoch)
            }
        }
    }

    /// Returns the best graft for a sink's plan, if there is a base.
    ///
    /// Cost    that of [`graft::best`]
    fn graft_for(
        &self,
        node: NodeId,
        parts: &[Part],
        is_standby: bool,
        now: Instant,
    ) -> Option<Graft> {
        if !self.is_recast {
            return None;
        }
        let bases = Bases {
            sinks: &self.sinks,
            node,
            is_standby,
            first: self.rekey.first(),
        };
        graft::best(&bases, parts, |parts| self.doubts.is_silent(parts, now))
    }

    /// Returns when a plan takes over. A standby plan is cast only if its caster gets no ADUs for
    /// it before it is activated.
    fn takeover(&self, is_standby: bool, graft: Option<Graft>) -> Takeover {
        match graft {
            _ if !is_standby => Takeover::WhenReady,
            Some(graft) if !self.sinks.stands_by(graft) => Takeover::Unfed,
            _ => Takeover::Standby,
        }
    }

    /// Handles a failed planning; another is requested after [`RETRY`]. Returns whether a plan in force
    /// ends.
    ///
    /// A held stream sends nothing on a path that the map shows broken, and no stream sends with a
    /// former key.
    pub fn handle_no_plan(&mut self, node: NodeId, now: Instant) -> bool {
        self.due = None;
        let first = self.rekey.first();
        let lost = self.sinks.handle_no_plan(node, first, now);
        let has_ended = lost.is_some();
        if let Some(lost) = lost {
            self.former.abandon(lost, Fate::IsResent, now);
        }
        has_ended
    }

    /// Handles a report, valid until then, that `to` does not answer `from`: the sinks with this
    /// hop are replanned.
    pub fn handle_suspect(&mut self, from: NodeId, to: NodeId, until: Instant) {
        self.due = None;
        self.doubts.handle_suspect(to, until);
        let mut affected = self.sinks.handle_suspect(from, to, until);
        for (sink, epoch) in self.former.handle_suspect(from, to) {
            if self.sinks.handle_broken(sink, epoch) {
                affected.insert(sink);
            }
        }
        self.outputs.request_around(to, &affected);
    }

    /// Handles a doubt, valid until then, that `to` answers `from`: standby plans are requested for
    /// the sinks with this hop in their plan in force.
    pub fn handle_doubt(&mut self, from: NodeId, to: NodeId, until: Instant) {
        self.due = None;
        self.doubts.handle_doubt(until);
        let leads = |plan: &Deployment| plan.path().leads(from, to);
        let is_affected =
            |sink: &Sink| sink.pending().is_none() && sink.active().is_some_and(leads);
        let affected: BTreeSet<NodeId> = self.sinks.such(is_affected).collect();
        if !affected.is_empty() {
            self.doubts.handle_doubtful(to, until);
            self.outputs.request_around(to, &affected);
        }
    }

    /// Handles a node that is about to leave: requests other plans for the sinks behind it.
    ///
    /// This is a planned move: what is in flight by the old plan arrives, so nothing is resent. Only
    /// the old plan stays installed no longer than its ADUs are in flight, because a node waits to
    /// leave.
    pub fn handle_leave(&mut self, node: NodeId, now: Instant) {
        self.due = None;
        let affected = self.sinks.handle_leave(node);
        self.former.handle_leave(node, now);
        self.outputs.request(affected.into_iter());
    }

    /// Handles a change of the map, in which these links may have come or gone. Plans with a broken
    /// hop are doubted. Sinks that are not healthy are replanned at once, the others at the pace of
    /// [`LOOK_PACE`].
    ///
    /// Cost    O(plans over those links, new plans, sinks that are not healthy, former plans)
    pub fn handle_change(
        &mut self,
        changes: &LinkChanges,
        is_joined: impl Fn(NodeId, NodeId) -> bool,
        now: Instant,
    ) {
        self.due = None;
        self.sinks.handle_change(changes, &is_joined);
        for (sink, epoch) in self.former.handle_change(&is_joined) {
            self.sinks.handle_broken(sink, epoch);
        }
        if self.replan.handle_change(self.sinks.len(), now) {
            self.outputs.request(self.sinks.nodes());
        } else {
            self.outputs.request(self.sinks.unhealthy());
        }
    }

    /// Handles the exposure of the key to a node without the right to it: another is requested.
    pub fn handle_exposed(&mut self, now: Instant) {
        self.due = None;
        self.rekey.handle_exposed(now);
    }

    /// Handles a new key: every sink is replanned. Returns the first plan that uses it.
    pub fn handle_key(&mut self, now: Instant) -> Epoch {
        self.due = None;
        let first = Epoch(self.epoch_last + 1);
        self.rekey.handle_key(first, now);
        self.outputs.request(self.sinks.nodes());
        first
    }

    /// Handles a sequence above everything that was sent before the plans in force took over: their
    /// predecessors are fed what is below, as soon as no live plan depends on them.
    ///
    /// Cost    O(retiring plans)
    pub fn handle_next(&mut self, next: Sequence) {
        self.due = None;
        self.former.handle_next(next);
    }

    /// Handles a node that has installed its part.
    pub fn handle_ready(&mut self, from: NodeId, epoch: Epoch, now: Instant) {
        self.due = None;
        let answered = self.sinks.change_plan(epoch, |deployment| {
            let is_ready = deployment.handle_ready(from, now);
            (is_ready, deployment.send_next() <= now)
        });
        match answered {
            Some((true, _)) => self.switch_plan(epoch, now),
            Some((false, true)) => self.send_due(now),
            Some((false, false)) | None => {}
        }
    }

    /// Handles a node that lacks parts that were to be renewed: they are sent again.
    pub fn handle_lacking(&mut self, from: NodeId, epochs: &[Epoch], now: Instant) {
        self.due = None;
        self.sinks.restore(from, epochs, now, &mut self.outputs);
        for plan in self.former.plans_mut() {
            if epochs.contains(&plan.epoch()) {
                plan.restore(from, now, &mut self.outputs);
            }
        }
    }

    /// Handles a node that has started to copy a plan that is grafted there.
    pub fn handle_casting(&mut self, from: NodeId, epoch: Epoch, now: Instant) {
        self.due = None;
        let is_fed = |deployment: &mut Deployment| deployment.handle_casting(from, now);
        if self.sinks.change_plan(epoch, is_fed) == Some(true) {
            self.switch_plan(epoch, now);
        }
    }

    /// Handles a node that refuses its part; a refusal from outside the plan is ignored.
    pub fn handle_refuse(&mut self, from: NodeId, epoch: Epoch, reason: &str, now: Instant) {
        self.due = None;
        if let Some(sink) = self.sinks.served_through(from, epoch) {
            let failure = Failure {
                sink,
                epoch,
                reason: alloc::format!("{} refused: {reason}", from.short()),
                unanswered: Vec::new(),
            };
            self.fail(failure, now);
        }
    }

    /// Handles a sink that restarted and lost everything: it starts again.
    pub fn handle_restarted(&mut self, node: NodeId) {
        self.sinks.handle_restarted(node);
    }

    /// Brings a pending plan into force, if it is ready and has its base in force.
    fn switch_plan(&mut self, epoch: Epoch, now: Instant) {
        if let Some(node) = self.sinks.sink_of(epoch) {
            self.switch(node, now);
        }
    }

    /// Brings the pending plan of a sink into force, if it is ready and has its base in force, and
    /// those that wait for it.
    ///
    /// Cost    O(grafts on the plans that come into force), with a logarithm
    fn switch(&mut self, node: NodeId, now: Instant) {
        // A stream without grafts resends to be safe.
        let must_resend = !self.is_recast;
        let mut has_switched = false;
        let mut waiting = BTreeSet::from([node]);
        while let Some(sink) = waiting.pop_first() {
            let Some(switched) = self.sinks.switch(sink, must_resend, now) else {
                continue;
            };
            has_switched = true;
            let (epoch, from) = (switched.epoch, switched.from);
            if let Some((before, fate)) = switched.before {
                self.former.replace(before, fate, now);
            }
            self.outputs.push(Output::Switched { sink, epoch });
            if !from.is_empty() {
                let (to, under) = (epoch, self.root(epoch));
                self.outputs.push(Output::Resend {
                    sink,
                    from,
                    to,
                    under,
                });
            }
            if switched.is_replayed {
                self.outputs.push(Output::Replay { sink, to: epoch });
            }
            // Grafts may be waiting for the plan that has just come into force.
            waiting.extend(self.sinks.activate_followers(epoch, now));
        }
        debug_assert!(
            !self.sinks.is_any_to_switch(),
            "what makes a plan ready brings it into force"
        );
        if has_switched {
            self.outputs.request(self.sinks.orphans());
        }
    }

    /// Abandons a sink's deployment, pending or active, and requests another plan later.
    ///
    /// If the plan with the present key fails, one with a former key does not go on.
    fn fail(&mut self, failure: Failure, now: Instant) {
        let Failure {
            sink,
            epoch,
            reason,
            unanswered,
        } = failure;
        let Some(ended) = self.sinks.fail(sink, epoch, self.rekey.first(), now) else {
            return;
        };
        for (plan, fate) in ended {
            self.former.abandon(plan, fate, now);
        }
        self.sinks.doubt_grafts_on(epoch, &self.former.grafts());
        self.outputs.push(Output::Failed {
            sink,
            epoch,
            reason,
            unanswered,
        });
        self.outputs.request(self.sinks.orphans());
    }

    /// Handles what is due: resends, renewals, failures, retries, releases, leases. `is_in_flight` tells
    /// whether ADUs of a replaced plan are in flight or unaccounted for: then it stays longer.
    ///
    /// Cost    O(sinks of which something is due, former plans), and O(1) before
    ///         [`Session::poll_timeout`] without new input
    pub fn handle_timeout(&mut self, is_in_flight: impl Fn(Epoch) -> bool, now: Instant) {
        let due = self.poll_timeout();
        if now < due {
            self.due = Some(due);
            return;
        }
        debug_assert!(self.sinks.is_indexed(), "each change of a sink is indexed");
        if self.rekey.handle_timeout(now) {
            self.outputs.push(Output::KeyWanted);
        }
        if self.doubts.handle_timeout(now) {
            self.outputs.request(self.sinks.standing_by());
        }
        if self.replan.handle_timeout(now) {
            self.outputs.request(self.sinks.nodes());
        }
        for node in self.sinks.lapsed(now) {
            self.handle_unsubscribe(node, now);
        }
        let mut renewals = Renewals::new();
        self.handle_plan_timeout(now, &mut renewals);
        let is_live = |epoch| self.sinks.is_live(epoch);
        self.former.extend_in_flight(is_in_flight, is_live, now);
        let bases = self.former_bases();
        self.former
            .handle_timeout(&bases, now, &mut self.outputs, &mut renewals);
        self.outputs.renew(renewals);
        self.due = Some(self.find_due());
    }

    /// Sends the due messages of all plans in force and pending.
    fn send_due(&mut self, now: Instant) {
        let mut renewals = Renewals::new();
        self.handle_plan_timeout(now, &mut renewals);
        self.outputs.renew(renewals);
    }

    /// Sends the due messages of the same, and fails those that have waited too long.
    fn handle_plan_timeout(&mut self, now: Instant, renewals: &mut Renewals) {
        for failure in self.sinks.send_due(now, &mut self.outputs, renewals) {
            self.fail(failure, now);
        }
    }

    /// Returns the next action for the driver.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop()
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
        let stands_by = || self.sinks.standing_by().next().is_some();
        let doubts = self.doubts.due().filter(|_| stands_by());
        let parts = [self.sinks.due(), self.former.due(&self.former_bases())];
        let due = parts.into_iter().chain(self.rekey.due()).chain(doubts);
        due.fold(self.replan.poll_timeout(), Instant::min)
    }

    /// Returns the former plans that others, in force or pending, are grafted on, directly or
    /// indirectly.
    ///
    /// Cost    O(former plans), with a logarithm
    fn former_bases(&self) -> BTreeSet<Epoch> {
        self.former.bases(|epoch| self.sinks.is_base(epoch))
    }

    /// Returns the plan that the source sends under for the ADUs of a plan.
    pub fn root(&self, epoch: Epoch) -> Epoch {
        graft::root(epoch, |plan| Some(self.graft(plan)?.base))
    }

    /// Returns where a plan is grafted, if it is.
    pub fn graft(&self, epoch: Epoch) -> Option<Graft> {
        let former = || self.former.plans().find(|plan| plan.epoch() == epoch);
        self.sinks.plan(epoch).or_else(former)?.graft()
    }

    /// Returns the plans that the source sends ADUs under, each with the plans that it feeds.
    ///
    /// Cost    O(sinks)
    pub fn given(&self) -> Vec<Given> {
        self.sinks.given()
    }

    /// Returns the plan in force for a sink.
    pub fn in_force(&self, node: NodeId) -> Option<Epoch> {
        let plan = self.sinks.get(node).and_then(Sink::active);
        plan.map(Deployment::epoch)
    }

    /// Returns the plan in force of each served sink.
    pub fn active(&self) -> impl Iterator<Item = (NodeId, Epoch)> {
        self.sinks.active()
    }

    /// Returns the subscribed nodes, served or not.
    pub fn sinks(&self) -> impl Iterator<Item = NodeId> {
        self.sinks.nodes()
    }

    /// Returns whether a sink has a plan in force and none pending.
    pub fn is_settled(&self, node: NodeId) -> bool {
        let sink = self.sinks.get(node);
        sink.is_some_and(|sink| sink.active().is_some() && sink.pending().is_none())
    }

    /// Returns whether a sink receives ADUs as far as is known here: its plan is in force, its path
    /// neither broken nor silent.
    pub fn is_served(&self, node: NodeId, now: Instant) -> bool {
        let plan = self.sinks.get(node).and_then(Sink::active);
        let path = plan.map(Deployment::path);
        path.is_some_and(|path| !path.is_doubted() && !path.is_suspect(now))
    }
}
