//! One plan of a session on its way into force: which nodes have their parts, and where it is fed from.
//!
//! *What it does not do.* It does not know of other plans; whether the one that it is grafted on is in force, the session
//! knows.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use super::graft::{Feed, Graft};
use super::{DEPLOY_MAX, Output, Part, RENEW, RENEW_GRID, RESEND};
use crate::id::{Epoch, NodeId};
use crate::time::Instant;

/// What is to be renewed, by the way to the node that has it.
pub(super) type Renewals = BTreeMap<Vec<NodeId>, Vec<Epoch>>;

/// How far the node on which a plan is grafted is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nodes install their parts.
    Installing,
    /// All have: it is to begin to cast.
    Beginning,
    /// It casts, or the plan is none that is grafted.
    Fed,
}

/// Whether a plan takes over once it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It does.
    Due,
    /// It stands by: the way of the plan in force is only doubted.
    Standby,
    /// It stands by, and what it is grafted on bears ADUs, or may at any time: it is cast when it is taken up.
    Uncast,
}

/// A plan whose parts are told to its nodes.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, and any four of them may meet"
)]
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    pub(super) epoch: Epoch,
    pub(super) parts: Vec<Part>,
    pub(super) graft: Option<Graft>,
    pub(super) stage: Stage,
    pub(super) waiting_for: BTreeSet<NodeId>,
    pub(super) send_next: Instant,
    pub(super) give_up: Instant,
    /// How many hops from the source on the map has never shown broken since all nodes had their parts: behind them one may
    /// have been restarted.
    pub(super) whole_hops: usize,
    /// Until when a node of its way is believed that the next one does not answer.
    pub(super) suspect_until: Instant,
    /// What was sent under it is to be sent again, or has been.
    pub(super) is_broken: bool,
    /// A node that it passes waits to leave.
    pub(super) is_left: bool,
    /// Its sink begins with it, and has nothing yet.
    pub(super) begins: bool,
    /// ADUs may have gone by it, of which its nodes have to tell: it has been in force, or was to be cast.
    pub(super) has_carried: bool,
    pub(super) turn: Turn,
    /// What its caster still gives it, once it is not its sink's any more.
    rest: Option<Feed>,
    /// Which node was told its part last because it had lost it, and when.
    restored: Option<(NodeId, Instant)>,
}

impl Deployment {
    pub(super) fn new(epoch: Epoch, parts: Vec<Part>, graft: Option<Graft>, now: Instant) -> Self {
        let mut deployment = Self {
            epoch,
            parts,
            graft,
            stage: Stage::Installing,
            waiting_for: BTreeSet::new(),
            send_next: now,
            give_up: now,
            whole_hops: usize::MAX,
            suspect_until: Instant::ZERO,
            is_broken: false,
            is_left: false,
            begins: false,
            has_carried: false,
            turn: Turn::Due,
            rest: None,
            restored: None,
        };
        deployment.begin(now);
        deployment
    }

    /// Returns the place on its way of the first node that has a part of it.
    pub(super) fn start(&self) -> usize {
        self.graft.map_or(0, |graft| graft.at)
    }

    /// Returns the node where it is grafted.
    pub(super) fn caster(&self) -> Option<NodeId> {
        let graft = self.graft?;
        self.parts.get(graft.at).map(|part| part.node)
    }

    pub(super) fn runs_on(&self, node: NodeId) -> bool {
        let mut own = self.parts[self.start()..].iter();
        own.any(|part| part.node == node)
    }

    /// Has every node told its part, and wait for all their answers.
    pub(super) fn begin(&mut self, now: Instant) {
        let own = self.parts[self.start()..].iter();
        self.waiting_for = own.map(|part| part.node).collect();
        self.stage = Stage::Installing;
        self.whole_hops = usize::MAX;
        self.send_next = now;
        self.give_up = now + DEPLOY_MAX;
    }

    /// Takes in that a node has its part; returns whether it was the last that was waited for.
    pub(super) fn handle_ready(&mut self, from: NodeId, now: Instant) -> bool {
        // A renewal is answered like the rest; nobody waits for that.
        if !self.waiting_for.remove(&from) || !self.waiting_for.is_empty() {
            return false;
        }
        let must_begin = self.graft.is_some() && self.stage == Stage::Installing;
        if must_begin {
            self.stage = Stage::Beginning;
            self.send_next = if self.is_uncast() {
                renewal_after(now)
            } else {
                now
            };
        } else {
            self.stage = Stage::Fed;
            self.send_next = renewal_after(now);
        }
        !must_begin
    }

    /// Takes in that a node casts the plan; returns whether that was waited for.
    pub(super) fn handle_casting(&mut self, from: NodeId, now: Instant) -> bool {
        let is_it = self.stage == Stage::Beginning && self.caster() == Some(from);
        if is_it {
            self.stage = Stage::Fed;
            self.send_next = renewal_after(now);
        }
        is_it
    }

    /// Lets it take over once it is ready, which it has as long for as if it were new.
    pub(super) fn take_up(&mut self, now: Instant) {
        if self.is_uncast() && self.stage == Stage::Beginning {
            self.send_next = now;
        }
        self.turn = Turn::Due;
        self.give_up = now + DEPLOY_MAX;
    }

    /// Returns whether it does not take over yet, however ready it is.
    pub(super) fn stands_by(&self) -> bool {
        self.turn != Turn::Due
    }

    /// Returns whether it takes over with a plan that it stands by on.
    pub(super) fn follows(&self, base: Epoch) -> bool {
        self.turn == Turn::Standby && self.graft.is_some_and(|graft| graft.base == base)
    }

    fn is_uncast(&self) -> bool {
        self.turn == Turn::Uncast
    }

    /// Returns whether it stands by and has nothing to wait for until it is taken up.
    pub(super) fn is_standing(&self) -> bool {
        self.stands_by() && (self.is_ready() || self.is_uncast() && self.stage == Stage::Beginning)
    }

    /// Returns whether all its nodes are ready for its ADUs.
    pub(super) fn is_ready(&self) -> bool {
        self.waiting_for.is_empty() && self.stage == Stage::Fed
    }

    /// Returns whether its way leads from one node straight to another.
    pub(super) fn leads(&self, from: NodeId, to: NodeId) -> bool {
        let is_it = |pair: &[Part]| (pair[0].node, pair[1].node) == (from, to);
        self.parts.windows(2).any(is_it)
    }

    /// Takes in which links there are.
    pub(super) fn handle_change(&mut self, is_joined: impl Fn(NodeId, NodeId) -> bool) {
        let mut hops = self.parts.windows(2);
        let broken = hops.position(|pair| !is_joined(pair[0].node, pair[1].node));
        self.whole_hops = self.whole_hops.min(broken.unwrap_or(usize::MAX));
    }

    /// Returns whether the map has shown its way broken since all its nodes had their parts.
    pub(super) fn is_doubted(&self) -> bool {
        self.whole_hops < self.parts.len()
    }

    /// Sends what is due: at first their parts to those that have not answered, then to all a renewal.
    pub(super) fn send_due(
        &mut self,
        now: Instant,
        outputs: &mut VecDeque<Output>,
        renewals: &mut Renewals,
    ) {
        if self.send_next > now {
            return;
        }
        // One that is still to take over is given up then; one in force stays so, with a node that is slow to answer.
        if self.give_up <= now {
            self.waiting_for.clear();
        }
        if self.stage == Stage::Beginning && !self.is_uncast() {
            self.send_next = now + RESEND;
            // Its caster begins long before the answer is here, if that comes at all.
            self.has_carried = true;
            return self.cast(outputs);
        }
        let own = self.start()..self.parts.len();
        if self.waiting_for.is_empty() {
            self.send_next = renewal_after(now);
            for position in own {
                let of_node = renewals.entry(self.route_to(position)).or_default();
                of_node.push(self.epoch);
            }
            return;
        }
        self.send_next = now + RESEND;
        for position in own {
            if self.waiting_for.contains(&self.parts[position].node) {
                outputs.push_back(self.prepare(position));
            }
        }
    }

    /// A node has lost its part, or never had it: it is told it again, and to cast it if it is to, once in [`RESEND`].
    pub(super) fn restore(&mut self, node: NodeId, now: Instant, outputs: &mut VecDeque<Output>) {
        let mut own = self.start()..self.parts.len();
        let Some(position) = own.find(|position| self.parts[*position].node == node) else {
            return;
        };
        let is_recent = |(of, at)| of == node && now < at + RESEND;
        if self.restored.is_some_and(is_recent) {
            return;
        }
        self.restored = Some((node, now));
        outputs.push_back(self.prepare(position));
        if self.stage == Stage::Fed && self.caster() == Some(node) {
            self.cast(outputs);
        }
    }

    /// Tells a node its part.
    fn prepare(&self, position: usize) -> Output {
        let base = self.graft.filter(|graft| graft.at == position);
        Output::Prepare {
            epoch: self.epoch,
            route: self.route_to(position),
            next: self.parts.get(position + 1).map(|next| next.node),
            part: self.parts[position].clone(),
            base: base.map(|graft| graft.base),
        }
    }

    fn feed(&self) -> Feed {
        let present = if self.begins {
            Feed::Replay
        } else {
            Feed::Live
        };
        self.rest.unwrap_or(present)
    }

    /// It gives way: from now on it is renewed where it lies, and nobody's answer is waited for.
    pub(super) fn give_way(&mut self) {
        self.waiting_for.clear();
        self.stage = Stage::Fed;
    }

    /// Returns whether its caster is to give it all that arrives for its base.
    pub(super) const fn is_fed_on(&self) -> bool {
        self.graft.is_some() && self.rest.is_none()
    }

    /// Has the node where it is grafted give it no more than this from now on, unless it was told what.
    pub(super) fn end_with(&mut self, rest: Feed, outputs: &mut VecDeque<Output>) {
        if self.rest.is_none() {
            self.rest = Some(rest);
            self.cast(outputs);
        }
    }

    /// Tells the node where it is grafted what it is to give it.
    fn cast(&self, outputs: &mut VecDeque<Output>) {
        outputs.extend(self.graft.map(|graft| Output::Cast {
            epoch: self.epoch,
            route: self.route_to(graft.at),
            feed: self.feed(),
        }));
    }

    /// Has its nodes forget it, and the source with them if it has no part of it.
    pub(super) fn release(&self, outputs: &mut VecDeque<Output>) {
        let source = (self.start() > 0).then_some(0);
        let positions = source.into_iter().chain(self.start()..self.parts.len());
        outputs.extend(positions.map(|position| Output::Release {
            epoch: self.epoch,
            route: self.route_to(position),
        }));
    }

    /// Says why it is given up.
    pub(super) fn silence(&self) -> String {
        if let (Stage::Beginning, Some(caster)) = (self.stage, self.caster()) {
            return alloc::format!("{} did not begin to cast it", caster.short());
        }
        if self.waiting_for.is_empty() {
            return String::from("the plan that it is grafted on did not come into force");
        }
        let silent: Vec<String> = self.waiting_for.iter().map(NodeId::short).collect();
        alloc::format!("no answer from {} within {DEPLOY_MAX}", silent.join(", "))
    }

    fn route_to(&self, position: usize) -> Vec<NodeId> {
        let way = self.parts[..=position].iter();
        way.map(|part| part.node).collect()
    }
}

/// Returns when what is renewed or installed now is to be renewed: a little earlier than after [`RENEW`], with all else that is due in
/// the same [`RENEW_GRID`].
fn renewal_after(now: Instant) -> Instant {
    let (latest, grid) = ((now + RENEW).as_nanos(), RENEW_GRID.as_nanos());
    Instant::from_nanos(latest - latest % grid)
}
