//! Retiring plans: no longer a sink's plan, but still installed on their nodes.
//!
//! *The idea.* ADUs may be in flight by such a plan, its nodes have to report on them, and others
//! may be grafted on it. So it is renewed like a plan in force and released late, after everything
//! that it feeds. A slow link with a long queue delivers ADUs minutes after they were sent; while
//! the source lacks reports on some of them, the plan stays longer.
//!
//! A grafted one is still copied, but only the ADUs below the sequence at which its successor took
//! over: that carries the rest.
//!
//! ```text
//! given:   … 41 42 │ 43 44 …           42 may be queued before the caster when the plan is replaced,
//!          graft   │ its successor     and is copied when it arrives; 43 goes by the other path alone
//! ```
//!
//! *What it does not do.* It does not know what is in flight: the source's accounts do.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, Sequence};
use thalweg_base::time::{Duration, Instant};

use super::deployment::{Deployment, Renewals};
use super::{Feed, LEASE, RENEW, RENEW_GRID, Session};

#[cfg(test)]
mod tests;

/// Maximum time that a plan stays after its replacement while ADUs are in flight by it.
pub const IN_FLIGHT_MAX: Duration = Duration::from_secs(120);

/// Maximum number of plans of a stream that stay longer at once. When the relay of a thousand sinks
/// crashes, all of their plans have something unaccounted for, and a node has room for two plans per sink.
pub const LATE_MAX: usize = 64;

/// Minimum time that a plan stays on a node that waits to leave: by then the accounts of a flowing
/// stream are complete. The node waits 2 s.
pub const LEAVE_DRAIN_MIN: Duration = Duration::from_secs(1);

/// Interval of the check for ADUs in flight on such a node.
const LEAVE_CHECK: Duration = Duration::from_millis(250);

/// A plan that is no longer its sink's and still installed.
#[derive(Debug)]
pub(super) struct Retiring {
    /// When to release it if nothing is in flight by it.
    pub(super) release: Instant,
    /// When to release it in any case.
    pub(super) latest: Instant,
    /// Whether what is in flight by it is wanted.
    is_wanted: bool,
    /// The first sequence sent after its replacement, as far as that is known.
    next: Option<Sequence>,
    /// It stays longer because ADUs are in flight by it.
    is_extended: bool,
    pub(super) deployment: Deployment,
}

impl Retiring {
    /// Shortens its stay, as one of its nodes waits to leave.
    pub(super) fn shorten(&mut self, drain_time: Duration, now: Instant) {
        self.release = self.release.min(now + drain_time.min(LEAVE_DRAIN_MIN));
        self.latest = self.latest.min(now + drain_time);
    }

    /// Extends its stay, as ADUs are in flight by it.
    fn extend(&mut self, now: Instant) {
        self.is_extended = true;
        let look = if self.deployment.has_leaver {
            LEAVE_CHECK
        } else {
            RENEW_GRID
        };
        self.release = (now + look).min(self.latest);
    }

    /// Returns its next timeout; `is_base` if a plan in force or pending is grafted on it.
    pub(super) fn due(&self, is_base: bool) -> Instant {
        let renewal = self.deployment.send_next;
        match self.final_feed() {
            _ if is_base => renewal,
            Some(_) if self.deployment.is_fed_fully() => Instant::ZERO,
            _ => renewal.min(self.release),
        }
    }

    /// Returns the last feed of a grafted plan once no live plan depends on it, if it is known.
    fn final_feed(&self) -> Option<Feed> {
        if self.is_wanted {
            self.next.map(Feed::Until)
        } else {
            Some(Feed::Off)
        }
    }
}

impl Session {
    /// Retires an abandoned plan, and stops its copies at once. Its nodes keep it until they have
    /// reported on its ADUs, if there can be any.
    pub(super) fn abandon(&mut self, deployment: Deployment, now: Instant) {
        let release = if deployment.has_carried {
            now + RENEW
        } else {
            now
        };
        self.retire(deployment, [release; 2], false);
    }

    /// Retires a replaced plan, with enough time for ADUs in flight to arrive and be reported.
    pub(super) fn retire_replaced(&mut self, deployment: Deployment, now: Instant) {
        let has_leaver = deployment.has_leaver;
        self.retire(deployment, [now + LEASE, now + IN_FLIGHT_MAX], true);
        if let Some(retiring) = self.retiring.last_mut().filter(|_| has_leaver) {
            retiring.shorten(self.drain_time, now);
        }
    }

    /// Retires a plan, to be released between the first of these times and the second.
    pub(super) fn retire(
        &mut self,
        mut deployment: Deployment,
        [release, latest]: [Instant; 2],
        is_wanted: bool,
    ) {
        deployment.stop_installing();
        self.retiring.push(Retiring {
            release,
            latest,
            is_wanted,
            next: None,
            is_extended: false,
            deployment,
        });
    }

    /// Handles a sequence above everything that was sent before the plans in force took over: their
    /// predecessors are fed what is below, as soon as no live plan depends on them.
    ///
    /// Cost    O(retiring plans)
    pub fn handle_next(&mut self, next: Sequence) {
        self.due = None;
        for retiring in &mut self.retiring {
            retiring.next = Some(next);
        }
    }

    /// Extends the stay of plans with ADUs in flight or unaccounted for, and of their bases.
    ///
    /// Cost    O(retiring plans · depth), and O(retiring plans) where none ends now
    pub(super) fn extend_in_flight(&mut self, is_in_flight: impl Fn(Epoch) -> bool, now: Instant) {
        let is_ending = |retiring: &&Retiring| retiring.release <= now && now < retiring.latest;
        let ending = self.retiring.iter().filter(is_ending);
        let ending: Vec<Epoch> = ending.map(|retiring| retiring.deployment.epoch).collect();
        if ending.is_empty() {
            return;
        }
        let live = self.live();
        let all = self.retiring.iter().map(|retiring| &retiring.deployment);
        let all: BTreeMap<Epoch, &Deployment> = all.map(|plan| (plan.epoch, plan)).collect();
        // A live plan always has ADUs in flight, so that says nothing.
        let is_retiring = |epoch: &Epoch| !live.contains(epoch);
        let base = |epoch: &Epoch| Some(all.get(epoch)?.graft?.base);
        let is_coming = |epoch: Epoch| {
            let bases = core::iter::successors(Some(epoch), base);
            bases.take_while(is_retiring).any(&is_in_flight)
        };
        let later = ending.into_iter().filter(|epoch| is_coming(*epoch));
        let later: BTreeSet<Epoch> = later.collect();
        let extended = self.retiring.iter().filter(|retiring| retiring.is_extended);
        let mut room = LATE_MAX.saturating_sub(extended.count());
        for retiring in &mut self.retiring {
            if later.contains(&retiring.deployment.epoch) && (retiring.is_extended || room > 0) {
                room -= usize::from(!retiring.is_extended);
                retiring.extend(now);
            }
        }
    }

    /// Renews retiring plans, and releases those that are due and have no grafts.
    pub(super) fn handle_retiring_timeout(&mut self, now: Instant, renewals: &mut Renewals) {
        self.extend_bases();
        let bases = self.bases();
        for mut retiring in core::mem::take(&mut self.retiring) {
            let (final_feed, deployment) = (retiring.final_feed(), &mut retiring.deployment);
            if bases.contains(&deployment.epoch) {
                // A live plan depends on it.
            } else if retiring.release <= now {
                deployment.release(&mut self.outputs);
                continue;
            } else if let Some(final_feed) = final_feed {
                deployment.limit_feed(final_feed, &mut self.outputs);
            }
            deployment.send_due(now, &mut self.outputs, renewals);
            self.retiring.push(retiring);
        }
    }

    /// Lets each base stay, and be wanted, at least as long as its grafts. Grafts are younger than
    /// their bases, so they come first.
    fn extend_bases(&mut self) {
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
