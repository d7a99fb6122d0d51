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

use thalweg_base::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_base::time::Instant;
use thalweg_base::wire::control::Body;

use super::{ANSWER_WITHIN, ASK_AGAIN, Subscription};
use crate::control::{Controller, Keys, Output};
use crate::session::RENEW;

/// How a stream ended, as its last ADU says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// Its producer ended it: the stream is complete.
    Finished,
    /// Its producer went away: the next of its name is awaited.
    CutOff,
}

/// What follows the end of a stream, for a reader that has reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequel {
    /// The stream of another producer, which is known or awaited.
    GoesOn,
    /// Nothing.
    Over,
    /// A producer that was silent is being asked; [`Output::Sequel`] reports the outcome.
    Unsure,
}

/// Producers that were silent and are now asked to serve.
#[derive(Debug)]
pub(in crate::control) struct Probe {
    /// The stream that ended, and how.
    ended: StreamId,
    cause: EndCause,
    asked: Vec<(NodeId, StreamId)>,
    /// When to ask again.
    ask_at: Instant,
    /// When to stop waiting.
    until: Instant,
}

impl Probe {
    pub(super) fn poll_timeout(&self) -> Instant {
        self.ask_at.min(self.until)
    }
}

impl Controller {
    /// Handles a reader that has reached the end of a wanted stream; returns what follows.
    ///
    /// Cost    a path search for each producer, if there are several
    pub fn handle_ended(
        &mut self,
        name: &StreamName,
        (ended, cause): (StreamId, EndCause),
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Sequel {
        let Some(wanted) = self.wanted.get(name) else {
            return Sequel::Over;
        };
        match wanted.subscription {
            Subscription::Found { stream, .. } if stream != ended => return Sequel::GoesOn,
            // A faster reader was here before, or the source has withdrawn the stream meanwhile.
            Subscription::Waiting if cause == EndCause::CutOff => return Sequel::GoesOn,
            Subscription::Found { .. } | Subscription::Waiting => {}
        }
        if wanted.probe.is_some() {
            return Sequel::Unsure;
        }
        let successors = self.successors(name, ended);
        if successors.iter().any(|(node, _)| self.is_available(*node)) {
            self.mark_ended(name, ended);
            self.resolve_wanted(now, keys);
            self.settle(now, keys);
            return Sequel::GoesOn;
        }
        let may_have_returned = |(node, _): &(NodeId, StreamId)| {
            self.continuity.silent_producers.has(*node)
                && self.directory.path(self.id(), *node).is_some()
        };
        let asked: Vec<_> = successors.into_iter().filter(may_have_returned).collect();
        if asked.is_empty() {
            return match cause {
                EndCause::Finished => Sequel::Over,
                EndCause::CutOff => {
                    self.await_successor(name, ended, now, keys);
                    self.settle(now, keys);
                    Sequel::GoesOn
                }
            };
        }
        self.begin_probe(name, (ended, cause), asked, now, keys);
        self.settle(now, keys);
        Sequel::Unsure
    }

    /// Returns the streams of a name that may follow one, ordered by their producers' keys. A
    /// stream that has ended here does not count: it stays announced until its end has settled,
    /// perhaps for longer than its successor lasts.
    fn successors(&self, name: &StreamName, ended: StreamId) -> Vec<(NodeId, StreamId)> {
        let before = self.wanted.get(name).map(|wanted| &wanted.ended[..]);
        let before = before.unwrap_or_default();
        let is_other = |(_, stream): &(NodeId, StreamId)| {
            *stream != ended && !before.contains(stream) && !self.has_ended(*stream)
        };
        self.publishers(name).filter(is_other).collect()
    }

    /// Marks the streams that have ended here, so that none is taken again once another follows.
    fn mark_ended(&mut self, name: &StreamName, ended: StreamId) {
        let successors = self.successors(name, ended);
        let done = self
            .publishers(name)
            .filter(|one| !successors.contains(one));
        let mut all: Vec<StreamId> = done.map(|(_, stream)| stream).collect();
        if !all.contains(&ended) {
            all.push(ended);
        }
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.ended = all;
        }
    }

    /// Waits for the next producer of a name after the last went away.
    fn await_successor(
        &mut self,
        name: &StreamName,
        ended: StreamId,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        self.mark_ended(name, ended);
        self.resolve(name, now, keys);
    }

    fn begin_probe(
        &mut self,
        name: &StreamName,
        (ended, cause): (StreamId, EndCause),
        asked: Vec<(NodeId, StreamId)>,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        for (source, stream) in &asked {
            // It was left, and may not know: a returning reader must not get what its earlier plans bring.
            self.mark_readers_left(*stream, now);
            self.send_to(*source, Body::Unsubscribe { stream: *stream }, now, keys);
        }
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.probe = Some(Probe {
                ended,
                cause,
                asked,
                ask_at: now,
                until: now + ANSWER_WITHIN,
            });
            // A stream that has ended here is not renewed.
            wanted.ask_at = Instant::NEVER;
        }
        self.advance_probe(name, now, keys);
    }

    /// Handles the probes that are due.
    pub(in crate::control) fn handle_probe_timeout(&mut self, now: Instant, keys: &mut dyn Keys) {
        let is_due = |probe: &Probe| probe.poll_timeout() <= now;
        let due = self.wanted.iter();
        let due = due.filter(|(_, wanted)| wanted.probe.as_ref().is_some_and(is_due));
        let due: Vec<StreamName> = due.map(|(name, _)| name.clone()).collect();
        for name in due {
            self.advance_probe(&name, now, keys);
        }
    }

    /// Advances a probe: ends it if it is decided, else asks again when that is due.
    pub(super) fn advance_probe(&mut self, name: &StreamName, now: Instant, keys: &mut dyn Keys) {
        let Some(wanted) = self.wanted.get_mut(name) else {
            return;
        };
        let Some(mut probe) = wanted.probe.take() else {
            return;
        };
        let successors = self.successors(name, probe.ended);
        let stands_by = |one: &&(NodeId, StreamId)| !probe.asked.contains(one);
        let mut standing_by = successors.iter().filter(stands_by);
        if standing_by.any(|(node, _)| self.is_available(*node)) {
            return self.end_probe(name, &probe, Sequel::GoesOn, now, keys);
        }
        probe.asked.retain(|one| successors.contains(one));
        if probe.asked.is_empty() || probe.until <= now {
            return self.end_probe(name, &probe, Sequel::Over, now, keys);
        }
        if probe.ask_at <= now {
            probe.ask_at = now + ASK_AGAIN;
            for (source, stream) in &probe.asked {
                let subscribe = Body::Subscribe {
                    stream: *stream,
                    has_waited: false,
                };
                self.send_to(*source, subscribe, now, keys);
            }
        }
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.probe = Some(probe);
        }
    }

    /// Ends a probe in which no producer served, and unsubscribes from all of them.
    fn end_probe(
        &mut self,
        name: &StreamName,
        probe: &Probe,
        sequel: Sequel,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let goes_on = sequel == Sequel::GoesOn || probe.cause == EndCause::CutOff;
        if goes_on {
            self.mark_ended(name, probe.ended);
        }
        self.unsubscribe_asked(&probe.asked, now, keys);
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.ask_at = now + RENEW;
        }
        self.resolve(name, now, keys);
        self.report_sequel(name, goes_on);
        // A producer that was found is subscribed to at once.
        self.renew_wanted(now, keys);
    }

    /// Handles the end of a subscription during a probe.
    pub(super) fn cancel_probe(
        &mut self,
        name: &StreamName,
        probe: &Probe,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        self.unsubscribe_asked(&probe.asked, now, keys);
        self.report_sequel(name, false);
    }

    fn unsubscribe_asked(
        &mut self,
        asked: &[(NodeId, StreamId)],
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        for &(source, stream) in asked {
            self.send_to(source, Body::Unsubscribe { stream }, now, keys);
        }
    }

    fn report_sequel(&mut self, name: &StreamName, goes_on: bool) {
        self.outputs.push_back(Output::Sequel {
            name: name.clone(),
            goes_on,
        });
    }

    fn send_to(&mut self, node: NodeId, body: Body, now: Instant, keys: &mut dyn Keys) {
        if let Some(path) = self.path_to(node, now) {
            self.send_routed(path, body, keys);
        }
    }

    /// Handles a plan that ends here: if its source is being probed, that source is back.
    pub(in crate::control) fn adopt_asked(
        &mut self,
        source: NodeId,
        (stream, epoch): (StreamId, Epoch),
        now: Instant,
        keys: &mut dyn Keys,
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
        self.mark_ended(&name, probe.ended);
        probe.asked.retain(|one| *one != (source, stream));
        self.unsubscribe_asked(&probe.asked, now, keys);
        self.continuity.silent_producers.remove(source);
        self.is_changed = true;
        if let Some(wanted) = self.wanted.get_mut(&name) {
            wanted.find(source, stream, now + RENEW);
        }
        self.restart_readers((stream, epoch), now);
        self.outputs.push_back(Output::Found {
            name: name.clone(),
            stream,
        });
        self.report_sequel(&name, true);
    }
}
