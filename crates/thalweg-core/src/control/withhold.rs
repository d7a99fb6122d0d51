//! Nodes that take what they are given and bring nothing, or not all: found by what the ends say, and left.
//!
//! *The idea.* Such a node answers its neighbours, so none of them falls silent. But of what leaves by it nobody behind says
//! anything, a part that is sent by it is not answered, nor is a subscription. Who is at an end of the way sees that, and no
//! more: not which node it is. So all are kept away from that may be it, if there is a way without them; if there is none, one of
//! them for which there is, and if that was not the one, the next time another.
//!
//! ```text
//! source ──► good ──► hole ··  sink      "I lost what went behind me"  good        nobody answers: keep away from hole
//! source ──► hole ··  good     sink                                                keep away from both; or from either
//! ```
//!
//! One that passes on a part is found by what is missing in the accounts, which takes longer
//! ([`look_through`](crate::ledger::Account::look_through)); but by what a sink lacks, at once, where ADUs keep their order.
//!
//! A node is kept away from for [`HOLD_FIRST`], and twice as long each time that it is found again.
//!
//! *What it does not do.* It finds nobody who lies: a node that says that all was delivered, or dropped for a reason, is
//! believed (docs/protocol.md §11).
//!
//! *Sources.* docs/continuity.md §6.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::continuity::Avoid;
use super::suspects::SUSPECT_HOLD;
use super::{Controller, Keys, Note};
use crate::id::{Epoch, NodeId, StreamId};
use crate::ledger::{Account, Patience};
use crate::needs::{Needs, Reliability};
use crate::time::{Due, Duration, Instant};

/// How long nobody says a word of what leaves by a plan until its way is doubted: three words of a sink are due in it.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The same where what is important waits for nothing: a hop may take long for one ADU, and its sink for the next.
const PATIENCE_FULL: Duration = Duration::from_secs(30);

/// How long after its deadline there is no more to be said of an ADU: what a sink has of it is told with some of its reports.
const TOLD: Duration = Duration::from_secs(4);

/// How long a node is kept away from when it is found for the first time, and at most.
const HOLD_FIRST: Duration = Duration::from_secs(60);
const HOLD_MAX: Duration = Duration::from_secs(960);

/// How often what leaves is compared with what is said of it.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The nodes that are kept away from, and when to look again for others.
#[derive(Debug, Default)]
pub(super) struct Withholders {
    nodes: BTreeMap<NodeId, Withholder>,
    look: Due,
}

#[derive(Clone, Copy, Debug)]
struct Withholder {
    /// It is kept away from; afterwards it is remembered for as long again.
    is_shunned: bool,
    until: Instant,
    hold: Duration,
}

impl Withholders {
    /// Returns whether a node is kept away from.
    ///
    /// Cost    O(log nodes)
    pub(super) fn has(&self, node: NodeId, now: Instant) -> bool {
        let known = self.nodes.get(&node);
        known.is_some_and(|known| known.is_shunned && known.until > now)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        let ends = self.nodes.values().map(|known| known.until);
        ends.fold(self.look.at(), Instant::min)
    }

    /// Takes in that more has left by plans, of which something is to be said.
    pub(super) fn handle_left(&mut self, now: Instant) {
        self.look.handle(now + LOOK_EVERY);
    }

    fn insert(&mut self, node: NodeId, now: Instant) {
        if self.has(node, now) {
            // Found again while the stream moves away from it.
            return;
        }
        let known = self.nodes.get(&node);
        let hold = known.map_or(HOLD_FIRST, |known| (known.hold + known.hold).min(HOLD_MAX));
        let withholder = Withholder {
            is_shunned: true,
            until: now + hold,
            hold,
        };
        self.nodes.insert(node, withholder);
    }

    /// Lets those go that were kept away from long enough; returns whether there were any.
    fn expire(&mut self, now: Instant) -> bool {
        let mut any = false;
        self.nodes.retain(|_, known| {
            let is_due = known.until <= now;
            if is_due && known.is_shunned {
                (known.is_shunned, known.until) = (false, now + known.hold);
                any = true;
                return true;
            }
            !is_due
        });
        any
    }
}

impl Controller {
    /// Does what is due.
    pub(super) fn time_withholders(&mut self, now: Instant) {
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
                self.continuity.withholders.handle_left(now);
            }
            if let Some(last) = last {
                self.doubt_plan(stream, epoch, last, now);
            }
        }
    }

    /// Takes in how many of the ADUs that went by a plan its sink lacks, though it has later ones.
    ///
    /// ADUs of a stream that is `full` keep their order on every hop, and none of them may be left out: what is passed over is not on
    /// its way any more.
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
            self.doubt_plan(stream, epoch, last, now);
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

    /// Doubts the nodes of a plan behind the last that is known to have what leaves by it.
    fn doubt_plan(&mut self, stream: StreamId, epoch: Epoch, last: usize, now: Instant) {
        let Some(source) = self.sources.get(&stream) else {
            return;
        };
        let Some(path) = source.paths.get(&epoch).cloned() else {
            return;
        };
        let start = source.grafts.get(&epoch).copied().unwrap_or(0);
        self.doubt(&path, start.saturating_sub(1) + last, now);
    }

    /// Takes in that nodes of a plan were told their parts, and did not answer in time.
    pub(super) fn doubt_deployment(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        unanswered: &[NodeId],
        now: Instant,
    ) {
        let source = self.sources.get(&stream);
        let way = source.and_then(|source| source.paths.get(&epoch)).cloned();
        self.doubt_unanswered(&way.unwrap_or_default(), unanswered, now);
    }

    /// Takes in that nodes did not answer what was sent to them along a way from here.
    pub(super) fn doubt_unanswered(&mut self, way: &[NodeId], silent: &[NodeId], now: Instant) {
        let first = way.iter().position(|node| silent.contains(node));
        if let Some(first) = first.filter(|first| *first > 0) {
            // The one before has answered, and may not have passed on.
            self.doubt(way, first.saturating_sub(2), now);
        }
    }

    /// Keeps away from the nodes of a way behind this place, but for its end, or from one of them.
    fn doubt(&mut self, way: &[NodeId], last: usize, now: Instant) {
        let Some((sink, between)) = way.split_last() else {
            return;
        };
        let doubted = between.get(last + 1..).unwrap_or_default();
        let is_open = |shunned: &[NodeId]| {
            let is_shunned = |node: &NodeId| shunned.contains(node);
            let is_taken = |ends: [NodeId; 2]| {
                let is_avoided = self.is_avoided(ends, *sink, Avoid::Nodes, now);
                !is_avoided && !ends.iter().any(is_shunned)
            };
            let way = self.directory.path_by(self.id(), *sink, is_taken);
            way.is_some()
        };
        let one = || doubted.chunks(1).rev().find(|node| is_open(node));
        let shunned = Some(doubted).filter(|all| is_open(all)).or_else(one);
        let Some(shunned) = shunned.filter(|shunned| !shunned.is_empty()) else {
            return;
        };
        let shunned = shunned.to_vec();
        for node in &shunned {
            self.continuity.withholders.insert(*node, now);
        }
        let hops = way.windows(2).filter(|hop| shunned.contains(&hop[1]));
        for hop in hops {
            for source in self.sources.values_mut() {
                let until = now + SUSPECT_HOLD;
                source.session.handle_suspect(hop[0], hop[1], until);
            }
        }
        self.note(Note::Withholding {
            nodes: shunned,
            end: *sink,
        });
    }
}

/// Returns how long word of a stream's ADUs is waited for.
fn patience(needs: &Needs) -> Patience {
    let (answer, longest) = match needs.reliability {
        // How old an ADU may be on its way says no deadline.
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
    fn who_is_found_again_is_kept_away_from_twice_as_long() {
        let node = NodeId([7; 32]);
        let mut withholders = Withholders::default();
        withholders.insert(node, at(0));
        withholders.insert(node, at(0));
        assert!(withholders.has(node, at(59)));
        assert!(!withholders.has(node, at(60)));
        assert!(!withholders.expire(at(59)));
        assert!(withholders.expire(at(60)), "there are ways by it again");
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
    fn who_was_good_for_as_long_as_it_was_kept_away_from_is_forgotten() {
        let node = NodeId([7; 32]);
        let mut withholders = Withholders::default();
        withholders.insert(node, at(0));
        withholders.expire(at(60));
        assert!(!withholders.is_empty());
        assert_eq!(withholders.poll_timeout(), at(120));
        assert!(!withholders.expire(at(120)), "nothing changes by that");
        assert!(withholders.is_empty());
        assert_eq!(withholders.poll_timeout(), Instant::NEVER);
    }
}
