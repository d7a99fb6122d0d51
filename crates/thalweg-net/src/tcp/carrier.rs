//! The task of one TCP connection.
//!
//! *The idea.* A turn takes in what has come, hands over what the pacer allows, and waits for whichever is first: the peer,
//! room in the kernel, a word from the application, a timer. While the kernel paces, room is waited for also when nothing
//! was refused: the low-water mark wakes the task when the sliver has half gone.
//!
//! It is polled by hand: of a relay with many sinks this task is most of what runs, and each future that is made anew for a
//! turn costs as much as the decision that it waits for. So is the session asked once a turn, for all that there is to know.
//!
//! *What it does not do.* It decides nothing: the session does.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use thalweg_core::outbox::CHUNK_BYTES_MIN;
use thalweg_core::outbox::gate::WAKE;
use thalweg_core::pace::{CarrierNumber, Out};
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::DataSize;
use tokio::io::Interest;
use tokio::time::timeout;

use super::line::{Line, LineError};
use super::shared::Shared;
use super::socket;
use crate::alarm::Alarm;

/// Small frames are put together into one record until it has so many bytes: half a packet.
const RECORD_BYTES: usize = CHUNK_BYTES_MIN as usize / 2;

/// The same in the clear, where nobody has to wait for the end of a record: as much as the largest record has.
const CLEAR_BYTES: usize = 16 << 10;

/// How long the peer may take to read the last word.
const LAST_WORD: Duration = Duration::from_secs(1);

/// What a carrier waits for besides the peer, its timer and the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Nothing.
    Nothing,
    /// That the kernel has room.
    Room,
    /// The kernel has room, and yet there is no credit: a moment.
    Moment,
}

struct Carrier {
    shared: Arc<Shared>,
    number: CarrierNumber,
    line: Line,
    alarm: Alarm,
    out: Out,
    /// How much the kernel may have unsent.
    mark: DataSize,
    /// When to look again if the peer is silent and nobody calls; nothing while something else is waited for.
    rest: Option<Instant>,
}

/// How a carrier is called to look at its session.
#[derive(Debug, Default)]
pub(super) struct Call {
    waker: AtomicWaker,
    is_called: AtomicBool,
}

impl Call {
    pub(super) fn call(&self) {
        self.is_called.store(true, Release);
        self.waker.wake();
    }

    /// Returns whether it was called since the last time; who is called next wakes this task.
    fn take(&self, context: &Context<'_>) -> bool {
        // What is called from here on wakes it, what was before is seen.
        self.waker.register(context.waker());
        self.is_called.swap(false, Acquire)
    }
}

/// What the session said in a turn.
#[derive(Clone, Copy)]
struct Turn {
    /// Whether the session still has this carrier.
    is_of_use: bool,
    is_over: bool,
    /// Whether something waits that only more credit lets through.
    wants_credit: bool,
    /// How much may lie unsent in the kernel, if it is the kernel that paces what goes over this carrier.
    unsent_max: Option<DataSize>,
    /// When to look again if nothing happens.
    until: Instant,
}

/// Carries until the connection fails, is left, or the session is over.
pub(super) async fn run(shared: Arc<Shared>, number: CarrierNumber, line: Line, call: Arc<Call>) {
    let mut carrier = Carrier {
        alarm: Alarm::new(shared.clock),
        shared,
        number,
        line,
        out: Out::new(),
        mark: DataSize::ZERO,
        rest: None,
    };
    let ended = poll_fn(|context| carrier.carry(context, &call)).await;
    let shared = &carrier.shared;
    let ended_well = ended.is_ok() && shared.is_over();
    let reason = ended.err().map(|error| error.to_string());
    tracing::debug!(peer = %shared.peer.short(), %number, ?reason, "tcp carrier down");
    shared.lose(number);
    shared.keeper.notify_one();
    if ended_well {
        carrier.line.end();
        // Either way the connection goes now.
        let _ = timeout(LAST_WORD.into(), carrier.line.drain()).await;
    } else {
        // What this carrier did not deliver goes over another one; an error says that there is nothing to take back.
        let _ = socket::forget_unsent(carrier.line.socket());
    }
}

impl Carrier {
    /// Takes turns until there is nothing to do; ready when the carrier is of no use any more.
    fn carry(&mut self, context: &mut Context<'_>, call: &Call) -> Poll<Result<(), LineError>> {
        let is_called = call.take(context);
        if let Some(until) = self.rest.take()
            && !is_called
            && !self.line.socket().poll_read_ready(context)?.is_ready()
            && !self.has_come(until, context)
        {
            self.rest = Some(until);
            return Poll::Pending;
        }
        loop {
            let is_more = self.hear(context)?;
            let (wait, turn) = self.transmit()?;
            if !turn.is_of_use || (turn.is_over && wait != Wait::Room) {
                return Poll::Ready(Ok(()));
            }
            if self.line.is_ended() {
                return Poll::Ready(Err(LineError::Ended));
            }
            if is_more {
                // Others have their turns between two of a peer that has much to say.
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
            if !self.has_come(until, context) {
                self.rest = (wait == Wait::Nothing).then_some(until);
                return Poll::Pending;
            }
        }
    }

    /// Returns whether a time has come; if not, it wakes when that comes.
    fn has_come(&mut self, until: Instant, context: &mut Context<'_>) -> bool {
        // An alarm that was set before for an earlier time is set anew when that is over.
        while self.alarm.is_due(until, context) {
            if until <= self.shared.clock.now() {
                return true;
            }
        }
        false
    }

    /// Takes in what has come; returns whether there may be more at once. If not, it wakes when there is.
    fn hear(&mut self, context: &mut Context<'_>) -> Result<bool, LineError> {
        let Self {
            shared,
            number,
            line,
            ..
        } = self;
        while !line.is_ended() && line.socket().poll_read_ready(context)?.is_ready() {
            let mut broken = None;
            let is_more = line.hear(|bytes| {
                if broken.is_none() {
                    let heard = shared.act_as(*number, |state, now| {
                        state.session.handle_bytes(*number, bytes, now)
                    });
                    broken = heard.err();
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

    /// Hands over what the pacer allows; returns what to wait for.
    fn transmit(&mut self) -> Result<(Wait, Turn), LineError> {
        let mut was_asked = false;
        loop {
            // What the last turn left is first.
            let is_flushed = self.line.flush()?;
            let turn = self.turn(is_flushed);
            if !is_flushed {
                return Ok((Wait::Room, turn));
            }
            self.set_mark(turn.unsent_max)?;
            if !self.out.is_empty() {
                self.line.say(&mut self.out)?;
                was_asked = false;
                if turn.wants_credit || !self.line.flush()? {
                    continue;
                }
            }
            if !turn.wants_credit || turn.unsent_max.is_none() {
                return Ok((Wait::Nothing, turn));
            }
            if was_asked {
                return Ok((Wait::Moment, turn));
            }
            if !self.ask_for_room() {
                return Ok((Wait::Room, turn));
            }
            was_asked = true;
        }
    }

    /// Asks the session for what is next, if the line can take it, and for all else that there is to know.
    fn turn(&mut self, has_room: bool) -> Turn {
        let Self {
            shared,
            number,
            line,
            out,
            ..
        } = self;
        let bytes_max = if line.is_plain() {
            CLEAR_BYTES
        } else {
            RECORD_BYTES
        };
        out.clear();
        shared.act_as(*number, |state, now| {
            state.judge(now);
            // Where nothing waits, what the kernel would say lets nothing more through.
            if state.wants_credit() {
                state.refresh(now);
            }
            let mut is_all = false;
            while has_room && !is_all && out.len() < bytes_max {
                is_all = !state.session.poll_transmit(*number, now, out);
            }
            let session = &state.session;
            let is_active = session.active() == Some(*number);
            // What waits for the peer's word is let through by that.
            let wants_credit = state.wants_credit() && !session.awaits_word(now);
            Turn {
                is_of_use: session.has_carrier(*number),
                is_over: session.is_over(),
                wants_credit: (is_active && wants_credit) || (has_room && !is_all),
                unsent_max: session.unsent_max().filter(|_| is_active),
                until: session.poll_timeout(*number),
            }
        })
    }

    /// Returns whether the kernel has room; if not, waiting for room waits for it to have some.
    fn ask_for_room(&self) -> bool {
        let socket = self.line.socket();
        // What the run-time remembers is from before: nothing was refused since.
        let refused = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = socket.try_io(Interest::WRITABLE, refused);
        socket::has_room(socket)
    }

    /// Moves the low-water mark when the sliver has changed by a quarter.
    fn set_mark(&mut self, unsent_max: Option<DataSize>) -> Result<(), LineError> {
        let Some(wanted) = unsent_max else {
            return Ok(());
        };
        let (wanted, mark) = (wanted.as_bytes(), self.mark.as_bytes());
        if wanted.abs_diff(mark) > mark / 4 {
            self.mark = DataSize::from_bytes(wanted);
            socket::set_unsent_max(self.line.socket(), self.mark)?;
        }
        Ok(())
    }
}
