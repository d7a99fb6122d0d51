//! Published streams: what this node knows of each, of its sinks, and of the plan for each.

mod drain;
mod serve;

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;

use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::wire::record::Announced;

use super::Publication;
use super::planning::Words;
use super::rekey::StreamKeys;
use crate::ledger::Book;
use crate::session::{Given, Part, Session, Sinkward};
use drain::Stage;

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
    /// The plans of the last [`Output::Active`].
    reported: Vec<Given>,
    /// The sinks of the last [`Output::Holding`], of a held stream.
    reported_sinks: Vec<Sinkward>,
    /// The nodes of each plan that is not over.
    pub(super) paths: BTreeMap<Epoch, Vec<NodeId>>,
    /// For a grafted plan, the position on its path of the node where it is grafted.
    pub(super) grafts: BTreeMap<Epoch, usize>,
    /// The sums of its accounts.
    pub(super) book: Book,
    stage: Stage,
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
    has_waited: bool,
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

    /// Returns the sink of a plan that is not over.
    pub fn sink_of(&self, epoch: Epoch) -> Option<NodeId> {
        self.paths.get(&epoch)?.last().copied()
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

    /// Handles a planning that found the deployed plan again: the reason of an earlier failure no
    /// longer holds.
    pub(super) fn handle_kept(&mut self, sink: NodeId, words: Option<Words>) {
        let mut active = self.session.active();
        let in_force = active.find(|(node, _)| *node == sink);
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
