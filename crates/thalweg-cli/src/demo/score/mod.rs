//! The figures of what a viewer saw.
//!
//! *The idea.* Every frame that was sent counts once, when it is due: as shown in time or as late,
//! with the PSNR between the picture on the screen and the picture sent. A late frame leaves the
//! previous picture on the screen, and that picture is compared.
//!
//! | figure | meaning |
//! |---|---|
//! | `frames_shown` | frames with a base layer that arrived in time |
//! | `frames_late` | all others |
//! | `psnr_*_mean_db` | mean of the frames' dB values, over all frames sent |
//! | `latency_ms` | capture of a frame (before encoding) to arrival of its base layer, if it arrived |
//! | `link_bytes` | bytes delivered by each direction of each link, headers included, all traffic |
//! | `sealed_on_insecure` | whether every payload on a link that requires sealing was sealed when sent |

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use thalweg_media::picture::{PictureError, Psnr, PsnrMean, Yuv420};

#[cfg(test)]
mod tests;

/// The tally of one fabric.
#[derive(Clone, Debug, Default)]
pub struct Score {
    shown: u64,
    mean: PsnrMean,
    latencies: Vec<Duration>,
    curve: Vec<Sample>,
}

/// One frame of the curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// Luma PSNR of the picture on the screen.
    pub y_db: f64,
    /// How many layers were shown; 0 if the frame was late.
    pub layers: usize,
}

/// The figures of one fabric, as `demo --json` prints them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metrics {
    /// Frames that were taken and sent.
    pub frames_sent: u64,
    /// Frames shown in time.
    pub frames_shown: u64,
    /// Frames not shown in time.
    pub frames_late: u64,
    /// Mean luma PSNR over all frames sent; `None` without frames.
    pub psnr_y_mean_db: Option<f64>,
    /// Mean Cb PSNR, likewise.
    pub psnr_cb_mean_db: Option<f64>,
    /// Latency of the frames that arrived.
    pub latency_ms: Percentiles,
    /// Bytes on each direction of each link, `"camera->relay"`.
    pub link_bytes: BTreeMap<String, u64>,
    /// Whether every payload on an insecure link was sealed.
    pub sealed_on_insecure: bool,
}

/// Two percentiles, by nearest rank; `None` without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
}

impl Score {
    /// Counts a frame when it is due: the picture on the screen against the picture sent.
    ///
    /// Shape   `layers` shown of this frame; 0 if it is late and `screen` is an older picture
    /// Fails   [`PictureError::Mismatch`] if the sizes differ
    pub fn count(
        &mut self,
        sent: &Yuv420,
        screen: &Yuv420,
        layers: usize,
    ) -> Result<Psnr, PictureError> {
        let psnr = self.mean.add(sent, screen)?;
        self.shown += u64::from(layers > 0);
        self.curve.push(Sample {
            y_db: psnr.y_db,
            layers,
        });
        Ok(psnr)
    }

    /// Counts the arrival of a frame's base layer.
    pub fn arrived(&mut self, latency: Duration) {
        self.latencies.push(latency);
    }

    /// Returns the frames so far, in order.
    pub fn curve(&self) -> &[Sample] {
        &self.curve
    }

    /// Returns how many frames were late in a row until now.
    pub fn frozen_frames(&self) -> usize {
        self.curve
            .iter()
            .rev()
            .take_while(|sample| sample.layers == 0)
            .count()
    }

    /// Returns the figures so far, including the network's.
    pub fn metrics(&self, link_bytes: BTreeMap<String, u64>, sealed_on_insecure: bool) -> Metrics {
        let frames_sent = self.mean.frames();
        let mean = self.mean.mean_of_db();
        Metrics {
            frames_sent,
            frames_shown: self.shown,
            frames_late: frames_sent - self.shown,
            psnr_y_mean_db: mean.map(|psnr| psnr.y_db),
            psnr_cb_mean_db: mean.map(|psnr| psnr.cb_db),
            latency_ms: Percentiles::of(&self.latencies),
            link_bytes,
            sealed_on_insecure,
        }
    }
}

impl Percentiles {
    /// Returns the percentiles of some durations, in milliseconds.
    ///
    /// ```text
    /// p = sorted[⌈p · n⌉ − 1]
    /// ```
    fn of(samples: &[Duration]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            let at = (sorted.len() * percent).div_ceil(100).checked_sub(1)?;
            Some(sorted[at].as_secs_f64() * 1e3)
        };
        Self {
            p50: rank(50),
            p99: rank(99),
        }
    }
}
