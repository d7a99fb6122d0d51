//! Charts as SVG text: lines over a logarithmic or linear axis, bars, and panels over a common time, for
//! light and dark pages.
//!
//! A chart is data ([`Chart`], [`Timeline`]) with one function to text ([`Chart::svg`]); it knows nothing
//! of benchmarks or streams. Colours are variables of a
//! style sheet inside the file, with a second set for dark screens; marks differ in shape as well, for
//! prints without colour. At 800 pixels wide the smallest letters are 12 pixels high. There is no
//! interaction, no embedded font and no layout of overlong text.
//!
//! ```text
//!  title
//!  y label  ┌──────────────────┐
//!      tick ┤  plot            │ legend under it, marks as in the plot
//!           └──┬───┬───┬───────┘
//!             tick      x label
//! ```
//!
//! *Sources.* The colours are Okabe and Ito's, which are distinguishable with any colour vision.

#![forbid(unsafe_code)]

mod axis;
mod draw;
#[cfg(test)]
mod tests;
mod timeline;

pub use timeline::{Panel, PanelPlot, Timeline};

/// A figure.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Text above the plot.
    pub title: String,
    /// Quantity and unit below the plot.
    pub x_label: String,
    /// Quantity and unit beside it.
    pub y_label: String,
    /// Scale of the vertical axis.
    pub y_scale: Scale,
    /// The plot.
    pub plot: Plot,
    /// The source of the data, in small letters at the bottom, line by line.
    pub source: Vec<String>,
}

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Linear from zero.
    Even,
    /// Logarithmic with a tick per power of ten; values not above zero are left out.
    Tenfold,
}

/// The content of a chart.
#[derive(Clone, Debug)]
pub enum Plot {
    /// Lines with marks.
    Lines {
        /// Scale of the horizontal axis.
        x_scale: Scale,
        /// The lines, in the order of the legend.
        lines: Vec<Series>,
    },
    /// Groups of bars side by side.
    Bars {
        /// The names of the groups, from left to right.
        groups: Vec<String>,
        /// One bar in each group; x is the group's index.
        bars: Vec<Series>,
    },
}

/// A named list of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// The points, from left to right.
    pub points: Vec<Point>,
}

/// A value with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Where it is on the horizontal axis.
    pub x: f64,
    /// Where it is on the vertical one.
    pub y: f64,
    /// Half the height of the error bar: half the interquartile range.
    pub spread: f64,
}

impl Chart {
    /// Returns the chart as the text of an SVG file.
    ///
    /// Fails   no error value; points that are not finite are left out
    pub fn svg(&self) -> String {
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
