//! Proves that both ends have the same phrase without revealing it, and derives the keys.
//!
//! *The idea.* Sixteen bits can be searched, so no message may let anyone but its addressee tell a
//! right guess from a wrong one. SPAKE2 gives both ends the same key if their phrases match; an
//! eavesdropper learns nothing, and an active attacker tries one phrase per exchange. The receiver
//! proves itself first, by a hash under that key, so the sender counts every try; the sender's
//! proof is its seal. Both node keys and the request stream enter the exchange, so messages for one
//! node are of no use with another.
//!
//! ```text
//! sender   (A)  ── x·B + phrase·M ──►   K = SPAKE2(phrase, sender, receiver ‖ request stream)
//! receiver (B)  ◄── y·B + phrase·N ──   proof    = BLAKE3(K_proof, request stream)
//!                                       admitted = AES-256-GCM(K_admit, public id ‖ transfer id)
//!                                       parcel   = counter:u64 ‖ AES-256-GCM(K_parcel, counter, parcel)
//! ```
//!
//! *What it does not do.* It counts no tries; `keeper` does.
//!
//! *Sources.* RFC 9382 (SPAKE2; the crate `spake2` is that of Magic Wormhole, a little older than
//! the RFC); RFC 5116.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use bytes::Bytes;
use spake2::{Ed25519Group, Identity, Password, Spake2};
use thalweg_base::id::{NodeId, StreamId};
use thalweg_transfer::TransferId;
use thalweg_transfer::meeting::{PAKE_BYTES, PROOF_BYTES, SEALED_BYTES};

use super::Phrase;

/// Bytes before a sealed parcel: the counter of its nonce.
const COUNTER_BYTES: usize = 8;

/// Bytes of two ids.
const IDS_BYTES: usize = 32;

/// The two ends of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) sender: NodeId,
    pub(super) receiver: NodeId,
    /// The receiver's request stream.
    pub(super) asks: StreamId,
}

/// One end's half of an exchange, used once.
pub(super) struct Half {
    state: Spake2<Ed25519Group>,
    pair: Pair,
}

/// The keys of a finished exchange.
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

/// Opens the parcels of one transfer.
pub(in super::super) struct Opener {
    key: LessSafeKey,
}

impl Half {
    /// Starts an exchange as the sender; also returns the message to send.
    pub(super) fn of_sender(phrase: &Phrase, pair: Pair) -> (Self, [u8; PAKE_BYTES]) {
        let [sender, receiver] = pair.identities();
        let (state, message) = Spake2::start_a(&password(phrase), &sender, &receiver);
        (Self { state, pair }, fixed(&message))
    }

    /// Starts an exchange as the receiver; also returns the message to send.
    pub(super) fn of_receiver(phrase: &Phrase, pair: Pair) -> (Self, [u8; PAKE_BYTES]) {
        let [sender, receiver] = pair.identities();
        let (state, message) = Spake2::start_b(&password(phrase), &sender, &receiver);
        (Self { state, pair }, fixed(&message))
    }

    /// Handles the other end's message; `None` if it is not a valid half of an exchange.
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
    /// Returns the receiver's proof that it has the phrase.
    pub(super) const fn proof(&self) -> [u8; PROOF_BYTES] {
        self.proof
    }

    /// Returns whether a proof is right; compares in constant time.
    pub(super) fn is_proved_by(&self, proof: &[u8; PROOF_BYTES]) -> bool {
        blake3::Hash::from_bytes(self.proof) == *proof
    }

    /// Seals the ids of the transfer, once.
    pub(super) fn admit(&self, public_id: TransferId, id: TransferId) -> [u8; SEALED_BYTES] {
        let mut sealed = [public_id.0, id.0].concat();
        self.admit
            .seal_in_place_append_tag(nonce(0), Aad::empty(), &mut sealed)
            .expect("32 bytes are not too long for AES-GCM");
        sealed.try_into().expect("two ids and a tag")
    }

    /// Opens the sealed ids; `None` if the sender has another phrase.
    pub(super) fn admitted(&self, sealed: &[u8; SEALED_BYTES]) -> Option<(TransferId, TransferId)> {
        let mut sealed = *sealed;
        let ids = self
            .admit
            .open_in_place(nonce(0), Aad::empty(), &mut sealed)
            .ok()?;
        let ids: &[u8; IDS_BYTES] = (&*ids).try_into().ok()?;
        let (public_id, id) = ids.split_first_chunk()?;
        Some((TransferId(*public_id), TransferId(id.try_into().ok()?)))
    }

    /// Returns the sealer of the transfer's parcels: call it once, since its counter starts at
    /// zero.
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
