//! Losses on the hop to the next node of a plan, and their corrections.
//!
//! *The idea.* Double entry, per [`Mark`] and band. *S* is sent and not given up, *L* left (some
//! time ago), *A* arrived at the next node by its own report; *lost* and *returned* are the
//! conclusions so far:
//!
//! ```text
//! lost     += L − A − (lost − returned)      if positive: left long ago, absent from a current report
//! returned += A − S + (lost − returned)      if positive: more arrived than can have left
//! ```
//!
//! What is in flight lies between the two, so neither judges an ADU that may still be crossing.
//! While a mark is in use, new arrivals make up for earlier losses and hide them; after it has
//! ended, nothing can.
//!
//! | ADUs | "some time ago", before a report | without a report |
//! |---|---|---|
//! | marked (datagrams: no acknowledgement) | 5/4 RTT + 25 ms before it arrived | a report's longest time |
//! | marked, while the next node is silent | – | 5/4 RTT + 25 ms, if they left after its last sign of life |
//! | unmarked: acknowledged, so there, perhaps unread | 1 s | 2 s |
//!
//! A report's longest time is the sum of: 730 ms until it is made, or 500 ms if the mark's last ADU
//! has left or the next node has reported a pause; the lag that the downstream nodes needed
//! recently from the turn of a mark to their report of it; and twice 5/4 RTT + 25 ms, since a lost
//! report is retransmitted.
//!
//! The RTT is a slowly falling maximum. A premature loss is taken back later. A report that is late
//! by its time stamp was lost and retransmitted: it proves nothing about ADUs that left after it
//! was made. The mark that a report leaves open is not judged.
//!
//! *What it does not do.* It trusts its input: `account` has compared it with what was sent.
//!
//! *Sources.* RFC 9341 §3.1 (counting between two colour changes), §3.2 (when a counter is at
//! rest).

use thalweg_base::adu::Mark;
use thalweg_base::time::{Duration, Instant};
use thalweg_link::pulse;

use super::pace::{EVERY, SLACK, STATUS_EVERY, next_tick};
use super::past::History;
use super::{BANDS, Band, Counts, Marked};

/// How long an acknowledged ADU may be absent from a report; twice as long without one.
const GRACE: Duration = Duration::from_millis(1_000);

/// Scheduling delay of a report, added to 5/4 RTT.
const WAKE: Duration = Duration::from_millis(25);

/// How long after a mark has ended its ADUs may still leave: those handed over just before.
const TRAIL: Duration = Duration::from_millis(25);

/// The round-trip time before the first measurement.
const RTT_UNKNOWN: Duration = Duration::from_millis(200);

/// Upper bound of the round-trip time used.
const RTT_MAX: Duration = Duration::from_secs(2);

/// Samples in `past`, within the age of a report.
const PAST_GRAIN: u64 = 8;

/// Samples in `long_past`, within the longest time of a report; finer, to find where a silence
/// began.
const LONG_PAST_GRAIN: u64 = 24;

/// The mark in use and since when, as far as the counters show.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkTurn {
    pub(super) current: Mark,
    pub(super) began: Instant,
}

/// What had left: at an instant, at least one step earlier, and at least two steps earlier.
#[derive(Clone, Debug)]
struct LeftByAge {
    young: (Instant, Marked),
    aged: Marked,
    old: Marked,
}

/// The state when the next node fell silent.
#[derive(Clone, Copy, Debug)]
struct Silence {
    /// What had left before the last sign of life was sent.
    before: Marked,
    /// What had arrived or was taken for lost.
    known: Marked,
}

/// One plan's losses between this node and the next.
#[derive(Clone, Debug)]
pub(super) struct Hop {
    /// Arrivals at the next node from before this node was restarted.
    pub(super) unrelated: Marked,
    lost: Marked,
    returned: Marked,
    /// A slowly falling maximum of the round-trip time.
    rtt: Option<Duration>,
    /// Recent time from the turn of a mark to the next node's report of the previous one, with a
    /// margin.
    lag: Option<Duration>,
    turn: MarkTurn,
    /// History as long as a report's age, and as long as the longest time that a report takes.
    past: History,
    long_past: History,
    /// The next node is silent although ADUs leave.
    silence: Option<Silence>,
    /// When the last ADU of each mark left.
    last_left: [Instant; Mark::COUNT],
    /// What left with acknowledgements, in steps of [`GRACE`].
    slow: LeftByAge,
    /// When to sample once more what has left.
    trail: Instant,
    /// When to check again for missing arrivals.
    overdue: Instant,
}

/// The next node's report, as the hop needs it.
pub(super) struct NextReport<'a> {
    /// Arrivals at the next node.
    pub(super) arrived: &'a Marked,
    /// The mark left open by a report that arrived just now; `None` if the counters are from an
    /// earlier one.
    pub(super) fresh: Option<Mark>,
    /// How much longer than others the report travelled.
    pub(super) late: Duration,
    /// The report said that everything was reported, so new arrivals are reported soon.
    pub(super) is_all: bool,
}

impl MarkTurn {
    pub(super) const fn new() -> Self {
        Self {
            current: Mark::NONE,
            began: Instant::ZERO,
        }
    }

    /// Takes in grown counters; returns whether the mark has changed.
    ///
    /// Late ADUs of the previous mark are no change; if the current mark is long over, there was a
    /// pause.
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
    /// Returns how many ADUs of a mark must be accounted for: `gone`, or also all that left since
    /// the silence began.
    fn gone(&self, mark: usize, past: &Marked, gone: &[u64; BANDS]) -> [u64; BANDS] {
        core::array::from_fn(|band| {
            let since = past[mark][band].saturating_sub(self.before[mark][band]);
            gone[band].max(self.known[mark][band] + since)
        })
    }
}

impl LeftByAge {
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
            turn: MarkTurn::new(),
            past: History::new(PAST_GRAIN),
            long_past: History::new(LONG_PAST_GRAIN),
            silence: None,
            last_left: [now; Mark::COUNT],
            slow: LeftByAge::new(now),
            trail: Instant::NEVER,
            overdue: Instant::NEVER,
        }
    }

    /// Takes in the round-trip time of the link to the next node.
    ///
    /// The maximum counts and falls by an eighth of the difference each time: a round trip that is
    /// short now may be long again.
    pub(super) fn handle_rtt(&mut self, rtt: Duration) {
        let rtt = rtt.min(RTT_MAX);
        let high = self.rtt.unwrap_or(rtt);
        let fall = Duration::from_nanos(high.saturating_sub(rtt).as_nanos() / 8);
        self.rtt = Some(rtt.max(high.saturating_sub(fall)));
    }

    /// Takes in how long after the turn of a mark the next node reports the previous one.
    pub(super) const fn handle_lag(&mut self, lag: Duration) {
        self.lag = Some(lag);
    }

    /// Takes in that the next node, which has reported `arrived`, is silent; `None` if it answers
    /// again.
    ///
    /// What had left before its last sign of life may have arrived unreported. Of what left since
    /// then, the link has taken either the ADUs or all reports of them.
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
            // A silence is detected this long after the last sign of life, and that one was sent up
            // to an RTT earlier.
            let heard = pulse::Pulse::patience(rtt) + pulse::LOOK;
            Silence {
                before: self.long_past.by(now - (heard + rtt)),
                known,
            }
        });
        self.overdue = now;
    }

    /// Returns whether the next node is silent.
    pub(super) const fn is_silent(&self) -> bool {
        self.silence.is_some()
    }

    /// Returns the mark that leaves now.
    pub(super) const fn turn(&self) -> MarkTurn {
        self.turn
    }

    /// Takes in what has left since the last call.
    pub(super) fn handle_left(&mut self, before: &Counts, after: &Counts, now: Instant) {
        for (at, last_left) in self.last_left.iter_mut().enumerate() {
            if before.left[at] != after.left[at] {
                *last_left = now;
            }
        }
        if self.turn.handle(&before.sent, &after.sent, now) {
            self.trail = now + TRAIL;
        }
    }

    /// Updates the losses and the corrections.
    pub(super) fn update_losses(
        &mut self,
        counts: &Counts,
        report: Option<&NextReport<'_>>,
        now: Instant,
    ) {
        if self.trail <= now {
            // The last ADUs of an ended mark have to be sampled even if no other mark follows.
            let end = self.turn.began + Mark::PERIOD + TRAIL;
            self.trail = if end > now { end } else { Instant::NEVER };
        }
        self.past.note(now, &counts.left, self.report_age());
        self.long_past
            .note(now, &counts.left, self.report_age_max(EVERY));
        self.slow.handle(&counts.left, GRACE, now);
        self.overdue = Instant::NEVER;
        let Some(report) = report else {
            return;
        };
        // A late report was made that much earlier.
        let past = match report.late {
            Duration::ZERO => self.past.by(now - self.report_age()),
            late => self.long_past.by(now - (self.report_age() + late)),
        };
        let patience = if report.is_all { STATUS_EVERY } else { EVERY };
        let long_past = self.long_past.by(now - self.report_age_max(patience));
        for mark in Mark::all() {
            let at = mark.index();
            let rest = self.last_left[at] + self.report_age_max(STATUS_EVERY);
            // The ADUs that must have arrived: all of a mark at rest; those older than a report's
            // age if this report covers the mark; else those older than a report's longest time.
            let gone = match report.fresh {
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
            if self.update_mark(counts, &report.arrived[at], mark, &gone) {
                let look = match mark {
                    Mark::NONE => (self.slow.young.0 + GRACE).max(now + SLACK),
                    _ if rest > now => rest.min(next_tick(now)),
                    _ => next_tick(now),
                };
                self.overdue = self.overdue.min(look);
            }
        }
    }

    /// Updates one mark; returns whether any of its ADUs are unaccounted for.
    fn update_mark(
        &mut self,
        counts: &Counts,
        arrived: &[u64; BANDS],
        mark: Mark,
        gone: &[u64; BANDS],
    ) -> bool {
        let mark = mark.index();
        // Acknowledged ADUs have no mark and datagrams have one, so most marks count nothing.
        if counts.sent[mark] == [0; BANDS] && *arrived == [0; BANDS] {
            return false;
        }
        let (lost, returned) = (&mut self.lost[mark], &mut self.returned[mark]);
        let mut is_open = false;
        for at in Band::all().map(Band::index) {
            let arrived = arrived[at].saturating_sub(self.unrelated[mark][at]);
            let sent = counts.sent[mark][at].saturating_sub(counts.failed[mark][at]);
            // Conclusions so far stand in for missing arrivals, so that all three are compared with
            // `arrived`.
            let accounted = (arrived + lost[at]).saturating_sub(returned[at]);
            // L − A − (lost − returned), if positive.
            lost[at] += gone[at].saturating_sub(accounted);
            let excess = (arrived + lost[at]).saturating_sub(sent + returned[at]);
            // A − S + (lost − returned), if positive.
            returned[at] += excess;
            let accounted = (arrived + lost[at]).saturating_sub(returned[at]);
            is_open |= counts.left[mark][at] > accounted;
        }
        is_open
    }

    /// Returns the losses by band, including those that arrived after all.
    pub(super) fn lost(&self) -> [u64; BANDS] {
        by_band(&self.lost)
    }

    /// Returns by band how many lost or given-up ADUs arrived after all.
    pub(super) fn returned(&self) -> [u64; BANDS] {
        by_band(&self.returned)
    }

    /// Returns when to check again.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.trail.min(self.overdue)
    }

    /// Returns the age of a report: ADUs that left at least this long before it came are in it,
    /// unless lost.
    fn report_age(&self) -> Duration {
        let rtt = self.rtt.unwrap_or(RTT_UNKNOWN);
        rtt + Duration::from_nanos(rtt.as_nanos() / 4) + WAKE
    }

    /// Returns how long after an ADU left its report arrives at the latest, if it is made `made`
    /// after the arrival.
    fn report_age_max(&self, made: Duration) -> Duration {
        let usual = SLACK + self.rtt.unwrap_or(RTT_UNKNOWN);
        made + self.lag.unwrap_or(usual) + self.report_age()
    }
}

/// Returns the sum over all marks.
fn by_band(marked: &Marked) -> [u64; BANDS] {
    core::array::from_fn(|band| marked.iter().map(|bands| bands[band]).sum())
}
