//! The fate of every ADU on its path to every sink: the accounts of a run.
//!
//! A run sees both ends of every hop, which no node does. Each ADU has one `Passage` per sink, and in
//! it one `Attempt` per plan under which it was sent; every hop adds what its two ends report. At the
//! end each passage must explain itself: the ADU was delivered, or a node of the last attempt dropped
//! it with a cause, or the first hop that it did not cross whole has a cause. A passage without an
//! explanation is a hole in the nodes' accounts.
//!
//! ```text
//! sent ─► handed to a link ─► begun at its far end ─► whole there ─► handed on … ─► delivered
//!                  └─► outcome: why not                └─► dropped here: why
//! ```
//!
//! With cut-through forwarding a hop begins before the previous one is whole; the first unfinished hop
//! is to blame. The accounts observe the simulated nodes and never influence them.

mod conclude;
mod copies;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use thalweg_base::adu::{Flags, Header, Importance};
use thalweg_base::event::DropCause;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::time::{Duration, Instant};
use thalweg_link::hop::{Carriage, Outcome};

pub use crate::oracle::recast::Doubled;
pub use conclude::{Conclusion, End};

/// How long a link lives whose other end is silent: docs/reference/protocol.md §2.
const LINK_LIFE: Duration = Duration::from_secs(8);

/// After this long the source has learned whether an ADU arrived: docs/concepts/ledger.md §2.
const REPORT_TIME: Duration = Duration::from_secs(2);

/// An ADU on its path to one sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Copy {
    /// The stream's index in the world.
    pub stream: usize,
    /// The sink's index among the stream's.
    pub sink: usize,
    /// The ADU's index among those that the producer gave.
    pub adu: usize,
    /// The plan under which it was sent; 0 if none.
    pub epoch: Epoch,
}

/// An ADU as its producer gave it.
#[derive(Clone, Debug)]
pub struct Sent {
    /// When it was due, in world time.
    pub due: Instant,
    /// Its sequence number on the wire.
    pub sequence: u64,
    /// Its frame.
    pub frame: u64,
    /// Its layer.
    pub layer: u8,
    /// Its importance.
    pub importance: Importance,
    /// The payload expected at the sink.
    pub payload: Bytes,
}

/// One crossing of a link, as reported by both ends.
#[derive(Clone, Debug)]
struct Hop {
    from: usize,
    to: usize,
    carriage: Carriage,
    /// Payload bytes as sent; a plan's modules may have changed the size.
    bytes: u64,
    handed: Instant,
    is_whole: bool,
    /// When it became whole.
    arrived_at: Instant,
    /// The sender's outcome.
    outcome: Option<Outcome>,
    /// When the sender reported the outcome: a datagram's departure, or the time of a drop.
    ended: Instant,
    /// The receiver's cause, if the rest does not come.
    failed: Option<DropCause>,
    /// The sender is gone or recalled the ADU, and reports no outcome.
    is_orphan: bool,
}

/// The passage of one ADU to one sink.
#[derive(Clone, Debug, Default)]
struct Passage {
    attempts: BTreeMap<Epoch, Attempt>,
    /// When it was delivered, and under which plan.
    delivered: Option<(Instant, Epoch)>,
    /// It was kept, and replayed to a later subscriber.
    is_replayed: bool,
}

/// The passage of one ADU under one plan.
#[derive(Clone, Debug, Default)]
struct Attempt {
    /// For a grafted plan, when the ADU was first given: what reached the copying node before was not copied.
    given: Option<Instant>,
    hops: Vec<Hop>,
    dropped: Option<(DropCause, usize)>,
}

#[derive(Clone, Debug, Default)]
struct StreamFates {
    /// The nodes of the producer and of the sinks.
    source: usize,
    sinks: Vec<usize>,
    sent: Vec<Sent>,
    /// The ids under which it was published, in order.
    ids: Vec<StreamId>,
    /// One list per sink, one passage per ADU.
    passages: Vec<Vec<Passage>>,
}

/// The accounts of all streams.
#[derive(Clone, Debug, Default)]
pub struct Fates {
    streams: Vec<StreamFates>,
    /// For each stream id: the stream's index, and how many ADUs it had before it was published under
    /// this id.
    published: BTreeMap<StreamId, (usize, usize)>,
    /// The sink of each plan.
    planned: BTreeMap<(StreamId, Epoch), usize>,
    /// When an ADU was last handed to a link or arrived.
    moved: Instant,
    /// When links went down, by sender and receiver.
    downs: BTreeMap<(usize, usize), Vec<Instant>>,
    /// When nodes were last gone.
    gone: BTreeMap<usize, Instant>,
    /// When nodes were last frozen.
    frozen: BTreeMap<usize, Instant>,
    /// Nodes that were frozen for longer than a link lives.
    outlived: BTreeSet<usize>,
    /// For each grafted plan: its base plan and the node that copies.
    grafts: BTreeMap<(StreamId, Epoch), (Epoch, usize)>,
    /// When a grafted plan's copies ended, unless they began again.
    ceased: BTreeMap<(StreamId, Epoch), Instant>,
    /// When the sink of a plan left or was gone, unless it was planned again.
    left: BTreeMap<(StreamId, Epoch), Instant>,
    /// When the sources released plans, and with them their counts.
    released: BTreeMap<(StreamId, Epoch), Instant>,
    /// Streams of which ADUs were resent because a plan's path broke.
    resent: BTreeSet<usize>,
    /// The last sequence number that arrived at a node, per ordered sequence.
    ordered: BTreeMap<(usize, StreamId, Epoch), u64>,
}

impl Fates {
    /// Opens the accounts of streams with these sources and sinks.
    pub fn new(streams: impl IntoIterator<Item = (usize, Vec<usize>)>) -> Self {
        let stream = |(source, sinks): (usize, Vec<usize>)| StreamFates {
            source,
            sent: Vec::new(),
            ids: Vec::new(),
            passages: vec![Vec::new(); sinks.len()],
            sinks,
        };
        Self {
            streams: streams.into_iter().map(stream).collect(),
            ..Self::default()
        }
    }

    /// Records that a stream is published, for the first time or again.
    pub fn handle_published(&mut self, id: StreamId, stream: usize) {
        let fates = &mut self.streams[stream];
        let before = fates.sent.len();
        fates.ids.push(id);
        self.published.insert(id, (stream, before));
    }

    /// Records which sink a plan is for.
    pub fn handle_planned(&mut self, id: StreamId, epoch: Epoch, sink: usize) {
        self.planned.insert((id, epoch), sink);
        self.left.remove(&(id, epoch));
    }

    /// Records that a plan is grafted: `node` copies for it what arrives under `base`.
    pub fn handle_graft(&mut self, id: StreamId, epoch: Epoch, base: Epoch, node: usize) {
        self.grafts.insert((id, epoch), (base, node));
    }

    /// Records that such copies begin.
    pub fn handle_cast(&mut self, id: StreamId, epoch: Epoch) {
        self.ceased.remove(&(id, epoch));
    }

    /// Records that such copies end.
    pub fn handle_ceased(&mut self, id: StreamId, epoch: Epoch, now: Instant) {
        self.ceased.insert((id, epoch), now);
    }

    /// Records that an ADU is given under a plan that brings it to its sink, directly or as a copy.
    pub fn handle_given(&mut self, header: &Header, epoch: Epoch, now: Instant) -> Option<Copy> {
        let mut header = *header;
        header.epoch = epoch;
        let copy = self.find(&header)?;
        if self.grafts.contains_key(&(header.stream, epoch)) {
            self.attempt(copy).given.get_or_insert(now);
        }
        Some(copy)
    }

    /// Returns the ADU and sink that a header refers to; `None` for the end of a stream.
    pub fn find(&self, header: &Header) -> Option<Copy> {
        if header.flags.contains(Flags::END) {
            return None;
        }
        let (stream, before) = *self.published.get(&header.stream)?;
        let sink = *self.planned.get(&(header.stream, header.epoch))?;
        let adu = before + header.sequence.0 as usize;
        let copy = Copy {
            stream,
            sink,
            adu,
            epoch: header.epoch,
        };
        (adu < self.streams[stream].sent.len()).then_some(copy)
    }

    /// Returns the index of an ADU among those of its producer.
    pub fn place(&self, header: &Header) -> Option<usize> {
        let (_, before) = *self.published.get(&header.stream)?;
        Some(before + header.sequence.0 as usize)
    }

    /// Returns the stream's index in the world.
    pub fn stream_of(&self, id: StreamId) -> Option<usize> {
        self.published.get(&id).map(|(stream, _)| *stream)
    }

    /// Returns an ADU as it was sent.
    pub fn sent(&self, copy: Copy) -> &Sent {
        &self.streams[copy.stream].sent[copy.adu]
    }

    /// Records an ADU of a producer and returns its index.
    pub fn handle_sent(&mut self, stream: usize, sent: Sent) -> usize {
        let fates = &mut self.streams[stream];
        fates.sent.push(sent);
        for passages in &mut fates.passages {
            passages.push(Passage::default());
        }
        fates.sent.len() - 1
    }

    fn passage(&mut self, copy: Copy) -> &mut Passage {
        &mut self.streams[copy.stream].passages[copy.sink][copy.adu]
    }

    fn attempt(&mut self, copy: Copy) -> &mut Attempt {
        let attempts = &mut self.passage(copy).attempts;
        attempts.entry(copy.epoch).or_default()
    }

    /// Records that a node dropped an ADU; the first report counts.
    pub fn handle_dropped(&mut self, copy: Copy, cause: DropCause, node: usize) {
        self.attempt(copy).dropped.get_or_insert((cause, node));
    }

    /// Records that a node handed an ADU to a link, with its carriage and payload bytes.
    pub fn handle_handed(
        &mut self,
        copy: Copy,
        [from, to]: [usize; 2],
        (carriage, bytes): (Carriage, usize),
        now: Instant,
    ) {
        self.moved = now;
        self.attempt(copy).hops.push(Hop {
            from,
            to,
            carriage,
            bytes: bytes as u64,
            handed: now,
            is_whole: false,
            arrived_at: now,
            outcome: None,
            ended: now,
            failed: None,
            is_orphan: false,
        });
    }

    /// Returns the first open crossing of a link, preferring one that matches the other end's report. A
    /// resent ADU crosses twice, and a report does not say to which crossing it belongs.
    fn hop(
        &mut self,
        copy: Copy,
        [from, to]: [usize; 2],
        is_open: impl Fn(&Hop) -> bool,
        is_likely: impl Fn(&Hop) -> bool,
    ) -> Option<&mut Hop> {
        let hops = &mut self.attempt(copy).hops;
        let may_be = |hop: &Hop| hop.from == from && hop.to == to && is_open(hop);
        let likely = hops.iter().position(|hop| may_be(hop) && is_likely(hop));
        let at = likely.or_else(|| hops.iter().position(may_be))?;
        hops.get_mut(at)
    }

    /// Records that an ADU arrived whole. Fails if it was never sent, came before, or came out of order.
    pub fn handle_whole(
        &mut self,
        copy: Copy,
        from: usize,
        to: usize,
        header: &Header,
        now: Instant,
    ) -> Result<(), String> {
        self.moved = now;
        let hop = self
            .hop(copy, [from, to], Hop::is_awaited, |hop| !hop.is_given_up())
            .ok_or("it arrived more often than it was handed to the link")?;
        (hop.is_whole, hop.arrived_at) = (true, now);
        if !matches!(hop.carriage, Carriage::Ordered(_)) {
            return Ok(());
        }
        let sequence = header.sequence.0;
        let before = self
            .ordered
            .insert((to, header.stream, header.epoch), sequence);
        match before.filter(|before| *before >= sequence) {
            Some(before) => Err(format!(
                "it arrived after sequence {before} of its ordered hop"
            )),
            None => Ok(()),
        }
    }

    /// Records that the rest of an ADU does not arrive.
    pub fn handle_failed(&mut self, copy: Copy, from: usize, to: usize, cause: DropCause) {
        if let Some(hop) = self.hop(copy, [from, to], Hop::is_awaited, Hop::is_given_up) {
            hop.failed = Some(cause);
        }
    }

    /// Records a link's outcome for an ADU that was handed to it.
    pub fn handle_outcome(
        &mut self,
        copy: Copy,
        [from, to]: [usize; 2],
        outcome: Outcome,
        now: Instant,
    ) {
        let is_there = outcome.drop_cause().is_none();
        let is_open = |hop: &Hop| hop.outcome.is_none();
        if let Some(hop) = self.hop(copy, [from, to], is_open, |hop| hop.is_whole == is_there) {
            (hop.outcome, hop.ended) = (Some(outcome), now);
        }
    }

    /// Records a delivery to the subscriber on a node. Fails if it had the ADU and was not restarted since.
    pub fn handle_delivered(
        &mut self,
        copy: Copy,
        node: usize,
        now: Instant,
    ) -> Result<(), String> {
        let before = self.passage(copy).delivered;
        match before {
            None => {
                self.passage(copy).delivered = Some((now, copy.epoch));
                Ok(())
            }
            Some((before, _)) if self.is_gone(node, before) => Ok(()),
            Some(_) => Err("it was delivered twice".into()),
        }
    }

    /// Records that an ADU was kept and is replayed under a plan.
    pub fn handle_replayed(&mut self, header: &Header) {
        if let Some(copy) = self.find(header) {
            self.passage(copy).is_replayed = true;
        }
    }

    /// Records that a link is down at one of its ends.
    pub fn handle_down(&mut self, from: usize, to: usize, now: Instant) {
        for ends in [(from, to), (to, from)] {
            self.downs.entry(ends).or_default().push(now);
        }
    }

    /// Returns whether a node has been gone.
    pub fn was_gone(&self, node: usize) -> bool {
        self.gone.contains_key(&node)
    }

    /// Takes in that a node is frozen.
    pub fn handle_frozen(&mut self, node: usize, now: Instant) {
        self.frozen.entry(node).or_insert(now);
    }

    /// Takes in that a node goes on.
    pub fn handle_thawed(&mut self, node: usize, now: Instant) {
        let since = self.frozen.remove(&node);
        if since.is_some_and(|since| since + LINK_LIFE <= now) {
            self.outlived.insert(node);
        }
    }

    /// Returns whether a node was frozen for longer than a link lives: its neighbours dropped their
    /// links meanwhile, and with these the reports on them.
    pub fn was_outlived(&self, node: usize) -> bool {
        self.outlived.contains(&node)
    }

    /// Returns whether a link has been down.
    pub fn was_down(&self, from: usize, to: usize) -> bool {
        self.downs.contains_key(&(from, to))
    }

    /// Records that part of a stream is resent.
    pub fn handle_resent(&mut self, id: StreamId) {
        self.resent.extend(self.stream_of(id));
    }

    /// Records that a source gives up a plan with a broken path, to resend what it may. Recalling an
    /// ordered sequence also recalls the ADUs handed over before that QUIC had not sent.
    ///
    /// Cost    O(ADUs sent so far)
    pub fn handle_recalled(&mut self, id: StreamId, epoch: Epoch) {
        let Some(stream) = self.stream_of(id) else {
            return;
        };
        let fates = &mut self.streams[stream];
        let passages = fates.passages.iter_mut().flatten();
        let attempts = passages.filter_map(|passage| passage.attempts.get_mut(&epoch));
        for hop in attempts.filter_map(|attempt| attempt.hops.first_mut()) {
            let is_ordered = matches!(hop.carriage, Carriage::Ordered(_));
            hop.is_orphan |= is_ordered && hop.from == fates.source;
        }
    }

    /// Returns whether part of a stream was resent.
    pub fn was_resent(&self, stream: usize) -> bool {
        self.resent.contains(&stream)
    }

    /// Returns whether a plan of a stream was grafted on another.
    pub fn was_grafted(&self, stream: usize) -> bool {
        let mut grafts = self.grafts.keys();
        grafts.any(|(id, _)| self.stream_of(*id) == Some(stream))
    }

    /// Returns whether a link used by a stream went down after its last ADU, with the reports about it.
    pub fn was_cut(&self, stream: usize) -> bool {
        let passages = self.streams[stream].passages.iter().flatten();
        let attempts = passages.flat_map(|passage| passage.attempts.values());
        let hops = || attempts.clone().flat_map(|attempt| &attempt.hops);
        let last = hops().map(|hop| hop.handed).max().unwrap_or(Instant::NEVER);
        let down = |hop: &Hop| self.downs.get(&(hop.from, hop.to));
        hops().any(|hop| down(hop).is_some_and(|at| at.iter().any(|at| *at >= last)))
    }

    /// Records that a plan is removed from a node.
    ///
    /// The source has no part of a grafted plan; it releases the plan just before the copying node does.
    pub fn handle_removed(&mut self, id: StreamId, epoch: Epoch, node: usize, now: Instant) {
        let source = self.stream_of(id).map(|at| self.streams[at].source);
        let graft = self.grafts.get(&(id, epoch)).map(|(_, at)| *at);
        if source == Some(node) || graft == Some(node) {
            self.released.insert((id, epoch), now);
        }
    }

    /// Returns whether ADUs of a stream arrived after their plan was released, or so shortly before
    /// that no report about them can have reached the source.
    pub fn was_late(&self, stream: usize) -> bool {
        let of_stream = |id| self.stream_of(id) == Some(stream);
        let mut released = self.released.iter().filter(|((id, _), _)| of_stream(*id));
        let late = |((_, epoch), released): (&(StreamId, Epoch), &Instant)| {
            let passages = self.streams[stream].passages.iter().flatten();
            let attempts = passages.filter_map(|passage| passage.attempts.get(epoch));
            let mut hops = attempts.flat_map(|attempt| &attempt.hops);
            hops.any(|hop| {
                hop.is_whole
                    && (hop.arrived_at + REPORT_TIME >= *released || self.was_muted(hop, *released))
            })
        };
        released.any(late)
    }

    /// Returns whether a link went down before what came over it was reported, and stayed so until
    /// the plan was released.
    fn was_muted(&self, hop: &Hop, released: Instant) -> bool {
        let downs = self.downs.get(&(hop.from, hop.to)).into_iter().flatten();
        let unnoticed = LINK_LIFE + REPORT_TIME;
        downs.copied().any(|down| {
            hop.arrived_at <= down && down <= hop.arrived_at + unnoticed && down <= released
        })
    }

    /// Records that a node leaves; nodes that know no longer treat it as a sink.
    ///
    /// Cost    O(plans so far)
    pub fn handle_leaving(&mut self, node: usize, now: Instant) {
        for ((id, epoch), sink) in &self.planned {
            let stream = self.stream_of(*id);
            if stream.is_some_and(|stream| self.streams[stream].sinks[*sink] == node) {
                self.left.entry((*id, *epoch)).or_insert(now);
            }
        }
    }

    /// Records that a node is gone with all it had in memory.
    ///
    /// Cost    O(ADUs sent so far)
    pub fn handle_gone(&mut self, node: usize, now: Instant) {
        self.gone.insert(node, now);
        self.handle_leaving(node, now);
        for stream in &mut self.streams {
            let source = stream.source;
            for passage in stream.passages.iter_mut().flatten() {
                if passage.attempts.is_empty() {
                    passage.attempts.insert(Epoch(0), Attempt::default());
                }
                let delivered = passage.delivered.map(|(_, epoch)| epoch);
                for (epoch, attempt) in &mut passage.attempts {
                    if delivered != Some(*epoch) && attempt.dropped.is_none() {
                        attempt.handle_gone(source, node);
                    }
                }
            }
        }
    }
}

impl Hop {
    /// Returns whether the receiver may still report on it.
    const fn is_awaited(&self) -> bool {
        !self.is_whole && self.failed.is_none()
    }

    /// Returns whether the sender dropped it.
    fn is_given_up(&self) -> bool {
        self.outcome.and_then(Outcome::drop_cause).is_some()
    }

    /// Returns whether the sender dropped it as a dependant although it had arrived.
    fn is_returned(&self) -> bool {
        self.is_whole && self.outcome == Some(Outcome::Dependant)
    }
}

impl Attempt {
    /// Records that a node is gone; an ADU that was whole there is lost with it.
    fn handle_gone(&mut self, source: usize, node: usize) {
        let at = self.hops.last().map_or(source, |hop| hop.to);
        let is_there = self.hops.last().is_none_or(|hop| hop.is_whole);
        if at == node && is_there {
            self.dropped = Some((DropCause::PathLost, node));
        }
        for hop in self.hops.iter_mut().filter(|hop| hop.from == node) {
            hop.is_orphan |= hop.outcome.is_none();
        }
    }
}
