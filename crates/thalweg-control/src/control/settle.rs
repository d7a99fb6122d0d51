//! The consequences of an input: what owners ask for is done, until only outputs are left.

use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::time::Instant;
use thalweg_base::wire::control::Body;

use super::Controller;
use super::ground::Ground;
use super::owners::Owners;
use crate::admission::Rights;
use crate::effect::{Effect, Output, Turn};
use crate::facts::{Facts, Keys};
use crate::mail::Letter;

impl Controller {
    /// Lets owners act. What they ask for is done by [`Controller::carry_out`].
    pub(super) fn act<T>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Owners, &Facts<'_>, &mut Turn<'_>) -> T,
    ) -> T {
        let mut turn = Turn::new(now, &mut self.effects);
        act(&mut self.owners, &self.ground.facts(), &mut turn)
    }

    /// Lets the owners of what the controller knows act.
    pub(super) fn learn<T>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut Ground, &mut Turn<'_>) -> T,
    ) -> T {
        let mut turn = Turn::new(now, &mut self.effects);
        act(&mut self.ground, &mut turn)
    }

    /// Handles the consequences of an input until only outputs are left.
    pub(super) fn settle(&mut self, now: Instant, keys: &mut dyn Keys) {
        loop {
            self.carry_out(now, keys);
            if core::mem::take(&mut self.is_changed) {
                let changes = self.ground.records().0.take_link_changes();
                self.act(now, |owners, facts, _| {
                    let sources = &mut owners.sources;
                    sources.handle_change(&changes, facts.directory, now);
                });
                self.resolve_wanted(now, keys);
            }
            while let Some(letter) = self.mail.poll_letter() {
                self.handle_letter(letter, now, keys);
                self.carry_out(now, keys);
            }
            self.handle_sources(now, keys);
            if !self.is_changed && self.mail.is_idle() {
                return;
            }
        }
    }

    /// Carries out what owners asked for, each with all that follows from it before the next.
    pub(super) fn carry_out(&mut self, now: Instant, keys: &mut dyn Keys) {
        let mut effects = core::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            let links = &self.ground.links;
            match effect {
                Effect::Send(to, message) => self.mail.send(to, &message, links),
                Effect::Broadcast(message, except) => self.mail.broadcast(&message, except, links),
                Effect::Route(route, body) => {
                    self.mail.route(route, body, &self.ground.local(), keys);
                }
                Effect::Flood(flooding) => self.mail.flood(flooding, links, now),
                Effect::FloodKnown { of, to } => self.mail.handle_known(of, to),
                Effect::Leaf(peer, is_leaf) => self.mail.handle_leaf(peer, is_leaf),
                Effect::Note(note) => self.mail.push(Output::Note(note)),
                Effect::Output(output) => self.mail.push(output),
                Effect::Changed => self.is_changed = true,
                Effect::Announce => {
                    let sources = &self.owners.sources;
                    let streams = (sources.announced(), sources.described());
                    self.learn(now, |ground, turn| {
                        let (records, local) = ground.records();
                        records.announce(turn, &local, streams, keys);
                    });
                }
                Effect::RaiseUrgency => {
                    self.learn(now, |ground, _| ground.records().0.raise_urgency());
                }
                Effect::RightsChanged(node) => self.handle_rights_change(node, now, keys),
                Effect::ResolveWanted => self.resolve_wanted(now, keys),
                Effect::RenewWanted => self.renew_wanted(now, keys),
                Effect::Ask(ask) => {
                    self.act(now, |owners, facts, turn| {
                        owners.handle_ask(turn, facts, ask);
                    });
                }
            }
            if !self.effects.is_empty() {
                self.carry_out(now, keys);
            }
        }
        // All is done, and its memory serves the next input.
        self.effects = effects;
    }

    /// Carries out what needs no key, for inputs that come without. The rest, if any, waits for the
    /// next input.
    pub(super) fn carry_out_plain(&mut self) {
        for effect in core::mem::take(&mut self.effects) {
            match effect {
                Effect::Send(to, message) => self.mail.send(to, &message, &self.ground.links),
                Effect::Note(note) => self.mail.push(Output::Note(note)),
                Effect::Output(output) => self.mail.push(output),
                other => self.effects.push(other),
            }
        }
    }

    /// Handles a message of a node along a route, this node's own or one that has arrived.
    pub(super) fn handle_letter(&mut self, letter: Letter, now: Instant, keys: &mut dyn Keys) {
        let Letter { from, route, body } = letter;
        let sender = (from, &route[..]);
        self.act(now, |owners, facts, turn| match body {
            Body::Prepare(prepare) => {
                owners
                    .parts
                    .handle_prepare(turn, facts, sender, prepare, keys);
            }
            body => owners.handle_body(turn, facts, sender, body),
        });
    }

    /// Advances every session, and does what it asks for.
    fn handle_sources(&mut self, now: Instant, keys: &mut dyn Keys) {
        let streams = self.owners.sources.all().map(super::Source::stream);
        let streams: Vec<StreamId> = streams.collect();
        for stream in streams {
            self.act(now, |owners, _, turn| {
                let accounting = &owners.accounting;
                owners.sources.handle_timeout(turn, accounting, stream);
            });
            while let Some(output) = self.owners.sources.poll_session(stream) {
                self.act(now, |owners, facts, turn| {
                    let (sources, view) = owners.sources(facts);
                    sources.handle_session(turn, &view, stream, output, keys);
                });
                self.carry_out(now, keys);
            }
        }
        for stream in self.owners.sources.over() {
            // The release of its own part may still be queued for this node.
            if !self.mail.releases(stream) {
                self.act(now, |owners, facts, turn| {
                    let around = (facts.id(), &owners.accounting);
                    owners.sources.close(turn, around, stream);
                });
            }
        }
        self.carry_out(now, keys);
    }

    /// Looks up the producers of wanted streams, and subscribes to those that have become reachable.
    pub(super) fn resolve_wanted(&mut self, now: Instant, keys: &mut dyn Keys) {
        let names: Vec<StreamName> = self.owners.sinks.names().cloned().collect();
        for name in names {
            self.resolve(&name, now, keys);
        }
        self.renew_wanted(now, keys);
    }

    /// Looks up the producer of a wanted stream.
    pub(super) fn resolve(&mut self, name: &StreamName, now: Instant, keys: &mut dyn Keys) {
        self.act(now, |owners, facts, turn| {
            let (sinks, view) = owners.sinks(facts);
            sinks.resolve(turn, &view, name);
        });
        self.carry_out(now, keys);
    }

    /// Sends the subscriptions that are due.
    pub(super) fn renew_wanted(&mut self, now: Instant, keys: &mut dyn Keys) {
        for (name, is_refused) in self.owners.sinks.due(now) {
            if is_refused {
                self.resolve(&name, now, keys);
            }
            self.act(now, |owners, facts, turn| {
                let Some(source) = owners.sinks.unanswered(&name, now) else {
                    return;
                };
                if let Some(path) = owners.health.path_to(facts, source, now) {
                    let silent = path.get(1..).unwrap_or_default();
                    owners.health.handle_unanswered(turn, facts, &path, silent);
                }
            });
            self.carry_out(now, keys);
            self.act(now, |owners, facts, turn| {
                let (sinks, view) = owners.sinks(facts);
                sinks.ask(turn, &view, &name);
            });
            self.carry_out(now, keys);
        }
    }

    /// Removes what a node has here by rights that it no longer has.
    fn handle_rights_change(&mut self, node: NodeId, now: Instant, keys: &mut dyn Keys) {
        self.is_changed = true;
        let roll = self.ground.membership.roll();
        let (rights, is_admitted) = (roll.rights(node), roll.admits(node));
        if node == self.id() {
            // The streams that it may announce depend on them.
            self.learn(now, |ground, _| ground.records().0.handle_rights_change());
            if !is_admitted {
                self.act(now, |owners, _, turn| owners.sinks.handle_expelled(turn));
            }
            return;
        }
        let lost: Vec<_> = if rights.contains(Rights::PUBLISH) {
            Vec::new()
        } else {
            self.owners.parts.of_source(node).collect()
        };
        self.act(now, |owners, facts, _| {
            if !facts.trusts(node) {
                owners.sources.handle_exposure(node, now);
            }
        });
        for plan in lost {
            self.act(now, |owners, _, turn| {
                owners.parts.handle_release(turn, node, plan);
            });
            self.carry_out(now, keys);
        }
        if !rights.contains(Rights::SUBSCRIBE) {
            self.owners.sources.handle_expelled(node, now);
        }
        let is_removed = self.learn(now, |ground, _| {
            let (records, local) = ground.records();
            records.remove_unfit(node, local.roll)
        });
        if is_removed {
            self.mail.remove_record(node);
        }
    }
}
