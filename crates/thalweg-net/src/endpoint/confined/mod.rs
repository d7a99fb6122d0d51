//! UDP that goes nowhere but where it is told: to addresses that were dialled, and back to where packets came from.
//!
//! *The idea.* iroh looks for further ways by itself: it tells peers the addresses of the machine, sends to all that they tell,
//! and moves a link to what answers sooner; none of this can be switched off. But it knows addresses that are its own
//! business, of UDP, and others that are a transport's, of which it asks and tells nothing. So the sockets of a confined
//! node are such a transport, whose addresses are those of UDP in a wrapping, and iroh has none of UDP at all: what a peer
//! tells leads nowhere, and there is nothing to tell it.
//!
//! ```text
//! iroh ◄── datagrams, wrapped addresses ──► Endpoint, Sender ◄── batches, UDP ──► sockets
//! ```
//!
//! Who dials is told no address of this node's: the kernel picks one for each packet. So a link goes on by the next packet when the
//! node has another address, from which the peer hears the same connection and to which it answers from then on. Had iroh one to
//! send from, it would send from that until it is told that it is gone, and on a network without a default route it waits five seconds
//! for one before it tells. Who was dialled answers from the address that was written to.
//!
//! iroh remembers each wrapped address for ever. Addresses from which strangers write are therefore let in by an
//! allowance; those that were dialled, and those that are known, need none.
//!
//! *What it does not do.* It marks no packet for ECN, for iroh keeps the mark to itself. Datagrams that the kernel hands over together
//! are copied apart.
//!
//! *Sources.* iroh 1.4 `socket/transports/custom.rs`, whose interface may change with any version of it.

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
use thalweg_core::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::clock::Clock;
use crate::error::BindError;

/// What tells wrapped addresses of UDP from those of other transports: "thalweg" in ASCII.
const KIND: u64 = 0x74_68_61_6c_77_65_67;

/// Room in the kernel each way; as much as iroh asks for its own sockets.
const SOCKET_BYTES: usize = 7 << 20;

/// How many buffers are filled at once.
const BATCH: usize = 8;

/// One buffer: the most that the kernel hands over as one, of datagrams of one length.
const BUFFER_BYTES: usize = 1 << 16;

/// Strangers that are let in at once; a fabric has fewer nodes.
const STRANGERS_MAX: u32 = 4096;

/// How often one more is let in. Of 8,640 a day iroh remembers 2 MB.
const STRANGER_EVERY: Duration = Duration::from_secs(10);

/// The bit of a packet's first byte that those of a handshake have (RFC 8999 §5.1).
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

/// Who has been written to or heard.
#[derive(Debug)]
struct Known {
    addresses: HashSet<SocketAddr>,
    /// Those of them with which this node has begun a handshake.
    dialled: HashSet<SocketAddr>,
    /// How many strangers may come now.
    room: u32,
    /// Since when there is no more.
    since: Instant,
}

/// Returns an address of UDP as iroh is to know it.
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

/// Returns the address of UDP that is in a wrapping; none in another transport's.
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
    /// Binds a socket to each of these addresses; to any port of any address, if there are none.
    ///
    /// Fails   an address that cannot be listened on
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

    /// Returns the socket that sends there: the one that was written to from there, or the first of the family.
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
        // As much as the system lets it have.
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
            room: STRANGERS_MAX,
            since: now,
        }
    }

    /// Takes in that a packet goes there from no address in particular.
    ///
    /// It is dialled: whoever answers there has answered. One that was heard there before is answered so too, once, when iroh has been
    /// told that this node's addresses are others; but that is no handshake.
    fn handle_sent(&mut self, to: SocketAddr, packet: &[u8]) {
        self.addresses.insert(to);
        if packet.first().is_some_and(|first| first & LONG_HEADER != 0) {
            self.dialled.insert(to);
        }
    }

    /// Returns whether who wrote from there is to be answered from the address that it wrote to.
    fn holds_to_own(&self, from: SocketAddr) -> bool {
        !self.dialled.contains(&from)
    }

    /// Returns whether packets from there are taken.
    fn admits(&mut self, from: SocketAddr, now: Instant) -> bool {
        if self.addresses.contains(&from) {
            return true;
        }
        if self.room == STRANGERS_MAX {
            self.since = now;
        } else {
            while self.room < STRANGERS_MAX && self.since + STRANGER_EVERY <= now {
                self.since = self.since + STRANGER_EVERY;
                self.room += 1;
            }
        }
        let Some(room) = self.room.checked_sub(1) else {
            return false;
        };
        self.room = room;
        self.addresses.insert(from)
    }
}

impl CustomTransport for Confined {
    fn bind(&self) -> io::Result<Box<dyn CustomEndpoint>> {
        Ok(Box::new(Endpoint {
            shared: Arc::clone(&self.0),
            told: Watchable::new(Vec::new()),
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

/// What iroh takes datagrams from.
#[derive(Debug)]
struct Endpoint {
    shared: Arc<Shared>,
    /// The addresses that others are told: none, for good. Whoever watches asks without a pause once this is gone.
    told: Watchable<Vec<CustomAddr>>,
    /// The socket that is asked first next time.
    next: usize,
    bytes: Vec<u8>,
    metas: [RecvMeta; BATCH],
    /// Which socket filled the buffers.
    socket: usize,
    /// How many of the buffers are filled.
    full: usize,
    /// The first that is not empty yet, and where in it the next datagram begins.
    buffer: usize,
    at: usize,
}

impl Endpoint {
    /// Fills the buffers from the first socket that has something.
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
                    // About a packet that was sent, or the moment's.
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

    /// Hands the datagrams that are there over, one for each buffer; returns how many.
    fn hand_over(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
        infos: &mut [RecvInfo],
    ) -> usize {
        let now = self.shared.clock.now();
        let mut known = self.shared.known();
        let local = self.shared.sockets[self.socket].local;
        let mut given = 0;
        while given < buffers.len() && self.buffer < self.full {
            let meta = self.metas[self.buffer];
            let end = (self.at + meta.stride).min(meta.len);
            let start = self.buffer * BUFFER_BYTES;
            let datagram = &self.bytes[start + self.at..start + end];
            self.at = end;
            if end == meta.len {
                (self.buffer, self.at) = (self.buffer + 1, 0);
            }
            let room = &mut buffers[given];
            if datagram.is_empty() || datagram.len() > room.len() || !known.admits(meta.addr, now) {
                continue;
            }
            room[..datagram.len()].copy_from_slice(datagram);
            let own = meta.dst_ip.unwrap_or(local.ip());
            let is_told = !own.is_unspecified() && known.holds_to_own(meta.addr);
            let own = is_told.then(|| wrapped((own, local.port()).into()));
            metas[given] = meta;
            (metas[given].len, metas[given].stride) = (datagram.len(), datagram.len());
            metas[given].dst_ip = None;
            infos[given] = RecvInfo::new(wrapped(meta.addr), own);
            given += 1;
        }
        given
    }
}

impl CustomEndpoint for Endpoint {
    fn watch_local_addrs(&self) -> Direct<Vec<CustomAddr>> {
        self.told.watch()
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
            let given = self.hand_over(buffers, metas, infos);
            if given > 0 {
                return Poll::Ready(Ok(given));
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

/// What iroh hands datagrams to; each connection has its own.
struct Sender {
    shared: Arc<Shared>,
    /// The socket that had no room will have some. Each sender waits for itself, for a socket wakes one task alone that polls it.
    waiting: Mutex<Option<Writable>>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").finish_non_exhaustive()
    }
}

impl Sender {
    fn poll_room(&self, cx: &mut Context<'_>, socket: usize) -> Poll<io::Result<()>> {
        // What runs under this lock is tokio's.
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
