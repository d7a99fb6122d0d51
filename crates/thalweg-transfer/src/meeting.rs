//! Messages between two nodes that prove to each other that they share a phrase.
//!
//! ```text
//! ask    = 0:u8  version:u8 = 1  PAKE message:33        hello
//!        | 1:u8  proof:32
//! answer = version:u8 = 1  stream id:u64  said          the stream of asks that is answered
//! said   = 0:u8  PAKE message:33                        hello
//!        | 1:u8  sealed:48                              admitted: the transfer's ids, encrypted
//!        | 2:u8  left:u8                                wrong phrase; remaining attempts
//!        | 3:u8  | 4:u8  | 5:u8                         dead, used, expired
//! ```
//!
//! A receiver asks on its own stream; a sender answers all of them on one. Each side repeats its
//! message when asked again, so losses do no harm.
//!
//! *What it does not do.* It has no cryptography: `thalweg-node` verifies the bytes.
//!
//! *Sources.* docs/concepts/files.md §7.

use alloc::vec::Vec;

use thalweg_base::id::StreamId;
use thalweg_base::wire::{Reader, WireError};

const VERSION: u8 = 1;

/// Bytes of a key exchange message: a side and a point.
pub const PAKE_BYTES: usize = 33;

/// Bytes of a proof: a hash.
pub const PROOF_BYTES: usize = 32;

/// Bytes of the encrypted answer to an admitted receiver: two ids and a tag.
pub const SEALED_BYTES: usize = 48;

/// A receiver's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Its half of the key exchange.
    Hello([u8; PAKE_BYTES]),
    /// Its proof that it has the phrase.
    Proof([u8; PROOF_BYTES]),
}

/// A sender's answer to one receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The stream on which the receiver asked.
    pub to: StreamId,
    /// The answer.
    pub said: Said,
}

/// The content of a sender's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Its half of the key exchange.
    Hello([u8; PAKE_BYTES]),
    /// The proof is right; encrypted, the ids of the transfer.
    Admitted([u8; SEALED_BYTES]),
    /// The receiver is refused.
    Refused(Refusal),
}

/// Why a receiver is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The phrase is wrong; the number of remaining attempts.
    #[error("the phrase is wrong: ask the sender for it (wrong attempts left: {0})")]
    Wrong(u8),
    /// There were too many wrong attempts.
    #[error("the phrase is blocked after too many wrong attempts: ask the sender for a new one")]
    Dead,
    /// The intended number of receivers has used it.
    #[error("the phrase was used already: ask the sender for a new one")]
    Used,
    /// The phrase is too old.
    #[error("the phrase has expired: ask the sender for a new one")]
    Expired,
}

impl Ask {
    /// Returns the message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello(message) => [&[0, VERSION][..], message].concat(),
            Self::Proof(proof) => [&[1][..], proof].concat(),
        }
    }

    /// Decodes a message.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        let ask = match reader.byte("kind")? {
            0 => {
                version(&mut reader)?;
                Self::Hello(reader.array("message")?)
            }
            1 => Self::Proof(reader.array("proof")?),
            kind => return Err(WireError::Kind(u64::from(kind))),
        };
        reader.finish()?;
        Ok(ask)
    }
}

impl Answer {
    /// Returns the answer as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::from([VERSION]);
        out.extend_from_slice(&self.to.0.to_be_bytes());
        match &self.said {
            Said::Hello(message) => {
                out.push(0);
                out.extend_from_slice(message);
            }
            Said::Admitted(sealed) => {
                out.push(1);
                out.extend_from_slice(sealed);
            }
            Said::Refused(Refusal::Wrong(left)) => out.extend_from_slice(&[2, *left]),
            Said::Refused(Refusal::Dead) => out.push(3),
            Said::Refused(Refusal::Used) => out.push(4),
            Said::Refused(Refusal::Expired) => out.push(5),
        }
        out
    }

    /// Decodes an answer.
    pub fn decode(payload: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(payload);
        version(&mut reader)?;
        let to = StreamId(u64::from_be_bytes(reader.array("stream")?));
        let said = match reader.byte("answer")? {
            0 => Said::Hello(reader.array("message")?),
            1 => Said::Admitted(reader.array("sealed")?),
            2 => Said::Refused(Refusal::Wrong(reader.byte("left")?)),
            3 => Said::Refused(Refusal::Dead),
            4 => Said::Refused(Refusal::Used),
            5 => Said::Refused(Refusal::Expired),
            kind => return Err(WireError::Kind(u64::from(kind))),
        };
        reader.finish()?;
        Ok(Self { to, said })
    }
}

fn version(reader: &mut Reader<'_>) -> Result<(), WireError> {
    match reader.byte("version")? {
        VERSION => Ok(()),
        other => Err(WireError::Version(other)),
    }
}
