//! The JPEG 2000 headers of our one coding profile, written from a picture's shape.
//!
//! The idea: everything but the packets is a function of [`Shape`], so it need not be sent. The
//! encoder checks on every picture that `OpenJPEG`'s header equals that of [`Shape::main_header`],
//! byte for byte; so a change in the library is found at the encoder, before a receiver sees it.
//!
//! The profile: one tile, 3 components 8 bit, 4:2:0, no component transform (the picture is
//! `Y'CbCr` already), 9/7 wavelet, expounded quantisation, code blocks 64×64, one precinct a
//! resolution, layer–resolution–component–position order, no SOP, EPH, PLT, TLM or comment.
//!
//! Sources: ISO/IEC 15444-1 Annex A.5 (SIZ), A.6 (COD, QCD), A.4 (SOT), E.1 (step sizes); the norms
//! of the 9/7 synthesis filters are from `OpenJPEG`'s `dwt.c`, since the step sizes must be equal.

use super::{LAYERS_MAX, LayeredError};
use crate::picture::luma_len;

/// The most wavelet levels used.
pub(super) const LEVELS_MAX: u8 = 5;
/// Components: Y, Cb, Cr.
pub(super) const COMPONENTS: usize = 3;
/// Code blocks are `2^6` a side: larger ones need fewer header bits, and the standard allows no larger.
pub(super) const CODE_BLOCK_LOG2: u8 = 6;

const SOC: u16 = 0xff4f;
const SIZ: u16 = 0xff51;
const COD: u16 = 0xff52;
const QCD: u16 = 0xff5c;
pub(super) const SOT: u16 = 0xff90;
pub(super) const SOD: u16 = 0xff93;
const EOC: u16 = 0xffd9;

/// L2 norms of the 9/7 synthesis filters by orientation (LL, HL and LH, HH) and level.
const NORMS: [[f64; 6]; 3] = [
    [1.000, 1.965, 4.177, 8.403, 16.90, 33.84],
    [2.022, 3.989, 8.355, 17.04, 34.27, 68.63],
    [2.080, 3.865, 8.307, 17.18, 34.71, 69.59],
];

/// The properties of a picture that determine its headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) layers: u8,
    /// Wavelet decompositions; resolutions are one more.
    pub(super) levels: u8,
}

impl Shape {
    pub(super) fn new(width: u32, height: u32, layers: usize) -> Result<Self, LayeredError> {
        luma_len(width, height)?;
        if width.min(height) < 32 {
            return Err(LayeredError::Small { width, height });
        }
        // The coarsest chroma band keeps at least eight samples a side. Four levels beat five at
        // 352×288 by 0.03 dB in luma and 0.3 dB in chroma in a base of 1,000 bytes, since each
        // resolution costs packet headers.
        let levels = (width.min(height) / 16).ilog2().min(u32::from(LEVELS_MAX)) as u8;
        Ok(Self {
            width,
            height,
            layers: layers as u8,
            levels,
        })
    }

    /// Checks a shape received from a peer.
    pub(super) fn checked(self) -> Result<Self, LayeredError> {
        let own = Self::new(self.width, self.height, usize::from(self.layers))?;
        let layers_fit = (1..=LAYERS_MAX).contains(&usize::from(self.layers));
        if layers_fit && (1..=own.levels).contains(&self.levels) {
            Ok(self)
        } else {
            Err(LayeredError::Shape {
                layers: self.layers,
                levels: self.levels,
            })
        }
    }

    /// Packets of one layer: one a resolution and component.
    pub(super) fn packets_per_layer(self) -> usize {
        (usize::from(self.levels) + 1) * COMPONENTS
    }

    /// Writes SOC, SIZ, COD and QCD.
    pub(super) fn main_header(self, out: &mut Vec<u8>) {
        put(out, &[SOC, SIZ, 38 + 3 * COMPONENTS as u16, 0]);
        // Image and its offset, then the one tile and its offset.
        for n in [self.width, self.height, 0, 0, self.width, self.height, 0, 0] {
            out.extend_from_slice(&n.to_be_bytes());
        }
        put(out, &[COMPONENTS as u16]);
        // Depth less one, then the subsampling of each component.
        out.extend_from_slice(&[7, 1, 1, 7, 2, 2, 7, 2, 2]);
        put(out, &[COD, 12]);
        // Style 0, order LRCP 0, layers, no component transform.
        out.extend_from_slice(&[0, 0, 0, self.layers, 0]);
        let block = CODE_BLOCK_LOG2 - 2;
        out.extend_from_slice(&[self.levels, block, block, 0, 0]);
        let bands = 3 * u16::from(self.levels) + 1;
        put(out, &[QCD, 3 + 2 * bands]);
        // Two guard bits, expounded scalar quantisation.
        out.push(0x42);
        for band in 0..bands {
            put(out, &[self.step_size(band)]);
        }
    }

    /// Writes SOT and SOD of the one tile part.
    pub(super) fn tile_header(out: &mut Vec<u8>, packet_bytes: u32) {
        put(out, &[SOT, 10, 0]);
        out.extend_from_slice(&(packet_bytes + 14).to_be_bytes());
        out.extend_from_slice(&[0, 1]);
        put(out, &[SOD]);
    }

    /// Writes EOC.
    pub(super) fn end(out: &mut Vec<u8>) {
        put(out, &[EOC]);
    }

    /// The quantiser step of a band: exponent in 5 bits, mantissa in 11.
    fn step_size(self, band: u16) -> u16 {
        let (resolution, orient) = match band {
            0 => (0, 0),
            n => ((n - 1) / 3 + 1, [1, 1, 2][usize::from((n - 1) % 3)]),
        };
        // The lowest resolution and the first bands above it have the same level.
        let level = u16::from(self.levels) - resolution;
        let norm = NORMS[orient][usize::from(level)];
        let step = (8192.0 / norm) as u32;
        let log = step.ilog2();
        let mantissa = if log > 11 {
            step >> (log - 11)
        } else {
            step << (11 - log)
        };
        let exponent = 8 + 13 - log;
        (exponent << 11) as u16 | (mantissa & 0x7ff) as u16
    }
}

fn put(out: &mut Vec<u8>, words: &[u16]) {
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
}
