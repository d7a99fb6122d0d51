//! Pictures: the planar 4:2:0 frame that all video rooms of this crate use.
//!
//! One type, [`Yuv420`]: 8 bit, even width and height, planes without padding. With it: the
//! distance of two pictures ([`psnr()`]), a reader of the simplest file format for such pictures
//! ([`y4m`]), and the conversion for a screen ([`Yuv420::write_rgba`]).
//!
//! What it does not do: other samplings or depths, colour management, scaling.
//!
//! Sources: ITU-R BT.601-7 (studio-range `Y'CbCr`), ITU-T H.273.

mod psnr;
mod rgb;
pub mod y4m;

#[cfg(test)]
mod tests;

pub use psnr::{PSNR_DB_MAX, Psnr, PsnrMean, psnr};

/// The longest side of a picture this crate accepts, from a caller or from the wire.
pub const SIDE_MAX: u32 = 4096;

/// Why a picture could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// Width or height is zero, odd, or longer than [`SIDE_MAX`].
    #[error(
        "a picture of {width}x{height} is not possible: sides must be even, from 2 to {SIDE_MAX}"
    )]
    Size {
        /// The width asked for.
        width: u32,
        /// The height asked for.
        height: u32,
    },
    /// The length of a plane does not fit its size.
    #[error("plane {plane} holds {found} samples, its size needs {needed}")]
    Plane {
        /// `Y`, `Cb` or `Cr`.
        plane: &'static str,
        /// Samples given.
        found: usize,
        /// Samples needed.
        needed: usize,
    },
    /// The pictures to compare differ in size.
    #[error("pictures of {}x{} and {}x{} cannot be compared", .left.0, .left.1, .right.0, .right.1)]
    Mismatch {
        /// Width and height of the first.
        left: (u32, u32),
        /// Width and height of the second.
        right: (u32, u32),
    },
}

/// A picture in planar `Y'CbCr` 4:2:0, 8 bit.
///
/// Shape   `y[height · width]`, `u[height/2 · width/2]`, `v[height/2 · width/2]`, rows from the top
/// Units   BT.601 studio range: Y 16–235, Cb and Cr 16–240 around 128
#[derive(Clone, PartialEq, Eq)]
pub struct Yuv420 {
    width: u32,
    height: u32,
    y: Vec<u8>,
    u: Vec<u8>,
    v: Vec<u8>,
}

impl Yuv420 {
    /// Makes a picture from its planes.
    ///
    /// Fails   [`PictureError::Size`], [`PictureError::Plane`]
    pub fn new(
        width: u32,
        height: u32,
        y: Vec<u8>,
        u: Vec<u8>,
        v: Vec<u8>,
    ) -> Result<Self, PictureError> {
        let luma = luma_len(width, height)?;
        for (plane, found, needed) in [
            ("Y", y.len(), luma),
            ("Cb", u.len(), luma / 4),
            ("Cr", v.len(), luma / 4),
        ] {
            if found != needed {
                return Err(PictureError::Plane {
                    plane,
                    found,
                    needed,
                });
            }
        }
        Ok(Self {
            width,
            height,
            y,
            u,
            v,
        })
    }

    /// Returns a mid-grey picture: what a viewer shows before anything has arrived.
    ///
    /// Fails   [`PictureError::Size`]
    pub fn grey(width: u32, height: u32) -> Result<Self, PictureError> {
        let luma = luma_len(width, height)?;
        Self::new(
            width,
            height,
            vec![126; luma],
            vec![128; luma / 4],
            vec![128; luma / 4],
        )
    }

    /// Width in samples.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Height in samples.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The luma plane.
    pub fn y(&self) -> &[u8] {
        &self.y
    }

    /// The Cb plane.
    pub fn u(&self) -> &[u8] {
        &self.u
    }

    /// The Cr plane.
    pub fn v(&self) -> &[u8] {
        &self.v
    }

    /// The three planes with their widths and heights, in the order Y, Cb, Cr.
    pub fn planes(&self) -> [Plane<'_>; 3] {
        let (width, height) = (self.width, self.height);
        [
            (&self.y, width, height),
            (&self.u, width / 2, height / 2),
            (&self.v, width / 2, height / 2),
        ]
        .map(|(samples, width, height)| Plane {
            samples,
            width,
            height,
        })
    }
}

impl core::fmt::Debug for Yuv420 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Yuv420({}x{})", self.width, self.height)
    }
}

/// One plane of a picture.
#[derive(Debug, Clone, Copy)]
pub struct Plane<'a> {
    /// `height · width` samples, rows from the top.
    pub samples: &'a [u8],
    /// Samples a row.
    pub width: u32,
    /// Rows.
    pub height: u32,
}

/// Returns the number of luma samples of a picture of this size, if it is valid.
pub(crate) fn luma_len(width: u32, height: u32) -> Result<usize, PictureError> {
    let side = |n: u32| (2..=SIDE_MAX).contains(&n) && n.is_multiple_of(2);
    if side(width) && side(height) {
        Ok(width as usize * height as usize)
    } else {
        Err(PictureError::Size { width, height })
    }
}
