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
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::time::{Due, Duration, Instant};

use super::avoid::Avoid;
use super::suspects::SUSPECT_HOLD;
use super::{Controller, Keys, Note};
use crate::ledger::{Account, Patience};

/// How long the nodes behind may stay silent about what leaves by a plan. A sink sends three
/// reports in this time.
pub const PATIENCE: Duration = Duration::from_secs(5);

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

impl Controller {
    /// Handles what is due.
    pub(super) fn handle_withholder_timeout(&mut self, now: Instant) {
        self.is_changed |= self.continuity.withholders.expire(now);
        if self.continuity.withholders.look.at() > now {
            return;
        }
        self.continuity.withholders.look = Due::default();
        for (stream, epoch, patience) in self.plans_in_force() {
            let looked = self.accounts.change((stream, epoch), |account| {
                let last = account.look_through(&patience, now);
                (last, account.awaits_passage())
            });
            let Some((last, awaits_passage)) = looked else {
                continue;
            };
            if awaits_passage {
                self.continuity.withholders.handle_sent(now);
            }
            if let Some(last) = last {
                self.suspect_plan(stream, epoch, last, now);
            }
        }
    }

    /// Handles how many of the ADUs that went by a plan its sink lacks, though it has later ones.
    ///
    /// ADUs of a `full` stream keep their order on every hop, and none may be left out: one that
    /// was passed over is no longer in flight.
    pub fn handle_missing(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        missing: u64,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let passed_over = |account: &mut Account| account.handle_missing(missing, now);
        let found = self.accounts.change((stream, epoch), passed_over);
        if let Some(last) = found.flatten() {
            self.suspect_plan(stream, epoch, last, now);
            self.settle(now, keys);
        }
    }

    fn plans_in_force(&self) -> Vec<(StreamId, Epoch, Patience)> {
        let sources = self.sources.iter();
        let plans = sources.flat_map(|(stream, source)| {
            let patience = patience(&source.publication.needs);
            let active = source.session.active();
            active.map(move |(_, epoch)| (*stream, epoch, patience))
        });
        plans.collect()
    }

    /// Suspects the nodes of a plan behind the last that is known to have what leaves by it.
    fn suspect_plan(&mut self, stream: StreamId, epoch: Epoch, last: usize, now: Instant) {
        let Some(source) = self.sources.get(&stream) else {
            return;
        };
        let Some(path) = source.paths.get(&epoch).cloned() else {
            return;
        };
        let start = source.grafts.get(&epoch).copied().unwrap_or(0);
        self.suspect_nodes(&path, start.saturating_sub(1) + last, now);
    }

    /// Suspects nodes of a plan that did not answer their parts in time.
    pub(super) fn suspect_deployment(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        unanswered: &[NodeId],
        now: Instant,
    ) {
        let source = self.sources.get(&stream);
        let path = source.and_then(|source| source.paths.get(&epoch)).cloned();
        self.suspect_unanswered(&path.unwrap_or_default(), unanswered, now);
    }

    /// Suspects nodes that did not answer what was sent along a path from here.
    pub(super) fn suspect_unanswered(&mut self, path: &[NodeId], silent: &[NodeId], now: Instant) {
        let first = path.iter().position(|node| silent.contains(node));
        if let Some(first) = first.filter(|first| *first > 0) {
            // The node before has answered, but may not have passed this on.
            self.suspect_nodes(path, first.saturating_sub(2), now);
        }
    }

    /// Avoids the nodes of a path behind this position, except its end, or one of them.
    fn suspect_nodes(&mut self, path: &[NodeId], last: usize, now: Instant) {
        let Some((sink, between)) = path.split_last() else {
            return;
        };
        let doubted = between.get(last + 1..).unwrap_or_default();
        let is_open = |excluded: &[NodeId]| {
            let is_excluded = |node: &NodeId| excluded.contains(node);
            let is_usable = |ends: [NodeId; 2]| {
                let is_avoided = self.is_avoided(ends, *sink, Avoid::Nodes, now);
                !is_avoided && !ends.iter().any(is_excluded)
            };
            let path = self.directory.path_by(self.id(), *sink, is_usable);
            path.is_some()
        };
        let one = || doubted.chunks(1).rev().find(|node| is_open(node));
        let excluded = Some(doubted).filter(|all| is_open(all)).or_else(one);
        let Some(excluded) = excluded.filter(|excluded| !excluded.is_empty()) else {
            return;
        };
        let excluded = excluded.to_vec();
        for node in &excluded {
            self.continuity.withholders.insert(*node, now);
        }
        let hops = path.windows(2).filter(|hop| excluded.contains(&hop[1]));
        for hop in hops {
            for source in self.sources.values_mut() {
                let until = now + SUSPECT_HOLD;
                source.session.handle_suspect(hop[0], hop[1], until);
            }
        }
        self.note(Note::Withholding {
            nodes: excluded,
            end: *sink,
        });
    }
}

/// Returns how long reports on a stream's ADUs are awaited.
fn patience(needs: &Needs) -> Patience {
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
