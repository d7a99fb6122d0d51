//! Plans that are fed by copies of another's ADUs: casting them, and bringing what is said of them to the source.
//!
//! *The idea.* A plan that is grafted here has no part on the nodes before. What nodes tell the one before (accounts,
//! receipts, advice) leaves its way here and goes on by the way of its base, wrapped in a [`Branch`] that names it; the base
//! may be grafted itself, and so on to the source. Each node asks the same as of what is said of its own plans: that it comes
//! from the next node of the plan by whose way it is told. The source asks besides that the plan it is about is grafted there.
//!
//! ```text
//! source ◄─ Branch(e1, ·) ── relay ◄─ Branch(e1, ·) ── caster ◄─ Account, Receipt, Advice of e2 ── sink
//! ```
//!
//! *What it does not do.* It chooses no base ([`crate::session`]) and copies nothing: the driver does.
//!
//! *Sources.* docs/recast.md; docs/protocol.md §4.6, §6.6.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::source::Source;
use super::{Controller, Keys, Note, Output};
use crate::id::{Epoch, NodeId, StreamId};
use crate::ledger::Place;
use crate::session::Feed;
use crate::time::Instant;
use crate::wire::control::{Body, Branch, Message, Prepare, Said};

impl Source {
    /// Returns the nodes whose counters the account of a plan has: all of its path, or those that have a part of it, behind
    /// one that stands for the source.
    pub(super) fn account_path(&self, epoch: Epoch) -> &[NodeId] {
        let path = self.paths.get(&epoch).map_or(&[][..], Vec::as_slice);
        let start = self.grafts.get(&epoch).copied().unwrap_or(0);
        path.get(start.saturating_sub(1)..).unwrap_or_default()
    }
}

impl Controller {
    /// Begins the account of a plan that is grafted on another, which no part here has.
    pub(super) fn open_graft(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let source = self.sources.get(&stream);
        let Some(source) = source.filter(|source| source.grafts.contains_key(&epoch)) else {
            return;
        };
        let place = Place::Graft(source.account_path(epoch).len());
        self.begin_account((stream, epoch), place, 0, now);
    }

    /// Has a plan of the sender's cast, or cast no more, if it is grafted here.
    pub(super) fn handle_cast(
        &mut self,
        from: NodeId,
        way: Vec<NodeId>,
        (stream, epoch): (StreamId, Epoch),
        feed: Feed,
        keys: &mut dyn Keys,
    ) {
        let part = self.parts.get(&(stream, epoch));
        let is_here = part.is_some_and(|part| {
            let part = part.installation();
            part.source == from && part.base.is_some()
        });
        if is_here {
            self.outputs.push_back(Output::Cast {
                stream,
                epoch,
                feed,
            });
        }
        let answer = if is_here {
            Body::Casting { stream, epoch }
        } else {
            Body::Refuse {
                stream,
                epoch,
                reason: "the plan is not grafted here".to_string(),
            }
        };
        if feed.begins() {
            self.send_routed(way, answer, keys);
        }
    }

    /// Returns the neighbour to which is told what is said of a plan: the one before, or the one before on its base's way.
    pub(super) fn way_up(&self, stream: StreamId, epoch: Epoch) -> Option<NodeId> {
        self.via(stream, epoch).map(|(previous, _)| previous)
    }

    /// Returns that neighbour, and the plan by whose way it is the one before.
    pub(super) fn via(&self, stream: StreamId, mut epoch: Epoch) -> Option<(NodeId, Epoch)> {
        loop {
            let part = self.parts.get(&(stream, epoch))?.installation();
            if part.previous != self.id() {
                return Some((part.previous, epoch));
            }
            // A base is older than what is grafted on it, so this ends.
            epoch = part.base?;
        }
    }

    /// Tells the node before.
    pub(super) fn tell_up(&mut self, said: Said) {
        let (stream, epoch) = said.plan();
        let Some((previous, via)) = self.via(stream, epoch) else {
            return;
        };
        let message = if via == epoch {
            said.into()
        } else {
            Message::Branch(Branch { stream, via, said })
        };
        self.send(previous, &message);
    }

    /// Takes in what is said of a plan that is grafted on the way of another.
    pub(super) fn handle_branch(&mut self, from: NodeId, branch: Branch, now: Instant) {
        let Branch { stream, via, said } = branch;
        match self.comes_right(from, stream, via) {
            None => self.note(Note::BranchAstray { from }),
            Some(false) => {
                if let Some((previous, via)) = self.via(stream, via) {
                    self.send(previous, &Message::Branch(Branch { stream, via, said }));
                }
            }
            Some(true) => self.handle_said(from, via, said, now),
        }
    }

    /// Takes in what is said of a plan of this node's, by the way of another.
    fn handle_said(&mut self, from: NodeId, via: Epoch, said: Said, now: Instant) {
        let (stream, epoch) = said.plan();
        let source = self.sources.get(&stream);
        if source.is_none_or(|source| epoch == via || source.session.root(epoch) != via) {
            return self.note(Note::BranchAstray { from });
        }
        match said {
            Said::Account(report) => self.take_report(from, &report, now),
            Said::Receipt(receipt) => self.take_receipt(receipt),
            Said::Advice(advice) => self.take_advice(from, advice, now),
        }
    }
}

/// Returns the message for a node that is the first with a part of a plan, if it is grafted there.
pub(super) fn grafted(prepare: Prepare, route: &[NodeId], base: Option<Epoch>) -> Prepare {
    let here = route.last().copied().filter(|_| base.is_some());
    Prepare {
        previous: here.unwrap_or(prepare.previous),
        base,
        ..prepare
    }
}
