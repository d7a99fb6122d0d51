//! What has arrived of the streams that end here, over any plan.
//!
//! *The idea.* Each stream has one set of sequences, shared by all its plans. The data path inserts
//! each whole ADU and learns whether it is new; the control task reads the set now and then, and at
//! the end of a stream at once.
//!
//! *What it does not do.* It keeps no ADUs and knows no subscribers.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::adu::{Flags, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_dataplane::mailbox::{Held, News, Received};
use tokio::sync::Notify;

/// The arrivals of all streams.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    of_stream: Mutex<HashMap<StreamId, Arc<Arrived>>>,
    /// Notified when something has arrived that must be reported to the source at once.
    urgent: Arc<Notify>,
}

/// The arrivals of one stream.
#[derive(Debug)]
pub(crate) struct Arrived {
    received: Mutex<Received>,
    urgent: Arc<Notify>,
}

impl Arrivals {
    /// Returns the arrivals of a stream, created on first use.
    pub(crate) fn of(&self, stream: StreamId) -> Arc<Arrived> {
        let made = || {
            Arc::new(Arrived {
                received: Mutex::default(),
                urgent: Arc::clone(&self.urgent),
            })
        };
        Arc::clone(self.lock().entry(stream).or_insert_with(made))
    }

    /// Starts over for new subscribers of a stream: nothing of it has arrived for them, and ADUs of
    /// plans up to `former` are not theirs.
    pub(crate) fn restart(&self, stream: StreamId, former: Option<Epoch>) {
        // Plans that are already installed hold this set, so it is reset in place and not replaced.
        if let Some(arrived) = self.lock().get(&stream) {
            arrived.lock().begin_anew(former);
        }
    }

    /// Resumes a stream: what its installed plans bring is for its subscribers.
    pub(crate) fn resume(&self, stream: StreamId) {
        if let Some(arrived) = self.lock().get(&stream) {
            arrived.lock().go_on();
        }
    }

    /// Forgets a stream that no plan brings here and no subscriber wants.
    pub(crate) fn forget(&self, stream: StreamId) {
        self.lock().remove(&stream);
    }

    /// Returns the changed arrivals of each stream since the last call, with their urgency. Of a
    /// blocked stream only the end is reported.
    pub(crate) fn changed(
        &self,
        is_blocked: impl Fn(StreamId) -> bool,
    ) -> Vec<(StreamId, Held, News)> {
        let all = self.lock();
        let changed = all.iter().filter_map(|(stream, arrived)| {
            let mut received = arrived.lock();
            let is_reported = received.news()? == News::Ended || !is_blocked(*stream);
            let (held, news) = is_reported.then(|| received.take_news())??;
            Some((*stream, held, news))
        });
        changed.collect()
    }

    /// Waits until something has arrived that must be reported to the source at once.
    pub(crate) async fn urgent(&self) {
        self.urgent.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamId, Arc<Arrived>>> {
        // No code that can panic runs under this lock.
        self.of_stream
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrived {
    /// Records that an ADU is here whole.
    ///
    /// Fails   with the drop cause if subscribers must not get it
    pub(crate) fn insert(&self, header: &Header, payload_bytes: usize) -> Result<(), DropCause> {
        let taken = self.lock().insert(header, payload_bytes);
        // The stream's end is reported even if subscribers do not get it.
        let is_end = header.flags.contains(Flags::END) && taken != Err(DropCause::Duplicate);
        if is_end || taken == Ok(News::Much) {
            self.urgent.notify_one();
        }
        taken.map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
