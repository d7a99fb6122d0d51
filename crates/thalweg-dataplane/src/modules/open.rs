//! Verifies and decrypts sealed payloads in place: the UNDO half of `seal`.
//!
//! *The idea.* A sealer is identified by key epoch, instance and cipher. Its derived key and replay
//! window are stored only once one of its ADUs has proved authentic, so a forgery costs one key
//! derivation and no memory. When too many sealers are stored, the one silent for longest is
//! **closed**: its key and window are dropped, its identity is remembered, and later ADUs of it
//! count as replays. So evicting a sealer never lets an old ADU through.
//!
//! *What it does not do.* It passes nothing unsealed: a relay that strips the flag gains nothing.
//! It shares nothing with other lifts' openers: an ADU opened under one plan epoch and replayed
//! under the next opens again, with its authenticated sequence number, and the subscriber removes
//! the duplicate.
//!
//! *Sources.* `sealed` (the format), `replay` (the window); spec DC-34, DC-35.

use core::fmt;
use std::collections::BTreeSet;

use aws_lc_rs::aead::LessSafeKey;
use thalweg_base::adu::Flags;
use thalweg_base::event::DropCause;
use thalweg_base::id::StreamId;

use super::replay::ReplayWindow;
use super::sealed::{Cipher, Trailer, associated_data};
use crate::keys::{KeyEpoch, KeyRing};
use crate::module::{Context, Control, ControlError, Module, Verdict};
use crate::packet::{Packet, Pool};

/// Maximum number of sealers stored: the nodes that seal one stream, with a few restarts each.
pub const OPEN_INSTANCES_MAX: usize = 64;

/// Maximum number of closed sealers; beyond it new sealers are refused until a key epoch is
/// retired.
const CLOSED_INSTANCES_MAX: usize = 1024;

/// Verifies and decrypts sealed payloads.
pub struct Open {
    stream: StreamId,
    ring: KeyRing,
    /// At most [`OPEN_INSTANCES_MAX`].
    sealers: Vec<Sealer>,
    closed: BTreeSet<SealerId>,
    /// Index of the latest ADU's sealer, most often also the next one's.
    latest: usize,
    opened: u64,
}

/// The identity of a sealer: key epoch, instance, cipher.
type SealerId = (KeyEpoch, u64, Cipher);

struct Sealer {
    name: SealerId,
    key: LessSafeKey,
    window: ReplayWindow,
    /// The value of [`Open::opened`] at its latest ADU.
    last_used: u64,
}

impl Open {
    /// Returns an opener for `stream`; which key and cipher is meant stands in each ADU.
    pub const fn new(stream: StreamId, ring: KeyRing) -> Self {
        Self {
            stream,
            ring,
            sealers: Vec::new(),
            closed: BTreeSet::new(),
            latest: 0,
            opened: 0,
        }
    }

    fn open(&mut self, packet: &mut Packet, pool: &Pool) -> Result<(), DropCause> {
        let sealed = packet.payload();
        let (trailer, trailer_len) = Trailer::decode(sealed).ok_or(DropCause::Malformed)?;
        let name = (trailer.key_epoch, trailer.instance, trailer.cipher);
        if self.closed.contains(&name) {
            return Err(DropCause::Replay);
        }
        let Some(known) = self.find(name) else {
            let key = self.derive(&trailer)?;
            unseal(&key, &trailer, trailer_len, packet, pool)?;
            return self.store(name, key, trailer.counter);
        };
        let sealer = &mut self.sealers[known];
        if !sealer.window.is_fresh(trailer.counter) {
            return Err(DropCause::Replay);
        }
        unseal(&sealer.key, &trailer, trailer_len, packet, pool)?;
        sealer.window.record(trailer.counter);
        sealer.last_used = self.opened;
        self.latest = known;
        Ok(())
    }

    fn find(&self, name: SealerId) -> Option<usize> {
        let is_it = |sealer: &Sealer| sealer.name == name;
        if self.sealers.get(self.latest).is_some_and(is_it) {
            return Some(self.latest);
        }
        self.sealers.iter().position(is_it)
    }

    fn derive(&self, trailer: &Trailer) -> Result<LessSafeKey, DropCause> {
        let secret = self.ring.get(trailer.key_epoch).ok_or(DropCause::NoKey)?;
        Ok(trailer
            .cipher
            .derive(secret, self.stream, trailer.key_epoch, trailer.instance))
    }

    /// Stores a sealer after its first authentic ADU.
    fn store(&mut self, name: SealerId, key: LessSafeKey, counter: u64) -> Result<(), DropCause> {
        if self.sealers.len() >= OPEN_INSTANCES_MAX {
            if self.closed.len() >= CLOSED_INSTANCES_MAX {
                return Err(DropCause::Overflow);
            }
            let longest_silent = (0..self.sealers.len())
                .min_by_key(|at| self.sealers[*at].last_used)
                .expect("the table is full, so it is not empty");
            self.closed
                .insert(self.sealers.swap_remove(longest_silent).name);
        }
        let mut window = ReplayWindow::new();
        window.record(counter);
        self.latest = self.sealers.len();
        self.sealers.push(Sealer {
            name,
            key,
            window,
            last_used: self.opened,
        });
        Ok(())
    }

    fn retire(&mut self, through: KeyEpoch) {
        self.sealers.retain(|sealer| sealer.name.0 > through);
        self.closed.retain(|name| name.0 > through);
    }
}

impl Module for Open {
    fn name(&self) -> &'static str {
        "open"
    }

    fn forward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict {
        if !packet.header.flags.contains(Flags::SEALED) {
            return Verdict::Discard(DropCause::Unauthentic);
        }
        match self.open(packet, cx.pool) {
            Ok(()) => {
                self.opened += 1;
                packet.header.flags = packet.header.flags.without(Flags::SEALED);
                Verdict::Pass
            }
            Err(cause) => Verdict::Discard(cause),
        }
    }

    fn control(&mut self, control: &Control) -> Result<(), ControlError> {
        match control {
            Control::AddKey { epoch, key } => self.ring.add(*epoch, key.clone())?,
            // The opener's ring follows, so that the present sealing key is never retired in it.
            Control::SealWith(epoch) => self.ring.seal_with(*epoch)?,
            Control::RetireKeys { through } => {
                self.ring.retire(*through)?;
                self.retire(*through);
            }
            _ => return Err(ControlError::NotMine),
        }
        Ok(())
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open")
            .field("stream", &self.stream)
            .field("sealers", &self.sealers.len())
            .field("closed", &self.closed.len())
            .finish_non_exhaustive()
    }
}

/// Decrypts in place and removes tag and trailer; leaves an unauthentic payload in an unspecified
/// state.
fn unseal(
    key: &LessSafeKey,
    trailer: &Trailer,
    trailer_len: usize,
    packet: &mut Packet,
    pool: &Pool,
) -> Result<(), DropCause> {
    let header = packet.header;
    let whole = packet
        .payload_mut(pool)
        .map_err(|no_room| no_room.cause())?;
    let (body, encoded) = whole.split_at_mut(whole.len() - trailer_len);
    let aad = associated_data(&header, encoded);
    let plain_bytes = key
        .open_in_place(trailer.nonce(), aad, body)
        .map_err(|_| DropCause::Unauthentic)?
        .len();
    packet.trim_back(packet.payload().len() - plain_bytes);
    Ok(())
}
