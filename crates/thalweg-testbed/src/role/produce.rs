//! The producer of a stream: gives its node the world's ADUs when they are due.

use std::sync::Arc;
use std::time::Duration as StdDuration;

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_base::time::{Duration, Instant};
use thalweg_node::local::{Client, LocalPublisher};
use thalweg_node::{Outgoing, Publication};
use thalweg_planner::model::{Stream, World};
use thalweg_sim::film::Film;
use thalweg_sim::traffic::{self, Due, Producer};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::note::{Note, Notes};
use super::{BEGIN, OVER, Part, READY, RETRY_AFTER, SUMMARY, fingerprint, print_line, sleep_until};
use crate::system::clock;

/// How long a publisher may take to end its stream: it waits twice 30 s for in-flight ADUs without a
/// deadline.
const FINISH_MAX: StdDuration = StdDuration::from_secs(65);

/// Runs the producer of a stream to the end of the world.
///
/// Fails   the testbed ends without a `begin` line, or the notes cannot be written
pub async fn produce(part: &Part) -> anyhow::Result<()> {
    let (world, stream) = part.load()?;
    let film = if stream.traffic.video {
        Some(Arc::new(Film::new(&stream)?))
    } else {
        None
    };
    let mut producer = StreamProducer {
        part,
        notes: Notes::create(&part.notes)?,
        film,
        dues: Producer::new(&stream, world.length(), part.stream as u64),
        stream,
        world,
        begin: Instant::ZERO,
    };
    let publisher = producer.publish(Instant::NEVER).await;
    print_line(READY);
    producer.begin = begin().await?;
    producer.run(publisher).await?;
    print_line(OVER);
    Ok(())
}

/// Waits for the time at which the world begins.
async fn begin() -> anyhow::Result<Instant> {
    let mut line = String::new();
    let mut input = BufReader::new(tokio::io::stdin());
    input.read_line(&mut line).await?;
    let nanos = line
        .trim()
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.trim().parse().ok());
    nanos
        .map(Instant::from_nanos)
        .context("the testbed did not send the start time of the world")
}

struct StreamProducer<'p> {
    part: &'p Part,
    world: World,
    stream: Stream,
    film: Option<Arc<Film>>,
    dues: Producer,
    notes: Notes,
    begin: Instant,
}

impl StreamProducer<'_> {
    /// Publishes the stream as soon as there is a node; `None` if there is none until then.
    async fn publish(&self, until: Instant) -> Option<LocalPublisher> {
        while clock::now() < until {
            let publication = Publication {
                needs: self.stream.needs,
                pack_ratio: self.stream.pack_ratio,
                planner: Some(self.stream.traffic.planner),
                ..Publication::layered(self.stream.name.clone(), self.stream.layers.clone())
            };
            let published = async {
                let client = Client::connect(&self.part.socket).await?;
                client.publish(publication).await
            };
            match published.await {
                Ok(publisher) => return Some(publisher),
                Err(_) => tokio::time::sleep(RETRY_AFTER).await,
            }
        }
        None
    }

    async fn run(&mut self, publisher: Option<LocalPublisher>) -> anyhow::Result<()> {
        let end = self.begin + self.world.length();
        let mut publisher = publisher;
        let mut next = self.dues.next();
        while let Some(due) = next {
            let Some(node) = &mut publisher else {
                publisher = self.publish(end).await;
                let since = clock::now().saturating_since(self.begin);
                // A camera that is off takes no pictures, and a restarted one begins with a whole frame.
                next = Some(due)
                    .into_iter()
                    .chain(&mut self.dues)
                    .find(|due| due.layer == 0 && due.at >= since);
                if publisher.is_none() {
                    return Ok(());
                }
                continue;
            };
            sleep_until(self.begin + due.at).await;
            let outgoing = self.outgoing(&due);
            self.notes
                .write(note(self.begin, &due, &outgoing.payload))?;
            if node.send(outgoing).await.is_err() {
                publisher = None;
            }
            next = self.dues.next();
        }
        if let Some(publisher) = publisher {
            // ADUs that have not ended by then are unaccounted in the report.
            let summary = tokio::time::timeout(FINISH_MAX, publisher.finish()).await;
            if let Ok(Ok(summary)) = summary {
                print_line(&format!("{SUMMARY} {summary}"));
            }
        }
        Ok(())
    }

    fn outgoing(&self, due: &Due) -> Outgoing {
        let payload: Bytes = if let Some(film) = &self.film {
            film.payload(due.frame, due.layer)
        } else {
            let ratio = self.stream.pack_ratio(&self.world.weights);
            let seed = self.part.stream as u64;
            traffic::payload(seed, due.sequence, due.payload_bytes, ratio)
        };
        Outgoing {
            media_time: due.media_time,
            importance: due.importance,
            layer: due.layer,
            flags: due.flags,
            depends_on: due.depends_on,
            payload,
        }
    }
}

fn note(begin: Instant, due: &Due, payload: &Bytes) -> Note {
    Note {
        at: clock::now().as_nanos(),
        due: (begin + Duration::from_nanos(due.at.as_nanos())).as_nanos(),
        media_us: due.media_time.as_micros(),
        layer: due.layer,
        importance: due.importance.0,
        bytes: payload.len(),
        fingerprint: fingerprint(payload),
    }
}
