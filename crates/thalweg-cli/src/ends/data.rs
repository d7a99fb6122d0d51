//! The data of a transport stream as streams of their own, beside its picture.
//!
//! *The idea.* Each data PID is published by a task of its own, fed by a short queue: a data stream that is
//! slow, or cannot be published, holds up neither the picture nor the others. What its queue has no room
//! for is dropped and counted.

use std::collections::BTreeMap;
use std::time::Duration as StdDuration;

use thalweg_base::id::StreamName;
use thalweg_base::units::Bitrate;
use thalweg_media::ts::DataPid;
use thalweg_node::Outgoing;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Messages that wait for the node.
const QUEUE_MAX: usize = 256;

/// The rate announced for data of which none has come yet, and the least for any.
const RATE_MIN: Bitrate = Bitrate::from_bps(8_000);

/// The data streams beside a picture.
pub struct DataStreams {
    picture: StreamName,
    /// Dropped before the queues: their end would be that of the streams.
    tasks: JoinSet<()>,
    streams: BTreeMap<u16, DataStream>,
}

/// A data stream to be published.
pub struct Opening {
    /// Its name.
    pub name: StreamName,
    /// Where its messages stood.
    pub data: DataPid,
    /// Its rate so far.
    pub rate: Bitrate,
    /// Its messages; closed at their end.
    pub messages: mpsc::Receiver<Outgoing>,
}

struct DataStream {
    name: StreamName,
    queue: mpsc::Sender<Outgoing>,
    /// Messages for which the queue had no room.
    dropped: u64,
}

impl Opening {
    /// Returns what is told of it.
    pub fn sentence(&self) -> String {
        let Self { name, data, .. } = self;
        format!(
            "the data of PID {:#x} goes into the stream {name}",
            data.pid
        )
    }
}

impl DataStreams {
    /// Returns no stream yet, for those beside a picture.
    pub fn new(picture: StreamName) -> Self {
        Self {
            picture,
            streams: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Returns the streams of these PIDs, each with its rate, that are not open yet; the caller publishes
    /// them, each by a task.
    ///
    /// Fails   if the name beside the picture is too long
    pub fn open(&mut self, pids: Vec<(DataPid, Bitrate)>) -> anyhow::Result<Vec<Opening>> {
        let mut openings = Vec::new();
        for (data, rate) in pids {
            if self.streams.contains_key(&data.pid) {
                continue;
            }
            let name = self.name_for(data)?;
            let (queue, messages) = mpsc::channel(QUEUE_MAX);
            openings.push(Opening {
                name: name.clone(),
                data,
                rate: rate.max(RATE_MIN),
                messages,
            });
            let stream = DataStream {
                name,
                queue,
                dropped: 0,
            };
            self.streams.insert(data.pid, stream);
        }
        Ok(openings)
    }

    /// Spawns the task that publishes a stream.
    pub fn spawn(&mut self, publishing: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(publishing);
    }

    /// Returns a name that no other data stream here has.
    fn name_for(&self, data: DataPid) -> anyhow::Result<StreamName> {
        let kind = if data.is_klv { "klv" } else { "data" };
        // A stream more than there are leaves one number free.
        let numbers = 1..=self.streams.len() + 1;
        let of = |number: usize| match number {
            1 => format!("{}/{kind}", self.picture),
            _ => format!("{}/{kind}-{number}", self.picture),
        };
        let is_free = |text: &String| {
            let mut streams = self.streams.values();
            streams.all(|stream| stream.name.as_str() != text)
        };
        let text = numbers.map(of).find(is_free).unwrap_or_default();
        text.parse().map_err(|error| {
            anyhow::anyhow!("`{text}` is no name for the data beside the picture: {error}")
        })
    }

    /// Returns whether a PID has its stream.
    pub fn has(&self, data: DataPid) -> bool {
        self.streams.contains_key(&data.pid)
    }

    /// Gives a message to its stream.
    pub fn send(&mut self, data: DataPid, message: Outgoing) {
        if let Some(stream) = self.streams.get_mut(&data.pid)
            && stream.queue.try_send(message).is_err()
        {
            stream.dropped += 1;
        }
    }

    /// Ends all streams, where dropping this leaves them to a next of their names, and waits for what is not
    /// sent, `patience` long. Returns a sentence for each stream that lost messages.
    pub async fn finish(self, patience: StdDuration) -> Vec<String> {
        let Self {
            streams, mut tasks, ..
        } = self;
        let lost = streams.values().filter(|stream| stream.dropped > 0);
        let lost = lost.map(|stream| {
            let (name, dropped) = (&stream.name, stream.dropped);
            format!("{name}: {dropped} messages dropped, as they were not taken in time")
        });
        let sentences = lost.collect();
        // The tasks end when their queues do.
        drop(streams);
        let ending = async { while tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(patience, ending).await;
        sentences
    }
}
