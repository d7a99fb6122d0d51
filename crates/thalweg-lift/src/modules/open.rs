//! Checks and decrypts sealed payloads in place: the UNDO half of `seal`.
//!
//! *The idea.* A sealer is known by key epoch, instance and cipher; its derived key and its replay window are kept once
//! one of its ADUs has proved authentic, so that forgeries cost their receiver one derivation and no memory. When too
//! many sealers are known, the one that has been quiet longest is **closed**: its key and window go, a note of its name
//! stays, and what still comes from it is a replay. So forgetting never lets an old ADU through.
//!
//! *What it does not do.* It passes nothing that is not sealed: a relay that strips the flag gains nothing. It knows
//! nothing of another lift's opener: what was opened under one plan epoch and is played again under the next opens once
//! more, with its own authenticated sequence number, and is the subscriber's duplicate to remove.
//!
//! *Sources.* `sealed` (the form), `replay` (the window); spec DC-34, DC-35.

use core::fmt;
use std::collections::BTreeSet;

use aws_lc_rs::aead::LessSafeKey;
use thalweg_core::adu::Flags;
use thalweg_core::event::DropCause;
use thalweg_core::id::StreamId;

use super::replay::ReplayWindow;
use super::sealed::{Cipher, Trailer, associated_data};
use crate::keys::{KeyEpoch, KeyRing};
use crate::module::{Context, Control, ControlError, Module, Verdict};
use crate::packet::{Packet, Pool};

/// Sealers whose keys and windows are kept at once: the nodes that seal one stream, with a few restarts each.
pub const OPEN_INSTANCES_MAX: usize = 64;

/// Closed sealers that are remembered; beyond it new ones are refused until a key epoch is retired.
const CLOSED_INSTANCES_MAX: usize = 1024;

/// Checks and decrypts sealed payloads.
pub struct Open {
    stream: StreamId,
    ring: KeyRing,
    /// At most [`OPEN_INSTANCES_MAX`].
    sealers: Vec<Sealer>,
    closed: BTreeSet<Name>,
    /// Where the latest ADU's sealer stands: most often the next one's too.
    latest: usize,
    opened: u64,
}

/// What tells sealers apart: key epoch, instance, cipher.
type Name = (KeyEpoch, u64, Cipher);

struct Sealer {
    name: Name,
    key: LessSafeKey,
    window: ReplayWindow,
    /// The value of [`Open::opened`] when it was last heard of.
    heard: u64,
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
            return self.remember(name, key, trailer.counter);
        };
        let sealer = &mut self.sealers[known];
        if !sealer.window.is_fresh(trailer.counter) {
            return Err(DropCause::Replay);
        }
        unseal(&sealer.key, &trailer, trailer_len, packet, pool)?;
        sealer.window.note(trailer.counter);
        sealer.heard = self.opened;
        self.latest = known;
        Ok(())
    }

    fn find(&self, name: Name) -> Option<usize> {
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

    /// Keeps a sealer whose first ADU here was authentic.
    fn remember(&mut self, name: Name, key: LessSafeKey, counter: u64) -> Result<(), DropCause> {
        if self.sealers.len() >= OPEN_INSTANCES_MAX {
            if self.closed.len() >= CLOSED_INSTANCES_MAX {
                return Err(DropCause::Overflow);
            }
            let quietest = (0..self.sealers.len())
                .min_by_key(|at| self.sealers[*at].heard)
                .expect("the table is full, so it is not empty");
            self.closed.insert(self.sealers.swap_remove(quietest).name);
        }
        let mut window = ReplayWindow::new();
        window.note(counter);
        self.latest = self.sealers.len();
        self.sealers.push(Sealer {
            name,
            key,
            window,
            heard: self.opened,
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
            // The ring of an opener follows, so that what is sealed with is never retired under it.
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

/// Decrypts in place and takes tag and trailer off; a payload that is not authentic is left in an unspecified state.
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
