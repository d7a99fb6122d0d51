//! Plans that are no sink's any more and still lie on their nodes.
//!
//! *The idea.* What was given under a plan may be on its way, its nodes have to tell what became of it, and another may be grafted on
//! it: so it is renewed like a plan in force, and released late, after all that is fed by it. A slow line with a long queue brings
//! ADUs minutes after they were given; while the source has not heard what became of all of them, the plan lies longer.
//!
//! One that is grafted goes on being given copies, but only of what was given before another took over, which the sequence tells:
//! the rest comes by that other.
//!
//! ```text
//! given:   … 41 42 │ 43 44 …           42 may wait in a queue before the caster when the plan gives way,
//!          graft   │ its successor     and is copied when it comes; 43 comes by the other way alone
//! ```
//!
//! *What it does not do.* It does not know what is under way: the source's accounts do.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::deployment::{Deployment, Renewals};
use super::{Feed, LEASE, RENEW, RENEW_GRID, Session};
use crate::id::{Epoch, Sequence};
use crate::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long a plan lies at most after another has taken over, while ADUs are under way by it.
pub const UNDER_WAY_MAX: Duration = Duration::from_secs(120);

/// How many plans of a stream lie longer at once: when the relay of a thousand sinks crashes all of theirs have something open, and a
/// node has room for two plans a sink.
pub const LATE_MAX: usize = 64;

/// How long a plan lies at least on a node that waits to leave: by then the accounts of a stream that flows have said what became of
/// what was given by it. The node waits 2 s.
pub const LEFT_MIN: Duration = Duration::from_secs(1);

/// How often it is looked then whether something is under way still.
const LEFT_LOOK: Duration = Duration::from_millis(250);

/// A plan that is not a sink's any more and still lies on its nodes.
#[derive(Debug)]
pub(super) struct Retiring {
    /// When its nodes are to forget it, if nothing is under way by it.
    pub(super) release: Instant,
    /// When they are to forget it whatever is.
    pub(super) latest: Instant,
    /// Whether somebody wants what is under way by it.
    is_wanted: bool,
    /// What was given next when it had given way, as far as that is known.
    next: Option<Sequence>,
    /// It lies longer, for something is under way by it.
    is_late: bool,
    pub(super) deployment: Deployment,
}

impl Retiring {
    /// One of its nodes waits to leave, for as long as something may be on its way by it.
    pub(super) fn hasten(&mut self, linger: Duration, now: Instant) {
        self.release = self.release.min(now + linger.min(LEFT_MIN));
        self.latest = self.latest.min(now + linger);
    }

    /// Something is under way by it.
    fn lie_on(&mut self, now: Instant) {
        self.is_late = true;
        let look = if self.deployment.is_left {
            LEFT_LOOK
        } else {
            RENEW_GRID
        };
        self.release = (now + look).min(self.latest);
    }

    /// Returns when there is something to do for it; `is_base` if something in force lives on it.
    pub(super) fn due(&self, is_base: bool) -> Instant {
        let renewal = self.deployment.send_next;
        match self.rest() {
            _ if is_base => renewal,
            Some(_) if self.deployment.is_fed_on() => Instant::ZERO,
            _ => renewal.min(self.release),
        }
    }

    /// Returns what it is still to be given where it is grafted, once nothing in force lives on it, if that is known.
    fn rest(&self) -> Option<Feed> {
        if self.is_wanted {
            self.next.map(Feed::Until)
        } else {
            Some(Feed::Off)
        }
    }
}

impl Session {
    /// Gives up a plan, and its copies, at once. Its nodes keep it until they have told what became of ADUs that went by it, if any
    /// can have.
    pub(super) fn abandon(&mut self, deployment: Deployment, now: Instant) {
        let release = if deployment.has_carried {
            now + RENEW
        } else {
            now
        };
        self.retire(deployment, [release; 2], false);
    }

    /// Lets a plan that another took over from lie for so long that what is under way by it arrives, and is told of.
    pub(super) fn replaced(&mut self, deployment: Deployment, now: Instant) {
        let is_left = deployment.is_left;
        self.retire(deployment, [now + LEASE, now + UNDER_WAY_MAX], true);
        if let Some(retiring) = self.retiring.last_mut().filter(|_| is_left) {
            retiring.hasten(self.linger, now);
        }
    }

    /// Lets a plan lie on its nodes, between the first of these times and the second.
    pub(super) fn retire(
        &mut self,
        mut deployment: Deployment,
        [release, latest]: [Instant; 2],
        is_wanted: bool,
    ) {
        deployment.give_way();
        self.retiring.push(Retiring {
            release,
            latest,
            is_wanted,
            next: None,
            is_late: false,
            deployment,
        });
    }

    /// Takes in a sequence that nothing has that was given before the plans in force took over: what they took over from is given
    /// copies of what is below, as soon as nothing in force lives on it.
    ///
    /// Cost    O(plans that give way)
    pub fn handle_next(&mut self, next: Sequence) {
        self.due = None;
        for retiring in &mut self.retiring {
            retiring.next = Some(next);
        }
    }

    /// Has those plans lie longer by which ADUs are under way, or ended without a word, and what they live on.
    ///
    /// Cost    O(plans that give way · depth), and O(plans that give way) where none ends now
    pub(super) fn keep_under_way(&mut self, is_under_way: impl Fn(Epoch) -> bool, now: Instant) {
        let is_ending = |retiring: &&Retiring| retiring.release <= now && now < retiring.latest;
        let ending = self.retiring.iter().filter(is_ending);
        let ending: Vec<Epoch> = ending.map(|retiring| retiring.deployment.epoch).collect();
        if ending.is_empty() {
            return;
        }
        let live = self.live();
        let all = self.retiring.iter().map(|retiring| &retiring.deployment);
        let all: BTreeMap<Epoch, &Deployment> = all.map(|plan| (plan.epoch, plan)).collect();
        // By one in force something always is, so that says nothing.
        let is_lying = |epoch: &Epoch| !live.contains(epoch);
        let base = |epoch: &Epoch| Some(all.get(epoch)?.graft?.base);
        let is_coming = |epoch: Epoch| {
            let bases = core::iter::successors(Some(epoch), base);
            bases.take_while(is_lying).any(&is_under_way)
        };
        let later = ending.into_iter().filter(|epoch| is_coming(*epoch));
        let later: BTreeSet<Epoch> = later.collect();
        let lying_on = self.retiring.iter().filter(|retiring| retiring.is_late);
        let mut room = LATE_MAX.saturating_sub(lying_on.count());
        for retiring in &mut self.retiring {
            if later.contains(&retiring.deployment.epoch) && (retiring.is_late || room > 0) {
                room -= usize::from(!retiring.is_late);
                retiring.lie_on(now);
            }
        }
    }

    /// Renews what lies, and releases what lay long enough and nothing is grafted on.
    pub(super) fn time_retiring(&mut self, now: Instant, renewals: &mut Renewals) {
        self.hand_down();
        let bases = self.bases();
        for mut retiring in core::mem::take(&mut self.retiring) {
            let (rest, deployment) = (retiring.rest(), &mut retiring.deployment);
            if bases.contains(&deployment.epoch) {
                // What lives on it is in force.
            } else if retiring.release <= now {
                deployment.release(&mut self.outputs);
                continue;
            } else if let Some(rest) = rest {
                deployment.end_with(rest, &mut self.outputs);
            }
            deployment.send_due(now, &mut self.outputs, renewals);
            self.retiring.push(retiring);
        }
    }

    /// Has each plan lie, and be wanted, as long as those that are grafted on it. Whatever is grafted on another is younger, so it
    /// comes first.
    fn hand_down(&mut self) {
        self.retiring
            .sort_by_key(|retiring| core::cmp::Reverse(retiring.deployment.epoch));
        let mut held: BTreeMap<Epoch, (Instant, Instant, bool)> = BTreeMap::new();
        for retiring in &mut self.retiring {
            if let Some((release, latest, is_wanted)) = held.get(&retiring.deployment.epoch) {
                retiring.release = retiring.release.max(*release);
                retiring.latest = retiring.latest.max(*latest);
                retiring.is_wanted |= is_wanted;
            }
            if let Some(graft) = retiring.deployment.graft {
                let (release, latest, is_wanted) = held.entry(graft.base).or_default();
                *release = (*release).max(retiring.release);
                *latest = (*latest).max(retiring.latest);
                *is_wanted |= retiring.is_wanted;
            }
        }
    }
}
