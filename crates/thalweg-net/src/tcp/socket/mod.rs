//! TCP sockets: their options, and the kernel's readings.
//!
//! *The idea.* Bytes that could still be overtaken must not queue in the kernel: Nagle's algorithm
//! is off, and a low-water mark limits unsent bytes and wakes the writer. The kernel gives up a
//! connection without acknowledgements after a peer's idle timeout.
//!
//! *What it does not do.* It sets no pacing rate: `cubic` and `bbr` do their own pacing and
//! windows.
//!
//! *Sources.* `tcp(7)`; Linux commit c9bee3b7fdec (`TCP_NOTSENT_LOWAT`), a74f0fa082b7 (woken at
//! half of it).

#[cfg(target_os = "linux")]
mod info;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockRef, Socket, Type};
use thalweg_base::units::DataSize;
use thalweg_link::hop::settings::IDLE_TIMEOUT;
use thalweg_link::tcp_mux::KernelPath;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// The kernel's queue of connections not yet accepted, as in the standard library.
const BACKLOG: i32 = 128;

/// Bytes of a segment that passes every IPv4 path in use (RFC 9293 §3.7.1: the default of 536).
const SMALL_SEGMENT_BYTES: u32 = 536;

/// How large the segments of a connection may be, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segments {
    /// As large as the kernel takes the path's MTU to be.
    Path,
    /// Small enough for a path that drops larger ones without an ICMP message.
    Small,
}

/// The kernel's reading of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) path: KernelPath,
    /// Segments with data that were sent.
    pub(super) segments: u64,
    /// Retransmitted segments among them that the peer did not have already.
    pub(super) lost: u64,
}

/// Sets the options of every TCP socket; also for a listener, as its connections inherit them.
///
/// Fails   if the kernel lacks the congestion control
pub(super) fn set_options<S: AsFd>(socket: &S, congestion: Option<&str>) -> io::Result<()> {
    let socket = SockRef::from(socket);
    socket.set_tcp_nodelay(true)?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_user_timeout(Some(IDLE_TIMEOUT.into()))?;
        if let Some(name) = congestion {
            socket.set_tcp_congestion(name.as_bytes())?;
        }
    }
    Ok(())
}

/// Opens a socket that is to be connected to an address.
///
/// The limit is set before the handshake, which announces it, so the peer's segments keep to it too.
pub(super) fn open(address: SocketAddr, segments: Segments) -> io::Result<TcpSocket> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    if segments == Segments::Small {
        SockRef::from(&socket).set_tcp_mss(SMALL_SEGMENT_BYTES)?;
    }
    Ok(socket)
}

/// Listens on an address; an IPv6 one without IPv4, so that `[::]` and `0.0.0.0` can share a port,
/// as they do over UDP.
///
/// Fails   if the address is in use or not ours
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // As in the standard library: a restarted node need not wait for old connections in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Reads arrived bytes into `place`; zero at the end of the stream.
///
/// A short read has emptied the socket, so the run-time's readiness is cleared here (epoll(7),
/// edge-triggered): otherwise another read would have to find that out, every second one where ADUs
/// arrive singly.
///
/// Fails   with `WouldBlock` if nothing has arrived
pub(super) fn read(socket: &TcpStream, place: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    let read = socket.try_io(Interest::READABLE, || {
        count = (&*SockRef::from(socket)).read(place)?;
        if (1..place.len()).contains(&count) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(())
    });
    match read {
        Err(error) if count == 0 => Err(error),
        _ => Ok(count),
    }
}

/// Sets the maximum of unsent bytes; above it the kernel reports no room, until they fall below
/// half.
pub(super) fn set_unsent_max<S: AsFd>(socket: &S, unsent: DataSize) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let bytes = u32::try_from(unsent.as_bytes()).unwrap_or(u32::MAX);
        SockRef::from(socket).set_tcp_notsent_lowat(bytes)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (socket, unsent);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Ends the sending side.
pub(super) fn end<S: AsFd>(socket: &S) -> io::Result<()> {
    SockRef::from(socket).shutdown(std::net::Shutdown::Write)
}

/// Makes closing the socket discard unsent bytes (`SO_LINGER` zero) instead of sending them.
pub(super) fn forget_unsent<S: AsFd>(socket: &S) -> io::Result<()> {
    SockRef::from(socket).set_linger(Some(std::time::Duration::ZERO))
}

/// Returns the kernel's reading of the path.
///
/// Fails   on a system without `TCP_INFO`, or with Linux before 4.9
pub(super) fn path<S: AsFd>(socket: &S) -> io::Result<KernelPath> {
    reading(socket).map(|reading| reading.path)
}

/// Returns the whole reading.
///
/// Fails   like [`path`]
pub(super) fn reading<S: AsFd>(socket: &S) -> io::Result<Reading> {
    #[cfg(target_os = "linux")]
    {
        info::reading(socket.as_fd())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns whether the kernel has room now. If not, the kernel will report room later: it does so
/// only after this query.
pub(super) fn has_room<S: AsFd>(socket: &S) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::OUT)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // If interrupted, the next turn asks again.
    poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
