//! Leaving in good order: the sources of the plans that pass this node are told, and plan around it while it still carries.
//!
//! ```text
//! this node ── Leave ──► source           keeps away from this node, as from one that does not answer, but sends nothing again
//!           ◄─ Release ─ source           once the plans around it are in force, and nothing is under way by the old ones
//! ```
//!
//! *What it does not do.* It waits for nobody: the driver does, until [`Controller::is_passed`] is false or too long.
//!
//! *Sources.* docs/recast.md §5; docs/protocol.md §6.7.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::suspects::SUSPECT_HOLD;
use super::{Controller, Keys, Note};
use crate::id::{NodeId, StreamId};
use crate::time::Instant;
use crate::wire::control::Body;

impl Controller {
    /// Tells the sources of the streams that pass this node, or end here, that it leaves; from now on it takes no new part.
    pub fn leave(&mut self, now: Instant, keys: &mut dyn Keys) {
        self.is_leaving = true;
        let parts = self.parts.values().map(super::part::Part::installation);
        let others = parts.filter(|part| part.source != self.id());
        let told: BTreeSet<(NodeId, StreamId)> =
            others.map(|part| (part.source, part.stream)).collect();
        for (source, stream) in told {
            if let Some(way) = self.directory.path(self.id(), source) {
                self.send_routed(way, Body::Leave { stream }, keys);
            }
        }
        self.settle(now, keys);
    }

    /// Returns whether a part of another's plan here leads on to another node.
    pub fn is_passed(&self) -> bool {
        let mut parts = self.parts.values().map(super::part::Part::installation);
        parts.any(|part| part.source != self.id() && part.next.is_some())
    }

    /// Returns whether this node has said that it leaves.
    pub(super) const fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Takes in that a node of a plan of this stream leaves: plans go around it, and if it is a sink it is none any more.
    pub(super) fn handle_leave(&mut self, from: NodeId, stream: StreamId, now: Instant) {
        let source = self.sources.get(&stream);
        let mut paths = source.iter().flat_map(|source| source.paths.values());
        if from == self.id() || !paths.any(|path| path.contains(&from)) {
            return;
        }
        let until = now + SUSPECT_HOLD;
        let is_news = self.continuity.keep_away(from, until);
        if let Some(source) = self.sources.get_mut(&stream) {
            source.session.handle_unsubscribe(from, now);
        }
        if !is_news {
            return;
        }
        self.note(Note::Leaving { node: from });
        let streams: Vec<StreamId> = self.sources.keys().copied().collect();
        for stream in streams {
            if let Some(source) = self.sources.get_mut(&stream) {
                source.session.handle_leave(from, now);
            }
        }
    }
}
