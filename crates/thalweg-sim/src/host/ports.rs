//! The ports of a host, one per neighbour, with redialling.
//!
//! Real nodes dial each other from both ends and keep one link. Here the end that started later dials
//! and the other listens. Ports are numbered; when a dial with a larger number arrives, the port here
//! is replaced by one that answers. So a restarted node is back at once, as it is in the field, instead
//! of after a timeout.
//!
//! *Sources.* `thalweg-net`, `endpoint/backoff.rs` (pauses between dials), `endpoint/registry.rs` (which
//! link is kept).

use std::collections::BTreeMap;

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::id::NodeId;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_link::gauge::{self, SAMPLE_EVERY, Sample, WINDOW};
use thalweg_link::hop::{CloseCode, OrderedId, SendOptions, StreamCode};
use thalweg_link::pulse::{Hearing, Pulse, Sign};
use thalweg_planner::model::{NodeName, World};

use super::{Outgoing, Parcel};
use crate::keys::node_id;
use crate::transport::{Datagram, Port, PortEvent, PortSettings, RecvId, SendId, Source};
use crate::watch::Watch;

/// The first and the longest wait between dials: as the node's.
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// The ports of a host.
#[derive(Debug)]
pub(super) struct Ports {
    neighbours: BTreeMap<usize, Neighbour>,
    /// When links are measured next, and until when measuring goes on.
    measure: Instant,
    measure_until: Instant,
}

/// A neighbour and the port to it.
#[derive(Debug)]
struct Neighbour {
    id: NodeId,
    port: Port,
    generation: u64,
    dials: bool,
    /// When to dial again.
    redial: Instant,
    backoff: Duration,
    was_up: bool,
    /// Detects whether the neighbour answers.
    pulse: Pulse,
    is_closing: bool,
}

/// Returns the indices of a node's neighbours. Parallel links count once, as two nodes keep one connection.
pub(crate) fn next_to(place: usize, world: &World) -> Vec<usize> {
    let names: Vec<_> = world.nodes.keys().collect();
    let at = |name: &NodeName| names.iter().position(|other| *other == name);
    let far = |ends: &[NodeName; 2]| match [at(&ends[0])?, at(&ends[1])?] {
        [a, b] if a == place => Some(b),
        [a, b] if b == place => Some(a),
        _ => None,
    };
    let mut all: Vec<usize> = world
        .links
        .iter()
        .filter_map(|link| far(&link.ends))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the port settings of a run.
fn settings(watch: &Watch<'_>) -> PortSettings {
    PortSettings {
        congestion: watch.congestion,
        ..PortSettings::default()
    }
}

impl Neighbour {
    fn poll_timeout(&self) -> Instant {
        let pulse = self.pulse.poll_timeout();
        self.port.poll_timeout().min(self.redial).min(pulse)
    }

    fn poll_parcel(&mut self, now: Instant) -> Option<Parcel> {
        let datagram = self.port.poll_datagram(now)?;
        Some(Parcel {
            datagram,
            generation: self.generation,
            dials: self.dials,
        })
    }

    fn drain(&mut self, now: Instant, code: CloseCode, grace: Duration) {
        self.is_closing = true;
        self.redial = Instant::NEVER;
        self.port.drain(now, code, grace);
    }

    fn sample(&mut self) -> Sample {
        let stats = self.port.stats();
        let waiting = if stats.is_full {
            stats.queued
        } else {
            DataSize::ZERO
        };
        Sample {
            // The minimum leaves out the queue that the stream itself fills, which is no reason to
            // leave the path.
            rtt: match stats.rtt_min {
                Duration::ZERO => stats.rtt,
                shortest => shortest,
            },
            latest: match stats.rtt_latest {
                Duration::ZERO => stats.rtt,
                latest => latest,
            },
            loss: gauge::weigh(stats.loss, stats.packets_sent),
            sent: stats.sent,
            waiting: waiting + self.port.take_crowded_out(),
            heard: stats.heard,
        }
    }

    /// Returns the wait before the next dial: none after a link that was up, then twice as long each
    /// time, with jitter.
    fn next_backoff(&mut self, rng: &mut SplitMix) -> Duration {
        if std::mem::take(&mut self.was_up) {
            self.backoff = BACKOFF[0];
            return Duration::ZERO;
        }
        let quarters = 3_000 + rng.next_below(2_001);
        let wait = Duration::from_nanos(self.backoff.as_nanos() / 4_000 * quarters);
        self.backoff = Duration::from_nanos(self.backoff.as_nanos() * 2).min(BACKOFF[1]);
        wait
    }
}

impl Ports {
    /// Creates a port to each neighbour.
    pub(super) fn open(
        place: usize,
        generation: u64,
        dials: &[usize],
        now: Instant,
        rng: &mut SplitMix,
        watch: &Watch<'_>,
    ) -> Self {
        let mut make = |peer: usize| {
            let dials = dials.contains(&peer);
            let settings = settings(watch);
            let port = if dials {
                Port::dial(now, settings, rng.next_u64())
            } else {
                Port::listen(settings, rng.next_u64())
            };
            let neighbour = Neighbour {
                id: node_id(&watch.names[peer]),
                port,
                generation,
                dials,
                redial: Instant::NEVER,
                backoff: BACKOFF[0],
                was_up: false,
                pulse: Pulse::default(),
                is_closing: false,
            };
            (peer, neighbour)
        };
        Self {
            neighbours: next_to(place, watch.world)
                .into_iter()
                .map(&mut make)
                .collect(),
            measure: Instant::NEVER,
            measure_until: now,
        }
    }

    /// Returns the neighbours' indices.
    pub(super) fn peers(&self) -> Vec<usize> {
        self.neighbours.keys().copied().collect()
    }

    /// Returns each neighbour's id, and whether its link is up.
    pub(super) fn links(&self) -> impl Iterator<Item = (NodeId, bool)> + '_ {
        let neighbours = self.neighbours.values();
        neighbours.map(|neighbour| (neighbour.id, neighbour.port.is_up()))
    }

    /// Returns the id of a neighbour.
    pub(super) fn id(&self, peer: usize) -> Option<NodeId> {
        self.neighbours.get(&peer).map(|neighbour| neighbour.id)
    }

    /// Returns whether a datagram comes from a newer port that dials, while the port here dials too.
    pub(super) fn is_superseded(&self, from: usize, parcel: &Parcel) -> bool {
        self.neighbours.get(&from).is_some_and(|neighbour| {
            parcel.dials && neighbour.dials && parcel.generation > neighbour.generation
        })
    }

    /// Closes the port to a neighbour for one that will answer.
    pub(super) fn close(&mut self, peer: usize, now: Instant) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.port.close(now, CloseCode::Duplicate);
        }
    }

    /// Replaces the port to a neighbour by one that answers the neighbour's port of this number.
    pub(super) fn answer(&mut self, peer: usize, generation: u64, seed: u64, watch: &Watch<'_>) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.port = Port::listen(settings(watch), seed);
            neighbour.dials = false;
            neighbour.redial = Instant::NEVER;
            neighbour.generation = generation;
        }
    }

    /// Handles a datagram.
    pub(super) fn handle_datagram(&mut self, from: usize, datagram: Datagram, now: Instant) {
        if let Some(neighbour) = self.neighbours.get_mut(&from) {
            neighbour.port.handle_datagram(now, datagram);
        }
    }

    /// Advances each port to `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        for neighbour in self.neighbours.values_mut() {
            if neighbour.redial <= now {
                neighbour.redial = Instant::NEVER;
                neighbour.port.redial(now);
            }
            if neighbour.port.poll_timeout() <= now {
                neighbour.port.handle_timeout(now);
            }
        }
    }

    pub(super) fn poll_timeout(&self) -> Instant {
        let ports = self.neighbours.values().map(Neighbour::poll_timeout);
        ports.min().unwrap_or(Instant::NEVER).min(self.measure)
    }

    /// Returns the next event of a port.
    pub(super) fn poll_event(&mut self, peer: usize) -> Option<PortEvent> {
        self.neighbours.get_mut(&peer)?.port.poll_event()
    }

    /// Returns the next datagram to put on a line.
    pub(super) fn poll_outgoing(&mut self, now: Instant) -> Option<Outgoing> {
        let mut neighbours = self.neighbours.iter_mut();
        neighbours.find_map(|(to, neighbour)| {
            let parcel = neighbour.poll_parcel(now)?;
            Some(Outgoing { to: *to, parcel })
        })
    }

    /// Returns what neighbours' answers, or the lack of them, show now.
    pub(super) fn check_pulses(&mut self, now: Instant) -> Vec<(NodeId, Hearing)> {
        let mut heard = Vec::new();
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
            let hearing = neighbour.pulse.handle_look(sign, now);
            heard.extend(hearing.map(|hearing| (neighbour.id, hearing)));
        }
        heard
    }

    /// Returns the measurements of the links that are up, if they are due.
    pub(super) fn take_samples(&mut self, now: Instant) -> Vec<(NodeId, Sample)> {
        if now < self.measure {
            return Vec::new();
        }
        self.measure = if now < self.measure_until {
            now + SAMPLE_EVERY
        } else {
            Instant::NEVER
        };
        let up = self.neighbours.values_mut();
        let up = up.filter(|neighbour| neighbour.port.is_up());
        up.map(|neighbour| (neighbour.id, neighbour.sample()))
            .collect()
    }

    /// Handles a link that has come up; returns the neighbour and its first measurement.
    pub(super) fn handle_up(&mut self, peer: usize) -> Option<(NodeId, Sample)> {
        let neighbour = self.neighbours.get_mut(&peer)?;
        neighbour.was_up = true;
        neighbour.backoff = BACKOFF[0];
        Some((neighbour.id, neighbour.sample()))
    }

    /// Handles a link that has gone down, which is dialled again; returns the neighbour.
    pub(super) fn handle_down(
        &mut self,
        peer: usize,
        now: Instant,
        rng: &mut SplitMix,
    ) -> Option<NodeId> {
        let neighbour = self.neighbours.get_mut(&peer)?;
        neighbour.pulse = Pulse::default();
        if neighbour.dials && !neighbour.is_closing {
            neighbour.redial = now + neighbour.next_backoff(rng);
        }
        Some(neighbour.id)
    }

    /// Sends a control frame. A link that is going down takes none; the controller learns of that in
    /// a moment.
    pub(super) fn send_control(&mut self, peer: usize, frame: Bytes, now: Instant) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            let _ = neighbour.port.send_control(now, frame);
        }
    }

    /// Sends an ADU; measuring goes on for one window more.
    pub(super) fn send_adu(
        &mut self,
        peer: usize,
        header: Header,
        source: Source,
        options: SendOptions,
        now: Instant,
    ) -> Option<SendId> {
        let neighbour = self.neighbours.get_mut(&peer)?;
        let send = neighbour.port.send_adu(now, header, source, options);
        neighbour.pulse.handle_sent(now);
        self.measure_until = now + WINDOW;
        self.measure = self.measure.min(now + SAMPLE_EVERY);
        Some(send)
    }

    /// Appends a chunk to an ADU that is sent while it arrives. If the link wants no more of it,
    /// reading goes on: only the sender may give the ADU up.
    pub(super) fn push_chunk(&mut self, peer: usize, send: SendId, chunk: Bytes, now: Instant) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            let _ = neighbour.port.push_chunk(now, send, chunk);
        }
    }

    pub(super) fn cancel(&mut self, peer: usize, send: SendId, code: StreamCode, now: Instant) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.port.cancel(now, send, code);
        }
    }

    pub(super) fn refuse(&mut self, peer: usize, recv: RecvId, code: StreamCode, now: Instant) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.port.refuse(now, recv, code);
        }
    }

    pub(super) fn hold(&mut self, peer: usize, recv: RecvId) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.port.hold(recv);
        }
    }

    pub(super) fn resume(&mut self, peer: usize, recv: RecvId, now: Instant) {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.port.resume(now, recv);
        }
    }

    /// Ends an ordered sequence; returns whether the link is up.
    pub(super) fn finish_ordered(&mut self, peer: usize, id: OrderedId, now: Instant) -> bool {
        let neighbour = self.neighbours.get_mut(&peer);
        let Some(neighbour) = neighbour.filter(|next| next.port.is_up()) else {
            return false;
        };
        neighbour.port.finish_ordered(now, id);
        true
    }

    /// Drains all links before the node stops.
    pub(super) fn drain(&mut self, now: Instant, grace: Duration) {
        for neighbour in self.neighbours.values_mut() {
            neighbour.drain(now, CloseCode::Shutdown, grace);
        }
    }
}
