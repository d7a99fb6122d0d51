//! One published stream: what this node knows of it, of its sinks, and of the plan for each.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::limits::OPENING_MAX;
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::record::Announced;

use super::keys::StreamKeys;
use crate::accounting::Accounting;
use crate::ledger::{Book, Reading};
use crate::planning::{Publication, Words};
use crate::session::{Given, Part, Session, Sinkward};

/// Plans that are over of which the layers are still known, beside as many as there are plans.
const LAYERS_OUTDATED_MAX: usize = 16;

/// The stages of a published stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its publisher is connected.
    Open,
    /// Its publisher is gone since then. What it sent goes to the sinks that the stream has, and
    /// another program may publish the name.
    Draining(Instant),
    /// It is withdrawn.
    Withdrawn,
}

/// A stream that this node publishes, or published a moment ago.
#[derive(Debug)]
pub struct Source {
    stream: StreamId,
    start: [u8; 8],
    pub(super) publication: Publication,
    /// The plan to its one sink, if the program supplied it.
    pub(super) fixed_plan: Option<Vec<Part>>,
    pub(super) session: Session,
    pub(super) sinks: BTreeMap<NodeId, SinkPlan>,
    /// How many layers each plan carries to its end.
    pub(super) layers: BTreeMap<Epoch, u8>,
    pub(super) keys: StreamKeys,
    /// The plans of the last [`Output::Active`](crate::control::Output::Active).
    pub(super) reported: Vec<Given>,
    /// The sinks of the last [`Output::Holding`](crate::control::Output::Holding), of a held stream.
    pub(super) reported_sinks: Vec<Sinkward>,
    /// The nodes of each plan that is not over.
    pub(super) paths: BTreeMap<Epoch, Vec<NodeId>>,
    /// The same plans, each behind its sink.
    pub(super) of_sinks: BTreeSet<(NodeId, Epoch)>,
    /// For a grafted plan, the position on its path of the node where it is grafted.
    pub(super) grafts: BTreeMap<Epoch, usize>,
    /// The sums of its accounts.
    pub(super) book: Book,
    pub(super) stage: Stage,
}

/// The state of the plan for one sink.
#[derive(Clone, Debug)]
pub struct SinkPlan {
    /// The epoch in force; 0 if none is.
    pub epoch: Epoch,
    /// How far it is deployed.
    pub state: PlanState,
    /// Why it failed, as a sentence.
    pub reason: Option<String>,
    /// The plan in force, for display; none for an unplanned stream.
    pub words: Option<Words>,
    /// The plan that is being deployed.
    pub(super) deploying: Option<(Epoch, Option<Words>)>,
    /// The route of the sink's last subscription, reversed: refusals go back on it.
    pub(super) route_back: Vec<NodeId>,
    /// When the sink began to record what arrives (its clock, ms), and the newest plan under which
    /// it reported this. A restarted sink reports another time.
    pub(super) since: Option<(u64, Epoch)>,
    /// Below this sequence, the sink was notified that nothing more arrives.
    pub(super) given_up: Sequence,
    /// Whether it asked for the stream before it was announced, and so begins with its first ADU.
    pub(super) has_waited: bool,
    /// How many plannings were requested; the result of an earlier one is ignored.
    pub(super) plannings: u64,
}

/// Which incarnation of a sink sent a receipt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incarnation {
    /// The known one.
    Same,
    /// One that started after it.
    Next,
    /// An earlier one.
    Former,
}

impl SinkPlan {
    /// Returns the state for a sink that subscribes.
    pub(super) const fn new(has_waited: bool) -> Self {
        Self {
            epoch: Epoch(0),
            state: PlanState::Deploying,
            reason: None,
            words: None,
            deploying: None,
            route_back: Vec::new(),
            since: None,
            given_up: Sequence(0),
            has_waited,
            plannings: 0,
        }
    }

    /// Handles a sink that lacks a plan, as after a restart: its next receipt may be of a new incarnation.
    pub(super) const fn handle_lacking(&mut self) {
        if let Some((_, newest)) = &mut self.since {
            *newest = Epoch(0);
        }
    }

    /// Handles the start time in a receipt for a plan.
    pub(super) fn handle_since(&mut self, since: u64, epoch: Epoch) -> Incarnation {
        let Some((before, newest)) = self.since else {
            self.since = Some((since, epoch));
            return Incarnation::Same;
        };
        // A sink's clock may have been set back between two incarnations. A smaller time is then of a new
        // one only if it comes under a newer plan, or after the sink reported that it lacks its plan.
        let incarnation = match since.cmp(&before) {
            Ordering::Equal => Incarnation::Same,
            Ordering::Less if epoch <= newest => return Incarnation::Former,
            Ordering::Less | Ordering::Greater => Incarnation::Next,
        };
        self.since = Some((since, epoch.max(newest)));
        incarnation
    }
}

/// The state of the plan for a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanState {
    /// Being made, or being installed.
    Deploying,
    /// In force.
    Active,
    /// No plan, or its deployment failed.
    Failed,
}

impl PlanState {
    /// Returns the state's name in the status.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deploying => "deploying",
            Self::Active => "active",
            Self::Failed => "failed",
        }
    }
}

impl Source {
    /// Returns a stream that was just published.
    pub(super) fn new(
        (stream, start): (StreamId, [u8; 8]),
        publication: Publication,
        fixed_plan: Option<Vec<Part>>,
        keys: StreamKeys,
    ) -> Self {
        Self {
            stream,
            start,
            session: session(&publication.needs),
            publication,
            fixed_plan,
            sinks: BTreeMap::new(),
            layers: BTreeMap::new(),
            keys,
            reported: Vec::new(),
            reported_sinks: Vec::new(),
            paths: BTreeMap::new(),
            of_sinks: BTreeSet::new(),
            grafts: BTreeMap::new(),
            book: Book::default(),
            stage: Stage::Open,
        }
    }

    /// Returns the stream's eight bytes on the wire.
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the publication.
    pub const fn publication(&self) -> &Publication {
        &self.publication
    }

    /// Returns whether its publisher is still there.
    pub const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Returns whether the stream stands in this node's record: it is open or drains.
    pub(crate) const fn is_announced(&self) -> bool {
        !matches!(self.stage, Stage::Withdrawn)
    }

    /// Returns whether a sink that asks now is served. Shortly after the publisher is gone new
    /// sinks are served too: what a short-lived program sent is for the sinks that waited for it.
    pub(super) fn accepts(&self, sink: NodeId, now: Instant) -> bool {
        match self.stage {
            Stage::Open => true,
            Stage::Draining(since) => self.sinks.contains_key(&sink) || now < since + OPENING_MAX,
            Stage::Withdrawn => false,
        }
    }

    /// Returns since when it drains, if it does.
    pub(super) const fn drains_since(&self) -> Option<Instant> {
        match self.stage {
            Stage::Draining(since) => Some(since),
            Stage::Open | Stage::Withdrawn => None,
        }
    }

    /// Returns the plans that ADUs are sent under, each with those that it feeds.
    pub fn active(&self) -> &[Given] {
        &self.reported
    }

    /// Returns the subscribed nodes, served or not.
    pub fn sinks(&self) -> impl Iterator<Item = NodeId> {
        self.session.sinks()
    }

    /// Returns the plan state of each sink.
    pub fn plans(&self) -> impl Iterator<Item = (NodeId, &SinkPlan)> {
        self.sinks.iter().map(|(sink, plan)| (*sink, plan))
    }

    /// Returns how many layers of the stream reach the sink of a plan.
    pub fn layers(&self, epoch: Epoch) -> u8 {
        self.layers.get(&epoch).copied().unwrap_or(u8::MAX)
    }

    /// Returns the plan that a plan is fed by at last: itself, or the root of its base.
    pub(crate) fn root(&self, epoch: Epoch) -> Epoch {
        self.session.root(epoch)
    }

    /// Returns the sink of a plan that is not over.
    pub fn sink_of(&self, epoch: Epoch) -> Option<NodeId> {
        self.paths.get(&epoch)?.last().copied()
    }

    /// Returns the plans of a sink that are not over.
    ///
    /// Cost    O(those), with a logarithm
    pub(super) fn plans_of(&self, sink: NodeId) -> impl Iterator<Item = Epoch> {
        let plans = (sink, Epoch(0))..=(sink, Epoch(u32::MAX));
        self.of_sinks.range(plans).map(|(_, epoch)| *epoch)
    }

    /// Handles a plan that is deployed now.
    pub(super) fn handle_deployed(&mut self, epoch: Epoch, path: Vec<NodeId>, layers: u8) {
        // What is known of plans that are over goes once it is as much as is known of the others.
        if self.layers.len() > LAYERS_OUTDATED_MAX + 2 * self.paths.len() {
            let paths = &self.paths;
            self.layers.retain(|known, _| paths.contains_key(known));
        }
        self.layers.insert(epoch, layers);
        self.of_sinks.extend(path.last().map(|sink| (*sink, epoch)));
        self.paths.insert(epoch, path);
        if let Some(graft) = self.session.graft(epoch) {
            self.grafts.insert(epoch, graft.at);
        }
    }

    /// Handles the end of a plan.
    pub(super) fn handle_over(&mut self, epoch: Epoch) {
        if let Some(sink) = self
            .paths
            .remove(&epoch)
            .and_then(|path| path.last().copied())
        {
            self.of_sinks.remove(&(sink, epoch));
        }
        self.grafts.remove(&epoch);
    }

    pub(super) fn is_over(&self) -> bool {
        !self.is_announced() && self.session.poll_timeout().is_never()
    }

    pub(super) fn announced(&self) -> Announced {
        let layers = self.publication.layers.iter();
        Announced {
            id: self.stream,
            start: self.start,
            name: self.publication.name.clone(),
            confidential: self.publication.needs.confidential,
            layers: layers.map(|layer| layer.rate).collect(),
        }
    }

    /// Returns the nodes in the account of a plan: its whole path, or the nodes with a part of it,
    /// behind one node that stands for the source.
    pub(super) fn account_path(&self, epoch: Epoch) -> &[NodeId] {
        let path = self.paths.get(&epoch).map_or(&[][..], Vec::as_slice);
        let start = self.grafts.get(&epoch).copied().unwrap_or(0);
        path.get(start.saturating_sub(1)..).unwrap_or_default()
    }

    /// Returns what became of its ADUs.
    pub(super) fn reading(&self, id: NodeId, accounting: &Accounting) -> Reading {
        let plans = self.paths.keys().filter_map(|epoch| {
            let account = accounting.get((self.stream, *epoch))?;
            Some((account, self.account_path(*epoch)))
        });
        self.book.reading(id, plans)
    }

    /// Returns the plan in force for a sink.
    pub(super) fn in_force(&self, sink: NodeId) -> Option<Epoch> {
        self.session.in_force(sink)
    }

    /// Returns the subscribed nodes, each with the plan in force and its layers.
    pub(super) fn sinkwards(&self) -> Vec<Sinkward> {
        let active: BTreeMap<NodeId, Epoch> = self.session.active().collect();
        let plan = |sink| {
            let epoch = active.get(&sink)?;
            Some((*epoch, self.layers(*epoch)))
        };
        let sinks = self.session.sinks().map(|sink| Sinkward {
            sink,
            plan: plan(sink),
        });
        sinks.collect()
    }

    /// Handles a planning that found the deployed plan again: the reason of an earlier failure no
    /// longer holds.
    pub(super) fn handle_kept(&mut self, sink: NodeId, words: Option<Words>) {
        let in_force = self.in_force(sink);
        let Some(plan) = self.sinks.get_mut(&sink) else {
            return;
        };
        plan.reason = None;
        plan.state = match in_force {
            Some(_) => PlanState::Active,
            None => PlanState::Deploying,
        };
        if self.session.is_settled(sink) {
            plan.words = words;
        }
    }
}

/// Returns how many payload bytes a stream may hold.
pub(super) fn held_bytes(needs: &Needs) -> u64 {
    if needs.is_held() {
        needs.hold_size.as_bytes()
    } else {
        0
    }
}

/// Returns the session for a stream with these needs.
fn session(needs: &Needs) -> Session {
    if needs.is_held() {
        return Session::holding(needs.hold);
    }
    let session = match needs.reliability {
        // On a shared branch, one slow sink would block the others (head-of-line blocking).
        Reliability::Full => Session::default(),
        Reliability::None | Reliability::UntilDeadline => Session::recast(needs.deadline),
        // Repaired ADUs are sent until they arrive, whatever their deadline.
        Reliability::Repaired => Session::recast(Duration::NEVER),
    };
    session.with_absence(needs.waits().unwrap_or_default())
}
