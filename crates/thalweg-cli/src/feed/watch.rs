//! Reports when a source gives nothing usable, and when it does again.
//!
//! *The idea.* While the caller waits for a unit, it looks at the source every few seconds and
//! whenever a unit has come. What arrived since the last unit selects the report. A report is given
//! once, until another takes its place.
//!
//! ```text
//!   a unit since   ─► nothing, or after a silence: "receiving MPEG-TS …"
//!   nothing        ─► "no data received …"
//!   something else ─► what it is, and what to do
//! ```
//!
//! *What it does not do.* It reads no clock and no source: both are passed in.

use std::time::Duration;

use thalweg_media::ts::Lack;

use super::guess::guess_format;
use super::trouble::Trouble;
use thalweg_io::url::ReceivedInput;

/// Silence before the first report: a person wonders after three seconds. Each silence that ended
/// doubles it, since a source may be sparse by nature.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// Bound of that doubling.
const PATIENCE_MAX: Duration = Duration::from_mins(1);

/// A snapshot of a source.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What arrived.
    pub seen: ReceivedInput,
    /// What was wrong with it.
    pub trouble: Trouble,
    /// What is missing before any unit is usable.
    pub lack: Option<Lack>,
    /// Units since the source became usable.
    pub units: u64,
}

/// The last report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Report {
    Nothing,
    Foreign(u8),
    NoPackets,
    Lacking(std::mem::Discriminant<Lack>),
    NoUnits,
}

/// Watches a source for silence.
#[derive(Debug)]
pub struct Watch {
    name: String,
    /// When to look next.
    due: Duration,
    /// The interval between looks.
    patience: Duration,
    /// The snapshot at the last unit.
    before: Snapshot,
    last_report: Option<Report>,
}

impl Watch {
    /// Starts to watch the source `name`; the origin of times is arbitrary.
    pub fn new(name: String, now: Duration) -> Self {
        Self {
            name,
            due: now + PATIENCE,
            patience: PATIENCE,
            before: Snapshot::default(),
            last_report: None,
        }
    }

    /// Returns how long to wait for a unit before the next look.
    pub fn patience(&self, now: Duration) -> Duration {
        self.due.saturating_sub(now)
    }

    /// Starts a wait for a unit.
    pub fn begin(&mut self, now: Duration) {
        self.due = now + self.patience;
    }

    /// Looks at the source after a unit came or after the wait; returns a report if one is due. `has_unit`
    /// counts also for read-ahead units, which the snapshot's count does not show as new.
    pub fn check(&mut self, now: Duration, snapshot: Snapshot, has_unit: bool) -> Option<String> {
        self.due = now + self.patience;
        if has_unit || snapshot.units > self.before.units {
            self.before = snapshot;
            self.last_report.take()?;
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            return Some(format!("receiving MPEG-TS from {}", self.name));
        }
        let (report, what) = self.describe(&snapshot);
        if self.last_report.replace(report) == Some(report) {
            return None;
        }
        Some(format!("{what}; waiting"))
    }

    fn describe(&self, snapshot: &Snapshot) -> (Report, String) {
        let name = &self.name;
        let before = &self.before;
        let bytes = snapshot.seen.bytes - before.seen.bytes;
        let packets = snapshot.trouble.counts.packets - before.trouble.counts.packets;
        let port = snapshot.trouble.port;
        let foreign = port.foreign - before.trouble.port.foreign;
        if bytes == 0 {
            let ask = if snapshot.seen.port.is_some() {
                ": does the sender send to this address and port?"
            } else {
                ""
            };
            return (
                Report::Nothing,
                format!("no data received from {name} for some seconds{ask}"),
            );
        }
        if foreign > 0 && packets == 0 {
            let kind = port.foreign_type.unwrap_or_default();
            return (Report::Foreign(kind), foreign_rtp(name, foreign, kind));
        }
        match &snapshot.lack {
            None if packets == 0 => (
                Report::NoPackets,
                format!(
                    "{bytes} bytes received from {name}, but no MPEG-TS packets any more{}",
                    snapshot
                        .trouble
                        .sentence()
                        .map_or_else(String::new, |trouble| format!(" ({trouble})"))
                ),
            ),
            None => (
                Report::NoUnits,
                format!("{packets} MPEG-TS packets received from {name}, but no complete unit yet"),
            ),
            Some(Lack::Packets) => (
                Report::NoPackets,
                format!(
                    "{bytes} bytes received from {name}, but no MPEG-TS packets: they {}",
                    guess_format(&snapshot.seen.head)
                ),
            ),
            Some(lack) => (
                Report::Lacking(std::mem::discriminant(lack)),
                format!("{packets} MPEG-TS packets received from {name}, but {lack}"),
            ),
        }
    }
}

/// Names the RTP payload that is not MPEG-TS, and what to send instead.
fn foreign_rtp(name: &str, packets: u64, kind: u8) -> String {
    format!(
        "{packets} RTP packets of payload type {kind} received on {name} carry no MPEG-TS: have the sender wrap its \
         stream in MPEG-TS (payload type 33, or any other), as `ffmpeg … -f rtp_mpegts` does"
    )
}
