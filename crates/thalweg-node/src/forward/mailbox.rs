//! The bounded queues of the subscribers on this node.
//!
//! *The idea.* One queue a subscriber. A full one holds up only ADUs that may wait: a reliable stream waits for its
//! subscribers (and its flow control for it), others wait until their deadline and are then dropped and counted.

use thalweg_core::adu::Adu;
use thalweg_core::event::DropCause;
use thalweg_core::id::StreamId;
use thalweg_core::limits::{MAILBOX_ADUS_MAX, WAITING_BYTES_MAX};
use thalweg_core::time::Instant;
use thalweg_net::Clock;
use tokio::sync::{Semaphore, mpsc};

use super::{Table, read, write};

/// What a subscriber finds in its mailbox.
#[derive(Debug)]
pub(crate) enum Mail {
    /// An ADU of the stream, of which what is lost is sent again or not.
    Adu {
        /// The ADU.
        adu: Adu,
        /// Whether it is.
        is_sent_again: bool,
    },
    /// A sentence about the subscription.
    Notice(String),
    /// The stream is now another one of the same name: sequences start anew.
    Restarted,
}

/// The mailboxes of all streams.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    of_stream: Table<StreamId, Vec<mpsc::Sender<Mail>>>,
    /// How much payload may wait for room in one, in KiB.
    waiting: Semaphore,
}

impl Default for Mailboxes {
    fn default() -> Self {
        Self {
            of_stream: Table::default(),
            waiting: Semaphore::new((WAITING_BYTES_MAX.as_bytes() / 1024) as usize),
        }
    }
}

/// How an ADU waits for room.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Until there is some: those behind it wait with it, and their flow control for them.
    InTurn,
    /// So long, beside any number of others.
    Until(Instant),
}

/// Returns a mailbox and where its subscriber takes from it.
pub(crate) fn mailbox() -> (mpsc::Sender<Mail>, mpsc::Receiver<Mail>) {
    mpsc::channel(MAILBOX_ADUS_MAX)
}

impl Mailboxes {
    /// Opens a mailbox to a stream, and to no other: what still comes of one that this one has taken over from is not wanted.
    /// Returns whether it was not open to that already.
    pub(crate) fn open(&self, stream: StreamId, mailbox: mpsc::Sender<Mail>) -> bool {
        let mut all = write(&self.of_stream);
        let is_it = |other: &mpsc::Sender<Mail>| other.same_channel(&mailbox);
        if all.get(&stream).is_some_and(|open| open.iter().any(is_it)) {
            return false;
        }
        all.retain(|_, mailboxes| {
            mailboxes.retain(|other| !other.same_channel(&mailbox));
            !mailboxes.is_empty()
        });
        all.entry(stream).or_default().push(mailbox);
        true
    }

    /// Forgets the mailboxes whose subscribers are gone.
    pub(crate) fn sweep(&self) {
        write(&self.of_stream).retain(|_, mailboxes| {
            mailboxes.retain(|mailbox| !mailbox.is_closed());
            !mailboxes.is_empty()
        });
    }

    /// Puts an ADU, of a stream of which what is lost is sent again or not, into each mailbox of its stream, waiting for room no longer than it may; of those that wait beside one another only
    /// as many do as there is room for.
    ///
    /// Fails   the cause by which at least one subscriber, or everybody, missed it
    pub(crate) async fn post(
        &self,
        (adu, is_sent_again): (Adu, bool),
        clock: &Clock,
        patience: Patience,
    ) -> Result<(), DropCause> {
        let mailboxes = read(&self.of_stream)
            .get(&adu.header.stream)
            .cloned()
            .unwrap_or_default();
        let mut result = Err(DropCause::Cancelled);
        for mailbox in mailboxes {
            let mail = Mail::Adu {
                adu: adu.clone(),
                is_sent_again,
            };
            let posted = match mailbox.try_send(mail) {
                Ok(()) => Ok(()),
                Err(mpsc::error::TrySendError::Closed(_)) => continue,
                Err(mpsc::error::TrySendError::Full(mail)) => {
                    let bytes = adu.payload.len();
                    self.wait(&mailbox, (mail, bytes), clock, patience).await
                }
            };
            result = match (result, posted) {
                (Err(DropCause::Overflow), _) => result,
                (_, posted) => posted,
            };
        }
        result
    }

    async fn wait(
        &self,
        mailbox: &mpsc::Sender<Mail>,
        (mail, bytes): (Mail, usize),
        clock: &Clock,
        patience: Patience,
    ) -> Result<(), DropCause> {
        let gone = |_| DropCause::Cancelled;
        let Patience::Until(until) = patience else {
            return mailbox.send(mail).await.map_err(gone);
        };
        let kib = 1 + u32::try_from(bytes / 1024).unwrap_or(u32::MAX - 1);
        let Ok(_waiting) = self.waiting.try_acquire_many(kib) else {
            return Err(DropCause::Overflow);
        };
        tokio::select! {
            sent = mailbox.send(mail) => sent.map_err(gone),
            () = clock.sleep_until(until) => Err(DropCause::Overflow),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use thalweg_core::adu::Header;
    use thalweg_core::id::Sequence;

    use super::*;

    #[tokio::test]
    async fn what_waits_beside_others_has_bounded_room_and_what_waits_in_turn_needs_none() {
        let (mailboxes, clock) = (Mailboxes::default(), Clock::start());
        let (stream, (mailbox, mut unread)) = (StreamId(7), mailbox());
        mailboxes.open(stream, mailbox);
        let adu = |bytes| Adu {
            header: Header::new(stream, Sequence(0)),
            payload: Bytes::from(vec![0; bytes]),
        };
        let patient = Patience::Until(Instant::NEVER);
        for _ in 0..MAILBOX_ADUS_MAX {
            let posted = mailboxes.post((adu(0), true), &clock, patient).await;
            assert_eq!(posted, Ok(()));
        }
        // All but a KiB of it.
        let most = WAITING_BYTES_MAX.as_bytes() as usize - 2048;
        let mut waiting = Box::pin(mailboxes.post((adu(most), true), &clock, patient));
        assert!(polled_once(&mut waiting).await.is_none(), "it waits");
        let beyond = mailboxes.post((adu(1024), true), &clock, patient).await;
        assert_eq!(beyond, Err(DropCause::Overflow));
        let mut in_turn = Box::pin(mailboxes.post((adu(1024), true), &clock, Patience::InTurn));
        assert!(polled_once(&mut in_turn).await.is_none(), "it waits too");
        // Whoever reads makes room for both.
        for _ in 0..2 {
            assert!(unread.recv().await.is_some());
        }
        assert_eq!((waiting.await, in_turn.await), (Ok(()), Ok(())));
    }

    async fn polled_once<T>(work: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = tokio::task::yield_now() => None,
        }
    }
}
