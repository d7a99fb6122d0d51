//! Reading a stream that is still arriving, over TCP and the engine.
//!
//! *The idea.* Both have a call that takes what has arrived, and a notification when there is more. A
//! reader looks first and waits then, so an early notification costs one look, and none is missed.

use bytes::Bytes;
use thalweg_link::hop::{BodyError, StreamCode};
use tokio::sync::Notify;

/// A stream as one of them has it.
pub(crate) trait Source {
    /// Returns what is notified when there is more.
    fn news(&self) -> &Notify;

    /// Takes arrived chunks, at most `most`; returns how many, and why there were no more.
    fn read(&self, most: usize, sink: &mut impl FnMut(Bytes)) -> (usize, Then);

    /// Returns whether the connection has ended.
    fn is_lost(&self) -> bool;

    /// Whether nothing more is read.
    fn is_over(&mut self) -> &mut bool;
}

/// Why a read took no further chunk.
pub(crate) enum Then {
    /// It took as many as it was asked for.
    More,
    Blocked,
    Finished,
    Reset(StreamCode),
    /// The connection knows it no more.
    Unknown,
}

/// Returns the next bytes, `None` after the last; waits for them to arrive.
///
/// Fails   if the sender gave up, or the connection is over
pub(crate) async fn chunk(source: &mut impl Source) -> Result<Option<Bytes>, BodyError> {
    let mut chunk = Bytes::new();
    let count = chunks(source, 1, |bytes| chunk = bytes).await?;
    Ok(count.map(|_| chunk))
}

/// Passes arrived chunks to `sink`, at least one and at most `most`; returns how many, `None` after
/// the last.
///
/// Fails   like [`chunk`]
pub(crate) async fn chunks(
    source: &mut impl Source,
    most: usize,
    mut sink: impl FnMut(Bytes),
) -> Result<Option<usize>, BodyError> {
    while !*source.is_over() {
        let (count, then) = {
            let news = source.news().notified();
            let (count, then) = source.read(most, &mut sink);
            if matches!(then, Then::Blocked) && count == 0 {
                if source.is_lost() {
                    return Err(BodyError::LinkLost);
                }
                news.await;
                continue;
            }
            (count, then)
        };
        match then {
            Then::More | Then::Blocked => {}
            Then::Unknown => return Err(BodyError::LinkLost),
            Then::Finished => *source.is_over() = true,
            Then::Reset(code) => {
                *source.is_over() = true;
                return Err(BodyError::Reset(code));
            }
        }
        if count > 0 {
            return Ok(Some(count));
        }
    }
    Ok(None)
}
