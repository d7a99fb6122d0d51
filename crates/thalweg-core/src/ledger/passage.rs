//! Whether what leaves a source by a plan comes out at its sink, as far as the accounts of its nodes tell.
//!
//! *The idea.* A node that takes what it is given and passes nothing on answers its neighbours, so no line is silent. But
//! ADUs leave, and nobody behind says that one was delivered, or dropped for a reason of its own. What a node says that the
//! line after it lost is no such word: that is what the node before one that withholds says, and so how far the way is good.
//!
//! One that passes on a part is answered for, and of what it keeps nobody says a word. So it is looked at in windows as well: of
//! what had left when one began, nothing can be on its way any more when it ends, and what is not accounted for by then is
//! missing. As answers are not told apart, those of later ADUs hide as many missing: what is found is surely so, and a
//! little of it is never found.
//!
//! ```text
//! missing = left, when the window began − answers, when it ends      grows by 5 % of what left, three windows in a row
//! ```
//!
//! Where ADUs keep their order none can be on its way that a sink lacks while it has later ones: nobody needs to wait for a window.
//!
//! *What it does not do.* It believes what it is told: one on the way can say that all was delivered.

use alloc::vec::Vec;

use super::account::{Account, Place};
use super::{What, total};
use crate::event::DropCause;
use crate::time::{Duration, Instant};

/// How many ADUs must have left without an answer: a few can be lost for any reason.
const LEAST: u64 = 8;

/// Of how many ADUs a window is at least, which part of them is missing, and in how many windows in a row.
const WINDOW_LEAST: u64 = 40;
const MISSING_PART: u64 = 20;
const WINDOWS: u32 = 3;

/// How long a sink must lack what it should have had before later ADUs: its next receipt says so again.
const PASSED_OVER: Duration = Duration::from_secs(1);

/// How long it is waited for word of what left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For any word at all.
    pub answer: Duration,
    /// For the last word of an ADU: afterwards none is on its way.
    pub fate: Duration,
    /// Lines lose ADUs, and nobody is at fault.
    pub is_lossy: bool,
}

/// What left by one plan, and what was answered.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    silence: Silence,
    shortfall: Shortfall,
    /// Since when the sink lacks more than was dropped for a reason, though it has later ADUs of a plan that keeps their order.
    passed_over: Option<Instant>,
}

/// Whether nothing at all is answered.
#[derive(Clone, Debug)]
struct Silence {
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

/// Whether a part is not accounted for, window by window.
#[derive(Clone, Debug)]
struct Shortfall {
    /// When the window began.
    began: Instant,
    /// What had left when the window before it began, and when it did.
    left: [u64; 2],
    /// What was missing, when it began, of what had left a window before.
    missing: u64,
    /// What each node had lost when it began.
    lost: Vec<u64>,
    /// In how many windows in a row more was missing.
    windows: u32,
}

/// What is known of a plan when it is looked.
#[derive(Clone, Debug)]
struct Look {
    /// How many ADUs have left the first node.
    left: u64,
    /// The place of that: the source, or the node that copies.
    first: usize,
    /// How many of them came through, or were dropped by a node that says why.
    answers: u64,
    /// How many were lost on lines.
    gone: u64,
    /// How many should have come and were dropped by a node that says why, the first one too.
    dropped: u64,
    /// How many each node has had, as far as it says, that were lost behind it, the source first.
    lost: Vec<u64>,
}

impl Passage {
    /// Nothing has left yet.
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            silence: Silence {
                answers: 0,
                left: 0,
                lost: Vec::new(),
                looked: now,
                since: None,
            },
            shortfall: Shortfall {
                began: now,
                left: [0; 2],
                missing: 0,
                lost: Vec::new(),
                windows: 0,
            },
            passed_over: None,
        }
    }

    /// Looks; returns the place of the last node that is known to have what left, if all or a part of it stays out behind that.
    fn look(&mut self, look: &Look, patience: &Patience, now: Instant) -> Option<usize> {
        let short = self.shortfall.look(look, patience, now);
        self.silence.look(look, patience.answer, now).or(short)
    }

    fn handle_missing(&mut self, missing: u64, look: &Look, now: Instant) -> Option<usize> {
        if missing <= look.dropped {
            self.passed_over = None;
            return None;
        }
        let since = *self.passed_over.get_or_insert(now);
        if now < since + PASSED_OVER {
            return None;
        }
        self.passed_over = None;
        Some(look.last_before(&[], missing))
    }
}

impl Silence {
    /// Looks; once nothing has been answered for so long it returns the place of the node that lost most of it, or 0 if none
    /// says that it did, and begins anew.
    fn look(&mut self, look: &Look, patience: Duration, now: Instant) -> Option<usize> {
        let Look {
            left,
            answers,
            lost,
            ..
        } = look;
        if *answers != self.answers || *left <= self.left {
            (self.answers, self.left) = (*answers, *left);
            self.lost.clone_from(lost);
            (self.looked, self.since) = (now, None);
            return None;
        }
        let looked = core::mem::replace(&mut self.looked, now);
        let since = *self.since.get_or_insert(looked);
        if *left < self.left + LEAST || now < since + patience {
            return None;
        }
        self.since = None;
        // One that withholds has lost some too, of which it was not told any more that they had come.
        Some(most_lost(&self.lost, lost).map_or(0, |(at, _)| at))
    }
}

impl Shortfall {
    /// Looks; once more is missing in so many windows in a row it returns the place of the node that lost it, or 0 if none says
    /// that it did, and begins anew.
    fn look(&mut self, look: &Look, patience: &Patience, now: Instant) -> Option<usize> {
        let [earlier, left] = self.left;
        if now < self.began + patience.fate || look.left < left + WINDOW_LEAST {
            return None;
        }
        let answers = look.answers + if patience.is_lossy { look.gone } else { 0 };
        let missing = left.saturating_sub(answers);
        let grown = missing.saturating_sub(self.missing);
        let is_short = grown > 0 && grown >= (left - earlier) / MISSING_PART;
        let windows = if is_short { self.windows + 1 } else { 0 };
        let is_found = windows == WINDOWS;
        let before = core::mem::replace(
            self,
            Self {
                began: now,
                left: [left, look.left],
                missing,
                lost: look.lost.clone(),
                windows: if is_found { 0 } else { windows },
            },
        );
        // A line that loses a few is not where the rest is, nor is one that may.
        is_found.then(|| {
            if patience.is_lossy {
                look.first
            } else {
                look.last_before(&before.lost, grown)
            }
        })
    }
}

/// Returns the node that has lost most, with how much, if any has.
fn most_lost(before: &[u64], now: &[u64]) -> Option<(usize, u64)> {
    let before = before.iter().copied().chain(core::iter::repeat(0));
    let grown = now
        .iter()
        .zip(before)
        .map(|(now, before)| now.saturating_sub(before));
    let most = grown.enumerate().max_by_key(|(_, grown)| *grown);
    most.filter(|(_, grown)| *grown > 0)
}

impl Look {
    /// Returns the place of the last node that is known to have had what is missing: of the one that lost most of it since, or the
    /// first if none says that it lost half of it.
    fn last_before(&self, lost_before: &[u64], missing: u64) -> usize {
        let most = most_lost(lost_before, &self.lost);
        let most = most.filter(|(_, lost)| lost * 2 >= missing);
        most.map_or(self.first, |(at, _)| at)
    }
}

impl Account {
    /// Returns whether something has left and waits for an answer.
    pub const fn awaits_passage(&self) -> bool {
        self.passage.silence.since.is_some()
    }

    /// Looks whether what leaves comes through, at the source; if nothing has for so long, or a part has not, returns the place
    /// of the last node that is known to have what left, the source being 0.
    ///
    /// Cost    O(counters)
    pub fn look_through(&mut self, patience: &Patience, now: Instant) -> Option<usize> {
        let look = self.known();
        self.passage.look(&look, patience, now)
    }

    /// Takes in how many ADUs of this plan, which keeps their order, its sink lacks though it has later ones; if it has lacked more
    /// than was dropped for a reason for so long, returns the place of the last node that is known to have had them, the source being 0.
    ///
    /// Cost    O(counters)
    pub fn handle_missing(&mut self, missing: u64, now: Instant) -> Option<usize> {
        let look = self.known();
        self.passage.handle_missing(missing, &look, now)
    }

    fn known(&self) -> Look {
        let mut look = Look {
            left: total(self.counts.left.iter().flatten().copied()),
            first: usize::from(matches!(self.place, Place::Graft(_))),
            answers: 0,
            gone: 0,
            dropped: 0,
            lost: alloc::vec![0; 1 + self.behind.len()],
        };
        for (at, number, count) in self.entries() {
            let (is_behind, what) = (at > 0, What::from_number(number));
            match what.map(|(what, _)| what) {
                Some(What::Dropped(DropCause::PathLost)) => add(&mut look.lost[at], count),
                Some(what @ (What::Dropped(_) | What::Delivered)) => {
                    add(&mut look.answers, if is_behind { count } else { 0 });
                    // What a plan leaves out no sink lacks, nor what it has had before.
                    let is_lacked = !matches!(
                        what,
                        What::Delivered | What::Dropped(DropCause::Filtered | DropCause::Duplicate)
                    );
                    add(&mut look.dropped, if is_lacked { count } else { 0 });
                }
                _ => {}
            }
        }
        look.gone = total(look.lost.iter().copied());
        // That it copies what comes is its word that it has it.
        if let Place::Graft(_) = self.place
            && let Some(lost) = look.lost.get_mut(1)
        {
            add(lost, look.left);
        }
        look
    }
}

fn add(sum: &mut u64, count: u64) {
    *sum = sum.saturating_add(count);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        answer: Duration::from_secs(5),
        fate: Duration::from_secs(5),
        is_lossy: false,
    };

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn look(left: u64, answers: u64, lost: &[u64]) -> Look {
        Look {
            left,
            first: 0,
            answers,
            gone: lost.iter().sum(),
            dropped: 0,
            lost: lost.to_vec(),
        }
    }

    #[test]
    fn what_leaves_and_is_never_answered_is_told_after_patience() {
        let mut passage = Passage::new(Instant::ZERO);
        let mut see = |left, lost: &[u64], s| passage.look(&look(left, 3, lost), &PATIENCE, at(s));
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
        let mut see = |left, s| passage.look(&look(left, 0, &[0]), &PATIENCE, at(s));
        assert_eq!(see(20, 101), None);
        assert_eq!(see(90, 104), None);
        assert_eq!(see(110, 105), Some(0));
    }

    #[test]
    fn the_node_that_has_lost_most_since_the_last_answer_has_had_what_left() {
        let mut passage = Passage::new(Instant::ZERO);
        let mut see = |left, lost: &[u64], s| passage.look(&look(left, 3, lost), &PATIENCE, at(s));
        see(3, &[4, 1, 90], 0);
        assert_eq!(see(20, &[4, 1, 90], 1), None);
        assert_eq!(see(70, &[4, 40, 93], 6), Some(1), "not what it lost before");
    }

    #[test]
    fn an_answer_few_adus_or_a_pause_are_no_ground() {
        let mut passage = Passage::new(Instant::ZERO);
        let patience = Patience {
            fate: Duration::NEVER,
            ..PATIENCE
        };
        let mut see = |left, answers, s| passage.look(&look(left, answers, &[0]), &patience, at(s));
        for s in 0..20 {
            assert_eq!(see(10 * s, s, s), None, "an answer each second");
        }
        assert_eq!(see(197, 19, 30), None);
        assert_eq!(see(197, 19, 60), None, "seven have left");
        assert_eq!(see(198, 19, 61), Some(0), "the eighth");
        let mut passage = Passage::new(Instant::ZERO);
        for s in 0..60 {
            let told = passage.look(&look(0, 0, &[]), &PATIENCE, at(s));
            assert_eq!(told, None, "nothing has left");
        }
    }

    /// Looks twice a second at 20 ADUs a second, of which one in so many stays out and a line loses one in so many; all that is
    /// known of an ADU is known two seconds later. Returns when it was told for the first time, and the place.
    fn play(patience: &Patience, withheld_in: u64, lost_in: u64) -> Option<(u64, usize)> {
        let mut passage = Passage::new(Instant::ZERO);
        (1..=400_u64).find_map(|half| {
            let left = 10 * half;
            let known = left.saturating_sub(40);
            let lost = known.checked_div(lost_in).unwrap_or(0);
            let answers = known - lost - known.checked_div(withheld_in).unwrap_or(0);
            let now = Instant::ZERO + Duration::from_millis(500 * half);
            let told = passage.look(&look(left, answers, &[0, lost, 0]), patience, now);
            told.map(|at| (half / 2, at))
        })
    }

    #[test]
    fn a_part_that_stays_out_is_found_in_windows() {
        let found = |withheld_in| play(&PATIENCE, withheld_in, 0);
        // Windows begin at 0, 5, 10, …; the answers of three seconds hide as many of what is missing.
        assert_eq!(found(1), Some((5, 0)), "all: nothing is answered");
        assert_eq!(found(2), Some((20, 0)), "half");
        assert_eq!(found(10), Some((45, 0)), "a tenth");
        assert_eq!(found(0), None);
        assert_eq!(found(100), None, "a hundredth");
    }

    #[test]
    fn what_a_sink_lacks_for_a_second_is_told_unless_it_was_dropped() {
        let mut passage = Passage::new(Instant::ZERO);
        let mut see = |missing, dropped, lost: &[u64], s| {
            let look = Look {
                dropped,
                ..look(100, 50, lost)
            };
            passage.handle_missing(missing, &look, at(s))
        };
        assert_eq!(see(1, 0, &[0, 0, 0], 1), None, "said once");
        assert_eq!(see(2, 0, &[0, 0, 0], 2), Some(0));
        assert_eq!(see(2, 0, &[0, 0, 0], 3), None, "and begins anew");
        assert_eq!(see(0, 0, &[0, 0, 0], 4), None);
        assert_eq!(see(2, 0, &[0, 0, 0], 5), None, "it had come meanwhile");
        assert_eq!(see(4, 4, &[0, 0, 0], 6), None, "all were dropped");
        assert_eq!(see(5, 4, &[0, 2, 0], 7), None);
        assert_eq!(see(5, 4, &[0, 2, 0], 8), Some(0), "the line lost the less");
        assert_eq!(see(5, 4, &[0, 3, 0], 9), None);
        assert_eq!(see(5, 4, &[0, 3, 0], 10), Some(1), "or the half");
    }

    #[test]
    fn what_a_line_loses_is_found_behind_it_unless_lines_may() {
        assert_eq!(play(&PATIENCE, 0, 4).map(|(_, at)| at), Some(1));
        let lossy = Patience {
            is_lossy: true,
            ..PATIENCE
        };
        assert_eq!(play(&lossy, 0, 4), None);
        assert_eq!(
            play(&lossy, 4, 4).map(|(_, at)| at),
            Some(0),
            "and the rest?"
        );
        assert_eq!(
            play(&PATIENCE, 3, 50).map(|(_, at)| at),
            Some(0),
            "not by it"
        );
    }

    #[test]
    fn what_is_missing_once_is_no_ground() {
        let mut passage = Passage::new(Instant::ZERO);
        for s in 1..100 {
            // From the 20th second to the 29th half stays out.
            let out = 10 * s.clamp(20, 30) - 200;
            let told = passage.look(&look(20 * s, 20 * s - out, &[0]), &PATIENCE, at(s));
            assert_eq!(told, None, "{s}");
        }
    }

    #[test]
    fn a_window_waits_for_the_last_word_and_for_enough() {
        let slow = Patience {
            fate: Duration::from_secs(14),
            ..PATIENCE
        };
        assert!(play(&slow, 2, 0) > play(&PATIENCE, 2, 0));
        let mut passage = Passage::new(Instant::ZERO);
        let told = (1..400).find_map(|s| {
            let told = passage.look(&look(s, s / 2, &[0]), &PATIENCE, at(s));
            told.map(|_| s)
        });
        // Forty ADUs take forty seconds, and the half of them that comes hides the half of those before.
        assert_eq!(told, Some(200));
    }
}
