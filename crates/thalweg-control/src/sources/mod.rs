//! Published streams: their stages, their sinks, their plans, and what sessions ask for.
//!
//! *The idea.* A stream is announced until what was sent has reached its sinks or is dropped; so
//! long, they keep their plans. Its name is taken only while its program is connected: another
//! program may publish it meanwhile, as another stream. The sinks of the first reach its end, which
//! marks it as cut off ([`Sequel`](crate::control::Sequel)), and switch to the next.
//!
//! ```text
//! open ─► program gone: draining ─► settled, or room is needed: withdrawn ─► over
//!   └──────── finished ──────────────────────────────────────────┘
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | `source` | one published stream |
//! | `serve` | subscriptions, receipts, and what a session asks for |
//! | `deploy` | from a wanted plan to its `Prepare` messages |
//! | `keys` | the keys of a stream |
//! | `route` | which path a stream would take |
//!
//! *What it does not do.* When to plan and when a plan takes over is the [`session`](crate::session)'s
//! decision. When a stream has settled the driver knows: it withdraws it then.
//!
//! *Sources.* docs/concepts/recast.md §7.

mod deploy;
pub(crate) mod keys;
pub(crate) mod route;
mod serve;
mod source;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use thalweg_base::description::Description;
use thalweg_base::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use thalweg_base::limits::{HOLD_TOTAL_BYTES_MAX, STREAMS_PER_NODE_MAX};
use thalweg_base::needs::Needs;
use thalweg_base::time::Instant;
use thalweg_base::wire::control::Body;
use thalweg_base::wire::record::Announced;

use crate::accounting::Accounting;
use crate::admission::Rights;
use crate::effect::{Effect, Note, Output, PlanKey, Turn};
use crate::facts::{Facts, Keys, KeysError, no_right};
use crate::health::{Health, patience};
use crate::ledger::{Account, Counts, Patience, Reading};
use crate::planning::{Publication, PublishError};
use crate::records::stream_id::stream_id;
use crate::routing::{Directory, LinkChanges};
use crate::session::Part;
use keys::StreamKeys;
use source::{Stage, held_bytes};

pub use source::{PlanState, SinkPlan, Source};

/// What a source reads of other owners.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View<'a> {
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) health: &'a Health,
}

/// The owner of the streams that this node publishes, or published a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    sources: BTreeMap<StreamId, Source>,
}

impl Sources {
    /// Returns the streams, ordered by their bytes on the wire.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Source> {
        self.sources.values()
    }

    /// Returns the stream with these bytes.
    pub(crate) fn get(&self, stream: StreamId) -> Option<&Source> {
        self.sources.get(&stream)
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the stream of a name with a connected publisher.
    pub(crate) fn open(&self, name: &StreamName) -> Option<&Source> {
        let mut open = self.all().filter(|source| source.is_open());
        open.find(|source| source.publication.name == *name)
    }

    /// Returns what this node's record says of its streams.
    pub(crate) fn announced(&self) -> Vec<Announced> {
        let announced = self.all().filter(|source| source.is_announced());
        let mut announced: Vec<&Source> = announced.collect();
        // A node that looks up the name takes the first match, and a stream that drains is of no
        // use to a new sink.
        announced.sort_by_key(|source| !source.is_open());
        let announced = announced.into_iter().take(STREAMS_PER_NODE_MAX);
        announced.map(Source::announced).collect()
    }

    /// Returns what the announced streams carry, as far as it is known.
    pub(crate) fn described(&self) -> Vec<(StreamId, Description)> {
        let announced = self.all().filter(|source| source.is_announced());
        let described = announced.map(|source| (source.stream(), &source.publication.description));
        let described = described.filter(|(_, description)| !description.is_empty());
        described
            .map(|(stream, description)| (stream, description.clone()))
            .collect()
    }

    /// Returns the nodes of a plan that is not over.
    pub(crate) fn path(&self, (stream, epoch): PlanKey) -> Option<&[NodeId]> {
        let path = self.get(stream)?.paths.get(&epoch)?;
        Some(path)
    }

    /// Returns the hop of a plan at this distance from the first node with a part of it.
    pub(crate) fn hop(&self, plan: PlanKey, distance: usize) -> Option<[NodeId; 2]> {
        let source = self.get(plan.0)?;
        let start = source.grafts.get(&plan.1).copied().unwrap_or(0);
        let at = start + distance;
        self.path(plan)?.get(at..at + 2)?.try_into().ok()
    }

    /// Returns the position on a plan's path of the node at this position in its account.
    pub(crate) fn position(&self, (stream, epoch): PlanKey, in_account: usize) -> usize {
        let source = self.get(stream);
        let start = source.and_then(|source| source.grafts.get(&epoch));
        start.copied().unwrap_or(0).saturating_sub(1) + in_account
    }

    /// Returns whether a plan is grafted, by one or more steps, on another.
    pub(crate) fn is_grafted(&self, (stream, epoch): PlanKey, via: Epoch) -> bool {
        let source = self.get(stream);
        source.is_some_and(|source| epoch != via && source.root(epoch) == via)
    }

    /// Returns the plans in force, each with how long reports on its ADUs are awaited.
    pub(crate) fn plans_in_force(&self) -> Vec<(PlanKey, Patience)> {
        let plans = self.all().flat_map(|source| {
            let patience = patience(&source.publication.needs);
            let active = source.session.active();
            active.map(move |(_, epoch)| ((source.stream(), epoch), patience))
        });
        plans.collect()
    }

    /// Returns when the first session is due.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let sessions = self.all().map(|source| source.session.poll_timeout());
        sessions.min().unwrap_or(Instant::NEVER)
    }

    /// Returns how many streams this node announces, and how many payload bytes they may hold.
    fn announced_load(&self) -> (usize, u64) {
        let announced = self.all().filter(|one| one.is_announced());
        announced.fold((0, 0), |(streams, held), source| {
            (streams + 1, held + held_bytes(&source.publication.needs))
        })
    }

    /// Returns the stream that has drained longest, if a new publisher would otherwise lack room.
    pub(crate) fn in_the_way(&self, needs: &Needs) -> Option<StreamId> {
        let (streams, held) = self.announced_load();
        let has_room = streams < STREAMS_PER_NODE_MAX
            && held + held_bytes(needs) <= HOLD_TOTAL_BYTES_MAX.as_bytes();
        let draining = self.all();
        let draining = draining.filter_map(|one| Some((one.drains_since()?, one.stream())));
        let (_, oldest) = draining.min().filter(|_| !has_room)?;
        Some(oldest)
    }

    /// Publishes a stream and returns its bytes on the wire. `given` is its plan, if it is not to
    /// be planned.
    pub(crate) fn publish(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        publication: Publication,
        given: Option<Vec<Part>>,
        keys: &mut dyn Keys,
    ) -> Result<StreamId, PublishError> {
        self.check(facts, &publication, given.as_deref())?;
        let name = publication.name.clone();
        let random = |error: KeysError| PublishError::Invalid {
            name: name.clone(),
            why: error.to_string(),
        };
        let stream_keys = StreamKeys::draw(keys).map_err(random)?;
        let mut start = [0; 8];
        keys.random(&mut start).map_err(random)?;
        let stream = stream_id(facts.id(), &name, start, keys);
        let source = Source::new((stream, start), publication, given, stream_keys);
        self.sources.insert(stream, source);
        turn.note(Note::Published { stream: name });
        turn.push(Effect::Announce);
        Ok(stream)
    }

    fn check(
        &self,
        facts: &Facts<'_>,
        publication: &Publication,
        given: Option<&[Part]>,
    ) -> Result<(), PublishError> {
        let name = || publication.name.clone();
        if !facts.local.may(Rights::PUBLISH) {
            let why = no_right("this node", Rights::PUBLISH);
            return Err(PublishError::Invalid { name: name(), why });
        }
        if self.open(&publication.name).is_some() {
            return Err(PublishError::Taken(name()));
        }
        let (streams, held) = self.announced_load();
        if streams >= STREAMS_PER_NODE_MAX {
            return Err(PublishError::TooMany(STREAMS_PER_NODE_MAX));
        }
        if held + held_bytes(&publication.needs) > HOLD_TOTAL_BYTES_MAX.as_bytes() {
            let why = format!(
                "this node's held streams may take {HOLD_TOTAL_BYTES_MAX} together: set a smaller `hold_size`"
            );
            return Err(PublishError::Invalid { name: name(), why });
        }
        let fault = publication.fault(facts.id(), given);
        fault.map_or(Ok(()), |why| {
            Err(PublishError::Invalid { name: name(), why })
        })
    }

    /// Withdraws a stream; returns whether it was announced.
    pub(crate) fn unpublish(&mut self, turn: &mut Turn<'_>, stream: StreamId) -> bool {
        let announced = self.sources.get_mut(&stream);
        let Some(source) = announced.filter(|source| source.is_announced()) else {
            return false;
        };
        source.stage = Stage::Withdrawn;
        source.session.handle_close(turn.now);
        let name = source.publication.name.clone();
        turn.note(Note::Unpublished { stream: name });
        turn.push(Effect::Announce);
        true
    }

    /// Handles the disconnection of a stream's publisher: the name is free, and what was sent
    /// drains. Returns whether it was open.
    pub(crate) fn drain(&mut self, turn: &mut Turn<'_>, stream: StreamId) -> bool {
        let Some(source) = self.sources.get_mut(&stream).filter(|one| one.is_open()) else {
            return false;
        };
        source.stage = Stage::Draining(turn.now);
        let name = source.publication.name.clone();
        turn.note(Note::Draining { stream: name });
        turn.push(Effect::Announce);
        true
    }

    /// Handles a change of the map, in which these links may have come or gone.
    pub(crate) fn handle_change(
        &mut self,
        changes: &LinkChanges,
        directory: &Directory,
        now: Instant,
    ) {
        for source in self.sources.values_mut() {
            let is_joined = |from, to| directory.is_joined(from, to);
            source.session.handle_change(changes, is_joined, now);
        }
    }

    /// Handles a silent link.
    pub(crate) fn handle_suspect(&mut self, [from, to]: [NodeId; 2], until: Instant) {
        for source in self.sources.values_mut() {
            source.session.handle_suspect(from, to, until);
        }
    }

    /// Handles a doubtful link.
    pub(crate) fn handle_doubt(&mut self, [from, to]: [NodeId; 2], until: Instant) {
        for source in self.sources.values_mut() {
            source.session.handle_doubt(from, to, until);
        }
    }

    /// Handles a node that may no longer subscribe.
    pub(crate) fn handle_expelled(&mut self, sink: NodeId, now: Instant) {
        for source in self.sources.values_mut() {
            source.session.handle_unsubscribe(sink, now);
        }
    }

    /// Handles a node that is about to leave, in all streams.
    pub(crate) fn handle_leave(&mut self, node: NodeId, now: Instant) {
        for source in self.sources.values_mut() {
            source.session.handle_leave(node, now);
        }
    }

    /// Requests new keys for the streams of which a node has the key without the right to it.
    pub(crate) fn handle_exposure(&mut self, node: NodeId, now: Instant) {
        let announced = self.sources.values_mut();
        let announced = announced.filter(|source| source.is_announced());
        for source in announced.filter(|source| source.keys.is_held_by(node)) {
            source.session.handle_exposed(now);
        }
    }

    /// Returns whether a plan of this stream leads through a node.
    pub(crate) fn is_on_path(&self, node: NodeId, stream: StreamId) -> bool {
        let source = self.get(stream).into_iter();
        let mut paths = source.flat_map(|source| source.paths.values());
        paths.any(|path| path.contains(&node))
    }

    /// Handles a node's answer to what a session sent it, or the end of a subscription.
    pub(crate) fn handle_answer(&mut self, from: NodeId, body: &Body, now: Instant) {
        let (Body::Unsubscribe { stream }
        | Body::Lacking { stream, .. }
        | Body::Ready { stream, .. }
        | Body::Refuse { stream, .. }
        | Body::Casting { stream, .. }) = body
        else {
            return;
        };
        let Some(source) = self.sources.get_mut(stream) else {
            return;
        };
        let session = &mut source.session;
        match body {
            Body::Unsubscribe { .. } => session.handle_unsubscribe(from, now),
            Body::Lacking { epochs, .. } => {
                session.handle_lacking(from, epochs, now);
                if let Some(plan) = source.sinks.get_mut(&from) {
                    plan.handle_lacking();
                }
            }
            Body::Ready { epoch, .. } => session.handle_ready(from, *epoch, now),
            Body::Refuse { epoch, reason, .. } => {
                session.handle_refuse(from, *epoch, reason, now);
            }
            Body::Casting { epoch, .. } => session.handle_casting(from, *epoch, now),
            _ => {}
        }
    }

    /// Handles a sequence above everything that was sent before the plans of the last
    /// [`Output::Active`] took effect at the driver; returns whether the stream is known.
    pub(crate) fn handle_next(&mut self, stream: StreamId, next: Sequence) -> bool {
        let source = self.sources.get_mut(&stream);
        let source = source.map(|source| source.session.handle_next(next));
        source.is_some()
    }

    /// Handles the counters of what was sent under no plan.
    pub(crate) fn handle_unplanned(&mut self, stream: StreamId, counts: &Counts) {
        if let Some(source) = self.sources.get_mut(&stream) {
            source.book.handle_unplanned(counts);
        }
    }

    /// Handles the end of a plan: its account, if it has one, is added to the stream's book.
    pub(crate) fn handle_plan_over(&mut self, (stream, epoch): PlanKey, account: Option<Account>) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        if let Some(mut account) = account {
            account.go_by_receipts();
            let path = source.account_path(epoch).to_vec();
            source.book.close(&account, &path);
        }
        source.handle_over(epoch);
    }

    /// Returns what became of the ADUs of a stream.
    ///
    /// Cost    O(counters of its plans)
    pub(crate) fn reading(
        &self,
        stream: StreamId,
        id: NodeId,
        accounting: &Accounting,
    ) -> Option<Reading> {
        Some(self.get(stream)?.reading(id, accounting))
    }

    /// Notes now and then that a stream loses ADUs, if a plan of it has lost more.
    pub(crate) fn handle_counted(
        &mut self,
        turn: &mut Turn<'_>,
        (id, accounting): (NodeId, &Accounting),
        stream: StreamId,
        has_lost_more: bool,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        if has_lost_more {
            source.book.handle_loss();
        }
        // Summing up all plans for each report took half of the CPU time of a source with 200 sinks.
        if !source.book.is_note_due(turn.now) {
            return;
        }
        let reading = source.reading(id, accounting);
        if let Some(loss) = source.book.poll_note(&reading, turn.now) {
            let stream = source.publication.name.clone();
            turn.note(Note::Losing { stream, loss });
        }
    }

    /// Returns the streams that are over.
    pub(crate) fn over(&self) -> Vec<StreamId> {
        let over = self.all().filter(|source| source.is_over());
        over.map(Source::stream).collect()
    }

    /// Removes a stream that is over.
    pub(crate) fn close(
        &mut self,
        turn: &mut Turn<'_>,
        (id, accounting): (NodeId, &Accounting),
        stream: StreamId,
    ) {
        let reading = self.reading(stream, id, accounting).unwrap_or_default();
        if let Some(source) = self.sources.remove(&stream) {
            turn.output(Output::Closed {
                stream,
                name: source.publication.name,
                reading,
            });
        }
    }
}
