//! An account's totals at the source: without what is counted twice, and with what the source
//! cannot count itself.
//!
//! *Counted twice.* A node that is killed loses its unreported counters. The upstream node takes
//! the ADUs that it had forwarded for lost, while downstream nodes report what became of them. So
//! they are counted twice, which no node on the path can see. The source can: per plan and band no
//! more ADUs can have ended than were given. The excess is taken back from the losses that depend
//! on a link's word, nearest to the source first:
//!
//! ```text
//! taken back = dropped + delivered − returned by the nodes' word − given      if positive
//! ```
//!
//! The result is computed afresh at each reading: an ADU that is delivered while it still counts as
//! lost makes a momentary excess, and may later be offset by a real loss.
//!
//! *What it does not do.* While ADUs are in flight it cannot recognise double counts below what was
//! given since; it knows at the next pause, and never reports more ended ADUs than given ones.
//! Drops that a node decided alone are certain and are not taken back.
//!
//! *Of a plan that has ended or has a broken path,* downstream nodes may report nothing more.
//! The source then uses the sink's receipts, which name sequences and arrive by any path; and ADUs
//! that are given again under another plan are no loss of this one:
//!
//! ```text
//! delivered = max(reported by the sink, had − dropped by the sink)
//! given     = max(given − resent, certainly ended)
//! ```
//!
//! *Of a grafted plan* the source knows how many ADUs were given from the node that copies them.
//! That report leaves out the open mark, while downstream nodes report deliveries at once. So at
//! least as many were given as certainly ended:
//!
//! ```text
//! given = max(copied, dropped + delivered − returned − possibly counted twice)
//! ```

use alloc::vec::Vec;

use super::{Account, DeliveryEvidence, Place};
use crate::ledger::entries::{Entries, TAKEN_BACK};
use crate::ledger::{BANDS, Band, What, total};

/// ADUs dropped or delivered, and those that arrived after all, by band.
struct Ended {
    ended: [u64; BANDS],
    returned: [u64; BANDS],
}

impl Account {
    /// Returns whether more is lost than at the last call.
    ///
    /// Cost    O(counters)
    pub fn has_lost_more(&mut self) -> bool {
        let is_dropped = |number| matches!(What::from_number(number), Some((What::Dropped(_), _)));
        let dropped = self.entries().filter(|(_, number, _)| is_dropped(*number));
        let lost = total(dropped.map(|(_, _, count)| count));
        core::mem::replace(&mut self.lost, lost) < lost
    }

    /// Returns, at the source, whether ADUs are in flight or their fate is unreported.
    ///
    /// Cost    O(counters)
    pub fn is_open(&self) -> bool {
        let Ended { ended, returned } = self.ended();
        let given = self.given_by_band();
        (0..BANDS).any(|at| ended[at].saturating_sub(returned[at]) < given[at])
    }

    /// Returns, at the source, how many ADUs the producer gave.
    pub(in crate::ledger) fn given(&self) -> u64 {
        total(self.given_by_band().into_iter())
    }

    fn given_by_band(&self) -> [u64; BANDS] {
        let given = core::array::from_fn(|at| total(self.counts.arrived.iter().map(|of| of[at])));
        if !matches!(self.place, Place::Graft(_)) {
            return self.without_resent(given);
        }
        // ADUs that the copying node had copied but not reported before its restart were given too,
        // whatever became of them.
        let was_restarted = self.behind.first().is_some_and(Entries::was_restarted);
        let ended = self.ended_without(if was_restarted {
            [0; BANDS]
        } else {
            self.doubtful()
        });
        core::array::from_fn(|at| given[at].max(ended[at]))
    }

    /// Returns the ADUs given, without those given again under another plan: their absence is no
    /// loss of this one. Those that arrived all the same, or were dropped for a node's own reason,
    /// stay.
    fn without_resent(&self, given: [u64; BANDS]) -> [u64; BANDS] {
        if self.basis == DeliveryEvidence::Reports || self.counts.resent == [0; BANDS] {
            return given;
        }
        let ended = self.ended_without(self.doubtful());
        core::array::from_fn(|at| {
            let left = given[at].saturating_sub(self.counts.resent[at]);
            left.max(ended[at]).min(given[at])
        })
    }

    /// Returns by band how many ADUs ended, without the `doubtful` ones.
    fn ended_without(&self, doubtful: [u64; BANDS]) -> [u64; BANDS] {
        let Ended { ended, returned } = self.ended();
        core::array::from_fn(|at| {
            let ended = ended[at].saturating_sub(returned[at]);
            ended.saturating_sub(doubtful[at])
        })
    }

    /// Returns by band how many ADUs reached the sink by its receipts, beyond those that it
    /// reported.
    fn unreported(&self) -> [u64; BANDS] {
        if self.basis == DeliveryEvidence::Reports {
            return [0; BANDS];
        }
        let sink = self.sink().and_then(|at| self.behind.get(at - 1));
        // The sink's drops count as reported too: it had received those ADUs.
        let reported = sink.map_or([0; BANDS], Entries::ended);
        core::array::from_fn(|at| self.counts.had[at].saturating_sub(reported[at]))
    }

    /// Returns the sink's place on the path, unless it is this node.
    fn sink(&self) -> Option<usize> {
        self.nodes_max().checked_sub(1).filter(|at| *at > 0)
    }

    /// Returns by band the drops that depend on a link's word, less what the same node took back
    /// itself.
    fn doubtful(&self) -> [u64; BANDS] {
        let mut doubtful = [0_u64; BANDS];
        for node in core::iter::once(&self.own).chain(&self.behind) {
            let of_node = node.doubtful();
            let sums = doubtful.iter_mut().zip(of_node);
            sums.for_each(|(sum, of_node)| *sum = sum.saturating_add(of_node));
        }
        doubtful
    }

    /// Returns whether the number of ADUs given is final: always for a plan without graft; for a
    /// grafted one once the copying node has reported all its copies to the end of the stream.
    pub fn knows_given(&self) -> bool {
        let copies = matches!(self.place, Place::Graft(_));
        !copies || self.behind.first().is_some_and(Entries::has_copied_all)
    }

    /// Returns the counters of all nodes, by place on the path.
    pub(in crate::ledger) fn entries(&self) -> impl Iterator<Item = (usize, u8, u64)> + '_ {
        let nodes = core::iter::once(&self.own).chain(&self.behind);
        let reported = nodes
            .enumerate()
            .flat_map(|(at, node)| node.all().map(move |(number, count)| (at, number, count)));
        let unreported = Band::all().zip(self.unreported());
        let unreported = unreported.filter_map(|(band, count)| {
            let number = What::Delivered.number(band);
            Some((self.sink().filter(|_| count > 0)?, number, count))
        });
        reported.chain(unreported)
    }

    fn ended(&self) -> Ended {
        let [mut ended, mut returned] = [[0_u64; BANDS]; 2];
        for (_, number, count) in self.entries() {
            let (of, band) = match What::from_number(number) {
                Some((What::Dropped(_) | What::Delivered, band)) => (&mut ended, band),
                Some((What::Returned, band)) => (&mut returned, band),
                Some((What::Arrived(_) | What::AllCopied, _)) | None => continue,
            };
            of[band.index()] = of[band.index()].saturating_add(count);
        }
        Ended { ended, returned }
    }

    /// Returns the double counts that the nodes have not taken back themselves: place on the path,
    /// counter, ADUs.
    ///
    /// Cost    O(counters)
    pub(in crate::ledger) fn double_counted(&self) -> Vec<(usize, u8, u64)> {
        let (given, Ended { ended, returned }) = (self.given_by_band(), self.ended());
        // The excess of ended ADUs over given ones.
        let mut left: [u64; BANDS] = core::array::from_fn(|at| {
            let ended = ended[at].saturating_sub(returned[at]);
            ended.saturating_sub(given[at])
        });
        if left == [0; BANDS] {
            return Vec::new();
        }
        // By node: drops that depend on a link's word, and how many of them the node has not taken
        // back itself.
        let mut dropped: Vec<[[u64; BANDS]; TAKEN_BACK.len()]> = Vec::new();
        let mut most: Vec<[i128; BANDS]> = Vec::new();
        dropped.resize_with(1 + self.behind.len(), Default::default);
        most.resize_with(1 + self.behind.len(), Default::default);
        for (at, number, count) in self.entries() {
            match What::from_number(number) {
                Some((What::Dropped(of), band)) => {
                    let cause = TAKEN_BACK.iter().position(|cause| *cause == of);
                    let Some(cause) = cause else {
                        continue;
                    };
                    let sum = &mut dropped[at][cause][band.index()];
                    *sum = sum.saturating_add(count);
                    most[at][band.index()] += i128::from(count);
                }
                Some((What::Returned, band)) => most[at][band.index()] -= i128::from(count),
                _ => {}
            }
        }
        let mut double_counted = Vec::new();
        // Cause by cause, nearest to the source first.
        for (which, cause) in TAKEN_BACK.into_iter().enumerate() {
            for (at, most) in most.iter_mut().enumerate() {
                for band in Band::all() {
                    let (most, left) = (&mut most[band.index()], &mut left[band.index()]);
                    // At most what the node has not taken back itself.
                    let free = u64::try_from((*most).max(0)).unwrap_or(u64::MAX);
                    let taken = dropped[at][which][band.index()].min(*left).min(free);
                    *left -= taken;
                    *most -= i128::from(taken);
                    let number = What::Dropped(cause).number(band);
                    double_counted.extend((taken > 0).then_some((at, number, taken)));
                }
            }
        }
        double_counted
    }
}
