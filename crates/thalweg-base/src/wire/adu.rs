//! The header of an ADU on the wire.
//!
//! *The idea.* Four fixed bytes that every relay reads first, eight of stream, then varints. A
//! deadline is encoded as the remaining budget and becomes absolute again on the receiver's own
//! clock. So the time that a node holds an ADU is subtracted, and clocks need not agree.
//!
//! ```text
//! version:8 flags:8 importance:8 layer:8 stream:64
//! sequence(i) epoch(i) media time µs(i) depends on(i) budget µs + 1, 0 = none(i) payload bytes(i)
//! ```
//!
//! Behind the header of a traced ADU come the stamps of the nodes that it has passed ([`Trace`]).
//! They exist on the wire only: the bit that announces them is not one of [`Flags`], so it is under
//! no seal and invisible to programs.
//!
//! *What it does not do.* It contains no payload: the payload follows the header and is never
//! copied here.
//!
//! *Sources.* docs/reference/protocol.md §3.

use alloc::vec::Vec;

use super::{Reader, VARINT_MAX, VERSION, WireError, Write, trace};
use crate::adu::{Flags, Header, Importance, MediaTime};
use crate::id::{Epoch, Sequence, StreamId};
use crate::limits::{ADU_HEADER_BYTES_MAX, ADU_PAYLOAD_BYTES_MAX, LAYERS_MAX, TRACE_BYTES_MAX};
use crate::time::{Duration, Instant};
use crate::trace::Trace;

/// The flag bit that announces stamps behind the header.
const TRACED: u8 = 1 << 7;

/// The largest sequence: its successor must be encodable too.
const SEQUENCE_MAX: u64 = VARINT_MAX - 1;

/// A decoded header, with the position of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The header; its deadline is on the clock that `now` was taken from.
    pub header: Header,
    /// The length of the payload that follows; at most [`ADU_PAYLOAD_BYTES_MAX`].
    pub payload_bytes: usize,
    /// The length of the header, including stamps.
    pub header_bytes: usize,
    /// The length of the stamps at its end; [`decode_trace`] reads them.
    pub trace_bytes: usize,
}

/// Appends the header; the payload of `payload_bytes` is to follow.
///
/// Cost    O(1); at most [`ADU_HEADER_BYTES_MAX`] bytes are appended
/// Fails   panics if a sequence is above 2⁶² − 1 (a producer's bug)
pub fn encode_header(header: &Header, payload_bytes: usize, now: Instant, out: &mut Vec<u8>) {
    let fixed = [
        VERSION,
        header.flags.bits(),
        header.importance.0,
        header.layer,
    ];
    out.extend_from_slice(&fixed);
    out.extend_from_slice(&header.stream.0.to_be_bytes());
    out.varint(header.sequence.0);
    out.varint(u64::from(header.epoch.0));
    out.varint(header.media_time.as_micros());
    out.varint(u64::from(header.depends_on));
    out.varint(budget(header.deadline, now));
    out.varint(payload_bytes as u64);
}

/// Appends the header and the stamps of earlier nodes, with this node's stamp behind them; the
/// payload is to follow.
///
/// On a path longer than any plan's, the ADU goes on untraced.
///
/// Cost    O(stamps); at most [`ADU_HEADER_BYTES_MAX`] and [`TRACE_BYTES_MAX`] bytes are appended
/// Fails   panics if a sequence is above 2⁶² − 1 (a producer's bug)
pub fn encode_traced(
    header: &Header,
    trace: &Trace,
    payload_bytes: usize,
    now: Instant,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    encode_header(header, payload_bytes, now, out);
    if trace.has_room() {
        // The flags are the second byte of the header.
        out[start + 1] |= TRACED;
        trace::encode(trace.stamps(), &trace.stamp(now), out);
    }
}

/// Reads the stamps of a header that was decoded from the head of `bytes`; `None` if it has none.
///
/// Cost    O(stamps), one allocation
pub fn decode_trace(bytes: &[u8], decoded: &Decoded, now: Instant) -> Option<Trace> {
    let start = decoded.header_bytes.checked_sub(decoded.trace_bytes)?;
    let stamps = bytes.get(start..decoded.header_bytes)?;
    let stamps = trace::decode(&mut Reader::new(stamps)).ok()?;
    Some(Trace::arrived(stamps, now))
}

/// Returns an upper bound of the length of the header that begins with these bytes, including stamps.
pub fn window(bytes: &[u8]) -> usize {
    match bytes.get(1) {
        Some(flags) if flags & TRACED != 0 => ADU_HEADER_BYTES_MAX + TRACE_BYTES_MAX,
        _ => ADU_HEADER_BYTES_MAX,
    }
}

/// Returns the remaining time until `deadline` in whole microseconds, plus one; 0 if there is no
/// deadline.
fn budget(deadline: Instant, now: Instant) -> u64 {
    let left = deadline.saturating_since(now);
    if left.is_never() {
        0
    } else {
        left.as_micros().saturating_add(1).min(VARINT_MAX)
    }
}

/// Reads a header from the head of `bytes`; `None` if more bytes are needed.
///
/// Cost    O(1), no allocation
/// Fails   [`WireError`] if no further bytes can complete a header
pub fn decode_header(bytes: &[u8], now: Instant) -> Result<Option<Decoded>, WireError> {
    match read(bytes, now) {
        Ok(decoded) => Ok(Some(decoded)),
        Err(WireError::Truncated(_)) if bytes.len() < window(bytes) => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(bytes: &[u8], now: Instant) -> Result<Decoded, WireError> {
    let mut reader = Reader::new(bytes);
    let version = reader.byte("version")?;
    if version != VERSION {
        return Err(WireError::Version(version));
    }
    let bits = reader.byte("flags")?;
    // An unknown flag may change the meaning of the rest, so it is an error.
    let flags = Flags::from_bits(bits & !TRACED).ok_or(WireError::Malformed("flags"))?;
    let importance = Importance(reader.byte("importance")?);
    let layer = reader.byte("layer")?;
    if usize::from(layer) >= LAYERS_MAX {
        let limit = LAYERS_MAX as u64 - 1;
        return Err(WireError::TooLarge {
            what: "layer",
            value: u64::from(layer),
            limit,
        });
    }
    let header = Header {
        stream: StreamId(u64::from_be_bytes(reader.array("stream")?)),
        // The successor is sent too, for instance in a receipt.
        sequence: Sequence(reader.bounded("sequence", SEQUENCE_MAX)?),
        epoch: Epoch(reader.bounded("epoch", u64::from(u32::MAX))? as u32),
        media_time: MediaTime::from_micros(reader.varint("media time")?),
        importance,
        layer,
        depends_on: reader.bounded("depends-on", u64::from(u32::MAX))? as u32,
        deadline: match reader.varint("budget")? {
            0 => Instant::NEVER,
            micros => now + Duration::from_micros(micros - 1),
        },
        flags,
    };
    let payload_bytes = reader.bounded("payload length", ADU_PAYLOAD_BYTES_MAX as u64)? as usize;
    let before = reader.remaining();
    if bits & TRACED != 0 {
        trace::skip(&mut reader)?;
    }
    Ok(Decoded {
        header,
        payload_bytes,
        header_bytes: bytes.len() - reader.remaining(),
        trace_bytes: before - reader.remaining(),
    })
}
