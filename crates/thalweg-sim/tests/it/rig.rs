//! Two ports, a line in each direction between them, and a clock that jumps from event to event.

use std::collections::BTreeMap;

use bytes::Bytes;
use thalweg_base::adu::{Header, Importance};
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_link::hop::{Carriage, Outcome, SendOptions};
use thalweg_netem::{Impairment, Line};
use thalweg_sim::transport::{Datagram, Port, PortEvent, PortSettings, RecvId, SendId, Source};

/// The end that dials, and the one that listens.
pub const A: usize = 0;
pub const B: usize = 1;

/// A single link.
pub struct Rig {
    pub now: Instant,
    pub ports: [Port; 2],
    pub lines: [Line<Datagram>; 2],
    pub events: [Vec<(Instant, PortEvent)>; 2],
    arriving: BTreeMap<RecvId, (Header, Vec<u8>)>,
    /// ADUs that are whole at B: arrival time, header and payload.
    pub arrived: Vec<(Instant, Header, Vec<u8>)>,
}

impl Rig {
    /// Creates the lines and dials.
    pub fn new(impairment: Impairment, seed: u64) -> Self {
        let mut seeds = SplitMix::new(seed);
        let mut next = || seeds.next_u64();
        let settings = PortSettings::default();
        Self {
            now: Instant::ZERO,
            ports: [
                Port::dial(Instant::ZERO, settings, next()),
                Port::listen(settings, next()),
            ],
            lines: [Line::new(impairment, next()), Line::new(impairment, next())],
            events: [Vec::new(), Vec::new()],
            arriving: BTreeMap::new(),
            arrived: Vec::new(),
        }
    }

    /// Returns a rig with its link up.
    pub fn up(impairment: Impairment, seed: u64) -> Self {
        let mut rig = Self::new(impairment, seed);
        rig.run_for(Duration::from_secs(5));
        assert!(
            rig.ports[A].is_up() && rig.ports[B].is_up(),
            "{:?}",
            rig.events
        );
        rig
    }

    pub fn change(&mut self, impairment: Impairment) {
        for line in &mut self.lines {
            line.handle_change(self.now, impairment);
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.settle();
            let next = self.poll_timeout();
            if next > until {
                self.now = until;
                return;
            }
            // A time in the past means at once.
            let next = next.max(self.now);
            self.now = next;
            for port in &mut self.ports {
                if port.poll_timeout() <= next {
                    port.handle_timeout(next);
                }
            }
        }
    }

    fn poll_timeout(&self) -> Instant {
        let ports = self.ports.iter().map(Port::poll_timeout);
        let lines = self.lines.iter().map(Line::poll_timeout);
        ports.chain(lines).min().expect("there are four")
    }

    /// Moves packets until nothing more can happen at the current time.
    pub fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            for end in [A, B] {
                while let Some(datagram) = self.ports[end].poll_datagram(self.now) {
                    self.lines[end].handle_packet(self.now, datagram.line_size(), datagram);
                }
                while let Some(datagram) = self.lines[end].poll_packet(self.now) {
                    self.ports[1 - end].handle_datagram(self.now, datagram);
                    is_quiet = false;
                }
            }
            for end in [A, B] {
                while let Some(event) = self.ports[end].poll_event() {
                    is_quiet = false;
                    if end == B {
                        self.gather(&event);
                    }
                    self.events[end].push((self.now, event));
                }
            }
            if is_quiet {
                return;
            }
        }
    }

    fn gather(&mut self, event: &PortEvent) {
        match event {
            PortEvent::Adu { recv, header, .. } => {
                self.arriving.insert(*recv, (*header, Vec::new()));
            }
            PortEvent::Chunk { recv, bytes } => {
                let arriving = self.arriving.get_mut(recv).expect("a header came first");
                arriving.1.extend_from_slice(bytes);
            }
            PortEvent::End { recv } => {
                let (header, payload) = self.arriving.remove(recv).expect("a header came first");
                self.arrived.push((self.now, header, payload));
            }
            PortEvent::Failed { recv, .. } => {
                self.arriving.remove(recv);
            }
            _ => {}
        }
    }

    pub fn send(&mut self, sequence: u64, bytes: usize, options: SendOptions) -> SendId {
        self.send_important(sequence, 7, bytes, options)
    }

    pub fn send_important(
        &mut self,
        sequence: u64,
        importance: u8,
        bytes: usize,
        options: SendOptions,
    ) -> SendId {
        let source = Source::Whole(payload(sequence, bytes));
        let mut header = header(sequence);
        header.importance = Importance(importance);
        self.ports[A].send_adu(self.now, header, source, options)
    }

    /// Returns the outcomes of what A sent, in order.
    pub fn outcomes(&self) -> Vec<(SendId, Outcome)> {
        let outcome = |(_, event): &(Instant, PortEvent)| match event {
            PortEvent::Outcome { send, outcome } => Some((*send, *outcome)),
            _ => None,
        };
        self.events[A].iter().filter_map(outcome).collect()
    }

    /// Returns a hash over every event at both ends and its time.
    pub fn trace_hash(&self) -> u64 {
        let mut hash = SplitMix::new(0);
        for byte in format!("{:?}", self.events).bytes() {
            hash = SplitMix::new(hash.next_u64() ^ u64::from(byte));
        }
        hash.next_u64()
    }
}

pub fn line(rate: Bitrate) -> Impairment {
    Impairment {
        rate,
        delay: Duration::from_millis(20),
        ..Impairment::default()
    }
}

pub fn header(sequence: u64) -> Header {
    Header {
        epoch: Epoch(1),
        ..Header::new(StreamId(7), Sequence(sequence))
    }
}

pub fn payload(sequence: u64, bytes: usize) -> Bytes {
    (0..bytes)
        .map(|at| (at as u64 * 31 + sequence) as u8)
        .collect()
}

pub fn by(carriage: Carriage) -> SendOptions {
    SendOptions::new(carriage)
}
