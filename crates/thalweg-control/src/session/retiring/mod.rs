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

use thalweg_base::id::{Epoch, NodeId, Sequence};
use thalweg_base::time::{Duration, Instant};

use super::deployment::Deployment;
use super::output::{Outputs, Renewals};
use super::{Feed, LEASE, RENEW, RENEW_GRID};

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

/// The plans of a stream that are no longer their sinks' and still installed.
#[derive(Debug, Default)]
pub(super) struct FormerPlans {
    plans: Vec<Retiring>,
    /// How long a replaced plan stays on a node that wants to leave, so that ADUs in flight drain;
    /// zero if none waits.
    drain_time: Duration,
}

/// What becomes of the ADUs that were sent under a plan that is no longer its sink's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// They arrive, as far as they do.
    Arrives,
    /// They are to be resent, or have been.
    IsResent,
}

/// A plan that is no longer its sink's and still installed.
#[derive(Debug)]
struct Retiring {
    deployment: Deployment,
    /// When to release it if nothing is in flight by it.
    release: Instant,
    /// When to release it in any case.
    latest: Instant,
    /// Whether what is in flight by it is wanted.
    is_wanted: bool,
    /// It stays longer because ADUs are in flight by it.
    is_extended: bool,
    fate: Fate,
    /// The first sequence sent after its replacement, as far as that is known.
    next: Option<Sequence>,
}

impl Retiring {
    /// Shortens its stay, as one of its nodes waits to leave.
    fn shorten(&mut self, drain_time: Duration, now: Instant) {
        self.release = self.release.min(now + drain_time.min(LEAVE_DRAIN_MIN));
        self.latest = self.latest.min(now + drain_time);
    }

    /// Extends its stay, as ADUs are in flight by it.
    fn extend(&mut self, now: Instant) {
        self.is_extended = true;
        let look = if self.deployment.path().has_leaver() {
            LEAVE_CHECK
        } else {
            RENEW_GRID
        };
        self.release = (now + look).min(self.latest);
    }

    /// Lets what was sent by it be resent; returns it with its sink if that is news.
    fn break_off(&mut self) -> Option<(NodeId, Epoch)> {
        let before = core::mem::replace(&mut self.fate, Fate::IsResent);
        let end = self.deployment.path().end();
        let end = end.filter(|_| before == Fate::Arrives)?;
        Some((end, self.deployment.epoch()))
    }

    /// Returns its next timeout; `is_base` if a plan in force or pending is grafted on it.
    fn due(&self, is_base: bool) -> Instant {
        let renewal = self.deployment.send_next();
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

impl FormerPlans {
    /// Returns none yet, of a stream with this drain time.
    pub(super) fn draining(drain_time: Duration) -> Self {
        Self {
            plans: Vec::new(),
            drain_time,
        }
    }

    /// Returns the grafted ones, each behind the plan that it is grafted on.
    pub(super) fn grafts(&self) -> BTreeSet<(Epoch, Epoch)> {
        let grafted = self.plans();
        let grafted = grafted.filter_map(|plan| Some((plan.graft()?.base, plan.epoch())));
        grafted.collect()
    }

    /// Returns those that other plans are grafted on, directly or over others of them; `is_base` tells
    /// whether a plan in force or pending is grafted on one.
    ///
    /// Cost    O(retiring plans), with a logarithm
    pub(super) fn bases(&self, is_base: impl Fn(Epoch) -> bool) -> BTreeSet<Epoch> {
        let of = |plan: &Deployment| (plan.epoch(), plan.graft().map(|graft| graft.base));
        let plans: BTreeMap<Epoch, Option<Epoch>> = self.plans().map(of).collect();
        let mut bases = BTreeSet::new();
        // Grafts are younger than their bases, so they come first.
        for (epoch, base) in plans.into_iter().rev() {
            if bases.contains(&epoch) || is_base(epoch) {
                bases.insert(epoch);
                bases.extend(base);
            }
        }
        bases
    }

    pub(super) fn plans(&self) -> impl Iterator<Item = &Deployment> {
        self.plans.iter().map(|retiring| &retiring.deployment)
    }

    /// Retires an abandoned plan, and stops its copies at once. Its nodes keep it until they have
    /// reported on its ADUs, if there can be any.
    pub(super) fn abandon(&mut self, deployment: Deployment, fate: Fate, now: Instant) {
        let release = if deployment.has_carried() {
            now + RENEW
        } else {
            now
        };
        self.retire(deployment, [release; 2], (false, fate));
    }

    /// Retires a replaced plan, with enough time for ADUs in flight to arrive and be reported.
    pub(super) fn replace(&mut self, deployment: Deployment, fate: Fate, now: Instant) {
        let has_leaver = deployment.path().has_leaver();
        self.retire(deployment, [now + LEASE, now + IN_FLIGHT_MAX], (true, fate));
        if let Some(retiring) = self.plans.last_mut().filter(|_| has_leaver) {
            retiring.shorten(self.drain_time, now);
        }
    }

    /// Retires a plan of a stream that is over: ADUs in flight are still copied.
    pub(super) fn close(&mut self, deployment: Deployment, now: Instant) {
        // A plan that carried nothing has nothing to report.
        let stay = if deployment.has_carried() {
            [now + RENEW, now + LEASE]
        } else {
            [now; 2]
        };
        self.retire(deployment, stay, (true, Fate::Arrives));
    }

    /// Retires a plan, to be released between the first of these times and the second.
    fn retire(
        &mut self,
        mut deployment: Deployment,
        [release, latest]: [Instant; 2],
        (is_wanted, fate): (bool, Fate),
    ) {
        deployment.stop_installing();
        self.plans.push(Retiring {
            deployment,
            release,
            latest,
            is_wanted,
            is_extended: false,
            fate,
            next: None,
        });
    }

    /// Handles a silent node: returns the plans with this hop whose ADUs are to be resent from now
    /// on, with their sinks.
    pub(super) fn handle_suspect(&mut self, from: NodeId, to: NodeId) -> Vec<(NodeId, Epoch)> {
        let plans = self.plans.iter_mut();
        let led = plans.filter(|retiring| retiring.deployment.path().leads(from, to));
        led.filter_map(Retiring::break_off).collect()
    }

    /// Handles a change of the links: returns the plans whose ADUs are to be resent from now on,
    /// with their sinks.
    pub(super) fn handle_change(
        &mut self,
        is_joined: impl Fn(NodeId, NodeId) -> bool,
    ) -> Vec<(NodeId, Epoch)> {
        let mut broken = Vec::new();
        for retiring in &mut self.plans {
            let path = retiring.deployment.path_mut();
            path.handle_change(&is_joined);
            if path.is_doubted() {
                broken.extend(retiring.break_off());
            }
        }
        broken
    }

    /// Handles a node that is about to leave: the plans by it stay no longer than what is in flight.
    pub(super) fn handle_leave(&mut self, node: NodeId, now: Instant) {
        for retiring in &mut self.plans {
            if retiring.deployment.path_mut().handle_leave(node) {
                retiring.shorten(self.drain_time, now);
            }
        }
    }

    /// Returns these plans.
    pub(super) fn plans_mut(&mut self) -> impl Iterator<Item = &mut Deployment> {
        self.plans
            .iter_mut()
            .map(|retiring| &mut retiring.deployment)
    }

    /// Handles a sequence above everything that was sent before the plans in force took over: their
    /// predecessors are fed what is below, as soon as no live plan depends on them.
    ///
    /// Cost    O(retiring plans)
    pub(super) fn handle_next(&mut self, next: Sequence) {
        for retiring in &mut self.plans {
            retiring.next = Some(next);
        }
    }

    /// Extends the stay of plans with ADUs in flight or unaccounted for, and of their bases; `is_live`
    /// tells whether a plan is in force or pending.
    ///
    /// Cost    O(retiring plans · depth), and O(retiring plans) where none ends now
    pub(super) fn extend_in_flight(
        &mut self,
        is_in_flight: impl Fn(Epoch) -> bool,
        is_live: impl Fn(Epoch) -> bool,
        now: Instant,
    ) {
        let is_ending = |retiring: &&Retiring| retiring.release <= now && now < retiring.latest;
        let ending = self.plans.iter().filter(is_ending);
        let ending: Vec<Epoch> = ending.map(|retiring| retiring.deployment.epoch()).collect();
        if ending.is_empty() {
            return;
        }
        let all = self.plans.iter().map(|retiring| &retiring.deployment);
        let all: BTreeMap<Epoch, &Deployment> = all.map(|plan| (plan.epoch(), plan)).collect();
        // A live plan always has ADUs in flight, so that says nothing.
        let is_retiring = |epoch: &Epoch| !is_live(*epoch);
        let base = |epoch: &Epoch| Some(all.get(epoch)?.graft()?.base);
        let is_coming = |epoch: Epoch| {
            let bases = core::iter::successors(Some(epoch), base);
            bases.take_while(is_retiring).any(&is_in_flight)
        };
        let later = ending.into_iter().filter(|epoch| is_coming(*epoch));
        let later: BTreeSet<Epoch> = later.collect();
        let extended = self.plans.iter().filter(|retiring| retiring.is_extended);
        let mut room = LATE_MAX.saturating_sub(extended.count());
        for retiring in &mut self.plans {
            if later.contains(&retiring.deployment.epoch()) && (retiring.is_extended || room > 0) {
                room -= usize::from(!retiring.is_extended);
                retiring.extend(now);
            }
        }
    }

    /// Renews them, and releases those that are due and are not among these `bases`, which plans in
    /// force or pending are grafted on.
    pub(super) fn handle_timeout(
        &mut self,
        bases: &BTreeSet<Epoch>,
        now: Instant,
        outputs: &mut Outputs,
        renewals: &mut Renewals,
    ) {
        self.extend_bases();
        for mut retiring in core::mem::take(&mut self.plans) {
            let (final_feed, deployment) = (retiring.final_feed(), &mut retiring.deployment);
            if bases.contains(&deployment.epoch()) {
                // A live plan depends on it.
            } else if retiring.release <= now {
                deployment.release(outputs);
                continue;
            } else if let Some(final_feed) = final_feed {
                deployment.limit_feed(final_feed, outputs);
            }
            deployment.send_due(now, outputs, renewals);
            self.plans.push(retiring);
        }
    }

    /// Returns the next timeout; `bases` are those that plans in force or pending are grafted on.
    pub(super) fn due(&self, bases: &BTreeSet<Epoch>) -> Instant {
        let due = |retiring: &Retiring| retiring.due(bases.contains(&retiring.deployment.epoch()));
        self.plans.iter().map(due).min().unwrap_or(Instant::NEVER)
    }

    /// Lets each base stay, and be wanted, at least as long as its grafts. Grafts are younger than
    /// their bases, so they come first.
    fn extend_bases(&mut self) {
        self.plans
            .sort_by_key(|retiring| core::cmp::Reverse(retiring.deployment.epoch()));
        let mut held: BTreeMap<Epoch, (Instant, Instant, bool)> = BTreeMap::new();
        for retiring in &mut self.plans {
            if let Some((release, latest, is_wanted)) = held.get(&retiring.deployment.epoch()) {
                retiring.release = retiring.release.max(*release);
                retiring.latest = retiring.latest.max(*latest);
                retiring.is_wanted |= is_wanted;
            }
            if let Some(graft) = retiring.deployment.graft() {
                let (release, latest, is_wanted) = held.entry(graft.base).or_default();
                *release = (*release).max(retiring.release);
                *latest = (*latest).max(retiring.latest);
                *is_wanted |= retiring.is_wanted;
            }
        }
    }
}
