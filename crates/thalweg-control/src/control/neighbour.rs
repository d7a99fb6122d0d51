//! Neighbours: links that come and go, this node's own record, and the records of all nodes.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::limits::{NEIGHBOURS_MAX, STREAMS_PER_NODE_MAX};
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_base::wire::control::{self as wire, Message};
use thalweg_base::wire::record::{self, Neighbour, Record};
use thalweg_base::wire::{SIGNATURE_BYTES, VARINT_MAX};
use thalweg_link::gauge::{Gauge, Sample};

use super::flood::LINKS_FEW;
use super::stream_id::borrowed_stream;
use super::{Controller, Installation, Keys, Note};
use crate::admission::Rights;
use crate::routing::cadence::{self, Cadence, Urgency};
use crate::routing::{News, Signed};

/// Domain separator in front of a record under its signature.
const RECORD_CONTEXT: &[u8] = b"thalweg record v1";

/// Minimum interval between two records about new or lost links, per link, for a node with more
/// than [`LINKS_FEW`] links.
const LINK_PACE: Duration = Duration::from_millis(2);

/// State of this node's own record.
#[derive(Debug)]
pub(super) struct OwnRecord {
    sequence: u64,
    /// When it was last made; `None` to make it at once.
    pub(super) made: Option<Instant>,
    cadence: Cadence,
    /// The urgency of a measurement that the record does not yet show.
    measured: Option<Urgency>,
    /// When new or lost links are to be announced.
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
    /// Handles a new link: the neighbour is sent the grants and records that it lacks.
    pub fn handle_link_up(
        &mut self,
        peer: NodeId,
        sample: Sample,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let rate = self.peers.get(&peer).and_then(|peer| peer.rate);
        self.links.insert(peer, Gauge::new(rate, sample, now));
        self.flood.handle_synced(peer);
        self.send_membership(peer);
        self.send_directory(peer, now);
        self.announce_links(now, keys);
        self.refresh_accounts(peer, now);
        self.settle(now, keys);
    }

    /// Handles the loss of a link.
    pub fn handle_link_down(&mut self, peer: NodeId, now: Instant, keys: &mut dyn Keys) {
        self.forget_silence(peer, now);
        self.meetings.remove(peer);
        if self.links.remove(&peer).is_some() {
            self.announce_links(now, keys);
            self.settle(now, keys);
        }
    }

    /// Handles a reading of a link's counters, which the driver takes every
    /// [`gauge::SAMPLE_EVERY`](thalweg_link::gauge::SAMPLE_EVERY) while the link carries
    /// anything. A change that matters is announced in a new record.
    ///
    /// `at` is when the reading was taken; rates are computed from it, as the driver may deliver it
    /// a moment later.
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
        self.gauges_due.handle(gauge.poll_timeout());
        if is_news {
            let urgency = self.urgency(peer);
            self.own_record.measured = self.own_record.measured.max(Some(urgency));
            self.announce_measured(now, keys);
            self.settle(now, keys);
        }
    }

    /// Handles stale measurements, and announces what the rate limit held back.
    pub(super) fn handle_gauge_timeout(&mut self, now: Instant, keys: &mut dyn Keys) {
        if self.gauges_due.at() <= now && self.expire_low_rates(now) {
            // A stream that left this link for another can only return after this announcement.
            self.own_record.measured = Some(Urgency::Stream);
        }
        self.announce_measured(now, keys);
        if self.own_record.links_due <= now {
            self.announce(now, keys);
        }
    }

    /// Returns when [`Controller::handle_gauge_timeout`] has something to do.
    pub(super) fn gauges_timeout(&self) -> Instant {
        let due = self.gauges_due.at().min(self.own_record.links_due);
        due.min(self.measured_due().unwrap_or(Instant::NEVER))
    }

    /// Discards low rates that were measured long ago ([`Gauge::handle_timeout`]); returns whether
    /// an announced value changes.
    fn expire_low_rates(&mut self, now: Instant) -> bool {
        let gauges = self.links.values_mut();
        let is_news = gauges.fold(false, |any, gauge| gauge.handle_timeout(now) | any);
        self.gauges_due
            .look(self.links.values().map(Gauge::poll_timeout));
        is_news
    }

    /// Returns when a pending measurement may be announced, if there is one.
    fn measured_due(&self) -> Option<Instant> {
        let urgency = self.own_record.measured?;
        Some(
            self.own_record
                .cadence
                .next(self.record_interval(), urgency),
        )
    }

    /// Returns which use of the link to a neighbour waits for its measurements.
    fn urgency(&self, peer: NodeId) -> Urgency {
        let is_used = |part: &Installation| part.next == Some(peer);
        if self.installations().any(is_used) {
            Urgency::Stream
        } else if self.links.len() > 1 || !self.sources.is_empty() {
            Urgency::Planner
        } else {
            Urgency::Nobody
        }
    }

    /// Handles a stream that is about to use a link: pending measurements get the highest urgency.
    pub(super) fn raise_measured_urgency(&mut self) {
        self.own_record.measured = self.own_record.measured.map(|_| Urgency::Stream);
    }

    fn announce_measured(&mut self, now: Instant, keys: &mut dyn Keys) {
        if self.measured_due().is_some_and(|at| at <= now) {
            let interval = self.record_interval();
            self.own_record.cadence.handle_told(interval, now);
            self.announce(now, keys);
        }
    }

    /// Returns when this node repeats its record: 0.5 to 1.5 intervals after the last. The jitter
    /// keeps nodes that started together from announcing together for long.
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

    /// Announces links that have come or gone: at once, or batched on a node with many links.
    ///
    /// A record names all links of its node. Were each of 200 links that come up within a second
    /// announced at once, 200 neighbours would be sent 200 records of up to 200 links each.
    fn announce_links(&mut self, now: Instant, keys: &mut dyn Keys) {
        let links = self.links.len();
        if links > NEIGHBOURS_MAX && self.names_same_neighbours() {
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
        // Wall-clock time keeps the number growing across restarts; a clock that was set back is
        // outrun by one.
        let since_1970 = self.settings.since_1970.as_micros();
        let micros = since_1970.saturating_add(now.as_nanos() / 1_000);
        let next = self.own_record.sequence.saturating_add(1);
        self.own_record.sequence = micros.max(next).min(VARINT_MAX);
        let neighbours = self.named().into_iter();
        // Without the right to publish, a record with streams would be refused on every map.
        let may_publish = self.roll.may(self.id(), Rights::PUBLISH);
        let streams = self.sources.values();
        let streams = streams.filter(|source| may_publish && source.is_announced());
        let mut streams: Vec<&super::Source> = streams.collect();
        // A node that looks up the name takes the first match, and a stream that drains is of no
        // use to a new sink.
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

    /// Returns which links this node's record names, ordered by key.
    ///
    /// If there are more than a record holds, links to neighbours with many links come first: a
    /// link that only one end names leads to the other end only (`routing`). Among equals, links
    /// that are already named stay, so that the map does not change with each new link.
    ///
    /// Cost    O(links · log links)
    fn named(&self) -> Vec<(&NodeId, &Gauge)> {
        let mut named: Vec<_> = self.links.iter().collect();
        if named.len() > NEIGHBOURS_MAX {
            let before = self.named_before();
            named
                .sort_by_cached_key(|(peer, _)| (self.relay_rank(**peer), !before.contains(*peer)));
            named.truncate(NEIGHBOURS_MAX);
            named.sort_by_key(|(peer, _)| **peer);
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

    fn named_before(&self) -> BTreeSet<NodeId> {
        let before = self.directory.record(self.id()).into_iter();
        let named = before.flat_map(|record| &record.neighbours);
        named.map(|there| there.node).collect()
    }

    /// Returns whether a new record would name the same neighbours as the present one.
    fn names_same_neighbours(&self) -> bool {
        let named = self.named().into_iter().map(|(peer, _)| *peer);
        named.eq(self.named_before())
    }

    fn neighbour(&self, node: NodeId, gauge: &Gauge) -> Neighbour {
        let peer = self.peers.get(&node);
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
        // In a mesh, each record arrives over several paths, and verifying its signature costs more
        // than everything else together.
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
            return self.outrun_old_record(record.sequence, now, keys);
        }
        if let Some(refusal) = self.check_record(from, &record) {
            return self.note(refusal);
        }
        let haste = self.haste(&record);
        let (of, frame) = ((node, record.sequence), frame(&signed));
        let rank = self.relay_rank(node);
        let news = self.directory.handle_record(record, signed, now);
        match news {
            News::Changed | News::Refreshed => self.flood(of, frame, Some(from), haste, now),
            News::Old => self.flood.handle_known(of.0, of.1, from),
            News::Full => {}
        }
        if self.links.len() > NEIGHBOURS_MAX && self.relay_rank(node) != rank {
            self.announce_links(now, keys);
        }
        self.is_changed |= news == News::Changed;
    }

    /// Outruns a record of this node from before a restart, if that has a larger number.
    fn outrun_old_record(&mut self, sequence: u64, now: Instant, keys: &mut dyn Keys) {
        if sequence > self.own_record.sequence {
            self.own_record.sequence = sequence;
            self.announce(now, keys);
        }
    }
}

/// Returns a record as a control frame.
pub(super) fn frame(signed: &Signed) -> Bytes {
    wire::encode(&Message::Record {
        record: signed.record.clone(),
        signature: signed.signature,
    })
    .into()
}
