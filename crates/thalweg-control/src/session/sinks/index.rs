//! What is looked up among the sinks of a stream, so that no event costs more than what it changes.
//!
//! *The idea.* A stream may have thousands of sinks, and each of them causes tens of events while it comes
//! up. So whatever an event asks of all sinks is kept here, and updated when a sink changes: which is due,
//! which is not healthy, which plans copy a plan, and which plans a new one may be copied from.
//!
//! ```text
//! a sink changes ─► what it is now ─┬─► due, unhealthy, standing by
//!                   what it was     └─► its plans: those gone, those new ─► grafts, places, hops, strays
//! ```
//!
//! *What it does not do.* It decides nothing. It cannot be changed but by a sink that has changed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::Instant;

use super::super::Part;
use super::super::deployment::Deployment;
use super::Sink;

/// The index of the sinks of a stream.
#[derive(Debug, Default)]
pub(in super::super) struct Index {
    /// The plans in force or pending.
    plans: BTreeMap<Epoch, Entry>,
    /// The plans in force or pending that are grafted on a plan, which may be over.
    grafts: BTreeSet<(Epoch, Epoch)>,
    /// The plans that carry ADUs of their own to a node at this position of their paths.
    places: BTreeSet<(usize, NodeId, Epoch)>,
    /// The plans in force, each behind the one that the source sends under for it.
    fed: BTreeSet<(Epoch, Epoch)>,
    /// The plans that lead over a hop.
    hops: BTreeSet<([NodeId; 2], Epoch)>,
    /// The plans not compared with the map yet.
    unseen: BTreeSet<Epoch>,
    /// When something of each sink is due.
    due: BTreeSet<(Instant, NodeId)>,
    unhealthy: BTreeSet<NodeId>,
    standing_by: BTreeSet<NodeId>,
    /// The sinks with a plan on a base that is over.
    strays: BTreeSet<NodeId>,
}

/// A plan in force or pending.
#[derive(Debug)]
struct Entry {
    sink: NodeId,
    is_active: bool,
    base: Option<Epoch>,
    /// The plan that it is fed by at last: itself, or the root of its base.
    root: Epoch,
    /// The position of the first node with a part of it.
    start: usize,
    path: Vec<NodeId>,
}

/// What the index knows of a sink.
#[derive(Debug)]
pub(super) struct State {
    due: Instant,
    is_healthy: bool,
    stands_by: bool,
    active: Option<Epoch>,
    pending: Option<Epoch>,
}

impl State {
    pub(super) fn of(sink: &Sink) -> Self {
        Self {
            due: sink.due(),
            is_healthy: sink.is_healthy(),
            stands_by: sink.stands_by(),
            active: sink.active().map(Deployment::epoch),
            pending: sink.pending().map(Deployment::epoch),
        }
    }

    fn plans(&self) -> impl Iterator<Item = Epoch> {
        self.active.into_iter().chain(self.pending)
    }

    fn has(&self, epoch: Epoch) -> bool {
        self.plans().any(|plan| plan == epoch)
    }
}

impl Entry {
    fn new(sink: NodeId, plan: &Deployment, root: Epoch) -> Self {
        let parts = plan.path().parts().iter();
        Self {
            sink,
            is_active: false,
            base: plan.graft().map(|graft| graft.base),
            root,
            start: plan.start(),
            path: parts.map(|part| part.node).collect(),
        }
    }

    /// Returns the nodes behind the first one with a part of it, each with its position.
    fn places(&self) -> impl Iterator<Item = (usize, NodeId)> {
        let places = self.path.iter().copied().enumerate();
        places.skip(self.start + 1)
    }

    fn hops(&self) -> impl Iterator<Item = [NodeId; 2]> {
        self.path.windows(2).map(|hop| [hop[0], hop[1]])
    }
}

impl Index {
    /// Handles a sink that has come.
    pub(super) fn insert(&mut self, node: NodeId, sink: &Sink) {
        let state = State::of(sink);
        self.due.insert((state.due, node));
        self.unhealthy.insert(node);
        debug_assert!(state.plans().next().is_none(), "a new sink has no plan");
    }

    /// Handles a sink that is gone.
    pub(super) fn remove(&mut self, node: NodeId, before: &State) {
        self.due.remove(&(before.due, node));
        self.unhealthy.remove(&node);
        self.standing_by.remove(&node);
        for epoch in before.plans() {
            self.remove_plan(epoch);
        }
        self.strays.remove(&node);
    }

    /// Handles a sink that has changed.
    pub(super) fn update(&mut self, node: NodeId, before: &State, sink: &Sink) {
        let now = State::of(sink);
        if now.due != before.due {
            self.due.remove(&(before.due, node));
            self.due.insert((now.due, node));
        }
        set(&mut self.unhealthy, node, !now.is_healthy);
        set(&mut self.standing_by, node, now.stands_by);
        if (now.active, now.pending) == (before.active, before.pending) {
            return;
        }
        for epoch in before.plans().filter(|epoch| !now.has(*epoch)) {
            self.remove_plan(epoch);
        }
        for plan in sink.plans() {
            if !before.has(plan.epoch()) {
                self.add_plan(node, plan);
            }
        }
        if let Some(active) = now.active.filter(|_| now.active != before.active)
            && let Some(entry) = self.plans.get_mut(&active)
        {
            entry.is_active = true;
            self.fed.insert((entry.root, active));
        }
        let is_stray = sink.plans().any(|plan| !plan.is_fed_by(self.live()));
        set(&mut self.strays, node, is_stray);
    }

    fn add_plan(&mut self, node: NodeId, plan: &Deployment) {
        let epoch = plan.epoch();
        let base = plan.graft().map(|graft| graft.base);
        // A base is in force or pending when a plan is grafted on it.
        let root_of = |base: Epoch| self.plans.get(&base).map_or(base, |entry| entry.root);
        let entry = Entry::new(node, plan, base.map_or(epoch, root_of));
        self.grafts.extend(entry.base.map(|base| (base, epoch)));
        let places = entry.places().map(|(at, node)| (at, node, epoch));
        self.places.extend(places);
        self.hops.extend(entry.hops().map(|hop| (hop, epoch)));
        self.unseen.insert(epoch);
        self.plans.insert(epoch, entry);
    }

    fn remove_plan(&mut self, epoch: Epoch) {
        let Some(entry) = self.plans.remove(&epoch) else {
            return;
        };
        if let Some(base) = entry.base {
            self.grafts.remove(&(base, epoch));
        }
        for (at, node) in entry.places() {
            self.places.remove(&(at, node, epoch));
        }
        for hop in entry.hops() {
            self.hops.remove(&(hop, epoch));
        }
        self.unseen.remove(&epoch);
        self.fed.remove(&(entry.root, epoch));
        let strays: Vec<NodeId> = self
            .grafts_on(epoch)
            .filter_map(|of| self.sink(of))
            .collect();
        self.strays.extend(strays);
    }

    /// Returns the sink of a plan in force or pending.
    pub(super) fn sink(&self, epoch: Epoch) -> Option<NodeId> {
        self.plans.get(&epoch).map(|entry| entry.sink)
    }

    /// Returns whether a plan is in force or pending.
    pub(super) fn live(&self) -> impl Fn(Epoch) -> bool {
        |epoch| self.plans.contains_key(&epoch)
    }

    /// Returns whether a plan is in force.
    pub(super) fn in_force(&self) -> impl Fn(Epoch) -> bool {
        |epoch| self.plans.get(&epoch).is_some_and(|entry| entry.is_active)
    }

    /// Returns the plans in force or pending that are grafted on this one.
    pub(super) fn grafts_on(&self, base: Epoch) -> impl Iterator<Item = Epoch> {
        let grafts = self
            .grafts
            .range((base, Epoch(0))..=(base, Epoch(u32::MAX)));
        grafts.map(|(_, graft)| *graft)
    }

    /// Returns the plans that one with these parts may be grafted on at this position, and others that
    /// pass the node there.
    pub(super) fn passing(&self, at: usize, part: &Part) -> impl Iterator<Item = Epoch> {
        let (first, last) = (Epoch(0), Epoch(u32::MAX));
        let passing = (at, part.node, first)..=(at, part.node, last);
        self.places.range(passing).map(|(.., epoch)| *epoch)
    }

    /// Returns the plans that lead over a link, in either direction.
    pub(super) fn over(&self, [a, b]: [NodeId; 2]) -> impl Iterator<Item = Epoch> {
        let (first, last) = (Epoch(0), Epoch(u32::MAX));
        let hops = [[a, b], [b, a]].into_iter();
        let plans = hops.flat_map(move |hop| self.hops.range((hop, first)..=(hop, last)));
        plans.map(|(_, epoch)| *epoch)
    }

    /// Returns the plans in force, each behind the one that the source sends under for it, in order.
    pub(super) fn fed(&self) -> impl Iterator<Item = (Epoch, Epoch)> {
        self.fed.iter().copied()
    }

    /// Handles a plan that is deployed again: its path is to be compared with the map.
    pub(super) fn handle_begun(&mut self, epoch: Epoch) {
        self.unseen.insert(epoch);
    }

    /// Returns the plans not compared with the map yet: they are now.
    pub(super) fn take_unseen(&mut self) -> BTreeSet<Epoch> {
        core::mem::take(&mut self.unseen)
    }

    /// Returns when something of a sink is due.
    pub(super) fn next_due(&self) -> Instant {
        let first = self.due.first();
        first.map_or(Instant::NEVER, |(due, _)| *due)
    }

    /// Returns the sinks of which something is due, ordered by key.
    ///
    /// Cost    O(those)
    pub(super) fn due(&self, now: Instant) -> BTreeSet<NodeId> {
        let due = self.due.iter().take_while(|(due, _)| *due <= now);
        due.map(|(_, node)| *node).collect()
    }

    /// Returns the sinks without a healthy plan.
    pub(super) const fn unhealthy(&self) -> &BTreeSet<NodeId> {
        &self.unhealthy
    }

    /// Returns the sinks with a plan that stands by.
    pub(super) const fn standing_by(&self) -> &BTreeSet<NodeId> {
        &self.standing_by
    }

    /// Returns the sinks with a plan on a base that is over.
    pub(super) const fn strays(&self) -> &BTreeSet<NodeId> {
        &self.strays
    }
}

impl Index {
    /// Returns whether it is that of these sinks.
    pub(super) fn is_of(&self, sinks: &BTreeMap<NodeId, Sink>) -> bool {
        let nodes = |of: fn(&Sink) -> bool| {
            let such = sinks.iter().filter(move |(_, sink)| of(sink));
            such.map(|(node, _)| *node).collect::<BTreeSet<_>>()
        };
        let due = sinks.iter().map(|(node, sink)| (sink.due(), *node));
        let active = sinks.values().filter_map(Sink::active);
        let plans = sinks.values().flat_map(Sink::plans);
        self.due == due.collect()
            && self.unhealthy == nodes(|sink| !sink.is_healthy())
            && self.standing_by == nodes(Sink::stands_by)
            && self
                .fed
                .iter()
                .map(|(_, epoch)| *epoch)
                .collect::<BTreeSet<_>>()
                == active.map(Deployment::epoch).collect()
            && self.plans.keys().copied().collect::<BTreeSet<_>>()
                == plans.map(Deployment::epoch).collect()
    }
}

fn set(nodes: &mut BTreeSet<NodeId>, node: NodeId, is_in: bool) {
    if is_in {
        nodes.insert(node);
    } else {
        nodes.remove(&node);
    }
}
