//! Three hop-by-hop messages: a sink's receipt, advice about a silent node, both towards the
//! source; and the source's own silence, towards the sinks.
//!
//! *The idea.* Receipts and advice travel like accounts, from each node of a plan to its
//! `previous`, so they need neither route nor signature: a dozen bytes, as trustworthy as the
//! neighbour that sends them. A receipt is a set and no difference, so a lost or late one does no
//! harm. Silence travels like ADUs.
//!
//! *What it does not do.* It trusts nothing: `thalweg_control::control` checks which neighbour sent it.
//!
//! *Sources.* docs/reference/protocol.md §4.4, §4.5, §4.8.

use alloc::vec::Vec;

use super::{Reader, VARINT_MAX, WireError, Write};
use crate::id::{Epoch, StreamId};
use crate::limits::{PATH_NODES_MAX, RECEIPT_RANGES_MAX};
use crate::seen::Held;

/// What the sink of a plan has of its stream, whichever plan delivered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The stream.
    pub stream: StreamId,
    /// The plan along which the receipt travels.
    pub epoch: Epoch,
    /// When the sink began to record, in milliseconds since 1970; larger after a restart.
    pub since: u64,
    /// The sequences that it has.
    pub held: Held,
}

/// A node of a plan hears nothing from the node after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// The stream.
    pub stream: StreamId,
    /// The plan.
    pub epoch: Epoch,
    /// Hops from the sender back to that node; 0 is the sender itself.
    pub distance: u8,
    /// Whether it may still answer: another path is worth preparing, but none is worth leaving.
    pub is_doubt: bool,
}

/// The source of a plan does not answer its next node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The stream.
    pub stream: StreamId,
    /// The plan.
    pub epoch: Epoch,
}

pub(super) fn encode_receipt(receipt: &Receipt, out: &mut Vec<u8>) {
    let ranges = &receipt.held.ranges;
    assert!(ranges.len() <= RECEIPT_RANGES_MAX, "ranges above the limit");
    out.extend_from_slice(&receipt.stream.0.to_be_bytes());
    out.varint(u64::from(receipt.epoch.0));
    out.varint(receipt.since);
    out.varint(receipt.held.floor);
    out.varint(ranges.len() as u64);
    // Gaps and runs instead of bounds: small numbers, so short varints.
    let mut at = receipt.held.floor;
    for range in ranges {
        out.varint(range.start - at);
        out.varint(range.end - range.start);
        at = range.end;
    }
}

pub(super) fn decode_receipt(reader: &mut Reader<'_>) -> Result<Receipt, WireError> {
    let stream = StreamId(u64::from_be_bytes(reader.array("stream")?));
    let epoch = Epoch(reader.bounded("epoch", u64::from(u32::MAX))? as u32);
    let since = reader.varint("since")?;
    let floor = reader.varint("floor")?;
    let count = reader.count("ranges", RECEIPT_RANGES_MAX)?;
    let mut ranges = Vec::with_capacity(count);
    let mut at = floor;
    for _ in 0..count {
        // The sum of three varints is far below what eight bytes hold.
        let start = at + reader.varint("gap")?;
        let end = start + reader.varint("run")?;
        if start == at || end == start || end > VARINT_MAX {
            return Err(WireError::Malformed("ranges"));
        }
        ranges.push(start..end);
        at = end;
    }
    Ok(Receipt {
        stream,
        epoch,
        since,
        held: Held { floor, ranges },
    })
}

pub(super) fn encode_advice(advice: &Advice, out: &mut Vec<u8>) {
    out.extend_from_slice(&advice.stream.0.to_be_bytes());
    out.varint(u64::from(advice.epoch.0));
    out.push(advice.distance);
}

pub(super) fn decode_advice(is_doubt: bool, reader: &mut Reader<'_>) -> Result<Advice, WireError> {
    let stream = StreamId(u64::from_be_bytes(reader.array("stream")?));
    let epoch = Epoch(reader.bounded("epoch", u64::from(u32::MAX))? as u32);
    let distance = reader.byte("distance")?;
    if usize::from(distance) >= PATH_NODES_MAX - 1 {
        return Err(WireError::Malformed("distance"));
    }
    Ok(Advice {
        stream,
        epoch,
        distance,
        is_doubt,
    })
}

pub(super) fn encode_silence(silence: Silence, out: &mut Vec<u8>) {
    out.extend_from_slice(&silence.stream.0.to_be_bytes());
    out.varint(u64::from(silence.epoch.0));
}

pub(super) fn decode_silence(reader: &mut Reader<'_>) -> Result<Silence, WireError> {
    let stream = StreamId(u64::from_be_bytes(reader.array("stream")?));
    let epoch = Epoch(reader.bounded("epoch", u64::from(u32::MAX))? as u32);
    Ok(Silence { stream, epoch })
}
