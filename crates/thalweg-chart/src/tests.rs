//! Checks positions by hand, and that a file is well-formed: every group closed, every text escaped, no NaN.

use crate::axis::{Axis, label};
use crate::{Chart, Plot, Point, Scale, Series};

fn point(x: f64, y: f64) -> Point {
    Point { x, y, spread: 0.5 }
}

fn chart(plot: Plot) -> Chart {
    Chart {
        title: "a < b & c".into(),
        x_label: "bytes".into(),
        y_label: "us".into(),
        y_scale: Scale::Even,
        plot,
        source: vec!["a test".into()],
    }
}

#[test]
fn axis_places_values() {
    let even = Axis::new(Scale::Even, &[3.0, 9.0], (0.0, 100.0));
    assert_eq!(even.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(even.place(5.0), Some(50.0));
    let tenfold = Axis::new(Scale::Tenfold, &[100.0, 60_000.0], (0.0, 300.0));
    assert_eq!(tenfold.ticks(), [100.0, 1_000.0, 10_000.0, 100_000.0]);
    assert_eq!(tenfold.place(1_000.0), Some(100.0));
    assert_eq!((tenfold.place(0.0), even.place(f64::NAN)), (None, None));
}

#[test]
fn empty_axis_has_ticks() {
    for scale in [Scale::Even, Scale::Tenfold] {
        let axis = Axis::new(scale, &[], (0.0, 1.0));
        assert!(axis.ticks().iter().all(|tick| tick.is_finite()));
    }
}

#[test]
fn labels_are_short() {
    let labels = [0.0, 0.005, 2.5, 1_000.0, 60_000.0, 2_000_000.0].map(label);
    assert_eq!(labels, ["0", "0.005", "2.5", "1000", "60 k", "2 M"]);
}

#[test]
fn svg_is_well_formed() {
    let series = |name: &str| Series {
        name: name.into(),
        points: vec![
            point(100.0, 1.0),
            point(1_000.0, f64::NAN),
            point(60_000.0, 4.0),
        ],
    };
    let lines = Plot::Lines {
        x_scale: Scale::Tenfold,
        lines: vec![series("one"), series("two")],
    };
    let bars = Plot::Bars {
        groups: vec!["left".into(), "right".into()],
        bars: vec![Series {
            name: "one".into(),
            points: vec![point(0.0, 3.0), point(1.0, 5.0)],
        }],
    };
    for plot in [lines, bars] {
        let svg = chart(plot).svg();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert!(svg.contains("a &lt; b &amp; c") && !svg.contains("NaN"));
        assert!(svg.contains("prefers-color-scheme: dark"));
        for word in [">bytes<", ">us<", ">one<"] {
            assert!(svg.contains(word), "{word}");
        }
    }
}
