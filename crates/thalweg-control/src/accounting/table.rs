//! The accounts of the parts on this node, and when the next one is due.
//!
//! *The idea.* Every change of an account may change its timeout. So no mutable reference leaves
//! this table: changes go through [`Accounts::change`], which updates the earliest timeout.
//!
//! *What it does not do.* It knows no part and no neighbour.

use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;

use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::{Due, Instant};

use crate::ledger::Account;

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

    /// Opens the account of a plan, unless it is open.
    pub(super) fn begin(&mut self, plan: (StreamId, Epoch), new: impl FnOnce() -> Account) {
        if let Entry::Vacant(place) = self.of_plan.entry(plan) {
            let account = place.insert(new());
            self.due.handle(account.poll_timeout());
        }
    }

    /// Removes and returns the account of a plan that is over.
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

    /// Returns the plans with due accounts.
    ///
    /// Cost    O(plans), or O(1) before [`Accounts::poll_timeout`]
    pub(super) fn due(&self, now: Instant) -> impl Iterator<Item = (StreamId, Epoch)> {
        let all = (self.due.at() <= now).then_some(&self.of_plan);
        let all = all.into_iter().flatten();
        let due = all.filter(move |(_, account)| account.poll_timeout() <= now);
        due.map(|(plan, _)| *plan)
    }

    /// Recomputes the earliest timeout after all due accounts have been handled.
    pub(super) fn update_due(&mut self) {
        self.due
            .look(self.of_plan.values().map(Account::poll_timeout));
    }

    /// Returns a time no later than the first timeout of an account.
    pub(super) fn poll_timeout(&self) -> Instant {
        debug_assert!(
            self.due
                .holds(self.of_plan.values().map(Account::poll_timeout)),
            "each has its time noted"
        );
        self.due.at()
    }
}
