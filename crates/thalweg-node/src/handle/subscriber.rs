//! The subscriber's end of a stream.
//!
//! *The idea.* A stream that has come to its end is the end for who reads it, unless another node publishes the name too: the
//! node knows, and is asked. What comes in sequence is in it already in its mailbox, whose [`Inbox`] this reads.

use thalweg_core::adu::{Adu, Flags};
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
    /// The stream that has come to its end, until it is known whether another goes on.
    ended: Option<StreamId>,
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

    /// Returns the next ADU or notice; `None` when the stream has ended and no other of its name is there, or the node has stopped.
    pub async fn recv(&mut self) -> Option<SubscriberEvent> {
        loop {
            if let Some(stream) = self.ended {
                if !self.goes_on(stream).await {
                    return None;
                }
                self.ended = None;
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
                self.ended = self.ending.take().map(|ending| ending.stream);
                continue;
            }
            if self.inbox.is_over() {
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
        let is_end = adu.header.flags.contains(Flags::END);
        if is_end && self.options.in_sequence {
            self.ended = Some(adu.header.stream);
            return None;
        }
        if is_end {
            let give_up = self.clock.now() + END_PATIENCE;
            self.ending = Some(Ending {
                stream: adu.header.stream,
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

    /// Asks the node whether the name goes on after this stream.
    async fn goes_on(&mut self, stream: StreamId) -> bool {
        if self.answer.is_none() {
            let (reply, answer) = oneshot::channel();
            let name = self.options.name.clone();
            let command = Command::Ended {
                name,
                stream,
                reply,
            };
            if self.inputs.send(Input::Command(command)).await.is_err() {
                return false;
            }
            self.answer = Some(answer);
        }
        let Some(answer) = &mut self.answer else {
            return false;
        };
        let goes_on = answer.await.unwrap_or(false);
        self.answer = None;
        goes_on
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
