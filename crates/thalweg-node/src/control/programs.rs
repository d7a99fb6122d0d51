//! What programs on this node ask for: streams to publish, and streams to subscribe to.
//!
//! *The idea.* The controller decides; this keeps the ends of its decisions, for as long as a program holds its own: where a
//! publisher reads which plans are in force, what it is to send again and what it loses, and the mailboxes of subscribers.
//!
//! *What it does not do.* No ADU passes through here.

use std::sync::{Arc, Weak};

use thalweg_core::control::{EndCause, Output, Sequel, Subscription};
use thalweg_core::id::{Epoch, StreamId, StreamName};
use thalweg_core::session::{Given, Part, Sinkward};
use tokio::sync::{oneshot, watch};

use super::Control;
use crate::continuity::{Order, Outlet, Plan, Served};
use crate::forward::Mailbox;
use crate::handle::{Publication, PublishError};
use crate::status::{LedgerStatus, LossStatus};

/// What a publisher needs in order to put ADUs on the data path itself.
pub(crate) struct Published {
    pub(crate) stream: StreamId,
    pub(crate) active: watch::Receiver<Vec<Epoch>>,
    pub(crate) outlet: Arc<Outlet>,
    /// What it loses, as it becomes known; gone when the control task is.
    pub(crate) losses: Weak<watch::Sender<Vec<LossStatus>>>,
}

/// A publisher on this node.
pub(super) struct Publishing {
    /// Where it reads which plans are in force.
    active: watch::Sender<Vec<Epoch>>,
    /// Those that it is to read next.
    next: Option<Vec<Given>>,
    /// Its sinks, if it is held and they have changed.
    sinks: Option<Vec<Sinkward>>,
    /// What it is to send again first.
    orders: Vec<Order>,
    pub(super) outlet: Arc<Outlet>,
    /// Where it reads what it loses.
    losses: Arc<watch::Sender<Vec<LossStatus>>>,
}

impl Control {
    /// Tells whoever follows what a stream of this node loses, if that has changed.
    pub(super) fn tell_losses(&self, stream: StreamId) {
        let publishing = self.publishers.get(&stream);
        let followed = publishing.filter(|publishing| publishing.losses.receiver_count() > 0);
        let Some(publishing) = followed else {
            return;
        };
        let Some(LedgerStatus { losses, .. }) = self.ledger_status(stream) else {
            return;
        };
        publishing.losses.send_if_modified(|told| {
            let is_news = *told != losses;
            *told = losses;
            is_news
        });
    }

    pub(super) fn publish(
        &mut self,
        publication: Publication,
        given: Option<Vec<Part>>,
    ) -> Result<Published, PublishError> {
        let now = self.now();
        let (needs, name) = (publication.needs, publication.name.clone());
        let stream = self
            .controller
            .publish(publication, given, now, &mut self.keys)?;
        let (active, watch) = watch::channel(Vec::new());
        let forwarder = Arc::clone(&self.forwarder);
        let outlet = Arc::new(Outlet::new(stream, &name, forwarder, &needs));
        outlet.start();
        let losses = Arc::new(watch::Sender::new(Vec::new()));
        let told = Arc::downgrade(&losses);
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
            losses: told,
        })
    }

    /// Frees the name of a stream whose program is gone; its publisher still has what it was given carried.
    pub(super) fn drain_stream(&mut self, stream: StreamId) {
        let now = self.now();
        self.controller.drain(stream, now, &mut self.keys);
    }

    /// Lets go of a publisher whose stream is over; one that still drains sees that its node has no room for
    /// it.
    pub(super) fn close_publisher(&mut self, stream: StreamId) {
        self.publishers.remove(&stream);
    }

    pub(super) fn unpublish(&mut self, stream: StreamId) {
        let now = self.now();
        self.publishers.remove(&stream);
        self.controller.unpublish(stream, now, &mut self.keys);
    }

    /// Brings a subscriber to a stream that is, or from now on will be, wanted.
    pub(super) fn subscribe(&mut self, name: StreamName, mailbox: Mailbox) {
        match self.controller.subscription(&name) {
            Some(Subscription::Found { source, stream, .. }) => {
                let mailboxes = &self.forwarder.mailboxes;
                mailboxes.open(stream, source, mailbox.clone());
            }
            Some(Subscription::Waiting) => {
                let waiting = thalweg_core::control::Notice::Waiting;
                mailbox.notify(&waiting.sentence(&name));
            }
            None => {}
        }
        let now = self.now();
        self.subscribers
            .entry(name.clone())
            .or_default()
            .push(mailbox);
        self.controller.subscribe(name, now, &mut self.keys);
    }

    /// Withdraws the streams, and ends the subscriptions, of programs that were dropped without a word.
    pub(super) fn close_abandoned(&mut self) {
        let abandoned = |(stream, publishing): (&StreamId, &Publishing)| {
            publishing.active.is_closed().then_some(*stream)
        };
        let streams: Vec<StreamId> = self.publishers.iter().filter_map(abandoned).collect();
        for stream in streams {
            self.unpublish(stream);
        }
        for mailboxes in self.subscribers.values_mut() {
            mailboxes.retain(|mailbox| !mailbox.is_closed());
        }
        let now = self.now();
        for (name, _) in self.subscribers.extract_if(.., |_, left| left.is_empty()) {
            self.controller.unsubscribe(&name, now, &mut self.keys);
        }
    }

    /// Has the subscribers of a name receive the stream that is published under it now.
    pub(super) fn found(&self, name: &StreamName) {
        let Some(Subscription::Found { source, stream, .. }) = self.controller.subscription(name)
        else {
            return;
        };
        for mailbox in self.subscribers.get(name).into_iter().flatten() {
            let mailboxes = &self.forwarder.mailboxes;
            mailboxes.open(stream, source, mailbox.clone());
        }
    }

    /// Answers whether the name goes on after a stream whose end a subscriber has read, now or when it is known.
    pub(super) fn ended(
        &mut self,
        name: StreamName,
        ended: (StreamId, EndCause),
        reply: oneshot::Sender<bool>,
    ) {
        let now = self.now();
        let sequel = self
            .controller
            .handle_ended(&name, ended, now, &mut self.keys);
        // A subscriber that has gone meanwhile waits for nothing.
        let _ = match sequel {
            Sequel::GoesOn => reply.send(true),
            Sequel::Over => reply.send(false),
            Sequel::Unsure => return self.sequels.push((name, reply)),
        };
    }

    /// Tells all who wait for what comes after a stream of a name.
    pub(super) fn tell_sequel(&mut self, name: &StreamName, goes_on: bool) {
        for (_, reply) in self.sequels.extract_if(.., |(of, _)| of == name) {
            let _ = reply.send(goes_on);
        }
    }

    /// Tells a publisher what of its stream is to be given, to whom, and what is not to be kept any more.
    pub(super) fn direct(&mut self, output: Output) {
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
                self.tell_publisher(stream, |publishing| publishing.next = Some(given));
            }
            Output::Holding { stream, sinks } => {
                self.tell_publisher(stream, |publishing| publishing.sinks = Some(sinks));
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
                let told = self.tell_publisher(stream, |publishing| {
                    let outlet = &publishing.outlet;
                    outlet.acknowledge((sink, &epochs), in_order, &held)
                });
                let (missing, given_up) = told.unzip();
                if let Some(below) = given_up.flatten() {
                    let of = (stream, sink);
                    self.controller.tell_given_up(of, below, &mut self.keys);
                }
                if let (Some(epoch), Some(missing)) = (in_order, missing) {
                    let now = self.forwarder.clock.now();
                    self.controller
                        .handle_missing((stream, epoch), missing, now, &mut self.keys);
                }
            }
            _ => {}
        }
    }

    /// Tells a publisher, if it is still there, and returns what it says.
    fn tell_publisher<T>(
        &mut self,
        stream: StreamId,
        tell: impl FnOnce(&mut Publishing) -> T,
    ) -> Option<T> {
        self.publishers.get_mut(&stream).map(tell)
    }

    /// Has a publisher give what is kept before anything new.
    fn order(&mut self, stream: StreamId, order: Order) {
        self.tell_publisher(stream, |publishing| publishing.orders.push(order));
    }

    /// Tells publishers which plans are in force now and what is to be sent again, at one moment; returns whether the controller
    /// was told since when.
    pub(super) fn activate(&mut self) -> bool {
        let mut begun = Vec::new();
        for (stream, publishing) in &mut self.publishers {
            let orders = std::mem::take(&mut publishing.orders);
            let next = publishing.next.take();
            let sinks = publishing.sinks.take();
            if orders.is_empty() && next.is_none() && sinks.is_none() {
                continue;
            }
            let source = self.controller.source(*stream);
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
                begun.push((*stream, publishing.outlet.next()));
            }
        }
        let now = self.now();
        for (stream, next) in &begun {
            self.controller
                .handle_next(*stream, *next, now, &mut self.keys);
        }
        !begun.is_empty()
    }
}
