//! The subscriber's end of a stream.
//!
//! *The idea.* A finished stream is the end for its reader, unless another node publishes the name
//! too; the node knows, so the subscriber asks it. A stream that was cut off does not end the
//! subscription: the reader gets a notice, and the subscriber waits for the next stream of the
//! name. In-sequence delivery is done by the mailbox; this reads its [`Inbox`].

use thalweg_base::adu::{Adu, Flags};
use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::time::Instant;
use thalweg_control::control::{EndCause, Notice};
use thalweg_dataplane::mailbox::END_PATIENCE;
use thalweg_net::Clock;
use tokio::sync::{mpsc, oneshot};

use super::SubscribeOptions;
use crate::forward::{Inbox, Mail};
use crate::input::{Command, Input};

/// Turns that a subscriber leaves to those of a higher priority before it takes an ADU. The runtime may
/// well run the same task twice; one of a higher priority that does not read stops nobody.
const TURNS_MAX: u32 = 4;

/// Receives the ADUs of a stream.
pub struct Subscriber {
    options: SubscribeOptions,
    inbox: Inbox,
    clock: Clock,
    received: u64,
    ending: Option<Ending>,
    /// Sends the node the question whether the name continues.
    inputs: mpsc::Sender<Input>,
    /// The stream that has ended, and how, until it is known whether the name continues.
    ended: Option<(StreamId, EndCause)>,
    /// The node's pending answer, once asked.
    answer: Option<oneshot::Receiver<bool>>,
}

/// An event of a subscription.
#[derive(Clone, Debug)]
pub enum SubscriberEvent {
    /// An ADU.
    Adu(Adu),
    /// A sentence about the subscription: no publisher yet, publisher gone, plan failed.
    Notice(String),
}

/// The end of the stream has arrived; some of the stream may still be under way.
#[derive(Clone, Copy, Debug)]
struct Ending {
    stream: StreamId,
    cause: EndCause,
    total: u64,
    /// Earliest time to end without the rest. [`Inbox::poll_ended`] knows whether more is worth
    /// waiting for.
    give_up_at: Instant,
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

    /// Returns the source of the last ADU, whether the map still shows its stream or not.
    pub fn source(&self) -> Option<NodeId> {
        self.inbox.source()
    }

    /// Returns how many missing ADUs were skipped; known only in sequence.
    pub fn skipped(&self) -> u64 {
        self.inbox.skipped()
    }

    /// Returns how many ADUs arrived and were discarded: too late for their place, or twice.
    pub fn discarded(&self) -> u64 {
        self.inbox.discarded()
    }

    /// Returns whether the stream has ended, as opposed to its node having stopped.
    pub(crate) const fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Asks for so many more ADUs. A subscriber that pulls ([`MailboxOptions::pull`]) is given no other,
    /// and the end once everything before it was given; any other is given what comes, and this has no
    /// effect.
    ///
    /// [`MailboxOptions::pull`]: crate::MailboxOptions::pull
    pub fn request(&self, adus: u64) {
        self.inbox.request(adus);
    }

    /// Returns the next ADU or notice; `None` when the producer has ended the stream and no other
    /// of its name exists, or the node has stopped. After a stream that was cut off, waits for the
    /// next of its name.
    pub async fn recv(&mut self) -> Option<SubscriberEvent> {
        loop {
            if let Some(ended) = self.ended {
                match self.name_continues(ended).await {
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
            let mut turns = 0;
            while turns < TURNS_MAX && self.inbox.is_outranked() {
                turns += 1;
                tokio::task::yield_now().await;
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
            if self.is_complete() {
                self.ended = self.ending.take().map(|one| (one.stream, one.cause));
                continue;
            }
            if self.inbox.is_finished() {
                return None;
            }
            let wake = self.wake_time();
            tokio::select! {
                () = self.inbox.changed() => {}
                () = self.clock.sleep_until(wake) => {}
            }
        }
    }

    /// Takes an ADU from the mailbox. In arrival order the end is held back until all ADUs that it
    /// counts have arrived, or are no longer waited for.
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
            let give_up_at = self.clock.now() + END_PATIENCE;
            self.ending = Some(Ending {
                stream: adu.header.stream,
                cause,
                total: adu.header.sequence.0,
                give_up_at,
            });
            return None;
        }
        self.received += 1;
        if let Some(ending) = &mut self.ending {
            // More may follow.
            ending.give_up_at = self.clock.now() + END_PATIENCE;
        }
        Some(adu)
    }

    /// Asks the node whether the name continues after this stream; `None` if the node has stopped.
    async fn name_continues(&mut self, ended: (StreamId, EndCause)) -> Option<bool> {
        if self.answer.is_none() {
            let (reply, answer) = oneshot::channel();
            let name = self.options.name.clone();
            let command = Command::Ended { name, ended, reply };
            self.inputs.send(Input::Command(command)).await.ok()?;
            self.answer = Some(answer);
        }
        let continues = self.answer.as_mut()?.await;
        self.answer = None;
        continues.ok()
    }

    fn is_complete(&self) -> bool {
        let now = self.clock.now();
        self.ending.is_some_and(|ending| {
            let is_given_up = now >= ending.give_up_at && self.inbox.poll_ended(now);
            self.inbox.is_empty() && (self.received >= ending.total || is_given_up)
        })
    }

    /// Returns when to look again although nothing is put in.
    fn wake_time(&self) -> Instant {
        if self.options.in_sequence {
            return self.inbox.poll_timeout();
        }
        self.ending.map_or(Instant::NEVER, |ending| {
            let now = self.clock.now();
            if now < ending.give_up_at {
                ending.give_up_at
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
