//! Several links through one bottleneck: who gets how much of it, and how long the queue is.
//!
//! *The idea.* What a controller does to others shows only where queues are shared, and a world's links share none. So:
//!
//! ```text
//! sender 1 ─┐                                          ┌─ delay 1 ─► receiver 1 ─ delay 1 ─► sender 1
//! sender 2 ─┼─► bottleneck: rate, drop-tail queue, loss ┼─ delay 2 ─► receiver 2 ─ delay 2 ─► sender 2
//! sender 3 ─┘                                          └─ delay 3 ─► receiver 3 ─ delay 3 ─► sender 3
//! ```
//!
//! Senders and receivers are the node's own QUIC ([`Port`]), each sender with a congestion controller of its own, sending
//! all it may or so much a frame. The way back carries acknowledgements only and is never full.
//!
//! *What it does not do.* It runs no nodes: no plans, no routes, no control frames but the greeting.
//!
//! *Sources.* The dumbbell of ns-2 and of nearly every paper on congestion control since.

use bytes::Bytes;
use thalweg_core::adu::Header;
use thalweg_core::congestion::Algorithm;
use thalweg_core::hop::{Carriage, SendOptions};
use thalweg_core::id::{Epoch, Sequence, StreamId};
use thalweg_core::line::{Impairment, Line};
use thalweg_core::random::SplitMix;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::{Bitrate, DataSize};

use crate::transport::{Datagram, Port, PortEvent, PortSettings, Source};

/// ADUs that a sender of bulk keeps queued, and their size: more than any window.
const BULK_ADUS: usize = 6;
const BULK_ADU: DataSize = DataSize::from_kib(512);

/// How often what is sent by frames is sent: thirty times a second.
const FRAME_INTERVAL: Duration = Duration::from_micros(33_333);

/// Far above every bottleneck: what a way takes that is never full.
const OPEN_RATE: Bitrate = Bitrate::from_kbps(100_000_000);

/// What is sent from one sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// As much as goes.
    Bulk,
    /// So much in frames, thirty a second.
    Frames(Bitrate),
}

/// One sender, and the way to its receiver and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Its congestion controller.
    pub congestion: Algorithm,
    /// From sender to receiver and back, without the bottleneck's queue.
    pub rtt: Duration,
    /// When it begins to send.
    pub starts: Instant,
    /// When it ceases.
    pub ends: Instant,
    /// What it sends.
    pub load: Load,
}

/// What a flow did in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// What came out of the bottleneck of each flow, headers included.
    pub carried: Vec<DataSize>,
    /// How long each packet waited in the bottleneck's queue.
    pub waits: Vec<Duration>,
    /// Packets that found the queue full.
    pub overflowed: u64,
}

/// Links through a bottleneck, as they run.
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
    /// Returns a flow that sends all it may from the start to the end.
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
    /// Lays the lines and dials; `bottleneck`'s own delay lies before those of the flows.
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

    /// Returns the time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Changes the bottleneck, from now on.
    pub fn change(&mut self, impairment: Impairment) {
        self.bottleneck.handle_change(self.now, impairment);
    }

    /// Changes what a flow sends, from now on.
    pub fn load(&mut self, flow: usize, load: Load) {
        self.ends[flow].flow.load = load;
    }

    /// Returns the sending port of a flow.
    pub fn sender(&mut self, flow: usize) -> &mut Port {
        &mut self.ends[flow].sender
    }

    /// Plays for so long, and returns what happened meanwhile.
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

    /// Lets everything happen that can happen now.
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

    /// Gives the sender what it has to send now.
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

    /// Moves what can be moved now; returns whether nothing happened.
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

    /// Returns what all flows were carried.
    pub fn total(&self) -> DataSize {
        self.carried.iter().copied().sum()
    }

    /// Returns the wait that this share of packets did not exceed.
    pub fn wait(&self, share: f64) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        let last = waits.len().saturating_sub(1);
        let at = (last as f64 * share) as usize;
        waits.get(at).copied().unwrap_or(Duration::ZERO)
    }
}
