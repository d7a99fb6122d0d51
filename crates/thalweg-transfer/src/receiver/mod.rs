//! The receiver of a transfer: verifies what arrives, and reports it.
//!
//! *The idea.* Nothing is accepted without its hash. A receipt is sent at once when the sender
//! should know of a change (a gap, the manifest, an offer that asks), twice a second while blocks
//! arrive, and every two seconds as a heartbeat. A receiver that was killed restarts with the
//! blocks on its disk ([`Receiver::begin`]).
//!
//! *What it does not do.* It writes no file: the driver writes a block and confirms it. So a block
//! that could not be written is still missing.
//!
//! *Sources.* docs/concepts/files.md §3.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::limits::{
    TRANSFER_MANIFEST_BYTES_MAX, TRANSFER_RANGES_MAX, TRANSFER_WINDOW_BYTES,
};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::WireError;

use super::have::Have;
use super::manifest::{Manifest, Place};
use super::message::{Parcel, Receipt, State};
use super::name::TransferId;

/// Interval of receipts while blocks arrive: 60 bytes twice a second are 1 kbit/s.
pub const RECEIPT_EVERY: Duration = Duration::from_millis(500);

/// Maximum interval of receipts.
pub const HEARTBEAT: Duration = Duration::from_secs(2);

/// Bytes received that trigger a receipt at any time: a quarter of the sender's window.
const RECEIPT_BYTES: u64 = TRANSFER_WINDOW_BYTES / 4;

/// Parcels received that trigger a receipt: a quarter of the sender's limit.
const RECEIPT_PARCELS: u64 = thalweg_base::limits::TRANSFER_PARCELS_MAX as u64 / 4;

/// Consecutive corrupt parcels after which the receiver refuses the transfer.
const CORRUPT_MAX: u32 = 64;

/// The result of a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing to do.
    Nothing,
    /// The manifest is complete: the driver must call [`Receiver::begin`].
    Manifest,
    /// A verified block that was missing: the driver must write it and call
    /// [`Receiver::handle_written`].
    Block {
        /// The block's number.
        block: u32,
        /// The block's position.
        place: Place,
        /// The block's bytes.
        bytes: Bytes,
    },
    /// A block or a manifest that fails its hash.
    Corrupt,
    /// An offer for other nodes.
    NotForUs,
}

/// The receiver of one transfer.
#[derive(Clone, Debug)]
pub struct Receiver {
    id: TransferId,
    node: NodeId,
    stream: StreamId,
    next: u64,
    /// The stream has brought an offer: parcels before it may belong to another manifest.
    is_offered: bool,
    /// The received start of an incomplete manifest.
    parts: Vec<u8>,
    manifest_bytes: Option<u64>,
    manifest: Option<Manifest>,
    /// The blocks present; `None` until the driver has verified them.
    have: Option<Have>,
    bytes: u64,
    ending: Option<State>,
    corrupt: u64,
    corrupt_in_a_row: u32,
    receipt_at: Instant,
    reported_at: Option<Instant>,
    unreported_bytes: u64,
    unreported_parcels: u64,
}

impl Receiver {
    /// Returns the receiver of a transfer on a stream to this node.
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
            reported_at: None,
            unreported_bytes: 0,
            unreported_parcels: 0,
        }
    }

    /// Takes in that another stream carries the transfer now.
    pub fn handle_stream(&mut self, now: Instant, stream: StreamId) {
        if stream != self.stream {
            self.stream = stream;
            self.next = 0;
            self.is_offered = false;
            self.receipt_at = now;
        }
    }

    /// Takes in that a further node subscribes to the receipts.
    pub fn handle_wanted(&mut self, now: Instant) {
        self.receipt_at = now;
    }

    /// Takes in a manifest from an earlier run; returns whether it is this transfer's.
    pub fn handle_manifest(&mut self, manifest: Manifest) -> bool {
        let is_ours = manifest.id() == self.id;
        if is_ours && self.manifest.is_none() {
            self.manifest = Some(manifest);
        }
        is_ours
    }

    /// Takes in an ADU of the current stream.
    ///
    /// Cost    one hash over a block
    /// Fails   if the bytes are no parcel
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
        // The sender waits for news of a gap.
        if sequence > self.next {
            self.receipt_at = self.receipt_at.min(now);
        }
        self.next = self.next.max(sequence.saturating_add(1));
        self.unreported_bytes += payload.len() as u64;
        self.unreported_parcels += 1;
        let soon = self.reported_at.map_or(now, |said| said + RECEIPT_EVERY);
        self.receipt_at = self.receipt_at.min(soon);
        if self.unreported_bytes >= RECEIPT_BYTES || self.unreported_parcels >= RECEIPT_PARCELS {
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
                // A restarted sender may have chosen another block size: the blocks present are
                // verified again.
                let is_other =
                    |manifest: &Manifest| manifest.layout().block_bytes() != 1 << block_shift;
                if self.ending.is_none() && self.manifest.as_ref().is_some_and(is_other) {
                    self.manifest = None;
                    self.have = None;
                    self.parts.clear();
                }
                // Parts end where the offer said. If one of two offers was altered in transit, the
                // valid parts are unknown, and the sender may take all that arrived for complete:
                // start over.
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
        // A gap, a repetition, or more than was offered.
        if offset > has || end <= has || end > limit {
            return Taken::Nothing;
        }
        // Overlapping bytes were no more trustworthy than these.
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
            _ => self.handle_corruption(now),
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
            return self.handle_corruption(now);
        };
        if !manifest.is_block(block, &bytes) {
            return self.handle_corruption(now);
        }
        self.corrupt_in_a_row = 0;
        Taken::Block {
            block,
            place,
            bytes,
        }
    }

    /// Takes in that an ADU of the current stream was not sealed by the sender, as required.
    pub fn handle_corrupt(&mut self, now: Instant, sequence: u64) {
        if self.is_offered {
            self.next = self.next.max(sequence.saturating_add(1));
        }
        self.handle_corruption(now);
    }

    /// Counts a corrupt parcel; too many in succession end the transfer.
    fn handle_corruption(&mut self, now: Instant) -> Taken {
        self.corrupt += 1;
        self.corrupt_in_a_row += 1;
        if self.corrupt_in_a_row == CORRUPT_MAX / 2 && self.ending.is_none() {
            // The manifest itself may be wrong, from an offer that was altered in transit.
            self.manifest = None;
            self.have = None;
            self.parts.clear();
            self.receipt_at = now;
        }
        if self.corrupt_in_a_row >= CORRUPT_MAX {
            let reason = "received data fails its hash: a node on the path changes it";
            self.refuse(now, reason.into());
        }
        Taken::Corrupt
    }

    /// Takes in the verified blocks that are present: from here on blocks are accepted.
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

    /// Takes in that a block is written; returns its file if that is complete now.
    pub fn handle_written(&mut self, block: u32) -> Option<usize> {
        let (manifest, have) = (self.manifest.as_ref()?, self.have.as_mut()?);
        let place = manifest.layout().place(block)?;
        if have.insert(block) {
            self.bytes += place.bytes as u64;
        }
        let is_last = have.has_all(manifest.layout().blocks_of(place.file));
        is_last.then_some(place.file)
    }

    /// Takes in that every file is in its place and on the disk.
    pub fn finish(&mut self, now: Instant) {
        self.ending = Some(State::Whole);
        self.receipt_at = now;
    }

    /// Ends the transfer, for a reason of the receiver's own.
    pub fn refuse(&mut self, now: Instant, reason: String) {
        self.ending.get_or_insert(State::Refused(reason));
        self.receipt_at = now;
    }

    /// Returns the reason for which the transfer was refused, if it was.
    pub fn refusal(&self) -> Option<&str> {
        match &self.ending {
            Some(State::Refused(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Returns a receipt, if one is due.
    ///
    /// Cost    O(blocks / 64 + ranges)
    pub fn poll_receipt(&mut self, now: Instant) -> Option<Receipt> {
        if now < self.receipt_at {
            return None;
        }
        self.reported_at = Some(now);
        self.receipt_at = now + HEARTBEAT;
        self.unreported_bytes = 0;
        self.unreported_parcels = 0;
        Some(self.receipt())
    }

    fn receipt(&self) -> Receipt {
        let state = match (&self.ending, &self.have) {
            (Some(ending), _) => ending.clone(),
            (None, Some(have)) => State::Blocks {
                bytes: self.bytes,
                missing: have.missing(TRANSFER_RANGES_MAX),
            },
            // While the driver verifies the blocks present, the manifest is not requested again.
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

    /// Returns when to poll for a receipt again.
    pub const fn poll_timeout(&self) -> Instant {
        self.receipt_at
    }

    /// Returns the manifest, once it is known.
    pub const fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// Returns whether every block is present.
    pub fn is_whole(&self) -> bool {
        self.have.as_ref().is_some_and(Have::is_whole)
    }

    /// Returns the verified bytes of files.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of corrupt parcels.
    pub const fn corrupt(&self) -> u64 {
        self.corrupt
    }
}
