//! Runs an engine among hostile peers on events decoded from bytes.
//!
//! The peers are engines too, and the bytes decide what becomes of each datagram between them: it is
//! delivered, late or out of order, lost, doubled, damaged, or comes from another address. They also
//! decide when a peer dials, with a grant or without, opens streams without end, writes, reads, resets,
//! never acknowledges, and closes, also while a lot goes to several connections; and how time passes.
//! What the engine holds stays bounded at each step. At the end every connection ends, nothing is held,
//! and a peer that keeps to the protocol is served.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::wire::port;
use thalweg_link::hop::sender::{Owner, Transport as _};
use thalweg_link::hop::{CloseCode, OrderedId, StreamCode};
use thalweg_net::engine::bare::{self, Bare, Dialling};
use thalweg_net::engine::{Arriving, Connection, Sending};
use thalweg_net::{Admission, Identity};

use super::numbers::Numbers;

/// The engine under test, and its peers; the last has no grant.
const ENGINES: usize = 4;

/// Datagrams on their way at a time; the oldest is lost beyond.
const ON_THE_WAY: usize = 256;

/// Connections of one key, pending handshakes and timers of one connection, as the engine bounds them.
const PER_KEY: usize = 4;
const PENDING: usize = 256;
const TIMERS: usize = 10_000;

struct Run {
    engines: Vec<Bare>,
    keys: Vec<NodeId>,
    way: VecDeque<Packet>,
    connections: Vec<Vec<Connection>>,
    dials: Vec<(usize, Dialling)>,
    arriving: Vec<Arriving>,
}

#[derive(Clone)]
struct Packet {
    from: SocketAddr,
    to: SocketAddr,
    bytes: Vec<u8>,
}

/// Runs the events that the bytes encode.
pub fn run(bytes: &[u8]) {
    if let Some(told) = port::decode(bytes) {
        assert_eq!(port::encode(told), bytes);
    }
    let mut numbers = Numbers::new(bytes);
    let mut run = Run::new();
    while !numbers.is_empty() {
        run.step(&mut numbers);
        run.turn();
        run.check();
    }
    run.drain();
    run.serve();
}

fn address(engine: usize) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, engine as u8), 7400).into()
}

/// Polls a future once.
fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

impl Run {
    fn new() -> Self {
        let identities: Vec<_> = (1..=ENGINES as u8)
            .map(|seed| Identity::from_seed([seed; 32]))
            .collect();
        let keys: Vec<_> = identities.iter().map(Identity::id).collect();
        let granted = Admission::of(keys[1..ENGINES - 1].iter().copied());
        let engines = identities.into_iter().enumerate().map(|(place, identity)| {
            let admission = match place {
                0 => granted.clone(),
                _ => Admission::of([keys[0]]),
            };
            Bare::new(identity, admission, address(place)).expect("there are engines here")
        });
        Self {
            engines: engines.collect(),
            keys,
            way: VecDeque::new(),
            connections: vec![Vec::new(); ENGINES],
            dials: Vec::new(),
            arriving: Vec::new(),
        }
    }

    fn step(&mut self, numbers: &mut Numbers<'_>) {
        match numbers.below(24) {
            0..=5 => {
                let count = 1 + usize::from(numbers.below(16));
                (0..count).for_each(|_| self.deliver(0));
            }
            6..=10 => self.interfere(numbers),
            11 | 12 => {
                let peer = 1 + usize::from(numbers.below(ENGINES as u8 - 1));
                let (from, to) = match numbers.below(4) {
                    0 => (0, peer),
                    _ => (peer, 0),
                };
                let dialling = self.engines[from].dial(self.keys[to], address(to));
                self.dials.push((from, dialling));
            }
            13..=15 => self.write(numbers),
            16 | 17 => self.read(numbers),
            18 => {
                if let Some(connection) = self.connection(numbers) {
                    let code = CloseCode::from_number(u64::from(numbers.below(10)));
                    connection.close(code, "a reason");
                }
            }
            19 => {
                let end = usize::from(numbers.byte());
                self.connections[0].truncate(end);
            }
            20 => {
                let all = self.connections[0].clone();
                let payload = Bytes::from(vec![7; usize::from(numbers.byte())]);
                self.engines[0].hand_over(all, payload);
                if numbers.below(2) == 0
                    && let Some(connection) = self.connection(numbers)
                {
                    connection.close(CloseCode::Duplicate, "another is kept");
                }
            }
            21 => self.engines[0].set_full(numbers.below(2) == 0),
            _ => {
                let millis = u64::from(numbers.byte()) << numbers.below(6);
                bare::advance(Duration::from_millis(millis));
            }
        }
    }

    /// Delivers a datagram that is on its way.
    fn deliver(&mut self, place: usize) {
        let Some(packet) = self.way.remove(place) else {
            return;
        };
        if let Some(to) = (0..ENGINES).find(|engine| address(*engine) == packet.to) {
            self.engines[to].handle_datagram(packet.from, packet.bytes);
        }
    }

    /// Loses, doubles, damages, reorders or forges a datagram.
    fn interfere(&mut self, numbers: &mut Numbers<'_>) {
        let place = usize::from(numbers.byte()) % self.way.len().max(1);
        match numbers.below(7) {
            0 => drop(self.way.remove(place)),
            1 => self.way.extend(self.way.get(place).cloned()),
            2 => {
                if let Some(packet) = self.way.get_mut(place)
                    && !packet.bytes.is_empty()
                {
                    let at = usize::from(numbers.byte()) % packet.bytes.len();
                    packet.bytes[at] ^= 1 << numbers.below(8);
                }
            }
            3 => {
                if let Some(packet) = self.way.get_mut(place) {
                    packet.from.set_port(1 + u16::from(numbers.byte()));
                }
            }
            4 => {
                let length = usize::from(numbers.byte());
                let bytes = (0..length).map(|_| numbers.byte()).collect();
                let from = address(usize::from(numbers.below(9)));
                self.engines[0].handle_datagram(from, bytes);
            }
            // Nothing of what this peer is sent arrives.
            5 => {
                let deaf = address(usize::from(numbers.below(ENGINES as u8)));
                self.way.retain(|packet| packet.to != deaf);
            }
            _ => self.deliver(place),
        }
    }

    fn connection(&self, numbers: &mut Numbers<'_>) -> Option<Connection> {
        let of = &self.connections[usize::from(numbers.below(ENGINES as u8))];
        let place = usize::from(numbers.byte()) % of.len().max(1);
        of.get(place).cloned()
    }

    fn write(&mut self, numbers: &mut Numbers<'_>) {
        let Some(connection) = self.connection(numbers) else {
            return;
        };
        let way = numbers.below(8);
        let bytes = usize::from(numbers.byte()) << numbers.below(10);
        let payload = Bytes::from(vec![way; bytes]);
        match way {
            0 => {
                // More than the peer admits.
                while let Some(mut writer) = connection.open_writer(0) {
                    let _ = poll(writer.finish());
                }
            }
            1..=3 => {
                if let Some(mut writer) = connection.open_writer(i32::from(numbers.byte())) {
                    let _ = poll(writer.write_all(&mut [payload]));
                    if way < 3 {
                        let _ = poll(writer.finish());
                    }
                }
            }
            4 => connection.ping(),
            _ => {
                let mut sending = Sending::new(connection);
                let mut held = sending.hold();
                let id = OrderedId {
                    stream: StreamId(1),
                    epoch: Epoch(1),
                };
                if let Some(stream) = held.open(Owner::Lane(id, 0), 1) {
                    let _ = held.write(stream, &mut [payload.clone()]);
                    match way {
                        5 => held.finish(stream),
                        6 => held.reset(stream, StreamCode::Expired),
                        _ => held.forget(stream),
                    }
                }
                if payload.len() <= held.datagram_bytes_max() {
                    let _ = held.send_datagram(payload);
                }
                let _ = held.take_events().count();
            }
        }
    }

    fn read(&mut self, numbers: &mut Numbers<'_>) {
        if numbers.below(2) == 0 {
            if let Some(connection) = self.connection(numbers) {
                for _ in 0..numbers.byte() {
                    let Poll::Ready(Some(stream)) = poll(connection.accept()) else {
                        break;
                    };
                    self.arriving.push(stream);
                }
                let _ = poll(connection.datagram());
            }
            return;
        }
        let place = usize::from(numbers.byte()) % self.arriving.len().max(1);
        if let Some(stream) = self.arriving.get_mut(place) {
            match numbers.below(3) {
                0 => stream.stop(StreamCode::Overload),
                1 => drop(self.arriving.swap_remove(place)),
                _ => while let Poll::Ready(Ok(Some(_))) = poll(stream.chunk()) {},
            }
        }
    }

    /// Lets each engine do a turn, and takes what it sends and what it has accepted.
    fn turn(&mut self) {
        for (place, engine) in self.engines.iter_mut().enumerate() {
            engine.turn();
            while let Some((to, bytes)) = engine.poll_transmit() {
                let from = address(place);
                self.way.push_back(Packet { from, to, bytes });
            }
            while let Some(connection) = engine.accept() {
                self.connections[place].push(connection);
            }
        }
        while self.way.len() > ON_THE_WAY {
            self.way.pop_front();
        }
        let connections = &mut self.connections;
        self.dials
            .retain_mut(|(from, dialling)| match dialling.poll() {
                Poll::Ready(Ok(connection)) => {
                    connections[*from].push(connection);
                    false
                }
                Poll::Ready(Err(_)) => false,
                Poll::Pending => true,
            });
    }

    /// What the engine holds is bounded.
    fn check(&mut self) {
        let held = self.engines[0].sizes();
        assert!(held.most_of_a_key <= PER_KEY, "{held:?}");
        assert!(held.shares <= PER_KEY * (ENGINES - 2), "{held:?}");
        assert!(held.pending <= PENDING, "{held:?}");
        assert!(held.timers <= TIMERS * (1 + held.slots), "{held:?}");
        for connection in &self.connections[0] {
            assert!(self.keys[1..ENGINES - 1].contains(&connection.peer()));
        }
    }

    /// Ends everything; then nothing is held.
    fn drain(&mut self) {
        self.engines[0].set_full(false);
        self.arriving.clear();
        // A closed connection stays for three times the peer's answers, which may have taken seconds.
        for round in 0..200 {
            self.dials.clear();
            self.connections.iter_mut().for_each(Vec::clear);
            self.way.clear();
            bare::advance(Duration::from_millis(if round < 50 { 250 } else { 2_000 }));
            self.turn();
        }
        for engine in &mut self.engines {
            let held = engine.sizes();
            assert_eq!(
                (held.slots, held.shares, held.pending),
                (0, 0, 0),
                "{held:?}"
            );
        }
    }

    /// A peer that keeps to the protocol is served.
    fn serve(&mut self) {
        let dialling = self.engines[1].dial(self.keys[0], address(0));
        self.dials.push((1, dialling));
        let payload = Bytes::from_static(b"payload");
        let mut is_sent = false;
        for _ in 0..200 {
            bare::advance(Duration::from_millis(5));
            self.turn();
            (0..self.way.len()).for_each(|_| self.deliver(0));
            if let (false, Some(connection)) = (is_sent, self.connections[1].first()) {
                let mut writer = connection.open_writer(0).expect("room for a stream");
                assert_eq!(
                    poll(writer.write_all(&mut [payload.clone()])),
                    Poll::Ready(Ok(()))
                );
                let _ = poll(writer.finish());
                is_sent = true;
            }
            if let Some(connection) = self.connections[0].first()
                && let Poll::Ready(stream) = poll(connection.accept())
            {
                self.arriving.extend(stream);
            }
            if let Some(stream) = self.arriving.first_mut()
                && let Poll::Ready(arrived) = poll(stream.chunk())
            {
                assert_eq!(arrived.expect("it is whole"), Some(payload));
                return;
            }
        }
        panic!("nothing has arrived");
    }
}
