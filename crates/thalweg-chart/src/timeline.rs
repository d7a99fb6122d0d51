//! Panels over a common time, one above the other, as SVG text.
//!
//! *The idea.* What belongs together in time stands together: a dip above, a burst below. Each panel has its
//! own vertical axis from zero, and its legend in the line above it; all share the axis of time at the
//! bottom. Dots that would cover each other are drawn once, so that a file stays small whatever is in it.
//!
//! ```text
//!  title
//!  y label   ■ legend  ● legend
//!      ┌─────────────────────┐
//!  tick┤  panel              │
//!      └──┬────┬────┬────┬───┘
//!  y label …
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::axis::{Axis, label};
use crate::draw::{COLOURS, LEFT, RIGHT, WIDTH, escaped, horizontal, mark, style, text};
use crate::{Scale, Series};

/// Where the first panel's line of words stands.
const FIRST: f64 = 58.0;
/// The height of a line of words, and of a panel.
const LINE: f64 = 18.0;
const PANEL: f64 = 150.0;
/// Room below a panel.
const GAP: f64 = 30.0;
/// Approximate width of a small letter.
const LETTER: f64 = 6.6;
/// Ticks of the common axis, at most.
const TICKS_MAX: f64 = 10.0;

/// Panels over a common time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Text above the first panel.
    pub title: String,
    /// Quantity and unit of the common axis.
    pub x_label: String,
    /// Its length; it begins at zero.
    pub seconds: f64,
    /// The panels, from the top.
    pub panels: Vec<Panel>,
    /// The source of the data, in small letters at the bottom, line by line.
    pub source: Vec<String>,
}

/// One of the panels.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Quantity and unit.
    pub y_label: String,
    /// What is drawn.
    pub plot: PanelPlot,
}

/// The content of a panel.
#[derive(Clone, Debug)]
pub enum PanelPlot {
    /// A dot for each value.
    Dots(Vec<Series>),
    /// Bars of this width in seconds, one series on top of the other; x is where a bar begins.
    Bars {
        /// Seconds that a bar covers.
        width: f64,
        /// The series, the lowest first.
        bars: Vec<Series>,
    },
}

impl Timeline {
    /// Returns the panels as the text of an SVG file.
    ///
    /// Fails   no error value; points that are not finite are left out
    pub fn svg(&self) -> String {
        let mut body = String::new();
        let mut top = FIRST;
        let mut colour = 0;
        for panel in &self.panels {
            top = self.draw_panel(&mut body, panel, top, colour);
            // Colours go on from panel to panel, so that one colour means one thing.
            colour += panel.series().len();
        }
        let bottom = top - GAP;
        for tick in ticks(self.seconds) {
            text(
                &mut body,
                (self.place(tick), bottom + 20.0),
                "middle",
                &label(tick),
            );
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        text(&mut body, (middle, bottom + 42.0), "middle", &self.x_label);
        let source = bottom + 68.0;
        for (at, line) in self.source.iter().enumerate() {
            text(&mut body, (LEFT, source + at as f64 * LINE), "small", line);
        }
        let height = source + LINE * self.source.len() as f64;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{}</title>\n{}<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n<text class=\"title\" x=\"{LEFT}\" y=\"26\">{}</text>\n{body}</svg>\n",
            escaped(&self.title),
            style(),
            escaped(&self.title),
        )
    }

    /// Returns the pixel of a time.
    fn place(&self, second: f64) -> f64 {
        let share = (second / self.seconds.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0);
        LEFT + share * (RIGHT - LEFT)
    }

    /// Draws a panel, and returns where the next one's words stand.
    fn draw_panel(&self, out: &mut String, panel: &Panel, words: f64, colour: usize) -> f64 {
        let top = legend(out, panel, words, colour) + 8.0;
        let bottom = top + PANEL;
        let y = Axis::new(Scale::Even, &panel.heights(), (bottom, top));
        horizontal(out, &y);
        // Writing to a string cannot fail.
        for tick in ticks(self.seconds) {
            let at = self.place(tick);
            let _ = writeln!(
                out,
                "<line class=\"rule\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top}\" y2=\"{bottom}\"/>"
            );
        }
        match &panel.plot {
            PanelPlot::Dots(dots) => self.draw_dots(out, dots, &y, colour),
            PanelPlot::Bars { width, bars } => self.draw_bars(out, (*width, bars), &y, colour),
        }
        let _ = writeln!(
            out,
            "<rect class=\"frame\" x=\"{LEFT}\" y=\"{top}\" width=\"{}\" height=\"{PANEL}\"/>",
            RIGHT - LEFT
        );
        bottom + GAP
    }

    fn draw_dots(&self, out: &mut String, dots: &[Series], y: &Axis, colour: usize) {
        for (at, series) in dots.iter().enumerate() {
            let _ = write!(out, "<g class=\"s{}\">", (colour + at) % COLOURS.len());
            let mut drawn = BTreeSet::new();
            for point in &series.points {
                let Some(height) = y.place(point.y).filter(|_| point.x.is_finite()) else {
                    continue;
                };
                let x = self.place(point.x);
                // Half a dot apart, they look like one.
                if drawn.insert(((x * 1.5) as i64, (height * 1.5) as i64)) {
                    let _ = write!(
                        out,
                        "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{height:.1}\" r=\"1.8\"/>"
                    );
                }
            }
            *out += "</g>\n";
        }
    }

    fn draw_bars(
        &self,
        out: &mut String,
        (width, bars): (f64, &[Series]),
        y: &Axis,
        colour: usize,
    ) {
        let mut below: BTreeMap<i64, f64> = BTreeMap::new();
        for (at, series) in bars.iter().enumerate() {
            let _ = write!(out, "<g class=\"s{}\">", (colour + at) % COLOURS.len());
            for point in &series.points {
                let from = below.entry(bar_of(point.x, width)).or_default();
                let ends = (y.place(*from), y.place(*from + point.y));
                let (Some(low), Some(high)) = ends else {
                    continue;
                };
                *from += point.y;
                let (left, right) = (self.place(point.x), self.place(point.x + width));
                // A rare drop must be seen too.
                let height = (low - high).max(if point.y > 0.0 { 1.0 } else { 0.0 });
                let _ = write!(
                    out,
                    "<rect class=\"mark\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
                    low - height,
                    (right - left).max(1.0),
                );
            }
            *out += "</g>\n";
        }
    }
}

impl Panel {
    fn series(&self) -> &[Series] {
        match &self.plot {
            PanelPlot::Dots(series) | PanelPlot::Bars { bars: series, .. } => series,
        }
    }

    /// Returns the heights that the vertical axis must cover.
    fn heights(&self) -> Vec<f64> {
        let points = self.series().iter().flat_map(|series| &series.points);
        match &self.plot {
            PanelPlot::Dots(_) => points.map(|point| point.y).collect(),
            PanelPlot::Bars { width, .. } => {
                let mut sums: BTreeMap<i64, f64> = BTreeMap::new();
                for point in points.filter(|point| point.y.is_finite()) {
                    *sums.entry(bar_of(point.x, *width)).or_default() += point.y;
                }
                sums.into_values().collect()
            }
        }
    }
}

/// Returns the number of the bar that begins at a time.
fn bar_of(second: f64, width: f64) -> i64 {
    (second / width).round() as i64
}

/// Writes what a panel shows, and returns where the last line of it stands.
fn legend(out: &mut String, panel: &Panel, words: f64, colour: usize) -> f64 {
    text(out, (LEFT, words), "", &panel.y_label);
    let wide = |text: &str| LETTER * text.chars().count() as f64;
    let first = LEFT + wide(&panel.y_label) * 1.1 + 24.0;
    let (mut x, mut line) = (first, words);
    for (at, series) in panel.series().iter().enumerate() {
        let width = wide(&series.name) + 40.0;
        if x + width > RIGHT && x > first {
            (x, line) = (first, line + LINE);
        }
        let _ = write!(out, "<g class=\"s{}\">", (colour + at) % COLOURS.len());
        // A circle for dots, a square for bars.
        let shape = usize::from(matches!(panel.plot, PanelPlot::Bars { .. }));
        mark(out, shape, x + 6.0, line - 4.5);
        *out += "</g>";
        text(out, (x + 16.0, line), "small", &series.name);
        x += width;
    }
    line
}

/// Returns round times from zero on.
fn ticks(seconds: f64) -> Vec<f64> {
    if !seconds.is_finite() || seconds <= 0.0 {
        return vec![0.0];
    }
    let power = 10f64.powf((seconds / TICKS_MAX).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| seconds / step <= TICKS_MAX);
    let step = step.unwrap_or(10.0 * power);
    let count = (seconds / step + 1e-9).floor() as u32;
    (0..=count).map(|n| f64::from(n) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Point;

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        let points = points.iter().map(|(x, y)| Point {
            x: *x,
            y: *y,
            spread: 0.0,
        });
        Series {
            name: name.into(),
            points: points.collect(),
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(10.0).len(), 11);
        assert_eq!(ticks(30.0), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
        assert_eq!(ticks(0.35).len(), 8);
        assert_eq!(ticks(0.0), [0.0]);
    }

    #[test]
    fn panels_are_well_formed() {
        let dots: Vec<(f64, f64)> = (0..20_000).map(|n| (f64::from(n) / 2e3, 3.0)).collect();
        let timeline = Timeline {
            title: "a < b".into(),
            x_label: "seconds".into(),
            seconds: 10.0,
            panels: vec![
                Panel {
                    y_label: "ms".into(),
                    plot: PanelPlot::Dots(vec![series("travel", &dots)]),
                },
                Panel {
                    y_label: "drops".into(),
                    plot: PanelPlot::Bars {
                        width: 0.5,
                        bars: vec![
                            series("one", &[(0.0, 3.0), (0.5, f64::NAN)]),
                            series("other", &[(0.0, 4.0)]),
                        ],
                    },
                },
            ],
            source: vec!["a test".into()],
        };
        let svg = timeline.svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"));
        // Bars stand on each other, so the axis reaches their sum.
        assert_eq!(timeline.panels[1].heights(), [7.0]);
        assert!(
            svg.matches("<circle").count() < 1_500,
            "what looks the same is drawn once"
        );
    }

    #[test]
    fn empty_timeline_is_drawn() {
        let timeline = Timeline {
            title: "nothing".into(),
            x_label: "seconds".into(),
            seconds: 0.0,
            panels: vec![Panel {
                y_label: "drops".into(),
                plot: PanelPlot::Bars {
                    width: 0.1,
                    bars: Vec::new(),
                },
            }],
            source: Vec::new(),
        };
        assert!(!timeline.svg().contains("NaN"));
    }
}
