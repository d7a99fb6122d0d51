//! Which ADUs went by each plan whose sink has not said that it has them: for the ledger, when the way of the plan breaks.
//!
//! *The idea.* An account only counts, and what its nodes had not told is gone with the way. A receipt names sequences, and
//! comes by any way. So who notes which went by which plan knows of one whose way is broken how many its sink has all the same,
//! and how many are given again under another plan and so are no loss of the first.
//!
//! *What it does not do.* It keeps no ADU: [`Keep`](super::Keep) and [`Hold`](super::Hold) do, and say what is sent again.
//!
//! *Sources.* docs/ledger.md §2; `thalweg_core::ledger`, which makes sums of it.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use crate::adu::{Flags, Header};
use crate::id::{Epoch, NodeId, Sequence};
use crate::ledger::Band;
use crate::limits::KEEP_ADUS_MAX;
use crate::mailbox::Held;

#[cfg(test)]
mod tests;

/// What went by the plans of one stream and is not acknowledged.
#[derive(Debug, Default)]
pub struct Awaited {
    plans: BTreeMap<Epoch, VecDeque<Sent>>,
    /// How many there are, of all plans.
    adus: usize,
    /// The plans whose ways are broken, by their sinks.
    broken: Vec<(NodeId, Epoch)>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    sequence: Sequence,
    band: Band,
    /// It went by another plan since.
    is_resent: bool,
}

impl Awaited {
    /// Takes in an ADU that goes by a plan to that plan's sink. Of too many the oldest by the oldest plan is forgotten.
    ///
    /// Cost    O(1) by rising sequence
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

    /// Takes in what the sink of these plans says that it has; `had` is told of each that it names.
    ///
    /// Cost    O(awaited of these plans · ranges)
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

    /// Takes in that the ways of these plans of a sink are broken.
    pub fn handle_broken(&mut self, sink: NodeId, plans: &[Epoch]) {
        self.broken.extend(plans.iter().map(|plan| (sink, *plan)));
    }

    /// Takes in that an ADU is given for a sink; `resent` is told of each plan whose way is broken and by which it went before.
    ///
    /// Cost    O(log awaited) for each plan whose way is broken
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

    /// Forgets the plans that are over.
    pub fn retain(&mut self, is_there: impl Fn(Epoch) -> bool) {
        self.plans.retain(|epoch, _| is_there(*epoch));
        self.broken.retain(|(_, epoch)| is_there(*epoch));
        self.adus = self.plans.values().map(VecDeque::len).sum();
    }
}
