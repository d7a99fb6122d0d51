//! ADUs sent by each plan and not yet acknowledged, for the ledger when the path of the plan breaks.
//!
//! *The idea.* Accounts only count, and what nodes had not reported is lost with the path. A
//! receipt names sequences, and arrives by any path. So a record of which ADUs went by which plan
//! shows, for a broken one, how many its sink has after all, and how many were resent under another
//! plan and are no loss of the first.
//!
//! *What it does not do.* It stores no ADU: [`Keep`](super::Keep) and [`Hold`](super::Hold) do, and
//! decide what to resend.
//!
//! *Sources.* docs/concepts/ledger.md §2; `thalweg_control::ledger`, which sums it up.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use thalweg_base::adu::{Flags, Header};
use thalweg_base::count::Band;
use thalweg_base::id::{Epoch, NodeId, Sequence};
use thalweg_base::limits::KEEP_ADUS_MAX;
use thalweg_base::seen::Held;

#[cfg(test)]
mod tests;

/// Unacknowledged ADUs of one stream, by plan.
#[derive(Debug, Default)]
pub struct Awaited {
    plans: BTreeMap<Epoch, VecDeque<Sent>>,
    /// The number of entries of all plans.
    adus: usize,
    /// The plans with broken paths, with their sinks.
    broken: Vec<(NodeId, Epoch)>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    sequence: Sequence,
    band: Band,
    /// It was sent by another plan since.
    is_resent: bool,
}

impl Awaited {
    /// Handles an ADU sent by a plan to its sink. Beyond [`KEEP_ADUS_MAX`], the oldest entry of the
    /// oldest plan is dropped.
    ///
    /// Cost    O(1) if sequences rise
    pub fn handle_given(&mut self, epoch: Epoch, header: &Header) {
        if header.flags.contains(Flags::END) {
            return;
        }
        let sent = Sent {
            sequence: header.sequence,
            band: Band::of(header.importance),
            is_resent: false,
        };
        let plan = self.plans.entry(epoch).or_default();
        let at = match plan.back() {
            Some(last) if last.sequence >= sent.sequence => {
                plan.partition_point(|other| other.sequence < sent.sequence)
            }
            _ => plan.len(),
        };
        if plan
            .get(at)
            .is_some_and(|other| other.sequence == sent.sequence)
        {
            return;
        }
        plan.insert(at, sent);
        self.adus += 1;
        if self.adus > KEEP_ADUS_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(mut oldest) = self.plans.first_entry() {
            oldest.get_mut().pop_front();
            self.adus -= 1;
            if oldest.get().is_empty() {
                oldest.remove();
            }
        }
    }

    /// Handles a receipt of the sink of these plans; `had` is called for each ADU that it names.
    ///
    /// Cost    O(entries of these plans · ranges)
    pub fn handle_receipt(
        &mut self,
        epochs: &[Epoch],
        held: &Held,
        mut had: impl FnMut(Epoch, Band),
    ) {
        for epoch in epochs {
            let Some(plan) = self.plans.get_mut(epoch) else {
                continue;
            };
            let before = plan.len();
            plan.retain(|sent| {
                if !sent.is_resent && held.names(sent.sequence) {
                    had(*epoch, sent.band);
                }
                !sent.is_resent && !held.has(sent.sequence)
            });
            self.adus -= before - plan.len();
            if plan.is_empty() {
                self.plans.remove(epoch);
            }
        }
    }

    /// Handles the loss of the paths of these plans of a sink.
    pub fn handle_broken(&mut self, sink: NodeId, plans: &[Epoch]) {
        self.broken.extend(plans.iter().map(|plan| (sink, *plan)));
    }

    /// Handles an ADU sent to a sink; `resent` is called for each plan with a broken path that
    /// carried it before.
    ///
    /// Cost    O(log entries) for each plan with a broken path
    pub fn handle_again(
        &mut self,
        sink: NodeId,
        header: &Header,
        mut resent: impl FnMut(Epoch, Band),
    ) {
        for (_, epoch) in self.broken.iter().filter(|(of, _)| *of == sink) {
            let Some(plan) = self.plans.get_mut(epoch) else {
                continue;
            };
            let at = plan.binary_search_by_key(&header.sequence, |sent| sent.sequence);
            if let Some(sent) = at.ok().and_then(|at| plan.get_mut(at))
                && !core::mem::replace(&mut sent.is_resent, true)
            {
                resent(*epoch, sent.band);
            }
        }
    }

    /// Drops the plans that are over.
    pub fn retain(&mut self, is_there: impl Fn(Epoch) -> bool) {
        self.plans.retain(|epoch, _| is_there(*epoch));
        self.broken.retain(|(_, epoch)| is_there(*epoch));
        self.adus = self.plans.values().map(VecDeque::len).sum();
    }
}
