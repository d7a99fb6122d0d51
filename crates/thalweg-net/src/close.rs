//! Close codes of connections and streams as QUIC integers.
//!
//! *The idea.* The codes and their numbers are [`thalweg_link::hop`]'s, since all transports share
//! them; here they become QUIC's variable-length integers.
//!
//! *What it does not do.* It closes nothing.
//!
//! *Sources.* docs/reference/protocol.md §2.3; RFC 9000 §16.

use iroh::endpoint::VarInt;
pub use thalweg_link::hop::{CloseCode, StreamCode};

/// Converts a code to a QUIC variable-length integer.
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

/// A number above 2⁶² − 1 has no encoding (RFC 9000 §16); the largest that has stands for it.
fn varint(number: u64) -> VarInt {
    VarInt::from_u64(number).unwrap_or(VarInt::MAX)
}
