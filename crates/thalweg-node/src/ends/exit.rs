//! What a running output subscribes with.

use std::sync::Arc;

use thalweg_base::adu::Adu;
use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, StreamId};
use tokio::sync::watch;
use tracing::info;

use crate::board::Meter;
use crate::config::Egress;
use crate::handle::{Handle, SubscribeOptions, Subscriber, SubscriberEvent};

/// The node, as a running output sees it.
pub struct Exit {
    pub(super) egress: Arc<Egress>,
    pub(super) handle: Handle,
    pub(super) meter: Arc<Meter>,
    pub(super) stopping: watch::Receiver<bool>,
    pub(super) subscriber: Option<Subscriber>,
    /// The source and stream of the last ADU, and what it carries.
    pub(super) of: Option<(NodeId, StreamId)>,
    pub(super) description: Option<Description>,
    /// An ADU was asked for and has not come.
    pub(super) is_asked: bool,
    /// The node has said why nothing comes.
    pub(super) is_waiting: bool,
}

impl Exit {
    /// Returns what the configuration says of the output.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Returns the stream's next ADU, in sequence; `None` once the output is to stop.
    ///
    /// A stream that ends does not end its output: that waits for the next of the name. Cancel safe.
    pub async fn recv(&mut self) -> Option<Adu> {
        loop {
            let mailbox = self.egress.mailbox;
            let options =
                SubscribeOptions::new(self.egress.stream.clone(), true).with_mailbox(mailbox);
            let subscriber = match &mut self.subscriber {
                Some(subscriber) => subscriber,
                none => {
                    let program = format!("egress {}", self.egress.name);
                    let subscriber = self.handle.subscribe_as(options, program).await;
                    self.is_asked = false;
                    none.insert(subscriber)
                }
            };
            // The caller has written the ADU before.
            if mailbox.pull && !std::mem::replace(&mut self.is_asked, true) {
                subscriber.request(1);
            }
            let event = tokio::select! {
                biased;
                _ = self.stopping.wait_for(|stop| *stop) => return None,
                event = subscriber.recv() => event,
            };
            match event {
                Some(SubscriberEvent::Adu(adu)) => {
                    let of = subscriber.source().map(|node| (node, adu.header.stream));
                    if of != self.of {
                        self.of = of;
                        self.description = match of {
                            Some((node, stream)) => self.handle.describe(node, stream).await,
                            None => None,
                        };
                    }
                    self.is_asked = false;
                    self.meter.count(adu.payload.len());
                    if std::mem::take(&mut self.is_waiting) {
                        self.meter.quiet();
                    }
                    return Some(adu);
                }
                Some(SubscriberEvent::Notice(text)) => {
                    self.is_waiting = true;
                    self.notify(&text);
                }
                None if subscriber.has_ended() => self.subscriber = None,
                None => return None,
            }
        }
    }

    /// Returns what the stream of the last ADU carries, if its source has described it.
    pub const fn description(&self) -> Option<&Description> {
        self.description.as_ref()
    }

    /// Shows a sentence about the output in the log and the status.
    pub fn notify(&self, sentence: &str) {
        info!(egress = %self.egress.name, "{sentence}");
        self.meter.say(sentence);
    }
}
