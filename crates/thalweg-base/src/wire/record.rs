//! A node's record: what the node is, its neighbours and the streams it publishes, signed by its key.
//!
//! *The idea.* Records are flooded: each node keeps the newest of every other (largest
//! [`Record::sequence`]) and builds the planner's topology from them. The signature covers the
//! encoded bytes, so a relay forwards exactly what was signed and can change nothing.
//!
//! *What it does not do.* It makes and checks no signature (`thalweg-net` has the keys).
//!
//! *Sources.* docs/reference/protocol.md §5.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Reader, VARINT_MAX, WireError, Write};
use crate::id::{NodeId, StreamId, StreamName};
use crate::limits::{
    LAYERS_MAX, NEIGHBOURS_MAX, NODE_NAME_BYTES_MAX, STREAM_NAME_BYTES_MAX, STREAMS_PER_NODE_MAX,
};
use crate::time::Duration;
use crate::units::Bitrate;

/// The longest round trip that the clock's nanoseconds hold; a longer one could not be forwarded
/// unchanged.
const RTT_MICROS_MAX: u64 = Duration::NEVER.as_micros() - 1;

/// What a node announces about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The node.
    pub node: NodeId,
    /// Grows with each record of this node, also across restarts.
    pub sequence: u64,
    /// The name that its owner gave it.
    pub name: String,
    /// The number of adapters that it can run.
    pub slots: u32,
    /// The X25519 public key to seal messages for this node only.
    pub box_key: [u8; 32],
    /// The nodes that it is connected with, as it measures them.
    pub neighbours: Vec<Neighbour>,
    /// The streams that it publishes.
    pub streams: Vec<Announced>,
}

impl Record {
    /// Returns the node's entry for its link with another, if there is one.
    ///
    /// Cost    O(neighbours)
    pub fn neighbour(&self, node: NodeId) -> Option<&Neighbour> {
        self.neighbours.iter().find(|there| there.node == node)
    }

    /// Returns whether the record has its maximum of neighbours, so that the node may have more.
    pub const fn is_full(&self) -> bool {
        self.neighbours.len() >= NEIGHBOURS_MAX
    }
}

/// One direction of a link, from the record's node to `node`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The other node.
    pub node: NodeId,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// Packets lost per million sent.
    pub loss_ppm: u32,
    /// The rate that the link can carry, in even numbers of bits a second; zero if unknown.
    pub rate: Bitrate,
    /// Whether the rate was measured, and no operator states a lower one.
    pub is_measured: bool,
    /// Whether the path is safe from eavesdroppers.
    pub secure: bool,
}

/// A stream that can be subscribed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Its eight bytes on the wire.
    pub id: StreamId,
    /// Random bytes drawn at its start; with the record's node and the name they hash to the id, so
    /// anyone can check it.
    pub start: [u8; 8],
    /// Its name.
    pub name: StreamName,
    /// Whether its payload is for trusted nodes only.
    pub confidential: bool,
    /// The rate of each layer, the base layer first.
    pub layers: Vec<Bitrate>,
}

/// Returns the record in the form that is signed and flooded.
///
/// Fails   panics if a list is above its limit (the caller keeps to `limits`)
pub fn encode(record: &Record) -> Vec<u8> {
    assert!(
        record.neighbours.len() <= NEIGHBOURS_MAX,
        "neighbours above the limit"
    );
    assert!(
        record.streams.len() <= STREAMS_PER_NODE_MAX,
        "streams above the limit"
    );
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(&record.node.0);
    out.varint(record.sequence);
    out.blob(record.name.as_bytes());
    out.varint(u64::from(record.slots));
    out.extend_from_slice(&record.box_key);
    out.varint(record.neighbours.len() as u64);
    for neighbour in &record.neighbours {
        out.extend_from_slice(&neighbour.node.0);
        out.varint(neighbour.rtt.as_micros().min(RTT_MICROS_MAX));
        out.varint(u64::from(neighbour.loss_ppm));
        // The last bit of a rate is insignificant, and another byte would need another version of
        // the format.
        let rate = neighbour.rate.as_bps().min(VARINT_MAX) & !1;
        out.varint(rate | u64::from(neighbour.is_measured));
        out.push(u8::from(neighbour.secure));
    }
    out.varint(record.streams.len() as u64);
    for stream in &record.streams {
        out.extend_from_slice(&stream.id.0.to_be_bytes());
        out.extend_from_slice(&stream.start);
        out.blob(stream.name.as_str().as_bytes());
        out.push(u8::from(stream.confidential));
        out.varint(stream.layers.len() as u64);
        for rate in &stream.layers {
            out.varint(rate.as_bps().min(VARINT_MAX));
        }
    }
    out
}

/// Reads a record.
pub fn decode(bytes: &[u8]) -> Result<Record, WireError> {
    let mut reader = Reader::new(bytes);
    let record = Record {
        node: NodeId(reader.array("node")?),
        sequence: reader.varint("record sequence")?,
        name: reader.text("node name", NODE_NAME_BYTES_MAX)?,
        slots: reader.bounded("slots", u64::from(u32::MAX))? as u32,
        box_key: reader.array("box key")?,
        neighbours: neighbours(&mut reader)?,
        streams: streams(&mut reader)?,
    };
    reader.finish()?;
    Ok(record)
}

fn neighbours(reader: &mut Reader<'_>) -> Result<Vec<Neighbour>, WireError> {
    let count = reader.count("neighbours", NEIGHBOURS_MAX)?;
    let mut neighbours = Vec::with_capacity(count);
    for _ in 0..count {
        let node = NodeId(reader.array("neighbour")?);
        let rtt = Duration::from_micros(reader.bounded("round-trip time", RTT_MICROS_MAX)?);
        let loss_ppm = reader.bounded("loss", 1_000_000)? as u32;
        let rate = reader.varint("rate")?;
        neighbours.push(Neighbour {
            node,
            rtt,
            loss_ppm,
            rate: Bitrate::from_bps(rate & !1),
            is_measured: rate & 1 == 1,
            secure: flag(reader, "secure")?,
        });
    }
    Ok(neighbours)
}

fn streams(reader: &mut Reader<'_>) -> Result<Vec<Announced>, WireError> {
    let count = reader.count("streams", STREAMS_PER_NODE_MAX)?;
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(Announced {
            id: StreamId(u64::from_be_bytes(reader.array("stream")?)),
            start: reader.array("start")?,
            name: stream_name(reader)?,
            confidential: flag(reader, "confidential")?,
            layers: layers(reader)?,
        });
    }
    Ok(streams)
}

fn layers(reader: &mut Reader<'_>) -> Result<Vec<Bitrate>, WireError> {
    let count = reader.count("layers", LAYERS_MAX)?;
    (0..count)
        .map(|_| reader.varint("layer rate").map(Bitrate::from_bps))
        .collect()
}

/// Reads a byte that is 0 or 1.
pub(super) fn flag(reader: &mut Reader<'_>, what: &'static str) -> Result<bool, WireError> {
    match reader.byte(what)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(WireError::Malformed(what)),
    }
}

/// Reads a stream's name.
pub(super) fn stream_name(reader: &mut Reader<'_>) -> Result<StreamName, WireError> {
    let name = reader.text("stream name", STREAM_NAME_BYTES_MAX)?;
    name.parse()
        .map_err(|_| WireError::Malformed("stream name"))
}
