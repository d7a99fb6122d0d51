//! The task of one TCP connection.
//!
//! *The idea.* A turn takes in what has come, hands over what the pacer allows, and waits for whichever is first: the peer,
//! room in the kernel, a word from the application, a timer. While the kernel paces, room is waited for also when nothing
//! was refused: the low-water mark wakes the task when the sliver has half gone.
//!
//! *What it does not do.* It decides nothing: the session does.

use std::io;
use std::sync::Arc;

use thalweg_core::outbox::CHUNK_BYTES_MIN;
use thalweg_core::outbox::gate::WAKE;
use thalweg_core::pace::CarrierNumber;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::DataSize;
use tokio::io::Interest;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::line::{Line, LineError};
use super::shared::Shared;
use super::socket;
use crate::alarm::Alarm;

/// Small frames are put together into one record until it has so many bytes: half a packet.
const RECORD_BYTES: usize = CHUNK_BYTES_MIN as usize / 2;

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
    out: Vec<u8>,
    /// How much the kernel may have unsent.
    mark: DataSize,
}

/// Carries until the connection fails, is left, or the session is over.
pub(super) async fn run(shared: Arc<Shared>, number: CarrierNumber, line: Line, wake: Arc<Notify>) {
    let mut carrier = Carrier {
        alarm: Alarm::new(shared.clock),
        shared,
        number,
        line,
        out: Vec::new(),
        mark: DataSize::ZERO,
    };
    let ended = carrier.carry(&wake).await;
    let shared = &carrier.shared;
    let ended_well = ended.is_ok() && shared.is_over();
    let reason = ended.err().map(|error| error.to_string());
    tracing::debug!(peer = %shared.peer.short(), %number, ?reason, "tcp carrier down");
    shared.act_as(number, |state, now| state.lose(number, now));
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
    async fn carry(&mut self, wake: &Notify) -> Result<(), LineError> {
        loop {
            let is_more = self.hear()?;
            let shared = self.shared.clone();
            let is_of_use = shared.act_as(self.number, |state, now| {
                state.judge(now);
                state.session.has_carrier(self.number)
            });
            if !is_of_use {
                return Ok(());
            }
            let wait = self.transmit()?;
            let moved = self.line.moved();
            let (is_over, until) = shared.act_as(self.number, |state, now| {
                state.note(self.number, moved);
                let until = state.session.poll_timeout(self.number);
                let moment = if wait == Wait::Moment {
                    now + WAKE
                } else {
                    Instant::NEVER
                };
                (state.session.is_over(), until.min(moment))
            });
            if is_over && wait != Wait::Room {
                return Ok(());
            }
            if self.line.is_ended() {
                return Err(LineError::Ended);
            }
            if is_more {
                tokio::task::yield_now().await;
                continue;
            }
            let socket = self.line.socket().clone();
            tokio::select! {
                ready = socket.readable() => ready?,
                ready = socket.writable(), if wait == Wait::Room => ready?,
                () = wake.notified() => {}
                () = self.alarm.gone_off(until) => {}
            }
        }
    }

    /// Takes in what has come; returns whether there may be more at once.
    fn hear(&mut self) -> Result<bool, LineError> {
        let Self {
            shared,
            number,
            line,
            ..
        } = self;
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
        Ok(is_more)
    }

    /// Hands over what the pacer allows; returns what to wait for.
    fn transmit(&mut self) -> Result<Wait, LineError> {
        let mut was_asked = false;
        loop {
            if !self.line.flush()? {
                return Ok(Wait::Room);
            }
            self.out.clear();
            let Self {
                shared,
                number,
                out,
                ..
            } = self;
            let (wants_credit, unsent_max) = shared.act_as(*number, |state, now| {
                // Where nothing waits, what the kernel would say lets nothing more through.
                if state.wants_credit() {
                    state.refresh(now);
                }
                while out.len() < RECORD_BYTES && state.session.poll_transmit(*number, now, out) {}
                let is_active = state.session.active() == Some(*number);
                let unsent_max = state.session.unsent_max().filter(|_| is_active);
                (is_active && state.wants_credit(), unsent_max)
            });
            self.set_mark(unsent_max)?;
            if !self.out.is_empty() {
                self.line.say(&self.out)?;
                was_asked = false;
                continue;
            }
            if !wants_credit || unsent_max.is_none() {
                return Ok(Wait::Nothing);
            }
            if was_asked {
                return Ok(Wait::Moment);
            }
            if !self.ask_for_room() {
                return Ok(Wait::Room);
            }
            was_asked = true;
        }
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
