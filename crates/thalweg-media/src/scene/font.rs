//! The drawn clock: time, frame number and a turning hand, in a 3×5 bitmap font.
//!
//! The idea: digits as fifteen bits each, drawn as squares on a dark plate, large enough to survive
//! coarse coding.

use super::{Canvas, Colour, WIDTH};

const INK: Colour = [225, 128, 128];
const PLATE: Colour = [28, 134, 124];
const HAND: Colour = [120, 70, 210];

/// Glyphs of `0`–`9`, `:` and a gap; three bits a row, five rows, the top row highest.
const GLYPHS: [u16; 12] = [
    0b111_101_101_101_111,
    0b010_110_010_010_111,
    0b111_001_111_100_111,
    0b111_001_111_001_111,
    0b101_101_111_001_001,
    0b111_100_111_001_111,
    0b111_100_111_101_111,
    0b111_001_010_010_010,
    0b111_101_111_101_111,
    0b111_101_111_001_111,
    0b000_010_000_010_000,
    0,
];
const COLON: usize = 10;
const GAP: usize = 11;

/// The eight places of the turning hand around its square's edge, clockwise from the top left.
const PLACES: [(usize, usize); 8] = [
    (0, 0),
    (1, 0),
    (2, 0),
    (2, 1),
    (2, 2),
    (1, 2),
    (0, 2),
    (0, 1),
];

/// Draws `mm:ss nnnn` and the hand in the top left corner.
pub(super) fn draw_clock(canvas: &mut Canvas, index: u64, rate: u32) {
    // Dots are two samples of the scene's own, at least one of the picture's.
    let dot = (2 * canvas.width / WIDTH as usize).max(1);
    let seconds = index / u64::from(rate);
    let digit = |n: u64| (n % 10) as usize;
    let text = [
        digit(seconds / 600),
        digit(seconds / 60),
        COLON,
        digit(seconds % 60 / 10),
        digit(seconds),
        GAP,
        digit(index / 1000),
        digit(index / 100),
        digit(index / 10),
        digit(index),
    ];
    let (left, top) = (4 * dot, 3 * dot);
    let width = (4 * text.len() + 7) * dot;
    canvas.fill(left - dot, top - dot, width, 7 * dot, PLATE);
    for (place, &glyph) in text.iter().enumerate() {
        draw_glyph(canvas, left + place * 4 * dot, top, dot, GLYPHS[glyph]);
    }
    let (x, y) = PLACES[(index % 8) as usize];
    let hand = left + text.len() * 4 * dot;
    canvas.fill(
        hand + x * 5 * dot / 3,
        top + y * 5 * dot / 3,
        5 * dot / 3,
        5 * dot / 3,
        HAND,
    );
}

fn draw_glyph(canvas: &mut Canvas, left: usize, top: usize, dot: usize, glyph: u16) {
    for bit in 0..15 {
        if glyph >> (14 - bit) & 1 == 1 {
            canvas.fill(left + bit % 3 * dot, top + bit / 3 * dot, dot, dot, INK);
        }
    }
}
