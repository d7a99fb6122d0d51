//! The keys of a stream: which plan uses which, which nodes had the present one, and when it changes.
//!
//! *The idea.* A node that was sent the key of a stream may lose the right to it: it is revoked, or
//! its grant ends or is replaced by a smaller one. The key is then exposed: the source draws
//! another, and every sink gets a plan with that.
//!
//! *What it does not do.* A sink that merely leaves is trusted as before.
//!
//! *Sources.* docs/concepts/admission.md §4; docs/reference/protocol.md §6.3.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::limits::RECORDS_MAX;
use thalweg_base::time::Instant;

use super::{Controller, KeyContent, Keys, KeysError, Note};

/// The present key of a stream, and those of plans that are not over.
#[derive(Debug)]
pub(super) struct StreamKeys {
    present: KeyContent,
    /// Former keys in order, each with the first plan that no longer uses it.
    former: Vec<(Epoch, KeyContent)>,
    /// The nodes that were sent the present key.
    holders: BTreeSet<NodeId>,
}

impl StreamKeys {
    /// Draws the first key.
    pub(super) fn draw(keys: &mut dyn Keys) -> Result<Self, KeysError> {
        Ok(Self {
            present: KeyContent {
                key_epoch: 1,
                key: secret(keys)?,
            },
            former: Vec::new(),
            holders: BTreeSet::new(),
        })
    }

    /// Returns the key of a plan.
    pub(super) fn of(&self, plan: Epoch) -> &KeyContent {
        let former = self.former.iter().find(|(end, _)| plan < *end);
        former.map_or(&self.present, |(_, key)| key)
    }

    /// Replaces the present key from the plan `first` on. Keys of plans before `oldest` are dropped.
    pub(super) fn change(&mut self, key: [u8; 32], first: Epoch, oldest: Epoch) {
        self.former.retain(|(end, _)| *end > oldest);
        let key_epoch = self.present.key_epoch + 1;
        let next = KeyContent { key_epoch, key };
        let former = core::mem::replace(&mut self.present, next);
        self.former.push((first, former));
        self.holders.clear();
    }

    /// Records that a node is sent the present key.
    pub(super) fn add_holder(&mut self, node: NodeId) {
        if self.holders.len() < RECORDS_MAX {
            self.holders.insert(node);
        }
    }

    /// Returns whether a node may have the present key. Beyond the limit of the set, every node
    /// counts as a holder.
    fn is_held_by(&self, node: NodeId) -> bool {
        self.holders.contains(&node) || self.holders.len() >= RECORDS_MAX
    }
}

impl Controller {
    /// Requests new keys for the streams of which a node has the key without the right to it.
    pub(super) fn handle_key_exposure(&mut self, node: NodeId, now: Instant) {
        if self.trusts(node) {
            return;
        }
        let announced = self.sources.values_mut();
        let announced = announced.filter(|source| source.is_announced());
        for source in announced.filter(|source| source.keys.is_held_by(node)) {
            source.session.handle_exposed(now);
        }
    }

    /// Draws a new key for a stream. If the system gives no random bits, the session asks again later.
    pub(super) fn rekey(&mut self, stream: StreamId, now: Instant, keys: &mut dyn Keys) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let Ok(key) = secret(keys) else {
            return;
        };
        let first = source.session.handle_key(now);
        let oldest = source.paths.keys().next().copied().unwrap_or(first);
        source.keys.change(key, first, oldest);
        let key_epoch = source.keys.of(first).key_epoch;
        let name = source.publication.name.clone();
        self.note(Note::Rekeyed {
            stream: name,
            key_epoch,
        });
    }
}

fn secret(keys: &mut dyn Keys) -> Result<[u8; 32], KeysError> {
    let mut key = [0; 32];
    keys.random(&mut key)?;
    Ok(key)
}
