//! The landscape: the colour of each point of the scene at each moment.
//!
//! The idea: a [`Column`] holds what depends on x alone (where each layer's skyline lies), a
//! [`Row`] what depends on y alone (depth of the water, gradient of the sky); a point then needs a
//! few comparisons and at most two look-ups.
//!
//! All coordinates are in 1/16 of the scene's own samples; time is in 1/256 s.

use super::Colour;
use super::noise::{Noise, sine};

/// The waterline, in 1/16 samples.
const HORIZON: i32 = 132 * 16;

/// The scene at one moment.
pub(super) struct Land<'a> {
    noise: &'a Noise,
    ticks: i32,
}

/// The state of one column of the picture.
pub(super) struct Column {
    x: i32,
    /// Skylines of the far range, the near range and the bank, and the far shore's edge.
    far: i32,
    near: i32,
    bank: i32,
}

impl<'a> Land<'a> {
    pub(super) fn new(noise: &'a Noise, ticks: i32) -> Self {
        Self { noise, ticks }
    }

    /// Distance the camera has travelled, in 1/16 samples, for a layer that moves `speed` samples a
    /// second.
    fn travel(&self, speed: i32) -> i32 {
        // Split, since ticks · speed · 16 overflows 32 bits after hours.
        (self.ticks >> 8) * speed * 16 + (self.ticks & 255) * speed / 16
    }

    pub(super) fn column(&self, x: i32) -> Column {
        let far = self.noise.between((x + self.travel(5)) / 5, 40 * 16);
        let near = self.noise.between((x + self.travel(14)) / 3, 90 * 16);
        let trees = self.noise.between((x + self.travel(14)) * 2, 17 * 16);
        let bank = self.noise.between((x + self.travel(64)) >> 1, 150 * 16);
        let reeds = self.noise.between((x + self.travel(64)) * 3, 200 * 16);
        Column {
            x,
            far: (120 * 16) - far * 6,
            near: (138 * 16) - near * 3 - trees,
            bank: (262 * 16) - bank * 2 - (reeds - 128).max(0) * 5,
        }
    }

    /// Where the boat is: left of its hull and its waterline.
    fn boat(&self) -> (i32, i32) {
        let lane = 560 * 16;
        let x = (self.travel(44) + 140 * 16) % lane - 100 * 16;
        (x, 188 * 16 + sine(self.ticks / 3) / 8)
    }

    /// Where the balloon's centre is.
    fn balloon(&self) -> (i32, i32) {
        let x = 250 * 16 + sine(self.ticks / 16) * 5;
        (x, 50 * 16 + sine(self.ticks / 9) * 3 / 4)
    }
}

/// The state of one row of the picture, with the colours of its points.
pub(super) struct Row<'a> {
    land: &'a Land<'a>,
    y: i32,
    /// Distance from the eye, by perspective: samples of texture that one of the picture spans, in
    /// 1/768.
    depth: i32,
    boat: (i32, i32),
    balloon: (i32, i32),
}

impl<'a> Row<'a> {
    pub(super) fn new(land: &'a Land<'a>, y: i32) -> Self {
        Self {
            land,
            y,
            depth: 2600 * 256 / ((y - HORIZON).max(0) + 12 * 16),
            boat: land.boat(),
            balloon: land.balloon(),
        }
    }

    pub(super) fn colour(&self, column: &Column) -> Colour {
        if self.y >= column.bank {
            return self.bank(column);
        }
        if let Some(colour) = self.boat(column.x) {
            return colour;
        }
        if self.y >= HORIZON {
            return self.water(column);
        }
        if self.y >= column.near {
            return self.near(column);
        }
        if self.y >= column.far {
            return self.far(column);
        }
        self.balloon(column.x).unwrap_or_else(|| self.sky(column.x))
    }

    fn sky(&self, x: i32) -> Colour {
        let noise = self.land.noise;
        let drift = x + self.land.travel(9);
        let cloud = noise.between(drift / 2, self.y) - 118;
        let height = self.y >> 4;
        let base = [150 + height / 3, 150 - height / 6, 112 + height / 8];
        let white = cloud.clamp(0, 64);
        mix(base, [226, 126, 129], white * 4)
    }

    fn far(&self, column: &Column) -> Colour {
        let texture = self
            .land
            .noise
            .between((column.x + self.land.travel(5)) * 3 / 2, self.y * 2);
        let haze = (self.y - column.far) / 24;
        [
            104 + texture / 8 + haze / 2,
            138 - haze / 8,
            121 - haze / 12,
        ]
    }

    fn near(&self, column: &Column) -> Colour {
        let x = column.x + self.land.travel(14);
        let texture = self.land.noise.between(x * 5 / 2, self.y * 3);
        let lit = if self.y - column.near < 40 { 14 } else { 0 };
        [52 + texture / 3 + lit, 112, 118 + texture / 24]
    }

    fn water(&self, column: &Column) -> Colour {
        let noise = self.land.noise;
        // One texture under perspective: it passes at 4 samples a second far off and at 50 close by.
        let x = (column.x - 176 * 16) * (self.depth >> 4) / 48 + self.land.travel(16);
        let ripple = noise.between(x, self.depth * 3 + self.land.ticks / 2);
        let swell = sine((self.depth >> 3) * 3 + (x >> 5) + self.land.ticks / 2) / 24;
        // The hills stand on their heads in calm water, and the sun lies in a broad stripe.
        let mirrored = 2 * HORIZON - self.y + ((ripple - 128) >> 1);
        let shade = if mirrored > column.near { 26 } else { 0 };
        let glint = (ripple - 168).max(0) * 3 / 2;
        let depth_light = (self.y - HORIZON) >> 7;
        let y = 126 - shade - depth_light + swell + (ripple - 128) / 3 + glint;
        [y, 142 - shade / 6, 114 + shade / 8]
    }

    fn bank(&self, column: &Column) -> Colour {
        let noise = self.land.noise;
        let x = column.x + self.land.travel(64);
        let blade = noise.between(x * 2, self.y / 2);
        let clump = noise.between(x / 2, self.y / 2 + 77);
        let edge = (self.y - column.bank).min(512) / 16;
        let flower = blade > 196 && clump > 140;
        if flower {
            return [178, 84, 152];
        }
        [
            34 + blade / 2 + clump / 4 + edge,
            98 + clump / 16,
            116 + blade / 20,
        ]
    }

    fn boat(&self, x: i32) -> Option<Colour> {
        let (left, line) = self.boat;
        let (dx, up) = ((x - left) >> 4, (line - self.y) >> 4);
        if !(0..84).contains(&dx) || !(-8..74).contains(&up) {
            return None;
        }
        // Hull, mast, two sails and a pennant, each by a half-plane or two.
        if up < 8 {
            let slant = (8 - up) / 2;
            return (dx > 4 + slant && dx < 82 - slant).then_some(if up > 4 {
                [210, 120, 134]
            } else {
                [70, 104, 178]
            });
        }
        if (43..45).contains(&dx) {
            return Some([60, 116, 140]);
        }
        if up >= 66 {
            return (dx >= 45 && dx - 45 < 74 - up).then_some([130, 80, 205]);
        }
        if up < 12 {
            return None;
        }
        let height = 66 - up;
        if dx >= 45 && (dx - 45) * 54 < height * 34 {
            let stripe = (up / 9) % 2 == 0;
            return Some(if stripe {
                [222, 122, 132]
            } else {
                [96, 106, 208]
            });
        }
        (dx < 43 && (43 - dx) * 54 < height * 28).then_some([200 - height / 2, 116, 136])
    }

    fn balloon(&self, x: i32) -> Option<Colour> {
        let (dx, dy) = ((x - self.balloon.0) >> 4, (self.y - self.balloon.1) >> 4);
        if dx * dx + dy * dy * 3 / 4 < 24 * 24 {
            let gore = ((dx + 100) / 8) % 3;
            let shade = -dx / 2 - dy / 2;
            return Some(match gore {
                0 => [110 + shade, 92, 204],
                1 => [182 + shade, 60, 150],
                _ => [92 + shade, 178, 96],
            });
        }
        let basket = dx.abs() < 5 && (36..43).contains(&dy);
        let ropes = (28..36).contains(&dy) && dx.abs() == 4;
        (basket || ropes).then_some([66, 112, 146])
    }
}

/// `share` of 256 parts of `over` upon `under`.
fn mix(under: Colour, over: Colour, share: i32) -> Colour {
    let share = share.clamp(0, 256);
    core::array::from_fn(|i| (under[i] * (256 - share) + over[i] * share) >> 8)
}
