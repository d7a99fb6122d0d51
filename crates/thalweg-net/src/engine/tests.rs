//! Proves that two engines carry streams over loopback, and that hostile peers are bounded and
//! counted.
//!
//! A hostile peer is a QUIC connection that the test drives by hand, over a socket of its own, so
//! that it can replay, stay deaf, or move. Every wait is bounded; no test asserts a duration.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant as Moment;

use bytes::{Bytes, BytesMut};
use noq_proto::{
    Connection as Quic, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event,
    FourTuple, StreamEvent, StreamId,
};
use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_link::hop::settings::{LINK_WINDOW_BYTES, STREAMS_MAX};
use thalweg_link::hop::{BodyError, CloseCode, StreamCode};

use super::config::{Config, endpoint};
use super::{Connection, DialError, Engine, EngineCounters, Options};
use crate::admission::Admission;
use crate::clock::Clock;
use crate::identity::Identity;

/// Far more than anything here takes, also on a busy machine.
const WAIT: std::time::Duration = std::time::Duration::from_secs(40);

async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(WAIT, future)
        .await
        .expect("it happens within the bound")
}

/// Waits until the counters are so.
async fn counted(engine: &Engine, is_so: impl Fn(EngineCounters) -> bool) {
    let counting = async {
        while !is_so(engine.counters()) {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    bounded(counting).await;
}

fn options() -> Options {
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    Options::new(
        Identity::ephemeral(),
        Admission::nobody(),
        any,
        Clock::start(),
    )
}

fn start(options: &Options) -> Engine {
    Engine::start(options.clone()).expect("loopback can be bound")
}

/// Two engines that admit each other, and a connection between them.
struct Pair {
    a: Connection,
    b: Connection,
    engines: [Engine; 2],
}

async fn pair_of(here: &Options, there: &Options) -> Pair {
    here.admission.admit(there.identity.id());
    there.admission.admit(here.identity.id());
    let engines = [start(here), start(there)];
    let dialled = engines[0].dial(there.identity.id(), engines[1].listening());
    let a = bounded(dialled).await.expect("both know each other");
    let b = bounded(engines[1].accept()).await.expect("it lives");
    Pair { a, b, engines }
}

async fn pair() -> Pair {
    pair_of(&options(), &options()).await
}

fn pattern(bytes: usize) -> Bytes {
    (0..bytes).map(|place| (place * 7 % 251) as u8).collect()
}

/// Sends bytes on a stream of its own, and returns what the other end has received.
async fn carry(from: &Connection, to: &Connection, bytes: Bytes) -> Vec<u8> {
    let sending = async {
        let mut writer = from.open_writer(0).expect("room for a stream");
        writer.write_all(&mut [bytes]).await.expect("it is open");
        writer.finish().await;
    };
    let receiving = async {
        let mut stream = to.accept().await.expect("the connection lives");
        let mut all = Vec::new();
        while let Some(chunk) = stream.chunk().await.expect("the sender lives") {
            all.extend_from_slice(&chunk);
        }
        all
    };
    let ((), received) = bounded(async { tokio::join!(sending, receiving) }).await;
    received
}

#[tokio::test(flavor = "multi_thread")]
async fn engines_carry_streams_both_ways() {
    let pair = pair().await;
    assert_eq!(pair.b.remote(), pair.engines[0].listening());
    // More than a stream's window, in one; and many small ones.
    let large = pattern(5_000_000);
    assert_eq!(carry(&pair.a, &pair.b, large.clone()).await, large);
    assert_eq!(carry(&pair.b, &pair.a, large.clone()).await, large);
    for bytes in 0..50 {
        assert_eq!(
            carry(&pair.a, &pair.b, pattern(bytes)).await,
            pattern(bytes)
        );
    }
    pair.b.close(CloseCode::Duplicate, "another is kept");
    let ConnectionError::ApplicationClosed(close) = bounded(pair.a.closed()).await else {
        panic!("closed with a code");
    };
    assert_eq!(close.error_code.into_inner(), CloseCode::Duplicate.number());
    assert_eq!(close.reason, "another is kept");
    bounded(pair.b.gone()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_stream_ends_at_both_ends() {
    let pair = pair().await;
    let mut writer = pair.a.open_writer(0).expect("room for a stream");
    writer.write_all(&mut [pattern(10)]).await.expect("open");
    let mut stream = bounded(pair.b.accept()).await.expect("it lives");
    stream.stop(StreamCode::Overload);
    let writing = async { while writer.write_all(&mut [pattern(1000)]).await.is_ok() {} };
    bounded(writing).await;
    let mut writer = pair.a.open_writer(0).expect("room for a stream");
    writer.write_all(&mut [pattern(10)]).await.expect("open");
    let mut stream = bounded(pair.b.accept()).await.expect("it lives");
    drop(writer);
    let ended = bounded(async {
        loop {
            match stream.chunk().await {
                Ok(Some(_)) => {}
                ended => return ended,
            }
        }
    });
    assert_eq!(
        ended.await,
        Err(BodyError::Reset(StreamCode::Cancelled)),
        "an unfinished stream is reset"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stranger_is_refused_with_code_and_reason() {
    let (here, there) = (options(), options());
    here.admission.admit(there.identity.id());
    let (a, b) = (start(&here), start(&there));
    let dialled = bounded(a.dial(there.identity.id(), b.listening())).await;
    let connection = dialled.expect("it is b that refuses, after the handshake");
    let ConnectionError::ApplicationClosed(close) = bounded(connection.closed()).await else {
        panic!("closed with a code");
    };
    assert_eq!(
        close.error_code.into_inner(),
        CloseCode::NotAdmitted.number()
    );
    let reason = String::from_utf8_lossy(&close.reason).into_owned();
    assert!(reason.contains("does not admit the key"), "{reason}");
    assert_eq!(there.admission.refusals(), 1);
    assert_eq!(b.counters().not_admitted, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_key_is_not_accepted() {
    let (here, there) = (options(), options());
    let other = Identity::ephemeral().id();
    here.admission.replace([other, there.identity.id()]);
    there.admission.admit(here.identity.id());
    let (a, b) = (start(&here), start(&there));
    let dialled = bounded(a.dial(other, b.listening())).await;
    assert!(matches!(dialled, Err(DialError::Lost(_))), "{dialled:?}");
    let stranger = Identity::ephemeral().id();
    let dialled = bounded(a.dial(stranger, b.listening())).await;
    assert!(matches!(dialled, Err(DialError::NotAdmittedHere(_))));
    bounded(a.dial(there.identity.id(), b.listening()))
        .await
        .expect("the right key is accepted afterwards");
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_closes_and_ends_the_thread() {
    let pair = pair().await;
    let [here, there] = &pair.engines;
    bounded(there.shutdown()).await;
    assert!(pair.b.is_over());
    let ConnectionError::ApplicationClosed(close) = bounded(pair.a.closed()).await else {
        panic!("closed with a code");
    };
    assert_eq!(close.error_code.into_inner(), CloseCode::Fault.number());
    assert!(bounded(there.accept()).await.is_none());
    let dialled = bounded(there.dial(pair.a.peer(), here.listening())).await;
    assert!(matches!(dialled, Err(DialError::Stopped)), "{dialled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn dial_without_answer_ends_in_time() {
    let mut here = options();
    here.handshake_timeout = Duration::from_millis(300);
    let peer = Identity::ephemeral().id();
    here.admission.admit(peer);
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let a = start(&here);
    let dialled = bounded(a.dial(peer, silent.local_addr().expect("bound"))).await;
    let lost = DialError::Lost(ConnectionError::TimedOut);
    assert_eq!(
        dialled.map(drop).map_err(|error| error.to_string()),
        Err(lost.to_string())
    );
    assert_eq!(a.counters().unfinished, 1);
}

/// A peer that the test drives by hand.
struct Rogue {
    endpoint: Endpoint,
    socket: UdpSocket,
    quic: Quic,
    handle: ConnectionHandle,
    to: SocketAddr,
    /// The first datagram.
    initial: Vec<u8>,
    /// Why it has ended.
    end: Option<ConnectionError>,
}

impl Rogue {
    /// Begins a handshake with an engine.
    fn begin(options: &Options, peer: NodeId, to: SocketAddr) -> Self {
        let config = Config::new(options).expect("TLS 1.3");
        let mut endpoint = Endpoint::new(Arc::new(endpoint()), None, true);
        let begun = super::dial::begin(&mut endpoint, &config, Moment::now(), peer, to);
        let (handle, quic) = begun.expect("it can be begun");
        let mut rogue = Self {
            endpoint,
            socket: socket(),
            quic,
            handle,
            to,
            initial: Vec::new(),
            end: None,
        };
        rogue.send();
        rogue
    }

    /// Completes the handshake.
    fn connect(options: &Options, peer: NodeId, to: SocketAddr) -> Self {
        let mut rogue = Self::begin(options, peer, to);
        while rogue.quic.is_handshaking() {
            rogue.turn();
        }
        rogue
    }

    fn send(&mut self) {
        let mut buffer = Vec::new();
        let now = Moment::now();
        while let Some(transmit) = self.quic.poll_transmit(now, NonZeroUsize::MIN, &mut buffer) {
            if self.initial.is_empty() {
                self.initial.clone_from(&buffer);
            }
            let datagram = &buffer[..transmit.size];
            self.socket.send_to(datagram, self.to).expect("loopback");
            buffer.clear();
        }
    }

    /// Takes what has arrived, waiting a little, and sends.
    fn turn(&mut self) {
        let mut buffer = [0; 2048];
        while let Ok((bytes, from)) = self.socket.recv_from(&mut buffer) {
            let datagram = BytesMut::from(&buffer[..bytes]);
            let path = FourTuple::from_remote(from);
            let now = Moment::now();
            let event = self
                .endpoint
                .handle(now, path, None, datagram, &mut Vec::new());
            if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                self.quic.handle_event(event);
            }
        }
        self.forget_news();
        self.send();
    }

    /// Does all but hear: timers and packets, and no acknowledgement.
    fn turn_deaf(&mut self) {
        self.quic.ping();
        self.forget_news();
        self.send();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }

    fn forget_news(&mut self) {
        let now = Moment::now();
        if self.quic.poll_timeout().is_some_and(|at| at <= now) {
            self.quic.handle_timeout(now);
        }
        while let Some(event) = self.quic.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.quic.handle_event(event);
            }
        }
        while let Some(event) = self.quic.poll() {
            match event {
                Event::ConnectionLost { reason } => self.end = Some(reason),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    let _ = self.quic.send_stream(id).reset(error_code);
                }
                _ => {}
            }
        }
    }

    fn open(&mut self) -> Option<StreamId> {
        self.quic.streams().open(Dir::Uni)
    }
}

/// Returns a socket on which a read waits a little.
fn socket() -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let wait = std::time::Duration::from_millis(2);
    socket.set_read_timeout(Some(wait)).expect("it is not zero");
    socket
}

/// An engine that admits one rogue.
fn target(there: &Options) -> (Engine, Options) {
    let rogue = options();
    there.admission.admit(rogue.identity.id());
    (start(there), rogue)
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_datagrams_are_harmless() {
    let pair = pair().await;
    let stranger = socket();
    let to = pair.engines[1].listening();
    let mut sent = 0;
    for bytes in [1, 20, 60, 1200, 9000] {
        for byte in [0x00, 0x40, 0xc0, 0xff] {
            let garbage = vec![byte; bytes];
            stranger.send_to(&garbage, to).expect("loopback takes it");
            sent += 1;
        }
    }
    counted(&pair.engines[1], |counters| counters.stray >= sent).await;
    assert_eq!(carry(&pair.a, &pair.b, pattern(5000)).await, pattern(5000));
}

#[tokio::test(flavor = "multi_thread")]
async fn replayed_initial_costs_one_handshake() {
    let mut there = options();
    there.handshake_timeout = Duration::from_millis(500);
    let (engine, options) = target(&there);
    let mut rogue = Rogue::connect(&options, there.identity.id(), engine.listening());
    let accepted = bounded(engine.accept()).await.expect("it lives");
    let other = socket();
    for _ in 0..200 {
        for from in [&rogue.socket, &other] {
            from.send_to(&rogue.initial, rogue.to).expect("loopback");
        }
    }
    counted(&engine, |counters| counters.datagrams > 400).await;
    rogue.turn();
    assert!(!accepted.is_over(), "the connection goes on");
    assert_eq!(rogue.end, None);
    // Once the connection is gone, the packet begins a handshake again, which nobody completes.
    accepted.close(CloseCode::Shutdown, "");
    let other = socket();
    let replaying = async {
        while engine.counters().unfinished == 0 {
            other.send_to(&rogue.initial, rogue.to).expect("loopback");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    bounded(replaying).await;
    Rogue::connect(&options, there.identity.id(), engine.listening());
}

#[tokio::test(flavor = "multi_thread")]
async fn flood_of_initials_is_bounded() {
    let mut there = options();
    there.handshake_timeout = Duration::from_secs(2);
    let (engine, options) = target(&there);
    let to = engine.listening();
    let flood: Vec<_> = (0..200)
        .map(|_| Rogue::begin(&options, there.identity.id(), to))
        .collect();
    counted(&engine, |counters| counters.retries > 100).await;
    // A peer that proves its address gets through.
    let here = super::tests::options();
    here.admission.admit(there.identity.id());
    there.admission.admit(here.identity.id());
    let a = start(&here);
    let dialled = bounded(a.dial(there.identity.id(), to)).await;
    let connection = dialled.expect("there is room for it");
    assert!(!connection.is_over());
    counted(&engine, |counters| counters.unfinished >= 32).await;
    drop(flood);
}

#[tokio::test(flavor = "multi_thread")]
async fn endless_streams_are_bounded() {
    let there = options();
    let (engine, options) = target(&there);
    let mut rogue = Rogue::connect(&options, there.identity.id(), engine.listening());
    let accepted = bounded(engine.accept()).await.expect("it lives");
    let (mut streams, mut bytes) = (0, 0);
    let chunk = vec![7; 4096];
    for _ in 0..200 {
        while let Some(stream) = rogue.open() {
            streams += 1;
            bytes += rogue.quic.send_stream(stream).write(&chunk).unwrap_or(0);
        }
        rogue.turn();
    }
    assert_eq!(
        streams, STREAMS_MAX,
        "nobody reads, so no more are admitted"
    );
    assert!(bytes <= LINK_WINDOW_BYTES as usize);
    // Reading gives room again.
    let opened = bounded(async {
        loop {
            rogue.turn();
            if rogue.open().is_some() {
                return;
            }
            // Those that have arrived; the others come in the next turns.
            let few = std::time::Duration::from_millis(5);
            while let Ok(stream) = tokio::time::timeout(few, accepted.accept()).await {
                drop(stream.expect("the connection lives"));
            }
        }
    });
    opened.await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_never_acknowledges_is_ended() {
    let mut there = options();
    there.idle_timeout = Duration::from_secs(1);
    let (engine, options) = target(&there);
    let mut rogue = Rogue::connect(&options, there.identity.id(), engine.listening());
    let accepted = bounded(engine.accept()).await.expect("it lives");
    let mut writer = accepted.open_writer(0).expect("room for a stream");
    let writing = tokio::spawn(async move { writer.write_all(&mut [pattern(9_000_000)]).await });
    let ended = Moment::now() + WAIT;
    while !accepted.is_over() && Moment::now() < ended {
        rogue.turn_deaf();
    }
    assert_eq!(accepted.end(), Some(ConnectionError::TimedOut));
    assert_eq!(engine.counters().unacknowledged, 1);
    let written = bounded(writing).await.expect("it did not panic");
    assert!(written.is_err(), "the writer is released");
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_that_moves_is_not_followed() {
    let mut there = options();
    there.idle_timeout = Duration::from_secs(1);
    let (engine, options) = target(&there);
    let mut rogue = Rogue::connect(&options, there.identity.id(), engine.listening());
    let accepted = bounded(engine.accept()).await.expect("it lives");
    let (remote, ended) = (accepted.remote(), Moment::now() + WAIT);
    while !accepted.is_over() && Moment::now() < ended {
        rogue.socket = socket();
        rogue.quic.ping();
        rogue.turn();
    }
    assert_eq!(accepted.end(), Some(ConnectionError::TimedOut));
    assert_eq!(accepted.remote(), remote);
}

#[tokio::test(flavor = "multi_thread")]
async fn key_with_many_connections_is_refused() {
    let there = options();
    let (engine, options) = target(&there);
    let to = engine.listening();
    let mut rogues: Vec<_> = (0..6)
        .map(|_| Rogue::connect(&options, there.identity.id(), to))
        .collect();
    counted(&engine, |counters| counters.overload == 2).await;
    for rogue in &mut rogues {
        rogue.turn();
    }
    let closed = rogues.iter().filter(|rogue| rogue.end.is_some());
    assert_eq!(closed.count(), 2);
}
