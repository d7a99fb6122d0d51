//! The interface of a module: a stage that sees one packet at a time and returns a verdict on it.
//!
//! *The idea.* The lift owns the loop, the queue of held packets, and all counting; a module owns
//! its function only. So a module is a few lines, and cannot leak, overflow or miscount. The
//! verdicts are those of Da `CaPo++`: pass (changed or not), discard, hold, more, pause.
//!
//! | verdict | the packet | afterwards |
//! |---|---|---|
//! | [`Pass`](Verdict::Pass) | goes on | – |
//! | [`Discard`](Verdict::Discard) | is dropped and counted by cause | – |
//! | [`Hold`](Verdict::Hold) | moves to [`Context::held`], which is bounded | the module takes it
//! out again |
//! | [`More`](Verdict::More) | goes on | [`Module::poll`] is called until it returns `None`, before
//! the next input |
//! | [`Pause`](Verdict::Pause) | goes on | the lift accepts no input in this direction until
//! [`Module::is_ready`] or `Control::Resume` |
//!
//! *What it does not do.* It reads no clock: [`Context::now`] is the time at which the packet was
//! passed to the lift.
//!
//! *Sources.* spec DC-3, DC-17, DC-19, §5(d).

use thalweg_base::event::DropCause;
use thalweg_base::time::Instant;

use crate::packet::{Packet, Pool};

mod control;
mod held;

pub use control::{Control, ControlError};
pub use held::{HELD_PACKETS_MAX, Held};

/// A stage of a lift.
pub trait Module: Send {
    /// Returns the module's word in a plan, for counters and messages.
    fn name(&self) -> &'static str;

    /// Processes one packet on its way from the producer to a subscriber.
    fn forward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict;

    /// Processes one feedback packet on its way back; it passes the modules in reverse order.
    fn backward(&mut self, _packet: &mut Packet, _cx: &mut Context<'_>) -> Verdict {
        Verdict::Pass
    }

    /// Returns a further packet, if there is one: called after [`Verdict::More`], a timeout or a
    /// control message.
    fn poll(&mut self, _direction: Direction, _cx: &mut Context<'_>) -> Option<Packet> {
        None
    }

    /// Returns when to call [`Module::poll`] even if no packet arrives.
    fn poll_timeout(&self) -> Instant {
        Instant::NEVER
    }

    /// Returns whether the pause that this module requested is over; by default only
    /// `Control::Resume` ends it.
    fn is_ready(&mut self, _now: Instant) -> bool {
        false
    }

    /// Carries out a control message, between two packets.
    fn control(&mut self, _control: &Control) -> Result<(), ControlError> {
        Err(ControlError::NotMine)
    }
}

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on, changed or not.
    Pass,
    /// It is dropped.
    Discard(DropCause),
    /// The module holds it for later.
    Hold,
    /// It goes on, and the module has more packets to emit before the next input.
    More,
    /// It goes on, and the lift stops accepting input in this direction.
    Pause,
}

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the producer towards subscribers.
    Forward,
    /// Feedback towards the producer.
    Backward,
}

/// The resources of a module while it processes a packet.
#[derive(Debug)]
pub struct Context<'a> {
    /// When the latest input was passed to the lift.
    pub now: Instant,
    /// The source of buffers.
    pub pool: &'a Pool,
    /// The packets that this module holds in this direction.
    pub held: &'a mut Held,
}
