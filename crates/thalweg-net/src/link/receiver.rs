//! The interface to the node that receives what arrives.
//!
//! *The idea.* One trait, implemented once by the node. Handlers are futures: while one is pending,
//! its stream's flow control holds the sender back. A future that is ready at once runs on the
//! link's own task; one that waits moves to its own task, so that streams do not block each other.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_base::adu::Header;
use thalweg_base::id::NodeId;
use thalweg_base::time::Instant;
use thalweg_link::gauge::Sample;
pub use thalweg_link::hop::DownCause;

use super::batch::EndedAdu;
use super::{Arriving, Link, Outcome};
use crate::error::Unreachable;

/// Handles what arrives over an endpoint's links.
pub trait Receiver: Send + Sync + 'static {
    /// Handles an ADU when its header has arrived.
    ///
    /// ADUs of one ordered sequence are handled one after the other, each when the one before is
    /// done; others in any order and concurrently.
    fn handle_adu(&self, link: &Link, adu: Arriving) -> impl Future<Output = ()> + Send;

    /// Handles a control frame; frames of one link are handled one after the other.
    fn handle_control(&self, link: &Link, frame: Bytes) -> impl Future<Output = ()> + Send;

    /// Handles a change of a neighbour's state.
    fn handle_link(&self, event: LinkEvent);

    /// Handles the outcome of an ADU that was [detached](super::Sending::detach) with this token.
    fn handle_outcome(&self, link: &Link, header: &Header, token: u64, outcome: Outcome) {
        let _ = (link, header, token, outcome);
    }

    /// Handles outcomes that came together, as many as there are at a time: those of one link's look at
    /// its stream events, or of one turn of a loop for many links.
    fn handle_outcomes(&self, ended: &[EndedAdu]) {
        for adu in ended {
            self.handle_outcome(&adu.link, &adu.header, adu.token, adu.outcome);
        }
    }

    /// Handles the samples of all links, four times a second: the input of a
    /// [`Gauge`](thalweg_link::gauge::Gauge).
    fn handle_measured(&self, samples: Samples) {
        let _ = samples;
    }

    /// Handles the notification that a link was given something to send, once per
    /// [request](Link::tell_when_given).
    fn handle_given(&self, link: &Link) {
        let _ = link;
    }
}

/// The samples of all links of a node, taken one after the other.
#[derive(Clone, Debug)]
pub struct Samples {
    /// When the first link was sampled, on the node's clock.
    pub at: Instant,
    /// Each link with its sample.
    pub links: Vec<(Link, Sample)>,
}

/// A change of a neighbour's state.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LinkEvent {
    /// A kept peer is being dialled.
    Connecting(NodeId),
    /// Both ends have admitted each other.
    Up(Link),
    /// The link is gone.
    Down {
        /// The link.
        link: Link,
        /// The cause.
        cause: DownCause,
    },
    /// A kept peer could not be reached; it will be redialled.
    Unreachable {
        /// The peer.
        peer: NodeId,
        /// The reason.
        reason: Unreachable,
    },
}

pub(crate) type Handling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// [`Receiver`] behind a pointer, so that links and endpoints need no type parameter.
pub(crate) trait DynReceiver: Send + Sync {
    fn adu(self: Arc<Self>, link: Link, adu: Arriving) -> Handling;
    fn control(self: Arc<Self>, link: Link, frame: Bytes) -> Handling;
    fn link(&self, event: LinkEvent);
    fn outcomes(&self, ended: &[EndedAdu]);
    fn measured(&self, samples: Samples);
    fn given(&self, link: &Link);
}

impl<R: Receiver> DynReceiver for R {
    fn adu(self: Arc<Self>, link: Link, adu: Arriving) -> Handling {
        Box::pin(async move { self.handle_adu(&link, adu).await })
    }

    fn control(self: Arc<Self>, link: Link, frame: Bytes) -> Handling {
        Box::pin(async move { self.handle_control(&link, frame).await })
    }

    fn link(&self, event: LinkEvent) {
        self.handle_link(event);
    }

    fn outcomes(&self, ended: &[EndedAdu]) {
        self.handle_outcomes(ended);
    }

    fn measured(&self, samples: Samples) {
        self.handle_measured(samples);
    }

    fn given(&self, link: &Link) {
        self.handle_given(link);
    }
}
