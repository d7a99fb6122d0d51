//! The subscriber's end of a stream.

use std::collections::VecDeque;

use thalweg_core::adu::{Adu, Flags};
use thalweg_core::mailbox::{END_PATIENCE, Resequencer};
use thalweg_core::time::Instant;
use thalweg_net::Clock;
use tokio::sync::mpsc;

use super::SubscribeOptions;
use crate::forward::Mail;

/// Takes the ADUs of a stream.
pub struct Subscriber {
    options: SubscribeOptions,
    mail: mpsc::Receiver<Mail>,
    clock: Clock,
    resequencer: Resequencer,
    notices: VecDeque<String>,
    received: u64,
    ending: Option<Ending>,
    /// What was skipped and discarded of streams of this name before the present one.
    skipped_before: u64,
    discarded_before: u64,
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
    total: u64,
    give_up: Instant,
}

impl Subscriber {
    pub(super) fn new(options: SubscribeOptions, mail: mpsc::Receiver<Mail>, clock: Clock) -> Self {
        Self {
            options,
            mail,
            clock,
            resequencer: Resequencer::default(),
            notices: VecDeque::new(),
            received: 0,
            ending: None,
            skipped_before: 0,
            discarded_before: 0,
        }
    }

    /// Returns how many ADUs were given up as missing; known only in sequence.
    pub const fn skipped(&self) -> u64 {
        self.skipped_before + self.resequencer.skipped()
    }

    /// Returns how many ADUs had come and were not given out: too late for their place, twice, or waiting behind a gap
    /// when their stream was published anew.
    pub const fn discarded(&self) -> u64 {
        self.discarded_before + self.resequencer.late()
    }

    /// Returns the next ADU or notice; `None` when the stream has ended or the node has stopped.
    pub async fn recv(&mut self) -> Option<SubscriberEvent> {
        loop {
            if let Some(notice) = self.notices.pop_front() {
                return Some(SubscriberEvent::Notice(notice));
            }
            if let Some(adu) = self.resequencer.poll_adu(self.clock.now()) {
                if adu.header.flags.contains(Flags::END) {
                    return None;
                }
                return Some(SubscriberEvent::Adu(adu));
            }
            if self.is_over() {
                return None;
            }
            let wake = self.wake();
            tokio::select! {
                biased;
                mail = self.mail.recv() => match mail {
                    Some(Mail::Adu(adu)) if self.options.in_sequence => {
                        self.resequencer.handle_adu(adu, self.clock.now());
                    }
                    Some(Mail::Adu(adu)) => {
                        if let Some(adu) = self.take(adu) {
                            return Some(SubscriberEvent::Adu(adu));
                        }
                    }
                    Some(Mail::Notice(notice)) => self.notices.push_back(notice),
                    Some(Mail::Restarted) => self.restart(),
                    None => return None,
                },
                () = self.clock.sleep_until(wake) => {}
            }
        }
    }

    /// Takes an ADU as it arrives; the end is kept until what it counts has come, or a little longer.
    fn take(&mut self, adu: Adu) -> Option<Adu> {
        if adu.header.flags.contains(Flags::END) {
            let give_up = self.clock.now() + END_PATIENCE;
            self.ending = Some(Ending {
                total: adu.header.sequence.0,
                give_up,
            });
            return None;
        }
        self.received += 1;
        Some(adu)
    }

    fn is_over(&self) -> bool {
        self.ending.is_some_and(|ending| {
            self.mail.is_empty()
                && (self.received >= ending.total || self.clock.now() >= ending.give_up)
        })
    }

    fn wake(&self) -> Instant {
        let end = self.ending.map_or(Instant::NEVER, |ending| ending.give_up);
        self.resequencer.poll_timeout().min(end)
    }

    fn restart(&mut self) {
        let before = std::mem::take(&mut self.resequencer);
        self.skipped_before += before.skipped();
        self.discarded_before += before.late() + before.waiting();
        self.received = 0;
        self.ending = None;
    }
}
