//! Suspects: links that plans avoid because a neighbour fell silent on them.
//!
//! *The idea.* A suspicion holds for [`SUSPECT_HOLD`] after the last report of silence. If the link falls
//! silent again soon after a stream may have returned to it, the hold doubles, and so on: a link that loses
//! a fifth of its packets is silent now and then, and each move of a stream there and back costs pictures.
//!
//! ```text
//! silence ═ 10 s ═╗ usable    silence ═ 20 s ═╗   silence ═ 40 s ═╗ ... 160 s at most
//!                 ╚═ within 30 s, or the time of its hold ═╝        later: 10 s, as at first
//! ```
//!
//! *What it does not do.* A doubt only delays plans while it lasts, and is not remembered as a silence.
//!
//! *Sources.* docs/concepts/continuity.md §4.

use alloc::collections::BTreeMap;

use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};

/// How long plans avoid a link after the last report of silence. This exceeds the 8 s after which a
/// dead link leaves the map, so that a stream does not return to it in between, and the time in
/// which a link that has become longer announces that.
pub const SUSPECT_HOLD: Duration = Duration::from_secs(10);

/// The maximum hold.
pub(crate) const SUSPECT_HOLD_MAX: Duration = Duration::from_secs(160);

/// A silence counts as a repetition if it comes within this time after the last hold, or within the
/// length of that hold.
pub(crate) const SUSPECT_AGAIN: Duration = Duration::from_secs(30);

/// Directed links (from, to) on which `to` did not answer.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    links: BTreeMap<(NodeId, NodeId), Suspect>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Suspect {
    /// Until when plans avoid it.
    until: Instant,
    is_avoided: bool,
    /// The last silence, and the hold that it caused.
    silent_at: Option<Instant>,
    hold: Duration,
}

impl Suspect {
    /// Returns until when the last silence makes plans avoid the link.
    fn held_until(&self) -> Instant {
        self.silent_at
            .map_or(Instant::ZERO, |silent_at| silent_at + self.hold)
    }

    /// Returns until when that silence is remembered.
    fn known_until(&self) -> Instant {
        let known = self.held_until() + self.hold.max(SUSPECT_AGAIN);
        self.silent_at.map_or(self.until, |_| known.max(self.until))
    }
}

impl Suspects {
    /// Records a silence.
    pub(crate) fn insert(&mut self, link: (NodeId, NodeId), now: Instant) {
        let suspect = self.links.entry(link).or_default();
        let is_again = suspect.silent_at.is_some() && suspect.known_until() > now;
        suspect.hold = match suspect.hold {
            hold if suspect.held_until() > now => hold,
            hold if is_again => (hold + hold).min(SUSPECT_HOLD_MAX),
            _ => SUSPECT_HOLD,
        };
        suspect.silent_at = Some(now);
        self.avoid_until(link, now + self.links[&link].hold);
    }

    /// Makes plans avoid a link until then, or longer if they already do.
    pub(crate) fn avoid_until(&mut self, link: (NodeId, NodeId), until: Instant) {
        let suspect = self.links.entry(link).or_default();
        suspect.until = suspect.until.max(until);
        suspect.is_avoided = true;
    }

    /// Returns whether plans avoid a link.
    ///
    /// Cost    O(log links)
    pub(crate) fn has(&self, link: (NodeId, NodeId), now: Instant) -> bool {
        let suspect = self.links.get(&link);
        suspect.is_some_and(|suspect| suspect.until > now)
    }

    /// Returns the last silence, while it is remembered.
    ///
    /// Cost    O(log links)
    pub(crate) fn last_silence(&self, link: (NodeId, NodeId)) -> Option<Instant> {
        self.links.get(&link)?.silent_at
    }

    /// Returns whether plans avoid no link at all.
    pub(crate) fn is_empty(&self) -> bool {
        !self.links.values().any(|suspect| suspect.is_avoided)
    }

    /// Ends holds that are over; returns whether there were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
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

    /// Returns when the next hold ends. Entries that are only remembered are dropped at the same
    /// time, or at any other timeout.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let avoided = self.links.values().filter(|suspect| suspect.is_avoided);
        let ends = avoided.map(|suspect| suspect.until);
        ends.min().unwrap_or(Instant::NEVER)
    }
}
