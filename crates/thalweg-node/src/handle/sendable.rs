//! What a stream's first hops can send, for an encoder that follows it.
//!
//! *The idea.* A publisher gives each ADU to the link of every plan in force; the slowest of them is what it can count on.
//! Each link tells when its estimate has moved by an eighth, and this looks anew when one has, or when plans or links have
//! changed.
//!
//! *What it does not do.* It does not divide: other streams of the node share those links. It says nothing of the hops
//! behind the first; what is lost there the ledger tells.
//!
//! *Sources.* docs/congestion.md; `thalweg_core::hop::steady`.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use thalweg_core::id::{Epoch, StreamId};
use thalweg_core::units::Bitrate;
use tokio::sync::watch;

use super::PublishError;
use crate::forward::Forwarder;

type Rates = watch::Receiver<Option<Bitrate>>;

type Change<'a> = Pin<Box<dyn Future<Output = Result<(), watch::error::RecvError>> + Send + 'a>>;

/// Follows what can be sent of a stream.
pub struct Sendable {
    forwarder: Arc<Forwarder>,
    stream: StreamId,
    plans: watch::Receiver<Vec<Epoch>>,
    ways: watch::Receiver<u64>,
    /// Of the links that the plans in force begin with.
    rates: Vec<Rates>,
    told: Option<Bitrate>,
}

impl Sendable {
    pub(super) fn new(
        forwarder: Arc<Forwarder>,
        stream: StreamId,
        plans: watch::Receiver<Vec<Epoch>>,
    ) -> Self {
        let ways = forwarder.ways();
        Self {
            forwarder,
            stream,
            plans,
            ways,
            rates: Vec::new(),
            told: None,
        }
    }

    /// Waits until the rate has moved, and returns it; none while no plan leads over a link of which one is known.
    ///
    /// The first rate that is known is returned at once. Dropped while it waits, it has missed nothing.
    ///
    /// Fails   the node stopped
    pub async fn changed(&mut self) -> Result<Option<Bitrate>, PublishError> {
        loop {
            let rate = self.look();
            if rate != self.told {
                self.told = rate;
                return Ok(rate);
            }
            self.wait().await.map_err(|_| PublishError::Stopped)?;
        }
    }

    /// Returns what the slowest link can send, and keeps who tells of changes.
    fn look(&mut self) -> Option<Bitrate> {
        self.ways.mark_unchanged();
        let epochs = self.plans.borrow_and_update().clone();
        let routes = epochs
            .into_iter()
            .filter_map(|epoch| self.forwarder.route(self.stream, epoch));
        let links = routes
            .filter_map(|route| route.installation().next)
            .filter_map(|next| self.forwarder.link(next));
        self.rates = links.map(|link| link.sendable()).collect();
        let rates = self.rates.iter_mut();
        rates.filter_map(|rate| *rate.borrow_and_update()).min()
    }

    /// Waits until something may have changed.
    async fn wait(&mut self) -> Result<(), watch::error::RecvError> {
        let mut ends: Vec<Change<'_>> = vec![
            Box::pin(self.plans.changed()),
            Box::pin(self.ways.changed()),
        ];
        for rate in &mut self.rates {
            ends.push(Box::pin(async {
                // A link that is gone has been taken out of the ways, which says so.
                if rate.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }));
        }
        poll_fn(|context| first(&mut ends, context)).await
    }
}

/// Returns the first that is ready.
fn first<T>(
    ends: &mut [Pin<Box<dyn Future<Output = T> + Send + '_>>],
    context: &mut Context<'_>,
) -> Poll<T> {
    for end in ends {
        if let Poll::Ready(end) = end.as_mut().poll(context) {
            return Poll::Ready(end);
        }
    }
    Poll::Pending
}
