//! What is sent, and the words for how and for what became of it.

use bytes::Bytes;
pub use thalweg_core::hop::{Carriage, OrderedId, Outcome, SendOptions};

use super::body::Body;

/// The payload of an ADU that is to be sent.
#[derive(Debug)]
pub enum Payload {
    /// All of it; handed to QUIC as it is.
    Whole(Bytes),
    /// As it arrives from another link: each chunk is sent on when it comes (cut-through), none is copied.
    Arriving(Body),
}

impl Payload {
    /// Returns how many bytes it will have.
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
