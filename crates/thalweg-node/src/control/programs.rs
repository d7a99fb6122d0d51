//! Publishers and subscribers on this node.
//!
//! *The idea.* The controller decides; this module keeps the program's end of each decision: for a
//! publisher, the plans in force, what it must resend, and its losses; for a subscriber, its
//! mailbox.
//!
//! *What it does not do.* No ADU passes through here.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_base::id::{Epoch, StreamId, StreamName};
use thalweg_control::control::{EndCause, Notice, Output, Publication, Sequel, Subscription};
use thalweg_control::session::{Given, Part, Sinkward};
use tokio::sync::{oneshot, watch};

use super::ledger::ledger_status;
use super::mind::Mind;
use crate::continuity::{Order, Outlet, Plan, Served};
use crate::forward::{Forwarder, Mailbox, MailboxReading};
use crate::input::{PublishError, Published};
use crate::status::{LedgerStatus, LossStatus, SubscriberStatus};

/// The control task's end of a publisher on this node.
struct Publishing {
    /// The plans in force, for the publisher to read.
    active: watch::Sender<Vec<Epoch>>,
    /// The plans that [`Programs::apply_plans`] hands to the publisher next.
    next: Option<Vec<Given>>,
    /// The stream's sinks, if it holds ADUs for them and they have changed.
    sinks: Option<Vec<Sinkward>>,
    /// Replays and resends that precede any new ADU.
    orders: Vec<Order>,
    outlet: Arc<Outlet>,
    /// The stream's losses, for a program that follows them.
    losses: Arc<watch::Sender<Vec<LossStatus>>>,
}

/// The programs on this node.
pub(super) struct Programs {
    publishers: BTreeMap<StreamId, Publishing>,
    /// The mailboxes of each stream that this node subscribes to.
    subscribers: BTreeMap<StreamName, Vec<Mailbox>>,
    /// Subscribers that have read the end of a stream and wait to learn whether its name continues.
    successor_waiters: Vec<(StreamName, oneshot::Sender<bool>)>,
    forwarder: Arc<Forwarder>,
}

/// What a publisher is stalled by, with the bytes that it keeps.
pub(super) struct Stalled {
    pub(super) stream: StreamId,
    pub(super) plans: Vec<Epoch>,
    pub(super) kept_bytes: u64,
}

impl Programs {
    pub(super) fn new(forwarder: Arc<Forwarder>) -> Self {
        Self {
            publishers: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            successor_waiters: Vec::new(),
            forwarder,
        }
    }

    /// Sends all streams' losses to the programs that follow them, if they have changed.
    pub(super) fn update_all_losses(&self, mind: &Mind) {
        for stream in self.publishers.keys() {
            self.update_losses(*stream, mind);
        }
    }

    /// Sends a stream's losses to the program that follows them, if they have changed.
    pub(super) fn update_losses(&self, stream: StreamId, mind: &Mind) {
        let publishing = self.publishers.get(&stream);
        let followed = publishing.filter(|publishing| publishing.losses.receiver_count() > 0);
        let Some(publishing) = followed else {
            return;
        };
        let Some(LedgerStatus { losses, .. }) = ledger_status(mind.controller(), stream) else {
            return;
        };
        publishing.losses.send_if_modified(|last| {
            let is_news = *last != losses;
            *last = losses;
            is_news
        });
    }

    pub(super) fn publish(
        &mut self,
        publication: Publication,
        given: Option<Vec<Part>>,
        mind: &mut Mind,
    ) -> Result<Published, PublishError> {
        let (needs, name) = (publication.needs, publication.name.clone());
        let stream =
            mind.drive(|controller, now, keys| controller.publish(publication, given, now, keys))?;
        let (active, watch) = watch::channel(Vec::new());
        let forwarder = Arc::clone(&self.forwarder);
        let outlet = Arc::new(Outlet::new(stream, &name, forwarder, &needs));
        outlet.start();
        let losses = Arc::new(watch::Sender::new(Vec::new()));
        let losses_watch = Arc::downgrade(&losses);
        let publishing = Publishing {
            active,
            next: None,
            sinks: None,
            orders: Vec::new(),
            outlet: Arc::clone(&outlet),
            losses,
        };
        self.publishers.insert(stream, publishing);
        Ok(Published {
            stream,
            active: watch,
            outlet,
            losses: losses_watch,
        })
    }

    /// Closes a publisher when its stream is over. If it still drains, it learns that its node has no
    /// room for it.
    pub(super) fn close_publisher(&mut self, stream: StreamId) {
        self.publishers.remove(&stream);
    }

    pub(super) fn unpublish(&mut self, stream: StreamId, mind: &mut Mind) {
        self.publishers.remove(&stream);
        mind.drive(|controller, now, keys| controller.unpublish(stream, now, keys));
    }

    /// Opens a mailbox for a stream, which this node subscribes to from now on if it did not.
    pub(super) fn subscribe(&mut self, name: StreamName, mailbox: Mailbox, mind: &mut Mind) {
        // Its program left while this waited in the control task's queue.
        if mailbox.is_closed() {
            return;
        }
        match mind.controller().subscription(&name) {
            Some(Subscription::Found { source, stream, .. }) => {
                let mailboxes = &self.forwarder.mailboxes;
                mailboxes.open(stream, source, mailbox.clone());
            }
            Some(Subscription::Waiting) => {
                mailbox.notify(&Notice::Waiting.sentence(&name));
            }
            None => {}
        }
        let mailboxes = self.subscribers.entry(name.clone()).or_default();
        // Under a flood of subscriptions the sweep of quiet moments never comes. Here it costs one
        // look at each mailbox for each new one, amortized.
        if mailboxes.len() == mailboxes.capacity() {
            mailboxes.retain(|mailbox| !mailbox.is_closed());
        }
        mailboxes.push(mailbox);
        mind.drive(|controller, now, keys| controller.subscribe(name, now, keys));
    }

    /// Withdraws the streams and ends the subscriptions of programs that have gone without closing
    /// them.
    pub(super) fn close_abandoned(&mut self, mind: &mut Mind) {
        let abandoned = |(stream, publishing): (&StreamId, &Publishing)| {
            publishing.active.is_closed().then_some(*stream)
        };
        let streams: Vec<StreamId> = self.publishers.iter().filter_map(abandoned).collect();
        for stream in streams {
            self.unpublish(stream, mind);
        }
        for mailboxes in self.subscribers.values_mut() {
            mailboxes.retain(|mailbox| !mailbox.is_closed());
        }
        for (name, _) in self.subscribers.extract_if(.., |_, left| left.is_empty()) {
            mind.drive(|controller, now, keys| controller.unsubscribe(&name, now, keys));
        }
    }

    /// Opens a name's mailboxes for the stream that is now published under it.
    pub(super) fn open_mailboxes(&self, name: &StreamName, mind: &Mind) {
        let found = mind.controller().subscription(name);
        let Some(Subscription::Found { source, stream, .. }) = found else {
            return;
        };
        for mailbox in self.subscribers.get(name).into_iter().flatten() {
            let mailboxes = &self.forwarder.mailboxes;
            mailboxes.open(stream, source, mailbox.clone());
        }
    }

    /// Notifies the subscribers of a name.
    pub(super) fn notify(&self, name: &StreamName, notice: &Notice) {
        let sentence = notice.sentence(name);
        for mailbox in self.subscribers.get(name).into_iter().flatten() {
            mailbox.notify(&sentence);
        }
    }

    /// A subscriber has read the end of a stream: replies whether the name continues, now or once
    /// it is known.
    pub(super) fn handle_ended(
        &mut self,
        name: StreamName,
        ended: (StreamId, EndCause),
        reply: oneshot::Sender<bool>,
        mind: &mut Mind,
    ) {
        let sequel =
            mind.drive(|controller, now, keys| controller.handle_ended(&name, ended, now, keys));
        // A send fails only if the subscriber has gone meanwhile.
        let _ = match sequel {
            Sequel::GoesOn => reply.send(true),
            Sequel::Over => reply.send(false),
            Sequel::Unsure => return self.successor_waiters.push((name, reply)),
        };
    }

    /// Notifies all subscribers that wait to learn whether a name continues.
    pub(super) fn notify_successor(&mut self, name: &StreamName, goes_on: bool) {
        for (_, reply) in self.successor_waiters.extract_if(.., |(of, _)| of == name) {
            let _ = reply.send(goes_on);
        }
    }

    /// Passes an output that concerns a publisher's stream to that publisher.
    pub(super) fn instruct_publisher(&mut self, output: Output, mind: &mut Mind) {
        match output {
            Output::Replay {
                stream,
                sink,
                to,
                has_waited,
            } => {
                let order = Order::Replay {
                    sink,
                    to,
                    has_waited,
                };
                self.order(stream, order);
            }
            Output::Active { stream, given } => {
                self.with_publishing(stream, |publishing| publishing.next = Some(given));
            }
            Output::Holding { stream, sinks } => {
                self.with_publishing(stream, |publishing| publishing.sinks = Some(sinks));
            }
            Output::Resend {
                stream,
                sink,
                from,
                to,
                under,
            } => {
                let order = Order::Resend {
                    sink,
                    from,
                    to,
                    under,
                };
                self.order(stream, order);
            }
            Output::Acknowledged {
                stream,
                sink,
                epochs,
                in_order,
                held,
            } => {
                let result = self.with_publishing(stream, |publishing| {
                    let outlet = &publishing.outlet;
                    outlet.acknowledge((sink, &epochs), in_order, &held)
                });
                let (missing, given_up) = result.unzip();
                if let Some(below) = given_up.flatten() {
                    let of = (stream, sink);
                    mind.drive(|controller, _, keys| controller.tell_given_up(of, below, keys));
                }
                if let (Some(epoch), Some(missing)) = (in_order, missing) {
                    mind.drive(|controller, now, keys| {
                        controller.handle_missing((stream, epoch), missing, now, keys);
                    });
                }
            }
            _ => {}
        }
    }

    /// Runs `act` on a publisher's end if it still exists, and returns the result.
    fn with_publishing<T>(
        &mut self,
        stream: StreamId,
        act: impl FnOnce(&mut Publishing) -> T,
    ) -> Option<T> {
        self.publishers.get_mut(&stream).map(act)
    }

    /// Queues a replay or resend ahead of any new ADU.
    fn order(&mut self, stream: StreamId, order: Order) {
        self.with_publishing(stream, |publishing| publishing.orders.push(order));
    }

    /// Hands publishers their plans in force, sinks, replays and resends at one moment. Returns
    /// whether the controller was given the first sequence of a new set of plans.
    pub(super) fn apply_plans(&mut self, mind: &mut Mind) -> bool {
        let mut started = Vec::new();
        for (stream, publishing) in &mut self.publishers {
            let orders = std::mem::take(&mut publishing.orders);
            let next = publishing.next.take();
            let sinks = publishing.sinks.take();
            if orders.is_empty() && next.is_none() && sinks.is_none() {
                continue;
            }
            let source = mind.controller().source(*stream);
            let served = |epoch: &Epoch| Served {
                epoch: *epoch,
                layers: source.map_or(u8::MAX, |source| source.layers(*epoch)),
            };
            let plan = |given: &Given| Plan {
                epoch: given.epoch,
                serves: given.serves.iter().map(served).collect(),
            };
            let plans = next.as_ref().map(|next| next.iter().map(plan).collect());
            publishing
                .outlet
                .handle_plans(plans, sinks.as_deref(), orders);
            if let Some(given) = next {
                let epochs = given.iter().map(|given| given.epoch).collect();
                publishing.active.send_replace(epochs);
                started.push((*stream, publishing.outlet.next_sequence()));
            }
        }
        for (stream, next) in &started {
            mind.drive(|controller, now, keys| controller.handle_next(*stream, *next, now, keys));
        }
        !started.is_empty()
    }

    /// Returns the publishers that wait for their subscribers.
    pub(super) fn stalled(&self) -> impl Iterator<Item = Stalled> {
        self.publishers.iter().filter_map(|(stream, publishing)| {
            let (plans, kept_bytes) = publishing.outlet.stalled_by()?;
            Some(Stalled {
                stream: *stream,
                plans,
                kept_bytes,
            })
        })
    }

    pub(super) fn subscriber_statuses(&self) -> Vec<SubscriberStatus> {
        let now = self.forwarder.clock.now();
        let of_name = self.subscribers.iter().flat_map(|(name, mailboxes)| {
            let readings = mailboxes.iter().filter_map(Mailbox::reading);
            readings.map(move |reading| (name, reading))
        });
        let status = |(name, reading): (&StreamName, MailboxReading)| SubscriberStatus {
            stream: name.clone(),
            subscriber: reading.subscriber,
            waiting_adus: reading.waiting.0,
            waiting_bytes: reading.waiting.1,
            delivered: reading.taken,
            missed: reading.missed,
            blocking_seconds: reading
                .blocking_since
                .map(|since| now.saturating_since(since).as_secs_f64()),
            mailbox: reading.options,
        };
        of_name.map(status).collect()
    }
}
