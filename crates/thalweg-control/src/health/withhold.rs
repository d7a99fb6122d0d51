//! Withholders: nodes that accept ADUs and pass on nothing, or not all. They are inferred at the
//! ends of the path, and avoided.
//!
//! *The idea.* Such a node answers its neighbours, so it is not silent. But no node behind it
//! reports on the ADUs, and a part or a subscription that is sent through it stays unanswered. The
//! end of the path sees that, but not which node is at fault. So it avoids all candidates if a path
//! without them exists; else one candidate that it can do without, and the next time another.
//!
//! ```text
//! source ──► good ──► hole ··  sink      good: "lost behind me"; nothing behind it answers: avoid hole
//! source ──► hole ··  good     sink      avoid both, or either
//! ```
//!
//! A node that passes on a part is found by what the accounts lack, which takes longer
//! ([`look_through`](crate::ledger::Account::look_through)). Where ADUs keep their order, the
//! sink's gaps show it at once.
//!
//! A node is avoided for [`HOLD_FIRST`], and twice as long each time that it is found again.
//!
//! *What it does not do.* It finds no node that lies: a report that all was delivered, or dropped
//! for a reason, is believed (docs/reference/protocol.md §11).
//!
//! *Sources.* docs/concepts/continuity.md §6.

use alloc::collections::BTreeMap;

use thalweg_base::id::NodeId;
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::{Due, Duration, Instant};

use super::Health;
use super::suspects::SUSPECT_HOLD;
use crate::effect::{Ask, Effect, Note, Turn};
use crate::facts::Facts;
use crate::ledger::Patience;
use crate::planning::Avoid;

/// How long the nodes behind may stay silent about what leaves by a plan. A sink sends three
/// reports in this time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The same for reliable streams: a hop may take long for one ADU, and its sink for the next.
const PATIENCE_FULL: Duration = Duration::from_secs(30);

/// How long after its deadline an ADU may still be reported: a sink adds its receipts to some of
/// its reports only.
const TOLD: Duration = Duration::from_secs(4);

/// How long a node is avoided when it is found for the first time, and at most.
const HOLD_FIRST: Duration = Duration::from_secs(60);
const HOLD_MAX: Duration = Duration::from_secs(960);

/// How often what leaves is compared with the reports on it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The avoided nodes, and when to look for others.
#[derive(Debug, Default)]
pub(super) struct Withholders {
    nodes: BTreeMap<NodeId, Withholder>,
    look: Due,
}

#[derive(Clone, Copy, Debug)]
struct Withholder {
    /// It is avoided; afterwards it is remembered for as long again.
    is_excluded: bool,
    until: Instant,
    hold: Duration,
}

impl Withholders {
    /// Returns whether a node is avoided.
    ///
    /// Cost    O(log nodes)
    pub(super) fn has(&self, node: NodeId, now: Instant) -> bool {
        let known = self.nodes.get(&node);
        known.is_some_and(|known| known.is_excluded && known.until > now)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        let ends = self.nodes.values().map(|known| known.until);
        ends.fold(self.look.at(), Instant::min)
    }

    /// Handles further ADUs that left by plans and are to be reported on.
    pub(super) fn handle_sent(&mut self, now: Instant) {
        self.look.handle(now + LOOK_EVERY);
    }

    /// Returns whether to look for others now; if so, the next time is open.
    fn is_look_due(&mut self, now: Instant) -> bool {
        let is_due = self.look.at() <= now;
        if is_due {
            self.look = Due::default();
        }
        is_due
    }

    fn insert(&mut self, node: NodeId, now: Instant) {
        if self.has(node, now) {
            // Found again while the stream is still moving away from it.
            return;
        }
        let known = self.nodes.get(&node);
        let hold = known.map_or(HOLD_FIRST, |known| (known.hold + known.hold).min(HOLD_MAX));
        let withholder = Withholder {
            is_excluded: true,
            until: now + hold,
            hold,
        };
        self.nodes.insert(node, withholder);
    }

    /// Ends avoidances that are over; returns whether there were any.
    fn expire(&mut self, now: Instant) -> bool {
        let mut any = false;
        self.nodes.retain(|_, known| {
            let is_due = known.until <= now;
            if is_due && known.is_excluded {
                (known.is_excluded, known.until) = (false, now + known.hold);
                any = true;
                return true;
            }
            !is_due
        });
        any
    }
}

impl Health {
    /// Handles further ADUs that left by plans of this node and are to be reported on.
    pub(crate) fn handle_sent(&mut self, now: Instant) {
        self.withholders.handle_sent(now);
    }

    /// Ends avoidances that are over; returns whether to look for withholders now.
    pub(crate) fn handle_look(&mut self, turn: &mut Turn<'_>) -> bool {
        if self.withholders.expire(turn.now) {
            turn.push(Effect::Changed);
        }
        self.withholders.is_look_due(turn.now)
    }

    /// Suspects nodes that did not answer what was sent along a path from here.
    pub(crate) fn handle_unanswered(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        path: &[NodeId],
        silent: &[NodeId],
    ) {
        let first = path.iter().position(|node| silent.contains(node));
        if let Some(first) = first.filter(|first| *first > 0) {
            // The node before has answered, but may not have passed this on.
            self.suspect_behind(turn, facts, path, first.saturating_sub(2));
        }
    }

    /// Avoids the nodes of a path behind this position, except its end, or one of them.
    pub(crate) fn suspect_behind(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        path: &[NodeId],
        last: usize,
    ) {
        let now = turn.now;
        let Some((sink, between)) = path.split_last() else {
            return;
        };
        let doubted = between.get(last + 1..).unwrap_or_default();
        let is_open = |excluded: &[NodeId]| {
            let is_excluded = |node: &NodeId| excluded.contains(node);
            let is_usable = |ends: [NodeId; 2]| {
                let is_avoided = self.is_avoided(ends, (*sink, Avoid::Nodes), now);
                !is_avoided && !ends.iter().any(is_excluded)
            };
            let path = facts.directory.path_by(self.id, *sink, is_usable);
            path.is_some()
        };
        let one = || doubted.chunks(1).rev().find(|node| is_open(node));
        let excluded = Some(doubted).filter(|all| is_open(all)).or_else(one);
        let Some(excluded) = excluded.filter(|excluded| !excluded.is_empty()) else {
            return;
        };
        for node in excluded {
            self.withholders.insert(*node, now);
        }
        let hops = path.windows(2).filter(|hop| excluded.contains(&hop[1]));
        for hop in hops {
            turn.ask(Ask::Suspect([hop[0], hop[1]], now + SUSPECT_HOLD));
        }
        turn.note(Note::Withholding {
            nodes: excluded.to_vec(),
            end: *sink,
        });
    }
}

/// Returns how long reports on a stream's ADUs are awaited.
pub(crate) fn patience(needs: &Needs) -> Patience {
    let (answer, longest) = match needs.reliability {
        // The deadline does not bound how long such an ADU is under path.
        Reliability::Full | Reliability::Repaired => (PATIENCE_FULL, PATIENCE_FULL),
        Reliability::None | Reliability::UntilDeadline => (PATIENCE, needs.deadline),
    };
    let fate = if longest.is_never() {
        PATIENCE_FULL
    } else {
        longest + TOLD
    };
    Patience {
        answer,
        fate: fate.max(answer),
        is_lossy: needs.reliability == Reliability::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn repeated_find_doubles_hold() {
        let node = NodeId([7; 32]);
        let mut withholders = Withholders::default();
        withholders.insert(node, at(0));
        withholders.insert(node, at(0));
        assert!(withholders.has(node, at(59)));
        assert!(!withholders.has(node, at(60)));
        assert!(!withholders.expire(at(59)));
        assert!(
            withholders.expire(at(60)),
            "paths through it are usable again"
        );
        withholders.insert(node, at(100));
        assert!(withholders.has(node, at(219)));
        assert!(!withholders.has(node, at(220)));
        let mut found = 300;
        for hold in [240, 480, 960, 960] {
            withholders.insert(node, at(found));
            assert!(withholders.has(node, at(found + hold - 1)));
            found += hold;
            assert!(!withholders.has(node, at(found)), "and no longer");
        }
    }

    #[test]
    fn node_is_forgotten_after_good_time() {
        let node = NodeId([7; 32]);
        let mut withholders = Withholders::default();
        withholders.insert(node, at(0));
        withholders.expire(at(60));
        assert!(!withholders.is_empty());
        assert_eq!(withholders.poll_timeout(), at(120));
        assert!(!withholders.expire(at(120)), "which changes no path");
        assert!(withholders.is_empty());
        assert_eq!(withholders.poll_timeout(), Instant::NEVER);
    }
}
