//! What comes after the end of a stream that is wanted here: the stream of another producer, or nothing.
//!
//! *The idea.* A producer that stands by is taken. One that was silent of late may be dead, and still be on the map, or be back: only its
//! own word tells. So it is asked to serve, for [`ANSWER_WITHIN`], and whoever reads is told after that.
//!
//! ```text
//! end ─► somebody stands by ───────────────────────────────────────────► goes on
//!   └──► somebody was silent ─ Subscribe ─┬─ a part of its plan is here ─► goes on
//!        │                                └─ 2 s, or nobody left to ask ─► over
//!        └─ nobody ──────────────────────────────────────────────────────► over
//! ```
//!
//! All that were silent are asked at once, and the first that serves is taken, so this takes no longer where they are many. Until then
//! nothing of theirs is given to anybody: the stream that has ended stays the one that was found, so that who reads more slowly comes
//! to its end too, and asks in his turn.
//!
//! *What it does not do.* It reads no stream: the driver asks when the end of one has been read.
//!
//! *Sources.* docs/recast.md §7.

use alloc::vec::Vec;

use super::sink::{ASK_AGAIN, Subscription};
use super::{Controller, Keys, Output};
use crate::id::{Epoch, NodeId, StreamId, StreamName};
use crate::session::RENEW;
use crate::time::{Duration, Instant};
use crate::wire::control::Body;

/// How long who was silent has to serve. One that is there does after two round trips; so long the end of a stream waits
/// for what is missing before it, too.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How a stream came to its end, as its last ADU says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// Its producer ended it: it is complete.
    Finished,
    /// Its producer went away: the next of its name is waited for.
    CutOff,
}

/// What comes after the end of a stream, for who has read that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequel {
    /// The stream of another producer, which is there or is waited for.
    GoesOn,
    /// Nothing.
    Over,
    /// One that was silent is asked; [`Output::Sequel`] says what comes of that.
    Unsure,
}

/// Producers that were silent, and are asked whether they serve.
#[derive(Debug)]
pub(super) struct Probe {
    /// The stream after which, and how it ended.
    ended: StreamId,
    cause: EndCause,
    asked: Vec<(NodeId, StreamId)>,
    /// When to ask again.
    ask: Instant,
    /// When nobody is waited for any more.
    until: Instant,
}

impl Probe {
    pub(super) fn poll_timeout(&self) -> Instant {
        self.ask.min(self.until)
    }
}

impl Controller {
    /// Takes in that the end of a wanted stream has been read here; returns what comes after it.
    ///
    /// Cost    of several that publish it, a way to each
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
            // One that reads faster has come here before, or the source has withdrawn it meanwhile.
            Subscription::Waiting if cause == EndCause::CutOff => return Sequel::GoesOn,
            Subscription::Found { .. } | Subscription::Waiting => {}
        }
        if wanted.probe.is_some() {
            return Sequel::Unsure;
        }
        let others = self.others(name, ended);
        if others.iter().any(|(node, _)| self.is_there(*node)) {
            self.go_on_after(name, ended);
            self.resolve_wanted(now, keys);
            self.settle(now, keys);
            return Sequel::GoesOn;
        }
        let may_be_back = |(node, _): &(NodeId, StreamId)| {
            self.continuity.silent_producers.has(*node)
                && self.directory.path(self.id(), *node).is_some()
        };
        let asked: Vec<_> = others.into_iter().filter(may_be_back).collect();
        if asked.is_empty() {
            return match cause {
                EndCause::Finished => Sequel::Over,
                EndCause::CutOff => {
                    self.wait_after(name, ended, now, keys);
                    self.settle(now, keys);
                    Sequel::GoesOn
                }
            };
        }
        self.begin_probe(name, (ended, cause), asked, now, keys);
        self.settle(now, keys);
        Sequel::Unsure
    }

    /// Returns whose streams of a name may come after one, by their keys: one that has come to its end here is announced until its
    /// end has settled, perhaps for longer than the next one lasts.
    fn others(&self, name: &StreamName, ended: StreamId) -> Vec<(NodeId, StreamId)> {
        let before = self.wanted.get(name).map(|wanted| &wanted.ended[..]);
        let before = before.unwrap_or_default();
        let is_other = |(_, stream): &(NodeId, StreamId)| {
            *stream != ended && !before.contains(stream) && !self.has_ended(*stream)
        };
        self.publishers(name).filter(is_other).collect()
    }

    /// Has no stream taken again that has come to its end here, now that another comes after one.
    fn go_on_after(&mut self, name: &StreamName, ended: StreamId) {
        let others = self.others(name, ended);
        let done = self.publishers(name).filter(|one| !others.contains(one));
        let mut all: Vec<StreamId> = done.map(|(_, stream)| stream).collect();
        if !all.contains(&ended) {
            all.push(ended);
        }
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.ended = all;
        }
    }

    /// Has a name waited for whose last producer went away.
    fn wait_after(
        &mut self,
        name: &StreamName,
        ended: StreamId,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        self.go_on_after(name, ended);
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
            // It was left, and may not have heard of it: what its plans up to now bring is not for who comes back to it.
            self.leave_received(*stream, now);
            self.send_to(*source, Body::Unsubscribe { stream: *stream }, now, keys);
        }
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.probe = Some(Probe {
                ended,
                cause,
                asked,
                ask: now,
                until: now + ANSWER_WITHIN,
            });
            // Who has ended its stream has nothing to say about it.
            wanted.ask = Instant::NEVER;
        }
        self.look_at_probe(name, now, keys);
    }

    /// Gives those who are asked their time.
    pub(super) fn time_probes(&mut self, now: Instant, keys: &mut dyn Keys) {
        let is_due = |probe: &Probe| probe.poll_timeout() <= now;
        let due = self.wanted.iter();
        let due = due.filter(|(_, wanted)| wanted.probe.as_ref().is_some_and(is_due));
        let due: Vec<StreamName> = due.map(|(name, _)| name.clone()).collect();
        for name in due {
            self.look_at_probe(&name, now, keys);
        }
    }

    /// Looks whether those who are asked need not be waited for any more, and asks them again.
    pub(super) fn look_at_probe(&mut self, name: &StreamName, now: Instant, keys: &mut dyn Keys) {
        let Some(wanted) = self.wanted.get_mut(name) else {
            return;
        };
        let Some(mut probe) = wanted.probe.take() else {
            return;
        };
        let others = self.others(name, probe.ended);
        let stands_by = |one: &&(NodeId, StreamId)| !probe.asked.contains(one);
        let mut standing_by = others.iter().filter(stands_by);
        if standing_by.any(|(node, _)| self.is_there(*node)) {
            return self.end_probe(name, &probe, Sequel::GoesOn, now, keys);
        }
        probe.asked.retain(|one| others.contains(one));
        if probe.asked.is_empty() || probe.until <= now {
            return self.end_probe(name, &probe, Sequel::Over, now, keys);
        }
        if probe.ask <= now {
            probe.ask = now + ASK_AGAIN;
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

    /// Tells what has come of asking when none of those has served, and leaves them.
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
            self.go_on_after(name, probe.ended);
        }
        self.leave_asked(&probe.asked, now, keys);
        if let Some(wanted) = self.wanted.get_mut(name) {
            wanted.ask = now + RENEW;
        }
        self.resolve(name, now, keys);
        self.tell_sequel(name, goes_on);
        // Whoever has been found is to be asked.
        self.renew_wanted(now, keys);
    }

    /// Takes in that nobody here waits any more for what comes after a stream.
    pub(super) fn drop_probe(
        &mut self,
        name: &StreamName,
        probe: &Probe,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        self.leave_asked(&probe.asked, now, keys);
        self.tell_sequel(name, false);
    }

    fn leave_asked(&mut self, asked: &[(NodeId, StreamId)], now: Instant, keys: &mut dyn Keys) {
        for &(source, stream) in asked {
            self.send_to(source, Body::Unsubscribe { stream }, now, keys);
        }
    }

    fn tell_sequel(&mut self, name: &StreamName, goes_on: bool) {
        self.outputs.push_back(Output::Sequel {
            name: name.clone(),
            goes_on,
        });
    }

    fn send_to(&mut self, node: NodeId, body: Body, now: Instant, keys: &mut dyn Keys) {
        if let Some(way) = self.way_to(node, now) {
            self.send_routed(way, body, keys);
        }
    }

    /// Takes in that a plan ends here whose source is perhaps one that was silent and is asked: it is back.
    pub(super) fn take_up_asked(
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
        self.go_on_after(&name, probe.ended);
        probe.asked.retain(|one| *one != (source, stream));
        self.leave_asked(&probe.asked, now, keys);
        self.continuity.silent_producers.remove(source);
        self.is_changed = true;
        if let Some(wanted) = self.wanted.get_mut(&name) {
            wanted.find(source, stream, now + RENEW);
        }
        self.begin_again((stream, epoch), now);
        self.outputs.push_back(Output::Found {
            name: name.clone(),
            stream,
        });
        self.tell_sequel(&name, true);
    }
}
