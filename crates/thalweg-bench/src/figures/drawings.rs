//! The figures that can be drawn.

use super::plots::{SPREADS, bars, cases, lines, series};
use super::{Drawing, Measured, live, planning};
use thalweg_chart::{Chart, Plot, Point, Scale, Series};

pub(super) const DRAWINGS: &[Drawing] = &[
    Drawing {
        name: "bm-d1-lift",
        chart: lift,
    },
    Drawing {
        name: "bm-d2-modules",
        chart: modules,
    },
    Drawing {
        name: "bm-d2-model",
        chart: model,
    },
    Drawing {
        name: "bm-p3-latency",
        chart: latency,
    },
    Drawing {
        name: "bm-p3-adapters",
        chart: adapters,
    },
    Drawing {
        name: "bm-p4-loss",
        chart: loss,
    },
    Drawing {
        name: "bm-p4-throughput",
        chart: throughput,
    },
    Drawing {
        name: "bm-p1-ratio",
        chart: planning::ratio,
    },
    Drawing {
        name: "bm-p1-heuristic",
        chart: planning::heuristic,
    },
    Drawing {
        name: "bm-p1-exact",
        chart: planning::exact,
    },
    Drawing {
        name: "bm-p2-time",
        chart: planning::local_time,
    },
    Drawing {
        name: "bm-p2-cost",
        chart: planning::local_cost,
    },
    Drawing {
        name: "bm-l1-fps-rtt50-bdp1",
        chart: live::fps::<0>,
    },
    Drawing {
        name: "bm-l1-fps-rtt50-bdp5",
        chart: live::fps::<1>,
    },
    Drawing {
        name: "bm-l1-fps-rtt100-bdp1",
        chart: live::fps::<2>,
    },
    Drawing {
        name: "bm-l1-fps-rtt100-bdp5",
        chart: live::fps::<3>,
    },
    Drawing {
        name: "bm-l1-psnr",
        chart: live::psnr,
    },
    Drawing {
        name: "bm-l2-p50",
        chart: live::p50,
    },
    Drawing {
        name: "bm-l2-p999",
        chart: live::p999,
    },
];

const QUIC: &str = "plain QUIC stream";
const UDP: &str = "plain UDP";
const LENGTHS_BYTES: [u32; 4] = [100, 1_000, 10_000, 60_000];

/// Returns a series over the sizes of ADUs.
fn by_length(name: &str, of: impl Fn(u32) -> Option<Point>) -> Option<Series> {
    series(name, LENGTHS_BYTES.into_iter().map(of))
}

fn by_size(title: &str, y_label: &str, y_scale: Scale, id: &str, plot: Plot) -> Chart {
    Chart {
        title: title.to_owned(),
        x_label: "payload of an ADU (bytes)".to_owned(),
        y_label: y_label.to_owned(),
        y_scale,
        plot,
        source: vec![format!("thalweg-bench {id}; {SPREADS}")],
    }
}

/// As Table 1: the cost of an ADU by the number of modules.
fn lift(measured: &Measured) -> Option<Chart> {
    const ID: &str = "BM-D1";
    let metric = |modules: u32| format!("lift_ns_per_adu.modules_{modules}");
    let counts = 0..=10u32;
    let ours = counts
        .clone()
        .map(|n| measured.point(ID, &metric(n), n.into()));
    let beside = |name: &'static str| {
        counts
            .clone()
            .map(move |n| measured.beside(ID, &metric(n), name, n.into()))
    };
    let plot = lines(
        Scale::Even,
        [
            series("Thalweg's lift", ours),
            series("malloc and boxed calls", beside("malloc and boxed calls")),
            series(
                "Da CaPo++ 1999, as published",
                beside("Da CaPo++ 1999 published"),
            ),
        ],
    )?;
    Some(Chart {
        title: "Cost of an ADU in the lift, by modules that do nothing".to_owned(),
        x_label: "null modules".to_owned(),
        y_label: "time (ns)".to_owned(),
        y_scale: Scale::Tenfold,
        plot,
        source: vec![format!(
            "thalweg-bench {ID}; {SPREADS}; 1999: an Ultra 170E"
        )],
    })
}

/// Returns bars of a metric's cases beside their baselines.
fn compared(
    measured: &Measured,
    metric: &str,
    names: [&str; 2],
    baseline: &str,
) -> Option<(Plot, Vec<String>)> {
    const ID: &str = "BM-D2";
    let cases = cases(measured, metric);
    let metrics = cases
        .iter()
        .map(|case| format!("{metric}.{case}"))
        .enumerate();
    let ours = metrics
        .clone()
        .map(|(x, metric)| measured.point(ID, &metric, x as f64));
    let beside = metrics.map(|(x, metric)| measured.beside(ID, &metric, baseline, x as f64));
    let pair = [series(names[0], ours), series(names[1], beside)];
    Some((bars(cases.clone(), pair)?, cases))
}

/// As Tables 5 to 9: the cost of a module at 1,000 bytes.
fn modules(measured: &Measured) -> Option<Chart> {
    let names = ["module in a lift", "empty lift"];
    let (plot, _) = compared(measured, "module_ns_per_adu", names, "empty lift, same run")?;
    Some(Chart {
        title: "Cost of each module at 1,000 bytes".to_owned(),
        x_label: "module".to_owned(),
        y_label: "time of an ADU (ns)".to_owned(),
        y_scale: Scale::Tenfold,
        plot,
        source: vec![format!("thalweg-bench BM-D2; {SPREADS}")],
    })
}

/// The cost model beside the measured chains.
fn model(measured: &Measured) -> Option<Chart> {
    let names = ["predicted by the model", "measured"];
    let (plot, _) = compared(
        measured,
        "model_chain_ns_per_adu",
        names,
        "measured, same run",
    )?;
    Some(Chart {
        title: "Chains of modules at 1,000 bytes: predicted and measured".to_owned(),
        x_label: "chain".to_owned(),
        y_label: "time of an ADU (ns)".to_owned(),
        y_scale: Scale::Even,
        plot,
        source: vec![format!("thalweg-bench BM-D2; {SPREADS}")],
    })
}

/// As figure 6.7: latency by size, without nodes, with nodes, with null adapters.
fn latency(measured: &Measured) -> Option<Chart> {
    const ID: &str = "BM-P3";
    let metric = |case: &str, bytes: u32| format!("delivery_p50_us.{case}.bytes_{bytes}");
    let ours = |name: &str, case: &'static str| {
        by_length(name, |bytes| {
            measured.point(ID, &metric(case, bytes), bytes.into())
        })
    };
    let plain = |name: &str, baseline: &'static str| {
        by_length(name, |bytes| {
            measured.beside(ID, &metric("hops_2", bytes), baseline, bytes.into())
        })
    };
    let plot = lines(
        Scale::Tenfold,
        [
            plain("plain UDP, 2 hops", UDP),
            plain("plain QUIC stream, 2 hops", QUIC),
            ours("Thalweg, 1 hop", "hops_1"),
            ours("Thalweg, 2 hops", "hops_2"),
            ours("Thalweg, 3 hops", "hops_3"),
            ours("2 hops, 5 null adapters", "hops_2.adapters_5"),
        ],
    )?;
    let label = "median latency (us)";
    Some(by_size(
        "Delivery latency by size",
        label,
        Scale::Tenfold,
        ID,
        plot,
    ))
}

/// As figure 6.8: latency by the number of null adapters on one node.
fn adapters(measured: &Measured) -> Option<Chart> {
    const ID: &str = "BM-P3";
    let of = |bytes: u32| {
        let points = (0..=5u32).map(|adapters| {
            let case = match adapters {
                0 => String::new(),
                some => format!(".adapters_{some}"),
            };
            let metric = format!("delivery_p50_us.hops_2{case}.bytes_{bytes}");
            measured.point(ID, &metric, adapters.into())
        });
        series(format!("{bytes} bytes"), points)
    };
    Some(Chart {
        title: "Delivery latency over 2 hops, by null adapters on the relay".to_owned(),
        x_label: "null adapters".to_owned(),
        y_label: "median latency (us)".to_owned(),
        y_scale: Scale::Even,
        plot: lines(Scale::Even, LENGTHS_BYTES.map(of))?,
        source: vec![format!("thalweg-bench {ID}; {SPREADS}")],
    })
}

/// As figure 6.9: loss by size over four nodes.
fn loss(measured: &Measured) -> Option<Chart> {
    const ID: &str = "BM-P4";
    let metric = |case: &str, bytes: u32| format!("loss_share.{case}.bytes_{bytes}");
    let percent = |point: Point| Point {
        y: 100.0 * point.y,
        spread: 100.0 * point.spread,
        ..point
    };
    let ours = |name: &str, case: &'static str| {
        by_length(name, |bytes| {
            measured
                .point(ID, &metric(case, bytes), bytes.into())
                .map(percent)
        })
    };
    let beside = |name: &str, baseline: &'static str| {
        by_length(name, |bytes| {
            let metric = metric("until_deadline.paced", bytes);
            measured
                .beside(ID, &metric, baseline, bytes.into())
                .map(percent)
        })
    };
    let plot = lines(
        Scale::Tenfold,
        [
            ours("until-deadline, paced", "until_deadline.paced"),
            ours("full reliability, paced", "full.paced"),
            ours("until-deadline, full speed", "until_deadline.full_speed"),
            ours("full reliability, full speed", "full.full_speed"),
            beside("plain UDP, paced", UDP),
            beside("Panda 2001, at most", "Panda 2001 published, at most"),
        ],
    )?;
    let title = "Loss by size over four nodes";
    Some(by_size(title, "lost ADUs (%)", Scale::Even, ID, plot))
}

/// As figure 6.10: throughput by size over four nodes.
fn throughput(measured: &Measured) -> Option<Chart> {
    const ID: &str = "BM-P4";
    let metric =
        |case: &str, bytes: u32| format!("throughput_mbps.{case}.full_speed.bytes_{bytes}");
    let ours = |name: &str, case: &'static str| {
        by_length(name, |bytes| {
            measured.point(ID, &metric(case, bytes), bytes.into())
        })
    };
    let beside = |name: &str, baseline: &'static str| {
        by_length(name, |bytes| {
            let metric = metric("until_deadline", bytes);
            measured.beside(ID, &metric, baseline, bytes.into())
        })
    };
    let plot = lines(
        Scale::Tenfold,
        [
            ours("until-deadline", "until_deadline"),
            ours("full reliability", "full"),
            beside("plain QUIC stream", QUIC),
            beside("plain UDP", UDP),
        ],
    )?;
    let title = "Throughput by size over four nodes";
    Some(by_size(title, "goodput (Mbit/s)", Scale::Tenfold, ID, plot))
}
