//! Accounts: each node of a plan reports to the one before what became of a stream's ADUs, and the
//! source sums up.
//!
//! *The idea.* There is one [`Account`] for each installed part, for as long as the part exists.
//! Reports go to the part's `previous` and are accepted from its `next` only: the node that sends a
//! plan's ADUs here learns what became of them, and no other. When the source's own part is
//! released, its account is added to the stream's [`Book`].
//!
//! A mark ends for all sinks of a stream at once, so their reports arrive in bursts. A node with
//! many accounts sends the first report at once, and batches those due within [`ROUND`] of it: one
//! packet instead of hundreds.
//!
//! *What it does not do.* It counts nothing: the driver supplies the counters of its data path.
//!
//! *Sources.* docs/concepts/ledger.md; docs/reference/protocol.md §4.3.

use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::limits::PATH_NODES_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::account::Report;
use thalweg_base::wire::control::Said;

use super::{Controller, Note};
use crate::ledger::{Account, Counts, Place, Reading};

/// A node with more accounts than this reports in rounds.
pub(super) const ACCOUNTS_FEW: usize = 16;

/// Interval of rounds: small compared with [`SETTLE`](crate::ledger::SETTLE), as each node of a
/// path may add as much.
pub(super) const ROUND: Duration = Duration::from_millis(10);

impl Controller {
    /// Handles the counters of a plan since its part was installed.
    ///
    /// [`Epoch`] 0 stands for what a producer on this node sent under no plan. The driver calls this
    /// periodically; at once when another mark is counted or the end of a stream is copied; for the due
    /// accounts ([`Controller::accounts_due`]) before [`Controller::handle_timeout`]; and for the plan of
    /// an account frame ([`thalweg_base::wire::control::accounted`]) before it hands the frame over.
    pub fn handle_counts(&mut self, stream: StreamId, epoch: Epoch, counts: &Counts, now: Instant) {
        let rtt = self.next_rtt(stream, epoch);
        let counted = self.accounts.change((stream, epoch), |account| {
            if let Some(rtt) = rtt {
                account.handle_rtt(rtt);
            }
            account.handle_counts(counts, now);
        });
        if counted.is_some() {
            if self.sources.contains_key(&stream) {
                self.continuity.withholders.handle_sent(now);
            }
            self.report(stream, epoch, now);
        } else if let Some(source) = self.sources.get_mut(&stream).filter(|_| epoch.0 == 0) {
            source.book.handle_unplanned(counts);
        }
        self.note_losses(stream, epoch, now);
    }

    /// Returns the round trip to the next node of a plan, plus its usual jitter.
    fn next_rtt(&self, stream: StreamId, epoch: Epoch) -> Option<Duration> {
        let next = self.parts.get(&(stream, epoch))?.installation().next?;
        let reading = self.links.get(&next)?.reading();
        Some(reading.rtt + reading.jitter).filter(|rtt| *rtt != Duration::ZERO)
    }

    /// Informs the accounts of all plans to a neighbour that it is silent, or answers again.
    pub(super) fn silence_accounts(&mut self, peer: NodeId, is_silent: bool, now: Instant) {
        for (plan, part) in &self.parts {
            if part.installation().next == Some(peer) {
                self.accounts
                    .change(*plan, |account| account.handle_silence(is_silent, now));
            }
        }
    }

    /// Bases the accounts of these plans also on the sinks' receipts: their paths are broken, or
    /// further reports of the nodes are not awaited.
    pub fn go_by_receipts(&mut self, stream: StreamId, plans: &[Epoch]) {
        for epoch in plans {
            self.accounts
                .change((stream, *epoch), Account::go_by_receipts);
        }
    }

    /// Returns what became of the ADUs of a stream that this node publishes.
    ///
    /// Cost    O(counters of its plans)
    pub fn reading(&self, stream: StreamId) -> Option<Reading> {
        let source = self.sources.get(&stream)?;
        let plans = source.paths.keys().filter_map(|epoch| {
            let account = self.accounts.get((stream, *epoch))?;
            Some((account, source.account_path(*epoch)))
        });
        Some(source.book.reading(self.id(), plans))
    }

    /// Returns whether the caster nodes have reported how much of a published stream was sent by
    /// these plans, which brought its end to their sinks.
    ///
    /// Cost    O(counters of those plans)
    pub fn knows_given(&self, stream: StreamId, plans: &[Epoch]) -> bool {
        let accounts = plans.iter();
        let mut accounts = accounts.filter_map(|epoch| self.accounts.get((stream, *epoch)));
        accounts.all(Account::knows_given)
    }

    pub(super) fn handle_report(&mut self, from: NodeId, report: &Report, now: Instant) {
        let key = (report.stream, report.epoch);
        let part = self.parts.get(&key);
        if part.is_none_or(|part| part.installation().next != Some(from)) {
            return self.note(Note::AccountAstray { from });
        }
        self.apply_report(from, report, now);
    }

    /// Handles a report from a node that is known to be the right one.
    pub(super) fn apply_report(&mut self, from: NodeId, report: &Report, now: Instant) {
        let key = (report.stream, report.epoch);
        let taken = self
            .accounts
            .change(key, |account| account.handle_report(report, now));
        match taken {
            None => return self.note(Note::AccountAstray { from }),
            Some(Err(error)) => return self.note(Note::AccountDisbelieved { from, error }),
            Some(Ok(())) => {}
        }
        self.report(report.stream, report.epoch, now);
        self.note_losses(report.stream, report.epoch, now);
    }

    /// Opens the account of a part, unless it is open.
    pub(super) fn open_account(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let Some(part) = self.parts.get(&(stream, epoch)) else {
            return;
        };
        let part = part.installation();
        let nodes = self
            .sources
            .get(&stream)
            .and_then(|source| source.paths.get(&epoch));
        let place = if part.source == self.settings.id {
            Place::Source(nodes.map_or(PATH_NODES_MAX, Vec::len))
        } else if part.next.is_some() {
            Place::Relay
        } else {
            Place::Sink
        };
        // Wall-clock time (ms), so that it is larger after a restart.
        let since = self.settings.since_1970.as_millis() + now.as_nanos() / 1_000_000;
        self.begin_account((stream, epoch), place, since, now);
    }

    /// Opens the account of a plan, unless it is open.
    pub(super) fn begin_account(
        &mut self,
        plan: (StreamId, Epoch),
        place: Place,
        since: u64,
        now: Instant,
    ) {
        self.accounts
            .begin(plan, || Account::new(place, since, now));
    }

    /// Closes the account of a part that is gone.
    pub(super) fn close_account(&mut self, stream: StreamId, epoch: Epoch) {
        let account = self.accounts.end((stream, epoch));
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        if let Some(mut account) = account {
            account.go_by_receipts();
            let path = source.account_path(epoch).to_vec();
            source.book.close(&account, &path);
        }
        source.paths.remove(&epoch);
        source.grafts.remove(&epoch);
    }

    /// Repeats to the previous node what it may have forgotten.
    pub(super) fn refresh_account(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        self.accounts
            .change((stream, epoch), |account| account.refresh(now));
    }

    /// Handles the end of a stream that ends here: nothing more is awaited.
    pub(super) fn end_accounts(&mut self, stream: StreamId, now: Instant) {
        let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
        for (plan, part) in self.parts.range(of_stream) {
            if part.installation().next.is_none() {
                self.accounts
                    .change(*plan, |account| account.handle_end(now));
            }
        }
    }

    /// Repeats all reports for a neighbour that is linked again.
    pub(super) fn refresh_accounts(&mut self, peer: NodeId, now: Instant) {
        let of_peer = self
            .parts
            .keys()
            .filter(|(stream, epoch)| self.upstream(*stream, *epoch) == Some(peer));
        let of_peer: Vec<_> = of_peer.copied().collect();
        for (stream, epoch) in of_peer {
            self.refresh_account(stream, epoch, now);
        }
    }

    /// Returns the plans for which [`Controller::handle_timeout`] would act now.
    ///
    /// Cost    O(plans), or O(1) while there is none
    pub fn accounts_due(&self, now: Instant) -> impl Iterator<Item = (StreamId, Epoch)> {
        let due = self.is_round(now).then(|| self.accounts.due(now));
        due.into_iter().flatten()
    }

    /// Returns when [`Controller::handle_accounts`] has something to do.
    pub(super) fn accounts_timeout(&self) -> Instant {
        self.accounts.poll_timeout().max(self.next_round())
    }

    /// Handles the accounts that are due.
    pub(super) fn handle_accounts(&mut self, now: Instant) {
        if self.accounts.poll_timeout() > now || !self.is_round(now) {
            return;
        }
        let due: Vec<_> = self.accounts.due(now).collect();
        for (stream, epoch) in due {
            self.accounts
                .change((stream, epoch), |account| account.handle_timeout(now));
            self.report(stream, epoch, now);
            self.note_losses(stream, epoch, now);
        }
        self.accounts.update_due();
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
    fn report(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let key = (stream, epoch);
        if !self.parts.contains_key(&key) || !self.is_round(now) {
            return;
        }
        let previous = self.upstream(stream, epoch);
        let is_heard = previous.is_some_and(|previous| self.links.contains_key(&previous));
        let report = self.accounts.change(key, |account| {
            if is_heard {
                account.poll_report(stream, epoch, now)
            } else {
                account.hold();
                None
            }
        });
        if let Some(report) = report.flatten() {
            self.last_round = now;
            self.send_upstream(Said::Account(report));
        }
    }

    /// Notes now and then that a stream of this node loses ADUs, if this plan has lost more.
    fn note_losses(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let has_lost_more = self
            .accounts
            .change((stream, epoch), Account::has_lost_more);
        if has_lost_more == Some(true) {
            source.book.handle_loss();
        }
        // Summing up all plans for each report took half of the CPU time of a source with 200 sinks.
        if !source.book.is_note_due(now) {
            return;
        }
        let Some(reading) = self.reading(stream) else {
            return;
        };
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        if let Some(loss) = source.book.poll_note(&reading, now) {
            let name = source.publication().name.clone();
            self.note(Note::Losing { stream: name, loss });
        }
    }
}
