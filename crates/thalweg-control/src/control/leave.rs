//! Orderly departure: this node notifies the sources of the plans that pass it, and they plan
//! around it while it still carries.
//!
//! ```text
//! this node ── Leave ──► source           avoids this node as if it were silent, but resends nothing
//!           ◄─ Release ─ source           once plans around it are in force and the old ones are drained
//! ```
//!
//! *What it does not do.* It does not wait: the driver does, until [`Controller::is_passed`] is
//! false or too long.
//!
//! *Sources.* docs/concepts/recast.md §5; docs/reference/protocol.md §6.7.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::time::Instant;
use thalweg_base::wire::control::Body;

use super::suspects::SUSPECT_HOLD;
use super::{Controller, Keys, Note};

impl Controller {
    /// Notifies the sources of the streams that pass this node, or end here, that it leaves; it
    /// refuses new parts from now on.
    pub fn leave(&mut self, now: Instant, keys: &mut dyn Keys) {
        self.is_leaving = true;
        let parts = self.parts.values().map(super::part::Part::installation);
        let others = parts.filter(|part| part.source != self.id());
        let sources: BTreeSet<(NodeId, StreamId)> =
            others.map(|part| (part.source, part.stream)).collect();
        for (source, stream) in sources {
            if let Some(path) = self.directory.path(self.id(), source) {
                self.send_routed(path, Body::Leave { stream }, keys);
            }
        }
        self.settle(now, keys);
    }

    /// Returns whether a part of another node's plan leads on from here.
    pub fn is_passed(&self) -> bool {
        let mut parts = self.parts.values().map(super::part::Part::installation);
        parts.any(|part| part.source != self.id() && part.next.is_some())
    }

    /// Returns whether this node has announced that it leaves.
    pub(super) const fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Handles the departure of a node on a plan of this stream: plans avoid it, and if it is a
    /// sink, its subscription ends.
    pub(super) fn handle_leave(&mut self, from: NodeId, stream: StreamId, now: Instant) {
        let source = self.sources.get(&stream);
        let mut paths = source.iter().flat_map(|source| source.paths.values());
        if from == self.id() || !paths.any(|path| path.contains(&from)) {
            return;
        }
        let until = now + SUSPECT_HOLD;
        let is_news = self.continuity.avoid_until(from, until);
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
