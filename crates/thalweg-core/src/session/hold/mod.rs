//! What a source holds of a stream for sinks to which there is no way, and carries on when there is one.
//!
//! *The idea.* One store for the stream, and for each sink a queue of what is still to be sent to it. Whatever is given goes
//! into the queues, and leaves them as fast as the links take it; so a queue is empty while all is well, grows while its sink
//! has no plan in force, and drains when it has one. What was sent is back in the queue if the way breaks before the sink says that it
//! has it. What all sinks have is kept for who comes: the queue of a sink that is new begins with all that the store has.
//!
//! ```text
//! given ─► waiting ─── a plan is in force ───► sent ─── receipt ───► kept
//!             ▲ ▲                                │                     │
//!             │ └─────── its way broke ──────────┘                     │     too old, or too much: dropped, and told why
//!             └────────────── another sink comes ──────────────────────┘     if a sink lacks it
//! ```
//!
//! A queue is the outbox's beginning, and has its order: importance, then deadline and sequence, which are one here, for all
//! ADUs of a stream are given the same time. So what is live and matters more overtakes what was held. A stream in
//! sequence leaves by sequence. The end of a stream is sent when the sink has all else.
//!
//! Before the first sink there is one queue for whoever comes. Of others who were cut off with the first some come a little after it, so
//! for that long a stream does not count as through.
//!
//! *What it does not do.* It sends nothing and knows no link: the driver asks for the next when there is room for it.
//!
//! *Sources.* docs/continuity.md §5; spec RA-14, RA-15; decisions/0019.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::adu::{Adu, Flags, Header, Importance};
use crate::event::DropCause;
use crate::id::{Epoch, NodeId, Sequence};
use crate::limits::HOLD_ADUS_MAX;
use crate::mailbox::Held;
use crate::needs::{Needs, Order};
use crate::time::{Duration, Instant};

mod queue;
#[cfg(test)]
mod tests;

use queue::{Queue, Rank};

/// How long after the first sink of a stream that was held for whoever comes others may come: a neighbour is dialled again after 5 s at
/// the latest, and who wants a stream asks every second.
const OTHERS: Duration = Duration::from_secs(6);

/// A sink of a stream that is held, and the plan in force for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sinkward {
    /// Who.
    pub sink: NodeId,
    /// The plan, if there is one, and how many layers it carries to its end.
    pub plan: Option<(Epoch, u8)>,
}

/// An ADU that is to be sent.
#[derive(Clone, Debug)]
pub struct Due {
    /// The ADU as its producer gave it.
    pub adu: Adu,
    /// For whom.
    pub sink: NodeId,
    /// Under which plan.
    pub plan: Epoch,
    /// How many layers that carries to its end.
    pub layers: u8,
}

/// An ADU that was given up, and had never been sent.
#[derive(Clone, Copy, Debug)]
pub struct Dropped {
    /// Its header.
    pub header: Header,
    /// Why.
    pub cause: DropCause,
    /// For whom it was held; `None` for whoever comes.
    pub sink: Option<NodeId>,
}

/// What is held of one stream.
#[derive(Debug)]
pub struct Hold {
    age: Duration,
    bytes_max: u64,
    is_in_sequence: bool,
    stored: BTreeMap<u64, Stored>,
    bytes: u64,
    /// What some sink lacks, or whoever comes, and its payload.
    lacked: BTreeSet<u64>,
    lacked_bytes: u64,
    /// What goes first when there is no room: what is lacked least, then what matters least, then the oldest.
    lesser: BTreeSet<(Lack, Importance, u64)>,
    /// By sink; of `None` while there is none.
    queues: BTreeMap<Option<NodeId>, Queue>,
    /// Until when others may come who were cut off with the first sink.
    others_until: Instant,
    /// Whose turn was last.
    served: Option<NodeId>,
    dropped: VecDeque<Dropped>,
}

#[derive(Debug)]
struct Stored {
    adu: Adu,
    until: Instant,
    /// In whose queues it is, and whether it was sent there before.
    waiting: Vec<(Option<NodeId>, bool)>,
    /// To whom it was sent.
    sent: Vec<NodeId>,
    /// As it has its place among those that may have to go.
    lack: Lack,
}

/// How much an ADU is lacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    /// All sinks have it: it is kept for others.
    Nobody,
    /// It was sent to all that have not said that they have it.
    Sent,
    /// It waits to be sent.
    Waits,
}

impl Stored {
    const fn lack(&self) -> Lack {
        if !self.waiting.is_empty() {
            Lack::Waits
        } else if !self.sent.is_empty() {
            Lack::Sent
        } else {
            Lack::Nobody
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
            lesser: if is_in_sequence {
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
    /// Returns a store by what a stream needs; `None` if it is not to be held.
    pub fn new(needs: &Needs) -> Option<Self> {
        needs.is_held().then(|| Self {
            age: needs.hold,
            bytes_max: needs.hold_size.as_bytes(),
            is_in_sequence: needs.order == Order::Sequence || needs.reliability.is_ordered(),
            stored: BTreeMap::new(),
            bytes: 0,
            lacked: BTreeSet::new(),
            lacked_bytes: 0,
            lesser: BTreeSet::new(),
            queues: BTreeMap::from([(None, Queue::default())]),
            others_until: Instant::ZERO,
            served: None,
            dropped: VecDeque::new(),
        })
    }

    /// Takes in an ADU that is given, for all sinks that there are, or for whoever comes.
    ///
    /// Cost    O(sinks · log held)
    pub fn handle_adu(&mut self, adu: Adu, now: Instant) {
        self.expire(now);
        let sequence = adu.header.sequence.0;
        let stored = Stored {
            until: adu.header.deadline.min(now + self.age),
            waiting: self.queues.keys().map(|sink| (*sink, false)).collect(),
            sent: Vec::new(),
            lack: Lack::Nobody,
            adu,
        };
        self.bytes += stored.adu.payload.len() as u64;
        let rank = stored.rank(self.is_in_sequence);
        for queue in self.queues.values_mut() {
            queue.waiting.insert(rank);
        }
        self.stored.insert(sequence, stored);
        self.sort(sequence);
        while (self.bytes > self.bytes_max || self.lesser.len() > HOLD_ADUS_MAX)
            && let Some((_, _, least)) = self.lesser.first().copied()
        {
            self.drop_stored(least, DropCause::Overflow);
        }
    }

    /// Takes in who the sinks are now, and which plans are in force. One that is new is sent all that is stored; what is waited with
    /// for one that is gone is not wanted by it any more.
    ///
    /// Cost    O(sinks), and of each that comes or goes O(held · log held)
    pub fn handle_sinks(&mut self, sinks: &[Sinkward], now: Instant) {
        // What is too old is given to nobody who comes.
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
            self.end_waiting_for_any(now);
        }
    }

    fn add_sink(&mut self, sink: NodeId) {
        let queue = self.queues.entry(Some(sink)).or_default();
        for stored in self.stored.values_mut() {
            stored.waiting.push((Some(sink), false));
            queue.waiting.insert(stored.rank(self.is_in_sequence));
        }
        self.sort_all();
    }

    /// Takes in that there are sinks: nothing waits for whoever comes any more.
    fn end_waiting_for_any(&mut self, now: Instant) {
        let Some(queue) = self.queues.remove(&None) else {
            return;
        };
        if !queue.waiting.is_empty() {
            self.others_until = now + OTHERS;
        }
        for stored in self.stored.values_mut() {
            stored.waiting.retain(|(sink, _)| sink.is_some());
        }
        self.sort_all();
    }

    fn sort_all(&mut self) {
        let sequences: Vec<u64> = self.stored.keys().copied().collect();
        for sequence in sequences {
            self.sort(sequence);
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
            self.sort(sequence);
        }
    }

    /// Takes in that the ways of these plans for a sink broke: what was sent under them is to be sent again.
    ///
    /// Cost    O(sent · log held)
    pub fn handle_broken(&mut self, sink: NodeId, plans: &[Epoch]) {
        self.recall(sink, true, |_, plan| plans.contains(&plan));
    }

    /// Takes in that a plan cannot be sent under just now; another word on the sinks says when again.
    pub fn handle_astray(&mut self, due: &Due) {
        let sequence = due.adu.header.sequence.0;
        self.recall(due.sink, false, |other, plan| {
            other == sequence && plan == due.plan
        });
        if let Some(queue) = self.queues.get_mut(&Some(due.sink)) {
            queue.plan = None;
        }
    }

    fn recall(&mut self, sink: NodeId, was_sent: bool, is_it: impl Fn(u64, Epoch) -> bool) {
        let Some(queue) = self.queues.get_mut(&Some(sink)) else {
            return;
        };
        let sent = &mut queue.sent;
        let recalled = sent.extract_if(.., |sequence, plan| is_it(*sequence, *plan));
        let recalled: Vec<u64> = recalled.map(|(sequence, _)| sequence).collect();
        for sequence in &recalled {
            if let Some(stored) = self.stored.get_mut(sequence) {
                stored.sent.retain(|other| *other != sink);
                stored.waiting.push((Some(sink), was_sent));
                queue.waiting.insert(stored.rank(self.is_in_sequence));
            }
        }
        for sequence in recalled {
            self.sort(sequence);
        }
    }

    /// Takes in what a sink says that it has.
    ///
    /// Cost    O(what it lacks · log held)
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

    /// Returns how many of those that went by a plan its sink is known to lack, though it has later ones.
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

    /// Keeps an ADU no longer for a sink: it has it, or its plan does not carry that layer so far.
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
        self.sort(sequence);
    }

    /// Returns what is to be sent next, if anything can be; sinks take turns. It counts as sent.
    ///
    /// Cost    O(sinks + log held)
    pub fn poll_due(&mut self, now: Instant) -> Option<Due> {
        loop {
            let (sink, sequence, (plan, layers)) = self.next()?;
            self.served = Some(sink);
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
            self.sort(sequence);
            return Some(Due {
                adu,
                sink,
                plan,
                layers,
            });
        }
    }

    /// Returns how many payload bytes what can be sent next has, if anything can be.
    ///
    /// Cost    O(sinks + log held)
    pub fn next_bytes(&self) -> Option<u64> {
        let (_, sequence, _) = self.next()?;
        let stored = self.stored.get(&sequence)?;
        Some(stored.adu.payload.len() as u64)
    }

    /// Finds the sink whose turn it is, its next ADU, and its plan.
    fn next(&self) -> Option<(NodeId, u64, (Epoch, u8))> {
        let ready = self.queues.iter().filter_map(|(sink, queue)| {
            let next = queue.next()?;
            Some(((*sink)?, next.sequence, queue.plan?))
        });
        // The first behind the last that was served, or the first of all.
        ready.min_by_key(|(sink, ..)| (Some(*sink) <= self.served, *sink))
    }

    /// Returns what was given up since the last time, one by one.
    pub fn poll_dropped(&mut self) -> Option<Dropped> {
        self.dropped.pop_front()
    }

    /// Returns when nothing will be worth sending any more, unless sinks say sooner that they have all: also none that may come after
    /// the first.
    ///
    /// Cost    O(log held)
    pub fn poll_settled(&self) -> Instant {
        // What is older is due no later.
        let last = self.lacked.last().and_then(|last| self.stored.get(last));
        let lacked_until = last.map_or(Instant::ZERO, |stored| stored.until);
        lacked_until.max(self.others_until)
    }

    /// Returns whether a producer that can wait should: more than half of the room is taken by what is lacked, and that is being sent.
    ///
    /// Cost    O(sinks)
    pub fn is_pressed(&self) -> bool {
        let (adus, bytes) = self.lacked();
        let is_full = bytes > self.bytes_max / 2 || adus > HOLD_ADUS_MAX / 2;
        is_full && self.queues.values().any(Queue::is_draining)
    }

    /// Returns how many ADUs are held, and how many payload bytes: also those that all sinks have.
    pub fn size(&self) -> (usize, u64) {
        (self.stored.len(), self.bytes)
    }

    /// Returns how many of them some sink lacks, or whoever comes, and how many payload bytes: with those that were sent and not
    /// acknowledged.
    pub fn lacked(&self) -> (usize, u64) {
        (self.lacked.len(), self.lacked_bytes)
    }

    /// Gives up what is too old; what is older is due no later, but for the end of a stream.
    pub fn expire(&mut self, now: Instant) {
        while let Some((sequence, first)) = self.stored.first_key_value()
            && first.until <= now
        {
            self.drop_stored(*sequence, DropCause::Expired);
        }
    }

    /// Gives up an ADU for all that it is held for. What was sent is accounted for by who had it.
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
                let nobody = DropCause::NoSubscriber;
                self.dropped.push_back(Dropped {
                    header,
                    cause: sink.map_or(nobody, |_| cause),
                    sink,
                });
            }
        }
        for sink in core::mem::take(&mut stored.sent) {
            if let Some(queue) = self.queues.get_mut(&Some(sink)) {
                queue.sent.remove(&sequence);
            }
        }
        self.sort(sequence);
        self.lesser
            .remove(&(Lack::Nobody, header.importance, sequence));
        if let Some(gone) = self.stored.remove(&sequence) {
            self.bytes -= gone.adu.payload.len() as u64;
        }
    }

    /// Finds an ADU its place among those that may have to go.
    fn sort(&mut self, sequence: u64) {
        let Some(stored) = self.stored.get_mut(&sequence) else {
            return;
        };
        let lack = stored.lack();
        let before = core::mem::replace(&mut stored.lack, lack);
        // Without the end nobody knows how much is missing, and it has no payload.
        if !stored.is_end() {
            let importance = stored.adu.header.importance;
            self.lesser.remove(&(before, importance, sequence));
            self.lesser.insert((lack, importance, sequence));
        }
        let bytes = stored.adu.payload.len() as u64;
        if lack != Lack::Nobody && self.lacked.insert(sequence) {
            self.lacked_bytes += bytes;
        } else if lack == Lack::Nobody && self.lacked.remove(&sequence) {
            self.lacked_bytes -= bytes;
        }
    }
}
