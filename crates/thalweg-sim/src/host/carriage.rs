//! A host's data path: the product's machine, joined with ports and subscribers.
//!
//! [`Relay`] decides what happens to an ADU; this file carries its actions out, in their order, and
//! compares each with the reference model.
//!
//! A host may also withhold: drop all or part of what it should send on, silently. It answers its
//! neighbours and takes what they send. A host that withholds everything, including other nodes'
//! control frames, reports nothing of it; one that withholds a share of the ADUs reports those as
//! received and sends on the rest.

use std::collections::BTreeMap;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::feed::Feed;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::needs::Reliability;
use thalweg_base::random::SplitMix;
use thalweg_base::time::Instant;
use thalweg_base::units::Ratio;
use thalweg_control::control::{Installation, Secrets};
use thalweg_dataplane::lift::SpecError;
use thalweg_dataplane::packet::{POOL_BYTES_DEFAULT, Pool};
use thalweg_dataplane::relay::lag::Lag;
use thalweg_dataplane::relay::{Action, Begun, Dispatch, Place, Refusal, Relay, SendNumber};
use thalweg_dataplane::route::{Carriage as Carried, Route};
use thalweg_link::hop::{self, BodyError, OrderedId, Outcome, SendOptions, StreamCode};

use super::mind::Mind;
use super::ports::Ports;
use super::subscriber::Subscribers;
use crate::fate::Copy;
use crate::reference::Step;
use crate::trace::{Happening, Kind};
use crate::transport::{RecvId, SendId, Source};
use crate::watch::Watch;

/// A reception: the neighbour's index, and the port's name of it.
pub(super) type Reception = (usize, RecvId);

/// A host's data path.
#[derive(Debug)]
pub(super) struct Carriage {
    place: usize,
    relay: Relay<Reception>,
    /// Measured only where the host's copies take time.
    lag: Lag,
    /// Copies that were handed to links and not yet counted as the processor's work.
    copies: u64,
    /// ADUs that arrive, as the observer knows them.
    arriving: BTreeMap<Reception, Option<Copy>>,
    /// ADUs that ports have, by the machine's number and by the port's.
    sends: BTreeMap<SendNumber, (usize, SendId)>,
    numbers: BTreeMap<(usize, SendId), (SendNumber, Option<Copy>)>,
    pool: Pool,
    /// The share of what it should send on that it drops silently.
    withheld: Ratio,
}

/// What the machine's actions concern, at one moment.
pub(super) struct Scene<'s, 'w> {
    pub(super) now: Instant,
    pub(super) ports: &'s mut Ports,
    pub(super) subscribers: &'s mut Subscribers,
    pub(super) watch: &'s mut Watch<'w>,
}

impl Carriage {
    pub(super) fn new(place: usize) -> Self {
        Self {
            place,
            relay: Relay::default(),
            lag: Lag::default(),
            copies: 0,
            arriving: BTreeMap::new(),
            sends: BTreeMap::new(),
            numbers: BTreeMap::new(),
            pool: Pool::new(POOL_BYTES_DEFAULT),
            withheld: Ratio::ZERO,
        }
    }

    /// Returns the machine, to look at.
    pub(super) const fn relay(&self) -> &Relay<Reception> {
        &self.relay
    }

    /// Returns the machine, for inputs after which no action is due.
    pub(super) const fn relay_mut(&mut self) -> &mut Relay<Reception> {
        &mut self.relay
    }

    /// Handles that all copies of a round are made.
    pub(super) fn handle_round(&mut self, now: Instant) {
        self.lag.handle_end(now);
    }

    /// Returns how many copies were handed to links since the last call.
    pub(super) const fn take_copies(&mut self) -> u64 {
        std::mem::replace(&mut self.copies, 0)
    }

    /// Withholds this share of what it should send on from now on.
    pub(super) const fn withhold(&mut self, share: Ratio) {
        self.withheld = share;
    }

    pub(super) fn withholds(&self) -> bool {
        self.withheld > Ratio::ZERO
    }

    pub(super) fn withholds_all(&self) -> bool {
        self.withheld == Ratio::ONE
    }

    /// Draws whether an ADU that should be sent on is withheld.
    fn is_withheld(&self, rng: &mut SplitMix) -> bool {
        // Draw only where chance decides, so that other runs keep their random sequence.
        self.withholds_all() || self.withholds() && rng.next_bool(self.withheld)
    }

    /// Builds and installs a part of a plan.
    pub(super) fn install(
        &mut self,
        part: Installation,
        secrets: Secrets,
        scene: &mut Scene<'_, '_>,
    ) -> Result<(), SpecError> {
        let (route, lift) = Route::build(part, secrets, self.pool.clone())?;
        self.relay.handle_installed(route, lift);
        self.carry_out(scene);
        Ok(())
    }

    pub(super) fn remove(&mut self, plan: (StreamId, Epoch), scene: &mut Scene<'_, '_>) {
        self.note_cast(plan, scene, |relay| relay.handle_removed(plan));
    }

    /// Starts, bounds or stops the copies to a plan.
    pub(super) fn cast(&mut self, plan: (StreamId, Epoch), feed: Feed, scene: &mut Scene<'_, '_>) {
        let now = scene.now;
        self.note_cast(plan, scene, |relay| relay.handle_cast(plan, feed, now));
    }

    /// Changes the copies to a plan, and tells the observer before they begin and when they end.
    fn note_cast(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        scene: &mut Scene<'_, '_>,
        change: impl FnOnce(&mut Relay<Reception>),
    ) {
        self.see_links(scene.ports);
        let was_cast = self.relay.is_cast((stream, epoch));
        change(&mut self.relay);
        if self.relay.is_cast((stream, epoch)) {
            scene.watch.fates.handle_cast(stream, epoch);
        } else if was_cast {
            let now = scene.watch.now;
            scene.watch.fates.handle_ceased(stream, epoch, now);
        }
        self.carry_out(scene);
    }

    /// Handles the start of an arriving ADU.
    pub(super) fn handle_adu(
        &mut self,
        (peer, recv): Reception,
        header: Header,
        payload_bytes: usize,
        rng: &mut SplitMix,
        scene: &mut Scene<'_, '_>,
    ) {
        let copy = scene.watch.fates.find(&header);
        let Some(from) = scene.ports.id(peer) else {
            return;
        };
        let part = self.relay.part((header.stream, header.epoch));
        let goes_on = part.is_some_and(|part| part.next().is_some());
        if goes_on && self.is_withheld(rng) {
            if !self.withholds_all() {
                self.relay.count_arrived(&header, scene.now);
            }
            return scene.watch.dropped(self.place, copy, DropCause::PathLost);
        }
        self.see_links(scene.ports);
        let adu = Begun {
            header,
            payload_bytes,
            is_whole: false,
        };
        self.relay
            .handle_adu(from, (peer, recv), adu, &mut self.lag, scene.now);
        if self.relay.reception((peer, recv)).is_some() {
            self.arriving.insert((peer, recv), copy);
        }
        self.carry_out(scene);
    }

    /// Handles a chunk of an arriving ADU.
    pub(super) fn handle_chunk(
        &mut self,
        (peer, recv): Reception,
        chunk: &Bytes,
        scene: &mut Scene<'_, '_>,
    ) {
        let Some(copy) = self.arriving.get(&(peer, recv)) else {
            return;
        };
        scene.watch.exposed(peer, self.place, *copy, chunk);
        self.relay.handle_chunk((peer, recv), chunk);
        self.carry_out(scene);
    }

    /// Handles the end of an arriving ADU.
    pub(super) fn handle_whole(&mut self, (peer, recv): Reception, scene: &mut Scene<'_, '_>) {
        let (Some(header), Some(copy)) = (
            self.relay.reception((peer, recv)).copied(),
            self.arriving.remove(&(peer, recv)),
        ) else {
            return;
        };
        if let Some(copy) = copy {
            let happening = Happening::at(Kind::Arrived, self.place)
                .with(peer)
                .of(copy.stream);
            let watch = &mut *scene.watch;
            watch.note(happening.numbers(header.sequence.0, u64::from(header.epoch.0)));
            let fates = &mut watch.fates;
            if let Err(what) = fates.handle_whole(copy, peer, self.place, &header, watch.now) {
                watch.add_violation(self.place, Some(copy), what);
            }
        }
        self.see_links(scene.ports);
        self.relay.handle_whole((peer, recv), scene.now);
        self.carry_out(scene);
    }

    /// Handles an ADU of which the rest does not arrive.
    pub(super) fn handle_failed(
        &mut self,
        (peer, recv): Reception,
        cause: BodyError,
        scene: &mut Scene<'_, '_>,
    ) {
        let cause = cause.drop_cause();
        if let Some(copy) = self.arriving.remove(&(peer, recv)).flatten() {
            let fates = &mut scene.watch.fates;
            fates.handle_failed(copy, peer, self.place, cause);
        }
        self.relay.handle_failed((peer, recv), cause, scene.now);
        self.carry_out(scene);
    }

    /// Handles a link's outcome for an ADU.
    pub(super) fn handle_outcome(
        &mut self,
        (peer, send): (usize, SendId),
        outcome: Outcome,
        scene: &mut Scene<'_, '_>,
    ) {
        let Some((number, copy)) = self.numbers.remove(&(peer, send)) else {
            let what = "a link reported the outcome of an ADU twice";
            return scene.watch.add_violation(self.place, None, what);
        };
        self.sends.remove(&number);
        scene.watch.outcome(self.place, peer, copy, outcome);
        self.see_links(scene.ports);
        let ended = outcome.accounted_cause().map_or(Ok(()), Err);
        self.relay.handle_outcome(number, ended, scene.now);
        self.carry_out(scene);
    }

    /// Sends an ADU of a producer here under the plan in its header.
    pub(super) fn give(&mut self, adu: Adu, scene: &mut Scene<'_, '_>) {
        self.see_links(scene.ports);
        self.relay.give(adu, scene.now);
        self.carry_out(scene);
    }

    /// Drops what waits here under a plan.
    pub(super) fn recall(&mut self, plan: (StreamId, Epoch), scene: &mut Scene<'_, '_>) {
        scene.watch.fates.handle_recalled(plan.0, plan.1);
        self.relay.recall(plan, scene.now);
        self.carry_out(scene);
    }

    /// Reports what has come of a stream to the control plane.
    pub(super) fn report_arrivals(
        &mut self,
        stream: StreamId,
        subscribers: &Subscribers,
        mind: &mut Mind,
        now: Instant,
    ) {
        let is_blocked = subscribers.is_pressed(stream);
        if let Some((held, news)) = self.relay.arrivals_mut().take_news(stream, is_blocked) {
            mind.handle_held(stream, held, news, now);
        }
    }

    /// Reports what has come and the counts to the control plane.
    pub(super) fn report(&mut self, subscribers: &Subscribers, mind: &mut Mind, now: Instant) {
        for stream in self.relay.arrivals().streams() {
            self.report_arrivals(stream, subscribers, mind, now);
        }
        for (plan, counts) in self.relay.accounts_mut().take_changed() {
            mind.handle_counts(plan, counts, now);
        }
    }

    /// Tells the machine which links are up.
    fn see_links(&mut self, ports: &Ports) {
        for (peer, is_up) in ports.links() {
            self.relay.handle_link(peer, is_up);
        }
    }

    fn carry_out(&mut self, scene: &mut Scene<'_, '_>) {
        let now = scene.now;
        while let Some(action) = self.relay.poll_action() {
            match action {
                // The machine collects what this host reports by chunks.
                Action::Gather(_) => {}
                Action::Pass((peer, recv), dispatch) => {
                    self.pass((peer, recv), &dispatch, scene);
                }
                Action::Send(dispatch, payload) => {
                    let copy = scene.watch.fates.find(&dispatch.header);
                    self.expect(Step::Onward(dispatch.to), &dispatch.header, copy, scene);
                    if let Some(to) = scene.watch.places.get(&dispatch.to) {
                        scene.watch.exposed(self.place, *to, copy, &payload);
                    }
                    self.hand(&dispatch, Source::Whole(payload), copy, scene);
                }
                Action::Chunk(number, chunk) => self.push_chunk(number, chunk, scene),
                Action::Hold((peer, recv)) => scene.ports.hold(peer, recv),
                Action::Resume((peer, recv)) => scene.ports.resume(peer, recv, now),
                Action::Refuse(reception, header, refusal) => {
                    self.refuse(reception, &header, refusal, scene);
                }
                Action::Cancel(number, cause) => {
                    let code = match cause {
                        DropCause::Expired => StreamCode::Expired,
                        _ => StreamCode::Cancelled,
                    };
                    if let Some((peer, send)) = self.sends.get(&number) {
                        scene.ports.cancel(*peer, *send, code, now);
                    }
                }
                Action::Deliver(adu, reliability) => self.deliver(adu, reliability, scene),
                Action::Drop(header, cause, at) => self.note_drop(&header, cause, at, scene),
                Action::Replay(header) => scene.watch.fates.handle_replayed(&header),
            }
        }
    }

    /// Sends an ADU on while it arrives.
    fn pass(&mut self, from: Reception, dispatch: &Dispatch, scene: &mut Scene<'_, '_>) {
        let copy = self.arriving.get(&from).copied().flatten();
        self.expect(Step::Onward(dispatch.to), &dispatch.header, copy, scene);
        let source = Source::Arriving(dispatch.payload_bytes);
        self.hand(dispatch, source, copy, scene);
    }

    /// Hands an ADU to the port of a neighbour with a link.
    fn hand(
        &mut self,
        dispatch: &Dispatch,
        source: Source,
        copy: Option<Copy>,
        scene: &mut Scene<'_, '_>,
    ) {
        let Dispatch {
            number,
            header,
            payload_bytes,
            ..
        } = *dispatch;
        let carriage = match dispatch.carriage {
            Carried::Ordered => hop::Carriage::Ordered(OrderedId {
                stream: header.stream,
                epoch: header.epoch,
            }),
            Carried::Datagram => hop::Carriage::Datagram,
            Carried::Stream => hop::Carriage::Stream,
        };
        let options = SendOptions {
            order: dispatch.order,
            weight: dispatch.weight,
            ..SendOptions::new(carriage)
        };
        let Some(to) = scene.watch.places.get(&dispatch.to).copied() else {
            return;
        };
        scene
            .watch
            .handed([self.place, to], &header, payload_bytes, carriage);
        let send = scene.ports.send_adu(to, header, source, options, scene.now);
        self.copies += 1;
        if let Some(send) = send {
            self.sends.insert(number, (to, send));
            self.numbers.insert((to, send), (number, copy));
        }
    }

    fn push_chunk(&mut self, number: SendNumber, chunk: Bytes, scene: &mut Scene<'_, '_>) {
        let Some((to, send)) = self.sends.get(&number).copied() else {
            return;
        };
        let copy = self.numbers.get(&(to, send)).and_then(|(_, copy)| *copy);
        scene.watch.exposed(self.place, to, copy, &chunk);
        scene.ports.push_chunk(to, send, chunk, scene.now);
    }

    fn refuse(
        &mut self,
        (peer, recv): Reception,
        header: &Header,
        refusal: Refusal,
        scene: &mut Scene<'_, '_>,
    ) {
        let (cause, code) = match refusal {
            // The sender gets this code and counts the ADU.
            Refusal::Unknown => (DropCause::Cancelled, StreamCode::UnknownStream),
            Refusal::Stranger => (DropCause::Malformed, StreamCode::Protocol),
            Refusal::Dropped(cause) => (cause, StreamCode::of_drop(cause)),
        };
        let copy = scene.watch.fates.find(header);
        // The model knows neither links nor how long forwarding takes.
        if !matches!(cause, DropCause::PathLost | DropCause::Expired) {
            let from = scene.ports.id(peer);
            let step = scene.watch.model.step(self.place, from, header);
            self.compare(step, Step::Nowhere, copy, scene);
        }
        // Only for how long forwarding takes does a relay refuse an ADU as expired.
        scene.watch.lagging += u64::from(cause == DropCause::Expired);
        scene.watch.dropped(self.place, copy, cause);
        scene.ports.refuse(peer, recv, code, scene.now);
    }

    /// Delivers an ADU to the subscriber here.
    fn deliver(&mut self, adu: Adu, reliability: Reliability, scene: &mut Scene<'_, '_>) {
        let header = adu.header;
        let copy = scene.watch.fates.find(&header);
        self.expect(Step::Here, &header, copy, scene);
        self.note_end(&header, scene);
        let (now, watch) = (scene.now, &mut *scene.watch);
        let ended = scene.subscribers.post(adu, reliability, copy, now, watch);
        self.relay.handle_delivered(&header, ended, now);
    }

    /// Tells the observer that the machine dropped an ADU.
    fn note_drop(&self, header: &Header, cause: DropCause, at: Place, scene: &mut Scene<'_, '_>) {
        let copy = scene.watch.fates.find(header);
        match at {
            Place::Part if cause == DropCause::Filtered => {
                self.expect(Step::Nowhere, header, copy, scene);
            }
            Place::Part => {
                let what = format!("an adapter dropped it: {cause}");
                scene.watch.add_violation(self.place, copy, what);
            }
            Place::Way => {}
            Place::Sink => {
                self.expect(Step::Here, header, copy, scene);
                self.note_end(header, scene);
            }
        }
        scene.watch.dropped(self.place, copy, cause);
    }

    fn note_end(&self, header: &Header, scene: &mut Scene<'_, '_>) {
        let stream = scene.watch.fates.stream_of(header.stream);
        if let Some(stream) = stream.filter(|_| header.flags.contains(Flags::END)) {
            let happening = Happening::at(Kind::End, self.place).of(stream);
            scene.watch.note(happening.numbers(header.sequence.0, 0));
        }
    }

    /// Reports a violation if the model expects another step for an ADU that was admitted.
    fn expect(
        &self,
        machine: Step,
        header: &Header,
        copy: Option<Copy>,
        scene: &mut Scene<'_, '_>,
    ) {
        let model = scene.watch.model.step(self.place, None, header);
        self.compare(model, machine, copy, scene);
    }

    fn compare(&self, model: Step, machine: Step, copy: Option<Copy>, scene: &mut Scene<'_, '_>) {
        if model != machine && copy.is_some() {
            let what = format!("the model expects {model:?}, but the machine takes {machine:?}");
            scene.watch.add_violation(self.place, copy, what);
        }
    }
}
