//! Serving: streams are published and withdrawn, sinks subscribe, and sessions have their plans deployed.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::limits::{
    HOLD_TOTAL_BYTES_MAX, RENEWALS_MAX, SINKS_PER_STREAM_MAX, STREAMS_PER_NODE_MAX,
};
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::Body;

use super::drain::{Stage, held_bytes};
use super::{PlanState, SinkPlan, Source};
use crate::admission::Rights;
use crate::control::admission::no_right;
use crate::control::graft::grafted;
use crate::control::rekey::StreamKeys;
use crate::control::routed::reversed;
use crate::control::stream_id::stream_id;
use crate::control::{Controller, Keys, KeysError, Note, Output, Publication, PublishError};
use crate::ledger::{Account, Book};
use crate::session::{self, Part, Session, Sinkward};

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
        let random = |error: KeysError| PublishError::Invalid {
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

    pub(in crate::control) fn handle_subscribe(
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
    pub(in crate::control) fn handle_sources(&mut self, now: Instant, keys: &mut dyn Keys) {
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
    pub(in crate::control) fn fail(
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
    pub(in crate::control) fn report_active(&mut self, stream: StreamId) {
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
