//! BM-L4: the maximum latency when the line fails for a while.
//!
//! One video of 4 Mbit/s runs on a line with room for it; each ADU is useful for ten seconds, so that
//! late ones are waited for. Then the line fails:
//!
//! | case | the line that the connection is on | a second line between the same ends |
//! |---|---|---|
//! | `stall` | carries nothing for 4 s | carries all the time |
//! | `burst_loss` | loses 30 % for 3 s, in bursts of ten packets | carries all the time |
//! | `blackout` | carries nothing for 2 s | carries nothing either |
//!
//! `max_ms_without` is the maximum latency of the arrived ADUs on a single connection. A side that can
//! fail over to a standby ([`Side::has_failover`]) runs once more with the second line, which is
//! `max_ms_with_failover`.
//!
//! *Sources.* spec PL-13, BM-L4.

use thalweg_base::time::Duration;
use thalweg_base::units::Ratio;
use thalweg_netem::Impairment;
use thalweg_testbed::system::privilege;

use super::condition::Condition;
use super::play::{self, Event, Play};
use super::recorded;
use super::recording::Recording;
use super::schedule::Schedule;
use super::sides::{OURS, PACE_K, Side};
use super::videos::Videos;
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-L4";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "max_ms_without",
    "came_share_without",
    "max_ms_with_failover",
    "came_share_with_failover",
];

/// How long an ADU is useful: longer than any failure.
const BUDGET: Duration = Duration::from_secs(10);

/// The line, and the second one.
const CONDITION: Condition = Condition::new(50, 1);

/// When the line fails.
const AT: Duration = Duration::from_secs(2);

/// Length of the videos after their warm-up.
const LENGTH: Duration = Duration::from_secs(6);

/// Rounds in a full run.
const ROUNDS: u64 = 2;

/// The failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Stall,
    BurstLoss,
    Blackout,
}

impl Case {
    pub(super) const ALL: [Self; 3] = [Self::Stall, Self::BurstLoss, Self::Blackout];

    const fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::BurstLoss => "burst_loss",
            Self::Blackout => "blackout",
        }
    }

    /// Returns the changes of the lines; the last one restores them.
    pub(super) fn events(self) -> Vec<Event> {
        let world = CONDITION.world(1);
        let whole = Impairment::from(&world.links[0]);
        let dark = Impairment { up: false, ..whole };
        let lossy = Impairment {
            loss: Ratio::new(0.3).expect("a share"),
            burst: 10.0,
            ..whole
        };
        let (lines, bad, lasting) = match self {
            Self::Stall => (0..1, dark, Duration::from_secs(4)),
            Self::BurstLoss => (0..1, lossy, Duration::from_secs(3)),
            Self::Blackout => (0..2, dark, Duration::from_secs(2)),
        };
        let event = |at: Duration, impairment| {
            lines.clone().map(move |line| Event {
                at,
                line,
                impairment,
            })
        };
        event(AT, bad).chain(event(AT + lasting, whole)).collect()
    }
}

/// Runs every case, and reports BM-L4.
///
/// Fails   this user or machine cannot build the lines, or a side carries nothing
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    play::prepare(privilege::TO_RUN)?;
    let videos = Videos::new(LENGTH)?;
    let dues = videos.schedule().dues().iter();
    let schedule = Schedule::new(dues.filter(|due| due.stream == 0).copied().collect());
    let (cases, sides, rounds) = if settings.is_quick {
        // A quick run only shows that it works: both of a side's connections fail.
        (&Case::ALL[2..], vec![OURS, PACE_K], 1)
    } else {
        (&Case::ALL[..], recorded::present(), ROUNDS)
    };
    let turns = turns(&sides);
    for case in cases {
        let mut seen = vec![Vec::new(); turns.len()];
        for round in 0..rounds {
            for turn in 0..turns.len() {
                // The order alternates between rounds, so that nothing is always first.
                let at = match round % 2 {
                    0 => turn,
                    _ => turns.len() - 1 - turn,
                };
                let name = turns[at].side.name();
                progress::show(format_args!("{ID}: {}, {name}", case.name()));
                let recording = record(*case, turns[at], &schedule, round + 1)?;
                seen[at].push(worst(&schedule, &recording));
            }
        }
        for (turn, seen) in turns.iter().zip(seen) {
            let worst = Summary::of(seen.iter().map(|(worst, _)| *worst).collect());
            let came = Summary::of(seen.iter().map(|(_, came)| *came).collect());
            let [max, share] = turn.metrics();
            for (metric, unit, value) in [(max, "ms", worst), (share, "1", came)] {
                let metric = format!("{metric}.{}.{}", case.name(), turn.side.name());
                report.add(&Figure::new(ID, metric, unit, value))?;
            }
        }
    }
    Ok(())
}

/// A side, and whether it uses only one connection.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) side: &'static dyn Side,
    pub(super) is_alone: bool,
}

impl Turn {
    /// Returns the names of its two metrics.
    pub(super) const fn metrics(self) -> [&'static str; 2] {
        if self.is_alone {
            [METRICS[0], METRICS[1]]
        } else {
            [METRICS[2], METRICS[3]]
        }
    }
}

/// Returns the turns: each side on one connection, and those with fail-over with it too.
pub(super) fn turns(sides: &[&'static dyn Side]) -> Vec<Turn> {
    let ways = sides.iter().flat_map(|side| {
        let with = side.has_failover().then_some(false);
        let ways = std::iter::once(true).chain(with);
        ways.map(move |is_alone| Turn {
            side: *side,
            is_alone,
        })
    });
    ways.collect()
}

fn record(case: Case, turn: Turn, schedule: &Schedule, seed: u64) -> anyhow::Result<Recording> {
    let play = Play {
        condition: CONDITION,
        side: turn.side,
        schedule,
        budget: BUDGET,
        lines: 2,
        is_alone: turn.is_alone,
        events: &case.events(),
        seed,
    };
    play.record()
}

/// Returns the maximum latency of the arrived ADUs in milliseconds, and the share that arrived.
fn worst(schedule: &Schedule, recording: &Recording) -> (f64, f64) {
    let numbers = 0..schedule.dues().len();
    let all = numbers.map(|number| recording.latency(number));
    let came: Vec<Duration> = all.flatten().collect();
    let worst = came
        .iter()
        .max()
        .map_or(f64::NAN, |worst| worst.as_millis_f64());
    (
        worst,
        came.len() as f64 / schedule.dues().len().max(1) as f64,
    )
}
