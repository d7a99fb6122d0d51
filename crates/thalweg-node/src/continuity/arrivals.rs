//! What has come of the streams that end here, by whatever way.
//!
//! *The idea.* Each stream has one set of sequences, which all its plans share. The data path puts in what is whole and is
//! told whether it is new; the control task reads the set now and then, and at the end of a stream at once.
//!
//! *What it does not do.* It keeps no ADU and knows no subscriber.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_core::adu::{Flags, Header};
use thalweg_core::event::DropCause;
use thalweg_core::id::{Epoch, StreamId};
use thalweg_core::mailbox::{Held, News, Received};
use tokio::sync::Notify;

/// What has come of all streams.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    of_stream: Mutex<HashMap<StreamId, Arc<Arrived>>>,
    /// Told when something has come of which the source is to hear at once.
    urgent: Arc<Notify>,
}

/// What has come of one stream.
#[derive(Debug)]
pub(crate) struct Arrived {
    received: Mutex<Received>,
    urgent: Arc<Notify>,
}

impl Arrivals {
    /// Returns what has come of a stream, made on first use.
    pub(crate) fn of(&self, stream: StreamId) -> Arc<Arrived> {
        let made = || {
            Arc::new(Arrived {
                received: Mutex::default(),
                urgent: Arc::clone(&self.urgent),
            })
        };
        Arc::clone(self.lock().entry(stream).or_insert_with(made))
    }

    /// Takes in that to those who want a stream from now on nothing of it has come, and what plans up to `former` bring is not theirs.
    pub(crate) fn begin_anew(&self, stream: StreamId, former: Option<Epoch>) {
        // Plans that bring it already put in what comes where it is, so that is one set yet.
        if let Some(arrived) = self.lock().get(&stream) {
            arrived.lock().begin_anew(former);
        }
    }

    /// Takes in that all plans that bring a stream are theirs who want it.
    pub(crate) fn go_on(&self, stream: StreamId) {
        if let Some(arrived) = self.lock().get(&stream) {
            arrived.lock().go_on();
        }
    }

    /// Forgets a stream that no plan brings here any more, and nobody here wants.
    pub(crate) fn forget(&self, stream: StreamId) {
        self.lock().remove(&stream);
    }

    /// Returns what has come of each stream of which more has come since the last time, and how soon its source is to hear of it. Of
    /// streams that are held up here only the end is told.
    pub(crate) fn changed(
        &self,
        is_pressed: impl Fn(StreamId) -> bool,
    ) -> Vec<(StreamId, Held, News)> {
        let all = self.lock();
        let changed = all.iter().filter_map(|(stream, arrived)| {
            let mut received = arrived.lock();
            let is_told = received.news()? == News::Ended || !is_pressed(*stream);
            let (held, news) = is_told.then(|| received.take_news())??;
            Some((*stream, held, news))
        });
        changed.collect()
    }

    /// Waits until something has come of which its source is to hear at once.
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
    /// Takes in that an ADU is here whole.
    ///
    /// Fails   it is not for those who want the stream
    pub(crate) fn insert(&self, header: &Header, payload_bytes: usize) -> Result<(), DropCause> {
        let taken = self.lock().insert(header, payload_bytes);
        // The end counts though it is not for those who want the stream.
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
