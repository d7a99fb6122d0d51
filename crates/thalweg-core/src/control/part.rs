//! The parts of plans that run on this node: who may install one, how many, and until when.
//!
//! *The idea.* The table here is the truth; a driver's routes are its mirror. A part that is to be installed is given
//! out as an [`Installation`] with its [`Secrets`], the driver says how that went, and only then is the source
//! answered. Each part has a lease, and is removed when nobody renews it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::num::NonZeroU8;

use super::admission::no_right;
use super::routed::reversed;
use super::{Controller, KeyContent, KeyContext, Keys, KeysError, Note, Output};
use crate::admission::Rights;
use crate::id::{Epoch, NodeId, StreamId, StreamName};
use crate::limits::EPOCHS_PER_STREAM_MAX;
use crate::needs::{Order, Reliability};
use crate::session::LEASE;
use crate::time::{Duration, Instant};
use crate::wire::control::{Body, Prepare};
use crate::wire::record::Record;

/// A lease still holds at its end and has lapsed right after.
const LAPSE: Duration = Duration::from_nanos(1);

/// One node's part of one plan of one stream: all that the data path needs, but secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The stream's name.
    pub name: StreamName,
    /// The stream.
    pub stream: StreamId,
    /// The plan.
    pub epoch: Epoch,
    /// The stream's source, whose plan it is.
    pub source: NodeId,
    /// The node that ADUs come from; this one at the source, and where the plan is grafted.
    pub previous: NodeId,
    /// The node that they go to; `None` at the sink.
    pub next: Option<NodeId>,
    /// The adapters of this node, in order.
    pub adapters: Vec<String>,
    /// What happens to what is lost or late.
    pub reliability: Reliability,
    /// In which order ADUs leave.
    pub order: Order,
    /// How much of a full link it gets beside others.
    pub weight: NonZeroU8,
    /// Whether ADUs may arrive here unsealed.
    pub plaintext: bool,
    /// The plan of which this one has copies of what arrives here, if it is grafted here.
    pub base: Option<Epoch>,
}

/// What the adapters of a part are made of beside their words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secrets {
    /// The stream's key, if an adapter seals or opens.
    pub key: Option<KeyContent>,
    /// Random bits, drawn for this installation alone, that tell its sealers from all others.
    pub instance: u64,
}

/// A part in the table.
#[derive(Debug)]
pub(super) struct Part {
    installation: Installation,
    pub(super) lapse: Instant,
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
    /// The way to the source.
    way: Vec<NodeId>,
}

impl Controller {
    /// Returns the parts that run here, ordered by stream and plan.
    pub fn installations(&self) -> impl Iterator<Item = &Installation> {
        self.parts.values().map(|part| &part.installation)
    }

    /// Takes in how an [`Output::Install`] went; a reason is told to the source.
    pub fn handle_installed(
        &mut self,
        stream: StreamId,
        epoch: Epoch,
        result: Result<(), String>,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let Some(pending) = self.pending.remove(&(stream, epoch)) else {
            // Released before the driver was done: nobody asks for it any more, so nothing may stay.
            if !self.parts.contains_key(&(stream, epoch)) {
                self.outputs.push_back(Output::Remove { stream, epoch });
            }
            return;
        };
        let Pending { installation, way } = pending;
        if result.is_ok() {
            self.note(Note::PartInstalled {
                stream: installation.name.clone(),
                epoch,
                adapters: installation.adapters.clone(),
            });
            let part = Part {
                installation,
                lapse: now + LEASE + LAPSE,
            };
            if part.installation.next.is_some() {
                self.hasten_measured();
            }
            self.lapses.handle(part.lapse);
            self.parts.insert((stream, epoch), part);
            self.open_account(stream, epoch, now);
            self.advise_if_silent(stream, epoch, now);
        }
        self.answer((stream, epoch), way, result, now, keys);
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
        let (name, way) = ((prepare.stream, prepare.epoch), reversed(route));
        let envelope = prepare.envelope.clone();
        let installation = Installation::new(from, prepare);
        let admitted = self.admit(&installation);
        let part = self.parts.get(&name).map(Part::installation);
        let is_here = part == Some(&installation);
        if admitted.is_ok() && is_here {
            self.renew(name, now);
        }
        if admitted.is_err() || is_here {
            return self.answer(name, way, admitted, now, keys);
        }
        if let Some(pending) = self.pending.get_mut(&name) {
            // Sent again before the driver is done: the answer to the first is the answer to both. What differs is
            // left unanswered, and sent again when it can be.
            if pending.installation == installation {
                pending.way = way;
            }
            return;
        }
        match draw_secrets(&installation, envelope.as_deref(), keys) {
            Ok(secrets) => {
                self.outputs.push_back(Output::Install {
                    installation: installation.clone(),
                    secrets,
                });
                self.pending.insert(name, Pending { installation, way });
            }
            Err(reason) => self.answer(name, way, Err(reason), now, keys),
        }
    }

    /// Renews parts of the sender's plans, if they may still be here; says which there are not.
    pub(super) fn handle_renew(
        &mut self,
        from: NodeId,
        route: &[NodeId],
        (stream, epochs): (StreamId, &[Epoch]),
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let way = reversed(route);
        let mut lacking = Vec::new();
        for &epoch in epochs {
            let name = (stream, epoch);
            let part = self.parts.get(&name).map(Part::installation);
            let Some(part) = part.filter(|part| part.source == from) else {
                // One that is being installed is answered when it is.
                if !self.pending.contains_key(&name) {
                    lacking.push(epoch);
                }
                continue;
            };
            match self.admit(part) {
                Ok(()) => {
                    self.renew(name, now);
                    self.go_on_by(name, now);
                    self.served_by(name, &way, now, keys);
                }
                refused => self.answer(name, way.clone(), refused, now, keys),
            }
        }
        if !lacking.is_empty() {
            let epochs = lacking;
            self.send_routed(way, Body::Lacking { stream, epochs }, keys);
        }
    }

    /// A part's lease begins anew, and what is said of it is said again: whoever is told may have forgotten it.
    fn renew(&mut self, (stream, epoch): (StreamId, Epoch), now: Instant) {
        if let Some(part) = self.parts.get_mut(&(stream, epoch)) {
            part.lapse = now + LEASE + LAPSE;
            self.refresh_account(stream, epoch, now);
        }
    }

    /// The source keeps up a plan by this way; if that ends here, it is told what is held.
    fn served_by(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        way: &[NodeId],
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let part = self.parts.get(&(stream, epoch)).map(Part::installation);
        if let Some(part) = part.filter(|part| part.next.is_none()) {
            self.take_up_asked(part.source, (stream, epoch), now, keys);
            self.note_served(stream, way);
            self.tell_held(stream, epoch, now);
        }
    }

    fn answer(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        way: Vec<NodeId>,
        result: Result<(), String>,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        if result.is_ok() {
            // Before the answer, so that the source knows what to send again when it changes plans.
            self.served_by((stream, epoch), &way, now, keys);
        }
        let body = match result {
            Ok(()) => Body::Ready { stream, epoch },
            Err(reason) => Body::Refuse {
                stream,
                epoch,
                reason,
            },
        };
        self.send_routed(way, body, keys);
    }

    /// Only who publishes a stream may install its plans, and only as many adapters as there are slots.
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
        // A base is older than what is grafted on it, so no ADU goes round.
        if is_fed_here != asked.base.is_some() || asked.base.is_some_and(|b| b >= asked.epoch) {
            return Err("a plan is grafted on itself, or on none".to_string());
        }
        let (adapters, slots) = (asked.adapters.len(), self.settings.slots as usize);
        if adapters > slots {
            return Err(format!(
                "{adapters} adapters are asked for, and this node has {slots} slots"
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

    /// Forgets a part, if it is the sender's own.
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
            self.note_unserved(stream);
        } else if from == self.id() {
            // Of a plan that was never installed here there is nothing but its path.
            self.close_account(stream, epoch);
        }
    }

    /// Forgets the parts whose leases have ended.
    pub(super) fn expire_parts(&mut self, now: Instant) {
        if now < self.lapses.at() {
            return;
        }
        let ended = self.parts.extract_if(.., |_, part| part.lapse <= now);
        let ended: Vec<_> = ended.collect();
        self.lapses.look(self.parts.values().map(|part| part.lapse));
        for ((stream, epoch), part) in ended {
            self.close_account(stream, epoch);
            let name = part.installation.name;
            self.outputs.push_back(Output::Remove { stream, epoch });
            self.outputs.push_back(Output::Note(Note::PartExpired {
                stream: name,
                epoch,
            }));
            self.note_unserved(stream);
        }
    }
}

impl Installation {
    fn new(source: NodeId, prepare: Prepare) -> Self {
        Self {
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
}

/// Opens the stream's key if the part needs it, and draws what tells its sealers apart.
fn draw_secrets(
    installation: &Installation,
    envelope: Option<&[u8]>,
    keys: &mut dyn Keys,
) -> Result<Secrets, String> {
    let mut instance = [0; 8];
    let in_words = |error: KeysError| error.to_string();
    keys.random(&mut instance).map_err(in_words)?;
    let key = if needs_key(&installation.adapters) {
        let envelope = envelope.ok_or("the stream's key is missing")?;
        let context = KeyContext {
            source: installation.source,
            stream: installation.stream,
        };
        Some(keys.open_key(envelope, context).map_err(in_words)?)
    } else {
        None
    };
    Ok(Secrets {
        key,
        instance: u64::from_be_bytes(instance),
    })
}

/// Returns whether one of a part's adapters needs the stream's key.
pub(super) fn needs_key(adapters: &[String]) -> bool {
    let keyed = |word: &String| matches!(word.split(':').next(), Some("seal" | "open"));
    adapters.iter().any(keyed)
}
