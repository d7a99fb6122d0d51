//! The engine's UDP socket: batches of datagrams both ways.
//!
//! *The idea.* One system call receives up to [`BATCH`] buffers, each with as many datagrams of one
//! sender as the kernel has coalesced (GRO), into one arena that is reused. One sends a buffer that
//! the kernel cuts into packets (GSO).

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};

use bytes::BytesMut;
use noq_proto::{EcnCodepoint, FourTuple, Transmit};
use noq_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket as RawSocket, Type};

use super::udp::{Datagram, Sent, Udp};

/// Buffers that one system call fills.
const BATCH: usize = 16;

/// Size of a receive buffer: the most that the kernel coalesces.
const BUFFER_BYTES: usize = 1 << 16;

/// Kernel buffer per direction, in bytes; as much as iroh asks for.
const SOCKET_BYTES: usize = 7 << 20;

/// Packets in one buffer to send: more than a few gain nothing and delay acknowledgements.
const SEGMENTS_MAX: usize = 10;

/// A bound socket with its receive arena.
#[derive(Debug)]
pub(super) struct Socket {
    udp: std::net::UdpSocket,
    state: UdpSocketState,
    arena: Vec<u8>,
    metas: [RecvMeta; BATCH],
}

impl Socket {
    /// Fails   if the address cannot be bound
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = RawSocket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        // The system grants at most its own limit; less is no error.
        let _ = socket.set_recv_buffer_size(SOCKET_BYTES);
        let _ = socket.set_send_buffer_size(SOCKET_BYTES);
        socket.bind(&address.into())?;
        let udp = std::net::UdpSocket::from(socket);
        Ok(Self {
            state: UdpSocketState::new(UdpSockRef::from(&udp))?,
            udp,
            arena: vec![0; BATCH * BUFFER_BYTES],
            metas: [RecvMeta::default(); BATCH],
        })
    }
}

impl Udp for Socket {
    fn local(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    fn segments(&self) -> NonZeroUsize {
        let most = self.state.max_gso_segments();
        most.min(NonZeroUsize::new(SEGMENTS_MAX).unwrap_or(NonZeroUsize::MIN))
    }

    fn receive(&mut self, pool: &mut BytesMut, mut sink: impl FnMut(Datagram)) -> bool {
        let mut buffers = self.arena.chunks_mut(BUFFER_BYTES).map(IoSliceMut::new);
        let mut buffers: [IoSliceMut<'_>; BATCH] =
            std::array::from_fn(|_| buffers.next().expect("the arena has as many"));
        let socket = UdpSockRef::from(&self.udp);
        let count = match self.state.recv(socket, &mut buffers, &mut self.metas) {
            Ok(count) => count,
            Err(error) => {
                if error.kind() != io::ErrorKind::WouldBlock {
                    // The failure of an earlier send, or a transient one.
                    tracing::debug!(%error, "receiving");
                }
                return false;
            }
        };
        for (meta, buffer) in self.metas.iter().zip(&buffers).take(count) {
            pool.extend_from_slice(&buffer[..meta.len]);
            let mut datagrams = pool.split_to(meta.len);
            let path = FourTuple::new(meta.addr, meta.dst_ip);
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            while !datagrams.is_empty() {
                let length = meta.stride.clamp(1, datagrams.len());
                sink((path, ecn, datagrams.split_to(length)));
            }
        }
        count == BATCH
    }

    fn send(&mut self, transmit: &Transmit, contents: &[u8]) -> Sent {
        let packets = noq_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit
                .ecn
                .and_then(|ecn| noq_udp::EcnCodepoint::from_bits(ecn as u8)),
            contents: &contents[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        match self.state.try_send(UdpSockRef::from(&self.udp), &packets) {
            Ok(()) => Sent::Yes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Sent::Full,
            Err(error) => {
                // Too large a probe for the MTU is one of them.
                tracing::debug!(%error, "a packet was not sent");
                Sent::Lost
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}
