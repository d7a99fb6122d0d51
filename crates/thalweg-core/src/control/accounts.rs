//! The accounts of the parts that run here, and when the first of them has something to say.
//!
//! *The idea.* An account gets another time whenever it is changed, so none is handed out to be changed: who changes one says how
//! ([`Accounts::change`]), and its time is noted behind him.
//!
//! *What it does not do.* It knows no part and no neighbour.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use crate::id::{Epoch, StreamId};
use crate::ledger::Account;
use crate::time::{Due, Instant};

/// The accounts of a node, by plan.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    of_plan: BTreeMap<(StreamId, Epoch), Account>,
    due: Due,
}

impl Accounts {
    pub(super) fn len(&self) -> usize {
        self.of_plan.len()
    }

    pub(super) fn get(&self, plan: (StreamId, Epoch)) -> Option<&Account> {
        self.of_plan.get(&plan)
    }

    /// Begins the account of a plan, unless it goes on.
    pub(super) fn begin(&mut self, plan: (StreamId, Epoch), new: impl FnOnce() -> Account) {
        if let Entry::Vacant(place) = self.of_plan.entry(plan) {
            let account = place.insert(new());
            self.due.handle(account.poll_timeout());
        }
    }

    /// Takes the account of a plan that is over.
    pub(super) fn end(&mut self, plan: (StreamId, Epoch)) -> Option<Account> {
        self.of_plan.remove(&plan)
    }

    /// Changes an account, if there is one.
    pub(super) fn change<T>(
        &mut self,
        plan: (StreamId, Epoch),
        change: impl FnOnce(&mut Account) -> T,
    ) -> Option<T> {
        let account = self.of_plan.get_mut(&plan)?;
        let result = change(account);
        self.due.handle(account.poll_timeout());
        Some(result)
    }

    /// Returns the plans whose accounts are due.
    ///
    /// Cost    O(plans), or O(1) before [`Accounts::poll_timeout`]
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = (StreamId, Epoch)> {
        let all = (self.due.at() <= now).then_some(&self.of_plan);
        let all = all.into_iter().flatten();
        let due = all.filter(move |(_, account)| account.poll_timeout() <= now);
        due.map(|(plan, _)| *plan)
    }

    /// Takes in that each that was due had its turn.
    pub(super) fn handle_turn(&mut self) {
        self.due
            .look(self.of_plan.values().map(Account::poll_timeout));
    }

    /// Returns when to look whether one is due: never later than the first is.
    pub(super) fn poll_timeout(&self) -> Instant {
        debug_assert!(
            self.due
                .holds(self.of_plan.values().map(Account::poll_timeout)),
            "each has its time noted"
        );
        self.due.at()
    }
}
