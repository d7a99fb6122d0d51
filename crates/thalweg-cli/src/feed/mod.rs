//! Media units from a [`Source`], with their marks, once or in a loop.
//!
//! *The idea.* Bytes go through `thalweg_media::ts::Publisher`, which returns units one by one. A
//! file in a loop continues the media time where it ended, so that a player sees no seam. The first
//! seconds are read ahead before the stream is announced, because the planner needs its rate.
//! Unusable input is reported: while it arrives (`watch`), and at the end (`trouble`).
//!
//! *What it does not do.* It does not pace (`pace`) and knows no node.

mod guess;
mod monitor;
mod trouble;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use thalweg_base::adu::MediaTime;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_media::ts::{DataPid, Lack, Marked, Publisher};

pub use self::monitor::{Monitor, nothing, stopped};
pub use self::trouble::Trouble;
use self::watch::Snapshot;
use crate::pace::JUMP;
use thalweg_io::url::{ReceivedInput, Source};

#[cfg(test)]
mod tests;

/// Media time that is read ahead to measure the rate: four groups of pictures of half a second.
const AHEAD: Duration = Duration::from_secs(2);

/// Bound of the read-ahead, for a stream without timestamps.
const AHEAD_BYTES_MAX: u64 = 8 << 20;

/// Bound of the search for a first packet in a file or pipe.
const SEARCH_BYTES_MAX: u64 = 64 << 20;

/// Units kept from before any programme is known: the service information of a few hundred services.
const EARLY_UNITS_MAX: usize = 64;

/// Reads units from a source, to its end or in a loop.
pub struct Feed {
    source: Source,
    repeat: bool,
    publisher: Publisher,
    ahead: VecDeque<Marked>,
    stage: Stage,
    /// Units since the source became usable.
    units: u64,
    /// Units dropped because no programme was known.
    early: u64,
    /// Units dropped because the stream had no subscriber yet.
    unwanted: u64,
    /// Media time of the read-ahead.
    span: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// More bytes may come.
    Reading,
    /// The publisher has all bytes.
    Read,
    /// No more units come.
    Ended,
}

/// Media time that has passed, per clock.
#[derive(Debug, Default)]
struct Span {
    /// By clock: the last timestamp, and the time passed without jumps.
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

    /// Returns the time passed on the clock that advanced furthest.
    fn longest(&self) -> Duration {
        let passed = self.clocks.values().map(|(_, passed)| *passed);
        passed.max().unwrap_or(Duration::ZERO)
    }
}

impl Feed {
    /// Makes a feed at the start of its source; `repeat` loops a file.
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
            span: Duration::ZERO,
        }
    }

    /// Takes the messages of data PIDs out of the transport stream, if `is_split`; see [`Marked::data`].
    pub fn split(mut self, is_split: bool) -> Self {
        if is_split {
            self.publisher = Publisher::splitting();
        }
        self
    }

    /// Returns the data PIDs, each with its rate over the read-ahead.
    pub fn data_pids(&self) -> Vec<(DataPid, Bitrate)> {
        let rate = |data: DataPid| {
            let units = self.ahead.iter().filter(|unit| unit.data == Some(data));
            let bytes = units.map(|unit| unit.payload.len() as u64).sum();
            let over = self.span.max(Duration::from_secs(1));
            (data, DataSize::from_bytes(bytes) / over)
        };
        self.publisher.data_pids().map(rate).collect()
    }

    /// Returns whether units are due on arrival.
    pub fn is_live(&self) -> bool {
        self.source.is_live()
    }

    /// Returns what was wrong with the source so far.
    pub fn trouble(&self) -> Trouble {
        Trouble {
            counts: self.publisher.counts(),
            port: self.source.seen().port.unwrap_or_default(),
            missing_pmts: self.publisher.missing_pmts().collect(),
            early_units: self.early,
            unwanted_units: self.unwanted,
        }
    }

    /// Returns what has not arrived yet and is needed before any unit is usable.
    pub fn lack(&self) -> Option<Lack> {
        self.publisher.lack()
    }

    /// Returns what arrived and what the readers made of it.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            seen: self.seen(),
            trouble: self.trouble(),
            lack: self.lack(),
            units: self.units,
        }
    }

    /// Returns what arrived from the source, MPEG-TS or not.
    pub fn seen(&self) -> ReceivedInput {
        self.source.seen()
    }

    /// Returns the units since the source became usable.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Returns the rate of the read-ahead units, if they arrived within `time`.
    pub fn rate_over(&self, time: Duration) -> Bitrate {
        let bytes = self.ahead.iter().map(|unit| unit.payload.len() as u64);
        DataSize::from_bytes(bytes.sum()) / time.max(Duration::from_secs(1))
    }

    /// Reads ahead and returns the stream's rate so far; `None` if the source ended without a usable unit.
    ///
    /// ```text
    /// rate = Σ bytes / max(time passed on the clock that advanced furthest, 1 s)
    /// ```
    ///
    /// Units   bit/s, payload framing included
    ///
    /// Cancel safe, and may be called again.
    pub async fn measure(&mut self) -> io::Result<Option<Bitrate>> {
        let mut span = Span::default();
        let mut bytes = 0;
        let mut at = 0;
        loop {
            while let Some(Marked { marks, payload, .. }) = self.ahead.get(at) {
                at += 1;
                bytes += payload.len() as u64;
                // Tables precede the first timestamp and carry none.
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
        self.span = span.longest();
        let over = self.span.max(Duration::from_secs(1));
        Ok(Some(DataSize::from_bytes(bytes) / over))
    }

    /// Reads until the end and keeps the newest 8 MiB.
    ///
    /// Cancel safe: no unit is lost.
    ///
    /// Fails   the source cannot be read; what was kept is still there
    pub async fn gather(&mut self) -> io::Result<()> {
        let mut bytes: u64 = self
            .ahead
            .iter()
            .map(|kept| kept.payload.len() as u64)
            .sum();
        while let Some(unit) = self.read_on().await? {
            bytes += unit.payload.len() as u64;
            self.ahead.push_back(unit);
            while bytes > AHEAD_BYTES_MAX {
                let Some(oldest) = self.ahead.pop_front() else {
                    break;
                };
                bytes -= oldest.payload.len() as u64;
                self.unwanted += 1;
            }
        }
        Ok(())
    }

    /// Returns the next unit, or `None` at the end.
    ///
    /// Cancel safe: no unit is lost.
    pub async fn next(&mut self) -> io::Result<Option<Marked>> {
        if let Some(unit) = self.ahead.pop_front() {
            return Ok(Some(unit));
        }
        self.read_on().await
    }

    /// Returns the next unit from the source, past the read-ahead.
    async fn read_on(&mut self) -> io::Result<Option<Marked>> {
        loop {
            if let Some(unit) = self.publisher.poll_marked() {
                self.units += u64::from(self.lack().is_none());
                return Ok(Some(unit));
            }
            match self.stage {
                Stage::Reading => {
                    if let Some(bytes) = self.source.read().await? {
                        self.publisher.push(&bytes);
                        if self.has_no_packets() {
                            self.stage = Stage::Ended;
                        }
                    } else {
                        self.publisher.finish();
                        self.stage = Stage::Read;
                    }
                }
                Stage::Read => self.next_pass().await?,
                Stage::Ended => return Ok(None),
            }
        }
    }

    /// Returns whether a file or pipe gave [`SEARCH_BYTES_MAX`] bytes without a packet: a device
    /// such as /dev/zero has no end.
    fn has_no_packets(&self) -> bool {
        !self.is_live()
            && self.lack() == Some(Lack::Packets)
            && self.source.seen().bytes >= SEARCH_BYTES_MAX
    }

    /// Starts the next pass of a loop, or ends; an unusable file is not read again.
    async fn next_pass(&mut self) -> io::Result<()> {
        let is_usable = self.lack().is_none();
        if self.repeat && is_usable && self.source.rewind().await? {
            self.publisher.restart_input();
            self.stage = Stage::Reading;
        } else {
            self.stage = Stage::Ended;
        }
        Ok(())
    }
}
