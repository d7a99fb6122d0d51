//! Which sockets have bytes or room: one `epoll`, edge-triggered.
//!
//! *The idea.* A socket is added once and never changed: an edge is reported when bytes arrive, and when
//! there is room again after a write was refused or `poll` was asked in vain. So a write costs no call
//! here.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::entry::Readiness;

/// Events that one call takes; the next call takes the rest.
#[cfg(target_os = "linux")]
const EVENTS_MAX: usize = 256;

/// Longest wait: as long as a call can wait without further ado. It costs a turn a minute.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// The watched sockets.
#[cfg(target_os = "linux")]
pub(super) struct Ready {
    epoll: std::os::fd::OwnedFd,
    found: Vec<(u64, Readiness)>,
}

#[cfg(target_os = "linux")]
impl Ready {
    pub(super) fn new() -> io::Result<Self> {
        use rustix::event::epoll::{CreateFlags, create};

        Ok(Self {
            epoll: create(CreateFlags::CLOEXEC)?,
            found: Vec::with_capacity(EVENTS_MAX),
        })
    }

    /// Watches a socket; it ends when the socket is closed.
    pub(super) fn add(&self, socket: BorrowedFd<'_>, id: u64) -> io::Result<()> {
        use rustix::event::epoll::{EventData, EventFlags, add};

        let wanted = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(add(&self.epoll, socket, EventData::new_u64(id), wanted)?)
    }

    /// Waits until a socket is ready, at most this long.
    pub(super) fn wait(&mut self, most: Option<Duration>) {
        use std::mem::MaybeUninit;

        use rustix::event::epoll::{EventFlags, wait};

        let most = most.map_or(WAIT_MAX, |most| most.min(WAIT_MAX));
        let most = most.try_into().unwrap_or_default();
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        // An interrupted wait is an early turn.
        let Ok((events, _)) = wait(&self.epoll, &mut events, Some(&most)) else {
            return;
        };
        self.found.extend(events.iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            let is_hung_up =
                flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            let readiness = Readiness {
                is_readable: is_hung_up || flags.contains(EventFlags::IN),
                is_writable: is_hung_up || flags.contains(EventFlags::OUT),
                is_hung_up,
            };
            (data.u64(), readiness)
        }));
    }

    /// Takes the entries with sockets that are ready.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u64, Readiness)> + '_ {
        self.found.drain(..)
    }
}

/// Elsewhere there is no loop yet.
#[cfg(not(target_os = "linux"))]
pub(super) struct Ready;

#[cfg(not(target_os = "linux"))]
impl Ready {
    pub(super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn add(&self, _: BorrowedFd<'_>, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn wait(&mut self, most: Option<Duration>) {
        std::thread::sleep(most.map_or(WAIT_MAX, |most| most.min(WAIT_MAX)));
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = (u64, Readiness)> + '_ {
        std::iter::empty()
    }
}
