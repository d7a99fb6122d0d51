//! Decompresses payloads: the UNDO half of `pack`.
//!
//! *The idea.* The prefix tells the original length; a buffer of that length is filled in one call,
//! and a result that does not fill it exactly is discarded. Payloads that are not packed pass.
//!
//! *What it does not do.* It cannot unpack a payload that is still sealed: that is an error of the
//! plan, counted as malformed.

use core::fmt;

use thalweg_base::adu::Flags;
use thalweg_base::event::DropCause;
use zstd::bulk::Decompressor;

use super::packed::{Packer, Prefix};
use crate::module::{Context, Module, Verdict};
use crate::packet::{Packet, Pool};

/// Decompresses payloads.
pub struct Unpack {
    zstd: Decompressor<'static>,
}

impl Unpack {
    /// Returns a module that decompresses all formats of `pack`.
    pub fn new() -> Self {
        Self {
            zstd: Decompressor::new()
                .expect("a decompressor without a dictionary has nothing to refuse"),
        }
    }

    fn unpack(&mut self, packet: &mut Packet, pool: &Pool) -> Result<(), DropCause> {
        let packed = packet.payload();
        let (prefix, data) = Prefix::decode(packed).ok_or(DropCause::Malformed)?;
        let Prefix::Packed {
            packer,
            original_bytes,
        } = prefix
        else {
            let mark_len = packed.len() - data.len();
            packet.trim_front(mark_len);
            return Ok(());
        };
        let mut whole = Packet::uninit(packet.header, original_bytes, pool)
            .map_err(|no_room| no_room.cause())?;
        let out = whole.payload_mut(pool).map_err(|no_room| no_room.cause())?;
        let filled = match packer {
            Packer::Lz4 => lz4_flex::block::decompress_into(data, out).ok(),
            Packer::Zstd => self.zstd.decompress_to_buffer(data, out).ok(),
        };
        if filled != Some(original_bytes) {
            return Err(DropCause::Malformed);
        }
        packet.adopt(whole);
        Ok(())
    }
}

impl Default for Unpack {
    fn default() -> Self {
        Self::new()
    }
}

impl Module for Unpack {
    fn name(&self) -> &'static str {
        "unpack"
    }

    fn forward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        if packet.header.flags.contains(Flags::SEALED) {
            return Verdict::Discard(DropCause::Malformed);
        }
        if !packet.header.flags.contains(Flags::PACKED) {
            return Verdict::Pass;
        }
        match self.unpack(packet, cx.pool) {
            Ok(()) => {
                packet.header.flags = packet.header.flags.without(Flags::PACKED);
                Verdict::Pass
            }
            Err(cause) => Verdict::Discard(cause),
        }
    }
}

impl fmt::Debug for Unpack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpack").finish_non_exhaustive()
    }
}
