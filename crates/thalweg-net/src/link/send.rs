//! Sending one ADU.
//!
//! *The idea.* A sending is a future that ends in an [`Outcome`]. Its work races the ADU's deadline: write, finish,
//! wait for the acknowledgement; if the deadline is first, the stream is reset, so that neither end spends another
//! byte on it. Detached, it runs as far as it can on the caller's task (for a small ADU: all but the acknowledgement)
//! and the rest in a task of its own, at most `limits::ADUS_IN_FLIGHT_MAX` of them on a link.
//!
//! *What it does not do.* It does not choose among ADUs, and sends none again on another link.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use iroh::endpoint::{Connection, ConnectionError, SendStream, StoppedError, WriteError};
use thalweg_core::adu::Header;
use thalweg_core::hop::KIND_ADU;
use thalweg_core::limits::{ADU_HEADER_BYTES_MAX, ADU_PAYLOAD_BYTES_MAX};
use thalweg_core::wire::adu::encode_header;

use super::body::Body;
use super::outcome::{Carriage, Outcome, Payload, SendOptions};
use super::{Link, ordered};
use crate::close::{StreamCode, ToVarInt as _};
use crate::error::BodyError;

/// An ADU on its way; awaited it is sent and says what became of it, dropped it is cancelled.
#[must_use = "nothing is sent before it is awaited or detached"]
pub struct Sending {
    link: Link,
    header: Header,
    work: Pin<Box<dyn Future<Output = Outcome> + Send>>,
}

/// Why a stream takes no more.
pub(super) enum Broken {
    /// The peer stopped it.
    Stopped(StreamCode),
    /// Whoever the payload comes from gave it up.
    Upstream(BodyError),
    Lost,
}

impl Sending {
    pub(super) fn new(link: Link, header: Header, payload: Payload, options: SendOptions) -> Self {
        let work = Box::pin(carry(link.clone(), header, payload, options));
        Self { link, header, work }
    }

    /// Sends without waiting for the acknowledgement.
    ///
    /// The outcome goes to [`Receiver::handle_outcome`](super::Receiver::handle_outcome). An ordered ADU should rather
    /// be awaited: that is its back-pressure.
    ///
    /// Fails   panics outside a tokio run-time (a caller's bug)
    pub fn detach(mut self) {
        // Polled once here, a small ADU is already in QUIC's hands; the task below polls again, which is when the
        // waker that counts is registered.
        let mut context = Context::from_waker(Waker::noop());
        match self.work.as_mut().poll(&mut context) {
            Poll::Ready(outcome) => self.report(outcome),
            Poll::Pending => {
                tokio::spawn(async move {
                    let outcome = self.work.as_mut().await;
                    self.report(outcome);
                });
            }
        }
    }

    fn report(&self, outcome: Outcome) {
        self.link
            .0
            .context
            .receiver
            .outcome(&self.link, &self.header, outcome);
    }
}

impl Future for Sending {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        self.work.as_mut().poll(context)
    }
}

async fn carry(link: Link, header: Header, payload: Payload, options: SendOptions) -> Outcome {
    let outcome = if payload.bytes() > ADU_PAYLOAD_BYTES_MAX {
        Outcome::TooLarge
    } else if link.is_ended() {
        Outcome::LinkLost
    } else if header.is_expired(link.now()) {
        Outcome::Expired
    } else {
        match options.carriage {
            Carriage::Stream => by_stream(&link, &header, payload, options.priority).await,
            Carriage::Datagram => by_datagram(&link, &header, payload, options.priority).await,
            Carriage::Ordered(id) => {
                ordered::send(&link, id, &header, payload, options.priority).await
            }
        }
    };
    link.0.counters.count(outcome);
    tracing::trace!(
        peer = %link.0.peer.short(),
        stream = %header.stream,
        sequence = header.sequence.0,
        outcome = outcome.name(),
        "adu"
    );
    outcome
}

async fn by_stream(link: &Link, header: &Header, payload: Payload, priority: u8) -> Outcome {
    // What has a deadline would rather be dropped and counted than be late; the rest has all the time there is.
    let permit = if header.deadline.is_never() {
        link.0.permits.acquire().await.ok()
    } else {
        link.0.permits.try_acquire().ok()
    };
    let Some(_permit) = permit else {
        return Outcome::Overflow;
    };
    // Kept outside the race, so that whoever loses it can still reset the stream.
    let mut stream = Unfinished(None);
    let sent = tokio::select! {
        biased;
        sent = write_adu(link, &mut stream.0, header, payload, priority) => sent,
        () = link.0.context.clock.sleep_until(header.deadline) => {
            stream.reset(StreamCode::Expired);
            return Outcome::Expired;
        }
    };
    match sent {
        Ok(()) => {
            stream.0 = None;
            Outcome::Acknowledged
        }
        Err(broken) => {
            stream.reset(broken.code());
            broken.outcome()
        }
    }
}

/// A stream that is reset, not finished, if its sending is dropped.
pub(super) struct Unfinished(pub(super) Option<SendStream>);

impl Unfinished {
    pub(super) fn reset(&mut self, code: StreamCode) {
        if let Some(mut stream) = self.0.take() {
            // An error says that the stream is over already.
            let _ = stream.reset(code.varint());
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.reset(StreamCode::Cancelled);
    }
}

async fn write_adu(
    link: &Link,
    slot: &mut Option<SendStream>,
    header: &Header,
    payload: Payload,
    priority: u8,
) -> Result<(), Broken> {
    let rank = link.0.ranks.next(priority);
    let stream = slot.insert(open(&link.0.connection, rank).await?);
    let head = head(link, Some(KIND_ADU), header, payload.bytes());
    match payload {
        Payload::Whole(payload) if payload.is_empty() => stream.write_chunk(head).await?,
        Payload::Whole(payload) => stream.write_all_chunks(&mut [head, payload]).await?,
        Payload::Arriving(body) => pass_on(stream, head, body).await?,
    }
    stream.finish().map_err(|_| Broken::Lost)?;
    match stream.stopped().await {
        Ok(None) => Ok(()),
        Ok(Some(code)) => match StreamCode::from_number(code.into_inner()) {
            StreamCode::Whole => Ok(()),
            code => Err(Broken::Stopped(code)),
        },
        Err(StoppedError::ConnectionLost(_) | StoppedError::ZeroRttRejected) => Err(Broken::Lost),
    }
}

/// Writes chunks as they come; those that have come already go with the header.
async fn pass_on(stream: &mut SendStream, head: Bytes, mut body: Body) -> Result<(), Broken> {
    let mut chunks = vec![head];
    loop {
        while let Some(chunk) = body.chunk_now() {
            chunks.push(chunk);
        }
        if !chunks.is_empty() {
            stream.write_all_chunks(&mut chunks).await?;
            chunks.clear();
        }
        match body.chunk().await.map_err(Broken::Upstream)? {
            Some(chunk) => chunks.push(chunk),
            None => return Ok(()),
        }
    }
}

async fn by_datagram(link: &Link, header: &Header, payload: Payload, priority: u8) -> Outcome {
    let fits = |bytes: usize| {
        let datagram_bytes_max = link.0.connection.max_datagram_size().unwrap_or(0);
        bytes + ADU_HEADER_BYTES_MAX <= datagram_bytes_max
    };
    if !fits(payload.bytes()) {
        return by_stream(link, header, payload, priority).await;
    }
    let mut datagram = Vec::with_capacity(ADU_HEADER_BYTES_MAX + payload.bytes());
    let payload = match payload {
        Payload::Whole(payload) => payload,
        Payload::Arriving(body) => match body.collect().await {
            Ok(payload) => payload,
            Err(error) => return Broken::Upstream(error).outcome(),
        },
    };
    encode_header(header, payload.len(), link.now(), &mut datagram);
    datagram.extend_from_slice(&payload);
    // QUIC would make room by dropping older datagrams without a word.
    if link.0.connection.datagram_send_buffer_space() < datagram.len() {
        return Outcome::Overflow;
    }
    match link.0.connection.send_datagram(datagram.into()) {
        Ok(()) => Outcome::Departed,
        Err(_) if link.is_closed() => Outcome::LinkLost,
        // The path's MTU has just shrunk, or the peer takes none.
        Err(_) => Outcome::TooLarge,
    }
}

pub(super) async fn open(connection: &Connection, rank: i32) -> Result<SendStream, Broken> {
    let stream = connection.open_uni().await?;
    // A stream that was just opened can fail only with its connection, which the next write says.
    let _ = stream.set_priority(rank);
    Ok(stream)
}

/// Returns the bytes before a payload; what is left of the deadline is reckoned now.
pub(super) fn head(link: &Link, kind: Option<u8>, header: &Header, payload_bytes: usize) -> Bytes {
    let mut head = Vec::with_capacity(1 + ADU_HEADER_BYTES_MAX);
    head.extend(kind);
    encode_header(header, payload_bytes, link.now(), &mut head);
    head.into()
}

impl Broken {
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Stopped(code) => Outcome::Refused(*code),
            Self::Upstream(BodyError::Expired | BodyError::Reset(StreamCode::Expired)) => {
                Outcome::Expired
            }
            Self::Upstream(_) => Outcome::Cancelled,
            Self::Lost => Outcome::LinkLost,
        }
    }

    fn code(&self) -> StreamCode {
        match self.outcome() {
            Outcome::Expired => StreamCode::Expired,
            _ => StreamCode::Cancelled,
        }
    }
}

impl From<WriteError> for Broken {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopped(code) => Self::Stopped(StreamCode::from_number(code.into_inner())),
            _ => Self::Lost,
        }
    }
}

impl From<ConnectionError> for Broken {
    fn from(_: ConnectionError) -> Self {
        Self::Lost
    }
}
