//! A host's ADU counts, and when its control plane receives them.
//!
//! As in the node, the data path counts, and the counts are reported every 250 ms and before a frame
//! that carries other nodes' counts. The rule is that of [`thalweg_control::ledger`]: the last node that
//! had an ADU whole accounts for it.
//!
//! *Sources.* `thalweg-node`, `forward/account`.

use std::collections::{BTreeMap, BTreeSet};

use thalweg_base::adu::{Flags, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_control::ledger::{Band, Counts, Reading};

use super::Host;
use super::transit::{Ended, Transit};

/// How long counts may go unreported to the control plane: as in the node.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// The counts of a host's plans, and the mark that arrived last on each.
#[derive(Debug)]
pub(super) struct Accounts {
    plans: BTreeMap<(StreamId, Epoch), (Counts, Mark)>,
    changed: BTreeSet<(StreamId, Epoch)>,
    /// When the counts are next reported to the control plane.
    report_at: Instant,
    /// The final readings of closed streams.
    closed: BTreeMap<StreamId, Reading>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            plans: BTreeMap::new(),
            changed: BTreeSet::new(),
            report_at: Instant::NEVER,
            closed: BTreeMap::new(),
        }
    }
}

impl Accounts {
    pub(super) const fn poll_timeout(&self) -> Instant {
        self.report_at
    }

    /// Forgets a plan; if it is installed again, it counts from zero.
    pub(super) fn forget(&mut self, stream: StreamId, epoch: Epoch) {
        self.plans.remove(&(stream, epoch));
        self.changed.remove(&(stream, epoch));
    }

    pub(super) fn close(&mut self, stream: StreamId, reading: Reading) {
        self.closed.insert(stream, reading);
    }
}

impl Host {
    /// Adds to the counts of an ADU's plan; the end of a stream is no ADU and counts nowhere.
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

    /// Adds to the counts of a plan that is installed here.
    fn count_of(&mut self, plan: (StreamId, Epoch), now: Instant, what: impl FnOnce(&mut Counts)) {
        let (_, epoch) = plan;
        if epoch.0 == 0 || self.parts.contains_key(&plan) {
            let (counts, _) = self.accounts.plans.entry(plan).or_default();
            what(counts);
            self.accounts.changed.insert(plan);
            self.accounts.report_at = self.accounts.report_at.min(now + TICK);
        }
    }

    /// Counts ADUs that sinks report as received.
    pub(super) fn count_acknowledged(
        &mut self,
        stream: StreamId,
        had: &[(Epoch, Band)],
        now: Instant,
    ) {
        for (epoch, band) in had {
            self.count_of((stream, *epoch), now, |counts| counts.have(*band));
        }
    }

    /// Counts an ADU that is resent to a sink, under the plans by which it went before.
    pub(super) fn count_resent(&mut self, at: usize, sink: NodeId, header: &Header, now: Instant) {
        let mut resent = Vec::new();
        let awaited = &mut self.publishers[at].awaited;
        awaited.handle_again(sink, header, |epoch, band| resent.push((epoch, band)));
        for (epoch, band) in resent {
            self.count_of((header.stream, epoch), now, |counts| counts.resend(band));
        }
    }

    /// Counts an ADU that arrived with a mark; a new mark makes the report due at once.
    pub(super) fn count_arrived(&mut self, incoming_mark: Mark, header: &Header, now: Instant) {
        self.count(header, now, |counts, band| {
            counts.arrive(incoming_mark, band);
        });
        if let Some((_, last)) = self.accounts.plans.get_mut(&(header.stream, header.epoch))
            && *last != incoming_mark
        {
            *last = incoming_mark;
            self.wake_accounts(now);
        }
    }

    /// Notes that an ADU is copied here for its plan. The end of a stream is reported at once, as in
    /// the node.
    pub(super) fn count_copied(&mut self, header: &Header, now: Instant) {
        if header.flags.contains(Flags::END) {
            let plan = (header.stream, header.epoch);
            let (counts, _) = self.accounts.plans.entry(plan).or_default();
            counts.is_end_copied = true;
            self.accounts.changed.insert(plan);
            self.wake_accounts(now);
        }
    }

    /// Schedules a report to the control plane no later than `at`.
    pub(super) fn wake_accounts(&mut self, at: Instant) {
        self.accounts.report_at = self.accounts.report_at.min(at);
    }

    /// Returns the mark with which an ADU is sent on, as in the node.
    pub(super) fn outgoing_mark(&self, header: &Header, is_acknowledged: bool) -> Mark {
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

    /// Counts a link's outcome. An ADU that is still arriving is counted later, because this node does not
    /// own it yet.
    pub(super) fn count_ended(&mut self, transit: &Transit, ended: Ended, now: Instant) {
        if let Some(intake) = transit.via.and_then(|via| self.intakes.get_mut(&via)) {
            intake.ended = Some((ended, transit.header.mark()));
            return;
        }
        let end = (ended, transit.header.mark());
        if transit.is_void {
            self.count_void(transit.incoming_mark, &transit.header, end, now);
        } else {
            self.count_end(&transit.header, end, now);
        }
    }

    /// Counts the outcome of an ADU that was sent with a mark.
    fn count_end(&mut self, header: &Header, (ended, mark): (Ended, Mark), now: Instant) {
        self.count(header, now, |counts, band| ended.count(counts, mark, band));
    }

    /// Counts an ADU that is now whole, and its outcome if it was forwarded while arriving.
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

    /// Counts an ADU that was forwarded and never became whole. The node before accounts for it, unless
    /// the next node already has.
    pub(super) fn count_void(
        &mut self,
        incoming_mark: Mark,
        header: &Header,
        (ended, mark): (Ended, Mark),
        now: Instant,
    ) {
        match ended {
            Ended::Left => {
                self.count_arrived(incoming_mark, header, now);
                self.count(header, now, |counts, band| counts.leave(mark, band));
            }
            Ended::Failed(_) => {
                self.count(header, now, |counts, band| counts.disown(mark, band));
            }
        }
    }

    /// Reports the counts to the control plane.
    pub(super) fn report_counts(&mut self, now: Instant) {
        self.accounts.report_at = Instant::NEVER;
        self.report_all_held(now);
        for (stream, epoch) in std::mem::take(&mut self.accounts.changed) {
            if let Some((counts, _)) = self.accounts.plans.get(&(stream, epoch)) {
                self.controller.handle_counts(stream, epoch, counts, now);
            }
        }
    }

    /// Returns the ledger reading of each stream published here, as the control plane knows it.
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
