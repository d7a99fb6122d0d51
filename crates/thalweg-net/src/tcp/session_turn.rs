//! One look of a carrier at its session: timers, the next frames, and what to wait for.
//!
//! *The idea.* All of it under one lock of the session, for a carrier's task as for the loop.
//!
//! *What it does not do.* It reads and writes no bytes.

use thalweg_base::time::Instant;
use thalweg_base::units::DataSize;
use thalweg_link::tcp_mux::{CarrierNumber, Out};

use super::shared::State;

/// The session's state after one look.
#[derive(Clone, Copy)]
pub(super) struct SessionTurn {
    /// Whether the session still uses this carrier.
    pub(super) is_needed: bool,
    pub(super) is_over: bool,
    /// Whether something is queued that only more credit lets through.
    pub(super) wants_credit: bool,
    /// How much may be unsent in the kernel, if the kernel paces this carrier.
    pub(super) unsent_max: Option<DataSize>,
    /// When to run again if nothing happens.
    pub(super) until: Instant,
}

/// Runs the session's timers, appends its next frames to `out` up to `bytes_max` if the line can take
/// them (`has_room`), and reads its state.
pub(super) fn turn(
    state: &mut State,
    number: CarrierNumber,
    now: Instant,
    has_room: bool,
    bytes_max: usize,
    out: &mut Out,
) -> SessionTurn {
    state.check_timeouts(now);
    // If nothing is queued, fresh data from the kernel changes nothing.
    if state.wants_credit() {
        state.refresh(now);
    }
    let mut is_all = false;
    while has_room && !is_all && out.len() < bytes_max {
        is_all = !state.session.poll_transmit(number, now, out);
    }
    let session = &state.session;
    let is_active = session.active() == Some(number);
    // What waits for the peer's acknowledgement needs no other wake-up.
    let wants_credit = state.wants_credit() && !session.awaits_word(now);
    SessionTurn {
        is_needed: session.has_carrier(number),
        is_over: session.is_over(),
        wants_credit: (is_active && wants_credit) || (has_room && !is_all),
        unsent_max: session.unsent_max().filter(|_| is_active),
        until: session.poll_timeout(number),
    }
}

/// Returns the mark to set in the kernel for a target, if that has moved by a quarter since the last.
pub(super) fn moved_mark(mark: DataSize, target: Option<DataSize>) -> Option<DataSize> {
    let (target, mark) = (target?.as_bytes(), mark.as_bytes());
    (target.abs_diff(mark) > mark / 4).then(|| DataSize::from_bytes(target))
}
