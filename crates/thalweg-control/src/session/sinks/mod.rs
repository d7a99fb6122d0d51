//! The sinks of a stream, and the plans that are in force or pending for them.
//!
//! *The idea.* A reachable sink that does not renew its subscription no longer wants the stream. An
//! unreachable one may still want it. If a stream may lose nothing, such a sink stays subscribed
//! for a while, and its ADUs are kept.
//!
//! *What it does not do.* It does not probe sinks: the map and reports of nodes on the path show
//! whether one is reachable. It decides nothing about plans that are no longer a sink's.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::{Duration, Instant};

use super::deployment::Deployment;
use super::graft::Grafts;
use super::output::{Output, Outputs, Renewals};
use super::retiring::Fate;
use super::{Graft, LEASE};

mod sink;

pub(super) use sink::{Sink, Switched, Verdict};

/// Entries for plans that are over before they are removed, beside two for each sink.
const OUTDATED_MAX: usize = 16;

/// The sinks of a stream.
#[derive(Debug, Default)]
pub(super) struct Sinks {
    by_node: BTreeMap<NodeId, Sink>,
    /// The sink of each plan in force or pending, and perhaps of some that are neither any more.
    of_plan: BTreeMap<Epoch, NodeId>,
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
        let lease = now + LEASE + self.hold;
        self.by_node
            .entry(node)
            .or_default()
            .handle_subscribe(lease);
        is_new
    }

    /// Removes a sink; returns its plans.
    pub(super) fn remove(&mut self, node: NodeId) -> Option<impl Iterator<Item = Deployment>> {
        self.by_node.remove(&node).map(Sink::into_plans)
    }

    /// Returns the sinks with lapsed leases, except for those that may return.
    pub(super) fn lapsed(&mut self, now: Instant) -> Vec<NodeId> {
        let absence = self.absence;
        let lapsed = self
            .by_node
            .iter_mut()
            .filter(|(_, sink)| sink.has_lapsed(now));
        let gone =
            lapsed.filter_map(|(node, sink)| (!sink.may_return(absence, now)).then_some(*node));
        gone.collect()
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Sink> {
        self.by_node.get(&node)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Sink> {
        self.by_node.get_mut(&node)
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

    /// Returns the plan in force of each served sink.
    pub(super) fn active(&self) -> impl Iterator<Item = (NodeId, Epoch)> {
        let active = |(node, sink): (&NodeId, &Sink)| Some((*node, sink.active()?.epoch()));
        self.by_node.iter().filter_map(active)
    }

    /// Returns the plans in force or pending.
    pub(super) fn plans(&self) -> impl Iterator<Item = &Deployment> {
        self.by_node.values().flat_map(Sink::plans)
    }

    /// Returns the epochs of the same.
    pub(super) fn live(&self) -> BTreeSet<Epoch> {
        self.plans().map(Deployment::epoch).collect()
    }

    /// Handles a plan that is deployed for a sink now.
    pub(super) fn handle_deployed(&mut self, node: NodeId, epoch: Epoch) {
        if self.of_plan.len() > OUTDATED_MAX + 2 * self.by_node.len() {
            let by_node = &self.by_node;
            let is_its = |epoch: &Epoch, node: &mut NodeId| {
                let sink = by_node.get(node);
                sink.is_some_and(|sink| sink.plans().any(|plan| plan.epoch() == *epoch))
            };
            self.of_plan.retain(is_its);
        }
        self.of_plan.insert(epoch, node);
    }

    /// Returns a plan in force or pending.
    ///
    /// Cost    O(log plans)
    pub(super) fn plan(&self, epoch: Epoch) -> Option<&Deployment> {
        let sink = self.by_node.get(self.of_plan.get(&epoch)?)?;
        sink.plans().find(|plan| plan.epoch() == epoch)
    }

    /// As [`Sinks::plan`], to be changed.
    pub(super) fn find(&mut self, epoch: Epoch) -> Option<&mut Deployment> {
        let sink = self.by_node.get_mut(self.of_plan.get(&epoch)?)?;
        sink.plans_mut().find(|plan| plan.epoch() == epoch)
    }

    /// Returns the sink of a plan that has a part on this node.
    pub(super) fn served_through(&self, node: NodeId, epoch: Epoch) -> Option<NodeId> {
        let is_it = |plan: &Deployment| plan.epoch() == epoch && plan.runs_on(node);
        self.such(|sink| sink.plans().any(is_it)).next()
    }

    /// Returns the plans that one for this sink may be grafted on. `first` is the first plan with the
    /// present key: a base with a former one carries ADUs that the present key cannot open.
    pub(super) fn bases_for(
        &self,
        node: NodeId,
        is_standby: bool,
        first: Epoch,
    ) -> BTreeMap<Epoch, &Deployment> {
        let others = self.by_node.iter().filter(|(other, _)| **other != node);
        // A standby plan may never come into force.
        let plans = others.filter_map(|(_, other)| {
            let coming = other.next_plan()?;
            let is_base = is_standby || !coming.stands_by();
            Some(coming).filter(|_| is_base).or(other.active())
        });
        let plans = plans.filter(|plan| plan.epoch() >= first);
        plans.map(|plan| (plan.epoch(), plan)).collect()
    }

    /// Returns whether a graft is on a plan that stands by.
    pub(super) fn stands_by(&self, graft: Graft) -> bool {
        let mut pending = self.by_node.values().filter_map(Sink::pending);
        pending.any(|plan| plan.epoch() == graft.base && plan.stands_by())
    }

    /// Returns the sinks with a base that is no longer its own sink's plan.
    pub(super) fn orphans(&self) -> impl Iterator<Item = NodeId> {
        let live = self.live();
        self.such(move |sink| sink.is_orphan(&live))
    }

    /// Doubts the plans that are grafted, directly or indirectly, on one that a node refuses.
    pub(super) fn doubt_grafts_on(&mut self, base: Epoch, grafts: &Grafts) {
        for plan in self.by_node.values_mut().flat_map(Sink::plans_mut) {
            let mut bases = grafts.with_bases(plan.epoch()).skip(1);
            if bases.any(|of| of == base) {
                plan.path_mut().doubt();
            }
        }
    }

    /// Activates the standby plans that are grafted on a plan that has come into force.
    pub(super) fn activate_followers(&mut self, base: Epoch, now: Instant) {
        for sink in self.by_node.values_mut() {
            sink.activate(base, now);
        }
    }

    /// Brings the first pending plan into force that is ready and has its base in force; returns its
    /// sink, too. If the stream `must_resend`, ADUs in flight through a leaver are sent again.
    pub(super) fn switch_next(
        &mut self,
        must_resend: bool,
        now: Instant,
    ) -> Option<(NodeId, Switched)> {
        let in_force: BTreeSet<Epoch> = self.active().map(|(_, epoch)| epoch).collect();
        let mut sinks = self.by_node.iter_mut();
        sinks.find_map(|(node, sink)| Some((*node, sink.switch(&in_force, must_resend, now)?)))
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
        self.by_node.get_mut(&node)?.handle_no_plan(is_lost, now)
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

    /// Handles a change of the links.
    pub(super) fn handle_change(&mut self, is_joined: impl Fn(NodeId, NodeId) -> bool) {
        for plan in self.by_node.values_mut().flat_map(Sink::plans_mut) {
            plan.path_mut().handle_change(&is_joined);
        }
    }

    /// Handles the loss of the path of a sink's former plan; returns whether there still is that sink.
    pub(super) fn handle_broken(&mut self, node: NodeId, epoch: Epoch) -> bool {
        let sink = self.by_node.get_mut(&node);
        sink.map(|sink| sink.handle_broken(epoch)).is_some()
    }

    /// Returns all plans of all sinks.
    pub(super) fn plans_mut(&mut self) -> impl Iterator<Item = &mut Deployment> {
        self.by_node.values_mut().flat_map(Sink::plans_mut)
    }

    /// Handles a sink that restarted and lost everything.
    pub(super) fn handle_restarted(&mut self, node: NodeId) {
        if let Some(sink) = self.by_node.get_mut(&node) {
            sink.handle_restarted();
        }
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
        let sink = self.by_node.get_mut(&node)?;
        Some(sink.fail(epoch, first, now))
    }

    /// Requests plans again, and sends the due messages of plans in force and pending; returns the
    /// plans that have waited too long.
    pub(super) fn send_due(
        &mut self,
        now: Instant,
        outputs: &mut Outputs,
        renewals: &mut Renewals,
    ) -> Vec<Failure> {
        let mut failures = Vec::new();
        for (node, sink) in &mut self.by_node {
            if sink.take_retry(now) {
                outputs.push(Output::PlanWanted { sink: *node });
            }
            if let Some(plan) = sink.send_due(now, outputs, renewals) {
                let (reason, unanswered) = plan.failure();
                failures.push(Failure {
                    sink: *node,
                    epoch: plan.epoch(),
                    reason,
                    unanswered,
                });
            }
        }
        failures
    }

    /// Returns when something of a sink is due.
    pub(super) fn due(&self) -> Instant {
        let due = self.by_node.values().map(Sink::due);
        due.min().unwrap_or(Instant::NEVER)
    }
}
