//! The interface of a running node to programs: publish, subscribe, query.
//!
//! *The idea.* A [`Handle`] is cheap to clone and talks to the control task by messages. A
//! [`Publisher`] puts ADUs on the data path directly, and a [`Subscriber`] takes them from its own
//! mailbox; neither goes through the control task. The demo, the local socket and the tests use
//! this one interface.
//!
//! *What it does not do.* It knows no media: payloads are bytes.

mod aligned;
mod drops;
mod losses;
mod matching;
mod publisher;
mod sendable;
mod subscriber;
#[cfg(test)]
mod tests;
mod tracer;

use std::net::SocketAddr;
use std::sync::Arc;

use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::mailbox::MailboxOptions;
use thalweg_base::time::{Duration, Instant};
use thalweg_control::control;
use thalweg_control::session::Part;
use thalweg_world::text::TextError;
use tokio::sync::{mpsc, oneshot};

use crate::board::{Board, EndKind, Order};
use crate::config::Config;
use crate::forward::Forwarder;
use crate::input::{AdmissionError, Command, Input, InviteRequest, Reloaded, RouteError};
use crate::status::{DropStatus, Status};

pub use crate::input::PublishError;
pub use thalweg_control::control::Publication;

pub use crate::input::Selection;
pub use aligned::{AlignedEvent, AlignedSubscriber, Receive};
pub use drops::Drops;
pub use losses::Losses;
pub use matching::Matching;
pub(crate) use publisher::FINISH_MAX;
pub use publisher::{Outgoing, PublishSummary, Publisher};
pub use sendable::Sendable;
pub use subscriber::{Subscriber, SubscriberEvent};
pub use tracer::Tracer;

/// A handle to a running node.
#[derive(Clone)]
pub struct Handle {
    pub(crate) id: NodeId,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) tcp_addresses: Vec<SocketAddr>,
    pub(crate) forwarder: Arc<Forwarder>,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) board: Arc<Board>,
}

/// What to subscribe to, and how to deliver it.
#[derive(Clone, Debug)]
pub struct SubscribeOptions {
    /// The stream's name.
    pub name: StreamName,
    /// Whether ADUs are delivered in sequence, waiting for missing ones while that may help;
    /// otherwise as they arrive.
    pub in_sequence: bool,
    /// What the subscriber asks of its mailbox. A depth that contradicts the policy has no effect.
    pub mailbox: MailboxOptions,
}

impl SubscribeOptions {
    /// Returns options for a stream, with the mailbox of a subscriber that states no wishes.
    pub fn new(name: StreamName, in_sequence: bool) -> Self {
        Self {
            name,
            in_sequence,
            mailbox: MailboxOptions::default(),
        }
    }

    /// Returns the same options with another mailbox.
    ///
    /// ```
    /// use thalweg_node::{MailboxOptions, Policy, SubscribeOptions};
    ///
    /// // A display that is given the newest picture whenever it asks for one.
    /// let newest = MailboxOptions {
    ///     policy: Some(Policy::Newest),
    ///     pull: true,
    ///     ..MailboxOptions::default()
    /// };
    /// let options = SubscribeOptions::new("truck/cam1".parse()?, true).with_mailbox(newest);
    /// # Ok::<(), thalweg_base::id::BadStreamName>(())
    /// ```
    #[must_use]
    pub const fn with_mailbox(mut self, mailbox: MailboxOptions) -> Self {
        self.mailbox = mailbox;
        self
    }
}

impl Handle {
    /// Returns the node's key.
    pub const fn id(&self) -> NodeId {
        self.id
    }

    /// Returns the UDP addresses that the node listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the TCP addresses that the node listens on.
    pub fn tcp_addresses(&self) -> &[SocketAddr] {
        &self.tcp_addresses
    }

    /// Returns whether the control task has ended.
    pub(crate) fn is_stopped(&self) -> bool {
        self.inputs.is_closed()
    }

    /// Returns the time on the node's clock; deadlines in headers are on it.
    pub fn now(&self) -> Instant {
        self.forwarder.clock.now()
    }

    /// Announces a stream and returns its publisher.
    pub async fn publish(&self, publication: Publication) -> Result<Publisher, PublishError> {
        self.announce(publication, None).await
    }

    /// Announces a stream with a given plan: its parts, from this node to the one sink that it
    /// serves.
    ///
    /// For experiments, and for operators with better knowledge than a planner; the publication's own
    /// planner is not asked. Each node still checks its part.
    ///
    /// Fails   also for a confidential stream, since nothing would check that the plan seals it
    pub async fn publish_by(
        &self,
        publication: Publication,
        plan: Vec<Part>,
    ) -> Result<Publisher, PublishError> {
        self.announce(publication, Some(plan)).await
    }

    async fn announce(
        &self,
        publication: Publication,
        given: Option<Vec<Part>>,
    ) -> Result<Publisher, PublishError> {
        let (name, needs) = (publication.name.clone(), publication.needs);
        let layers = publication.layers.len();
        let published = self
            .ask(|reply| Command::Publish {
                publication,
                given,
                reply,
            })
            .await;
        let published = published.ok_or(PublishError::Stopped)??;
        Ok(Publisher::new(self.clone(), name, needs, layers, published))
    }

    /// Subscribes to a stream, which need not exist yet.
    pub async fn subscribe(&self, options: SubscribeOptions) -> Subscriber {
        self.subscribe_as(options, "a program in this process".into())
            .await
    }

    /// Subscribes to streams of one clock, to receive them together, in the order of their media times;
    /// one of which nothing comes holds up the others for `wait`.
    pub async fn subscribe_aligned(
        &self,
        names: impl IntoIterator<Item = StreamName>,
        wait: Duration,
    ) -> AlignedSubscriber<Subscriber> {
        let mut lanes = Vec::new();
        for name in names {
            let options = SubscribeOptions::new(name, true);
            lanes.push(self.subscribe(options).await);
        }
        AlignedSubscriber::new(lanes, wait)
    }

    /// Subscribes for a program with this display name.
    pub(crate) async fn subscribe_as(
        &self,
        options: SubscribeOptions,
        subscriber: String,
    ) -> Subscriber {
        let mailboxes = &self.forwarder.mailboxes;
        let (mailbox, inbox) = mailboxes.create(options.in_sequence, &options.mailbox, subscriber);
        let name = options.name.clone();
        // A stopped node drops the mailbox; the subscriber then sees the end.
        let _ = self
            .inputs
            .send(Input::Command(Command::Subscribe { name, mailbox }))
            .await;
        Subscriber::new(options, inbox, self.forwarder.clock, self.inputs.clone())
    }

    /// Returns what is known of drops of a stream on this node, or of all streams, the oldest first.
    pub fn drops(&self, name: Option<&StreamName>) -> Vec<DropStatus> {
        drops::known(self, name)
    }

    /// Follows the drops of a stream from now on.
    pub fn follow_drops(&self, name: StreamName) -> Drops {
        Drops::follow(self.clone(), name)
    }

    /// Returns what a stream of a node carries, as far as its source has described it.
    pub async fn describe(&self, node: NodeId, stream: StreamId) -> Option<Description> {
        let of = (node, stream);
        self.ask(|reply| Command::Describe { of, reply }).await?
    }

    /// Returns the status of the node, its links and its streams; `None` if it has stopped.
    pub async fn status(&self) -> Option<Status> {
        let mut status = self.ask(|reply| Command::Status { reply }).await?;
        status.ends = self.board.statuses();
        Some(status)
    }

    /// Starts or stops an input or output, and returns the result as a sentence.
    ///
    /// Fails   with a sentence, if the configuration has none of this name
    pub async fn set_end(
        &self,
        kind: EndKind,
        name: StreamName,
        runs: bool,
    ) -> Result<String, String> {
        let set = self.board.ask(|reply| Order::Set {
            kind,
            name,
            runs,
            reply,
        });
        set.await
            .unwrap_or_else(|| Err("the node has stopped".into()))
    }

    /// Applies the reloadable part of a configuration, and returns the result; `None` if the node
    /// has stopped.
    ///
    /// Fails   with the mistake if a peer is this node itself; nothing is applied then
    pub async fn reload(&self, config: Config) -> Option<Result<Reloaded, TextError>> {
        let config = Box::new(config);
        let ends = config.clone();
        let checked = self.board.ask(|reply| Order::Check {
            config: ends.clone(),
            reply,
        });
        if let Err(mistake) = checked.await? {
            return Some(Err(mistake));
        }
        let reloaded = self.ask(|reply| Command::Reload { config, reply }).await?;
        let Ok(mut reloaded) = reloaded else {
            return Some(reloaded);
        };
        let config = ends;
        let applied = self.board.ask(|reply| Order::Apply { config, reply });
        reloaded.applied.extend(applied.await.unwrap_or_default());
        Some(Ok(reloaded))
    }

    /// Announces that the node leaves, and waits until no plan of another source continues through
    /// it.
    pub(crate) fn leave(&self) -> impl Future<Output = ()> + Send + use<> {
        let handle = self.clone();
        async move {
            let _ = handle.ask(|reply| Command::Leave { reply }).await;
        }
    }

    /// Issues a ticket, as text.
    ///
    /// Fails   if this node may not invite, or may not grant these rights
    pub async fn invite(&self, request: InviteRequest) -> Result<String, AdmissionError> {
        let ticket = self.ask(|reply| Command::Invite { request, reply }).await;
        ticket.ok_or(AdmissionError::Stopped)?
    }

    /// Plans between two nodes of the map, given by name or key, for a stream or for any.
    ///
    /// Fails   if a node or the stream is unknown
    pub async fn route(
        &self,
        from: &str,
        to: &str,
        stream: Option<StreamName>,
    ) -> Result<control::Paths, RouteError> {
        let ends = [from, to].map(str::to_string);
        let paths = self
            .ask(|reply| Command::Route {
                ends,
                stream,
                reply,
            })
            .await;
        paths.ok_or(RouteError::Stopped)?
    }

    /// Revokes all grants of a node, given by name or key, and returns the result as a sentence.
    ///
    /// Fails   if this node may not revoke them, or no node has this name
    pub async fn revoke(&self, node: &str) -> Result<String, AdmissionError> {
        let node = node.to_string();
        let done = self.ask(|reply| Command::Revoke { node, reply }).await;
        done.ok_or(AdmissionError::Stopped)?
    }

    pub(crate) async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.inputs
            .send(Input::Command(command(reply)))
            .await
            .ok()?;
        answer.await.ok()
    }
}
