//! The demo's camera: takes each picture on time, encodes it once, and gives it to both fabrics.
//!
//! *The idea.* One thread, so that both fabrics get the same bytes at the same moment. If a
//! fabric's sender queue is full, that fabric alone loses the frame; the camera never waits.
//!
//! *What it does not do.* It does no network I/O; the calls that it makes must return at once.

mod video;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use thalweg_base::units::Bitrate;
use thalweg_media::layered::{BASE_BYTES_MIN, Encoder};
use thalweg_media::picture::Yuv420;
use thalweg_media::scene;

pub use video::Video;

/// Frames per second: what 150 kbit/s and two layers carry at 352×288 at a useful quality.
pub const FPS: u32 = scene::RATE;

/// Bytes of an ADU on a link beyond its payload: IPv4 and UDP 28, a QUIC packet with one stream frame about
/// 30, the ADU's header about 20. Each is counted once, since most ADUs of the demo fit one packet.
const WIRE_BYTES: usize = 78;

/// The least budget of an enhancement layer that the codec accepts.
const LAYER_BYTES_MIN: usize = 32;

/// One picture, as taken and as encoded.
pub struct CapturedFrame {
    /// Its number, from 0 without gaps.
    pub index: usize,
    /// When it was taken.
    pub capture: Instant,
    /// The original picture.
    pub picture: Yuv420,
    /// The encoded layers, the base first.
    pub layers: Vec<Bytes>,
}

/// Takes pictures until stopped or until `frames` are taken. Runs on a thread of its own.
///
/// Fails   the video cannot be read, or cannot encode a frame
pub fn run(
    mut video: Video,
    encoder: &Encoder,
    frames: Option<usize>,
    stop: &AtomicBool,
    mut take: impl FnMut(Arc<CapturedFrame>),
) -> anyhow::Result<()> {
    let start = Instant::now();
    for index in 0..frames.unwrap_or(usize::MAX) {
        let capture = start + at(index);
        thread::sleep(capture.saturating_duration_since(Instant::now()));
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let picture = video
            .next()
            .context("cannot read the next frame of the video")?;
        // The scheduled time: delay of this thread counts as latency.
        let layers = encoder.encode(&picture).context("cannot encode a frame")?;
        take(Arc::new(CapturedFrame {
            index,
            capture,
            picture,
            layers,
        }));
    }
    Ok(())
}

/// Returns when a frame is taken, relative to the first.
pub fn at(index: usize) -> Duration {
    Duration::from_nanos(index as u64 * 1_000_000_000 / u64::from(FPS))
}

/// Returns the payload budgets of a frame's layers, so that their rates on the wire are those of the world.
///
/// ```text
/// bytes[ℓ] = ⌊Σ_{k≤ℓ} r_k / (8 · fps)⌋ − ⌊Σ_{k<ℓ} r_k / (8 · fps)⌋ − w
/// ```
///
/// Units   payload bytes a frame; w: bytes of headers an ADU, [`WIRE_BYTES`]
/// Fails   a layer is too small for the codec
pub fn budgets(rates: &[Bitrate]) -> Result<Vec<usize>, String> {
    let mut sum = 0;
    let mut before = 0;
    let mut budgets = Vec::with_capacity(rates.len());
    for (layer, rate) in rates.iter().enumerate() {
        sum += rate.as_bps();
        let bytes = (sum / (8 * u64::from(FPS))) as usize;
        let least = if layer == 0 {
            BASE_BYTES_MIN
        } else {
            LAYER_BYTES_MIN
        };
        let budget = (bytes - before).saturating_sub(WIRE_BYTES);
        if budget < least {
            return Err(format!(
                "layer {layer} has {rate}, which at {FPS} frames a second and without headers is {budget} bytes a frame; the layered video needs {least} at least"
            ));
        }
        budgets.push(budget);
        before = bytes;
    }
    Ok(budgets)
}
