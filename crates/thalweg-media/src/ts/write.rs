//! The multiplexer: units in, transport packets out.
//!
//! The idea: nothing of the input's packets is needed. Tables, continuity counters, clock
//! references and stuffing are generated from the units that arrive, so the output is valid
//! whatever was lost, and whenever the receiver joined. A programme is written only after its facts
//! have arrived, and a video stream begins with a key picture, or without one if none has come for
//! [`WAIT_90KHZ`]. The clock is the decoding time, less a lead ([`LEAD_90KHZ`]), of the streams
//! that it follows (`guide`); it is sent with each unit of the clock's PID, and in packets of its
//! own wherever units are more than 80 ms apart. A jump in time is marked as a discontinuity.
//!
//! What it does not do: null packets, a constant rate.
//!
//! Sources: ISO/IEC 13818-1 §2.4.3.5 (discontinuity), §2.7.2 (clock at least every 100 ms); ETSI TS
//! 101 154 §4.1.7 (tables at least every 100 ms).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::guide::{Guide, Standing, Step};
use super::packet::{self, Adaptation, NULL_PID, PACKET_BYTES};
use super::{AccessUnit, Packets, Programme, Unit, is_video, pes, section};

/// How long before its decoding time a unit is in the stream, in 90 kHz ticks: 400 ms, enough for
/// sound that arrives after its picture, and for a receiver's buffer.
pub const LEAD_90KHZ: u64 = 36_000;

/// Maximum distance between clock references, in 90 kHz ticks: 80 ms, as the standard requires 100.
const CLOCK_90KHZ: u64 = 7_200;

/// Maximum distance between tables, in 90 kHz ticks: 100 ms.
const TABLES_90KHZ: u64 = 9_000;

/// How long a video stream waits for a key picture, in 90 kHz ticks: 5 s. Key pictures are marked
/// in several ways, or not at all where a picture is refreshed line by line: a decoder then
/// synchronizes by itself.
pub const WAIT_90KHZ: u64 = 450_000;

/// The same for units without times: five seconds of 50 pictures.
const WAIT_UNITS: u32 = 250;

/// Maximum number of programmes written; units of further ones are dropped.
const PROGRAMMES_MAX: usize = 64;

/// The multiplexer.
#[derive(Debug, Clone, Default)]
pub struct Writer {
    programmes: BTreeMap<u16, Lane>,
    counters: BTreeMap<u16, u8>,
    /// Version of the PAT, modulo 32.
    version: u8,
    withheld: Withheld,
}

/// Units that could not be written, by cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Withheld {
    /// Units of a programme without tables so far.
    pub without_tables: u64,
    /// Units of a video stream without a key picture so far.
    pub before_key: u64,
    /// Units of programmes beyond the maximum.
    pub crowded_out: u64,
    /// Packets on the PID of a table, which the writer generates itself.
    pub tables: u64,
}

impl Withheld {
    /// Their sum.
    pub fn sum(&self) -> u64 {
        self.without_tables + self.before_key + self.crowded_out + self.tables
    }
}

#[derive(Debug, Clone)]
struct Lane {
    programme: Programme,
    version: u8,
    /// Decoding time at the last tables, and at the last clock reference.
    tables_90khz: Option<u64>,
    clock_90khz: Option<u64>,
    guide: Guide,
    /// Video PIDs that have begun.
    begun: BTreeSet<u16>,
    /// Video PIDs that have not: the time of the first unit withheld, and the number of units
    /// withheld.
    waiting: BTreeMap<u16, (Option<u64>, u32)>,
}

/// The clock references around a unit.
#[derive(Debug, Default)]
struct Tick {
    /// References in packets of their own.
    alone: Vec<(u64, bool)>,
    /// A reference in the unit's first packet.
    within: Option<(u64, bool)>,
}

impl Writer {
    /// Returns a writer for the start of its output.
    pub fn new() -> Self {
        Self::default()
    }

    /// Units that could not be written, by cause.
    pub fn withheld(&self) -> Withheld {
        self.withheld
    }

    /// Writes a unit: whole packets, or none if it is withheld or has no news.
    pub fn write(&mut self, unit: &Unit) -> Bytes {
        let mut out = Vec::new();
        match unit {
            Unit::Programme(programme) => self.write_programme(programme, &mut out),
            Unit::Access(unit) => self.write_access(unit, &mut out),
            Unit::Packets(packets) => self.write_packets(packets, &mut out),
        }
        out.into()
    }

    fn write_programme(&mut self, programme: &Programme, out: &mut Vec<u8>) {
        let number = programme.number;
        let full = self.programmes.len() >= PROGRAMMES_MAX;
        match self.programmes.get_mut(&number) {
            Some(lane) if lane.programme == *programme => return,
            Some(lane) => {
                lane.programme = programme.clone();
                lane.version = (lane.version + 1) & 0x1f;
                lane.begun.retain(|&pid| programme.stream(pid).is_some());
                lane.waiting
                    .retain(|&pid, _| programme.stream(pid).is_some());
            }
            None if !full => {
                let lane = Lane {
                    programme: programme.clone(),
                    version: 0,
                    tables_90khz: None,
                    clock_90khz: None,
                    guide: Guide::default(),
                    begun: BTreeSet::new(),
                    waiting: BTreeMap::new(),
                };
                self.programmes.insert(number, lane);
            }
            None => {
                self.withheld.crowded_out += 1;
                return;
            }
        }
        self.version = (self.version + 1) & 0x1f;
        self.write_tables(number, out);
    }

    fn write_access(&mut self, unit: &AccessUnit, out: &mut Vec<u8>) {
        let found = self
            .programmes
            .iter_mut()
            .find(|(_, lane)| lane.programme.stream(unit.pid).is_some());
        let Some((&number, lane)) = found else {
            self.withheld.without_tables += 1;
            return;
        };
        let key = unit.random_access && is_video(unit.stream_type);
        if is_video(unit.stream_type) && !key && !lane.may_begin(unit) {
            self.withheld.before_key += 1;
            return;
        }
        if is_video(unit.stream_type) {
            lane.begun.insert(unit.pid);
            lane.waiting.remove(&unit.pid);
        }
        let standing = Standing::of(&lane.programme, unit.pid);
        let step = unit
            .decode_90khz()
            .map(|time| lane.guide.handle_time(unit.pid, standing, time));
        let now = unit
            .decode_90khz()
            .filter(|_| step.is_some_and(Step::is_followed));
        let due = match (lane.tables_90khz, now) {
            (Some(last), Some(now)) => now.abs_diff(last) >= TABLES_90KHZ,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        let tick = now.map_or_else(Tick::default, |now| {
            lane.tick(now, unit.pid, step == Some(Step::Jump))
        });
        let clock_pid = lane.programme.clock_pid;
        if key || due {
            lane.tables_90khz = now.or(lane.tables_90khz);
            self.write_tables(number, out);
        }
        for (time, discontinuity) in tick.alone {
            self.write_clock(clock_pid, time, discontinuity, out);
        }
        self.write_pes(unit, tick.within, out);
    }

    fn write_pes(&mut self, unit: &AccessUnit, clock: Option<(u64, bool)>, out: &mut Vec<u8>) {
        let header = pes::Header {
            stream_id: unit.stream_id,
            aligned: unit.aligned,
            pts: unit.pts_90khz,
            dts: unit.dts_90khz,
            options: unit.options.clone(),
            bytes: 0,
        };
        let mut head = pes::write(&header, unit.data.len());
        // The header and the first data share packets.
        let header_bytes = head.len();
        head.extend_from_slice(&unit.data[..unit.data.len().min(PACKET_BYTES)]);
        let adaptation = Adaptation {
            discontinuity: clock.is_some_and(|(_, discontinuity)| discontinuity),
            random_access: unit.random_access,
            pcr_90khz: clock.map(|(time, _)| to_reference(time)),
        };
        let counter = self.counters.entry(unit.pid).or_default();
        out.reserve((unit.data.len() / 184 + 3) * PACKET_BYTES);
        let mut taken = packet::write(out, unit.pid, true, adaptation, counter, &head);
        let none = Adaptation::default();
        // Options may fill more than a packet; after them there is a packet's worth of data, or all
        // of it.
        while taken < header_bytes {
            taken += packet::write(out, unit.pid, false, none, counter, &head[taken..]);
        }
        let mut data = &unit.data[taken - header_bytes..];
        while !data.is_empty() {
            data = &data[packet::write(out, unit.pid, false, none, counter, data)..];
        }
    }

    fn write_packets(&mut self, packets: &Packets, out: &mut Vec<u8>) {
        let table = |lane: &Lane| lane.programme.table_pid == packets.pid;
        // Reserved PIDs (service information) stand for themselves; others only beside a programme.
        let early = self.programmes.is_empty() && packets.pid >= 0x20;
        if early {
            self.withheld.without_tables += 1;
            return;
        }
        if packets.pid == 0 || self.programmes.values().any(table) {
            self.withheld.tables += 1;
            return;
        }
        let counter = self.counters.entry(packets.pid).or_default();
        for raw in packets.data.chunks_exact(PACKET_BYTES) {
            let start = out.len();
            out.extend_from_slice(raw);
            out[start + 3] = raw[3] & 0xf0 | *counter;
            // Only packets with a payload count.
            *counter = (*counter + u8::from(raw[3] & 0x10 != 0)) & 0x0f;
        }
    }

    /// Writes PAT and the programme's PMT.
    fn write_tables(&mut self, number: u16, out: &mut Vec<u8>) {
        let Some(lane) = self.programmes.get(&number) else {
            return;
        };
        let programmes = self.programmes.values().map(|lane| &lane.programme);
        let pat = section::write_pat(programmes, self.version);
        let pmt = section::write_pmt(&lane.programme, lane.version);
        for (pid, section) in [(0, pat), (lane.programme.table_pid, pmt)] {
            let counter = self.counters.entry(pid).or_default();
            let mut payload = vec![0];
            payload.extend_from_slice(&section);
            // Sections are padded with stuffing bytes, so that no adaptation field is needed.
            let packets = payload.len().div_ceil(184);
            payload.resize(packets * 184, 0xff);
            for (index, part) in payload.chunks_exact(184).enumerate() {
                packet::write(out, pid, index == 0, Adaptation::default(), counter, part);
            }
        }
    }

    /// Writes a packet that has only a clock reference.
    fn write_clock(&mut self, pid: u16, time: u64, discontinuity: bool, out: &mut Vec<u8>) {
        let adaptation = Adaptation {
            discontinuity,
            random_access: false,
            pcr_90khz: Some(to_reference(time)),
        };
        // A packet without payload repeats the counter of the one before it.
        let counter = self.counters.entry(pid).or_default();
        let mut last = counter.wrapping_sub(1) & 0x0f;
        packet::write(out, pid, false, adaptation, &mut last, &[]);
    }
}

impl Lane {
    /// Returns whether the video of a unit has begun, or has been withheld for the maximum time.
    fn may_begin(&mut self, unit: &AccessUnit) -> bool {
        if self.begun.contains(&unit.pid) {
            return true;
        }
        let now = unit.decode_90khz();
        let (first, units) = self.waiting.entry(unit.pid).or_insert((now, 0));
        *units += 1;
        // A step back begins a new time base, from which the wait is counted.
        match (*first, now) {
            (Some(first), Some(now)) if now >= first => now - first >= WAIT_90KHZ,
            (_, Some(now)) => {
                *first = Some(now);
                false
            }
            (_, None) => *units >= WAIT_UNITS,
        }
    }

    /// Advances the clock to a unit's decoding time.
    fn tick(&mut self, now: u64, pid: u16, jump: bool) -> Tick {
        let mut tick = Tick::default();
        let clock_pid = self.programme.clock_pid;
        if clock_pid == NULL_PID {
            return tick;
        }
        let own = pid == clock_pid;
        match self.clock_90khz {
            Some(last) if !jump => {
                let mut at = last;
                while now > at + CLOCK_90KHZ {
                    at += CLOCK_90KHZ;
                    tick.alone.push((at, false));
                }
                if own && now > at {
                    at = now;
                    tick.within = Some((now, false));
                }
                self.clock_90khz = Some(at);
            }
            _ => {
                let reference = (now, jump);
                if own {
                    tick.within = Some(reference);
                } else {
                    tick.alone.push(reference);
                }
                self.clock_90khz = Some(now);
            }
        }
        tick
    }
}

/// The clock reference at a decoding time, modulo its 33 bits.
fn to_reference(decode_90khz: u64) -> u64 {
    decode_90khz.wrapping_sub(LEAD_90KHZ) & 0x1_ffff_ffff
}
