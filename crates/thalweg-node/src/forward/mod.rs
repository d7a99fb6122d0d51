//! The data path of a node: from a link or a producer to the next link or to mailboxes.
//!
//! *The idea.* What happens to an ADU is decided by the machine that the simulator drives too
//! ([`thalweg_dataplane::relay`]). Each stream has one, in a [`Lane`], which carries its decisions out
//! with links and mailboxes. This module finds the lane of an ADU, and hands it what the control task
//! orders. An ADU that passes unchanged is forwarded while it still arrives (cut-through), without a
//! copy. Each ADU that is dropped is counted with its cause.
//!
//! *What it does not do.* It chooses no plans (`control` does) and knows no sockets (`thalweg-net`
//! does).
//!
//! *Sources.* design.md, "Data path"; docs/decisions/0038; spec PA-29, PA-32, PA-33.

mod drops;
mod lag;
mod lane;
mod ledger;
mod mailbox;
mod offered;
mod trace;
mod ways;

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock};

use thalweg_base::count::Counts;
use thalweg_base::feed::Feed;
use thalweg_base::id::{Epoch, NodeId, StreamId, StreamName};
use thalweg_base::seen::{Held, News};
use thalweg_base::time::{Duration, Instant};
use thalweg_control::control::{Installation, Secrets};
use thalweg_dataplane::lift::SpecError;
use thalweg_dataplane::packet::Pool;
use thalweg_dataplane::relay::SendNumber;
use thalweg_dataplane::replay::{Budget, Plan};
use thalweg_dataplane::route::Route;
use thalweg_net::{Arriving, Clock, EndedAdu, Link, OrderedId, StreamCode};
use tokio::sync::watch;

#[cfg(test)]
pub(crate) use drops::DropLog;
pub(crate) use drops::{INTERVAL as DROP_INTERVAL, Place as DropPlace, Record as DropRecord};
use lag::LagMeter;
pub(crate) use lag::measure as measure_lag;
use lane::Ending;
pub(crate) use lane::Lane;
use lane::Taken;
pub use ledger::{Exposure, StreamReading};
pub(crate) use ledger::{Ledger, StreamCounts};
#[cfg(test)]
pub(crate) use mailbox::{Delivered, Delivery};
pub(crate) use mailbox::{Inbox, Mail, Mailbox, Mailboxes, Reading as MailboxReading};
pub(crate) use offered::Offered;
pub(crate) use trace::Traces;
use ways::Ways;

/// A map that is looked up for each ADU.
type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

type Table<K, V> = RwLock<Map<K, V>>;

/// The lanes, links and mailboxes of a node, shared by every task that carries ADUs.
pub(crate) struct Forwarder {
    pub(crate) clock: Clock,
    pub(crate) pool: Pool,
    pub(crate) ledger: Ledger,
    pub(crate) mailboxes: Arc<Mailboxes>,
    pub(crate) traces: Arc<Traces>,
    /// Only the control task adds and removes lanes, links and plans.
    lanes: Table<StreamId, Arc<Lane>>,
    ways: Arc<Ways>,
    /// What all lanes keep for sinks that join late.
    budget: Budget,
    /// Counts changes of plans and links.
    path_changes: watch::Sender<u64>,
}

impl Forwarder {
    pub(crate) fn new(clock: Clock, pool: Pool) -> Self {
        let (mailboxes, traces) = (Arc::default(), Arc::default());
        Self {
            clock,
            pool,
            ledger: Ledger::default(),
            lanes: Table::default(),
            ways: Arc::new(Ways::new(clock, &mailboxes, Arc::clone(&traces))),
            mailboxes,
            traces,
            budget: Budget::default(),
            path_changes: watch::Sender::default(),
        }
    }

    /// Returns the lane of a stream, if it has one.
    fn lane(&self, stream: StreamId) -> Option<Arc<Lane>> {
        read(&self.lanes).get(&stream).map(Arc::clone)
    }

    /// Returns the lane of a stream, made at first use.
    pub(crate) fn lane_of(&self, stream: StreamId, name: &StreamName) -> Arc<Lane> {
        let mut lanes = write(&self.lanes);
        let made = || {
            let counts = self.ledger.row(stream, name);
            let neighbours = self.ways.links().into_iter().map(|link| link.peer());
            let (ways, budget) = (Arc::clone(&self.ways), self.budget.clone());
            Lane::new((stream, name.clone()), counts, ways, budget, neighbours)
        };
        Arc::clone(lanes.entry(stream).or_insert_with(made))
    }

    /// Installs a part of a plan; it replaces the plan's previous part.
    ///
    /// Fails   if an adapter is unknown or a key is missing
    pub(crate) fn install(
        &self,
        installation: Installation,
        secrets: Secrets,
    ) -> Result<(), SpecError> {
        let (stream, name) = (installation.stream, installation.name.clone());
        let (route, lift) = Route::build(installation, secrets, self.pool.clone())?;
        self.lane_of(stream, &name).install(route, lift);
        self.notify_paths_changed();
        Ok(())
    }

    pub(crate) fn remove(&self, stream: StreamId, epoch: Epoch) {
        if let Some(lane) = self.lane(stream) {
            lane.remove(epoch);
        }
        self.notify_paths_changed();
    }

    /// Starts, ends or bounds the copies to a plan that is grafted here. Starting one that already
    /// runs changes nothing.
    pub(crate) fn cast(&self, stream: StreamId, epoch: Epoch, feed: Feed) {
        if let Some(lane) = self.lane(stream) {
            lane.cast(epoch, feed);
        }
    }

    /// Starts over for new subscribers of a stream: nothing of it has arrived for them, and ADUs of
    /// plans up to `former` are not theirs.
    pub(crate) fn restart_arrivals(&self, stream: StreamId, former: Option<Epoch>) {
        if let Some(lane) = self.lane(stream) {
            lane.restart_arrivals(former);
        }
    }

    /// Resumes a stream: what its installed plans bring is for its subscribers.
    pub(crate) fn resume_arrivals(&self, stream: StreamId) {
        if let Some(lane) = self.lane(stream) {
            lane.resume_arrivals();
        }
    }

    /// Forgets a stream that no plan brings here and no subscriber wants.
    pub(crate) fn forget_arrivals(&self, stream: StreamId) {
        if let Some(lane) = self.lane(stream) {
            lane.forget_arrivals();
        }
    }

    /// Forgets what a stream had while it was published here.
    pub(crate) fn withdraw(&self, stream: StreamId) {
        if let Some(lane) = self.lane(stream) {
            lane.withdraw();
        }
    }

    /// Drops the lanes that nothing needs any more, and then the counters of streams that were over
    /// for long. `announced` is called only if it matters.
    pub(crate) fn sweep(&self, now: Instant, announced: impl FnOnce() -> BTreeSet<StreamId>) {
        let mut resting = BTreeSet::new();
        write(&self.lanes).retain(|stream, lane| {
            // A lane that another task has taken out of the table may be about to send.
            if Arc::strong_count(lane) > 1 || !lane.is_resting() {
                return true;
            }
            let is_kept = lane.has_arrivals();
            if is_kept {
                resting.insert(*stream);
            }
            is_kept
        });
        self.ledger.sweep(now, &resting, announced);
    }

    /// Returns how long the last batch of received ADUs took to hand on.
    pub(crate) fn lag(&self) -> Duration {
        self.ways.lag.last()
    }

    /// Returns the next node of a plan; `None` at its sink, or if it is not installed.
    pub(crate) fn next(&self, stream: StreamId, epoch: Epoch) -> Option<NodeId> {
        self.lane(stream)?.next(epoch)
    }

    /// Returns all installed plans, each with its next node.
    pub(crate) fn plans(&self) -> Vec<(Plan, Option<NodeId>)> {
        let lanes = read(&self.lanes);
        lanes.values().flat_map(|lane| lane.plans()).collect()
    }

    /// Returns a plan's load on its next link, if it is installed.
    pub(crate) fn offered(&self, plan: Plan) -> Option<Offered> {
        self.lane(plan.0)?.offered(plan)
    }

    /// Returns the name of a stream with a lane.
    pub(crate) fn name(&self, stream: StreamId) -> Option<StreamName> {
        Some(self.lane(stream)?.name().clone())
    }

    pub(crate) fn link_up(&self, link: Link) {
        let peer = link.peer();
        let exposure = self.ledger.exposure(peer);
        self.ways.link_up(link, exposure);
        self.handle_link(peer, true);
    }

    pub(crate) fn link_down(&self, peer: NodeId) {
        self.ways.link_down(peer);
        self.handle_link(peer, false);
    }

    fn handle_link(&self, peer: NodeId, is_up: bool) {
        let lanes = read(&self.lanes);
        lanes
            .values()
            .for_each(|lane| lane.handle_link(peer, is_up));
        drop(lanes);
        self.notify_paths_changed();
    }

    /// Returns a watch that changes with each change of a plan or a link.
    pub(crate) fn watch_paths(&self) -> watch::Receiver<u64> {
        self.path_changes.subscribe()
    }

    fn notify_paths_changed(&self) {
        self.path_changes.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn link(&self, peer: NodeId) -> Option<Link> {
        self.ways.onward(peer).map(|onward| onward.link)
    }

    pub(crate) fn links(&self) -> Vec<Link> {
        self.ways.links()
    }

    /// Handles an ADU that arrives over a link.
    pub(crate) async fn handle_adu(&self, from: &Link, adu: Arriving) {
        let mut taking = pin!(self.take(from, adu));
        let mut is_first = true;
        // Only the first poll is this node's own work; later polls wait for the network.
        poll_fn(|context| {
            let taken = taking.as_mut().poll(context);
            if std::mem::take(&mut is_first) {
                self.ways.lag.measure();
            }
            taken
        })
        .await;
    }

    async fn take(&self, from: &Link, adu: Arriving) {
        let Some(lane) = self.lane(adu.header.stream) else {
            self.ledger.count_unknown();
            return adu.body.refuse(StreamCode::UnknownStream);
        };
        match lane.take(from.peer(), adu) {
            Taken::Done => {}
            Taken::Refused(body, code, is_unknown) => {
                if is_unknown {
                    self.ledger.count_unknown();
                }
                body.refuse(code);
            }
            Taken::Begun(reception) => reception.collect().await,
        }
    }

    /// Handles the outcomes of ADUs that lanes sent, each under its number: all of a stream at once.
    pub(crate) fn handle_outcomes(&self, ended: &[EndedAdu]) {
        let mut ended: Vec<&EndedAdu> = ended.iter().collect();
        // Stable, so those of a stream keep their order.
        ended.sort_by_key(|adu| adu.header.stream);
        for of_stream in ended.chunk_by(|one, next| one.header.stream == next.header.stream) {
            // A lane stays as long as an ADU of its is under way.
            if let Some(lane) = self.lane(of_stream[0].header.stream) {
                lane.handle_endings(of_stream.iter().map(|adu| Ending {
                    peer: adu.link.peer(),
                    header: &adu.header,
                    number: SendNumber::from_u64(adu.token),
                    outcome: adu.outcome,
                }));
            }
        }
    }

    /// Ends the ordered sequences of a stream that start here, and waits until the next nodes have
    /// them whole.
    pub(crate) async fn flush(&self, stream: StreamId) {
        let Some(lane) = self.lane(stream) else {
            return;
        };
        for (epoch, next) in lane.ordered() {
            lane.wait_turn(&[epoch]).await;
            if let Some(link) = next.and_then(|next| self.link(next)) {
                link.finish_ordered(OrderedId { stream, epoch }).await;
            }
        }
    }

    /// Waits until counts or arrivals must be reported at once.
    pub(crate) async fn urgent(&self) {
        self.ways.urgent.notified().await;
    }

    /// Returns the plans whose counts have changed, of the streams whose counts were last read at
    /// least `age` ago.
    ///
    /// The caller reads them one by one: the counters of hundreds of plans do not fit into a cache.
    pub(crate) fn take_due(&self, now: Instant, age: Duration) -> Vec<Plan> {
        let lanes = read(&self.lanes);
        let due = lanes.values().flat_map(|lane| lane.take_due(now, age));
        due.collect()
    }

    /// Returns the counts of a plan if they have changed since they were last taken.
    pub(crate) fn take_counts(&self, plan: Plan) -> Option<Counts> {
        self.lane(plan.0)?.take_counts(plan)
    }

    /// Returns the changed arrivals of each stream since the last call, with their urgency. Of a
    /// blocked stream only the end is reported.
    pub(crate) fn take_news(&self) -> Vec<(StreamId, Held, News)> {
        let lanes = read(&self.lanes);
        let changed = lanes.iter().filter(|(_, lane)| lane.has_news());
        let changed = changed.filter_map(|(stream, lane)| {
            // Read first: a mailbox's lock comes before a lane's.
            let is_blocked = self.mailboxes.is_blocked(*stream);
            let (held, news) = lane.take_news(is_blocked)?;
            Some((*stream, held, news))
        });
        changed.collect()
    }

    /// Makes the next link of a plan report the outcomes that it knows by now.
    pub(crate) fn catch_up(&self, (stream, epoch): Plan) {
        let next = self.next(stream, epoch);
        if let Some(link) = next.and_then(|next| self.link(next)) {
            link.catch_up();
        }
    }
}

/// No code that can panic runs under these locks, so the value behind a poisoned lock is intact.
fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
