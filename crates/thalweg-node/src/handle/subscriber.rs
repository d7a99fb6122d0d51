//! The subscriber's end of a stream.
//!
//! *The idea.* A stream that has come to its end is the end for who reads it, unless another node publishes
//! the name too: the node knows, and is asked. A stream that was cut off is no end: its reader is told, and
//! waits for the next of its name. What comes in sequence is in it already in its mailbox, whose [`Inbox`]
//! this reads.

use thalweg_core::adu::{Adu, Flags};
use thalweg_core::control::{EndCause, Notice};
use thalweg_core::id::{NodeId, StreamId};
use thalweg_core::mailbox::END_PATIENCE;
use thalweg_core::time::Instant;
use thalweg_net::Clock;
use tokio::sync::{mpsc, oneshot};

use super::SubscribeOptions;
use crate::control::{Command, Input};
use crate::forward::{Inbox, Mail};

/// Takes the ADUs of a stream.
pub struct Subscriber {
    options: SubscribeOptions,
    inbox: Inbox,
    clock: Clock,
    received: u64,
    ending: Option<Ending>,
    /// Where the node is asked whether the name goes on.
    inputs: mpsc::Sender<Input>,
    /// The stream that has come to its end, and how, until it is known whether another goes on.
    ended: Option<(StreamId, EndCause)>,
    /// Its answer, when it has been asked.
    answer: Option<oneshot::Receiver<bool>>,
}

/// What comes to a subscriber.
#[derive(Clone, Debug)]
pub enum SubscriberEvent {
    /// An ADU.
    Adu(Adu),
    /// A sentence about the subscription: nobody publishes it yet, its publisher is gone, a plan failed.
    Notice(String),
}

/// The end of the stream is known; some of it may still be under way.
#[derive(Clone, Copy, Debug)]
struct Ending {
    stream: StreamId,
    cause: EndCause,
    total: u64,
    /// When it is given up at the earliest: [`Inbox::poll_ended`] knows whether more is worth waiting for.
    give_up: Instant,
}

impl Subscriber {
    pub(super) fn new(
        options: SubscribeOptions,
        inbox: Inbox,
        clock: Clock,
        inputs: mpsc::Sender<Input>,
    ) -> Self {
        Self {
            options,
            inbox,
            clock,
            received: 0,
            ending: None,
            inputs,
            ended: None,
            answer: None,
        }
    }

    /// Returns the node that publishes the stream of the ADU that came last, whether the map shows that stream still or not.
    pub fn source(&self) -> Option<NodeId> {
        self.inbox.source()
    }

    /// Returns how many ADUs were given up as missing; known only in sequence.
    pub fn skipped(&self) -> u64 {
        self.inbox.skipped()
    }

    /// Returns how many ADUs had come and were not given out: too late for their place, or twice.
    pub fn discarded(&self) -> u64 {
        self.inbox.discarded()
    }

    /// Returns whether the stream has ended, and not just its node stopped, where nothing more comes.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Returns the next ADU or notice; `None` when its producer has ended the stream and no other of its name
    /// is there, or the node has stopped. After a stream whose producer went away without ending it, the next
    /// of its name is waited for.
    pub async fn recv(&mut self) -> Option<SubscriberEvent> {
        loop {
            if let Some(ended) = self.ended {
                match self.goes_on(ended).await {
                    Some(true) => self.ended = None,
                    Some(false) => return None,
                    None => {
                        self.ended = None;
                        return None;
                    }
                }
                if ended.1 == EndCause::CutOff {
                    let notice = Notice::CutOff.sentence(&self.options.name);
                    return Some(SubscriberEvent::Notice(notice));
                }
            }
            match self.inbox.poll(self.clock.now()) {
                Some(Mail::Adu(adu, _)) => {
                    if let Some(adu) = self.take(adu) {
                        return Some(SubscriberEvent::Adu(adu));
                    }
                    continue;
                }
                Some(Mail::Notice(notice)) => return Some(SubscriberEvent::Notice(notice)),
                Some(Mail::Restarted(_)) => {
                    self.restart();
                    continue;
                }
                None => {}
            }
            if self.is_over() {
                self.ended = self.ending.take().map(|one| (one.stream, one.cause));
                continue;
            }
            if self.inbox.is_finished() {
                return None;
            }
            let wake = self.wake();
            tokio::select! {
                () = self.inbox.changed() => {}
                () = self.clock.sleep_until(wake) => {}
            }
        }
    }

    /// Takes an ADU as it comes; as they arrive, the end is kept until what it counts has come, or is waited for no longer.
    fn take(&mut self, adu: Adu) -> Option<Adu> {
        let flags = adu.header.flags;
        let is_end = flags.contains(Flags::END);
        let cause = if flags.contains(Flags::CUT_OFF) {
            EndCause::CutOff
        } else {
            EndCause::Finished
        };
        if is_end && self.options.in_sequence {
            self.ended = Some((adu.header.stream, cause));
            return None;
        }
        if is_end {
            let give_up = self.clock.now() + END_PATIENCE;
            self.ending = Some(Ending {
                stream: adu.header.stream,
                cause,
                total: adu.header.sequence.0,
                give_up,
            });
            return None;
        }
        self.received += 1;
        if let Some(ending) = &mut self.ending {
            // Others may follow.
            ending.give_up = self.clock.now() + END_PATIENCE;
        }
        Some(adu)
    }

    /// Asks the node whether the name goes on after this stream; a node that has stopped does not know.
    async fn goes_on(&mut self, ended: (StreamId, EndCause)) -> Option<bool> {
        if self.answer.is_none() {
            let (reply, answer) = oneshot::channel();
            let name = self.options.name.clone();
            let command = Command::Ended { name, ended, reply };
            self.inputs.send(Input::Command(command)).await.ok()?;
            self.answer = Some(answer);
        }
        let goes_on = self.answer.as_mut()?.await;
        self.answer = None;
        goes_on.ok()
    }

    fn is_over(&self) -> bool {
        let now = self.clock.now();
        self.ending.is_some_and(|ending| {
            let is_given_up = now >= ending.give_up && self.inbox.poll_ended(now);
            self.inbox.is_empty() && (self.received >= ending.total || is_given_up)
        })
    }

    /// Returns when there may be something to do though nothing is put in.
    fn wake(&self) -> Instant {
        if self.options.in_sequence {
            return self.inbox.poll_timeout();
        }
        self.ending.map_or(Instant::NEVER, |ending| {
            let now = self.clock.now();
            if now < ending.give_up {
                ending.give_up
            } else {
                self.inbox.poll_timeout()
            }
        })
    }

    const fn restart(&mut self) {
        self.received = 0;
        self.ending = None;
    }
}
