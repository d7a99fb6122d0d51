//! The data path of a host: arrival, forwarding, and outcomes.
//!
//! The same questions as in `thalweg-node`'s `forward`, put to the same [`Route`]: is the ADU admitted,
//! is its payload needed whole, how is it sent on. A payload that only passes through is forwarded
//! chunk by chunk while it arrives (cut-through). An ordered hop also carries one ADU at a time while
//! it arrives; the next one is held back at the port it comes from. A pass-through payload is not held
//! back for a slow next link: QUIC's stream window bounds what a node buffers of it.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use thalweg_base::adu::{Adu, Flags, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::Instant;
use thalweg_dataplane::lift::Lift;
use thalweg_dataplane::packet::Packet;
use thalweg_dataplane::route::{self, Carriage, Refusal, Route, Way};
use thalweg_link::hop::{self, BodyError, OrderedId, Outcome, SendOptions, StreamCode};

use super::Host;
use super::transit::{Ended, Transit};
use crate::fate::Copy;
use crate::reference::Step;
use crate::trace::{Happening, Kind};
use crate::transport::{RecvId, SendId, Source};
use crate::watch::Watch;

/// An installed part of a plan.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) route: Route,
    pub(super) lift: Option<Lift>,
    /// An ordered ADU was handed to the next link, which has not taken all of it yet.
    busy: bool,
    /// Ordered ADUs waiting for the link.
    pub(super) waiting: VecDeque<(Adu, Step)>,
    /// Receptions held back meanwhile, by neighbour.
    held: Vec<(usize, RecvId)>,
}

/// An ADU that is arriving.
#[derive(Debug)]
pub(super) struct Intake {
    header: Header,
    copy: Option<Copy>,
    action: Action,
    /// Payload bytes received so far.
    bytes: usize,
    /// The step that the reference model expects.
    step: Step,
    /// Its outcome on the next link, if it was forwarded.
    pub(super) ended: Option<(Ended, Mark)>,
    /// It is kept for sinks that join late.
    is_kept: bool,
    /// The plans that were copied here when it began to arrive.
    branches: Vec<Epoch>,
}

#[derive(Debug)]
enum Action {
    /// Its payload is needed whole.
    Gather(BytesMut),
    /// It is forwarded while it arrives, and also gathered if it should be kept.
    Forward {
        to: usize,
        send: SendId,
        bytes: Option<BytesMut>,
    },
}

impl Part {
    pub(super) const fn new(route: Route, lift: Option<Lift>) -> Self {
        Self {
            route,
            lift,
            busy: false,
            waiting: VecDeque::new(),
            held: Vec::new(),
        }
    }

    /// Returns whether an ordered ADU would have to wait.
    pub(super) fn is_busy(&self) -> bool {
        self.busy || !self.waiting.is_empty()
    }

    /// Returns whether the queue of a plan with its own pace has room.
    pub(super) fn has_room(&self, header: &Header, payload_bytes: usize) -> bool {
        route::has_room(self.waiting.len() as u64, header, payload_bytes)
    }

    /// Takes out the receptions that were held back.
    pub(super) fn take_held(&mut self) -> Vec<(usize, RecvId)> {
        std::mem::take(&mut self.held)
    }
}

impl Host {
    /// Handles the start of an arriving ADU.
    pub(super) fn handle_adu(
        &mut self,
        peer: usize,
        recv: RecvId,
        header: Header,
        payload_bytes: usize,
        watch: &mut Watch<'_>,
    ) {
        let now = self.now(watch);
        let copy = watch.fates.find(&header);
        let from = self.neighbours[&peer].id;
        let step = watch.model.step(self.place, Some(from), &header);
        let Some(part) = self.parts.get(&(header.stream, header.epoch)) else {
            // The sender gets this code and counts the ADU.
            let end = (DropCause::Cancelled, StreamCode::UnknownStream);
            return self.refuse(peer, recv, copy, end, step, watch);
        };
        let next = part.route.installation().next;
        if next.is_some() && self.is_withheld() {
            return self.withhold(&header, copy, watch);
        }
        let branches = self.branches(&header);
        let part = &self.parts[&(header.stream, header.epoch)];
        let way = match part.route.admit(from, &header) {
            // A branch may want an ADU that the base filters out here.
            Ok(_) | Err(Refusal::Dropped(DropCause::Filtered)) if !branches.is_empty() => {
                Way::Gather
            }
            Ok(way) => way,
            Err(Refusal::Dropped(cause)) => {
                self.count_refused(&header, cause, now);
                return self.refuse(peer, recv, copy, (cause, code(cause)), step, watch);
            }
            Err(Refusal::Stranger) => {
                let end = (DropCause::Malformed, StreamCode::Protocol);
                return self.refuse(peer, recv, copy, end, step, watch);
            }
        };
        let is_kept = self.may_keep(&header);
        let part = &self.parts[&(header.stream, header.epoch)];
        let to = next.and_then(|next| watch.places.get(&next).copied());
        let is_free = !part.route.is_ordered() || !part.is_busy();
        let passes = way == Way::Through && to.is_some() && is_free && payload_bytes > 0;
        let action = if passes {
            let to = to.expect("it was looked at above");
            let neighbour = self.neighbours.get(&to);
            if !neighbour.is_some_and(|next| next.port.is_up()) {
                let end = (DropCause::PathLost, StreamCode::Cancelled);
                self.count_refused(&header, DropCause::PathLost, now);
                return self.refuse(peer, recv, copy, end, step, watch);
            }
            self.expect_step(step, Step::Onward(self.neighbours[&to].id), copy, watch);
            let send = self.hand_arriving((peer, recv), to, (header, payload_bytes), copy, watch);
            let bytes = is_kept.then(|| BytesMut::with_capacity(payload_bytes));
            Action::Forward { to, send, bytes }
        } else {
            Action::Gather(BytesMut::with_capacity(payload_bytes))
        };
        let intake = Intake {
            header,
            copy,
            action,
            bytes: 0,
            step,
            ended: None,
            is_kept,
            branches,
        };
        let is_gathered = matches!(intake.action, Action::Gather(_));
        self.intakes.insert((peer, recv), intake);
        if is_gathered {
            self.hold_if_busy(peer, recv, &header, payload_bytes);
        }
    }

    /// Hands an ADU that is still arriving to the port of a neighbour.
    fn hand_arriving(
        &mut self,
        via: (usize, RecvId),
        to: usize,
        (header, payload_bytes): (Header, usize),
        copy: Option<Copy>,
        watch: &mut Watch<'_>,
    ) -> SendId {
        if let Some(part) = self.parts.get_mut(&(header.stream, header.epoch)) {
            part.busy = part.route.is_ordered();
        }
        let source = Source::Arriving(payload_bytes);
        let send = self.hand(to, header, source, payload_bytes, copy, watch);
        if let Some(transit) = self.transits.get_mut(&(to, send)) {
            transit.via = Some(via);
        }
        send
    }

    /// Holds an ordered reception back when it cannot be sent on.
    fn hold_if_busy(&mut self, peer: usize, recv: RecvId, header: &Header, payload_bytes: usize) {
        let has_room = self.has_room(header, payload_bytes);
        let part = self.parts.get_mut(&(header.stream, header.epoch));
        if let Some(part) = part.filter(|_| !has_room) {
            part.held.push((peer, recv));
            if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                neighbour.port.hold(recv);
            }
        }
    }

    fn refuse(
        &mut self,
        peer: usize,
        recv: RecvId,
        copy: Option<Copy>,
        (cause, code): (DropCause, StreamCode),
        step: Step,
        watch: &mut Watch<'_>,
    ) {
        let now = self.now(watch);
        if cause != DropCause::PathLost {
            self.expect_step(step, Step::Nowhere, copy, watch);
        }
        watch.dropped(self.place, copy, cause);
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.port.refuse(now, recv, code);
        }
    }

    /// Reports a violation if machine and model disagree about an ADU's next step.
    fn expect_step(&self, model: Step, machine: Step, copy: Option<Copy>, watch: &mut Watch<'_>) {
        if model != machine && copy.is_some() {
            let what = format!("the model expects {model:?}, but the machine takes {machine:?}");
            watch.add_violation(self.place, copy, what);
        }
    }

    /// Handles a chunk of an arriving ADU.
    pub(super) fn handle_chunk(
        &mut self,
        peer: usize,
        recv: RecvId,
        chunk: &Bytes,
        watch: &mut Watch<'_>,
    ) {
        let now = self.now(watch);
        let Some(intake) = self.intakes.get_mut(&(peer, recv)) else {
            return;
        };
        intake.bytes += chunk.len();
        let copy = intake.copy;
        watch.exposed(peer, self.place, copy, chunk);
        match &mut intake.action {
            Action::Gather(bytes) => bytes.extend_from_slice(chunk),
            Action::Forward { to, send, bytes } => {
                let (to, send) = (*to, *send);
                if let Some(bytes) = bytes {
                    bytes.extend_from_slice(chunk);
                }
                watch.exposed(self.place, to, copy, chunk);
                let is_wanted = match self.neighbours.get_mut(&to) {
                    Some(next) => next.port.push_chunk(now, send, chunk.clone()),
                    None => false,
                };
                // Keep reading even if the next link wants no more: only the sender may give the ADU up.
                let _ = is_wanted;
            }
        }
    }

    /// Handles the end of an arriving ADU.
    pub(super) fn handle_whole(&mut self, peer: usize, recv: RecvId, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let Some(intake) = self.intakes.remove(&(peer, recv)) else {
            return;
        };
        let Intake {
            header,
            copy,
            action,
            step,
            ended,
            is_kept,
            mut branches,
            ..
        } = intake;
        self.count_whole(&header, ended, now);
        if let Some(copy) = copy {
            let happening = Happening::at(Kind::Arrived, self.place)
                .with(peer)
                .of(copy.stream);
            watch.note(happening.numbers(header.sequence.0, u64::from(header.epoch.0)));
            if let Err(what) = watch
                .fates
                .handle_whole(copy, peer, self.place, &header, watch.now)
            {
                watch.add_violation(self.place, Some(copy), what);
            }
        }
        let (bytes, has_passed) = match action {
            Action::Gather(bytes) => (bytes, false),
            Action::Forward { bytes, .. } => (bytes.unwrap_or_default(), true),
        };
        let adu = Adu {
            header,
            payload: bytes.freeze(),
        };
        let plan = (header.stream, header.epoch);
        if is_kept {
            self.replay.handle_whole(plan, &adu, now);
        }
        // Add branches that began since: each ADU is either in the kept group when copying begins, or
        // copied here.
        branches.extend(self.branches(&header));
        branches.sort_unstable();
        branches.dedup();
        if !has_passed {
            self.process_all(adu, copy, step, &branches, watch);
        } else if is_kept {
            for epoch in branches {
                self.process_copy(&adu, epoch, watch);
            }
        }
    }

    /// Handles an ADU of which the rest does not arrive.
    pub(super) fn handle_failed(
        &mut self,
        peer: usize,
        recv: RecvId,
        cause: BodyError,
        watch: &mut Watch<'_>,
    ) {
        let now = self.now(watch);
        let Some(intake) = self.intakes.remove(&(peer, recv)) else {
            return;
        };
        if let Some(copy) = intake.copy {
            watch
                .fates
                .handle_failed(copy, peer, self.place, cause.drop_cause());
        }
        if let Action::Forward { to, send, .. } = intake.action {
            match (intake.ended, self.transits.get_mut(&(to, send))) {
                (Some(end), _) => {
                    let header = &intake.header;
                    self.count_void(header.mark(), header, end, now);
                }
                (None, Some(transit)) => transit.is_void = true,
                (None, None) => {}
            }
            let code = if cause.drop_cause() == DropCause::Expired {
                StreamCode::Expired
            } else {
                StreamCode::Cancelled
            };
            if let Some(next) = self.neighbours.get_mut(&to) {
                next.port.cancel(now, send, code);
            }
        }
    }

    /// Passes a whole ADU through its part: through the lift if there is one, then onward.
    pub(super) fn process(
        &mut self,
        adu: Adu,
        copy: Option<Copy>,
        step: Step,
        watch: &mut Watch<'_>,
    ) {
        let now = self.now(watch);
        let Some(part) = self.parts.get_mut(&(adu.header.stream, adu.header.epoch)) else {
            return watch.dropped(self.place, copy, DropCause::PathLost);
        };
        let Some(lift) = &mut part.lift else {
            return match part.route.way(&adu.header) {
                Ok(_) => self.onward(adu, step, watch),
                Err(cause) => {
                    self.expect_step(step, Step::Nowhere, copy, watch);
                    self.count(&adu.header, now, |counts, band| counts.give_up(band, cause));
                    watch.dropped(self.place, copy, cause);
                }
            };
        };
        let header = adu.header;
        let carried = route::carry(lift, Packet::from(adu), now);
        for (cause, _) in carried.dropped.iter() {
            if cause != DropCause::Filtered || step != Step::Nowhere {
                watch.add_violation(self.place, copy, format!("an adapter dropped it: {cause}"));
            }
            self.count(&header, now, |counts, band| counts.give_up(band, cause));
            watch.dropped(self.place, copy, cause);
        }
        for packet in carried.packets {
            self.onward(packet.into_adu(), step, watch);
        }
    }

    /// Sends an ADU that has passed its part to the next node or to the subscribers here.
    fn onward(&mut self, adu: Adu, step: Step, watch: &mut Watch<'_>) {
        let copy = watch.fates.find(&adu.header);
        let Some(part) = self.parts.get_mut(&(adu.header.stream, adu.header.epoch)) else {
            return watch.dropped(self.place, copy, DropCause::PathLost);
        };
        let Some(next) = part.route.installation().next else {
            self.expect_step(step, Step::Here, copy, watch);
            return self.deliver(adu, copy, watch);
        };
        if part.route.is_ordered() && part.is_busy() {
            if part.route.is_repaired() && !part.has_room(&adu.header, adu.payload.len()) {
                let now = self.now(watch);
                let full = DropCause::Overflow;
                self.count(&adu.header, now, |counts, band| counts.give_up(band, full));
                return watch.dropped(self.place, copy, full);
            }
            return part.waiting.push_back((adu, step));
        }
        let is_ordered = part.route.is_ordered();
        self.expect_step(step, Step::Onward(next), copy, watch);
        let to = watch.places.get(&next).copied();
        let to = to.filter(|to| {
            self.neighbours
                .get(to)
                .is_some_and(|next| next.port.is_up())
        });
        let Some(to) = to else {
            let now = self.now(watch);
            let lost = DropCause::PathLost;
            self.count(&adu.header, now, |counts, band| counts.give_up(band, lost));
            return watch.dropped(self.place, copy, lost);
        };
        watch.exposed(self.place, to, copy, &adu.payload);
        let bytes = adu.payload.len();
        if is_ordered {
            self.parts
                .get_mut(&(adu.header.stream, adu.header.epoch))
                .expect("it was found above")
                .busy = true;
        }
        self.hand(
            to,
            adu.header,
            Source::Whole(adu.payload),
            bytes,
            copy,
            watch,
        );
    }

    /// Hands an ADU to the port of a neighbour, which must be up.
    fn hand(
        &mut self,
        to: usize,
        mut header: Header,
        source: Source,
        payload_bytes: usize,
        copy: Option<Copy>,
        watch: &mut Watch<'_>,
    ) -> SendId {
        let now = self.now(watch);
        let (stream, epoch) = (header.stream, header.epoch);
        let route = &self.parts[&(stream, epoch)].route;
        let carriage = match route.carriage(&header, payload_bytes) {
            Carriage::Ordered => hop::Carriage::Ordered(OrderedId { stream, epoch }),
            Carriage::Datagram => hop::Carriage::Datagram,
            Carriage::Stream => hop::Carriage::Stream,
        };
        let options = SendOptions {
            order: route.order(),
            weight: route.weight(),
            ..SendOptions::new(carriage)
        };
        let incoming_mark = header.mark();
        let is_acknowledged = carriage != hop::Carriage::Datagram;
        header.set_mark(self.outgoing_mark(&header, is_acknowledged));
        watch.handed([self.place, to], &header, payload_bytes, carriage);
        self.count_in_flight(stream, 1);
        let mark = header.mark();
        self.count(&header, now, |counts, band| counts.send(mark, band));
        let neighbour = self
            .neighbours
            .get_mut(&to)
            .expect("the caller checks that it is up");
        let send = neighbour.port.send_adu(now, header, source, options);
        neighbour.pulse.handle_sent(now);
        self.wake_gauges(now);
        let transit = Transit {
            copy,
            header,
            incoming_mark,
            is_ordered: matches!(carriage, hop::Carriage::Ordered(_)),
            via: None,
            is_void: false,
        };
        self.transits.insert((to, send), transit);
        send
    }

    /// Handles a link's outcome for an ADU.
    pub(super) fn handle_outcome(
        &mut self,
        peer: usize,
        send: SendId,
        outcome: Outcome,
        watch: &mut Watch<'_>,
    ) {
        let Some(transit) = self.transits.remove(&(peer, send)) else {
            return watch.add_violation(
                self.place,
                None,
                "a link reported the outcome of an ADU twice",
            );
        };
        watch.outcome(self.place, peer, transit.copy, outcome);
        let (now, stream) = (self.now(watch), transit.header.stream);
        self.count_ended(&transit, Ended::of(outcome), now);
        self.count_in_flight(stream, -1);
        if transit.is_ordered {
            self.send_next(stream, transit.header.epoch, watch);
        }
    }

    /// Sends the next ordered ADU once the link has taken the last, and releases what was held back.
    fn send_next(&mut self, stream: StreamId, epoch: Epoch, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let Some(part) = self.parts.get_mut(&(stream, epoch)) else {
            return;
        };
        part.busy = false;
        if let Some((adu, step)) = part.waiting.pop_front() {
            // Take the rest out, so that the ADU sees an idle part and does not queue behind them.
            let rest = std::mem::take(&mut part.waiting);
            self.onward(adu, step, watch);
            if let Some(part) = self.parts.get_mut(&(stream, epoch)) {
                part.waiting = rest;
                if !part.busy && !part.waiting.is_empty() {
                    return self.send_next(stream, epoch, watch);
                }
                if part.route.is_repaired() {
                    self.release_held(stream, epoch, now);
                }
            }
            return;
        }
        self.release_held(stream, epoch, now);
    }

    /// Removes a part and accounts for the ADUs that waited in it.
    pub(super) fn discard_part(&mut self, stream: StreamId, epoch: Epoch, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let Some(part) = self.parts.remove(&(stream, epoch)) else {
            return;
        };
        for (adu, _) in part.waiting {
            let copy = watch.fates.find(&adu.header);
            watch.dropped(self.place, copy, DropCause::PathLost);
        }
        self.resume(part.held, now);
    }

    /// Resumes receptions that were held back.
    pub(super) fn resume(&mut self, held: Vec<(usize, RecvId)>, now: Instant) {
        for (peer, recv) in held {
            if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                neighbour.port.resume(now, recv);
            }
        }
    }

    /// Delivers an ADU to the subscriber here.
    fn deliver(&mut self, adu: Adu, copy: Option<Copy>, watch: &mut Watch<'_>) {
        if adu.header.flags.contains(Flags::END)
            && let Some(stream) = watch.fates.stream_of(adu.header.stream)
        {
            let happening = Happening::at(Kind::End, self.place).of(stream);
            watch.note(happening.numbers(adu.header.sequence.0, 0));
        }
        self.post(adu, copy, watch);
    }
}

/// Returns the stream code for the sender of an ADU that is dropped here, as the node does.
fn code(cause: DropCause) -> StreamCode {
    match cause {
        DropCause::Filtered => StreamCode::Whole,
        _ => StreamCode::Protocol,
    }
}
