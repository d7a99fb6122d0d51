//! The demultiplexer: bytes in slices of any size, units out.
//!
//! The idea: packets are cut from the bytes (`frame`), each goes to the *lane* of its PID, and a
//! lane emits a unit when it is complete. The output is independent of how the bytes were sliced.
//! Every byte that does not end in a unit is counted under its reason.
//!
//! ```text
//!   bytes ─► frame ─► packet ─► lane(pid): tables   ─► Programme
//!                                         elementary ─► AccessUnit
//!                                         other      ─► Packets
//! ```
//!
//! A PES packet of open length (most video) ends where the next one begins, which would delay every
//! picture by one. But a multiplexer stuffs the last packet of a unit, and has no reason to do so
//! before: stuffing ends the unit. If more follows all the same, it becomes a unit without a time,
//! and nothing is lost. Programme facts are repeated before every key picture and every second of
//! media time, so that a receiver that joins late, or lost them, can begin. Packets that arrive
//! before their table are held, and read as if they arrived after it.
//!
//! Bounds: [`PENDING_BYTES_MAX`] over all lanes; beyond it all pending data is discarded and
//! counted. [`HELD_PACKETS_MAX`] before their tables; beyond it the oldest are dropped and counted.

use std::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;

use super::clock::Clock;
use super::counts::Counts;
use super::frame::Framer;
use super::guide::{Guide, Standing, Step};
use super::lack::Lack;
use super::lane::{Lane, Pes, section_bytes};
use super::packet::{NULL_PID, PACKET_BYTES, Packet};
use super::section::{self, Association};
use super::{AccessUnit, Packets, Programme, Unit, is_all_intra, is_video, pes, unit};
use crate::nal::{Role, classify};

/// Maximum bytes of incomplete units, over all PIDs: two of the largest ADUs.
pub const PENDING_BYTES_MAX: usize = 2 * thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX;

/// Maximum number of packets held of PIDs without a table so far: 1.5 MB, a second at 12 Mbit/s;
/// tables come ten times a second.
pub const HELD_PACKETS_MAX: usize = 8192;

/// The largest unit made of a PES packet: an ADU less its framing.
const UNIT_BYTES_MAX: usize = thalweg_base::limits::ADU_PAYLOAD_BYTES_MAX - 64;

/// Maximum number of packets of an unknown PID in one unit.
const BUNDLE_PACKETS_MAX: usize = 7;

/// Media time between repetitions of programme facts, in 90 kHz ticks: one second.
const REPEAT_90KHZ: u64 = 90_000;

/// The demultiplexer.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    framer: Framer,
    lanes: BTreeMap<u16, Lane>,
    association: Association,
    is_associated: bool,
    programmes: BTreeMap<u16, Listing>,
    /// Whether any content of a listed stream was returned.
    has_content: bool,
    last_pid: Option<u16>,
    held: VecDeque<[u8; PACKET_BYTES]>,
    pending_bytes: usize,
    units: VecDeque<Timed>,
    counts: Counts,
}

/// A unit with its programme's clock.
#[derive(Debug, Clone)]
pub(super) struct Timed {
    pub(super) unit: Unit,
    /// The programme of its clock, if that follows the unit's time.
    pub(super) clock: Option<u16>,
    /// Whether its time is of the programme's clock, which may not follow it.
    pub(super) is_near: bool,
}

/// The state of a programme while it is read.
#[derive(Debug, Clone)]
struct Listing {
    programme: Programme,
    clock: Clock,
    guide: Guide,
    /// Media time when its facts were last returned; `None` until the first timed unit after that.
    given_90khz: Option<u64>,
}

impl Reader {
    /// Returns a reader for the start, or any point, of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.framer.push(bytes);
        self.read(Framer::poll_packet);
    }

    /// Marks the end of the input; pending units are returned as far as they are complete.
    pub fn finish(&mut self) {
        self.read(Framer::poll_last);
        self.framer.finish();
        self.counts.early_packets += self.held.len() as u64;
        self.held.clear();
        for pid in self.lanes.keys().copied().collect::<Vec<_>>() {
            self.finish_pes(pid);
            self.finish_bundle(pid);
        }
    }

    /// Returns the next unit.
    pub fn poll_unit(&mut self) -> Option<Unit> {
        self.poll_timed().map(|timed| timed.unit)
    }

    /// Returns the next unit with its clock.
    pub(super) fn poll_timed(&mut self) -> Option<Timed> {
        self.units.pop_front()
    }

    /// Returns the unit after that, if it is known already.
    pub(super) fn peek_unit(&self) -> Option<&Unit> {
        self.units.front().map(|timed| &timed.unit)
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        let frames = self.framer.counts();
        Counts {
            skipped_bytes: frames.skipped_bytes,
            truncated_bytes: frames.truncated_bytes,
            framing_bytes: frames.framing_bytes,
            sync_losses: frames.sync_losses,
            ..self.counts
        }
    }

    /// Returns what is still missing before anything of the stream can be used.
    pub fn lack(&self) -> Option<Lack> {
        let counts = &self.counts;
        let streams = |listing: &Listing| -> Vec<u16> {
            let streams = listing.programme.streams.iter();
            streams.map(|stream| stream.pid).collect()
        };
        Some(match () {
            () if counts.packets == 0 => Lack::Packets,
            () if counts.packets == counts.null_packets => Lack::Content,
            () if !self.is_associated => Lack::Association {
                broken: counts.bad_pats,
            },
            () if self.association.programmes.is_empty() => Lack::Programmes,
            () if self.programmes.is_empty() => Lack::Maps {
                pids: self.missing_pmts().map(|(_, pid)| pid).collect(),
                broken: counts.bad_pmts,
            },
            () if !self.has_content => Lack::Units {
                pids: self.programmes.values().flat_map(streams).collect(),
            },
            () => return None,
        })
    }

    /// Returns the programmes in the PAT without a PMT so far, with the PID of their PMT.
    pub fn missing_pmts(&self) -> impl Iterator<Item = (u16, u16)> {
        let listed = self.association.programmes.iter().copied();
        listed.filter(|(number, _)| !self.programmes.contains_key(number))
    }

    /// The programmes known.
    pub fn programmes(&self) -> impl Iterator<Item = &Programme> {
        self.programmes.values().map(|listing| &listing.programme)
    }

    fn read(&mut self, poll: fn(&mut Framer) -> Option<[u8; PACKET_BYTES]>) {
        loop {
            let losses = self.framer.counts().sync_losses;
            let raw = poll(&mut self.framer);
            if self.framer.counts().sync_losses > losses {
                self.handle_sync_loss();
            }
            let Some(raw) = raw else {
                return;
            };
            self.handle_packet(&raw);
        }
    }

    /// Drops pending data: bytes are missing or surplus in the packet before, which may be halves
    /// of two packets.
    fn handle_sync_loss(&mut self) {
        if let Some(lane) = self.last_pid.and_then(|pid| self.lanes.get_mut(&pid)) {
            lane.tables.reset();
            if let Some(pes) = &mut lane.pes {
                pes.damaged = true;
            }
        }
    }

    fn handle_packet(&mut self, raw: &[u8; PACKET_BYTES]) {
        self.counts.packets += 1;
        let packet = match Packet::read(raw) {
            Some(packet) if !packet.error => packet,
            _ => {
                self.counts.damaged_packets += 1;
                return;
            }
        };
        self.last_pid = Some(packet.pid);
        if packet.pid == NULL_PID {
            self.counts.null_packets += 1;
        } else if self.is_early(packet.pid) {
            self.hold(raw);
        } else {
            self.handle_content(&packet);
        }
    }

    /// Returns whether the content of a PID is not known yet. PIDs below 0x20 have fixed meanings.
    fn is_early(&self, pid: u16) -> bool {
        let is_known = pid < 0x20 || self.is_announced() || self.is_table(pid);
        !is_known && self.stream(pid).is_none()
    }

    fn hold(&mut self, raw: &[u8; PACKET_BYTES]) {
        if self.held.len() >= HELD_PACKETS_MAX {
            self.held.pop_front();
            self.counts.early_packets += 1;
        }
        self.held.push_back(*raw);
    }

    /// Reads held packets that a new table has identified.
    fn release(&mut self) {
        for raw in core::mem::take(&mut self.held) {
            match Packet::read(&raw) {
                Some(packet) if !self.is_early(packet.pid) => self.handle_content(&packet),
                _ => self.held.push_back(raw),
            }
        }
    }

    fn handle_content(&mut self, packet: &Packet<'_>) {
        if !self.follows(packet) {
            return;
        }
        let Some(payload) = packet.payload else {
            return;
        };
        let table = packet.pid == 0 || self.is_table(packet.pid);
        match (table, packet.scrambled, self.stream(packet.pid)) {
            // A scrambled PAT cannot be read, and the writer makes its own.
            (_, true, _) if packet.pid == 0 => self.counts.damaged_packets += 1,
            (true, false, _) => self.handle_table(packet, payload),
            (false, false, Some(_)) => self.handle_elementary(packet, payload),
            _ => self.handle_other(packet, payload),
        }
    }

    /// Checks the packet's continuity counter; returns `false` for a duplicate.
    fn follows(&mut self, packet: &Packet<'_>) -> bool {
        if packet.payload.is_none() {
            return true;
        }
        let lane = self.lanes.entry(packet.pid).or_default();
        let before = lane.counter.replace(packet.counter);
        match before {
            Some(last) if last == packet.counter && !packet.discontinuity => {
                self.counts.duplicates += 1;
                return false;
            }
            Some(last) if (last + 1) & 0x0f != packet.counter && !packet.discontinuity => {
                self.counts.continuity_errors += 1;
                lane.tables.reset();
                if let Some(pes) = &mut lane.pes {
                    pes.damaged = true;
                }
            }
            _ => {}
        }
        true
    }

    fn handle_table(&mut self, packet: &Packet<'_>, payload: &[u8]) {
        let lane = self.lanes.entry(packet.pid).or_default();
        for section in lane.tables.push(packet.starts, payload) {
            if packet.pid == 0 {
                self.handle_pat(&section);
            } else {
                self.handle_pmt(packet.pid, &section);
            }
        }
    }

    fn handle_pat(&mut self, section: &[u8]) {
        let association = match section::read_pat(section) {
            Ok(Some(association)) => association,
            Ok(None) => return,
            Err(section::Broken) => {
                self.counts.bad_pats += 1;
                return;
            }
        };
        let numbers = &association.programmes;
        self.programmes
            .retain(|number, _| numbers.iter().any(|(n, _)| n == number));
        self.association = association;
        self.is_associated = true;
        self.release();
    }

    fn handle_pmt(&mut self, pid: u16, section: &[u8]) {
        let map = match section::read_pmt(section) {
            Ok(Some(map)) => map,
            Ok(None) => return,
            Err(section::Broken) => {
                self.counts.bad_pmts += 1;
                return;
            }
        };
        if !self.association.programmes.contains(&(map.number, pid)) {
            self.counts.unlisted_pmts += 1;
            return;
        }
        let programme = Programme {
            transport_stream_id: self.association.transport_stream_id,
            network_pid: self.association.network_pid,
            number: map.number,
            table_pid: pid,
            clock_pid: map.clock_pid,
            descriptors: map.descriptors,
            streams: map.streams,
        };
        match self.programmes.get_mut(&map.number) {
            Some(listing) if listing.programme == programme => return,
            // Programmes that the framing cannot encode: reserved PIDs, a stream on its own table's
            // PID.
            _ if !unit::is_valid(&programme) => {
                self.counts.bad_pmts += 1;
                return;
            }
            Some(listing) => {
                listing.programme = programme;
                listing.given_90khz = None;
            }
            None => {
                let listing = Listing {
                    programme,
                    clock: Clock::default(),
                    guide: Guide::default(),
                    given_90khz: None,
                };
                self.programmes.insert(map.number, listing);
            }
        }
        let programme = self.programmes[&map.number].programme.clone();
        self.units
            .push_back(Timed::untimed(Unit::Programme(programme)));
        self.release();
    }

    fn handle_elementary(&mut self, packet: &Packet<'_>, payload: &[u8]) {
        if packet.starts {
            self.finish_pes(packet.pid);
            if !payload.starts_with(&[0, 0, 1]) {
                // A stream of sections (splice points, carousels).
                self.handle_other(packet, payload);
                return;
            }
            self.finish_bundle(packet.pid);
        }
        self.reserve(payload.len());
        let lane = self.lanes.entry(packet.pid).or_default();
        let rest_of = lane.stuffed.take().filter(|_| !packet.starts);
        if packet.starts || rest_of.is_some() {
            lane.pes = Some(Pes {
                rest_of,
                random_access: packet.random_access,
                ..Pes::default()
            });
        }
        let Some(pes) = &mut lane.pes else {
            if lane.bundle.is_empty() {
                self.counts.early_packets += 1;
            } else {
                self.handle_other(packet, payload);
            }
            return;
        };
        pes.bytes.extend_from_slice(payload);
        self.pending_bytes += payload.len();
        let (bytes, whole) = (pes.bytes.len(), pes.whole_bytes());
        if whole.is_some_and(|len| bytes >= len) {
            self.finish_pes(packet.pid);
        } else if whole.is_none() && packet.stuffed && bytes > pes::HEAD_BYTES {
            lane.stuffed = pes.rest_of.or(pes.bytes.get(3).copied());
            self.finish_pes(packet.pid);
        } else if pes.bytes.len() > UNIT_BYTES_MAX {
            self.pending_bytes -= pes.bytes.len();
            lane.pes = None;
            self.counts.discarded_units += 1;
        }
    }

    fn handle_other(&mut self, packet: &Packet<'_>, payload: &[u8]) {
        if packet.starts {
            self.finish_bundle(packet.pid);
        }
        self.reserve(PACKET_BYTES);
        let lane = self.lanes.entry(packet.pid).or_default();
        if packet.starts {
            lane.section = section_bytes(payload).map(|len| (len, 0));
        }
        lane.bundle.extend_from_slice(packet.raw);
        self.pending_bytes += PACKET_BYTES;
        let whole = lane.section.as_mut().is_some_and(|(len, there)| {
            *there += payload.len();
            there >= len
        });
        if whole || packet.scrambled || lane.bundle.len() >= BUNDLE_PACKETS_MAX * PACKET_BYTES {
            self.finish_bundle(packet.pid);
        }
    }

    /// Makes room for more pending bytes, by dropping all pending data if necessary.
    fn reserve(&mut self, bytes: usize) {
        if self.pending_bytes + bytes <= PENDING_BYTES_MAX {
            return;
        }
        for lane in self.lanes.values_mut() {
            let pes = lane.pes.take().is_some();
            self.counts.discarded_units += u64::from(pes) + u64::from(!lane.bundle.is_empty());
            lane.bundle = BytesMut::new();
        }
        self.pending_bytes = 0;
    }

    fn finish_bundle(&mut self, pid: u16) {
        let Some(lane) = self.lanes.get_mut(&pid) else {
            return;
        };
        if lane.bundle.is_empty() {
            return;
        }
        let data = core::mem::take(&mut lane.bundle).freeze();
        self.pending_bytes -= data.len();
        self.has_content |= self.stream(pid).is_some();
        let unit = Unit::Packets(Packets { pid, data });
        self.units.push_back(Timed::untimed(unit));
    }

    fn finish_pes(&mut self, pid: u16) {
        let Some(pes) = self.lanes.get_mut(&pid).and_then(|lane| lane.pes.take()) else {
            return;
        };
        self.pending_bytes -= pes.bytes.len();
        let (Some(header), Some((number, stream_type))) = (pes.header(), self.stream(pid)) else {
            self.counts.bad_units += 1;
            return;
        };
        let whole = pes.whole_bytes();
        let end = whole.map_or(pes.bytes.len(), |len| len.min(pes.bytes.len()));
        let bytes = pes.bytes.freeze();
        let unit = AccessUnit {
            pid,
            stream_type,
            stream_id: header.stream_id,
            pts_90khz: None,
            dts_90khz: None,
            random_access: pes.random_access,
            aligned: header.aligned,
            damaged: pes.damaged || whole.is_some_and(|len| len > end),
            options: header.options.clone(),
            data: bytes.slice(header.bytes.min(end)..end),
        };
        self.counts.damaged_units += u64::from(unit.damaged);
        self.give_access(unit, &header, number);
    }

    /// Unwraps a unit's times and passes it on.
    fn give_access(&mut self, mut unit: AccessUnit, header: &pes::Header, number: u16) {
        let lane = self.lanes.entry(unit.pid).or_default();
        let Some(listing) = self.programmes.get_mut(&number) else {
            return;
        };
        let clock = lane.clock.get_or_insert_with(|| listing.clock.clone());
        // The decoding time leads, since it increases steadily.
        unit.dts_90khz = header.dts.map(|dts| clock.unwrap(dts));
        unit.pts_90khz = header.pts.map(|pts| match unit.dts_90khz {
            Some(dts) => Clock::at(dts).unwrap(pts),
            None => clock.unwrap(pts),
        });
        let picture = unit.codec().and_then(|codec| classify(codec, &unit.data));
        unit.random_access |= picture.is_some_and(|picture| picture.role == Role::Key)
            || is_all_intra(unit.stream_type);
        let step = listing.step(&unit);
        let follows = step.is_some_and(Step::is_followed);
        self.counts.stray_times += u64::from(step == Some(Step::Stray));
        listing.repeat_before(&unit, follows, &mut self.units);
        self.has_content = true;
        self.units.push_back(Timed {
            unit: Unit::Access(unit),
            clock: follows.then_some(number),
            is_near: step.is_some_and(|step| step != Step::Stray),
        });
    }

    fn is_table(&self, pid: u16) -> bool {
        self.association.programmes.iter().any(|&(_, p)| p == pid)
    }

    /// Returns whether every programme's PMT is known.
    fn is_announced(&self) -> bool {
        let programmes = &self.association.programmes;
        !programmes.is_empty() && programmes.len() == self.programmes.len()
    }

    /// The number of the programme that lists a PID.
    pub(super) fn programme_of(&self, pid: u16) -> Option<u16> {
        self.stream(pid).map(|(number, _)| number)
    }

    /// Programme number and stream type of a listed PID.
    fn stream(&self, pid: u16) -> Option<(u16, u8)> {
        self.programmes.values().find_map(|listing| {
            let stream = listing.programme.stream(pid)?;
            Some((listing.programme.number, stream.stream_type))
        })
    }
}

impl Timed {
    fn untimed(unit: Unit) -> Self {
        Self {
            unit,
            clock: None,
            is_near: false,
        }
    }
}

impl Listing {
    /// Advances to a unit's time, if it has one of the programme's clock.
    fn step(&mut self, unit: &AccessUnit) -> Option<Step> {
        let time = unit.decode_90khz()?;
        let standing = Standing::of(&self.programme, unit.pid);
        let step = self.guide.handle_time(unit.pid, standing, time);
        if step.is_followed() {
            self.clock = Clock::at(time);
        }
        Some(step)
    }

    /// Repeats the programme's facts where a receiver may begin.
    fn repeat_before(&mut self, unit: &AccessUnit, follows: bool, units: &mut VecDeque<Timed>) {
        let now = unit.decode_90khz().filter(|_| follows);
        let key = unit.random_access && is_video(unit.stream_type);
        let due = match (self.given_90khz, now) {
            (Some(given), Some(now)) => now.abs_diff(given) >= REPEAT_90KHZ,
            _ => false,
        };
        if key || due {
            // Even if they were just returned: a receiver begins with the facts right before a key
            // picture.
            let facts = Unit::Programme(self.programme.clone());
            units.push_back(Timed::untimed(facts));
            self.given_90khz = now;
        }
        self.given_90khz = self.given_90khz.or(now);
    }
}
