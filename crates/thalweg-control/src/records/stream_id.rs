//! Ids of streams: digests that depend on the source's key.

use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::wire::record::{Announced, Record};

use crate::facts::Keys;

/// Domain separator in front of what a stream id is a digest of.
const STREAM_CONTEXT: &[u8] = b"thalweg stream v1";

/// Returns the name of a stream with an id other than the digest of the record's node, name and start.
pub(crate) fn borrowed_stream<'a>(record: &'a Record, keys: &dyn Keys) -> Option<&'a StreamName> {
    let own = |stream: &Announced| stream_id(record.node, &stream.name, stream.start, keys);
    let borrowed = record
        .streams
        .iter()
        .find(|stream| stream.id != own(stream));
    borrowed.map(|stream| &stream.name)
}

/// Returns the eight bytes that identify a stream on the wire.
///
/// They depend on the source's key, so no other node can announce, or plan, a stream with this id.
pub(crate) fn stream_id(
    node: NodeId,
    name: &StreamName,
    start: [u8; 8],
    keys: &dyn Keys,
) -> StreamId {
    let message = [STREAM_CONTEXT, &node.0, &start, name.as_str().as_bytes()].concat();
    StreamId(u64::from_be_bytes(keys.digest(&message)))
}
