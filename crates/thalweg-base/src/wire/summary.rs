//! Two messages between new neighbours: the records that a node has, by node and sequence, and
//! those that the other lacks.
//!
//! *The idea.* A record has some 400 bytes, a node and a number sixteen. Nodes are named by the
//! first eight bytes of their keys, in ascending order: so an answer cannot request a record twice.
//!
//! *What it does not do.* It signs nothing: each record sent in answer has its own node's signature.
//!
//! *Sources.* docs/reference/protocol.md §5, "Meeting".

use alloc::vec::Vec;

use super::{Reader, WireError, Write};
use crate::id::NodeId;
use crate::limits::SUMMARY_NODES_MAX;

/// The first bytes of a node's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix(pub [u8; 8]);

impl From<NodeId> for Prefix {
    fn from(node: NodeId) -> Self {
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&node.0[..8]);
        Self(prefix)
    }
}

/// The sequence numbers of the records that a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The node, and its record's sequence number.
    pub records: Vec<(Prefix, u64)>,
}

/// The answer to one [`Summary`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The nodes with a record that is missing or older.
    pub nodes: Vec<Prefix>,
}

pub(super) fn encode_summary(summary: &Summary, out: &mut Vec<u8>) {
    assert!(
        summary.records.len() <= SUMMARY_NODES_MAX,
        "above the limit"
    );
    out.varint(summary.records.len() as u64);
    for (Prefix(prefix), sequence) in &summary.records {
        out.extend_from_slice(prefix);
        out.varint(*sequence);
    }
}

pub(super) fn decode_summary(reader: &mut Reader<'_>) -> Result<Summary, WireError> {
    let count = reader.count("records", SUMMARY_NODES_MAX)?;
    let mut records = Vec::with_capacity(count);
    let mut last = None;
    for _ in 0..count {
        let prefix = next_after(&mut last, reader)?;
        records.push((prefix, reader.varint("sequence")?));
    }
    Ok(Summary { records })
}

pub(super) fn encode_lack(lack: &Lack, out: &mut Vec<u8>) {
    assert!(lack.nodes.len() <= SUMMARY_NODES_MAX, "above the limit");
    out.varint(lack.nodes.len() as u64);
    let nodes = lack.nodes.iter();
    nodes.for_each(|Prefix(prefix)| out.extend_from_slice(prefix));
}

pub(super) fn decode_lack(reader: &mut Reader<'_>) -> Result<Lack, WireError> {
    let count = reader.count("nodes", SUMMARY_NODES_MAX)?;
    let mut nodes = Vec::with_capacity(count);
    let mut last = None;
    for _ in 0..count {
        nodes.push(next_after(&mut last, reader)?);
    }
    Ok(Lack { nodes })
}

fn next_after(last: &mut Option<Prefix>, reader: &mut Reader<'_>) -> Result<Prefix, WireError> {
    let prefix = Prefix(reader.array("node")?);
    // Strictly ascending, so that no node occurs twice.
    if last.replace(prefix) >= Some(prefix) {
        return Err(WireError::Malformed("order of nodes"));
    }
    Ok(prefix)
}
