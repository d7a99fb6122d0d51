//! A proxy between two TCP sockets that forwards at a set rate, or not at all.
//!
//! Both of its sockets have small buffers, so that the writer soon notices when it does not
//! forward.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;

use super::loopback;

/// Requested size of the socket buffers.
const BUFFER_BYTES: u32 = 16 << 10;

/// Segment size, in bytes.
const SEGMENT_BYTES: u32 = 1_448;

/// What the proxy does with a connection; set for each connection by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Forwards everything.
    Open,
    /// Forwards this many bytes per millisecond.
    Slow(usize),
    /// Reads nothing.
    Stalled,
    /// Closes both connections.
    Cut,
    /// Ends the way back, and forwards the other.
    HalfClosed,
    /// Resets both connections.
    Reset,
    /// Sends bytes that no peer would, then nothing.
    Garbage,
}

pub struct Proxy {
    pub address: SocketAddr,
    ways: Arc<watch::Sender<Vec<Way>>>,
}

impl Proxy {
    /// Starts in front of an address; connections for which nothing was set are treated as `way`.
    pub fn start(target: SocketAddr, way: Way) -> Self {
        let socket = small_socket();
        socket.bind(loopback()).expect("loopback has free ports");
        let listener = socket.listen(16).expect("it is bound");
        let address = listener.local_addr().expect("it is bound");
        let ways = Arc::new(watch::Sender::new(Vec::new()));
        let state = ways.clone();
        tokio::spawn(async move {
            for number in 0.. {
                let Ok((from, _)) = listener.accept().await else {
                    return;
                };
                state.send_modify(|ways| {
                    if ways.len() <= number {
                        ways.push(way);
                    }
                });
                let state = state.subscribe();
                tokio::spawn(async move {
                    if let Ok(to) = small_socket().connect(target).await {
                        join(from, to, number, state).await;
                    }
                });
            }
        });
        Self { address, ways }
    }

    /// Sets the treatment of a connection, numbered from zero in the order of arrival; it may be
    /// yet to come.
    pub fn set(&self, number: usize, way: Way) {
        self.ways.send_modify(|ways| {
            while ways.len() <= number {
                ways.push(way);
            }
            ways[number] = way;
        });
    }

    /// Sets the treatment of all connections so far.
    pub fn set_all(&self, way: Way) {
        self.ways.send_modify(|ways| ways.fill(way));
    }

    /// Waits until `count` connections have arrived.
    pub async fn count(&self, count: usize) {
        let mut ways = self.ways.subscribe();
        ways.wait_for(|ways| ways.len() >= count)
            .await
            .expect("the proxy lives");
    }
}

/// Returns a socket with a small buffer and Ethernet's segment size, since a loopback segment
/// exceeds the buffer.
fn small_socket() -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("there are sockets");
    let size = socket.set_recv_buffer_size(BUFFER_BYTES);
    size.expect("a buffer's size");
    let segments = socket2::SockRef::from(&socket).set_tcp_mss(SEGMENT_BYTES);
    segments.expect("a segment's size");
    socket
}

async fn join(
    mut from: TcpStream,
    mut to: TcpStream,
    number: usize,
    state: watch::Receiver<Vec<Way>>,
) {
    let (mut from_read, mut from_write) = from.split();
    let (mut to_read, mut to_write) = to.split();
    let there = pass(&mut from_read, &mut to_write, number, state.clone(), false);
    let back = pass(&mut to_read, &mut from_write, number, state.clone(), true);
    tokio::join!(there, back);
    if state.borrow()[number] == Way::Reset {
        for socket in [&from, &to] {
            let linger = socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO));
            linger.expect("an option of every socket");
        }
    }
}

async fn pass(
    from: &mut tokio::net::tcp::ReadHalf<'_>,
    to: &mut tokio::net::tcp::WriteHalf<'_>,
    number: usize,
    mut state: watch::Receiver<Vec<Way>>,
    is_back: bool,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let way = state.borrow_and_update()[number];
        let most = match way {
            Way::HalfClosed if is_back => break,
            Way::Open | Way::HalfClosed => buffer.len(),
            Way::Slow(bytes) => bytes,
            Way::Stalled | Way::Garbage => {
                if way == Way::Garbage && to.write_all(&[0xff; 1_000]).await.is_err() {
                    break;
                }
                if state.changed().await.is_err() {
                    return;
                }
                continue;
            }
            Way::Cut => break,
            Way::Reset => return,
        };
        let count = tokio::select! {
            count = from.read(&mut buffer[..most]) => count.unwrap_or(0),
            changed = state.changed() => {
                if changed.is_err() {
                    return;
                }
                continue;
            }
        };
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
        if matches!(way, Way::Slow(_)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    // An error means that it is gone already.
    let _ = to.shutdown().await;
}
