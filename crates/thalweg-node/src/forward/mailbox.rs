//! The bounded queues of the subscribers on this node.
//!
//! *The idea.* One queue a subscriber. A full one holds up only ADUs that may wait: a reliable stream waits for its
//! subscribers (and its flow control for it), others wait until their deadline and are then dropped and counted.

use thalweg_core::adu::Adu;
use thalweg_core::event::DropCause;
use thalweg_core::id::StreamId;
use thalweg_core::limits::MAILBOX_ADUS_MAX;
use thalweg_core::time::Instant;
use thalweg_net::Clock;
use tokio::sync::mpsc;

use super::{Table, read, write};

/// What a subscriber finds in its mailbox.
#[derive(Debug)]
pub(crate) enum Mail {
    /// An ADU of the stream.
    Adu(Adu),
    /// A sentence about the subscription.
    Notice(String),
    /// The stream is now another one of the same name: sequences start anew.
    Restarted,
}

/// The mailboxes of all streams.
#[derive(Debug, Default)]
pub(crate) struct Mailboxes {
    of_stream: Table<StreamId, Vec<mpsc::Sender<Mail>>>,
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

    /// Puts an ADU into each mailbox of its stream, waiting for room no longer than until `waits`.
    ///
    /// Fails   the cause by which at least one subscriber, or everybody, missed it
    pub(crate) async fn post(
        &self,
        adu: Adu,
        clock: &Clock,
        waits: Instant,
    ) -> Result<(), DropCause> {
        let mailboxes = read(&self.of_stream)
            .get(&adu.header.stream)
            .cloned()
            .unwrap_or_default();
        let mut result = Err(DropCause::Cancelled);
        for mailbox in mailboxes {
            let posted = match mailbox.try_send(Mail::Adu(adu.clone())) {
                Ok(()) => Ok(()),
                Err(mpsc::error::TrySendError::Closed(_)) => continue,
                Err(mpsc::error::TrySendError::Full(mail)) => tokio::select! {
                    sent = mailbox.send(mail) => sent.map_err(|_| DropCause::Cancelled),
                    () = clock.sleep_until(waits) => Err(DropCause::Overflow),
                },
            };
            result = match (result, posted) {
                (Err(DropCause::Overflow), _) => result,
                (_, posted) => posted,
            };
        }
        result
    }
}
