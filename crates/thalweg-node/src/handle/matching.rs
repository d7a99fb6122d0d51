//! The names of published streams that match a pattern and bear labels, as they come and go.
//!
//! *The idea.* The control task keeps the set of each watch and replaces it when the map's streams have
//! changed. A reader sees the newest set: one that reads slowly misses changes in between, and no name
//! that is still published.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_base::description::Description;
use thalweg_base::id::{StreamName, StreamPattern};
use tokio::sync::watch;

use super::Handle;
use crate::input::Command;

/// Which streams are meant: by name, and by labels that their publishers gave them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The pattern of their names.
    pub pattern: StreamPattern,
    /// Labels that each of them has, with these values; a stream that is not described has none.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl Selection {
    /// Returns whether a stream is meant.
    pub fn contains(&self, name: &StreamName, description: Option<&Description>) -> bool {
        let has = |(key, value): (&String, &String)| {
            let labels = description.map(|description| &description.labels);
            labels.and_then(|labels| labels.get(key)) == Some(value)
        };
        self.pattern.matches(name) && self.labels.iter().all(has)
    }
}

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
