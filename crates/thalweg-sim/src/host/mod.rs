//! One virtual node: the node's own state machines on an event queue instead of tasks and sockets.
//!
//! All decisions are the product's: the control plane (`thalweg_control::control`), the routes and lifts
//! (`thalweg_dataplane`), the subscriber's mailbox, QUIC in virtual time ([`crate::transport`]). A host only
//! joins them, as `thalweg-node` does with threads, and imitates none of them:
//!
//! ```text
//!            publishers ─► route, lift ─► port ═══► line
//!  line ═══► port ─► admit ─► route, lift ─► port ═══► line   Controller: frames, parts to install
//!                                    └─► subscribers
//! ```
//!
//! A host runs on its own skewed clock; the watch uses world time.
//!
//! | file | what it does |
//! |---|---|
//! | `neighbour` | ports: dials, links up and down, events |
//! | `control` | executes the control plane's outputs |
//! | `carry` | the data path: arrival, forwarding, outcomes |
//! | `cast` | copies ADUs for grafted plans |
//! | `account` | counts ADUs and reports the counts to the control plane |
//! | `continuity` | silent neighbours, receipts, resending |
//! | `publisher`, `subscriber` | the world's programs |
//! | `stall` | stalled programs and frozen hosts |
//! | `withhold` | drops a share of what it should forward |

mod account;
mod carry;
mod cast;
mod continuity;
mod control;
mod hold;
mod neighbour;
mod publisher;
mod stall;
mod subscriber;
mod transit;
mod withhold;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::limits::{ADUS_IN_FLIGHT_MAX, EPOCHS_PER_STREAM_MAX, RECORDS_MAX};
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Ratio;
use thalweg_control::control::{Controller, Peer, Settings};
use thalweg_dataplane::lift::INPUT_PACKETS_MAX;
use thalweg_dataplane::mailbox::Received;
use thalweg_dataplane::packet::{POOL_BYTES_DEFAULT, Pool};
use thalweg_dataplane::replay::Replay;
use thalweg_link::hop::CloseCode;

use crate::clock::Clock;
use crate::keys::{HostKeys, Ring, node_id};
use crate::trace::{Happening, Kind};
use crate::transport::{Datagram, RecvId, SendId};
use crate::watch::Watch;

use account::Accounts;
use carry::{Intake, Part};
use neighbour::Neighbour;
pub(crate) use neighbour::next_to;
use publisher::Publisher;
use stall::{Frozen, Stalled};
use subscriber::Subscriber;
use transit::Transit;

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
    keys: HostKeys,
    controller: Controller,
    rng: SplitMix,
    neighbours: BTreeMap<usize, Neighbour>,
    parts: BTreeMap<(StreamId, Epoch), Part>,
    /// Plans grafted here, by their base plan; each with the sequence number at which its copies end, if set.
    casts: BTreeMap<(StreamId, Epoch), BTreeMap<Epoch, Option<Sequence>>>,
    /// ADUs kept for sinks that join late.
    replay: Replay,
    intakes: BTreeMap<(usize, RecvId), Intake>,
    transits: BTreeMap<(usize, SendId), Transit>,
    accounts: Accounts,
    /// What was received of each stream that ends here.
    received: BTreeMap<StreamId, Received>,
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    pool: Pool,
    phase: Phase,
    /// The share of what it should forward that it drops silently.
    withheld: Ratio,
    /// An additional subscriber that stalls, or has stalled.
    stalled: Option<Stalled>,
    /// Set while the host is frozen.
    frozen: Option<Frozen>,
    /// When links are measured next, and until when measuring goes on.
    measure: Instant,
    measure_until: Instant,
    /// The clock's reading at the last check.
    last: Instant,
    outgoing: VecDeque<Outgoing>,
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
        let mut keys = HostKeys::new(ring, id, rng.next_u64());
        let settings = Settings {
            id,
            name,
            slots: node.slots,
            peers: peers(place, watch),
            weights: watch.world.weights,
            since_1970: SINCE_1970,
        };
        let controller = Controller::new(settings, now, &mut keys);
        watch.note(Happening::at(Kind::Start, place));
        let mut host = Self {
            place,
            clock,
            keys,
            controller,
            neighbours: neighbour::open_ports(place, generation, &dials, now, &mut rng, watch),
            rng,
            parts: BTreeMap::new(),
            casts: BTreeMap::new(),
            replay: Replay::default(),
            intakes: BTreeMap::new(),
            transits: BTreeMap::new(),
            accounts: Accounts::default(),
            received: BTreeMap::new(),
            publishers: Vec::new(),
            subscribers: Vec::new(),
            pool: Pool::new(POOL_BYTES_DEFAULT),
            phase: Phase::Running,
            withheld: Ratio::ZERO,
            stalled: None,
            frozen: None,
            measure: Instant::NEVER,
            measure_until: now,
            last: now,
            outgoing: VecDeque::new(),
        };
        host.open_programs(watch);
        host.settle(watch);
        host
    }

    fn open_programs(&mut self, watch: &mut Watch<'_>) {
        let world = watch.world;
        let name = &watch.names[self.place];
        let published = world
            .streams
            .iter()
            .enumerate()
            .filter(|(_, stream)| stream.from == *name);
        let published: Vec<usize> = published.map(|(at, _)| at).collect();
        let sink =
            |stream: &thalweg_planner::model::Stream| stream.to.iter().position(|to| to == name);
        let wanted = world.streams.iter().enumerate();
        let wanted: Vec<_> = wanted
            .filter_map(|(at, stream)| Some((at, sink(stream)?)))
            .collect();
        for stream in published {
            self.publish(stream, watch);
        }
        for (stream, sink) in wanted {
            self.subscribe(stream, sink, watch);
        }
    }

    fn now(&self, watch: &Watch<'_>) -> Instant {
        self.clock.local(watch.now)
    }

    /// Handles a datagram that left a line.
    pub fn handle_parcel(&mut self, from: usize, parcel: Parcel, watch: &mut Watch<'_>) {
        if let Some(parcel) = self.keep_if_frozen(from, parcel) {
            self.receive(from, parcel, watch);
            self.settle(watch);
        }
    }

    /// Handles the timers that are due.
    pub fn handle_timeout(&mut self, watch: &mut Watch<'_>) {
        if self.frozen.is_some() {
            return;
        }
        let now = self.now(watch);
        self.advance_ports(now, watch);
        self.check_pulses(now);
        if self.accounts.poll_timeout() <= now {
            self.report_counts(now);
        }
        self.measure_links(now);
        if self.controller.poll_timeout() <= now {
            self.report_counts(now);
            self.controller.handle_timeout(now, &mut self.keys);
        }
        self.settle(watch);
    }

    /// Begins to stop: publishers end their streams, then links are drained.
    pub fn handle_stop(&mut self, watch: &mut Watch<'_>) {
        if self.phase == Phase::Running {
            watch.note(Happening::at(Kind::Stop, self.place));
            let now = self.now(watch);
            self.phase = Phase::Ending(now + PUBLISHERS_GRACE, now + LEAVE_MAX);
            watch.fates.handle_leaving(self.place, watch.now);
            self.controller.leave(now, &mut self.keys);
            self.finish_publishers(now);
            self.settle(watch);
        }
    }

    /// Ends the streams of its publishers at the end of the world's time.
    pub fn handle_end(&mut self, watch: &mut Watch<'_>) {
        self.handle_thaw(watch);
        let now = self.now(watch);
        self.finish_publishers(now);
        self.settle(watch);
    }

    /// Returns whether it has stopped.
    pub const fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Gone)
    }

    /// Returns the next datagram to put on a line.
    pub fn poll_outgoing(&mut self, watch: &Watch<'_>) -> Option<Outgoing> {
        let now = self.now(watch);
        if let Some(outgoing) = self.outgoing.pop_front() {
            return Some(outgoing);
        }
        for (to, neighbour) in &mut self.neighbours {
            if let Some(parcel) = neighbour.poll_parcel(now) {
                return Some(Outgoing { to: *to, parcel });
            }
        }
        None
    }

    /// Returns when [`Host::handle_timeout`] is due, in world time.
    pub fn poll_timeout(&self, watch: &Watch<'_>) -> Instant {
        let ports = self.neighbours.values().map(Neighbour::poll_timeout);
        let readers = self.subscribers.iter().map(Subscriber::poll_timeout);
        let phase = match self.phase {
            // The earlier of the two times that are still to come.
            Phase::Ending(until, passed) => {
                let now = self.now(watch);
                let ends = [until, passed].into_iter().filter(|end| *end > now);
                ends.min().unwrap_or(now)
            }
            Phase::Draining(until) => until,
            Phase::Running | Phase::Gone => Instant::NEVER,
        };
        let local = ports.chain(readers).min().unwrap_or(Instant::NEVER);
        let local = local.min(self.controller.poll_timeout()).min(phase);
        let local = local.min(self.accounts.poll_timeout()).min(self.measure);
        let publishers = self
            .publishers
            .iter()
            .map(|publisher| publisher.poll_timeout(self.clock, self.now(watch)));
        let publishers = publishers.min().unwrap_or(Instant::NEVER);
        self.delay_if_frozen(self.clock.world(local).min(publishers).max(watch.now))
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
        self.serve_subscribers(watch);
        self.check(watch);
    }

    fn advance_phase(&mut self, watch: &Watch<'_>) -> bool {
        let now = self.now(watch);
        match self.phase {
            Phase::Ending(until, passed)
                if (until <= now || self.publishers.iter().all(Publisher::is_over))
                    && (passed <= now || !self.controller.parts().is_passed()) =>
            {
                for neighbour in self.neighbours.values_mut() {
                    neighbour.drain(now, CloseCode::Shutdown, SHUTDOWN_GRACE);
                }
                self.phase = Phase::Draining(now + SHUTDOWN_GRACE);
                true
            }
            Phase::Draining(until) => {
                let is_drained = self
                    .neighbours
                    .values()
                    .all(|neighbour| !neighbour.port.is_up());
                if until <= now || is_drained {
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
        let records = self.controller.directory().records().count();
        if records > RECORDS_MAX {
            watch.add_violation(
                self.place,
                None,
                format!("it holds {records} records, more than {RECORDS_MAX}"),
            );
        }
        let flows = 2 * ADUS_IN_FLIGHT_MAX as usize * self.neighbours.len().max(1);
        let flowing = self.intakes.len().max(self.transits.len());
        if flowing > flows {
            let what = format!("{flowing} ADUs are in flight, more than {flows}");
            watch.add_violation(self.place, None, what);
        }
        let mut plans: BTreeMap<StreamId, usize> = BTreeMap::new();
        for ((stream, _), part) in &self.parts {
            *plans.entry(*stream).or_default() += 1;
            let inside = part
                .lift
                .as_ref()
                .map_or(0, thalweg_dataplane::lift::Lift::packets_inside);
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
