//! The ADUs of a world's producers, and when they are due.
//!
//! Simulator and testbed send the same ADUs at the same moments, so that their results can be compared.
//! A frame has one ADU per layer, the base first; sizes are such that on the wire, headers included,
//! each layer has the world's rate:
//!
//! ```text
//! budget[ℓ] = r_ℓ / (8 · frames)  ·  (1 + spread · u),  u even in −1..1, one a frame
//! payload   = budget − ADU − packets · PACKET,  packets = ⌈budget / PACKET_BYTES⌉;  at least one byte
//! ```
//!
//! A payload is derived from seed and sequence number, so a receiver can verify it. Enough of it is
//! noise that, packed, it takes the share ρ of its budget on the wire that the world gives; the rest
//! repeats one word. Streams of video take their sizes from their encoder instead (`Stream::traffic`).
//!
//! *Sources.* docs/reference/worlds.md, `stream.traffic`; spec PL-2 (a frame as several ADUs by importance),
//! PL-18.

use bytes::Bytes;
use thalweg_base::adu::{AdaptationPolicy, Flags, Importance, MediaTime};
use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_planner::model::Stream;

#[cfg(test)]
mod tests;

/// Bytes that an ADU adds to its payload once: its header and the frame of its QUIC stream.
const ADU_BYTES: usize = 24;

/// Bytes that a packet adds: IPv4 and UDP 28, QUIC's short header, tag and a stream frame's head about 30.
const PACKET_BYTES: usize = 58;

/// Size of the packets that a long ADU is cut into, in bytes.
const PACKET_BYTES_MAX: usize = 1_440;

/// Bytes that LZ4 adds to any block of ours: the prefix, two tokens, the word and the offset of its
/// repetition.
const LZ4_BYTES: f64 = 15.0;

/// How much less important a frame is that no other frame starts from.
const NOT_KEY: u8 = 8;

/// An ADU that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When it is due, from the start of the world.
    pub at: Duration,
    /// Its sequence number: frame · layers + layer.
    pub sequence: u64,
    /// Its frame, from 0.
    pub frame: u64,
    /// Its layer.
    pub layer: u8,
    /// Its importance.
    pub importance: Importance,
    /// Key, or none.
    pub flags: Flags,
    /// Distance in sequence numbers to the ADU that it depends on; 0 for none.
    pub depends_on: u32,
    /// When it is due in the medium: [`Due::at`] less the start of the stream.
    pub media_time: MediaTime,
    /// Its payload's length in bytes, unless the stream is video.
    pub payload_bytes: usize,
}

/// Iterator over the ADUs of one stream, in the order in which they are due.
#[derive(Clone, Debug)]
pub struct Producer {
    budgets: Vec<f64>,
    frames: f64,
    key_every: u64,
    adaptation: AdaptationPolicy,
    spread: f64,
    start: Duration,
    stop: Duration,
    random: SplitMix,
    frame: u64,
    layer: usize,
    /// The size of the current frame over the mean.
    scale: f64,
}

impl Producer {
    /// Begins a stream of a world that runs for `length`; the seed decides the sizes, if they vary.
    pub fn new(stream: &Stream, length: Duration, seed: u64) -> Self {
        let traffic = stream.traffic;
        let budget = |rate: u64| rate as f64 / (8.0 * traffic.frames);
        Self {
            budgets: stream
                .layers
                .iter()
                .map(|layer| budget(layer.rate.as_bps()))
                .collect(),
            frames: traffic.frames,
            key_every: u64::from(traffic.key_every.max(1)),
            adaptation: traffic.adaptation,
            spread: traffic.spread.as_f64(),
            start: traffic.start,
            stop: traffic.stop.map_or(length, |stop| stop.min(length)),
            random: SplitMix::new(seed),
            frame: 0,
            layer: 0,
            scale: 1.0,
        }
    }

    fn at(&self, frame: u64) -> Duration {
        self.start + Duration::from_secs_f64(frame as f64 / self.frames)
    }

    fn depends_on(&self, is_key: bool) -> u32 {
        match (self.layer, is_key) {
            (0, true) => 0,
            (0, false) => self.budgets.len() as u32,
            _ => 1,
        }
    }
}

impl Iterator for Producer {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        let at = self.at(self.frame);
        if at >= self.stop || self.budgets.is_empty() {
            return None;
        }
        if self.layer == 0 {
            self.scale = 1.0 + self.spread * (2.0 * self.random.next_unit() - 1.0);
        }
        let is_key = self.frame.is_multiple_of(self.key_every);
        let (layer, layers) = (self.layer as u8, self.budgets.len() as u8);
        let importance = self.adaptation.importance(self.frame, layer, layers).0;
        let importance = if is_key {
            importance
        } else {
            importance.saturating_sub(NOT_KEY)
        };
        let due = Due {
            at,
            sequence: self.frame * self.budgets.len() as u64 + self.layer as u64,
            frame: self.frame,
            layer,
            importance: Importance(importance),
            flags: if is_key && self.layer == 0 {
                Flags::KEY
            } else {
                Flags::NONE
            },
            depends_on: self.depends_on(is_key),
            media_time: MediaTime::from_micros(at.saturating_sub(self.start).as_micros()),
            payload_bytes: payload_bytes(self.budgets[self.layer] * self.scale),
        };
        self.layer += 1;
        if self.layer == self.budgets.len() {
            self.layer = 0;
            self.frame += 1;
        }
        Some(due)
    }
}

/// Returns the payload size of an ADU that takes this many bytes on the wire.
fn payload_bytes(budget: f64) -> usize {
    let budget = budget as usize;
    let packets = budget.div_ceil(PACKET_BYTES_MAX);
    budget
        .saturating_sub(ADU_BYTES + packets * PACKET_BYTES)
        .max(1)
}

/// Returns the bytes that an ADU with this payload takes on the wire, headers included, if it travels alone.
pub fn wire_bytes(payload_bytes: usize) -> usize {
    let adu = payload_bytes + ADU_BYTES;
    adu + adu.div_ceil(PACKET_BYTES_MAX - PACKET_BYTES) * PACKET_BYTES
}

/// Returns the payload of an ADU, which packs to this ratio on the wire as far as its headers allow.
pub fn payload(seed: u64, sequence: u64, bytes: usize, pack_ratio: f64) -> Bytes {
    let mut random = SplitMix::new(seed ^ sequence.rotate_left(32));
    let word = random.next_u64().to_le_bytes();
    // The word goes first: LZ4 skips ahead in noise and would find a repetition behind it late.
    let repeated = bytes - noise_bytes(bytes, pack_ratio);
    let mut payload = Vec::with_capacity(bytes.next_multiple_of(8));
    payload.extend(word.iter().cycle().take(repeated));
    while payload.len() < bytes {
        payload.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    payload.truncate(bytes);
    payload.into()
}

/// Returns how many bytes of a payload must be noise.
///
/// LZ4 stores noise with one extra byte per 255, and a repetition as one byte per 255.
fn noise_bytes(bytes: usize, pack_ratio: f64) -> usize {
    if pack_ratio >= 1.0 {
        return bytes;
    }
    let packed = payload_bytes(wire_bytes(bytes) as f64 * pack_ratio) as f64;
    let noise = packed - LZ4_BYTES - bytes as f64 / 255.0;
    (noise as usize).min(bytes)
}
