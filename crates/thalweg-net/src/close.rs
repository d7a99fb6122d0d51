//! Why a connection or a stream ended, as QUIC writes it.
//!
//! *The idea.* The codes and their numbers are [`thalweg_core::hop`]'s, for every transport has the same; here they
//! become QUIC's integers.
//!
//! *What it does not do.* It closes nothing.
//!
//! *Sources.* docs/protocol.md §2.3; RFC 9000 §16.

use iroh::endpoint::VarInt;
pub use thalweg_core::hop::{CloseCode, StreamCode};

/// A code as QUIC carries it.
pub(crate) trait ToVarInt {
    fn varint(self) -> VarInt;
}

impl ToVarInt for CloseCode {
    fn varint(self) -> VarInt {
        varint(self.number())
    }
}

impl ToVarInt for StreamCode {
    fn varint(self) -> VarInt {
        varint(self.number())
    }
}

/// A number made by hand above 2⁶² − 1 cannot be sent; the largest that can says as much.
fn varint(number: u64) -> VarInt {
    VarInt::from_u64(number).unwrap_or(VarInt::MAX)
}
