//! Stamps on the wire: behind the header of a traced ADU, and in its sink's report.
//!
//! *The idea.* Four times in microseconds, each in at most four bytes: a time above 2³⁰ − 1 µs,
//! eighteen minutes, is capped to that. A count comes first, so a reader knows at once how many
//! bytes it needs, and the count is compared with the longest path before memory is reserved.
//!
//! *What it does not do.* It does not check whether a node may report a stamp.
//!
//! *Sources.* docs/reference/protocol.md §3.5, §4.7.

use alloc::vec::Vec;

use super::{Reader, VARINT_MAX, WireError, Write};
use crate::id::{Epoch, NodeId, Sequence, StreamId};
use crate::limits::{PATH_NODES_MAX, TRACE_STAMPS_MAX};
use crate::time::Duration;
use crate::trace::{Stamp, Traced};

/// The longest time that a stamp can hold.
const MICROS_MAX: u64 = (1 << 30) - 1;

/// Appends stamps, at least one.
///
/// Fails   panics above `limits::TRACE_STAMPS_MAX` (a caller's bug)
pub(super) fn encode(before: &[Stamp], last: &Stamp, out: &mut Vec<u8>) {
    let count = before.len() + 1;
    assert!(count <= TRACE_STAMPS_MAX, "stamps above the limit");
    out.push(count as u8);
    for stamp in before.iter().chain([last]) {
        encode_one(stamp, out);
    }
}

fn encode_one(stamp: &Stamp, out: &mut Vec<u8>) {
    for time in [stamp.inside, stamp.lift, stamp.wait, stamp.line] {
        out.varint(time.as_micros().min(MICROS_MAX));
    }
}

/// Reads what [`encode`] wrote.
pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Vec<Stamp>, WireError> {
    let count = count(reader, TRACE_STAMPS_MAX)?;
    (0..count).map(|_| one(reader)).collect()
}

/// Skips stamps.
pub(super) fn skip(reader: &mut Reader<'_>) -> Result<(), WireError> {
    let count = count(reader, TRACE_STAMPS_MAX)?;
    for _ in 0..count {
        one(reader)?;
    }
    Ok(())
}

fn count(reader: &mut Reader<'_>, limit: usize) -> Result<usize, WireError> {
    match usize::from(reader.byte("stamps")?) {
        0 => Err(WireError::Malformed("stamps")),
        count if count <= limit => Ok(count),
        count => Err(WireError::TooLarge {
            what: "stamps",
            value: count as u64,
            limit: limit as u64,
        }),
    }
}

fn one(reader: &mut Reader<'_>) -> Result<Stamp, WireError> {
    let mut time = || {
        let micros = reader.bounded("stamp", MICROS_MAX)?;
        Ok(Duration::from_micros(micros))
    };
    Ok(Stamp {
        inside: time()?,
        lift: time()?,
        wait: time()?,
        line: time()?,
    })
}

/// Appends what follows the stream of a trace.
pub(super) fn encode_traced(traced: &Traced, out: &mut Vec<u8>) {
    let (path, stamps) = (&traced.path, &traced.stamps);
    assert!(
        stamps.len() <= PATH_NODES_MAX && (path.is_empty() || path.len() == stamps.len()),
        "a path above the limit, or not of the nodes of its stamps"
    );
    out.varint(u64::from(traced.epoch.0));
    out.varint(traced.sequence.0);
    out.varint(if traced.budget.is_never() {
        0
    } else {
        traced.budget.as_micros().saturating_add(1).min(VARINT_MAX)
    });
    out.push(stamps.len() as u8);
    for stamp in stamps {
        encode_one(stamp, out);
    }
    out.push(u8::from(!path.is_empty()));
    for node in path {
        out.extend_from_slice(&node.0);
    }
}

/// Reads what [`encode_traced`] wrote.
pub(super) fn decode_traced(
    reader: &mut Reader<'_>,
    stream: StreamId,
) -> Result<Traced, WireError> {
    let epoch = Epoch(reader.bounded("epoch", u64::from(u32::MAX))? as u32);
    let sequence = Sequence(reader.varint("sequence")?);
    let budget = match reader.varint("budget")? {
        0 => Duration::NEVER,
        micros => Duration::from_micros(micros - 1),
    };
    let count = count(reader, PATH_NODES_MAX)?;
    let stamps = (0..count).map(|_| one(reader)).collect::<Result<_, _>>()?;
    let path = if super::record::flag(reader, "path")? {
        let node = |_| reader.array("path").map(NodeId);
        (0..count).map(node).collect::<Result<_, _>>()?
    } else {
        Vec::new()
    };
    Ok(Traced {
        stream,
        epoch,
        sequence,
        budget,
        path,
        stamps,
    })
}
