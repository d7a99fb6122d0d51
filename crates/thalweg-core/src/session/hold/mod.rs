//! What a source holds of a stream for sinks to which there is no way, and carries on when there is one.
//!
//! *The idea.* One store for the stream, and for each sink a queue of what is still to be sent to it. Whatever is given goes
//! into the queues, and leaves them as fast as the links take it; so a queue is empty while all is well, grows while its sink
//! has no plan in force, and drains when it has one. What was sent stays until the sink says that it has it; if the way
//! breaks first, it is back in its queue.
//!
//! ```text
//! given ─► waiting ─── a plan is in force ───► sent ─── receipt ───► gone
//!             ▲                                  │
//!             └───────── its way broke ──────────┘        too old, or too much: dropped, and told why
//! ```
//!
//! A queue is the outbox's beginning, and has its order: importance, then deadline and sequence, which are one here, for all
//! ADUs of a stream are given the same time. So what is live and matters more overtakes what was held. A stream in
//! sequence leaves by sequence. The end of a stream is sent when the sink has all else.
//!
//! Before the first sink there is one queue for whoever comes.
//!
//! *What it does not do.* It sends nothing and knows no link: the driver asks for the next when there is room for it.
//!
//! *Sources.* docs/continuity.md §5; spec RA-14, RA-15; decisions/0019.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use crate::adu::{Adu, Flags, Header, Importance};
use crate::event::DropCause;
use crate::id::{Epoch, NodeId};
use crate::limits::HOLD_ADUS_MAX;
use crate::mailbox::Held;
use crate::needs::{Needs, Order};
use crate::time::{Duration, Instant};

mod queue;
#[cfg(test)]
mod tests;

use queue::{Queue, Rank};

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
    /// What goes first when there is no room: what was sent already, then what matters least, then the oldest.
    lesser: BTreeSet<(bool, Importance, u64)>,
    /// By sink; of `None` while there is none.
    queues: BTreeMap<Option<NodeId>, Queue>,
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
    /// To whom it was sent, and under which plan.
    sent: Vec<(NodeId, Epoch)>,
}

impl Stored {
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
            lesser: BTreeSet::new(),
            queues: BTreeMap::from([(None, Queue::default())]),
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
            adu,
        };
        self.bytes += stored.adu.payload.len() as u64;
        let rank = self.rank(&stored);
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

    /// Takes in who the sinks are now, and which plans are in force. The first takes over what is held for whoever comes;
    /// what is held for one that is gone is not wanted any more.
    pub fn handle_sinks(&mut self, sinks: &[Sinkward]) {
        let is_first = self.queues.contains_key(&None);
        if let Some(first) = sinks.first().filter(|_| is_first) {
            let queue = self.queues.remove(&None).unwrap_or_default();
            self.queues.insert(Some(first.sink), queue);
            for stored in self.stored.values_mut() {
                for (sink, _) in &mut stored.waiting {
                    *sink = sink.or(Some(first.sink));
                }
            }
        }
        let known: Vec<Option<NodeId>> = self.queues.keys().copied().collect();
        let is_there = |sink: NodeId| sinks.iter().any(|known| known.sink == sink);
        for gone in known.into_iter().flatten().filter(|sink| !is_there(*sink)) {
            self.forget_sink(gone);
        }
        for Sinkward { sink, plan } in sinks {
            self.queues.entry(Some(*sink)).or_default().plan = *plan;
        }
        if sinks.is_empty() {
            self.queues.entry(None).or_default();
        }
    }

    fn forget_sink(&mut self, sink: NodeId) {
        self.queues.remove(&Some(sink));
        let sequences: Vec<u64> = self.stored.keys().copied().collect();
        for sequence in sequences {
            let Some(stored) = self.stored.get_mut(&sequence) else {
                continue;
            };
            let header = stored.adu.header;
            let is_end = stored.is_end();
            let waited = stored.waiting.iter();
            let was_new = waited.clone().any(|entry| *entry == (Some(sink), false));
            stored.waiting.retain(|(other, _)| *other != Some(sink));
            stored.sent.retain(|(other, _)| *other != sink);
            if was_new && !is_end {
                self.dropped.push_back(Dropped {
                    header,
                    cause: DropCause::Cancelled,
                    sink: Some(sink),
                });
            }
            self.sort(sequence);
        }
    }

    /// Takes in that the ways of these plans for a sink broke: what was sent under them is to be sent again.
    ///
    /// Cost    O(held)
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
        let mut recalled = Vec::new();
        for (sequence, stored) in &mut self.stored {
            let before = stored.sent.len();
            stored
                .sent
                .retain(|(to, plan)| *to != sink || !is_it(*sequence, *plan));
            if stored.sent.len() < before {
                stored.waiting.push((Some(sink), was_sent));
                recalled.push(*sequence);
            }
        }
        for sequence in recalled {
            let rank = self.stored.get(&sequence).map(|stored| self.rank(stored));
            if let (Some(rank), Some(queue)) = (rank, self.queues.get_mut(&Some(sink))) {
                queue.waiting.insert(rank);
                queue.sent -= 1;
            }
            self.sort(sequence);
        }
    }

    /// Takes in what a sink says that it has.
    ///
    /// Cost    O(held)
    pub fn handle_receipt(&mut self, sink: NodeId, held: &Held) {
        let sequences = self.stored.keys().copied();
        let has = |sequence: &u64| held.has(crate::id::Sequence(*sequence));
        let had: Vec<u64> = sequences.filter(has).collect();
        for sequence in had {
            self.forget(sink, sequence);
        }
    }

    /// Returns how many of those that went by a plan its sink is known to lack, though it has later ones.
    ///
    /// Cost    O(held)
    pub fn missing(&self, sink: NodeId, plan: Epoch, held: &Held, now: Instant) -> u64 {
        let missing = self.stored.iter().filter(|(sequence, stored)| {
            let sequence = crate::id::Sequence(**sequence);
            now < stored.until && stored.sent.contains(&(sink, plan)) && held.lacks(sequence)
        });
        missing.count() as u64
    }

    /// Keeps an ADU no longer for a sink: it has it, or its plan does not carry that layer so far.
    pub fn forget(&mut self, sink: NodeId, sequence: u64) {
        let Some(stored) = self.stored.get_mut(&sequence) else {
            return;
        };
        let [waiting, sent] = [stored.waiting.len(), stored.sent.len()];
        stored.waiting.retain(|(other, _)| *other != Some(sink));
        stored.sent.retain(|(other, _)| *other != sink);
        let [waiting, sent] = [waiting - stored.waiting.len(), sent - stored.sent.len()];
        let rank = self.stored.get(&sequence).map(|stored| self.rank(stored));
        if let (Some(rank), Some(queue)) = (rank, self.queues.get_mut(&Some(sink))) {
            if waiting > 0 {
                queue.waiting.remove(&rank);
            }
            queue.sent -= sent;
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
            stored.sent.push((sink, plan));
            let adu = stored.adu.clone();
            let rank = self.stored.get(&sequence).map(|stored| self.rank(stored));
            if let (Some(rank), Some(queue)) = (rank, self.queues.get_mut(&Some(sink))) {
                queue.waiting.remove(&rank);
                queue.sent += 1;
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

    /// Returns when nothing will be worth sending any more, unless sinks say sooner that they have all.
    ///
    /// Cost    O(held)
    pub fn poll_settled(&self) -> Instant {
        let ends = self.stored.values().map(|stored| stored.until);
        ends.max().unwrap_or(Instant::ZERO)
    }

    /// Returns whether a producer that can wait should: more than half of the room is taken, and it is being emptied.
    ///
    /// Cost    O(sinks)
    pub fn is_pressed(&self) -> bool {
        let is_full = self.bytes > self.bytes_max / 2 || self.stored.len() > HOLD_ADUS_MAX / 2;
        is_full && self.queues.values().any(Queue::is_draining)
    }

    /// Returns how many ADUs are held, and how many payload bytes: with those that were sent and not acknowledged.
    pub fn size(&self) -> (usize, u64) {
        (self.stored.len(), self.bytes)
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
        let header = stored.adu.header;
        let is_end = stored.is_end();
        let waiting = core::mem::take(&mut stored.waiting);
        let sent = core::mem::take(&mut stored.sent);
        let rank = self.stored.get(&sequence).map(|stored| self.rank(stored));
        for (sink, was_sent) in waiting {
            if let (Some(rank), Some(queue)) = (rank, self.queues.get_mut(&sink)) {
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
        for (sink, _) in sent {
            if let Some(queue) = self.queues.get_mut(&Some(sink)) {
                queue.sent -= 1;
            }
        }
        self.sort(sequence);
    }

    /// Finds an ADU its place among those that may have to go, or lets it go if it is held for nobody any more.
    fn sort(&mut self, sequence: u64) {
        let Some(stored) = self.stored.get(&sequence) else {
            return;
        };
        let importance = stored.adu.header.importance;
        let is_waiting = !stored.waiting.is_empty();
        self.lesser.remove(&(!is_waiting, importance, sequence));
        if is_waiting || !stored.sent.is_empty() {
            // Without the end nobody knows how much is missing, and it has no payload.
            if !stored.is_end() {
                self.lesser.insert((is_waiting, importance, sequence));
            }
            return;
        }
        self.lesser.remove(&(is_waiting, importance, sequence));
        if let Some(gone) = self.stored.remove(&sequence) {
            self.bytes -= gone.adu.payload.len() as u64;
        }
    }

    fn rank(&self, stored: &Stored) -> Rank {
        let Header {
            sequence,
            importance,
            ..
        } = stored.adu.header;
        Rank {
            is_end: stored.is_end(),
            lesser: if self.is_in_sequence {
                0
            } else {
                u8::MAX - importance.0
            },
            sequence: sequence.0,
        }
    }
}
