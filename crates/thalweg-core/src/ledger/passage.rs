//! Whether what leaves a source by a plan comes out at its sink, as far as the accounts of its nodes tell.
//!
//! *The idea.* A node that takes what it is given and passes nothing on answers its neighbours, so no line is silent. But
//! ADUs leave, and nobody behind says that one was delivered, or dropped for a reason of its own. What a node says that the
//! line after it lost is no such word: that is what the node before one that withholds says, and so how far the way is good.
//!
//! *What it does not do.* It believes what it is told: one on the way can say that all was delivered.

use alloc::vec::Vec;

use super::What;
use super::account::{Account, Place};
use crate::event::DropCause;
use crate::time::{Duration, Instant};

/// How many ADUs must have left without an answer: a few can be lost for any reason.
const LEAST: u64 = 8;

/// What left by one plan, and what was answered.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    /// What had been answered when it was looked last.
    answers: u64,
    /// What had left at the last answer.
    left: u64,
    /// What each node had lost then, the source first.
    lost: Vec<u64>,
    /// When it was looked last, and since when more has left.
    looked: Instant,
    since: Option<Instant>,
}

/// What is known of a plan when it is looked.
#[derive(Clone, Debug)]
struct Look {
    /// How many ADUs have left the first node.
    left: u64,
    /// How many of them came through, or were dropped by a node that says why.
    answers: u64,
    /// How many each node says were lost behind it, the source first.
    lost: Vec<u64>,
}

impl Passage {
    /// Nothing has left yet.
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            answers: 0,
            left: 0,
            lost: Vec::new(),
            looked: now,
            since: None,
        }
    }

    /// Looks; once nothing has been answered for so long it returns the place of the node that lost most of it, or 0 if none
    /// says that it did, and begins anew.
    fn look(&mut self, look: Look, patience: Duration, now: Instant) -> Option<usize> {
        let Look {
            left,
            answers,
            lost,
        } = look;
        if answers != self.answers || left <= self.left {
            *self = Self {
                answers,
                left,
                lost,
                looked: now,
                since: None,
            };
            return None;
        }
        let looked = core::mem::replace(&mut self.looked, now);
        let since = *self.since.get_or_insert(looked);
        if left < self.left + LEAST || now < since + patience {
            return None;
        }
        // One that withholds has lost some too, of which it was not told any more that they had come.
        let before = self.lost.iter().copied().chain(core::iter::repeat(0));
        let grown = lost
            .iter()
            .zip(before)
            .map(|(now, before)| now.saturating_sub(before));
        let most = grown.enumerate().max_by_key(|(_, grown)| *grown);
        let last = most.filter(|(_, grown)| *grown > 0);
        self.since = None;
        Some(last.map_or(0, |(at, _)| at))
    }
}

impl Account {
    /// Returns whether something has left and waits for an answer.
    pub const fn awaits_passage(&self) -> bool {
        self.passage.since.is_some()
    }

    /// Looks whether what leaves comes through, at the source; if nothing has for so long, returns the place of the last node that
    /// is known to have what left, the source being 0.
    ///
    /// Cost    O(counters)
    pub fn look_through(&mut self, patience: Duration, now: Instant) -> Option<usize> {
        let mut look = Look {
            left: self.counts.left.iter().flatten().sum(),
            answers: 0,
            lost: alloc::vec![0; 1 + self.behind.len()],
        };
        for (at, number, count) in self.entries() {
            let (is_behind, what) = (at > 0, What::from_number(number));
            match what.map(|(what, _)| what) {
                Some(What::Dropped(DropCause::PathLost)) => look.lost[at] += count,
                Some(What::Dropped(_) | What::Delivered) if is_behind => look.answers += count,
                _ => {}
            }
        }
        // That it copies what comes is its word that it has it.
        if let Place::Graft(_) = self.place
            && let Some(lost) = look.lost.get_mut(1)
        {
            *lost += look.left;
        }
        self.passage.look(look, patience, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn look(left: u64, answers: u64, lost: &[u64]) -> Look {
        Look {
            left,
            answers,
            lost: lost.to_vec(),
        }
    }

    #[test]
    fn what_leaves_and_is_never_answered_is_told_after_patience() {
        let mut passage = Passage::new(Instant::ZERO);
        let mut see = |left, lost: &[u64], s| passage.look(look(left, 3, lost), PATIENCE, at(s));
        assert_eq!(see(3, &[0, 0, 0], 0), None);
        assert_eq!(see(20, &[0, 0, 0], 1), None);
        assert_eq!(see(60, &[0, 0, 0], 4), None, "a moment before");
        assert_eq!(see(70, &[0, 0, 0], 5), Some(0));
        assert_eq!(see(90, &[0, 0, 0], 6), None, "and again as much later");
        assert_eq!(see(170, &[0, 0, 0], 10), Some(0));
    }

    #[test]
    fn what_leaves_at_the_very_beginning_is_waited_for_too() {
        let mut passage = Passage::new(at(100));
        let mut see = |left, s| passage.look(look(left, 0, &[0]), PATIENCE, at(s));
        assert_eq!(see(20, 101), None);
        assert_eq!(see(90, 104), None);
        assert_eq!(see(110, 105), Some(0));
    }

    #[test]
    fn the_node_that_has_lost_most_since_the_last_answer_has_had_what_left() {
        let mut passage = Passage::new(Instant::ZERO);
        let mut see = |left, lost: &[u64], s| passage.look(look(left, 3, lost), PATIENCE, at(s));
        see(3, &[4, 1, 90], 0);
        assert_eq!(see(20, &[4, 1, 90], 1), None);
        assert_eq!(see(70, &[4, 40, 93], 6), Some(1), "not what it lost before");
    }

    #[test]
    fn an_answer_few_adus_or_a_pause_are_no_ground() {
        let mut passage = Passage::new(Instant::ZERO);
        let mut see = |left, answers, s| passage.look(look(left, answers, &[0]), PATIENCE, at(s));
        for s in 0..20 {
            assert_eq!(see(10 * s, s, s), None, "an answer each second");
        }
        assert_eq!(see(197, 19, 30), None);
        assert_eq!(see(197, 19, 60), None, "seven have left");
        assert_eq!(see(198, 19, 61), Some(0), "the eighth");
        let mut passage = Passage::new(Instant::ZERO);
        for s in 0..60 {
            let told = passage.look(look(0, 0, &[]), PATIENCE, at(s));
            assert_eq!(told, None, "nothing has left");
        }
    }
}
