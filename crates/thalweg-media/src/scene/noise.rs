//! Tileable value noise and a sine, in integers.
//!
//! The idea: five octaves of hashed lattice values, joined by a smooth step, are computed once into
//! a 256×256 table; drawing only looks up. Integers, because the scene must be the same bytes on
//! every machine.
//!
//! Sources: K. Perlin's value noise; the integer mix is the finaliser of `MurmurHash3`.

/// Side of the table; a power of two, so that coordinates wrap by masking.
const SIDE: usize = 256;

/// Noise that repeats every 256 units.
#[derive(Debug, Clone)]
pub(super) struct Noise {
    table: Vec<u8>,
}

impl Noise {
    pub(super) fn new() -> Self {
        let mut sums = vec![0i32; SIDE * SIDE];
        for (octave, &weight) in [96, 64, 44, 30, 22].iter().enumerate() {
            add_octave(&mut sums, 8 << octave, octave as u32, weight);
        }
        // Weights sum to 256: the sums are 16 fraction bits of 0–255.
        let table = sums.iter().map(|&s| (s >> 8).clamp(0, 255) as u8).collect();
        Self { table }
    }

    /// The noise at a lattice point, 0–255.
    pub(super) fn at(&self, x: i32, y: i32) -> i32 {
        let wrap = |n: i32| (n & (SIDE as i32 - 1)) as usize;
        i32::from(self.table[wrap(y) * SIDE + wrap(x)])
    }

    /// The noise between lattice points, 0–255; coordinates in 1/16.
    pub(super) fn between(&self, x: i32, y: i32) -> i32 {
        let (cx, cy, fx, fy) = (x >> 4, y >> 4, x & 15, y & 15);
        let top = self.at(cx, cy) * (16 - fx) + self.at(cx + 1, cy) * fx;
        let bottom = self.at(cx, cy + 1) * (16 - fx) + self.at(cx + 1, cy + 1) * fx;
        (top * (16 - fy) + bottom * fy) >> 8
    }
}

/// Adds one octave with `cells` lattice cells a side.
fn add_octave(sums: &mut [i32], cells: usize, seed: u32, weight: i32) {
    let step = SIDE / cells;
    let lattice = |x: usize, y: usize| hash((x % cells) as u32, (y % cells) as u32, seed);
    for y in 0..SIDE {
        let fy = smooth(y % step, step);
        for x in 0..SIDE {
            let fx = smooth(x % step, step);
            let (cx, cy) = (x / step, y / step);
            let top = lattice(cx, cy) * (256 - fx) + lattice(cx + 1, cy) * fx;
            let bottom = lattice(cx, cy + 1) * (256 - fx) + lattice(cx + 1, cy + 1) * fx;
            sums[y * SIDE + x] += ((top >> 8) * (256 - fy) + (bottom >> 8) * fy) / 256 * weight;
        }
    }
}

/// `3t² − 2t³` of `n / step`, in 1/256.
fn smooth(n: usize, step: usize) -> i32 {
    let t = (n * 256 / step) as i32;
    (t * t * (768 - 2 * t)) >> 16
}

fn hash(x: u32, y: u32, seed: u32) -> i32 {
    let mut h = x
        .wrapping_mul(0x9e37_79b1)
        .wrapping_add(y.wrapping_mul(0x85eb_ca77))
        .wrapping_add(seed.wrapping_mul(0xc2b2_ae3d));
    h = (h ^ (h >> 16)).wrapping_mul(0x85eb_ca6b);
    h = (h ^ (h >> 13)).wrapping_mul(0xc2b2_ae35);
    ((h ^ (h >> 16)) & 0xff) as i32
}

/// A sine of period 256 and amplitude 256, by parabolas.
///
/// Error   at most 15 of 256 against the true sine, invisible in a wave
pub(super) fn sine(phase: i32) -> i32 {
    let p = phase & 255;
    let half = p & 127;
    let hump = half * (128 - half) / 16;
    if p < 128 { hump } else { -hump }
}
