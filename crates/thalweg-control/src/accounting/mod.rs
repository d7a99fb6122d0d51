//! Accounts: each node of a plan reports to the one before what became of a stream's ADUs, and the
//! source sums up.
//!
//! *The idea.* There is one [`Account`] for each installed part, for as long as the part exists.
//! Reports go to the part's `previous` and are accepted from its `next` only: the node that sends a
//! plan's ADUs here learns what became of them, and no other. When the source's own part is
//! released, its account is added to the stream's [`Book`](crate::ledger::Book).
//!
//! A mark ends for all sinks of a stream at once, so their reports arrive in bursts. A node with
//! many accounts sends the first report at once, and batches those due within [`ROUND`] of it: one
//! packet instead of hundreds.
//!
//! *What it does not do.* It counts nothing: the driver supplies the counters of its data path. It
//! knows no stream's book: [`sources`](crate::sources) has it.
//!
//! *Sources.* docs/concepts/ledger.md; docs/reference/protocol.md §4.3.

mod table;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::account::Report;
use thalweg_base::wire::control::Said;

use crate::effect::{Ask, Note, PlanKey, Turn};
use crate::facts::{Links, Local};
use crate::ledger::{Account, Counts, Patience, Place};
use crate::parts::Parts;
use table::Accounts;

/// A node with more accounts than this reports in rounds.
pub(crate) const ACCOUNTS_FEW: usize = 16;

/// Interval of rounds: small compared with [`SETTLE`](crate::ledger::SETTLE), as each node of a
/// path may add as much.
pub(crate) const ROUND: Duration = Duration::from_millis(10);

/// What is known of the passage of ADUs to the nodes behind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    /// The position of the last node that is known to have what left, if those behind it lack it.
    pub(crate) last: Option<usize>,
    /// Whether reports on ADUs that left are awaited.
    pub(crate) is_awaited: bool,
}

/// The owner of the accounts of all plans with a part here.
#[derive(Debug, Default)]
pub struct Accounting {
    accounts: Accounts,
    /// When a report was last sent; a node with many accounts reports in rounds.
    last_round: Instant,
}

impl Accounting {
    /// Returns the account of a plan.
    pub(crate) fn get(&self, plan: PlanKey) -> Option<&Account> {
        self.accounts.get(plan)
    }

    /// Returns whether the caster nodes have reported how much of a published stream was sent by
    /// these plans, which brought its end to their sinks.
    ///
    /// Cost    O(counters of those plans)
    pub fn knows_given(&self, stream: StreamId, plans: &[Epoch]) -> bool {
        let accounts = plans.iter();
        let mut accounts = accounts.filter_map(|epoch| self.get((stream, *epoch)));
        accounts.all(Account::knows_given)
    }

    /// Returns the plans with due accounts: those for which
    /// [`Controller::handle_timeout`](crate::control::Controller::handle_timeout) would act now.
    ///
    /// Cost    O(plans), or O(1) while there is none
    pub fn due(&self, now: Instant) -> impl Iterator<Item = (StreamId, Epoch)> {
        let due = self.is_round(now).then(|| self.accounts.due(now));
        due.into_iter().flatten()
    }

    /// Returns whether [`Accounting::due`] is to be handled now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.accounts.poll_timeout() <= now && self.is_round(now)
    }

    /// Opens the account of a plan, unless it is open. `since` grows with each start of this node.
    pub(crate) fn open(&mut self, plan: PlanKey, place: Place, since: u64, now: Instant) {
        self.accounts
            .begin(plan, || Account::new(place, since, now));
    }

    /// Closes and returns the account of a plan that is over.
    pub(crate) fn close(&mut self, plan: PlanKey) -> Option<Account> {
        self.accounts.end(plan)
    }

    /// Handles the counters of a plan since its part was installed; returns whether it has an account.
    pub(crate) fn handle_counts(
        &mut self,
        turn: &mut Turn<'_>,
        (local, parts): (&Local<'_>, &Parts),
        plan: PlanKey,
        counts: &Counts,
    ) -> bool {
        let now = turn.now;
        let rtt = next_rtt(parts, local.links, plan);
        let counted = self.accounts.change(plan, |account| {
            if let Some(rtt) = rtt {
                account.handle_rtt(rtt);
            }
            account.handle_counts(counts, now);
        });
        if counted.is_some() {
            self.report(turn, local, parts, plan);
        }
        counted.is_some()
    }

    /// Handles a report from a neighbour.
    pub(crate) fn handle_report(
        &mut self,
        turn: &mut Turn<'_>,
        (local, parts): (&Local<'_>, &Parts),
        from: NodeId,
        report: &Report,
    ) {
        let part = parts.get((report.stream, report.epoch));
        if part.is_none_or(|part| part.next != Some(from)) {
            return turn.note(Note::AccountAstray { from });
        }
        self.apply_report(turn, (local, parts), from, report);
    }

    /// Handles a report from a node that is known to be the right one.
    pub(crate) fn apply_report(
        &mut self,
        turn: &mut Turn<'_>,
        (local, parts): (&Local<'_>, &Parts),
        from: NodeId,
        report: &Report,
    ) {
        let (plan, now) = ((report.stream, report.epoch), turn.now);
        let taken = self
            .accounts
            .change(plan, |account| account.handle_report(report, now));
        match taken {
            None => turn.note(Note::AccountAstray { from }),
            Some(Err(error)) => turn.note(Note::AccountDisbelieved { from, error }),
            Some(Ok(())) => {
                self.report(turn, local, parts, plan);
                turn.ask(Ask::Counted(plan));
            }
        }
    }

    /// Handles a due account.
    pub(crate) fn handle_due(
        &mut self,
        turn: &mut Turn<'_>,
        (local, parts): (&Local<'_>, &Parts),
        plan: PlanKey,
    ) {
        let now = turn.now;
        self.accounts
            .change(plan, |account| account.handle_timeout(now));
        self.report(turn, local, parts, plan);
    }

    /// Handles the end of a round in which all due accounts were handled.
    pub(crate) fn handle_round_over(&mut self) {
        self.accounts.update_due();
    }

    /// Returns when an account is due.
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.accounts.poll_timeout().max(self.next_round())
    }

    /// Informs the accounts of all plans to a neighbour that it is silent, or answers again.
    pub(crate) fn handle_silence(
        &mut self,
        parts: &Parts,
        (peer, is_silent): (NodeId, bool),
        now: Instant,
    ) {
        for plan in parts.leading_to(peer) {
            self.accounts
                .change(plan, |account| account.handle_silence(is_silent, now));
        }
    }

    /// Bases the accounts of these plans also on the sinks' receipts: their paths are broken, or
    /// further reports of the nodes are not awaited.
    pub(crate) fn go_by_receipts(&mut self, stream: StreamId, plans: &[Epoch]) {
        for epoch in plans {
            self.accounts
                .change((stream, *epoch), Account::go_by_receipts);
        }
    }

    /// Handles the end of a stream that ends here: nothing more is awaited.
    pub(crate) fn handle_end(&mut self, parts: &Parts, stream: StreamId, now: Instant) {
        let ending = parts.of_stream(stream).filter(|part| part.next.is_none());
        for part in ending {
            self.accounts
                .change((stream, part.epoch), |account| account.handle_end(now));
        }
    }

    /// Repeats to the previous node what it may have forgotten.
    pub(crate) fn refresh(&mut self, plan: PlanKey, now: Instant) {
        self.accounts.change(plan, |account| account.refresh(now));
    }

    /// Repeats all reports for a neighbour that is linked again.
    pub(crate) fn handle_link_up(&mut self, parts: &Parts, peer: NodeId, now: Instant) {
        for part in parts.installations() {
            let plan = (part.stream, part.epoch);
            if parts.upstream(plan) == Some(peer) {
                self.refresh(plan, now);
            }
        }
    }

    /// Handles how many of the ADUs that went by a plan its sink lacks, though it has later ones;
    /// returns the position of the last node that is known to have them, if that is news.
    pub(crate) fn handle_missing(
        &mut self,
        plan: PlanKey,
        missing: u64,
        now: Instant,
    ) -> Option<usize> {
        let passed_over = |account: &mut Account| account.handle_missing(missing, now);
        self.accounts.change(plan, passed_over)?
    }

    /// Looks for nodes behind which nothing is known of the ADUs that left.
    pub(crate) fn look_through(
        &mut self,
        plan: PlanKey,
        patience: &Patience,
        now: Instant,
    ) -> Option<Passage> {
        self.accounts.change(plan, |account| Passage {
            last: account.look_through(patience, now),
            is_awaited: account.awaits_passage(),
        })
    }

    /// Returns whether a plan has lost more since the last call.
    pub(crate) fn has_lost_more(&mut self, plan: PlanKey) -> bool {
        let lost = self.accounts.change(plan, Account::has_lost_more);
        lost == Some(true)
    }

    /// Returns when the next round may begin; with few accounts each report is a round of its own.
    fn next_round(&self) -> Instant {
        if self.accounts.len() > ACCOUNTS_FEW {
            self.last_round + ROUND
        } else {
            Instant::ZERO
        }
    }

    /// Returns whether reports may be sent now: in a round that has just begun, or in the next.
    fn is_round(&self, now: Instant) -> bool {
        now <= self.last_round || now >= self.next_round()
    }

    /// Sends the due report to the previous node; between two rounds it stays due.
    fn report(&mut self, turn: &mut Turn<'_>, local: &Local<'_>, parts: &Parts, plan: PlanKey) {
        let now = turn.now;
        if parts.get(plan).is_none() || !self.is_round(now) {
            return;
        }
        let previous = parts.upstream(plan);
        let is_heard = previous.is_some_and(|previous| local.links.has(previous));
        let report = self.accounts.change(plan, |account| {
            if is_heard {
                account.poll_report(plan.0, plan.1, now)
            } else {
                account.hold();
                None
            }
        });
        if let Some(report) = report.flatten() {
            self.last_round = now;
            parts.report(turn, Said::Account(report));
        }
    }
}

/// Returns the round trip to the next node of a plan, plus its usual jitter.
fn next_rtt(parts: &Parts, links: &Links, plan: PlanKey) -> Option<Duration> {
    let next = parts.get(plan)?.next?;
    let reading = links.get(next)?.reading();
    Some(reading.rtt + reading.jitter).filter(|rtt| *rtt != Duration::ZERO)
}
