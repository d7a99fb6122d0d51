//! Proves a session's guarantees, on carriers in memory and in virtual time.
//!
//! A `World` is two sessions and the pipes between them. Bytes arrive after a delay, in order and
//! in pieces; a pipe can be stalled, for a while or for ever, or cut. What each end reads is kept
//! by stream, so that a missing, doubled or misplaced byte shows.

mod faults;
mod hostile;
mod words;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use bytes::Bytes;

use super::*;
use crate::tcp_mux::out::Out;
use crate::tcp_mux::settings::{STREAM_WINDOW_BYTES, STREAMS_MAX};

/// One direction of a carrier.
#[derive(Debug, Default)]
struct Pipe {
    on_the_way: VecDeque<(Instant, Vec<u8>)>,
    is_stalled: bool,
    is_cut: bool,
}

/// One end, with the state of its application.
struct Side {
    session: Session,
    read: BTreeMap<StreamNumber, Vec<u8>>,
    finished: Vec<StreamNumber>,
    reset: Vec<(StreamNumber, StreamCode)>,
    unread: Vec<StreamNumber>,
    acknowledged: Vec<StreamNumber>,
    events: Vec<Event>,
    /// Streams with bytes left to write, in order of writing.
    writing: Vec<(StreamNumber, Bytes)>,
}

struct World {
    now: Instant,
    sides: [Side; 2],
    pipes: BTreeMap<u64, [Pipe; 2]>,
    delay: Duration,
    /// Bytes that a pipe takes in a millisecond.
    bytes_per_step: u64,
    redials: bool,
    next: u64,
}

impl Side {
    fn new(pacing: Pacing, now: Instant) -> Self {
        Self {
            session: Session::new(pacing, 1, now),
            read: BTreeMap::new(),
            finished: Vec::new(),
            reset: Vec::new(),
            unread: Vec::new(),
            acknowledged: Vec::new(),
            events: Vec::new(),
            writing: Vec::new(),
        }
    }

    fn send(&mut self, rank: i32, bytes: Bytes) -> StreamNumber {
        let stream = self.session.open(rank).expect("the peer admits it");
        self.writing.push((stream, bytes));
        stream
    }

    fn write(&mut self) {
        let session = &mut self.session;
        self.writing.retain_mut(|(stream, bytes)| {
            let written = session.write(*stream, bytes);
            if written == Written::All {
                session.finish(*stream);
            }
            !matches!(written, Written::All | Written::Stopped(_) | Written::Lost)
        });
    }

    fn drain(&mut self) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Opened(stream) | Event::Readable(stream) => self.drain_stream(stream),
                Event::Acknowledged(stream) => self.acknowledged.push(stream),
                event => self.events.push(event),
            }
        }
    }

    fn drain_stream(&mut self, stream: StreamNumber) {
        if self.unread.contains(&stream) {
            return;
        }
        loop {
            match self.session.read(stream) {
                Read::Bytes(bytes) => self.read.entry(stream).or_default().extend(bytes),
                Read::Finished => self.finished.push(stream),
                Read::Reset(code) => self.reset.push((stream, code)),
                Read::Blocked | Read::Unknown => return,
            }
        }
    }
}

impl World {
    fn new(pacing: Pacing) -> Self {
        let now = Instant::ZERO;
        let mut world = Self {
            now,
            sides: [Side::new(pacing, now), Side::new(pacing, now)],
            pipes: BTreeMap::new(),
            delay: Duration::from_millis(10),
            bytes_per_step: 12_500,
            redials: true,
            next: 0,
        };
        world.dial();
        world.dial();
        world
    }

    fn dial(&mut self) {
        let number = CarrierNumber(self.next);
        self.next += 1;
        self.pipes.insert(number.0, Default::default());
        for side in &mut self.sides {
            side.session
                .handle_carrier(number, Decoder::default(), self.now);
        }
    }

    fn step(&mut self) {
        self.now = self.now + Duration::from_millis(1);
        for number in self.pipes.keys().copied().collect::<Vec<_>>() {
            for end in 0..2 {
                self.transmit(number, end);
                self.deliver(number, end);
            }
        }
        self.forget_left();
        for side in &mut self.sides {
            side.session.handle_timeout(self.now);
            side.drain();
            side.write();
        }
        if self.redials && self.sides[0].session.carriers_missing() > 0 {
            self.dial();
        }
    }

    fn steps(&mut self, count: u32) {
        for _ in 0..count {
            self.step();
        }
    }

    /// Hands a pipe what its end has for it: the kernel's window is what the line carries in a
    /// round trip.
    fn transmit(&mut self, number: u64, end: usize) {
        let Some(pipe) = self.pipes.get_mut(&number).map(|pipes| &mut pipes[end]) else {
            return;
        };
        let in_flight: usize = pipe.on_the_way.iter().map(|(_, bytes)| bytes.len()).sum();
        let session = &mut self.sides[end].session;
        let path = KernelPath {
            window: DataSize::from_bytes(self.bytes_per_step * 20),
            in_flight: DataSize::from_bytes(in_flight as u64),
            rtt: Duration::from_millis(20),
            ..KernelPath::default()
        };
        session.handle_kernel(CarrierNumber(number), path, self.now);
        let mut out = Out::new();
        while (out.len() as u64) < self.bytes_per_step
            && session.poll_transmit(CarrierNumber(number), self.now, &mut out)
        {}
        if !out.is_empty() {
            pipe.on_the_way
                .push_back((self.now + self.delay, out.to_vec()));
        }
    }

    fn deliver(&mut self, number: u64, end: usize) {
        let Some(pipe) = self.pipes.get_mut(&number).map(|pipes| &mut pipes[end]) else {
            return;
        };
        while !pipe.is_stalled
            && let Some((_, bytes)) = pipe.on_the_way.pop_front_if(|(at, _)| *at <= self.now)
        {
            let other = &mut self.sides[1 - end].session;
            for piece in bytes.chunks(700) {
                other
                    .handle_bytes(CarrierNumber(number), piece, self.now)
                    .expect("both keep to the protocol");
            }
        }
        if pipe.is_cut {
            self.lose(number);
        }
    }

    /// Closes the connections that one of the ends has retired.
    fn forget_left(&mut self) {
        let left: Vec<u64> = self
            .pipes
            .keys()
            .copied()
            .filter(|number| {
                let number = CarrierNumber(*number);
                !self
                    .sides
                    .iter()
                    .all(|side| side.session.carriers.contains(number))
            })
            .collect();
        for number in left {
            self.lose(number);
        }
    }

    fn lose(&mut self, number: u64) {
        self.pipes.remove(&number);
        for side in &mut self.sides {
            side.session
                .handle_carrier_lost(CarrierNumber(number), self.now);
        }
    }

    fn stall(&mut self, number: u64, is_stalled: bool) {
        for pipe in self.pipes.get_mut(&number).into_iter().flatten() {
            pipe.is_stalled = is_stalled;
        }
    }

    fn is_settled(&self) -> bool {
        self.sides
            .iter()
            .all(|side| side.writing.is_empty() && side.session.is_settled())
    }

    fn settle(&mut self, steps_max: u32) {
        for _ in 0..steps_max {
            if self.is_settled() {
                return;
            }
            self.step();
        }
        panic!("not settled after {steps_max} ms");
    }
}

/// Bytes that differ from place to place and from stream to stream.
fn pattern(seed: u64, bytes: usize) -> Bytes {
    let place = |place: usize| ((place as u64).wrapping_mul(7 + seed) % 251) as u8;
    (0..bytes).map(place).collect()
}

#[test]
fn standby_deadline_wakes_standby_only() {
    let mut world = World::new(Pacing::Kernel);
    world.steps(4_000);
    world.sides[0].send(0, pattern(1, 9_000));
    world.settle(500);
    let session = &mut world.sides[0].session;
    let active = session.active().expect("two were dialled");
    let standby = session.carriers.standby().expect("two were dialled");
    // Nothing has gone over the standby, so its ping is due first.
    let due = session.poll_timeout(standby);
    assert!(due < session.poll_timeout(active));
    let mut out = Out::new();
    session.handle_timeout(due);
    assert!(!session.poll_transmit(active, due, &mut out));
    assert!(
        session.poll_timeout(active) > due,
        "it would ask again at once"
    );
    assert!(session.poll_transmit(standby, due, &mut out));
    assert!(session.poll_timeout(standby) > due);
}

#[test]
fn many_streams_arrive_whole() {
    for pacing in [Pacing::Kernel, Pacing::Acked] {
        let mut world = World::new(pacing);
        let sizes: Vec<usize> = (0..200).map(|n| (n * n * 7) % 30_000).collect();
        for ((n, size), rank) in (0..).zip(&sizes).zip([0, 4, 2, 3, 1].into_iter().cycle()) {
            for side in &mut world.sides {
                side.send(rank, pattern(n, *size));
            }
        }
        world.settle(20_000);
        for side in &world.sides {
            assert_eq!(side.finished.len(), sizes.len());
            assert_eq!(side.acknowledged.len(), sizes.len());
            for (n, size) in sizes.iter().enumerate() {
                let read = side.read.get(&StreamNumber(n as u64)).cloned();
                assert_eq!(read.unwrap_or_default(), pattern(n as u64, *size));
            }
            assert_eq!(side.session.carried(), Carried::default());
        }
    }
}

#[test]
fn urgent_stream_overtakes_bulk() {
    for pacing in [Pacing::Kernel, Pacing::Acked] {
        let mut world = World::new(pacing);
        world.bytes_per_step = 1_250;
        let [sender, _] = &mut world.sides;
        let bulk = sender.send(0, pattern(1, 500_000));
        world.steps(150);
        let [sender, receiver] = &mut world.sides;
        let before = receiver.read.get(&bulk).map_or(0, Vec::len);
        assert!(before > 0 && before < 500_000);
        let urgent = sender.send(9, pattern(2, 5_000));
        sender.write();
        while !world.sides[1].finished.contains(&urgent) {
            world.step();
        }
        let between = world.sides[1].read[&bulk].len() - before;
        // What was in flight, in the window and in the sliver when it came: no queue of the session's.
        assert!(between <= 70_000, "{between} bytes of bulk went before");
        world.settle(20_000);
        assert_eq!(world.sides[1].read[&bulk], pattern(1, 500_000));
    }
}

#[test]
fn reset_returns_window() {
    let mut world = World::new(Pacing::Kernel);
    for round in 0..40 {
        let stream = world.sides[0].send(0, pattern(round, 1_000_000));
        world.sides[1].unread.push(stream);
        world.steps(60);
        world.sides[0].session.reset(stream, StreamCode::Expired);
        world.sides[0].writing.clear();
        world.steps(30);
        assert_eq!(
            world.sides[1].session.read(stream),
            Read::Reset(StreamCode::Expired)
        );
        assert_eq!(world.sides[1].session.read(stream), Read::Unknown);
    }
    // 40 MB have gone through a window of 16: it was released each time.
    let stream = world.sides[0].send(0, pattern(99, 1_000_000));
    world.settle(5_000);
    assert_eq!(world.sides[1].read[&stream], pattern(99, 1_000_000));
}

#[test]
fn unread_stream_stalls_alone() {
    let mut world = World::new(Pacing::Kernel);
    let unread = world.sides[0].send(9, pattern(1, 3_000_000));
    world.sides[1].unread.push(unread);
    let read = world.sides[0].send(0, pattern(2, 3_000_000));
    while !world.sides[1].finished.contains(&read) {
        world.step();
    }
    assert_eq!(world.sides[1].read[&read], pattern(2, 3_000_000));
    let held = world.sides[1].session.receiving.unread_bytes(unread);
    assert_eq!(held, STREAM_WINDOW_BYTES);
    world.sides[1].unread.clear();
    world.sides[1].drain_stream(unread);
    world.settle(5_000);
    assert_eq!(world.sides[1].read[&unread], pattern(1, 3_000_000));
}

#[test]
fn stopped_stream_reports_code() {
    let mut world = World::new(Pacing::Kernel);
    let stream = world.sides[0].send(0, pattern(1, 3_000_000));
    world.steps(40);
    world.sides[1]
        .session
        .stop(stream, StreamCode::UnknownStream);
    world.steps(40);
    let told = Event::Stopped(stream, StreamCode::UnknownStream);
    assert!(world.sides[0].events.contains(&told));
    let written = world.sides[0].session.write(stream, &mut pattern(1, 10));
    assert_eq!(written, Written::Stopped(StreamCode::UnknownStream));
    assert!(world.sides[1].session.receiving.is_empty());
    assert!(world.sides[0].session.is_settled());
}

#[test]
fn ended_stream_admits_another() {
    let mut world = World::new(Pacing::Kernel);
    let session = &mut world.sides[0].session;
    let first = session.open(0).expect("the first of many");
    for _ in 1..STREAMS_MAX {
        session.open(0).expect("within the bound");
    }
    assert_eq!(session.open(0), None);
    for stream in first.0..=STREAMS_MAX / 2 {
        session.finish(StreamNumber(stream));
    }
    world.steps(200);
    assert!(world.sides[0].events.contains(&Event::Room));
    assert!(world.sides[0].session.open(0).is_some());
}

#[test]
fn datagram_flood_is_bounded() {
    let mut world = World::new(Pacing::Kernel);
    for n in 0..20 {
        let sent = world.sides[0].session.send_datagram(pattern(n, 1_200));
        assert_eq!(sent, Ok(()));
    }
    world.steps(50);
    for n in 0..20 {
        assert_eq!(
            world.sides[1].session.poll_datagram(),
            Some(pattern(n, 1_200))
        );
    }
    assert_eq!(world.sides[1].session.poll_datagram(), None);
    let large = world.sides[0].session.send_datagram(pattern(0, 1_201));
    assert!(matches!(large, Err((DatagramError::TooLarge { .. }, _))));
    let refused = (0..100_000).find_map(|_| {
        let sent = world.sides[0].session.send_datagram(Bytes::new());
        sent.err()
    });
    assert_eq!(refused, Some((DatagramError::Full, Bytes::new())));
}

#[test]
fn silent_peer_is_lost_at_idle_timeout() {
    let mut session = Session::new(Pacing::Kernel, 0, Instant::ZERO);
    session.handle_carrier(CarrierNumber(0), Decoder::default(), Instant::ZERO);
    while session.poll_event().is_some() {}
    let edge = Instant::ZERO + IDLE_TIMEOUT;
    session.handle_timeout(Instant::from_nanos(edge.as_nanos() - 1_000_000));
    assert_eq!(session.poll_event(), None);
    session.handle_timeout(edge);
    assert_eq!(session.poll_event(), Some(Event::Lost));
    assert!(session.is_over());
}

#[test]
fn pings_keep_idle_session() {
    let mut world = World::new(Pacing::Acked);
    world.steps(30_000);
    assert!(world.sides.iter().all(|side| !side.session.is_over()));
    assert!(
        world
            .sides
            .iter()
            .all(|side| side.session.carried() == Carried::default())
    );
}

#[test]
fn close_follows_acknowledgements() {
    let mut world = World::new(Pacing::Kernel);
    let stream = world.sides[0].send(0, pattern(1, 100));
    while !world.sides[1].finished.contains(&stream) {
        world.step();
    }
    world.sides[1]
        .session
        .close(CloseCode::Shutdown, String::new());
    world.steps(20);
    assert_eq!(world.sides[0].acknowledged, [stream]);
    assert!(world.sides[0].session.is_over());
}

#[test]
fn close_ends_both_sides() {
    let mut world = World::new(Pacing::Kernel);
    world.sides[0]
        .session
        .close(CloseCode::Shutdown, "the node shuts down".into());
    world.steps(20);
    assert!(world.sides.iter().all(|side| side.session.is_over()));
    let closed = Event::Closed {
        code: CloseCode::Shutdown,
        reason: "the node shuts down".into(),
    };
    assert!(world.sides[1].events.contains(&closed));
}
