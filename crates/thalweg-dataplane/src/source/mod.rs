//! A stream at its source: what its sinks may still need, and what is sent again.
//!
//! *The idea.* A source sends each ADU under every plan in force, and keeps it until the sinks have
//! it ([`Keep`]); a stream that may wait for a path is held instead, and leaves as links take it
//! ([`Hold`]). A record of which ADU went by which plan ([`Awaited`]) shows what a broken plan still
//! brought. When a path breaks, what is kept of it is sent again before anything new.
//!
//! ```text
//! producer ─┬─► under each plan in force: handle_sent ──► the node's relay
//!           └─► handle_adu ─► held ─► poll_due: while there is room ─┘
//! receipt ──► handle_receipt     broken ─► handle_broken ─► resend ──┘
//! ```
//!
//! *What it does not do.* It sends nothing and waits for nobody: the driver asks whether the producer
//! must wait. It chooses no plan.
//!
//! *Sources.* docs/concepts/continuity.md §2, §4 and §5; docs/decisions/0013, 0019 and 0038.

use alloc::vec::Vec;

use thalweg_base::adu::{Adu, Header};
use thalweg_base::count::Band;
use thalweg_base::feed::Sinkward;
use thalweg_base::id::{Epoch, NodeId, Sequence};
use thalweg_base::limits::KEEP_AGE_MAX;
use thalweg_base::needs::{Needs, Reliability};
use thalweg_base::part::Installation;
use thalweg_base::seen::Held;
use thalweg_base::time::{Duration, Instant};

use crate::route::window;

mod awaited;
mod hold;
mod keep;
#[cfg(test)]
mod tests;

pub use awaited::Awaited;
pub use hold::{Dropped, Due, Hold};
pub use keep::Keep;

/// How long the end of a stream waits for ADUs without a deadline that are under way, and for room
/// for its end marker.
pub const FINISH_MAX: Duration = Duration::from_secs(30);

/// How long the end of a stream waits for progress of a sink: longer than a dead link takes to leave
/// the map (8 s).
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The same for a stream that must arrive whole: as long as its kept ADUs may be sent again.
const DRAIN_FULL_MAX: Duration = KEEP_AGE_MAX;

/// A plan under which ADUs are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Its number.
    pub epoch: Epoch,
    /// The plans that bring these ADUs to sinks: the plan itself, and those grafted on it.
    pub serves: Vec<Served>,
}

/// A plan in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its number.
    pub epoch: Epoch,
    /// The number of layers that it carries to its sink.
    pub layers: u8,
}

/// What a sink's receipt says about what it lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// How many ADUs it lacks of those sent by the plan that keeps their order, though it has later
    /// ones.
    pub missing: u64,
    /// Below this sequence, nothing that it lacks will be sent again.
    pub given_up: Option<Sequence>,
}

/// A stream at its source.
#[derive(Debug)]
pub struct Source {
    needs: Needs,
    plans: Vec<Plan>,
    keep: Keep,
    awaited: Awaited,
    /// The store of a held stream; it replaces `keep`.
    hold: Option<Hold>,
}

impl Source {
    /// Returns a stream with these needs, of which nothing was sent.
    pub fn new(needs: &Needs) -> Self {
        Self {
            needs: *needs,
            plans: Vec::new(),
            keep: Keep::new(needs),
            awaited: Awaited::default(),
            hold: Hold::new(needs),
        }
    }

    /// Returns whether its ADUs are held until there is a path.
    pub const fn is_held(&self) -> bool {
        self.hold.is_some()
    }

    /// Returns whether a late sink begins with what is kept since the newest key ADU.
    pub const fn is_shared(&self) -> bool {
        !self.needs.reliability.is_ordered() && self.hold.is_none()
    }

    /// Handles the plans under which ADUs are sent from now on.
    pub fn handle_plans(&mut self, plans: Vec<Plan>) {
        self.plans = plans;
    }

    /// Returns the plans under which ADUs are sent.
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Returns a plan in force; one that was replaced meanwhile carries all layers, for a later order
    /// covers its successor.
    pub fn served(&self, epoch: Epoch) -> Served {
        let mut served = self.plans.iter().flat_map(|plan| &plan.serves);
        let known = served.find(|served| served.epoch == epoch);
        known.copied().unwrap_or(Served {
            epoch,
            layers: u8::MAX,
        })
    }

    /// Handles the sinks of a held stream with their plans in force.
    pub fn handle_sinks(&mut self, sinks: &[Sinkward], now: Instant) {
        if let Some(hold) = &mut self.hold {
            hold.handle_sinks(sinks, now);
        }
    }

    /// Holds an ADU until it can be sent; returns it if the stream is not held.
    pub fn handle_adu(&mut self, adu: Adu, now: Instant) -> Option<Adu> {
        match &mut self.hold {
            Some(hold) => hold.handle_adu(adu, now),
            None => return Some(adu),
        }
        None
    }

    /// Handles an ADU that is sent under a plan's part for these plans in force. It is kept if it
    /// goes to another node and some sink uses its layer.
    pub fn handle_sent(&mut self, adu: &Adu, serves: &[Served], part: &Installation, now: Instant) {
        if part.next.is_none() {
            return;
        }
        let header = &adu.header;
        let reached = serves.iter().filter(|served| header.layer < served.layers);
        let plans: Vec<Epoch> = reached.map(|served| served.epoch).collect();
        if plans.contains(&header.epoch) {
            self.awaited.handle_given(header.epoch, header);
        }
        if self.hold.is_none() {
            self.keep.handle_given(adu, &plans, part.reliability, now);
        }
    }

    /// Handles a receipt of a sink for its plans; `had` is called for each ADU that it names and the
    /// plan by which that went.
    pub fn handle_receipt(
        &mut self,
        (sink, epochs): (NodeId, &[Epoch]),
        in_order: Option<Epoch>,
        held: &Held,
        now: Instant,
        had: impl FnMut(Epoch, Band),
    ) -> Lacking {
        self.awaited.handle_receipt(epochs, held, had);
        if let Some(hold) = &mut self.hold {
            hold.handle_receipt(sink, held);
            let missing = in_order.map_or(0, |plan| hold.missing(sink, plan, held, now));
            return Lacking {
                missing,
                given_up: None,
            };
        }
        self.keep.handle_receipt(epochs, held);
        if self.keep.handle_word(sink, held, now) {
            self.keep.take_up(epochs);
        }
        Lacking {
            missing: in_order.map_or(0, |plan| self.keep.missing(plan, held, now)),
            given_up: self.keep.given_up_below(epochs, held),
        }
    }

    /// Forgets the record of plans that are not installed any more.
    pub fn forget_over(&mut self, is_there: impl Fn(Epoch) -> bool) {
        self.awaited.retain(is_there);
    }

    /// Handles plans of a sink with broken paths.
    pub fn handle_broken(&mut self, sink: NodeId, plans: &[Epoch]) {
        self.awaited.handle_broken(sink, plans);
        if let Some(hold) = &mut self.hold {
            hold.handle_broken(sink, plans);
        }
    }

    /// Returns what is kept of these plans and worth sending again, by sequence; whoever sends it
    /// reports that by [`Source::handle_sent`].
    ///
    /// Cost    O(kept · plans)
    pub fn resend(&mut self, plans: &[Epoch], now: Instant) -> Vec<Adu> {
        self.keep.take(plans, now)
    }

    /// Handles an ADU that is sent to a sink again, or for the first time out of the store; `resent`
    /// is called for each broken plan that had carried it.
    pub fn handle_again(&mut self, sink: NodeId, header: &Header, resent: impl FnMut(Epoch, Band)) {
        self.awaited.handle_again(sink, header, resent);
    }

    /// Returns how many ADUs may be under way before the next held one leaves; `None` if none waits
    /// for a sink with a plan.
    pub fn hold_window(&self) -> Option<u64> {
        let bytes = self.hold.as_ref()?.next_bytes()?;
        Some(window(bytes, false))
    }

    /// Returns the next held ADU. It is chosen when there is room, so that a more important one can
    /// still overtake.
    pub fn poll_due(&mut self, now: Instant) -> Option<Due> {
        self.hold.as_mut()?.poll_due(now)
    }

    /// Handles the part of the plan by which a held ADU is to go, if it is installed; returns
    /// whether the ADU is sent. One that no other node gets, or whose layer its sink does not use,
    /// needs no receipt.
    pub fn handle_due(&mut self, due: &Due, part: Option<&Installation>) -> bool {
        let Some(hold) = &mut self.hold else {
            return false;
        };
        let Some(part) = part else {
            hold.handle_astray(due);
            return false;
        };
        if part.next.is_none() || due.adu.header.layer >= due.layers {
            hold.forget(due.sink, due.adu.header.sequence.0);
        }
        true
    }

    /// Returns the next ADU that was dropped before it was ever sent.
    pub fn poll_dropped(&mut self, now: Instant) -> Option<Dropped> {
        let hold = self.hold.as_mut()?;
        hold.expire(now);
        hold.poll_dropped()
    }

    /// Handles that the producer has given everything.
    pub fn handle_ended(&mut self, now: Instant) {
        self.keep.handle_ended(now);
    }

    /// Returns whether the store is so full that the producer must wait (backpressure).
    pub fn is_pressed(&mut self, now: Instant) -> bool {
        if let Some(hold) = &self.hold {
            return hold.is_pressed();
        }
        self.keep.expire(now);
        self.keep.is_pressed()
    }

    /// Returns the plans of the sinks that stall the stream, and the bytes kept for them; `None` if
    /// it is not stalled.
    pub fn stalled_by(&self) -> Option<(&[Epoch], u64)> {
        let keep = &self.keep;
        keep.is_pressed()
            .then(|| (keep.hindered_by(), keep.size().1))
    }

    /// Returns when a kept ADU expires, so that there may be room.
    pub fn poll_timeout(&self) -> Instant {
        self.keep.poll_timeout()
    }

    /// Returns how long the end of the stream waits for progress of a sink: what a stream promises
    /// to deliver is kept for its sinks that long, also past its end.
    pub fn drain_time(&self) -> Duration {
        let usual = match self.needs.reliability {
            Reliability::Full => DRAIN_FULL_MAX,
            Reliability::None | Reliability::UntilDeadline | Reliability::Repaired => DRAIN_MAX,
        };
        let promised = self.needs.waits().unwrap_or(Duration::ZERO);
        usual.max(promised).max(self.needs.hold)
    }

    /// Returns until when an end that was sent at `then` waits for receipts.
    pub fn poll_acknowledged(&self, then: Instant, patience: Duration) -> Instant {
        match &self.hold {
            Some(hold) => hold.poll_settled().min(then + patience),
            None => self.keep.poll_acknowledged(patience),
        }
    }

    /// Returns when nothing is worth sending again, unless the sinks acknowledge everything sooner.
    pub fn poll_settled(&self) -> Instant {
        let held = self.hold.as_ref().map(Hold::poll_settled);
        held.unwrap_or_else(|| self.keep.poll_settled())
    }
}
