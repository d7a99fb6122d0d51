//! The recordings of all sides over all lines, from which BM-L1 and BM-L2 are computed.
//!
//! In each round every side runs over every line, in alternating order. Rounds are few and long,
//! because a queue takes a second to fill; ADUs before that, and those that the end of the overload
//! lets through, are sent but not judged.

use std::sync::OnceLock;

use anyhow::bail;
use thalweg_base::time::Duration;
use thalweg_testbed::system::privilege;

use super::condition::Condition;
use super::play::{self, Play};
use super::recording::Recording;
use super::sides::{self, Side};
use super::videos::Videos;
use crate::{Settings, progress};

/// How long an ADU is useful: as in a conversation.
pub(super) const BUDGET: Duration = Duration::from_millis(200);

/// Length of the judged part of a run, in full and quick.
const LENGTHS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(2)];

/// Rounds in a full run.
const ROUNDS: u64 = 2;

/// The only line of a quick run.
const QUICK: Condition = Condition::new(50, 5);

/// All recordings.
pub(super) struct Recorded {
    pub(super) videos: Videos,
    /// The lines, in the order of the output.
    pub(super) conditions: Vec<Condition>,
    /// The sides that are available, in the order of the output.
    pub(super) sides: Vec<&'static dyn Side>,
    plays: Vec<Played>,
    /// One sentence for each run that failed.
    failed: Vec<String>,
}

struct Played {
    condition: Condition,
    side: &'static str,
    recording: Recording,
}

/// Runs everything, or returns what this process has run already.
///
/// Fails   this user or machine cannot build the lines: one sentence names what is missing
pub(super) fn recorded(id: &str, settings: &Settings) -> anyhow::Result<&'static Recorded> {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    if let Some(recorded) = RECORDED.get() {
        return Ok(recorded);
    }
    let recorded = record(id, settings)?;
    Ok(RECORDED.get_or_init(|| recorded))
}

fn record(id: &str, settings: &Settings) -> anyhow::Result<Recorded> {
    play::prepare(privilege::TO_RUN)?;
    progress::show(format_args!("{id}: filming"));
    let mut recorded = Recorded {
        videos: Videos::new(LENGTHS[usize::from(settings.is_quick)])?,
        conditions: if settings.is_quick {
            vec![QUICK]
        } else {
            Condition::ALL.to_vec()
        },
        sides: present(),
        plays: Vec::new(),
        failed: Vec::new(),
    };
    let rounds = if settings.is_quick { 1 } else { ROUNDS };
    let mut order = recorded.sides.clone();
    for round in 0..rounds {
        for condition in recorded.conditions.clone() {
            order.retain(|side| {
                let (name, line) = (side.name(), condition.name());
                progress::show(format_args!(
                    "{id}: {line}, round {} of {rounds}: {name}",
                    round + 1
                ));
                recorded.play(condition, *side, round)
            });
        }
        order.reverse();
    }
    recorded
        .sides
        .retain(|side| order.iter().any(|played| played.name() == side.name()));
    Ok(recorded)
}

/// Returns the sides that have what they need, and prints what others lack.
pub(super) fn present() -> Vec<&'static dyn Side> {
    let has_all = |side: &&dyn Side| {
        let missing = side.missing();
        if let Some(missing) = &missing {
            progress::clear();
            eprintln!("thalweg-bench: {missing}");
        }
        missing.is_none()
    };
    sides::ALL.into_iter().filter(has_all).collect()
}

impl Recorded {
    /// Runs one side over one line; returns whether it succeeded.
    fn play(&mut self, condition: Condition, side: &'static dyn Side, round: u64) -> bool {
        let play = Play {
            condition,
            side,
            schedule: self.videos.schedule(),
            budget: BUDGET,
            lines: 1,
            is_alone: false,
            events: &[],
            seed: round + 1,
        };
        match play.record() {
            Ok(recording) => {
                self.plays.push(Played {
                    condition,
                    side: side.name(),
                    recording,
                });
                true
            }
            Err(error) => {
                self.failed.push(format!("{}: {error:#}", side.name()));
                false
            }
        }
    }

    /// Returns the recordings of a side over a line, round by round.
    pub(super) fn of(&self, condition: Condition, side: &str) -> impl Iterator<Item = &Recording> {
        let plays = self.plays.iter();
        plays
            .filter(move |played| played.condition == condition && played.side == side)
            .map(|played| &played.recording)
    }

    /// Returns the emulator's maximum lateness over all runs.
    pub(super) fn late(&self) -> Duration {
        let late = self.plays.iter().map(|played| played.recording.late);
        late.max().unwrap_or(Duration::ZERO)
    }

    /// Fails if a run failed, with the reasons.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        if self.failed.is_empty() {
            return Ok(());
        }
        bail!("not everything was measured: {}", self.failed.join("; "))
    }
}
