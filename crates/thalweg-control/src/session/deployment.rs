//! One plan of a session on its way into force: which nodes have their parts, and where it is fed from.
//!
//! *What it does not do.* It knows no other plan; the session knows whether its base is in force.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::Instant;

use super::Feed;
use super::{DEPLOY_MAX, Output, Part, RENEW, RENEW_GRID, RESEND};

/// Epochs to renew, by the route to their node.
pub(super) type Renewals = BTreeMap<Vec<NodeId>, Vec<Epoch>>;

/// How far the deployment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nodes install their parts.
    Installing,
    /// All nodes have; the caster is to start copying.
    StartingFeed,
    /// The caster is copying, or the plan is not grafted.
    Fed,
}

/// Whether a plan takes over once it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takeover {
    /// It does.
    WhenReady,
    /// It stands by: the path of the plan in force is only doubted.
    Standby,
    /// It stands by, and its base carries ADUs or may at any time. Copying starts only when it is
    /// activated.
    Unfed,
}

/// Where a plan is fed from, if not by the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graft {
    /// The plan that it is copied from.
    pub base: Epoch,
    /// The position on its path of the caster; never 0, which is the source.
    pub at: usize,
}

/// A plan with parts that are being sent to its nodes, or are installed.
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
    /// How many hops from the source the map has shown intact ever since all nodes had their parts.
    /// A node behind them may have restarted.
    pub(super) whole_hops: usize,
    /// Until when some node on its path is suspected to be silent.
    pub(super) suspect_until: Instant,
    /// ADUs sent under it are to be resent, or have been.
    pub(super) is_broken: bool,
    /// A node on its path waits to leave.
    pub(super) has_leaver: bool,
    /// Its sink starts with it, and has received nothing yet.
    pub(super) begins: bool,
    /// ADUs may have been sent by it that its nodes must report on: it has been in force, or was to
    /// be copied.
    pub(super) has_carried: bool,
    pub(super) takeover: Takeover,
    /// What its caster still copies, once it is no longer its sink's plan.
    final_feed: Option<Feed>,
    /// The node that last lost its part and was sent it again, and when.
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
            has_leaver: false,
            begins: false,
            has_carried: false,
            takeover: Takeover::WhenReady,
            final_feed: None,
            restored: None,
        };
        deployment.begin(now);
        deployment
    }

    /// Returns the position on its path of the first node with a part of it.
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

    /// Starts to send every node its part, and waits for all answers.
    pub(super) fn begin(&mut self, now: Instant) {
        let own = self.parts[self.start()..].iter();
        self.waiting_for = own.map(|part| part.node).collect();
        self.stage = Stage::Installing;
        self.whole_hops = usize::MAX;
        self.send_next = now;
        self.give_up = now + DEPLOY_MAX;
    }

    /// Handles a node that has its part; returns whether that makes the plan ready.
    pub(super) fn handle_ready(&mut self, from: NodeId, now: Instant) -> bool {
        // A renewal is answered in the same way, and no answer to it is awaited.
        if !self.waiting_for.remove(&from) || !self.waiting_for.is_empty() {
            return false;
        }
        let must_start_feed = self.graft.is_some() && self.stage == Stage::Installing;
        if must_start_feed {
            self.stage = Stage::StartingFeed;
            self.send_next = if self.is_unfed() {
                renewal_after(now)
            } else {
                now
            };
        } else {
            self.stage = Stage::Fed;
            self.send_next = renewal_after(now);
        }
        !must_start_feed
    }

    /// Handles a node that copies the plan; returns whether that was awaited.
    pub(super) fn handle_casting(&mut self, from: NodeId, now: Instant) -> bool {
        let is_it = self.stage == Stage::StartingFeed && self.caster() == Some(from);
        if is_it {
            self.stage = Stage::Fed;
            self.send_next = renewal_after(now);
        }
        is_it
    }

    /// Lets it take over once it is ready, with as much time as a new plan has.
    pub(super) fn activate(&mut self, now: Instant) {
        if self.is_unfed() && self.stage == Stage::StartingFeed {
            self.send_next = now;
        }
        self.takeover = Takeover::WhenReady;
        self.give_up = now + DEPLOY_MAX;
    }

    /// Returns whether it waits although it may be ready.
    pub(super) fn stands_by(&self) -> bool {
        self.takeover != Takeover::WhenReady
    }

    /// Returns whether it takes over together with its base.
    pub(super) fn follows(&self, base: Epoch) -> bool {
        self.takeover == Takeover::Standby && self.graft.is_some_and(|graft| graft.base == base)
    }

    fn is_unfed(&self) -> bool {
        self.takeover == Takeover::Unfed
    }

    /// Returns whether it stands by with nothing to wait for until it is activated.
    pub(super) fn is_idle_standby(&self) -> bool {
        self.stands_by()
            && (self.is_ready() || self.is_unfed() && self.stage == Stage::StartingFeed)
    }

    /// Returns whether all its nodes are ready for its ADUs.
    pub(super) fn is_ready(&self) -> bool {
        self.waiting_for.is_empty() && self.stage == Stage::Fed
    }

    /// Returns whether its path contains this hop.
    pub(super) fn leads(&self, from: NodeId, to: NodeId) -> bool {
        let is_it = |pair: &[Part]| (pair[0].node, pair[1].node) == (from, to);
        self.parts.windows(2).any(is_it)
    }

    /// Handles a change of the links.
    pub(super) fn handle_change(&mut self, is_joined: impl Fn(NodeId, NodeId) -> bool) {
        let mut hops = self.parts.windows(2);
        let broken = hops.position(|pair| !is_joined(pair[0].node, pair[1].node));
        self.whole_hops = self.whole_hops.min(broken.unwrap_or(usize::MAX));
    }

    /// Returns whether the map has shown its path broken since all its nodes had their parts.
    pub(super) fn is_doubted(&self) -> bool {
        self.whole_hops < self.parts.len()
    }

    /// Sends what is due: first parts to the nodes that have not answered, then renewals to all.
    pub(super) fn send_due(
        &mut self,
        now: Instant,
        outputs: &mut VecDeque<Output>,
        renewals: &mut Renewals,
    ) {
        if self.send_next > now {
            return;
        }
        // A pending plan fails at that time. One in force stays, even if a node answers late.
        if self.give_up <= now {
            self.waiting_for.clear();
        }
        if self.stage == Stage::StartingFeed && !self.is_unfed() {
            self.send_next = now + RESEND;
            // The caster starts long before its answer arrives, if that arrives at all.
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

    /// Sends a node that lacks its part that part again, and the cast if it is the caster, at most
    /// once in [`RESEND`].
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

    /// Returns the output that sends a node its part.
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
        self.final_feed.unwrap_or(present)
    }

    /// Stops awaiting answers: the retiring plan is renewed where it is installed.
    pub(super) fn stop_installing(&mut self) {
        self.waiting_for.clear();
        self.stage = Stage::Fed;
    }

    /// Returns whether its caster copies everything that arrives for its base.
    pub(super) const fn is_fed_fully(&self) -> bool {
        self.graft.is_some() && self.final_feed.is_none()
    }

    /// Limits what its caster copies from now on, unless it is limited already.
    pub(super) fn limit_feed(&mut self, final_feed: Feed, outputs: &mut VecDeque<Output>) {
        if self.final_feed.is_none() {
            self.final_feed = Some(final_feed);
            self.cast(outputs);
        }
    }

    /// Sends its caster what to copy.
    fn cast(&self, outputs: &mut VecDeque<Output>) {
        outputs.extend(self.graft.map(|graft| Output::Cast {
            epoch: self.epoch,
            route: self.route_to(graft.at),
            feed: self.feed(),
        }));
    }

    /// Releases it on its nodes, and at the source even if that has no part of it.
    pub(super) fn release(&self, outputs: &mut VecDeque<Output>) {
        let source = (self.start() > 0).then_some(0);
        let positions = source.into_iter().chain(self.start()..self.parts.len());
        outputs.extend(positions.map(|position| Output::Release {
            epoch: self.epoch,
            route: self.route_to(position),
        }));
    }

    /// Returns why it failed.
    pub(super) fn failure_reason(&self) -> String {
        if let (Stage::StartingFeed, Some(caster)) = (self.stage, self.caster()) {
            return alloc::format!("{} did not start to copy its base", caster.short());
        }
        if self.waiting_for.is_empty() {
            return String::from("its base plan did not come into force");
        }
        let silent: Vec<String> = self.waiting_for.iter().map(NodeId::short).collect();
        alloc::format!("no answer from {} within {DEPLOY_MAX}", silent.join(", "))
    }

    fn route_to(&self, position: usize) -> Vec<NodeId> {
        let nodes = self.parts[..=position].iter();
        nodes.map(|part| part.node).collect()
    }
}

/// Returns the time of the next renewal: a little less than [`RENEW`] from now, on a multiple of
/// [`RENEW_GRID`].
fn renewal_after(now: Instant) -> Instant {
    let (latest, grid) = ((now + RENEW).as_nanos(), RENEW_GRID.as_nanos());
    Instant::from_nanos(latest - latest % grid)
}
