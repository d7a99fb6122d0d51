//! One node's account of one plan: its counters, those of the downstream nodes, and its reports.
//!
//! *The idea.* The driver provides the node's own [`Counts`]; the next node's reports arrive over
//! the control plane. The losses between the two follow from both (`hop`).
//!
//! *When to report.* A sink reports an ended mark [`SETTLE`] after it saw the next one, and a pause
//! [`QUIET`] after the last marked ADU; a pause that ends is reported soon. Without marks it reports
//! grown counters [`EVERY`] after its last report. A relay waits for the downstream nodes as long as
//! they took recently and forwards their statements with its own, at most once per
//! [`FORWARD_EVERY`]. So one report per mark travels up the path and collects all counters.
//! Deliveries are in every few reports, and in that of a pause.
//!
//! ```text
//! known after ≤ 600 ms until the mark ends + way there + 80 ms + RTTs of the downstream hops + way back
//!       before a pause     250 to 375 ms + RTT of the hop and of the downstream ones + way back
//! ```
//!
//! *What is accepted:* reports of the plan's next node over its authenticated link, unless `check`
//! finds them impossible.

mod passage;
mod sums;

use alloc::vec::Vec;

use thalweg_base::adu::Mark;
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::limits::{LEDGER_BEHIND_MAX, PATH_NODES_MAX};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::account::{Made, Report, Statement};

use super::disbelief::Disbelief;
use super::entries::Entries;
use super::hop::{Hop, MarkTurn, NextReport};
use super::pace::{EVERY, QUIET, SETTLE, SLACK, STATUS_EVERY, next_tick};
use super::{ALL_COPIED, BANDS, Band, Counts, Marked, What};
use passage::Passage;

pub use passage::Patience;

/// Margin on the measured lag of downstream reports.
const MARGIN: Duration = Duration::from_millis(40);

/// Longest wait of a relay for downstream reports.
const PATIENCE_MAX: Duration = Duration::from_millis(400);

/// Shortest interval between forwarded reports, and from a report of a pause to one of a mark.
const FORWARD_EVERY: Duration = Duration::from_millis(300);

/// Minimum interval of reporting deliveries while more ADUs arrive.
const DELIVERED_EVERY: Duration = Duration::from_millis(1_500);

/// A node's position on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The source of a path of this many nodes.
    Source(usize),
    /// The source of a plan that is grafted on another, on a path of this many nodes. It counts nothing
    /// itself: it gave as many ADUs as the node at the graft reports to have copied.
    Graft(usize),
    /// Between source and sink.
    Relay,
    /// The sink.
    Sink,
}

/// The source of a plan's delivery counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryEvidence {
    /// The nodes' reports.
    Reports,
    /// Also the sink's receipts: the plan has ended or its path is broken, so nodes downstream may
    /// be unable to report.
    Receipts,
}

/// One node's account of one plan.
#[derive(Clone, Debug)]
pub struct Account {
    pub(super) place: Place,
    counts: Counts,
    own: Entries,
    /// The next node and those downstream of it.
    behind: Vec<Entries>,
    hop: Hop,
    /// The next node has reported at least once.
    is_heard: bool,
    /// The mark that was still open in the next node's last report.
    next_open: Mark,
    /// This node's clock minus the next node's, plus the transit time of the fastest report.
    clock_offset: Option<Made>,
    /// The mark of the ADUs that arrive now.
    turn: MarkTurn,
    /// When marked ADUs last arrived, and when to check for more: never after [`QUIET`] without any.
    last_arrival: Instant,
    look: Instant,
    /// When the end of the stream arrived; from then on everything is reported at once.
    ended_at: Instant,
    /// When the end of the stream was copied here.
    end_copied: Instant,
    /// The last report said that everything is reported, so new arrivals are reported soon.
    has_reported_all: bool,
    reported: Option<Instant>,
    /// When this node last reported the beginning or end of a pause.
    status_reported: Option<Instant>,
    /// When this node last forwarded downstream statements.
    forwarded: Option<Instant>,
    /// Time from a mark's settling here to the downstream reports of it, a slowly falling maximum.
    lag: Option<Duration>,
    /// The next report says that this node counts, even if it has no counters.
    announces_itself: bool,
    due: Instant,
    /// When deliveries were last reported.
    delivered_reported: Instant,
    basis: DeliveryEvidence,
    /// Lost ADUs at the last call of [`Account::has_lost_more`].
    lost: u64,
    passage: Passage,
}

impl Account {
    /// Returns the account of a node that begins to count now; `since` must exceed that of each
    /// earlier life.
    pub fn new(place: Place, since: u64, now: Instant) -> Self {
        Self {
            place,
            counts: Counts::default(),
            own: Entries::new(since),
            behind: Vec::new(),
            hop: Hop::new(now),
            is_heard: false,
            next_open: Mark::NONE,
            clock_offset: None,
            turn: MarkTurn::new(),
            last_arrival: now,
            look: Instant::NEVER,
            ended_at: Instant::NEVER,
            end_copied: Instant::NEVER,
            has_reported_all: false,
            reported: None,
            status_reported: None,
            forwarded: None,
            lag: None,
            announces_itself: true,
            due: now,
            delivered_reported: now,
            basis: DeliveryEvidence::Reports,
            lost: 0,
            passage: Passage::new(now),
        }
    }

    /// Takes in the round-trip time of the link to the next node.
    pub fn handle_rtt(&mut self, rtt: Duration) {
        self.hop.handle_rtt(rtt);
    }

    /// Takes in that the next node does not answer, or answers again.
    ///
    /// While it is silent its reports are not waited for: ADUs that leave count as lost and are
    /// reported soon.
    pub fn handle_silence(&mut self, is_silent: bool, now: Instant) {
        let arrived = arrived_at(self.behind.first());
        self.hop
            .handle_silence((is_silent && self.is_heard).then_some(&arrived), now);
    }

    /// Takes in, at the source, that downstream nodes may be unable to report: the plan has ended
    /// or its path is broken. From now on the sink's receipts, and what was given again under
    /// another plan, count where the reports fall short.
    pub const fn go_by_receipts(&mut self) {
        self.basis = DeliveryEvidence::Receipts;
    }

    /// Takes in what this node has counted so far.
    ///
    /// The driver calls it soon after it has counted something, at once if the mark changed, and
    /// before every other method: a report is only as new as these counts.
    pub fn handle_counts(&mut self, counts: &Counts, now: Instant) {
        self.hop.handle_left(&self.counts, counts, now);
        let has_mark_changed = self.turn.handle(&self.counts.arrived, &counts.arrived, now);
        let marked = Mark::NONE.index() + 1..;
        let has_come = self.counts.arrived[marked.clone()] != counts.arrived[marked];
        self.counts.clone_from(counts);
        if has_come {
            self.handle_arrivals(now);
        }
        if counts.is_end_copied && self.end_copied.is_never() {
            // ADUs that left before the end may arrive a little later.
            (self.ended_at, self.end_copied) = (now, now);
            self.due = self.due.min(now + SETTLE);
        }
        self.update_losses(None, now);
        self.update_own(has_mark_changed, now);
    }

    /// Handles the arrival of marked ADUs.
    fn handle_arrivals(&mut self, now: Instant) {
        (self.last_arrival, self.look) = (now, next_tick(now));
        if self.ended_at <= now {
            self.due = self.due.min(now + SETTLE);
        } else if self.has_reported_all {
            let due = self.status_due(now + SETTLE) + self.patience();
            self.due = self.due.min(due);
        }
    }

    /// Checks whether marked ADUs still arrive.
    fn look(&mut self, now: Instant) {
        if self.last_arrival + QUIET > now {
            self.look = next_tick(now);
            return;
        }
        self.look = Instant::NEVER;
        // After the end there may be nothing left to report, yet the upstream node needs one more
        // report to judge the ADUs that left shortly before it.
        self.announces_itself |= self.ended_at <= now;
        let due = self.status_due(now) + self.patience();
        self.due = self.due.min(due);
    }

    /// Returns whether no more ADUs of the current mark are expected.
    fn is_quiet(&self, now: Instant) -> bool {
        self.look.is_never() || self.ended_at <= now
    }

    /// Takes in that the end of the stream has arrived: the next report is due at once, after
    /// [`Account::handle_counts`].
    pub fn handle_end(&mut self, now: Instant) {
        (self.ended_at, self.due) = (now, now);
    }

    /// Returns the earliest time, from `then` on, to report that a pause has begun or ended.
    fn status_due(&self, then: Instant) -> Instant {
        let last = match self.place {
            // A relay's forwarded reports do not count: they speak of other nodes.
            Place::Relay => self.status_reported,
            _ if self.ended_at <= then => None,
            _ => self.reported,
        };
        last.map_or(then, |last| then.max(last + STATUS_EVERY))
    }

    /// Takes in the next node's report.
    ///
    /// Fails   if the report cannot be true; then nothing of it is kept
    pub fn handle_report(&mut self, report: &Report, now: Instant) -> Result<(), Disbelief> {
        let is_first = self.behind.first().is_none_or(Entries::is_unknown);
        let is_continuation = |first: &Statement| first.distance == 0 && first.since.is_none();
        let life = self.behind.first().map(Entries::since);
        if is_first && report.statements.first().is_some_and(is_continuation) {
            // For an earlier life of this account; the next node reports all again with its lease.
            return Ok(());
        }
        // A copy, so that a rejected report changes nothing.
        let mut behind = self.behind.clone();
        for statement in &report.statements {
            let at = usize::from(statement.distance);
            if at + 1 >= self.nodes_max() {
                let distance = statement.distance;
                return Err(Disbelief::OffPath { distance });
            }
            if behind.len() <= at {
                behind.resize_with(at + 1, Entries::default);
            }
            behind[at].merge(statement);
        }
        let kept = behind.iter().map(Entries::len).sum();
        if kept > LEDGER_BEHIND_MAX {
            return Err(Disbelief::Many(kept));
        }
        if let (Place::Graft(_), Some(next)) = (self.place, behind.first()) {
            self.counts = copied(next);
        }
        let unrelated = self.check(&behind)?;
        self.hop.unrelated = unrelated;
        self.behind = behind;
        self.is_heard = true;
        let before = core::mem::replace(&mut self.next_open, report.open);
        // From one mark to the next, without a pause between.
        if ![Mark::NONE, report.open].contains(&before) && report.open != Mark::NONE {
            self.time_lag(report.open, now);
        }
        // A restarted node has another clock.
        if life != self.behind.first().map(Entries::since) {
            self.clock_offset = None;
        }
        let late = self.lateness(report.made, now);
        self.update_losses(Some((report.open, late)), now);
        self.update_own(false, now);
        if self.own.is_fresh() || self.behind.iter().any(Entries::is_fresh) {
            let earliest = self
                .forwarded
                .map_or(now, |forwarded| forwarded + FORWARD_EVERY);
            self.due = self.due.min(earliest.max(now));
            self.forwarded = Some(self.due);
        }
        Ok(())
    }

    /// Returns how many nodes there can be from this one to the sink, both included.
    const fn nodes_max(&self) -> usize {
        match self.place {
            Place::Source(nodes) | Place::Graft(nodes) => nodes,
            // The source is upstream, and this node's statement comes first in its own report: a
            // longer one could not be forwarded.
            Place::Relay => PATH_NODES_MAX - 1,
            Place::Sink => 1,
        }
    }

    /// Returns how much longer than the fastest a report travelled: a late one was lost and retransmitted.
    ///
    /// The reference is the fastest report so far, which ages by a sixteenth of the excess each time.
    fn lateness(&mut self, made: Made, now: Instant) -> Duration {
        // Holds both clocks' offset and the transit time: it is only compared with itself.
        let apart = Made::at(now).less(made);
        let least = *self.clock_offset.get_or_insert(apart);
        let late = apart.since(least);
        self.clock_offset = Some(match late {
            ..=0 => apart,
            _ => least.plus((late / 16).max(1)),
        });
        Duration::from_millis(u64::try_from(late).unwrap_or(0))
    }

    /// Takes in that the downstream nodes have reported the mark before `open_mark`.
    ///
    /// The lag is a maximum that falls by an eighth of the difference each time.
    fn time_lag(&mut self, open_mark: Mark, now: Instant) {
        let turn = match self.place {
            Place::Source(_) => self.hop.turn(),
            _ => self.turn,
        };
        if turn.current != open_mark {
            return;
        }
        let lag = now.saturating_since(turn.began + SETTLE).min(Mark::PERIOD);
        let long = self.lag.unwrap_or(lag);
        let fall = Duration::from_nanos(long.saturating_sub(lag).as_nanos() / 8);
        let lag = lag.max(long.saturating_sub(fall));
        self.lag = Some(lag);
        self.hop.handle_lag(lag + MARGIN);
    }

    /// Rejects more arrivals than ADUs sent and, at the source, more losses or deliveries than ADUs
    /// given. Returns the arrivals from before this account.
    fn check(&self, behind: &[Entries]) -> Result<Marked, Disbelief> {
        let (reported, known) = (arrived_at(behind.first()), arrived_at(self.behind.first()));
        let mut unrelated = self.hop.unrelated;
        for at in 0..BANDS {
            for mark in 0..Mark::COUNT {
                let (arrived, sent) = (reported[mark][at], self.counts.sent[mark][at]);
                // The first report of this counter: arrivals beyond the ADUs sent predate this account.
                if known[mark][at] == 0 {
                    unrelated[mark][at] = arrived.saturating_sub(sent);
                }
                let arrived = arrived.saturating_sub(unrelated[mark][at]);
                if arrived > sent {
                    return Err(Disbelief::Arrived { arrived, sent });
                }
            }
        }
        // Only the source knows for certain that every reported ADU was its own.
        if matches!(self.place, Place::Source(_)) {
            for ended in behind.iter().map(Entries::ended) {
                for band in Band::all() {
                    let (ended, given) = (ended[band.index()], self.counts.arrived(band));
                    if ended > given {
                        return Err(Disbelief::Ended { ended, given });
                    }
                }
            }
        }
        Ok(unrelated)
    }

    /// Updates the losses on the hop to the next node, from a fresh report (its open mark, its
    /// lateness) or from earlier ones.
    fn update_losses(&mut self, fresh: Option<(Mark, Duration)>, now: Instant) {
        // No hop leads from this node to the graft.
        if matches!(self.place, Place::Graft(_)) {
            return;
        }
        let arrived = arrived_at(self.behind.first());
        let report = NextReport {
            arrived: &arrived,
            fresh: fresh.map(|(open_mark, _)| open_mark),
            late: fresh.map_or(Duration::ZERO, |(_, late)| late),
            is_all: self.next_open == Mark::NONE,
        };
        // A node that never reported may speak an earlier version: nothing is concluded.
        let report = self.is_heard.then_some(&report);
        self.hop.update_losses(&self.counts, report, now);
    }

    /// Raises this node's own counters to its counts and conclusions.
    fn update_own(&mut self, has_mark_changed: bool, now: Instant) {
        let mut has_grown = false;
        let mut raise = |what: What, counts: &[u64; BANDS]| {
            // Most causes and marks never count anything.
            if *counts != [0; BANDS] {
                for band in Band::all() {
                    has_grown |= self.own.raise(what.number(band), counts[band.index()]);
                }
            }
        };
        for cause in DropCause::ALL {
            let mut dropped = self.counts.dropped[cause.index()];
            if cause == DropCause::PathLost {
                let lost = self.hop.lost();
                dropped
                    .iter_mut()
                    .zip(lost)
                    .for_each(|(all, on_way)| *all += on_way);
            }
            raise(What::Dropped(cause), &dropped);
        }
        for mark in Mark::all() {
            raise(What::Arrived(mark), &self.counts.arrived[mark.index()]);
        }
        raise(What::Delivered, &self.counts.delivered);
        raise(What::Returned, &self.hop.returned());
        if has_grown {
            // A mark that has ended is reported soon, and so is a silent next node.
            let earliest = if has_mark_changed || self.hop.is_silent() {
                self.status_reported
                    .max(self.reported.filter(|_| !has_mark_changed))
                    .map(|last| last + FORWARD_EVERY)
            } else {
                self.reported.map(|reported| reported + EVERY)
            };
            let earliest = earliest.unwrap_or(now);
            let due = earliest.max(now + SETTLE) + self.patience();
            self.due = self.due.min(due);
        }
    }

    /// Returns how long to wait for downstream reports: a relay sends one report with theirs instead of two.
    fn patience(&self) -> Duration {
        match self.place {
            Place::Sink => Duration::ZERO,
            _ if self.hop.is_silent() => Duration::ZERO,
            Place::Source(_) | Place::Graft(_) | Place::Relay => self
                .lag
                .map_or(SLACK, |lag| (lag + MARGIN).min(PATIENCE_MAX)),
        }
    }

    /// Returns the mark that is still arriving and stays out of the report; none in a pause.
    fn open_mark(&self, now: Instant) -> Mark {
        let until = self.turn.began + Mark::PERIOD + SETTLE;
        if now < until && !self.is_quiet(now) {
            self.turn.current
        } else {
            Mark::NONE
        }
    }

    /// Marks everything as unreported, because the upstream node may have forgotten it; the next
    /// report follows [`Account::handle_counts`].
    pub fn refresh(&mut self, now: Instant) {
        self.own.refresh();
        self.behind.iter_mut().for_each(Entries::refresh);
        self.announces_itself = true;
        // All marks at once: a new listener would take arrivals that it learns of later for new.
        self.turn.began = Instant::ZERO;
        self.due = now;
    }

    /// Runs the timers, except the report's.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.look <= now {
            self.look(now);
        }
        if self.hop.poll_timeout() <= now {
            self.update_losses(None, now);
            self.update_own(false, now);
        }
    }

    /// Returns when the next timer or report is due.
    pub fn poll_timeout(&self) -> Instant {
        match self.place {
            Place::Source(_) | Place::Graft(_) => self.hop.poll_timeout().min(self.look),
            Place::Relay | Place::Sink => self.hop.poll_timeout().min(self.due).min(self.look),
        }
    }

    /// Suspends reports until [`Account::refresh`], while no upstream node is reachable.
    pub const fn hold(&mut self) {
        self.due = Instant::NEVER;
    }

    /// Returns the report that is due now for the upstream node.
    pub fn poll_report(&mut self, stream: StreamId, epoch: Epoch, now: Instant) -> Option<Report> {
        if self.due > now || matches!(self.place, Place::Source(_) | Place::Graft(_)) {
            return None;
        }
        if self.turn.current != Mark::NONE && !self.is_quiet(now) && now < self.turn.began + SETTLE
        {
            // ADUs of the previous mark may still arrive, and it would be reported only when the
            // current one ends.
            self.due = self.turn.began + SETTLE;
            return None;
        }
        self.due = Instant::NEVER;
        let open_mark = self.open_mark(now);
        let is_pause = open_mark == Mark::NONE;
        let includes_deliveries = is_pause || self.delivered_reported + DELIVERED_EVERY <= now;
        if includes_deliveries {
            self.delivered_reported = now;
        }
        if self.end_copied + SETTLE <= now {
            self.own.raise(ALL_COPIED, 1);
        }
        let own = self.own.take_fresh(0, |what| match what {
            What::Arrived(mark) => is_pause || mark != open_mark,
            What::Delivered => includes_deliveries,
            What::Dropped(_) | What::Returned | What::AllCopied => true,
        });
        // The rest, mainly of the open mark, follows later.
        if self.own.is_fresh() {
            self.due = (self.turn.began + EVERY).max(now + SETTLE) + self.patience();
        }
        if self.end_copied + SETTLE > now {
            self.due = self.due.min(self.end_copied + SETTLE);
        }
        let announces_itself = core::mem::take(&mut self.announces_itself);
        // A pause that has ended is worth a report without counters.
        let comes_again = core::mem::replace(&mut self.has_reported_all, is_pause) && !is_pause;
        if comes_again || is_pause && self.is_quiet(now) {
            self.status_reported = Some(now);
        }
        let has_status = announces_itself || comes_again;
        let own = own.or_else(|| has_status.then(|| self.own.greeting()));
        // Arrivals matter to the next upstream node only.
        let is_included = |what| !matches!(what, What::Arrived(_));
        let behind = self.behind.iter_mut().enumerate();
        let behind = behind.filter_map(|(at, node)| {
            let reported = node.take_fresh(at + 1, is_included);
            node.mark_reported();
            reported
        });
        let statements: Vec<_> = own.into_iter().chain(behind).collect();
        if statements.is_empty() {
            return None;
        }
        // A repetition does not delay the next new counters.
        if !announces_itself {
            self.reported = Some(now);
        }
        Some(Report {
            stream,
            epoch,
            open: open_mark,
            made: Made::at(now),
            statements,
        })
    }
}

/// Returns the arrivals that a node reported; zero if nothing was heard of it.
fn arrived_at(node: Option<&Entries>) -> Marked {
    node.map_or_else(Marked::default, Entries::arrived)
}

/// Returns what the source of a grafted plan would have counted, had it given what the branching
/// node copied.
fn copied(caster: &Entries) -> Counts {
    let mut counts = Counts::default();
    let reported = caster.arrived();
    (counts.arrived, counts.sent, counts.left) = (reported, reported, reported);
    counts
}
