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
use thalweg_base::id::NodeId;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_base::wire::control::{self, Message, accounted};
use thalweg_link::gauge::{self, SAMPLE_EVERY, Sample, WINDOW};
use thalweg_link::hop::CloseCode;
use thalweg_link::pulse::Pulse;
use thalweg_planner::model::{NodeName, World};

use super::{Host, Parcel};
use crate::keys::node_id;
use crate::trace::{Happening, Kind};
use crate::transport::{Port, PortEvent, PortSettings};
use crate::watch::Watch;

/// The first and the longest wait between dials: as the node's.
const BACKOFF: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

/// A neighbour and the port to it.
#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) id: NodeId,
    pub(super) port: Port,
    generation: u64,
    dials: bool,
    /// When to dial again.
    redial: Instant,
    backoff: Duration,
    was_up: bool,
    /// Detects whether the neighbour answers.
    pub(super) pulse: Pulse,
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

/// Creates a port to each neighbour.
pub(super) fn open_ports(
    place: usize,
    generation: u64,
    dials: &[usize],
    now: Instant,
    rng: &mut SplitMix,
    watch: &Watch<'_>,
) -> BTreeMap<usize, Neighbour> {
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
    next_to(place, watch.world)
        .into_iter()
        .map(&mut make)
        .collect()
}

/// Returns the port settings of a run.
fn settings(watch: &Watch<'_>) -> PortSettings {
    PortSettings {
        congestion: watch.congestion,
        ..PortSettings::default()
    }
}

impl Neighbour {
    pub(super) fn poll_timeout(&self) -> Instant {
        let pulse = self.pulse.poll_timeout();
        self.port.poll_timeout().min(self.redial).min(pulse)
    }

    pub(super) fn poll_parcel(&mut self, now: Instant) -> Option<Parcel> {
        let datagram = self.port.poll_datagram(now)?;
        Some(Parcel {
            datagram,
            generation: self.generation,
            dials: self.dials,
        })
    }

    pub(super) fn drain(&mut self, now: Instant, code: CloseCode, grace: Duration) {
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

impl Host {
    /// Handles a datagram. If a newer port dials, it replaces a dialling port here.
    pub(super) fn receive(&mut self, from: usize, parcel: Parcel, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let Some(neighbour) = self.neighbours.get_mut(&from) else {
            return;
        };
        if parcel.dials && neighbour.dials && parcel.generation > neighbour.generation {
            neighbour.port.close(now, CloseCode::Duplicate);
            self.drain_events(from, watch);
            let seed = self.rng.next_u64();
            let Some(neighbour) = self.neighbours.get_mut(&from) else {
                return;
            };
            neighbour.port = Port::listen(settings(watch), seed);
            neighbour.dials = false;
            neighbour.redial = Instant::NEVER;
            neighbour.generation = parcel.generation;
        }
        if let Some(neighbour) = self.neighbours.get_mut(&from) {
            neighbour.port.handle_datagram(now, parcel.datagram);
        }
    }

    /// Advances each port to `now`.
    pub(super) fn advance_ports(&mut self, now: Instant, _watch: &mut Watch<'_>) {
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

    /// Reports link measurements to the control plane, if they are due.
    pub(super) fn measure_links(&mut self, now: Instant) {
        if now < self.measure {
            return;
        }
        self.measure = if now < self.measure_until {
            now + SAMPLE_EVERY
        } else {
            Instant::NEVER
        };
        let up = self.neighbours.values_mut();
        for neighbour in up.filter(|neighbour| neighbour.port.is_up()) {
            let (id, sample) = (neighbour.id, neighbour.sample());
            self.controller
                .handle_link_sample(id, (now, sample), now, &mut self.keys);
        }
    }

    /// Extends measuring by one window because something is sent.
    pub(super) fn wake_gauges(&mut self, now: Instant) {
        self.measure_until = now + WINDOW;
        self.measure = self.measure.min(now + SAMPLE_EVERY);
    }

    /// Handles the events of all ports; returns whether there were any.
    pub(super) fn handle_port_events(&mut self, watch: &mut Watch<'_>) -> bool {
        let peers: Vec<usize> = self.neighbours.keys().copied().collect();
        let mut any = false;
        for peer in peers {
            any |= self.drain_events(peer, watch);
        }
        any
    }

    fn drain_events(&mut self, peer: usize, watch: &mut Watch<'_>) -> bool {
        let mut any = false;
        while let Some(event) = self
            .neighbours
            .get_mut(&peer)
            .and_then(|neighbour| neighbour.port.poll_event())
        {
            any = true;
            self.handle_port_event(peer, event, watch);
        }
        any
    }

    fn handle_port_event(&mut self, peer: usize, event: PortEvent, watch: &mut Watch<'_>) {
        match event {
            PortEvent::Up => self.link_up(peer, watch),
            PortEvent::Down { cause } => {
                watch
                    .trace
                    .say(watch.now, &watch.names[self.place], || cause.to_string());
                self.link_down(peer, watch);
            }
            PortEvent::Control(frame) => self.handle_control(peer, &frame, watch),
            PortEvent::Adu {
                recv,
                header,
                payload_bytes,
            } => self.handle_adu(peer, recv, header, payload_bytes, watch),
            PortEvent::Chunk { recv, bytes } => self.handle_chunk(peer, recv, &bytes, watch),
            PortEvent::End { recv } => self.handle_whole(peer, recv, watch),
            PortEvent::Failed { recv, cause } => self.handle_failed(peer, recv, cause, watch),
            PortEvent::Outcome { send, outcome } => self.handle_outcome(peer, send, outcome, watch),
            PortEvent::OrderedEnded { id, .. } => self.handle_flushed(peer, id),
            // Events of a closing peer and unknown ones need no action: the connection ends by itself.
            _ => {}
        }
    }

    fn link_up(&mut self, peer: usize, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        watch.note(Happening::at(Kind::LinkUp, self.place).with(peer));
        let Some(neighbour) = self.neighbours.get_mut(&peer) else {
            return;
        };
        neighbour.was_up = true;
        neighbour.backoff = BACKOFF[0];
        let (id, sample) = (neighbour.id, neighbour.sample());
        self.controller
            .handle_link_up(id, sample, now, &mut self.keys);
    }

    fn link_down(&mut self, peer: usize, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        watch.note(Happening::at(Kind::LinkDown, self.place).with(peer));
        watch.fates.handle_down(self.place, peer, watch.now);
        let Some(neighbour) = self.neighbours.get_mut(&peer) else {
            return;
        };
        neighbour.pulse = Pulse::default();
        if neighbour.dials && !neighbour.is_closing {
            neighbour.redial = now + neighbour.next_backoff(&mut self.rng);
        }
        let id = neighbour.id;
        self.controller.handle_link_down(id, now, &mut self.keys);
        self.forget_flushes(peer);
    }

    fn handle_control(&mut self, peer: usize, frame: &Bytes, watch: &Watch<'_>) {
        let now = self.now(watch);
        if self.withholds_all() && is_to_pass_on(frame, self.controller.id()) {
            return;
        }
        if let Some(neighbour) = self.neighbours.get(&peer) {
            let id = neighbour.id;
            if accounted(frame).is_some() {
                self.report_counts(now);
            }
            self.controller.handle_frame(id, frame, now, &mut self.keys);
        }
    }
}

/// Returns whether a control frame is for another node, or reports what another node received.
fn is_to_pass_on(frame: &[u8], own: NodeId) -> bool {
    match control::decode(frame) {
        Ok(Message::Routed(routed)) => routed.route.last() != Some(&own),
        Ok(Message::Record { .. } | Message::Grant(_) | Message::Revocation(_)) | Err(_) => false,
        Ok(_) => true,
    }
}
