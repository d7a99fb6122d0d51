//! The event queue of a session, for one listener.
//!
//! *The idea.* Events are queued under the session's lock as they happen. The listener is woken for
//! the first and takes all there are: acknowledgements of many streams arrive together. A *patient*
//! listener is not woken for acknowledgements at all, and finds them when something else wakes it.
//!
//! *What it does not do.* It queues nothing for a listener that is gone.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use thalweg_link::tcp_mux::Event;

use super::shared::Shared;

/// The events of a session; the holder must drain or drop it.
pub struct Events(Arc<Shared>);

impl Events {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Returns the next event; `None` once the session is over.
    pub async fn next(&mut self) -> Option<Event> {
        self.happened().await;
        self.0.lock().events.pop().map(|(event, _)| event)
    }

    /// Waits until there is an event, or the session is over.
    pub(super) async fn happened(&mut self) {
        poll_fn(|context| {
            let queue = &mut self.0.lock().events;
            if !queue.events.is_empty() || queue.is_closed {
                return Poll::Ready(());
            }
            queue.listen(context.waker());
            Poll::Pending
        })
        .await;
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.events.events.clear();
        state.events.is_closed = true;
    }
}
