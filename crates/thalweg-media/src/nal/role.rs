//! The importance of every kind of unit, in one place.
//!
//! The idea: the more of the stream depends on a unit, the more it matters. Sound matters more than
//! any one picture, since listeners tolerate less loss than viewers. Small, rare units (programme
//! facts, parameter sets) are never worth dropping.
//!
//! | unit | importance |
//! |---|---|
//! | programme facts (PAT, PMT) | 255 |
//! | parameter sets on their own | 250 |
//! | key picture (IDR, IRAP) | 245 |
//! | audio | 220 |
//! | unknown PIDs, data, sections | 200 |
//! | reference picture | 190 − 1 per reference since the key picture (at least 130), − 8 per sub-layer |
//! | non-reference picture | 64 − 8 per sub-layer |
//! | layered video | as its stream's `AdaptationPolicy` says |
//!
//! Fewer pictures depend on a reference picture late in its group than on an early one.

pub use thalweg_base::adu::Importance;

/// The role of a unit for later ones; the order is the rank within one access unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Unknown.
    Opaque,
    /// A picture nothing depends on.
    NonReference,
    /// A picture others depend on.
    Reference,
    /// Parameter sets without a picture.
    Parameter,
    /// A picture that depends on nothing.
    Key,
    /// Sound.
    Audio,
    /// Programme facts.
    Programme,
}

impl Role {
    /// The importance of a unit of this role in temporal sub-layer `temporal`, `since_key`
    /// references after its key picture.
    pub fn importance(self, temporal: u8, since_key: u32) -> Importance {
        let sublayer = 8 * temporal.min(7);
        Importance(match self {
            Self::Programme => 255,
            Self::Parameter => 250,
            Self::Key => 245,
            Self::Audio => 220,
            Self::Opaque => 200,
            Self::Reference => 190 - since_key.min(60) as u8 - sublayer,
            Self::NonReference => 64 - sublayer,
        })
    }
}
