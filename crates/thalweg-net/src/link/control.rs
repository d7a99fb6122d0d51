//! The control stream: frames, whole and in order, ahead of all ADUs.
//!
//! *The idea.* One task writes, so that a caller that stops waiting never leaves half a frame
//! behind. A frame is preceded by its length (4 bytes, big-endian). Frames given together are
//! written in one piece, so that QUIC fills packets with them instead of sending one packet each.
//!
//! *What it does not do.* It does not interpret frames.

use bytes::Bytes;
use thalweg_base::limits::CONTROL_BYTES_MAX;
use thalweg_link::hop::{KIND_CONTROL, rank};
use tokio::sync::{mpsc, oneshot};

use super::OpenError;
use super::connection::Connection;
use super::reader::Reader;
use super::stream::Outbound;
use crate::error::{BodyError, ControlError};

/// A command to the writing task.
pub(crate) enum Command {
    /// Several frames of at most [`CONTROL_BYTES_MAX`] together, or one frame.
    Frames(Vec<Bytes>),
    /// Finish the stream; answer when the peer has everything.
    Finish(oneshot::Sender<()>),
}

/// Why no further frame can be read.
#[derive(Debug)]
pub(crate) enum FrameError {
    /// The peer has finished its stream.
    End,
    /// The peer announced a frame above the limit.
    TooLarge(usize),
    Body(BodyError),
}

/// Refuses a frame above the limit, which every peer would refuse.
pub(crate) fn check(frame: &Bytes) -> Result<(), ControlError> {
    if frame.len() <= CONTROL_BYTES_MAX {
        Ok(())
    } else {
        Err(ControlError::TooLarge {
            bytes: frame.len(),
            limit: CONTROL_BYTES_MAX,
        })
    }
}

/// Opens this end's control stream.
pub(crate) async fn greet(connection: &Connection) -> Result<Outbound, OpenError> {
    let mut stream = connection.open(rank::CONTROL).await?;
    let kind = Bytes::from_static(&[KIND_CONTROL]);
    if stream.write_all(&mut [kind]).await.is_err() {
        return Err(OpenError::of(connection, BodyError::LinkLost));
    }
    Ok(stream)
}

/// Waits for the peer's control stream, which is the first of its streams.
pub(crate) async fn greeting(connection: &Connection) -> Result<Reader, OpenError> {
    let mut reader = Reader::new(connection.accept().await?);
    match reader.byte().await {
        Ok(Some(KIND_CONTROL)) => Ok(reader),
        Ok(_) => Err(OpenError::Protocol),
        Err(error) => Err(OpenError::of(connection, error)),
    }
}

/// Writes frames until it is told to finish or the link is gone.
pub(crate) async fn write(mut stream: Outbound, mut commands: mpsc::Receiver<Command>) {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Frames(frames) => {
                let mut pieces: Vec<Bytes> = frames.into_iter().flat_map(with_length).collect();
                if stream.write_all(&mut pieces).await.is_err() {
                    return;
                }
            }
            Command::Finish(done) => {
                stream.finish().await;
                // The receiver is gone if the drain was cut.
                let _ = done.send(());
                return;
            }
        }
    }
}

fn with_length(frame: Bytes) -> [Bytes; 2] {
    let length = u32::try_from(frame.len()).expect("checked against the limit");
    [Bytes::copy_from_slice(&length.to_be_bytes()), frame]
}

/// Groups frames into as few writes as the limit allows, so that the queue is bounded as if each
/// were one frame.
pub(crate) fn batches(frames: Vec<Bytes>) -> Vec<Vec<Bytes>> {
    let mut batches: Vec<Vec<Bytes>> = Vec::new();
    let mut room = 0;
    for frame in frames {
        match batches.last_mut() {
            Some(last) if frame.len() <= room => {
                room -= frame.len();
                last.push(frame);
            }
            _ => {
                room = CONTROL_BYTES_MAX - frame.len();
                batches.push(vec![frame]);
            }
        }
    }
    batches
}

/// Ends this end's control stream and waits until the peer has all of it.
pub(crate) async fn finish(control: &mpsc::Sender<Command>) {
    let (done, finished) = oneshot::channel();
    if control.send(Command::Finish(done)).await.is_ok() {
        let _ = finished.await;
    }
}

/// Reads one frame.
pub(crate) async fn read(reader: &mut Reader) -> Result<Bytes, FrameError> {
    let Some(length) = reader.exactly(4).await.map_err(FrameError::Body)? else {
        return Err(FrameError::End);
    };
    let length = length
        .iter()
        .fold(0, |length, byte| length << 8 | usize::from(*byte));
    if length > CONTROL_BYTES_MAX {
        return Err(FrameError::TooLarge(length));
    }
    match reader.exactly(length).await.map_err(FrameError::Body)? {
        Some(frame) => Ok(frame),
        None => Err(FrameError::End),
    }
}
