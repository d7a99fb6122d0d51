//! The bounded mailboxes of the subscribers on this node.
//!
//! *The idea.* One mailbox per subscriber, independent of the others: an ADU is offered to all of
//! them, and none makes the node wait. So a stopped subscriber costs the others nothing. Its payload is
//! shared, and counts once towards the room that all mailboxes have together: a thousand stopped
//! subscribers of a stream take no more of it than one. Where that room is short, mailboxes of a low
//! priority are full first; each keeps its share. Where a
//! stream may lose nothing, a mailbox that is too full *blocks* it: a local publisher waits for the
//! mailbox, and a stream from elsewhere is acknowledged no further, which slows its source down.
//!
//! *What it does not do.* It decides nothing; `thalweg_dataplane::mailbox::Mailbox` does.

mod delivery;
mod inbox;
mod memory;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use thalweg_base::adu::Adu;
use thalweg_base::id::{NodeId, Sequence, StreamId};
use thalweg_base::mailbox::MailboxOptions;
use thalweg_base::needs::Reliability;
use thalweg_base::time::{Duration, Instant};
use thalweg_net::Clock;

use super::{Table, read, write};

pub(crate) use delivery::{Delivered, Delivery};
pub(crate) use inbox::{Inbox, Mail, Mailbox, Reading};
use memory::SharedMemory;

/// The mailboxes of all streams.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    of_stream: Table<StreamId, Vec<Mailbox>>,
    memory: Arc<SharedMemory>,
}

impl Mailboxes {
    /// Returns a mailbox that is open to no stream yet, and the inbox of its subscriber.
    pub(crate) fn create(
        &self,
        in_sequence: bool,
        options: &MailboxOptions,
        subscriber: String,
    ) -> (Mailbox, Inbox) {
        inbox::mailbox(in_sequence, options, subscriber, Arc::clone(&self.memory))
    }

    /// Opens a mailbox to a stream, and closes it to any other: what still arrives of a replaced
    /// stream is not wanted.
    pub(crate) fn open(&self, stream: StreamId, source: NodeId, mailbox: Mailbox) {
        let mut all = write(&self.of_stream);
        let is_it = |other: &Mailbox| other.is_same(&mailbox);
        if all.get(&stream).is_some_and(|open| open.iter().any(is_it)) {
            return;
        }
        all.retain(|_, mailboxes| {
            // A program that subscribes and leaves all the time leaves nothing behind.
            mailboxes.retain(|other| !other.is_same(&mailbox) && !other.is_closed());
            !mailboxes.is_empty()
        });
        mailbox.open(stream, source);
        let of_stream = all.entry(stream).or_default();
        // An ADU goes to the higher priority first, so its program is woken first; among equals to the older.
        let place = of_stream.partition_point(|other| other.priority() >= mailbox.priority());
        of_stream.insert(place, mailbox);
    }

    /// Drops ADUs that were not taken in time, and removes mailboxes of subscribers that have gone.
    pub(crate) fn sweep(&self, now: Instant) {
        write(&self.of_stream).retain(|_, mailboxes| {
            mailboxes.retain(|mailbox| !mailbox.is_closed());
            for mailbox in &*mailboxes {
                mailbox.expire(now);
            }
            !mailboxes.is_empty()
        });
    }

    /// Puts an ADU into each mailbox of its stream; returns whether it is in one. Its delivery
    /// counts the outcome.
    pub(crate) fn post(
        &self,
        adu: &Adu,
        delivery: &Arc<Delivery>,
        reliability: Reliability,
        now: Instant,
    ) -> bool {
        let mut is_queued = false;
        let all = read(&self.of_stream);
        for mailbox in all.get(&adu.header.stream).into_iter().flatten() {
            is_queued |= mailbox.put(adu, delivery, reliability, now);
        }
        drop(all);
        delivery.count_if_long_wait(is_queued, now);
        is_queued
    }

    /// Handles that missing ADUs below a sequence will never arrive.
    pub(crate) fn handle_given_up(&self, stream: StreamId, below: Sequence) {
        for mailbox in self.of(stream) {
            mailbox.handle_given_up(below);
        }
    }

    /// Returns whether a mailbox here blocks a stream.
    pub(crate) fn is_blocked(&self, stream: StreamId) -> bool {
        let all = read(&self.of_stream);
        let of_stream = all.get(&stream).into_iter().flatten();
        of_stream.into_iter().any(Mailbox::is_blocking)
    }

    /// Waits until no mailbox here blocks a stream. A mailbox that blocks it for `wait` is no
    /// longer waited for.
    pub(crate) async fn unblocked(&self, stream: StreamId, clock: &Clock, wait: Duration) {
        loop {
            let unblocked = self.memory.unblocked.notified();
            tokio::pin!(unblocked);
            // Register before the check, so that a notification in between is not missed.
            unblocked.as_mut().enable();
            let blocking = self.of(stream).into_iter();
            let blocking = blocking.filter_map(|mailbox| mailbox.reading()?.blocking_since);
            let Some(since) = blocking.min() else {
                return;
            };
            tokio::select! {
                () = unblocked => {}
                () = clock.sleep_until(since + wait) => {
                    for mailbox in self.of(stream) {
                        mailbox.give_up(since, clock.now());
                    }
                }
            }
        }
    }

    /// Returns the mailboxes that block their streams.
    pub(crate) fn blocking(&self) -> Vec<(StreamId, Vec<Reading>)> {
        let all = read(&self.of_stream);
        let blocking = all.iter().map(|(stream, mailboxes)| {
            let readings = mailboxes.iter().filter_map(Mailbox::reading);
            let blocking = readings.filter(|reading| reading.blocking_since.is_some());
            (*stream, blocking.collect::<Vec<_>>())
        });
        blocking
            .filter(|(_, blocking)| !blocking.is_empty())
            .collect()
    }

    fn of(&self, stream: StreamId) -> Vec<Mailbox> {
        let all = read(&self.of_stream);
        all.get(&stream).cloned().unwrap_or_default()
    }
}
