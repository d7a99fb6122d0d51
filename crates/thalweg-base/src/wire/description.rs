//! The description of a stream, signed by its source and flooded beside its record.
//!
//! *The idea.* A record of an earlier version has no room for it: so it is a message of its own,
//! which earlier versions skip. It holds for the life of its stream and never changes, therefore it
//! has no number. Its fields are tagged: a reader skips those that it does not know, and passes on
//! the bytes that were signed.
//!
//! *What it does not do.* It makes and checks no signature.
//!
//! *Sources.* docs/reference/protocol.md §5.1.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Reader, WireError, Write};
use crate::description::Description;
use crate::id::{NodeId, StreamId};
use crate::limits::{DESCRIPTION_BYTES_MAX, DESCRIPTION_FIELDS_MAX, UNDESCRIBED_MAX};

/// The tag of the encoding.
const ENCODING: u64 = 1;

/// The tag of the schema.
const SCHEMA: u64 = 2;

/// The tag of one label, `key=value`.
const LABEL: u64 = 3;

/// What a node says of one of its streams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// The node that publishes the stream.
    pub node: NodeId,
    /// The stream.
    pub stream: StreamId,
    /// What it carries.
    pub description: Description,
}

/// Returns the description in the form that is signed and flooded.
///
/// Fails   panics if the description is at fault (the caller checks it)
pub fn encode(described: &Described) -> Vec<u8> {
    let description = &described.description;
    assert!(description.fault().is_none(), "a description at fault");
    let mut out = Vec::with_capacity(128);
    out.extend_from_slice(&described.node.0);
    out.extend_from_slice(&described.stream.0.to_be_bytes());
    let texts = [
        (ENCODING, &description.encoding),
        (SCHEMA, &description.schema),
    ];
    let texts = texts.into_iter().filter(|(_, text)| !text.is_empty());
    out.varint((texts.clone().count() + description.labels.len()) as u64);
    for (tag, text) in texts {
        out.varint(tag);
        out.blob(text.as_bytes());
    }
    for (key, value) in &description.labels {
        out.varint(LABEL);
        out.blob([key, "=", value].concat().as_bytes());
    }
    out
}

/// Reads a description; skips fields of later versions.
pub fn decode(bytes: &[u8]) -> Result<Described, WireError> {
    let mut reader = Reader::new(bytes);
    let node = NodeId(reader.array("node")?);
    let stream = StreamId(u64::from_be_bytes(reader.array("stream")?));
    let mut description = Description::default();
    for _ in 0..reader.count("fields", DESCRIPTION_FIELDS_MAX)? {
        let tag = reader.varint("field")?;
        let value = reader.blob("field", DESCRIPTION_BYTES_MAX)?;
        match tag {
            ENCODING => set(
                &mut description.encoding,
                text(value, "encoding")?,
                "encoding",
            )?,
            SCHEMA => set(&mut description.schema, text(value, "schema")?, "schema")?,
            LABEL => {
                let label = text(value, "label")?.split_once('=');
                let (key, value) = label.ok_or(WireError::Malformed("label"))?;
                let before = description.labels.insert(key.into(), value.into());
                if before.is_some() {
                    return Err(WireError::Malformed("label"));
                }
            }
            _ => {}
        }
    }
    reader.finish()?;
    if let Some((key, _)) = description.fault() {
        return Err(WireError::Malformed(key));
    }
    Ok(Described {
        node,
        stream,
        description,
    })
}

/// Sets a field that may occur once.
fn set(field: &mut String, value: &str, what: &'static str) -> Result<(), WireError> {
    if !field.is_empty() || value.is_empty() {
        return Err(WireError::Malformed(what));
    }
    *field = value.to_string();
    Ok(())
}

fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, WireError> {
    core::str::from_utf8(bytes).map_err(|_| WireError::Malformed(what))
}

pub(super) fn encode_undescribed(streams: &[StreamId], out: &mut Vec<u8>) {
    assert!(streams.len() <= UNDESCRIBED_MAX, "above the limit");
    out.varint(streams.len() as u64);
    for stream in streams {
        out.extend_from_slice(&stream.0.to_be_bytes());
    }
}

pub(super) fn decode_undescribed(reader: &mut Reader<'_>) -> Result<Vec<StreamId>, WireError> {
    let count = reader.count("streams", UNDESCRIBED_MAX)?;
    let mut streams: Vec<StreamId> = Vec::with_capacity(count);
    for _ in 0..count {
        let stream = StreamId(u64::from_be_bytes(reader.array("stream")?));
        // Strictly ascending, so that no description is requested twice.
        if streams.last().is_some_and(|last| last.0 >= stream.0) {
            return Err(WireError::Malformed("order of streams"));
        }
        streams.push(stream);
    }
    Ok(streams)
}
