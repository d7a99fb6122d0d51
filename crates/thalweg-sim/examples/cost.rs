//! Measures the processor time of one simulated second over three hops:
//! `cargo run --release -p thalweg-sim --example cost`.
//!
//! 25 ADUs a second, 1 Mbit/s in all, cross two cut-through relays over lines of 2 Mbit/s and 20 ms
//! with 1 % loss.

use std::collections::BTreeMap;

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, Ratio};
use thalweg_link::hop::{BodyError, Carriage, SendOptions, StreamCode};
use thalweg_netem::{Impairment, Line};
use thalweg_sim::transport::{Datagram, Port, PortEvent, PortSettings, RecvId, SendId, Source};

const HOPS: usize = 3;
const SECONDS: u64 = 60;
const FRAME_BYTES: usize = 5_000;
const FRAME_GAP: Duration = Duration::from_millis(40);
const OPTIONS: SendOptions = SendOptions::new(Carriage::Stream);

struct Hop {
    ports: [Port; 2],
    lines: [Line<Datagram>; 2],
}

struct Chain {
    now: Instant,
    hops: Vec<Hop>,
    /// For each hop, the ADUs that the relay behind it is forwarding.
    passing: Vec<BTreeMap<RecvId, SendId>>,
    arrived: u64,
    steps: u64,
}

fn main() {
    let weather = Impairment {
        rate: Bitrate::from_kbps(2_000),
        delay: Duration::from_millis(20),
        loss: Ratio::new(0.01).expect("a share"),
        ..Impairment::default()
    };
    let hop = |at: u64| Hop {
        ports: [
            Port::dial(Instant::ZERO, PortSettings::default(), 10 * at + 1),
            Port::listen(PortSettings::default(), 10 * at + 2),
        ],
        lines: [3, 4].map(|line| Line::new(weather, 10 * at + line)),
    };
    let mut chain = Chain {
        now: Instant::ZERO,
        hops: (0..HOPS as u64).map(hop).collect(),
        passing: vec![BTreeMap::new(); HOPS],
        arrived: 0,
        steps: 0,
    };
    chain.run_for(Duration::from_secs(1));
    #[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
    let began = std::time::Instant::now();
    let payload = Bytes::from(vec![7; FRAME_BYTES]);
    let frames = SECONDS * 1_000 / FRAME_GAP.as_millis();
    for sequence in 0..frames {
        let mut header = Header::new(StreamId(1), Sequence(sequence));
        header.deadline = chain.now + Duration::from_millis(500);
        let source = Source::Whole(payload.clone());
        chain.hops[0].ports[0].send_adu(chain.now, header, source, OPTIONS);
        chain.run_for(FRAME_GAP);
    }
    let millis = began.elapsed().as_secs_f64() * 1e3;
    let packets: u64 = chain
        .hops
        .iter()
        .flat_map(|hop| &hop.lines)
        .map(|line| line.counters().offered)
        .sum();
    println!(
        "{:.2} ms a simulated second; {} of {frames} ADUs arrived; {packets} packets, {} steps of the clock",
        millis / SECONDS as f64,
        chain.arrived,
        chain.steps,
    );
}

impl Chain {
    fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            while self.move_packets() | self.pass_on() {}
            let next = self.poll_timeout().max(self.now);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            self.steps += 1;
            for port in self.hops.iter_mut().flat_map(|hop| &mut hop.ports) {
                if port.poll_timeout() <= next {
                    port.handle_timeout(next);
                }
            }
        }
    }

    fn poll_timeout(&self) -> Instant {
        let of = |hop: &Hop| {
            let [a, b] = &hop.ports;
            let [there, back] = &hop.lines;
            let ports = a.poll_timeout().min(b.poll_timeout());
            ports.min(there.poll_timeout()).min(back.poll_timeout())
        };
        self.hops.iter().map(of).min().unwrap_or(Instant::NEVER)
    }

    fn move_packets(&mut self) -> bool {
        let now = self.now;
        let mut has_moved = false;
        for hop in &mut self.hops {
            for end in 0..2 {
                while let Some(datagram) = hop.ports[end].poll_datagram(now) {
                    hop.lines[end].handle_packet(now, datagram.line_size(), datagram);
                }
                while let Some(datagram) = hop.lines[end].poll_packet(now) {
                    hop.ports[1 - end].handle_datagram(now, datagram);
                    has_moved = true;
                }
            }
        }
        has_moved
    }

    fn pass_on(&mut self) -> bool {
        let mut has_moved = false;
        for at in 0..HOPS {
            while self.hops[at].ports[0].poll_event().is_some() {}
            while let Some(event) = self.hops[at].ports[1].poll_event() {
                has_moved = true;
                self.handle(at, event);
            }
        }
        has_moved
    }

    fn handle(&mut self, at: usize, event: PortEvent) {
        let Some(next) = self.hops.get_mut(at + 1) else {
            self.arrived += u64::from(matches!(event, PortEvent::End { .. }));
            return;
        };
        let (port, passing) = (&mut next.ports[0], &mut self.passing[at]);
        match event {
            PortEvent::Adu {
                recv,
                header,
                payload_bytes,
            } => {
                let source = Source::Arriving(payload_bytes);
                passing.insert(recv, port.send_adu(self.now, header, source, OPTIONS));
            }
            PortEvent::Chunk { recv, bytes } => {
                port.push_chunk(self.now, passing[&recv], bytes);
            }
            PortEvent::End { recv } => {
                passing.remove(&recv);
            }
            PortEvent::Failed { recv, cause } => {
                if let Some(send) = passing.remove(&recv) {
                    let code = match cause {
                        BodyError::Expired => StreamCode::Expired,
                        _ => StreamCode::Cancelled,
                    };
                    port.cancel(self.now, send, code);
                }
            }
            _ => {}
        }
    }
}
