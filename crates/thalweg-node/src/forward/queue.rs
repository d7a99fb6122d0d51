//! Queues of plans that go each at its own pace, where the sinks of a stream have what they miss repaired.
//!
//! *The idea.* Such ADUs go one after the other on each way. Where ways part, each has a short queue of its own here, and a
//! task that empties it at the pace of its link. An ADU is read when there is room in one of them: the fastest sets the pace.
//! It goes into all that have room; in the others it is dropped and counted, and who misses it says so to the producer.
//!
//! ```text
//!              ┌─► ▒▒▒▒▒▒ e1 ─► slow link     full: this one is dropped, e1's sink will ask for it
//!  ADU of e1 ──┤
//!              └─► ▒····· e2 ─► fast link     has room: so it is read at all
//! ```
//!
//! *What it does not do.* It repairs nothing: who has the stream repaired does (`thalweg_core::transfer`).
//!
//! *Sources.* docs/recast.md §1; decisions/0024.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thalweg_core::adu::{Adu, Header};
use thalweg_core::event::DropCause;
use thalweg_core::id::{Epoch, StreamId};
use thalweg_core::trace::Trace;
use thalweg_lift::route::has_room;
use thalweg_net::Arriving;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::cast::{Branch, Branches};
use super::{Forwarder, Route, Table, read, write};

/// An ADU on its way through a plan's route.
type Item = (Arc<Route>, Adu, Option<Box<Trace>>);

/// The queues of all plans that go at their own pace.
#[derive(Default)]
pub(super) struct Queues {
    of_plan: Table<(StreamId, Epoch), Queue>,
    /// Told when a queue has become shorter.
    drained: Notify,
}

#[derive(Clone)]
struct Queue {
    items: UnboundedSender<Item>,
    /// ADUs that have been put in and have not left by the link.
    length: Arc<AtomicU64>,
}

impl Queue {
    fn has_room(&self, header: &Header, payload_bytes: usize) -> bool {
        has_room(self.length.load(Relaxed), header, payload_bytes)
    }
}

impl Queues {
    pub(super) fn has(&self, plan: (StreamId, Epoch)) -> bool {
        read(&self.of_plan).contains_key(&plan)
    }

    /// Forgets a plan; what is in its queue still goes, and who waits for room there need not.
    pub(super) fn forget(&self, plan: (StreamId, Epoch)) {
        write(&self.of_plan).remove(&plan);
        self.drained.notify_waiters();
    }

    /// Waits until what is in a plan's queue has left.
    pub(super) async fn emptied(&self, plan: (StreamId, Epoch)) {
        let Some(queue) = read(&self.of_plan).get(&plan).cloned() else {
            return;
        };
        self.drained_until(|| queue.length.load(Relaxed) == 0).await;
    }

    /// Waits until something is so that becomes so when a queue is shorter.
    async fn drained_until(&self, is_so: impl Fn() -> bool) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // Listening before looking: what leaves between the two is not missed.
            drained.as_mut().enable();
            if is_so() {
                return;
            }
            drained.await;
        }
    }
}

impl Forwarder {
    /// Waits until one of these routes of a stream has room for an ADU.
    pub(crate) async fn until_room(
        &self,
        routes: &[Arc<Route>],
        header: &Header,
        payload_bytes: usize,
    ) {
        let has_room = |route: &Arc<Route>| {
            let queues = read(&self.queues.of_plan);
            // One that has no queue yet is empty.
            let queue = queues.get(&plan(route));
            queue.is_none_or(|queue| queue.has_room(header, payload_bytes))
        };
        let is_so = || routes.is_empty() || routes.iter().any(has_room);
        self.queues.drained_until(is_so).await;
    }

    /// Puts an ADU that is here whole into the queue of its route's plan; if that is full, the ADU is dropped and counted.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        route: &Arc<Route>,
        adu: Adu,
        trace: Option<Box<Trace>>,
    ) {
        let queue = {
            let mut queues = write(&self.queues.of_plan);
            // Looked at under this lock, for whoever removes a plan forgets its queue after its route: nobody would forget a new one.
            if !read(&self.routes).contains_key(&plan(route)) {
                drop(queues);
                return route.refused(&adu.header, DropCause::PathLost);
            }
            let begin = || self.begin_queue();
            queues.entry(plan(route)).or_insert_with(begin).clone()
        };
        if !queue.has_room(&adu.header, adu.payload.len()) {
            return route.refused(&adu.header, DropCause::Overflow);
        }
        queue.length.fetch_add(1, Relaxed);
        // Its task ends after the last sender.
        let _ = queue.items.send((Arc::clone(route), adu, trace));
    }

    fn begin_queue(self: &Arc<Self>) -> Queue {
        let (items, mut taken) = unbounded_channel::<Item>();
        let queue = Queue {
            items,
            length: Arc::default(),
        };
        // Strong, it would keep itself: the queue is in the forwarder.
        let forwarder = Arc::downgrade(self);
        let length = Arc::clone(&queue.length);
        tokio::spawn(async move {
            while let Some((route, adu, trace)) = taken.recv().await {
                let Some(forwarder) = forwarder.upgrade() else {
                    return;
                };
                forwarder.carry(&route, adu, trace).await;
                length.fetch_sub(1, Relaxed);
                forwarder.queues.drained.notify_waiters();
            }
        });
        queue
    }

    /// Takes an ADU that arrives through its own route and those of all branches, each at its own pace.
    pub(super) async fn spread(
        self: &Arc<Self>,
        route: Arc<Route>,
        branches: Branches,
        arriving: Arriving,
        trace: Option<Box<Trace>>,
    ) {
        let header = arriving.header;
        let mut routes = vec![route];
        let branches = branches.iter().filter(|branch| branch.has(header.sequence));
        routes.extend(branches.map(Branch::route).cloned());
        // Before it is read: so what comes behind it is held back, where none has room.
        self.until_room(&routes, &header, arriving.payload_bytes)
            .await;
        let payload = match arriving.collect().await {
            Ok(payload) => payload,
            // Whoever gave it up accounts for it.
            Err(error) => return routes[0].counts.dropped(error.drop_cause()),
        };
        for route in &routes {
            let mut adu = Adu {
                header,
                payload: payload.clone(),
            };
            adu.header.epoch = route.installation().epoch;
            self.enqueue(route, adu, trace.clone());
        }
    }
}

/// Returns the name of a route's plan.
pub(super) fn plan(route: &Route) -> (StreamId, Epoch) {
    let part = route.installation();
    (part.stream, part.epoch)
}
