//! Says when a source gives nothing, or nothing that can be used, and when it does again.
//!
//! *The idea.* While units are waited for, the source is looked at every few seconds, and whenever one has
//! come. What has come since the last unit tells what to say. The same thing is said once; another thing is
//! said when it is seen.
//!
//! ```text
//!   a unit since   ─► nothing to say, or after a silence: "… works"
//!   nothing        ─► "nothing has come …"
//!   something else ─► what it is, and what to do
//! ```
//!
//! *What it does not do.* It reads no clock and no source: both are given to it.

use std::time::Duration;

use thalweg_media::ts::Lack;

use super::looks::look;
use super::trouble::Trouble;
use crate::ends::Seen;

/// How long nothing usable comes before that is said: a person wonders after three seconds. Each
/// silence that ended doubles it, for a source may be sparse by nature.
const PATIENCE: Duration = Duration::from_millis(2_500);

/// The longest patience.
const PATIENCE_MAX: Duration = Duration::from_mins(1);

/// What is seen of a source at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sight {
    /// What has come.
    pub seen: Seen,
    /// What the readers made of it.
    pub trouble: Trouble,
    /// What is missing before anything can be used.
    pub lack: Option<Lack>,
    /// Units since it could be used.
    pub units: u64,
}

/// What was said last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
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
    /// When to look again.
    due: Duration,
    /// How long after that.
    patience: Duration,
    /// What there was at the last unit.
    before: Sight,
    said: Option<Said>,
}

impl Watch {
    /// Begins to watch the source of this name; times count from any moment.
    pub fn new(name: String, now: Duration) -> Self {
        Self {
            name,
            due: now + PATIENCE,
            patience: PATIENCE,
            before: Sight::default(),
            said: None,
        }
    }

    /// Returns how long a unit may be waited for.
    pub fn patience(&self, now: Duration) -> Duration {
        self.due.saturating_sub(now)
    }

    /// Says that units are waited for from now on.
    pub fn begin(&mut self, now: Duration) {
        self.due = now + self.patience;
    }

    /// Looks at the source, when a unit has come or when patience is over; returns what there is to say.
    /// Units that were read ahead come though none is new in the sight.
    pub fn look(&mut self, now: Duration, sight: Sight, has_unit: bool) -> Option<String> {
        self.due = now + self.patience;
        if has_unit || sight.units > self.before.units {
            self.before = sight;
            self.said.take()?;
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            return Some(format!("MPEG-TS comes from {}", self.name));
        }
        let (said, what) = self.describe(&sight);
        if self.said.replace(said) == Some(said) {
            return None;
        }
        Some(format!("{what}; waiting"))
    }

    fn describe(&self, sight: &Sight) -> (Said, String) {
        let name = &self.name;
        let before = &self.before;
        let bytes = sight.seen.bytes - before.seen.bytes;
        let packets = sight.trouble.counts.packets - before.trouble.counts.packets;
        let port = sight.trouble.port;
        let foreign = port.foreign - before.trouble.port.foreign;
        if bytes == 0 {
            let ask = if sight.seen.port.is_some() {
                ": does the sender send to this address and port?"
            } else {
                ""
            };
            return (
                Said::Nothing,
                format!("nothing has come from {name} for some seconds{ask}"),
            );
        }
        if foreign > 0 && packets == 0 {
            let kind = port.foreign_type.unwrap_or_default();
            return (Said::Foreign(kind), foreign_rtp(name, foreign, kind));
        }
        match &sight.lack {
            None if packets == 0 => (
                Said::NoPackets,
                format!(
                    "{bytes} bytes have come from {name}, but no MPEG-TS packets any more{}",
                    sight
                        .trouble
                        .sentence()
                        .map_or_else(String::new, |trouble| format!(" ({trouble})"))
                ),
            ),
            None => (
                Said::NoUnits,
                format!(
                    "{packets} MPEG-TS packets have come from {name}, but no unit is whole yet"
                ),
            ),
            Some(Lack::Packets) => (
                Said::NoPackets,
                format!(
                    "{bytes} bytes have come from {name}, but no MPEG-TS packets: they {}",
                    look(&sight.seen.head)
                ),
            ),
            Some(lack) => (
                Said::Lacking(std::mem::discriminant(lack)),
                format!("{packets} MPEG-TS packets have come from {name}, but {lack}"),
            ),
        }
    }
}

/// Says what RTP of another payload is, and what to send instead.
fn foreign_rtp(name: &str, packets: u64, kind: u8) -> String {
    format!(
        "{packets} RTP packets of payload type {kind} have come to {name}, and they carry no MPEG-TS: let the sender put its \
         stream into MPEG-TS first (payload type 33, or any other), as `ffmpeg … -f rtp_mpegts` does"
    )
}
