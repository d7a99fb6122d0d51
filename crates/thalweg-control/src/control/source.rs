//! Published streams: their sinks, the plan for each, and its deployment.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::limits::{
    HOLD_TOTAL_BYTES_MAX, RENEWALS_MAX, SINKS_PER_STREAM_MAX, STREAMS_PER_NODE_MAX,
};
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::Body;
use thalweg_base::wire::record::Announced;

use super::admission::no_right;
use super::drain::{Stage, held_bytes};
use super::graft::grafted;
use super::planning::Words;
use super::rekey::StreamKeys;
use super::routed::reversed;
use super::stream_id::stream_id;
use super::{Controller, Keys, Note, Output, Publication, PublishError};
use crate::admission::Rights;
use crate::ledger::{Account, Book};
use crate::session::{self, Given, Part, Session, Sinkward};

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
}

impl Controller {
    /// Publishes a stream and returns its bytes on the wire. `given` is its plan, if it is not to
    /// be planned.
    pub fn publish(
        &mut self,
        publication: Publication,
        given: Option<Vec<Part>>,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<StreamId, PublishError> {
        self.make_room(&publication.needs, now, keys);
        self.check(&publication, given.as_deref())?;
        let name = publication.name.clone();
        let random = |error: super::KeysError| PublishError::Invalid {
            name: name.clone(),
            why: error.to_string(),
        };
        let stream_keys = StreamKeys::draw(keys).map_err(random)?;
        let mut start = [0; 8];
        keys.random(&mut start).map_err(random)?;
        let stream = stream_id(self.id(), &name, start, keys);
        let source = Source {
            stream,
            start,
            session: session(&publication.needs),
            publication,
            fixed_plan: given,
            sinks: BTreeMap::new(),
            layers: BTreeMap::new(),
            keys: stream_keys,
            reported: Vec::new(),
            reported_sinks: Vec::new(),
            paths: BTreeMap::new(),
            grafts: BTreeMap::new(),
            book: Book::default(),
            stage: Stage::Open,
        };
        self.sources.insert(stream, source);
        self.note(Note::Published { stream: name });
        self.announce(now, keys);
        self.settle(now, keys);
        Ok(stream)
    }

    fn check(&self, publication: &Publication, given: Option<&[Part]>) -> Result<(), PublishError> {
        let name = || publication.name.clone();
        if !self.roll.may(self.id(), Rights::PUBLISH) {
            let why = no_right("this node", Rights::PUBLISH);
            return Err(PublishError::Invalid { name: name(), why });
        }
        let mut open = self.sources.values().filter(|source| source.is_open());
        if open.any(|source| source.publication.name == publication.name) {
            return Err(PublishError::Taken(name()));
        }
        let (streams, held) = self.announced_load();
        if streams >= STREAMS_PER_NODE_MAX {
            return Err(PublishError::TooMany(STREAMS_PER_NODE_MAX));
        }
        if held + held_bytes(&publication.needs) > HOLD_TOTAL_BYTES_MAX.as_bytes() {
            let why = format!(
                "this node's held streams may take {HOLD_TOTAL_BYTES_MAX} together: set a smaller `hold_size`"
            );
            return Err(PublishError::Invalid { name: name(), why });
        }
        let fault = publication.fault(self.id(), given);
        fault.map_or(Ok(()), |why| {
            Err(PublishError::Invalid { name: name(), why })
        })
    }

    /// Withdraws a stream.
    pub fn unpublish(&mut self, stream: StreamId, now: Instant, keys: &mut dyn Keys) {
        let announced = self.sources.get_mut(&stream);
        let Some(source) = announced.filter(|source| source.is_announced()) else {
            return;
        };
        source.stage = Stage::Withdrawn;
        source.session.handle_close(now);
        let name = source.publication.name.clone();
        self.note(Note::Unpublished { stream: name });
        self.announce(now, keys);
        self.settle(now, keys);
    }

    /// Returns the streams that this node publishes, ordered by their bytes on the wire.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.values()
    }

    /// Returns the published stream with these bytes.
    pub fn source(&self, stream: StreamId) -> Option<&Source> {
        self.sources.get(&stream)
    }

    pub(super) fn handle_subscribe(
        &mut self,
        sink: NodeId,
        route: &[NodeId],
        (stream, has_waited): (StreamId, bool),
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let route_back = reversed(route);
        if sink != self.id() && !self.roll.may(sink, Rights::SUBSCRIBE) {
            let reason = no_right(&self.name_of(sink), Rights::SUBSCRIBE);
            self.note(Note::SubscribeRefused { sink });
            return self.send_routed(route_back, refusal(stream, &reason), keys);
        }
        let accepts = |source: &&mut Source| source.accepts(sink, now);
        let Some(source) = self.sources.get_mut(&stream).filter(accepts) else {
            let refuse = refusal(stream, "this node does not publish the stream (any more)");
            return self.send_routed(route_back, refuse, keys);
        };
        if !source.sinks.contains_key(&sink) && source.sinks.len() >= SINKS_PER_STREAM_MAX {
            let reason = format!("the stream has {SINKS_PER_STREAM_MAX} sinks already");
            self.note(Note::SinksFull { sink });
            return self.send_routed(route_back, refusal(stream, &reason), keys);
        }
        let waiting = || SinkPlan {
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
        };
        let plan = source.sinks.entry(sink).or_insert_with(waiting);
        plan.route_back.clone_from(&route_back);
        let reason = plan.reason.clone();
        source.session.handle_subscribe(sink, now);
        self.report_sinks(stream);
        // An earlier refusal may have been lost, or the sink has restarted since.
        if let Some(reason) = reason {
            self.send_routed(route_back, refusal(stream, &reason), keys);
        }
    }

    /// Advances every session, and handles its outputs.
    pub(super) fn handle_sources(&mut self, now: Instant, keys: &mut dyn Keys) {
        let streams: Vec<StreamId> = self.sources.keys().copied().collect();
        for stream in streams {
            if let Some(source) = self.sources.get_mut(&stream) {
                let account = |epoch| self.accounts.get((stream, epoch));
                let is_in_flight = |epoch| account(epoch).is_some_and(Account::is_open);
                source.session.handle_timeout(is_in_flight, now);
            }
            while let Some(output) = self
                .sources
                .get_mut(&stream)
                .and_then(|source| source.session.poll_output())
            {
                self.handle_session(stream, output, now, keys);
            }
        }
        self.close_sources();
    }

    /// Handles a sequence above everything that was sent before the plans of the last
    /// [`Output::Active`] took effect at the driver.
    pub fn handle_next(
        &mut self,
        stream: StreamId,
        next: Sequence,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        if let Some(source) = self.sources.get_mut(&stream) {
            source.session.handle_next(next);
            self.settle(now, keys);
        }
    }

    /// Removes the streams that are over.
    fn close_sources(&mut self) {
        let over = self.sources.iter().filter(|(_, source)| source.is_over());
        let over: Vec<StreamId> = over.map(|(stream, _)| *stream).collect();
        for stream in over {
            // The release of its own part may still be queued for this node.
            if self.to_self.iter().any(|(_, body)| is_about(body, stream)) {
                continue;
            }
            let reading = self.reading(stream).unwrap_or_default();
            if let Some(source) = self.sources.remove(&stream) {
                let name = source.publication.name;
                self.outputs.push_back(Output::Closed {
                    stream,
                    name,
                    reading,
                });
            }
        }
    }

    fn handle_session(
        &mut self,
        stream: StreamId,
        output: session::Output,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        match output {
            session::Output::PlanWanted { sink } => self.plan(stream, sink, now, keys),
            session::Output::Prepare {
                epoch,
                route,
                next,
                part,
                base,
            } => {
                if let Some(prepare) = self.prepare((stream, epoch), &route, next, part, keys) {
                    let prepare = grafted(prepare, &route, base);
                    self.send_routed(route, Body::Prepare(prepare), keys);
                }
            }
            session::Output::Renew { epochs, route } => {
                for epochs in epochs.chunks(RENEWALS_MAX) {
                    let epochs = epochs.to_vec();
                    self.send_routed(route.clone(), Body::Renew { stream, epochs }, keys);
                }
            }
            session::Output::KeyWanted => self.rekey(stream, now, keys),
            session::Output::Cast { epoch, route, feed } => {
                let cast = Body::Cast {
                    stream,
                    epoch,
                    feed,
                };
                self.send_routed(route, cast, keys);
            }
            session::Output::Release { epoch, route } => {
                self.send_routed(route, Body::Release { stream, epoch }, keys);
            }
            session::Output::Switched { sink, epoch } => self.switched(stream, sink, epoch),
            session::Output::Resend {
                sink,
                from,
                to,
                under,
            } => {
                self.go_by_receipts(stream, &from);
                self.note(Note::Resending { stream, to });
                self.outputs.push_back(Output::Resend {
                    stream,
                    sink,
                    from,
                    to,
                    under,
                });
            }
            session::Output::Replay { sink, to } => self.replay(stream, sink, to),
            session::Output::Failed {
                sink,
                epoch,
                reason,
                unanswered,
            } => {
                self.note(Note::DeploymentFailed {
                    sink,
                    epoch,
                    reason: reason.clone(),
                });
                self.suspect_deployment((stream, epoch), &unanswered, now);
                self.fail(stream, sink, &reason, keys);
            }
            session::Output::Gone { sink } => self.gone(stream, sink),
        }
    }

    fn replay(&mut self, stream: StreamId, sink: NodeId, to: Epoch) {
        let source = self.sources.get(&stream);
        let plan = source.and_then(|source| source.sinks.get(&sink));
        let has_waited = plan.is_some_and(|plan| plan.has_waited);
        self.outputs.push_back(Output::Replay {
            stream,
            sink,
            to,
            has_waited,
        });
    }

    fn gone(&mut self, stream: StreamId, sink: NodeId) {
        self.note(Note::SinkGone { sink });
        if let Some(source) = self.sources.get_mut(&stream) {
            source.sinks.remove(&sink);
        }
        self.report_active(stream);
        // What is held for the sink is dropped and counted by the driver, on `Holding`.
        let source = self.sources.get(&stream);
        if source.is_none_or(|source| !source.publication.needs.is_held()) {
            self.acknowledge_all(stream, sink);
        }
    }

    fn switched(&mut self, stream: StreamId, sink: NodeId, epoch: Epoch) {
        self.note(Note::PlanInForce { sink, epoch });
        let source = self.sources.get_mut(&stream);
        if let Some(plan) = source.and_then(|source| source.sinks.get_mut(&sink)) {
            plan.epoch = epoch;
            plan.state = PlanState::Active;
            plan.reason = None;
            if let Some((_, words)) = plan.deploying.take_if(|(which, _)| *which == epoch) {
                plan.words = words;
            }
        }
        self.report_active(stream);
    }

    /// Records why a sink is not served, and reports it to the sink if it is news.
    pub(super) fn fail(
        &mut self,
        stream: StreamId,
        sink: NodeId,
        reason: &str,
        keys: &mut dyn Keys,
    ) {
        self.report_active(stream);
        let source = self.sources.get_mut(&stream);
        let Some(plan) = source.and_then(|source| source.sinks.get_mut(&sink)) else {
            return;
        };
        if plan.reason.as_deref() == Some(reason) {
            return;
        }
        plan.reason = Some(reason.into());
        plan.state = PlanState::Failed;
        let route_back = plan.route_back.clone();
        self.send_routed(route_back, refusal(stream, reason), keys);
    }

    /// Reports the plans in force to the driver, if they changed.
    pub(super) fn report_active(&mut self, stream: StreamId) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let given = source.session.given();
        if given != source.reported {
            source.reported.clone_from(&given);
            self.outputs.push_back(Output::Active { stream, given });
        }
        self.report_sinks(stream);
    }

    /// Reports the sinks of a held stream and their plans in force, if they changed.
    fn report_sinks(&mut self, stream: StreamId) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        if !source.publication.needs.is_held() {
            return;
        }
        let active: BTreeMap<NodeId, Epoch> = source.session.active().collect();
        let plan = |sink| {
            active
                .get(&sink)
                .map(|epoch| (*epoch, source.layers(*epoch)))
        };
        let sinks = source.session.sinks();
        let sinks: Vec<Sinkward> = sinks
            .map(|sink| Sinkward {
                sink,
                plan: plan(sink),
            })
            .collect();
        if sinks != source.reported_sinks {
            source.reported_sinks.clone_from(&sinks);
            self.outputs.push_back(Output::Holding { stream, sinks });
        }
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

/// Returns whether a body releases a plan of this stream.
fn is_about(body: &Body, stream: StreamId) -> bool {
    matches!(body, Body::Release { stream: of, .. } if *of == stream)
}

/// Returns the answer to a subscription that cannot be served.
fn refusal(stream: StreamId, reason: &str) -> Body {
    Body::Refuse {
        stream,
        epoch: Epoch(0),
        reason: reason.into(),
    }
}
