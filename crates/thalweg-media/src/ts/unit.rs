//! A unit as the payload of one ADU.
//!
//! The idea: each payload is self-describing, so that a subscriber without earlier state can write
//! a transport stream from payloads alone, beginning at any programme unit. All integers are
//! big-endian.
//!
//! ```text
//!   0  version = 1
//!   1  kind        0 programme · 1 access unit · 2 packets
//!
//!   programme      ts id u16 · network pid u16 (0x1fff: none) · number u16 · table pid u16 · clock pid u16
//!                  · length u16 · descriptors · { pid u16 · stream type u8 · length u16 · descriptors } …
//!   access unit    pid u16 · stream type u8 · stream id u8
//!                  · flags u8 (1 pts · 2 dts · 4 random access · 8 aligned · 16 damaged
//!                  · 32 options) · [pts u64] · [dts u64] · [length u16 · options] · data …
//!   packets        pid u16 · n · 188 bytes
//! ```
//!
//! Decoding is total: any bytes are a unit that [`Writer`](super::Writer) can write, or an error;
//! nothing is allocated but the list of streams, which is bounded by what fits a PMT.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::packet::{NULL_PID, PACKET_BYTES, SYNC};
use super::{AccessUnit, Elementary, Packets, Programme, Unit, pes, section};

const VERSION: u8 = 1;
const PROGRAMME: u8 = 0;
const ACCESS: u8 = 1;
const PACKETS: u8 = 2;

const PTS: u8 = 1;
const DTS: u8 = 1 << 1;
const RANDOM_ACCESS: u8 = 1 << 2;
const ALIGNED: u8 = 1 << 3;
const DAMAGED: u8 = 1 << 4;
const OPTIONS: u8 = 1 << 5;

/// Maximum timestamp, which prevents overflow: 2⁶² ticks are a million years.
const TIME_90KHZ_MAX: u64 = 1 << 62;

/// Why a payload is not a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// It is of another version.
    #[error("media unit has version {found}, this build reads version {VERSION}")]
    Version {
        /// The version found.
        found: u8,
    },
    /// Its kind is unknown.
    #[error("media unit is of unknown kind {found}")]
    Kind {
        /// The kind found.
        found: u8,
    },
    /// It ends before its fields do.
    #[error("media unit of {bytes} bytes is cut short")]
    Short {
        /// Its length.
        bytes: usize,
    },
    /// A field has an invalid value.
    #[error("media unit has an impossible {field}")]
    Field {
        /// The field.
        field: &'static str,
    },
}

/// Frames a unit.
///
/// Cost    copies the unit's data once
pub fn encode(unit: &Unit) -> Bytes {
    let mut out = BytesMut::new();
    match unit {
        Unit::Programme(programme) => {
            out.put_slice(&[VERSION, PROGRAMME]);
            encode_programme(programme, &mut out);
        }
        Unit::Access(unit) => {
            out.reserve(unit.data.len() + unit.options.len() + 25);
            out.put_slice(&[VERSION, ACCESS]);
            encode_access(unit, &mut out);
        }
        Unit::Packets(packets) => {
            out.put_slice(&[VERSION, PACKETS]);
            out.put_u16(packets.pid);
            out.put_slice(&packets.data);
        }
    }
    out.freeze()
}

/// Reads a payload; the unit's data is a slice of it.
///
/// Fails   [`UnitError`]; never panics
pub fn decode(payload: &Bytes) -> Result<Unit, UnitError> {
    let bytes = payload.len();
    let short = move || UnitError::Short { bytes };
    let mut rest = payload.clone();
    if bytes < 2 {
        return Err(short());
    }
    let (version, kind) = (rest.get_u8(), rest.get_u8());
    if version != VERSION {
        return Err(UnitError::Version { found: version });
    }
    match kind {
        PROGRAMME => decode_programme(&mut rest, short).map(Unit::Programme),
        ACCESS => decode_access(rest, short).map(Unit::Access),
        PACKETS => decode_packets(rest, short).map(Unit::Packets),
        found => Err(UnitError::Kind { found }),
    }
}

fn encode_programme(programme: &Programme, out: &mut BytesMut) {
    out.put_u16(programme.transport_stream_id);
    out.put_u16(programme.network_pid.unwrap_or(NULL_PID));
    out.put_u16(programme.number);
    out.put_u16(programme.table_pid);
    out.put_u16(programme.clock_pid);
    out.put_u16(programme.descriptors.len() as u16);
    out.put_slice(&programme.descriptors);
    for stream in &programme.streams {
        out.put_u16(stream.pid);
        out.put_u8(stream.stream_type);
        out.put_u16(stream.descriptors.len() as u16);
        out.put_slice(&stream.descriptors);
    }
}

fn encode_access(unit: &AccessUnit, out: &mut BytesMut) {
    out.put_u16(unit.pid);
    out.put_slice(&[unit.stream_type, unit.stream_id]);
    let flags = [
        (unit.pts_90khz.is_some(), PTS),
        (unit.dts_90khz.is_some(), DTS),
        (unit.random_access, RANDOM_ACCESS),
        (unit.aligned, ALIGNED),
        (unit.damaged, DAMAGED),
        (!unit.options.is_empty(), OPTIONS),
    ];
    out.put_u8(
        flags
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, bit)| bit)
            .sum(),
    );
    for time in [unit.pts_90khz, unit.dts_90khz].into_iter().flatten() {
        out.put_u64(time);
    }
    if !unit.options.is_empty() {
        out.put_u16(unit.options.len() as u16);
        out.put_slice(&unit.options);
    }
    out.put_slice(&unit.data);
}

fn decode_programme(
    rest: &mut Bytes,
    short: impl Fn() -> UnitError,
) -> Result<Programme, UnitError> {
    let mut word = || rest.try_get_u16().map_err(|_| short());
    let (transport_stream_id, network_pid, number) = (word()?, word()?, word()?);
    let (table_pid, clock_pid) = (word()?, word()?);
    let mut programme = Programme {
        transport_stream_id,
        network_pid: (network_pid != NULL_PID).then_some(network_pid),
        number,
        table_pid: checked_pid(table_pid, "table pid")?,
        clock_pid,
        descriptors: take(rest, &short)?,
        streams: Vec::new(),
    };
    let field = |field| Err(UnitError::Field { field });
    if number == 0 {
        return field("programme number");
    }
    if network_pid > NULL_PID {
        return field("network pid");
    }
    if clock_pid != NULL_PID {
        checked_pid(clock_pid, "clock pid")?;
    }
    while rest.has_remaining() {
        let pid = rest.try_get_u16().map_err(|_| short())?;
        let stream_type = rest.try_get_u8().map_err(|_| short())?;
        let descriptors = take(rest, &short)?;
        let pid = checked_pid(pid, "stream pid")?;
        if pid == table_pid || programme.streams.len() >= section::SECTION_BYTES_MAX / 5 {
            return field("list of streams");
        }
        programme.streams.push(Elementary {
            pid,
            stream_type,
            descriptors,
        });
    }
    if !section::pmt_fits(&programme) {
        return field("size, for its table would not fit a section");
    }
    Ok(programme)
}

fn decode_access(mut rest: Bytes, short: impl Fn() -> UnitError) -> Result<AccessUnit, UnitError> {
    let pid = rest.try_get_u16().map_err(|_| short())?;
    let mut byte = || rest.try_get_u8().map_err(|_| short());
    let (stream_type, stream_id, flags) = (byte()?, byte()?, byte()?);
    if flags >= OPTIONS << 1 {
        return Err(UnitError::Field { field: "flag" });
    }
    let mut time = |bit| match flags & bit {
        0 => Ok(None),
        _ => match rest.try_get_u64() {
            Ok(time) if time <= TIME_90KHZ_MAX => Ok(Some(time)),
            Ok(_) => Err(UnitError::Field { field: "timestamp" }),
            Err(_) => Err(short()),
        },
    };
    let (pts_90khz, dts_90khz) = (time(PTS)?, time(DTS)?);
    let options = match flags & OPTIONS {
        0 => Bytes::new(),
        _ => take(&mut rest, short)?,
    };
    let times = usize::from(pts_90khz.is_some()) + usize::from(dts_90khz.is_some());
    if flags & OPTIONS != 0 && !are_valid_options(&options, times) {
        return Err(UnitError::Field { field: "option" });
    }
    Ok(AccessUnit {
        pid: checked_pid(pid, "pid")?,
        stream_type,
        stream_id,
        pts_90khz,
        dts_90khz,
        random_access: flags & RANDOM_ACCESS != 0,
        aligned: flags & ALIGNED != 0,
        damaged: flags & DAMAGED != 0,
        options,
        data: rest,
    })
}

fn decode_packets(mut rest: Bytes, short: impl Fn() -> UnitError) -> Result<Packets, UnitError> {
    let pid = rest.try_get_u16().map_err(|_| short())?;
    if pid == 0 || pid >= NULL_PID {
        return Err(UnitError::Field { field: "pid" });
    }
    let sound = |raw: &[u8]| raw[0] == SYNC && u16::from_be_bytes([raw[1] & 0x1f, raw[2]]) == pid;
    if !rest.len().is_multiple_of(PACKET_BYTES) || !rest.chunks_exact(PACKET_BYTES).all(sound) {
        return Err(UnitError::Field {
            field: "packet of its pid",
        });
    }
    Ok(Packets { pid, data: rest })
}

/// Returns whether options of a PES header, beside `times` bytes of times, are valid.
fn are_valid_options(options: &[u8], times: usize) -> bool {
    let [first, second, rest @ ..] = options else {
        return false;
    };
    first & !pes::FIRST_KEPT == 0
        && second & !pes::SECOND_KEPT == 0
        && rest.len() + times * pes::TIME_BYTES <= pes::OPTION_BYTES_MAX
}

/// Splits off bytes that are preceded by their length.
fn take(rest: &mut Bytes, short: impl Fn() -> UnitError) -> Result<Bytes, UnitError> {
    let len = usize::from(rest.try_get_u16().map_err(|_| short())?);
    if len > section::SECTION_BYTES_MAX {
        return Err(UnitError::Field { field: "length" });
    }
    if len > rest.len() {
        return Err(short());
    }
    Ok(rest.split_to(len))
}

/// Returns whether a programme can be carried: its PIDs are not reserved, and it fits its table.
pub(super) fn is_valid(programme: &Programme) -> bool {
    decode(&encode(&Unit::Programme(programme.clone()))).is_ok()
}

/// Checks a PID for use in a programme: neither reserved nor that of null packets.
fn checked_pid(pid: u16, field: &'static str) -> Result<u16, UnitError> {
    if (0x10..NULL_PID).contains(&pid) {
        Ok(pid)
    } else {
        Err(UnitError::Field { field })
    }
}
