//! One plan of a session on its way into force: which nodes have their parts, and where it is fed from.
//!
//! *The idea.* A [`Stage`] tells how far it is, a [`Takeover`] whether it may come into force, a
//! [`Feed`] what its caster copies, and its [`Path`] how sound its path is. What is awaited belongs to
//! the stage in which it is, so that no plan can be fed and still wait for parts.
//!
//! *What it does not do.* It knows no other plan; the session knows whether its base is in force.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId};
use thalweg_base::time::Instant;

use super::output::{Outputs, Renewals};
use super::path::Path;
use super::{DEPLOY_MAX, Feed, Output, Part, RENEW, RENEW_GRID, RESEND};

/// How far the deployment is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// These nodes have not installed their parts yet.
    Installing(BTreeSet<NodeId>),
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

/// A plan that was found for a sink.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) parts: Vec<Part>,
    pub(super) graft: Option<Graft>,
    pub(super) takeover: Takeover,
}

impl Found {
    /// Returns the position on its path of the first node with a part of it.
    pub(super) fn start(&self) -> usize {
        self.graft.map_or(0, |graft| graft.at)
    }

    pub(super) fn stands_by(&self) -> bool {
        self.takeover != Takeover::WhenReady
    }
}

/// A plan with parts that are being sent to its nodes, or are installed.
#[derive(Clone, Debug)]
pub(super) struct Deployment {
    epoch: Epoch,
    graft: Option<Graft>,
    path: Path,
    stage: Stage,
    takeover: Takeover,
    /// What its caster copies. [`Feed::Replay`] until it has been in force, if its sink starts with
    /// it; [`Feed::Off`] or [`Feed::Until`] once it is no longer its sink's plan.
    feed: Feed,
    /// ADUs may have been sent by it that its nodes must report on: it has been in force, or was to
    /// be copied.
    has_carried: bool,
    send_next: Instant,
    give_up: Instant,
    /// The node that last lost its part and was sent it again, and when.
    restored: Option<(NodeId, Instant)>,
}

impl Deployment {
    /// Starts to deploy a plan; `begins` if its sink starts with it.
    pub(super) fn new(epoch: Epoch, found: Found, begins: bool, now: Instant) -> Self {
        let mut deployment = Self {
            epoch,
            graft: found.graft,
            path: Path::new(found.parts),
            stage: Stage::Fed,
            takeover: found.takeover,
            feed: if begins { Feed::Replay } else { Feed::Live },
            has_carried: false,
            send_next: now,
            give_up: now,
            restored: None,
        };
        deployment.begin(now);
        deployment
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub(super) fn graft(&self) -> Option<Graft> {
        self.graft
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    pub(super) fn has_carried(&self) -> bool {
        self.has_carried
    }

    /// Returns when it has a message to send.
    pub(super) fn send_next(&self) -> Instant {
        self.send_next
    }

    /// Returns when it fails, if it is pending and waits for something.
    pub(super) fn give_up(&self) -> Instant {
        if self.is_idle_standby() {
            Instant::NEVER
        } else {
            self.give_up
        }
    }

    /// Returns whether what it is fed from is among the plans of which this is true.
    pub(super) fn is_fed_by(&self, is_among: impl Fn(Epoch) -> bool) -> bool {
        self.graft.is_none_or(|graft| is_among(graft.base))
    }

    /// Returns the position on its path of the first node with a part of it.
    pub(super) fn start(&self) -> usize {
        self.graft.map_or(0, |graft| graft.at)
    }

    /// Returns the node where it is grafted.
    pub(super) fn caster(&self) -> Option<NodeId> {
        let graft = self.graft?;
        self.path.parts().get(graft.at).map(|part| part.node)
    }

    pub(super) fn runs_on(&self, node: NodeId) -> bool {
        let mut own = self.path.parts()[self.start()..].iter();
        own.any(|part| part.node == node)
    }

    /// Starts to send every node its part, and waits for all answers.
    pub(super) fn begin(&mut self, now: Instant) {
        let own = self.path.parts()[self.start()..].iter();
        self.stage = Stage::Installing(own.map(|part| part.node).collect());
        self.path.renew();
        self.send_next = now;
        self.give_up = now + DEPLOY_MAX;
    }

    /// Handles a node that has its part; returns whether that makes the plan ready.
    pub(super) fn handle_ready(&mut self, from: NodeId, now: Instant) -> bool {
        // A renewal is answered in the same way, and no answer to it is awaited.
        let Stage::Installing(waiting_for) = &mut self.stage else {
            return false;
        };
        if !waiting_for.remove(&from) || !waiting_for.is_empty() {
            return false;
        }
        let must_start_feed = self.graft.is_some();
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
        self.stage == Stage::Fed
    }

    /// Brings it into force; returns whether its sink starts with it.
    pub(super) fn take_over(&mut self) -> bool {
        self.has_carried = true;
        core::mem::replace(&mut self.feed, Feed::Live) == Feed::Replay
    }

    /// Lets its sink start with it, as that has lost everything.
    pub(super) fn start_over(&mut self) {
        self.feed = Feed::Replay;
    }

    /// Sends what is due: first parts to the nodes that have not answered, then renewals to all.
    pub(super) fn send_due(
        &mut self,
        now: Instant,
        outputs: &mut Outputs,
        renewals: &mut Renewals,
    ) {
        if self.send_next > now {
            return;
        }
        let own = self.start()..self.path.parts().len();
        match &self.stage {
            Stage::Installing(waiting_for) => {
                self.send_next = now + RESEND;
                for position in own {
                    if waiting_for.contains(&self.path.parts()[position].node) {
                        outputs.push(self.prepare(position));
                    }
                }
            }
            Stage::StartingFeed if !self.is_unfed() => {
                self.send_next = now + RESEND;
                // The caster starts long before its answer arrives, if that arrives at all.
                self.has_carried = true;
                self.cast(outputs);
            }
            Stage::StartingFeed | Stage::Fed => {
                self.send_next = renewal_after(now);
                for position in own {
                    let of_node = renewals.entry(self.path.route_to(position)).or_default();
                    of_node.push(self.epoch);
                }
            }
        }
    }

    /// Sends a node that lacks its part that part again, and the cast if it is the caster, at most
    /// once in [`RESEND`].
    pub(super) fn restore(&mut self, node: NodeId, now: Instant, outputs: &mut Outputs) {
        let parts = self.path.parts();
        let mut own = self.start()..parts.len();
        let Some(position) = own.find(|position| parts[*position].node == node) else {
            return;
        };
        let is_recent = |(of, at)| of == node && now < at + RESEND;
        if self.restored.is_some_and(is_recent) {
            return;
        }
        self.restored = Some((node, now));
        outputs.push(self.prepare(position));
        if self.stage == Stage::Fed && self.caster() == Some(node) {
            self.cast(outputs);
        }
    }

    /// Returns the output that sends a node its part.
    fn prepare(&self, position: usize) -> Output {
        let base = self.graft.filter(|graft| graft.at == position);
        Output::Prepare {
            epoch: self.epoch,
            route: self.path.route_to(position),
            next: self.path.parts().get(position + 1).map(|next| next.node),
            part: self.path.parts()[position].clone(),
            base: base.map(|graft| graft.base),
        }
    }

    /// Stops awaiting answers: the retiring plan is renewed where it is installed.
    pub(super) fn stop_installing(&mut self) {
        self.stage = Stage::Fed;
    }

    /// Returns whether its caster copies everything that arrives for its base.
    pub(super) const fn is_fed_fully(&self) -> bool {
        self.graft.is_some() && self.feed.begins()
    }

    /// Limits what its caster copies from now on, unless it is limited already.
    pub(super) fn limit_feed(&mut self, final_feed: Feed, outputs: &mut Outputs) {
        if self.feed.begins() {
            self.feed = final_feed;
            self.cast(outputs);
        }
    }

    /// Sends its caster what to copy.
    fn cast(&self, outputs: &mut Outputs) {
        if let Some(graft) = self.graft {
            outputs.push(Output::Cast {
                epoch: self.epoch,
                route: self.path.route_to(graft.at),
                feed: self.feed,
            });
        }
    }

    /// Releases it on its nodes, and at the source even if that has no part of it.
    pub(super) fn release(&self, outputs: &mut Outputs) {
        let source = (self.start() > 0).then_some(0);
        let positions = source
            .into_iter()
            .chain(self.start()..self.path.parts().len());
        for position in positions {
            outputs.push(Output::Release {
                epoch: self.epoch,
                route: self.path.route_to(position),
            });
        }
    }

    /// Returns why it failed, and the nodes that were sent their parts and did not answer.
    pub(super) fn failure(&self) -> (String, Vec<NodeId>) {
        let reason = match (&self.stage, self.caster()) {
            (Stage::Installing(waiting_for), _) => {
                let silent: Vec<String> = waiting_for.iter().map(NodeId::short).collect();
                let reason =
                    alloc::format!("no answer from {} within {DEPLOY_MAX}", silent.join(", "));
                return (reason, waiting_for.iter().copied().collect());
            }
            (Stage::StartingFeed, Some(caster)) => {
                alloc::format!("{} did not start to copy its base", caster.short())
            }
            _ => String::from("its base plan did not come into force"),
        };
        (reason, Vec::new())
    }
}

/// Returns the time of the next renewal: a little less than [`RENEW`] from now, on a multiple of
/// [`RENEW_GRID`].
fn renewal_after(now: Instant) -> Instant {
    let (latest, grid) = ((now + RENEW).as_nanos(), RENEW_GRID.as_nanos());
    Instant::from_nanos(latest - latest % grid)
}
