//! The streams that this node publishes: who wants them, by which plan, and its deployment.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cmp::Ordering;

use super::admission::no_right;
use super::drain::{Stage, held_bytes};
use super::graft::grafted;
use super::neighbour::stream_id;
use super::planning::Words;
use super::rekey::StreamKeys;
use super::routed::reversed;
use super::{Controller, Keys, Note, Output, Publication, PublishError};
use crate::admission::Rights;
use crate::id::{Epoch, NodeId, Sequence, StreamId};
use crate::ledger::{Account, Book};
use crate::limits::{
    HOLD_TOTAL_BYTES_MAX, RENEWALS_MAX, SINKS_PER_STREAM_MAX, STREAMS_PER_NODE_MAX,
};
use crate::needs::{Needs, Reliability};
use crate::session::{self, Given, Part, Session, Sinkward};
use crate::time::{Duration, Instant};
use crate::wire::control::Body;
use crate::wire::record::Announced;

/// A stream that this node publishes, or has published a moment ago.
#[derive(Debug)]
pub struct Source {
    stream: StreamId,
    start: [u8; 8],
    pub(super) publication: Publication,
    /// The way to the one sink that is served, if its program has given one.
    pub(super) given: Option<Vec<Part>>,
    pub(super) session: Session,
    pub(super) sinks: BTreeMap<NodeId, SinkPlan>,
    /// How many layers each plan carries to its end.
    pub(super) layers: BTreeMap<Epoch, u8>,
    pub(super) keys: StreamKeys,
    /// The plans that ADUs are given under, as the driver knows them.
    told: Vec<Given>,
    /// The sinks of a stream that is held, as the driver knows them.
    told_sinks: Vec<Sinkward>,
    /// The nodes of the plans that are not over.
    pub(super) paths: BTreeMap<Epoch, Vec<NodeId>>,
    /// The place on its path of the node where a plan is grafted, if it is.
    pub(super) grafts: BTreeMap<Epoch, usize>,
    /// What became of its ADUs.
    pub(super) book: Book,
    pub(super) stage: Stage,
}

/// What is known of the plan for one sink.
#[derive(Clone, Debug)]
pub struct SinkPlan {
    /// The plan's number; 0 while none is in force.
    pub epoch: Epoch,
    /// How far it is.
    pub state: PlanState,
    /// Why it failed, as a sentence.
    pub reason: Option<String>,
    /// The plan in force, for people; none for an unplanned stream.
    pub words: Option<Words>,
    /// The plan that is being deployed.
    pub(super) deploying: Option<(Epoch, Option<Words>)>,
    /// The way on which the sink asked, reversed: on it the sink is told why it gets nothing.
    pub(super) way: Vec<NodeId>,
    /// When the sink began to note what comes, by its clock, and the newest plan under which it has said so; one that was
    /// restarted says another time.
    pub(super) since: Option<(u64, Epoch)>,
    /// Below which sequence it was told that nothing more comes.
    pub(super) given_up: Sequence,
    /// Whether it asked for the stream before that was announced, and so begins with its first ADU.
    has_waited: bool,
    /// How many plannings were asked for; the result of an earlier one is not taken.
    pub(super) plannings: u64,
}

/// Of which life of a sink a receipt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Of the one that is known.
    Same,
    /// Of one that began since.
    Next,
    /// Of one that is over.
    Former,
}

impl SinkPlan {
    /// The sink lacks a plan, as when it was restarted: what it says from now on may be of another life.
    pub(super) const fn handle_lacking(&mut self) {
        if let Some((_, newest)) = &mut self.since {
            *newest = Epoch(0);
        }
    }

    /// Takes in since when a sink notes what comes, as it says under a plan. Its clock may have been set back between two lives;
    /// then it says so under a newer plan, or has said that it lacks the one that it had.
    pub(super) fn handle_since(&mut self, since: u64, epoch: Epoch) -> Life {
        let Some((before, newest)) = self.since else {
            self.since = Some((since, epoch));
            return Life::Same;
        };
        let life = match since.cmp(&before) {
            Ordering::Equal => Life::Same,
            Ordering::Less if epoch <= newest => return Life::Former,
            Ordering::Less | Ordering::Greater => Life::Next,
        };
        self.since = Some((since, epoch.max(newest)));
        life
    }
}

/// How far the plan for a sink is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanState {
    /// It is made, or its nodes install it.
    Deploying,
    /// ADUs travel under it.
    Active,
    /// There is none, or its deployment failed.
    Failed,
}

impl PlanState {
    /// Returns the state as the status writes it.
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

    /// Returns what was published.
    pub const fn publication(&self) -> &Publication {
        &self.publication
    }

    /// Returns whether its publisher is still there.
    pub const fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open)
    }

    /// Returns the plans that ADUs are to be sent under, each with those that bring them to sinks.
    pub fn active(&self) -> &[Given] {
        &self.told
    }

    /// Returns the subscribed nodes, served or not.
    pub fn sinks(&self) -> impl Iterator<Item = NodeId> {
        self.session.sinks()
    }

    /// Returns what is known of the plan for each sink.
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
    /// Publishes a stream and returns its bytes on the wire; `given` is its plan, if it is not to be planned.
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
            given,
            sinks: BTreeMap::new(),
            layers: BTreeMap::new(),
            keys: stream_keys,
            told: Vec::new(),
            told_sinks: Vec::new(),
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
                "it is to be held, and this node's streams may hold {HOLD_TOTAL_BYTES_MAX} together: give it a smaller `hold_size`"
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

    /// Returns the published stream of these bytes.
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
        let way = reversed(route);
        if sink != self.id() && !self.roll.may(sink, Rights::SUBSCRIBE) {
            let reason = no_right(&self.name_of(sink), Rights::SUBSCRIBE);
            self.note(Note::SubscribeRefused { sink });
            return self.send_routed(way, refusal(stream, &reason), keys);
        }
        let takes = |source: &&mut Source| source.takes(sink, now);
        let Some(source) = self.sources.get_mut(&stream).filter(takes) else {
            let refuse = refusal(stream, "this node does not publish the stream (any more)");
            return self.send_routed(way, refuse, keys);
        };
        if !source.sinks.contains_key(&sink) && source.sinks.len() >= SINKS_PER_STREAM_MAX {
            let reason = format!("the stream has {SINKS_PER_STREAM_MAX} sinks already");
            self.note(Note::SinksFull { sink });
            return self.send_routed(way, refusal(stream, &reason), keys);
        }
        let waiting = || SinkPlan {
            epoch: Epoch(0),
            state: PlanState::Deploying,
            reason: None,
            words: None,
            deploying: None,
            way: Vec::new(),
            since: None,
            given_up: Sequence(0),
            has_waited,
            plannings: 0,
        };
        let plan = source.sinks.entry(sink).or_insert_with(waiting);
        plan.way.clone_from(&way);
        let reason = plan.reason.clone();
        source.session.handle_subscribe(sink, now);
        self.tell_sinks(stream);
        // Whoever asks has not heard it if it was lost on its way, or the sink has been restarted.
        if let Some(reason) = reason {
            self.send_routed(way, refusal(stream, &reason), keys);
        }
    }

    /// Gives every session its time, and does what the sessions ask for.
    pub(super) fn handle_sources(&mut self, now: Instant, keys: &mut dyn Keys) {
        let streams: Vec<StreamId> = self.sources.keys().copied().collect();
        for stream in streams {
            if let Some(source) = self.sources.get_mut(&stream) {
                let account = |epoch| self.accounts.get((stream, epoch));
                let is_under_way = |epoch| account(epoch).is_some_and(Account::is_open);
                source.session.handle_timeout(is_under_way, now);
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

    /// Takes in a sequence that no ADU has reached that was given before the plans in force, as [`Output::Active`] says them, were
    /// the driver's.
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

    /// Forgets the streams that are over.
    fn close_sources(&mut self) {
        let over = self.sources.iter().filter(|(_, source)| source.is_over());
        let over: Vec<StreamId> = over.map(|(stream, _)| *stream).collect();
        for stream in over {
            // The release of its own part may still be under way to this node.
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
                self.doubt_deployment((stream, epoch), &unanswered, now);
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
        self.tell_active(stream);
        // What is held for it is given up, and counted, where that is told.
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
        self.tell_active(stream);
    }

    /// Remembers why a sink is not served, and tells it so when that is new.
    pub(super) fn fail(
        &mut self,
        stream: StreamId,
        sink: NodeId,
        reason: &str,
        keys: &mut dyn Keys,
    ) {
        self.tell_active(stream);
        let source = self.sources.get_mut(&stream);
        let Some(plan) = source.and_then(|source| source.sinks.get_mut(&sink)) else {
            return;
        };
        if plan.reason.as_deref() == Some(reason) {
            return;
        }
        plan.reason = Some(reason.into());
        plan.state = PlanState::Failed;
        let way = plan.way.clone();
        self.send_routed(way, refusal(stream, reason), keys);
    }

    /// Says which plans are in force, if that has changed.
    pub(super) fn tell_active(&mut self, stream: StreamId) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let given = source.session.given();
        if given != source.told {
            source.told.clone_from(&given);
            self.outputs.push_back(Output::Active { stream, given });
        }
        self.tell_sinks(stream);
    }

    /// Says of a stream that is held who its sinks are and which of them have a plan in force, if that has changed.
    fn tell_sinks(&mut self, stream: StreamId) {
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
        if sinks != source.told_sinks {
            source.told_sinks.clone_from(&sinks);
            self.outputs.push_back(Output::Holding { stream, sinks });
        }
    }
}

/// Returns the session of a stream with these needs.
fn session(needs: &Needs) -> Session {
    if needs.is_held() {
        return Session::holding(needs.hold);
    }
    let session = match needs.reliability {
        // A branch that is slow would hold the others.
        Reliability::Full => Session::default(),
        Reliability::None | Reliability::UntilDeadline => Session::recast(needs.deadline),
        // It is sent until it arrives, whatever its deadline.
        Reliability::Repaired => Session::recast(Duration::NEVER),
    };
    session.with_absence(needs.waits().unwrap_or_default())
}

/// Returns whether a body forgets a plan of this stream.
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
