//! A built-in moving scene: a river valley that needs no file, camera or licence.
//!
//! The idea: every picture is a pure function of the frame number and the size, in integers only,
//! so that sender, receiver and test compute the same bytes on any machine. A camera travels along
//! a river: sky with drifting clouds and a balloon, two ranges of hills, water with ripples and a
//! sailing boat, a bank of grass and reeds close by, each layer moving by its distance. Gradients
//! and textures suit a wavelet coder; the near bank moves several samples a frame, so that a frozen
//! picture differs clearly from the true one within a second. A running clock with frame number and
//! a turning hand are drawn in the corner, so that a person sees at once what stutters or blurs.
//!
//! ```text
//!   sky ───────── clouds, balloon        slow
//!   ▲ far range ▲ near range             slower than …
//!   ≈ water ≈≈≈ boat ≈≈≈                 … by depth
//!   bank: grass, reeds                   fastest
//! ```
//!
//! What it does not do: sound; cuts (the picture never jumps).

#![expect(
    clippy::cast_possible_wrap,
    reason = "coordinates are bounded by the longest side of a picture, and table sizes are constants"
)]

mod font;
mod land;
mod noise;

#[cfg(test)]
mod tests;

use crate::picture::{PictureError, Yuv420, luma_len};
use land::{Land, Row};
use noise::Noise;

/// Width of the scene's own coordinates; other sizes are scaled from it.
pub const WIDTH: u32 = 352;
/// Height of the scene's own coordinates.
pub const HEIGHT: u32 = 288;
/// Frames per second assumed by the drawn clock by default.
pub const RATE: u32 = 12;

/// The scene at one size.
#[derive(Debug, Clone)]
pub struct Scene {
    width: u32,
    height: u32,
    rate: u32,
    noise: Noise,
}

/// A colour as Y, Cb, Cr.
type Colour = [i32; 3];

impl Scene {
    /// Makes the scene at a size.
    ///
    /// Fails   [`PictureError::Size`] unless both sides are even and within bounds
    pub fn new(width: u32, height: u32) -> Result<Self, PictureError> {
        luma_len(width, height)?;
        Ok(Self {
            width,
            height,
            rate: RATE,
            noise: Noise::new(),
        })
    }

    /// Sets the frames per second of the drawn clock and the scene's motion; 0 counts as 1.
    #[must_use]
    pub fn with_rate(mut self, frames_per_second: u32) -> Self {
        self.rate = frames_per_second.max(1);
        self
    }

    /// Draws frame `index`.
    ///
    /// Cost    O(samples); about 1.5 ms at 352×288 in a release build
    pub fn frame(&self, index: u64) -> Yuv420 {
        // The scene's own time runs in 1/256 s and repeats after 2^24 of them (18 h), before
        // anything overflows.
        let ticks = (index.wrapping_mul(256) / u64::from(self.rate)) & 0x00ff_ffff;
        let land = Land::new(&self.noise, ticks as i32);
        let mut canvas = Canvas::new(self.width, self.height);
        canvas.paint(&land);
        font::draw_clock(&mut canvas, index, self.rate);
        canvas.into_picture()
    }
}

/// The picture being drawn.
struct Canvas {
    width: usize,
    height: usize,
    y: Vec<u8>,
    u: Vec<u8>,
    v: Vec<u8>,
}

impl Canvas {
    fn new(width: u32, height: u32) -> Self {
        let (width, height) = (width as usize, height as usize);
        Self {
            width,
            height,
            y: vec![16; width * height],
            u: vec![128; width * height / 4],
            v: vec![128; width * height / 4],
        }
    }

    /// Colours every sample; chroma is the mean of its four.
    fn paint(&mut self, land: &Land<'_>) {
        let width = self.width;
        // Columns and rows of the scene's own coordinates, in 1/16.
        let scaled = |n: usize, own: u32, side: usize| (n * own as usize * 16 / side) as i32;
        let xs: Vec<i32> = (0..width).map(|x| scaled(x, WIDTH, width)).collect();
        let columns: Vec<land::Column> = xs.iter().map(|&x| land.column(x)).collect();
        let mut chroma = vec![[0i32; 2]; width / 2];
        for row in 0..self.height {
            let shade = Row::new(land, scaled(row, HEIGHT, self.height));
            let line = &mut self.y[row * width..][..width];
            for (x, sample) in line.iter_mut().enumerate() {
                let [y, u, v] = shade.colour(&columns[x]);
                *sample = y.clamp(16, 235) as u8;
                chroma[x / 2][0] += u;
                chroma[x / 2][1] += v;
            }
            if row % 2 == 1 {
                let start = row / 2 * (width / 2);
                for (x, sum) in chroma.iter_mut().enumerate() {
                    self.u[start + x] = (sum[0] / 4).clamp(16, 240) as u8;
                    self.v[start + x] = (sum[1] / 4).clamp(16, 240) as u8;
                    *sum = [0; 2];
                }
            }
        }
    }

    /// Fills a rectangle, cut at the edges.
    fn fill(&mut self, x: usize, y: usize, width: usize, height: usize, [luma, cb, cr]: Colour) {
        for row in y..(y + height).min(self.height) {
            for column in x..(x + width).min(self.width) {
                self.y[row * self.width + column] = luma as u8;
                let at = row / 2 * (self.width / 2) + column / 2;
                self.u[at] = cb as u8;
                self.v[at] = cr as u8;
            }
        }
    }

    fn into_picture(self) -> Yuv420 {
        Yuv420::new(
            self.width as u32,
            self.height as u32,
            self.y,
            self.u,
            self.v,
        )
        .expect("the size was checked when the scene was made and the planes follow from it")
    }
}
