//! The receiving side of a link.
//!
//! *The idea.* One task accepts streams. Handling a stream is one future, polled once where the
//! stream was accepted: if the ADU has already arrived and its handler need not wait, that
//! completes it; otherwise the future moves to a task of its own. So a small ADU needs no task and
//! a large one blocks no other.
//!
//! *What it does not do.* It does not judge ADUs. A malformed stream does not end the connection:
//! the stream is stopped and counted. Only a broken control stream ends the link, since the ends
//! can no longer agree on anything.

use std::future::poll_fn;
use std::task::Poll;

use bytes::Bytes;
use thalweg_base::time::Instant;
use thalweg_base::wire::adu::decode_header;
use thalweg_base::wire::port;
use thalweg_link::hop::{KIND_ADU, KIND_ORDERED};

use super::Link;
use super::body::{Arriving, Body};
use super::control::{self, FrameError};
use super::reader::{HeaderError, Reader};
use super::receiver::Handling;
use super::stream::Inbound;
use crate::close::{CloseCode, StreamCode};
use crate::error::BodyError;
use crate::task;

/// Accepts streams until the connection ends.
pub(crate) async fn streams(link: Link) {
    while let Ok(stream) = link.0.connection.accept().await {
        run_or_spawn(Box::pin(take(link.clone(), stream))).await;
    }
}

/// Takes datagrams until the connection ends.
pub(crate) async fn datagrams(link: Link) {
    while let Some(datagram) = link.0.connection.datagram().await {
        take_datagram(&link, datagram).await;
    }
}

/// Receives control frames until the peer finishes or breaks its stream.
pub(crate) async fn control(link: Link, mut reader: Reader) {
    loop {
        match control::read(&mut reader).await {
            Ok(frame) => {
                if let Some(port) = port::decode(&frame) {
                    link.0.moves.handle_port(port);
                    continue;
                }
                let receiver = link.0.context.receiver.clone();
                receiver.control(link.clone(), frame).await;
            }
            Err(FrameError::End) => {
                link.0.peer_done.send_replace(true);
                return;
            }
            Err(FrameError::TooLarge(bytes)) => {
                tracing::debug!(peer = %link.0.peer.short(), bytes, "control frame above the limit");
                link.0.counters.malformed.add_one();
                link.close(CloseCode::Protocol, "control frame above the limit");
                return;
            }
            // The connection has ended and reports its own reason.
            Err(FrameError::Body(BodyError::LinkLost)) => return,
            Err(FrameError::Body(error)) => {
                tracing::debug!(peer = %link.0.peer.short(), %error, "control stream lost");
                link.close(CloseCode::Protocol, "control stream broken");
                return;
            }
        }
    }
}

/// Polls a future once on this task; if it has to wait, the rest runs on its own task.
async fn run_or_spawn(mut handling: Handling) {
    let ready = poll_fn(|context| Poll::Ready(handling.as_mut().poll(context).is_ready())).await;
    if !ready {
        // A new task polls at once, so no wake-up between the two polls is lost.
        tokio::spawn(task::alone(handling));
    }
}

async fn take(link: Link, stream: Inbound) {
    let since = stream.since();
    let mut reader = Reader::new(stream);
    match reader.byte().await {
        Ok(Some(KIND_ADU)) => take_one(&link, reader, since).await,
        Ok(Some(KIND_ORDERED)) => take_ordered(&link, reader).await,
        Ok(Some(kind)) => {
            tracing::debug!(peer = %link.0.peer.short(), kind, "stream of an unknown kind");
            link.0.counters.unknown_kinds.add_one();
            reader.stop(StreamCode::Protocol);
        }
        Ok(None) => link.0.counters.malformed.add_one(),
        Err(_) => link.0.counters.abandoned.add_one(),
    }
}

async fn take_one(link: &Link, mut reader: Reader, since: Option<Instant>) {
    // The remaining time was encoded before the stream was opened, so time the stream waited here
    // counts.
    match reader.header(|| since.unwrap_or_else(|| link.now())).await {
        Ok((decoded, trace)) => {
            let clock = link.0.context.clock;
            let body = Body::of_stream(
                reader,
                decoded.payload_bytes,
                clock,
                decoded.header.deadline,
                &link.0.gathering,
            );
            hand_over(
                link,
                Arriving {
                    header: decoded.header,
                    payload_bytes: decoded.payload_bytes,
                    body,
                    trace,
                },
            )
            .await;
        }
        Err(error) => refuse(link, &mut reader, &error),
    }
}

async fn take_ordered(link: &Link, mut reader: Reader) {
    let _reading = link.0.moves.begin_reading().await;
    loop {
        let (decoded, trace) = match reader.header(|| link.now()).await {
            Ok(decoded) => decoded,
            // The sender gave up the ADU with which the stream ends.
            Err(HeaderError::End | HeaderError::Within) => return,
            Err(error) => return refuse(link, &mut reader, &error),
        };
        let (body, back) = Body::of_ordered(reader, decoded.payload_bytes, &link.0.gathering);
        hand_over(
            link,
            Arriving {
                header: decoded.header,
                payload_bytes: decoded.payload_bytes,
                body,
                trace,
            },
        )
        .await;
        // The body may outlive its handler; the sequence continues when the body is dropped.
        let Ok((returned, unread)) = back.await else {
            return;
        };
        reader = returned;
        if !skip(&mut reader, unread).await {
            return;
        }
    }
}

/// Skips what a handler left unread; returns whether the stream continues.
async fn skip(reader: &mut Reader, mut unread: usize) -> bool {
    while unread > 0 {
        if reader.is_empty() && !matches!(reader.fill().await, Ok(true)) {
            return false;
        }
        unread -= reader.take(unread).len();
    }
    true
}

async fn take_datagram(link: &Link, mut datagram: Bytes) {
    let now = link.now();
    let decoded = match decode_header(&datagram, now) {
        Ok(Some(decoded)) if decoded.header_bytes + decoded.payload_bytes == datagram.len() => {
            decoded
        }
        wrong => {
            tracing::debug!(peer = %link.0.peer.short(), bytes = datagram.len(), ?wrong, "malformed datagram");
            return link.0.counters.malformed.add_one();
        }
    };
    let payload = datagram.split_off(decoded.header_bytes);
    let trace = super::reader::trace(&datagram, &decoded, now);
    let arriving = Arriving {
        header: decoded.header,
        payload_bytes: decoded.payload_bytes,
        body: Body::whole(payload),
        trace,
    };
    link.0.counters.received.add_one();
    let receiver = link.0.context.receiver.clone();
    run_or_spawn(receiver.adu(link.clone(), arriving)).await;
}

async fn hand_over(link: &Link, arriving: Arriving) {
    link.0.counters.received.add_one();
    let receiver = link.0.context.receiver.clone();
    receiver.adu(link.clone(), arriving).await;
}

fn refuse(link: &Link, reader: &mut Reader, error: &HeaderError) {
    if let HeaderError::Body(_) = error {
        return link.0.counters.abandoned.add_one();
    }
    tracing::debug!(peer = %link.0.peer.short(), %error, "malformed stream");
    link.0.counters.malformed.add_one();
    reader.stop(StreamCode::Protocol);
}
