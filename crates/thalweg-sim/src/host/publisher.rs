//! A producer of the world and its publisher, as a program with the node's `Publisher` has it.
//!
//! ADUs are given when they are due, one after another: each goes out under every plan in force before
//! the next does, and the publisher waits while too many are in flight. It ends as the node's publisher
//! does:
//!
//! ```text
//! sending ─► settling: in-flight ADUs end ─► ending: the stream's end is in flight ─► flushing ─► withdrawn
//! ```
//!
//! ADUs that were due while the node was away are skipped: a camera that is off takes no pictures.
//!
//! *Sources.* `thalweg-node`, `handle/publisher.rs`.

use std::collections::BTreeSet;

use thalweg_base::adu::{Adu, Flags, Header, Mark};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::needs::Reliability;
use thalweg_base::time::{Duration, Instant};
use thalweg_control::control::Publication;
use thalweg_control::session::{Awaited, Given, Hold, Keep};
use thalweg_dataplane::route::{self, window};
use thalweg_link::hop::OrderedId;

use super::{Host, Phase};
use crate::clock::Clock;
use crate::fate::{Copy, Sent};
use crate::traffic::{self, Due, Producer};
use crate::watch::Watch;

/// How long the end of a stream waits for in-flight ADUs without a deadline: as the node's publisher does.
const FINISH_MAX: Duration = Duration::from_secs(30);

/// How long the end of a stream with deadlines waits for its sinks' receipts: longer than a dead link
/// takes to leave the map (8 s).
const DRAIN_MAX: Duration = Duration::from_secs(10);

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
    /// The stream's index in the world.
    at: usize,
    stream: StreamId,
    dues: Producer,
    /// The next ADU.
    next: Option<Due>,
    /// Number of ADUs given so far.
    given: u64,
    given_under: Vec<Given>,
    in_flight: u64,
    /// How many may be in flight before the next is given.
    room: u64,
    /// Payload bytes of the last ADU.
    payload_bytes: usize,
    /// The next ADU must wait for an outcome.
    is_held: bool,
    stage: Stage,
    /// Its program was killed: the stream's end says so.
    is_killed: bool,
    /// ADUs that the sinks have not acknowledged.
    pub(super) keep: Keep,
    /// What went by each plan and is not acknowledged.
    pub(super) awaited: Awaited,
    /// The store for sinks without a path, if the stream has one.
    pub(super) hold: Option<Hold>,
    /// Ordered sequences with an unacknowledged end.
    flushing: BTreeSet<(usize, OrderedId)>,
}

impl Publisher {
    /// Returns the stream's id on the wire.
    pub(super) const fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the stream's index in the world.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    pub(super) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Returns the next sequence number; the end of the stream has one too.
    const fn next_sequence(&self) -> Sequence {
        match self.stage {
            Stage::Sending | Stage::Settling(_) => Sequence(self.given),
            Stage::Ending(..) | Stage::Flushing | Stage::Over => Sequence(self.given + 1),
        }
    }

    /// Returns whether it gives ADUs under a plan.
    pub(super) fn publishes_under(&self, epoch: Epoch) -> bool {
        self.given_under.iter().any(|given| given.epoch == epoch)
    }

    /// Returns how long its end waits for new receipts.
    fn drain_time(&self, watch: &Watch<'_>) -> Duration {
        let needs = &watch.world.streams[self.at].needs;
        let usual = match needs.reliability {
            Reliability::Full => FINISH_MAX,
            Reliability::None | Reliability::UntilDeadline | Reliability::Repaired => DRAIN_MAX,
        };
        let promised = needs.waits().unwrap_or(Duration::ZERO);
        usual.max(promised).max(needs.hold)
    }

    /// Returns when it keeps nothing more for its sinks, unless they acknowledge everything sooner.
    pub(super) fn settles(&self) -> Instant {
        let held = self.hold.as_ref().map(Hold::poll_settled);
        held.unwrap_or_else(|| self.keep.poll_settled())
    }

    /// Returns until when its end, sent at `then`, waits for receipts.
    fn waits_until(&self, then: Instant, patience: Duration) -> Instant {
        match &self.hold {
            Some(hold) => hold.poll_settled().min(then + patience),
            None => self.keep.poll_acknowledged(patience),
        }
    }

    /// Returns whether a held ADU of this size may go into flight.
    pub(super) fn has_room(&self, payload_bytes: u64) -> bool {
        self.in_flight <= window(payload_bytes, false)
    }

    /// Returns when it has something to do, in world time.
    pub(super) fn poll_timeout(&self, clock: Clock, now: Instant) -> Instant {
        match self.stage {
            // While held back it is woken by an outcome.
            Stage::Sending if self.is_held => clock.world(self.keep.poll_timeout()),
            Stage::Sending => self
                .next
                .map_or(Instant::NEVER, |due| Instant::ZERO + due.at),
            Stage::Settling(until) => clock.world(until),
            Stage::Ending(then, patience) => {
                let waits_until = self.waits_until(then, patience);
                clock.world(if waits_until > now {
                    waits_until
                } else {
                    then + patience
                })
            }
            Stage::Flushing | Stage::Over => Instant::NEVER,
        }
    }
}

impl Host {
    /// Publishes a stream of the world. Its producer goes on with what is due from now on.
    pub(super) fn publish(&mut self, at: usize, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let stream = &watch.world.streams[at];
        let publication = Publication {
            name: stream.name.clone(),
            needs: stream.needs,
            layers: stream.layers.clone(),
            pack_ratio: stream.pack_ratio,
            planner: Some(stream.traffic.planner),
        };
        let published = self
            .controller
            .publish(publication, None, now, &mut self.keys);
        let id = match published {
            Ok(id) => id,
            Err(error) => {
                return watch.add_violation(
                    self.place,
                    None,
                    format!("it cannot publish: {error}"),
                );
            }
        };
        watch.fates.handle_published(id, at);
        let mut dues = Producer::new(stream, watch.world.length(), at as u64);
        // A restarted producer begins with a whole frame.
        let next = dues.find(|due| due.layer == 0 && Instant::ZERO + due.at >= watch.now);
        self.publishers.push(Publisher {
            at,
            stream: id,
            dues,
            next,
            given: 0,
            given_under: Vec::new(),
            in_flight: 0,
            room: u64::MAX,
            payload_bytes: 0,
            is_held: false,
            stage: Stage::Sending,
            is_killed: false,
            keep: Keep::new(&stream.needs),
            awaited: Awaited::default(),
            hold: Hold::new(&stream.needs),
            flushing: BTreeSet::new(),
        });
    }

    pub(super) fn set_given(&mut self, stream: StreamId, given: Vec<Given>, now: Instant) {
        if let Some(publisher) = self
            .publishers
            .iter_mut()
            .find(|publisher| publisher.stream == stream)
        {
            publisher.given_under = given;
            let next = publisher.next_sequence();
            self.controller
                .handle_next(stream, next, now, &mut self.keys);
        }
    }

    /// Adjusts the number of a local publisher's ADUs in flight.
    pub(super) fn count_in_flight(&mut self, stream: StreamId, change: i64) {
        if let Some(publisher) = self
            .publishers
            .iter_mut()
            .find(|publisher| publisher.stream == stream)
        {
            publisher.in_flight = publisher.in_flight.saturating_add_signed(change);
        }
    }

    /// Kills the programs that publish here and starts them again: what the dead ones gave drains,
    /// and the streams of the new ones have the same names.
    pub fn handle_republish(&mut self, watch: &mut Watch<'_>) {
        // A node that stops takes no publisher.
        if self.phase != Phase::Running {
            return;
        }
        let now = self.now(watch);
        let mut killed = Vec::new();
        for publisher in &mut self.publishers {
            if publisher.stage == Stage::Sending {
                publisher.stage = Stage::Settling(now + FINISH_MAX);
                publisher.is_killed = true;
                killed.push((publisher.at, publisher.stream));
            }
        }
        for (at, stream) in killed {
            self.controller.drain(stream, now, &mut self.keys);
            self.publish(at, watch);
        }
        self.settle(watch);
    }

    /// Makes the publishers end their streams.
    pub(super) fn finish_publishers(&mut self, now: Instant) {
        for publisher in &mut self.publishers {
            if publisher.stage == Stage::Sending {
                publisher.stage = Stage::Settling(now + FINISH_MAX);
            }
        }
    }

    /// Lets each publisher do what it can; returns whether any did something.
    pub(super) fn pump_publishers(&mut self, watch: &mut Watch<'_>) -> bool {
        let mut any = false;
        for at in 0..self.publishers.len() {
            while self.pump(at, watch) {
                any = true;
            }
        }
        any
    }

    fn pump(&mut self, at: usize, watch: &mut Watch<'_>) -> bool {
        let now = self.now(watch);
        let is_held = self.is_held(at);
        if !is_held && self.send_held(at, watch) {
            return true;
        }
        let waits = is_held && !self.has_room_apart(at);
        let is_pressed = self.is_pressed(self.publishers[at].stream);
        let publisher = &mut self.publishers[at];
        let is_settled = publisher.in_flight == 0 && !is_held;
        publisher.is_held = if let Some(hold) = &publisher.hold {
            hold.is_pressed()
        } else {
            publisher.keep.expire(now);
            let is_full = publisher.in_flight > publisher.room || publisher.keep.is_pressed();
            waits || is_full || is_pressed
        };
        match publisher.stage {
            Stage::Sending if publisher.is_held => false,
            Stage::Sending => match publisher.next {
                None => {
                    publisher.stage = Stage::Settling(now + FINISH_MAX);
                    true
                }
                Some(due) if Instant::ZERO + due.at <= watch.now => {
                    publisher.next = publisher.dues.next();
                    self.give(at, due, watch);
                    true
                }
                Some(_) => false,
            },
            Stage::Settling(until) if is_settled || until <= now => {
                let drain_time = publisher.drain_time(watch);
                publisher.stage = Stage::Ending(now, drain_time);
                let header = Header::new(publisher.stream, Sequence(publisher.given));
                let mut end = route::end(header);
                if publisher.is_killed {
                    end.header.flags = Flags::CUT_OFF;
                }
                self.send_under_plans(at, &end, None, watch);
                self.publishers[at].keep.handle_ended(now);
                true
            }
            Stage::Ending(then, patience)
                if (is_settled || then + patience <= now)
                    && publisher.waits_until(then, patience) <= now =>
            {
                self.flush(at, watch);
                true
            }
            Stage::Flushing if publisher.flushing.is_empty() => {
                publisher.stage = Stage::Over;
                let stream = publisher.stream;
                self.controller.unpublish(stream, now, &mut self.keys);
                true
            }
            _ => false,
        }
    }

    /// Returns whether an ordered hop of the stream has not taken the previous ADU.
    fn is_held(&self, at: usize) -> bool {
        let publisher = &self.publishers[at];
        let parts = publisher.given_under.iter();
        parts
            .filter_map(|given| self.parts.get(&(publisher.stream, given.epoch)))
            .any(|part| part.route.is_ordered() && part.is_busy())
    }

    /// Returns whether the stream's plans go at their own pace and one has room for an ADU like the last.
    fn has_room_apart(&self, at: usize) -> bool {
        let publisher = &self.publishers[at];
        let given = publisher.given_under.iter();
        let mut parts = given.filter_map(|given| self.parts.get(&(publisher.stream, given.epoch)));
        let header = Header::new(publisher.stream, Sequence(publisher.given));
        parts
            .any(|part| part.route.is_repaired() && part.has_room(&header, publisher.payload_bytes))
    }

    /// Gives an ADU that is due.
    fn give(&mut self, at: usize, due: Due, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let publisher = &mut self.publishers[at];
        let place = publisher.at;
        let payload = if let Some(film) = &watch.films[place] {
            film.payload(due.frame, due.layer)
        } else {
            let ratio = watch.world.streams[place].pack_ratio(&watch.world.weights);
            traffic::payload(place as u64, due.sequence, due.payload_bytes, ratio)
        };
        let header = Header {
            media_time: due.media_time,
            importance: due.importance,
            layer: due.layer,
            depends_on: due.depends_on,
            deadline: now + watch.world.streams[place].needs.deadline,
            flags: due.flags,
            ..Header::new(publisher.stream, Sequence(publisher.given))
        };
        publisher.given += 1;
        publisher.payload_bytes = payload.len();
        publisher.room = window(payload.len() as u64, !header.deadline.is_never());
        let sent = Sent {
            due: Instant::ZERO + due.at,
            sequence: header.sequence.0,
            frame: due.frame,
            layer: due.layer,
            importance: due.importance,
            payload: payload.clone(),
        };
        let adu = watch.sent(self.place, place, sent);
        self.send_under_plans(at, &Adu { header, payload }, Some(adu), watch);
    }

    /// Sends an ADU under every plan in force; a sink without a plan misses it.
    fn send_under_plans(
        &mut self,
        at: usize,
        adu: &Adu,
        number: Option<usize>,
        watch: &mut Watch<'_>,
    ) {
        if self.publishers[at].hold.is_some() {
            return self.hold(at, adu.clone(), watch);
        }
        let publisher = &self.publishers[at];
        let (place, plans) = (publisher.at, publisher.given_under.clone());
        let now = self.now(watch);
        let mut served = BTreeSet::new();
        self.keep_for_late(place, adu, watch);
        if plans.is_empty() {
            self.count_refused(&adu.header, DropCause::NoSubscriber, now);
        }
        for plan in plans {
            let mut adu = adu.clone();
            adu.header.epoch = plan.epoch;
            served.extend(self.send_under(at, adu, &plan.serves, watch));
        }
        let Some(adu) = number else {
            return;
        };
        for sink in 0..watch.world.streams[place].to.len() {
            if !served.contains(&sink) {
                let copy = Copy {
                    stream: place,
                    sink,
                    adu,
                    epoch: Epoch(0),
                };
                watch.dropped(self.place, Some(copy), DropCause::NoSubscriber);
            }
        }
    }

    /// Keeps an ADU for sinks that join later. On an ordered stream they begin with the next ADU instead.
    fn keep_for_late(&mut self, place: usize, adu: &Adu, watch: &Watch<'_>) {
        let plan = (adu.header.stream, Epoch(0));
        let needs = &watch.world.streams[place].needs;
        let is_shared = !needs.reliability.is_ordered();
        if is_shared && self.replay.handle_begun(plan, &adu.header) {
            self.replay.handle_whole(plan, adu, self.now(watch));
        }
    }

    /// Replays the kept ADUs to a plan with a sink that begins with them.
    pub(super) fn replay_kept(&mut self, stream: StreamId, to: Epoch, watch: &mut Watch<'_>) {
        let mut publishers = self.publishers.iter();
        let Some(at) = publishers.position(|publisher| publisher.stream == stream) else {
            return;
        };
        for mut adu in self.replay.group((stream, Epoch(0)), self.now(watch)) {
            adu.header.epoch = to;
            watch.fates.handle_replayed(&adu.header);
            self.send_under(at, adu, &[to], watch);
        }
    }

    /// Sends an ADU under the plan in its header, on behalf of the plans in `serves`; returns the
    /// indices of their sinks.
    pub(super) fn send_under(
        &mut self,
        at: usize,
        mut adu: Adu,
        serves: &[Epoch],
        watch: &mut Watch<'_>,
    ) -> BTreeSet<usize> {
        let now = self.now(watch);
        let copy = watch.fates.find(&adu.header);
        let mut served: BTreeSet<usize> = copy.iter().map(|copy| copy.sink).collect();
        let step = watch.model.step(self.place, None, &adu.header);
        let plan = (adu.header.stream, adu.header.epoch);
        if let Some(part) = self.parts.get(&plan) {
            let is_marked = part.route.installation().reliability == Reliability::None;
            adu.header
                .set_mark(if is_marked { Mark::at(now) } else { Mark::NONE });
            for epoch in serves {
                let header = Header {
                    epoch: *epoch,
                    ..adu.header
                };
                watch.promises.handle_given(&header);
                let copy = watch.fates.handle_given(&adu.header, *epoch, watch.now);
                served.extend(copy.map(|copy| copy.sink));
            }
            self.keep(at, &adu, serves, watch);
            self.count_arrived(adu.header.mark(), &adu.header, now);
            self.process(adu, copy, step, watch);
        } else {
            adu.header.epoch = Epoch(0);
            self.count_refused(&adu.header, DropCause::PathLost, now);
            watch.dropped(self.place, copy, DropCause::PathLost);
        }
        served
    }

    /// Ends the ordered sequences of a stream that begin here.
    fn flush(&mut self, at: usize, watch: &Watch<'_>) {
        let now = self.now(watch);
        let publisher = &mut self.publishers[at];
        publisher.stage = Stage::Flushing;
        let stream = publisher.stream;
        let ordered = self
            .parts
            .iter()
            .filter(|((of, _), part)| *of == stream && part.route.is_ordered());
        let ends: Vec<_> = ordered
            .filter_map(|((_, epoch), part)| {
                let to = watch.places.get(&part.route.installation().next?)?;
                let id = OrderedId {
                    stream,
                    epoch: *epoch,
                };
                Some((*to, id))
            })
            .collect();
        for (to, id) in ends {
            let Some(neighbour) = self
                .neighbours
                .get_mut(&to)
                .filter(|next| next.port.is_up())
            else {
                continue;
            };
            self.publishers[at].flushing.insert((to, id));
            neighbour.port.finish_ordered(now, id);
        }
    }

    /// Handles the acknowledged end of an ordered sequence.
    pub(super) fn handle_flushed(&mut self, peer: usize, id: OrderedId) {
        for publisher in &mut self.publishers {
            publisher.flushing.remove(&(peer, id));
        }
    }

    /// Forgets the ordered sequences on a link that is down.
    pub(super) fn forget_flushes(&mut self, peer: usize) {
        for publisher in &mut self.publishers {
            publisher.flushing.retain(|(to, _)| *to != peer);
        }
    }
}
