//! What got lost on the way to the next node of a plan, and what was taken for lost and came after all.
//!
//! *The idea.* Double entry, mark by mark. With *S* sent and not given up, *L* left (a while ago), *A* arrived at the next
//! node by its own word, and *lost* and *returned* what was concluded so far, of one [`Mark`] and band:
//!
//! ```text
//! lost     += L − A − (lost − returned)      if positive: it left a while ago, and the next node, asked just now, has it not
//! returned += A − S + (lost − returned)      if positive: more came than can have left, so what was given up came after all
//! ```
//!
//! Between the two lies what is on its way, so neither is said of an ADU that may still be crossing. While a mark is in use,
//! what comes now makes up for what was lost before, and hides it; once it has ended nothing can.
//!
//! | of | a while ago, by a report | without one |
//! |---|---|---|
//! | a mark: datagrams, of which nobody says that they came | 5/4 RTT + 25 ms before it came | so long ago as a report can take |
//! | the same, while nothing at all comes from the next node | – | 5/4 RTT + 25 ms, if it left after the last that came |
//! | none: acknowledged, so it is there, and perhaps not read | 1 s | 2 s |
//!
//! A report can take 730 ms until it is made, or 500 ms if the last ADU of the mark has left, or if the next node has said that
//! it had told all; as long as the nodes behind took of late, from the turn of a mark to their word of it; and once more 5/4
//! RTT + 25 ms, in which one that was lost is repeated.
//!
//! The round trip that counts is a high one of late, which falls slowly. Who is told too early that something is lost takes
//! it back. A report that came late, by the stamp that it bears, was lost and repeated: it tells of as much less. A report
//! leaves out the mark that still comes: of that nothing is concluded.
//!
//! *What it does not do.* It believes what it is given: `account` has compared it with what was sent.
//!
//! *Sources.* RFC 9341 §3.1 (counting between two changes of colour), §3.2 (when a counter has come to rest).

use super::account::{EVERY, SLACK, TELL_ALL, grid};
use super::past::Past;
use super::{BANDS, Band, Counts, Marked};
use crate::adu::Mark;
use crate::routing::pulse;
use crate::time::{Duration, Instant};

/// How long what is acknowledged may be missing in a report; twice as long without one.
const GRACE: Duration = Duration::from_millis(1_000);

/// By how much a report may be ahead of what it tells of, beside a quarter of a round trip.
const WAKE: Duration = Duration::from_millis(25);

/// How long after a mark has ended it is looked once more what has left: what was handed over just before.
const TRAIL: Duration = Duration::from_millis(25);

/// The round trip of a link before the first is measured.
const RTT_UNKNOWN: Duration = Duration::from_millis(200);

/// No longer round trip than this is waited for.
const RTT_MAX: Duration = Duration::from_secs(2);

/// Steps of what had left as long ago as a report may be ahead of what it tells of.
const PAST_GRAIN: u64 = 8;

/// The same for as long as a report may take: where silence began is to be found in it.
const LONG_PAST_GRAIN: u64 = 24;

/// Which mark is in use, and since when, as far as counters tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) current: Mark,
    pub(super) began: Instant,
}

/// What had left at an instant, a step before that or earlier, and as long before that again.
#[derive(Clone, Debug)]
struct Ages {
    young: (Instant, Marked),
    aged: Marked,
    old: Marked,
}

/// What was known when the next node fell silent.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// What had left before what was heard last was said.
    before: Marked,
    /// What had arrived or was taken for lost.
    known: Marked,
}

/// What is known of the ADUs of one plan between this node and the next.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    /// What the next node had counted as arrived before this node began to count, having been restarted.
    pub(super) unrelated: Marked,
    lost: Marked,
    returned: Marked,
    /// A round trip that was measured lately, a high one.
    rtt: Option<Duration>,
    /// From the turn of a mark until the next node's word of the one before, of late and with a margin.
    lag: Option<Duration>,
    turn: Turn,
    /// What had left as long ago as a report may be ahead of what it tells of; and as long as one may take.
    past: Past,
    long_past: Past,
    /// Nothing comes from the next node, whatever leaves.
    silence: Option<Silence>,
    /// When the last of each mark was seen to have left.
    rested: [Instant; Mark::COUNT],
    /// What is acknowledged, with steps of [`GRACE`].
    slow: Ages,
    /// When to look again at what has left.
    trail: Instant,
    /// When to look again for what does not arrive.
    overdue: Instant,
}

/// What the next node says.
pub(super) struct Word<'a> {
    /// How many ADUs arrived there.
    pub(super) arrived: &'a Marked,
    /// It was said just now, but for what has this mark; otherwise it is what is known from before.
    pub(super) fresh: Option<Mark>,
    /// How much longer it was on its way than others.
    pub(super) late: Duration,
    /// It told of all that had come, so that what comes now is told soon.
    pub(super) is_all: bool,
}

impl Turn {
    pub(super) const fn new() -> Self {
        Self {
            current: Mark::NONE,
            began: Instant::ZERO,
        }
    }

    /// Takes in what has grown; returns whether another mark has taken its turn.
    ///
    /// What comes late with the mark before is no turn; but if this one is long over there was a pause.
    pub(super) fn handle(&mut self, before: &Marked, after: &Marked, now: Instant) -> bool {
        let has_grown = |mark: Mark| before[mark.index()] != after[mark.index()];
        let (next, last) = (self.current.next(), self.current.next().next());
        let is_over = self.current == Mark::NONE || self.began + Mark::PERIOD <= now;
        let turned = if has_grown(next) {
            next
        } else if is_over && has_grown(last) {
            last
        } else if self.current == Mark::NONE && has_grown(last.next()) {
            last.next()
        } else {
            return false;
        };
        *self = Self {
            current: turned,
            began: now,
        };
        true
    }
}

impl Silence {
    /// Returns how many of a mark are gone: those that are otherwise, or those that have left since the silence began.
    fn gone(&self, mark: usize, past: &Marked, gone: &[u64; BANDS]) -> [u64; BANDS] {
        core::array::from_fn(|band| {
            let since = past[mark][band].saturating_sub(self.before[mark][band]);
            gone[band].max(self.known[mark][band] + since)
        })
    }
}

impl Ages {
    fn new(now: Instant) -> Self {
        Self {
            young: (now, Marked::default()),
            aged: Marked::default(),
            old: Marked::default(),
        }
    }

    fn handle(&mut self, left: &Marked, step: Duration, now: Instant) {
        if self.young.0 + step <= now {
            self.old = self.aged;
            self.aged = self.young.1;
            self.young = (now, *left);
        }
    }
}

impl Hop {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            unrelated: Marked::default(),
            lost: Marked::default(),
            returned: Marked::default(),
            rtt: None,
            lag: None,
            turn: Turn::new(),
            past: Past::new(PAST_GRAIN),
            long_past: Past::new(LONG_PAST_GRAIN),
            silence: None,
            rested: [now; Mark::COUNT],
            slow: Ages::new(now),
            trail: Instant::NEVER,
            overdue: Instant::NEVER,
        }
    }

    /// Takes in the round trip of the link to the next node.
    ///
    /// The highest holds, and falls by an eighth of what it is too high each time: one that is lower now may be high again.
    pub(super) fn handle_rtt(&mut self, rtt: Duration) {
        let rtt = rtt.min(RTT_MAX);
        let high = self.rtt.unwrap_or(rtt);
        let fall = Duration::from_nanos(high.saturating_sub(rtt).as_nanos() / 8);
        self.rtt = Some(rtt.max(high.saturating_sub(fall)));
    }

    /// Takes in how long after the turn of a mark the next node speaks of the one before.
    pub(super) const fn handle_lag(&mut self, lag: Duration) {
        self.lag = Some(lag);
    }

    /// Takes in that the next node, of which so much has arrived, does not answer, or answers again.
    ///
    /// What had left when it said the last that came may have arrived, and it could not tell. Of what left since then,
    /// either that or all word of it was taken by the line.
    pub(super) fn handle_silence(&mut self, arrived: Option<&Marked>, now: Instant) {
        self.silence = arrived.map(|arrived| {
            let rtt = self.rtt.unwrap_or(RTT_UNKNOWN);
            let mut known = *arrived;
            for mark in 0..Mark::COUNT {
                for band in 0..BANDS {
                    let since = arrived[mark][band].saturating_sub(self.unrelated[mark][band]);
                    known[mark][band] =
                        (since + self.lost[mark][band]).saturating_sub(self.returned[mark][band]);
                }
            }
            let heard = pulse::Pulse::patience(rtt) + pulse::LOOK;
            Silence {
                before: self.long_past.by(now - (heard + rtt)),
                known,
            }
        });
        self.overdue = now;
    }

    /// Returns whether the next node is known not to answer.
    pub(super) const fn is_silent(&self) -> bool {
        self.silence.is_some()
    }

    /// Returns which mark leaves now.
    pub(super) const fn turn(&self) -> Turn {
        self.turn
    }

    /// Takes in what has left since it was told last.
    pub(super) fn handle_left(&mut self, before: &Counts, after: &Counts, now: Instant) {
        for (at, rested) in self.rested.iter_mut().enumerate() {
            if before.left[at] != after.left[at] {
                *rested = now;
            }
        }
        if self.turn.handle(&before.sent, &after.sent, now) {
            self.trail = now + TRAIL;
        }
    }

    /// Concludes what got lost, and what did not after all.
    pub(super) fn reckon(&mut self, counts: &Counts, word: Option<&Word<'_>>, now: Instant) {
        if self.trail <= now {
            // Whether another mark follows or not: of one that has ended it is to be known when the last had left.
            let end = self.turn.began + Mark::PERIOD + TRAIL;
            self.trail = if end > now { end } else { Instant::NEVER };
        }
        self.past.note(now, &counts.left, self.reported());
        self.long_past.note(now, &counts.left, self.silent(EVERY));
        self.slow.handle(&counts.left, GRACE, now);
        self.overdue = Instant::NEVER;
        let Some(word) = word else {
            return;
        };
        let past = match word.late {
            Duration::ZERO => self.past.by(now - self.reported()),
            late => self.long_past.by(now - (self.reported() + late)),
        };
        let patience = if word.is_all { TELL_ALL } else { EVERY };
        let long_past = self.long_past.by(now - self.silent(patience));
        for mark in Mark::all() {
            let at = mark.index();
            let rest = self.rested[at] + self.silent(TELL_ALL);
            let gone = match word.fresh {
                Some(_) if mark == Mark::NONE => self.slow.aged[at],
                None if mark == Mark::NONE => self.slow.old[at],
                _ if rest <= now => counts.left[at],
                Some(open) if open != mark => past[at],
                _ => long_past[at],
            };
            let gone = self
                .silence
                .filter(|_| mark != Mark::NONE)
                .map_or(gone, |silence| silence.gone(at, &past, &gone));
            if self.reckon_mark(counts, &word.arrived[at], mark, &gone) {
                let look = match mark {
                    Mark::NONE => (self.slow.young.0 + GRACE).max(now + SLACK),
                    _ if rest > now => rest.min(grid(now)),
                    _ => grid(now),
                };
                self.overdue = self.overdue.min(look);
            }
        }
    }

    /// Concludes this of one mark; returns whether anything is open.
    fn reckon_mark(
        &mut self,
        counts: &Counts,
        arrived: &[u64; BANDS],
        mark: Mark,
        gone: &[u64; BANDS],
    ) -> bool {
        let mark = mark.index();
        // What is acknowledged bears no mark, what is not bears one: most marks have counted nothing.
        if counts.sent[mark] == [0; BANDS] && *arrived == [0; BANDS] {
            return false;
        }
        let (lost, returned) = (&mut self.lost[mark], &mut self.returned[mark]);
        let mut is_open = false;
        for at in Band::all().map(Band::index) {
            let arrived = arrived[at].saturating_sub(self.unrelated[mark][at]);
            let sent = counts.sent[mark][at].saturating_sub(counts.failed[mark][at]);
            // What is concluded already has not arrived either, so that all three are compared with what has.
            let accounted = (arrived + lost[at]).saturating_sub(returned[at]);
            lost[at] += gone[at].saturating_sub(accounted);
            let excess = (arrived + lost[at]).saturating_sub(sent + returned[at]);
            returned[at] += excess;
            let accounted = (arrived + lost[at]).saturating_sub(returned[at]);
            is_open |= counts.left[mark][at] > accounted;
        }
        is_open
    }

    /// Returns how many are lost by band, of those too that came after all.
    pub(super) fn lost(&self) -> [u64; BANDS] {
        by_band(&self.lost)
    }

    /// Returns how many came after all by band.
    pub(super) fn returned(&self) -> [u64; BANDS] {
        by_band(&self.returned)
    }

    /// Returns when to look again.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.trail.min(self.overdue)
    }

    /// How long before a report came the ADUs that it tells of had left at the latest.
    fn reported(&self) -> Duration {
        let rtt = self.rtt.unwrap_or(RTT_UNKNOWN);
        rtt + Duration::from_nanos(rtt.as_nanos() / 4) + WAKE
    }

    /// How long after an ADU has left a report that tells of it comes at the latest, if it is made so long after it came.
    fn silent(&self, made: Duration) -> Duration {
        let usual = SLACK + self.rtt.unwrap_or(RTT_UNKNOWN);
        made + self.lag.unwrap_or(usual) + self.reported()
    }
}

/// Sums what bears any mark.
fn by_band(marked: &Marked) -> [u64; BANDS] {
    core::array::from_fn(|band| marked.iter().map(|bands| bands[band]).sum())
}
