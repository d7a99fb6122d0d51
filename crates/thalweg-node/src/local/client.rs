//! The program's side of the local socket.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thalweg_base::adu::{Adu, Header};
use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, Sequence, StreamId, StreamName};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_net::Clock;
use tokio::io::{BufReader, BufWriter};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use super::credit::Credit;
use super::frame::{self, Expected, Frame, Message, PublishRequest, TicketRequest};
use crate::board::EndKind;
use crate::handle::{Outgoing, Publication, Receive, Selection, SubscribeOptions, SubscriberEvent};
use crate::input::{InviteRequest, TraceEvent};

/// How long to wait for the reason of a close. The node sends it before it closes.
const REASON_MAX: std::time::Duration = std::time::Duration::from_secs(1);

/// A connection with this machine's node, for one request.
pub struct Client {
    read: BufReader<OwnedReadHalf>,
    pub(super) write: BufWriter<OwnedWriteHalf>,
    clock: Clock,
}

/// A stream published through the node.
pub struct LocalPublisher {
    write: BufWriter<OwnedWriteHalf>,
    clock: Clock,
    sequence: u64,
    wanted: watch::Receiver<bool>,
    settled: watch::Receiver<u64>,
    sendable: watch::Receiver<Option<Bitrate>>,
    losses: watch::Receiver<serde_json::Value>,
    /// The node's last message; `None` once it was returned.
    answer: Option<JoinHandle<Result<serde_json::Value, LocalError>>>,
}

/// A subscription through the node.
pub struct LocalSubscriber {
    read: BufReader<OwnedReadHalf>,
    clock: Clock,
    requests: Requests,
    credit: Option<Credit>,
    source: Option<NodeId>,
    description: Option<Description>,
    skipped: u64,
    discarded: u64,
}

/// Asks for ADUs of a subscription that pulls, while it is read elsewhere.
#[derive(Clone)]
pub struct Requests {
    /// Kept open, since the node ends the subscription when this half closes.
    write: Arc<Mutex<BufWriter<OwnedWriteHalf>>>,
}

/// A trace of a stream through the node.
pub struct LocalTracer {
    /// Kept open, since the node ends the trace when it closes.
    client: Client,
    source: String,
}

/// A watch of the names of a selection, through the node.
pub struct LocalMatching {
    /// Kept open, since the node ends the watch when it closes.
    client: Client,
}

/// Why the node cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// No node listens on the socket.
    #[error(
        "no node listens on {path}: {source}; start one with `thalweg node --config FILE`, or name its socket with --node"
    )]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The node refused the request.
    #[error("{0}")]
    Refused(String),
    /// The node refused, since the name of a node is unknown or ambiguous.
    #[error("{0}")]
    Unknown(String),
    /// The node refused, since it publishes a stream of this name already or still ends one.
    #[error("{0}")]
    Taken(String),
    /// The node closed the connection, or sent an unexpected message.
    #[error("the node went away: {0}")]
    Gone(#[from] io::Error),
}

impl Client {
    /// Connects to the node that listens on a socket.
    pub async fn connect(path: &Path) -> Result<Self, LocalError> {
        let stream = UnixStream::connect(path).await;
        let stream = stream.map_err(|source| LocalError::Connect {
            path: path.to_path_buf(),
            source,
        })?;
        let (read, write) = stream.into_split();
        Ok(Self {
            read: BufReader::new(read),
            write: BufWriter::with_capacity(64 << 10, write),
            clock: Clock::start(),
        })
    }

    /// Returns the node's status, in the shape of [`crate::Status`].
    pub async fn status(mut self) -> Result<serde_json::Value, LocalError> {
        frame::write_message(&mut self.write, &Message::Status).await?;
        match self.answer().await? {
            Frame::Message(Message::Report { status }) => Ok(status),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns a ticket that the node issues.
    pub async fn invite(mut self, request: InviteRequest) -> Result<String, LocalError> {
        let seconds = |time: Duration| time.as_nanos() / 1_000_000_000;
        let request = TicketRequest {
            rights: request.rights.to_string(),
            uses: request.uses,
            open_for_seconds: seconds(request.open_for),
            lasts_seconds: (!request.lasts.is_never()).then(|| seconds(request.lasts)),
            addresses: request.addresses,
            tcp_addresses: request.tcp_addresses,
        };
        frame::write_message(&mut self.write, &Message::Invite(request)).await?;
        match self.answer().await? {
            Frame::Message(Message::Ticket { ticket }) => Ok(ticket),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the paths between two nodes, in the shape of [`thalweg_control::control::Paths`].
    pub async fn route(
        mut self,
        from: &str,
        to: &str,
        stream: Option<StreamName>,
    ) -> Result<serde_json::Value, LocalError> {
        let (from, to) = (from.to_string(), to.to_string());
        let request = Message::Route { from, to, stream };
        frame::write_message(&mut self.write, &request).await?;
        match self.answer().await? {
            Frame::Message(Message::Paths { paths }) => Ok(paths),
            other => Err(unexpected(&other)),
        }
    }

    /// Traces an ADU of a stream every `every`, or as often as its source allows.
    pub async fn trace(
        mut self,
        name: StreamName,
        every: Duration,
    ) -> Result<LocalTracer, LocalError> {
        let every_ms = every.as_millis();
        frame::write_message(&mut self.write, &Message::Trace { name, every_ms }).await?;
        match self.answer().await? {
            Frame::Message(Message::Tracing { source }) => Ok(LocalTracer {
                client: self,
                source,
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Watches the names of a selection.
    pub async fn watch(mut self, selection: Selection) -> Result<LocalMatching, LocalError> {
        frame::write_message(&mut self.write, &Message::Watch(selection)).await?;
        Ok(LocalMatching { client: self })
    }

    /// Lets the node revoke another, given by name or key; returns the result as a sentence.
    pub async fn revoke(mut self, node: &str) -> Result<String, LocalError> {
        let node = node.to_string();
        frame::write_message(&mut self.write, &Message::Revoke { node }).await?;
        match self.answer().await? {
            Frame::Message(Message::Notice { text }) => Ok(text),
            other => Err(unexpected(&other)),
        }
    }

    /// Starts or stops an input or output of the node; returns the result as a sentence.
    pub async fn set_end(
        mut self,
        kind: EndKind,
        name: StreamName,
        runs: bool,
    ) -> Result<String, LocalError> {
        frame::write_message(&mut self.write, &Message::Switch { kind, name, runs }).await?;
        match self.answer().await? {
            Frame::Message(Message::Notice { text }) => Ok(text),
            other => Err(unexpected(&other)),
        }
    }

    /// Publishes a stream.
    pub async fn publish(mut self, publication: Publication) -> Result<LocalPublisher, LocalError> {
        let request = PublishRequest {
            name: publication.name,
            needs: publication.needs,
            layers: publication.layers,
            pack_ratio: publication.pack_ratio,
            planner: publication.planner.map(|planner| planner.to_string()),
            description: publication.description,
        };
        frame::write_message(&mut self.write, &Message::Publish(request)).await?;
        self.accepted().await?;
        let (wanted_sender, wanted) = watch::channel(false);
        let (settled_sender, settled) = watch::channel(0);
        let (sendable_sender, sendable) = watch::channel(None);
        let (losses_sender, losses) = watch::channel(serde_json::Value::Array(Vec::new()));
        let news = News {
            wanted: wanted_sender,
            settled: settled_sender,
            sendable: sendable_sender,
            losses: losses_sender,
        };
        let answer = tokio::spawn(read_news(self.read, self.clock, news));
        Ok(LocalPublisher {
            write: self.write,
            clock: self.clock,
            sequence: 0,
            wanted,
            settled,
            sendable,
            losses,
            answer: Some(answer),
        })
    }

    /// Subscribes to a stream.
    pub async fn subscribe(
        mut self,
        options: SubscribeOptions,
    ) -> Result<LocalSubscriber, LocalError> {
        let SubscribeOptions {
            name,
            in_sequence,
            mut mailbox,
        } = options;
        let credit = Credit::of(&mailbox);
        mailbox.pull |= credit.is_some();
        let request = Message::Subscribe {
            name,
            in_sequence,
            mailbox,
        };
        frame::write_message(&mut self.write, &request).await?;
        self.accepted().await?;
        Ok(LocalSubscriber {
            read: self.read,
            clock: self.clock,
            requests: Requests {
                write: Arc::new(Mutex::new(self.write)),
            },
            credit,
            source: None,
            description: None,
            skipped: 0,
            discarded: 0,
        })
    }

    pub(super) async fn accepted(&mut self) -> Result<(), LocalError> {
        match self.answer().await? {
            Frame::Message(Message::Accepted) => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the node's answer unless it is a refusal.
    pub(super) async fn answer(&mut self) -> Result<Frame, LocalError> {
        match self.next().await? {
            Frame::Message(Message::NameInUse { reason }) => Err(LocalError::Taken(reason)),
            Frame::Message(Message::Unknown { reason }) => Err(LocalError::Unknown(reason)),
            Frame::Message(Message::Refused { reason }) => Err(LocalError::Refused(reason)),
            frame => Ok(frame),
        }
    }

    async fn next(&mut self) -> Result<Frame, LocalError> {
        next(&mut self.read, self.clock).await
    }
}

async fn next(read: &mut BufReader<OwnedReadHalf>, clock: Clock) -> Result<Frame, LocalError> {
    let frame = frame::read(read, Expected::Answers, || clock.now()).await?;
    Ok(frame.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?)
}

impl LocalPublisher {
    /// Returns whether the stream has a subscriber now.
    pub fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// Returns a watch on whether the stream has a subscriber.
    pub fn wanted_watch(&self) -> watch::Receiver<bool> {
        self.wanted.clone()
    }

    /// Returns the number of leading ADUs that need not be published again if the node is lost: the
    /// next node has them, or they were dropped.
    pub fn settled(&self) -> u64 {
        *self.settled.borrow()
    }

    /// Waits until the node has gone away or takes no more of the stream; returns the reason.
    /// Cancel safe.
    pub async fn gone(&mut self) -> LocalError {
        let gone = LocalError::Gone(io::ErrorKind::ConnectionReset.into());
        let Some(answer) = &mut self.answer else {
            return gone;
        };
        let result = answer.await;
        self.answer = None;
        match result {
            Ok(Err(error)) => error,
            // An unrequested summary, or an aborted task.
            Ok(Ok(_)) | Err(_) => gone,
        }
    }

    /// Returns a watch on the rate that the stream's first links can send, for an encoder that
    /// adapts to it; `None` while it is unknown. Other streams share those links.
    pub fn sendable_watch(&self) -> watch::Receiver<Option<Bitrate>> {
        self.sendable.clone()
    }

    /// Returns a watch on the stream's losses: sums by hop, cause and importance, in the shape of
    /// [`crate::status::LossStatus`].
    pub fn losses_watch(&self) -> watch::Receiver<serde_json::Value> {
        self.losses.clone()
    }

    /// Waits until the stream has a subscriber.
    pub async fn wanted(&mut self) -> Result<(), LocalError> {
        let wanted = self.wanted.wait_for(|wanted| *wanted).await;
        wanted
            .map(drop)
            .map_err(|_| LocalError::Gone(io::ErrorKind::ConnectionReset.into()))
    }

    /// Sends an ADU to the node; waits while the node is not ready for more.
    pub async fn send(&mut self, outgoing: Outgoing) -> Result<Sequence, LocalError> {
        let sequence = Sequence(self.sequence);
        let mut header = Header::new(StreamId(0), sequence);
        header.media_time = outgoing.media_time;
        header.importance = outgoing.importance;
        header.layer = outgoing.layer;
        header.flags = outgoing.flags;
        header.depends_on = outgoing.depends_on;
        let adu = Adu {
            header,
            payload: outgoing.payload,
        };
        let written = frame::write_adu(&mut self.write, &adu, self.clock.now()).await;
        if let Err(error) = written {
            return Err(self.close_reason(error).await);
        }
        self.sequence += 1;
        Ok(sequence)
    }

    /// Returns why the node takes no more: its last message, or the socket's error.
    async fn close_reason(&mut self, error: io::Error) -> LocalError {
        let Some(answer) = self.answer.take() else {
            return error.into();
        };
        let result = tokio::time::timeout(REASON_MAX, answer).await;
        match result {
            Ok(Ok(Err(refused @ LocalError::Refused(_)))) => refused,
            _ => error.into(),
        }
    }

    /// Ends the stream and returns its summary, in the shape of [`crate::PublishSummary`].
    pub async fn finish(mut self) -> Result<serde_json::Value, LocalError> {
        let written = frame::write_message(&mut self.write, &Message::Finish).await;
        if let Err(error) = written {
            return Err(self.close_reason(error).await);
        }
        let gone = || LocalError::Gone(io::ErrorKind::ConnectionReset.into());
        let answer = self.answer.take().ok_or_else(gone)?;
        answer
            .await
            .map_err(|error| LocalError::Gone(io::Error::other(error)))?
    }
}

/// The senders for a node's news to a publisher.
struct News {
    wanted: watch::Sender<bool>,
    settled: watch::Sender<u64>,
    sendable: watch::Sender<Option<Bitrate>>,
    losses: watch::Sender<serde_json::Value>,
}

/// Reads the node's messages to a publisher up to the summary.
async fn read_news(
    mut read: BufReader<OwnedReadHalf>,
    clock: Clock,
    news: News,
) -> Result<serde_json::Value, LocalError> {
    loop {
        match frame::read(&mut read, Expected::Answers, || clock.now()).await? {
            Some(Frame::Message(Message::Subscribed { subscribed })) => {
                news.wanted.send_replace(subscribed);
            }
            Some(Frame::Message(Message::Settled { adus })) => {
                news.settled.send_replace(adus);
            }
            Some(Frame::Message(Message::Sendable { bits_per_second })) => {
                news.sendable
                    .send_replace(bits_per_second.map(Bitrate::from_bps));
            }
            Some(Frame::Message(Message::Losses { losses })) => {
                news.losses.send_replace(losses);
            }
            Some(Frame::Message(Message::Summary { summary })) => return Ok(summary),
            Some(Frame::Message(Message::Refused { reason })) => {
                return Err(LocalError::Refused(reason));
            }
            Some(other) => return Err(unexpected(&other)),
            None => return Err(LocalError::Gone(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

impl Requests {
    /// Asks for so many more ADUs; see [`Subscriber::request`](crate::Subscriber::request).
    pub async fn request(&self, adus: u64) -> Result<(), LocalError> {
        let request = Message::Request { adus };
        let mut write = self.write.lock().await;
        Ok(frame::write_message(&mut *write, &request).await?)
    }
}

impl LocalSubscriber {
    /// Returns what asks for ADUs. Of a subscription with a policy or a depth that does not pull,
    /// [`LocalSubscriber::recv`] asks by itself.
    pub fn requests(&self) -> Requests {
        self.requests.clone()
    }

    /// Returns the next ADU or notice; `None` when the stream has ended or the node stopped. Not cancel
    /// safe.
    pub async fn recv(&mut self) -> Result<Option<SubscriberEvent>, LocalError> {
        let due = self.credit.as_mut().and_then(Credit::take_due);
        if let Some(adus) = due {
            // The node may have closed behind the end of the stream, which is still to be read.
            let _ = self.requests.request(adus).await;
        }
        loop {
            match next(&mut self.read, self.clock).await? {
                Frame::Adu(adu) => {
                    if let Some(credit) = &mut self.credit {
                        credit.handle_adu();
                    }
                    return Ok(Some(SubscriberEvent::Adu(adu)));
                }
                Frame::Message(Message::Notice { text }) => {
                    return Ok(Some(SubscriberEvent::Notice(text)));
                }
                Frame::Message(Message::Source { node, description }) => {
                    (self.source, self.description) = (Some(node), description);
                }
                Frame::Message(Message::End { missed, discarded }) => {
                    self.skipped = missed;
                    self.discarded = discarded;
                    return Ok(None);
                }
                other @ Frame::Message(_) => return Err(unexpected(&other)),
            }
        }
    }

    /// Returns the source of the last ADU, whether the map still shows its stream or not.
    pub const fn source(&self) -> Option<NodeId> {
        self.source
    }

    /// Returns what the stream of the last ADU carries, if its source has described it.
    pub const fn description(&self) -> Option<&Description> {
        self.description.as_ref()
    }

    /// Returns how many missing ADUs the node skipped; known after the end.
    pub const fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Returns how many ADUs the node received and discarded; known after the end.
    pub const fn discarded(&self) -> u64 {
        self.discarded
    }

    /// Returns the time on the clock of received ADUs' deadlines.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }
}

impl Receive for LocalSubscriber {
    type Error = LocalError;

    async fn receive(&mut self) -> Result<Option<SubscriberEvent>, LocalError> {
        self.recv().await
    }

    fn described(&self) -> Option<&Description> {
        self.description()
    }
}

impl LocalTracer {
    /// Returns the name of the stream's source.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the next event.
    ///
    /// Fails   also when the stream is no longer published, or its source refuses to trace it
    pub async fn recv(&mut self) -> Result<TraceEvent, LocalError> {
        match self.client.answer().await? {
            Frame::Message(Message::TraceEvent(event)) => Ok(event),
            other => Err(unexpected(&other)),
        }
    }
}

impl LocalMatching {
    /// Returns all names that match, in order: the first time at once, then after each change. Not
    /// cancel safe.
    pub async fn recv(&mut self) -> Result<Vec<StreamName>, LocalError> {
        match self.client.answer().await? {
            Frame::Message(Message::Names { names }) => Ok(names),
            other => Err(unexpected(&other)),
        }
    }
}

pub(super) fn unexpected(frame: &Frame) -> LocalError {
    let what = match frame {
        Frame::Adu(_) => "an ADU".to_string(),
        Frame::Message(message) => format!("{message:?}"),
    };
    LocalError::Gone(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("it sent an unexpected message: {what}"),
    ))
}
