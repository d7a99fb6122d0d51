//! Media units from a [`Source`], with their marks, once or round and round.
//!
//! *The idea.* Bytes go through `thalweg_media::ts::Publisher`; what comes out is given one by one. A file that is
//! played again goes on in time where it ended, so that a player sees no seam. Before a stream is announced its first
//! seconds are read ahead, for the planner wants its rate.
//!
//! *What it does not do.* It does not pace (`pace`) and knows no node.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use thalweg_core::adu::MediaTime;
use thalweg_core::time::Duration;
use thalweg_core::units::{Bitrate, DataSize};
use thalweg_media::Marks;
use thalweg_media::ts::Publisher;

use crate::ends::Source;

#[cfg(test)]
mod tests;

/// How much of the medium is read ahead to tell its rate: four groups of pictures of half a second.
const AHEAD: Duration = Duration::from_secs(2);

/// The most that is read ahead, should the stream carry no times.
const AHEAD_BYTES_MAX: u64 = 8 << 20;

/// Reads a source to its end, or without end.
pub struct Feed {
    source: Source,
    repeat: bool,
    publisher: Publisher,
    ahead: VecDeque<(Marks, Bytes)>,
    stage: Stage,
    /// Units of this pass; a file that has none is not read again.
    given: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// More bytes may come.
    Reading,
    /// All bytes are in the publisher.
    Read,
    /// No more units come.
    Ended,
}

/// What was wrong with the source, over all passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Bytes that belong to no packet.
    pub skipped_bytes: u64,
    /// Bytes after the last whole packet.
    pub truncated_bytes: u64,
    /// Packets that were missing, marked as damaged or impossible.
    pub broken_packets: u64,
    /// Datagrams that were neither transport packets nor RTP.
    pub unknown_datagrams: u64,
    /// Pictures and other units that are larger than an ADU may be, or of which too much was pending.
    pub discarded_units: u64,
}

impl Feed {
    /// Makes a feed at the start of its source; `repeat` reads a file again and again.
    pub fn new(source: Source, repeat: bool) -> Self {
        Self {
            source,
            repeat,
            publisher: Publisher::new(),
            ahead: VecDeque::new(),
            stage: Stage::Reading,
            given: 0,
        }
    }

    /// Returns whether units are due when they come.
    pub fn is_live(&self) -> bool {
        self.source.is_live()
    }

    /// Returns what was wrong with the source so far.
    pub fn trouble(&self) -> Trouble {
        let counts = self.publisher.counts();
        Trouble {
            skipped_bytes: counts.skipped_bytes,
            truncated_bytes: counts.truncated_bytes,
            broken_packets: counts.continuity_errors + counts.damaged_packets,
            unknown_datagrams: self.source.unknown_datagrams(),
            discarded_units: counts.discarded_units,
        }
    }

    /// Reads ahead, and returns the rate of the stream so far; `None` if nothing is there that can be used.
    ///
    /// ```text
    /// rate = Σ bytes / max(last decode − first decode, 1 s)
    /// ```
    ///
    /// Units   bit/s, payload framing included
    pub async fn measure(&mut self) -> io::Result<Option<Bitrate>> {
        let mut ahead = VecDeque::new();
        let mut bytes = 0;
        let mut times: Option<(MediaTime, MediaTime)> = None;
        while let Some((marks, payload)) = self.next().await? {
            bytes += payload.len() as u64;
            let time = marks.decode_time;
            // Tables come before the first time and carry none.
            if time > MediaTime::default() {
                let (first, _) = times.unwrap_or((time, time));
                times = Some((first, time));
            }
            ahead.push_back((marks, payload));
            if span(times) >= AHEAD || bytes >= AHEAD_BYTES_MAX {
                break;
            }
        }
        self.ahead = ahead;
        if self.ahead.is_empty() {
            return Ok(None);
        }
        let over = span(times).max(Duration::from_secs(1));
        Ok(Some(DataSize::from_bytes(bytes) / over))
    }

    /// Gives the next unit, or `None` at the end.
    ///
    /// May be dropped before it is ready without losing a unit.
    pub async fn next(&mut self) -> io::Result<Option<(Marks, Bytes)>> {
        if let Some(unit) = self.ahead.pop_front() {
            return Ok(Some(unit));
        }
        loop {
            if let Some(unit) = self.publisher.poll_adu() {
                self.given += 1;
                return Ok(Some(unit));
            }
            match self.stage {
                Stage::Reading => {
                    if let Some(bytes) = self.source.read().await? {
                        self.publisher.push(&bytes);
                    } else {
                        self.publisher.finish();
                        self.stage = Stage::Read;
                    }
                }
                Stage::Read => self.turn().await?,
                Stage::Ended => return Ok(None),
            }
        }
    }

    /// Begins the next pass, where there is to be one.
    async fn turn(&mut self) -> io::Result<()> {
        if self.repeat && self.given > 0 && self.source.rewind().await? {
            self.publisher.begin_again();
            self.given = 0;
            self.stage = Stage::Reading;
        } else {
            self.stage = Stage::Ended;
        }
        Ok(())
    }
}

impl Trouble {
    /// Returns one sentence about everything that was wrong, or `None` if nothing was.
    pub fn sentence(&self) -> Option<String> {
        let parts: Vec<String> = [
            (self.skipped_bytes, "bytes belong to no transport packet"),
            (
                self.truncated_bytes,
                "bytes after the last whole packet are cut off",
            ),
            (self.broken_packets, "packets are missing or damaged"),
            (
                self.unknown_datagrams,
                "datagrams are neither MPEG-TS nor RTP",
            ),
            (
                self.discarded_units,
                "units are left out, for an ADU has 8 MiB at most",
            ),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

fn span(times: Option<(MediaTime, MediaTime)>) -> Duration {
    times.map_or(Duration::ZERO, |(first, last)| {
        Duration::from_micros(last.as_micros().saturating_sub(first.as_micros()))
    })
}
