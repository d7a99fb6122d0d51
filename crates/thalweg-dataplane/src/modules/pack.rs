//! Compresses payloads: the DO half, for links that are slower than the processor.
//!
//! *The idea.* The payload is compressed into the module's scratch buffer, which is reused like the
//! compressor's tables; if the result is shorter, it is copied back into the packet's own buffer. A
//! payload that does not shrink is sent unchanged behind a one-byte mark. If zstd shrinks it by
//! more than `limits::UNPACK_FACTOR_MAX`, lz4 is used: its maximum factor of 255 is within that
//! limit: a black frame must not be sent uncompressed because it compresses too well.
//!
//! *What it does not do.* It leaves packed ADUs unchanged, and refuses sealed ones, which cannot
//! shrink.
//!
//! *Sources.* spec PA (compression adapters); `lz4_flex::block`, `zstd::bulk`.

use core::fmt;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use thalweg_base::adu::Flags;
use thalweg_base::event::DropCause;
use thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;
use zstd::bulk::Compressor;

use super::packed::{PACKED_PREFIX_BYTES_MAX, Packer, Prefix, is_allowed};
use crate::module::{Context, Module, Verdict};
use crate::packet::{NoRoom, Packet, Pool};

/// zstd's fastest ordinary level: a live stream has milliseconds, not seconds.
const ZSTD_LEVEL: i32 = 1;

/// Compresses payloads.
pub struct Pack {
    packer: Packer,
    table: CompressTable,
    zstd: Option<Compressor<'static>>,
    scratch: Vec<u8>,
}

impl Pack {
    /// Returns a module that compresses by `packer`.
    pub fn new(packer: Packer) -> Self {
        let zstd = (packer == Packer::Zstd).then(|| {
            Compressor::new(ZSTD_LEVEL).expect("level 1 is within the range that zstd documents")
        });
        Self {
            packer,
            table: CompressTable::default(),
            zstd,
            scratch: Vec::new(),
        }
    }

    /// Compresses into the scratch buffer, prefix included, and returns the length; `None` if that
    /// does not pay.
    fn compress(&mut self, payload: &[u8]) -> Option<usize> {
        let len = self.compress_by(self.packer, payload)?;
        if len >= payload.len() || is_allowed(payload.len(), len) {
            return (len < payload.len()).then_some(len);
        }
        let len = self.compress_by(Packer::Lz4, payload)?;
        (len < payload.len() && is_allowed(payload.len(), len)).then_some(len)
    }

    fn compress_by(&mut self, packer: Packer, payload: &[u8]) -> Option<usize> {
        let mut prefix = [0; PACKED_PREFIX_BYTES_MAX];
        let prefix_len = Prefix::Packed {
            packer,
            original_bytes: payload.len(),
        }
        .encode(&mut prefix);
        // lz4 needs space for its worst case, which exceeds zstd's for all but the shortest
        // payloads.
        let room = prefix_len + get_maximum_output_size(payload.len());
        if self.scratch.len() < room {
            self.scratch.resize(room, 0);
        }
        self.scratch[..prefix_len].copy_from_slice(&prefix[..prefix_len]);
        let out = &mut self.scratch[prefix_len..];
        let data_len = match (packer, &mut self.zstd) {
            (Packer::Zstd, Some(zstd)) => zstd.compress_to_buffer(payload, out).ok()?,
            _ => compress_into_with_table(payload, out, &mut self.table).ok()?,
        };
        Some(prefix_len + data_len)
    }

    fn pack(&mut self, packet: &mut Packet, pool: &Pool) -> Result<(), NoRoom> {
        if let Some(len) = self.compress(packet.payload()) {
            return packet.replace(&self.scratch[..len], pool);
        }
        let mut mark = [0; PACKED_PREFIX_BYTES_MAX];
        let mark_len = Prefix::Raw.encode(&mut mark);
        packet.grow_front(mark_len, pool)?[..mark_len].copy_from_slice(&mark[..mark_len]);
        Ok(())
    }
}

impl Module for Pack {
    fn name(&self) -> &'static str {
        "pack"
    }

    fn forward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        if packet.header.flags.contains(Flags::PACKED) {
            return Verdict::Pass;
        }
        if packet.header.flags.contains(Flags::SEALED) {
            return Verdict::Discard(DropCause::Malformed);
        }
        if packet.payload().len() > ADU_PAYLOAD_BYTES_MAX {
            return Verdict::Discard(DropCause::Overflow);
        }
        match self.pack(packet, cx.pool) {
            // An incompressible ADU of the maximum length has no space for its mark.
            Ok(()) if packet.payload().len() > ADU_PAYLOAD_BYTES_MAX => {
                Verdict::Discard(DropCause::Overflow)
            }
            Ok(()) => {
                packet.header.flags = packet.header.flags.with(Flags::PACKED);
                Verdict::Pass
            }
            Err(no_room) => Verdict::Discard(no_room.cause()),
        }
    }
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pack")
            .field("packer", &self.packer)
            .finish_non_exhaustive()
    }
}
