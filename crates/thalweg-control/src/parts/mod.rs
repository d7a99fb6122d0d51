//! The parts of plans on this node: which may be installed, how many, and for how long.
//!
//! *The idea.* This table is authoritative; the driver's routes mirror it. A part to install goes
//! out as an [`Installation`] with its [`Secrets`], the driver reports the outcome, and only then
//! the source is answered. Each part has a lease, and is removed when the source does not renew it.
//!
//! | file | what it is |
//! |---|---|
//! | `admit` | which parts may be installed here |
//! | `upstream` | the way of reports on a plan towards its source |
//!
//! *What it does not do.* It plans nothing, and knows no stream that this node publishes or wants.
//!
//! *Sources.* docs/reference/protocol.md §5, §6; docs/concepts/recast.md §5.

mod admit;
mod upstream;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thalweg_base::feed::Feed;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::part::{Installation, Secrets};
use thalweg_base::time::{Due, Duration, Instant};
use thalweg_base::wire::control::{Body, Prepare};

use crate::effect::{Ask, Effect, Note, Output, PlanKey, Turn, plans_of, reversed};
use crate::facts::{Facts, KeyContext, Keys, KeysError};
use crate::session::LEASE;

/// A lease is still valid at its last instant and has expired one nanosecond later.
const PAST_LEASE: Duration = Duration::from_nanos(1);

/// An installed part.
#[derive(Debug)]
struct Part {
    installation: Installation,
    expiry: Instant,
}

/// A part that the driver is installing.
#[derive(Debug)]
struct Pending {
    installation: Installation,
    /// The route back to the source.
    route_back: Vec<NodeId>,
}

/// The owner of the parts on this node.
#[derive(Debug)]
pub struct Parts {
    /// This node.
    id: NodeId,
    installed: BTreeMap<PlanKey, Part>,
    /// When the first lease of a part ends.
    leases_due: Due,
    pending: BTreeMap<PlanKey, Pending>,
    /// This node has announced that it leaves.
    is_leaving: bool,
}

impl Parts {
    /// Returns no parts of a node.
    pub(crate) fn new(id: NodeId) -> Self {
        Self {
            id,
            installed: BTreeMap::new(),
            leases_due: Due::default(),
            pending: BTreeMap::new(),
            is_leaving: false,
        }
    }

    /// Returns the installed parts, ordered by stream and plan.
    pub fn installations(&self) -> impl Iterator<Item = &Installation> {
        self.installed.values().map(|part| &part.installation)
    }

    /// Returns whether a part of another node's plan leads on from here.
    pub fn is_passed(&self) -> bool {
        let mut parts = self.installations();
        parts.any(|part| part.source != self.id && part.next.is_some())
    }

    /// Returns the part of a plan.
    pub(crate) fn get(&self, plan: PlanKey) -> Option<&Installation> {
        self.installed.get(&plan).map(|part| &part.installation)
    }

    /// Returns the parts of a stream's plans, the oldest first.
    pub(crate) fn of_stream(
        &self,
        stream: StreamId,
    ) -> impl DoubleEndedIterator<Item = &Installation> {
        let parts = self.installed.range(plans_of(stream));
        parts.map(|(_, part)| &part.installation)
    }

    /// Returns the plans whose ADUs go from here to a neighbour.
    pub fn leading_to(&self, peer: NodeId) -> impl Iterator<Item = PlanKey> {
        let parts = self.installed.iter();
        let leading = parts.filter(move |(_, part)| part.installation.next == Some(peer));
        leading.map(|(plan, _)| *plan)
    }

    /// Returns the installed plans of a source.
    pub(crate) fn of_source(&self, source: NodeId) -> impl Iterator<Item = PlanKey> {
        let parts = self.installed.iter();
        let own = parts.filter(move |(_, part)| part.installation.source == source);
        own.map(|(plan, _)| *plan)
    }

    /// Returns the newest plan of a stream that ends here.
    pub(crate) fn newest_ending(&self, stream: StreamId) -> Option<Epoch> {
        let mut newest_first = self.of_stream(stream).rev();
        let part = newest_first.find(|part| part.next.is_none())?;
        Some(part.epoch)
    }

    /// Returns the newest plan of a stream that is being installed.
    pub(crate) fn newest_pending(&self, stream: StreamId) -> Option<Epoch> {
        let (plan, _) = self.pending.range(plans_of(stream)).next_back()?;
        Some(plan.1)
    }

    /// Handles the outcome of an [`Output::Install`]; a failure is reported to the source.
    ///
    /// Returns whether the part was still wanted.
    pub(crate) fn handle_installed(
        &mut self,
        turn: &mut Turn<'_>,
        plan: PlanKey,
        result: Result<(), String>,
    ) -> bool {
        let Some(pending) = self.pending.remove(&plan) else {
            // Released before the driver was done: it must not stay.
            if !self.installed.contains_key(&plan) {
                turn.output(Output::Remove {
                    stream: plan.0,
                    epoch: plan.1,
                });
            }
            return false;
        };
        let Pending {
            installation,
            route_back,
        } = pending;
        if result.is_ok() {
            turn.note(Note::PartInstalled {
                stream: installation.name.clone(),
                epoch: plan.1,
                adapters: installation.adapters.clone(),
            });
            let leads_on = installation.next.is_some();
            let part = Part {
                installation,
                expiry: turn.now + LEASE + PAST_LEASE,
            };
            self.leases_due.handle(part.expiry);
            self.installed.insert(plan, part);
            if leads_on {
                turn.push(Effect::RaiseUrgency);
            }
            turn.ask(Ask::PartInstalled(plan));
        }
        self.answer(turn, plan, route_back, result);
        true
    }

    /// Handles a source's request to install a part.
    pub(crate) fn handle_prepare(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        (from, route): (NodeId, &[NodeId]),
        prepare: Prepare,
        keys: &mut dyn Keys,
    ) {
        let (plan, route_back) = ((prepare.stream, prepare.epoch), reversed(route));
        let envelope = prepare.envelope.clone();
        let installation = installation(from, prepare);
        let admitted = self.admit(facts, &installation);
        let is_here = self.get(plan) == Some(&installation);
        if admitted.is_ok() && is_here {
            self.renew(turn, plan);
        }
        if admitted.is_err() || is_here {
            return self.answer(turn, plan, route_back, admitted);
        }
        if let Some(pending) = self.pending.get_mut(&plan) {
            // Sent again before the driver is done: one answer serves both. A different part under
            // the same epoch stays unanswered; the source resends it until it can be installed.
            if pending.installation == installation {
                pending.route_back = route_back;
            }
            return;
        }
        match draw_secrets(&installation, envelope.as_deref(), keys) {
            Ok(secrets) => {
                turn.output(Output::Install {
                    installation: installation.clone(),
                    secrets,
                });
                let pending = Pending {
                    installation,
                    route_back,
                };
                self.pending.insert(plan, pending);
            }
            Err(reason) => self.answer(turn, plan, route_back, Err(reason)),
        }
    }

    /// Renews parts of the sender's plans, and reports to the sender which it lacks.
    pub(crate) fn handle_renew(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        (from, route): (NodeId, &[NodeId]),
        (stream, epochs): (StreamId, &[Epoch]),
    ) {
        let route_back = reversed(route);
        let mut lacking = Vec::new();
        for &epoch in epochs {
            let plan = (stream, epoch);
            let Some(part) = self.get(plan).filter(|part| part.source == from) else {
                // A part that is being installed is answered when it is.
                if !self.pending.contains_key(&plan) {
                    lacking.push(epoch);
                }
                continue;
            };
            match self.admit(facts, part) {
                Ok(()) => {
                    self.renew(turn, plan);
                    turn.ask(Ask::Reclaim(plan));
                    self.keep_up(turn, plan, &route_back);
                }
                refused => self.answer(turn, plan, route_back.clone(), refused),
            }
        }
        if !lacking.is_empty() {
            let epochs = lacking;
            turn.route(route_back, Body::Lacking { stream, epochs });
        }
    }

    /// Renews a part's lease. Its report is repeated, as the previous node may have restarted.
    fn renew(&mut self, turn: &mut Turn<'_>, plan: PlanKey) {
        if let Some(part) = self.installed.get_mut(&plan) {
            part.expiry = turn.now + LEASE + PAST_LEASE;
            turn.ask(Ask::PartRenewed(plan));
        }
    }

    /// Handles the sign that the source keeps up a plan by this route. If the plan ends here, its
    /// sink reports what it has.
    fn keep_up(&self, turn: &mut Turn<'_>, plan: PlanKey, route_back: &[NodeId]) {
        if self.get(plan).is_some_and(|part| part.next.is_none()) {
            turn.ask(Ask::KeptUp(plan, route_back.to_vec()));
        }
    }

    fn answer(
        &self,
        turn: &mut Turn<'_>,
        plan: PlanKey,
        route_back: Vec<NodeId>,
        result: Result<(), String>,
    ) {
        if result.is_ok() {
            // The receipt goes first, so that the source knows what to resend when it changes plans.
            self.keep_up(turn, plan, &route_back);
        }
        let (stream, epoch) = plan;
        let body = match result {
            Ok(()) => Body::Ready { stream, epoch },
            Err(reason) => Body::Refuse {
                stream,
                epoch,
                reason,
            },
        };
        turn.route(route_back, body);
    }

    /// Removes a part, if the sender is its source.
    pub(crate) fn handle_release(&mut self, turn: &mut Turn<'_>, from: NodeId, plan: PlanKey) {
        let pending = self.pending.get(&plan);
        if pending.is_some_and(|pending| pending.installation.source == from) {
            self.pending.remove(&plan);
        }
        if self.get(plan).is_some_and(|part| part.source == from) {
            self.installed.remove(&plan);
            remove(turn, plan);
            turn.ask(Ask::Unserved(plan.0));
        } else if from == self.id {
            // A plan that was never installed here has left only its path.
            turn.ask(Ask::PlanOver(plan));
        }
    }

    /// Removes the parts with expired leases.
    pub(crate) fn handle_timeout(&mut self, turn: &mut Turn<'_>) {
        if turn.now < self.leases_due.at() {
            return;
        }
        let now = turn.now;
        let ended = self.installed.extract_if(.., |_, part| part.expiry <= now);
        let ended: Vec<_> = ended.collect();
        let expiries = self.installed.values().map(|part| part.expiry);
        self.leases_due.look(expiries);
        for (plan, part) in ended {
            remove(turn, plan);
            turn.note(Note::PartExpired {
                stream: part.installation.name,
                epoch: plan.1,
            });
            turn.ask(Ask::Unserved(plan.0));
        }
    }

    /// Returns a time no later than the end of the first lease.
    pub(crate) fn poll_timeout(&self) -> Instant {
        debug_assert!(
            self.leases_due
                .holds(self.installed.values().map(|part| part.expiry)),
            "every change of a lease updates `leases_due`"
        );
        self.leases_due.at()
    }

    /// Handles a source's request to start or stop copying into a plan, if that is grafted here.
    pub(crate) fn handle_cast(
        &self,
        turn: &mut Turn<'_>,
        (from, route): (NodeId, &[NodeId]),
        (stream, epoch): PlanKey,
        feed: Feed,
    ) {
        let part = self.get((stream, epoch));
        let is_here = part.is_some_and(|part| part.source == from && part.base.is_some());
        if is_here {
            turn.output(Output::Cast {
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
            turn.route(reversed(route), answer);
        }
    }

    /// Notifies the sources of the streams that pass this node, or end here, that it leaves; it
    /// refuses new parts from now on.
    ///
    /// ```text
    /// this node ── Leave ──► source           avoids this node as if it were silent, but resends nothing
    ///           ◄─ Release ─ source           once plans around it are in force and the old ones are drained
    /// ```
    pub(crate) fn leave(&mut self, turn: &mut Turn<'_>, facts: &Facts<'_>) {
        self.is_leaving = true;
        let others = self.installations();
        let others = others.filter(|part| part.source != facts.id());
        let sources: BTreeSet<(NodeId, StreamId)> =
            others.map(|part| (part.source, part.stream)).collect();
        for (source, stream) in sources {
            if let Some(path) = facts.path(source) {
                turn.route(path, Body::Leave { stream });
            }
        }
    }

    /// Handles the source's notice that nothing more arrives of what is lacking below a sequence.
    pub(crate) fn handle_given_up(
        &self,
        turn: &mut Turn<'_>,
        from: NodeId,
        stream: StreamId,
        below: Sequence,
    ) {
        let mut parts = self.of_stream(stream);
        if parts.any(|part| part.source == from && part.next.is_none()) {
            turn.output(Output::GivenUp { stream, below });
        }
    }
}

/// Has a part that is gone from the table removed everywhere.
fn remove(turn: &mut Turn<'_>, plan: PlanKey) {
    turn.ask(Ask::PlanOver(plan));
    turn.output(Output::Remove {
        stream: plan.0,
        epoch: plan.1,
    });
}

/// Opens the stream's key if the part needs it, and draws its instance bits.
fn draw_secrets(
    installation: &Installation,
    envelope: Option<&[u8]>,
    keys: &mut dyn Keys,
) -> Result<Secrets, String> {
    let mut instance = [0; 8];
    let to_text = |error: KeysError| error.to_string();
    keys.random(&mut instance).map_err(to_text)?;
    let key = if needs_key(&installation.adapters) {
        let envelope = envelope.ok_or("the stream's key is missing")?;
        let context = KeyContext {
            source: installation.source,
            stream: installation.stream,
        };
        Some(keys.open_key(envelope, context).map_err(to_text)?)
    } else {
        None
    };
    Ok(Secrets {
        key,
        instance: u64::from_be_bytes(instance),
    })
}

/// Returns whether an adapter of a part needs the stream's key.
pub(crate) fn needs_key(adapters: &[String]) -> bool {
    let keyed = |word: &String| matches!(word.split(':').next(), Some("seal" | "open"));
    adapters.iter().any(keyed)
}

fn installation(source: NodeId, prepare: Prepare) -> Installation {
    Installation {
        name: prepare.name,
        stream: prepare.stream,
        epoch: prepare.epoch,
        source,
        previous: prepare.previous,
        next: prepare.next,
        adapters: prepare.adapters,
        reliability: prepare.reliability,
        order: prepare.order,
        weight: prepare.weight,
        plaintext: prepare.plaintext,
        base: prepare.base,
    }
}
