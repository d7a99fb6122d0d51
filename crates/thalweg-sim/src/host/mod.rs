//! One virtual node: the node's own state machines on an event queue instead of tasks and sockets.
//!
//! All decisions are the product's: the control plane (`thalweg_control::control`), the data path
//! (`thalweg_dataplane`: `relay`, `source`, the subscriber's mailbox), QUIC in virtual time
//! ([`crate::transport`]). A host only joins them, as `thalweg-node` does with threads, and imitates none of
//! them:
//!
//! ```text
//!            publishers ─┐
//!  line ═══► port ───────┴─► Relay ─┬─► port ═══► line   Controller: frames, parts to install
//!                                   └─► subscribers
//! ```
//!
//! A host runs on its own skewed clock; the watch uses world time.
//!
//! | file | what it owns or does |
//! |---|---|
//! | `mind` | the control plane, with the host's keys |
//! | `ports` | links: dials, events, measurements |
//! | `carriage` | the data path: the product's machine, its actions carried out |
//! | `publisher`, `subscriber` | the world's programs |
//! | `stall` | stalled programs |
//! | `processor` | how long copying takes, and what waits in sockets meanwhile, or while the host is frozen |
//! | `orders` | executes the control plane's outputs |
//! | `events` | handles the ports' events |

mod carriage;
mod events;
mod mind;
mod orders;
mod ports;
mod processor;
mod publisher;
mod stall;
mod subscriber;

use std::collections::BTreeMap;
use std::rc::Rc;

use thalweg_base::id::StreamId;
use thalweg_base::limits::{ADUS_IN_FLIGHT_MAX, EPOCHS_PER_STREAM_MAX, RECORDS_MAX};
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Ratio;
use thalweg_control::control::{Peer, Settings};
use thalweg_control::ledger::Reading;
use thalweg_dataplane::lift::INPUT_PACKETS_MAX;

use crate::clock::Clock;
use crate::keys::{HostKeys, Ring, node_id};
use crate::trace::{Happening, Kind};
use crate::transport::Datagram;
use crate::watch::Watch;

use carriage::{Carriage, Scene};
use mind::Mind;
use ports::Ports;
pub(crate) use ports::next_to;
use processor::{Processor, Sockets};
use publisher::Publishers;
use subscriber::Subscribers;

/// How long a stopping node waits for its publishers to end: as the node does.
const PUBLISHERS_GRACE: Duration = Duration::from_secs(3);

/// How long a stopping node waits until plans lead around it: as the node does.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// How long a stopping node waits for acknowledgements of what it has sent: as the node does.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The time of day at which worlds begin. It never changes, so version numbers grow across restarts.
const SINCE_1970: Duration = Duration::from_secs(1_700_000_000);

/// Where a host is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Publishers end their streams until the first time, and plans move around the node until the
    /// second; local clock.
    Ending(Instant, Instant),
    /// Links are drained until this time.
    Draining(Instant),
    Gone,
}

/// A datagram on its way to a neighbour.
#[derive(Debug)]
pub struct Outgoing {
    /// The neighbour's index.
    pub to: usize,
    /// The datagram.
    pub parcel: Parcel,
}

/// A datagram with what the far end must know of the sending port.
#[derive(Debug)]
pub struct Parcel {
    datagram: Datagram,
    /// The sending port's number; later ports have larger ones.
    generation: u64,
    dials: bool,
}

/// A virtual node.
#[derive(Debug)]
pub struct Host {
    place: usize,
    clock: Clock,
    rng: SplitMix,
    mind: Mind,
    ports: Ports,
    carriage: Carriage,
    publishers: Publishers,
    subscribers: Subscribers,
    phase: Phase,
    processor: Processor,
    /// What waits while the host is busy or frozen.
    sockets: Sockets,
    is_frozen: bool,
    /// The clock's reading at the last check.
    last: Instant,
}

/// How a host is started.
#[derive(Debug)]
pub struct Start {
    /// The node's index in the world.
    pub place: usize,
    /// The secrets of all nodes.
    pub ring: Rc<Ring>,
    /// The seed of its random generator.
    pub seed: u64,
    /// The number of its ports, larger than that of every earlier port.
    pub generation: u64,
    /// The neighbours that it dials; it listens for the others.
    pub dials: Vec<usize>,
}

impl Parcel {
    /// Returns its size on a line.
    pub fn line_size(&self) -> thalweg_base::units::DataSize {
        self.datagram.line_size()
    }
}

impl Host {
    /// Starts a node: its ports dial or listen, its programs publish and subscribe.
    pub fn start(start: Start, watch: &mut Watch<'_>) -> Self {
        let Start {
            place,
            ring,
            seed,
            generation,
            dials,
        } = start;
        let name = watch.names[place].clone();
        let node = watch.world.nodes[&name].clone();
        let clock = Clock::new(node.clock_offset, node.clock_drift_ppm);
        let now = clock.local(watch.now);
        let id = node_id(&name);
        let mut rng = SplitMix::new(seed);
        let keys = HostKeys::new(ring, id, rng.next_u64());
        let settings = Settings {
            id,
            name,
            slots: node.slots,
            peers: peers(place, watch),
            weights: watch.world.weights,
            since_1970: SINCE_1970,
        };
        let mind = Mind::new(settings, keys, now);
        watch.note(Happening::at(Kind::Start, place));
        let mut host = Self {
            place,
            clock,
            mind,
            ports: Ports::open(place, generation, &dials, now, &mut rng, watch),
            rng,
            carriage: Carriage::new(place),
            publishers: Publishers::new(place),
            subscribers: Subscribers::new(place),
            phase: Phase::Running,
            processor: Processor::new(node.copy_time),
            sockets: Sockets::default(),
            is_frozen: false,
            last: now,
        };
        host.open_programs(watch);
        host.settle(watch);
        host
    }

    fn open_programs(&mut self, watch: &mut Watch<'_>) {
        let world = watch.world;
        let (name, now) = (watch.names[self.place].clone(), self.now(watch));
        for (at, stream) in world.streams.iter().enumerate() {
            if stream.from == name {
                self.publishers.publish(at, &mut self.mind, now, watch);
            }
        }
        for (at, stream) in world.streams.iter().enumerate() {
            if stream.to.contains(&name) {
                self.subscribers.subscribe(at, &mut self.mind, now, watch);
            }
        }
    }

    fn now(&self, watch: &Watch<'_>) -> Instant {
        self.clock.local(watch.now)
    }

    /// Returns the data path, and what its actions concern.
    fn scene<'s, 'w>(&'s mut self, watch: &'s mut Watch<'w>) -> (&'s mut Carriage, Scene<'s, 'w>) {
        let now = self.now(watch);
        let scene = Scene {
            now,
            ports: &mut self.ports,
            subscribers: &mut self.subscribers,
            watch,
        };
        (&mut self.carriage, scene)
    }

    fn with_publishers<T>(
        &mut self,
        watch: &mut Watch<'_>,
        change: impl FnOnce(&mut Publishers, &mut Carriage, &mut Scene<'_, '_>) -> T,
    ) -> T {
        let mut scene = Scene {
            now: self.clock.local(watch.now),
            ports: &mut self.ports,
            subscribers: &mut self.subscribers,
            watch,
        };
        change(&mut self.publishers, &mut self.carriage, &mut scene)
    }

    /// Handles a datagram that left a line.
    pub fn handle_parcel(&mut self, from: usize, parcel: Parcel, watch: &mut Watch<'_>) {
        if self.is_frozen || self.processor.busy_until().is_some() {
            return self.sockets.keep(from, parcel);
        }
        self.receive(from, parcel, watch);
        self.settle(watch);
    }

    /// Handles the timers that are due, and then what waits in its sockets.
    pub fn handle_timeout(&mut self, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        if self.processor.finish(now) {
            self.carriage.handle_round(now);
        }
        if self.is_frozen || self.processor.busy_until().is_some() {
            return;
        }
        self.ports.handle_timeout(now);
        for (peer, hearing) in self.ports.check_pulses(now) {
            self.mind.handle_hearing(peer, hearing, now);
        }
        if self.carriage.relay().poll_timeout() <= now {
            self.report(now);
        }
        for (peer, sample) in self.ports.take_samples(now) {
            self.mind.handle_sample(peer, sample, now);
        }
        if self.mind.poll_timeout() <= now {
            self.report(now);
            self.mind.handle_timeout(now);
        }
        self.settle(watch);
        // What waits is one round: copying begins when all of it is read.
        for (from, parcel) in self.sockets.take() {
            self.receive(from, parcel, watch);
            self.settle(watch);
        }
    }

    /// Reports counts and receipts to the control plane.
    fn report(&mut self, now: Instant) {
        self.carriage.report(&self.subscribers, &mut self.mind, now);
    }

    /// Begins to stop: publishers end their streams, then links are drained.
    pub fn handle_stop(&mut self, watch: &mut Watch<'_>) {
        if self.phase == Phase::Running {
            watch.note(Happening::at(Kind::Stop, self.place));
            let now = self.now(watch);
            self.phase = Phase::Ending(now + PUBLISHERS_GRACE, now + LEAVE_MAX);
            watch.fates.handle_leaving(self.place, watch.now);
            self.mind.leave(now);
            self.publishers.finish(now);
            self.settle(watch);
        }
    }

    /// Ends the streams of its publishers at the end of the world's time.
    pub fn handle_end(&mut self, watch: &mut Watch<'_>) {
        self.handle_thaw(watch);
        let now = self.now(watch);
        self.publishers.finish(now);
        self.settle(watch);
    }

    /// Kills the programs that publish here and starts them again.
    pub fn handle_republish(&mut self, watch: &mut Watch<'_>) {
        // A node that stops takes no publisher.
        if self.phase == Phase::Running {
            let now = self.now(watch);
            self.publishers.republish(&mut self.mind, now, watch);
            self.settle(watch);
        }
    }

    /// Withholds this share of what it should send on from now on.
    pub const fn handle_withhold(&mut self, share: Ratio) {
        self.carriage.withhold(share);
    }

    /// Returns whether it withholds anything.
    pub fn withholds(&self) -> bool {
        self.carriage.withholds()
    }

    /// Adds a stalled program to this host, or lets it take what comes from now on.
    pub fn handle_stall(&mut self, is_resumed: bool, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        self.subscribers.stall(is_resumed, now, watch);
        self.settle(watch);
    }

    /// Freezes the host.
    pub fn handle_freeze(&mut self, watch: &mut Watch<'_>) {
        self.is_frozen = true;
        watch.fates.handle_frozen(self.place, watch.now);
    }

    /// Thaws the host and handles the datagrams waiting in its sockets.
    pub fn handle_thaw(&mut self, watch: &mut Watch<'_>) {
        if !std::mem::take(&mut self.is_frozen) {
            return;
        }
        watch.fates.handle_thawed(self.place, watch.now);
        // Timers come first: they are long due, and the tasks that read the sockets are woken by them.
        self.handle_timeout(watch);
    }

    /// Returns whether it has stopped.
    pub const fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone)
    }

    /// Returns the next datagram to put on a line; none while it copies.
    pub fn poll_outgoing(&mut self, watch: &Watch<'_>) -> Option<Outgoing> {
        if self.processor.busy_until().is_some() {
            return None;
        }
        let now = self.now(watch);
        self.ports.poll_outgoing(now)
    }

    /// Returns when [`Host::handle_timeout`] is due, in world time.
    pub fn poll_timeout(&self, watch: &Watch<'_>) -> Instant {
        if self.is_frozen {
            return Instant::NEVER;
        }
        if let Some(until) = self.processor.busy_until() {
            return self.clock.world(until).max(watch.now);
        }
        let now = self.now(watch);
        let phase = match self.phase {
            // The earlier of the two times that are still to come.
            Phase::Ending(until, passed) => {
                let ends = [until, passed].into_iter().filter(|end| *end > now);
                ends.min().unwrap_or(now)
            }
            Phase::Draining(until) => until,
            Phase::Running | Phase::Gone => Instant::NEVER,
        };
        let local = self.ports.poll_timeout();
        let local = local.min(self.subscribers.poll_timeout()).min(phase);
        let local = local.min(self.mind.poll_timeout());
        let local = local.min(self.carriage.relay().poll_timeout());
        let publishers = self.publishers.poll_timeout(self.clock, now);
        self.clock.world(local).min(publishers).max(watch.now)
    }

    /// Returns the ledger reading of each stream published here, as the control plane knows it.
    pub fn readings(&self) -> Vec<(StreamId, Reading)> {
        let streams = self.publishers.streams();
        streams
            .filter_map(|stream| Some((stream, self.mind.reading(stream)?)))
            .collect()
    }

    /// Returns whether a publisher here keeps ADUs that its sinks may still want.
    pub fn is_keeping(&self, watch: &Watch<'_>) -> bool {
        self.publishers.are_keeping(self.now(watch))
    }

    /// Handles outputs and events until nothing is left to do at this moment.
    fn settle(&mut self, watch: &mut Watch<'_>) {
        loop {
            let mut is_busy = self.handle_outputs(watch);
            is_busy |= self.handle_port_events(watch);
            is_busy |= self.pump_publishers(watch);
            is_busy |= self.advance_phase(watch);
            if !is_busy {
                break;
            }
        }
        let now = self.now(watch);
        self.processor.copy(self.carriage.take_copies(), now);
        self.subscribers.serve(&mut self.mind, now, watch);
        self.check(watch);
    }

    fn pump_publishers(&mut self, watch: &mut Watch<'_>) -> bool {
        let mut scene = Scene {
            now: self.clock.local(watch.now),
            ports: &mut self.ports,
            subscribers: &mut self.subscribers,
            watch,
        };
        self.publishers
            .pump(&mut self.mind, &mut self.carriage, &mut scene)
    }

    fn advance_phase(&mut self, watch: &Watch<'_>) -> bool {
        let now = self.now(watch);
        match self.phase {
            Phase::Ending(until, passed)
                if (until <= now || self.publishers.are_over())
                    && (passed <= now || !self.mind.is_passed()) =>
            {
                self.ports.drain(now, SHUTDOWN_GRACE);
                self.phase = Phase::Draining(now + SHUTDOWN_GRACE);
                true
            }
            Phase::Draining(until) => {
                if until <= now || self.ports.links().all(|(_, is_up)| !is_up) {
                    self.phase = Phase::Gone;
                }
                false
            }
            _ => false,
        }
    }

    /// Checks that the host is within its bounds.
    fn check(&mut self, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        if now < self.last {
            let what = format!("the clock went back from {} to {now}", self.last);
            watch.add_violation(self.place, None, what);
        }
        self.last = now;
        let records = self.mind.records();
        if records > RECORDS_MAX {
            watch.add_violation(
                self.place,
                None,
                format!("it holds {records} records, more than {RECORDS_MAX}"),
            );
        }
        let flows = 2 * ADUS_IN_FLIGHT_MAX as usize * self.ports.links().count().max(1);
        let (arriving, sent) = self.carriage.relay().in_flight();
        let flowing = arriving.max(sent);
        if flowing > flows {
            let what = format!("{flowing} ADUs are in flight, more than {flows}");
            watch.add_violation(self.place, None, what);
        }
        let mut plans: BTreeMap<StreamId, usize> = BTreeMap::new();
        for ((stream, _), part) in self.carriage.relay().parts() {
            *plans.entry(stream).or_default() += 1;
            let inside = part.packets_inside();
            if inside > INPUT_PACKETS_MAX {
                watch.add_violation(
                    self.place,
                    None,
                    format!("{inside} packets are queued in a lift"),
                );
            }
        }
        if let Some(most) = plans
            .values()
            .max()
            .filter(|most| **most > EPOCHS_PER_STREAM_MAX)
        {
            let what = format!("{most} plans of one stream are installed");
            watch.add_violation(self.place, None, what);
        }
    }
}

/// Returns a node's configured peers: all other nodes, with rate and security of the links to its neighbours.
fn peers(place: usize, watch: &Watch<'_>) -> Vec<Peer> {
    let name = &watch.names[place];
    let others = watch.world.nodes.iter().filter(|(other, _)| *other != name);
    let peer = |(other, node): (
        &thalweg_planner::model::NodeName,
        &thalweg_planner::model::Node,
    )| {
        let joins = |link: &&thalweg_planner::model::Link| {
            link.ends.contains(other) && link.ends.contains(name)
        };
        let link = watch.world.links.iter().find(joins);
        Peer {
            key: node_id(other),
            name: other.clone(),
            trusted: node.trusted,
            rate: link
                .filter(|_| !watch.is_rate_unconfigured)
                .map(|link| link.rate),
            secure: link.is_none_or(|link| link.secure),
        }
    };
    others.map(peer).collect()
}
