//! Converts studio-range BT.601 to the RGBA of a canvas.
//!
//! The idea: the usual integer matrix with eight fraction bits; chroma is repeated, not
//! interpolated, which is enough for a preview.
//!
//! What it does not do: BT.709 or full range; colour management.
//!
//! Sources: ITU-R BT.601-7 §2.5.

use super::Yuv420;

impl Yuv420 {
    /// Writes the picture as RGBA, alpha 255, replacing the content of `out`.
    ///
    /// Shape   `out[height · width · 4]`
    /// Error   within 1 of the exact matrix, from rounding its entries to 1/256
    /// Cost    O(samples); allocates only if `out` is too small
    pub fn write_rgba(&self, out: &mut Vec<u8>) {
        out.clear();
        let width = self.width as usize;
        out.reserve(self.y.len() * 4);
        for (row, line) in self.y.chunks_exact(width).enumerate() {
            let chroma = (row / 2) * (width / 2);
            let us = &self.u[chroma..chroma + width / 2];
            let vs = &self.v[chroma..chroma + width / 2];
            for ((pair, &u), &v) in line.chunks_exact(2).zip(us).zip(vs) {
                for &y in pair {
                    out.extend_from_slice(&to_rgba(y, u, v));
                }
            }
        }
    }
}

fn to_rgba(y: u8, u: u8, v: u8) -> [u8; 4] {
    let y = 298 * (i32::from(y) - 16) + 128;
    let (u, v) = (i32::from(u) - 128, i32::from(v) - 128);
    let clamp = |n: i32| (n >> 8).clamp(0, 255) as u8;
    [
        clamp(y + 409 * v),
        clamp(y - 100 * u - 208 * v),
        clamp(y + 516 * u),
        255,
    ]
}
