//! Detects a node that swallows ADUs: whether what leaves a source under a plan reaches its sink,
//! by the nodes' reports.
//!
//! *The idea.* A node that forwards nothing still answers its neighbours, so no link is silent. But
//! ADUs leave, and no downstream node reports any of them as delivered or as dropped for a reason
//! of its own. Losses on the link after a node are no such answer: the node upstream of a
//! withholding one reports just these, which shows how far the path is good.
//!
//! A node that forwards a part yields answers, and nothing is reported of the part that it keeps.
//! So answers are also compared in windows: ADUs that had left when a window began are no longer in
//! flight when it ends, and those unanswered by then are missing. Answers are not matched to ADUs,
//! so answers of later ADUs hide some missing ones: what is found is certain, and a little is never
//! found.
//!
//! ```text
//! missing = left, when the window began − answers, when it ends      by 5 % of left, three times in a row
//! ```
//!
//! Where a plan keeps ADUs in order, an ADU that the sink lacks while it has later ones is not in
//! flight, so no window is needed.
//!
//! *What it does not do.* It trusts reports: a node on the path can claim that everything was
//! delivered.

use alloc::vec::Vec;

use thalweg_base::event::DropCause;
use thalweg_base::time::{Duration, Instant};

use super::{Account, Place};
use crate::ledger::{What, total};

/// ADUs that must have left without an answer: a few can be lost for any reason.
const SILENT_MIN: u64 = 8;

/// A window has at least `WINDOW_MIN` ADUs; one in `MISSING_PART` of them must be missing, in
/// `WINDOWS` successive windows.
const WINDOW_MIN: u64 = 40;
const MISSING_PART: u64 = 20;
const WINDOWS: u32 = 3;

/// How long a sink must lack an ADU while it has later ones; its next receipt then confirms it.
const GAP_MIN: Duration = Duration::from_secs(1);

/// How long to wait for reports of ADUs that left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For any report at all.
    pub answer: Duration,
    /// For the last report of an ADU: afterwards it is not in flight.
    pub fate: Duration,
    /// Links are lossy, and losses on them accuse no node.
    pub is_lossy: bool,
}

/// What left under one plan, and what was answered.
#[derive(Clone, Debug)]
pub(super) struct Passage {
    silence: Silence,
    shortfall: Shortfall,
    /// Since when the sink of an order-keeping plan lacks more than was dropped for a reason, while
    /// it has later ADUs.
    gap_since: Option<Instant>,
}

/// Detects that nothing at all is answered.
#[derive(Clone, Debug)]
struct Silence {
    /// Answers at the last check.
    answers: u64,
    /// ADUs that had left at the last answer.
    left: u64,
    /// Losses of each node at the last answer, the source first.
    lost: Vec<u64>,
    /// Time of the last check, and since when ADUs leave without an answer.
    checked: Instant,
    since: Option<Instant>,
}

/// Detects that a part is unanswered, window by window.
#[derive(Clone, Debug)]
struct Shortfall {
    /// Start of the window.
    began: Instant,
    /// ADUs that had left when the previous window began, and when this one did.
    left: [u64; 2],
    /// Missing ADUs at the start of the window, of those that had left one window earlier.
    missing: u64,
    /// Losses of each node at the start of the window.
    lost: Vec<u64>,
    /// Successive windows in which more went missing.
    windows: u32,
}

/// What the account knows of a plan at the time of a check.
#[derive(Clone, Debug)]
struct Snapshot {
    /// ADUs that have left the first node.
    left: u64,
    /// That node's place: 0 for the source, 1 for the node that copies.
    first: usize,
    /// ADUs that were delivered, or dropped by a downstream node for a reason of its own.
    answers: u64,
    /// ADUs lost on links.
    lost_on_links: u64,
    /// ADUs that the sink should have and that a node, the first included, dropped for a reason of
    /// its own.
    dropped: u64,
    /// By node, the source first: ADUs that it had by its own report and that were lost on its
    /// link.
    lost: Vec<u64>,
}

impl Passage {
    /// Returns the state before anything has left.
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            silence: Silence {
                answers: 0,
                left: 0,
                lost: Vec::new(),
                checked: now,
                since: None,
            },
            shortfall: Shortfall {
                began: now,
                left: [0; 2],
                missing: 0,
                lost: Vec::new(),
                windows: 0,
            },
            gap_since: None,
        }
    }

    /// Checks; returns the place of the last node known to have ADUs of which all or a part is
    /// missing downstream.
    fn check(&mut self, snapshot: &Snapshot, patience: &Patience, now: Instant) -> Option<usize> {
        let short = self.shortfall.check(snapshot, patience, now);
        self.silence.check(snapshot, patience.answer, now).or(short)
    }

    fn handle_missing(&mut self, missing: u64, snapshot: &Snapshot, now: Instant) -> Option<usize> {
        // Drops for a reason explain that many.
        if missing <= snapshot.dropped {
            self.gap_since = None;
            return None;
        }
        let since = *self.gap_since.get_or_insert(now);
        if now < since + GAP_MIN {
            return None;
        }
        self.gap_since = None;
        Some(snapshot.last_before(&[], missing))
    }
}

impl Silence {
    /// Checks; once nothing was answered for `patience` returns the place of the node with the
    /// largest new loss, or 0 without one, and restarts the wait.
    fn check(&mut self, snapshot: &Snapshot, patience: Duration, now: Instant) -> Option<usize> {
        let Snapshot {
            left,
            answers,
            lost,
            ..
        } = snapshot;
        // An answer, or nothing new that left, restarts the wait.
        if *answers != self.answers || *left <= self.left {
            (self.answers, self.left) = (*answers, *left);
            self.lost.clone_from(lost);
            (self.checked, self.since) = (now, None);
            return None;
        }
        let checked = core::mem::replace(&mut self.checked, now);
        let since = *self.since.get_or_insert(checked);
        if *left < self.left + SILENT_MIN || now < since + patience {
            return None;
        }
        self.since = None;
        // A withholding node has lost some as well: it never learned that they had arrived.
        Some(most_lost(&self.lost, lost).map_or(0, |(at, _)| at))
    }
}

impl Shortfall {
    /// Checks; once more is missing in [`WINDOWS`] successive windows returns the place of the node
    /// that lost it, or 0 without one, and starts over.
    fn check(&mut self, snapshot: &Snapshot, patience: &Patience, now: Instant) -> Option<usize> {
        let [earlier, left] = self.left;
        if now < self.began + patience.fate || snapshot.left < left + WINDOW_MIN {
            return None;
        }
        // On lossy links a loss counts as an answer.
        let answers = snapshot.answers
            + if patience.is_lossy {
                snapshot.lost_on_links
            } else {
                0
            };
        let missing = left.saturating_sub(answers);
        let grown = missing.saturating_sub(self.missing);
        // Compared with the ADUs that left during the window before.
        let is_short = grown > 0 && grown >= (left - earlier) / MISSING_PART;
        let windows = if is_short { self.windows + 1 } else { 0 };
        let is_found = windows == WINDOWS;
        let before = core::mem::replace(
            self,
            Self {
                began: now,
                left: [left, snapshot.left],
                missing,
                lost: snapshot.lost.clone(),
                windows: if is_found { 0 } else { windows },
            },
        );
        // A link that loses a few does not explain the rest, and a link that is known to be lossy
        // explains nothing.
        is_found.then(|| {
            if patience.is_lossy {
                snapshot.first
            } else {
                snapshot.last_before(&before.lost, grown)
            }
        })
    }
}

/// Returns the node with the largest growth and that growth, if any is positive.
fn most_lost(before: &[u64], now: &[u64]) -> Option<(usize, u64)> {
    let before = before.iter().copied().chain(core::iter::repeat(0));
    let grown = now
        .iter()
        .zip(before)
        .map(|(now, before)| now.saturating_sub(before));
    let most = grown.enumerate().max_by_key(|(_, grown)| *grown);
    most.filter(|(_, grown)| *grown > 0)
}

impl Snapshot {
    /// Returns the place of the last node known to have had the missing ADUs: the one with the
    /// largest new loss, or the first node if that loss is less than half of them.
    fn last_before(&self, lost_before: &[u64], missing: u64) -> usize {
        let most = most_lost(lost_before, &self.lost);
        let most = most.filter(|(_, lost)| lost * 2 >= missing);
        most.map_or(self.first, |(at, _)| at)
    }
}

impl Account {
    /// Returns whether ADUs have left and wait for an answer.
    pub const fn awaits_passage(&self) -> bool {
        self.passage.silence.since.is_some()
    }

    /// Checks, at the source, whether ADUs that leave come through. If none does for the patience,
    /// or a part does not, returns the place of the last node known to have them; 0 is the source.
    ///
    /// Cost    O(counters)
    pub fn look_through(&mut self, patience: &Patience, now: Instant) -> Option<usize> {
        let snapshot = self.snapshot();
        self.passage.check(&snapshot, patience, now)
    }

    /// Takes in how many ADUs of this order-keeping plan its sink lacks while it has later ones. If
    /// for long enough it lacked more than was dropped for a reason, returns the place of the last
    /// node known to have had them; 0 is the source.
    ///
    /// Cost    O(counters)
    pub fn handle_missing(&mut self, missing: u64, now: Instant) -> Option<usize> {
        let snapshot = self.snapshot();
        self.passage.handle_missing(missing, &snapshot, now)
    }

    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot {
            left: total(self.counts.left.iter().flatten().copied()),
            first: usize::from(matches!(self.place, Place::Graft(_))),
            answers: 0,
            lost_on_links: 0,
            dropped: 0,
            lost: alloc::vec![0; 1 + self.behind.len()],
        };
        for (at, number, count) in self.entries() {
            let (is_behind, what) = (at > 0, What::from_number(number));
            match what.map(|(what, _)| what) {
                Some(What::Dropped(DropCause::PathLost)) => add(&mut snapshot.lost[at], count),
                Some(what @ (What::Dropped(_) | What::Delivered)) => {
                    add(&mut snapshot.answers, if is_behind { count } else { 0 });
                    // A sink does not lack an ADU that the plan filters, nor one that it had
                    // before.
                    let is_lacked = !matches!(
                        what,
                        What::Delivered | What::Dropped(DropCause::Filtered | DropCause::Duplicate)
                    );
                    add(&mut snapshot.dropped, if is_lacked { count } else { 0 });
                }
                _ => {}
            }
        }
        snapshot.lost_on_links = total(snapshot.lost.iter().copied());
        // By copying ADUs a node reports that it has them.
        if let Place::Graft(_) = self.place
            && let Some(lost) = snapshot.lost.get_mut(1)
        {
            add(lost, snapshot.left);
        }
        snapshot
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

    fn snapshot(left: u64, answers: u64, lost: &[u64]) -> Snapshot {
        Snapshot {
            left,
            first: 0,
            answers,
            lost_on_links: lost.iter().sum(),
            dropped: 0,
            lost: lost.to_vec(),
        }
    }

    #[test]
    fn silence_is_found_after_patience() {
        let mut passage = Passage::new(Instant::ZERO);
        let mut check_at =
            |left, lost: &[u64], s| passage.check(&snapshot(left, 3, lost), &PATIENCE, at(s));
        assert_eq!(check_at(3, &[0, 0, 0], 0), None);
        assert_eq!(check_at(20, &[0, 0, 0], 1), None);
        assert_eq!(check_at(60, &[0, 0, 0], 4), None, "just before");
        assert_eq!(check_at(70, &[0, 0, 0], 5), Some(0));
        assert_eq!(check_at(90, &[0, 0, 0], 6), None, "starts over");
        assert_eq!(check_at(170, &[0, 0, 0], 10), Some(0));
    }

    #[test]
    fn silence_from_start_is_found() {
        let mut passage = Passage::new(at(100));
        let mut check_at = |left, s| passage.check(&snapshot(left, 0, &[0]), &PATIENCE, at(s));
        assert_eq!(check_at(20, 101), None);
        assert_eq!(check_at(90, 104), None);
        assert_eq!(check_at(110, 105), Some(0));
    }

    #[test]
    fn largest_loss_since_last_answer_is_named() {
        let mut passage = Passage::new(Instant::ZERO);
        let mut check_at =
            |left, lost: &[u64], s| passage.check(&snapshot(left, 3, lost), &PATIENCE, at(s));
        check_at(3, &[4, 1, 90], 0);
        assert_eq!(check_at(20, &[4, 1, 90], 1), None);
        assert_eq!(
            check_at(70, &[4, 40, 93], 6),
            Some(1),
            "earlier losses do not count"
        );
    }

    #[test]
    fn answers_few_adus_or_pauses_are_not_silence() {
        let mut passage = Passage::new(Instant::ZERO);
        let patience = Patience {
            fate: Duration::NEVER,
            ..PATIENCE
        };
        let mut check_at =
            |left, answers, s| passage.check(&snapshot(left, answers, &[0]), &patience, at(s));
        for s in 0..20 {
            assert_eq!(check_at(10 * s, s, s), None, "one answer a second");
        }
        assert_eq!(check_at(197, 19, 30), None);
        assert_eq!(check_at(197, 19, 60), None, "seven have left");
        assert_eq!(check_at(198, 19, 61), Some(0), "eight have left");
        let mut passage = Passage::new(Instant::ZERO);
        for s in 0..60 {
            let found = passage.check(&snapshot(0, 0, &[]), &PATIENCE, at(s));
            assert_eq!(found, None, "nothing has left");
        }
    }

    /// Checks twice a second at 20 ADUs a second, of which one in `withheld_in` is withheld and one
    /// in `lost_in` is lost on a link; reports are two seconds old. Returns the second of the first
    /// finding, and the place.
    fn play(patience: &Patience, withheld_in: u64, lost_in: u64) -> Option<(u64, usize)> {
        let mut passage = Passage::new(Instant::ZERO);
        (1..=400_u64).find_map(|half| {
            let left = 10 * half;
            let known = left.saturating_sub(40);
            let lost = known.checked_div(lost_in).unwrap_or(0);
            let answers = known - lost - known.checked_div(withheld_in).unwrap_or(0);
            let now = Instant::ZERO + Duration::from_millis(500 * half);
            let found = passage.check(&snapshot(left, answers, &[0, lost, 0]), patience, now);
            found.map(|at| (half / 2, at))
        })
    }

    #[test]
    fn partial_loss_is_found_in_windows() {
        let found = |withheld_in| play(&PATIENCE, withheld_in, 0);
        // Windows begin at 0, 5, 10 s, …; the answers of three seconds hide as many missing ADUs.
        assert_eq!(found(1), Some((5, 0)), "all: nothing is answered");
        assert_eq!(found(2), Some((20, 0)), "half");
        assert_eq!(found(10), Some((45, 0)), "a tenth");
        assert_eq!(found(0), None);
        assert_eq!(found(100), None, "a hundredth");
    }

    #[test]
    fn sink_gap_is_found_unless_dropped() {
        let mut passage = Passage::new(Instant::ZERO);
        let mut check_at = |missing, dropped, lost: &[u64], s| {
            let snapshot = Snapshot {
                dropped,
                ..snapshot(100, 50, lost)
            };
            passage.handle_missing(missing, &snapshot, at(s))
        };
        assert_eq!(check_at(1, 0, &[0, 0, 0], 1), None, "first receipt");
        assert_eq!(check_at(2, 0, &[0, 0, 0], 2), Some(0));
        assert_eq!(check_at(2, 0, &[0, 0, 0], 3), None, "starts over");
        assert_eq!(check_at(0, 0, &[0, 0, 0], 4), None);
        assert_eq!(check_at(2, 0, &[0, 0, 0], 5), None, "arrived meanwhile");
        assert_eq!(check_at(4, 4, &[0, 0, 0], 6), None, "all were dropped");
        assert_eq!(check_at(5, 4, &[0, 2, 0], 7), None);
        assert_eq!(
            check_at(5, 4, &[0, 2, 0], 8),
            Some(0),
            "the link lost less than half"
        );
        assert_eq!(check_at(5, 4, &[0, 3, 0], 9), None);
        assert_eq!(
            check_at(5, 4, &[0, 3, 0], 10),
            Some(1),
            "the link lost half"
        );
    }

    #[test]
    fn link_loss_is_found_unless_lossy() {
        assert_eq!(play(&PATIENCE, 0, 4).map(|(_, at)| at), Some(1));
        let lossy = Patience {
            is_lossy: true,
            ..PATIENCE
        };
        assert_eq!(play(&lossy, 0, 4), None);
        assert_eq!(
            play(&lossy, 4, 4).map(|(_, at)| at),
            Some(0),
            "a part is unexplained"
        );
        assert_eq!(
            play(&PATIENCE, 3, 50).map(|(_, at)| at),
            Some(0),
            "not the link"
        );
    }

    #[test]
    fn single_short_window_is_not_found() {
        let mut passage = Passage::new(Instant::ZERO);
        for s in 1..100 {
            // From second 20 to 29 half is withheld.
            let out = 10 * s.clamp(20, 30) - 200;
            let found = passage.check(&snapshot(20 * s, 20 * s - out, &[0]), &PATIENCE, at(s));
            assert_eq!(found, None, "{s}");
        }
    }

    #[test]
    fn window_waits_for_fate_and_adus() {
        let slow = Patience {
            fate: Duration::from_secs(14),
            ..PATIENCE
        };
        assert!(play(&slow, 2, 0) > play(&PATIENCE, 2, 0));
        let mut passage = Passage::new(Instant::ZERO);
        let found = (1..400).find_map(|s| {
            let found = passage.check(&snapshot(s, s / 2, &[0]), &PATIENCE, at(s));
            found.map(|_| s)
        });
        // Forty ADUs take forty seconds, and the half that arrives hides the half missing before.
        assert_eq!(found, Some(200));
    }
}
