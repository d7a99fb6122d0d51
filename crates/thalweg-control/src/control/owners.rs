//! The owners of what this node decides, and what one asks of the others.
//!
//! *The idea.* Each has private fields. Where one owner's decision makes another act, or depends on
//! what another knows, that stands here. What concerns records and membership stands in `settle`.

use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::limits::PATH_NODES_MAX;
use thalweg_base::seen::{Held, News};
use thalweg_base::time::Instant;
use thalweg_base::wire::control::{Body, Branch, Message, Said};
use thalweg_base::wire::receipt::{Advice, Receipt};

use crate::accounting::Accounting;
use crate::effect::{Ask, Note, PlanKey, Turn};
use crate::facts::Facts;
use crate::health::Health;
use crate::health::suspects::SUSPECT_HOLD;
use crate::ledger::{Counts, Patience, Place};
use crate::parts::Parts;
use crate::sinks::{self, Sinks};
use crate::sources::{self, Sources};
use crate::tracing::Tracing;

/// The owners of what this node decides.
#[derive(Debug)]
pub(super) struct Owners {
    pub(super) parts: Parts,
    pub(super) accounting: Accounting,
    pub(super) health: Health,
    pub(super) sinks: Sinks,
    pub(super) sources: Sources,
    pub(super) tracing: Tracing,
}

impl Owners {
    pub(super) fn new(id: NodeId) -> Self {
        Self {
            parts: Parts::new(id),
            accounting: Accounting::default(),
            health: Health::new(id),
            sinks: Sinks::default(),
            sources: Sources::default(),
            tracing: Tracing::default(),
        }
    }

    /// Returns the sinks, with what they read of others.
    pub(super) const fn sinks<'a>(
        &'a mut self,
        facts: &'a Facts<'a>,
    ) -> (&'a mut Sinks, sinks::View<'a>) {
        let view = sinks::View {
            facts,
            health: &self.health,
            parts: &self.parts,
        };
        (&mut self.sinks, view)
    }

    /// Returns the sources, with what they read of others.
    pub(super) const fn sources<'a>(
        &'a mut self,
        facts: &'a Facts<'a>,
    ) -> (&'a mut Sources, sources::View<'a>) {
        let health = &self.health;
        (&mut self.sources, sources::View { facts, health })
    }

    /// Returns when an owner has something to do.
    pub(super) fn poll_timeout(&self) -> Instant {
        self.parts
            .poll_timeout()
            .min(self.accounting.poll_timeout())
            .min(self.health.poll_timeout())
            .min(self.sinks.poll_timeout())
            .min(self.sources.poll_timeout())
    }

    /// Does what one owner asks of others.
    pub(super) fn handle_ask(&mut self, turn: &mut Turn<'_>, facts: &Facts<'_>, ask: Ask) {
        match ask {
            Ask::PartInstalled(plan) => self.handle_part(turn, facts, plan),
            Ask::PartRenewed(plan) => self.accounting.refresh(plan, turn.now),
            Ask::Reclaim(plan) => self.sinks.handle_renewed(turn, &self.parts, plan),
            Ask::KeptUp(plan, route_back) => {
                let (sinks, view) = self.sinks(facts);
                sinks.handle_kept_up(turn, &view, plan, &route_back);
            }
            Ask::PlanOver(plan) => {
                let account = self.accounting.close(plan);
                self.sources.handle_plan_over(plan, account);
            }
            Ask::Unserved(stream) => self.sinks.handle_unserved(turn, &self.parts, stream),
            Ask::Counted(plan) => self.handle_counted(turn, facts, plan),
            Ask::GraftMade(plan, nodes) => {
                let place = Place::Graft(nodes);
                self.accounting.open(plan, place, 0, turn.now);
            }
            Ask::GoByReceipts(stream, plans) => self.accounting.go_by_receipts(stream, &plans),
            Ask::Suspect(hop, until) => self.sources.handle_suspect(hop, until),
            Ask::Doubt(hop, until) => self.sources.handle_doubt(hop, until),
            Ask::Unanswered { path, silent } => {
                self.health.handle_unanswered(turn, facts, &path, &silent);
            }
            Ask::Failed {
                stream,
                sink,
                reason,
            } => self.sources.handle_failed(turn, stream, sink, &reason),
            Ask::SilentProducer(stream, producer) => {
                self.sinks
                    .handle_silent_producer(turn, facts, stream, producer);
            }
        }
    }

    /// Opens the account of a new part, and reports its next node if that is silent.
    fn handle_part(&mut self, turn: &mut Turn<'_>, facts: &Facts<'_>, plan: PlanKey) {
        let Some(part) = self.parts.get(plan) else {
            return;
        };
        let place = if part.source == facts.id() {
            let path = self.sources.path(plan);
            Place::Source(path.map_or(PATH_NODES_MAX, <[NodeId]>::len))
        } else if part.next.is_some() {
            Place::Relay
        } else {
            Place::Sink
        };
        let since = facts.local.settings.millis_at(turn.now);
        self.accounting.open(plan, place, since, turn.now);
        self.health.handle_part(turn, &self.parts, plan);
    }

    /// Handles the counters of a plan.
    pub(super) fn handle_counts(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        plan: PlanKey,
        counts: &Counts,
    ) {
        let around = (&facts.local, &self.parts);
        let has_account = self.accounting.handle_counts(turn, around, plan, counts);
        if !has_account && plan.1.0 == 0 {
            self.sources.handle_unplanned(plan.0, counts);
        } else if has_account && self.sources.get(plan.0).is_some() {
            self.health.handle_sent(turn.now);
        }
        self.handle_counted(turn, facts, plan);
    }

    /// Handles the accounts that are due.
    pub(super) fn handle_accounts(&mut self, facts: &Facts<'_>, turn: &mut Turn<'_>) {
        if !self.accounting.is_due(turn.now) {
            return;
        }
        let due: Vec<PlanKey> = self.accounting.due(turn.now).collect();
        for plan in due {
            let around = (&facts.local, &self.parts);
            self.accounting.handle_due(turn, around, plan);
            self.handle_counted(turn, facts, plan);
        }
        self.accounting.handle_round_over();
    }

    /// Handles what has arrived of a stream that ends here.
    pub(super) fn handle_held(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        stream: StreamId,
        arrived: (Held, News),
    ) {
        if arrived.1 == News::Ended {
            self.accounting.handle_end(&self.parts, stream, turn.now);
        }
        let around = (&facts.local, &self.parts);
        self.sinks.handle_held(turn, around, stream, arrived);
    }

    /// Handles a neighbour that does not answer.
    pub(super) fn handle_silence(&mut self, turn: &mut Turn<'_>, peer: NodeId) {
        let silent = (peer, true);
        self.accounting
            .handle_silence(&self.parts, silent, turn.now);
        self.health.handle_silence(turn, &self.parts, peer);
    }

    /// Handles a neighbour that answers again, or whose link is gone.
    pub(super) fn handle_answer(&mut self, peer: NodeId, now: Instant) {
        self.health.handle_answer(peer);
        let answering = (peer, false);
        self.accounting.handle_silence(&self.parts, answering, now);
    }

    /// Reports a neighbour that is still silent: as the next node of plans, and as a source.
    pub(super) fn report_again(&mut self, turn: &mut Turn<'_>, peer: NodeId) {
        self.health.report_again(turn, &self.parts, peer);
        self.parts.report_source_silent(turn, peer);
    }

    /// Handles a report of a neighbour on a plan.
    pub(super) fn handle_message(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        from: NodeId,
        message: Message,
    ) {
        match message {
            Message::Account(report) => {
                let around = (&facts.local, &self.parts);
                self.accounting.handle_report(turn, around, from, &report);
            }
            Message::Receipt(receipt) => self.handle_receipt(turn, from, receipt),
            Message::Advice(advice) => self.handle_advice(turn, from, advice),
            Message::Branch(branch) => self.handle_branch(turn, facts, from, branch),
            Message::Silence(silence) => self.parts.handle_silence(turn, from, silence),
            Message::Record { .. }
            | Message::Routed(_)
            | Message::Grant(_)
            | Message::Revocation(_)
            | Message::Summary(_)
            | Message::Lack(_)
            | Message::Description { .. }
            | Message::Undescribed(_) => {}
        }
    }

    /// Notes now and then that a stream of this node loses ADUs, if this plan has lost more.
    fn handle_counted(&mut self, turn: &mut Turn<'_>, facts: &Facts<'_>, plan: PlanKey) {
        if self.sources.get(plan.0).is_none() {
            return;
        }
        let has_lost_more = self.accounting.has_lost_more(plan);
        let around = (facts.id(), &self.accounting);
        self.sources
            .handle_counted(turn, around, plan.0, has_lost_more);
    }

    /// Handles a receipt from a neighbour: passes it on, or applies it at the source.
    pub(super) fn handle_receipt(&mut self, turn: &mut Turn<'_>, from: NodeId, receipt: Receipt) {
        match self.parts.check_next(from, (receipt.stream, receipt.epoch)) {
            None => turn.note(Note::ReceiptAstray { from }),
            Some(true) => self.sources.handle_receipt(turn, receipt),
            Some(false) => self.parts.report(turn, Said::Receipt(receipt)),
        }
    }

    /// Handles an advice from a neighbour: passes it on, or applies it at the source.
    pub(super) fn handle_advice(&mut self, turn: &mut Turn<'_>, from: NodeId, advice: Advice) {
        if let Some(advice) = self.parts.handle_advice(turn, from, advice) {
            self.apply_advice(turn, from, advice);
        }
    }

    /// Handles an advice of a node at a distance (hops) from the first node with a part of the plan.
    fn apply_advice(&mut self, turn: &mut Turn<'_>, from: NodeId, advice: Advice) {
        let plan = (advice.stream, advice.epoch);
        let hop = self.sources.hop(plan, usize::from(advice.distance));
        self.health.apply_advice(turn, from, hop, advice.is_doubt);
    }

    /// Handles a report on a grafted plan that came up the path of its base.
    pub(super) fn handle_branch(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        from: NodeId,
        branch: Branch,
    ) {
        let Some(branch) = self.parts.handle_branch(turn, from, branch) else {
            return;
        };
        if !self.sources.is_grafted(branch.said.plan(), branch.via) {
            return turn.note(Note::BranchAstray { from });
        }
        match branch.said {
            Said::Account(report) => {
                let around = (&facts.local, &self.parts);
                self.accounting.apply_report(turn, around, from, &report);
            }
            Said::Receipt(receipt) => self.sources.handle_receipt(turn, receipt),
            Said::Advice(advice) => self.apply_advice(turn, from, advice),
        }
    }

    /// Handles a message that needs no cryptography.
    pub(super) fn handle_body(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        (from, route): (NodeId, &[NodeId]),
        body: Body,
    ) {
        let sender = (from, route);
        match body {
            Body::Subscribe { stream, has_waited } => {
                let asked = (stream, has_waited);
                self.sources.handle_subscribe(turn, facts, sender, asked);
            }
            Body::Trace { stream, every } => {
                let around = (facts, &self.sources);
                let asked = (stream, every);
                self.tracing.handle_trace(turn, around, sender, asked);
            }
            Body::Tracing {
                stream,
                sinks,
                reason,
            } => {
                let answer = (sinks, reason);
                self.tracing.handle_answer(turn, from, stream, answer);
            }
            Body::Traced(traced) => self
                .tracing
                .handle_traced(turn, &self.sources, from, traced),
            Body::Leave { stream } => self.handle_leave(turn, facts, from, stream),
            Body::GivenUp { stream, below } => {
                self.parts.handle_given_up(turn, from, stream, below);
            }
            Body::Renew { stream, epochs } => {
                let plans = (stream, &epochs[..]);
                self.parts.handle_renew(turn, facts, sender, plans);
            }
            Body::Refuse {
                stream,
                epoch,
                reason,
            } if epoch.0 == 0 => {
                let (sinks, view) = self.sinks(facts);
                sinks.handle_refused(turn, &view, (from, stream), &reason);
            }
            Body::Release { stream, epoch } => {
                self.parts.handle_release(turn, from, (stream, epoch));
            }
            Body::Cast {
                stream,
                epoch,
                feed,
            } => self.parts.handle_cast(turn, sender, (stream, epoch), feed),
            answer => self.sources.handle_answer(from, &answer, turn.now),
        }
    }

    /// Handles the departure of a node on a plan of this stream: plans avoid it, and if it is a
    /// sink, its subscription ends.
    fn handle_leave(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        from: NodeId,
        stream: StreamId,
    ) {
        if from == facts.id() || !self.sources.is_on_path(from, stream) {
            return;
        }
        let is_news = self.health.handle_leave(from, turn.now + SUSPECT_HOLD);
        let gone = Body::Unsubscribe { stream };
        self.sources.handle_answer(from, &gone, turn.now);
        if is_news {
            turn.note(Note::Leaving { node: from });
            self.sources.handle_leave(from, turn.now);
        }
    }

    /// Looks for nodes of a plan in force that withhold what leaves by it.
    pub(super) fn look_through(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        plan: PlanKey,
        patience: &Patience,
    ) {
        let looked = self.accounting.look_through(plan, patience, turn.now);
        let Some(passage) = looked else {
            return;
        };
        if passage.is_awaited {
            self.health.handle_sent(turn.now);
        }
        if let Some(last) = passage.last {
            self.suspect_plan(turn, facts, plan, last);
        }
    }

    /// Handles how many ADUs of a plan its sink lacks; returns whether that is news.
    pub(super) fn handle_missing(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        plan: PlanKey,
        missing: u64,
    ) -> bool {
        let last = self.accounting.handle_missing(plan, missing, turn.now);
        if let Some(last) = last {
            self.suspect_plan(turn, facts, plan, last);
        }
        last.is_some()
    }

    /// Suspects the nodes of a plan behind the last that is known to have what leaves by it.
    fn suspect_plan(&mut self, turn: &mut Turn<'_>, facts: &Facts<'_>, plan: PlanKey, last: usize) {
        let position = self.sources.position(plan, last);
        if let Some(path) = self.sources.path(plan) {
            self.health.suspect_behind(turn, facts, path, position);
        }
    }
}
