//! The parts of plans on this node: which may be installed, how many, and for how long.
//!
//! *The idea.* This table is authoritative; the driver's routes mirror it. A part to install goes
//! out as an [`Installation`] with its [`Secrets`], the driver reports the outcome, and only then
//! the source is answered. Each part has a lease, and is removed when the source does not renew it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::limits::EPOCHS_PER_STREAM_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::{Body, Prepare};
use thalweg_base::wire::record::Record;

use super::admission::no_right;
use super::routed::reversed;
use super::{Controller, Installation, KeyContext, Keys, KeysError, Note, Output, Secrets};
use crate::admission::Rights;
use crate::session::LEASE;

/// A lease is still valid at its last instant and has expired one nanosecond later.
const PAST_LEASE: Duration = Duration::from_nanos(1);

/// An installed part.
#[derive(Debug)]
pub(super) struct Part {
    installation: Installation,
    pub(super) expiry: Instant,
}

impl Part {
    pub(super) const fn installation(&self) -> &Installation {
        &self.installation
    }
}

/// A part that the driver is installing.
#[derive(Debug)]
pub(super) struct Pending {
    installation: Installation,
    /// The route back to the source.
    route_back: Vec<NodeId>,
}

impl Controller {
    /// Returns the installed parts, ordered by stream and plan.
    pub fn installations(&self) -> impl Iterator<Item = &Installation> {
        self.parts.values().map(|part| &part.installation)
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
        let Some(pending) = self.pending.remove(&(stream, epoch)) else {
            // Released before the driver was done: it must not stay.
            if !self.parts.contains_key(&(stream, epoch)) {
                self.outputs.push_back(Output::Remove { stream, epoch });
            }
            return;
        };
        let Pending {
            installation,
            route_back,
        } = pending;
        if result.is_ok() {
            self.note(Note::PartInstalled {
                stream: installation.name.clone(),
                epoch,
                adapters: installation.adapters.clone(),
            });
            let part = Part {
                installation,
                expiry: now + LEASE + PAST_LEASE,
            };
            if part.installation.next.is_some() {
                self.raise_measured_urgency();
            }
            self.leases_due.handle(part.expiry);
            self.parts.insert((stream, epoch), part);
            self.open_account(stream, epoch, now);
            self.advise_if_silent(stream, epoch, now);
        }
        self.answer((stream, epoch), route_back, result, now, keys);
        self.settle(now, keys);
    }

    pub(super) fn handle_prepare(
        &mut self,
        from: NodeId,
        route: &[NodeId],
        prepare: Prepare,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let (name, route_back) = ((prepare.stream, prepare.epoch), reversed(route));
        let envelope = prepare.envelope.clone();
        let installation = installation(from, prepare);
        let admitted = self.admit(&installation);
        let part = self.parts.get(&name).map(Part::installation);
        let is_here = part == Some(&installation);
        if admitted.is_ok() && is_here {
            self.renew(name, now);
        }
        if admitted.is_err() || is_here {
            return self.answer(name, route_back, admitted, now, keys);
        }
        if let Some(pending) = self.pending.get_mut(&name) {
            // Sent again before the driver is done: one answer serves both. A different part under
            // the same epoch stays unanswered; the source resends it until it can be installed.
            if pending.installation == installation {
                pending.route_back = route_back;
            }
            return;
        }
        match draw_secrets(&installation, envelope.as_deref(), keys) {
            Ok(secrets) => {
                self.outputs.push_back(Output::Install {
                    installation: installation.clone(),
                    secrets,
                });
                self.pending.insert(
                    name,
                    Pending {
                        installation,
                        route_back,
                    },
                );
            }
            Err(reason) => self.answer(name, route_back, Err(reason), now, keys),
        }
    }

    /// Renews parts of the sender's plans, and reports to the sender which it lacks.
    pub(super) fn handle_renew(
        &mut self,
        from: NodeId,
        route: &[NodeId],
        (stream, epochs): (StreamId, &[Epoch]),
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let route_back = reversed(route);
        let mut lacking = Vec::new();
        for &epoch in epochs {
            let name = (stream, epoch);
            let part = self.parts.get(&name).map(Part::installation);
            let Some(part) = part.filter(|part| part.source == from) else {
                // A part that is being installed is answered when it is.
                if !self.pending.contains_key(&name) {
                    lacking.push(epoch);
                }
                continue;
            };
            match self.admit(part) {
                Ok(()) => {
                    self.renew(name, now);
                    self.reclaim_former_plan(name, now);
                    self.handle_kept_up(name, &route_back, now, keys);
                }
                refused => self.answer(name, route_back.clone(), refused, now, keys),
            }
        }
        if !lacking.is_empty() {
            let epochs = lacking;
            self.send_routed(route_back, Body::Lacking { stream, epochs }, keys);
        }
    }

    /// Renews a part's lease, and repeats its report, as the previous node may have restarted.
    fn renew(&mut self, (stream, epoch): (StreamId, Epoch), now: Instant) {
        if let Some(part) = self.parts.get_mut(&(stream, epoch)) {
            part.expiry = now + LEASE + PAST_LEASE;
            self.refresh_account(stream, epoch, now);
        }
    }

    /// Handles the sign that the source keeps up a plan by this route. If the plan ends here, its
    /// sink reports what it has.
    fn handle_kept_up(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        route_back: &[NodeId],
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let part = self.parts.get(&(stream, epoch)).map(Part::installation);
        if let Some(part) = part.filter(|part| part.next.is_none()) {
            self.adopt_asked(part.source, (stream, epoch), now, keys);
            self.mark_served(stream, route_back);
            self.send_receipt(stream, epoch, now);
        }
    }

    fn answer(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        route_back: Vec<NodeId>,
        result: Result<(), String>,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        if result.is_ok() {
            // The receipt goes first, so that the source knows what to resend when it changes plans.
            self.handle_kept_up((stream, epoch), &route_back, now, keys);
        }
        let body = match result {
            Ok(()) => Body::Ready { stream, epoch },
            Err(reason) => Body::Refuse {
                stream,
                epoch,
                reason,
            },
        };
        self.send_routed(route_back, body, keys);
    }

    /// Checks that the source publishes the stream, and that rights, slots and limits allow the part.
    fn admit(&self, asked: &Installation) -> Result<(), String> {
        let publishes = |record: &Record| record.streams.iter().any(|s| s.id == asked.stream);
        if !self.directory.record(asked.source).is_some_and(publishes) {
            let source = asked.source.short();
            return Err(format!("{source} does not announce the stream"));
        }
        let relays = asked.next.is_some() && asked.source != self.id();
        if relays && !self.roll.may(self.id(), Rights::RELAY) {
            return Err(no_right("this node", Rights::RELAY));
        }
        let is_fed_here = asked.previous == self.id() && asked.source != self.id();
        // A base is older than its grafts, so no ADU goes in circles.
        if is_fed_here != asked.base.is_some() || asked.base.is_some_and(|b| b >= asked.epoch) {
            return Err("invalid graft: the plan is grafted on itself or on no plan".to_string());
        }
        let (adapters, slots) = (asked.adapters.len(), self.settings.slots as usize);
        if adapters > slots {
            return Err(format!(
                "{adapters} adapters are requested, but this node has {slots} slots"
            ));
        }
        let key = (asked.stream, asked.epoch);
        if self
            .parts
            .get(&key)
            .is_some_and(|part| part.installation == *asked)
        {
            return Ok(());
        }
        if self.is_leaving() && asked.source != self.id() {
            return Err("this node is about to leave".to_string());
        }
        let of_stream = (asked.stream, Epoch(0))..=(asked.stream, Epoch(u32::MAX));
        let others = self.parts.range(of_stream.clone()).count();
        let coming = self.pending.range(of_stream).filter(|(k, _)| **k != key);
        if others + coming.count() >= EPOCHS_PER_STREAM_MAX {
            return Err(format!(
                "{EPOCHS_PER_STREAM_MAX} plans of the stream are installed already"
            ));
        }
        Ok(())
    }

    /// Removes a part, if the sender is its source.
    pub(super) fn handle_release(&mut self, from: NodeId, stream: StreamId, epoch: Epoch) {
        let name = (stream, epoch);
        let is_own = |installation: &Installation| installation.source == from;
        if self
            .pending
            .get(&name)
            .is_some_and(|pending| is_own(&pending.installation))
        {
            self.pending.remove(&name);
        }
        if self
            .parts
            .get(&name)
            .is_some_and(|part| is_own(&part.installation))
        {
            self.parts.remove(&name);
            self.close_account(stream, epoch);
            self.outputs.push_back(Output::Remove { stream, epoch });
            self.mark_unserved(stream);
        } else if from == self.id() {
            // A plan that was never installed here has left only its path.
            self.close_account(stream, epoch);
        }
    }

    /// Removes the parts with expired leases.
    pub(super) fn expire_parts(&mut self, now: Instant) {
        if now < self.leases_due.at() {
            return;
        }
        let ended = self.parts.extract_if(.., |_, part| part.expiry <= now);
        let ended: Vec<_> = ended.collect();
        self.leases_due
            .look(self.parts.values().map(|part| part.expiry));
        for ((stream, epoch), part) in ended {
            self.close_account(stream, epoch);
            let name = part.installation.name;
            self.outputs.push_back(Output::Remove { stream, epoch });
            self.outputs.push_back(Output::Note(Note::PartExpired {
                stream: name,
                epoch,
            }));
            self.mark_unserved(stream);
        }
    }
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
pub(super) fn needs_key(adapters: &[String]) -> bool {
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
