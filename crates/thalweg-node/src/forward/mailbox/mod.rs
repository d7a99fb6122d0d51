//! The bounded mailboxes of the subscribers on this node.
//!
//! *The idea.* One mailbox a subscriber, each on its own: an ADU is offered to all, and putting it in waits for none. So a subscriber
//! that takes nothing costs the others nothing. Where a stream may lose nothing, a mailbox that has too much is *pressed*: a publisher
//! here waits until it is not, and of a stream from elsewhere nothing more is acknowledged until then, which slows its source down.
//!
//! *What it does not do.* It decides nothing: `thalweg_core::mailbox::Mailbox` does.

mod delivery;
mod inbox;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thalweg_core::adu::Adu;
use thalweg_core::id::{NodeId, Sequence, StreamId};
use thalweg_core::needs::Reliability;
use thalweg_core::time::{Duration, Instant};
use thalweg_net::Clock;

use super::{Table, read, write};

pub(crate) use delivery::Delivery;
use inbox::Room;
pub(crate) use inbox::{Inbox, Mail, Mailbox, Reading};

/// The mailboxes of all streams.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    of_stream: Table<StreamId, Vec<Mailbox>>,
    room: Arc<Room>,
}

impl Mailboxes {
    /// Returns a mailbox that is open to no stream yet, and where its subscriber, called so, takes from it.
    pub(crate) fn make(&self, in_sequence: bool, subscriber: String) -> (Mailbox, Inbox) {
        inbox::mailbox(in_sequence, subscriber, Arc::clone(&self.room))
    }

    /// Opens a mailbox to a stream of a node, and to no other: what still comes of one that this one has taken over from is not
    /// wanted.
    pub(crate) fn open(&self, stream: StreamId, source: NodeId, mailbox: Mailbox) {
        let mut all = write(&self.of_stream);
        let is_it = |other: &Mailbox| other.is_same(&mailbox);
        if all.get(&stream).is_some_and(|open| open.iter().any(is_it)) {
            return;
        }
        all.retain(|_, mailboxes| {
            mailboxes.retain(|other| !other.is_same(&mailbox));
            !mailboxes.is_empty()
        });
        mailbox.open(stream, source);
        all.entry(stream).or_default().push(mailbox);
    }

    /// Drops what nobody has taken in time, and forgets the mailboxes whose subscribers are gone.
    pub(crate) fn sweep(&self, now: Instant) {
        write(&self.of_stream).retain(|_, mailboxes| {
            mailboxes.retain(|mailbox| !mailbox.is_closed());
            for mailbox in &*mailboxes {
                mailbox.expire(now);
            }
            !mailboxes.is_empty()
        });
    }

    /// Puts an ADU, of a stream of this reliability, into each mailbox of its stream; returns whether it is in one.
    ///
    /// What becomes of it is counted by its delivery.
    pub(crate) fn post(
        &self,
        adu: &Adu,
        delivery: &Arc<Delivery>,
        reliability: Reliability,
        now: Instant,
    ) -> bool {
        let mut is_in = false;
        for mailbox in self.of(adu.header.stream) {
            is_in |= mailbox.put(adu, delivery, reliability, now);
        }
        delivery.count_if_lasting(is_in, now);
        is_in
    }

    /// Takes in that of a stream nothing more comes of what is lacking below a sequence.
    pub(crate) fn handle_given_up(&self, stream: StreamId, below: Sequence) {
        for mailbox in self.of(stream) {
            mailbox.handle_given_up(below);
        }
    }

    /// Returns whether a stream is held up by a mailbox here.
    pub(crate) fn is_pressed(&self, stream: StreamId) -> bool {
        let all = read(&self.of_stream);
        let of_stream = all.get(&stream).into_iter().flatten();
        of_stream.into_iter().any(Mailbox::is_pressed)
    }

    /// Waits until a stream is not held up by a mailbox here any more; by one that holds it up for so long, it is no longer.
    pub(crate) async fn eased(&self, stream: StreamId, clock: &Clock, wait: Duration) {
        loop {
            let eased = self.room.eased.notified();
            tokio::pin!(eased);
            // Listening before looking: a mailbox that is eased between the two is not missed.
            eased.as_mut().enable();
            let pressed = self.of(stream).into_iter();
            let pressed = pressed.filter_map(|mailbox| mailbox.reading()?.pressed);
            let Some(since) = pressed.min() else {
                return;
            };
            tokio::select! {
                () = eased => {}
                () = clock.sleep_until(since + wait) => {
                    for mailbox in self.of(stream) {
                        mailbox.give_up(since, clock.now());
                    }
                }
            }
        }
    }

    /// Returns the mailboxes that hold their streams up.
    pub(crate) fn pressed(&self) -> Vec<(StreamId, Vec<Reading>)> {
        let all = read(&self.of_stream);
        let pressed = all.iter().map(|(stream, mailboxes)| {
            let readings = mailboxes.iter().filter_map(Mailbox::reading);
            let pressed = readings.filter(|reading| reading.pressed.is_some());
            (*stream, pressed.collect::<Vec<_>>())
        });
        pressed.filter(|(_, pressed)| !pressed.is_empty()).collect()
    }

    fn of(&self, stream: StreamId) -> Vec<Mailbox> {
        let all = read(&self.of_stream);
        all.get(&stream).cloned().unwrap_or_default()
    }
}
