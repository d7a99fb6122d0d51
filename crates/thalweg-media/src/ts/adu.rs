//! Transport stream to ADUs at the source, ADUs to transport stream at the sink.
//!
//! The idea: [`Publisher`] reads units, frames each, and says of each what an ADU's header needs ([`Marks`]). An access
//! unit of a reference or non-reference picture depends on the reference before it on its PID, which chains back to the
//! key picture. [`Subscriber`] takes payloads in whatever subset arrives and writes a transport stream.
//!
//! What it does not do: sequence, stream and deadline of an ADU are its caller's; so are pacing and reordering.

use std::collections::BTreeMap;

use bytes::Bytes;
use thalweg_core::adu::{Flags, MediaTime};

use super::read::{Counts, Reader};
use super::seam::Seam;
use super::unit::{self, UnitError};
use super::write::Writer;
use super::{AccessUnit, Unit, is_audio, is_video};
use crate::marks::Marks;
use crate::nal::{Picture, Role, classify};

/// Turns a transport stream into ADU payloads with their marks.
#[derive(Debug, Clone, Default)]
pub struct Publisher {
    reader: Reader,
    seam: Seam,
    /// What was met in passes before this one.
    before: Counts,
    /// ADUs given so far.
    given: u64,
    lanes: BTreeMap<u16, Lane>,
    last: (MediaTime, MediaTime),
}

/// What a PID's next picture depends on.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    reference: Option<u64>,
    since_key: u32,
}

impl Publisher {
    /// Makes a publisher at the start, or anywhere in the midst, of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
    }

    /// Says that no more bytes come.
    pub fn finish(&mut self) {
        self.reader.finish();
    }

    /// Says that the input is played again from its start: timestamps go on where they ended. To be called once the
    /// last pass is finished and all its ADUs are polled.
    pub fn begin_again(&mut self) {
        self.before = self.counts();
        self.reader = Reader::new();
        self.seam.begin_again();
    }

    /// What has been met so far.
    pub fn counts(&self) -> Counts {
        self.before.plus(self.reader.counts())
    }

    /// Gives the next ADU. `depends_on` counts ADUs in the order in which this gives them.
    pub fn poll_adu(&mut self) -> Option<(Marks, Bytes)> {
        let mut unit = self.reader.poll_unit()?;
        if let Unit::Access(unit) = &mut unit {
            self.seam.apply(unit);
        }
        let marks = self.mark(&unit);
        self.given += 1;
        Some((marks, unit::encode(&unit)))
    }

    fn mark(&mut self, unit: &Unit) -> Marks {
        let mut marks = Marks {
            media_time: self.last.0,
            decode_time: self.last.1,
            ..Marks::default()
        };
        match unit {
            Unit::Programme(_) => {
                marks.importance = Role::Programme.importance(0, 0);
                marks.flags = Flags::KEY;
            }
            Unit::Packets(_) => marks.importance = Role::Opaque.importance(0, 0),
            Unit::Access(unit) => self.mark_access(unit, &mut marks),
        }
        self.last = (marks.media_time, marks.decode_time);
        marks
    }

    fn mark_access(&mut self, unit: &AccessUnit, marks: &mut Marks) {
        if let Some(decode) = unit.decode_90khz() {
            marks.decode_time = MediaTime::from_90khz(decode);
            marks.media_time = MediaTime::from_90khz(unit.pts_90khz.unwrap_or(decode));
        }
        let Picture { role, temporal } = role(unit);
        let lane = self.lanes.entry(unit.pid).or_default();
        if role == Role::Key {
            *lane = Lane::default();
            marks.flags = marks.flags.with(Flags::KEY);
        }
        marks.importance = role.importance(temporal, lane.since_key);
        if matches!(role, Role::Reference | Role::NonReference) {
            let back = lane.reference.map_or(0, |sequence| self.given - sequence);
            marks.depends_on = u32::try_from(back).unwrap_or(0);
        }
        match role {
            Role::NonReference => marks.flags = marks.flags.with(Flags::DISCARDABLE),
            Role::Reference => lane.since_key = lane.since_key.saturating_add(1),
            _ => {}
        }
        if matches!(role, Role::Key | Role::Reference) {
            lane.reference = Some(self.given);
        }
    }
}

/// The role of an access unit. Video of a codec that is not understood is a key picture where the stream says that
/// decoding can start, and else a reference.
fn role(unit: &AccessUnit) -> Picture {
    let picture = unit.codec().and_then(|codec| classify(codec, &unit.data));
    let guess = match unit.stream_type {
        kind if is_video(kind) && unit.random_access => Role::Key,
        kind if is_video(kind) => Role::Reference,
        kind if is_audio(kind) => Role::Audio,
        _ => Role::Opaque,
    };
    match picture {
        // An encoder may refresh line by line and mark where that begins; the mark counts.
        Some(picture) if !unit.random_access || picture.role == Role::Key => picture,
        Some(picture) => Picture {
            role: guess,
            ..picture
        },
        None => Picture {
            role: guess,
            temporal: 0,
        },
    }
}

/// Turns ADU payloads back into a transport stream.
#[derive(Debug, Clone, Default)]
pub struct Subscriber {
    writer: Writer,
}

impl Subscriber {
    /// Makes a subscriber that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one payload, gives whole transport packets (none if it is withheld or tells nothing new).
    ///
    /// Fails   [`UnitError`] if the payload is not a unit; the next one may be
    pub fn handle_payload(&mut self, payload: &Bytes) -> Result<Bytes, UnitError> {
        Ok(self.writer.write(&unit::decode(payload)?))
    }

    /// Units withheld since they came before their programme's facts or their first key picture.
    pub fn withheld(&self) -> u64 {
        self.writer.withheld()
    }
}
