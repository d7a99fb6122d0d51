//! One sink: its subscription, the plan in force for it, and the one that is to replace that.
//!
//! *What it does not do.* It sends nothing and knows no other sink.

use alloc::vec::Vec;

use thalweg_base::id::Epoch;
use thalweg_base::time::{Duration, Instant};

use super::super::deployment::{Deployment, Found};
use super::super::output::{Outputs, Renewals};
use super::super::retiring::Fate;
use super::super::{RENEW, RETRY};

/// A lease is still valid at its last instant and has lapsed one nanosecond later.
const PAST_LEASE: Duration = Duration::from_nanos(1);

#[derive(Debug, Default)]
pub(in super::super) struct Sink {
    lease: Instant,
    /// Since when its lease has lapsed while it is unreachable.
    absent_since: Option<Instant>,
    active: Option<Deployment>,
    pending: Option<Deployment>,
    /// When to request a plan again; `None` while one is requested, pending or active.
    retry: Option<Instant>,
    /// Former plans with broken paths: what is not acknowledged of them is to be resent.
    broken: Vec<Epoch>,
    /// A plan has been in force for it, so it has the start of the stream and goes on from there.
    has_begun: bool,
}

/// What is to be done with a plan that was found.
#[derive(Debug)]
pub(in super::super) enum Verdict {
    /// Nothing: the plan in force is the same and sound. What was to replace it is abandoned.
    Stay(Option<Deployment>),
    /// The pending plan is the same; it may take over, or has messages to send.
    GoOn,
    /// Nothing: the pending plan is the same.
    Wait,
    /// It is to be deployed.
    Deploy,
}

/// A plan that has come into force.
#[derive(Debug)]
pub(in super::super) struct Switched {
    pub(in super::super) epoch: Epoch,
    /// The plan that it replaces, and what becomes of its ADUs.
    pub(in super::super) before: Option<(Deployment, Fate)>,
    /// Former plans whose ADUs are to be resent.
    pub(in super::super) from: Vec<Epoch>,
    /// Its sink starts with it, and gets what the source keeps.
    pub(in super::super) is_replayed: bool,
}

impl Sink {
    /// Handles a subscription until then, or its renewal.
    pub(super) fn handle_subscribe(&mut self, lease: Instant) {
        self.lease = lease;
        self.absent_since = None;
    }

    pub(super) fn has_lapsed(&self, now: Instant) -> bool {
        self.lease < now
    }

    /// Returns whether a sink with a lapsed lease may still want the stream; its lease is then
    /// extended for a while.
    pub(super) fn may_return(&mut self, absence: Duration, now: Instant) -> bool {
        if absence == Duration::ZERO || !self.has_begun {
            return false;
        }
        let is_silent = |plan: &Deployment| plan.path().is_suspect(now);
        let is_reached = self.is_healthy() && !self.active.as_ref().is_some_and(is_silent);
        if is_reached {
            // The path may have returned a moment ago; the sink renews within seconds of that.
            self.lease = now + RENEW;
            return self.absent_since.take().is_some();
        }
        let since = *self.absent_since.get_or_insert(now);
        let until = since + absence;
        self.lease = until.min(now + RENEW);
        now < until
    }

    pub(in super::super) fn active(&self) -> Option<&Deployment> {
        self.active.as_ref()
    }

    pub(in super::super) fn pending(&self) -> Option<&Deployment> {
        self.pending.as_ref()
    }

    /// Returns the plan that its ADUs will be sent under.
    pub(super) fn next_plan(&self) -> Option<&Deployment> {
        self.pending.as_ref().or(self.active.as_ref())
    }

    pub(super) fn plans(&self) -> impl Iterator<Item = &Deployment> {
        self.active.iter().chain(&self.pending)
    }

    pub(super) fn plans_mut(&mut self) -> impl Iterator<Item = &mut Deployment> {
        self.active.iter_mut().chain(&mut self.pending)
    }

    /// Ends it; returns its plans.
    pub(super) fn into_plans(self) -> impl Iterator<Item = Deployment> {
        self.active.into_iter().chain(self.pending)
    }

    /// Returns whether it has a plan, and none with a broken path.
    pub(in super::super) fn is_healthy(&self) -> bool {
        let is_whole = |plan: &Deployment| !plan.path().is_doubted();
        self.next_plan().is_some() && self.broken.is_empty() && self.plans().all(is_whole)
    }

    /// Returns whether nothing but a doubt speaks against the plan in force: its path is intact, it
    /// has the present key (`first` is the first plan with that), and its base is in force or pending,
    /// `is_live`.
    pub(in super::super) fn is_sound(
        &self,
        first: Epoch,
        is_live: impl Fn(Epoch) -> bool,
        now: Instant,
    ) -> bool {
        let is_sound = |plan: &Deployment| {
            let path = plan.path();
            let is_whole = !path.is_doubted() && !path.is_suspect(now) && !path.has_leaver();
            is_whole && plan.epoch() >= first && plan.is_fed_by(&is_live)
        };
        self.broken.is_empty() && self.active.as_ref().is_some_and(is_sound)
    }

    /// Returns whether its next plan was copied from one that is neither in force nor pending,
    /// `is_live`, and no other is on its way.
    pub(super) fn is_orphan(&self, is_live: impl Fn(Epoch) -> bool) -> bool {
        let is_orphan = |plan: &Deployment| !plan.is_fed_by(is_live);
        self.retry.is_none() && self.next_plan().is_some_and(is_orphan)
    }

    pub(in super::super) fn stands_by(&self) -> bool {
        self.pending.as_ref().is_some_and(Deployment::stands_by)
    }

    /// Compares a plan that was found with those it has. `first` is the first plan with the present
    /// key; `is_live` tells whether a plan is in force or pending.
    pub(super) fn weigh(
        &mut self,
        found: &Found,
        (first, is_live): (Epoch, impl Fn(Epoch) -> bool),
        now: Instant,
    ) -> Verdict {
        self.retry = None;
        // A restarted node has lost its part and its ADUs, and shows only as a brief gap in the map. So a
        // plan with a broken path is deployed again under a new epoch, even if it is equal.
        let is_renewed = !self.broken.is_empty();
        let is_same = |plan: &Deployment| {
            let is_sealed_so = plan.epoch() >= first;
            let is_equal = plan.path().parts() == found.parts;
            is_equal && is_sealed_so && plan.is_fed_by(&is_live) && plan.start() >= found.start()
        };
        let is_kept = |active: &Deployment| is_same(active) && !active.path().is_doubted();
        if self.active.as_ref().is_some_and(is_kept) && !is_renewed {
            return Verdict::Stay(self.pending.take());
        }
        let Some(pending) = self.pending.as_mut().filter(|plan| is_same(plan)) else {
            return Verdict::Deploy;
        };
        let is_taken_up = pending.stands_by() && !found.stands_by();
        if is_taken_up {
            pending.activate(now);
        }
        let is_doubted = pending.path().is_doubted();
        if is_doubted {
            pending.begin(now);
        }
        if is_taken_up || is_doubted {
            Verdict::GoOn
        } else {
            Verdict::Wait
        }
    }

    /// Starts to deploy a plan; returns the one that it replaces on its way.
    pub(super) fn deploy(
        &mut self,
        epoch: Epoch,
        found: Found,
        now: Instant,
    ) -> Option<Deployment> {
        let deployment = Deployment::new(epoch, found, !self.has_begun, now);
        self.pending.replace(deployment)
    }

    /// Lets its pending plan wait no longer than for its base.
    pub(super) fn activate(&mut self, base: Epoch, now: Instant) {
        if let Some(pending) = self.pending.as_mut().filter(|plan| plan.follows(base)) {
            pending.activate(now);
        }
    }

    /// Returns whether its pending plan is ready, and its base is `in_force`.
    pub(super) fn is_to_switch(&self, in_force: impl Fn(Epoch) -> bool) -> bool {
        let pending = self.pending.as_ref();
        pending.is_some_and(|plan| plan.is_ready() && plan.is_fed_by(in_force) && !plan.stands_by())
    }

    /// Brings its pending plan into force if it is ready and its base is `in_force`. If the stream
    /// `must_resend`, ADUs in flight through a leaver are sent again.
    pub(super) fn switch(
        &mut self,
        in_force: impl Fn(Epoch) -> bool,
        must_resend: bool,
        now: Instant,
    ) -> Option<Switched> {
        if !self.is_to_switch(in_force) {
            return None;
        }
        let mut pending = self.pending.take()?;
        let begins = pending.take_over();
        let (epoch, is_grafted) = (pending.epoch(), pending.graft().is_some());
        self.has_begun = true;
        let before = self.active.replace(pending).map(|before| {
            let path = before.path();
            // ADUs in flight through a leaver may be late for it.
            let is_at_risk = path.has_leaver() && must_resend;
            if path.is_doubted() || path.is_suspect(now) || is_at_risk {
                self.broken.push(before.epoch());
                (before, Fate::IsResent)
            } else {
                (before, Fate::Arrives)
            }
        });
        Some(Switched {
            epoch,
            before,
            from: core::mem::take(&mut self.broken),
            is_replayed: begins && !is_grafted,
        })
    }

    /// Handles the loss of the path of a former plan.
    pub(super) fn handle_broken(&mut self, epoch: Epoch) {
        self.broken.push(epoch);
    }

    /// Handles its restart: it has lost everything.
    pub(super) fn handle_restarted(&mut self) {
        self.has_begun = false;
        if let Some(pending) = &mut self.pending {
            pending.start_over();
        }
    }

    /// Handles that no plan was found: one is requested after [`RETRY`]. Returns the plan in force
    /// if that `is_lost` and ends; its ADUs are to be resent.
    pub(super) fn handle_no_plan(
        &mut self,
        is_lost: impl Fn(&Deployment) -> bool,
        now: Instant,
    ) -> Option<Deployment> {
        self.retry = Some(now + RETRY);
        let lost = self.active.take_if(|plan| is_lost(plan))?;
        self.broken.push(lost.epoch());
        Some(lost)
    }

    /// Ends a plan that fails, and one with a former key if it was to be replaced by that; returns
    /// them and what becomes of their ADUs.
    pub(super) fn fail(
        &mut self,
        epoch: Epoch,
        first: Epoch,
        now: Instant,
    ) -> impl Iterator<Item = (Deployment, Fate)> + use<> {
        let pending = self.pending.take_if(|plan| plan.epoch() == epoch);
        let is_over = |plan: &mut Deployment| {
            plan.epoch() == epoch || pending.is_some() && plan.epoch() < first
        };
        let active = self.active.take_if(is_over);
        self.broken.extend(active.as_ref().map(Deployment::epoch));
        self.retry = Some(now + RETRY);
        let pending = pending.map(|plan| (plan, Fate::Arrives));
        let active = active.map(|plan| (plan, Fate::IsResent));
        pending.into_iter().chain(active)
    }

    /// Returns whether to request a plan again now.
    pub(super) fn take_retry(&mut self, now: Instant) -> bool {
        self.retry.take_if(|retry| *retry <= now).is_some()
    }

    /// Sends the due messages of its plans; returns the pending one if that has waited too long.
    pub(super) fn send_due(
        &mut self,
        now: Instant,
        outputs: &mut Outputs,
        renewals: &mut Renewals,
    ) -> Option<&Deployment> {
        let mut is_over = false;
        if let Some(pending) = &mut self.pending {
            is_over = pending.give_up() <= now;
            if !is_over {
                pending.send_due(now, outputs, renewals);
            }
        }
        if let Some(active) = &mut self.active {
            active.send_due(now, outputs, renewals);
        }
        self.pending.as_ref().filter(|_| is_over)
    }

    /// Returns when something of it is due.
    pub(super) fn due(&self) -> Instant {
        let sends = self.plans().map(Deployment::send_next);
        let give_up = self.pending.iter().map(Deployment::give_up);
        let due = sends.chain(give_up).chain(self.retry);
        let first = due.min().unwrap_or(Instant::NEVER);
        first.min(self.lease + PAST_LEASE)
    }
}
