//! Transport stream to ADUs at the source, ADUs to transport stream at the sink.
//!
//! The idea: [`Publisher`] reads units, frames each, and returns with each the fields of its ADU's
//! header ([`Marks`]). The access unit of a reference or non-reference picture depends on the
//! reference before it on its PID, which leads back to the key picture. The programme facts right
//! before a key picture have the flag KEY: a receiver can begin there. [`Subscriber`] accepts
//! payloads in whatever subset arrives and writes a transport stream.
//!
//! What it does not do: sequence, stream and deadline of an ADU are the caller's; so are pacing and
//! reordering.

use std::collections::BTreeMap;

use bytes::Bytes;
use thalweg_base::adu::{Flags, MediaTime};

use super::counts::Counts;
use super::data::DataPid;
use super::lack::Lack;
use super::read::Reader;
use super::seam::Seam;
use super::unit::{self, UnitError};
use super::write::{Withheld, Writer};
use super::{AccessUnit, Programme, Unit, is_audio, is_video};
use crate::marks::Marks;
use crate::nal::{Picture, Role, classify};

/// Converts a transport stream to ADU payloads with their marks.
#[derive(Debug, Clone, Default)]
pub struct Publisher {
    reader: Reader,
    /// By programme number: each has a clock of its own.
    seams: BTreeMap<u16, Seam>,
    /// What was met in passes before this one.
    before: Counts,
    /// Number of ADUs returned so far.
    given: u64,
    lanes: BTreeMap<u16, Lane>,
    last: (MediaTime, MediaTime),
    /// The clock of the last timed unit.
    clock: u16,
    starts: Starts,
    /// Whether an earlier pass had usable content.
    is_usable: bool,
    /// The data PIDs, if their messages go apart.
    data: Option<BTreeMap<u16, DataPid>>,
}

/// The payload of an ADU with its marks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// The PID of the message; `None` for a unit of the transport stream.
    pub data: Option<DataPid>,
    /// The fields of its header.
    pub marks: Marks,
    /// A unit ([`mod@unit`]), or the message alone.
    pub payload: Bytes,
}

/// The video PID with the key pictures at which receivers begin. Only one PID of several is chosen,
/// since otherwise each would restart the receiver at the next.
#[derive(Debug, Clone, Copy, Default)]
struct Starts {
    pid: Option<u16>,
    /// Key pictures of other PIDs since its last.
    others: u32,
}

/// Number of key pictures of other PIDs after which the PID is assumed to have none any more.
const OTHERS_MAX: u32 = 8;

/// What a PID's next picture depends on.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    reference: Option<u64>,
    since_key: u32,
}

impl Publisher {
    /// Returns a publisher for the start, or any point, of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a publisher that takes the messages of data PIDs out of the stream; see
    /// [`Publisher::poll_marked`].
    pub fn splitting() -> Self {
        Self {
            data: Some(BTreeMap::new()),
            ..Self::default()
        }
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.reader.push(bytes);
    }

    /// Marks the end of the input.
    pub fn finish(&mut self) {
        self.reader.finish();
    }

    /// Restarts the input: timestamps continue from its end. Call it once the last pass is finished
    /// and all its ADUs are polled.
    pub fn restart_input(&mut self) {
        self.before = self.counts();
        self.is_usable |= self.reader.lack().is_none();
        self.reader = Reader::new();
        self.seams.values_mut().for_each(Seam::restart_input);
    }

    /// Returns what is still missing before anything of the input can be used.
    pub fn lack(&self) -> Option<Lack> {
        self.reader.lack().filter(|_| !self.is_usable)
    }

    /// Returns the listed programmes without a PMT so far, with the PID on which it is expected.
    pub fn missing_pmts(&self) -> impl Iterator<Item = (u16, u16)> {
        self.reader.missing_pmts()
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        self.before.plus(self.reader.counts())
    }

    /// Returns the next ADU of the transport stream. `depends_on` counts ADUs in the order of this
    /// function's results. Messages that are taken out are lost here.
    pub fn poll_adu(&mut self) -> Option<(Marks, Bytes)> {
        loop {
            let marked = self.poll_marked()?;
            if marked.data.is_none() {
                return Some((marked.marks, marked.payload));
            }
        }
    }

    /// Returns the next ADU. `depends_on` counts those of the transport stream; a message of a data
    /// PID that is taken out depends on none. A message of which parts are lost is left out.
    pub fn poll_marked(&mut self) -> Option<Marked> {
        loop {
            let mut timed = self.reader.poll_timed()?;
            if let Unit::Access(unit) = &mut timed.unit {
                let number = timed.clock.or_else(|| self.reader.programme_of(unit.pid));
                let seam = self.seams.entry(number.unwrap_or(0)).or_default();
                seam.apply(unit, timed.clock.is_some());
                if let Some(data) = self.data.as_ref().and_then(|known| known.get(&unit.pid)) {
                    if unit.damaged {
                        continue;
                    }
                    return Some(self.mark_message(*data, unit, timed.is_near));
                }
            } else if let (Unit::Programme(programme), Some(known)) = (&timed.unit, &mut self.data)
            {
                for stream in &programme.streams {
                    match DataPid::of(stream) {
                        Some(data) => known.insert(stream.pid, data),
                        None => known.remove(&stream.pid),
                    };
                }
            }
            let marks = self.mark(&timed.unit, timed.clock);
            self.given += 1;
            return Some(Marked {
                data: None,
                marks,
                payload: unit::encode(&timed.unit),
            });
        }
    }

    /// Returns the data PIDs, as far as they are known and their messages are taken out.
    pub fn data_pids(&self) -> impl Iterator<Item = DataPid> {
        self.data.iter().flat_map(|known| known.values().copied())
    }

    /// Marks a message; one without a time of the programme's clock has that of the unit before it.
    fn mark_message(&self, data: DataPid, unit: &AccessUnit, is_near: bool) -> Marked {
        let time = unit.decode_90khz().filter(|_| is_near);
        let time = time.map(MediaTime::from_90khz);
        Marked {
            data: Some(data),
            marks: Marks {
                media_time: time.unwrap_or(self.last.0),
                decode_time: time.unwrap_or(self.last.1),
                clock: self.reader.programme_of(unit.pid).unwrap_or(self.clock),
                importance: Role::Opaque.importance(0, 0),
                flags: Flags::KEY,
                ..Marks::default()
            },
            payload: unit.data.clone(),
        }
    }

    fn mark(&mut self, unit: &Unit, clock: Option<u16>) -> Marks {
        self.clock = clock.unwrap_or(self.clock);
        let mut marks = Marks {
            media_time: self.last.0,
            decode_time: self.last.1,
            clock: self.clock,
            ..Marks::default()
        };
        match unit {
            Unit::Programme(programme) => {
                marks.importance = Role::Programme.importance(0, 0);
                if self.is_start(programme) {
                    marks.flags = Flags::KEY;
                }
            }
            Unit::Packets(_) => marks.importance = Role::Opaque.importance(0, 0),
            Unit::Access(unit) => self.mark_access(unit, clock.is_some(), &mut marks),
        }
        self.last = (marks.media_time, marks.decode_time);
        marks
    }

    /// Returns whether a receiver can begin with these facts: a key picture follows directly, or
    /// there are no pictures at all.
    fn is_start(&mut self, programme: &Programme) -> bool {
        let mut streams = programme.streams.iter();
        if !streams.any(|stream| is_video(stream.stream_type)) {
            return true;
        }
        match self.reader.peek_unit() {
            Some(Unit::Access(next)) if next.random_access && is_video(next.stream_type) => {
                self.starts.handle_key(next.pid)
            }
            _ => false,
        }
    }

    fn mark_access(&mut self, unit: &AccessUnit, is_timed: bool, marks: &mut Marks) {
        if let Some(decode) = unit.decode_90khz().filter(|_| is_timed) {
            marks.decode_time = MediaTime::from_90khz(decode);
            marks.media_time = MediaTime::from_90khz(unit.pts_90khz.unwrap_or(decode));
        }
        let Picture { role, temporal } = role(unit);
        let lane = self.lanes.entry(unit.pid).or_default();
        if role == Role::Key {
            *lane = Lane::default();
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

impl Starts {
    /// Records a key picture; returns whether a receiver begins with it.
    fn handle_key(&mut self, pid: u16) -> bool {
        let is_chosen = self.pid.is_none_or(|chosen| chosen == pid);
        if is_chosen || self.others >= OTHERS_MAX {
            *self = Self {
                pid: Some(pid),
                others: 0,
            };
            return true;
        }
        self.others += 1;
        false
    }
}

/// Returns the role of an access unit. Video of an unknown codec is a key picture where the stream
/// marks a random access point, and a reference otherwise.
fn role(unit: &AccessUnit) -> Picture {
    let picture = unit.codec().and_then(|codec| classify(codec, &unit.data));
    let guess = match unit.stream_type {
        kind if is_video(kind) && unit.random_access => Role::Key,
        kind if is_video(kind) => Role::Reference,
        kind if is_audio(kind) => Role::Audio,
        _ => Role::Opaque,
    };
    match picture {
        // An encoder may refresh line by line and mark where that begins; that mark counts.
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

/// Converts ADU payloads back to a transport stream.
#[derive(Debug, Clone, Default)]
pub struct Subscriber {
    writer: Writer,
}

impl Subscriber {
    /// Returns a subscriber without any programme.
    pub fn new() -> Self {
        Self::default()
    }

    /// Accepts one payload; returns whole transport packets (none if the payload is withheld or has
    /// no news).
    ///
    /// Fails   [`UnitError`] if the payload is not a unit; the next one may be
    pub fn handle_payload(&mut self, payload: &Bytes) -> Result<Bytes, UnitError> {
        Ok(self.writer.write(&unit::decode(payload)?))
    }

    /// Accepts a message of a data PID that was taken out; returns whole transport packets, or none
    /// before its programme is known.
    pub fn handle_message(&mut self, data: DataPid, time: MediaTime, message: &Bytes) -> Bytes {
        self.writer.write(&data.unit(time, message.clone()))
    }

    /// Units that were not written, by cause.
    pub fn withheld(&self) -> Withheld {
        self.writer.withheld()
    }
}
