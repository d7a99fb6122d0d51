//! The two ends of one subscriber's mailbox: the node puts in, the subscriber takes out.
//!
//! *The idea.* `thalweg_core::mailbox::Mailbox` decides; here it has a lock, somebody to wake, and its share of the node's memory.
//!
//! *What it does not do.* It asks no clock, and waits for nothing: an ADU is in, or it is not.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::adu::Adu;
use thalweg_core::id::{NodeId, Sequence, StreamId};
use thalweg_core::limits::{MAILBOX_SHARE_BYTES, MAILBOXES_BYTES_MAX};
use thalweg_core::mailbox::{self, Refusal};
use thalweg_core::needs::Reliability;
use thalweg_core::time::Instant;
use tokio::sync::Notify;

use super::delivery::{Delivery, Fate};

/// What a subscriber finds in its mailbox.
pub(crate) type Mail = mailbox::Mail<Arc<Delivery>>;

/// Where a node puts what comes for a subscriber.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    shared: Arc<Shared>,
    _open: Arc<Open>,
}

/// Where the subscriber takes it.
#[derive(Debug)]
pub(crate) struct Inbox(Arc<Shared>);

/// What all mailboxes of a node share.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Payload in all of them.
    bytes: AtomicU64,
    /// Told when one of them is no longer pressed.
    pub(super) eased: Notify,
}

impl Room {
    /// Returns how much payload is in all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}

/// How a mailbox is, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The program that takes from it, as its node knows it.
    pub(crate) subscriber: String,
    /// ADUs that wait in it, and their payload.
    pub(crate) waiting: (usize, u64),
    /// ADUs that were taken, and those that were not given to its subscriber: missing, expired or without room.
    pub(crate) taken: u64,
    pub(crate) missed: u64,
    /// Since when its stream is held up by it, if it is.
    pub(crate) pressed: Option<Instant>,
}

/// Lives as long as anybody can put something in.
#[derive(Debug)]
struct Open(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    subscriber: String,
    /// Told when something is put in.
    mail: Notify,
    room: Arc<Room>,
}

#[derive(Debug)]
struct State {
    mailbox: mailbox::Mailbox<Arc<Delivery>>,
    /// The stream that is wanted.
    stream: Option<StreamId>,
    /// The publisher of the stream of what left last, or leaves first.
    source: Option<NodeId>,
    taken: u64,
    /// Since when its stream is held up by it.
    pressed: Option<Instant>,
    /// The subscriber is gone.
    is_left: bool,
    /// Nothing will be put in any more.
    is_over: bool,
}

/// Returns a mailbox and where its subscriber, called so, takes from it.
pub(super) fn mailbox(in_sequence: bool, subscriber: String, room: Arc<Room>) -> (Mailbox, Inbox) {
    let state = State {
        mailbox: mailbox::Mailbox::new(in_sequence),
        stream: None,
        source: None,
        taken: 0,
        pressed: None,
        is_left: false,
        is_over: false,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        subscriber,
        mail: Notify::new(),
        room,
    });
    let mailbox = Mailbox {
        shared: Arc::clone(&shared),
        _open: Arc::new(Open(Arc::clone(&shared))),
    };
    (mailbox, Inbox(shared))
}

impl Mailbox {
    /// Opens it to a stream of a node, and to no other: of the one before no more comes.
    pub(crate) fn open(&self, stream: StreamId, source: NodeId) {
        let mut state = self.shared.state();
        if state.stream == Some(stream) {
            return;
        }
        if state.stream.replace(stream).is_some() {
            state.mailbox.restart(source);
        } else {
            state.source = Some(source);
        }
        drop(state);
        self.shared.mail.notify_one();
    }

    /// Puts in a sentence, if there is room.
    pub(crate) fn notify(&self, sentence: &str) {
        let mut state = self.shared.state();
        if !state.is_left {
            state.mailbox.notify(sentence.to_string());
        }
        drop(state);
        self.shared.mail.notify_one();
    }

    /// Puts in an ADU of a stream of this reliability, and says to its delivery what becomes of it; returns whether it is in.
    pub(crate) fn put(
        &self,
        adu: &Adu,
        delivery: &Arc<Delivery>,
        reliability: Reliability,
        now: Instant,
    ) -> bool {
        let wanted = Some(adu.header.stream);
        let put = self.shared.change(now, |state, is_short| {
            if state.is_left || state.stream != wanted {
                return None;
            }
            let token = Arc::clone(delivery);
            let put = state
                .mailbox
                .put(adu.clone(), token, (reliability, is_short), now);
            Some(put.map_err(|(_, refusal)| refusal))
        });
        match put {
            Some(Ok(())) => self.shared.mail.notify_one(),
            Some(Err(refusal)) => delivery.note(Fate::from(refusal)),
            None => {}
        }
        // One that came before is no news to whoever waits for it.
        matches!(
            put,
            Some(Ok(()) | Err(Refusal::Out(mailbox::Coming::Twice)))
        )
    }

    /// Waits no longer for what is lacking below a sequence.
    pub(super) fn handle_given_up(&self, below: Sequence) {
        self.shared.state().mailbox.handle_gone(0..below.0);
        self.shared.mail.notify_one();
    }

    /// Drops what nobody has taken in time.
    pub(super) fn expire(&self, now: Instant) {
        self.shared
            .change(now, |state, _| state.mailbox.expire(now));
    }

    /// Returns whether its stream is held up by it.
    pub(super) fn is_pressed(&self) -> bool {
        self.shared.state().pressed.is_some()
    }

    /// Lets its stream go on without it, if it is held up by it since then.
    pub(super) fn give_up(&self, since: Instant, now: Instant) -> bool {
        self.shared.change(now, |state, _| {
            let is_due = state.pressed.is_some_and(|pressed| pressed <= since);
            if is_due {
                state.mailbox.give_up();
            }
            is_due
        })
    }

    /// Returns how it is; `None` if its subscriber is gone.
    pub(crate) fn reading(&self) -> Option<Reading> {
        let state = self.shared.state();
        (!state.is_left).then(|| Reading {
            subscriber: self.shared.subscriber.clone(),
            waiting: state.mailbox.size(),
            taken: state.taken,
            missed: state.mailbox.skipped(),
            pressed: state.pressed,
        })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.state().is_left
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Inbox {
    /// Returns what is next; what is missing before it is given up when it is time.
    pub(crate) fn poll(&self, now: Instant) -> Option<Mail> {
        self.0.change(now, |state, _| {
            let mail = state.mailbox.take(now)?;
            match &mail {
                Mail::Adu(_, delivery) => {
                    delivery.note(Fate::Given);
                    state.taken += 1;
                }
                Mail::Restarted(source) => state.source = Some(*source),
                Mail::Notice(_) => {}
            }
            Some(mail)
        })
    }

    /// Returns when something leaves though nothing is put in; as they come, when the stream may be at its end.
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.0.state().mailbox.poll_timeout()
    }

    /// Returns, as they come, whether the end of the stream has, and nothing that is missing before it is worth waiting for.
    pub(crate) fn poll_ended(&self, now: Instant) -> bool {
        self.0.state().mailbox.poll_ended(now)
    }

    /// Waits until something is put in, or nothing will be any more, since that was waited for last.
    pub(crate) async fn changed(&self) {
        self.0.mail.notified().await;
    }

    /// Returns whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.state().mailbox.is_empty()
    }

    /// Returns whether nothing will be put in any more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.state().is_over
    }

    /// Returns the publisher of the stream of the ADU that was taken last.
    pub(crate) fn source(&self) -> Option<NodeId> {
        self.0.state().source
    }

    /// Returns how many ADUs its subscriber was not given: they were missing, or nobody took them in time.
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
            state.is_left = true;
            state.mailbox = mailbox::Mailbox::new(false);
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.mail.notify_one();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the mailbox, and does what follows from that: what it takes of the node's room, what was dropped in it, and whether its
    /// stream may go on. What is changed is told whether the node is short of room.
    fn change<R>(&self, now: Instant, change: impl FnOnce(&mut State, bool) -> R) -> R {
        let mut state = self.state();
        let (_, before) = state.mailbox.size();
        let result = change(&mut state, self.is_short(before));
        let (_, after) = state.mailbox.size();
        if after > before {
            self.room.bytes.fetch_add(after - before, Relaxed);
        } else {
            self.room.bytes.fetch_sub(before - after, Relaxed);
        }
        while let Some((delivery, cause)) = state.mailbox.poll_dropped() {
            delivery.note(Fate::of_drop(cause));
        }
        let is_pressed = state.mailbox.is_pressed(self.is_short(after));
        let was_pressed = state.pressed.is_some();
        if is_pressed != was_pressed {
            state.pressed = is_pressed.then_some(now);
        }
        drop(state);
        if was_pressed && !is_pressed {
            self.room.eased.notify_waiters();
        }
        result
    }

    fn is_short(&self, bytes: u64) -> bool {
        bytes >= MAILBOX_SHARE_BYTES.as_bytes()
            && self.room.bytes() > MAILBOXES_BYTES_MAX.as_bytes()
    }
}
