//! The rate that a stream's first hops can send, for an encoder that adapts to it.
//!
//! *The idea.* A publisher sends each ADU over the first link of every plan in force, so the
//! slowest of these links bounds the stream. Each link notifies when its estimate has moved by an
//! eighth; the rate is computed again then, and when plans or links change.
//!
//! *What it does not do.* It does not divide the rate: other streams of the node share those links.
//! It covers first hops only; the ledger shows losses on later ones.
//!
//! *Sources.* docs/concepts/congestion.md; `thalweg_link::hop::steady`.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::units::Bitrate;
use tokio::sync::watch;

use super::PublishError;
use crate::forward::Forwarder;

type Rates = watch::Receiver<Option<Bitrate>>;

type Change<'a> = Pin<Box<dyn Future<Output = Result<(), watch::error::RecvError>> + Send + 'a>>;

/// Follows the rate that can be sent of a stream.
pub struct Sendable {
    forwarder: Arc<Forwarder>,
    stream: StreamId,
    plans: watch::Receiver<Vec<Epoch>>,
    path_changes: watch::Receiver<u64>,
    /// The rates of the first links of the plans in force.
    rates: Vec<Rates>,
    last_reported: Option<Bitrate>,
}

impl Sendable {
    pub(super) fn new(
        forwarder: Arc<Forwarder>,
        stream: StreamId,
        plans: watch::Receiver<Vec<Epoch>>,
    ) -> Self {
        let path_changes = forwarder.watch_paths();
        Self {
            forwarder,
            stream,
            plans,
            path_changes,
            rates: Vec::new(),
            last_reported: None,
        }
    }

    /// Waits until the rate has moved, and returns it; `None` while no plan in force starts over a
    /// link with a known rate.
    ///
    /// The first known rate is returned at once. Cancel safe: a dropped call has missed nothing.
    ///
    /// Fails   if the node stopped
    pub async fn changed(&mut self) -> Result<Option<Bitrate>, PublishError> {
        loop {
            let rate = self.read_rate();
            if rate != self.last_reported {
                self.last_reported = rate;
                return Ok(rate);
            }
            self.wait().await.map_err(|_| PublishError::Stopped)?;
        }
    }

    /// Returns the rate of the slowest first link, and subscribes to the rates of all of them.
    fn read_rate(&mut self) -> Option<Bitrate> {
        self.path_changes.mark_unchanged();
        let epochs = self.plans.borrow_and_update().clone();
        let links = epochs
            .into_iter()
            .filter_map(|epoch| self.forwarder.next(self.stream, epoch))
            .filter_map(|next| self.forwarder.link(next));
        self.rates = links.map(|link| link.sendable()).collect();
        let rates = self.rates.iter_mut();
        rates.filter_map(|rate| *rate.borrow_and_update()).min()
    }

    /// Waits until the rate may have changed.
    async fn wait(&mut self) -> Result<(), watch::error::RecvError> {
        let mut ends: Vec<Change<'_>> = vec![
            Box::pin(self.plans.changed()),
            Box::pin(self.path_changes.changed()),
        ];
        for rate in &mut self.rates {
            ends.push(Box::pin(async {
                // A removed link closes its watch; `path_changes` reports the removal.
                if rate.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                Ok(())
            }));
        }
        poll_fn(|context| first(&mut ends, context)).await
    }
}

/// Returns the first future that is ready.
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
