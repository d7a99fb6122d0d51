//! Renders a chart as SVG text.

use std::fmt::Write as _;

use crate::axis::{Axis, label};
use crate::{Chart, Plot, Point, Scale, Series};

pub(crate) const WIDTH: f64 = 800.0;
pub(crate) const LEFT: f64 = 84.0;
pub(crate) const RIGHT: f64 = 776.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 360.0;
const X_LABEL: f64 = BOTTOM + 52.0;
const LEGEND: f64 = BOTTOM + 80.0;
const LEGEND_ROW: f64 = 22.0;
const LEGEND_COLUMNS: usize = 3;
const SOURCE_ROW: f64 = 18.0;
/// Approximate width of a letter.
const LETTER: f64 = 7.5;

/// Colours for a light background, then for a dark one; they repeat after the last.
pub(crate) const COLOURS: [(&str, &str); 10] = [
    ("#0072b2", "#56b4e9"),
    ("#d55e00", "#ff9248"),
    ("#009e73", "#2fd3a5"),
    ("#8a6d00", "#f0e442"),
    ("#cc79a7", "#e8a5c8"),
    ("#555555", "#bbbbbb"),
    ("#7048b6", "#b79cf0"),
    // Beyond Okabe and Ito's palette: their marks distinguish them too.
    ("#9b2226", "#e98a8d"),
    ("#3a5a00", "#a7cf5a"),
    ("#00707a", "#6fd3dd"),
];

pub(crate) fn svg(chart: &Chart) -> String {
    let rows = chart.plot.series().len().div_ceil(LEGEND_COLUMNS) as f64;
    let source = LEGEND + rows * LEGEND_ROW + 8.0;
    let height = source + SOURCE_ROW * chart.source.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" font-family=\"system-ui, sans-serif\" font-size=\"13\">\n<title>{}</title>\n{}<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n",
        escaped(&chart.title),
        style(),
    );
    text(&mut out, (LEFT, 26.0), "title", &chart.title);
    let y = y_axis(chart);
    rules(&mut out, chart, &y);
    match &chart.plot {
        Plot::Lines { x_scale, lines } => draw_lines(&mut out, *x_scale, lines, &y),
        Plot::Bars { groups, bars } => draw_bars(&mut out, groups, bars, &y),
    }
    legend(&mut out, &chart.plot);
    for (at, line) in chart.source.iter().enumerate() {
        let y = source + at as f64 * SOURCE_ROW;
        text(&mut out, (LEFT, y), "small", line);
    }
    out + "</svg>\n"
}

pub(crate) fn style() -> String {
    let mut light = String::new();
    let mut dark = String::new();
    for (at, (on_light, on_dark)) in COLOURS.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(light, ".s{at}{{color:{on_light}}}");
        let _ = write!(dark, ".s{at}{{color:{on_dark}}}");
    }
    format!(
        "<style>\n.paper{{fill:#fff}}text{{fill:#222}}.title{{font-size:17px;font-weight:600}}.small{{font-size:12px;fill:#666}}\n.rule{{stroke:#ddd}}.frame{{stroke:#777;fill:none}}.line{{fill:none;stroke:currentColor;stroke-width:2}}\n.mark{{fill:currentColor}}.spread{{stroke:currentColor;stroke-width:1}}.middle{{text-anchor:middle}}.end{{text-anchor:end}}\n{light}\n@media (prefers-color-scheme: dark){{.paper{{fill:#16181d}}text{{fill:#e6e6e6}}.small{{fill:#a0a0a0}}.rule{{stroke:#33363d}}.frame{{stroke:#888}}\n{dark}}}\n</style>\n"
    )
}

fn y_axis(chart: &Chart) -> Axis {
    let points = chart.plot.series().iter().flat_map(|series| &series.points);
    let values: Vec<f64> = points
        .flat_map(|point| match chart.y_scale {
            Scale::Even => vec![point.y + point.spread],
            // The lower end of a spread may reach zero, which a logarithmic axis cannot show.
            Scale::Tenfold => vec![point.y, point.y + point.spread],
        })
        .collect();
    Axis::new(chart.y_scale, &values, (BOTTOM, TOP))
}

/// Draws an axis' horizontal rules with their values.
pub(crate) fn horizontal(out: &mut String, y: &Axis) {
    for tick in y.ticks() {
        let Some(at) = y.place(tick) else { continue };
        let _ = writeln!(
            out,
            "<line class=\"rule\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>"
        );
        text(out, (LEFT - 8.0, at + 4.5), "end", &label(tick));
    }
}

/// Draws the frame, the horizontal rules with their values, and the labels of both axes.
fn rules(out: &mut String, chart: &Chart, y: &Axis) {
    horizontal(out, y);
    let _ = writeln!(
        out,
        "<rect class=\"frame\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>",
        RIGHT - LEFT,
        BOTTOM - TOP
    );
    let middle = f64::midpoint(LEFT, RIGHT);
    text(out, (middle, X_LABEL), "middle", &chart.x_label);
    let side = f64::midpoint(TOP, BOTTOM);
    let _ = writeln!(
        out,
        "<text class=\"middle\" transform=\"translate(20 {side}) rotate(-90)\">{}</text>",
        escaped(&chart.y_label)
    );
}

fn draw_lines(out: &mut String, x_scale: Scale, lines: &[Series], y: &Axis) {
    let points = lines.iter().flat_map(|series| &series.points);
    let mut values: Vec<f64> = points.map(|point| point.x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let x = Axis::new(x_scale, &values, (LEFT + 16.0, RIGHT - 16.0));
    for tick in &values {
        if let Some(at) = x.place(*tick) {
            let _ = writeln!(
                out,
                "<line class=\"frame\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{BOTTOM}\" y2=\"{}\"/>",
                BOTTOM + 5.0
            );
            text(out, (at, BOTTOM + 21.0), "middle", &label(*tick));
        }
    }
    for (at, series) in lines.iter().enumerate() {
        let placed: Vec<(f64, f64, &Point)> = series
            .points
            .iter()
            .filter_map(|point| Some((x.place(point.x)?, y.place(point.y)?, point)))
            .collect();
        let way: Vec<String> = placed
            .iter()
            .map(|(x, y, _)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            out,
            "<g class=\"s{}\"><polyline class=\"line\" points=\"{}\"/>",
            at % COLOURS.len(),
            way.join(" ")
        );
        for (x, y_pixel, point) in placed {
            spread(out, x, point, y);
            mark(out, at, x, y_pixel);
        }
        *out += "</g>\n";
    }
}

fn draw_bars(out: &mut String, groups: &[String], bars: &[Series], y: &Axis) {
    let group_width = (RIGHT - LEFT) / groups.len().max(1) as f64;
    let bar_width = 0.8 * group_width / bars.len().max(1) as f64;
    // Use two alternating rows if long names would overlap.
    let letters = groups.iter().map(|name| name.chars().count()).max();
    let is_close = letters.unwrap_or(0) as f64 * LETTER > group_width;
    for (at, name) in groups.iter().enumerate() {
        let middle = LEFT + (at as f64 + 0.5) * group_width;
        let row = if is_close && at % 2 == 1 { 32.0 } else { 17.0 };
        text(out, (middle, BOTTOM + row), "middle", name);
    }
    for (at, series) in bars.iter().enumerate() {
        let _ = writeln!(out, "<g class=\"s{}\">", at % COLOURS.len());
        for point in &series.points {
            let Some(top) = y.place(point.y) else {
                continue;
            };
            let left = LEFT + (point.x + 0.1) * group_width + at as f64 * bar_width;
            let (width, height) = (bar_width * 0.92, BOTTOM - top);
            let _ = writeln!(
                out,
                "<rect class=\"mark\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
            );
            spread(out, left + width / 2.0, point, y);
        }
        *out += "</g>\n";
    }
}

fn spread(out: &mut String, x: f64, point: &Point, y: &Axis) {
    let ends = (
        y.place(point.y - point.spread),
        y.place(point.y + point.spread),
    );
    if let (Some(low), Some(high)) = ends
        && point.spread > 0.0
    {
        let _ = writeln!(
            out,
            "<line class=\"spread\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{low:.1}\" y2=\"{high:.1}\"/>"
        );
    }
}

/// Draws a mark: a circle, a square, a triangle or a diamond, in turns.
pub(crate) fn mark(out: &mut String, at: usize, x: f64, y: f64) {
    let _ = match at % 4 {
        0 => writeln!(
            out,
            "<circle class=\"mark\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"
        ),
        1 => writeln!(
            out,
            "<rect class=\"mark\" x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\"/>",
            x - 4.0,
            y - 4.0
        ),
        2 => writeln!(
            out,
            "<path class=\"mark\" d=\"M{x:.1} {:.1}l5 9h-10z\"/>",
            y - 5.0
        ),
        _ => writeln!(
            out,
            "<path class=\"mark\" d=\"M{x:.1} {:.1}l5 5.5-5 5.5-5-5.5z\"/>",
            y - 5.5
        ),
    };
}

fn legend(out: &mut String, plot: &Plot) {
    let column_width = (RIGHT - LEFT) / LEGEND_COLUMNS as f64;
    for (at, series) in plot.series().iter().enumerate() {
        let x = LEFT + (at % LEGEND_COLUMNS) as f64 * column_width;
        let y = LEGEND + (at / LEGEND_COLUMNS) as f64 * LEGEND_ROW;
        let _ = write!(out, "<g class=\"s{}\">", at % COLOURS.len());
        // Bars have no marks; their legend uses a square.
        let shape = if matches!(plot, Plot::Bars { .. }) {
            1
        } else {
            at
        };
        mark(out, shape, x + 6.0, y - 4.5);
        *out += "</g>";
        text(out, (x + 18.0, y), "", &series.name);
    }
}

pub(crate) fn text(out: &mut String, (x, y): (f64, f64), class: &str, words: &str) {
    let words = escaped(words);
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>"
    );
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
