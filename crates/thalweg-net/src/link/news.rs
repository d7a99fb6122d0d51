//! Outcomes of ADUs, collected under the link's lock and reported after it is released.
//!
//! *The idea.* A caller awaits the outcome of its ADU, or leaves it to the link's receiver. Some of
//! the latter are *patient*: as long as nothing else is awaited, the link's driver need not be
//! woken for them.
//!
//! *What it does not do.* It reports nothing itself: the link does.

use std::collections::HashMap;

use thalweg_base::adu::Header;
use thalweg_base::histogram::{Percentiles, Recent};
use thalweg_base::time::Instant;
use thalweg_link::hop::OrderedId;
use thalweg_link::hop::sender::{Event, Sender};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::Events;
use super::outcome::Outcome;
use super::wire::Held;

/// When an ADU was sent, and where its outcome is reported.
pub(super) type SentAt = (Instant, Reply);

/// Where the outcome of an ADU is reported.
pub(super) struct Reply {
    pub(super) to: To,
    /// Whether the report may wait until the next ADU is sent or the next sample.
    pub(super) is_patient: bool,
    /// The ADU's part of the outbox's room, if it had to wait for room.
    pub(super) room: Option<OwnedSemaphorePermit>,
}

pub(super) enum To {
    /// The link's [`Receiver`](super::Receiver), with the number that the caller gave.
    Receiver(u64),
    /// The caller that awaits the outcome.
    Caller(oneshot::Sender<Outcome>),
}

/// An outcome to report.
pub(super) enum Item {
    Adu(Reply, Header, Outcome),
    /// A finished sequence has ended; its waiting callers.
    Sequence(Vec<oneshot::Sender<Outcome>>, Outcome),
}

/// The outcomes to report of one link.
#[derive(Default)]
pub(super) struct Reports {
    /// Buffer for stream events, reused.
    events: Events,
    items: Vec<Item>,
    /// Time from sending to acknowledgement.
    latency: Recent,
    finishing: HashMap<OrderedId, Vec<oneshot::Sender<Outcome>>>,
    /// Number of outcomes that are awaited and not patient.
    waiting: usize,
}

impl Reports {
    /// Records that an ADU is sent.
    pub(super) fn handle_sent(&mut self, reply: &Reply) {
        self.waiting += usize::from(!reply.is_patient);
    }

    /// Records an ADU that is lost before it was sent.
    pub(super) fn handle_lost(&mut self, reply: Reply, header: Header) {
        self.items.push(Item::Adu(reply, header, Outcome::LinkLost));
    }

    /// Records a caller that waits for the end of a sequence.
    pub(super) fn handle_finishing(&mut self, id: OrderedId, caller: oneshot::Sender<Outcome>) {
        self.finishing.entry(id).or_default().push(caller);
    }

    /// Records that a caller begins or ends to wait until every ADU has its outcome.
    pub(super) fn handle_settling(&mut self, is_begun: bool) {
        if is_begun {
            self.waiting += 1;
        } else {
            self.waiting -= 1;
        }
    }

    /// Returns whether every possible report is patient.
    pub(super) fn can_wait(&self) -> bool {
        self.waiting == 0 && self.finishing.is_empty()
    }

    /// Passes stream events to the sender and collects the outcomes, each with the time of its
    /// event.
    pub(super) fn handle_events(
        &mut self,
        now: Instant,
        sender: &mut Sender<u64, SentAt>,
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

    /// Collects the sender's outcomes, which happened at `at`.
    pub(super) fn take(&mut self, sender: &mut Sender<u64, SentAt>, at: Instant) {
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

    /// Takes the outcomes to report, in order.
    pub(super) fn take_items(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.items)
    }

    /// Returns the recent times from sending to acknowledgement.
    pub(super) fn latency(&self, now: Instant) -> Option<Percentiles> {
        self.latency.percentiles(now)
    }
}
