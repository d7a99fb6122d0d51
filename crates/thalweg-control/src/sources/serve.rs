//! Serving: sinks subscribe and report what they have, and what a session asks for is done.
//!
//! *The idea.* A session decides, and emits requests. Each becomes a planning, a message along the
//! route of a part, or a report to the driver of which plans are in force.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::limits::{RENEWALS_MAX, SINKS_PER_STREAM_MAX};
use thalweg_base::needs::Reliability;
use thalweg_base::seen::Held;
use thalweg_base::wire::control::Body;
use thalweg_base::wire::receipt::Receipt;

use super::source::Incarnation;
use super::{PlanState, SinkPlan, Source, Sources, View};
use crate::accounting::Accounting;
use crate::admission::Rights;
use crate::effect::{Ask, Note, Output, PlanKey, Turn, reversed};
use crate::facts::{Facts, Keys, no_right};
use crate::ledger::Account;
use crate::session;

impl Sources {
    /// Handles a subscription to a stream, or its renewal.
    pub(crate) fn handle_subscribe(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        (sink, route): (NodeId, &[NodeId]),
        (stream, has_waited): (StreamId, bool),
    ) {
        let route_back = reversed(route);
        if sink != facts.id() && !facts.may(sink, Rights::SUBSCRIBE) {
            let reason = no_right(&facts.name_of(sink), Rights::SUBSCRIBE);
            turn.note(Note::SubscribeRefused { sink });
            return turn.route(route_back, refusal(stream, &reason));
        }
        let now = turn.now;
        let accepts = |source: &&mut Source| source.accepts(sink, now);
        let Some(source) = self.sources.get_mut(&stream).filter(accepts) else {
            let refuse = refusal(stream, "this node does not publish the stream (any more)");
            return turn.route(route_back, refuse);
        };
        if !source.sinks.contains_key(&sink) && source.sinks.len() >= SINKS_PER_STREAM_MAX {
            let reason = format!("the stream has {SINKS_PER_STREAM_MAX} sinks already");
            turn.note(Note::SinksFull { sink });
            return turn.route(route_back, refusal(stream, &reason));
        }
        let plan = source.sinks.entry(sink);
        let plan = plan.or_insert_with(|| SinkPlan::new(has_waited));
        plan.route_back.clone_from(&route_back);
        let reason = plan.reason.clone();
        source.session.handle_subscribe(sink, now);
        report_sinks(turn, source);
        // An earlier refusal may have been lost, or the sink has restarted since.
        if let Some(reason) = reason {
            turn.route(route_back, refusal(stream, &reason));
        }
    }

    /// Advances the session of a stream.
    pub(crate) fn handle_timeout(
        &mut self,
        turn: &Turn<'_>,
        accounting: &Accounting,
        stream: StreamId,
    ) {
        if let Some(source) = self.sources.get_mut(&stream) {
            let account = |epoch| accounting.get((stream, epoch));
            let is_in_flight = |epoch| account(epoch).is_some_and(Account::is_open);
            source.session.handle_timeout(is_in_flight, turn.now);
        }
    }

    /// Returns what the session of a stream asks for next.
    pub(crate) fn poll_session(&mut self, stream: StreamId) -> Option<session::Output> {
        self.sources.get_mut(&stream)?.session.poll_output()
    }

    /// Does what a session asks for.
    pub(crate) fn handle_session(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        stream: StreamId,
        output: session::Output,
        keys: &mut dyn Keys,
    ) {
        match output {
            session::Output::PlanWanted { sink } => self.plan(turn, view, (stream, sink)),
            session::Output::Prepare {
                epoch,
                route,
                next,
                part,
                base,
            } => {
                let plan = (stream, epoch);
                let prepare = self.prepare(turn, view.facts, plan, &route, (next, part), keys);
                if let Some(prepare) = prepare {
                    let prepare = super::deploy::grafted(prepare, &route, base);
                    turn.route(route, Body::Prepare(prepare));
                }
            }
            session::Output::Renew { epochs, route } => {
                for epochs in epochs.chunks(RENEWALS_MAX) {
                    let epochs = epochs.to_vec();
                    turn.route(route.clone(), Body::Renew { stream, epochs });
                }
            }
            session::Output::KeyWanted => self.rekey(turn, stream, keys),
            session::Output::Cast { epoch, route, feed } => {
                let cast = Body::Cast {
                    stream,
                    epoch,
                    feed,
                };
                turn.route(route, cast);
            }
            session::Output::Release { epoch, route } => {
                turn.route(route, Body::Release { stream, epoch });
            }
            session::Output::Switched { sink, epoch } => self.switched(turn, stream, sink, epoch),
            session::Output::Resend {
                sink,
                from,
                to,
                under,
            } => resend(turn, (stream, sink), from, [to, under]),
            session::Output::Replay { sink, to } => self.replay(turn, stream, sink, to),
            session::Output::Failed {
                sink,
                epoch,
                reason,
                unanswered,
            } => self.fail(turn, ((stream, epoch), sink), reason, unanswered),
            session::Output::Gone { sink } => self.gone(turn, stream, sink),
        }
    }

    fn fail(
        &self,
        turn: &mut Turn<'_>,
        (plan, sink): (PlanKey, NodeId),
        reason: String,
        unanswered: Vec<NodeId>,
    ) {
        turn.note(Note::DeploymentFailed {
            sink,
            epoch: plan.1,
            reason: reason.clone(),
        });
        turn.ask(Ask::Unanswered {
            path: self.path(plan).unwrap_or_default().to_vec(),
            silent: unanswered,
        });
        turn.ask(Ask::Failed {
            stream: plan.0,
            sink,
            reason,
        });
    }

    fn replay(&self, turn: &mut Turn<'_>, stream: StreamId, sink: NodeId, to: Epoch) {
        let plan = self.get(stream).and_then(|source| source.sinks.get(&sink));
        let has_waited = plan.is_some_and(|plan| plan.has_waited);
        turn.output(Output::Replay {
            stream,
            sink,
            to,
            has_waited,
        });
    }

    fn gone(&mut self, turn: &mut Turn<'_>, stream: StreamId, sink: NodeId) {
        turn.note(Note::SinkGone { sink });
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        source.sinks.remove(&sink);
        report_active(turn, source);
        // What is held for the sink is dropped and counted by the driver, on `Holding`.
        if !source.publication.needs.is_held() {
            acknowledge(turn, source, sink, Held::everything());
        }
    }

    fn switched(&mut self, turn: &mut Turn<'_>, stream: StreamId, sink: NodeId, epoch: Epoch) {
        turn.note(Note::PlanInForce { sink, epoch });
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        if let Some(plan) = source.sinks.get_mut(&sink) {
            plan.epoch = epoch;
            plan.state = PlanState::Active;
            plan.reason = None;
            if let Some((_, words)) = plan.deploying.take_if(|(which, _)| *which == epoch) {
                plan.words = words;
            }
        }
        report_active(turn, source);
    }

    /// Draws a new key for a stream. If the system gives no random bits, the session asks again later.
    fn rekey(&mut self, turn: &mut Turn<'_>, stream: StreamId, keys: &mut dyn Keys) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let Ok(key) = super::keys::secret(keys) else {
            return;
        };
        let first = source.session.handle_key(turn.now);
        let oldest = source.paths.keys().next().copied().unwrap_or(first);
        source.keys.change(key, first, oldest);
        turn.note(Note::Rekeyed {
            stream: source.publication.name.clone(),
            key_epoch: source.keys.of(first).key_epoch,
        });
    }

    /// Records why a sink is not served, and reports it to the sink if it is news.
    pub(crate) fn handle_failed(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        sink: NodeId,
        reason: &str,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        report_active(turn, source);
        self.handle_unserved(turn, stream, sink, reason);
    }

    /// The same, if all plans in force still are.
    pub(super) fn handle_unserved(
        &mut self,
        turn: &mut Turn<'_>,
        stream: StreamId,
        sink: NodeId,
        reason: &str,
    ) {
        let source = self.sources.get_mut(&stream);
        let Some(plan) = source.and_then(|source| source.sinks.get_mut(&sink)) else {
            return;
        };
        if plan.reason.as_deref() == Some(reason) {
            return;
        }
        plan.reason = Some(reason.into());
        plan.state = PlanState::Failed;
        turn.route(plan.route_back.clone(), refusal(stream, reason));
    }

    /// Handles a receipt for a plan of this node: the driver need not keep what it names.
    pub(crate) fn handle_receipt(&mut self, turn: &mut Turn<'_>, receipt: Receipt) {
        let Receipt {
            stream,
            epoch,
            since,
            held,
        } = receipt;
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let Some(sink) = source.sink_of(epoch) else {
            return;
        };
        let plan = source.sinks.get_mut(&sink);
        let incarnation = plan.map_or(Incarnation::Same, |plan| plan.handle_since(since, epoch));
        if incarnation == Incarnation::Former {
            return;
        }
        if incarnation == Incarnation::Next {
            source.session.handle_restarted(sink);
        }
        // What a restarted sink had is gone with it. It begins again, with what is held for it if
        // the stream is held.
        let is_new = incarnation == Incarnation::Next && !source.publication.needs.is_held();
        let held = if is_new { Held::everything() } else { held };
        acknowledge(turn, source, sink, held);
    }

    /// Handles the sequence below which nothing is kept of what a sink lacks, though it has later
    /// ADUs; the sink is notified once. Returns the message, and its route.
    pub(crate) fn handle_given_up(
        &mut self,
        (stream, sink): (StreamId, NodeId),
        below: Sequence,
    ) -> Option<(Vec<NodeId>, Body)> {
        let source = self.sources.get_mut(&stream)?;
        let path = source.paths.get(&source.in_force(sink)?)?.clone();
        let plan = source.sinks.get_mut(&sink)?;
        if plan.given_up >= below {
            return None;
        }
        plan.given_up = below;
        Some((path, Body::GivenUp { stream, below }))
    }
}

/// Has what went by these plans sent again, under another.
fn resend(
    turn: &mut Turn<'_>,
    (stream, sink): (StreamId, NodeId),
    from: Vec<Epoch>,
    [to, under]: [Epoch; 2],
) {
    turn.ask(Ask::GoByReceipts(stream, from.clone()));
    turn.note(Note::Resending { stream, to });
    turn.output(Output::Resend {
        stream,
        sink,
        from,
        to,
        under,
    });
}

/// Reports to the driver what a sink has.
fn acknowledge(turn: &mut Turn<'_>, source: &Source, sink: NodeId, held: Held) {
    let epochs: Vec<Epoch> = source.plans_of(sink).collect();
    let is_whole = source.publication.needs.reliability == Reliability::Full;
    let in_order = source.in_force(sink).filter(|_| is_whole);
    turn.output(Output::Acknowledged {
        stream: source.stream(),
        sink,
        epochs,
        in_order,
        held,
    });
}

/// Reports the plans in force to the driver, if they changed.
fn report_active(turn: &mut Turn<'_>, source: &mut Source) {
    let stream = source.stream();
    let given = source.session.given();
    if given != source.reported {
        source.reported.clone_from(&given);
        turn.output(Output::Active { stream, given });
    }
    report_sinks(turn, source);
}

/// Reports the sinks of a held stream and their plans in force, if they changed.
fn report_sinks(turn: &mut Turn<'_>, source: &mut Source) {
    if !source.publication.needs.is_held() {
        return;
    }
    let sinks = source.sinkwards();
    if sinks != source.reported_sinks {
        source.reported_sinks.clone_from(&sinks);
        let stream = source.stream();
        turn.output(Output::Holding { stream, sinks });
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
