//! Who is told what arrives.
//!
//! *The idea.* One trait, implemented once by the node. Handlers are futures: as long as one waits, its stream's flow
//! control holds the sender back. A future that is ready at once runs on the link's own task; one that waits is moved
//! to a task of its own, so that streams do not hold each other up.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_core::adu::Header;
pub use thalweg_core::hop::DownCause;
use thalweg_core::id::NodeId;
use thalweg_core::routing::gauge::Sample;
use thalweg_core::time::Instant;

use super::{Arriving, Link, Outcome};
use crate::error::Unreachable;

/// What the node does with what arrives.
pub trait Receiver: Send + Sync + 'static {
    /// Takes an ADU whose header is here.
    ///
    /// Those of one ordered sequence come one after the other, each when the one before is done; others come in any
    /// order and at once.
    fn handle_adu(&self, link: &Link, adu: Arriving) -> impl Future<Output = ()> + Send;

    /// Takes a control frame; those of one link come one after the other.
    fn handle_control(&self, link: &Link, frame: Bytes) -> impl Future<Output = ()> + Send;

    /// Takes a change of a neighbour's state.
    fn handle_link(&self, event: LinkEvent);

    /// Takes the fate of an ADU whose sending was [detached](super::Sending::detach).
    fn handle_outcome(&self, link: &Link, header: &Header, outcome: Outcome) {
        let _ = (link, header, outcome);
    }

    /// Takes what each link has measured, four times a second: what a [`Gauge`](thalweg_core::routing::gauge::Gauge) is given.
    fn handle_measured(&self, samples: Samples) {
        let _ = samples;
    }

    /// Takes in that a link is given something to send, once after that was [asked for](Link::tell_when_given).
    fn handle_given(&self, link: &Link) {
        let _ = link;
    }
}

/// What each link of a node has measured, one after the other.
#[derive(Clone, Debug)]
pub struct Samples {
    /// When, by the node's clock: when the first was asked.
    pub at: Instant,
    /// Each with what was read off it.
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
        /// Which.
        link: Link,
        /// Why.
        cause: DownCause,
    },
    /// A kept peer could not be reached; it is tried again.
    Unreachable {
        /// Which.
        peer: NodeId,
        /// Why.
        reason: Unreachable,
    },
}

pub(crate) type Handling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// [`Receiver`] behind a pointer, so that links and endpoints need no type parameter.
pub(crate) trait DynReceiver: Send + Sync {
    fn adu(self: Arc<Self>, link: Link, adu: Arriving) -> Handling;
    fn control(self: Arc<Self>, link: Link, frame: Bytes) -> Handling;
    fn link(&self, event: LinkEvent);
    fn outcome(&self, link: &Link, header: &Header, outcome: Outcome);
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

    fn outcome(&self, link: &Link, header: &Header, outcome: Outcome) {
        self.handle_outcome(link, header, outcome);
    }

    fn measured(&self, samples: Samples) {
        self.handle_measured(samples);
    }

    fn given(&self, link: &Link) {
        self.handle_given(link);
    }
}
