//! The task of one TCP connection, a session's carrier.
//!
//! *The idea.* A turn reads what has arrived, writes what the pacer allows, and waits for the first
//! of: bytes from the peer, room in the kernel, a call from the application, a timer. While the
//! kernel paces, the task also waits for room when no write was refused: the low-water mark wakes
//! it when half of the unsent bytes have left.
//!
//! The task is polled by hand: on a relay with many sinks it is most of what runs, and a new future
//! per turn costs as much as the decision it waits for. For the same reason it locks the session
//! once per turn.
//!
//! *What it does not do.* It decides nothing: the session does. A connection in the clear that the loop
//! runs is not its own ([`plain_carrier`]).

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_link::outbox::CHUNK_BYTES_MIN;
use thalweg_link::outbox::gate::WAKE;
use thalweg_link::tcp_mux::{CarrierNumber, Decoder, Out};
use tokio::io::Interest;
use tokio::time::timeout;

use super::line::{Line, LineError};
use super::session_turn::{self, SessionTurn, moved_mark};
use super::shared::{Shared, Slot};
use super::waker::{CarrierWaker, TaskWaker};
use super::{plain_carrier, socket};
use crate::alarm::Alarm;
use crate::task;

/// Small frames share one TLS record until it has this many bytes: half a packet.
const RECORD_BYTES: usize = CHUNK_BYTES_MIN as usize / 2;

/// The same without TLS, where no reader waits for the end of a record: the size of the largest
/// record.
const PLAIN_BYTES: usize = 16 << 10;

/// How long the peer may take to read the last frame.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// What a carrier waits for, besides the peer, its timer and the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Nothing.
    Nothing,
    /// Room in the kernel.
    Room,
    /// A moment: the kernel has room, but the session has no credit.
    Moment,
}

struct Carrier {
    shared: Arc<Shared>,
    number: CarrierNumber,
    line: Line,
    alarm: Alarm,
    out: Out,
    /// The low-water mark set in the kernel: the most unsent bytes it may have.
    mark: DataSize,
    /// When to run again if nothing happens; `None` while it also waits for room or credit.
    wake_at: Option<Instant>,
}

/// Adds a connection to a session after its greeting and runs its carrier; returns whether the
/// session uses it.
pub(super) fn join(
    shared: &Arc<Shared>,
    number: CarrierNumber,
    line: Line,
    decoder: Decoder,
) -> bool {
    if let Some(clear) = shared.clear().filter(|_| line.is_plain()) {
        return plain_carrier::join(shared, clear, number, line, decoder);
    }
    let waker = Arc::<TaskWaker>::default();
    let slot = Slot::new(
        CarrierWaker::Task(waker.clone()),
        line.socket().clone(),
        // Unknown for a socket that has just been reset.
        line.socket().peer_addr().ok(),
        line.counts().clone(),
    );
    if !shared.take_in(number, slot, decoder) {
        return false;
    }
    tracing::debug!(peer = %shared.peer.short(), %number, "tcp carrier up");
    shared.running.send_modify(|running| *running += 1);
    let shared = shared.clone();
    tokio::spawn(async move {
        let running = run(shared.clone(), number, line, waker);
        task::alone_or(running, || shared.fail_internally()).await;
        shared.running.send_modify(|running| *running -= 1);
    });
    true
}

/// Runs a carrier until its connection fails, it is replaced, or the session is over.
async fn run(shared: Arc<Shared>, number: CarrierNumber, line: Line, waker: Arc<TaskWaker>) {
    let mut carrier = Carrier {
        alarm: Alarm::new(shared.clock),
        shared,
        number,
        line,
        out: Out::new(),
        mark: DataSize::ZERO,
        wake_at: None,
    };
    let ended = poll_fn(|context| carrier.poll_run(context, &waker)).await;
    let shared = &carrier.shared;
    let ended_well = ended.is_ok() && shared.is_over();
    let reason = ended.err().map(|error| error.to_string());
    tracing::debug!(peer = %shared.peer.short(), %number, ?reason, "tcp carrier down");
    shared.lose(number);
    shared.standby_needed.notify_one();
    if ended_well {
        carrier.line.end();
        // The connection is closed whether or not the peer reads the rest in time.
        let _ = timeout(CLOSE_WAIT.into(), carrier.line.drain()).await;
    } else {
        // Another carrier retransmits what this one did not deliver, so its unsent bytes must not
        // arrive late. An error means that there are none.
        let _ = socket::forget_unsent(carrier.line.socket());
    }
}

impl Carrier {
    /// Takes turns until there is nothing to do; ready when the carrier is no longer used.
    fn poll_run(
        &mut self,
        context: &mut Context<'_>,
        waker: &TaskWaker,
    ) -> Poll<Result<(), LineError>> {
        let is_woken = waker.take(context);
        if let Some(until) = self.wake_at.take()
            && !is_woken
            && !self.line.socket().poll_read_ready(context)?.is_ready()
            && !self.is_past(until, context)
        {
            self.wake_at = Some(until);
            return Poll::Pending;
        }
        loop {
            let is_more = self.receive(context)?;
            let (wait, turn) = self.transmit()?;
            if !turn.is_needed || (turn.is_over && wait != Wait::Room) {
                return Poll::Ready(Ok(()));
            }
            if self.line.is_ended() {
                return Poll::Ready(Err(LineError::Ended));
            }
            if is_more {
                // Yields to other tasks between two turns of a peer that sends much.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if wait == Wait::Room && self.line.socket().poll_write_ready(context)?.is_ready() {
                continue;
            }
            let until = match wait {
                Wait::Moment => turn.until.min(self.shared.clock.now() + WAKE),
                Wait::Nothing | Wait::Room => turn.until,
            };
            if !self.is_past(until, context) {
                self.wake_at = (wait == Wait::Nothing).then_some(until);
                return Poll::Pending;
            }
        }
    }

    /// Returns whether a time has come; until then it registers the task to be woken.
    fn is_past(&mut self, until: Instant, context: &mut Context<'_>) -> bool {
        // The alarm may go off for an earlier time; then it is set for this one.
        while self.alarm.is_due(until, context) {
            if until <= self.shared.clock.now() {
                return true;
            }
        }
        false
    }

    /// Reads what has arrived; returns whether there may be more at once. If not, it registers the
    /// task for more.
    fn receive(&mut self, context: &mut Context<'_>) -> Result<bool, LineError> {
        let Self {
            shared,
            number,
            line,
            ..
        } = self;
        while !line.is_ended() && line.socket().poll_read_ready(context)?.is_ready() {
            let mut broken = None;
            let is_more = line.receive(|bytes| {
                if broken.is_none() {
                    let result = shared.act_as(*number, |state, now| {
                        state.session.handle_bytes(*number, bytes, now)
                    });
                    broken = result.err();
                }
            })?;
            if let Some(error) = broken {
                shared.fail(error);
            }
            if is_more {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Writes what the pacer allows; returns what to wait for.
    fn transmit(&mut self) -> Result<(Wait, SessionTurn), LineError> {
        let mut was_queried = false;
        loop {
            // Bytes left by the last turn go first.
            let is_flushed = self.line.flush()?;
            let turn = self.turn(is_flushed);
            if !is_flushed {
                return Ok((Wait::Room, turn));
            }
            self.set_mark(turn.unsent_max)?;
            if !self.out.is_empty() {
                self.line.queue(&mut self.out)?;
                was_queried = false;
                if turn.wants_credit || !self.line.flush()? {
                    continue;
                }
            }
            if !turn.wants_credit || turn.unsent_max.is_none() {
                return Ok((Wait::Nothing, turn));
            }
            if was_queried {
                return Ok((Wait::Moment, turn));
            }
            if !self.query_room() {
                return Ok((Wait::Room, turn));
            }
            was_queried = true;
        }
    }

    /// Runs the session's timers, collects its next frames if the line can take them, and reads its
    /// state, under one lock.
    fn turn(&mut self, has_room: bool) -> SessionTurn {
        let Self {
            shared,
            number,
            line,
            out,
            ..
        } = self;
        let bytes_max = if line.is_plain() {
            PLAIN_BYTES
        } else {
            RECORD_BYTES
        };
        out.clear();
        shared.act_as(*number, |state, now| {
            session_turn::turn(state, *number, now, has_room, bytes_max, out)
        })
    }

    /// Returns whether the kernel has room; if not, a wait for room now waits for new room.
    fn query_room(&self) -> bool {
        let socket = self.line.socket();
        // The run-time's readiness flag is stale, since no write was refused; this clears it.
        let refused = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = socket.try_io(Interest::WRITABLE, refused);
        socket::has_room(socket)
    }

    /// Moves the low-water mark when its target has changed by a quarter.
    fn set_mark(&mut self, unsent_max: Option<DataSize>) -> Result<(), LineError> {
        if let Some(mark) = moved_mark(self.mark, unsent_max) {
            self.mark = mark;
            socket::set_unsent_max(self.line.socket(), mark)?;
        }
        Ok(())
    }
}
