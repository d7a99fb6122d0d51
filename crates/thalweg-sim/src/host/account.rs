//! What became of ADUs on a host, as its control plane is told: now and then, and before it hears what others say.
//!
//! *The idea.* The node's data path counts, and its control task looks every 250 ms; so here. The rule is that of
//! [`thalweg_core::ledger`]: the node that had an ADU whole last accounts for it.
//!
//! *Sources.* `thalweg-node`, `forward/account`.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_core::adu::{Flags, Header, Mark};
use thalweg_core::event::DropCause;
use thalweg_core::hop::{Outcome, StreamCode};
use thalweg_core::id::{Epoch, NodeId, StreamId};
use thalweg_core::ledger::{Band, Counts, Reading};
use thalweg_core::time::{Duration, Instant};

use super::Host;
use super::carry::Transit;

/// How long the control plane is not told what was counted: as in the node.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// What is counted on a host, and the mark that came last.
#[derive(Debug)]
pub(super) struct Accounts {
    plans: BTreeMap<(StreamId, Epoch), (Counts, Mark)>,
    changed: BTreeSet<(StreamId, Epoch)>,
    /// When the control plane is told.
    tell: Instant,
    /// What became of the ADUs of streams that are over.
    closed: BTreeMap<StreamId, Reading>,
}

/// What a link's word on an ADU means for its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It left: the next node accounts for it.
    Left,
    /// It ended here.
    Failed(DropCause),
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            plans: BTreeMap::new(),
            changed: BTreeSet::new(),
            tell: Instant::NEVER,
            closed: BTreeMap::new(),
        }
    }
}

impl Accounts {
    pub(super) const fn poll_timeout(&self) -> Instant {
        self.tell
    }

    /// Forgets a plan: should it come back, it counts from zero.
    pub(super) fn forget(&mut self, stream: StreamId, epoch: Epoch) {
        self.plans.remove(&(stream, epoch));
        self.changed.remove(&(stream, epoch));
    }

    pub(super) fn close(&mut self, stream: StreamId, reading: Reading) {
        self.closed.insert(stream, reading);
    }
}

impl Ended {
    pub(super) const fn of(outcome: Outcome) -> Self {
        let cause = match outcome {
            Outcome::Refused(StreamCode::UnknownStream | StreamCode::Expired) => {
                outcome.drop_cause()
            }
            // Who refuses an ADU accounts for it.
            Outcome::Refused(_) => None,
            _ => outcome.drop_cause(),
        };
        match cause {
            None => Self::Left,
            Some(cause) => Self::Failed(cause),
        }
    }

    fn count(self, counts: &mut Counts, mark: Mark, band: Band) {
        match self {
            Self::Left => counts.leave(mark, band),
            Self::Failed(cause) => counts.fail(mark, band, cause),
        }
    }
}

impl Host {
    /// Counts something of an ADU.
    pub(super) fn count(
        &mut self,
        header: &Header,
        now: Instant,
        what: impl FnOnce(&mut Counts, Band),
    ) {
        if header.flags.contains(Flags::END) {
            return;
        }
        self.count_of((header.stream, header.epoch), now, |counts| {
            what(counts, Band::of(header.importance));
        });
    }

    /// Counts something of a plan that lies here.
    fn count_of(&mut self, plan: (StreamId, Epoch), now: Instant, what: impl FnOnce(&mut Counts)) {
        let (_, epoch) = plan;
        if epoch.0 == 0 || self.parts.contains_key(&plan) {
            let (counts, _) = self.accounts.plans.entry(plan).or_default();
            what(counts);
            self.accounts.changed.insert(plan);
            self.accounts.tell = self.accounts.tell.min(now + TICK);
        }
    }

    /// Counts ADUs that their sinks say that they have.
    pub(super) fn count_had(&mut self, stream: StreamId, had: &[(Epoch, Band)], now: Instant) {
        for (epoch, band) in had {
            self.count_of((stream, *epoch), now, |counts| counts.have(*band));
        }
    }

    /// Counts an ADU that is given again for a sink, by the plans that it went by before.
    pub(super) fn count_again(&mut self, at: usize, sink: NodeId, header: &Header, now: Instant) {
        let mut resent = Vec::new();
        let awaited = &mut self.publishers[at].awaited;
        awaited.handle_again(sink, header, |epoch, band| resent.push((epoch, band)));
        for (epoch, band) in resent {
            self.count_of((header.stream, epoch), now, |counts| counts.resend(band));
        }
    }

    /// Counts an ADU that came with a mark; the control plane is told at once when that is another.
    pub(super) fn count_arrived(&mut self, came: Mark, header: &Header, now: Instant) {
        self.count(header, now, |counts, band| counts.arrive(came, band));
        if let Some((_, last)) = self.accounts.plans.get_mut(&(header.stream, header.epoch))
            && *last != came
        {
            *last = came;
            self.wake_accounts(now);
        }
    }

    /// Notes that an ADU is copied here for its plan; of the end of a stream the control plane is told at once, as in the node.
    pub(super) fn count_copied(&mut self, header: &Header, now: Instant) {
        if header.flags.contains(Flags::END) {
            let plan = (header.stream, header.epoch);
            let (counts, _) = self.accounts.plans.entry(plan).or_default();
            counts.is_end_copied = true;
            self.accounts.changed.insert(plan);
            self.wake_accounts(now);
        }
    }

    /// Has the control plane told soon.
    pub(super) fn wake_accounts(&mut self, at: Instant) {
        self.accounts.tell = self.accounts.tell.min(at);
    }

    /// Returns with which mark an ADU goes on, as in the node.
    pub(super) fn paint(&self, header: &Header, is_acknowledged: bool) -> Mark {
        if is_acknowledged || header.mark() != Mark::NONE {
            return if is_acknowledged {
                Mark::NONE
            } else {
                header.mark()
            };
        }
        let plan = self.accounts.plans.get(&(header.stream, header.epoch));
        let last = plan.map_or(Mark::NONE, |(_, last)| *last);
        if last == Mark::NONE {
            last.next()
        } else {
            last
        }
    }

    /// Counts an ADU that is refused.
    pub(super) fn count_refused(&mut self, header: &Header, cause: DropCause, now: Instant) {
        self.count_arrived(header.mark(), header, now);
        self.count(header, now, |counts, band| counts.give_up(band, cause));
    }

    /// Counts what a link says of an ADU; one that still arrives is not this node's yet.
    pub(super) fn count_ended(&mut self, transit: &Transit, ended: Ended, now: Instant) {
        if let Some(intake) = transit.via.and_then(|via| self.intakes.get_mut(&via)) {
            intake.ended = Some((ended, transit.header.mark()));
            return;
        }
        let end = (ended, transit.header.mark());
        if transit.is_void {
            self.count_void(transit.came, &transit.header, end, now);
        } else {
            self.count_end(&transit.header, end, now);
        }
    }

    /// Counts what became of an ADU that was sent with a mark.
    fn count_end(&mut self, header: &Header, (ended, mark): (Ended, Mark), now: Instant) {
        self.count(header, now, |counts, band| ended.count(counts, mark, band));
    }

    /// Counts an ADU that is whole now, and what has become of it if it was sent on before.
    pub(super) fn count_whole(
        &mut self,
        header: &Header,
        ended: Option<(Ended, Mark)>,
        now: Instant,
    ) {
        self.count_arrived(header.mark(), header, now);
        if let Some(end) = ended {
            self.count_end(header, end, now);
        }
    }

    /// Counts an ADU that was sent on and does not become whole: the node before accounts for it, unless the next node has done
    /// so already.
    pub(super) fn count_void(
        &mut self,
        came: Mark,
        header: &Header,
        (ended, mark): (Ended, Mark),
        now: Instant,
    ) {
        match ended {
            Ended::Left => {
                self.count_arrived(came, header, now);
                self.count(header, now, |counts, band| counts.leave(mark, band));
            }
            Ended::Failed(_) => {
                self.count(header, now, |counts, band| counts.disown(mark, band));
            }
        }
    }

    /// Tells the control plane what was counted.
    pub(super) fn tell_counts(&mut self, now: Instant) {
        self.accounts.tell = Instant::NEVER;
        self.tell_all_held(now);
        for (stream, epoch) in std::mem::take(&mut self.accounts.changed) {
            if let Some((counts, _)) = self.accounts.plans.get(&(stream, epoch)) {
                self.controller.handle_counts(stream, epoch, counts, now);
            }
        }
    }

    /// Returns what became of the ADUs of each stream that was published here, as the control plane knows.
    pub fn readings(&self) -> Vec<(StreamId, Reading)> {
        let streams = self
            .publishers
            .iter()
            .map(super::publisher::Publisher::stream);
        let reading = |stream| {
            let reading = self.controller.reading(stream);
            let reading = reading.or_else(|| self.accounts.closed.get(&stream).cloned());
            Some((stream, reading?))
        };
        streams.filter_map(reading).collect()
    }
}
