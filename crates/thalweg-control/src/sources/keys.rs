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

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::limits::RECORDS_MAX;
use thalweg_base::part::KeyContent;

use crate::facts::{Keys, KeysError};

/// The present key of a stream, and those of plans that are not over.
#[derive(Debug)]
pub(crate) struct StreamKeys {
    present: KeyContent,
    /// Former keys in order, each with the first plan that no longer uses it.
    former: Vec<(Epoch, KeyContent)>,
    /// The nodes that were sent the present key.
    holders: BTreeSet<NodeId>,
}

impl StreamKeys {
    /// Draws the first key.
    pub(crate) fn draw(keys: &mut dyn Keys) -> Result<Self, KeysError> {
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
    pub(crate) fn of(&self, plan: Epoch) -> &KeyContent {
        let former = self.former.iter().find(|(end, _)| plan < *end);
        former.map_or(&self.present, |(_, key)| key)
    }

    /// Replaces the present key from the plan `first` on. Keys of plans before `oldest` are dropped.
    pub(crate) fn change(&mut self, key: [u8; 32], first: Epoch, oldest: Epoch) {
        self.former.retain(|(end, _)| *end > oldest);
        let key_epoch = self.present.key_epoch + 1;
        let next = KeyContent { key_epoch, key };
        let former = core::mem::replace(&mut self.present, next);
        self.former.push((first, former));
        self.holders.clear();
    }

    /// Records that a node is sent the present key.
    pub(crate) fn add_holder(&mut self, node: NodeId) {
        if self.holders.len() < RECORDS_MAX {
            self.holders.insert(node);
        }
    }

    /// Returns whether a node may have the present key. Beyond the limit of the set, every node
    /// counts as a holder.
    pub(crate) fn is_held_by(&self, node: NodeId) -> bool {
        self.holders.contains(&node) || self.holders.len() >= RECORDS_MAX
    }
}

/// Draws a key.
pub(crate) fn secret(keys: &mut dyn Keys) -> Result<[u8; 32], KeysError> {
    let mut key = [0; 32];
    keys.random(&mut key)?;
    Ok(key)
}
