//! Media units from a [`Source`], with their marks, once or round and round.
//!
//! *The idea.* Bytes go through `thalweg_media::ts::Publisher`; what comes out is given one by one. A file that is
//! played again goes on in time where it ended, so that a player sees no seam. Before a stream is announced its first
//! seconds are read ahead, for the planner wants its rate. What comes and cannot be used is told: while it
//! comes (`watch`), and at the end (`trouble`).
//!
//! *What it does not do.* It does not pace (`pace`) and knows no node.

mod eye;
mod looks;
mod trouble;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use bytes::Bytes;
use thalweg_base::adu::MediaTime;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_media::Marks;
use thalweg_media::ts::{Lack, Publisher};

pub use self::eye::{Eye, nothing, stopped};
pub use self::trouble::Trouble;
use self::watch::Sight;
use crate::ends::{Seen, Source};
use crate::pace::JUMP;

#[cfg(test)]
mod tests;

/// How much of the medium is read ahead to tell its rate: four groups of pictures of half a second.
const AHEAD: Duration = Duration::from_secs(2);

/// The most that is read ahead, should the stream carry no times.
const AHEAD_BYTES_MAX: u64 = 8 << 20;

/// The most that is read of a file or pipe in search of a first packet.
const SEARCH_BYTES_MAX: u64 = 64 << 20;

/// Units kept that come before any programme is known: the service information of a few hundred services.
const EARLY_UNITS_MAX: usize = 64;

/// Reads a source to its end, or without end.
pub struct Feed {
    source: Source,
    repeat: bool,
    publisher: Publisher,
    ahead: VecDeque<(Marks, Bytes)>,
    stage: Stage,
    /// Units since the source could be used.
    units: u64,
    /// Units that were dropped, since no programme was known.
    early: u64,
    /// Units that were dropped, since nobody received the stream yet.
    unwanted: u64,
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

/// How much of the medium has passed, each clock for itself.
#[derive(Debug, Default)]
struct Span {
    /// By clock: the last time, and how much has passed without jumps.
    clocks: BTreeMap<u16, (MediaTime, Duration)>,
}

impl Span {
    fn handle_time(&mut self, clock: u16, time: MediaTime) {
        let (last, passed) = self.clocks.entry(clock).or_insert((time, Duration::ZERO));
        let step = Duration::from_micros(time.as_micros().saturating_sub(last.as_micros()));
        if step <= JUMP {
            *passed += step;
        }
        *last = time;
    }

    /// Returns what has passed by the clock that has gone the farthest.
    fn longest(&self) -> Duration {
        let passed = self.clocks.values().map(|(_, passed)| *passed);
        passed.max().unwrap_or(Duration::ZERO)
    }
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
            units: 0,
            early: 0,
            unwanted: 0,
        }
    }

    /// Returns whether units are due when they come.
    pub fn is_live(&self) -> bool {
        self.source.is_live()
    }

    /// Returns what was wrong with the source so far.
    pub fn trouble(&self) -> Trouble {
        Trouble {
            counts: self.publisher.counts(),
            port: self.source.seen().port.unwrap_or_default(),
            missing_maps: self.publisher.missing_maps().collect(),
            early_units: self.early,
            unwanted_units: self.unwanted,
        }
    }

    /// Returns what has not come yet, without which nothing can be used.
    pub fn lack(&self) -> Option<Lack> {
        self.publisher.lack()
    }

    /// Returns what has come, and what was made of it.
    pub fn sight(&self) -> Sight {
        Sight {
            seen: self.seen(),
            trouble: self.trouble(),
            lack: self.lack(),
            units: self.units,
        }
    }

    /// Returns what has come from the source, whatever it was.
    pub fn seen(&self) -> Seen {
        self.source.seen()
    }

    /// Returns how many units have come since the source could be used.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Returns the rate of what was read ahead, if it came within a time.
    pub fn rate_over(&self, time: Duration) -> Bitrate {
        let bytes = self.ahead.iter().map(|(_, payload)| payload.len() as u64);
        DataSize::from_bytes(bytes.sum()) / time.max(Duration::from_secs(1))
    }

    /// Reads ahead, and returns the rate of the stream so far; `None` if nothing is there that can be used.
    ///
    /// ```text
    /// rate = Σ bytes / max(time passed by the clock that has gone the farthest, 1 s)
    /// ```
    ///
    /// Units   bit/s, payload framing included
    ///
    /// May be dropped before it is ready, and called again.
    pub async fn measure(&mut self) -> io::Result<Option<Bitrate>> {
        let mut span = Span::default();
        let mut bytes = 0;
        let mut at = 0;
        loop {
            while let Some((marks, payload)) = self.ahead.get(at) {
                at += 1;
                bytes += payload.len() as u64;
                // Tables come before the first time and carry none.
                if marks.decode_time > MediaTime::default() {
                    span.handle_time(marks.clock, marks.decode_time);
                }
            }
            let is_usable = self.lack().is_none();
            if is_usable && (span.longest() >= AHEAD || bytes >= AHEAD_BYTES_MAX) {
                break;
            }
            if !is_usable && self.ahead.len() > EARLY_UNITS_MAX {
                self.ahead.pop_front();
                self.early += 1;
                at -= 1;
            }
            match self.read_on().await? {
                Some(unit) => self.ahead.push_back(unit),
                None if is_usable => break,
                None => return Ok(None),
            }
        }
        let over = span.longest().max(Duration::from_secs(1));
        Ok(Some(DataSize::from_bytes(bytes) / over))
    }

    /// Reads on without end and keeps what comes, the newest 8 MiB at most.
    ///
    /// May be dropped at any time without losing a unit.
    ///
    /// Fails   the source cannot be read; what was kept is there
    pub async fn gather(&mut self) -> io::Result<()> {
        let mut bytes: u64 = self.ahead.iter().map(|(_, kept)| kept.len() as u64).sum();
        while let Some((marks, payload)) = self.read_on().await? {
            bytes += payload.len() as u64;
            self.ahead.push_back((marks, payload));
            while bytes > AHEAD_BYTES_MAX {
                let Some((_, oldest)) = self.ahead.pop_front() else {
                    break;
                };
                bytes -= oldest.len() as u64;
                self.unwanted += 1;
            }
        }
        Ok(())
    }

    /// Gives the next unit, or `None` at the end.
    ///
    /// May be dropped before it is ready without losing a unit.
    pub async fn next(&mut self) -> io::Result<Option<(Marks, Bytes)>> {
        if let Some(unit) = self.ahead.pop_front() {
            return Ok(Some(unit));
        }
        self.read_on().await
    }

    /// Gives the next unit from the source.
    async fn read_on(&mut self) -> io::Result<Option<(Marks, Bytes)>> {
        loop {
            if let Some(unit) = self.publisher.poll_adu() {
                self.units += u64::from(self.lack().is_none());
                return Ok(Some(unit));
            }
            match self.stage {
                Stage::Reading => {
                    if let Some(bytes) = self.source.read().await? {
                        self.publisher.push(&bytes);
                        if self.is_hopeless() {
                            self.stage = Stage::Ended;
                        }
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

    /// Returns whether so much came of a file or pipe without a packet that none will come: a device has no
    /// end.
    fn is_hopeless(&self) -> bool {
        !self.is_live()
            && self.lack() == Some(Lack::Packets)
            && self.source.seen().bytes >= SEARCH_BYTES_MAX
    }

    /// Begins the next pass, where there is to be one; what cannot be used is not read again.
    async fn turn(&mut self) -> io::Result<()> {
        let is_usable = self.lack().is_none();
        if self.repeat && is_usable && self.source.rewind().await? {
            self.publisher.begin_again();
            self.stage = Stage::Reading;
        } else {
            self.stage = Stage::Ended;
        }
        Ok(())
    }
}
