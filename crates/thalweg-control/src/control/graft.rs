//! Grafted plans: fed by copies of another plan's ADUs, with their reports routed to the source.
//!
//! *The idea.* The nodes before the graft have no part of a grafted plan. Its reports (accounts, receipts,
//! advice) go up its own path to the caster, and from there up the path of its base, wrapped in a
//! [`Branch`] that names the base. The base may itself be grafted, and so on to the source. Each node
//! checks a branch like a report of its own plans: it must come from the next node of the plan that carries
//! it. The source also checks that the reported plan is grafted there.
//!
//! ```text
//! source ◄─ Branch(e1, ·) ── relay ◄─ Branch(e1, ·) ── caster ◄─ Account, Receipt, Advice of e2 ── sink
//! ```
//!
//! *What it does not do.* It chooses no base ([`crate::session`]) and copies nothing: the driver does.
//!
//! *Sources.* docs/concepts/recast.md; docs/reference/protocol.md §4.6, §6.6.

use alloc::string::ToString;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::Instant;
use thalweg_base::wire::control::{Body, Branch, Message, Prepare, Said};

use super::{Controller, Keys, Note, Output};
use crate::ledger::Place;
use crate::session::Feed;

impl Controller {
    /// Opens the account of a grafted plan, of which no part is installed here.
    pub(super) fn open_graft(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let source = self.sources.get(&stream);
        let Some(source) = source.filter(|source| source.grafts.contains_key(&epoch)) else {
            return;
        };
        let place = Place::Graft(source.account_path(epoch).len());
        self.begin_account((stream, epoch), place, 0, now);
    }

    /// Handles a source's request to start or stop copying into a plan, if that is grafted here.
    pub(super) fn handle_cast(
        &mut self,
        from: NodeId,
        route_back: Vec<NodeId>,
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
            self.send_routed(route_back, answer, keys);
        }
    }

    /// Returns the neighbour that reports on a plan go to: its previous node, or that of the plan
    /// it is grafted on.
    pub(super) fn upstream(&self, stream: StreamId, epoch: Epoch) -> Option<NodeId> {
        self.via(stream, epoch).map(|(previous, _)| previous)
    }

    /// Returns that neighbour, and the plan by which it is the previous node.
    pub(super) fn via(&self, stream: StreamId, mut epoch: Epoch) -> Option<(NodeId, Epoch)> {
        loop {
            let part = self.parts.get(&(stream, epoch))?.installation();
            if part.previous != self.id() {
                return Some((part.previous, epoch));
            }
            // A base is older than its grafts, so this ends.
            epoch = part.base?;
        }
    }

    /// Sends a report on a plan towards the source.
    pub(super) fn send_upstream(&mut self, report: Said) {
        let (stream, epoch) = report.plan();
        let Some((previous, via)) = self.via(stream, epoch) else {
            return;
        };
        let message = if via == epoch {
            report.into()
        } else {
            Message::Branch(Branch {
                stream,
                via,
                said: report,
            })
        };
        self.send(previous, &message);
    }

    /// Handles a report on a grafted plan that came up the path of its base.
    pub(super) fn handle_branch(&mut self, from: NodeId, branch: Branch, now: Instant) {
        let Branch {
            stream,
            via,
            said: report,
        } = branch;
        match self.check_next(from, stream, via) {
            None => self.note(Note::BranchAstray { from }),
            Some(false) => {
                if let Some((previous, via)) = self.via(stream, via) {
                    self.send(
                        previous,
                        &Message::Branch(Branch {
                            stream,
                            via,
                            said: report,
                        }),
                    );
                }
            }
            Some(true) => self.handle_branched(from, via, report, now),
        }
    }

    /// Handles a report, carried by another plan, on a plan of this node.
    fn handle_branched(&mut self, from: NodeId, via: Epoch, report: Said, now: Instant) {
        let (stream, epoch) = report.plan();
        let source = self.sources.get(&stream);
        if source.is_none_or(|source| epoch == via || source.session.root(epoch) != via) {
            return self.note(Note::BranchAstray { from });
        }
        match report {
            Said::Account(report) => self.apply_report(from, &report, now),
            Said::Receipt(receipt) => self.apply_receipt(receipt),
            Said::Advice(advice) => self.apply_advice(from, advice, now),
        }
    }
}

/// Turns the message for the first node of a plan into that of a grafted plan, if there is a base.
pub(super) fn grafted(prepare: Prepare, route: &[NodeId], base: Option<Epoch>) -> Prepare {
    let here = route.last().copied().filter(|_| base.is_some());
    Prepare {
        previous: here.unwrap_or(prepare.previous),
        base,
        ..prepare
    }
}
