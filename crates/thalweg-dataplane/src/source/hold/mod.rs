//! Store-and-forward at the source: holds a stream for unreachable sinks, and sends when a path exists.
//!
//! *The idea.* There is one store for the stream, and for each sink a queue of what it still needs.
//! Every ADU enters all queues, and leaves them as fast as the links accept it. So a queue is empty
//! in normal operation, grows while its sink has no plan in force, and drains when it has one. What
//! was sent re-enters the queue if the path breaks before the receipt. What all sinks have is kept
//! for later sinks: the queue of a new sink starts with the whole store.
//!
//! ```text
//! given ─► waiting ─── a plan is in force ───► sent ─── receipt ───► kept
//!             ▲ ▲                                │                     │
//!             │ └────── its path broke ──────────┘                     │  too old or too much: dropped,
//!             └────────────── another sink comes ──────────────────────┘  reported if a sink lacks it
//! ```
//!
//! The order of a queue is that of the outbox: importance, then deadline and sequence, which are
//! the same here, as all ADUs of a stream have the same lifetime. So live ADUs of higher importance
//! overtake held ones. A stream in sequence leaves by sequence.
//!
//! *What it does not do.* It sends nothing and knows no link: the driver takes the next ADU when
//! there is room for it.
//!
//! *Sources.* docs/concepts/continuity.md §5; spec RA-14, RA-15; decisions/0019.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use thalweg_base::adu::{Adu, Flags, Header, Importance};
use thalweg_base::event::DropCause;
use thalweg_base::feed::Sinkward;
use thalweg_base::id::{Epoch, NodeId, Sequence};
use thalweg_base::limits::HOLD_ADUS_MAX;
use thalweg_base::needs::{Needs, Order};
use thalweg_base::seen::Held;
use thalweg_base::time::{Duration, Instant};

mod queue;
#[cfg(test)]
mod tests;

use queue::{Queue, Rank};

/// How long after the first sink further sinks may appear of a stream that was held without any: a
/// neighbour is dialled again after 5 s at the latest, and a sink subscribes every second.
const LATE_SINKS: Duration = Duration::from_secs(6);

/// An ADU to be sent.
#[derive(Clone, Debug)]
pub struct Due {
    /// The ADU as its producer gave it.
    pub adu: Adu,
    /// The sink.
    pub sink: NodeId,
    /// The plan.
    pub plan: Epoch,
    /// How many layers the plan carries to its end.
    pub layers: u8,
}

/// An ADU that was dropped before it was ever sent.
#[derive(Clone, Copy, Debug)]
pub struct Dropped {
    /// Its header.
    pub header: Header,
    /// The reason.
    pub cause: DropCause,
    /// The sink that it was held for; `None` before the first sink.
    pub sink: Option<NodeId>,
}

/// The held ADUs of one stream.
#[derive(Debug)]
pub struct Hold {
    age: Duration,
    bytes_max: u64,
    is_in_sequence: bool,
    stored: BTreeMap<u64, Stored>,
    bytes: u64,
    /// The ADUs that some sink lacks, also a future first one, and the bytes of their payload.
    lacked: BTreeSet<u64>,
    lacked_bytes: u64,
    /// Eviction order: what is least in demand, then of least importance, then the oldest.
    eviction: BTreeSet<(Demand, Importance, u64)>,
    /// Queues by sink; that of `None` stands for the first sink to come.
    queues: BTreeMap<Option<NodeId>, Queue>,
    /// Until when further sinks may appear that were cut off like the first.
    late_sinks_until: Instant,
    /// The sink that was served last.
    last_served: Option<NodeId>,
    dropped: VecDeque<Dropped>,
}

#[derive(Debug)]
struct Stored {
    adu: Adu,
    until: Instant,
    /// The queues that hold it, and whether it was sent to that sink before.
    waiting: Vec<(Option<NodeId>, bool)>,
    /// The sinks that it was sent to.
    sent: Vec<NodeId>,
    /// Its demand, as sorted in `eviction`.
    demand: Demand,
}

/// The demand for an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Demand {
    /// All sinks have it: it is kept for later ones.
    None,
    /// It was sent to all sinks that have not acknowledged it.
    Sent,
    /// It waits to be sent.
    Waiting,
}

impl Stored {
    const fn demand(&self) -> Demand {
        if !self.waiting.is_empty() {
            Demand::Waiting
        } else if !self.sent.is_empty() {
            Demand::Sent
        } else {
            Demand::None
        }
    }

    fn rank(&self, is_in_sequence: bool) -> Rank {
        let Header {
            sequence,
            importance,
            ..
        } = self.adu.header;
        Rank {
            is_end: self.is_end(),
            inverse_importance: if is_in_sequence {
                0
            } else {
                u8::MAX - importance.0
            },
            sequence: sequence.0,
        }
    }

    fn is_end(&self) -> bool {
        self.adu.header.flags.contains(Flags::END)
    }
}

impl Hold {
    /// Returns the store for a stream with these needs; `None` if it is not held.
    pub fn new(needs: &Needs) -> Option<Self> {
        needs.is_held().then(|| Self {
            age: needs.hold,
            bytes_max: needs.hold_size.as_bytes(),
            is_in_sequence: needs.order == Order::Sequence || needs.reliability.is_ordered(),
            stored: BTreeMap::new(),
            bytes: 0,
            lacked: BTreeSet::new(),
            lacked_bytes: 0,
            eviction: BTreeSet::new(),
            queues: BTreeMap::from([(None, Queue::default())]),
            late_sinks_until: Instant::ZERO,
            last_served: None,
            dropped: VecDeque::new(),
        })
    }

    /// Handles an ADU of the producer, for all present sinks or for the first to come.
    ///
    /// Cost    O(sinks · log held)
    pub fn handle_adu(&mut self, adu: Adu, now: Instant) {
        self.expire(now);
        let sequence = adu.header.sequence.0;
        let stored = Stored {
            until: adu.header.deadline.min(now + self.age),
            waiting: self.queues.keys().map(|sink| (*sink, false)).collect(),
            sent: Vec::new(),
            demand: Demand::None,
            adu,
        };
        self.bytes += stored.adu.payload.len() as u64;
        let rank = stored.rank(self.is_in_sequence);
        for queue in self.queues.values_mut() {
            queue.waiting.insert(rank);
        }
        self.stored.insert(sequence, stored);
        self.update_order(sequence);
        while (self.bytes > self.bytes_max || self.eviction.len() > HOLD_ADUS_MAX)
            && let Some((_, _, least)) = self.eviction.first().copied()
        {
            self.drop_stored(least, DropCause::Overflow);
        }
    }

    /// Handles the present sinks and their plans in force. A new sink gets everything stored; the
    /// queue of one that is gone is cancelled.
    ///
    /// Cost    O(sinks), and for each that comes or goes O(held · log held)
    pub fn handle_sinks(&mut self, sinks: &[Sinkward], now: Instant) {
        // Expired ADUs are not queued for a new sink.
        self.expire(now);
        let known = self.queues.keys().copied().flatten();
        let is_gone = |known: &NodeId| sinks.iter().all(|there| there.sink != *known);
        let gone: Vec<NodeId> = known.filter(is_gone).collect();
        for sink in gone {
            self.forget_sink(sink);
        }
        for Sinkward { sink, plan } in sinks {
            if !self.queues.contains_key(&Some(*sink)) {
                self.add_sink(*sink);
            }
            self.queues.entry(Some(*sink)).or_default().plan = *plan;
        }
        if sinks.is_empty() {
            self.queues.entry(None).or_default();
        } else {
            self.drop_unclaimed(now);
        }
    }

    fn add_sink(&mut self, sink: NodeId) {
        let queue = self.queues.entry(Some(sink)).or_default();
        for stored in self.stored.values_mut() {
            stored.waiting.push((Some(sink), false));
            queue.waiting.insert(stored.rank(self.is_in_sequence));
        }
        self.update_all_orders();
    }

    /// Drops the queue for the first sink, now that there are sinks.
    fn drop_unclaimed(&mut self, now: Instant) {
        let Some(queue) = self.queues.remove(&None) else {
            return;
        };
        if !queue.waiting.is_empty() {
            self.late_sinks_until = now + LATE_SINKS;
        }
        for stored in self.stored.values_mut() {
            stored.waiting.retain(|(sink, _)| sink.is_some());
        }
        self.update_all_orders();
    }

    fn update_all_orders(&mut self) {
        let sequences: Vec<u64> = self.stored.keys().copied().collect();
        for sequence in sequences {
            self.update_order(sequence);
        }
    }

    fn forget_sink(&mut self, sink: NodeId) {
        let Some(queue) = self.queues.remove(&Some(sink)) else {
            return;
        };
        let lacked: BTreeSet<u64> = queue.lacked().collect();
        for sequence in lacked {
            let Some(stored) = self.stored.get_mut(&sequence) else {
                continue;
            };
            let was_new = stored.waiting.contains(&(Some(sink), false));
            stored.waiting.retain(|(other, _)| *other != Some(sink));
            stored.sent.retain(|other| *other != sink);
            if was_new && !stored.is_end() {
                self.dropped.push_back(Dropped {
                    header: stored.adu.header,
                    cause: DropCause::Cancelled,
                    sink: Some(sink),
                });
            }
            self.update_order(sequence);
        }
    }

    /// Handles the loss of the paths of these plans for a sink: what was sent under them re-enters
    /// its queue.
    ///
    /// Cost    O(sent · log held)
    pub fn handle_broken(&mut self, sink: NodeId, plans: &[Epoch]) {
        self.requeue(sink, true, |_, plan| plans.contains(&plan));
    }

    /// Handles a plan that cannot be used just now: its queue waits for the next [`Hold::handle_sinks`].
    pub fn handle_astray(&mut self, due: &Due) {
        let sequence = due.adu.header.sequence.0;
        self.requeue(due.sink, false, |other, plan| {
            other == sequence && plan == due.plan
        });
        if let Some(queue) = self.queues.get_mut(&Some(due.sink)) {
            queue.plan = None;
        }
    }

    fn requeue(&mut self, sink: NodeId, was_sent: bool, is_it: impl Fn(u64, Epoch) -> bool) {
        let Some(queue) = self.queues.get_mut(&Some(sink)) else {
            return;
        };
        let sent = &mut queue.sent;
        let requeued = sent.extract_if(.., |sequence, plan| is_it(*sequence, *plan));
        let requeued: Vec<u64> = requeued.map(|(sequence, _)| sequence).collect();
        for sequence in &requeued {
            if let Some(stored) = self.stored.get_mut(sequence) {
                stored.sent.retain(|other| *other != sink);
                stored.waiting.push((Some(sink), was_sent));
                queue.waiting.insert(stored.rank(self.is_in_sequence));
            }
        }
        for sequence in requeued {
            self.update_order(sequence);
        }
    }

    /// Handles a receipt of a sink.
    ///
    /// Cost    O(its unacknowledged ADUs · log held)
    pub fn handle_receipt(&mut self, sink: NodeId, held: &Held) {
        let Some(queue) = self.queues.get(&Some(sink)) else {
            return;
        };
        let has = |sequence: &u64| held.has(Sequence(*sequence));
        let had: Vec<u64> = queue.lacked().filter(has).collect();
        for sequence in had {
            self.forget(sink, sequence);
        }
    }

    /// Returns how many ADUs sent by a plan its sink lacks, though it has later ones.
    ///
    /// Cost    O(sent · log held)
    pub fn missing(&self, sink: NodeId, plan: Epoch, held: &Held, now: Instant) -> u64 {
        let Some(queue) = self.queues.get(&Some(sink)) else {
            return 0;
        };
        let missing = queue.sent.iter().filter(|(sequence, by)| {
            let stored = self.stored.get(sequence);
            let is_held = stored.is_some_and(|stored| now < stored.until);
            is_held && **by == plan && held.lacks(Sequence(**sequence))
        });
        missing.count() as u64
    }

    /// Drops an ADU for a sink: the sink has it, or its plan does not carry that layer so far.
    pub fn forget(&mut self, sink: NodeId, sequence: u64) {
        let Some(stored) = self.stored.get_mut(&sequence) else {
            return;
        };
        stored.waiting.retain(|(other, _)| *other != Some(sink));
        stored.sent.retain(|other| *other != sink);
        if let Some(queue) = self.queues.get_mut(&Some(sink)) {
            queue.waiting.remove(&stored.rank(self.is_in_sequence));
            queue.sent.remove(&sequence);
        }
        self.update_order(sequence);
    }

    /// Returns the next ADU to be sent, if one can be, and counts it as sent. Sinks take turns
    /// (round robin).
    ///
    /// Cost    O(sinks + log held)
    pub fn poll_due(&mut self, now: Instant) -> Option<Due> {
        loop {
            let (sink, sequence, (plan, layers)) = self.next()?;
            self.last_served = Some(sink);
            let stored = self.stored.get_mut(&sequence)?;
            if stored.until <= now {
                self.drop_stored(sequence, DropCause::Expired);
                continue;
            }
            stored.waiting.retain(|(other, _)| *other != Some(sink));
            stored.sent.push(sink);
            let adu = stored.adu.clone();
            if let Some(queue) = self.queues.get_mut(&Some(sink)) {
                queue.waiting.remove(&stored.rank(self.is_in_sequence));
                queue.sent.insert(sequence, plan);
            }
            self.update_order(sequence);
            return Some(Due {
                adu,
                sink,
                plan,
                layers,
            });
        }
    }

    /// Returns the payload bytes of the next ADU to be sent, if one can be.
    ///
    /// Cost    O(sinks + log held)
    pub fn next_bytes(&self) -> Option<u64> {
        let (_, sequence, _) = self.next()?;
        let stored = self.stored.get(&sequence)?;
        Some(stored.adu.payload.len() as u64)
    }

    /// Returns the sink that is next in turn, the sequence of its next ADU, and its plan.
    fn next(&self) -> Option<(NodeId, u64, (Epoch, u8))> {
        let ready = self.queues.iter().filter_map(|(sink, queue)| {
            let next = queue.next()?;
            Some(((*sink)?, next.sequence, queue.plan?))
        });
        // The first sink after the last one served, or else the first of all.
        ready.min_by_key(|(sink, ..)| (Some(*sink) <= self.last_served, *sink))
    }

    /// Returns the next dropped ADU that has not been reported.
    pub fn poll_dropped(&mut self) -> Option<Dropped> {
        self.dropped.pop_front()
    }

    /// Returns when nothing more will be worth sending, unless receipts show earlier that all has
    /// arrived. This waits also for sinks that may follow the first.
    ///
    /// Cost    O(log held)
    pub fn poll_settled(&self) -> Instant {
        // Deadlines grow with the sequence, so the last is due last.
        let last = self.lacked.last().and_then(|last| self.stored.get(last));
        let lacked_until = last.map_or(Instant::ZERO, |stored| stored.until);
        lacked_until.max(self.late_sinks_until)
    }

    /// Returns whether a producer that can wait should (backpressure): unacknowledged ADUs take
    /// more than half of the room, and they are draining.
    ///
    /// Cost    O(sinks)
    pub fn is_pressed(&self) -> bool {
        let (adus, bytes) = self.lacked();
        let is_full = bytes > self.bytes_max / 2 || adus > HOLD_ADUS_MAX / 2;
        is_full && self.queues.values().any(Queue::is_draining)
    }

    /// Returns the number of held ADUs and their payload bytes, with those that all sinks have.
    pub fn size(&self) -> (usize, u64) {
        (self.stored.len(), self.bytes)
    }

    /// Returns the number of ADUs that some sink lacks, also a future first one, and their payload
    /// bytes. Those that were sent and are not acknowledged count.
    pub fn lacked(&self) -> (usize, u64) {
        (self.lacked.len(), self.lacked_bytes)
    }

    /// Drops what has expired. Deadlines grow with the sequence, except for the end of a stream.
    pub fn expire(&mut self, now: Instant) {
        while let Some((sequence, first)) = self.stored.first_key_value()
            && first.until <= now
        {
            self.drop_stored(*sequence, DropCause::Expired);
        }
    }

    /// Drops an ADU for all sinks. What was sent is accounted for by the nodes that had it.
    fn drop_stored(&mut self, sequence: u64, cause: DropCause) {
        let Some(stored) = self.stored.get_mut(&sequence) else {
            return;
        };
        let (header, is_end) = (stored.adu.header, stored.is_end());
        let rank = stored.rank(self.is_in_sequence);
        for (sink, was_sent) in core::mem::take(&mut stored.waiting) {
            if let Some(queue) = self.queues.get_mut(&sink) {
                queue.waiting.remove(&rank);
            }
            if !was_sent && !is_end {
                let unclaimed = DropCause::NoSubscriber;
                self.dropped.push_back(Dropped {
                    header,
                    cause: sink.map_or(unclaimed, |_| cause),
                    sink,
                });
            }
        }
        for sink in core::mem::take(&mut stored.sent) {
            if let Some(queue) = self.queues.get_mut(&Some(sink)) {
                queue.sent.remove(&sequence);
            }
        }
        self.update_order(sequence);
        self.eviction
            .remove(&(Demand::None, header.importance, sequence));
        if let Some(gone) = self.stored.remove(&sequence) {
            self.bytes -= gone.adu.payload.len() as u64;
        }
    }

    /// Updates the position of an ADU in the eviction order and the totals.
    fn update_order(&mut self, sequence: u64) {
        let Some(stored) = self.stored.get_mut(&sequence) else {
            return;
        };
        let demand = stored.demand();
        let before = core::mem::replace(&mut stored.demand, demand);
        // The end shows how much is missing and has no payload, so it is never evicted.
        if !stored.is_end() {
            let importance = stored.adu.header.importance;
            self.eviction.remove(&(before, importance, sequence));
            self.eviction.insert((demand, importance, sequence));
        }
        let bytes = stored.adu.payload.len() as u64;
        if demand != Demand::None && self.lacked.insert(sequence) {
            self.lacked_bytes += bytes;
        } else if demand == Demand::None && self.lacked.remove(&sequence) {
            self.lacked_bytes -= bytes;
        }
    }
}
