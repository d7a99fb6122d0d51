//! The door over TCP: one thing said, one answer, and the connection ends.
//!
//! *The idea.* The same handshake as for a session, with a protocol name of its own; then one frame each way, `data` that is
//! at once the first and the last of stream 0, or `close` with the reason. So strangers get no further than to the reader
//! of frames that everybody meets, and to no session.
//!
//! *What it does not do.* It understands neither what is said nor the answer: [`crate::door`] says who does.
//!
//! *Sources.* docs/protocol.md §12.3; docs/tcp.md §2.

#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use bytes::Bytes;
use thalweg_core::hop::CloseCode;
use thalweg_core::id::NodeId;
use thalweg_core::limits::DOOR_BYTES_MAX;
use thalweg_core::outbox::CHUNK_BYTES_MAX;
use thalweg_core::pace::{Decoder, Frame, StreamNumber};
use tokio::time::timeout;

use super::ALPN_DOOR;
use super::dial::Dialler;
use super::line::{Line, LineError};
use super::listener::{LAST_WORD, refuse};
use super::tls::Tls;
use crate::door::{Door, NO_REQUEST};
use crate::error::Unreachable;
use crate::identity::Identity;

/// Says one thing at a node's door, at the first of these addresses that answers; returns the answer.
///
/// Fails   nobody answers within 10 s, somebody else does, the node has no door or no place at it
pub(crate) async fn knock(
    identity: &Identity,
    congestion: Option<&str>,
    keeper: NodeId,
    addresses: &[SocketAddr],
    knock: &[u8],
) -> Result<Bytes, Unreachable> {
    let other = |reason: String| Unreachable::Other {
        peer: keeper,
        reason,
    };
    if knock.len() > CHUNK_BYTES_MAX as usize {
        let bytes = knock.len();
        return Err(other(format!(
            "{bytes} bytes are too many to be said at a door"
        )));
    }
    let tls = Tls::new(identity, &[]).map_err(|error| other(error.to_string()))?;
    let mut dialler = Dialler {
        tls,
        congestion: congestion.map(Into::into),
        peer: keeper,
        alpn: ALPN_DOOR,
        addresses: addresses.to_vec(),
    };
    let said = words(Bytes::copy_from_slice(knock));
    let (mut line, _, heard) = dialler.begin(&said).await?;
    line.end();
    heeded(heard).ok_or_else(|| other("it answers what is no answer at a door".into()))
}

/// Hears a caller who has taken a place, and answers.
pub(super) async fn hear(
    mut line: Line,
    mut decoder: Decoder,
    caller: NodeId,
    door: &Door,
) -> Result<(), LineError> {
    let heard = line.hear_frame(&mut decoder).await;
    let knock = match heard {
        Ok(frame) => heeded(frame),
        Err(LineError::Wire(_)) => None,
        Err(error) => return Err(error),
    };
    let Some(knock) = knock else {
        return refuse(line, CloseCode::Protocol, NO_REQUEST.into()).await;
    };
    let Some(answer) = door.ask(caller, knock).await else {
        return refuse(line, CloseCode::Shutdown, "the node shuts down".into()).await;
    };
    line.say_frame(&words(answer)).await?;
    line.end();
    // The caller goes when it has read; one that does not has been answered all the same.
    let _ = timeout(LAST_WORD.into(), line.drain()).await;
    Ok(())
}

const fn words(bytes: Bytes) -> Frame {
    Frame::Data {
        stream: StreamNumber(0),
        offset: 0,
        is_last: true,
        bytes,
    }
}

/// Returns what a frame says, if it is said as at a door and not too long.
fn heeded(frame: Frame) -> Option<Bytes> {
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
