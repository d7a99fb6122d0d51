//! Peak signal-to-noise ratio of two pictures, by plane.
//!
//! The idea: `psnr = 10 · log10(255² / mse)` of each plane. Identical planes have no finite ratio;
//! they count as [`PSNR_DB_MAX`], so that a mean over frames is finite and one perfect frame does
//! not outweigh a bad one.
//!
//! Two means over frames are in use and differ by decibels: the mean of the dB values (read off a
//! curve, and quoted by older systems), and the ratio of the mean squared error (which a single
//! frozen frame dominates). [`PsnrMean`] has both by name.
//!
//! What it does not do: perceptual measures (SSIM, VMAF).

use super::{PictureError, Yuv420};

/// The ratio of identical planes and the cap of all others, in dB: one step in one sample of a
/// 4096×4096 plane would measure 120.4 dB, so 100 dB is above the ratio of any visible difference.
pub const PSNR_DB_MAX: f64 = 100.0;

/// PSNR of two pictures, by plane, each at most [`PSNR_DB_MAX`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Psnr {
    /// Luma, dB.
    pub y_db: f64,
    /// Cb, dB.
    pub cb_db: f64,
    /// Cr, dB.
    pub cr_db: f64,
}

/// Compares two pictures of one size.
///
/// ```text
/// psnr = min(100, 10 · log10(255² / mse))
/// ```
///
/// Units   dB
/// Cost    O(samples), no allocation
/// Fails   [`PictureError::Mismatch`] if the sizes differ
pub fn psnr(left: &Yuv420, right: &Yuv420) -> Result<Psnr, PictureError> {
    let [y, u, v] = mse(left, right)?;
    Ok(Psnr {
        y_db: to_db(y),
        cb_db: to_db(u),
        cr_db: to_db(v),
    })
}

/// The mean PSNR over frames, both ways of taking it.
#[derive(Debug, Clone, Default)]
pub struct PsnrMean {
    frames: u64,
    db: [f64; 3],
    mse: [f64; 3],
}

impl PsnrMean {
    /// Adds one frame.
    ///
    /// Fails   [`PictureError::Mismatch`] if the sizes differ; nothing is added then
    pub fn add(&mut self, left: &Yuv420, right: &Yuv420) -> Result<Psnr, PictureError> {
        let mse = mse(left, right)?;
        self.frames += 1;
        for (plane, mse) in mse.into_iter().enumerate() {
            self.db[plane] += to_db(mse);
            self.mse[plane] += mse;
        }
        Ok(from_planes(mse.map(to_db)))
    }

    /// Frames added.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Arithmetic mean of the frames' dB values; `None` before the first frame.
    pub fn mean_of_db(&self) -> Option<Psnr> {
        (self.frames > 0).then(|| from_planes(self.db.map(|sum| sum / self.frames as f64)))
    }

    /// PSNR of the mean squared error over all frames; `None` before the first frame.
    pub fn of_mean_mse(&self) -> Option<Psnr> {
        (self.frames > 0).then(|| from_planes(self.mse.map(|sum| to_db(sum / self.frames as f64))))
    }
}

fn from_planes([y_db, cb_db, cr_db]: [f64; 3]) -> Psnr {
    Psnr { y_db, cb_db, cr_db }
}

fn mse(left: &Yuv420, right: &Yuv420) -> Result<[f64; 3], PictureError> {
    let size = |p: &Yuv420| (p.width(), p.height());
    if size(left) != size(right) {
        return Err(PictureError::Mismatch {
            left: size(left),
            right: size(right),
        });
    }
    Ok([
        mse_plane(left.y(), right.y()),
        mse_plane(left.u(), right.u()),
        mse_plane(left.v(), right.v()),
    ])
}

fn mse_plane(left: &[u8], right: &[u8]) -> f64 {
    let sum: u64 = left
        .iter()
        .zip(right)
        .map(|(&a, &b)| u64::from(a.abs_diff(b)).pow(2))
        .sum();
    sum as f64 / left.len() as f64
}

fn to_db(mse: f64) -> f64 {
    if mse > 0.0 {
        (10.0 * (255.0 * 255.0 / mse).log10()).min(PSNR_DB_MAX)
    } else {
        PSNR_DB_MAX
    }
}
