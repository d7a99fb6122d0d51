//! One running producer and its publisher.

use std::collections::BTreeSet;

use thalweg_base::adu::{Adu, Header};
use thalweg_base::event::DropCause;
use thalweg_base::feed::Sinkward;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::seen::Held;
use thalweg_base::time::{Duration, Instant};
use thalweg_dataplane::relay;
use thalweg_dataplane::route::{self, window};
use thalweg_dataplane::source::{Dropped, FINISH_MAX, Lacking, Plan, Served, Source};
use thalweg_link::hop::OrderedId;

use crate::clock::Clock;
use crate::fate::{Copy, Sent};
use crate::host::carriage::{Carriage, Scene};
use crate::host::mind::Mind;
use crate::traffic::{self, Due, Producer};
use crate::watch::Watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Sending,
    /// In-flight ADUs may end until this local time.
    Settling(Instant),
    /// The end was sent at this local time; the drain time for receipts follows.
    Ending(Instant, Duration),
    Flushing,
    Over,
}

/// A running producer.
#[derive(Debug)]
pub(super) struct Publisher {
    /// The host's index.
    place: usize,
    /// The stream's index in the world.
    at: usize,
    stream: StreamId,
    dues: Producer,
    /// The next ADU.
    next: Option<Due>,
    /// Number of ADUs given so far.
    given: u64,
    /// How many may be in flight before the next is given.
    room: u64,
    /// Payload bytes of the last ADU.
    payload_bytes: usize,
    /// The next ADU must wait for an outcome.
    is_waiting: bool,
    stage: Stage,
    /// Its program was killed: the stream's end says so.
    is_killed: bool,
    source: Source,
    /// Ordered sequences with an unacknowledged end.
    flushing: BTreeSet<(usize, OrderedId)>,
}

/// An order to send again what went by broken plans.
#[derive(Debug)]
pub(in crate::host) struct Resend {
    pub(in crate::host) stream: StreamId,
    pub(in crate::host) sink: NodeId,
    /// The broken plans.
    pub(in crate::host) from: Vec<Epoch>,
    /// The sink's plan in force.
    pub(in crate::host) to: Epoch,
    /// The plan to send under: `to`, or the plan on which it is grafted.
    pub(in crate::host) under: Epoch,
}

impl Publisher {
    /// Returns a producer of a stream of the world, by their indices.
    pub(super) fn new((place, at): (usize, usize), stream: StreamId, watch: &Watch<'_>) -> Self {
        let of_world = &watch.world.streams[at];
        let mut dues = Producer::new(of_world, watch.world.length(), at as u64);
        // A restarted producer begins with a whole frame.
        let next = dues.find(|due| due.layer == 0 && Instant::ZERO + due.at >= watch.now);
        Self {
            place,
            at,
            stream,
            dues,
            next,
            given: 0,
            room: u64::MAX,
            payload_bytes: 0,
            is_waiting: false,
            stage: Stage::Sending,
            is_killed: false,
            source: Source::new(&of_world.needs),
            flushing: BTreeSet::new(),
        }
    }

    pub(super) const fn stream(&self) -> StreamId {
        self.stream
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Returns whether it keeps ADUs that its sinks may still want.
    pub(super) fn is_keeping(&self, now: Instant) -> bool {
        !self.is_over() && self.source.poll_settled() > now
    }

    /// Makes it end its stream; returns whether it was sending.
    pub(super) fn finish(&mut self, now: Instant) -> bool {
        let is_sending = self.stage == Stage::Sending;
        if is_sending {
            self.stage = Stage::Settling(now + FINISH_MAX);
        }
        is_sending
    }

    /// Kills its program, if it was sending; returns the stream's index in the world and its id.
    pub(super) fn kill(&mut self, now: Instant) -> Option<(usize, StreamId)> {
        self.finish(now).then(|| {
            self.is_killed = true;
            (self.at, self.stream)
        })
    }

    /// Handles the plans to send under from now on; returns the first sequence that they carry.
    pub(super) fn handle_plans(&mut self, plans: Vec<Plan>) -> Sequence {
        self.source.handle_plans(plans);
        self.next_sequence()
    }

    /// Handles the sinks of a held stream and the plans in force for them.
    pub(super) fn handle_sinks(
        &mut self,
        sinks: &[Sinkward],
        carriage: &mut Carriage,
        scene: &mut Scene<'_, '_>,
    ) {
        self.source.handle_sinks(sinks, scene.now);
        self.drop_held(carriage, scene);
    }

    /// Handles a sink's receipt for its plans.
    pub(super) fn acknowledge(
        &mut self,
        of: (NodeId, &[Epoch]),
        in_order: Option<Epoch>,
        held: &Held,
        carriage: &mut Carriage,
        now: Instant,
    ) -> Lacking {
        let (relay, stream) = (carriage.relay_mut(), self.stream);
        let had = |epoch, band| relay.count_receipt((stream, epoch), band, now);
        self.source.handle_receipt(of, in_order, held, now, had)
    }

    /// Sends again what went by broken plans, and drops what of it still waits here.
    pub(super) fn resend(
        &mut self,
        order: &Resend,
        carriage: &mut Carriage,
        scene: &mut Scene<'_, '_>,
    ) {
        let Resend { stream, sink, .. } = *order;
        let is_there = |epoch| carriage.relay().part((stream, epoch)).is_some();
        self.source.forget_over(is_there);
        self.source.handle_broken(sink, &order.from);
        let adus = self.source.resend(&order.from, scene.now);
        scene.watch.fates.handle_resent(stream);
        for epoch in &order.from {
            // Plans that still feed others go on.
            if !self.publishes_under(*epoch) {
                carriage.recall((stream, *epoch), scene);
            }
        }
        let serves = [self.source.served(order.to)];
        for mut adu in adus {
            self.count_again(sink, &adu.header, carriage, scene.now);
            adu.header.epoch = order.under;
            self.send_under(adu, &serves, carriage, scene);
        }
    }

    /// Replays the kept ADUs to a plan with a sink that begins with them.
    pub(super) fn replay(&mut self, to: Epoch, carriage: &mut Carriage, scene: &mut Scene<'_, '_>) {
        let serves = [self.source.served(to)];
        for mut adu in carriage.relay().kept_given(self.stream, scene.now) {
            adu.header.epoch = to;
            scene.watch.fates.handle_replayed(&adu.header);
            self.send_under(adu, &serves, carriage, scene);
        }
    }

    /// Forgets these ordered sequences with an unacknowledged end.
    pub(super) fn forget_flushes(&mut self, is_gone: impl Fn(&(usize, OrderedId)) -> bool) {
        self.flushing.retain(|flush| !is_gone(flush));
    }

    /// Returns the next sequence number; the end of the stream has one too.
    const fn next_sequence(&self) -> Sequence {
        match self.stage {
            Stage::Sending | Stage::Settling(_) => Sequence(self.given),
            Stage::Ending(..) | Stage::Flushing | Stage::Over => Sequence(self.given + 1),
        }
    }

    /// Returns whether it gives ADUs under a plan.
    fn publishes_under(&self, epoch: Epoch) -> bool {
        self.source.plans().iter().any(|plan| plan.epoch == epoch)
    }

    /// Returns whether an ordered hop of the stream has not taken the previous ADU.
    fn is_behind(&self, carriage: &Carriage) -> bool {
        let plans = self.source.plans().iter();
        plans
            .filter_map(|plan| carriage.relay().part((self.stream, plan.epoch)))
            .any(relay::Part::is_busy)
    }

    /// Returns whether the stream's plans go at their own pace and one has room for an ADU like the last.
    fn has_room_apart(&self, carriage: &Carriage) -> bool {
        let plans = self.source.plans().iter();
        let mut parts = plans.filter_map(|plan| carriage.relay().part((self.stream, plan.epoch)));
        let header = Header::new(self.stream, Sequence(self.given));
        parts.any(|part| part.route().is_repaired() && part.has_room(&header, self.payload_bytes))
    }

    /// Returns when it has something to do, in world time.
    pub(super) fn poll_timeout(&self, clock: Clock, now: Instant) -> Instant {
        match self.stage {
            // While held back it is woken by an outcome.
            Stage::Sending if self.is_waiting => clock.world(self.source.poll_timeout()),
            Stage::Sending => self
                .next
                .map_or(Instant::NEVER, |due| Instant::ZERO + due.at),
            Stage::Settling(until) => clock.world(until),
            Stage::Ending(then, patience) => {
                let waits_until = self.source.poll_acknowledged(then, patience);
                clock.world(if waits_until > now {
                    waits_until
                } else {
                    then + patience
                })
            }
            Stage::Flushing | Stage::Over => Instant::NEVER,
        }
    }

    /// Returns the next ADU of its producer, and the same as the observer knows it.
    fn make(&mut self, due: &Due, now: Instant, watch: &Watch<'_>) -> (Adu, Sent) {
        let payload = if let Some(film) = &watch.films[self.at] {
            film.payload(due.frame, due.layer)
        } else {
            let ratio = watch.world.streams[self.at].pack_ratio(&watch.world.weights);
            traffic::payload(self.at as u64, due.sequence, due.payload_bytes, ratio)
        };
        let header = Header {
            media_time: due.media_time,
            importance: due.importance,
            layer: due.layer,
            depends_on: due.depends_on,
            deadline: now + watch.world.streams[self.at].needs.deadline,
            flags: due.flags,
            ..Header::new(self.stream, Sequence(self.given))
        };
        self.given += 1;
        self.payload_bytes = payload.len();
        self.room = window(payload.len() as u64, !header.deadline.is_never());
        let sent = Sent {
            due: Instant::ZERO + due.at,
            sequence: header.sequence.0,
            frame: due.frame,
            layer: due.layer,
            importance: due.importance,
            payload: payload.clone(),
        };
        (Adu { header, payload }, sent)
    }

    /// Counts an ADU that is sent to a sink again, under the plans by which it went before.
    fn count_again(
        &mut self,
        sink: NodeId,
        header: &Header,
        carriage: &mut Carriage,
        now: Instant,
    ) {
        let relay = carriage.relay_mut();
        self.source.handle_again(sink, header, |epoch, band| {
            relay.count_resent((header.stream, epoch), band, now);
        });
    }

    /// Sends an ADU under the plan in its header, on behalf of the plans in `serves`; returns the
    /// indices of their sinks.
    fn send_under(
        &mut self,
        mut adu: Adu,
        serves: &[Served],
        carriage: &mut Carriage,
        scene: &mut Scene<'_, '_>,
    ) -> BTreeSet<usize> {
        let watch = &mut *scene.watch;
        let copy = watch.fates.find(&adu.header);
        let mut served: BTreeSet<usize> = copy.iter().map(|copy| copy.sink).collect();
        let plan = (adu.header.stream, adu.header.epoch);
        if let Some(part) = carriage.relay().part(plan) {
            for Served { epoch, .. } in serves {
                let header = Header {
                    epoch: *epoch,
                    ..adu.header
                };
                watch.promises.handle_given(&header);
                let copy = watch.fates.handle_given(&adu.header, *epoch, watch.now);
                served.extend(copy.map(|copy| copy.sink));
            }
            let part = part.route().installation();
            self.source.handle_sent(&adu, serves, part, scene.now);
        }
        adu.header.epoch = plan.1;
        carriage.give(adu, scene);
        served
    }

    /// Returns the sinks that an ADU of this stream misses if no plan serves it.
    fn missed(
        &self,
        adu: usize,
        is_missed: impl Fn(usize) -> bool,
        watch: &Watch<'_>,
    ) -> Vec<Copy> {
        let sinks = 0..watch.world.streams[self.at].to.len();
        let missed = sinks.filter(|sink| is_missed(*sink));
        let copy = |sink| Copy {
            stream: self.at,
            sink,
            adu,
            epoch: Epoch(0),
        };
        missed.map(copy).collect()
    }

    pub(super) fn pump(
        &mut self,
        mind: &mut Mind,
        carriage: &mut Carriage,
        scene: &mut Scene<'_, '_>,
    ) -> bool {
        let now = scene.now;
        let is_behind = self.is_behind(carriage);
        if !is_behind && self.send_held(carriage, scene) {
            return true;
        }
        let in_flight = carriage.relay().outstanding(self.stream);
        let is_settled = in_flight == 0 && !is_behind;
        let is_pressed = self.source.is_pressed(now);
        self.is_waiting = is_pressed
            || !self.source.is_held()
                && (in_flight > self.room
                    || is_behind && !self.has_room_apart(carriage)
                    || scene.subscribers.is_pressed(self.stream));
        match self.stage {
            Stage::Sending if self.is_waiting => false,
            Stage::Sending => match self.next {
                None => {
                    self.stage = Stage::Settling(now + FINISH_MAX);
                    true
                }
                Some(due) if Instant::ZERO + due.at <= scene.watch.now => {
                    self.next = self.dues.next();
                    let (adu, sent) = self.make(&due, now, scene.watch);
                    let number = scene.watch.sent(self.place, self.at, sent);
                    self.send_under_plans(&adu, Some(number), carriage, scene);
                    true
                }
                Some(_) => false,
            },
            Stage::Settling(until) if is_settled || until <= now => {
                self.end(carriage, scene);
                true
            }
            Stage::Ending(then, patience)
                if (is_settled || then + patience <= now)
                    && self.source.poll_acknowledged(then, patience) <= now =>
            {
                self.flush(carriage, scene);
                true
            }
            Stage::Flushing if self.flushing.is_empty() => {
                self.stage = Stage::Over;
                mind.unpublish(self.stream, now);
                true
            }
            _ => false,
        }
    }

    /// Sends the end of the stream.
    fn end(&mut self, carriage: &mut Carriage, scene: &mut Scene<'_, '_>) {
        self.stage = Stage::Ending(scene.now, self.source.drain_time());
        let header = Header::new(self.stream, Sequence(self.given));
        let end = if self.is_killed {
            route::cut_off(header)
        } else {
            route::end(header)
        };
        self.send_under_plans(&end, None, carriage, scene);
        self.source.handle_ended(scene.now);
    }

    /// Sends an ADU under every plan in force; a sink without a plan misses it.
    fn send_under_plans(
        &mut self,
        adu: &Adu,
        number: Option<usize>,
        carriage: &mut Carriage,
        scene: &mut Scene<'_, '_>,
    ) {
        if self.source.handle_adu(adu.clone(), scene.now).is_none() {
            return self.drop_held(carriage, scene);
        }
        let plans = self.source.plans().to_vec();
        // On an ordered stream late sinks begin with the next ADU instead.
        if self.source.is_shared() {
            carriage.relay_mut().keep_given(adu, scene.now);
        }
        if plans.is_empty() {
            let cause = DropCause::NoSubscriber;
            carriage
                .relay_mut()
                .count_unplanned(&adu.header, cause, scene.now);
        }
        let mut served = BTreeSet::new();
        for plan in plans {
            let mut adu = adu.clone();
            adu.header.epoch = plan.epoch;
            served.extend(self.send_under(adu, &plan.serves, carriage, scene));
        }
        let Some(adu) = number else {
            return;
        };
        for copy in self.missed(adu, |sink| !served.contains(&sink), scene.watch) {
            let cause = DropCause::NoSubscriber;
            scene.watch.dropped(self.place, Some(copy), cause);
        }
    }

    /// Sends the next held ADU if possible; returns whether the store changed.
    fn send_held(&mut self, carriage: &mut Carriage, scene: &mut Scene<'_, '_>) -> bool {
        let in_flight = carriage.relay().outstanding(self.stream);
        let window = self.source.hold_window();
        let has_room = window.is_some_and(|window| in_flight <= window);
        let due = has_room.then(|| self.source.poll_due(scene.now)).flatten();
        self.drop_held(carriage, scene);
        let Some(due) = due else {
            return false;
        };
        let part = carriage.relay().part((self.stream, due.plan));
        let part = part.map(|part| part.route().installation());
        if !self.source.handle_due(&due, part) {
            return true;
        }
        self.count_again(due.sink, &due.adu.header, carriage, scene.now);
        let mut adu = due.adu;
        adu.header.epoch = due.plan;
        let served = Served {
            epoch: due.plan,
            layers: due.layers,
        };
        self.send_under(adu, &[served], carriage, scene);
        true
    }

    /// Accounts for held ADUs that were dropped.
    fn drop_held(&mut self, carriage: &mut Carriage, scene: &mut Scene<'_, '_>) {
        while let Some(dropped) = self.source.poll_dropped(scene.now) {
            let Dropped {
                header,
                cause,
                sink,
            } = dropped;
            carriage
                .relay_mut()
                .count_unplanned(&header, cause, scene.now);
            let watch = &mut *scene.watch;
            let Some(adu) = watch.fates.place(&header) else {
                continue;
            };
            let name = sink.and_then(|sink| Some(&watch.names[*watch.places.get(&sink)?]));
            let sinks = &watch.world.streams[self.at].to;
            // An ADU held for no particular sink is lost for all of them.
            let is_missed = |sink: usize| name.is_none_or(|name| *name == sinks[sink]);
            for copy in self.missed(adu, is_missed, watch) {
                watch.dropped(self.place, Some(copy), cause);
            }
        }
    }

    /// Ends the ordered sequences of a stream that begin here.
    fn flush(&mut self, carriage: &Carriage, scene: &mut Scene<'_, '_>) {
        self.stage = Stage::Flushing;
        let parts = carriage.relay().parts();
        let of_stream = parts.filter(|((stream, _), _)| *stream == self.stream);
        let ordered: Vec<_> = of_stream
            .filter(|(_, part)| part.route().is_ordered())
            .collect();
        for ((stream, epoch), part) in ordered {
            let to = part.next().and_then(|next| scene.watch.places.get(&next));
            let id = OrderedId { stream, epoch };
            if let Some(to) = to
                && scene.ports.finish_ordered(*to, id, scene.now)
            {
                self.flushing.insert((*to, id));
            }
        }
    }
}
