//! The two ends of a subscriber's mailbox: the node puts ADUs in, the subscriber takes them out.
//!
//! *The idea.* `thalweg_dataplane::mailbox::Mailbox` decides; this adds a lock, a wake-up for the
//! subscriber, and the mailbox's share of the node's memory.
//!
//! *What it does not do.* It reads no clock and never waits: an ADU is put in at once, or refused.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::Adu;
use thalweg_base::id::{NodeId, Sequence, StreamId};
use thalweg_base::limits::MAILBOX_SHARE_BYTES;
use thalweg_base::mailbox::MailboxOptions;
use thalweg_base::needs::Reliability;
use thalweg_base::time::Instant;
use thalweg_dataplane::mailbox::{self, Refusal};
use tokio::sync::Notify;

use super::delivery::{Delivery, MailboxOutcome};
use super::memory::{ENTRY_BYTES, SharedMemory, room_of};
use crate::forward::drops::DropLog;

/// An item of a subscriber's mailbox.
pub(crate) type Mail = mailbox::Mail<Arc<Delivery>>;

/// The node's end of a mailbox.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    shared: Arc<Shared>,
    _open: Arc<OpenGuard>,
}

/// The subscriber's end of a mailbox.
#[derive(Debug)]
pub(crate) struct Inbox(Arc<Shared>);

/// A reading of a mailbox for the status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The subscribing program's name, as its node knows it.
    pub(crate) subscriber: String,
    /// ADUs that wait in it, and their payload bytes.
    pub(crate) waiting: (usize, u64),
    /// ADUs that were taken, and ADUs that the subscriber missed: lost, expired or dropped for lack
    /// of room.
    pub(crate) taken: u64,
    pub(crate) missed: u64,
    /// Since when it blocks its stream, if it does.
    pub(crate) blocking_since: Option<Instant>,
    /// What the subscriber asked of it.
    pub(crate) options: MailboxOptions,
}

/// Held by all clones of the node's end; its drop finishes the mailbox.
#[derive(Debug)]
struct OpenGuard(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    subscriber: Arc<str>,
    options: MailboxOptions,
    /// Notified when an item is put in.
    mail: Notify,
    memory: Arc<SharedMemory>,
}

#[derive(Debug)]
struct State {
    mailbox: mailbox::Mailbox<Arc<Delivery>>,
    /// The stream to which the mailbox is open, and where drops of it are recorded once one of its ADUs
    /// has come.
    stream: Option<StreamId>,
    drops: Option<Arc<DropLog>>,
    /// The publisher of the item that left last; before any has left, of the first.
    source: Option<NodeId>,
    taken: u64,
    /// Since when it blocks its stream.
    blocking_since: Option<Instant>,
    /// The subscriber is gone.
    has_left: bool,
    /// No item will be put in any more.
    is_finished: bool,
}

/// Returns the two ends of a new mailbox.
pub(super) fn mailbox(
    in_sequence: bool,
    options: &MailboxOptions,
    subscriber: String,
    memory: Arc<SharedMemory>,
) -> (Mailbox, Inbox) {
    let state = State {
        mailbox: mailbox::Mailbox::with(in_sequence, options),
        stream: None,
        drops: None,
        source: None,
        taken: 0,
        blocking_since: None,
        has_left: false,
        is_finished: false,
    };
    memory.note_priority(options.priority);
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        subscriber: subscriber.into(),
        options: *options,
        mail: Notify::new(),
        memory,
    });
    let mailbox = Mailbox {
        shared: Arc::clone(&shared),
        _open: Arc::new(OpenGuard(Arc::clone(&shared))),
    };
    (mailbox, Inbox(shared))
}

impl Mailbox {
    /// Opens it to a stream, and to no other: later ADUs of the previous stream are refused.
    pub(crate) fn open(&self, stream: StreamId, source: NodeId) {
        let mut state = self.shared.state();
        if state.stream == Some(stream) {
            return;
        }
        if state.stream.replace(stream).is_some() {
            state.mailbox.restart(source);
            state.drops = None;
        } else {
            state.source = Some(source);
        }
        drop(state);
        self.shared.mail.notify_one();
    }

    /// Puts in a notice, if there is room.
    pub(crate) fn notify(&self, sentence: &str) {
        let mut state = self.shared.state();
        if !state.has_left {
            state.mailbox.notify(sentence.to_string());
        }
        drop(state);
        self.shared.mail.notify_one();
    }

    /// Puts in an ADU and records a refusal in its delivery; returns whether the ADU is in.
    pub(crate) fn put(
        &self,
        adu: &Adu,
        delivery: &Arc<Delivery>,
        reliability: Reliability,
        now: Instant,
    ) -> bool {
        let wanted = Some(adu.header.stream);
        let put = self.shared.change(now, |state, is_short| {
            if state.has_left || state.stream != wanted {
                return None;
            }
            if state.drops.is_none() {
                state.drops = Some(Arc::clone(delivery.drops()));
            }
            let token = Arc::clone(delivery);
            let put = state
                .mailbox
                .put(adu.clone(), token, (reliability, is_short), now);
            Some(put.map_err(|(_, refusal)| refusal))
        });
        match put {
            Some(Ok(())) => {
                delivery.hold(adu.payload.len(), &self.shared.memory);
                self.shared.mail.notify_one();
            }
            Some(Err(refusal)) => {
                delivery.record(MailboxOutcome::from(refusal));
                if let Some(cause) = refusal.cause() {
                    delivery.drop_at(&self.shared.subscriber, cause, now);
                }
            }
            None => {}
        }
        // A duplicate is in already, so it counts as put.
        matches!(
            put,
            Some(Ok(()) | Err(Refusal::Out(mailbox::Coming::Twice)))
        )
    }

    /// Stops waiting for missing ADUs below a sequence.
    pub(super) fn handle_given_up(&self, below: Sequence) {
        self.shared.state().mailbox.handle_gone(0..below.0);
        self.shared.mail.notify_one();
    }

    /// Drops ADUs that were not taken in time.
    pub(super) fn expire(&self, now: Instant) {
        self.shared
            .change(now, |state, _| state.mailbox.expire(now));
    }

    /// Returns whether it blocks its stream.
    pub(super) fn is_blocking(&self) -> bool {
        self.shared.state().blocking_since.is_some()
    }

    /// Lets the stream continue without this mailbox if it has blocked since `since` or earlier.
    pub(super) fn give_up(&self, since: Instant, now: Instant) -> bool {
        self.shared.change(now, |state, _| {
            let is_due = state
                .blocking_since
                .is_some_and(|blocking| blocking <= since);
            if is_due {
                state.mailbox.give_up();
            }
            is_due
        })
    }

    /// Returns a reading; `None` if the subscriber is gone.
    pub(crate) fn reading(&self) -> Option<Reading> {
        let state = self.shared.state();
        (!state.has_left).then(|| Reading {
            subscriber: self.shared.subscriber.to_string(),
            waiting: state.mailbox.size(),
            taken: state.taken,
            missed: state.mailbox.skipped(),
            blocking_since: state.blocking_since,
            options: self.shared.options,
        })
    }

    /// Returns the subscriber's priority.
    pub(super) fn priority(&self) -> u8 {
        self.shared.options.priority
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.state().has_left
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Inbox {
    /// Returns the next item; skips missing ADUs when it is time to.
    pub(crate) fn poll(&self, now: Instant) -> Option<Mail> {
        self.0.change(now, |state, _| {
            let mail = state.mailbox.take(now)?;
            match &mail {
                Mail::Adu(_, delivery) => {
                    delivery.record(MailboxOutcome::Given);
                    state.taken += 1;
                }
                Mail::Restarted(source) => state.source = Some(*source),
                Mail::Notice(_) => {}
            }
            Some(mail)
        })
    }

    /// Lets so many more ADUs leave, if the subscriber pulls.
    pub(crate) fn request(&self, adus: u64) {
        self.0.state().mailbox.request(adus);
        self.0.mail.notify_one();
    }

    /// Returns when an item may leave although nothing is put in; in arrival order, when the stream
    /// may be at its end.
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.0.state().mailbox.poll_timeout()
    }

    /// In arrival order, returns whether the stream's end has arrived and no missing ADU is worth
    /// waiting for.
    pub(crate) fn poll_ended(&self, now: Instant) -> bool {
        self.0.state().mailbox.poll_ended(now)
    }

    /// Waits for an item, or the finish of the mailbox, since the last wait.
    pub(crate) async fn changed(&self) {
        self.0.mail.notified().await;
    }

    /// Returns whether no item waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.state().mailbox.is_empty()
    }

    /// Returns whether the mailbox is finished: no item will be put in any more.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.state().is_finished
    }

    /// Returns whether something waits here and in the mailbox of a subscriber of a higher priority.
    pub(crate) fn is_outranked(&self) -> bool {
        self.0.memory.is_outranked(self.0.options.priority) && !self.is_empty()
    }

    /// Returns the publisher of the ADU that was taken last.
    pub(crate) fn source(&self) -> Option<NodeId> {
        self.0.state().source
    }

    /// Returns how many ADUs the subscriber missed: lost on the way, or not taken in time.
    pub(crate) fn skipped(&self) -> u64 {
        self.0.state().mailbox.skipped()
    }

    /// Returns how many ADUs came too late for their place, or twice.
    pub(crate) fn discarded(&self) -> u64 {
        self.0.state().mailbox.discarded()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.0.change(Instant::ZERO, |state, _| {
            state.has_left = true;
            state.mailbox = mailbox::Mailbox::new(false);
        });
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.state().is_finished = true;
        self.0.mail.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the mailbox and applies the consequences: the memory in use, the outcomes of dropped
    /// ADUs, and whether the mailbox blocks its stream. `change` also gets whether the node is
    /// short of memory.
    fn change<R>(&self, now: Instant, change: impl FnOnce(&mut State, bool) -> R) -> R {
        let mut state = self.state();
        let before = state.mailbox.size();
        let result = change(&mut state, self.is_short(before));
        let after = state.mailbox.size();
        let [were, are] = [before, after].map(|(adus, _)| adus as u64 * ENTRY_BYTES);
        self.memory.change(were, are);
        self.memory
            .note_waiting(self.options.priority, before.0 > 0, after.0 > 0);
        while let Some((delivery, cause)) = state.mailbox.poll_dropped() {
            delivery.record(MailboxOutcome::of_drop(cause));
            delivery.drop_at(&self.subscriber, cause, now);
        }
        while let Some(missing) = state.mailbox.poll_missing() {
            if let Some(drops) = &state.drops {
                drops.record_missing(missing, now);
            }
        }
        let is_blocking = state.mailbox.is_pressed(self.is_short(after));
        let was_blocking = state.blocking_since.is_some();
        if is_blocking != was_blocking {
            state.blocking_since = is_blocking.then_some(now);
        }
        drop(state);
        if was_blocking && !is_blocking {
            self.memory.unblocked.notify_waiters();
        }
        result
    }

    /// Returns whether a mailbox of this size has its share, and all together have no more room for its
    /// priority.
    fn is_short(&self, (adus, bytes): (usize, u64)) -> bool {
        bytes + adus as u64 * ENTRY_BYTES >= MAILBOX_SHARE_BYTES.as_bytes()
            && self.memory.bytes() > room_of(self.options.priority)
    }
}
