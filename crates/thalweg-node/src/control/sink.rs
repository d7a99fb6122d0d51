//! The streams that programs on this node want: finding who publishes them, subscribing, staying subscribed.

use thalweg_core::id::{NodeId, StreamId, StreamName};
use thalweg_core::session::RENEW;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::wire::control::Body;
use tokio::sync::mpsc;
use tracing::info;

use super::Control;
use crate::forward::Mail;

/// How soon a subscription that has not been answered by a plan is repeated.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A stream that is wanted here.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    mailboxes: Vec<mpsc::Sender<Mail>>,
    found: Option<Found>,
    told_waiting: bool,
}

/// Who publishes it.
#[derive(Clone, Copy, Debug)]
struct Found {
    source: NodeId,
    stream: StreamId,
    served: bool,
    ask: Instant,
}

impl Control {
    pub(super) async fn want(&mut self, name: StreamName, mailbox: mpsc::Sender<Mail>) {
        let wanted = self.wanted.entry(name.clone()).or_default();
        match wanted.found {
            Some(found) => self.forwarder.mailboxes.open(found.stream, mailbox.clone()),
            None if wanted.told_waiting => notify(&mailbox, &waiting(&name)),
            None => {}
        }
        wanted.mailboxes.push(mailbox);
        let now = self.now();
        self.resolve_wanted(now).await;
    }

    /// Looks up the publishers of wanted streams.
    pub(super) async fn resolve_wanted(&mut self, now: Instant) {
        for (name, wanted) in &mut self.wanted {
            let published = self
                .directory
                .publisher(name)
                .map(|(node, stream)| (node, stream.id));
            let before = wanted.found.map(|found| (found.source, found.stream));
            if published == before && (before.is_some() || wanted.told_waiting) {
                continue;
            }
            wanted.found = published.map(|(source, stream)| {
                for mailbox in &wanted.mailboxes {
                    self.forwarder.mailboxes.open(stream, mailbox.clone());
                    // A full mailbox has ADUs of the old stream to be read first; it then sees the jump by itself.
                    let _ = mailbox.try_send(Mail::Restarted);
                }
                Found {
                    source,
                    stream,
                    served: false,
                    ask: now,
                }
            });
            if published.is_none() {
                let sentence = if before.is_some() {
                    gone(name)
                } else {
                    waiting(name)
                };
                wanted
                    .mailboxes
                    .iter()
                    .for_each(|mailbox| notify(mailbox, &sentence));
                wanted.told_waiting = true;
            }
        }
        self.renew_wanted(now).await;
    }

    /// Subscribes where it is due, and lets go of what nobody wants any more.
    pub(super) async fn renew_wanted(&mut self, now: Instant) {
        let mut asks = Vec::new();
        for wanted in self.wanted.values_mut() {
            wanted.mailboxes.retain(|mailbox| !mailbox.is_closed());
            let Some(found) = &mut wanted.found else {
                continue;
            };
            let stream = found.stream;
            if wanted.mailboxes.is_empty() {
                asks.push((found.source, Body::Unsubscribe { stream }));
            } else if found.ask <= now {
                found.ask = now + if found.served { RENEW } else { ASK_AGAIN };
                asks.push((found.source, Body::Subscribe { stream }));
            }
        }
        self.wanted.retain(|_, wanted| !wanted.mailboxes.is_empty());
        for (source, body) in asks {
            if let Some(way) = self.directory.path(self.id, source) {
                self.send_routed(way, &body).await;
            }
        }
    }

    /// A plan for a wanted stream has been installed here.
    pub(super) fn note_served(&mut self, stream: StreamId) {
        for (name, wanted) in &mut self.wanted {
            let Some(found) = wanted.found.as_mut().filter(|found| found.stream == stream) else {
                continue;
            };
            if !found.served {
                info!(stream = %name, "subscribed");
                found.served = true;
            }
        }
    }

    /// The source says why it does not serve us now.
    pub(super) fn handle_refused(&mut self, from: NodeId, stream: StreamId, reason: &str) {
        let source = self.name_of(from);
        for (name, wanted) in &mut self.wanted {
            if wanted
                .found
                .is_some_and(|found| found.stream == stream && found.source == from)
            {
                let sentence = format!("{source} cannot serve `{name}` now: {reason}; waiting");
                wanted
                    .mailboxes
                    .iter()
                    .for_each(|mailbox| notify(mailbox, &sentence));
            }
        }
    }
}

fn waiting(name: &StreamName) -> String {
    format!("no node publishes `{name}` yet; waiting")
}

fn gone(name: &StreamName) -> String {
    format!("the publisher of `{name}` is gone; waiting for it to come back")
}

/// Tells a subscriber; one whose mailbox is full has other worries.
fn notify(mailbox: &mpsc::Sender<Mail>, sentence: &str) {
    let _ = mailbox.try_send(Mail::Notice(sentence.to_string()));
}
