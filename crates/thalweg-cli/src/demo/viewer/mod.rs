//! One fabric's viewer: shows each frame when it is due, with the layers that have arrived by then.
//!
//! *The idea.* Arriving ADUs are put into a [`Screen`] by frame and layer, with the arrival time. A
//! thread wakes when a frame is due, takes the unbroken prefix of layers that came in time, decodes
//! it and compares it with the picture sent. A layer that is late by a microsecond is late; it
//! counts only for the latency.
//!
//! ```text
//!   due(frame) = capture(frame) + the stream's deadline
//! ```
//!
//! *What it does not do.* It conceals nothing: a late frame leaves the previous picture on the screen.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_base::adu::{Adu, MediaTime};
use thalweg_media::layered;
use thalweg_media::picture::Yuv420;
use tokio::sync::watch;

use super::camera::CapturedFrame;
use super::picture;
use super::score::Score;

#[cfg(test)]
mod tests;

/// ADUs and score, shared by the receiving task, the viewer's thread and the console.
#[derive(Default)]
pub struct Screen {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// When each frame was taken, by its number.
    captures: Vec<Instant>,
    /// Layers that arrived for frames that are not due yet.
    frames: BTreeMap<usize, Frame>,
    /// All frames before this number have been due.
    due: usize,
    score: Score,
    undecodable: u64,
    /// The longest delay of showing a frame after it was due.
    behind: Duration,
}

/// The layers of a frame by number, with their arrival times.
type Frame = BTreeMap<u8, (Bytes, Instant)>;

impl Screen {
    /// Records that a frame was taken; frames come in order, each before any of its layers arrives.
    pub fn captured(&self, at: Instant) {
        self.inner().captures.push(at);
    }

    /// Records an ADU of the stream.
    pub fn handle_adu(&self, adu: Adu, fps: u32, at: Instant) {
        let frame = frame_of(adu.header.media_time, fps);
        let mut inner = self.inner();
        let Some(&capture) = inner.captures.get(frame) else {
            return;
        };
        if adu.header.layer == 0 {
            inner.score.arrived(at.saturating_duration_since(capture));
        }
        if frame >= inner.due {
            let layers = inner.frames.entry(frame).or_default();
            layers.entry(adu.header.layer).or_insert((adu.payload, at));
        }
    }

    /// Closes a frame, and returns the prefix of its layers that came by `due`.
    fn take(&self, frame: usize, due: Instant) -> Vec<Bytes> {
        let mut inner = self.inner();
        inner.due = frame + 1;
        let layers = inner.frames.remove(&frame).unwrap_or_default();
        inner.frames = inner.frames.split_off(&(frame + 1));
        prefix(layers, due)
    }

    /// Returns a copy of the score so far.
    pub fn score(&self) -> Score {
        self.inner().score.clone()
    }

    /// Calls `read` with the score so far.
    pub fn with_score<T>(&self, read: impl FnOnce(&Score) -> T) -> T {
        read(&self.inner().score)
    }

    /// Returns how many frames arrived in time but could not be decoded.
    pub fn undecodable(&self) -> u64 {
        self.inner().undecodable
    }

    /// Returns the longest delay of this machine, independent of the network.
    pub fn delay_max(&self) -> Duration {
        self.inner().behind
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No code under the lock panics between dependent changes, so a poisoned lock is consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows every frame when it is due, until the camera is gone. Runs on a thread of its own.
///
/// Fails   the camera changes its picture size
pub fn run(
    screen: &Screen,
    shots: &Receiver<Arc<CapturedFrame>>,
    playout: Duration,
    shown: &watch::Sender<Option<Bytes>>,
    kind: picture::Kind,
) -> anyhow::Result<()> {
    let mut frozen_frames: Option<Yuv420> = None;
    while let Ok(shot) = shots.recv() {
        let due = shot.capture + playout;
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let behind = Instant::now().saturating_duration_since(due);
        let layers = screen.take(shot.index, due);
        let decoded = if layers.is_empty() {
            None
        } else {
            Some(layered::decode(&layers))
        };
        let count = match decoded {
            Some(Ok(picture)) if same_size(&picture, &shot.picture) => {
                shown.send_replace(Some(picture::frame(kind, &picture)));
                frozen_frames = Some(picture);
                layers.len()
            }
            _ => 0,
        };
        let grey = frozen_frames
            .is_none()
            .then(|| Yuv420::grey(shot.picture.width(), shot.picture.height()));
        let picture = match &grey {
            Some(grey) => grey.as_ref().map_err(Clone::clone)?,
            None => frozen_frames
                .as_ref()
                .expect("it is there when the grey one is not"),
        };
        let mut inner = screen.inner();
        inner.score.count(&shot.picture, picture, count)?;
        inner.behind = inner.behind.max(behind);
        inner.undecodable += u64::from(count == 0 && !layers.is_empty());
    }
    Ok(())
}

/// Returns the layers from the base up to the first that is missing or late.
fn prefix(layers: Frame, due: Instant) -> Vec<Bytes> {
    (0..)
        .zip(layers)
        .take_while(|(place, (layer, (_, at)))| place == layer && *at <= due)
        .map(|(_, (_, (payload, _)))| payload)
        .collect()
}

/// Returns the media time of a frame.
pub fn media_time(frame: usize, fps: u32) -> MediaTime {
    MediaTime::from_micros(frame as u64 * 1_000_000 / u64::from(fps))
}

/// Returns the frame of a media time; the inverse of [`media_time`], which rounds down.
fn frame_of(time: MediaTime, fps: u32) -> usize {
    let frames = (u128::from(time.as_micros()) * u128::from(fps)).div_ceil(1_000_000);
    usize::try_from(frames).unwrap_or(usize::MAX)
}

fn same_size(a: &Yuv420, b: &Yuv420) -> bool {
    (a.width(), a.height()) == (b.width(), b.height())
}
