//! UDP that only goes to addresses that were dialled, and back to the sources of packets.
//!
//! *The idea.* iroh searches for further paths by itself: it sends peers the machine's addresses,
//! probes all addresses that peers send, and moves a link to the path that answers sooner. None of
//! this can be switched off. But it treats the addresses of a *custom transport* as opaque: it
//! neither probes nor sends them. So a confined node's sockets are a custom transport with wrapped
//! UDP addresses, and iroh has no UDP socket at all: addresses from peers lead nowhere, and there
//! are none to send.
//!
//! ```text
//! iroh ◄── datagrams, wrapped addresses ──► Endpoint, Sender ◄── batches, UDP ──► sockets
//! ```
//!
//! The dialling node's iroh learns no local address: the kernel picks the source of each packet. So
//! when the node's address changes, the link continues with the next packet, and the peer, which
//! finds the same connection at a new source, replies there. If iroh knew a local address, it would
//! send from that one until it learns that the address is gone; on a network without a default
//! route it learns that only after five seconds. The dialled node replies from the address to which
//! it was written.
//!
//! iroh remembers each wrapped address for ever, so packets from unknown addresses are admitted by
//! a rate limit; dialled and known addresses are exempt.
//!
//! *What it does not do.* It sets no ECN mark: iroh does not pass the mark on. Received batches
//! (GRO) are split into datagrams by copying.
//!
//! *Sources.* iroh 1.4 `socket/transports/custom.rs`, an interface that any version may change.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use iroh::endpoint::transports::{
    CustomEndpoint, CustomSender, CustomTransport, RecvInfo, Transmit,
};
use iroh_base::CustomAddr;
use n0_watcher::{Direct, Watchable};
use noq_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket as RawSocket, Type};
use thalweg_base::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::clock::Clock;
use crate::error::BindError;

/// The transport id of wrapped UDP addresses: "thalweg" in ASCII.
const KIND: u64 = 0x74_68_61_6c_77_65_67;

/// Kernel buffer per socket and direction, in bytes; iroh asks for as much on its own sockets.
const SOCKET_BYTES: usize = 7 << 20;

/// Number of receive buffers filled by one system call.
const BATCH: usize = 8;

/// Size of one receive buffer: the most that the kernel coalesces (GRO).
const BUFFER_BYTES: usize = 1 << 16;

/// Burst of unknown addresses that are admitted; an overlay has fewer nodes.
const STRANGERS_MAX: u32 = 4096;

/// Interval at which one more is admitted. At that rate, 8,640 a day, iroh remembers 2 MB a day.
const STRANGER_EVERY: Duration = Duration::from_secs(10);

/// The first byte's bit that marks a long header, as handshake packets have (RFC 8999 §5.1).
const LONG_HEADER: u8 = 0x80;

/// The UDP sockets of a confined node.
#[derive(Clone, Debug)]
pub(super) struct Confined(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sockets: Vec<Socket>,
    known: Mutex<Known>,
    clock: Clock,
}

#[derive(Debug)]
struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

/// The addresses that were written to or heard from.
#[derive(Debug)]
struct Known {
    addresses: HashSet<SocketAddr>,
    /// Those of them with which this node began a handshake.
    dialled: HashSet<SocketAddr>,
    /// Number of unknown addresses that are admitted now.
    allowance: u32,
    /// When `room` last grew.
    since: Instant,
}

/// Wraps a UDP address for iroh.
pub(super) fn wrapped(address: SocketAddr) -> CustomAddr {
    let mut bytes = match address.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    bytes.extend(address.port().to_be_bytes());
    if let SocketAddr::V6(address) = address {
        bytes.extend(address.scope_id().to_be_bytes());
    }
    CustomAddr::from_parts(KIND, &bytes)
}

/// Unwraps a UDP address; `None` for another transport's address.
pub(crate) fn unwrapped(address: &CustomAddr) -> Option<SocketAddr> {
    if address.id() != KIND {
        return None;
    }
    let bytes = address.data();
    if let Ok(&[a, b, c, d, high, low]) = <&[u8; 6]>::try_from(bytes) {
        let port = u16::from_be_bytes([high, low]);
        return Some((Ipv4Addr::new(a, b, c, d), port).into());
    }
    let (ip, rest) = bytes.split_first_chunk::<16>()?;
    let (port, scope) = rest.split_first_chunk::<2>()?;
    let scope = u32::from_be_bytes(scope.try_into().ok()?);
    let port = u16::from_be_bytes(*port);
    Some(SocketAddrV6::new(Ipv6Addr::from(*ip), port, 0, scope).into())
}

impl Confined {
    /// Binds a socket to each of these addresses, or to any port of any address if there are none.
    ///
    /// Fails   if an address cannot be listened on
    pub(super) fn bind(listen: &[SocketAddr], clock: Clock) -> Result<Self, BindError> {
        let any = [SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))];
        let listen = if listen.is_empty() { &any } else { listen };
        let bind = |address: &SocketAddr| {
            Socket::bind(*address).map_err(|source| BindError::Listen {
                address: *address,
                source,
            })
        };
        let sockets = listen.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Self(Arc::new(Shared {
            sockets,
            known: Mutex::new(Known::new(clock.now())),
            clock,
        })))
    }

    /// Returns the addresses that the sockets are bound to.
    pub(super) fn listening(&self) -> Vec<SocketAddr> {
        self.0.sockets.iter().map(|socket| socket.local).collect()
    }
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        // No code that can panic runs under this lock.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the index of the socket to send from: the one bound to `from`, or the first of the
    /// family.
    fn sending(&self, to: SocketAddr, from: Option<SocketAddr>) -> Option<usize> {
        let is_of = |socket: &Socket| match from {
            Some(from) => {
                let is_own = socket.local.ip().is_unspecified() || socket.local.ip() == from.ip();
                is_own && socket.local.port() == from.port()
            }
            None => true,
        };
        let mut sockets = self.sockets.iter();
        sockets.position(|socket| socket.local.is_ipv4() == to.is_ipv4() && is_of(socket))
    }
}

impl Socket {
    fn bind(address: SocketAddr) -> io::Result<Self> {
        let domain = Domain::for_address(address);
        let socket = RawSocket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        // The system grants at most its own limit; less is no error.
        let _ = socket.set_recv_buffer_size(SOCKET_BYTES);
        let _ = socket.set_send_buffer_size(SOCKET_BYTES);
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let udp = UdpSocket::from_std(socket.into())?;
        Ok(Self {
            state: UdpSocketState::new(UdpSockRef::from(&udp))?,
            local: udp.local_addr()?,
            udp,
        })
    }

    fn try_receive(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.udp.try_io(Interest::READABLE, || {
            self.state.recv(UdpSockRef::from(&self.udp), buffers, metas)
        })
    }

    fn try_send(&self, transmit: &noq_udp::Transmit<'_>) -> io::Result<()> {
        self.udp.try_io(Interest::WRITABLE, || {
            self.state.try_send(UdpSockRef::from(&self.udp), transmit)
        })
    }
}

impl Known {
    fn new(now: Instant) -> Self {
        Self {
            addresses: HashSet::new(),
            dialled: HashSet::new(),
            allowance: STRANGERS_MAX,
            since: now,
        }
    }

    /// Records a packet that iroh sends without naming a source address.
    ///
    /// A handshake packet makes `to` a dialled address. Other packets do not: iroh also omits the
    /// source once towards an address that it only heard from, after it has learned that this
    /// node's addresses changed.
    fn handle_sent(&mut self, to: SocketAddr, packet: &[u8]) {
        self.addresses.insert(to);
        if packet.first().is_some_and(|first| first & LONG_HEADER != 0) {
            self.dialled.insert(to);
        }
    }

    /// Returns whether replies to `from` must leave from the address to which it wrote.
    fn replies_from_own(&self, from: SocketAddr) -> bool {
        !self.dialled.contains(&from)
    }

    /// Returns whether packets from this address are admitted.
    fn admits(&mut self, from: SocketAddr, now: Instant) -> bool {
        if self.addresses.contains(&from) {
            return true;
        }
        if self.allowance == STRANGERS_MAX {
            self.since = now;
        } else {
            while self.allowance < STRANGERS_MAX && self.since + STRANGER_EVERY <= now {
                self.since = self.since + STRANGER_EVERY;
                self.allowance += 1;
            }
        }
        let Some(allowance) = self.allowance.checked_sub(1) else {
            return false;
        };
        self.allowance = allowance;
        self.addresses.insert(from)
    }
}

impl CustomTransport for Confined {
    fn bind(&self) -> io::Result<Box<dyn CustomEndpoint>> {
        Ok(Box::new(Endpoint {
            shared: Arc::clone(&self.0),
            advertised: Watchable::new(Vec::new()),
            next: 0,
            bytes: vec![0; BATCH * BUFFER_BYTES],
            metas: [RecvMeta::default(); BATCH],
            socket: 0,
            full: 0,
            buffer: 0,
            at: 0,
        }))
    }
}

/// The receiving side, which iroh polls for datagrams.
#[derive(Debug)]
struct Endpoint {
    shared: Arc<Shared>,
    /// The addresses sent to peers: none. Kept alive here: a watcher of a dropped watchable polls
    /// in a busy loop.
    advertised: Watchable<Vec<CustomAddr>>,
    /// Index of the socket that is polled first next time.
    next: usize,
    bytes: Vec<u8>,
    metas: [RecvMeta; BATCH],
    /// Index of the socket that filled the buffers.
    socket: usize,
    /// Number of filled buffers.
    full: usize,
    /// The first buffer with datagrams left, and the offset of the next datagram in it.
    buffer: usize,
    at: usize,
}

impl Endpoint {
    /// Fills the buffers from the first socket that is readable.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let count = self.shared.sockets.len();
        for place in (self.next..count).chain(0..self.next) {
            let socket = &self.shared.sockets[place];
            while socket.udp.poll_recv_ready(cx).is_ready() {
                let mut buffers = self.bytes.chunks_mut(BUFFER_BYTES).map(IoSliceMut::new);
                let mut buffers: [IoSliceMut<'_>; BATCH] =
                    std::array::from_fn(|_| buffers.next().expect("there are as many"));
                match socket.try_receive(&mut buffers, &mut self.metas) {
                    Ok(full) => {
                        (self.socket, self.full) = (place, full);
                        (self.buffer, self.at) = (0, 0);
                        self.next = (place + 1) % count;
                        return Poll::Ready(());
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    // A failure of an earlier send, or a transient one.
                    Err(error) => {
                        tracing::debug!(%error, "receiving");
                        cx.waker().wake_by_ref();
                        break;
                    }
                }
            }
        }
        Poll::Pending
    }

    /// Moves buffered datagrams to iroh's buffers, one each; returns how many.
    fn hand_over(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
        infos: &mut [RecvInfo],
    ) -> usize {
        let now = self.shared.clock.now();
        let mut known = self.shared.known();
        let local = self.shared.sockets[self.socket].local;
        let mut count = 0;
        while count < buffers.len() && self.buffer < self.full {
            let meta = self.metas[self.buffer];
            let end = (self.at + meta.stride).min(meta.len);
            let start = self.buffer * BUFFER_BYTES;
            let datagram = &self.bytes[start + self.at..start + end];
            self.at = end;
            if end == meta.len {
                (self.buffer, self.at) = (self.buffer + 1, 0);
            }
            let target = &mut buffers[count];
            if datagram.is_empty() || datagram.len() > target.len() || !known.admits(meta.addr, now)
            {
                continue;
            }
            target[..datagram.len()].copy_from_slice(datagram);
            let own = meta.dst_ip.unwrap_or(local.ip());
            let has_source = !own.is_unspecified() && known.replies_from_own(meta.addr);
            let own = has_source.then(|| wrapped((own, local.port()).into()));
            metas[count] = meta;
            (metas[count].len, metas[count].stride) = (datagram.len(), datagram.len());
            metas[count].dst_ip = None;
            infos[count] = RecvInfo::new(wrapped(meta.addr), own);
            count += 1;
        }
        count
    }
}

impl CustomEndpoint for Endpoint {
    fn watch_local_addrs(&self) -> Direct<Vec<CustomAddr>> {
        self.advertised.watch()
    }

    fn create_sender(&self) -> Arc<dyn CustomSender> {
        Arc::new(Sender {
            shared: Arc::clone(&self.shared),
            waiting: Mutex::new(None),
        })
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
        infos: &mut [RecvInfo],
    ) -> Poll<io::Result<usize>> {
        loop {
            let count = self.hand_over(buffers, metas, infos);
            if count > 0 {
                return Poll::Ready(Ok(count));
            }
            ready!(self.poll_fill(cx));
        }
    }

    fn max_transmit_segments(&self) -> NonZeroUsize {
        let segments = self
            .shared
            .sockets
            .iter()
            .map(|socket| socket.state.max_gso_segments());
        segments.min().unwrap_or(NonZeroUsize::MIN)
    }
}

type Writable = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// The sending side, one per connection.
struct Sender {
    shared: Arc<Shared>,
    /// Waits for a full socket to become writable. One per sender, since tokio wakes only one task
    /// per polled socket.
    waiting: Mutex<Option<Writable>>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl Sender {
    fn poll_room(&self, cx: &mut Context<'_>, socket: usize) -> Poll<io::Result<()>> {
        // Only tokio's code runs under this lock.
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let room = waiting.get_or_insert_with(|| {
            let shared = Arc::clone(&self.shared);
            Box::pin(async move { shared.sockets[socket].udp.writable().await })
        });
        let result = ready!(room.as_mut().poll(cx));
        *waiting = None;
        Poll::Ready(result)
    }
}

impl CustomSender for Sender {
    fn is_valid_send_addr(&self, address: &CustomAddr) -> bool {
        unwrapped(address).is_some()
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        to: &CustomAddr,
        from: Option<&CustomAddr>,
        transmit: &Transmit<'_>,
    ) -> Poll<io::Result<()>> {
        let from = from.and_then(unwrapped);
        let to = unwrapped(to).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let socket = self.shared.sending(to, from);
        let socket = socket.ok_or(io::ErrorKind::AddrNotAvailable)?;
        if from.is_none() {
            self.shared.known().handle_sent(to, transmit.contents);
        }
        let datagrams = noq_udp::Transmit {
            destination: to,
            ecn: None,
            contents: transmit.contents,
            segment_size: transmit.segment_size,
            src_ip: from.map(|from| from.ip()),
        };
        loop {
            match self.shared.sockets[socket].try_send(&datagrams) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    ready!(self.poll_room(cx, socket))?;
                }
                result => return Poll::Ready(result),
            }
        }
    }
}
