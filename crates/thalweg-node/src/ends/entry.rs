//! What a running input publishes with.

use std::sync::Arc;

use thalweg_base::description::Description;
use thalweg_base::id::{Sequence, StreamName};
use thalweg_base::units::Bitrate;
use thalweg_planner::planner::Planner;
use tokio::sync::mpsc;
use tracing::info;

use crate::board::Meter;
use crate::config::Ingest;
use crate::handle::{Handle, Outgoing, Publication, PublishError, PublishSummary, Publisher};

/// The node, as a running input sees it.
pub struct Entry {
    pub(super) ingest: Arc<Ingest>,
    pub(super) handle: Handle,
    pub(super) meter: Arc<Meter>,
    pub(super) leftovers: mpsc::UnboundedSender<Publisher>,
}

/// Publishes an input's messages. If it is dropped, its subscribers wait for the next of its name.
pub struct EntryPublisher {
    publisher: Option<Publisher>,
    meter: Arc<Meter>,
    leftovers: mpsc::UnboundedSender<Publisher>,
}

impl Entry {
    /// Returns what the configuration says of the input.
    pub fn ingest(&self) -> &Ingest {
        &self.ingest
    }

    /// Announces the stream as configured; rate and encoding are those given here unless the
    /// configuration states them.
    pub async fn publish(
        &self,
        rate: Bitrate,
        mut description: Description,
    ) -> Result<EntryPublisher, PublishError> {
        let stated = &self.ingest.description;
        if !stated.encoding.is_empty() {
            description.encoding.clone_from(&stated.encoding);
        }
        if !stated.schema.is_empty() {
            description.schema.clone_from(&stated.schema);
        }
        description.labels.extend(stated.labels.clone());
        let rate = self.ingest.bitrate.unwrap_or(rate);
        self.announce(self.ingest.stream.clone(), rate, description)
            .await
    }

    /// Announces a stream beside the configured one, with its needs.
    pub async fn publish_beside(
        &self,
        name: StreamName,
        rate: Bitrate,
        mut description: Description,
    ) -> Result<EntryPublisher, PublishError> {
        let labels = self.ingest.description.labels.clone();
        description.labels.extend(labels);
        self.announce(name, rate, description).await
    }

    async fn announce(
        &self,
        name: StreamName,
        rate: Bitrate,
        description: Description,
    ) -> Result<EntryPublisher, PublishError> {
        let publication = Publication {
            needs: self.ingest.needs,
            planner: (!self.ingest.unplanned).then_some(Planner::Exact),
            description,
            ..Publication::new(name, rate)
        };
        Ok(EntryPublisher {
            publisher: Some(self.handle.publish(publication).await?),
            meter: Arc::clone(&self.meter),
            leftovers: self.leftovers.clone(),
        })
    }

    /// Shows a sentence about the input in the log and the status.
    pub fn notify(&self, sentence: &str) {
        info!(ingest = %self.ingest.name, "{sentence}");
        self.meter.say(sentence);
    }
}

impl EntryPublisher {
    fn publisher(&mut self) -> &mut Publisher {
        self.publisher.as_mut().expect("it is there until the end")
    }

    /// Returns whether the stream has a subscriber now.
    pub fn is_wanted(&mut self) -> bool {
        self.publisher().is_wanted()
    }

    /// Waits until the stream has a subscriber.
    ///
    /// Fails   if the node stopped
    pub async fn wanted(&mut self) -> Result<(), PublishError> {
        self.publisher().wanted().await
    }

    /// Sends a message; see [`Publisher::send`].
    pub async fn send(&mut self, outgoing: Outgoing) -> Result<Sequence, PublishError> {
        let bytes = outgoing.payload.len();
        let sequence = self.publisher().send(outgoing).await?;
        self.meter.count(bytes);
        Ok(sequence)
    }

    /// Ends the stream; see [`Publisher::finish`].
    pub async fn finish(mut self) -> PublishSummary {
        let publisher = self.publisher.take().expect("it is there until the end");
        publisher.finish().await
    }
}

impl Drop for EntryPublisher {
    fn drop(&mut self) {
        if let Some(publisher) = self.publisher.take() {
            // Without a supervisor the node is gone.
            let _ = self.leftovers.send(publisher);
        }
    }
}
