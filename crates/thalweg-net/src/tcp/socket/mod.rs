//! TCP sockets: their options, and what the kernel says of them.
//!
//! *The idea.* Nothing is to wait in the kernel that could still be overtaken: no Nagle, and a low-water mark for unsent
//! bytes, at which the kernel wakes the writer. A connection whose segments nobody acknowledges is given up by the kernel
//! after the time after which a peer is taken for dead.
//!
//! *What it does not do.* It sets no pacing rate: `cubic` and `bbr` pace as they see fit, and the window is theirs.
//!
//! *Sources.* `tcp(7)`; Linux commit c9bee3b7fdec (`TCP_NOTSENT_LOWAT`), a74f0fa082b7 (woken at half of it).

#[cfg(target_os = "linux")]
mod info;
#[cfg(test)]
mod tests;

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockRef, Socket, Type};
use thalweg_core::hop::settings::IDLE_TIMEOUT;
use thalweg_core::pace::KernelPath;
use thalweg_core::units::DataSize;
use tokio::io::Interest;
use tokio::net::{TcpListener, TcpStream};

/// Connections that the kernel keeps until they are accepted, as the standard library has it.
const BACKLOG: i32 = 128;

/// All that the kernel says of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) path: KernelPath,
    /// Segments with data that were sent.
    pub(super) segments: u64,
    /// Of them those that were sent again, and had not come before.
    pub(super) lost: u64,
}

/// Sets what every TCP socket of ours has; for a listener too, whose connections inherit it.
///
/// Fails   a congestion control that the kernel does not have
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

/// Listens on an address; for one of IPv6 on that alone, so that `[::]` and `0.0.0.0` of one port stand beside each other, as they
/// do over UDP.
///
/// Fails   an address that is in use or not ours
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // As the standard library does: a node that is started again need not wait for its former connections to be forgotten.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Reads what has arrived, as far as there is place for it; zero at the end.
///
/// A reading that leaves place has emptied the socket, by which an edge-triggered run-time knows it (epoll(7)): it need not
/// find that out by another, which would be every second one where ADUs come one by one.
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

/// Sets how much may be unsent before the kernel says that there is no room; it says so again below half.
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

/// Says that nothing more will be written.
pub(super) fn end<S: AsFd>(socket: &S) -> io::Result<()> {
    SockRef::from(socket).shutdown(std::net::Shutdown::Write)
}

/// Sees to it that closing the socket takes back what is unsent, instead of sending it after all.
pub(super) fn forget_unsent<S: AsFd>(socket: &S) -> io::Result<()> {
    SockRef::from(socket).set_linger(Some(std::time::Duration::ZERO))
}

/// Returns what the kernel says of a connection.
///
/// Fails   a system without `TCP_INFO`, or with one older than Linux 4.9
pub(super) fn path<S: AsFd>(socket: &S) -> io::Result<KernelPath> {
    reading(socket).map(|reading| reading.path)
}

/// Returns the same, and how much was sent.
///
/// Fails   as [`path`]
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

/// Returns whether the kernel takes more now. If not, it wakes whoever waits for that: it does so only after it was asked.
pub(super) fn has_room<S: AsFd>(socket: &S) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::OUT)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // An interrupted call is asked again at the next turn.
    poll(&mut asked, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
