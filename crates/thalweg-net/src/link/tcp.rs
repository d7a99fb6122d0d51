//! A TCP session, as the sender above it wants it: nothing here waits.
//!
//! *The idea.* [`tcp::Sending`](crate::tcp::Sending) is the transport; what the session tells of its streams comes through
//! one channel, which the link's driver empties each time it is woken. The session itself says when there is credit again.
//!
//! *What it does not do.* It decides nothing.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use thalweg_core::hop::sender::Owner;
use thalweg_core::pace::Event;

use super::quic::Ended;
use crate::tcp::{Connection, Events, Sending};

/// One session, with the streams that are open on it.
pub(super) struct Tcp {
    pub(super) sending: Sending,
    events: Events,
    /// What has happened, while it is taken in.
    happened: VecDeque<Event>,
    /// Streams that have ended, since the driver last took them.
    pub(super) ended: Vec<(Owner, Ended)>,
    /// Those that have room again after they had none.
    pub(super) writable: Vec<Owner>,
    /// The driver's.
    pub(super) waker: Waker,
}

impl Tcp {
    pub(super) fn new(connection: Connection, events: Events) -> Self {
        Self {
            sending: Sending::new(connection),
            events,
            happened: VecDeque::new(),
            ended: Vec::new(),
            writable: Vec::new(),
            waker: Waker::noop().clone(),
        }
    }

    /// Takes in what has happened; the driver is woken when more does.
    pub(super) fn poll(&mut self, context: &Context<'_>) {
        self.events.take(&mut self.happened, context);
        while let Some(event) = self.happened.pop_front() {
            match event {
                Event::Acknowledged(stream) => {
                    let owner = self.sending.owner(stream);
                    self.ended
                        .extend(owner.map(|owner| (owner, Ended::Acknowledged)));
                }
                Event::Stopped(stream, code) => {
                    let owner = self.sending.owner(stream);
                    self.ended
                        .extend(owner.map(|owner| (owner, Ended::Stopped(code))));
                }
                Event::Writable(stream) => self.writable.extend(self.sending.owner(stream)),
                // Woken is all that room asks for; the end of the session the link hears elsewhere.
                _ => {}
            }
        }
    }
}
