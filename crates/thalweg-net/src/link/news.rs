//! What became of ADUs: kept until the link's lock is open again, and by then told to who wants to know.
//!
//! *The idea.* Who sent an ADU waits for its outcome, or has it told to the link's receiver. Of the latter some can wait a moment:
//! as long as nobody else is to know anything, the link need not be woken for it.
//!
//! *What it does not do.* It tells nobody: the link does.

use std::collections::HashMap;

use thalweg_core::adu::Header;
use thalweg_core::histogram::{Percentiles, Recent};
use thalweg_core::hop::OrderedId;
use thalweg_core::hop::sender::{Event, Sender};
use thalweg_core::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::outcome::Outcome;
use super::wire::{Events, Held};

/// When an ADU was sent, and who is told what became of it.
pub(super) type Posted = (Instant, Reply);

/// Who is told what became of an ADU.
pub(super) struct Reply {
    pub(super) to: To,
    /// Whether that may be a moment later: when the next ADU is sent, or at the next look.
    pub(super) is_patient: bool,
    /// What it has of the room for those that would wait rather than be dropped.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

pub(super) enum To {
    /// The link's [`Receiver`](super::Receiver).
    Receiver,
    /// Whoever waits for it.
    Caller(oneshot::Sender<Outcome>),
}

/// What there is to tell.
pub(super) enum Item {
    Adu(Reply, Header, Outcome),
    /// A sequence that was finished has ended, and some wait for that.
    Sequence(Vec<oneshot::Sender<Outcome>>, Outcome),
}

/// What is to be told of one link.
#[derive(Default)]
pub(super) struct News {
    /// What has happened to streams, while it is taken in.
    events: Events,
    items: Vec<Item>,
    /// From an ADU's sending to its acknowledgement.
    latency: Recent,
    finishing: HashMap<OrderedId, Vec<oneshot::Sender<Outcome>>>,
    /// How many wait for something that they want to know at once.
    waiting: usize,
}

impl News {
    /// Notes that an ADU is sent.
    pub(super) fn handle_sent(&mut self, reply: &Reply) {
        self.waiting += usize::from(!reply.is_patient);
    }

    /// Notes who waits for the end of a sequence.
    pub(super) fn handle_finishing(&mut self, id: OrderedId, caller: oneshot::Sender<Outcome>) {
        self.finishing.entry(id).or_default().push(caller);
    }

    /// Notes that somebody waits until every ADU has its outcome, or no longer does.
    pub(super) fn handle_settling(&mut self, is_begun: bool) {
        if is_begun {
            self.waiting += 1;
        } else {
            self.waiting -= 1;
        }
    }

    /// Returns whether all that there may be to tell can wait a moment.
    pub(super) fn can_wait(&self) -> bool {
        self.waiting == 0 && self.finishing.is_empty()
    }

    /// Has a sender take in what has happened to its streams, and takes what it has to say of that, each as of its moment.
    pub(super) fn take_in(
        &mut self,
        now: Instant,
        sender: &mut Sender<u64, Posted>,
        wire: &mut Held<'_>,
    ) {
        let mut events = std::mem::take(&mut self.events);
        wire.take_events(now, &mut events);
        for (owner, event, at) in events.drain(..) {
            sender.handle_stream_event(owner, event, wire);
            self.take(sender, at);
        }
        self.events = events;
    }

    /// Takes what a sender has to say, which happened at this moment.
    pub(super) fn take(&mut self, sender: &mut Sender<u64, Posted>, at: Instant) {
        while let Some(event) = sender.poll_event() {
            self.items.push(match event {
                Event::Outcome {
                    data: (sent, reply),
                    header,
                    outcome,
                } => {
                    if outcome == Outcome::Acknowledged {
                        self.latency.record(at, at.saturating_since(sent));
                    }
                    self.waiting -= usize::from(!reply.is_patient);
                    Item::Adu(reply, header, outcome)
                }
                Event::OrderedEnded { id, outcome } => {
                    Item::Sequence(self.finishing.remove(&id).unwrap_or_default(), outcome)
                }
            });
        }
    }

    /// Returns what there is to tell, in order.
    pub(super) fn give(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.items)
    }

    /// Returns how long ADUs took lately from their sending to their acknowledgement.
    pub(super) fn latency(&self, now: Instant) -> Option<Percentiles> {
        self.latency.percentiles(now)
    }
}
