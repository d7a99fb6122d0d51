//! Receipts: sinks report what they have received, and sources stop keeping it.
//!
//! *The idea.* A **sink** sends a receipt now and then, and before it answers that a plan is installed. The
//! **source** need not keep what the receipt names. Programs that join a stream that is still arriving for
//! earlier ones get what their own plans bring, and nothing of the plans before:
//!
//! ```text
//! viewers leave ── Unsubscribe ─✂            what plans up to `former` still bring is not for new viewers
//! one comes ────── Unsubscribe, Subscribe ─► source: a new plan, which begins with the newest group
//! ```
//!
//! *What it does not do.* It keeps no set of received sequences: the driver does, and learns here
//! what belongs to which programs.
//!
//! *Sources.* docs/concepts/continuity.md §3; docs/concepts/recast.md §6; docs/reference/protocol.md §4.4.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId};
use thalweg_base::needs::Reliability;
use thalweg_base::seen::{Held, News};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::{Body, Said};
use thalweg_base::wire::receipt::Receipt;

use super::source::Incarnation;
use super::{Controller, Keys, Note, Output};

/// Minimum interval of a sink's receipts for a stream.
const RECEIPT_EVERY: Duration = Duration::from_secs(1);

/// How long a message of the source may be in flight that it sent before it learned that viewers have left.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(2);

/// What this node has received, as a sink.
#[derive(Debug, Default)]
pub(super) struct Receivings(BTreeMap<StreamId, Receiving>);

/// What this node has received of a stream, as a sink.
#[derive(Debug)]
struct Receiving {
    since: u64,
    held: Held,
    /// Whether the end of the stream has arrived, and everything before it that will.
    is_ended: bool,
    /// The last plan of programs that left, if it may still bring something: none of that is for
    /// their successors.
    former: Option<Epoch>,
    /// Since when that holds for the successors.
    started_at: Option<Instant>,
    sent_at: Option<Instant>,
    due: Instant,
}

impl Receivings {
    pub(super) fn poll_timeout(&self) -> Instant {
        let due = self.0.values().map(|receiving| receiving.due);
        due.min().unwrap_or(Instant::NEVER)
    }
}

impl Controller {
    /// Handles what has arrived of a stream that ends here. The driver calls this together with its
    /// counts, and before [`Controller::handle_installed`]. Large progress and the end of a stream
    /// are reported at once, the end with the final counts.
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
        let earliest = receiving
            .sent_at
            .map_or(now, |sent_at| sent_at + RECEIPT_EVERY);
        let due = match news {
            News::Usual => earliest.max(now),
            News::Much | News::Ended => now,
        };
        receiving.due = receiving.due.min(due);
        self.send_due_receipts(now);
    }

    fn receiving(&mut self, stream: StreamId, now: Instant) -> &mut Receiving {
        let since = self.settings.since_1970.as_millis() + now.as_nanos() / 1_000_000;
        let receivings = &mut self.continuity.receivings.0;
        receivings.entry(stream).or_insert_with(|| Receiving {
            since,
            held: Held::default(),
            is_ended: false,
            former: None,
            started_at: None,
            sent_at: None,
            due: Instant::NEVER,
        })
    }

    /// Sends a receipt towards the source, by a plan that ends here.
    pub(super) fn send_receipt(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let Some(part) = self.parts.get(&(stream, epoch)) else {
            return;
        };
        let is_source = part.installation().source == self.id();
        let receiving = self.receiving(stream, now);
        if is_source {
            return;
        }
        receiving.sent_at = Some(now);
        receiving.due = Instant::NEVER;
        let receipt = Receipt {
            stream,
            epoch,
            since: receiving.since,
            held: receiving.held.clone(),
        };
        self.send_upstream(Said::Receipt(receipt));
    }

    /// Sends the due receipts, each by the newest plan with a link to its previous node.
    pub(super) fn send_due_receipts(&mut self, now: Instant) {
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
                let before = self.upstream(stream, part.epoch);
                part.next.is_none() && before.is_some_and(|peer| self.links.contains_key(&peer))
            });
            if let Some((_, epoch)) = reached.next().map(|(key, _)| *key) {
                self.send_receipt(stream, epoch, now);
            }
        }
    }

    /// Forgets the streams that no plan brings here any more and no local program wants. What a
    /// waiting subscriber has received is remembered, however long the outage lasts.
    pub(super) fn forget_received(&mut self) {
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

    /// Handles the end of local interest in a stream of which plans may still bring something.
    pub(super) fn mark_readers_left(&mut self, stream: StreamId, now: Instant) {
        let of_stream = (stream, Epoch(0))..=(stream, Epoch(u32::MAX));
        let pending = self.pending.range(of_stream);
        let coming = pending.map(|((_, epoch), _)| *epoch).next_back();
        if let Some(former) = self.newest_ending(stream).max(coming) {
            let receiving = self.receiving(stream, now);
            (receiving.former, receiving.started_at) = (Some(former), None);
        }
    }

    /// Handles the first local program that wants a stream. Plans may already bring it: for
    /// programs that have left, or because the node restarted. What arrived then went to no present
    /// program, and its source counts it as received. Returns whether the source may not know that
    /// the earlier programs left.
    pub(super) fn start_readers(&mut self, stream: StreamId, now: Instant) -> bool {
        let mut former = None;
        if let Some(receiving) = self.continuity.receivings.0.get_mut(&stream) {
            // The last group of a stream that has ended here would be delivered once more, to
            // programs that wait for the next stream.
            if receiving.is_ended {
                return false;
            }
            receiving.started_at = Some(now);
            former = receiving.former;
        }
        self.outputs.push_back(Output::BegunAnew { stream, former });
        former.is_some()
    }

    /// Handles the return of programs to a stream that they left, by this plan. If the plan is one from
    /// before, its source knows neither of the leaving nor of the return, and what it brings is theirs.
    pub(super) fn restart_readers(&mut self, (stream, epoch): (StreamId, Epoch), now: Instant) {
        if let Some(receiving) = self.continuity.receivings.0.get_mut(&stream) {
            receiving.former = receiving.former.filter(|former| *former < epoch);
        }
        self.start_readers(stream, now);
    }

    /// Returns whether the end of a stream has arrived here.
    pub(super) fn has_ended(&self, stream: StreamId) -> bool {
        let receiving = self.continuity.receivings.0.get(&stream);
        receiving.is_some_and(|receiving| receiving.is_ended)
    }

    /// Handles a renewal of a plan that ends here. A source that has made no plan since new
    /// programs replaced those that left does not know of the leaving: the message was lost, and
    /// the plan belongs to the new ones.
    pub(super) fn reclaim_former_plan(&mut self, (stream, epoch): (StreamId, Epoch), now: Instant) {
        let newest = self.newest_ending(stream);
        let Some(receiving) = self.continuity.receivings.0.get_mut(&stream) else {
            return;
        };
        let is_former = receiving
            .former
            .is_some_and(|former| epoch <= former && newest <= Some(former));
        let started_at = receiving.started_at.filter(|_| is_former);
        if started_at.is_some_and(|started_at| started_at + IN_FLIGHT_MAX <= now) {
            receiving.former = None;
            self.outputs.push_back(Output::GoesOn { stream });
        }
    }

    pub(super) fn handle_receipt(&mut self, from: NodeId, receipt: Receipt) {
        match self.check_next(from, receipt.stream, receipt.epoch) {
            None => self.note(Note::ReceiptAstray { from }),
            Some(true) => self.apply_receipt(receipt),
            Some(false) => self.send_upstream(Said::Receipt(receipt)),
        }
    }

    /// Handles a receipt for a plan of this node.
    pub(super) fn apply_receipt(&mut self, receipt: Receipt) {
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
        let incarnation = plan.map_or(Incarnation::Same, |plan| plan.handle_since(since, epoch));
        if incarnation == Incarnation::Former {
            return;
        }
        if incarnation == Incarnation::Next {
            source.session.handle_restarted(sink);
        }
        // What a restarted sink had is gone with it. It begins again, with what is held for it if
        // the stream is held.
        if incarnation == Incarnation::Next && !source.publication.needs.is_held() {
            self.acknowledge_all(stream, sink);
        } else {
            self.acknowledge(stream, sink, held);
        }
    }

    /// Reports to the driver what a sink has.
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

    /// Handles the sequence below which nothing is kept of what a sink lacks, though it has later
    /// ADUs; the sink is notified once.
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

    /// Handles the source's notice that nothing more arrives of what is lacking below a sequence.
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

    /// Reports to the driver that nothing needs to be kept for a sink.
    pub(super) fn acknowledge_all(&mut self, stream: StreamId, sink: NodeId) {
        self.acknowledge(stream, sink, Held::everything());
    }
}
