//! The counts of the plans on a node: the node's part of each stream's ledger.
//!
//! *The idea.* The last node that had an ADU whole accounts for it. So an ADU that is passed on
//! while it arrives belongs to the node before if its rest never comes, and to this node once it
//! has come, or once this node refuses the rest.
//!
//! An ADU in a datagram carries a [`Mark`] that alternates with time. The source sets it, and each
//! node sends it on unchanged, unless the next hop acknowledges ADUs. When the mark changes, the
//! counts are due for a report at once.
//!
//! *What it does not do.* It reports nothing. The end of a stream is no ADU and is not counted.
//!
//! *Sources.* docs/concepts/ledger.md.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::adu::{Flags, Header, Mark};
use thalweg_base::count::{Band, Counts};
use thalweg_base::event::DropCause;
use thalweg_base::time::{Duration, Instant};

use crate::replay::Plan;

/// How long counts may go unreported.
pub const REPORT_TICK: Duration = Duration::from_millis(250);

/// How an ADU that was handed to a link ended: it left, so the next node accounts for it, or this
/// node does, under a cause.
pub type Ended = Result<(), DropCause>;

/// The counts of one plan.
#[derive(Debug, Default)]
pub struct Account {
    counts: Counts,
    /// The mark that arrived last.
    mark: Mark,
    /// Payload bytes handed to the next link.
    bytes: u64,
    has_changed: bool,
}

/// The counts of all plans of a node, and when they are due for a report.
#[derive(Debug)]
pub struct Accounts {
    plans: BTreeMap<Plan, Account>,
    report_at: Instant,
}

impl Account {
    /// Returns the counts.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns the payload bytes that were handed to the next link.
    pub const fn sent_bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the counts have changed since they were last taken.
    pub const fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Returns the counts if they have changed since the last call.
    pub fn take_changed(&mut self) -> Option<&Counts> {
        core::mem::take(&mut self.has_changed).then_some(&self.counts)
    }

    /// Adds to the counts, unless the ADU is the end of its stream; returns whether it was not.
    pub fn count(&mut self, header: &Header, what: impl FnOnce(&mut Counts, Band)) -> bool {
        let is_adu = !header.flags.contains(Flags::END);
        if is_adu {
            what(&mut self.counts, Band::of(header.importance));
            self.has_changed = true;
        }
        is_adu
    }

    /// Counts an ADU that is handed to the next link, with the mark in its header.
    pub fn handle_sent(&mut self, header: &Header, payload_bytes: usize) -> bool {
        self.bytes += payload_bytes as u64;
        let mark = header.mark();
        self.count(header, |counts, band| counts.send(mark, band))
    }

    /// Adds to the counts of a band.
    pub fn count_in(&mut self, band: Band, what: impl FnOnce(&mut Counts, Band)) {
        what(&mut self.counts, band);
        self.has_changed = true;
    }

    /// Counts an ADU that came with a mark and is here whole, or refused; returns whether the mark
    /// is a new one.
    pub fn handle_arrived(&mut self, came: Mark, header: &Header) -> bool {
        self.count(header, |counts, band| counts.arrive(came, band));
        core::mem::replace(&mut self.mark, came) != came
    }

    /// Notes that an ADU is copied here for this plan; returns whether it is the end of the stream:
    /// the source waits for the count up to it.
    pub fn handle_copied(&mut self, header: &Header) -> bool {
        let is_end = header.flags.contains(Flags::END);
        self.counts.is_end_copied |= is_end;
        self.has_changed |= is_end;
        is_end
    }

    /// Counts how an ADU ended that was sent with the mark in its header.
    pub fn handle_ended(&mut self, header: &Header, ended: Ended) {
        let mark = header.mark();
        self.count(header, |counts, band| match ended {
            Ok(()) => counts.leave(mark, band),
            Err(cause) => counts.fail(mark, band, cause),
        });
    }

    /// Counts how an ADU ended that was passed on and never came whole. The node before accounts
    /// for it, unless the next node has it already. Returns whether the mark with which it came is
    /// a new one.
    pub fn handle_void(&mut self, came: Mark, header: &Header, ended: Ended) -> bool {
        let mark = header.mark();
        if ended.is_err() {
            self.count(header, |counts, band| counts.disown(mark, band));
            return false;
        }
        let is_new = self.handle_arrived(came, header);
        self.count(header, |counts, band| counts.leave(mark, band));
        is_new
    }

    /// Returns the mark for the next hop: none if the hop acknowledges ADUs; else the mark with
    /// which the ADU came, or the present one if it came without.
    pub fn outgoing_mark(&self, came: Mark, is_acknowledged: bool) -> Mark {
        match (is_acknowledged, came, self.mark) {
            (true, ..) => Mark::NONE,
            (false, Mark::NONE, Mark::NONE) => Mark::NONE.next(),
            (false, Mark::NONE, last) => last,
            (false, came, _) => came,
        }
    }
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            plans: BTreeMap::new(),
            report_at: Instant::NEVER,
        }
    }
}

impl Accounts {
    /// Adds to the counts of an ADU's plan.
    pub fn count(&mut self, header: &Header, now: Instant, what: impl FnOnce(&mut Counts, Band)) {
        if self.of((header.stream, header.epoch)).count(header, what) {
            self.wake(now + REPORT_TICK);
        }
    }

    /// Adds to the counts of a plan in one band.
    pub fn count_in(
        &mut self,
        plan: Plan,
        band: Band,
        now: Instant,
        what: impl FnOnce(&mut Counts, Band),
    ) {
        self.of(plan).count_in(band, what);
        self.wake(now + REPORT_TICK);
    }

    /// Counts an ADU that is here whole, or refused.
    pub fn handle_arrived(&mut self, came: Mark, header: &Header, now: Instant) {
        let is_new = self
            .of((header.stream, header.epoch))
            .handle_arrived(came, header);
        self.wake_after(header, is_new, now);
    }

    /// Notes that an ADU is copied here for its plan.
    pub fn handle_copied(&mut self, header: &Header, now: Instant) {
        if self.of((header.stream, header.epoch)).handle_copied(header) {
            self.wake(now);
        }
    }

    /// Counts an ADU that is handed to the next link.
    pub fn handle_sent(&mut self, header: &Header, payload_bytes: usize, now: Instant) {
        let account = self.of((header.stream, header.epoch));
        if account.handle_sent(header, payload_bytes) {
            self.wake(now + REPORT_TICK);
        }
    }

    /// Counts an ADU that is refused here, or that no plan carries.
    pub fn handle_refused(&mut self, header: &Header, cause: DropCause, now: Instant) {
        self.handle_arrived(header.mark(), header, now);
        self.count(header, now, |counts, band| counts.give_up(band, cause));
    }

    /// Counts how an ADU ended that was sent.
    pub fn handle_ended(&mut self, header: &Header, ended: Ended, now: Instant) {
        self.of((header.stream, header.epoch))
            .handle_ended(header, ended);
        self.wake_after(header, false, now);
    }

    /// Counts how an ADU ended that was passed on and never came whole.
    pub fn handle_void(&mut self, came: Mark, header: &Header, ended: Ended, now: Instant) {
        let account = self.of((header.stream, header.epoch));
        let is_new = account.handle_void(came, header, ended);
        self.wake_after(header, is_new, now);
    }

    fn wake_after(&mut self, header: &Header, is_mark_new: bool, now: Instant) {
        if is_mark_new {
            self.wake(now);
        } else if !header.flags.contains(Flags::END) {
            self.wake(now + REPORT_TICK);
        }
    }

    /// Makes a report due at `at`, if it is not due earlier.
    pub fn wake(&mut self, at: Instant) {
        self.report_at = self.report_at.min(at);
    }

    /// Returns when a report is due.
    pub const fn poll_timeout(&self) -> Instant {
        self.report_at
    }

    /// Returns the mark for the next hop of an ADU.
    pub fn outgoing_mark(&self, header: &Header, is_acknowledged: bool) -> Mark {
        let none = Account::default();
        let account = self.plans.get(&(header.stream, header.epoch));
        account
            .unwrap_or(&none)
            .outgoing_mark(header.mark(), is_acknowledged)
    }

    /// Returns the counts that have changed since the last call, by plan. Nothing is due then.
    ///
    /// Cost    O(plans)
    pub fn take_changed(&mut self) -> impl Iterator<Item = (Plan, &Counts)> {
        self.report_at = Instant::NEVER;
        let plans = self.plans.iter_mut();
        plans.filter_map(|(plan, account)| Some((*plan, account.take_changed()?)))
    }

    /// Returns the plans whose counts have changed. Nothing is due then: whoever calls this takes
    /// the counts of each by [`Accounts::take_counts`].
    ///
    /// Cost    O(plans)
    pub fn take_due(&mut self) -> Vec<Plan> {
        self.report_at = Instant::NEVER;
        let plans = self.plans.iter();
        let changed = plans.filter(|(_, account)| account.has_changed());
        changed.map(|(plan, _)| *plan).collect()
    }

    /// Returns the counts of a plan if they have changed since they were last taken.
    pub fn take_counts(&mut self, plan: Plan) -> Option<&Counts> {
        self.plans.get_mut(&plan)?.take_changed()
    }

    /// Returns the account of a plan, if anything was counted.
    pub fn get(&self, plan: Plan) -> Option<&Account> {
        self.plans.get(&plan)
    }

    /// Forgets a plan; if it is installed again, it counts from zero.
    pub fn forget(&mut self, plan: Plan) {
        self.plans.remove(&plan);
    }

    fn of(&mut self, plan: Plan) -> &mut Account {
        self.plans.entry(plan).or_default()
    }
}
