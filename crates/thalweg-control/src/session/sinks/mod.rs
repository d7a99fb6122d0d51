//! The sinks of a stream, and the plans that are in force or pending for them.
//!
//! *The idea.* A reachable sink that does not renew its subscription no longer wants the stream. An
//! unreachable one may still want it. If a stream may lose nothing, such a sink stays subscribed
//! for a while, and its ADUs are kept.
//!
//! *What it does not do.* It does not probe sinks: the map and reports of nodes on the path show
//! whether one is reachable. It decides nothing about plans that are no longer a sink's.
//!
//! Every change of a sink goes through [`Sinks::change`], which keeps the [`Index`] true.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::{Duration, Instant};

use super::deployment::Deployment;
use super::deployment::Found;
use super::output::{Output, Outputs, Renewals};
use super::retiring::Fate;
use super::{Given, Graft, LEASE, Part};
use crate::routing::LinkChanges;

mod index;
mod sink;

use index::{Index, State};
pub(super) use sink::{Sink, Switched, Verdict};

/// The sinks of a stream.
#[derive(Debug, Default)]
pub(super) struct Sinks {
    by_node: BTreeMap<NodeId, Sink>,
    index: Index,
    /// How long ADUs that cannot be sent are held; zero if they are not.
    hold: Duration,
    /// How long an unreachable sink stays subscribed beyond its lease.
    absence: Duration,
}

/// A pending plan that has waited too long.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) sink: NodeId,
    pub(super) epoch: Epoch,
    pub(super) reason: String,
    pub(super) unanswered: Vec<NodeId>,
}

impl Sinks {
    /// Returns none yet, of a stream that holds ADUs this long.
    pub(super) fn holding(hold: Duration) -> Self {
        Self {
            hold,
            ..Self::default()
        }
    }

    /// Lets unreachable sinks stay subscribed this long beyond their leases.
    pub(super) fn set_absence(&mut self, absence: Duration) {
        self.absence = absence;
    }

    /// Handles a subscription or its renewal; returns whether it is a new one.
    pub(super) fn handle_subscribe(&mut self, node: NodeId, now: Instant) -> bool {
        let is_new = !self.by_node.contains_key(&node);
        if is_new {
            let sink = self.by_node.entry(node).or_default();
            self.index.insert(node, sink);
        }
        let lease = now + LEASE + self.hold;
        self.change(node, |sink, _| sink.handle_subscribe(lease));
        is_new
    }

    /// Removes a sink; returns its plans.
    pub(super) fn remove(&mut self, node: NodeId) -> Option<impl Iterator<Item = Deployment>> {
        let sink = self.by_node.remove(&node)?;
        self.index.remove(node, &State::of(&sink));
        Some(sink.into_plans())
    }

    /// Changes a sink, if there is one of this node.
    ///
    /// Cost    O(log sinks) beside the change; where a plan ends, also O(plans grafted on it)
    fn change<T>(
        &mut self,
        node: NodeId,
        change: impl FnOnce(&mut Sink, &Index) -> T,
    ) -> Option<T> {
        let sink = self.by_node.get_mut(&node)?;
        let before = State::of(sink);
        let result = change(sink, &self.index);
        self.index.update(node, &before, sink);
        Some(result)
    }

    /// Changes a plan in force or pending, if there is this one.
    ///
    /// Cost    O(log plans) beside the change
    pub(super) fn change_plan<T>(
        &mut self,
        epoch: Epoch,
        change: impl FnOnce(&mut Deployment) -> T,
    ) -> Option<T> {
        let node = self.index.sink(epoch)?;
        let changed = self.change(node, |sink, _| {
            let mut plans = sink.plans_mut();
            plans.find(|plan| plan.epoch() == epoch).map(change)
        });
        changed?
    }

    /// Returns the sinks with lapsed leases, except for those that may return.
    pub(super) fn lapsed(&mut self, now: Instant) -> Vec<NodeId> {
        let absence = self.absence;
        let mut gone = Vec::new();
        for node in self.index.due(now) {
            let is_gone = self.change(node, |sink, _| {
                sink.has_lapsed(now) && !sink.may_return(absence, now)
            });
            gone.extend(Some(node).filter(|_| is_gone == Some(true)));
        }
        gone
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Sink> {
        self.by_node.get(&node)
    }

    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.by_node.keys().copied()
    }

    /// Returns the sinks of which this is true.
    pub(super) fn such(&self, of: impl Fn(&Sink) -> bool) -> impl Iterator<Item = NodeId> {
        let such = self.by_node.iter().filter(move |(_, sink)| of(sink));
        such.map(|(node, _)| *node)
    }

    /// Returns the plans that the source sends ADUs under, each with the plans in force that it
    /// feeds.
    ///
    /// Cost    O(plans in force)
    pub(super) fn given(&self) -> Vec<Given> {
        let mut given: Vec<Given> = Vec::new();
        for (root, epoch) in self.index.fed() {
            match given.last_mut().filter(|last| last.epoch == root) {
                Some(last) => last.serves.push(epoch),
                None => given.push(Given {
                    epoch: root,
                    serves: Vec::from([epoch]),
                }),
            }
        }
        given
    }

    /// Returns the plan in force of each served sink.
    pub(super) fn active(&self) -> impl Iterator<Item = (NodeId, Epoch)> {
        let active = |(node, sink): (&NodeId, &Sink)| Some((*node, sink.active()?.epoch()));
        self.by_node.iter().filter_map(active)
    }

    /// Returns the plans in force or pending.
    pub(super) fn plans(&self) -> impl Iterator<Item = &Deployment> {
        self.by_node.values().flat_map(Sink::plans)
    }

    /// Returns whether a plan is in force or pending.
    pub(super) fn is_live(&self, epoch: Epoch) -> bool {
        self.index.sink(epoch).is_some()
    }

    /// Returns the sink of a plan in force or pending.
    pub(super) fn sink_of(&self, epoch: Epoch) -> Option<NodeId> {
        self.index.sink(epoch)
    }

    /// Returns whether a plan in force or pending is grafted on this one.
    pub(super) fn is_base(&self, epoch: Epoch) -> bool {
        self.index.grafts_on(epoch).next().is_some()
    }

    /// Returns whether nothing but a doubt speaks against the plan in force of a sink ([`Sink::is_sound`]).
    pub(super) fn is_sound(&self, node: NodeId, first: Epoch, now: Instant) -> bool {
        let sink = self.by_node.get(&node);
        sink.is_some_and(|sink| sink.is_sound(first, self.index.live(), now))
    }

    /// Compares a plan that was found for a sink with those it has ([`Sink::weigh`]).
    pub(super) fn weigh(
        &mut self,
        node: NodeId,
        found: &Found,
        first: Epoch,
        now: Instant,
    ) -> Option<Verdict> {
        let verdict = self.change(node, |sink, index| {
            sink.weigh(found, (first, index.live()), now)
        });
        let pending = self.get(node).and_then(Sink::pending);
        if let (Some(Verdict::GoOn), Some(pending)) = (&verdict, pending) {
            self.index.handle_begun(pending.epoch());
        }
        verdict
    }

    /// Starts to deploy a plan for a sink; returns the one that it replaces on its way.
    pub(super) fn deploy(
        &mut self,
        node: NodeId,
        epoch: Epoch,
        found: Found,
        now: Instant,
    ) -> Option<Deployment> {
        self.change(node, |sink, _| sink.deploy(epoch, found, now))?
    }

    /// Returns a plan in force or pending.
    ///
    /// Cost    O(log plans)
    pub(super) fn plan(&self, epoch: Epoch) -> Option<&Deployment> {
        let sink = self.by_node.get(&self.index.sink(epoch)?)?;
        sink.plans().find(|plan| plan.epoch() == epoch)
    }

    /// Returns the sink of a plan that has a part on this node.
    pub(super) fn served_through(&self, node: NodeId, epoch: Epoch) -> Option<NodeId> {
        self.plan(epoch).filter(|plan| plan.runs_on(node))?;
        self.index.sink(epoch)
    }

    /// Returns the plans that carry ADUs of their own to a node at this position, as one with these
    /// parts would.
    pub(super) fn passing(&self, at: usize, part: &Part) -> impl Iterator<Item = Epoch> {
        self.index.passing(at, part)
    }

    /// Returns a plan if one for this sink may be grafted on it. `first` is the first plan with the
    /// present key: a base with a former one carries ADUs that the present key cannot open.
    ///
    /// Cost    O(log plans)
    pub(super) fn base_for(
        &self,
        node: NodeId,
        is_standby: bool,
        first: Epoch,
        epoch: Epoch,
    ) -> Option<&Deployment> {
        let of = self.index.sink(epoch).filter(|of| *of != node)?;
        let sink = self.by_node.get(&of)?;
        let coming = sink.next_plan()?;
        // A standby plan may never come into force.
        let is_coming = is_standby || !coming.stands_by();
        let base = Some(coming).filter(|_| is_coming).or(sink.active());
        base.filter(|base| base.epoch() == epoch && epoch >= first)
    }

    /// Returns whether a graft is on a plan that stands by.
    pub(super) fn stands_by(&self, graft: Graft) -> bool {
        self.plan(graft.base).is_some_and(Deployment::stands_by)
    }

    /// Returns the sinks with a plan that stands by.
    pub(super) fn standing_by(&self) -> impl Iterator<Item = NodeId> {
        self.index.standing_by().iter().copied()
    }

    /// Returns the sinks without a healthy plan.
    pub(super) fn unhealthy(&self) -> impl Iterator<Item = NodeId> {
        self.index.unhealthy().iter().copied()
    }

    /// Returns whether a pending plan is ready to come into force.
    pub(super) fn is_any_to_switch(&self) -> bool {
        self.such(|sink| sink.is_to_switch(self.index.in_force()))
            .next()
            .is_some()
    }

    /// Returns whether the index is what the sinks are.
    pub(super) fn is_indexed(&self) -> bool {
        self.index.is_of(&self.by_node)
    }

    /// Returns the sinks with a base that is no longer its own sink's plan.
    pub(super) fn orphans(&self) -> impl Iterator<Item = NodeId> {
        let strays = self.index.strays().iter().copied();
        strays.filter(|node| {
            let sink = self.by_node.get(node);
            sink.is_some_and(|sink| sink.is_orphan(self.index.live()))
        })
    }

    /// Doubts the plans that are grafted, directly or indirectly, on one that a node refuses. `former`
    /// are the former plans that may stand between, each behind the one that it is grafted on.
    ///
    /// Cost    O(those plans), with a logarithm
    pub(super) fn doubt_grafts_on(&mut self, base: Epoch, former: &BTreeSet<(Epoch, Epoch)>) {
        let mut bases = Vec::from([base]);
        while let Some(base) = bases.pop() {
            let grafts: Vec<Epoch> = self.index.grafts_on(base).collect();
            for graft in &grafts {
                self.change_plan(*graft, |plan| plan.path_mut().doubt());
            }
            bases.extend(grafts);
            let between = former.range((base, Epoch(0))..=(base, Epoch(u32::MAX)));
            bases.extend(between.map(|(_, graft)| *graft));
        }
    }

    /// Activates the standby plans that are grafted on a plan that has come into force; returns the
    /// sinks of all that are grafted on it.
    ///
    /// Cost    O(those), with a logarithm
    pub(super) fn activate_followers(&mut self, base: Epoch, now: Instant) -> Vec<NodeId> {
        let grafts = self.index.grafts_on(base);
        let sinks: Vec<NodeId> = grafts.filter_map(|epoch| self.index.sink(epoch)).collect();
        for node in &sinks {
            self.change(*node, |sink, _| sink.activate(base, now));
        }
        sinks
    }

    /// Brings the pending plan of a sink into force if it is ready and has its base in force. If the
    /// stream `must_resend`, ADUs in flight through a leaver are sent again.
    pub(super) fn switch(
        &mut self,
        node: NodeId,
        must_resend: bool,
        now: Instant,
    ) -> Option<Switched> {
        self.change(node, |sink, index| {
            sink.switch(index.in_force(), must_resend, now)
        })?
    }

    /// Handles that no plan was found for a sink; returns its plan in force if that ends.
    ///
    /// A held stream sends nothing on a path that the map shows broken, and no stream sends with a
    /// former key: `first` is the first plan with the present one.
    pub(super) fn handle_no_plan(
        &mut self,
        node: NodeId,
        first: Epoch,
        now: Instant,
    ) -> Option<Deployment> {
        let is_held = self.hold > Duration::ZERO;
        let is_lost =
            |plan: &Deployment| (is_held && plan.path().is_doubted()) || plan.epoch() < first;
        self.change(node, |sink, _| sink.handle_no_plan(is_lost, now))?
    }

    /// Handles a report, valid until then, that `to` does not answer `from`; returns the sinks with
    /// this hop.
    pub(super) fn handle_suspect(
        &mut self,
        from: NodeId,
        to: NodeId,
        until: Instant,
    ) -> BTreeSet<NodeId> {
        self.affected(|plan| plan.path_mut().handle_suspect(from, to, until))
    }

    /// Handles a node that is about to leave; returns the sinks behind it.
    pub(super) fn handle_leave(&mut self, node: NodeId) -> BTreeSet<NodeId> {
        self.affected(|plan| plan.path_mut().handle_leave(node))
    }

    /// Calls this for every plan; returns the sinks with one for which it was true.
    fn affected(&mut self, mut handle: impl FnMut(&mut Deployment) -> bool) -> BTreeSet<NodeId> {
        let mut affected = BTreeSet::new();
        for (node, sink) in &mut self.by_node {
            for plan in sink.plans_mut() {
                if handle(plan) {
                    affected.insert(*node);
                }
            }
        }
        affected
    }

    /// Handles links of the map that may have come or gone.
    ///
    /// Cost    O(plans over those links, and plans that are new since the last call)
    pub(super) fn handle_change(
        &mut self,
        changes: &LinkChanges,
        is_joined: impl Fn(NodeId, NodeId) -> bool,
    ) {
        let mut plans = self.index.take_unseen();
        match changes.links() {
            Some(links) => plans.extend(links.flat_map(|link| self.index.over(link))),
            None => plans.extend(self.plans().map(Deployment::epoch)),
        }
        for epoch in plans {
            self.change_plan(epoch, |plan| plan.path_mut().handle_change(&is_joined));
        }
    }

    /// Handles the loss of the path of a sink's former plan; returns whether there still is that sink.
    pub(super) fn handle_broken(&mut self, node: NodeId, epoch: Epoch) -> bool {
        let handled = self.change(node, |sink, _| sink.handle_broken(epoch));
        handled.is_some()
    }

    /// Handles nodes that lack parts of these plans: they are sent again, ordered by sink.
    pub(super) fn restore(
        &mut self,
        from: NodeId,
        epochs: &[Epoch],
        now: Instant,
        outputs: &mut Outputs,
    ) {
        let sinks = epochs.iter().filter_map(|epoch| self.index.sink(*epoch));
        let sinks: BTreeSet<NodeId> = sinks.collect();
        for node in sinks {
            self.change(node, |sink, _| {
                let plans = sink.plans_mut();
                for plan in plans.filter(|plan| epochs.contains(&plan.epoch())) {
                    plan.restore(from, now, outputs);
                }
            });
        }
    }

    /// Handles a sink that restarted and lost everything.
    pub(super) fn handle_restarted(&mut self, node: NodeId) {
        self.change(node, |sink, _| sink.handle_restarted());
    }

    /// Ends a sink's plan that fails, with what was to be replaced by it; `None` if there is no such
    /// sink.
    pub(super) fn fail(
        &mut self,
        node: NodeId,
        epoch: Epoch,
        first: Epoch,
        now: Instant,
    ) -> Option<impl Iterator<Item = (Deployment, Fate)> + use<>> {
        self.change(node, |sink, _| sink.fail(epoch, first, now))
    }

    /// Requests plans again, and sends the due messages of plans in force and pending; returns the
    /// plans that have waited too long.
    ///
    /// Cost    O(sinks of which something is due)
    pub(super) fn send_due(
        &mut self,
        now: Instant,
        outputs: &mut Outputs,
        renewals: &mut Renewals,
    ) -> Vec<Failure> {
        let mut failures = Vec::new();
        for node in self.index.due(now) {
            let failure = self.change(node, |sink, _| {
                if sink.take_retry(now) {
                    outputs.push(Output::PlanWanted { sink: node });
                }
                let plan = sink.send_due(now, outputs, renewals)?;
                let (reason, unanswered) = plan.failure();
                Some(Failure {
                    sink: node,
                    epoch: plan.epoch(),
                    reason,
                    unanswered,
                })
            });
            failures.extend(failure.flatten());
        }
        failures
    }

    /// Returns when something of a sink is due.
    pub(super) fn due(&self) -> Instant {
        self.index.next_due()
    }
}
