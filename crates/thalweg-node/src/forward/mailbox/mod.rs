//! The bounded queues of the subscribers on this node.
//!
//! *The idea.* One queue a subscriber. A full one holds up only ADUs that may wait: a reliable stream waits for its
//! subscribers (and its flow control for it), others wait until their deadline and are then dropped and counted. What a subscriber
//! will not be given, for its place in the sequence has passed, is known here at once, and counted.

mod inbox;
#[cfg(test)]
mod tests;

use thalweg_core::adu::Adu;
use thalweg_core::event::DropCause;
use thalweg_core::id::{NodeId, StreamId};
use thalweg_core::limits::WAITING_BYTES_MAX;
use thalweg_core::mailbox::Coming;
use thalweg_core::needs::Reliability;
use thalweg_core::time::Instant;
use thalweg_net::Clock;
use tokio::sync::Semaphore;

use super::{Table, read, write};

use inbox::Put;
pub(crate) use inbox::{Inbox, Mail, Mailbox, mailbox};

/// The mailboxes of all streams.
#[derive(Debug)]
pub(crate) struct Mailboxes {
    of_stream: Table<StreamId, Vec<Mailbox>>,
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

impl Mailboxes {
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

    /// Forgets the mailboxes whose subscribers are gone.
    pub(crate) fn sweep(&self) {
        write(&self.of_stream).retain(|_, mailboxes| {
            mailboxes.retain(|mailbox| !mailbox.is_closed());
            !mailboxes.is_empty()
        });
    }

    /// Puts an ADU, of a stream of this reliability, into each mailbox of its stream, waiting for room no
    /// longer than it may; of those that wait beside one another only as many do as there is room for.
    ///
    /// Fails   the cause by which at least one subscriber, or everybody, missed it; what one who has joined later does not begin
    ///         with is no loss if another is given it
    pub(crate) async fn post(
        &self,
        (adu, reliability): (Adu, Reliability),
        clock: &Clock,
        patience: Patience,
    ) -> Result<(), DropCause> {
        let mailboxes = read(&self.of_stream)
            .get(&adu.header.stream)
            .cloned()
            .unwrap_or_default();
        let mut all = Posted::Unwanted;
        for mailbox in mailboxes {
            let posted = match mailbox.put(&adu, reliability, clock.now()) {
                Put::Full => {
                    self.wait(&mailbox, (&adu, reliability), clock, patience)
                        .await
                }
                put => Posted::from(put),
            };
            all = all.max(posted);
        }
        all.result()
    }

    async fn wait(
        &self,
        mailbox: &Mailbox,
        (adu, reliability): (&Adu, Reliability),
        clock: &Clock,
        patience: Patience,
    ) -> Posted {
        let waiting = mailbox.wait();
        let put = waiting.put(adu, reliability, || clock.now());
        let Patience::Until(until) = patience else {
            return Posted::from(put.await);
        };
        let kib = 1 + u32::try_from(adu.payload.len() / 1024).unwrap_or(u32::MAX - 1);
        let Ok(_waiting) = self.waiting.try_acquire_many(kib) else {
            return Posted::Overflow;
        };
        tokio::select! {
            put = put => Posted::from(put),
            () = clock.sleep_until(until) => Posted::Overflow,
        }
    }
}

/// What became of an ADU in the mailboxes of its stream: of several, the last of these that is true of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Posted {
    /// Nobody wants it.
    Unwanted,
    /// It is older than what its subscriber began with.
    BeforeFirst,
    /// A subscriber is given it, or was.
    Given,
    /// Its place in the sequence had passed.
    Late,
    /// There was no room in time.
    Overflow,
}

impl From<Put> for Posted {
    fn from(put: Put) -> Self {
        match put {
            Put::In | Put::Out(Coming::InTime | Coming::Twice) => Self::Given,
            Put::Out(Coming::BeforeFirst) => Self::BeforeFirst,
            Put::Out(Coming::Late) => Self::Late,
            // To who waits it is no answer.
            Put::Full => Self::Overflow,
            Put::Unwanted => Self::Unwanted,
        }
    }
}

impl Posted {
    const fn result(self) -> Result<(), DropCause> {
        match self {
            Self::Given => Ok(()),
            Self::BeforeFirst | Self::Late => Err(DropCause::Expired),
            Self::Overflow => Err(DropCause::Overflow),
            Self::Unwanted => Err(DropCause::Cancelled),
        }
    }
}
