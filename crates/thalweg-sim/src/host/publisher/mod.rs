//! The producers of the world on a host and their publishers, as programs with the node's `Publisher`
//! have them.
//!
//! ADUs are given when they are due, one after another: each goes out under every plan in force before
//! the next does, and the publisher waits while too many are in flight. It ends as the node's publisher
//! does:
//!
//! ```text
//! sending ─► settling: in-flight ADUs end ─► ending: the stream's end is in flight ─► flushing ─► withdrawn
//! ```
//!
//! What is kept, held and sent again is the product's `Source`. ADUs that were due while the node was
//! away are skipped: a camera that is off takes no pictures.
//!
//! *Sources.* `thalweg-node`, `handle/publisher.rs`.

mod running;

use thalweg_base::feed::Sinkward;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::seen::Held;
use thalweg_base::time::Instant;
use thalweg_control::control::Publication;
use thalweg_dataplane::source::{Lacking, Plan};
use thalweg_link::hop::OrderedId;

use super::carriage::{Carriage, Scene};
use super::mind::Mind;
use crate::clock::Clock;
use crate::watch::Watch;

use running::Publisher;
pub(super) use running::Resend;

/// The publishers on a host.
#[derive(Debug)]
pub(super) struct Publishers {
    place: usize,
    all: Vec<Publisher>,
}

impl Publishers {
    pub(super) const fn new(place: usize) -> Self {
        Self {
            place,
            all: Vec::new(),
        }
    }

    /// Publishes a stream of the world. Its producer goes on with what is due from now on.
    pub(super) fn publish(
        &mut self,
        at: usize,
        mind: &mut Mind,
        now: Instant,
        watch: &mut Watch<'_>,
    ) {
        let stream = &watch.world.streams[at];
        let publication = Publication {
            needs: stream.needs,
            pack_ratio: stream.pack_ratio,
            planner: Some(stream.traffic.planner),
            ..Publication::layered(stream.name.clone(), stream.layers.clone())
        };
        match mind.publish(publication, now) {
            Ok(id) => {
                watch.fates.handle_published(id, at);
                self.all.push(Publisher::new((self.place, at), id, watch));
            }
            Err(error) => {
                let what = format!("it cannot publish: {error}");
                watch.add_violation(self.place, None, what);
            }
        }
    }

    /// Kills the programs that publish and starts them again: what the dead ones gave drains, and the
    /// streams of the new ones have the same names.
    pub(super) fn republish(&mut self, mind: &mut Mind, now: Instant, watch: &mut Watch<'_>) {
        let all = self.all.iter_mut();
        let killed: Vec<_> = all.filter_map(|publisher| publisher.kill(now)).collect();
        for (at, stream) in killed {
            mind.drain(stream, now);
            self.publish(at, mind, now, watch);
        }
    }

    /// Makes the publishers end their streams.
    pub(super) fn finish(&mut self, now: Instant) {
        for publisher in &mut self.all {
            publisher.finish(now);
        }
    }

    fn find(&mut self, stream: StreamId) -> Option<&mut Publisher> {
        let mut all = self.all.iter_mut();
        all.find(|publisher| publisher.stream() == stream)
    }

    /// Makes a publisher send under these plans from now on.
    pub(super) fn handle_plans(
        &mut self,
        stream: StreamId,
        plans: Vec<Plan>,
        mind: &mut Mind,
        now: Instant,
    ) {
        if let Some(publisher) = self.find(stream) {
            mind.handle_next(stream, publisher.handle_plans(plans), now);
        }
    }

    /// Sets the sinks of a held stream and the plans in force for them.
    pub(super) fn handle_sinks(
        &mut self,
        stream: StreamId,
        sinks: &[Sinkward],
        carriage: &mut Carriage,
        scene: &mut Scene<'_, '_>,
    ) {
        if let Some(publisher) = self.find(stream) {
            publisher.handle_sinks(sinks, carriage, scene);
        }
    }

    /// Handles a sink's receipt for its plans.
    pub(super) fn acknowledge(
        &mut self,
        stream: StreamId,
        of: (NodeId, &[Epoch]),
        in_order: Option<Epoch>,
        held: &Held,
        carriage: &mut Carriage,
        now: Instant,
    ) -> Lacking {
        let publisher = self.find(stream);
        publisher.map_or_else(Lacking::default, |publisher| {
            publisher.acknowledge(of, in_order, held, carriage, now)
        })
    }

    /// Sends again what went by broken plans, and drops what of it still waits here.
    pub(super) fn resend(
        &mut self,
        order: &Resend,
        carriage: &mut Carriage,
        scene: &mut Scene<'_, '_>,
    ) {
        if let Some(publisher) = self.find(order.stream) {
            publisher.resend(order, carriage, scene);
        }
    }

    /// Replays the kept ADUs to a plan with a sink that begins with them.
    pub(super) fn replay(
        &mut self,
        stream: StreamId,
        to: Epoch,
        carriage: &mut Carriage,
        scene: &mut Scene<'_, '_>,
    ) {
        if let Some(publisher) = self.find(stream) {
            publisher.replay(to, carriage, scene);
        }
    }

    /// Lets each publisher do what it can; returns whether any did something.
    pub(super) fn pump(
        &mut self,
        mind: &mut Mind,
        carriage: &mut Carriage,
        scene: &mut Scene<'_, '_>,
    ) -> bool {
        let mut any = false;
        for publisher in &mut self.all {
            while publisher.pump(mind, carriage, scene) {
                any = true;
            }
        }
        any
    }

    /// Handles the acknowledged end of an ordered sequence.
    pub(super) fn handle_flushed(&mut self, peer: usize, id: OrderedId) {
        for publisher in &mut self.all {
            publisher.forget_flushes(|(to, of)| *to == peer && *of == id);
        }
    }

    /// Forgets the ordered sequences on a link that is down.
    pub(super) fn handle_link_down(&mut self, peer: usize) {
        for publisher in &mut self.all {
            publisher.forget_flushes(|(to, _)| *to == peer);
        }
    }

    /// Returns the ids of all streams published here, in order.
    pub(super) fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.all.iter().map(Publisher::stream)
    }

    pub(super) fn are_over(&self) -> bool {
        self.all.iter().all(Publisher::is_over)
    }

    /// Returns whether one keeps ADUs that its sinks may still want.
    pub(super) fn are_keeping(&self, now: Instant) -> bool {
        self.all.iter().any(|publisher| publisher.is_keeping(now))
    }

    /// Returns when one has something to do, in world time.
    pub(super) fn poll_timeout(&self, clock: Clock, now: Instant) -> Instant {
        let all = self.all.iter();
        let dues = all.map(|publisher| publisher.poll_timeout(clock, now));
        dues.min().unwrap_or(Instant::NEVER)
    }
}
