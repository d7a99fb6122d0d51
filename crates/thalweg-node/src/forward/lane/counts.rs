//! What others read of a lane, and what a producer waits for.

use thalweg_base::adu::{Adu, Header};
use thalweg_base::count::{Band, Counts};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::part::Installation;
use thalweg_base::seen::{Held, News};
use thalweg_base::time::{Duration, Instant};
use thalweg_dataplane::relay::Part;
use thalweg_dataplane::replay::Plan;

use super::{Lane, RecvId, State};
use crate::forward::{DropPlace, Offered};

impl State {
    /// Returns whether a plan sends one ADU after another and one is under way, or waits.
    fn is_busy(&self, plan: Plan) -> bool {
        let part = self.relay.part(plan).filter(|part| part.is_busy());
        part.is_some() && !self.recalled.contains(&plan.1)
    }
}

impl Lane {
    /// Keeps an ADU as its producer publishes it, for sinks that join late.
    pub(crate) fn keep_given(&self, adu: &Adu) {
        self.drive(|state, now| state.relay.keep_given(adu, now));
    }

    /// Returns what is kept of the stream that is published here.
    pub(crate) fn kept_given(&self) -> Vec<Adu> {
        let now = self.ways.clock.now();
        self.lock().relay.kept_given(self.stream, now)
    }

    /// Forgets what the stream had while it was published here.
    pub(in crate::forward) fn withdraw(&self) {
        let relay = &mut self.lock().relay;
        relay.forget_given(self.stream);
        relay.accounts_mut().forget((self.stream, Epoch(0)));
    }

    /// Counts an ADU that no plan carries.
    pub(crate) fn count_unplanned(&self, header: &Header, cause: DropCause) {
        self.counts.dropped(cause);
        self.drive(|state, now| {
            self.note_drop(header, DropPlace::Source, cause, now);
            state.relay.count_unplanned(header, cause, now);
        });
    }

    /// Counts ADUs that their sink has, as a receipt says, each under the plan by which it went.
    pub(crate) fn count_receipts(&self, had: &[(Epoch, Band)]) {
        self.drive(|state, now| {
            for (epoch, band) in had {
                let plan = self.plan(*epoch);
                state.relay.count_receipt(plan, *band, now);
            }
        });
    }

    /// Counts ADUs that are sent again, each under the plan by which it went before.
    pub(crate) fn count_resent(&self, resent: &[(Epoch, Band)]) {
        self.drive(|state, now| {
            for (epoch, band) in resent {
                state.relay.count_resent(self.plan(*epoch), *band, now);
            }
        });
    }

    /// Calls `read` with the installation of a plan, if it is installed.
    pub(crate) fn with_part<T>(
        &self,
        epoch: Epoch,
        read: impl FnOnce(Option<&Installation>) -> T,
    ) -> T {
        let state = self.lock();
        let part = state.relay.part(self.plan(epoch));
        read(part.map(|part| part.route().installation()))
    }

    /// Returns whether a plan is installed.
    pub(crate) fn has(&self, epoch: Epoch) -> bool {
        self.lock().relay.part(self.plan(epoch)).is_some()
    }

    /// Returns the next node of a plan.
    pub(in crate::forward) fn next(&self, epoch: Epoch) -> Option<NodeId> {
        self.lock().relay.part(self.plan(epoch))?.next()
    }

    /// Returns the installed plans, each with its next node.
    pub(in crate::forward) fn plans(&self) -> Vec<(Plan, Option<NodeId>)> {
        let state = self.lock();
        let parts = state.relay.parts();
        parts.map(|(plan, part)| (plan, part.next())).collect()
    }

    /// Returns the ordered plans that are not recalled, each with its next node.
    pub(in crate::forward) fn ordered(&self) -> Vec<(Epoch, Option<NodeId>)> {
        let state = self.lock();
        let is_ordered = |(plan, part): &(Plan, &Part<RecvId>)| {
            part.route().is_ordered() && !state.recalled.contains(&plan.1)
        };
        let ordered = state.relay.parts().filter(is_ordered);
        ordered
            .map(|((_, epoch), part)| (epoch, part.next()))
            .collect()
    }

    /// Returns a plan's load on its next link.
    pub(in crate::forward) fn offered(&self, plan: Plan) -> Option<Offered> {
        let mut state = self.lock();
        state.relay.part(plan)?;
        let account = state.relay.accounts_mut().account(plan)?;
        Some(Offered::of(&account))
    }

    /// Returns the plans with counts that have changed, if all were last read at least `age` ago.
    pub(in crate::forward) fn take_due(&self, now: Instant, age: Duration) -> Vec<Plan> {
        let mut state = self.lock();
        if now.saturating_since(state.read_at) < age {
            return Vec::new();
        }
        (state.read_at, state.is_told) = (now, false);
        state.relay.accounts_mut().take_due()
    }

    /// Returns the counts of a plan if they have changed since they were last taken.
    pub(in crate::forward) fn take_counts(&self, plan: Plan) -> Option<Counts> {
        self.lock().relay.accounts_mut().take_counts(plan).cloned()
    }

    /// Returns whether anything has come of the stream since that was last taken.
    pub(in crate::forward) fn has_news(&self) -> bool {
        self.lock().relay.arrivals().has_news(self.stream)
    }

    /// Returns what has come of the stream since the last call, if it ends here. Of a blocked stream
    /// only the end is reported.
    pub(in crate::forward) fn take_news(&self, is_blocked: bool) -> Option<(Held, News)> {
        self.lock()
            .relay
            .arrivals_mut()
            .take_news(self.stream, is_blocked)
    }

    /// Starts over for new subscribers: nothing has come for them, and plans up to `former` are not
    /// theirs.
    pub(in crate::forward) fn restart_arrivals(&self, former: Option<Epoch>) {
        let relay = &mut self.lock().relay;
        relay.arrivals_mut().restart(self.stream, former);
    }

    /// Accepts what all plans bring.
    pub(in crate::forward) fn resume_arrivals(&self) {
        self.lock().relay.arrivals_mut().resume(self.stream);
    }

    /// Forgets what has come: no plan brings the stream here, and no subscriber wants it.
    pub(in crate::forward) fn forget_arrivals(&self) {
        self.lock().relay.arrivals_mut().forget(self.stream);
    }

    /// Returns whether no plan carries the stream and nothing of it is under way.
    pub(in crate::forward) fn is_resting(&self) -> bool {
        let relay = &self.lock().relay;
        relay.parts().next().is_none() && relay.in_flight() == (0, 0)
    }

    /// Returns whether something is remembered of what came.
    pub(in crate::forward) fn has_arrivals(&self) -> bool {
        !self.lock().relay.arrivals().streams().is_empty()
    }

    /// Returns how many ADUs under way are waited for: not those on broken paths.
    fn awaited(&self) -> u64 {
        let outstanding = self.counts.outstanding();
        let state = self.lock();
        let recalled = state.recalled.iter();
        let stranded = recalled.map(|epoch| state.relay.outstanding_of(self.plan(*epoch)));
        outstanding.saturating_sub(stranded.sum())
    }

    /// Waits until at most `most` ADUs are under way, not counting those on broken paths.
    pub(crate) async fn settled(&self, most: u64) {
        let is_settled = || self.counts.outstanding() <= most || self.awaited() <= most;
        self.counts.wait(is_settled).await;
    }

    /// Waits until the link has taken what these plans have, if they send one ADU after another.
    pub(crate) async fn wait_turn(&self, epochs: &[Epoch]) {
        let is_their_turn = || {
            let state = self.lock();
            !epochs.iter().any(|epoch| state.is_busy(self.plan(*epoch)))
        };
        self.counts.wait(is_their_turn).await;
    }

    /// Waits until an ADU finds room under one of these plans, where each goes at its own pace.
    pub(crate) async fn wait_room(&self, epochs: &[Epoch], header: &Header, payload_bytes: usize) {
        let has_room = || {
            let state = self.lock();
            let plans = epochs.iter().map(|epoch| self.plan(*epoch));
            let mut plans = plans.filter(|plan| state.relay.part(*plan).is_some());
            let mut is_any_there = false;
            let has_room = plans.any(|plan| {
                is_any_there = true;
                let is_over = state.recalled.contains(&plan.1);
                is_over || state.relay.takes(plan, header, payload_bytes)
            });
            has_room || !is_any_there
        };
        self.counts.wait(has_room).await;
    }
}
