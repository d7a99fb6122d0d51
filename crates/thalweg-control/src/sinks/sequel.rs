//! What follows the end of a wanted stream: the stream of another producer, or nothing.
//!
//! *The idea.* A producer that stands by is taken. A producer that was recently silent may be dead
//! but still on the map, or may be back; only its answer shows which. So it is asked to serve for
//! [`ANSWER_WITHIN`], and the readers learn the outcome after that.
//!
//! ```text
//! end ─► a producer stands by ─────────────────────────────────────────────► goes on
//!   └──► a producer was silent ─ Subscribe ─┬─ a part of its plan is here ─► goes on
//!        │                                  └─ 2 s, or none left to ask ───► over
//!        └─ none ──────────────────────────────────────────────────────────► over
//! ```
//!
//! All silent producers are asked at once, and the first that serves is taken. Until then none of
//! their ADUs is delivered: the stream that has ended stays the one found, so that a slower reader
//! also reaches its end, and asks in turn.
//!
//! *What it does not do.* It reads no stream: the driver calls when a reader has reached the end.
//!
//! *Sources.* docs/concepts/recast.md §7.

use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::time::Instant;
use thalweg_base::wire::control::Body;

use super::probe::{EndCause, Probe, Sequel};
use super::wanted::Subscription;
use super::{ANSWER_WITHIN, ASK_AGAIN, Sinks, View, publishers};
use crate::effect::{Effect, Output, PlanKey, Turn};
use crate::facts::Facts;
use crate::session::RENEW;

/// What follows the end of a stream, and what is to be done.
#[derive(Debug)]
pub(crate) enum Follows {
    /// This, and nothing is to be done.
    Known(Sequel),
    /// A producer stands by: it is to be looked up.
    StandsBy,
    /// A producer is awaited.
    Awaited,
    /// These producers were silent: they are to be asked.
    Silent(Vec<(NodeId, StreamId)>),
}

impl Sinks {
    /// Returns what follows a wanted stream of which a reader has reached the end.
    ///
    /// Cost    a path search for each producer, if there are several
    pub(crate) fn follows(
        &self,
        facts: &Facts<'_>,
        name: &StreamName,
        (ended, cause): (StreamId, EndCause),
    ) -> Follows {
        let Some(wanted) = self.wanted.get(name) else {
            return Follows::Known(Sequel::Over);
        };
        match wanted.subscription {
            Subscription::Found { stream, .. } if stream != ended => {
                return Follows::Known(Sequel::GoesOn);
            }
            // A faster reader was here before, or the source has withdrawn the stream meanwhile.
            Subscription::Waiting if cause == EndCause::CutOff => {
                return Follows::Known(Sequel::GoesOn);
            }
            Subscription::Found { .. } | Subscription::Waiting => {}
        }
        if wanted.probe.is_some() {
            return Follows::Known(Sequel::Unsure);
        }
        let successors = self.successors(facts, name, ended);
        let mut producers = successors.iter();
        if producers.any(|(node, _)| self.is_available(facts, *node)) {
            return Follows::StandsBy;
        }
        let may_have_returned =
            |(node, _): &(NodeId, StreamId)| self.silent.has(*node) && facts.path(*node).is_some();
        let asked: Vec<_> = successors.into_iter().filter(may_have_returned).collect();
        match cause {
            _ if !asked.is_empty() => Follows::Silent(asked),
            EndCause::Finished => Follows::Known(Sequel::Over),
            EndCause::CutOff => Follows::Awaited,
        }
    }

    /// Returns the streams of a name that may follow one, ordered by their producers' keys. A
    /// stream that has ended here does not count: it stays announced until its end has settled,
    /// perhaps for longer than its successor lasts.
    fn successors(
        &self,
        facts: &Facts<'_>,
        name: &StreamName,
        ended: StreamId,
    ) -> Vec<(NodeId, StreamId)> {
        let before = self.wanted.get(name).map(|wanted| &wanted.ended[..]);
        let before = before.unwrap_or_default();
        let is_other = |(_, stream): &(NodeId, StreamId)| {
            *stream != ended && !before.contains(stream) && !self.received.has_ended(*stream)
        };
        publishers(facts, name).filter(is_other).collect()
    }

    /// Marks the streams that have ended here, so that none is taken again once another follows.
    pub(crate) fn mark_ended(&mut self, facts: &Facts<'_>, name: &StreamName, ended: StreamId) {
        let successors = self.successors(facts, name, ended);
        let done = publishers(facts, name).filter(|one| !successors.contains(one));
        let mut all: Vec<StreamId> = done.map(|(_, stream)| stream).collect();
        if !all.contains(&ended) {
            all.push(ended);
        }
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.ended = all;
        }
    }

    /// Asks producers that were silent to serve.
    pub(crate) fn begin_probe(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        name: &StreamName,
        (ended, cause): (StreamId, EndCause),
        asked: Vec<(NodeId, StreamId)>,
    ) {
        for &(source, stream) in &asked {
            // It was left, and may not know: a returning reader must not get what its earlier plans bring.
            self.received
                .handle_left(&view.facts.local, view.parts, stream, turn.now);
            view.send(turn, source, Body::Unsubscribe { stream });
        }
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.probe = Some(Probe {
                ended,
                cause,
                asked,
                ask_at: turn.now,
                until: turn.now + ANSWER_WITHIN,
            });
            // A stream that has ended here is not renewed.
            wanted.ask_at = Instant::NEVER;
        }
        self.advance_probe(turn, view, name);
    }

    /// Returns the streams with probes that are due.
    pub(crate) fn probes_due(&self, now: Instant) -> Vec<StreamName> {
        let is_due = |probe: &Probe| probe.poll_timeout() <= now;
        let due = self.wanted.iter();
        let due = due.filter(|(_, wanted)| wanted.probe.as_ref().is_some_and(is_due));
        due.map(|(name, _)| name.clone()).collect()
    }

    /// Advances a probe: ends it if it is decided, else asks again when that is due.
    pub(crate) fn advance_probe(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        name: &StreamName,
    ) {
        let wanted = self.wanted.get_mut(name);
        let Some(mut probe) = wanted.and_then(|wanted| wanted.probe.take()) else {
            return;
        };
        let successors = self.successors(view.facts, name, probe.ended);
        let stands_by = |one: &&(NodeId, StreamId)| !probe.asked.contains(one);
        let mut standing_by = successors.iter().filter(stands_by);
        if standing_by.any(|(node, _)| self.is_available(view.facts, *node)) {
            return self.end_probe(turn, view, name, &probe, Sequel::GoesOn);
        }
        probe.asked.retain(|one| successors.contains(one));
        if probe.asked.is_empty() || probe.until <= turn.now {
            return self.end_probe(turn, view, name, &probe, Sequel::Over);
        }
        if probe.ask_at <= turn.now {
            probe.ask_at = turn.now + ASK_AGAIN;
            for &(source, stream) in &probe.asked {
                let subscribe = Body::Subscribe {
                    stream,
                    has_waited: false,
                };
                view.send(turn, source, subscribe);
            }
        }
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.probe = Some(probe);
        }
    }

    /// Ends a probe in which no producer served, and unsubscribes from all of them.
    fn end_probe(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        name: &StreamName,
        probe: &Probe,
        sequel: Sequel,
    ) {
        let goes_on = sequel == Sequel::GoesOn || probe.cause == EndCause::CutOff;
        if goes_on {
            self.mark_ended(view.facts, name, probe.ended);
        }
        unsubscribe(turn, view, &probe.asked);
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.ask_at = turn.now + RENEW;
        }
        self.resolve(turn, view, name);
        report(turn, name, goes_on);
        // A producer that was found is subscribed to at once.
        turn.push(Effect::RenewWanted);
    }

    /// Handles a plan that ends here: if its source is being probed, that source is back.
    pub(super) fn adopt_asked(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        source: NodeId,
        (stream, epoch): PlanKey,
    ) {
        let mut wanted = self.wanted.iter();
        let name = wanted.find(|(_, wanted)| {
            let probe = wanted.probe.as_ref();
            probe.is_some_and(|probe| probe.asked.contains(&(source, stream)))
        });
        let Some(name) = name.map(|(name, _)| name.clone()) else {
            return;
        };
        let wanted = self.wanted.get_mut(&name);
        let Some(mut probe) = wanted.and_then(|wanted| wanted.probe.take()) else {
            return;
        };
        self.mark_ended(view.facts, &name, probe.ended);
        probe.asked.retain(|one| *one != (source, stream));
        unsubscribe(turn, view, &probe.asked);
        self.silent.remove(source);
        turn.push(Effect::Changed);
        if let Some(wanted) = self.wanted.get_mut(&name) {
            wanted.find(source, stream, turn.now + RENEW);
        }
        self.received.restart(turn, (stream, epoch));
        turn.output(Output::Found {
            name: name.clone(),
            stream,
        });
        report(turn, &name, true);
    }
}

/// Handles the end of a subscription during a probe.
pub(super) fn cancel(turn: &mut Turn<'_>, view: &View<'_>, name: &StreamName, probe: &Probe) {
    unsubscribe(turn, view, &probe.asked);
    report(turn, name, false);
}

fn unsubscribe(turn: &mut Turn<'_>, view: &View<'_>, asked: &[(NodeId, StreamId)]) {
    for &(source, stream) in asked {
        view.send(turn, source, Body::Unsubscribe { stream });
    }
}

fn report(turn: &mut Turn<'_>, name: &StreamName, goes_on: bool) {
    turn.output(Output::Sequel {
        name: name.clone(),
        goes_on,
    });
}
