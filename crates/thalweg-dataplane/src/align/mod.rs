//! Joins streams of one clock: ADUs of all of them in the order of their media times.
//!
//! *The idea.* Each stream is a *lane* with a queue. The ADU with the least time of all heads leaves
//! once every other lane shows that it has nothing earlier: it has an ADU queued, or has come as far,
//! or has ended. A lane that shows nothing holds up the others for [`Aligner::wait`] at most; then it
//! is reported as silent, once, and held up for no longer until something comes of it. An ADU that
//! comes after others of its time have left is late: it leaves at once.
//!
//! ```text
//!   picture    ─► 0 · 40 · 80 ──┐
//!   telemetry  ─► 0 · · · 100 ──┴─► 0 0 40 80 100      and a gap of either, in its place
//! ```
//!
//! The time of an ADU is the greatest of its stream so far, since pictures arrive in decoding order and
//! bear their time of presentation. A gap in a stream's sequence is given in its place among the ADUs
//! of all.
//!
//! *What it does not do.* It restores no stream's sequence: [`mailbox`](crate::mailbox) does. It does
//! not know whether clocks are equal: the caller chooses the streams.
//!
//! *Sources.* design.md, "Streams have a type"; RFC 3550 §6.4.1 on streams of one clock.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use thalweg_base::adu::{Adu, MediaTime};
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::limits::ALIGNED_BYTES_MAX;
use thalweg_base::time::{Duration, Instant};

/// A step back in a stream's times by more than this begins a new time base.
const JUMP: Duration = Duration::from_secs(10);

/// What leaves, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aligned {
    /// An ADU of a lane.
    Adu {
        /// The lane.
        lane: usize,
        /// The ADU.
        adu: Adu,
        /// Whether others of its time have left before it.
        is_late: bool,
    },
    /// ADUs of a lane are missing here.
    Gap {
        /// The lane.
        lane: usize,
        /// How many.
        adus: u64,
        /// The time of the last one before.
        after: MediaTime,
        /// The time of the first one behind.
        before: MediaTime,
    },
    /// A lane shows nothing and holds up the others no longer, until something comes of it.
    Silent {
        /// The lane.
        lane: usize,
        /// The time to which it had come; `None` if nothing has come of it.
        since: Option<MediaTime>,
    },
}

/// One stream.
#[derive(Clone, Debug, Default)]
struct Lane {
    queue: VecDeque<Waiting>,
    /// How far it has come.
    time: Option<MediaTime>,
    /// Stream and sequence of the last ADU.
    last: Option<(StreamId, Sequence)>,
    is_ended: bool,
    /// It has been reported as silent, and nothing has come since.
    is_silent: bool,
}

#[derive(Clone, Debug)]
struct Waiting {
    adu: Adu,
    /// Its place among the lanes.
    time: MediaTime,
    came: Instant,
    /// ADUs missing before it, and the time of the last one before.
    gap: Option<(u64, MediaTime)>,
}

/// Joins the ADUs of several streams.
#[derive(Clone, Debug)]
pub struct Aligner {
    lanes: Vec<Lane>,
    wait: Duration,
    bytes: u64,
    /// The time of the last ADU that left.
    left: Option<MediaTime>,
}

impl Aligner {
    /// Returns a joiner of `lanes` streams; one that shows nothing holds up the others for `wait`.
    ///
    /// Units   bytes held: at most [`ALIGNED_BYTES_MAX`] and one ADU
    pub fn new(lanes: usize, wait: Duration) -> Self {
        Self {
            lanes: alloc::vec![Lane::default(); lanes],
            wait,
            bytes: 0,
            left: None,
        }
    }

    /// Returns how long a lane that shows nothing holds up the others.
    pub const fn wait(&self) -> Duration {
        self.wait
    }

    /// Handles the next ADU of a lane, in sequence; one of no lane is ignored, and one
    /// that has come before.
    pub fn handle_adu(&mut self, lane: usize, adu: Adu, now: Instant) {
        let Some(lane) = self.lanes.get_mut(lane) else {
            return;
        };
        let own = adu.header.media_time;
        let time = match lane.time {
            Some(time) if time > own && is_near(own, time) => time,
            _ => own,
        };
        let (stream, sequence) = (adu.header.stream, adu.header.sequence);
        // A node that is back delivers the newest ADU again.
        if lane
            .last
            .is_some_and(|(last, number)| last == stream && sequence <= number)
        {
            return;
        }
        let missing = match lane.last {
            Some((last, number)) if last == stream => sequence.0.saturating_sub(number.0 + 1),
            _ => 0,
        };
        let gap = lane
            .time
            .filter(|_| missing > 0)
            .map(|after| (missing, after));
        lane.time = Some(time);
        lane.last = Some((stream, sequence));
        lane.is_silent = false;
        self.bytes += size(&adu);
        lane.queue.push_back(Waiting {
            adu,
            time,
            came: now,
            gap,
        });
    }

    /// Handles the end of a lane: nothing is waited for there any more.
    pub fn handle_end(&mut self, lane: usize) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.is_ended = true;
        }
    }

    /// Returns what leaves next, if anything does now.
    pub fn poll_aligned(&mut self, now: Instant) -> Option<Aligned> {
        let (at, head) = self.head()?;
        let is_over = now.saturating_since(head.came) >= self.wait;
        let time = head.time;
        let is_full = self.bytes > ALIGNED_BYTES_MAX.as_bytes();
        if let Some(lane) = self.unsure_of(time) {
            if is_over && !is_full {
                self.lanes[lane].is_silent = true;
                let since = self.lanes[lane].time;
                return Some(Aligned::Silent { lane, since });
            }
            if !is_full {
                return None;
            }
        }
        Some(self.give(at))
    }

    /// Returns when a lane that shows nothing stops to hold up the others.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let (_, head) = self.head()?;
        self.unsure_of(head.time)?;
        Some(head.came + self.wait)
    }

    /// Returns whether all lanes have ended and nothing is queued.
    pub fn is_over(&self) -> bool {
        self.lanes
            .iter()
            .all(|lane| lane.is_ended && lane.queue.is_empty())
    }

    /// Returns the earliest head; of equal ones that of the first lane.
    fn head(&self) -> Option<(usize, &Waiting)> {
        let heads = self.lanes.iter().enumerate();
        let heads = heads.filter_map(|(at, lane)| lane.queue.front().map(|head| (at, head)));
        heads.min_by_key(|(_, head)| head.time)
    }

    /// Returns a lane that may still bring something earlier.
    fn unsure_of(&self, time: MediaTime) -> Option<usize> {
        self.lanes.iter().position(|lane| {
            let is_sure = lane.is_ended
                || lane.is_silent
                || !lane.queue.is_empty()
                || lane.time.is_some_and(|own| own >= time);
            !is_sure
        })
    }

    fn give(&mut self, at: usize) -> Aligned {
        let lane = &mut self.lanes[at];
        let head = lane.queue.front_mut().expect("the caller has found it");
        if let Some((adus, after)) = head.gap.take() {
            return Aligned::Gap {
                lane: at,
                adus,
                after,
                before: head.adu.header.media_time,
            };
        }
        let Waiting { adu, time, .. } = lane.queue.pop_front().expect("it is the head");
        self.bytes -= size(&adu);
        let is_late = self
            .left
            .is_some_and(|left| time < left && is_near(time, left));
        if !is_late {
            self.left = Some(time);
        }
        Aligned::Adu {
            lane: at,
            adu,
            is_late,
        }
    }
}

/// What an ADU counts as: its payload, and its place in a queue.
fn size(adu: &Adu) -> u64 {
    adu.payload.len() as u64 + 128
}

/// Returns whether a time is before another of the same time base.
fn is_near(time: MediaTime, later: MediaTime) -> bool {
    let back = later.as_micros().saturating_sub(time.as_micros());
    Duration::from_micros(back) <= JUMP
}

#[cfg(test)]
mod tests;
