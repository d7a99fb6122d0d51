//! Charts as SVG text: lines over a logarithmic or an even axis, and bars, for a page that is light or dark.
//!
//! *The idea.* A chart is data ([`Chart`]) and one function from data to text ([`Chart::svg`]); it knows nothing of
//! benchmarks, so that the planner's and the testbed's figures can be drawn by it too. Colours are variables of a style
//! sheet inside the file, with a second set for readers whose screens are dark; marks differ in shape as well, so that a
//! print without colour can be read. At 800 pixels wide the smallest letters are 12 pixels high.
//!
//! ```text
//!  title
//!  y label  ┌──────────────────┐
//!      tick ┤  plot            │ legend under it, marks as in the plot
//!           └──┬───┬───┬───────┘
//!             tick      x label
//! ```
//!
//! *What it does not do.* No interaction, no fonts of its own, no layout of text that is too long.
//!
//! *Sources.* The colours are Okabe and Ito's, which are told apart with any colour vision.

mod axis;
mod draw;
#[cfg(test)]
mod tests;

/// A figure.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// Above the plot.
    pub(crate) title: String,
    /// What and in which unit, below the plot.
    pub(crate) x_label: String,
    /// What and in which unit, beside it.
    pub(crate) y_label: String,
    /// How the vertical axis grows.
    pub(crate) y_scale: Scale,
    /// What is drawn.
    pub(crate) plot: Plot,
    /// Where the data comes from, in small letters at the bottom, line by line.
    pub(crate) source: Vec<String>,
}

/// How an axis grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Evenly, from zero.
    Even,
    /// Tenfold from tick to tick; what is not above zero is left out.
    Tenfold,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) enum Plot {
    /// Lines with marks.
    Lines {
        /// How the horizontal axis grows.
        x_scale: Scale,
        /// The lines, in the order of the legend.
        lines: Vec<Series>,
    },
    /// Groups of bars side by side.
    Bars {
        /// The names of the groups, from left to right.
        groups: Vec<String>,
        /// One bar in each group; x is the group's number.
        bars: Vec<Series>,
    },
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Its name in the legend.
    pub(crate) name: String,
    /// The points, from left to right.
    pub(crate) points: Vec<Point>,
}

/// A value with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Half the height of the bar through it: half the distance of the quartiles.
    pub(crate) spread: f64,
}

impl Chart {
    /// Returns the chart as the text of an SVG file.
    ///
    /// Fails   no error value; points that are not finite are left out
    pub(crate) fn svg(&self) -> String {
        draw::svg(self)
    }
}

impl Plot {
    fn series(&self) -> &[Series] {
        match self {
            Self::Lines { lines, .. } => lines,
            Self::Bars { bars, .. } => bars,
        }
    }
}
