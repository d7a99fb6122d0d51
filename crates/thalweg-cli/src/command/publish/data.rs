//! `--split-data`: how the data of a transport stream is published through the node's socket.

use std::time::Duration as StdDuration;

use thalweg_base::needs::Needs;
use thalweg_media::ts::DataPid;
use thalweg_node::local::LocalError;
use thalweg_node::{Outgoing, Publication};
use thalweg_planner::planner::Planner;
use tokio::sync::mpsc;

use super::Arguments;
use crate::ends::data::DataStreams;
use crate::exit::Failure;
use crate::feed::Feed;
use crate::lasting::LastingPublisher;
use crate::terminal;

/// How long the end waits for what the node has not sent on.
const FINISH_MAX: StdDuration = StdDuration::from_secs(10);

/// The data of the transport stream that is published.
pub struct Beside<'a> {
    arguments: &'a Arguments,
    needs: Needs,
    streams: DataStreams,
}

impl<'a> Beside<'a> {
    pub fn new(arguments: &'a Arguments, needs: Needs) -> Self {
        Self {
            arguments,
            needs,
            streams: DataStreams::new(arguments.name.clone()),
        }
    }

    /// Publishes the data that the feed knows, where that is not done yet.
    pub async fn open(&mut self, feed: &Feed) -> Result<(), Failure> {
        let arguments = self.arguments;
        for opening in self.streams.open(feed.data_pids())? {
            let mut description = arguments.described.description("");
            let own = opening.data.description();
            description.encoding = own.encoding;
            description.labels.extend(own.labels);
            let publication = Publication {
                description,
                needs: self.needs,
                planner: (!arguments.unplanned).then_some(Planner::Exact),
                ..Publication::new(opening.name.clone(), opening.rate)
            };
            let socket = arguments.socket.path()?;
            // Announced before the picture waits for its subscriber, which may want both.
            let publisher =
                LastingPublisher::publish(socket, publication, arguments.lasting, false).await;
            terminal::print_notice(&opening.sentence());
            self.streams.spawn(async move {
                if let Err(error) = run(publisher, opening.messages).await {
                    let name = opening.name;
                    terminal::print_notice(&format!(
                        "{name}: {error}; the picture goes on without it"
                    ));
                }
            });
        }
        Ok(())
    }

    /// Gives a message to its stream.
    pub async fn send(
        &mut self,
        data: DataPid,
        message: Outgoing,
        feed: &Feed,
    ) -> Result<(), Failure> {
        if !self.streams.has(data) {
            self.open(feed).await?;
        }
        self.streams.send(data, message);
        Ok(())
    }

    /// Ends all streams; what the node has not sent on is waited for unless the user does not.
    pub async fn finish(self, is_stopped: bool) {
        let patience = if is_stopped {
            StdDuration::ZERO
        } else {
            FINISH_MAX
        };
        for sentence in self.streams.finish(patience).await {
            terminal::print_notice(&sentence);
        }
    }
}

/// Publishes messages until their end.
async fn run(
    publisher: Result<LastingPublisher, LocalError>,
    mut messages: mpsc::Receiver<Outgoing>,
) -> Result<(), LocalError> {
    let mut publisher = publisher?;
    while let Some(message) = messages.recv().await {
        publisher.send(message).await?;
    }
    publisher.finish().await.map(drop)
}
