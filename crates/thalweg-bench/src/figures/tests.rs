//! Proves that the drawings hold the measured figures, and leave missing ones out.

use super::Measured;
use super::drawings::DRAWINGS;
use crate::report::Figure;
use crate::sample::Summary;

fn figure(id: &'static str, metric: &str, value: f64) -> Figure {
    let summary = Summary {
        median: value,
        spread: 2.0,
        n: 9,
    };
    Figure::new(id, metric, "us", summary)
}

#[test]
fn no_figures_draw_nothing() {
    for drawing in DRAWINGS {
        assert!(
            (drawing.chart)(&Measured(Vec::new())).is_none(),
            "{}",
            drawing.name
        );
    }
}

#[test]
fn last_value_and_baseline_are_found() {
    let metric = "delivery_p50_us.hops_2.bytes_100";
    let measured = Measured(vec![
        figure("BM-P3", metric, 1.0),
        figure("BM-P3", metric, 3.0).with_baseline("plain UDP", 7.0),
    ]);
    let point = measured
        .point("BM-P3", metric, 100.0)
        .expect("it was measured");
    assert_eq!((point.x, point.y, point.spread), (100.0, 3.0, 1.0));
    let beside = measured.beside("BM-P3", metric, "plain UDP", 100.0);
    assert_eq!(beside.map(|point| point.y), Some(7.0));
    assert_eq!(
        measured.beside("BM-P3", metric, "plain QUIC stream", 1.0),
        None
    );
    let drawn = DRAWINGS
        .iter()
        .filter(|drawing| (drawing.chart)(&measured).is_some());
    let names: Vec<_> = drawn.map(|drawing| drawing.name).collect();
    assert_eq!(names, ["bm-p3-latency", "bm-p3-adapters"]);
}

#[test]
fn measured_sides_have_curves() {
    let measured = Measured(vec![
        figure("BM-L1", "fps.thalweg.rtt50_bdp5.ms_200", 30.0),
        figure("BM-L1", "fps.pace_k.rtt50_bdp5.ms_200", 29.0),
        figure("BM-L2", "importance_p50_ms.srt.rtt50_bdp5.tenth_9", 145.0),
    ]);
    let drawn: Vec<_> = DRAWINGS
        .iter()
        .filter_map(|drawing| Some((drawing.name, (drawing.chart)(&measured)?.svg())))
        .collect();
    let names: Vec<_> = drawn.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["bm-l1-fps-rtt50-bdp5", "bm-l2-p50"]);
    for name in [">Thalweg<", ">PaceK<"] {
        assert!(drawn[0].1.contains(name), "{name}");
    }
    assert!(!drawn[0].1.contains(">SRT<") && drawn[1].1.contains(">SRT<"));
}
