//! What this node has received, as a sink, and the receipts by which it reports that.
//!
//! *The idea.* A sink sends a receipt now and then, and before it answers that a plan is installed.
//! The source need not keep what the receipt names. Programs that join a stream that is still
//! arriving for earlier ones get what their own plans bring, and nothing of the plans before:
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

use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::part::Installation;
use thalweg_base::seen::{Held, News};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::control::Said;
use thalweg_base::wire::receipt::Receipt;

use crate::effect::{Output, PlanKey, Turn};
use crate::facts::Local;
use crate::parts::Parts;

/// Minimum interval of a sink's receipts for a stream.
const RECEIPT_EVERY: Duration = Duration::from_secs(1);

/// How long a message of the source may be in flight that it sent before it learned that viewers have left.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(2);

/// What this node has received, as a sink.
#[derive(Debug, Default)]
pub(super) struct Received(BTreeMap<StreamId, Receiving>);

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

impl Received {
    /// Returns when the first receipt is due.
    pub(super) fn poll_timeout(&self) -> Instant {
        let due = self.0.values().map(|receiving| receiving.due);
        due.min().unwrap_or(Instant::NEVER)
    }

    /// Returns whether the end of a stream has arrived here.
    pub(super) fn has_ended(&self, stream: StreamId) -> bool {
        let receiving = self.0.get(&stream);
        receiving.is_some_and(|receiving| receiving.is_ended)
    }

    fn of(&mut self, stream: StreamId, local: &Local<'_>, now: Instant) -> &mut Receiving {
        self.0.entry(stream).or_insert_with(|| Receiving {
            since: local.settings.millis_at(now),
            held: Held::default(),
            is_ended: false,
            former: None,
            started_at: None,
            sent_at: None,
            due: Instant::NEVER,
        })
    }

    /// Handles what has arrived of a stream that ends here; returns whether that is news.
    pub(super) fn handle_held(
        &mut self,
        local: &Local<'_>,
        stream: StreamId,
        (held, news): (Held, News),
        now: Instant,
    ) -> bool {
        let receiving = self.of(stream, local, now);
        receiving.is_ended |= news == News::Ended;
        if receiving.held == held {
            return false;
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
        true
    }

    /// Sends a receipt towards the source, by a plan that ends here.
    pub(super) fn send(
        &mut self,
        turn: &mut Turn<'_>,
        local: &Local<'_>,
        parts: &Parts,
        plan: PlanKey,
    ) {
        let Some(part) = parts.get(plan) else {
            return;
        };
        let is_source = part.source == local.id();
        let (stream, epoch) = plan;
        let receiving = self.of(stream, local, turn.now);
        if is_source {
            return;
        }
        receiving.sent_at = Some(turn.now);
        receiving.due = Instant::NEVER;
        let receipt = Receipt {
            stream,
            epoch,
            since: receiving.since,
            held: receiving.held.clone(),
        };
        parts.report(turn, Said::Receipt(receipt));
    }

    /// Sends the due receipts, each by the newest plan with a link to its previous node.
    pub(super) fn send_due(&mut self, turn: &mut Turn<'_>, local: &Local<'_>, parts: &Parts) {
        let now = turn.now;
        let due = self
            .0
            .iter_mut()
            .filter(|(_, receiving)| receiving.due <= now);
        let due = due.map(|(stream, receiving)| {
            receiving.due = Instant::NEVER;
            *stream
        });
        let due: Vec<StreamId> = due.collect();
        for stream in due {
            let is_reached = |part: &&Installation| {
                let before = parts.upstream((stream, part.epoch));
                part.next.is_none() && before.is_some_and(|peer| local.links.has(peer))
            };
            let reached = parts.of_stream(stream).rev().find(is_reached);
            if let Some(epoch) = reached.map(|part| part.epoch) {
                self.send(turn, local, parts, (stream, epoch));
            }
        }
    }

    /// Forgets the streams that no plan brings here any more and no local program wants. What a
    /// waiting subscriber has received is remembered, however long the outage lasts.
    pub(super) fn forget(
        &mut self,
        turn: &mut Turn<'_>,
        parts: &Parts,
        is_wanted: impl Fn(StreamId) -> bool,
    ) {
        let is_over = |stream: StreamId| {
            let is_arriving = parts.of_stream(stream).next().is_some();
            !is_arriving && !is_wanted(stream)
        };
        let forgotten = self.0.extract_if(.., |stream, _| is_over(*stream));
        for (stream, _) in forgotten {
            turn.output(Output::Forgotten { stream });
        }
    }

    /// Handles the end of local interest in a stream of which plans may still bring something.
    pub(super) fn handle_left(
        &mut self,
        local: &Local<'_>,
        parts: &Parts,
        stream: StreamId,
        now: Instant,
    ) {
        let coming = parts.newest_pending(stream);
        if let Some(former) = parts.newest_ending(stream).max(coming) {
            let receiving = self.of(stream, local, now);
            (receiving.former, receiving.started_at) = (Some(former), None);
        }
    }

    /// Handles the first local program that wants a stream. Plans may already bring it: for
    /// programs that have left, or because the node restarted. What arrived then went to no present
    /// program, and its source counts it as received. Returns whether the source may not know that
    /// the earlier programs left.
    pub(super) fn start(&mut self, turn: &mut Turn<'_>, stream: StreamId) -> bool {
        let mut former = None;
        if let Some(receiving) = self.0.get_mut(&stream) {
            // The last group of a stream that has ended here would be delivered once more, to
            // programs that wait for the next stream.
            if receiving.is_ended {
                return false;
            }
            receiving.started_at = Some(turn.now);
            former = receiving.former;
        }
        turn.output(Output::BegunAnew { stream, former });
        former.is_some()
    }

    /// Handles the return of programs to a stream that they left, by this plan. If the plan is one from
    /// before, its source knows neither of the leaving nor of the return, and what it brings is theirs.
    pub(super) fn restart(&mut self, turn: &mut Turn<'_>, (stream, epoch): PlanKey) {
        if let Some(receiving) = self.0.get_mut(&stream) {
            receiving.former = receiving.former.filter(|former| *former < epoch);
        }
        self.start(turn, stream);
    }

    /// Handles a renewal of a plan that ends here. A source that has made no plan since new
    /// programs replaced those that left does not know of the leaving: the message was lost, and
    /// the plan belongs to the new ones.
    pub(super) fn reclaim(&mut self, turn: &mut Turn<'_>, parts: &Parts, (stream, epoch): PlanKey) {
        let newest = parts.newest_ending(stream);
        let Some(receiving) = self.0.get_mut(&stream) else {
            return;
        };
        let is_former = receiving
            .former
            .is_some_and(|former| epoch <= former && newest <= Some(former));
        let started_at = receiving.started_at.filter(|_| is_former);
        if started_at.is_some_and(|started_at| started_at + IN_FLIGHT_MAX <= turn.now) {
            receiving.former = None;
            turn.output(Output::GoesOn { stream });
        }
    }
}
