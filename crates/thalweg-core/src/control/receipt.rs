//! What sinks say that they have, and what sources make of it.
//!
//! *The idea.* A **sink** tells what it has (a receipt), now and then, and before it says that a plan is installed. The **source** need
//! not keep that any more. Who begins with a stream that comes here yet is given what plans of his own bring, and nothing of
//! those before him:
//!
//! ```text
//! viewers leave ── Unsubscribe ─✂            plans up to `former` bring what is not acknowledged yet: of those who have left
//! one comes ────── Unsubscribe, Subscribe ─► source: a plan of his own, which brings the newest group first
//! ```
//!
//! *What it does not do.* It keeps no set of what has come: the driver does, and is told what is whose.
//!
//! *Sources.* docs/continuity.md §3; docs/recast.md §6; docs/protocol.md §4.4.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::source::Life;
use super::{Controller, Keys, Note, Output};
use crate::id::{Epoch, NodeId, Sequence, StreamId};
use crate::mailbox::{Held, News};
use crate::needs::Reliability;
use crate::time::{Duration, Instant};
use crate::wire::control::{Body, Said};
use crate::wire::receipt::Receipt;

/// How often a sink says what has come at most.
const RECEIPT_EVERY: Duration = Duration::from_secs(1);

/// How long a word of the source may be under way that it said before it heard that viewers have left.
const CROSSING: Duration = Duration::from_secs(2);

/// What this node, as a sink, has of streams.
#[derive(Debug, Default)]
pub(super) struct Receivings(BTreeMap<StreamId, Receiving>);

/// What this node, as a sink, has of a stream.
#[derive(Debug)]
struct Receiving {
    since: u64,
    held: Held,
    /// Whether the end of the stream has come, and all before it or what did in time.
    is_ended: bool,
    /// The last plan of those who have left, which may bring something yet: nothing of it is for who comes after them.
    former: Option<Epoch>,
    /// Since when that is so to those who have come.
    begun: Option<Instant>,
    told: Option<Instant>,
    due: Instant,
}

impl Receivings {
    pub(super) fn poll_timeout(&self) -> Instant {
        let due = self.0.values().map(|receiving| receiving.due);
        due.min().unwrap_or(Instant::NEVER)
    }
}

impl Controller {
    /// Takes in what has come of a stream that ends here; the driver says this when it says what it has counted, and
    /// before [`Controller::handle_installed`]. Much is told at once, and so is the end of a stream, and what became of its ADUs with it.
    pub fn handle_held(&mut self, stream: StreamId, held: Held, news: News, now: Instant) {
        let is_ended = news == News::Ended;
        if is_ended {
            self.end_accounts(stream, now);
        }
        let receiving = self.receiving(stream, now);
        receiving.is_ended |= is_ended;
        if receiving.held == held {
            return;
        }
        receiving.held = held;
        let earliest = receiving.told.map_or(now, |told| told + RECEIPT_EVERY);
        let due = match news {
            News::Usual => earliest.max(now),
            News::Much | News::Ended => now,
        };
        receiving.due = receiving.due.min(due);
        self.tell_due_receipts(now);
    }

    fn receiving(&mut self, stream: StreamId, now: Instant) -> &mut Receiving {
        let since = self.settings.since_1970.as_millis() + now.as_nanos() / 1_000_000;
        let receivings = &mut self.continuity.receivings.0;
        receivings.entry(stream).or_insert_with(|| Receiving {
            since,
            held: Held::default(),
            is_ended: false,
            former: None,
            begun: None,
            told: None,
            due: Instant::NEVER,
        })
    }

    /// Tells the node before, on the way of a plan that ends here, what has come of its stream.
    pub(super) fn tell_held(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let Some(part) = self.parts.get(&(stream, epoch)) else {
            return;
        };
        let is_source = part.installation().source == self.id();
        let receiving = self.receiving(stream, now);
        if is_source {
            return;
        }
        receiving.told = Some(now);
        receiving.due = Instant::NEVER;
        let receipt = Receipt {
            stream,
            epoch,
            since: receiving.since,
            held: receiving.held.clone(),
        };
        self.tell_up(Said::Receipt(receipt));
    }

    /// Sends the receipts that are due, each by the way of the newest plan.
    pub(super) fn tell_due_receipts(&mut self, now: Instant) {
        let receivings = self.continuity.receivings.0.iter_mut();
        let due = receivings.filter(|(_, receiving)| receiving.due <= now);
        let due: Vec<StreamId> = due
            .map(|(stream, receiving)| {
                receiving.due = Instant::NEVER;
                *stream
            })
            .collect();
        for stream in due {
            let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
            let ending = self.parts.range(of_stream).rev();
            let mut reached = ending.filter(|(_, part)| {
                let part = part.installation();
                let before = self.way_up(stream, part.epoch);
                part.next.is_none() && before.is_some_and(|peer| self.links.contains_key(&peer))
            });
            if let Some((_, epoch)) = reached.next().map(|(key, _)| *key) {
                self.tell_held(stream, epoch, now);
            }
        }
    }

    /// Forgets what came of streams that no plan brings here any more and nobody here wants: who waits for a way to come back
    /// remembers what has come, however long that takes.
    pub(super) fn forget_held(&mut self) {
        let (parts, wanted) = (&self.parts, &self.wanted);
        let receivings = &mut self.continuity.receivings.0;
        let forgotten = receivings.extract_if(.., |stream, _| {
            let of_stream = (*stream, Epoch(0))..=(*stream, Epoch(u32::MAX));
            let is_wanted = wanted.values().any(|wanted| wanted.stream == Some(*stream));
            parts.range(of_stream).next().is_none() && !is_wanted
        });
        let outputs = forgotten.map(|(stream, _)| Output::Forgotten { stream });
        self.outputs.extend(outputs);
    }

    /// Takes in that nobody here wants a stream any more, of which plans may bring something yet.
    pub(super) fn leave_received(&mut self, stream: StreamId, now: Instant) {
        let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
        let pending = self.pending.range(of_stream);
        let coming = pending.map(|((_, epoch), _)| *epoch).next_back();
        if let Some(former) = self.newest_ending(stream).max(coming) {
            let receiving = self.receiving(stream, now);
            (receiving.former, receiving.begun) = (Some(former), None);
        }
    }

    /// Takes in that the first program here wants a stream, which plans may bring already: for programs that have left, or
    /// because the node was restarted. What came then was given to nobody who wants it now, and its source knows that it came. Returns
    /// whether the source may not know that anybody has left.
    ///
    /// Of a stream that has come to its end here the last group would come once more, to who waits for the next to begin.
    pub(super) fn begin_anew(&mut self, stream: StreamId, now: Instant) -> bool {
        let mut former = None;
        if let Some(receiving) = self.continuity.receivings.0.get_mut(&stream) {
            if receiving.is_ended {
                return false;
            }
            receiving.begun = Some(now);
            former = receiving.former;
        }
        self.outputs.push_back(Output::BegunAnew { stream, former });
        former.is_some()
    }

    /// Takes in that those who want a stream begin once more with one that they have left, by this plan. If that is one of those
    /// before, its source has heard neither of the leaving nor of the coming, and what it brings is theirs.
    pub(super) fn begin_again(&mut self, (stream, epoch): (StreamId, Epoch), now: Instant) {
        if let Some(receiving) = self.continuity.receivings.0.get_mut(&stream) {
            receiving.former = receiving.former.filter(|former| *former < epoch);
        }
        self.begin_anew(stream, now);
    }

    /// Returns whether the end of a stream has come here.
    pub(super) fn has_ended(&self, stream: StreamId) -> bool {
        let receiving = self.continuity.receivings.0.get(&stream);
        receiving.is_some_and(|receiving| receiving.is_ended)
    }

    /// Takes in that the source keeps up a plan that ends here. If it has made none since others came in the place of those who have
    /// left, it knows of no leaving: the word was lost, and the plan is theirs.
    pub(super) fn go_on_by(&mut self, (stream, epoch): (StreamId, Epoch), now: Instant) {
        let newest = self.newest_ending(stream);
        let Some(receiving) = self.continuity.receivings.0.get_mut(&stream) else {
            return;
        };
        let is_former = receiving
            .former
            .is_some_and(|former| epoch <= former && newest <= Some(former));
        let begun = receiving.begun.filter(|_| is_former);
        if begun.is_some_and(|begun| begun + CROSSING <= now) {
            receiving.former = None;
            self.outputs.push_back(Output::GoesOn { stream });
        }
    }

    pub(super) fn handle_receipt(&mut self, from: NodeId, receipt: Receipt) {
        match self.comes_right(from, receipt.stream, receipt.epoch) {
            None => self.note(Note::ReceiptAstray { from }),
            Some(true) => self.take_receipt(receipt),
            Some(false) => self.tell_up(Said::Receipt(receipt)),
        }
    }

    /// Takes in what the sink of a plan of this node's has.
    pub(super) fn take_receipt(&mut self, receipt: Receipt) {
        let Receipt {
            stream,
            epoch,
            since,
            held,
        } = receipt;
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let sink = source.paths.get(&epoch).and_then(|path| path.last());
        let Some(sink) = sink.copied() else {
            return;
        };
        let plan = source.sinks.get_mut(&sink);
        let life = plan.map_or(Life::Same, |plan| plan.handle_since(since, epoch));
        if life == Life::Former {
            return;
        }
        if life == Life::Next {
            source.session.handle_restarted(sink);
        }
        // What a restarted sink had is gone with it, and it begins anew: with what is held for it, if that is.
        if life == Life::Next && !source.publication.needs.is_held() {
            self.acknowledge_all(stream, sink);
        } else {
            self.acknowledge(stream, sink, held);
        }
    }

    /// What a sink has need not be kept for it.
    fn acknowledge(&mut self, stream: StreamId, sink: NodeId, held: Held) {
        let Some(source) = self.sources.get(&stream) else {
            return;
        };
        let paths = source.paths.iter();
        let of_sink = paths.filter(|(_, path)| path.last() == Some(&sink));
        let epochs: Vec<Epoch> = of_sink.map(|(epoch, _)| *epoch).collect();
        let is_whole = source.publication.needs.reliability == Reliability::Full;
        let mut active = source.session.active();
        let in_force = active.find(|(served, _)| is_whole && *served == sink);
        let in_order = in_force.map(|(_, epoch)| epoch);
        self.outputs.push_back(Output::Acknowledged {
            stream,
            sink,
            epochs,
            in_order,
            held,
        });
    }

    /// Takes in below which sequence nothing more comes of what a sink lacks, though it has later ones: the sink is told once.
    pub fn tell_given_up(
        &mut self,
        (stream, sink): (StreamId, NodeId),
        below: Sequence,
        keys: &mut dyn Keys,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let mut active = source.session.active();
        let in_force = active.find(|(served, _)| *served == sink);
        let path = in_force.and_then(|(_, epoch)| source.paths.get(&epoch).cloned());
        drop(active);
        let plan = source.sinks.get_mut(&sink);
        let Some(plan) = plan.filter(|plan| plan.given_up < below) else {
            return;
        };
        if let Some(path) = path {
            plan.given_up = below;
            self.send_routed(path, Body::GivenUp { stream, below }, keys);
        }
    }

    /// Takes in that of a stream that ends here nothing more comes of what is lacking below a sequence.
    pub(super) fn handle_given_up(&mut self, from: NodeId, stream: StreamId, below: Sequence) {
        let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
        let mut parts = self
            .parts
            .range(of_stream)
            .map(|(_, part)| part.installation());
        if parts.any(|part| part.source == from && part.next.is_none()) {
            self.outputs.push_back(Output::GivenUp { stream, below });
        }
    }

    /// Nothing needs to be kept for a sink.
    pub(super) fn acknowledge_all(&mut self, stream: StreamId, sink: NodeId) {
        self.acknowledge(stream, sink, Held::everything());
    }
}
