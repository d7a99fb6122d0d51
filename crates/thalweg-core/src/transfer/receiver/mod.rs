//! The receiver of a transfer: what is believed of what comes, and what is said about it.
//!
//! *The idea.* Nothing is believed that does not have its hash. A receipt goes when something has changed that the
//! sender should know at once (a gap, the manifest, an offer that asks), else twice a second while blocks come, and
//! every two seconds as a sign of life. Who was killed begins anew with what is on the disk ([`Receiver::begin`]).
//!
//! *What it does not do.* It writes no file: who drives it writes a block and says when that is done. So a block that
//! could not be written is missing.
//!
//! *Sources.* docs/files.md §3.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::have::Have;
use super::manifest::{Manifest, Place};
use super::message::{Parcel, Receipt, State};
use super::name::TransferId;
use crate::id::{NodeId, StreamId};
use crate::limits::{TRANSFER_MANIFEST_BYTES_MAX, TRANSFER_RANGES_MAX, TRANSFER_WINDOW_BYTES};
use crate::time::{Duration, Instant};
use crate::wire::WireError;

/// How long after a receipt the next one goes while blocks come: 60 bytes twice a second are 1 kbit/s.
pub const RECEIPT_EVERY: Duration = Duration::from_millis(500);

/// How long a receiver is silent at most.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// Bytes after which a receipt goes however little time has passed: a quarter of what may be under way.
const RECEIPT_BYTES: u64 = TRANSFER_WINDOW_BYTES / 4;

/// Parcels after which one goes: the same of them.
const RECEIPT_PARCELS: u64 = crate::limits::TRANSFER_PARCELS_MAX as u64 / 4;

/// Blocks that do not have their hash, one after the other, after which whoever is between is not asked again.
const CORRUPT_MAX: u32 = 64;

/// What a parcel was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing that asks for anything.
    Nothing,
    /// The last part of the manifest: now [`Receiver::begin`] is waited for.
    Manifest,
    /// A block that has its hash and was missing: it is to be written, and then to be said by
    /// [`Receiver::handle_written`].
    Block {
        /// Its number.
        block: u32,
        /// Where it goes.
        place: Place,
        /// Its bytes.
        bytes: Bytes,
    },
    /// A block, or a manifest, that does not have its hash.
    Corrupt,
    /// An offer for others.
    NotForUs,
}

/// The receiver of one transfer.
#[derive(Clone, Debug)]
pub struct Receiver {
    id: TransferId,
    node: NodeId,
    stream: StreamId,
    next: u64,
    /// Whether the stream has brought an offer: what comes before it may be of another manifest.
    is_offered: bool,
    /// What has come of the manifest, while it is not whole.
    parts: Vec<u8>,
    manifest_bytes: Option<u64>,
    manifest: Option<Manifest>,
    /// What is there; nothing until the driver has looked.
    have: Option<Have>,
    bytes: u64,
    ending: Option<State>,
    corrupt: u64,
    corrupt_in_a_row: u32,
    receipt_at: Instant,
    said_at: Option<Instant>,
    unsaid_bytes: u64,
    unsaid_parcels: u64,
}

impl Receiver {
    /// Returns the receiver of a transfer that a stream brings to this node.
    pub fn new(id: TransferId, node: NodeId, stream: StreamId) -> Self {
        Self {
            id,
            node,
            stream,
            next: 0,
            is_offered: false,
            parts: Vec::new(),
            manifest_bytes: None,
            manifest: None,
            have: None,
            bytes: 0,
            ending: None,
            corrupt: 0,
            corrupt_in_a_row: 0,
            receipt_at: Instant::ZERO,
            said_at: None,
            unsaid_bytes: 0,
            unsaid_parcels: 0,
        }
    }

    /// Takes word that another stream brings the transfer now.
    pub fn handle_stream(&mut self, now: Instant, stream: StreamId) {
        if stream != self.stream {
            self.stream = stream;
            self.next = 0;
            self.is_offered = false;
            self.receipt_at = now;
        }
    }

    /// Takes word that somebody hears the receipts who did not before.
    pub fn handle_wanted(&mut self, now: Instant) {
        self.receipt_at = now;
    }

    /// Takes a manifest that was kept from an earlier run; returns whether it is this transfer's.
    pub fn handle_manifest(&mut self, manifest: Manifest) -> bool {
        let is_ours = manifest.id() == self.id;
        if is_ours && self.manifest.is_none() {
            self.manifest = Some(manifest);
        }
        is_ours
    }

    /// Takes an ADU of the present stream.
    ///
    /// Cost    one hash over a block
    /// Fails   bytes that are no parcel
    pub fn handle_parcel(
        &mut self,
        now: Instant,
        sequence: u64,
        payload: &Bytes,
    ) -> Result<Taken, WireError> {
        let parcel = Parcel::decode(payload)?;
        self.is_offered |= matches!(parcel, Parcel::Offer { .. });
        if !self.is_offered {
            return Ok(Taken::Nothing);
        }
        // A gap is what the sender waits to hear of.
        if sequence > self.next {
            self.receipt_at = self.receipt_at.min(now);
        }
        self.next = self.next.max(sequence.saturating_add(1));
        self.unsaid_bytes += payload.len() as u64;
        self.unsaid_parcels += 1;
        let soon = self.said_at.map_or(now, |said| said + RECEIPT_EVERY);
        self.receipt_at = self.receipt_at.min(soon);
        if self.unsaid_bytes >= RECEIPT_BYTES || self.unsaid_parcels >= RECEIPT_PARCELS {
            self.receipt_at = now;
        }
        Ok(self.take(now, parcel))
    }

    fn take(&mut self, now: Instant, parcel: Parcel) -> Taken {
        match parcel {
            Parcel::Offer {
                block_shift,
                manifest_bytes,
                targets,
                ..
            } => {
                if !targets.contains(&self.node) {
                    return Taken::NotForUs;
                }
                // A sender that began again may have chosen other blocks: what is there is looked at anew by them.
                let is_other =
                    |manifest: &Manifest| manifest.layout().block_bytes() != 1 << block_shift;
                if self.ending.is_none() && self.manifest.as_ref().is_some_and(is_other) {
                    self.manifest = None;
                    self.have = None;
                    self.parts.clear();
                }
                // Parts end where the offer said. If one of two offers was changed on its way, nobody knows which
                // parts were meant by it, and all that have come may look whole to the sender: they come again.
                if self.manifest_bytes.replace(manifest_bytes) != Some(manifest_bytes) {
                    self.parts.clear();
                }
                self.receipt_at = now;
                Taken::Nothing
            }
            Parcel::Manifest { offset, bytes } => self.take_part(now, offset, &bytes),
            Parcel::Block { block, bytes } => self.take_block(now, block, bytes),
        }
    }

    fn take_part(&mut self, now: Instant, offset: u64, bytes: &Bytes) -> Taken {
        let Some(whole) = self.manifest_bytes.filter(|_| self.manifest.is_none()) else {
            return Taken::Nothing;
        };
        let has = self.parts.len() as u64;
        let end = offset.saturating_add(bytes.len() as u64);
        let limit = whole.min(TRANSFER_MANIFEST_BYTES_MAX as u64);
        if offset > has || end <= has || end > limit {
            return Taken::Nothing;
        }
        // What overlaps was believed no more than this is.
        self.parts.truncate(offset as usize);
        self.parts.extend_from_slice(bytes);
        if end < whole {
            return Taken::Nothing;
        }
        self.receipt_at = now;
        let parts = core::mem::take(&mut self.parts);
        match Manifest::decode(&parts) {
            Ok(manifest) if manifest.id() == self.id => {
                self.manifest = Some(manifest);
                Taken::Manifest
            }
            _ => self.distrust(now),
        }
    }

    fn take_block(&mut self, now: Instant, block: u32, bytes: Bytes) -> Taken {
        let (Some(manifest), Some(have)) = (&self.manifest, &self.have) else {
            return Taken::Nothing;
        };
        if have.contains(block) || self.ending.is_some() {
            return Taken::Nothing;
        }
        let Some(place) = manifest.layout().place(block) else {
            return self.distrust(now);
        };
        if !manifest.is_block(block, &bytes) {
            return self.distrust(now);
        }
        self.corrupt_in_a_row = 0;
        Taken::Block {
            block,
            place,
            bytes,
        }
    }

    /// Takes word that an ADU of the present stream was not sealed by the sender, where it should have been.
    pub fn handle_corrupt(&mut self, now: Instant, sequence: u64) {
        if self.is_offered {
            self.next = self.next.max(sequence.saturating_add(1));
        }
        self.distrust(now);
    }

    /// Counts what does not have its hash; too much of it in a row ends the transfer.
    fn distrust(&mut self, now: Instant) -> Taken {
        self.corrupt += 1;
        self.corrupt_in_a_row += 1;
        if self.corrupt_in_a_row == CORRUPT_MAX / 2 && self.ending.is_none() {
            // It may be what they are compared with that is wrong: of an offer that was changed on its way.
            self.manifest = None;
            self.have = None;
            self.parts.clear();
            self.receipt_at = now;
        }
        if self.corrupt_in_a_row >= CORRUPT_MAX {
            let reason = "what arrives does not have its hash: a node on the way changes it";
            self.refuse(now, reason.into());
        }
        Taken::Corrupt
    }

    /// Takes what is there of the manifest's blocks, each compared with its hash: from here on blocks are taken.
    pub fn begin(&mut self, now: Instant, have: Have) {
        let Some(manifest) = &self.manifest else {
            return;
        };
        let layout = manifest.layout();
        let length = |block| layout.place(block).map_or(0, |place| place.bytes as u64);
        self.bytes = (0..layout.blocks())
            .filter(|block| have.contains(*block))
            .map(length)
            .sum();
        self.have = Some(have);
        self.receipt_at = now;
    }

    /// Takes word that a block is in its file; returns whether it was the last of that file.
    pub fn handle_written(&mut self, block: u32) -> Option<usize> {
        let (manifest, have) = (self.manifest.as_ref()?, self.have.as_mut()?);
        let place = manifest.layout().place(block)?;
        if have.insert(block) {
            self.bytes += place.bytes as u64;
        }
        let is_last = have.has_all(manifest.layout().blocks_of(place.file));
        is_last.then_some(place.file)
    }

    /// Takes word that every file is in its place, and on the disk.
    pub fn finish(&mut self, now: Instant) {
        self.ending = Some(State::Whole);
        self.receipt_at = now;
    }

    /// Ends the transfer, for a reason of the receiver's own.
    pub fn refuse(&mut self, now: Instant, reason: String) {
        self.ending.get_or_insert(State::Refused(reason));
        self.receipt_at = now;
    }

    /// Returns the reason for which the transfer was ended, if it was.
    pub fn refusal(&self) -> Option<&str> {
        match &self.ending {
            Some(State::Refused(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Returns a receipt, if it is time for one.
    ///
    /// Cost    O(blocks / 64 + ranges)
    pub fn poll_receipt(&mut self, now: Instant) -> Option<Receipt> {
        if now < self.receipt_at {
            return None;
        }
        self.said_at = Some(now);
        self.receipt_at = now + HEARTBEAT;
        self.unsaid_bytes = 0;
        self.unsaid_parcels = 0;
        Some(self.receipt())
    }

    fn receipt(&self) -> Receipt {
        let state = match (&self.ending, &self.have) {
            (Some(ending), _) => ending.clone(),
            (None, Some(have)) => State::Blocks {
                bytes: self.bytes,
                missing: have.missing(TRANSFER_RANGES_MAX),
            },
            // While the driver looks at what is there, the manifest is not asked for again.
            (None, None) => State::Manifest {
                has: match (&self.manifest, self.manifest_bytes) {
                    (Some(_), Some(whole)) => whole,
                    _ => self.parts.len() as u64,
                },
            },
        };
        Receipt {
            stream: self.stream,
            next: self.next,
            state,
        }
    }

    /// Returns when to ask for a receipt again.
    pub const fn poll_timeout(&self) -> Instant {
        self.receipt_at
    }

    /// Returns the manifest, once it is known.
    pub const fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Returns whether every block is there.
    pub fn is_whole(&self) -> bool {
        self.have.as_ref().is_some_and(Have::is_whole)
    }

    /// Returns how many bytes of files are verified.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns how many blocks did not have their hash.
    pub const fn corrupt(&self) -> u64 {
        self.corrupt
    }
}
