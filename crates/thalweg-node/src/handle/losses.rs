//! What of a stream did not arrive, as it becomes known, for a publisher that wants to hear of it while it sends.
//!
//! *The idea.* The control task looks at the stream's ledger when an account has come and four times a second, and tells when
//! something in it has changed. What is told are sums, for one that is taken back makes them smaller; so whoever is slow misses
//! steps and nothing else.
//!
//! *What it does not do.* It says nothing of what was delivered, or is on its way: the summary does.
//!
//! *Sources.* docs/ledger.md; `thalweg_core::ledger`.

use tokio::sync::watch;

use super::PublishError;
use crate::status::LossStatus;

/// Follows what of a stream did not arrive.
pub struct Losses {
    /// None once the node has stopped.
    sums: Option<watch::Receiver<Vec<LossStatus>>>,
}

impl Losses {
    pub(super) const fn new(sums: Option<watch::Receiver<Vec<LossStatus>>>) -> Self {
        Self { sums }
    }

    /// Waits until something has been lost, or taken back, and returns all that has been, by hop, cause and importance.
    ///
    /// Dropped while it waits, it has missed nothing.
    ///
    /// Fails   the node stopped
    pub async fn changed(&mut self) -> Result<Vec<LossStatus>, PublishError> {
        let sums = self.sums.as_mut().ok_or(PublishError::Stopped)?;
        sums.changed().await.map_err(|_| PublishError::Stopped)?;
        Ok(sums.borrow_and_update().clone())
    }
}
