//! Which links of the map may have come or gone.
//!
//! *The idea.* A source with thousands of plans compares their paths with the map at each change of it.
//! Most changes concern one link of one leaf. So the directory lists the links that a change may have
//! brought or taken, and only plans over those are compared. Whether a link is there depends on the
//! records of its two ends alone ([`Directory::is_joined`](super::Directory::is_joined)).
//!
//! *What it does not do.* It does not tell whether a link is there, nor what has changed of one that stays.

use alloc::collections::BTreeSet;

use thalweg_base::id::NodeId;
use thalweg_base::wire::record::Record;

/// Links listed one by one at most; of more changes all links are suspected.
const LISTED_MAX: usize = 4_096;

/// The links of the map that may have come or gone since a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkChanges {
    /// Each with the smaller key first.
    links: BTreeSet<[NodeId; 2]>,
    /// Any link may have.
    is_all: bool,
}

impl LinkChanges {
    /// Returns that any link may have come or gone.
    pub const fn all() -> Self {
        Self {
            links: BTreeSet::new(),
            is_all: true,
        }
    }

    /// Returns the links; `None` if it may be any.
    pub fn links(&self) -> Option<impl Iterator<Item = [NodeId; 2]>> {
        (!self.is_all).then(|| self.links.iter().copied())
    }

    /// Handles a record that takes the place of another one, or of none.
    ///
    /// Cost    O(neighbours) with a logarithm
    pub(super) fn handle_record(&mut self, before: Option<&Record>, after: &Record) {
        let Some(before) = before else {
            return self.handle_node(after);
        };
        if before.is_full() != after.is_full() {
            *self = Self::all();
        }
        let ends = |record: &Record| -> BTreeSet<NodeId> {
            record.neighbours.iter().map(|there| there.node).collect()
        };
        for far in ends(before).symmetric_difference(&ends(after)) {
            self.add([after.node, *far]);
        }
    }

    /// Handles a node that comes onto the map or leaves it.
    pub(super) fn handle_node(&mut self, record: &Record) {
        // A node that may have more links than its record lists may have one to any other.
        if record.is_full() {
            *self = Self::all();
        }
        for there in &record.neighbours {
            self.add([record.node, there.node]);
        }
    }

    fn add(&mut self, mut ends: [NodeId; 2]) {
        if self.is_all {
            return;
        }
        ends.sort_unstable();
        self.links.insert(ends);
        if self.links.len() > LISTED_MAX {
            *self = Self::all();
        }
    }
}
