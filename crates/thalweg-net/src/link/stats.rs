//! The measurements of a link.
//!
//! *The idea.* Transports count since the start; operators and planners need the present. A meter
//! keeps a sample of the totals every quarter of a second for the last ten seconds, and computes
//! rates over the last second and losses over all ten.
//!
//! *What it does not do.* It sends no probes: an idle link keeps its last round-trip time.

use std::collections::VecDeque;
use std::net::SocketAddr;

use iroh::TransportAddr;
use iroh::endpoint::Connection;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize, Ratio};
use thalweg_link::gauge::{self, Sample};
use thalweg_link::outbox::gate::{SLIVER_MIN, WAKE};
use thalweg_link::pulse::{LOOK, Sign};

use super::footprint::Footprint;
use super::{Link, Transport};
use crate::confined::unwrapped;
use crate::{engine, tcp};

/// Number of samples kept: ten seconds, so that one loss in a thousand packets shows on a slow
/// link.
const SAMPLES_MAX: usize = 40;

/// The window of rates.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// Measurements of a link.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkStats {
    /// Smoothed round-trip time of the path in use.
    pub rtt: Duration,
    /// Shortest sampled round-trip time of the last ten seconds.
    pub rtt_min: Duration,
    /// Share of sent packets that were lost in the last ten seconds, without MTU probes; over TCP,
    /// the share of segments retransmitted.
    pub loss: Ratio,
    /// UDP payload bytes sent since the link came up; over TCP, bytes of its sockets.
    pub sent: DataSize,
    /// The same, received.
    pub received: DataSize,
    /// Rate sent over the last second.
    pub sent_rate: Bitrate,
    /// Rate received over the last second.
    pub received_rate: Bitrate,
    /// Congestion window of the path in use; zero where the kernel does not report it.
    pub congestion_window: DataSize,
    /// All paths, the one in use first.
    pub paths: Vec<PathStats>,
    /// When the link came up.
    pub since: Instant,
    /// Estimated rate of the path in use ([`Link::sendable_rate`]).
    pub sendable: Option<Bitrate>,
    /// Whether the path accepts no more now: queued ADUs then wait for the path, not for payload
    /// still to arrive here.
    pub is_full: bool,
    /// Number of ADUs without an outcome.
    pub in_flight: u32,
    /// The memory that it takes.
    pub memory: Footprint,
    /// The transport.
    pub transport: Transport,
    /// How often a TCP connection took over from one that stalled or broke; zero over QUIC.
    pub failovers: u64,
}

/// One path to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStats {
    /// The far end.
    pub remote: Remote,
    /// Whether ADUs use it.
    pub is_selected: bool,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Bytes sent on it, counted as [`LinkStats::sent`].
    pub sent: DataSize,
    /// Bytes received on it.
    pub received: DataSize,
}

/// The far end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remote {
    /// A UDP address.
    Address(SocketAddr),
    /// A TCP address.
    Tcp(SocketAddr),
    /// The UDP address of the peer's engine.
    Engine(SocketAddr),
    /// A relay, by its URL.
    Relay(String),
    /// Any other address of iroh's.
    Other(String),
}

/// A transport's totals since the link came up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    /// Lost MTU probes of the present paths, a part of `packets_lost`.
    pub(crate) probes_lost: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) rtt: Duration,
}

/// A connection's present measurements.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) totals: Totals,
    pub(crate) congestion_window: DataSize,
    /// The path in use first.
    pub(crate) paths: Vec<PathStats>,
    pub(crate) failovers: u64,
}

/// The totals of the last ten seconds.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    samples: VecDeque<(Instant, Totals)>,
}

/// A meter's result.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) rtt_min: Duration,
    pub(crate) loss: Ratio,
    /// The number of packets that `loss` refers to.
    pub(crate) packets: u64,
    pub(crate) sent_rate: Bitrate,
    pub(crate) received_rate: Bitrate,
}

impl Meter {
    pub(crate) fn handle_sample(&mut self, now: Instant, totals: Totals) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now, totals));
    }

    /// Returns the rates and losses up to the present totals.
    pub(crate) fn read(&self, now: Instant, present: Totals) -> Reading {
        let Some((_, oldest)) = self.samples.front() else {
            return Reading::default();
        };
        // A removed path takes its probe count along but not its packet count, so the increases are
        // summed step by step.
        let counts = self.samples.iter().map(|(_, totals)| totals.probes_lost);
        let after = counts.clone().skip(1).chain([present.probes_lost]);
        let probes: u64 = counts
            .zip(after)
            .map(|(before, after)| after.saturating_sub(before))
            .sum();
        let less = |after: u64, before: u64| after.saturating_sub(before).saturating_sub(probes);
        let packets = less(present.packets_sent, oldest.packets_sent);
        let lost = less(present.packets_lost, oldest.packets_lost);
        let loss = match packets {
            0 => Ratio::ZERO,
            // May exceed 1: packets sent before the window may be found lost within it.
            _ => Ratio::new(lost as f64 / packets as f64).unwrap_or(Ratio::ONE),
        };
        let (since, before) = self
            .samples
            .iter()
            .rev()
            .find(|(at, _)| now.saturating_since(*at) >= RATE_WINDOW)
            .unwrap_or(&self.samples[0]);
        let over = now.saturating_since(*since);
        let rate =
            |present: u64, before: u64| DataSize::from_bytes(present.saturating_sub(before)) / over;
        Reading {
            rtt_min: self
                .samples
                .iter()
                .map(|(_, totals)| totals.rtt)
                // Zero means a path without a measurement yet.
                .filter(|rtt| *rtt != Duration::ZERO)
                .fold(present.rtt, Duration::min),
            loss,
            packets,
            sent_rate: rate(present.bytes_sent, before.bytes_sent),
            received_rate: rate(present.bytes_received, before.bytes_received),
        }
    }
}

/// Reads QUIC's totals.
pub(crate) fn totals_of_quic(connection: &Connection, rtt: impl FnOnce() -> Duration) -> Totals {
    let paths = connection.paths();
    let probes = paths.iter().map(|path| path.stats().lost_plpmtud_probes);
    let probes_lost = probes.sum();
    let stats = connection.stats();
    Totals {
        packets_sent: stats.sent_packets,
        packets_lost: stats.lost_packets,
        probes_lost,
        bytes_sent: stats.udp_tx.bytes,
        bytes_received: stats.udp_rx.bytes,
        rtt: rtt(),
    }
}

/// Returns the round-trip time of the path in use; lists all paths.
pub(crate) fn rtt_of_quic(connection: &Connection) -> Duration {
    let paths = connection.paths();
    let selected = paths.iter().find(iroh::endpoint::Path::is_selected);
    selected.map_or(Duration::ZERO, |path| path.rtt().into())
}

/// Reads all of QUIC's measurements.
pub(crate) fn of_quic(connection: &Connection) -> Measured {
    let (mut rtt, mut congestion_window) = (Duration::ZERO, DataSize::ZERO);
    let mut paths = Vec::new();
    for path in connection.paths().iter() {
        let stats = path.stats();
        if path.is_selected() {
            rtt = path.rtt().into();
            congestion_window = DataSize::from_bytes(stats.cwnd);
        }
        paths.push(PathStats {
            remote: remote(path.remote_addr()),
            is_selected: path.is_selected(),
            rtt: path.rtt().into(),
            sent: DataSize::from_bytes(stats.udp_tx.bytes),
            received: DataSize::from_bytes(stats.udp_rx.bytes),
        });
    }
    paths.sort_by_key(|path| !path.is_selected);
    Measured {
        totals: totals_of_quic(connection, || rtt),
        congestion_window,
        paths,
        failovers: 0,
    }
}

/// Converts a TCP session's traffic to totals.
pub(crate) fn totals_of_tcp(traffic: &tcp::Traffic) -> Totals {
    Totals {
        packets_sent: traffic.segments,
        packets_lost: traffic.segments_lost,
        probes_lost: 0,
        bytes_sent: traffic.sent.as_bytes(),
        bytes_received: traffic.received.as_bytes(),
        rtt: traffic.rtt,
    }
}

/// Reads all measurements of a TCP session and its kernel.
pub(crate) fn of_tcp(connection: &tcp::Connection) -> Measured {
    let traffic = connection.traffic();
    let path = |line: &tcp::LineTraffic| {
        Some(PathStats {
            remote: Remote::Tcp(line.remote?),
            is_selected: line.is_active,
            rtt: line.rtt,
            sent: line.sent,
            received: line.received,
        })
    };
    let mut paths: Vec<_> = traffic.lines.iter().filter_map(path).collect();
    paths.sort_by_key(|path| !path.is_selected);
    Measured {
        totals: totals_of_tcp(&traffic),
        congestion_window: traffic.window,
        paths,
        failovers: connection.carried().failovers,
    }
}

/// Reads all measurements of a connection of the engine's, which has one path.
pub(crate) fn of_engine(connection: &engine::Connection) -> Measured {
    let (all, path) = connection.stats();
    let rtt = path.rtt.into();
    Measured {
        totals: Totals {
            packets_sent: all.sent_packets,
            packets_lost: all.lost_packets,
            probes_lost: path.lost_plpmtud_probes,
            bytes_sent: all.udp_tx.bytes,
            bytes_received: all.udp_rx.bytes,
            rtt,
        },
        congestion_window: DataSize::from_bytes(path.cwnd),
        paths: vec![PathStats {
            remote: Remote::Engine(connection.remote()),
            is_selected: true,
            rtt,
            sent: DataSize::from_bytes(path.udp_tx.bytes),
            received: DataSize::from_bytes(path.udp_rx.bytes),
        }],
        failovers: 0,
    }
}

/// Reads the evidence that the peer is alive. It is called for every link every few milliseconds,
/// so it reads little, and less while nothing has been in flight for a tick.
pub(crate) fn sign(link: &Link, is_silent: bool) -> Sign {
    let reading = link.0.outgoing.reading();
    let in_flight = reading.map_or(DataSize::ZERO, |reading| reading.in_flight);
    let waiting_since = reading.and_then(|reading| reading.waiting_since);
    let waiting_since = waiting_since.map(|since| link.0.context.clock.at(since));
    let is_long = |since: Instant| since + LOOK <= link.now();
    let waits_long = in_flight != DataSize::ZERO && waiting_since.is_none_or(is_long);
    let asks = waits_long || is_silent;
    Sign {
        received: asks.then(|| link.0.connection.received()),
        in_flight,
        waiting_since,
        rtt: if asks {
            rtt(link, reading)
        } else {
            Duration::ZERO
        },
    }
}

/// Returns the round-trip time of the path in use; queries the transport only before the first
/// acknowledgement.
fn rtt(link: &Link, reading: Option<thalweg_quic::Reading>) -> Duration {
    match reading.map_or(Duration::ZERO, |reading| reading.rtt) {
        Duration::ZERO => link.0.connection.rtt(),
        known => known,
    }
}

/// Takes a sample and returns a gauge's input.
///
/// Cost    dominated by the queries of the transport
pub(crate) fn sample(link: &Link, now: Instant) -> Sample {
    let path = link.0.outgoing.reading();
    let totals = link.0.connection.totals(|| rtt(link, path));
    let reading = link.meter(|meter| {
        meter.handle_sample(now, totals);
        meter.read(now, totals)
    });
    link.check_silence(now, DataSize::from_bytes(totals.bytes_received), path);
    let waiting = link.waiting();
    let crowded_out = link.0.outgoing.take_crowded_out();
    // Checked only if something is queued: it may cost a system call.
    let is_full = waiting > DataSize::ZERO && is_full(link, totals.rtt);
    let waiting = if is_full { waiting } else { DataSize::ZERO };
    Sample {
        // The shortest: the queue that a stream itself fills is no reason to leave the path.
        rtt: match reading.rtt_min {
            Duration::ZERO => totals.rtt,
            shortest => shortest,
        },
        latest: match path.map_or(Duration::ZERO, |path| path.latest) {
            Duration::ZERO => totals.rtt,
            latest => latest,
        },
        loss: gauge::weigh(reading.loss, reading.packets),
        sent: DataSize::from_bytes(totals.bytes_sent),
        waiting: waiting + crowded_out,
        // Over TCP received bytes stand for acknowledgements: each segment acknowledges, and a peer
        // that receives nothing soon sends nothing.
        heard: path.map_or(totals.bytes_received, |path| path.heard),
    }
}

/// Reads all of a link's measurements.
pub(crate) fn read(link: &Link) -> LinkStats {
    let measured = link.0.connection.measure();
    let totals = measured.totals;
    let reading = link.meter(|meter| meter.read(link.now(), totals));
    LinkStats {
        rtt: totals.rtt,
        rtt_min: reading.rtt_min,
        loss: reading.loss,
        sent: DataSize::from_bytes(totals.bytes_sent),
        received: DataSize::from_bytes(totals.bytes_received),
        sent_rate: reading.sent_rate,
        received_rate: reading.received_rate,
        congestion_window: measured.congestion_window,
        paths: measured.paths,
        since: link.since(),
        sendable: link.sendable_rate(),
        is_full: is_full(link, totals.rtt),
        in_flight: link.in_flight(),
        memory: Footprint::of(link),
        transport: link.transport(),
        failovers: measured.failovers,
    }
}

/// Returns whether the credit is below half of what the path sends in a wake-up's time; smaller
/// credit is not used (`thalweg_link::outbox::gate`).
fn is_full(link: &Link, rtt: Duration) -> bool {
    let sliver = link.sendable_rate().unwrap_or(Bitrate::ZERO) * WAKE.min(rtt);
    let credit = link.0.outgoing.credit(link.now());
    credit.as_bytes() < sliver.max(SLIVER_MIN).as_bytes() / 2
}

fn remote(address: &TransportAddr) -> Remote {
    match address {
        TransportAddr::Ip(address) => Remote::Address(*address),
        TransportAddr::Relay(url) => Remote::Relay(url.to_string()),
        TransportAddr::Custom(wrapped) => {
            unwrapped(wrapped).map_or_else(|| Remote::Other(wrapped.to_string()), Remote::Address)
        }
        other => Remote::Other(format!("{other:?}")),
    }
}
