//! One turn of the loop: wait, take, settle.
//!
//! *The idea.* A turn waits for sockets, timers and marks at once, and settles each entry concerned.
//! What that marks in turn (a driver that was given credit, the connection that it writes to) is settled
//! before the loop looks at its sockets again. An entry that panics is dropped, and with it its session.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;

use super::entry::{Entry, Next};
use super::inbox::Inbox;
use super::lots::Lots;
use super::marks::{Mark, Marks};
use super::ready::Ready;
use super::timers::Timers;
use crate::lot::Lot;

/// The bell's id among the sockets.
pub(super) const BELL: u64 = 0;

/// How often marks are taken before sockets are looked at again.
const ROUNDS: usize = 4;

/// Connections of lots that one turn writes to: a millisecond, as reports wait meanwhile.
const STEPS_PER_TURN: usize = 64;

/// Size of the buffer for arriving bytes, which all connections share: the longest frame.
const SCRATCH_BYTES: usize = 64 << 10;

/// The loop's state.
pub(super) struct Turn {
    ready: Ready,
    seats: HashMap<u64, Seat>,
    timers: Timers,
    /// The entries to settle.
    due: Vec<u64>,
    /// Those that had their part of this turn, and have more to do.
    later: Vec<u64>,
    /// Buffer for marks, reused.
    marked: Vec<u64>,
    scratch: Vec<u8>,
    marks: Arc<Marks>,
    inbox: Arc<Inbox>,
    lots: Arc<Lots>,
    /// The lot that is being done.
    lot: Option<Box<dyn Lot>>,
    /// What each turn is called by.
    around: fn(&mut dyn FnMut()),
    /// The users' run-time, for timers and tasks of the entries.
    runtime: Option<Handle>,
}

/// The place of an entry.
struct Seat {
    entry: Box<dyn Entry>,
    mark: Arc<Mark>,
    is_due: bool,
    /// When it asked to be settled.
    until: Option<Instant>,
    /// The time of its timer that counts; not after `until`.
    wake: Option<Instant>,
}

impl Turn {
    pub(super) fn new(
        around: fn(&mut dyn FnMut()),
        marks: Arc<Marks>,
        inbox: Arc<Inbox>,
        lots: Arc<Lots>,
    ) -> std::io::Result<Self> {
        let ready = Ready::new()?;
        ready.add(marks.as_fd(), BELL)?;
        Ok(Self {
            ready,
            seats: HashMap::new(),
            timers: Timers::default(),
            due: Vec::new(),
            later: Vec::new(),
            marked: Vec::new(),
            scratch: vec![0; SCRATCH_BYTES],
            marks,
            inbox,
            lots,
            lot: None,
            around,
            runtime: Handle::try_current().ok(),
        })
    }

    /// Turns until no user is left.
    pub(super) fn run(mut self) {
        // Drivers set timers and start tasks.
        let runtime = self.runtime.clone();
        let _entered = runtime.as_ref().map(Handle::enter);
        let around = self.around;
        let mut goes_on = true;
        while goes_on {
            self.wait();
            around(&mut || goes_on = self.turn());
        }
    }

    /// Does one turn; returns whether another follows.
    fn turn(&mut self) -> bool {
        let Some(entries) = self.inbox.take() else {
            return false;
        };
        for (mark, entry) in entries {
            self.insert(mark, entry);
        }
        self.take_ready();
        let now = Instant::now();
        while let Some((at, id)) = self.timers.pop(now) {
            self.handle_timer(id, at, now);
        }
        for _ in 0..ROUNDS {
            self.take_marks();
            if self.due.is_empty() {
                break;
            }
            self.settle_due();
        }
        self.carry_lots();
        for id in std::mem::take(&mut self.later) {
            self.mark_due(id);
        }
        true
    }

    /// Waits for a socket, a mark, an entry or a timer.
    fn wait(&mut self) {
        let has_work = self.marks.doze()
            || self.lot.is_some()
            || !self.lots.is_empty()
            || !self.inbox.is_empty()
            || !self.due.is_empty();
        let most = if has_work {
            Some(std::time::Duration::ZERO)
        } else {
            let next = self.timers.next();
            next.map(|at| at.saturating_duration_since(Instant::now()))
        };
        self.ready.wait(most);
        self.marks.rise();
    }

    fn insert(&mut self, mark: Arc<Mark>, entry: Box<dyn Entry>) {
        let id = mark.id();
        let watched = entry
            .socket()
            .map_or(Ok(()), |socket| self.ready.add(socket, id));
        if let Err(error) = watched {
            tracing::warn!(%error, "a socket that cannot be watched");
            return entry.abandon();
        }
        let seat = Seat {
            entry,
            mark,
            is_due: false,
            until: None,
            wake: None,
        };
        self.seats.insert(id, seat);
        self.mark_due(id);
    }

    fn take_ready(&mut self) {
        for (id, readiness) in self.ready.drain() {
            if let Some(seat) = self.seats.get_mut(&id) {
                seat.entry.handle_ready(readiness);
                if !std::mem::replace(&mut seat.is_due, true) {
                    self.due.push(id);
                }
            }
        }
    }

    /// Handles a timer that has gone off: a time that has moved since is set again, at no other cost.
    fn handle_timer(&mut self, id: u64, at: Instant, now: Instant) {
        let Some(seat) = self.seats.get_mut(&id).filter(|seat| seat.wake == Some(at)) else {
            return;
        };
        seat.wake = seat.until.filter(|until| *until > now);
        match seat.wake {
            Some(later) => self.timers.set(id, later),
            None if seat.until.is_some() => self.mark_due(id),
            None => {}
        }
    }

    fn take_marks(&mut self) {
        let mut marked = std::mem::take(&mut self.marked);
        self.marks.take(&mut marked);
        for id in marked.drain(..) {
            self.mark_due(id);
        }
        self.marked = marked;
    }

    /// Does a part of the lots: after each step it settles what that has marked, while it is in the cache.
    fn carry_lots(&mut self) {
        for _ in 0..STEPS_PER_TURN {
            if self.lot.is_none() {
                self.lot = self.lots.next();
            }
            let Some(lot) = &mut self.lot else {
                break;
            };
            if !lot.step() {
                self.lot = None;
            }
            self.take_marks();
            self.settle_due();
        }
    }

    fn mark_due(&mut self, id: u64) {
        if let Some(seat) = self.seats.get_mut(&id)
            && !std::mem::replace(&mut seat.is_due, true)
        {
            self.due.push(id);
        }
    }

    /// Settles each entry that is due, once.
    fn settle_due(&mut self) {
        for id in std::mem::take(&mut self.due) {
            let Some(seat) = self.seats.get_mut(&id) else {
                continue;
            };
            seat.is_due = false;
            // Before the entry looks, so that what comes meanwhile marks it again.
            seat.mark.clear();
            let scratch = &mut self.scratch;
            // What a panic left half changed is not used again: the entry goes, and its session ends.
            let next = catch_unwind(AssertUnwindSafe(|| seat.entry.settle(scratch)));
            match next {
                Ok(Next::Event(at)) => {
                    seat.until = at;
                    if let Some(at) = at
                        && seat.wake.is_none_or(|wake| at < wake)
                    {
                        seat.wake = Some(at);
                        self.timers.set(id, at);
                    }
                }
                Ok(Next::Turn) => self.later.push(id),
                Ok(Next::Over) => drop(self.seats.remove(&id)),
                Err(_) => {
                    if let Some(seat) = self.seats.remove(&id) {
                        seat.entry.abandon();
                    }
                }
            }
        }
    }
}

impl Drop for Turn {
    /// Releases all that wait on the loop, also if it has panicked.
    fn drop(&mut self) {
        let _entered = self.runtime.as_ref().map(Handle::enter);
        // Its end, and that of those that wait, writes to connections that send no more.
        self.lot = None;
        self.lots.close();
        let waiting = self.inbox.close().into_iter().map(|(_, entry)| entry);
        let seated = self.seats.drain().map(|(_, seat)| seat.entry);
        for entry in waiting.chain(seated) {
            entry.abandon();
        }
    }
}
