//! What has come of the streams that end here, for receipts.
//!
//! *What it does not do.* It knows no mailbox: the driver says whether one blocks a stream.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::seen::{Held, News};

use crate::mailbox::Received;

/// What has come of each stream that ends here.
#[derive(Debug, Default)]
pub struct Arrivals(BTreeMap<StreamId, Received>);

impl Arrivals {
    /// Returns what has come of a stream, of which nothing has come at first.
    pub(super) fn of(&mut self, stream: StreamId) -> &mut Received {
        self.0.entry(stream).or_default()
    }

    /// Returns what has come of a stream, and how soon to report it, if that has changed. While a
    /// mailbox blocks the stream, only its end is reported.
    pub fn take_news(&mut self, stream: StreamId, is_blocked: bool) -> Option<(Held, News)> {
        let received = self.0.get_mut(&stream)?;
        let is_reported = received.news()? == News::Ended || !is_blocked;
        is_reported.then(|| received.take_news())?
    }

    /// Returns whether anything has come of a stream since that was last taken.
    pub fn has_news(&self, stream: StreamId) -> bool {
        let received = self.0.get(&stream);
        received.is_some_and(|received| received.news().is_some())
    }

    /// Returns the streams of which something has come.
    pub fn streams(&self) -> Vec<StreamId> {
        self.0.keys().copied().collect()
    }

    /// Starts over for new subscribers of a stream: nothing of it has come for them, and plans up to
    /// `former` are not theirs.
    pub fn restart(&mut self, stream: StreamId, former: Option<Epoch>) {
        if let Some(received) = self.0.get_mut(&stream) {
            received.begin_anew(former);
        }
    }

    /// Accepts what all plans bring of a stream.
    pub fn resume(&mut self, stream: StreamId) {
        if let Some(received) = self.0.get_mut(&stream) {
            received.go_on();
        }
    }

    /// Forgets what has come of a stream that no plan brings here and no subscriber wants.
    pub fn forget(&mut self, stream: StreamId) {
        self.0.remove(&stream);
    }
}
