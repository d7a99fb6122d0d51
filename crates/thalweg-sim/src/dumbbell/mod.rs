//! Several links through one bottleneck: throughput per flow and queueing delay.
//!
//! A controller's effect on others shows only in a shared queue, and the links of a world share none. Hence:
//!
//! ```text
//! sender 1 ─┐                                          ┌─ delay 1 ─► receiver 1 ─ delay 1 ─► sender 1
//! sender 2 ─┼─► bottleneck: rate, drop-tail queue, loss ┼─ delay 2 ─► receiver 2 ─ delay 2 ─► sender 2
//! sender 3 ─┘                                          └─ delay 3 ─► receiver 3 ─ delay 3 ─► sender 3
//! ```
//!
//! Senders and receivers run the node's own QUIC ([`Port`]). Each sender has its own congestion
//! controller and sends either bulk or frames at a fixed rate. The return path carries only
//! acknowledgements and never fills. No node runs here: no plans, no routes, no control frames except
//! the hello.
//!
//! *Sources.* The dumbbell topology of ns-2, used by most papers on congestion control since.

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};
use thalweg_link::congestion::Algorithm;
use thalweg_link::hop::{Carriage, SendOptions};
use thalweg_netem::{Impairment, Line};

use crate::transport::{Datagram, Port, PortEvent, PortSettings, Source};

/// Number and size of the ADUs that a bulk sender keeps queued: more than any window.
const BULK_ADUS: usize = 6;
const BULK_ADU: DataSize = DataSize::from_kib(512);

/// Interval between frames: thirty a second.
const FRAME_INTERVAL: Duration = Duration::from_micros(33_333);

/// Rate of the uncongested lines, far above every bottleneck.
const OPEN_RATE: Bitrate = Bitrate::from_kbps(100_000_000);

/// The traffic of one sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Always more than the window admits.
    Bulk,
    /// Frames at this total rate, thirty a second.
    Frames(Bitrate),
}

/// One sender, and its path to the receiver and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// The congestion controller.
    pub congestion: Algorithm,
    /// Round-trip time without the bottleneck's queueing delay.
    pub rtt: Duration,
    /// When the flow starts to send.
    pub starts: Instant,
    /// When the flow stops.
    pub ends: Instant,
    /// The traffic it sends.
    pub load: Load,
}

/// The bottleneck's counters for one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Bytes of each flow that left the bottleneck, headers included.
    pub carried: Vec<DataSize>,
    /// Queueing delay of each packet in the bottleneck.
    pub waits: Vec<Duration>,
    /// Packets dropped because the queue was full.
    pub overflowed: u64,
}

/// A running simulation of links through a bottleneck.
#[derive(Debug)]
pub struct Dumbbell {
    now: Instant,
    bottleneck: Line<(usize, Instant, Datagram)>,
    ends: Vec<Pair>,
    tally: Tally,
    overflowed: u64,
}

#[derive(Debug)]
struct Pair {
    flow: Flow,
    sender: Port,
    receiver: Port,
    there: Line<Datagram>,
    back: Line<Datagram>,
    outstanding: usize,
    next_frame: Instant,
    sequence: u64,
}

impl Flow {
    /// Returns a bulk flow without an end.
    pub fn bulk(congestion: Algorithm, rtt: Duration) -> Self {
        Self {
            congestion,
            rtt,
            starts: Instant::ZERO,
            ends: Instant::NEVER,
            load: Load::Bulk,
        }
    }
}

impl Dumbbell {
    /// Creates the lines and dials all flows. The bottleneck's own delay adds to the flows' RTTs.
    pub fn new(bottleneck: Impairment, flows: &[Flow], seed: u64) -> Self {
        let mut seeds = SplitMix::new(seed);
        let bottleneck = Line::new(bottleneck, seeds.next_u64());
        let ends = flows.iter().map(|flow| Pair::new(*flow, &mut seeds));
        Self {
            now: Instant::ZERO,
            bottleneck,
            ends: ends.collect(),
            tally: Tally::new(flows.len()),
            overflowed: 0,
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Changes the bottleneck from now on.
    pub fn change(&mut self, impairment: Impairment) {
        self.bottleneck.handle_change(self.now, impairment);
    }

    /// Changes a flow's traffic from now on.
    pub fn load(&mut self, flow: usize, load: Load) {
        self.ends[flow].flow.load = load;
    }

    /// Returns the sending port of a flow.
    pub fn sender(&mut self, flow: usize) -> &mut Port {
        &mut self.ends[flow].sender
    }

    /// Runs for `time` and returns the counters of that interval.
    pub fn run_for(&mut self, time: Duration) -> Tally {
        let until = self.now + time;
        loop {
            self.settle();
            let next = self.poll_timeout();
            if next > until {
                self.now = until;
                break;
            }
            self.now = next.max(self.now);
            for pair in &mut self.ends {
                for port in [&mut pair.sender, &mut pair.receiver] {
                    if port.poll_timeout() <= self.now {
                        port.handle_timeout(self.now);
                    }
                }
            }
        }
        let overflowed = self.bottleneck.counters().overflowed;
        self.tally.overflowed = overflowed - self.overflowed;
        self.overflowed = overflowed;
        std::mem::replace(&mut self.tally, Tally::new(self.ends.len()))
    }

    fn poll_timeout(&self) -> Instant {
        let of = |pair: &Pair| pair.poll_timeout(self.now);
        let ends = self.ends.iter().map(of).min().unwrap_or(Instant::NEVER);
        ends.min(self.bottleneck.poll_timeout())
    }

    /// Moves packets until nothing more can happen at the current time.
    fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            for (at, pair) in self.ends.iter_mut().enumerate() {
                pair.feed(self.now);
                while let Some(datagram) = pair.sender.poll_datagram(self.now) {
                    let size = datagram.line_size();
                    let content = (at, self.now, datagram);
                    self.bottleneck.handle_packet(self.now, size, content);
                }
            }
            while let Some((at, sent, datagram)) = self.bottleneck.poll_packet(self.now) {
                let size = datagram.line_size();
                let Impairment { rate, delay, .. } = *self.bottleneck.impairment();
                let unqueued = sent + delay + rate.time_for(size);
                self.tally.waits.push(self.now.saturating_since(unqueued));
                let carried = &mut self.tally.carried[at];
                *carried += size;
                self.ends[at].there.handle_packet(self.now, size, datagram);
            }
            for pair in &mut self.ends {
                is_quiet &= pair.settle(self.now);
            }
            if is_quiet {
                return;
            }
        }
    }
}

impl Pair {
    fn new(flow: Flow, seeds: &mut SplitMix) -> Self {
        let settings = PortSettings {
            congestion: flow.congestion,
            ..PortSettings::default()
        };
        let way = Impairment {
            rate: OPEN_RATE,
            delay: Duration::from_nanos(flow.rtt.as_nanos() / 2),
            queue: DataSize::from_kib(1 << 20),
            ..Impairment::default()
        };
        Self {
            flow,
            sender: Port::dial(Instant::ZERO, settings, seeds.next_u64()),
            receiver: Port::listen(settings, seeds.next_u64()),
            there: Line::new(way, seeds.next_u64()),
            back: Line::new(way, seeds.next_u64()),
            outstanding: 0,
            next_frame: flow.starts,
            sequence: 0,
        }
    }

    fn is_sending(&self, now: Instant) -> bool {
        self.sender.is_up() && self.flow.starts <= now && now < self.flow.ends
    }

    fn poll_timeout(&self, now: Instant) -> Instant {
        let frame = match self.flow.load {
            Load::Frames(_) if self.is_sending(self.next_frame.max(now)) => self.next_frame,
            Load::Bulk if now < self.flow.starts => self.flow.starts,
            _ => Instant::NEVER,
        };
        [
            frame,
            self.sender.poll_timeout(),
            self.receiver.poll_timeout(),
            self.there.poll_timeout(),
            self.back.poll_timeout(),
        ]
        .into_iter()
        .min()
        .unwrap_or(Instant::NEVER)
    }

    /// Queues the ADUs that are due now at the sender.
    fn feed(&mut self, now: Instant) {
        if !self.is_sending(now) {
            return;
        }
        match self.flow.load {
            Load::Bulk => {
                while self.outstanding < BULK_ADUS {
                    self.send(now, BULK_ADU);
                }
            }
            Load::Frames(rate) => {
                self.next_frame = self.next_frame.max(self.flow.starts);
                while self.next_frame <= now {
                    self.send(now, rate * FRAME_INTERVAL);
                    self.next_frame = self.next_frame + FRAME_INTERVAL;
                }
            }
        }
    }

    fn send(&mut self, now: Instant, size: DataSize) {
        self.sequence += 1;
        self.outstanding += 1;
        let header = Header {
            epoch: Epoch(1),
            ..Header::new(StreamId(1), Sequence(self.sequence))
        };
        let bytes = usize::try_from(size.as_bytes()).unwrap_or(usize::MAX);
        let source = Source::Whole(Bytes::from(vec![0; bytes]));
        let options = SendOptions::new(Carriage::Stream);
        self.sender.send_adu(now, header, source, options);
    }

    /// Moves packets of this flow; returns whether nothing happened.
    fn settle(&mut self, now: Instant) -> bool {
        let mut is_quiet = true;
        while let Some(datagram) = self.there.poll_packet(now) {
            self.receiver.handle_datagram(now, datagram);
            is_quiet = false;
        }
        while let Some(datagram) = self.receiver.poll_datagram(now) {
            self.back.handle_packet(now, datagram.line_size(), datagram);
        }
        while let Some(datagram) = self.back.poll_packet(now) {
            self.sender.handle_datagram(now, datagram);
            is_quiet = false;
        }
        while let Some(event) = self.sender.poll_event() {
            is_quiet = false;
            if matches!(event, PortEvent::Outcome { .. }) {
                self.outstanding = self.outstanding.saturating_sub(1);
            }
        }
        while self.receiver.poll_event().is_some() {
            is_quiet = false;
        }
        is_quiet
    }
}

impl Tally {
    fn new(flows: usize) -> Self {
        Self {
            carried: vec![DataSize::ZERO; flows],
            ..Self::default()
        }
    }

    /// Returns the bytes of all flows together.
    pub fn total(&self) -> DataSize {
        self.carried.iter().copied().sum()
    }

    /// Returns the given quantile (0 to 1) of the queueing delays; zero without packets.
    pub fn wait(&self, share: f64) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let last = waits.len().saturating_sub(1);
        let at = (last as f64 * share) as usize;
        waits.get(at).copied().unwrap_or(Duration::ZERO)
    }
}
