//! Encoding of a transfer's messages, the payloads of its streams' ADUs.
//!
//! ```text
//! parcel   = 0:u8  version:u8 = 1  log₂ of the block:u8  manifest bytes:(i)  bytes of all files:(i)
//!            count:(i) (node id:32)*count
//!          | 1:u8  offset:(i)  part of the manifest
//!          | 2:u8  block:(i)   its bytes
//! receipt  = version:u8 = 1  stream id:u64  next:(i)  state
//! state    = 0:u8  has:(i)                                        bytes of the manifest
//!          | 1:u8  bytes:(i)  count:(i) (gap:(i)  length:(i))*count        verified so far; missing blocks
//!          | 2:u8                                                 whole
//!          | 3:u8  reason:text                                    refused
//! ```
//!
//! Decoders are total: any bytes are a value or an error, and allocations are bounded by the
//! input's size.
//!
//! *Sources.* docs/concepts/files.md §6.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use bytes::Bytes;
use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::limits::{
    TEXT_BYTES_MAX, TRANSFER_BLOCK_BYTES_MAX, TRANSFER_BLOCKS_MAX, TRANSFER_MANIFEST_BYTES_MAX,
    TRANSFER_RANGES_MAX, TRANSFER_TARGETS_MAX,
};
use thalweg_base::wire::{Reader, VARINT_MAX, WireError, Write as _};

const VERSION: u8 = 1;

const OFFER: u8 = 0;
const MANIFEST: u8 = 1;
const BLOCK: u8 = 2;

/// A sender's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parcel {
    /// The size and the targets of a transfer.
    Offer {
        /// Block size as a power of two; another block size means another manifest.
        block_shift: u8,
        /// Size of the manifest in bytes.
        manifest_bytes: u64,
        /// Size of all files in bytes.
        bytes: u64,
        /// The receiving nodes.
        targets: Vec<NodeId>,
    },
    /// A part of the manifest.
    Manifest {
        /// Offset in the manifest, in bytes.
        offset: u64,
        /// The part.
        bytes: Bytes,
    },
    /// A block of a file.
    Block {
        /// The block's number.
        block: u32,
        /// The block's bytes.
        bytes: Bytes,
    },
}

/// A receiver's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The sender's stream that the receiver subscribes to now.
    pub stream: StreamId,
    /// One more than the largest sequence received of that stream.
    pub next: u64,
    /// The receiver's state.
    pub state: State,
}

/// A receiver's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is receiving the manifest.
    Manifest {
        /// Bytes received from its start.
        has: u64,
    },
    /// It has the manifest.
    Blocks {
        /// Verified bytes of files.
        bytes: u64,
        /// The first missing blocks, as ranges in order.
        missing: Vec<Range<u32>>,
    },
    /// It has everything, in its place and on the disk.
    Whole,
    /// It accepts nothing more, for this reason.
    Refused(String),
}

impl Parcel {
    /// Returns the parcel as bytes.
    ///
    /// Fails   panics above a bound of `limits` (a caller's bug)
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Offer {
                block_shift,
                manifest_bytes,
                bytes,
                targets,
            } => {
                assert!(
                    targets.len() <= TRANSFER_TARGETS_MAX,
                    "targets above the limit"
                );
                out.extend_from_slice(&[OFFER, VERSION, *block_shift]);
                out.varint(*manifest_bytes);
                out.varint(*bytes);
                out.varint(targets.len() as u64);
                for target in targets {
                    out.extend_from_slice(&target.0);
                }
            }
            Self::Manifest { offset, bytes } => {
                out.reserve(9 + bytes.len());
                out.push(MANIFEST);
                out.varint(*offset);
                out.extend_from_slice(bytes);
            }
            Self::Block { block, bytes } => {
                out.reserve(5 + bytes.len());
                out.push(BLOCK);
                out.varint(u64::from(*block));
                out.extend_from_slice(bytes);
            }
        }
        out
    }

    /// Decodes a parcel; its content is a slice of the payload, not a copy.
    pub fn decode(payload: &Bytes) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let rest = |reader: &Reader<'_>| payload.slice(payload.len() - reader.remaining()..);
        match reader.byte("kind")? {
            OFFER => Self::decode_offer(reader),
            MANIFEST => {
                let offset = reader.bounded("offset", TRANSFER_MANIFEST_BYTES_MAX as u64)?;
                let bytes = rest(&reader);
                Ok(Self::Manifest { offset, bytes })
            }
            BLOCK => {
                let block = reader.bounded("block", TRANSFER_BLOCKS_MAX as u64)? as u32;
                let bytes = rest(&reader);
                if bytes.len() > TRANSFER_BLOCK_BYTES_MAX {
                    return Err(WireError::TooLarge {
                        what: "block",
                        value: bytes.len() as u64,
                        limit: TRANSFER_BLOCK_BYTES_MAX as u64,
                    });
                }
                Ok(Self::Block { block, bytes })
            }
            kind => Err(WireError::Kind(u64::from(kind))),
        }
    }

    fn decode_offer(mut reader: Reader<'_>) -> Result<Self, WireError> {
        version(&mut reader)?;
        let block_shift = reader.byte("block")?;
        if block_shift > TRANSFER_BLOCK_BYTES_MAX.trailing_zeros() as u8 {
            return Err(WireError::Malformed("block"));
        }
        let manifest_bytes = reader.bounded("manifest", TRANSFER_MANIFEST_BYTES_MAX as u64)?;
        let bytes = reader.bounded("size", VARINT_MAX)?;
        let count = reader.count("targets", TRANSFER_TARGETS_MAX)?;
        let mut targets = Vec::with_capacity(count);
        for _ in 0..count {
            targets.push(NodeId(reader.array("target")?));
        }
        reader.finish()?;
        Ok(Self::Offer {
            block_shift,
            manifest_bytes,
            bytes,
            targets,
        })
    }
}

impl Receipt {
    /// Returns the receipt as bytes.
    ///
    /// Fails   panics above a bound of `limits` (a caller's bug)
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from([VERSION]);
        out.extend_from_slice(&self.stream.0.to_be_bytes());
        out.varint(self.next);
        match &self.state {
            State::Manifest { has } => {
                out.push(0);
                out.varint(*has);
            }
            State::Blocks { bytes, missing } => {
                assert!(
                    missing.len() <= TRANSFER_RANGES_MAX,
                    "ranges above the limit"
                );
                out.push(1);
                out.varint(*bytes);
                out.varint(missing.len() as u64);
                let mut end = 0;
                for range in missing {
                    out.varint(u64::from(range.start - end));
                    out.varint(u64::from(range.end - range.start));
                    end = range.end;
                }
            }
            State::Whole => out.push(2),
            State::Refused(reason) => {
                out.push(3);
                let end = reason.floor_char_boundary(TEXT_BYTES_MAX);
                out.blob(&reason.as_bytes()[..end]);
            }
        }
        out
    }

    /// Decodes a receipt.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        version(&mut reader)?;
        let stream = StreamId(u64::from_be_bytes(reader.array("stream")?));
        let next = reader.varint("next")?;
        let state = match reader.byte("state")? {
            0 => State::Manifest {
                has: reader.bounded("manifest", TRANSFER_MANIFEST_BYTES_MAX as u64)?,
            },
            1 => State::Blocks {
                bytes: reader.varint("bytes")?,
                missing: ranges(&mut reader)?,
            },
            2 => State::Whole,
            3 => State::Refused(reader.text("reason", TEXT_BYTES_MAX)?),
            kind => return Err(WireError::Kind(u64::from(kind))),
        };
        reader.finish()?;
        Ok(Self {
            stream,
            next,
            state,
        })
    }
}

fn version(reader: &mut Reader<'_>) -> Result<(), WireError> {
    match reader.byte("version")? {
        VERSION => Ok(()),
        other => Err(WireError::Version(other)),
    }
}

fn ranges(reader: &mut Reader<'_>) -> Result<Vec<Range<u32>>, WireError> {
    let count = reader.count("ranges", TRANSFER_RANGES_MAX)?;
    let mut ranges = Vec::with_capacity(count);
    let mut end = 0;
    for place in 0..count {
        let left = TRANSFER_BLOCKS_MAX as u64 - u64::from(end);
        let gap = reader.bounded("gap", left)? as u32;
        let length = reader.bounded("length", left - u64::from(gap))? as u32;
        // Ranges are neither empty nor adjacent, so that each set has one encoding.
        if length == 0 || (gap == 0 && place > 0) {
            return Err(WireError::Malformed("range"));
        }
        let start = end + gap;
        end = start + length;
        ranges.push(start..end);
    }
    Ok(ranges)
}
