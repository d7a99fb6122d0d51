//! The names of published streams that match a pattern and bear labels, as they come and go.
//!
//! *The idea.* The control task keeps the set of each watch and replaces it when the map's streams have
//! changed. A reader sees the newest set: one that reads slowly misses changes in between, and no name
//! that is still published.

use thalweg_base::id::StreamName;
use tokio::sync::watch;

use super::Handle;
use crate::input::{Command, Selection};

/// Follows the names of published streams of a selection.
pub struct Matching(watch::Receiver<Vec<StreamName>>);

impl Handle {
    /// Watches the names of a selection; `None` if the node has stopped.
    ///
    /// Streams that carry files are left out: their names are made for one transfer.
    pub async fn watch(&self, selection: Selection) -> Option<Matching> {
        let names = self
            .ask(|reply| Command::Watch { selection, reply })
            .await?;
        Some(Matching(names))
    }
}

impl Matching {
    /// Returns the names, in order, each once.
    pub fn names(&mut self) -> Vec<StreamName> {
        self.0.borrow_and_update().clone()
    }

    /// Waits until the names have changed since they were read; returns `false` once the node has
    /// stopped. Cancel safe.
    pub async fn changed(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}
