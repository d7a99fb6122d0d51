//! What a link measures of itself.
//!
//! *The idea.* Transports count since the start; people and planners ask about now. A meter keeps a sample of the totals
//! every quarter of a second for the last ten seconds, and takes rates over the last second and losses over all.
//!
//! *What it does not do.* It probes nothing: an idle link keeps the last round trip that was seen.

use std::collections::VecDeque;
use std::net::SocketAddr;

use iroh::TransportAddr;
use iroh::endpoint::Connection;
use thalweg_core::outbox::gate::{SLIVER_MIN, WAKE};
use thalweg_core::routing::gauge::{self, Sample};
use thalweg_core::routing::pulse::{LOOK, Sign};
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::{Bitrate, DataSize, Ratio};

use super::{Link, Transport};
use crate::endpoint::confined::unwrapped;
use crate::tcp;

/// Samples kept: ten seconds, so that one loss in a thousand packets shows on a slow link.
const SAMPLES_MAX: usize = 40;

/// Over how long rates are taken.
const RATE_WINDOW: Duration = Duration::from_secs(1);

/// Measurements of a link.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkStats {
    /// The smoothed round trip on the path in use.
    pub rtt: Duration,
    /// The least of the sampled round trips in the last ten seconds.
    pub rtt_min: Duration,
    /// The share of sent packets that were lost in the last ten seconds, but for those that were to find out how large packets
    /// may be; over TCP, of segments that were sent again because they had not come.
    pub loss: Ratio,
    /// UDP payload bytes sent since the link is up; over TCP, bytes of its sockets.
    pub sent: DataSize,
    /// The same, received.
    pub received: DataSize,
    /// What was sent over the last second.
    pub sent_rate: Bitrate,
    /// What was received over the last second.
    pub received_rate: Bitrate,
    /// How much may be unacknowledged on the path in use; zero where the kernel does not say.
    pub congestion_window: DataSize,
    /// Every path, the one in use first.
    pub paths: Vec<PathStats>,
    /// Since when the link is up.
    pub since: Instant,
    /// The estimate of what can be sent on the path in use ([`Link::sendable_rate`]).
    pub sendable: Option<Bitrate>,
    /// Whether the path takes nothing more now: what waits then waits for it, and not for what has yet to arrive here.
    pub is_full: bool,
    /// ADUs that have no outcome yet.
    pub in_flight: u32,
    /// What carries it.
    pub transport: Transport,
    /// How often another TCP connection took over because one stalled or broke; never over QUIC.
    pub failovers: u64,
}

/// One way to the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PathStats {
    /// Where its packets go.
    pub remote: Remote,
    /// Whether ADUs take it.
    pub is_selected: bool,
    /// Its smoothed round trip.
    pub rtt: Duration,
    /// Bytes sent on it, as the link counts them.
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
    /// A relay, by its URL.
    Relay(String),
    /// Anything else that iroh knows.
    Other(String),
}

/// Totals since the link is up, as its transport counts them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) packets_sent: u64,
    pub(crate) packets_lost: u64,
    /// Of the lost ones, on the paths that there are now, those that were to find out how large packets may be.
    pub(crate) probes_lost: u64,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) rtt: Duration,
}

/// What a connection says of itself now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) totals: Totals,
    pub(crate) congestion_window: DataSize,
    /// The one in use first.
    pub(crate) paths: Vec<PathStats>,
    pub(crate) failovers: u64,
}

/// The last ten seconds of totals.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    samples: VecDeque<(Instant, Totals)>,
}

/// What a meter says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) rtt_min: Duration,
    pub(crate) loss: Ratio,
    /// Of how many packets that is the share.
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

    /// Returns what the samples and the present totals say.
    pub(crate) fn read(&self, now: Instant, present: Totals) -> Reading {
        let Some((_, oldest)) = self.samples.front() else {
            return Reading::default();
        };
        // A path that is gone takes its probes along, and not what was lost of them: so what came to them is added up.
        let came = self.samples.iter().map(|(_, totals)| totals.probes_lost);
        let after = came.clone().skip(1).chain([present.probes_lost]);
        let probes: u64 = came
            .zip(after)
            .map(|(before, after)| after.saturating_sub(before))
            .sum();
        let less = |after: u64, before: u64| after.saturating_sub(before).saturating_sub(probes);
        let packets = less(present.packets_sent, oldest.packets_sent);
        let lost = less(present.packets_lost, oldest.packets_lost);
        let loss = match packets {
            0 => Ratio::ZERO,
            // Packets sent before the window may be found lost within it.
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
                // Zero is that of a path that was not measured yet.
                .filter(|rtt| *rtt != Duration::ZERO)
                .fold(present.rtt, Duration::min),
            loss,
            packets,
            sent_rate: rate(present.bytes_sent, before.bytes_sent),
            received_rate: rate(present.bytes_received, before.bytes_received),
        }
    }
}

/// Reads what QUIC counts.
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

/// Reads the round trip of the path in use, for which all paths are listed.
pub(crate) fn rtt_of_quic(connection: &Connection) -> Duration {
    let paths = connection.paths();
    let selected = paths.iter().find(iroh::endpoint::Path::is_selected);
    selected.map_or(Duration::ZERO, |path| path.rtt().into())
}

/// Reads what QUIC says.
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

/// Returns what of a session's traffic is kept.
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

/// Reads what a session over TCP and its kernel say.
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

/// Reads whether the peer answers: asked of every link each few milliseconds, so no more is read than that, and less while
/// nothing is to be answered, or an answer came since the look before.
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

/// Returns the round trip of the path in use; the transport is asked only where nothing was acknowledged yet.
fn rtt(link: &Link, reading: Option<thalweg_quic::Reading>) -> Duration {
    match reading.map_or(Duration::ZERO, |reading| reading.rtt) {
        Duration::ZERO => link.0.connection.rtt(),
        known => known,
    }
}

/// Takes a sample, and reads what a gauge wants to know.
///
/// To ask a transport costs more than all that is made of its answer.
pub(crate) fn sample(link: &Link, now: Instant) -> Sample {
    let path = link.0.outgoing.reading();
    let totals = link.0.connection.totals(|| rtt(link, path));
    let reading = link.meter(|meter| {
        meter.handle_sample(now, totals);
        meter.read(now, totals)
    });
    link.listen(now, DataSize::from_bytes(totals.bytes_received), path);
    let waiting = link.waiting();
    let crowded_out = link.0.outgoing.take_crowded_out();
    // To ask whether there is room may cost a question to the kernel.
    let is_full = waiting > DataSize::ZERO && is_full(link, totals.rtt);
    let waiting = if is_full { waiting } else { DataSize::ZERO };
    Sample {
        // The queue that a stream itself fills is no reason to leave the way.
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
        // Over TCP nothing comes without acknowledging what it follows, and a peer that hears nothing soon says nothing new.
        heard: path.map_or(totals.bytes_received, |path| path.heard),
    }
}

/// Reads everything about a link.
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
        transport: link.transport(),
        failovers: measured.failovers,
    }
}

/// Room is used once it is half of what is sent in the time of a wake-up (`core::outbox::gate`); before that it is none.
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
