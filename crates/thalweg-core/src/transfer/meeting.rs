//! What two say to each other who have a phrase in common and want to know that of each other.
//!
//! ```text
//! ask    = 0:u8  version:u8 = 1  PAKE message:33        hello
//!        | 1:u8  proof:32
//! answer = version:u8 = 1  stream id:u64  said          the stream of asks that is answered
//! said   = 0:u8  PAKE message:33                        hello
//!        | 1:u8  sealed:48                              admitted: what the transfer is, for who has the key
//!        | 2:u8  left:u8                                wrong; so many wrong ones are borne yet
//!        | 3:u8  | 4:u8  | 5:u8                         dead, used, expired
//! ```
//!
//! A receiver asks on a stream of its own, a sender answers all on one. Either says the same again if it is asked again, so
//! nothing is lost by a loss.
//!
//! *What it does not do.* It knows no cryptography: what the bytes prove, `thalweg-node` knows.
//!
//! *Sources.* docs/files.md §7.

use alloc::vec::Vec;

use crate::id::StreamId;
use crate::wire::{Reader, WireError};

const VERSION: u8 = 1;

/// Bytes of a message of the key exchange: a side and a point.
pub const PAKE_BYTES: usize = 33;

/// Bytes of a proof: a hash.
pub const PROOF_BYTES: usize = 32;

/// Bytes of what is said to who is admitted: two ids and a tag.
pub const SEALED_BYTES: usize = 48;

/// What a receiver says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Its half of the exchange.
    Hello([u8; PAKE_BYTES]),
    /// That it has the phrase.
    Proof([u8; PROOF_BYTES]),
}

/// What a sender says to one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// To whom: the stream by which it asked.
    pub to: StreamId,
    /// What.
    pub said: Said,
}

/// What a sender says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// Its half of the exchange.
    Hello([u8; PAKE_BYTES]),
    /// The proof is right; here is what the transfer is called.
    Admitted([u8; SEALED_BYTES]),
    /// It gets nothing.
    Refused(Refusal),
}

/// Why somebody gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has another phrase.
    #[error("the phrase is wrong: ask for it again; {0} more wrong ones and it is dead")]
    Wrong(u8),
    /// Others had wrong ones, too many of them.
    #[error("the phrase is dead, for too many wrong ones were tried: ask the sender for a new one")]
    Dead,
    /// As many as were meant have it already.
    #[error("the phrase was used already: ask the sender for a new one")]
    Used,
    /// It came too late.
    #[error("the phrase has expired: ask the sender for a new one")]
    Expired,
}

impl Ask {
    /// Returns it as bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Hello(message) => [&[0, VERSION][..], message].concat(),
            Self::Proof(proof) => [&[1][..], proof].concat(),
        }
    }

    /// Reads one.
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
    /// Returns it as bytes.
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

    /// Reads one.
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
