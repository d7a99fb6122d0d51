//! The mailbox of one subscriber: the node puts in, the subscriber takes out.
//!
//! *The idea.* An ADU is put in its place in the sequence when it arrives, and not when its subscriber gets round to reading. So
//! whether it comes too late is known while its node can still account for it, and a reader that is slow gives up no gap that
//! what has arrived fills. What is put in leaves, but with its subscriber.
//!
//! ```text
//! put ─► in sequence ─► poll         in sequence: what is next leaves, or waits behind a gap
//!    └──► as they come ──┘           as they come: the first; so are notices, and what is left of the stream before
//! ```
//!
//! Whoever finds no room waits, and is let in before others; behind a gap at its end those that wait are let in before it is given up.
//!
//! *What it does not do.* It asks no clock, and decides not how long anybody waits for room.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::adu::{Adu, Flags};
use thalweg_core::id::{NodeId, StreamId};
use thalweg_core::limits::MAILBOX_ADUS_MAX;
use thalweg_core::mailbox::{Coming, Ending, Resequencer};
use thalweg_core::needs::Reliability;
use thalweg_core::time::Instant;
use tokio::sync::Notify;

/// What a subscriber finds in its mailbox.
#[derive(Debug)]
pub(crate) enum Mail {
    /// An ADU of the stream.
    Adu(Adu),
    /// A sentence about the subscription.
    Notice(String),
    /// The stream is now another one of the same name, which this node publishes: sequences start anew.
    Restarted(NodeId),
}

/// What became of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// It is in.
    In,
    /// It is dropped: this is never the answer to what comes in time.
    Out(Coming),
    /// There is no room, or others wait for it.
    Full,
    /// The subscriber is gone, or wants another stream.
    Unwanted,
}

/// Where a node puts what comes for a subscriber.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    shared: Arc<Shared>,
    _open: Arc<Open>,
}

/// Where the subscriber takes it.
#[derive(Debug)]
pub(crate) struct Inbox(Arc<Shared>);

/// Somebody who waits for room.
pub(super) struct Waiting<'a>(&'a Shared);

/// Lives as long as anybody can put something in.
#[derive(Debug)]
struct Open(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told when something is put in.
    mail: Notify,
    /// Told when there is room: one of those that wait for each that leaves.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The stream that is wanted.
    stream: Option<StreamId>,
    /// Who publishes the stream of what left last, or leaves first.
    source: Option<NodeId>,
    /// What leaves first.
    items: VecDeque<Mail>,
    /// The stream's ADUs, if they are to come in sequence.
    resequencer: Option<Resequencer>,
    /// When the stream is at its end, if they are not.
    ending: Ending,
    /// What was skipped and discarded of streams before the present one.
    skipped_before: u64,
    discarded_before: u64,
    /// How many wait for room.
    waiters: usize,
    /// The subscriber is gone.
    is_left: bool,
    /// Nobody puts anything in any more.
    is_over: bool,
}

/// Returns a mailbox and where its subscriber takes from it.
pub(crate) fn mailbox(in_sequence: bool) -> (Mailbox, Inbox) {
    let state = State {
        resequencer: in_sequence.then(Resequencer::default),
        ..State::default()
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        mail: Notify::new(),
        room: Notify::new(),
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
            state.restart(source);
        } else {
            state.source = Some(source);
        }
        drop(state);
        self.shared.mail.notify_one();
        self.shared.room.notify_one();
    }

    /// Puts in a sentence, if there is room.
    pub(crate) fn notify(&self, sentence: &str) {
        let mut state = self.shared.state();
        if !state.is_left && state.length() < MAILBOX_ADUS_MAX {
            state.items.push_back(Mail::Notice(sentence.to_string()));
        }
        drop(state);
        self.shared.mail.notify_one();
    }

    /// Puts in an ADU of a stream of this reliability, unless others wait for room.
    pub(crate) fn put(&self, adu: &Adu, reliability: Reliability, now: Instant) -> Put {
        let mut state = self.shared.state();
        let put = state.put(adu, reliability, now, false);
        drop(state);
        if put == Put::In {
            self.shared.mail.notify_one();
        }
        put
    }

    /// Joins those who wait for room.
    pub(super) fn wait(&self) -> Waiting<'_> {
        self.shared.state().waiters += 1;
        Waiting(&self.shared)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.shared.state().is_left
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Waiting<'_> {
    /// Puts in an ADU once there is room. Dropped before that, it has not.
    pub(super) async fn put(
        &self,
        adu: &Adu,
        reliability: Reliability,
        now: impl Fn() -> Instant,
    ) -> Put {
        loop {
            self.0.room.notified().await;
            let put = self.0.state().put(adu, reliability, now(), true);
            match put {
                Put::Full => {}
                Put::In => {
                    self.0.mail.notify_one();
                    return put;
                }
                Put::Out(_) | Put::Unwanted => {
                    // The room is another's.
                    self.0.room.notify_one();
                    return put;
                }
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.state().waiters -= 1;
    }
}

impl Inbox {
    /// Returns what is next; what is missing before it is given up when it is time.
    pub(crate) fn poll(&self, now: Instant) -> Option<Mail> {
        let mut state = self.0.state();
        let mail = state.poll(now);
        let is_room_left = mail.is_some() || state.waiters > 0;
        drop(state);
        if is_room_left {
            self.0.room.notify_one();
        }
        mail
    }

    /// Returns when something leaves though nothing is put in; as they come, when the stream may be at its end.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let state = self.0.state();
        match &state.resequencer {
            Some(resequencer) => resequencer.poll_timeout(),
            None => state.ending.poll_timeout(),
        }
    }

    /// Returns, as they come, whether the end of the stream has, and nothing that is missing before it is worth waiting for.
    pub(crate) fn poll_ended(&self, now: Instant) -> bool {
        self.0.state().ending.poll(now)
    }

    /// Waits until something is put in, or nothing will be any more, since that was waited for last.
    pub(crate) async fn changed(&self) {
        self.0.mail.notified().await;
    }

    /// Returns whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.0.state();
        state.length() == 0 && state.waiters == 0
    }

    /// Returns whether nothing will be put in any more.
    pub(crate) fn is_over(&self) -> bool {
        self.0.state().is_over
    }

    /// Returns who publishes the stream of the ADU that was taken last.
    pub(crate) fn source(&self) -> Option<NodeId> {
        self.0.state().source
    }

    /// Returns how many ADUs were given up as missing.
    pub(crate) fn skipped(&self) -> u64 {
        let state = self.0.state();
        let resequencer = state.resequencer.as_ref();
        state.skipped_before + resequencer.map_or(0, Resequencer::skipped)
    }

    /// Returns how many ADUs came and were dropped.
    pub(crate) fn discarded(&self) -> u64 {
        let state = self.0.state();
        let resequencer = state.resequencer.as_ref();
        state.discarded_before + resequencer.map_or(0, Resequencer::late)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.is_left = true;
        state.items = VecDeque::new();
        state.resequencer = None;
        state.ending = Ending::default();
        drop(state);
        // Who is woken wakes the next.
        self.0.room.notify_one();
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
}

impl State {
    fn length(&self) -> usize {
        let waiting = self.resequencer.as_ref().map_or(0, Resequencer::waiting);
        self.items.len() + waiting
    }

    fn put(&mut self, adu: &Adu, reliability: Reliability, now: Instant, has_waited: bool) -> Put {
        if self.is_left || self.stream != Some(adu.header.stream) {
            return Put::Unwanted;
        }
        let (length, is_free) = (self.length(), has_waited || self.waiters == 0);
        let Some(resequencer) = &mut self.resequencer else {
            if length >= MAILBOX_ADUS_MAX || !is_free {
                return Put::Full;
            }
            let (header, payload_bytes) = (adu.header, adu.payload.len());
            self.ending
                .handle_adu(header, payload_bytes, reliability, now);
            self.items.push_back(Mail::Adu(adu.clone()));
            return Put::In;
        };
        let sequence = adu.header.sequence.0;
        if resequencer.coming(sequence) == Coming::InTime {
            // One more than may wait behind a gap ends it. What fills one lets others leave, and has room of its own.
            let has_room = length <= MAILBOX_ADUS_MAX && is_free;
            let fills = length < 2 * MAILBOX_ADUS_MAX && resequencer.lacks(sequence);
            if !has_room && !fills {
                return Put::Full;
            }
        }
        match resequencer.handle_adu(adu.clone(), reliability.is_sent_again(), now) {
            Coming::InTime => Put::In,
            coming => Put::Out(coming),
        }
    }

    fn poll(&mut self, now: Instant) -> Option<Mail> {
        if let Some(mail) = self.items.pop_front() {
            if let Mail::Restarted(source) = &mail {
                self.source = Some(*source);
            }
            return Some(mail);
        }
        let length = self.length();
        let resequencer = self.resequencer.as_mut()?;
        if self.waiters > 0 && length <= MAILBOX_ADUS_MAX && resequencer.is_behind_gap() {
            // It may be among those that wait for room.
            return None;
        }
        resequencer.poll_adu(now).map(Mail::Adu)
    }

    /// Has all that waits leave as it is, and sequences begin anew.
    fn restart(&mut self, source: NodeId) {
        if let Some(mut before) = self.resequencer.take() {
            while let Some(adu) = before.take_waiting() {
                if !adu.header.flags.contains(Flags::END) {
                    self.items.push_back(Mail::Adu(adu));
                }
            }
            self.skipped_before += before.skipped();
            self.discarded_before += before.late();
            self.resequencer = Some(Resequencer::default());
        }
        self.ending = Ending::default();
        self.items.push_back(Mail::Restarted(source));
    }
}
