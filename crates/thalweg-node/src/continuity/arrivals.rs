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
use thalweg_core::mailbox::{Held, Seen};
use tokio::sync::Notify;

/// What has come of all streams.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    of_stream: Mutex<HashMap<StreamId, Arc<Arrived>>>,
    /// Told when the end of a stream has come.
    ended: Arc<Notify>,
}

/// What has come of one stream.
#[derive(Debug)]
pub(crate) struct Arrived {
    state: Mutex<State>,
    ended: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    seen: Seen,
    /// Its end is among it, and that has not been told.
    is_ended: bool,
    has_changed: bool,
}

impl Arrivals {
    /// Returns what has come of a stream, made on first use.
    pub(crate) fn of(&self, stream: StreamId) -> Arc<Arrived> {
        let made = || {
            Arc::new(Arrived {
                state: Mutex::default(),
                ended: Arc::clone(&self.ended),
            })
        };
        Arc::clone(self.lock().entry(stream).or_insert_with(made))
    }

    /// Takes in that to those who want a stream from now on nothing of it has come, and what plans up to `former` bring is not theirs.
    pub(crate) fn begin_anew(&self, stream: StreamId, former: Option<Epoch>) {
        // Plans that bring it already put in what comes where it is, so that is one set yet.
        if let Some(arrived) = self.lock().get(&stream) {
            arrived.lock().seen.begin_anew(former);
        }
    }

    /// Takes in that all plans that bring a stream are theirs who want it.
    pub(crate) fn go_on(&self, stream: StreamId) {
        if let Some(arrived) = self.lock().get(&stream) {
            arrived.lock().seen.go_on();
        }
    }

    /// Forgets a stream that no plan brings here any more, and nobody here wants.
    pub(crate) fn forget(&self, stream: StreamId) {
        self.lock().remove(&stream);
    }

    /// Returns what has come of each stream of which more has come since the last time, and whether its end is among it.
    pub(crate) fn changed(&self) -> Vec<(StreamId, Held, bool)> {
        let all = self.lock();
        let changed = all.iter().filter_map(|(stream, arrived)| {
            let (held, is_ended) = arrived.changed()?;
            Some((*stream, held, is_ended))
        });
        changed.collect()
    }

    /// Waits until the end of a stream has come.
    pub(crate) async fn ended(&self) {
        self.ended.notified().await;
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
    pub(crate) fn insert(&self, header: &Header) -> Result<(), DropCause> {
        let mut state = self.lock();
        let taken = state.seen.insert(header.epoch, header.sequence);
        if taken == Err(DropCause::Duplicate) {
            return taken;
        }
        let is_end = header.flags.contains(Flags::END);
        state.has_changed = true;
        state.is_ended |= is_end;
        drop(state);
        if is_end {
            self.ended.notify_one();
        }
        taken
    }

    fn changed(&self) -> Option<(Held, bool)> {
        let mut state = self.lock();
        let has_changed = std::mem::take(&mut state.has_changed);
        let is_ended = std::mem::take(&mut state.is_ended);
        has_changed.then(|| (state.seen.held(), is_ended))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
