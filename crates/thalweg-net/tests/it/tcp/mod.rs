//! Proves the behaviour of links over TCP, on real sockets on loopback.
//!
//! Tests that need a slow or stalled line put a proxy between the ends, which forwards bytes at a
//! rate, or none. Every wait is bounded, and tests assert no durations.

mod clear;
mod fail_over;
mod link;
mod outbox;
mod plain;
mod proxy;
mod strangers;
mod streams;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use thalweg_link::tcp_mux::{Event, Pacing, StreamNumber, Written};
use thalweg_net::tcp::{ClearLoop, Connection, Events, Listener, Options, dial};
use thalweg_net::{Admission, Clock, Identity};

use crate::node::bounded;

/// Both ends of a session.
struct Pair {
    a: Connection,
    events: Events,
    b: Connection,
    /// Held for the pair's lifetime; no test reads the events of `b`.
    _listener: Listener,
}

fn loopback() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn options(pacing: Pacing) -> Options {
    let mut options = Options::new(Identity::ephemeral(), Clock::start());
    options.pacing = pacing;
    options
}

/// How the connections of a session are paced, and carried: encrypted by a task each, or in the clear by
/// one thread's loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Tasks(Pacing),
    Loop(Pacing),
}

impl By {
    const ALL: [Self; 4] = [
        Self::Tasks(Pacing::Kernel),
        Self::Tasks(Pacing::Acked),
        Self::Loop(Pacing::Kernel),
        Self::Loop(Pacing::Acked),
    ];

    /// Those that the kernel paces.
    const KERNEL: [Self; 2] = [Self::Tasks(Pacing::Kernel), Self::Loop(Pacing::Kernel)];

    /// Returns the options of two ends.
    fn options(self) -> (Options, Options) {
        let (Self::Tasks(pacing) | Self::Loop(pacing)) = self;
        let (mut here, mut there) = (options(pacing), options(pacing));
        if let Self::Loop(_) = self {
            here.plain.insert(there.identity.id());
            there.plain.insert(here.identity.id());
            for options in [&mut here, &mut there] {
                options.clear = Some(Arc::new(
                    ClearLoop::start().expect("Linux has what it needs"),
                ));
            }
        }
        (here, there)
    }
}

async fn listen(options: &Options, admission: Admission) -> Listener {
    Listener::bind(options.clone(), &[loopback()], admission)
        .await
        .expect("loopback can be listened on")
}

/// Dials the address that `between` returns for the listener's.
async fn pair_through(by: By, between: impl AsyncFnOnce(SocketAddr) -> SocketAddr) -> Pair {
    let (here, there) = by.options();
    let mut listener = listen(&there, Admission::of([here.identity.id()])).await;
    let address = between(listener.addresses()[0]).await;
    let (a, events) = bounded(dial(&here, there.identity.id(), &[address]))
        .await
        .expect("both know each other");
    let (b, _) = bounded(listener.accept())
        .await
        .expect("the listener lives");
    Pair {
        a,
        events,
        b,
        _listener: listener,
    }
}

async fn pair(by: By) -> Pair {
    pair_through(by, async |address| address).await
}

/// Writes all bytes, waiting for room, and finishes the stream.
async fn write_all(connection: &Connection, stream: StreamNumber, mut bytes: Bytes) -> Written {
    loop {
        match connection.write(stream, &mut bytes) {
            Written::All => {
                connection.finish(stream);
                return Written::All;
            }
            // Polled, since the test itself reads the events.
            Written::Blocked | Written::StreamBlocked => {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            written => return written,
        }
    }
}

/// Waits until the peer has every byte of `count` streams.
async fn acknowledged(events: &mut Events, mut count: usize) {
    while count > 0 {
        let event = bounded(events.next()).await.expect("the session lives");
        count -= usize::from(matches!(event, Event::Acknowledged(_)));
    }
}

/// Returns bytes that depend on their position and on the stream.
fn pattern(seed: usize, bytes: usize) -> Bytes {
    (0..bytes)
        .map(|place| (place.wrapping_mul(7 + seed) % 251) as u8)
        .collect()
}
