//! Payloads to send, and the types for how they are sent and how they ended.

use bytes::Bytes;
pub use thalweg_link::hop::{Carriage, OrderedId, Outcome, SendOptions};

use super::body::Body;

/// The payload of an ADU to send.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a body in a box would cost each ADU an allocation to save one move"
)]
pub enum Payload {
    /// The whole payload; handed to the transport without a copy.
    Whole(Bytes),
    /// A payload still arriving from another link: each chunk is forwarded as it arrives
    /// (cut-through), without a copy.
    Arriving(Body),
}

impl Payload {
    /// Returns the payload's length, arrived or not.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Arriving(body) => body.remaining_bytes(),
        }
    }
}

impl From<Bytes> for Payload {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}
