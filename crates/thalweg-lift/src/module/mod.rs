//! What a module is: a stage that sees one packet at a time and says what becomes of it.
//!
//! *The idea.* The lift owns the loop, the queue of held packets, and all counting; a module owns what it knows. So a
//! module is a few lines, and none of them can leak, overflow or forget to count. Verdicts are those of Da `CaPo++`: pass
//! (changed or not), discard, hold, more, pause.
//!
//! | verdict | the packet | afterwards |
//! |---|---|---|
//! | [`Pass`](Verdict::Pass) | goes on | – |
//! | [`Discard`](Verdict::Discard) | is dropped and counted by cause | – |
//! | [`Hold`](Verdict::Hold) | is put into [`Context::held`], which is bounded | the module takes it out again |
//! | [`More`](Verdict::More) | goes on | [`Module::poll`] is asked until it has no more, before the next input |
//! | [`Pause`](Verdict::Pause) | goes on | the lift takes no input this way until [`Module::is_ready`] or `Control::Resume` |
//!
//! *What it does not do.* It does not read a clock: [`Context::now`] is when the packet was handed to the lift.
//!
//! *Sources.* spec DC-3, DC-17, DC-19, §5(d).

use thalweg_core::event::DropCause;
use thalweg_core::time::Instant;

use crate::packet::{Packet, Pool};

mod control;
mod held;

pub use control::{Control, ControlError};
pub use held::{HELD_PACKETS_MAX, Held};

/// A stage of a lift.
pub trait Module: Send {
    /// Returns the adapter's word in a plan, for counters and messages.
    fn name(&self) -> &'static str;

    /// Treats one packet on its way from the producer to a subscriber.
    fn forward(&mut self, packet: &mut Packet, cx: &mut Context<'_>) -> Verdict;

    /// Treats one packet of feedback on its way back; it meets the modules in reverse.
    fn backward(&mut self, _packet: &mut Packet, _cx: &mut Context<'_>) -> Verdict {
        Verdict::Pass
    }

    /// Returns a further packet, if there is one: asked after [`Verdict::More`], a timeout or a control message.
    fn poll(&mut self, _direction: Direction, _cx: &mut Context<'_>) -> Option<Packet> {
        None
    }

    /// Returns when [`Module::poll`] is to be asked though no packet came.
    fn poll_timeout(&self) -> Instant {
        Instant::NEVER
    }

    /// Returns whether the pause that this module asked for is over; by default only `Control::Resume` ends it.
    fn is_ready(&mut self, _now: Instant) -> bool {
        false
    }

    /// Does what a control message says, between two packets.
    fn control(&mut self, _control: &Control) -> Result<(), ControlError> {
        Err(ControlError::NotMine)
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on, changed or not.
    Pass,
    /// It goes no further.
    Discard(DropCause),
    /// The module keeps it for later.
    Hold,
    /// It goes on, and the module has more to give before the next.
    More,
    /// It goes on, and the lift stops taking input this way.
    Pause,
}

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the producer towards subscribers.
    Forward,
    /// Feedback towards the producer.
    Backward,
}

/// What a module may use while it treats a packet.
#[derive(Debug)]
pub struct Context<'a> {
    /// When the latest input was handed to the lift.
    pub now: Instant,
    /// Where buffers come from.
    pub pool: &'a Pool,
    /// The packets that this module holds in this direction.
    pub held: &'a mut Held,
}
