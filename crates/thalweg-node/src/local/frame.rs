//! Frames on the local socket.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use thalweg_core::adu::Adu;
use thalweg_core::id::{NodeId, StreamName};
use thalweg_core::limits::{ADU_HEADER_BYTES_MAX, ADU_PAYLOAD_BYTES_MAX, CONTROL_BYTES_MAX};
use thalweg_core::model::Layer;
use thalweg_core::needs::Needs;
use thalweg_core::time::Instant;
use thalweg_core::wire::adu;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::control::TraceEvent;

const KIND_MESSAGE: u8 = 0;
const KIND_ADU: u8 = 1;

/// A status of a large network is the largest message of a node: 64 times what a control frame may have.
const MESSAGE_BYTES_MAX: usize = 64 * CONTROL_BYTES_MAX;

/// The largest message of a program: a publication is, with as many layers and as long a name as there may
/// be.
const REQUEST_BYTES_MAX: usize = 64 << 10;

/// Which frames may come, as whoever reads knows the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// A program's requests, and no ADUs.
    Requests,
    /// A program's ADUs, and the end of its stream.
    Stream,
    /// Whatever a node says.
    Answers,
}

impl Expected {
    /// Returns how long a frame of this kind may be.
    fn limit(self, kind: u8) -> Result<usize, String> {
        match (kind, self) {
            (KIND_MESSAGE, Self::Answers) => Ok(MESSAGE_BYTES_MAX),
            (KIND_MESSAGE, Self::Requests | Self::Stream) => Ok(REQUEST_BYTES_MAX),
            (KIND_ADU, Self::Stream | Self::Answers) => {
                Ok(ADU_HEADER_BYTES_MAX + ADU_PAYLOAD_BYTES_MAX)
            }
            (KIND_ADU, Self::Requests) => Err("an ADU came, and nothing is published".into()),
            _ => Err(format!("frame kind {kind} is unknown")),
        }
    }
}

/// What the two processes say to each other beside ADUs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Message {
    /// Client: publish a stream.
    Publish(PublishRequest),
    /// Client: subscribe to a stream.
    Subscribe { name: StreamName, in_sequence: bool },
    /// Client: how is the node?
    Status,
    /// Client: give out a ticket.
    Invite(TicketRequest),
    /// Client: revoke a node, said by name or key.
    Revoke { node: String },
    /// Client: what ways are there between two nodes, said by name or key?
    Route {
        from: String,
        to: String,
        stream: Option<StreamName>,
    },
    /// Client: what do hops cost ADUs of a stream, one each so many milliseconds?
    Trace { name: StreamName, every_ms: u64 },
    /// Node: yes; the stream's source is this.
    Tracing { source: String },
    /// Node: something of it.
    Traced(TraceEvent),
    /// Node: the ways.
    Ways { ways: serde_json::Value },
    /// Node: the ticket.
    Ticket { ticket: String },
    /// Client: the stream ends here.
    Finish,
    /// Node: yes.
    Accepted,
    /// Node: no, and why.
    Refused { reason: String },
    /// Node: no, for no node is called so, or several are.
    Unknown { reason: String },
    /// Node: no, for it publishes a stream of this name, or still ends one.
    Taken { reason: String },
    /// Node: whether anybody receives the published stream.
    Wanted { wanted: bool },
    /// Node: how many ADUs of the published stream, the first, need not be given again should the node be
    /// lost.
    Settled { adus: u64 },
    /// Node: what the first links of the published stream can send, once that has moved; none if it is not known.
    Sendable { bits_per_second: Option<u64> },
    /// Node: what of the published stream did not arrive, once that has changed: sums, in the shape of a summary's.
    Losses { losses: serde_json::Value },
    /// Node: a sentence about the subscription.
    Notice { text: String },
    /// Node: who publishes the stream of the ADUs that follow.
    Source { node: NodeId },
    /// Node: the subscribed stream has ended.
    End {
        skipped: u64,
        #[serde(default)]
        discarded: u64,
    },
    /// Node: what became of a published stream.
    Summary { summary: serde_json::Value },
    /// Node: how it is.
    Report { status: serde_json::Value },
}

/// A ticket that is to be given out.
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

/// A stream that is to be published.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct PublishRequest {
    pub(super) name: StreamName,
    pub(super) needs: Needs,
    pub(super) layers: Vec<Layer>,
    pub(super) pack_ratio: Option<f64>,
    /// The planner's name; none for an unplanned stream.
    pub(super) planner: Option<String>,
}

/// One thing on the socket.
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

/// Writes an ADU; `now` is on the clock of its deadline.
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

/// Reads the next frame; `None` where the other side has closed between two frames.
///
/// Fails   with `InvalidData` at bytes that are no frame that is expected, or more than such a frame may have
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
    // Grown by what arrives, not by what is claimed.
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
    let decoded = decoded.ok_or_else(|| malformed("the ADU's header is cut".into()))?;
    let payload = body.slice(decoded.header_bytes..);
    if payload.len() != decoded.payload_bytes {
        return Err(malformed(
            "the ADU's payload has another length than it says".into(),
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
