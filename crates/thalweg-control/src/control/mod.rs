//! The control plane of a node: one sans-IO state machine, a router between the owners of its decisions.
//!
//! *The idea.* Frames from neighbours, link events and requests of local programs go into a
//! [`Controller`], which handles each of them completely. Frames to send, parts of plans to install
//! and notices come out. The driver supplies the clock, the links and [`Keys`], and carries out the
//! outputs: a node does so with sockets, a simulator with an event queue.
//!
//! ```text
//!  handle_link_up, handle_frame, …    ─┐                  ┌─► Send, Note
//!  publish, subscribe, …              ─┤    Controller    ├─► Install, Remove      → data path
//!  handle_installed, handle_solved, … ─┤                  ├─► Plan                 → planner
//!  handle_timeout                     ─┘                  └─► Active, Found, Notice → programs
//! ```
//!
//! A [`Controller`] decides nothing itself. What a node knows and decides has owners with private
//! fields, each in a room of this crate; an input is handed to one of them, with a view of what it
//! reads of others. Its decision comes back as effects, which the controller carries out in order,
//! each with all that follows from it, until only outputs are left.
//!
//! ```text
//!  input ─► act(owner) ─► Send, Route, Flood, Note, Output ──────────► mail ─► outputs
//!              ▲      └─► Ask: another owner acts, Announce, Changed ─┐
//!              └───────────────────── carry_out, settle ◄────────────┘
//! ```
//!
//! | room | what its owner decides |
//! |---|---|
//! | `records` | this node's record, which others are accepted, what a neighbour lacks |
//! | `membership` | grants, revocations, the roll |
//! | `parts` | which parts of plans are installed here, their leases; the way of reports |
//! | `accounting` | what became of ADUs, node by node towards the source |
//! | `health` | silent links and nodes, nodes that withhold; what plans avoid |
//! | `sinks` | wanted streams: producers, subscriptions, receipts, sequels |
//! | `sources` | published streams: sinks, sessions, plans, keys |
//! | `tracing` | what hops cost: the nodes that ask, the stamps of sinks |
//! | `mail` | the way out: order, batches of records, envelopes |
//!
//! They share `facts` (what all may read), `effect` (what each may ask for) and `planning` (the
//! planner's input and result). In this room:
//!
//! | file | what it is |
//! |---|---|
//! | `ground` | settings, links, records and membership, lent to all as facts |
//! | `owners` | what one owner asks of others |
//! | `programs` | inputs of local programs and of the data path |
//! | `settle` | the effects of an input, carried out |
//!
//! Two outputs need an answer: [`Output::Install`] is answered by [`Controller::handle_installed`]
//! and [`Output::Plan`] by [`Controller::handle_solved`]. Messages of a node to itself (a source
//! that is also a sink, its own part of a plan) stay inside.
//!
//! *What it does not do.* No ADU passes through here; that is `thalweg_dataplane::route`.
//!
//! *Sources.* design.md, "Control plane"; docs/reference/protocol.md §4–6.

mod ground;
mod owners;
mod programs;
mod settle;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::description::Description;
use thalweg_base::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::admission::Credential;
use thalweg_base::wire::control::{self as wire, Message};
use thalweg_link::gauge::Sample;
use thalweg_link::pulse::Hearing;

use crate::admission::{Rights, Roll, Unfit};
use crate::effect::Effect;
use crate::ledger::Reading;
use crate::mail::Mail;
use crate::routing::cadence::Urgency;
use crate::routing::{Directory, Signed};
use crate::sources::{View, route};
use ground::Ground;
use owners::Owners;

pub use crate::accounting::Accounting;
pub use crate::effect::{Note, Notice, Output};
pub use crate::facts::{KeyContext, Keys, KeysError, Links, Peer, Settings};
pub use crate::membership::{AdmissionChange, CLOCK_TOLERANCE, Membership, NotIssued};
pub use crate::parts::Parts;
pub use crate::planning::{Planning, Publication, PublishError, Solved, Words};
pub use crate::sinks::{EndCause, Sequel, Subscription};
pub use crate::sources::route::{Alternative, HopState, Paths};
pub use crate::sources::{PlanState, SinkPlan, Source};
pub use thalweg_base::part::{Installation, KeyContent, Secrets};

/// The control plane of one node.
#[derive(Debug)]
pub struct Controller {
    ground: Ground,
    owners: Owners,
    mail: Mail,
    /// What owners asked for and is not yet done.
    effects: Vec<Effect>,
    /// The map or the set of published streams has changed; sources and sinks are updated by `settle`.
    is_changed: bool,
}

impl Controller {
    /// Returns the control plane of a node without links, in a fabric without an owner.
    pub fn new(settings: Settings, now: Instant, keys: &mut dyn Keys) -> Self {
        Self::in_fabric(settings, Roll::open(), now, keys)
    }

    /// Returns the control plane of a node of a fabric, with the members that it knows.
    pub fn in_fabric(settings: Settings, roll: Roll, now: Instant, keys: &mut dyn Keys) -> Self {
        let mut controller = Self {
            owners: Owners::new(settings.id),
            ground: Ground::new(settings, roll),
            mail: Mail::default(),
            effects: [Effect::Announce].into(),
            is_changed: false,
        };
        controller.settle(now, keys);
        controller
    }

    /// Returns the node's key.
    pub const fn id(&self) -> NodeId {
        self.ground.id()
    }

    /// Returns the directory of all known nodes.
    pub const fn directory(&self) -> &Directory {
        self.ground.facts().directory
    }

    /// Returns what a stream of a node carries, as far as that has described it.
    pub fn description(&self, node: NodeId, stream: StreamId) -> Option<&Description> {
        self.ground.description(node, stream)
    }

    /// Returns the links to neighbours.
    pub const fn links(&self) -> &Links {
        &self.ground.links
    }

    /// Returns the roll of members.
    pub const fn roll(&self) -> &Roll {
        self.ground.membership.roll()
    }

    /// Returns the membership of this node's fabric: the roll, and what this node may grant.
    pub const fn membership(&self) -> &Membership {
        &self.ground.membership
    }

    /// Returns the parts of plans that are installed here.
    pub const fn parts(&self) -> &Parts {
        &self.owners.parts
    }

    /// Returns the accounts of the plans with a part here.
    pub const fn accounting(&self) -> &Accounting {
        &self.owners.accounting
    }

    /// Returns the streams that this node publishes, ordered by their bytes on the wire.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.owners.sources.all()
    }

    /// Returns the published stream with these bytes.
    pub fn source(&self, stream: StreamId) -> Option<&Source> {
        self.owners.sources.get(stream)
    }

    /// Returns what became of the ADUs of a stream that this node publishes.
    ///
    /// Cost    O(counters of its plans)
    pub fn reading(&self, stream: StreamId) -> Option<Reading> {
        let accounting = &self.owners.accounting;
        self.owners.sources.reading(stream, self.id(), accounting)
    }

    /// Returns the state of a wanted stream, `None` if it is not wanted.
    pub fn subscription(&self, name: &StreamName) -> Option<Subscription> {
        self.owners.sinks.subscription(name)
    }

    /// Returns whether a node may see the plaintext of this node's streams: by its grant, or by
    /// this node's configuration in a fabric without an owner.
    pub fn trusts(&self, node: NodeId) -> bool {
        self.ground.facts().trusts(node)
    }

    /// Returns the display name of a node.
    pub fn name_of(&self, node: NodeId) -> String {
        self.ground.facts().name_of(node)
    }

    /// Plans between two nodes of the map, for an announced stream or for an assumed one.
    ///
    /// Cost    a plan for each link of the best path, and one explanation
    /// Fails   a sentence that names a node that is not on the map, or a stream that is not announced
    pub fn paths(
        &self,
        from: NodeId,
        to: NodeId,
        stream: Option<&StreamName>,
    ) -> Result<Paths, String> {
        let view = View {
            facts: &self.ground.facts(),
            health: &self.owners.health,
        };
        route::paths(&view, &self.owners.sources, [from, to], stream)
    }

    /// Returns the next action for the driver.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.mail.poll_output()
    }

    /// Returns the next change of admission for the driver.
    pub fn poll_admission(&mut self) -> Option<AdmissionChange> {
        self.ground.membership.poll_change()
    }

    /// Returns when [`Controller::handle_timeout`] has something to do.
    ///
    /// Cost    O(streams published or wanted here)
    pub fn poll_timeout(&self) -> Instant {
        self.ground
            .poll_timeout()
            .min(self.mail.poll_timeout())
            .min(self.owners.poll_timeout())
    }

    /// Handles everything that is due: leases that end, records and subscriptions to renew, plans
    /// to resend.
    pub fn handle_timeout(&mut self, now: Instant, keys: &mut dyn Keys) {
        self.act(now, |owners, _, turn| owners.parts.handle_timeout(turn));
        self.carry_out(now, keys);
        self.learn(now, |ground, turn| ground.membership.handle_timeout(turn));
        self.carry_out(now, keys);
        self.act(now, Owners::handle_accounts);
        self.carry_out(now, keys);
        self.handle_health(now, keys);
        self.learn(now, |ground, turn| ground.records().0.handle_meetings(turn));
        self.carry_out(now, keys);
        self.learn(now, |ground, turn| ground.records().0.handle_leaves(turn));
        self.carry_out(now, keys);
        self.mail.handle_timeout(&self.ground.links, now);
        self.learn(now, |ground, turn| ground.handle_refresh(turn));
        self.carry_out(now, keys);
        self.learn(now, Ground::handle_gauges);
        self.carry_out(now, keys);
        self.learn(now, Ground::handle_timeout);
        for name in self.owners.sinks.probes_due(now) {
            self.act(now, |owners, facts, turn| {
                let (sinks, view) = owners.sinks(facts);
                sinks.advance_probe(turn, &view, &name);
            });
            self.carry_out(now, keys);
        }
        self.renew_wanted(now, keys);
        self.settle(now, keys);
    }

    /// Handles a control frame of a neighbour.
    pub fn handle_frame(&mut self, from: NodeId, frame: &[u8], now: Instant, keys: &mut dyn Keys) {
        match wire::decode(frame) {
            Ok(Message::Routed(routed)) => {
                let local = self.ground.local();
                if let Some(letter) = self.mail.handle_routed(from, routed, &local, keys) {
                    self.handle_letter(letter, now, keys);
                }
            }
            Ok(Message::Record { record, signature }) => {
                let signed = Signed { record, signature };
                self.learn(now, |ground, turn| {
                    let (records, local) = ground.records();
                    records.handle_record(turn, &local, from, signed, keys);
                });
            }
            Ok(Message::Summary(summary)) => self.learn(now, |ground, turn| {
                let (records, local) = ground.records();
                records.handle_summary(turn, local.id(), from, &summary);
            }),
            Ok(Message::Lack(lack)) => self.learn(now, |ground, turn| {
                ground.records().0.handle_lack(turn, from, &lack);
            }),
            Ok(Message::Description {
                description,
                signature,
            }) => self.learn(now, |ground, turn| {
                let record = description;
                let (records, local) = ground.records();
                records.handle_description(turn, &local, from, Signed { record, signature }, keys);
            }),
            Ok(Message::Undescribed(streams)) => self.learn(now, |ground, turn| {
                ground.records().0.handle_undescribed(turn, from, &streams);
            }),
            Ok(Message::Grant(credential)) => self.learn(now, |ground, turn| {
                let membership = &mut ground.membership;
                membership.handle_grant_frame(turn, from, credential, keys);
            }),
            Ok(Message::Revocation(warrant)) => self.learn(now, |ground, turn| {
                let membership = &mut ground.membership;
                membership.handle_revocation_frame(turn, from, warrant, keys);
            }),
            Ok(report) => self.act(now, |owners, facts, turn| {
                owners.handle_message(turn, facts, from, report);
            }),
            Err(error) => self
                .mail
                .push(Output::Note(Note::FrameRefused { from, error })),
        }
        self.settle(now, keys);
    }

    /// Handles a new link: the neighbour is sent the grants and records that it lacks.
    pub fn handle_link_up(
        &mut self,
        peer: NodeId,
        sample: Sample,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        self.mail.handle_linked(peer);
        self.learn(now, |ground, turn| {
            ground.handle_link_up(turn, peer, sample);
        });
        self.act(now, |owners, _, turn| {
            let parts = &owners.parts;
            owners.accounting.handle_link_up(parts, peer, turn.now);
        });
        self.settle(now, keys);
    }

    /// Handles the loss of a link.
    pub fn handle_link_down(&mut self, peer: NodeId, now: Instant, keys: &mut dyn Keys) {
        self.owners.handle_answer(peer, now);
        self.mail.handle_unlinked(peer);
        if self.learn(now, |ground, turn| ground.handle_link_down(turn, peer)) {
            self.settle(now, keys);
        }
    }

    /// Handles a reading of a link's counters, which the driver takes every
    /// [`gauge::SAMPLE_EVERY`](thalweg_link::gauge::SAMPLE_EVERY) while the link carries
    /// anything. A change that matters is announced in a new record.
    ///
    /// `at` is when the reading was taken; rates are computed from it, as the driver may deliver it
    /// a moment later.
    pub fn handle_link_sample(
        &mut self,
        peer: NodeId,
        (at, sample): (Instant, Sample),
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        if !self.ground.links.handle_sample(peer, sample, at) {
            return;
        }
        // Which use of the link waits for its measurements.
        let urgency = if self.owners.parts.leading_to(peer).next().is_some() {
            Urgency::Stream
        } else if self.ground.links.count() > 1 || !self.owners.sources.is_empty() {
            Urgency::Planner
        } else {
            Urgency::Nobody
        };
        self.learn(now, |ground, turn| {
            ground.records().0.handle_measured(turn, urgency);
        });
        self.settle(now, keys);
    }

    /// Handles a change of what a neighbour's replies show ([`Hearing`]).
    pub fn handle_hearing(
        &mut self,
        peer: NodeId,
        hearing: Hearing,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let is_linked = self.ground.links.has(peer);
        let is_news = match hearing {
            Hearing::Doubtful => {
                is_linked
                    && self.act(now, |owners, _, turn| {
                        owners.health.handle_doubt(turn, &owners.parts, peer)
                    })
            }
            Hearing::Silent if is_linked => {
                self.ground.links.handle_silence(peer);
                self.act(now, |owners, _, turn| owners.handle_silence(turn, peer));
                true
            }
            Hearing::Silent | Hearing::Answering => {
                self.owners.handle_answer(peer, now);
                false
            }
        };
        if is_news {
            self.settle(now, keys);
        }
    }

    /// Handles what is due of silent neighbours and nodes, and the due receipts.
    fn handle_health(&mut self, now: Instant, keys: &mut dyn Keys) {
        let silent = self.act(now, |owners, _, turn| owners.health.handle_timeout(turn));
        for peer in silent {
            self.act(now, |owners, _, turn| owners.report_again(turn, peer));
            self.carry_out(now, keys);
        }
        let looks = self.act(now, |owners, _, turn| {
            owners.sinks.expire_silences(turn);
            owners.health.handle_look(turn)
        });
        let plans = looks.then(|| self.owners.sources.plans_in_force());
        for (plan, patience) in plans.unwrap_or_default() {
            self.act(now, |owners, facts, turn| {
                owners.look_through(turn, facts, plan, &patience);
            });
            self.carry_out(now, keys);
        }
        self.act(now, |owners, facts, turn| {
            let around = (&facts.local, &owners.parts);
            owners.sinks.handle_receipts(turn, around);
        });
        self.carry_out(now, keys);
    }

    /// Handles the configuration of a new or changed peer: its name, trust, the rate of its link.
    ///
    /// It admits no node and dials none: the driver does.
    pub fn handle_peer(&mut self, peer: Peer, now: Instant, keys: &mut dyn Keys) {
        self.learn(now, |ground, turn| ground.handle_peer(turn, peer));
        self.settle(now, keys);
    }

    /// Handles the removal of a peer from the configuration.
    pub fn handle_peer_gone(&mut self, peer: NodeId, now: Instant, keys: &mut dyn Keys) {
        if self.learn(now, |ground, turn| ground.handle_peer_gone(turn, peer)) {
            self.settle(now, keys);
        }
    }

    /// Handles a credential that came by other means than a link.
    ///
    /// Fails   an invalid credential, with the reason
    pub fn handle_credential(
        &mut self,
        credential: Credential,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<(), Unfit> {
        self.learn(now, |ground, turn| {
            let membership = &mut ground.membership;
            membership.handle_credential(turn, None, credential, keys)
        })?;
        self.settle(now, keys);
        Ok(())
    }

    /// Makes a grant, applies and floods it.
    pub fn grant(
        &mut self,
        node: NodeId,
        rights: Rights,
        lasts: Duration,
        serial: u64,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<Credential, NotIssued> {
        let granted = self.learn(now, |ground, turn| {
            let terms = (rights, lasts, serial);
            ground.membership.grant(turn, node, terms, keys)
        })?;
        self.settle(now, keys);
        Ok(granted)
    }

    /// Revokes all grants of a node that this node may revoke, and floods the revocation.
    pub fn revoke(
        &mut self,
        node: NodeId,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<(), NotIssued> {
        let name = self.name_of(node);
        self.learn(now, |ground, turn| {
            ground.membership.revoke(turn, node, &name, keys)
        })?;
        self.settle(now, keys);
        Ok(())
    }

    /// Handles the outcome of an [`Output::Install`]; a failure is reported to the source.
    pub fn handle_installed(
        &mut self,
        stream: StreamId,
        epoch: Epoch,
        result: Result<(), String>,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let is_wanted = self.act(now, |owners, _, turn| {
            owners.parts.handle_installed(turn, (stream, epoch), result)
        });
        if is_wanted {
            self.settle(now, keys);
        } else {
            self.carry_out(now, keys);
        }
    }

    /// Handles the result of an [`Output::Plan`].
    pub fn handle_solved(&mut self, solved: Solved, now: Instant, keys: &mut dyn Keys) {
        let is_wanted = self.act(now, |owners, facts, turn| {
            let (sources, view) = owners.sources(facts);
            sources.handle_solved(turn, &view, solved)
        });
        if is_wanted {
            self.settle(now, keys);
        }
    }
}
