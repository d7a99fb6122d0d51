//! Continuity, as in the node's driver: detects silent neighbours, tracks what was received, and
//! resends what the control plane asks for.
//!
//! *Sources.* docs/concepts/continuity.md; the control plane (`health` in thalweg-control), which decides.

use thalweg_base::adu::{Adu, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::time::Instant;
use thalweg_dataplane::mailbox::{Held, News};
use thalweg_link::hop::StreamCode;
use thalweg_link::pulse::{Pulse, Sign};

use super::Host;
use super::account::TICK;
use crate::transport::SendId;
use crate::watch::Watch;

impl Host {
    /// Checks whether neighbours still answer.
    pub(super) fn check_pulses(&mut self, now: Instant) {
        let due = self.neighbours.values_mut();
        for neighbour in due.filter(|neighbour| neighbour.pulse.poll_timeout() <= now) {
            if !neighbour.port.is_up() {
                neighbour.pulse = Pulse::default();
                continue;
            }
            let stats = neighbour.port.stats();
            let sign = Sign {
                received: Some(stats.received),
                in_flight: stats.bytes_in_flight,
                waiting_since: stats.waiting_since,
                rtt: stats.rtt,
            };
            if let Some(hearing) = neighbour.pulse.handle_look(sign, now) {
                let peer = neighbour.id;
                self.controller
                    .handle_hearing(peer, hearing, now, &mut self.keys);
            }
        }
    }

    /// Records that an ADU has reached its sink.
    ///
    /// Fails   a duplicate, or not for the current subscribers
    pub(super) fn receive_once(
        &mut self,
        header: &Header,
        payload_bytes: usize,
        now: Instant,
    ) -> Result<(), DropCause> {
        let received = self.received.entry(header.stream).or_default();
        let taken = received.insert(header, payload_bytes);
        if taken != Err(DropCause::Duplicate) {
            let is_urgent = received.news() > Some(News::Usual);
            self.wake_accounts(if is_urgent { now } else { now + TICK });
        }
        taken.map(drop)
    }

    /// Reports what was received of a stream to the control plane.
    pub(super) fn report_held(&mut self, stream: StreamId, now: Instant) {
        // While the mailbox is full, acknowledge no more of the stream except its end.
        let is_pressed = self.is_pressed(stream);
        if let Some(received) = self.received.get_mut(&stream)
            && (!is_pressed || received.news() == Some(News::Ended))
            && let Some((held, news)) = received.take_news()
        {
            self.controller.handle_held(stream, held, news, now);
        }
    }

    pub(super) fn report_all_held(&mut self, now: Instant) {
        let streams: Vec<StreamId> = self.received.keys().copied().collect();
        for stream in streams {
            self.report_held(stream, now);
        }
    }

    /// Starts reception of a stream over: nothing has come, and plans up to `former` are not for the
    /// new subscribers.
    pub(super) fn restart_reception(&mut self, stream: StreamId, former: Option<Epoch>) {
        if let Some(received) = self.received.get_mut(&stream) {
            received.begin_anew(former);
        }
    }

    /// Accepts all plans that bring a stream for its current subscribers.
    pub(super) fn accept_all_plans(&mut self, stream: StreamId) {
        if let Some(received) = self.received.get_mut(&stream) {
            received.go_on();
        }
    }

    /// Forgets the reception of a stream that no plan brings here and no subscriber wants.
    pub(super) fn forget_received(&mut self, stream: StreamId) {
        self.received.remove(&stream);
    }

    /// Handles a sink's receipt. Returns how many ADUs it lacks of those sent by an ordered plan, and
    /// the sequence below which nothing more of what it lacks will come.
    pub(super) fn acknowledge(
        &mut self,
        stream: StreamId,
        (sink, epochs): (NodeId, &[Epoch]),
        in_order: Option<Epoch>,
        held: &Held,
        watch: &Watch<'_>,
    ) -> (u64, Option<Sequence>) {
        let now = self.now(watch);
        let mut publishers = self.publishers.iter_mut();
        let of_stream = publishers.find(|publisher| publisher.stream() == stream);
        let mut had = Vec::new();
        let word = of_stream.map(|publisher| {
            let awaited = &mut publisher.awaited;
            awaited.handle_receipt(epochs, held, |epoch, band| had.push((epoch, band)));
            if let Some(hold) = &mut publisher.hold {
                hold.handle_receipt(sink, held);
                let missing = in_order.map_or(0, |plan| hold.missing(sink, plan, held, now));
                return (missing, None);
            }
            publisher.keep.handle_receipt(epochs, held);
            if publisher.keep.handle_word(sink, held, now) {
                publisher.keep.take_up(epochs);
            }
            let missing = in_order.map_or(0, |plan| publisher.keep.missing(plan, held, now));
            (missing, publisher.keep.given_up_below(epochs, held))
        });
        self.count_acknowledged(stream, &had, now);
        word.unwrap_or_default()
    }

    /// Keeps an ADU for resending to the sinks of these plans, if it goes to another node and its layer
    /// matters there. The ADU's own plan is noted in any case.
    pub(super) fn keep(&mut self, at: usize, adu: &Adu, serves: &[Epoch], watch: &Watch<'_>) {
        let now = self.now(watch);
        let header = &adu.header;
        let Some(part) = self.parts.get(&(header.stream, header.epoch)) else {
            return;
        };
        let part = part.route.installation();
        let source = self.controller.source(header.stream);
        let layers = |epoch| source.map_or(u8::MAX, |source| source.layers(epoch));
        let reached = serves.iter().filter(|epoch| header.layer < layers(**epoch));
        let plans: Vec<Epoch> = reached.copied().collect();
        let publisher = &mut self.publishers[at];
        if part.next.is_none() {
            return;
        }
        if plans.contains(&header.epoch) {
            publisher.awaited.handle_given(header.epoch, header);
        }
        if publisher.hold.is_none() {
            let keep = &mut publisher.keep;
            keep.handle_given(adu, &plans, part.reliability, now);
        }
    }

    /// Resends what went by broken plans, and drops what of it still waits here.
    pub(super) fn resend(
        &mut self,
        stream: StreamId,
        (sink, from): (NodeId, &[Epoch]),
        (to, under): (Epoch, Epoch),
        watch: &mut Watch<'_>,
    ) {
        let now = self.now(watch);
        let mut publishers = self.publishers.iter();
        let Some(at) = publishers.position(|publisher| publisher.stream() == stream) else {
            return;
        };
        let parts = &self.parts;
        let awaited = &mut self.publishers[at].awaited;
        awaited.retain(|epoch| parts.contains_key(&(stream, epoch)));
        awaited.handle_broken(sink, from);
        if let Some(hold) = &mut self.publishers[at].hold {
            hold.handle_broken(sink, from);
        }
        let adus = self.publishers[at].keep.take(from, now);
        watch.fates.handle_resent(stream);
        for epoch in from {
            // Plans that still feed others go on.
            if !self.publishers[at].publishes_under(*epoch) {
                self.recall(stream, *epoch, watch);
            }
        }
        for mut adu in adus {
            self.count_resent(at, sink, &adu.header, now);
            adu.header.epoch = under;
            self.send_under(at, adu, &[to], watch);
        }
    }

    /// Drops what waits here under a plan.
    fn recall(&mut self, stream: StreamId, epoch: Epoch, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        watch.fates.handle_recalled(stream, epoch);
        let part = self.parts.get_mut(&(stream, epoch));
        let waiting = part.map(|part| std::mem::take(&mut part.waiting));
        for (adu, _) in waiting.into_iter().flatten() {
            let cancelled = DropCause::Cancelled;
            let header = adu.header;
            self.count(&header, now, |counts, band| counts.give_up(band, cancelled));
            let copy = watch.fates.find(&header);
            watch.dropped(self.place, copy, cancelled);
        }
        let sending = self.transits.iter();
        let sending = sending.filter(|(_, transit)| {
            let header = &transit.header;
            (header.stream, header.epoch) == (stream, epoch)
        });
        let sending: Vec<(usize, SendId)> = sending.map(|(key, _)| *key).collect();
        for (peer, send) in sending {
            if let Some(neighbour) = self.neighbours.get_mut(&peer) {
                neighbour.port.cancel(now, send, StreamCode::Cancelled);
            }
        }
    }

    /// Returns whether a publisher here keeps ADUs that its sinks may still want.
    pub fn is_keeping(&self, watch: &Watch<'_>) -> bool {
        let now = self.now(watch);
        let mut publishers = self.publishers.iter();
        publishers.any(|publisher| !publisher.is_over() && publisher.settles() > now)
    }
}
