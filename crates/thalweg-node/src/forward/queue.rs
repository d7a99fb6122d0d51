//! Queues that let each plan of a stream run at its own pace, for streams that repair what their
//! sinks miss.
//!
//! *The idea.* ADUs of such a stream travel in order on each path. Where paths part, each plan has
//! a short queue here and a task that drains it at its link's rate. An ADU is read once one of the
//! queues has room, so the fastest link sets the pace. The ADU goes into each queue with room;
//! elsewhere it is dropped and counted, and that plan's sink asks the producer for it.
//!
//! ```text
//!              ┌─► ▒▒▒▒▒▒ e1 ─► slow link     full: the ADU is dropped, e1's sink will ask for it
//!  ADU of e1 ──┤
//!              └─► ▒····· e2 ─► fast link     has room: the ADU is read
//! ```
//!
//! *What it does not do.* It repairs nothing; the stream's application does
//! (`thalweg_transfer`).
//!
//! *Sources.* docs/concepts/recast.md §1; decisions/0024.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thalweg_base::adu::{Adu, Header};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::trace::Trace;
use thalweg_dataplane::route::has_room;
use thalweg_net::Arriving;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::cast::Branches;
use super::{Forwarder, Route, Table, read, write};

/// An ADU in the queue of a plan's route.
type Item = (Arc<Route>, Adu, Option<Box<Trace>>);

/// The queues of all plans that run at their own pace.
#[derive(Default)]
pub(super) struct Queues {
    of_plan: Table<(StreamId, Epoch), Queue>,
    /// Notified when a queue has become shorter.
    drained: Notify,
}

#[derive(Clone)]
struct Queue {
    items: UnboundedSender<Item>,
    /// ADUs that were queued and have not left over the link yet.
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

    /// Forgets a plan. Its queued ADUs are still sent; waiters for room are woken.
    pub(super) fn forget(&self, plan: (StreamId, Epoch)) {
        write(&self.of_plan).remove(&plan);
        self.drained.notify_waiters();
    }

    /// Waits until a plan's queued ADUs have left.
    pub(super) async fn wait_empty(&self, plan: (StreamId, Epoch)) {
        let Some(queue) = read(&self.of_plan).get(&plan).cloned() else {
            return;
        };
        self.wait_drained(|| queue.length.load(Relaxed) == 0).await;
    }

    /// Waits until `condition` holds; checks it each time a queue gets shorter.
    async fn wait_drained(&self, condition: impl Fn() -> bool) {
        loop {
            let drained = self.drained.notified();
            tokio::pin!(drained);
            // Register before the check, so that a notification in between is not missed.
            drained.as_mut().enable();
            if condition() {
                return;
            }
            drained.await;
        }
    }
}

impl Forwarder {
    /// Waits until one of these routes of a stream has room for an ADU.
    pub(crate) async fn wait_room(
        &self,
        routes: &[Arc<Route>],
        header: &Header,
        payload_bytes: usize,
    ) {
        let has_room = |route: &Arc<Route>| {
            let queues = read(&self.queues.of_plan);
            // A route without a queue counts as empty.
            let queue = queues.get(&plan(route));
            queue.is_none_or(|queue| queue.has_room(header, payload_bytes))
        };
        let has_any_room = || routes.is_empty() || routes.iter().any(has_room);
        self.queues.wait_drained(has_any_room).await;
    }

    /// Puts a whole ADU into its plan's queue; if the queue is full, drops and counts the ADU.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        route: &Arc<Route>,
        adu: Adu,
        trace: Option<Box<Trace>>,
    ) {
        let queue = {
            let mut queues = write(&self.queues.of_plan);
            // Checked under the queue lock: removal deletes the route first and the queue second,
            // so a queue created here after that would leak.
            if !read(&self.routes).contains_key(&plan(route)) {
                drop(queues);
                return route.refused(&adu.header, DropCause::PathLost);
            }
            let spawn = || self.spawn_queue();
            queues.entry(plan(route)).or_insert_with(spawn).clone()
        };
        if !queue.has_room(&adu.header, adu.payload.len()) {
            return route.refused(&adu.header, DropCause::Overflow);
        }
        queue.length.fetch_add(1, Relaxed);
        // The queue's task outlives all senders, so the send succeeds.
        let _ = queue.items.send((Arc::clone(route), adu, trace));
    }

    fn spawn_queue(self: &Arc<Self>) -> Queue {
        let (items, mut taken) = unbounded_channel::<Item>();
        let queue = Queue {
            items,
            length: Arc::default(),
        };
        // A strong reference would be a cycle: the forwarder owns the queue.
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

    /// Carries an arriving ADU along its own route and the routes of all branches, each at its own
    /// pace.
    pub(super) async fn fan_out(
        self: &Arc<Self>,
        route: Arc<Route>,
        branches: Branches,
        arriving: Arriving,
        trace: Option<Box<Trace>>,
    ) {
        let header = arriving.header;
        let mut routes = vec![route];
        let branches = branches.having(header.sequence);
        routes.extend(branches.map(|branch| Arc::clone(branch.with.route())));
        // Wait before reading: while no queue has room, this applies backpressure to the link.
        self.wait_room(&routes, &header, arriving.payload_bytes)
            .await;
        let payload = match arriving.collect().await {
            Ok(payload) => payload,
            // The node that gave the rest up accounts for the ADU.
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

/// Returns the stream and epoch of a route's plan.
pub(super) fn plan(route: &Route) -> (StreamId, Epoch) {
    let part = route.installation();
    (part.stream, part.epoch)
}
