//! The records of all nodes: this node's own, and which of the others' are accepted.
//!
//! *The idea.* Each node signs a record of its links and streams and floods it. This owner holds
//! them all, makes this node's when a link, a measurement or a stream is to be announced, and sends
//! a new neighbour those that it lacks. Who floods them when is [`mail`](crate::mail)'s task.
//!
//! | file | what it is |
//! |---|---|
//! | `descriptions` | what streams carry |
//! | `leaves` | what neighbours that nothing passes through are sent, and when |
//! | `meeting` | what a new neighbour is sent |
//! | `own` | when this node's record is made |
//! | `stream_id` | ids of streams |
//!
//! *Sources.* docs/reference/protocol.md §5; docs/concepts/routing.md.

mod descriptions;
pub(crate) mod leaves;
pub(crate) mod meeting;
mod own;
pub(crate) mod stream_id;

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::description::Description;
use thalweg_base::id::{NodeId, StreamId};
use thalweg_base::limits::NEIGHBOURS_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_base::wire::control::{self as wire, Message};
use thalweg_base::wire::record::{self, Announced, Neighbour, Record};
use thalweg_link::gauge::Gauge;

use crate::admission::{Rights, Roll};
use crate::effect::{Effect, Flooding, Note, Turn};
use crate::facts::{Keys, Local};
use crate::mail::flood::{Haste, LINKS_FEW};
use crate::routing::cadence::{self, Urgency};
use crate::routing::{Directory, LinkChanges, News, Signed};
use descriptions::Descriptions;
use leaves::{Leaves, is_leaf};
use meeting::Meetings;
use own::OwnRecord;
use stream_id::borrowed_stream;

/// Domain separator in front of a record under its signature.
const RECORD_CONTEXT: &[u8] = b"thalweg record v1";

/// Minimum interval between two records about new or lost links, per link, for a node with more
/// than [`LINKS_FEW`] links.
const LINK_PACE: Duration = Duration::from_millis(2);

/// The owner of all records.
#[derive(Debug, Default)]
pub(crate) struct Records {
    directory: Directory,
    own: OwnRecord,
    meetings: Meetings,
    descriptions: Descriptions,
    leaves: Leaves,
}

impl Records {
    /// Returns the directory of all known nodes.
    pub(crate) const fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the links of the map that may have come or gone since the last call.
    pub(crate) fn take_link_changes(&mut self) -> LinkChanges {
        self.directory.take_link_changes()
    }

    /// Handles the loss of a link.
    pub(crate) fn handle_link_down(&mut self, peer: NodeId) {
        self.meetings.remove(peer);
        self.leaves.remove(peer);
    }

    /// Handles a measurement of a link that the record does not show.
    pub(crate) fn handle_measured(&mut self, turn: &mut Turn<'_>, urgency: Urgency) {
        self.own.handle_measured(urgency);
        if self.is_measured_due(turn.now) {
            self.announce_measured(turn);
        }
    }

    /// Handles a stream that is about to use a link: pending measurements get the highest urgency.
    pub(crate) const fn raise_urgency(&mut self) {
        self.own.raise_urgency();
    }

    /// Handles a change of what this node may announce: its record is made again at once.
    pub(crate) const fn handle_rights_change(&mut self) {
        self.own.make_at_once();
    }

    /// Removes the record of a node that has no right to it: one that is expelled, or that
    /// announces streams and may not publish. Returns whether it was removed.
    pub(crate) fn remove_unfit(&mut self, node: NodeId, roll: &Roll) -> bool {
        let announces = |record: &Record| !record.streams.is_empty();
        let announces = self.directory.record(node).is_some_and(announces);
        let is_unfit = announces && !roll.may(node, Rights::PUBLISH) || !roll.admits(node);
        if is_unfit {
            self.directory.remove(node);
            self.descriptions.handle_record(node, &BTreeSet::new());
        }
        is_unfit
    }

    /// Repeats this node's record if that is due.
    pub(crate) fn handle_refresh(&self, turn: &mut Turn<'_>, id: NodeId) {
        if self.refresh_at(id) <= turn.now {
            turn.push(Effect::Announce);
        }
    }

    /// Announces what a limit held back. `has_forgotten`: a low rate that was measured long ago
    /// counts no more.
    pub(crate) fn handle_gauges(&mut self, turn: &mut Turn<'_>, has_forgotten: bool) {
        if has_forgotten {
            // A stream that left this link for another can only return after this announcement.
            self.own.set_measured(Urgency::Stream);
        }
        if self.is_measured_due(turn.now) {
            self.announce_measured(turn);
        } else if self.own.links_due() <= turn.now {
            turn.push(Effect::Announce);
        }
    }

    /// Removes from the map what is silent for too long.
    pub(crate) fn handle_timeout(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        if self.directory.handle_timeout(id, turn.now) {
            turn.push(Effect::Changed);
        }
    }

    /// Returns when something is due.
    pub(crate) fn poll_timeout(&self, id: NodeId) -> Instant {
        let measured = self.own.measured_due(self.interval());
        self.refresh_at(id)
            .min(self.directory.poll_timeout())
            .min(self.own.links_due())
            .min(measured.unwrap_or(Instant::NEVER))
            .min(self.meetings.poll_timeout())
            .min(self.leaves.poll_timeout())
    }

    fn is_measured_due(&self, now: Instant) -> bool {
        let due = self.own.measured_due(self.interval());
        due.is_some_and(|at| at <= now)
    }

    fn announce_measured(&mut self, turn: &mut Turn<'_>) {
        let interval = self.interval();
        self.own.handle_told(interval, turn.now);
        turn.push(Effect::Announce);
    }

    fn refresh_at(&self, id: NodeId) -> Instant {
        self.own.refresh_at(id, self.interval())
    }

    fn interval(&self) -> Duration {
        cadence::interval(self.directory.size())
    }

    /// Announces links that have come or gone: at once, or batched on a node with many links.
    ///
    /// A record names all links of its node. Were each of 200 links that come up within a second
    /// announced at once, 200 neighbours would be sent 200 records of up to 200 links each.
    pub(crate) fn announce_links(&mut self, turn: &mut Turn<'_>, local: &Local<'_>) {
        let links = local.links.count();
        if links > NEIGHBOURS_MAX && self.names_same_neighbours(local) {
            return;
        }
        let pace = Duration::from_nanos(LINK_PACE.as_nanos() * links as u64);
        let made = self.own.made().filter(|_| links > LINKS_FEW);
        match made.map(|made| made + pace).filter(|due| *due > turn.now) {
            Some(due) => self.own.set_links_due(due),
            None => turn.push(Effect::Announce),
        }
    }

    /// Makes, signs and floods this node's record, with these streams and what they carry.
    pub(crate) fn announce(
        &mut self,
        turn: &mut Turn<'_>,
        local: &Local<'_>,
        (mut streams, described): (Vec<Announced>, Vec<(StreamId, Description)>),
        keys: &mut dyn Keys,
    ) {
        // Without the right to publish, a record with streams would be refused on every map.
        if !local.may(Rights::PUBLISH) {
            streams.clear();
        }
        let record = self.make_record(local, streams, turn.now, keys);
        let bytes = record::encode(&record);
        let signature = keys.sign(&[RECORD_CONTEXT, &bytes].concat());
        let signed = Signed {
            record: bytes,
            signature,
        };
        let also_to = self.needing_own(&record);
        let is_leaf = also_to.is_some();
        if is_leaf {
            self.leaves.withhold(record.node, turn.now);
        } else {
            self.leaves.handle_flooded(record.node);
        }
        turn.push(Effect::Flood(Flooding {
            of: (record.node, record.sequence),
            frame: frame(&signed),
            from: None,
            is_leaf,
            also_to: also_to.unwrap_or_default(),
            pace: self.haste(&record, local).pace(),
        }));
        let news = self.take(record, signed, turn.now);
        if news == News::Changed {
            turn.push(Effect::Changed);
        }
        self.describe(turn, local, described, keys);
    }

    /// Puts a record into the directory; descriptions of streams that it does not announce go.
    fn take(&mut self, record: Record, signed: Signed, now: Instant) -> News {
        let (node, streams) = (record.node, record.streams.iter());
        let streams: BTreeSet<StreamId> = streams.map(|stream| stream.id).collect();
        let news = self.directory.handle_record(record, signed, now);
        if matches!(news, News::Changed | News::Refreshed) {
            self.descriptions.handle_record(node, &streams);
        }
        news
    }

    fn make_record(
        &mut self,
        local: &Local<'_>,
        streams: Vec<Announced>,
        now: Instant,
        keys: &dyn Keys,
    ) -> Record {
        let settings = local.settings;
        let sequence = self.own.make(settings.since_1970, now);
        let neighbours = self.named(local).into_iter();
        let neighbours = neighbours.map(|(peer, gauge)| neighbour(local, peer, gauge));
        Record {
            node: settings.id,
            sequence,
            name: settings.name.as_str().into(),
            slots: settings.slots,
            box_key: keys.box_key(),
            neighbours: neighbours.collect(),
            streams,
        }
    }

    /// Returns which links this node's record names, ordered by key.
    ///
    /// If there are more than a record holds, links to neighbours with many links come first: a
    /// link that only one end names leads to the other end only (`routing`). Among equals, links
    /// that are already named stay, so that the map does not change with each new link.
    ///
    /// Cost    O(links · log links)
    fn named<'a>(&self, local: &Local<'a>) -> Vec<(NodeId, &'a Gauge)> {
        let mut named: Vec<_> = local.links.all().collect();
        if named.len() > NEIGHBOURS_MAX {
            let before = self.named_before(local.id());
            named.sort_by_cached_key(|(peer, _)| (self.relay_rank(*peer), !before.contains(peer)));
            named.truncate(NEIGHBOURS_MAX);
            named.sort_by_key(|(peer, _)| *peer);
        }
        named
    }

    /// Returns how little others depend on a path through a neighbour: 0 for a hub, 1 with another
    /// link, 2 without.
    fn relay_rank(&self, node: NodeId) -> u8 {
        let links = self.directory.record(node);
        match links.map_or(0, |record| record.neighbours.len()) {
            0 | 1 => 2,
            few if few <= LINKS_FEW => 1,
            _ => 0,
        }
    }

    fn named_before(&self, id: NodeId) -> BTreeSet<NodeId> {
        let before = self.directory.record(id).into_iter();
        let named = before.flat_map(|record| &record.neighbours);
        named.map(|there| there.node).collect()
    }

    /// Returns whether a new record would name the same neighbours as the present one.
    fn names_same_neighbours(&self, local: &Local<'_>) -> bool {
        let named = self.named(local).into_iter().map(|(peer, _)| peer);
        named.eq(self.named_before(local.id()))
    }

    /// Returns how long a record may wait to be flooded from here.
    fn haste(&self, record: &Record, local: &Local<'_>) -> Haste {
        let before = self.directory.record(record.node);
        let is_old = before.is_some_and(|before| before.sequence >= record.sequence);
        // Most records of a burst are known already, and are not flooded at all.
        if is_old || local.links.count() <= LINKS_FEW {
            return Haste::Now;
        }
        Haste::of(before, record)
    }

    /// Handles a record from a neighbour.
    pub(crate) fn handle_record(
        &mut self,
        turn: &mut Turn<'_>,
        local: &Local<'_>,
        from: NodeId,
        signed: Signed,
        keys: &dyn Keys,
    ) {
        let record = match record::decode(&signed.record) {
            Ok(record) => record,
            Err(error) => return turn.note(Note::RecordRefused { from, error }),
        };
        let of = (record.node, record.sequence);
        // In a mesh, each record arrives over several paths, and verifying its signature costs more
        // than everything else together.
        if self.directory.has(record.node, &signed) {
            return turn.push(Effect::FloodKnown { of, to: from });
        }
        if let Some(refusal) = check(from, &record, &signed, keys) {
            return turn.note(refusal);
        }
        if record.node == local.id() {
            // It is from before a restart.
            if self.own.outrun(record.sequence) {
                turn.push(Effect::Announce);
            }
            return;
        }
        if let Some(refusal) = check_rights(from, &record, local.roll) {
            return turn.note(refusal);
        }
        self.accept(turn, local, from, record, signed);
    }

    /// Takes in a record that is in order, and passes it on if it is news.
    fn accept(
        &mut self,
        turn: &mut Turn<'_>,
        local: &Local<'_>,
        from: NodeId,
        record: Record,
        signed: Signed,
    ) {
        let of = (record.node, record.sequence);
        let flooding = Flooding {
            of,
            frame: frame(&signed),
            from: Some(from),
            is_leaf: is_leaf(&record) && self.is_leaf(of.0),
            also_to: Vec::new(),
            pace: self.haste(&record, local).pace(),
        };
        let rank = self.relay_rank(of.0);
        let news = self.take(record, signed, turn.now);
        match news {
            News::Changed | News::Refreshed => {
                if flooding.is_leaf {
                    self.leaves.withhold(of.0, turn.now);
                } else {
                    self.leaves.handle_flooded(of.0);
                }
                self.handle_neighbour(turn, local, of.0);
                turn.push(Effect::Flood(flooding));
            }
            News::Old => turn.push(Effect::FloodKnown { of, to: from }),
            News::Full => {}
        }
        if local.links.count() > NEIGHBOURS_MAX && self.relay_rank(of.0) != rank {
            self.announce_links(turn, local);
        }
        if news == News::Changed {
            turn.push(Effect::Changed);
        }
    }
}

/// Returns why a record is not what its node signed, or names what is not its node's.
fn check(from: NodeId, record: &Record, signed: &Signed, keys: &dyn Keys) -> Option<Note> {
    let node = record.node;
    let message = [RECORD_CONTEXT, &signed.record].concat();
    if !keys.verify(node, &message, &signed.signature) {
        return Some(Note::RecordForged { from, node });
    }
    let stream = borrowed_stream(record, keys)?.clone();
    Some(Note::RecordBorrows { node, stream })
}

/// Returns why a signed record is refused, if it is.
fn check_rights(from: NodeId, record: &Record, roll: &Roll) -> Option<Note> {
    let node = record.node;
    if !roll.admits(node) {
        return Some(Note::RecordUngranted { from, node });
    }
    let announces = !record.streams.is_empty();
    (announces && !roll.may(node, Rights::PUBLISH)).then_some(Note::RecordExceeds { from, node })
}

fn neighbour(local: &Local<'_>, node: NodeId, gauge: &Gauge) -> Neighbour {
    let peer = local.peers.get(&node);
    let announced = gauge.told();
    Neighbour {
        node,
        rtt: announced.rtt,
        loss_ppm: (announced.loss.as_f64() * 1e6) as u32,
        rate: announced.rate.unwrap_or(Bitrate::ZERO),
        is_measured: announced.is_measured,
        secure: peer.is_none_or(|peer| peer.secure),
    }
}

/// Returns a record as a control frame.
fn frame(signed: &Signed) -> Bytes {
    wire::encode(&Message::Record {
        record: signed.record.clone(),
        signature: signed.signature,
    })
    .into()
}
