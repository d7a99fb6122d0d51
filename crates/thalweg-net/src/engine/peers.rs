//! The connections by handle, and their timers.
//!
//! *The idea.* A slot is in one of three stages: its handshake, a connection that a link holds, or
//! a closing one that sends its last packets. The loop owns the slots; only the middle stage is shared.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use noq_proto::{Connection as Quic, ConnectionHandle};
use thalweg_base::id::NodeId;
use tokio::sync::oneshot;

use super::connection::Connection;
use super::dial::DialError;
use super::shared::Shared;
use super::timers::Timers;
use crate::lobby::Host;

/// The slots, the marked ones, and the timers.
#[derive(Default)]
pub(super) struct Peers {
    slots: Vec<Option<Slot>>,
    marked: Vec<ConnectionHandle>,
    timers: Timers,
}

/// One connection.
pub(super) struct Slot {
    pub(super) stage: Stage,
    /// The time of its entry in the heap that counts.
    wake: Option<Instant>,
    is_marked: bool,
}

/// How far a connection is.
pub(super) enum Stage {
    Shaking(Box<Quic>, Handshake),
    Up(Arc<Shared>),
    Closing(Box<Quic>),
}

/// A handshake.
pub(super) struct Handshake {
    pub(super) since: Instant,
    pub(super) remote: SocketAddr,
    pub(super) begun_by: BegunBy,
}

/// Which end has begun a handshake.
pub(super) enum BegunBy {
    Peer(Host),
    Here(NodeId, oneshot::Sender<Result<Connection, DialError>>),
}

impl BegunBy {
    /// Returns whether the other end may hold this key.
    pub(super) fn expects(&self, peer: NodeId) -> bool {
        match self {
            Self::Peer(_) => true,
            Self::Here(expected, _) => *expected == peer,
        }
    }
}

impl Peers {
    /// Adds a connection.
    pub(super) fn insert(&mut self, handle: ConnectionHandle, stage: Stage) {
        if self.slots.len() <= handle.0 {
            self.slots.resize_with(handle.0 + 1, || None);
        }
        self.slots[handle.0] = Some(Slot {
            stage,
            wake: None,
            is_marked: false,
        });
        self.mark(handle);
    }

    pub(super) fn get(&mut self, handle: ConnectionHandle) -> Option<&mut Slot> {
        self.slots.get_mut(handle.0)?.as_mut()
    }

    pub(super) fn remove(&mut self, handle: ConnectionHandle) -> Option<Slot> {
        self.slots.get_mut(handle.0)?.take()
    }

    /// Puts back a slot that was removed.
    pub(super) fn put(&mut self, handle: ConnectionHandle, slot: Slot) {
        self.slots[handle.0] = Some(slot);
    }

    /// Returns the handles of all connections.
    pub(super) fn handles(&self) -> Vec<ConnectionHandle> {
        let slots = self.slots.iter().enumerate();
        let taken = slots.filter(|(_, slot)| slot.is_some());
        taken.map(|(index, _)| ConnectionHandle(index)).collect()
    }

    /// Returns how many connections there are, and how many entries in the heap of timers.
    pub(super) fn count(&self) -> (usize, usize) {
        let slots = self.slots.iter().filter(|slot| slot.is_some());
        (slots.count(), self.timers.count())
    }

    /// Calls `with` with a connection and marks it; does nothing if there is none.
    pub(super) fn act(&mut self, handle: ConnectionHandle, with: impl FnOnce(&mut Quic)) {
        let Some(slot) = self.get(handle) else {
            return;
        };
        match &mut slot.stage {
            Stage::Shaking(quic, _) | Stage::Closing(quic) => with(quic),
            Stage::Up(shared) => with(&mut shared.lock().quic),
        }
        self.mark(handle);
    }

    /// Handles that a connection's entry in the heap has come up. Mostly it is out of date: the timer was
    /// set for packets that are acknowledged by now, and only the next entry is due.
    pub(super) fn handle_due(&mut self, handle: ConnectionHandle, now: Instant) {
        let Some(slot) = self.get(handle) else {
            return;
        };
        let handle_timeout = |quic: &mut Quic| {
            let timeout = quic.poll_timeout();
            let is_due = timeout.is_some_and(|at| at <= now);
            if is_due {
                quic.handle_timeout(now);
            }
            (is_due, timeout)
        };
        let (is_due, timeout) = match &mut slot.stage {
            Stage::Shaking(quic, _) | Stage::Closing(quic) => handle_timeout(quic),
            Stage::Up(shared) => handle_timeout(&mut shared.lock().quic),
        };
        if is_due {
            self.mark(handle);
        } else {
            self.wake_at(handle, timeout);
        }
    }

    /// Marks a connection to be settled.
    pub(super) fn mark(&mut self, handle: ConnectionHandle) {
        if let Some(slot) = self.slots.get_mut(handle.0).and_then(Option::as_mut)
            && !std::mem::replace(&mut slot.is_marked, true)
        {
            self.marked.push(handle);
        }
    }

    /// Takes all marked connections at once.
    pub(super) fn take_marked(&mut self) -> Vec<ConnectionHandle> {
        let marked = std::mem::take(&mut self.marked);
        for handle in &marked {
            if let Some(slot) = self.get(*handle) {
                slot.is_marked = false;
            }
        }
        marked
    }

    pub(super) const fn has_marked(&self) -> bool {
        !self.marked.is_empty()
    }

    /// Sets when a connection is to be woken; an earlier time replaces a later one.
    pub(super) fn wake_at(&mut self, handle: ConnectionHandle, at: Option<Instant>) {
        if let Some(at) = at
            && let Some(slot) = self.slots.get_mut(handle.0).and_then(Option::as_mut)
            && slot.wake.is_none_or(|wake| at < wake)
        {
            slot.wake = Some(at);
            self.timers.set(handle, at);
        }
    }

    /// Returns when the first timer is due.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Returns the next connection with a timer that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<ConnectionHandle> {
        while let Some((at, handle)) = self.timers.pop(now) {
            if let Some(slot) = self.get(handle)
                && slot.wake == Some(at)
            {
                slot.wake = None;
                return Some(handle);
            }
        }
        None
    }
}
