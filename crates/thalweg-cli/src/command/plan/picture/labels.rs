//! Labels that overlap neither each other nor a node.
//!
//! *The idea.* Each label is a box. A label with several candidate places takes the first without
//! an overlap, or else the one with the least.

use std::fmt::Write as _;

use super::escaped;

/// Width of a character over the font size: a common sans-serif face, rounded up.
const WIDTH: f64 = 0.56;

/// The colour of a label.
#[derive(Clone, Copy)]
pub(super) enum Ink {
    Dark,
    Faint,
    Red,
}

/// A rectangle: left, top, right, bottom.
type Box = [f64; 4];

/// The labels so far, and the boxes that they must not overlap.
#[derive(Default)]
pub(super) struct Labels {
    boxes: Vec<Box>,
    svg: String,
}

impl Labels {
    /// Keeps a box free, given its centre and size.
    pub(super) fn reserve(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2]) {
        let (width, height) = (width / 2.0, height / 2.0);
        self.boxes
            .push([x - width, y - height, x + width, y + height]);
    }

    /// Puts a label on a base line, centred on `x`.
    pub(super) fn put(&mut self, [x, y]: [f64; 2], size: u32, ink: Ink, text: &str) {
        self.boxes.push(box_of([x, y], size, text));
        let colour = match ink {
            Ink::Dark => "#1f2937",
            Ink::Faint => "#94a3b8",
            Ink::Red => "#b91c1c",
        };
        // A white outline keeps it readable across a line.
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"middle\" fill=\"{colour}\" \
             stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
            escaped(text)
        );
    }

    /// Puts lines of text at the best of `places`; each place is the middle of the first base line.
    pub(super) fn put_at_best(
        &mut self,
        places: &[[f64; 2]],
        size: u32,
        ink: Ink,
        lines: &[String],
    ) {
        let height = LINE * f64::from(size);
        let boxes = |[x, y]: [f64; 2]| {
            let lines = lines.iter().enumerate();
            lines.map(move |(at, line)| box_of([x, y + height * at as f64], size, line))
        };
        let covered =
            |place: &[f64; 2]| -> f64 { boxes(*place).map(|one| self.covered(&one)).sum() };
        let mut best: Option<(f64, [f64; 2])> = None;
        for place in places {
            let covers = covered(place);
            if best.is_none_or(|(least, _)| covers < least) {
                best = Some((covers, *place));
            }
            if covers <= 0.0 {
                break;
            }
        }
        let Some((_, [x, y])) = best else { return };
        for (at, line) in lines.iter().enumerate() {
            self.put([x, y + height * at as f64], size, ink, line);
        }
    }

    /// Returns the area of a box that is covered already.
    fn covered(&self, one: &Box) -> f64 {
        let shared = |other: &Box| {
            let wide = one[2].min(other[2]) - one[0].max(other[0]);
            let high = one[3].min(other[3]) - one[1].max(other[1]);
            wide.max(0.0) * high.max(0.0)
        };
        self.boxes.iter().map(shared).sum()
    }

    /// Returns the bounding box of all labels: left, top, right, bottom.
    pub(super) fn extent(&self) -> Box {
        let mut extent = self.boxes.first().copied().unwrap_or([0.0; 4]);
        for one in &self.boxes {
            extent = [
                extent[0].min(one[0]),
                extent[1].min(one[1]),
                extent[2].max(one[2]),
                extent[3].max(one[3]),
            ];
        }
        extent
    }

    /// Returns the labels as SVG.
    pub(super) fn svg(&self) -> &str {
        &self.svg
    }
}

/// Line height over the font size.
const LINE: f64 = 1.25;

fn box_of([x, y]: [f64; 2], size: u32, text: &str) -> Box {
    let size = f64::from(size);
    let wide = text.chars().count() as f64 * size * WIDTH / 2.0;
    [x - wide, y - size, x + wide, y + 0.25 * size]
}

#[cfg(test)]
mod tests {
    //! Proves that a label takes a free place, or the one with the least overlap.

    use super::{Ink, Labels};

    #[test]
    fn label_takes_a_free_place() {
        let mut labels = Labels::default();
        labels.put([0.0, 0.0], 10, Ink::Dark, "here");
        labels.put_at_best(&[[5.0, 3.0], [0.0, 40.0]], 10, Ink::Dark, &["there".into()]);
        assert!(
            labels.svg().contains("x=\"0.0\" y=\"40.0\""),
            "{}",
            labels.svg()
        );
        labels.put_at_best(&[[2.0, 0.0], [2.0, 8.0]], 10, Ink::Dark, &["must".into()]);
        assert!(
            labels.svg().contains("x=\"2.0\" y=\"8.0\""),
            "{}",
            labels.svg()
        );
    }
}
