//! A stream's losses as they become known, for a publisher that watches them while it sends.
//!
//! *The idea.* The control task reads the stream's ledger after each account and four times a
//! second, and notifies on a change. The values are sums, and a loss that is withdrawn lowers them;
//! so a slow reader misses steps and nothing else.
//!
//! *What it does not do.* It reports nothing about ADUs delivered or under way; the summary does.
//!
//! *Sources.* docs/concepts/ledger.md; `thalweg_control::ledger`.

use tokio::sync::watch;

use super::PublishError;
use crate::status::LossStatus;

/// Follows the losses of a stream.
pub struct Losses {
    /// `None` once the node has stopped.
    sums: Option<watch::Receiver<Vec<LossStatus>>>,
}

impl Losses {
    pub(super) const fn new(sums: Option<watch::Receiver<Vec<LossStatus>>>) -> Self {
        Self { sums }
    }

    /// Waits until a loss is added or withdrawn, and returns all losses by hop, cause and
    /// importance.
    ///
    /// Cancel safe: a dropped call has missed nothing.
    ///
    /// Fails   if the node stopped
    pub async fn changed(&mut self) -> Result<Vec<LossStatus>, PublishError> {
        let sums = self.sums.as_mut().ok_or(PublishError::Stopped)?;
        sums.changed().await.map_err(|_| PublishError::Stopped)?;
        Ok(sums.borrow_and_update().clone())
    }
}
