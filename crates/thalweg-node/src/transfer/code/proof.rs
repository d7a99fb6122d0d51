//! That two have the same phrase, proved without saying it, and the keys that follow.
//!
//! *The idea.* Sixteen bits can be searched, so nothing that is sent may tell a right guess from a wrong one but to who answers.
//! SPAKE2 gives both ends a key that is the same if their phrases are; who listens learns nothing, and who takes part tries one
//! phrase. The receiver proves itself first, by a hash under that key, so the sender counts every try; the sender's proof is that
//! it seals. Both node keys and the stream of asks go into it, so what one says to one node is of no use with another.
//!
//! ```text
//! sender    (A)  ── x·B + phrase·M ──►        K = SPAKE2(phrase, sender, receiver ‖ stream of asks)
//! receiver  (B)  ◄── y·B + phrase·N ──        proof    = BLAKE3(K_proof, stream of asks)
//!                                             admitted = AES-256-GCM(K_admit, road ‖ transfer id)
//!                                             parcel   = counter:u64 ‖ AES-256-GCM(K_parcel, counter, parcel)
//! ```
//!
//! *What it does not do.* It counts no tries: `keeper` does.
//!
//! *Sources.* RFC 9382 (SPAKE2; the crate `spake2` is that of Magic Wormhole, a little older than the RFC); RFC 5116.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use thalweg_core::id::{NodeId, StreamId};
use thalweg_core::transfer::TransferId;
use thalweg_core::transfer::meeting::{PAKE_BYTES, PROOF_BYTES, SEALED_BYTES};

use super::Phrase;

/// Bytes before what is sealed: the counter of its nonce.
const COUNTER_BYTES: usize = 8;

/// Bytes of two ids.
const IDS_BYTES: usize = 32;

/// Who takes part, as both know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) sender: NodeId,
    pub(super) receiver: NodeId,
    /// The stream on which the receiver asks.
    pub(super) asks: StreamId,
}

/// Half of an exchange, used once.
pub(super) struct Half {
    state: Spake2<Ed25519Group>,
    pair: Pair,
}

/// What follows from an exchange.
pub(super) struct Keys {
    proof: [u8; PROOF_BYTES],
    admit: LessSafeKey,
    parcels: [u8; 32],
}

/// Seals the parcels of one transfer to one receiver.
pub(in super::super) struct Sealer {
    key: LessSafeKey,
    counter: u64,
}

/// Opens them.
pub(in super::super) struct Opener {
    key: LessSafeKey,
}

impl Half {
    /// Begins as the sender; returns what to say, too.
    pub(super) fn of_sender(phrase: &Phrase, pair: Pair) -> (Self, [u8; PAKE_BYTES]) {
        let [sender, receiver] = pair.identities();
        let (state, message) = Spake2::start_a(&password(phrase), &sender, &receiver);
        (Self { state, pair }, fixed(&message))
    }

    /// Begins as the receiver; returns what to say, too.
    pub(super) fn of_receiver(phrase: &Phrase, pair: Pair) -> (Self, [u8; PAKE_BYTES]) {
        let [sender, receiver] = pair.identities();
        let (state, message) = Spake2::start_b(&password(phrase), &sender, &receiver);
        (Self { state, pair }, fixed(&message))
    }

    /// Takes what the other said; `None` if that is no half of such an exchange.
    pub(super) fn finish(self, message: &[u8; PAKE_BYTES]) -> Option<Keys> {
        let shared = self.state.finish(message).ok()?;
        let derive = |purpose| blake3::derive_key(purpose, &shared);
        let proof = derive("thalweg 2026 transfer by phrase: proof");
        let proof = blake3::keyed_hash(&proof, &self.pair.asks.0.to_be_bytes());
        Some(Keys {
            proof: *proof.as_bytes(),
            admit: key(&derive("thalweg 2026 transfer by phrase: admitted")),
            parcels: derive("thalweg 2026 transfer by phrase: parcels"),
        })
    }
}

impl Pair {
    fn identities(&self) -> [Identity; 2] {
        let receiver = [&self.receiver.0[..], &self.asks.0.to_be_bytes()].concat();
        [Identity::new(&self.sender.0), Identity::new(&receiver)]
    }
}

impl Keys {
    /// Returns what the receiver says to prove that it has the phrase.
    pub(super) const fn proof(&self) -> [u8; PROOF_BYTES] {
        self.proof
    }

    /// Returns whether somebody has proved it; the comparison takes as long whatever it is.
    pub(super) fn is_proved_by(&self, proof: &[u8; PROOF_BYTES]) -> bool {
        blake3::Hash::from_bytes(self.proof) == *proof
    }

    /// Seals what the transfer is called, once.
    pub(super) fn admit(&self, road: TransferId, id: TransferId) -> [u8; SEALED_BYTES] {
        let mut sealed = [road.0, id.0].concat();
        self.admit
            .seal_in_place_append_tag(nonce(0), Aad::empty(), &mut sealed)
            .expect("32 bytes are not too long for AES-GCM");
        sealed.try_into().expect("two ids and a tag")
    }

    /// Opens it; `None` if the sender has another phrase.
    pub(super) fn admitted(&self, sealed: &[u8; SEALED_BYTES]) -> Option<(TransferId, TransferId)> {
        let mut sealed = *sealed;
        let ids = self
            .admit
            .open_in_place(nonce(0), Aad::empty(), &mut sealed)
            .ok()?;
        let ids: &[u8; IDS_BYTES] = (&*ids).try_into().ok()?;
        let (road, id) = ids.split_first_chunk()?;
        Some((TransferId(*road), TransferId(id.try_into().ok()?)))
    }

    /// Returns what seals the transfer's parcels: one counter for one key, from zero and never again.
    pub(super) fn sealer(&self) -> Sealer {
        Sealer {
            key: key(&self.parcels),
            counter: 0,
        }
    }

    pub(super) fn opener(&self) -> Opener {
        Opener {
            key: key(&self.parcels),
        }
    }
}

impl Sealer {
    /// Seals a parcel.
    pub(in super::super) fn seal(&mut self, parcel: &[u8]) -> Bytes {
        let counter = self.counter;
        self.counter += 1;
        let mut sealed = Vec::with_capacity(COUNTER_BYTES + parcel.len() + 16);
        sealed.extend_from_slice(&counter.to_be_bytes());
        sealed.extend_from_slice(parcel);
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(counter), Aad::empty(), &mut sealed[COUNTER_BYTES..])
            .expect("a parcel is not too long for AES-GCM");
        sealed.extend_from_slice(tag.as_ref());
        sealed.into()
    }
}

impl Opener {
    /// Opens a parcel; `None` if the sender has not sealed it.
    pub(in super::super) fn open(&self, sealed: &[u8]) -> Option<Bytes> {
        let (counter, sealed) = sealed.split_first_chunk::<COUNTER_BYTES>()?;
        let mut parcel = sealed.to_vec();
        let counter = u64::from_be_bytes(*counter);
        let length = self
            .key
            .open_in_place(nonce(counter), Aad::empty(), &mut parcel)
            .ok()?
            .len();
        parcel.truncate(length);
        Some(parcel.into())
    }
}

fn password(phrase: &Phrase) -> Password {
    Password::new(phrase.to_string())
}

fn fixed(message: &[u8]) -> [u8; PAKE_BYTES] {
    message.try_into().expect("a side and a point")
}

fn key(bytes: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes).expect("32 bytes are such a key"))
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}
