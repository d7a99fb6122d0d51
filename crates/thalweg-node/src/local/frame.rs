//! Frames on the local socket.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thalweg_base::adu::Adu;
use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, StreamName};
use thalweg_base::limits::{ADU_HEADER_BYTES_MAX, ADU_PAYLOAD_BYTES_MAX, CONTROL_BYTES_MAX};
use thalweg_base::mailbox::MailboxOptions;
use thalweg_base::needs::Needs;
use thalweg_base::time::Instant;
use thalweg_base::wire::adu;
use thalweg_planner::model::Layer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::board::EndKind;
use crate::handle::Selection;
use crate::input::TraceEvent;
use crate::status::DropStatus;

const KIND_MESSAGE: u8 = 0;
const KIND_ADU: u8 = 1;

/// Maximum size of a node's message: the status of a large network takes up to 64 times a control
/// frame.
const MESSAGE_BYTES_MAX: usize = 64 * CONTROL_BYTES_MAX;

/// Maximum size of a program's message: a publication with the most layers and the longest name.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// The frames that the reader accepts from the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A program's requests, without ADUs.
    Requests,
    /// A program's ADUs, and the end of its stream.
    Stream,
    /// Any message or ADU of a node.
    Answers,
}

impl Expected {
    /// Returns the maximum size of a frame of this kind.
    fn limit(self, kind: u8) -> Result<usize, String> {
        match (kind, self) {
            (KIND_MESSAGE, Self::Answers) => Ok(MESSAGE_BYTES_MAX),
            (KIND_MESSAGE, Self::Requests | Self::Stream) => Ok(REQUEST_BYTES_MAX),
            (KIND_ADU, Self::Stream | Self::Answers) => {
                Ok(ADU_HEADER_BYTES_MAX + ADU_PAYLOAD_BYTES_MAX)
            }
            (KIND_ADU, Self::Requests) => Err("an ADU came before a publish request".into()),
            _ => Err(format!("frame kind {kind} is unknown")),
        }
    }
}

/// A message between the two processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Message {
    /// Client: publish a stream.
    Publish(PublishRequest),
    /// Client: subscribe to a stream.
    Subscribe {
        name: StreamName,
        in_sequence: bool,
        #[serde(default)]
        mailbox: MailboxOptions,
    },
    /// Client: so many more ADUs are asked for; only of a subscription that pulls.
    Request { adus: u64 },
    /// Client: report the node's status.
    Status,
    /// Client: issue a ticket.
    Invite(TicketRequest),
    /// Client: revoke a node, given by name or key.
    Revoke { node: String },
    /// Client: start or stop an input or output.
    Switch {
        kind: EndKind,
        name: StreamName,
        runs: bool,
    },
    /// Client: list the paths between two nodes, given by name or key.
    Route {
        from: String,
        to: String,
        stream: Option<StreamName>,
    },
    /// Client: trace an ADU of a stream every `every_ms`.
    Trace { name: StreamName, every_ms: u64 },
    /// Client: report the names of a selection, now and after each change.
    Watch(Selection),
    /// Client: report the drops of a stream from now on; `own`: of mailboxes only this program's.
    Drops { name: StreamName, own: bool },
    /// Node: drops.
    Dropped { drops: Vec<DropStatus> },
    /// Node: all names that match, in order.
    Names { names: Vec<StreamName> },
    /// Node: the trace has started; `source` is the name of the stream's source.
    Tracing { source: String },
    /// Node: an event of the trace.
    TraceEvent(TraceEvent),
    /// Node: the paths.
    Paths { paths: serde_json::Value },
    /// Node: the ticket.
    Ticket { ticket: String },
    /// Client: the stream ends here.
    Finish,
    /// Node: the request is accepted.
    Accepted,
    /// Node: the request is refused.
    Refused { reason: String },
    /// Node: the request is refused, since the name of a node is unknown or ambiguous.
    Unknown { reason: String },
    /// Node: the request is refused, since a stream of this name is published here or still ends.
    NameInUse { reason: String },
    /// Node: whether the published stream has a subscriber.
    Subscribed { subscribed: bool },
    /// Node: the number of leading ADUs of the published stream that need not be published again if
    /// the node is lost.
    Settled { adus: u64 },
    /// Node: the rate that the published stream's first links can send, after a change; none if it
    /// is unknown.
    Sendable { bits_per_second: Option<u64> },
    /// Node: the published stream's losses, after a change: sums, in the shape of a summary's.
    Losses { losses: serde_json::Value },
    /// Node: a sentence about the subscription.
    Notice { text: String },
    /// Node: the source of the ADUs that follow, and what they are, if that is known.
    Source {
        node: NodeId,
        #[serde(default)]
        description: Option<Description>,
    },
    /// Node: the subscribed stream has ended.
    End {
        missed: u64,
        #[serde(default)]
        discarded: u64,
    },
    /// Node: the summary of a published stream.
    Summary { summary: serde_json::Value },
    /// Node: its status.
    Report { status: serde_json::Value },
}

/// A request for a ticket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TicketRequest {
    pub(super) rights: String,
    pub(super) uses: usize,
    pub(super) open_for_seconds: u64,
    /// How long a grant lasts; none for no end.
    pub(super) lasts_seconds: Option<u64>,
    #[serde(default)]
    pub(super) addresses: Vec<SocketAddr>,
    #[serde(default)]
    pub(super) tcp_addresses: Vec<SocketAddr>,
}

/// A request to publish a stream.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PublishRequest {
    pub(super) name: StreamName,
    pub(super) needs: Needs,
    pub(super) layers: Vec<Layer>,
    pub(super) pack_ratio: Option<f64>,
    /// The planner's name; none for an unplanned stream.
    pub(super) planner: Option<String>,
    #[serde(default)]
    pub(super) description: Description,
}

/// A frame on the socket.
#[derive(Debug)]
pub(super) enum Frame {
    Message(Message),
    Adu(Adu),
}

/// Writes a message.
pub(super) async fn write_message(
    out: &mut (impl AsyncWrite + Unpin),
    message: &Message,
) -> io::Result<()> {
    let body = serde_json::to_vec(message)?;
    write(out, KIND_MESSAGE, &[&body]).await
}

/// Writes an ADU; `now` is on the clock of the ADU's deadline.
pub(super) async fn write_adu(
    out: &mut (impl AsyncWrite + Unpin),
    unit: &Adu,
    now: Instant,
) -> io::Result<()> {
    let mut header = Vec::with_capacity(ADU_HEADER_BYTES_MAX);
    adu::encode_header(&unit.header, unit.payload.len(), now, &mut header);
    write(out, KIND_ADU, &[&header, &unit.payload]).await
}

async fn write(out: &mut (impl AsyncWrite + Unpin), kind: u8, parts: &[&[u8]]) -> io::Result<()> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(length).map_err(|_| io::ErrorKind::InvalidInput)?;
    out.write_u8(kind).await?;
    out.write_u32(length).await?;
    for part in parts {
        out.write_all(part).await?;
    }
    out.flush().await
}

/// Reads the next frame; `None` if the other side has closed between two frames.
///
/// Fails   with `InvalidData` at bytes that are no expected frame, or a frame above its size limit
pub(super) async fn read(
    from: &mut (impl AsyncRead + Unpin),
    expected: Expected,
    now: impl Fn() -> Instant,
) -> io::Result<Option<Frame>> {
    let kind = match from.read_u8().await {
        Ok(kind) => kind,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    let length = from.read_u32().await? as usize;
    let limit = expected.limit(kind).map_err(malformed)?;
    if length > limit {
        return Err(malformed(format!(
            "a frame of {length} bytes is above the limit of {limit}"
        )));
    }
    // Grows with the bytes that arrive, not with the claimed length.
    let mut body = Vec::new();
    from.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match kind {
        KIND_MESSAGE => Ok(Some(Frame::Message(json(&body)?))),
        _ => Ok(Some(Frame::Adu(parse_adu(body, now())?))),
    }
}

fn json<T: DeserializeOwned>(body: &[u8]) -> io::Result<T> {
    serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))
}

fn parse_adu(body: Vec<u8>, now: Instant) -> io::Result<Adu> {
    let body = Bytes::from(body);
    let decoded = adu::decode_header(&body, now).map_err(|error| malformed(error.to_string()))?;
    let decoded = decoded.ok_or_else(|| malformed("the ADU's header is truncated".into()))?;
    let payload = body.slice(decoded.header_bytes..);
    if payload.len() != decoded.payload_bytes {
        return Err(malformed(
            "the ADU's payload differs in length from its header".into(),
        ));
    }
    Ok(Adu {
        header: decoded.header,
        payload,
    })
}

fn malformed(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
