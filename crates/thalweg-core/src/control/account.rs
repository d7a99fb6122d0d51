//! What became of streams' ADUs: each node of a plan tells the one before, and the source adds up.
//!
//! *The idea.* One [`Account`] for each part that is installed here, for as long as the part is. Reports go to the part's
//! `previous` and are taken from its `next` only: who may send a plan's ADUs here hears what became of them, and nobody
//! else is asked. When the source's own part goes, its account is summed into the stream's [`Book`].
//!
//! A mark ends for all sinks of a stream at once, so their words come in crowds. A node of many accounts says the first of them at
//! once, and what is due within [`ROUND`] of that together: one packet where there would be hundreds.
//!
//! *What it does not do.* It counts nothing: the driver gives what its data path has counted.
//!
//! *Sources.* docs/ledger.md; docs/protocol.md §4.3.

use alloc::vec::Vec;

use super::{Controller, Note};
use crate::id::{Epoch, NodeId, StreamId};
use crate::ledger::{Account, Counts, Place, Reading};
use crate::limits::PATH_NODES_MAX;
use crate::time::{Duration, Instant};
use crate::wire::account::Report;
use crate::wire::control::Said;

/// A node of more accounts than this speaks of them in rounds.
pub(super) const ACCOUNTS_FEW: usize = 16;

/// How far apart those are: little beside [`SETTLE`](crate::ledger::SETTLE), for each node of a path may add as much.
pub(super) const ROUND: Duration = Duration::from_millis(10);

impl Controller {
    /// Takes in what the data path has counted of a plan since its part was installed.
    ///
    /// With [`Epoch`] 0: what a producer on this node gave under no plan. A driver says this now and then, at once when another
    /// mark is counted or the end of a stream is copied, of those that are due ([`Controller::accounts_due`]) before
    /// [`Controller::handle_timeout`], and whenever a frame is an account ([`crate::wire::control::accounted`]) before it hands
    /// that over.
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
                self.continuity.withholders.handle_left(now);
            }
            self.report(stream, epoch, now);
        } else if let Some(source) = self.sources.get_mut(&stream).filter(|_| epoch.0 == 0) {
            source.book.handle_unplanned(counts);
        }
        self.note_losses(stream, epoch, now);
    }

    /// Returns the round trip to the next node of a plan, with what it is wont to vary by.
    fn next_rtt(&self, stream: StreamId, epoch: Epoch) -> Option<Duration> {
        let next = self.parts.get(&(stream, epoch))?.installation().next?;
        let reading = self.links.get(&next)?.reading();
        Some(reading.rtt + reading.jitter).filter(|rtt| *rtt != Duration::ZERO)
    }

    /// Tells the accounts of all that goes to a neighbour that it does not answer, or answers again.
    pub(super) fn silence_accounts(&mut self, peer: NodeId, is_silent: bool, now: Instant) {
        for (plan, part) in &self.parts {
            if part.installation().next == Some(peer) {
                self.accounts
                    .change(*plan, |account| account.handle_silence(is_silent, now));
            }
        }
    }

    /// Has the accounts of plans of this node's go by what their sinks say that they have as well: their ways are broken, or what
    /// more the nodes behind tell is not waited for.
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

    /// Returns whether it is known how much of a stream that this node publishes was given by these plans, which brought its end
    /// to their sinks: the nodes that copied it have said so.
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
        self.take_report(from, report, now);
    }

    /// Takes in an account of a node that it is known to be of.
    pub(super) fn take_report(&mut self, from: NodeId, report: &Report, now: Instant) {
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

    /// Begins the account of a part, unless it goes on.
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
        // The time of day, so that a restarted node's is larger.
        let since = self.settings.since_1970.as_millis() + now.as_nanos() / 1_000_000;
        self.begin_account((stream, epoch), place, since, now);
    }

    /// Begins the account of a plan, unless it goes on.
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

    /// Ends the account of a part that is gone.
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

    /// Tells the node before again what it may have forgotten.
    pub(super) fn refresh_account(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        self.accounts
            .change((stream, epoch), |account| account.refresh(now));
    }

    /// The end of a stream has come, which ends here: there is no more to wait for.
    pub(super) fn end_accounts(&mut self, stream: StreamId, now: Instant) {
        let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
        for (plan, part) in self.parts.range(of_stream) {
            if part.installation().next.is_none() {
                self.accounts
                    .change(*plan, |account| account.handle_end(now));
            }
        }
    }

    /// Tells a neighbour that there is a link with again all that it is to know.
    pub(super) fn refresh_accounts(&mut self, peer: NodeId, now: Instant) {
        let of_peer = self
            .parts
            .keys()
            .filter(|(stream, epoch)| self.way_up(*stream, *epoch) == Some(peer));
        let of_peer: Vec<_> = of_peer.copied().collect();
        for (stream, epoch) in of_peer {
            self.refresh_account(stream, epoch, now);
        }
    }

    /// Returns the plans of which [`Controller::handle_timeout`] would now say or conclude something.
    ///
    /// Cost    O(plans), or O(1) while there is none
    pub fn accounts_due(&self, now: Instant) -> impl Iterator<Item = (StreamId, Epoch)> {
        let spoken_of = self.is_round(now).then(|| self.accounts.due(now));
        spoken_of.into_iter().flatten()
    }

    /// Returns when [`Controller::handle_accounts`] has something to do.
    pub(super) fn accounts_timeout(&self) -> Instant {
        self.accounts.poll_timeout().max(self.next_round())
    }

    /// Gives every account its time.
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
        self.accounts.handle_turn();
    }

    /// Returns when the next round may begin: of few accounts each is its own.
    fn next_round(&self) -> Instant {
        if self.accounts.len() > ACCOUNTS_FEW {
            self.round + ROUND
        } else {
            Instant::ZERO
        }
    }

    /// Returns whether accounts may be spoken of now, in a round that has just begun or in the next.
    fn is_round(&self, now: Instant) -> bool {
        now <= self.round || now >= self.next_round()
    }

    /// Tells the node before what is due; between two rounds it stays due until the next.
    fn report(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let key = (stream, epoch);
        if !self.parts.contains_key(&key) || !self.is_round(now) {
            return;
        }
        let previous = self.way_up(stream, epoch);
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
            self.round = now;
            self.tell_up(Said::Account(report));
        }
    }

    /// Says now and then that a stream of this node's loses ADUs, if this plan of it has lost more.
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
        // To add up all plans for each word of one of them took half of what a source of 200 sinks computed.
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
