//! The time of a programme: decides which streams its clock follows.
//!
//! The idea: one stream leads, usually the one with the clock reference. The clock follows all of
//! its times, over jumps too. Audio and video streams beside it move the clock forward while they
//! are near it. Any other stream with times (teletext, metadata) is trusted only when nothing
//! better has come for long: its times are often of another clock and would disrupt the picture.
//!
//! ```text
//!   leading   any time           ─► follow, or jump if it is far away
//!   media     −1 s … +0.5 s      ─► follow;   else, alone for 1 s of its own time    ─► follow or jump
//!   data                                      alone for 10 s of its own time         ─► follow or jump
//! ```
//!
//! What it does not do: read clock references; unwrap 33 bits (`clock`).
//!
//! Sources: ISO/IEC 13818-1 §2.4.4.9 (`PCR_PID`).

use super::{Programme, is_audio, is_video};

/// A step back of more than a second, or forward of more than ten, is a new time base.
const BACK_90KHZ: u64 = 90_000;
const FORWARD_90KHZ: u64 = 900_000;

/// How far ahead of the clock other audio and video may move it: half a second, as audio and video
/// are interleaved more closely than that.
const NEAR_90KHZ: u64 = 45_000;

/// The standing of a stream in its programme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Neither audio nor video.
    Data,
    /// Audio or video.
    Media,
    /// The leading stream.
    Leading,
}

/// The relation of a unit's time to the clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The time belongs to the clock, which advances to it if it is ahead.
    Follow,
    /// A new time base begins.
    Jump,
    /// The time is near the clock, which does not follow it.
    Beside,
    /// The time is of another clock.
    Stray,
}

/// The clock of a programme.
#[derive(Debug, Clone, Default)]
pub(super) struct Guide {
    now: Option<u64>,
    candidate: Option<Candidate>,
}

/// A stream that is not trusted at once, and how far it has come since the last trusted one.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    pid: u16,
    standing: Standing,
    first: u64,
    last: u64,
}

impl Standing {
    /// The standing of a PID in its programme.
    pub(super) fn of(programme: &Programme, pid: u16) -> Self {
        let kind = |pid| programme.stream(pid).map(|stream| stream.stream_type);
        let first = |is: fn(u8) -> bool| {
            let mut streams = programme.streams.iter();
            streams.find(|stream| is(stream.stream_type))
        };
        // The PID of the clock may carry nothing else, or data beside a picture.
        let is_media = |kind: u8| is_video(kind) || is_audio(kind);
        let clock = programme.stream(programme.clock_pid);
        let leader = clock
            .filter(|stream| is_media(stream.stream_type))
            .or_else(|| first(is_video))
            .or_else(|| first(is_audio))
            .or(clock)
            .or_else(|| programme.streams.first());
        match kind(pid) {
            _ if leader.is_some_and(|leader| leader.pid == pid) => Self::Leading,
            Some(kind) if is_media(kind) => Self::Media,
            _ => Self::Data,
        }
    }

    /// How long a stream must be alone before its time is trusted, in ticks of its own time.
    fn patience_90khz(self) -> u64 {
        match self {
            Self::Leading => 0,
            Self::Media => 90_000,
            Self::Data => 900_000,
        }
    }
}

impl Step {
    /// Returns whether the clock follows the time.
    pub(super) fn is_followed(self) -> bool {
        matches!(self, Self::Follow | Self::Jump)
    }
}

impl Guide {
    /// Processes the unwrapped time of a unit.
    pub(super) fn handle_time(&mut self, pid: u16, standing: Standing, time: u64) -> Step {
        let now = self.now.unwrap_or(time);
        let is_close = time + BACK_90KHZ >= now && time <= now + FORWARD_90KHZ;
        let would = if is_close { Step::Follow } else { Step::Jump };
        let is_believed = match standing {
            Standing::Leading => true,
            Standing::Media => is_close && time <= now + NEAR_90KHZ,
            Standing::Data => false,
        };
        let step = if is_believed {
            // A stream of lower standing starts waiting again.
            self.candidate = self
                .candidate
                .filter(|candidate| candidate.standing > standing);
            would
        } else if self.wait(pid, standing, time) {
            would
        } else if is_close {
            Step::Beside
        } else {
            Step::Stray
        };
        match step {
            Step::Follow => self.now = Some(now.max(time)),
            Step::Jump => self.now = Some(time),
            Step::Beside | Step::Stray => {}
        }
        step
    }

    /// Returns whether the stream has been alone for long enough; it stays so until a better one
    /// comes.
    fn wait(&mut self, pid: u16, standing: Standing, time: u64) -> bool {
        let steady = |candidate: &Candidate| {
            time + BACK_90KHZ >= candidate.last && time <= candidate.last + FORWARD_90KHZ
        };
        match &mut self.candidate {
            Some(candidate) if candidate.pid == pid && steady(candidate) => {
                candidate.last = time;
                time.saturating_sub(candidate.first) >= standing.patience_90khz()
            }
            Some(candidate) if candidate.pid != pid && candidate.standing >= standing => false,
            candidate => {
                *candidate = Some(Candidate {
                    pid,
                    standing,
                    first: time,
                    last: time,
                });
                false
            }
        }
    }
}
