//! Neighbours: links that come and go, this node's own record, and the flooding of everybody's.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use bytes::Bytes;

use super::flood::LINKS_FEW;
use super::{Controller, Installation, Keys, Note};
use crate::admission::Rights;
use crate::id::{NodeId, StreamId, StreamName};
use crate::limits::{NEIGHBOURS_MAX, STREAMS_PER_NODE_MAX};
use crate::random::SplitMix;
use crate::routing::cadence::{self, Cadence, Urgency};
use crate::routing::gauge::{Gauge, Sample};
use crate::routing::{News, Signed};
use crate::time::{Duration, Instant};
use crate::units::Bitrate;
use crate::wire::VARINT_MAX;
use crate::wire::control::{self as wire, Message, SIGNATURE_BYTES};
use crate::wire::record::{self, Announced, Neighbour, Record};

/// What precedes a record under its signature, so that it can be taken for nothing else.
const RECORD_CONTEXT: &[u8] = b"thalweg record v1";

/// What precedes what a stream's id is a digest of.
const STREAM_CONTEXT: &[u8] = b"thalweg stream v1";

/// A node of more links than [`LINKS_FEW`] does not tell of each that comes or goes at once: for each of its links it waits so
/// long between two such records.
const LINK_PACE: Duration = Duration::from_millis(2);

/// When this node's record was made, and its number.
#[derive(Debug)]
pub(super) struct OwnRecord {
    sequence: u64,
    /// None: it is to be made at once.
    pub(super) made: Option<Instant>,
    cadence: Cadence,
    /// Something that was measured is to be told, and how much that matters.
    measured: Option<Urgency>,
    /// When links that came or went are to be told of.
    links_due: Instant,
}

impl Default for OwnRecord {
    fn default() -> Self {
        Self {
            sequence: 0,
            made: None,
            cadence: Cadence::default(),
            measured: None,
            links_due: Instant::NEVER,
        }
    }
}

impl Controller {
    /// Takes in that there is a link with a neighbour: it is told what is known and it lacks.
    pub fn handle_link_up(
        &mut self,
        peer: NodeId,
        sample: Sample,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let rate = self.peers.get(&peer).and_then(|peer| peer.rate);
        self.links.insert(peer, Gauge::new(rate, sample, now));
        self.flood.handle_told(peer);
        self.tell_roll(peer);
        self.meet(peer, now);
        self.announce_links(now, keys);
        self.refresh_accounts(peer, now);
        self.settle(now, keys);
    }

    /// Takes in that there is no link with a neighbour any more.
    pub fn handle_link_down(&mut self, peer: NodeId, now: Instant, keys: &mut dyn Keys) {
        self.forget_silence(peer, now);
        self.meetings.remove(peer);
        if self.links.remove(&peer).is_some() {
            self.announce_links(now, keys);
            self.settle(now, keys);
        }
    }

    /// Takes in what was read off a link, at [`gauge::SAMPLE_EVERY`](crate::routing::gauge::SAMPLE_EVERY) while it carries
    /// anything; a new record says so where it matters.
    ///
    /// `at` is when it was read, from which rates are reckoned: who drives may come to say it a moment later.
    pub fn handle_link_sample(
        &mut self,
        peer: NodeId,
        (at, sample): (Instant, Sample),
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let Some(gauge) = self.links.get_mut(&peer) else {
            return;
        };
        let is_news = gauge.handle_sample(sample, at);
        self.doubts.handle(gauge.poll_timeout());
        if is_news {
            let urgency = self.urgency(peer);
            self.own_record.measured = self.own_record.measured.max(Some(urgency));
            self.tell_measured(now, keys);
            self.settle(now, keys);
        }
    }

    /// Doubts what was measured long ago, and tells what was not to be told so soon.
    pub(super) fn time_gauges(&mut self, now: Instant, keys: &mut dyn Keys) {
        if self.doubts.at() <= now && self.doubt_links(now) {
            // A stream that has left it for another comes back by this word alone.
            self.own_record.measured = Some(Urgency::Stream);
        }
        self.tell_measured(now, keys);
        if self.own_record.links_due <= now {
            self.announce(now, keys);
        }
    }

    /// Returns when [`Controller::time_gauges`] has something to do.
    pub(super) fn gauges_timeout(&self) -> Instant {
        let due = self.doubts.at().min(self.own_record.links_due);
        due.min(self.tell_at().unwrap_or(Instant::NEVER))
    }

    /// Takes links that were told to be slow at their old word again, where it is time; returns whether there is one.
    fn doubt_links(&mut self, now: Instant) -> bool {
        let gauges = self.links.values_mut();
        let is_news = gauges.fold(false, |any, gauge| gauge.handle_timeout(now) | any);
        self.doubts
            .look(self.links.values().map(Gauge::poll_timeout));
        is_news
    }

    /// Returns when what was measured may be told, if there is any.
    fn tell_at(&self) -> Option<Instant> {
        let urgency = self.own_record.measured?;
        Some(
            self.own_record
                .cadence
                .next(self.record_interval(), urgency),
        )
    }

    /// Returns who waits for what the link with a neighbour is like.
    fn urgency(&self, peer: NodeId) -> Urgency {
        let is_taken = |part: &Installation| part.next == Some(peer);
        if self.installations().any(is_taken) {
            Urgency::Stream
        } else if self.links.len() > 1 || !self.sources.is_empty() {
            Urgency::Planner
        } else {
            Urgency::Nobody
        }
    }

    /// Takes in that a stream is about to take a link, and so whoever waits to tell of one does not wait so long.
    pub(super) fn hasten_measured(&mut self) {
        self.own_record.measured = self.own_record.measured.map(|_| Urgency::Stream);
    }

    fn tell_measured(&mut self, now: Instant, keys: &mut dyn Keys) {
        if self.tell_at().is_some_and(|at| at <= now) {
            let interval = self.record_interval();
            self.own_record.cadence.handle_told(interval, now);
            self.announce(now, keys);
        }
    }

    /// Returns when this node repeats its record: between half of the interval and half as much again after the last, so
    /// that nodes which started together do not speak together for long.
    pub(super) fn refresh_at(&self) -> Instant {
        let Some(made) = self.own_record.made else {
            return Instant::ZERO;
        };
        let mut seed = [0; 8];
        seed.copy_from_slice(&self.settings.id.0[..8]);
        let seed = u64::from_be_bytes(seed) ^ self.own_record.sequence;
        let share = 512 + SplitMix::new(seed).next_below(1_024);
        let nanos = self.record_interval().as_nanos() / 1_024;
        made + Duration::from_nanos(nanos.saturating_mul(share))
    }

    fn record_interval(&self) -> Duration {
        cadence::interval(self.directory.size())
    }

    /// Tells of links that have come or gone: at once, or together with others if there are many.
    ///
    /// A record names all links of its node. Were each of 200 links that come up in a second told at once, 200 neighbours would
    /// be given 200 records of up to 200 links each, and have no time for anything else.
    fn announce_links(&mut self, now: Instant, keys: &mut dyn Keys) {
        let links = self.links.len();
        if links > NEIGHBOURS_MAX && self.names_as_before() {
            return;
        }
        let pace = Duration::from_nanos(LINK_PACE.as_nanos() * links as u64);
        let made = self.own_record.made.filter(|_| links > LINKS_FEW);
        match made.map(|made| made + pace).filter(|due| *due > now) {
            Some(due) => self.own_record.links_due = due,
            None => self.announce(now, keys),
        }
    }

    /// Makes, signs and floods this node's record.
    pub(super) fn announce(&mut self, now: Instant, keys: &mut dyn Keys) {
        let record = self.make_record(now, keys);
        let bytes = record::encode(&record);
        let signature = keys.sign(&[RECORD_CONTEXT, &bytes].concat());
        let signed = Signed {
            record: bytes,
            signature,
        };
        let haste = self.haste(&record);
        let (of, frame) = ((record.node, record.sequence), frame(&signed));
        self.flood(of, frame, None, haste, now);
        let news = self.directory.handle_record(record, signed, now);
        self.is_changed |= news == News::Changed;
    }

    fn make_record(&mut self, now: Instant, keys: &dyn Keys) -> Record {
        self.own_record.measured = None;
        self.own_record.links_due = Instant::NEVER;
        self.own_record.made = Some(now);
        // The time of day keeps the number growing across restarts; a clock set back is outrun by one.
        let since_1970 = self.settings.since_1970.as_micros();
        let micros = since_1970.saturating_add(now.as_nanos() / 1_000);
        let next = self.own_record.sequence.saturating_add(1);
        self.own_record.sequence = micros.max(next).min(VARINT_MAX);
        let neighbours = self.named().into_iter();
        // Announced without the right, they would cost this node its place on every map.
        let may_publish = self.roll.may(self.id(), Rights::PUBLISH);
        let streams = self.sources.values();
        let streams = streams.filter(|source| may_publish && source.is_announced());
        let mut streams: Vec<&super::Source> = streams.collect();
        // A node that looks for the name takes the first, and a stream that drains is of no use to a new
        // sink.
        streams.sort_by_key(|source| !source.is_open());
        Record {
            node: self.id(),
            sequence: self.own_record.sequence,
            name: self.settings.name.as_str().into(),
            slots: self.settings.slots,
            box_key: keys.box_key(),
            neighbours: neighbours
                .map(|(peer, gauge)| self.neighbour(*peer, gauge))
                .collect(),
            streams: streams
                .into_iter()
                .take(STREAMS_PER_NODE_MAX)
                .map(super::Source::announced)
                .collect(),
        }
    }

    /// Returns which of its links this node's record names, ordered by key.
    ///
    /// Of more than a record holds those of neighbours who carry for others come first, for over a link that one end does not
    /// name only the other end is reached (`routing`). Among equals who was named stays, so that the map does not change with
    /// each that comes.
    ///
    /// Cost    O(links · log links)
    fn named(&self) -> Vec<(&NodeId, &Gauge)> {
        let mut named: Vec<_> = self.links.iter().collect();
        if named.len() > NEIGHBOURS_MAX {
            let before = self.names_before();
            named.sort_by_cached_key(|(peer, _)| {
                (self.rank_of_end(**peer), !before.contains(*peer))
            });
            named.truncate(NEIGHBOURS_MAX);
            named.sort_by_key(|(peer, _)| **peer);
        }
        named
    }

    /// Returns how little others need a way over a neighbour: 0 for a hub, 1 for who has another link, 2 for who has none.
    fn rank_of_end(&self, node: NodeId) -> u8 {
        let links = self.directory.record(node);
        match links.map_or(0, |record| record.neighbours.len()) {
            0 | 1 => 2,
            few if few <= LINKS_FEW => 1,
            _ => 0,
        }
    }

    fn names_before(&self) -> BTreeSet<NodeId> {
        let before = self.directory.record(self.id()).into_iter();
        let named = before.flat_map(|record| &record.neighbours);
        named.map(|there| there.node).collect()
    }

    /// Returns whether this node's record would name whom it names already.
    fn names_as_before(&self) -> bool {
        let named = self.named().into_iter().map(|(peer, _)| *peer);
        named.eq(self.names_before())
    }

    fn neighbour(&self, node: NodeId, gauge: &Gauge) -> Neighbour {
        let peer = self.peers.get(&node);
        let told = gauge.told();
        Neighbour {
            node,
            rtt: told.rtt,
            loss_ppm: (told.loss.as_f64() * 1e6) as u32,
            rate: told.rate.unwrap_or(Bitrate::ZERO),
            is_measured: told.is_measured,
            secure: peer.is_none_or(|peer| peer.secure),
        }
    }

    pub(super) fn handle_record(
        &mut self,
        from: NodeId,
        bytes: Vec<u8>,
        signature: [u8; SIGNATURE_BYTES],
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let record = match record::decode(&bytes) {
            Ok(record) => record,
            Err(error) => return self.note(Note::RecordRefused { from, error }),
        };
        let node = record.node;
        let signed = Signed {
            record: bytes,
            signature,
        };
        // A network of many ways brings each record over several of them, and its signature costs more to verify than all else that
        // is done with it.
        if self.directory.has(node, &signed) {
            return self.flood.handle_known(node, record.sequence, from);
        }
        if !keys.verify(node, &[RECORD_CONTEXT, &signed.record].concat(), &signature) {
            return self.note(Note::RecordForged { from, node });
        }
        if let Some(name) = borrowed_stream(&record, keys) {
            let stream = name.clone();
            return self.note(Note::RecordBorrows { node, stream });
        }
        if node == self.id() {
            return self.outrun(record.sequence, now, keys);
        }
        if let Some(refusal) = self.check_record(from, &record) {
            return self.note(refusal);
        }
        let haste = self.haste(&record);
        let (of, frame) = ((node, record.sequence), frame(&signed));
        let rank = self.rank_of_end(node);
        let news = self.directory.handle_record(record, signed, now);
        match news {
            News::Changed | News::Refreshed => self.flood(of, frame, Some(from), haste, now),
            News::Old => self.flood.handle_known(of.0, of.1, from),
            News::Full => {}
        }
        if self.links.len() > NEIGHBOURS_MAX && self.rank_of_end(node) != rank {
            self.announce_links(now, keys);
        }
        self.is_changed |= news == News::Changed;
    }

    /// A record of this node from before a restart, with a larger number than ours, must not stand.
    fn outrun(&mut self, sequence: u64, now: Instant, keys: &mut dyn Keys) {
        if sequence > self.own_record.sequence {
            self.own_record.sequence = sequence;
            self.announce(now, keys);
        }
    }
}

/// Returns the name of a stream whose id is not that of the record's node, name and start.
pub(super) fn borrowed_stream<'a>(record: &'a Record, keys: &dyn Keys) -> Option<&'a StreamName> {
    let own = |stream: &Announced| stream_id(record.node, &stream.name, stream.start, keys);
    let borrowed = record
        .streams
        .iter()
        .find(|stream| stream.id != own(stream));
    borrowed.map(|stream| &stream.name)
}

/// Returns the eight bytes of a stream on the wire.
///
/// They depend on the source's key, so no other node can announce, and so plan, a stream of this id.
pub(super) fn stream_id(
    node: NodeId,
    name: &StreamName,
    start: [u8; 8],
    keys: &dyn Keys,
) -> StreamId {
    let message = [STREAM_CONTEXT, &node.0, &start, name.as_str().as_bytes()].concat();
    StreamId(u64::from_be_bytes(keys.digest(&message)))
}

/// Returns a record as a control frame.
pub(super) fn frame(signed: &Signed) -> Bytes {
    wire::encode(&Message::Record {
        record: signed.record.clone(),
        signature: signed.signature,
    })
    .into()
}
