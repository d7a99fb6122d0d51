//! The streams that this node publishes: who wants them, by which plan, and its deployment.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::admission::no_right;
use super::continuity::{Avoid, layers};
use super::map::Map;
use super::neighbour::stream_id;
use super::part::needs_key;
use super::planning::{Planning, Solved, Words};
use super::routed::reversed;
use super::{Controller, KeyContent, KeyContext, Keys, Note, Output, Publication, PublishError};
use crate::admission::Rights;
use crate::id::{Epoch, NodeId, StreamId};
use crate::ledger::Book;
use crate::limits::STREAMS_PER_NODE_MAX;
use crate::planner::{Planner, Policy};
use crate::session::{self, Part, Session};
use crate::time::Instant;
use crate::wire::control::{Body, Prepare};
use crate::wire::record::Announced;

/// A stream that this node publishes, or has published a moment ago.
#[derive(Debug)]
pub struct Source {
    stream: StreamId,
    start: [u8; 8],
    publication: Publication,
    /// The way to the one sink that is served, if its program has given one.
    given: Option<Vec<Part>>,
    pub(super) session: Session,
    pub(super) sinks: BTreeMap<NodeId, SinkPlan>,
    /// How many layers each plan carries to its end.
    layers: BTreeMap<Epoch, u8>,
    key: KeyContent,
    /// The plans in force, as the driver knows them.
    told: Vec<Epoch>,
    /// The nodes of the plans that are not over.
    pub(super) paths: BTreeMap<Epoch, Vec<NodeId>>,
    /// What became of its ADUs.
    pub(super) book: Book,
    is_open: bool,
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
    deploying: Option<(Epoch, Option<Words>)>,
    /// The way on which the sink asked, reversed: on it the sink is told why it gets nothing.
    way: Vec<NodeId>,
    /// When the sink began to note what comes; a restarted one has a larger number.
    pub(super) since: Option<u64>,
    /// How many plannings were asked for; the result of an earlier one is not taken.
    plannings: u64,
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
        self.is_open
    }

    /// Returns the plans that ADUs are to be sent under, one for each sink that is served.
    pub fn active(&self) -> &[Epoch] {
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

    pub(super) fn is_over(&self) -> bool {
        !self.is_open && self.session.poll_timeout().is_never()
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
        self.check(&publication, given.as_deref())?;
        let name = publication.name.clone();
        let random = |error: super::KeysError| PublishError::Invalid {
            name: name.clone(),
            why: error.to_string(),
        };
        let mut key = [0; 32];
        let mut start = [0; 8];
        keys.random(&mut key).map_err(random)?;
        keys.random(&mut start).map_err(random)?;
        let stream = stream_id(self.id(), &name, start, keys);
        let source = Source {
            stream,
            start,
            publication,
            given,
            session: Session::default(),
            sinks: BTreeMap::new(),
            layers: BTreeMap::new(),
            key: KeyContent { key_epoch: 1, key },
            told: Vec::new(),
            paths: BTreeMap::new(),
            book: Book::default(),
            is_open: true,
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
        let open = || self.sources.values().filter(|source| source.is_open);
        if open().any(|source| source.publication.name == publication.name) {
            return Err(PublishError::Taken(name()));
        }
        if open().count() >= STREAMS_PER_NODE_MAX {
            return Err(PublishError::TooMany(STREAMS_PER_NODE_MAX));
        }
        let fault = publication.fault(self.id(), given);
        fault.map_or(Ok(()), |why| {
            Err(PublishError::Invalid { name: name(), why })
        })
    }

    /// Withdraws a stream.
    pub fn unpublish(&mut self, stream: StreamId, now: Instant, keys: &mut dyn Keys) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        source.is_open = false;
        let sinks: Vec<NodeId> = source.session.sinks().collect();
        for sink in sinks {
            source.session.handle_unsubscribe(sink, now);
        }
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
        stream: StreamId,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let way = reversed(route);
        if sink != self.id() && !self.roll.may(sink, Rights::SUBSCRIBE) {
            let reason = no_right(&self.name_of(sink), Rights::SUBSCRIBE);
            self.note(Note::SubscribeRefused { sink });
            return self.send_routed(way, refusal(stream, &reason), keys);
        }
        let Some(source) = self.sources.get_mut(&stream).filter(|s| s.is_open) else {
            let refuse = refusal(stream, "this node does not publish the stream (any more)");
            return self.send_routed(way, refuse, keys);
        };
        let waiting = || SinkPlan {
            epoch: Epoch(0),
            state: PlanState::Deploying,
            reason: None,
            words: None,
            deploying: None,
            way: Vec::new(),
            since: None,
            plannings: 0,
        };
        source.sinks.entry(sink).or_insert_with(waiting).way = way;
        source.session.handle_subscribe(sink, now);
    }

    /// Takes in the result of an [`Output::Plan`].
    pub fn handle_solved(&mut self, solved: Solved, now: Instant, keys: &mut dyn Keys) {
        let Planning {
            stream,
            sink,
            number,
            ..
        } = solved.planning;
        let plan = self.sources.get(&stream).and_then(|s| s.sinks.get(&sink));
        if plan.is_none_or(|plan| plan.plannings != number) {
            return;
        }
        let avoid = solved.planning.avoid;
        let drafted = solved
            .into_parts()
            .map(|(parts, words)| (parts, Some(words)));
        // Who keeps away from what may be well finds nothing sooner than it must.
        if let (Err(_), Some(less)) = (&drafted, avoid.less()) {
            self.plan_avoiding(stream, sink, less, now, keys);
            return self.settle(now, keys);
        }
        self.handle_draft(stream, sink, drafted, now, keys);
        self.settle(now, keys);
    }

    /// Gives every session its time, and does what the sessions ask for.
    pub(super) fn handle_sources(&mut self, now: Instant, keys: &mut dyn Keys) {
        let streams: Vec<StreamId> = self.sources.keys().copied().collect();
        for stream in streams {
            if let Some(source) = self.sources.get_mut(&stream) {
                source.session.handle_timeout(now);
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
            } => {
                if let Some(prepare) = self.prepare(stream, epoch, &route, next, part, keys) {
                    self.send_routed(route, Body::Prepare(prepare), keys);
                }
            }
            session::Output::Release { epoch, route } => {
                self.send_routed(route, Body::Release { stream, epoch }, keys);
            }
            session::Output::Switched { sink, epoch } => self.switched(stream, sink, epoch),
            session::Output::Resend { from, to, .. } => {
                self.note(Note::Resending { stream, to });
                self.outputs.push_back(Output::Resend { stream, from, to });
            }
            session::Output::Failed {
                sink,
                epoch,
                reason,
            } => {
                self.note(Note::DeploymentFailed {
                    sink,
                    epoch,
                    reason: reason.clone(),
                });
                self.fail(stream, sink, &reason, keys);
            }
            session::Output::Gone { sink } => {
                self.note(Note::SinkGone { sink });
                if let Some(source) = self.sources.get_mut(&stream) {
                    source.sinks.remove(&sink);
                }
                self.tell_active(stream);
                self.acknowledge_all(stream, sink);
            }
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

    /// Plans for a sink, or has it planned, by a way on which all answer if there is one.
    fn plan(&mut self, stream: StreamId, sink: NodeId, now: Instant, keys: &mut dyn Keys) {
        let avoid = self.avoid_most(sink, now);
        self.plan_avoiding(stream, sink, avoid, now, keys);
    }

    fn plan_avoiding(
        &mut self,
        stream: StreamId,
        sink: NodeId,
        avoid: Avoid,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let Some(plan) = source.sinks.get_mut(&sink) else {
            return;
        };
        plan.plannings += 1;
        let number = plan.plannings;
        let Some(source) = self.sources.get(&stream) else {
            return;
        };
        let unplanned = match (&source.given, source.publication.planner) {
            (Some(parts), _) => self.given(parts, sink),
            (None, Some(planner)) if sink != self.id() => {
                match Map::new(self, &source.publication, sink, avoid, now) {
                    Ok(map) => {
                        let planning = Planning {
                            stream,
                            sink,
                            number,
                            map: map.into(),
                            policy: policy(planner),
                            avoid,
                        };
                        return self.outputs.push_back(Output::Plan(planning));
                    }
                    Err(reason) => Err(reason),
                }
            }
            (None, _) => self.shortest(sink, avoid, now),
        };
        let drafted = unplanned.map(|parts| (parts, None));
        self.handle_draft(stream, sink, drafted, now, keys);
    }

    /// Gives the parts of a plan to the session, or remembers why there are none.
    fn handle_draft(
        &mut self,
        stream: StreamId,
        sink: NodeId,
        drafted: Result<(Vec<Part>, Option<Words>), String>,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        match drafted {
            Ok((parts, words)) => {
                let path = parts.iter().map(|part| part.node).collect();
                let layers = layers(&parts);
                let epoch = source.session.handle_plan(sink, parts, now);
                if let Some(epoch) = epoch {
                    source
                        .layers
                        .retain(|known, _| source.paths.contains_key(known));
                    source.layers.insert(epoch, layers);
                    source.paths.insert(epoch, path);
                }
                if let (Some(epoch), Some(plan)) = (epoch, source.sinks.get_mut(&sink)) {
                    plan.deploying = Some((epoch, words));
                    if plan.state != PlanState::Active {
                        plan.state = PlanState::Deploying;
                    }
                }
            }
            Err(reason) => {
                source.session.handle_no_plan(sink, now);
                self.fail(stream, sink, &reason, keys);
                self.note(Note::NoPlan { sink, reason });
            }
        }
    }

    /// Remembers why a sink is not served, and tells it so when that is new.
    fn fail(&mut self, stream: StreamId, sink: NodeId, reason: &str, keys: &mut dyn Keys) {
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
    fn tell_active(&mut self, stream: StreamId) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let epochs: Vec<Epoch> = source.session.active().map(|(_, epoch)| epoch).collect();
        if epochs != source.told {
            source.told.clone_from(&epochs);
            self.outputs.push_back(Output::Active { stream, epochs });
        }
    }

    /// Returns the way that the program has given; it leads to one sink.
    fn given(&self, parts: &[Part], sink: NodeId) -> Result<Vec<Part>, String> {
        if parts.last().map(|part| part.node) != Some(sink) {
            let sink = self.name_of(sink);
            return Err(format!("the plan that was given does not end at {sink}"));
        }
        Ok(parts.to_vec())
    }

    /// Returns the unplanned way: the fewest hops, nothing on the way.
    fn shortest(&self, sink: NodeId, avoid: Avoid, now: Instant) -> Result<Vec<Part>, String> {
        let path = self.way_avoiding(sink, avoid, now);
        let path = path.ok_or_else(|| format!("no way to {}", self.name_of(sink)))?;
        let part = |node| Part {
            node,
            adapters: Vec::new(),
            plaintext: true,
        };
        Ok(path.into_iter().map(part).collect())
    }

    /// Returns the message that installs a part, with the stream's key if the part needs it.
    fn prepare(
        &mut self,
        stream: StreamId,
        epoch: Epoch,
        route: &[NodeId],
        next: Option<NodeId>,
        part: Part,
        keys: &mut dyn Keys,
    ) -> Option<Prepare> {
        let node = part.node;
        let envelope = self.envelope(stream, &part, keys);
        let source = self.sources.get(&stream)?;
        let envelope = match envelope.transpose() {
            Ok(envelope) => envelope,
            Err(error) => {
                self.outputs
                    .push_back(Output::Note(Note::KeyNotSealed { node, error }));
                None
            }
        };
        Some(Prepare {
            name: source.publication.name.clone(),
            stream,
            epoch,
            previous: route.iter().rev().nth(1).copied().unwrap_or(self.id()),
            next,
            adapters: part.adapters,
            reliability: source.publication.needs.reliability,
            order: source.publication.needs.order,
            weight: source.publication.needs.weight,
            plaintext: part.plaintext,
            envelope,
        })
    }

    /// Returns the stream's key, sealed for the node of a part that needs it.
    fn envelope(
        &self,
        stream: StreamId,
        part: &Part,
        keys: &mut dyn Keys,
    ) -> Option<Result<Vec<u8>, super::KeysError>> {
        let source = self.sources.get(&stream)?;
        let wanted = needs_key(&part.adapters).then_some(part.node)?;
        let record = self.directory.record(wanted)?;
        let context = KeyContext {
            source: self.id(),
            stream,
        };
        Some(keys.seal_key(&source.key, &record.box_key, context))
    }
}

/// Returns whether a body forgets a plan of this stream.
fn is_about(body: &Body, stream: StreamId) -> bool {
    matches!(body, Body::Release { stream: of, .. } if *of == stream)
}

fn policy(planner: Planner) -> Policy {
    Policy {
        planner,
        ..Policy::default()
    }
}

/// Returns the answer to a subscription that cannot be served.
fn refusal(stream: StreamId, reason: &str) -> Body {
    Body::Refuse {
        stream,
        epoch: Epoch(0),
        reason: reason.into(),
    }
}
