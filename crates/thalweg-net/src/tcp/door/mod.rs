//! The door over TCP: one request, one answer, then the connection ends.
//!
//! *The idea.* The same handshake as for a session, under its own protocol name; then one frame
//! each way: `data` that is both the start and the end of stream 0, or `close` with the reason. So
//! strangers reach only the frame decoder, and no session.
//!
//! *What it does not do.* It interprets neither the request nor the answer: see [`crate::door`].
//!
//! *Sources.* docs/reference/protocol.md §12.3; docs/concepts/tcp.md §2.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::limits::DOOR_BYTES_MAX;
use thalweg_link::hop::CloseCode;
use thalweg_link::outbox::CHUNK_BYTES_MAX;
use thalweg_link::tcp_mux::{Decoder, Frame, StreamNumber};
use tokio::time::timeout;

use super::ALPN_DOOR;
use super::dial::Dialler;
use super::line::{Line, LineError};
use super::refusal::{CLOSE_WAIT, refuse};
use super::socket::Segments;
use super::tls::Tls;
use crate::doorkeeper::{Door, NO_REQUEST};
use crate::error::Unreachable;
use crate::identity::Identity;

/// Sends one request to a node's door, at the first of these addresses that answers; returns the
/// answer.
///
/// Fails   if none answers within 10 s, another node does, or the node has no door or no free place
pub(crate) async fn request(
    identity: &Identity,
    congestion: Option<&str>,
    keeper: NodeId,
    addresses: &[SocketAddr],
    request: &[u8],
) -> Result<Bytes, Unreachable> {
    let other = |reason: String| Unreachable::Other {
        peer: keeper,
        reason,
    };
    if request.len() > CHUNK_BYTES_MAX as usize {
        let bytes = request.len();
        return Err(other(format!(
            "a request of {bytes} bytes is too large for the door"
        )));
    }
    let tls = Tls::new(identity, &[]).map_err(|error| other(error.to_string()))?;
    let mut dialler = Dialler {
        tls,
        congestion: congestion.map(Into::into),
        peer: keeper,
        alpn: ALPN_DOOR,
        addresses: addresses.to_vec(),
        // One request and its answer: small segments cost nothing, and pass every path.
        segments: Segments::Small,
    };
    let first = message_frame(Bytes::copy_from_slice(request));
    let (mut line, _, received) = dialler.begin(&first).await?;
    line.end();
    message(received).ok_or_else(|| other("its answer is malformed".into()))
}

/// Serves one caller that has taken a place.
pub(super) async fn serve(
    mut line: Line,
    mut decoder: Decoder,
    caller: NodeId,
    door: &Door,
) -> Result<(), LineError> {
    let received = line.receive_frame(&mut decoder).await;
    let request = match received {
        Ok(frame) => message(frame),
        Err(LineError::Wire(_)) => None,
        Err(error) => return Err(error),
    };
    let Some(request) = request else {
        return refuse(line, CloseCode::Protocol, NO_REQUEST.into()).await;
    };
    let Some(answer) = door.ask(caller, request).await else {
        return refuse(line, CloseCode::Shutdown, "the node shuts down".into()).await;
    };
    line.send_frame(&message_frame(answer)).await?;
    line.end();
    // The caller leaves when it has read the answer; a slow one is cut off.
    let _ = timeout(CLOSE_WAIT.into(), line.drain()).await;
    Ok(())
}

const fn message_frame(bytes: Bytes) -> Frame {
    Frame::Data {
        stream: StreamNumber(0),
        offset: 0,
        is_last: true,
        bytes,
    }
}

/// Returns the message in a frame, if it has the door's form and is not too long.
fn message(frame: Frame) -> Option<Bytes> {
    match frame {
        Frame::Data {
            stream: StreamNumber(0),
            offset: 0,
            is_last: true,
            bytes,
        } if bytes.len() <= DOOR_BYTES_MAX => Some(bytes),
        _ => None,
    }
}
