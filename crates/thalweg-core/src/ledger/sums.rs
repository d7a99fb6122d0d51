//! What an account comes to at the source, what of it is counted twice, and what was given where the source counts nothing.
//!
//! *The idea.* A node that is killed takes with it what it had not told yet. What it had passed on by then is missing at the node
//! before, which takes it for lost; but it came to those behind, who say what became of it once they are heard again. So it
//! is counted twice, and nobody on the way can see that. The source can: of no plan and band can more have ended than were
//! given. What is too much is taken back from what was lost on the way, at the nodes nearest to the source first.
//!
//! ```text
//! taken back = dropped + delivered − returned by the nodes' word − given      if positive
//! ```
//!
//! It is not kept: an ADU that is delivered while it is taken for lost may be as much too much for a moment, and another that is
//! lost then takes its place among the lost.
//!
//! *What it does not do.* While more is on its way it does not know what is counted twice, for that might as well have been
//! given since: it knows at the next pause, and never says that more ended than were given. What a node decided alone
//! is no matter of doubt, and is not taken back.
//!
//! *Of a plan whose way is broken, or that is over,* the nodes behind may tell nothing any more. The source knows by the receipts of its sink, which
//! name sequences and come by any way, what has come there, and what it gives again under another plan is no loss of this one:
//!
//! ```text
//! delivered = max(told by the sink, had − dropped by the sink)
//! given     = max(given − resent, what ended without doubt)
//! ```
//!
//! *Of copies* the source knows how many were given by the word of the node that makes them, which leaves out the mark that still
//! comes, while those behind it tell of what they delivered. So they were given at least as often as ended without doubt:
//!
//! ```text
//! given = max(copied, dropped + delivered − returned − what may be counted twice)
//! ```

use alloc::vec::Vec;

use super::account::{Account, Basis, Place};
use super::entries::Entries;
use super::{BANDS, Band, What, total};
use crate::event::DropCause;

/// In which order the causes of what is counted twice are believed to be: what depends on the word of a link.
pub(super) const TAKEN_BACK: [DropCause; 4] = [
    DropCause::PathLost,
    DropCause::Expired,
    DropCause::Cancelled,
    DropCause::Dependant,
];

/// How many were dropped, delivered, and there after all, by band.
struct Ended {
    ended: [u64; BANDS],
    returned: [u64; BANDS],
}

impl Account {
    /// Returns whether more is lost than when this was asked last.
    ///
    /// Cost    O(counters)
    pub fn has_lost_more(&mut self) -> bool {
        let is_dropped = |number| matches!(What::from_number(number), Some((What::Dropped(_), _)));
        let dropped = self.entries().filter(|(_, number, _)| is_dropped(*number));
        let lost = total(dropped.map(|(_, _, count)| count));
        core::mem::replace(&mut self.lost, lost) < lost
    }

    /// Returns whether ADUs are on their way, or ended without the source knowing yet; at the source only.
    ///
    /// Cost    O(counters)
    pub fn is_open(&self) -> bool {
        let Ended { ended, returned } = self.ended();
        let given = self.given_by_band();
        (0..BANDS).any(|at| ended[at].saturating_sub(returned[at]) < given[at])
    }

    /// Returns how many ADUs the producer gave; at the source only.
    pub(super) fn given(&self) -> u64 {
        total(self.given_by_band().into_iter())
    }

    fn given_by_band(&self) -> [u64; BANDS] {
        let given = core::array::from_fn(|at| total(self.counts.arrived.iter().map(|of| of[at])));
        if !matches!(self.place, Place::Graft(_)) {
            return self.without_resent(given);
        }
        // What the caster had copied and not told when it began anew was given too, whatever became of it.
        let is_anew = self.behind.first().is_some_and(Entries::has_begun_anew);
        let ended = self.ended_but(if is_anew { [0; BANDS] } else { self.doubtful() });
        core::array::from_fn(|at| given[at].max(ended[at]))
    }

    /// Returns how many were given without those that are given again under another plan: that they did not come by this one is no
    /// loss. What came all the same, or was dropped by a node that says why, was given by this one too.
    fn without_resent(&self, given: [u64; BANDS]) -> [u64; BANDS] {
        if self.basis == Basis::Reports || self.counts.resent == [0; BANDS] {
            return given;
        }
        let ended = self.ended_but(self.doubtful());
        core::array::from_fn(|at| {
            let left = given[at].saturating_sub(self.counts.resent[at]);
            left.max(ended[at]).min(given[at])
        })
    }

    /// Returns how many ended, but for so many.
    fn ended_but(&self, doubtful: [u64; BANDS]) -> [u64; BANDS] {
        let Ended { ended, returned } = self.ended();
        core::array::from_fn(|at| {
            let ended = ended[at].saturating_sub(returned[at]);
            ended.saturating_sub(doubtful[at])
        })
    }

    /// Returns how many came to the sink of a plan of which nodes may tell no more, by its receipts, beside those of which it told.
    fn untold(&self) -> [u64; BANDS] {
        if self.basis == Basis::Reports {
            return [0; BANDS];
        }
        let sink = self.sink().and_then(|at| self.behind.get(at - 1));
        let told = sink.map_or([0; BANDS], Entries::ended);
        core::array::from_fn(|at| self.counts.had[at].saturating_sub(told[at]))
    }

    /// Returns the place of the sink on the path, if that is another node than this one.
    fn sink(&self) -> Option<usize> {
        self.nodes_max().checked_sub(1).filter(|at| *at > 0)
    }

    /// Returns how many are dropped by what depends on the word of a link, without what the node that says so took back itself.
    fn doubtful(&self) -> [u64; BANDS] {
        let mut doubtful = [0_u64; BANDS];
        for node in core::iter::once(&self.own).chain(&self.behind) {
            let of_node = node.doubtful();
            let sums = doubtful.iter_mut().zip(of_node);
            sums.for_each(|(sum, of_node)| *sum = sum.saturating_add(of_node));
        }
        doubtful
    }

    /// Returns whether the node that copies the stream for this plan has said all that it copied, to the end of the stream; of a
    /// plan that is not grafted the source counts itself what it gives.
    pub fn knows_given(&self) -> bool {
        let copies = matches!(self.place, Place::Graft(_));
        !copies || self.behind.first().is_some_and(Entries::has_copied_all)
    }

    /// Returns the counters of all nodes, by their place on the path.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, u8, u64)> + '_ {
        let nodes = core::iter::once(&self.own).chain(&self.behind);
        let told = nodes
            .enumerate()
            .flat_map(|(at, node)| node.all().map(move |(number, count)| (at, number, count)));
        let untold = Band::all().zip(self.untold());
        let untold = untold.filter_map(|(band, count)| {
            let number = What::Delivered.number(band);
            Some((self.sink().filter(|_| count > 0)?, number, count))
        });
        told.chain(untold)
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

    /// Returns what is counted twice, beside what has returned by the nodes' own word: places on the path, counters of what was
    /// dropped, and how many of that.
    ///
    /// Cost    O(counters)
    pub(super) fn twice(&self) -> Vec<(usize, u8, u64)> {
        let (given, Ended { ended, returned }) = (self.given_by_band(), self.ended());
        let mut left: [u64; BANDS] = core::array::from_fn(|at| {
            let ended = ended[at].saturating_sub(returned[at]);
            ended.saturating_sub(given[at])
        });
        if left == [0; BANDS] {
            return Vec::new();
        }
        // Of each node what depends on the word of a link, and of that what it has not taken back itself.
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
        let mut twice = Vec::new();
        for (which, cause) in TAKEN_BACK.into_iter().enumerate() {
            for (at, most) in most.iter_mut().enumerate() {
                for band in Band::all() {
                    let (most, left) = (&mut most[band.index()], &mut left[band.index()]);
                    let free = u64::try_from((*most).max(0)).unwrap_or(u64::MAX);
                    let taken = dropped[at][which][band.index()].min(*left).min(free);
                    *left -= taken;
                    *most -= i128::from(taken);
                    let number = What::Dropped(cause).number(band);
                    twice.extend((taken > 0).then_some((at, number, taken)));
                }
            }
        }
        twice
    }
}
