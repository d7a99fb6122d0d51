//! The links that plans keep away from because there was silence on them.
//!
//! *The idea.* A suspicion holds for [`SUSPECT_HOLD`] from the last word of it. A link that is silent again soon after a stream may
//! have come back to it is kept away from for twice as long, and so on: a line that loses a fifth of its packets is silent now and
//! then, and each time that a stream goes there and back costs pictures.
//!
//! ```text
//! silence ═ 10 s ═╗ taken up   silence ═ 20 s ═╗   silence ═ 40 s ═╗ ... 160 s at most
//!                 ╚═ within 30 s, or as long as it was kept away from ═╝     later: 10 s, as at first
//! ```
//!
//! *What it does not do.* A doubt keeps plans away for as long as it lasts, and is no silence that is remembered.
//!
//! *Sources.* docs/continuity.md §4.

use alloc::collections::BTreeMap;

use crate::id::NodeId;
use crate::time::{Duration, Instant};

/// How long a way is kept away from after the last word of silence: longer than a dead link takes to leave the map (8 s), so
/// that a stream does not go back to it in between, and than a link that has become longer takes to say so.
pub const SUSPECT_HOLD: Duration = Duration::from_secs(10);

/// The longest of these times.
pub(super) const SUSPECT_HOLD_MAX: Duration = Duration::from_secs(160);

/// A silence is one of the same kind if it comes so soon after the last was over, at least.
pub(super) const SUSPECT_AGAIN: Duration = Duration::from_secs(30);

/// Who does not hear from whom.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    links: BTreeMap<(NodeId, NodeId), Suspect>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Suspect {
    /// Until when plans keep away from it.
    until: Instant,
    is_avoided: bool,
    /// When there was silence last, and how long it is kept away from for that.
    said: Option<Instant>,
    hold: Duration,
}

impl Suspect {
    /// Returns until when the last silence keeps plans away.
    fn held_until(&self) -> Instant {
        self.said.map_or(Instant::ZERO, |said| said + self.hold)
    }

    /// Returns until when that is remembered.
    fn known_until(&self) -> Instant {
        let known = self.held_until() + self.hold.max(SUSPECT_AGAIN);
        self.said.map_or(self.until, |_| known.max(self.until))
    }
}

impl Suspects {
    /// Takes in that there is silence.
    pub(super) fn insert(&mut self, link: (NodeId, NodeId), now: Instant) {
        let suspect = self.links.entry(link).or_default();
        let is_again = suspect.said.is_some() && suspect.known_until() > now;
        suspect.hold = match suspect.hold {
            hold if suspect.held_until() > now => hold,
            hold if is_again => (hold + hold).min(SUSPECT_HOLD_MAX),
            _ => SUSPECT_HOLD,
        };
        suspect.said = Some(now);
        self.keep_away(link, now + self.links[&link].hold);
    }

    /// Has plans lead elsewhere until then, or for as long as they were to before.
    pub(super) fn keep_away(&mut self, link: (NodeId, NodeId), until: Instant) {
        let suspect = self.links.entry(link).or_default();
        suspect.until = suspect.until.max(until);
        suspect.is_avoided = true;
    }

    /// Returns whether plans keep away from a link.
    ///
    /// Cost    O(log links)
    pub(super) fn has(&self, link: (NodeId, NodeId), now: Instant) -> bool {
        let suspect = self.links.get(&link);
        suspect.is_some_and(|suspect| suspect.until > now)
    }

    /// Returns when there was silence last, while that is remembered.
    ///
    /// Cost    O(log links)
    pub(super) fn said(&self, link: (NodeId, NodeId)) -> Option<Instant> {
        self.links.get(&link)?.said
    }

    /// Returns whether plans keep away from none.
    pub(super) fn is_empty(&self) -> bool {
        !self.links.values().any(|suspect| suspect.is_avoided)
    }

    /// Lets those go that were kept away from long enough; returns whether there were any.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let mut any = false;
        self.links.retain(|_, suspect| {
            if suspect.is_avoided && suspect.until <= now {
                suspect.is_avoided = false;
                any = true;
            }
            suspect.is_avoided || suspect.known_until() > now
        });
        any
    }

    /// Returns when one is taken up again. What is only remembered is forgotten with it, or when there is anything to do.
    pub(super) fn poll_timeout(&self) -> Instant {
        let avoided = self.links.values().filter(|suspect| suspect.is_avoided);
        let ends = avoided.map(|suspect| suspect.until);
        ends.min().unwrap_or(Instant::NEVER)
    }
}
