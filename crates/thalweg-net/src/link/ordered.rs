//! ADUs of one sequence, one after the other on one long stream.
//!
//! *The idea.* A lane is a stream behind a fair lock: whoever holds it writes one ADU whole, and waits while QUIC has no
//! room, which is the back-pressure. A caller who gives up in the middle has the lane reset, for half an ADU would
//! poison those behind it; the next one opens a new lane.
//!
//! *What it does not do.* It does not resend what a reset lane had not delivered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};

use iroh::endpoint::SendStream;
use thalweg_core::adu::Header;
use thalweg_core::hop::settings::LANES_MAX;
use thalweg_core::hop::{KIND_ORDERED, rank};
use tokio::sync::Mutex;

use super::Link;
use super::outcome::{OrderedId, Outcome, Payload};
use super::send::{Broken, Unfinished, head, open};
use crate::close::StreamCode;

type Lane = Arc<Mutex<Option<SendStream>>>;

/// The ordered sequences of one link.
#[derive(Debug, Default)]
pub(crate) struct Lanes(StdMutex<HashMap<OrderedId, Lane>>);

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, HashMap<OrderedId, Lane>> {
        // No code that can panic runs under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lane(&self, id: OrderedId) -> Option<Lane> {
        let mut lanes = self.lock();
        if lanes.len() >= LANES_MAX && !lanes.contains_key(&id) {
            return None;
        }
        Some(lanes.entry(id).or_default().clone())
    }

    pub(crate) async fn finish(&self, id: OrderedId) -> Outcome {
        let lane = self.lock().remove(&id);
        match lane {
            Some(lane) => finish(&lane).await,
            None => Outcome::Acknowledged,
        }
    }

    pub(crate) async fn finish_all(&self) {
        let lanes = std::mem::take(&mut *self.lock());
        // Each waits for acknowledgements that come regardless of the order in which they are awaited.
        for lane in lanes.into_values() {
            finish(&lane).await;
        }
    }
}

/// Ends a lane and waits until the peer has it.
async fn finish(lane: &Mutex<Option<SendStream>>) -> Outcome {
    let Some(mut stream) = lane.lock().await.take() else {
        return Outcome::Acknowledged;
    };
    if stream.finish().is_err() {
        return Outcome::LinkLost;
    }
    match stream.stopped().await {
        Ok(None) => Outcome::Acknowledged,
        Ok(Some(code)) => match StreamCode::from_number(code.into_inner()) {
            StreamCode::Whole => Outcome::Acknowledged,
            code => Outcome::Refused(code),
        },
        Err(_) => Outcome::LinkLost,
    }
}

pub(crate) async fn send(
    link: &Link,
    id: OrderedId,
    header: &Header,
    payload: Payload,
    priority: u8,
) -> Outcome {
    let chunks = match payload {
        Payload::Whole(payload) => Ok(vec![payload]),
        Payload::Arriving(mut body) => body.gather().await,
    };
    let mut chunks = match chunks {
        Ok(chunks) => chunks,
        Err(error) => return Broken::Upstream(error).outcome(),
    };
    let Ok(_permit) = link.0.permits.acquire().await else {
        return Outcome::LinkLost;
    };
    let Some(lane) = link.0.lanes.lane(id) else {
        return Outcome::Overflow;
    };
    let mut lane = lane.lock().await;
    if header.is_expired(link.now()) {
        return Outcome::Expired;
    }
    let (kind, stream) = match lane.take() {
        Some(stream) => (None, Ok(stream)),
        None => (
            Some(KIND_ORDERED),
            open(&link.0.connection, rank::sequence(priority)).await,
        ),
    };
    let mut stream = match stream {
        Ok(stream) => Unfinished(Some(stream)),
        Err(broken) => return broken.outcome(),
    };
    let payload_bytes = chunks.iter().map(bytes::Bytes::len).sum();
    chunks.insert(0, head(link, kind, header, payload_bytes));
    // An empty chunk is no progress to QUIC's writer.
    chunks.retain(|chunk| !chunk.is_empty());
    let Some(open) = stream.0.as_mut() else {
        return Outcome::LinkLost;
    };
    match open.write_all_chunks(&mut chunks).await {
        Ok(()) => {
            *lane = stream.0.take();
            Outcome::Departed
        }
        Err(error) => Broken::from(error).outcome(),
    }
}
