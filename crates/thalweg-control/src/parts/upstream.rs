//! The way of what is reported on a plan: towards its source, or from a silent source to its sinks.
//!
//! *The idea.* The nodes before a graft have no part of a grafted plan. Its reports (accounts,
//! receipts, advice) go up its own path to the caster, and from there up the path of its base,
//! wrapped in a [`Branch`] that names the base. The base may itself be grafted, and so on to the
//! source. Each node checks a branch like a report of its own plans: it must come from the next node
//! of the plan that carries it. The source also checks that the reported plan is grafted there.
//!
//! ```text
//! source ◄─ Branch(e1, ·) ── relay ◄─ Branch(e1, ·) ── caster ◄─ Account, Receipt, Advice of e2 ── sink
//! ```
//!
//! A neighbour of a source that is silent reports it to the sinks, along the path of the ADUs:
//!
//! ```text
//! producer ✂ ── relay ── Silence ──► relay ── Silence ──► sink: Subscribe ──► the producer that stands by
//! ```
//!
//! *Sources.* docs/concepts/recast.md; docs/reference/protocol.md §4.6, §4.8, §6.6.

use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::limits::PATH_NODES_MAX;
use thalweg_base::wire::control::{Branch, Message, Said};
use thalweg_base::wire::receipt::{Advice, Silence};

use super::Parts;
use crate::effect::{Ask, Note, PlanKey, Turn};

impl Parts {
    /// Returns the neighbour that reports on a plan go to: its previous node, or that of the plan
    /// it is grafted on.
    pub(crate) fn upstream(&self, plan: PlanKey) -> Option<NodeId> {
        self.via(plan).map(|(previous, _)| previous)
    }

    /// Returns that neighbour, and the plan by which it is the previous node.
    fn via(&self, (stream, mut epoch): PlanKey) -> Option<(NodeId, Epoch)> {
        loop {
            let part = self.get((stream, epoch))?;
            if part.previous != self.id {
                return Some((part.previous, epoch));
            }
            // A base is older than its grafts, so this ends.
            epoch = part.base?;
        }
    }

    /// Sends a report on a plan towards the source.
    pub(crate) fn report(&self, turn: &mut Turn<'_>, said: Said) {
        let (stream, epoch) = said.plan();
        let Some((previous, via)) = self.via((stream, epoch)) else {
            return;
        };
        let message = if via == epoch {
            said.into()
        } else {
            Message::Branch(Branch { stream, via, said })
        };
        turn.send(previous, message);
    }

    /// Returns whether this node is the source of a plan, provided that the sender is the plan's next node.
    pub(crate) fn check_next(&self, from: NodeId, plan: PlanKey) -> Option<bool> {
        let part = self.get(plan)?;
        (part.next == Some(from)).then_some(part.source == self.id)
    }

    /// Handles an advice from a neighbour: passes it on, or returns it if this node is the source.
    pub(crate) fn handle_advice(
        &self,
        turn: &mut Turn<'_>,
        from: NodeId,
        advice: Advice,
    ) -> Option<Advice> {
        let Some(is_source) = self.check_next(from, (advice.stream, advice.epoch)) else {
            turn.note(Note::AdviceAstray { from });
            return None;
        };
        let distance = advice.distance + 1;
        let advice = Advice { distance, ..advice };
        if is_source {
            return Some(advice);
        }
        if usize::from(distance) < PATH_NODES_MAX - 1 {
            self.report(turn, Said::Advice(advice));
        }
        None
    }

    /// Handles a report on a grafted plan that came up the path of its base: passes it on, or
    /// returns it if this node is the source.
    pub(crate) fn handle_branch(
        &self,
        turn: &mut Turn<'_>,
        from: NodeId,
        branch: Branch,
    ) -> Option<Branch> {
        let Branch { stream, via, said } = branch;
        match self.check_next(from, (stream, via)) {
            None => turn.note(Note::BranchAstray { from }),
            Some(false) => {
                if let Some((previous, via)) = self.via((stream, via)) {
                    turn.send(previous, Message::Branch(Branch { stream, via, said }));
                }
            }
            Some(true) => return Some(Branch { stream, via, said }),
        }
        None
    }

    /// Reports a silent neighbour as a silent source, for every plan of its streams that comes from it.
    pub(crate) fn report_source_silent(&self, turn: &mut Turn<'_>, peer: NodeId) {
        let of_peer = self.of_source(peer);
        for plan in of_peer.filter(|plan| self.upstream(*plan) == Some(peer)) {
            self.forward_silence(turn, plan);
        }
    }

    /// Handles the report of a silent source.
    pub(crate) fn handle_silence(&self, turn: &mut Turn<'_>, from: NodeId, silence: Silence) {
        let Silence { stream, epoch } = silence;
        let part = self.get((stream, epoch));
        if part.is_none_or(|part| part.previous != from) {
            // Checked before the search over all parts: any neighbour may send this.
            return turn.note(Note::SilenceAstray { from });
        }
        let plans = self.of_stream(stream).map(|part| (stream, part.epoch));
        // Plans that are grafted here are fed from there too.
        let behind = plans.filter(|plan| self.via(*plan) == Some((from, epoch)));
        let behind: Vec<(StreamId, Epoch)> = behind.collect();
        for plan in behind {
            self.forward_silence(turn, plan);
        }
    }

    /// Forwards the report to the next node of a plan, or applies it where the plan ends.
    fn forward_silence(&self, turn: &mut Turn<'_>, plan: PlanKey) {
        let Some(part) = self.get(plan) else {
            return;
        };
        let (stream, epoch) = plan;
        match part.next {
            Some(next) => turn.send(next, Message::Silence(Silence { stream, epoch })),
            None if self.newest_ending(stream) == Some(epoch) => {
                turn.ask(Ask::SilentProducer(stream, part.source));
            }
            None => {}
        }
    }
}
