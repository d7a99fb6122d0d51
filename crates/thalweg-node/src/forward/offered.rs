//! A plan's load on its next link, and what of it was dropped here.

use thalweg_base::count::{BANDS, Marked};
use thalweg_base::event::DropCause;
use thalweg_dataplane::relay::Account;

/// The load of a plan, or of several; it only grows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offered {
    /// Payload bytes handed to the link.
    pub(crate) bytes: u64,
    /// ADUs meant for the link, by band.
    pub(crate) given: [u64; BANDS],
    /// The dropped ones among them, by cause and band.
    pub(crate) dropped: [[u64; BANDS]; DropCause::ALL.len()],
}

impl Offered {
    /// Returns the load of a plan with this account. Drops before the link count too.
    pub(super) fn of(account: &Account<'_>) -> Self {
        let counts = account.counts();
        let sum = |rows: &Marked, at: usize| rows.iter().map(|row| row[at]).sum::<u64>();
        let given = std::array::from_fn(|at| {
            let all: u64 = counts.dropped.iter().map(|row| row[at]).sum();
            sum(&counts.sent, at) + all.saturating_sub(sum(&counts.failed, at))
        });
        Self {
            bytes: account.sent_bytes(),
            given,
            dropped: counts.dropped,
        }
    }

    /// Returns the number of ADUs meant for the link.
    pub(crate) fn adus(&self) -> u64 {
        self.given.iter().sum()
    }

    /// Adds the counts of another plan.
    pub(crate) fn add(&mut self, other: &Self) {
        self.join(other, u64::saturating_add);
    }

    /// Subtracts an earlier reading.
    pub(crate) fn subtract(&mut self, before: &Self) {
        self.join(before, u64::saturating_sub);
    }

    fn join(&mut self, other: &Self, with: impl Fn(u64, u64) -> u64) {
        self.bytes = with(self.bytes, other.bytes);
        let own = self
            .given
            .iter_mut()
            .chain(self.dropped.iter_mut().flatten());
        let others = other.given.iter().chain(other.dropped.iter().flatten());
        for (own, other) in own.zip(others) {
            *own = with(*own, *other);
        }
    }
}
