//! A plan that is installed here: its route, its lift, and its turn on the next link.
//!
//! *The idea.* An ordered sequence gains nothing from a second ADU before the first has gone. So
//! one is sent at a time, the next ones wait here, and what still arrives is held back at the link
//! from which it comes. Where sinks repair what they miss, the queue is short and what finds no
//! room is dropped, on this plan alone.
//!
//! *What it does not do.* It neither sends nor counts.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use thalweg_base::adu::{Adu, Header};
use thalweg_base::id::NodeId;
use thalweg_base::needs::Reliability;
use thalweg_base::time::Instant;

use crate::lift::Lift;
use crate::packet::Packet;
use crate::route::{self, Carried, Route};

/// One node's part of one plan, with the ADUs in it; `R` names a reception.
#[derive(Debug)]
pub struct Part<R> {
    route: Route,
    lift: Option<Lift>,
    /// An ordered ADU was handed to the next link, which has not taken all of it yet.
    is_sending: bool,
    /// Ordered ADUs that wait for the link.
    waiting: VecDeque<Adu>,
    /// Receptions that are held back meanwhile.
    held: Vec<R>,
}

/// What becomes of an ordered ADU at the next link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is sent now.
    Now,
    /// It waits.
    Later,
    /// The queue is full.
    Never,
}

impl<R> Part<R> {
    /// Returns the part of a route, without ADUs.
    pub const fn new(route: Route, lift: Option<Lift>) -> Self {
        Self {
            route,
            lift,
            is_sending: false,
            waiting: VecDeque::new(),
            held: Vec::new(),
        }
    }

    /// Returns the route.
    pub const fn route(&self) -> &Route {
        &self.route
    }

    /// Returns the next node; `None` at the sink.
    pub const fn next(&self) -> Option<NodeId> {
        self.route.installation().next
    }

    /// Returns the stream's reliability.
    pub const fn reliability(&self) -> Reliability {
        self.route.installation().reliability
    }

    /// Returns whether an ADU would have to wait for the one before it.
    pub fn is_busy(&self) -> bool {
        self.route.is_ordered() && (self.is_sending || !self.waiting.is_empty())
    }

    /// Returns whether the queue of a plan with its own pace has room.
    pub fn has_room(&self, header: &Header, payload_bytes: usize) -> bool {
        route::has_room(self.waiting.len() as u64, header, payload_bytes)
    }

    /// Returns when an ADU is sent.
    pub fn turn(&self, header: &Header, payload_bytes: usize) -> Turn {
        if !self.is_busy() {
            Turn::Now
        } else if self.route.is_repaired() && !self.has_room(header, payload_bytes) {
            Turn::Never
        } else {
            Turn::Later
        }
    }

    /// Lets an ADU wait for its turn.
    pub fn wait(&mut self, adu: Adu) {
        self.waiting.push_back(adu);
    }

    /// Notes that an ADU is handed to the link.
    pub fn handle_sent(&mut self) {
        self.is_sending = self.route.is_ordered();
    }

    /// Notes that the link has taken all of it.
    pub fn handle_gone(&mut self) {
        self.is_sending = false;
    }

    /// Returns the next waiting ADU if it can be sent.
    pub fn poll_waiting(&mut self) -> Option<Adu> {
        if self.is_sending {
            return None;
        }
        self.waiting.pop_front()
    }

    /// Takes out all waiting ADUs.
    pub fn take_waiting(&mut self) -> VecDeque<Adu> {
        core::mem::take(&mut self.waiting)
    }

    /// Holds a reception back.
    pub fn hold(&mut self, recv: R) {
        self.held.push(recv);
    }

    /// Takes out the receptions that are held back.
    pub fn take_held(&mut self) -> Vec<R> {
        core::mem::take(&mut self.held)
    }

    /// Passes an ADU through the lift.
    ///
    /// Fails   with the ADU if there is none
    pub fn carry(&mut self, adu: Adu, now: Instant) -> Result<Carried, Adu> {
        match &mut self.lift {
            Some(lift) => Ok(route::carry(lift, Packet::from(adu), now)),
            None => Err(adu),
        }
    }

    /// Returns whether ADUs pass through a lift.
    pub const fn is_lifted(&self) -> bool {
        self.lift.is_some()
    }

    /// Returns the packets queued in the lift.
    pub fn packets_inside(&self) -> usize {
        self.lift.as_ref().map_or(0, Lift::packets_inside)
    }
}
