//! PL-SCALE: the exact planner on graphs of 10 to 10,000 nodes, and trees of 10 and 100 sinks; `memory`
//! and `replan` measure on the same graphs.
//!
//! Graphs are geometric (nodes in a square, linked within the radius that gives eight neighbours) and
//! scale-free (each new node linked with three, in proportion to their links: Barabási and Albert
//! 1999). Links have 150 kbit/s to 20 Mbit/s and 20 ms at most and a bit, a fifth of them insecure;
//! nodes have 1 to 4 slots, one in seven is not trusted. For trees all nodes are trusted and no link is
//! below 1 Mbit/s, so that every sink can be reached. Streams have three layers, are confidential, and
//! cross 12 hops, or as many as there are. A deadline, if any, is 0.9 of the best plan's latency
//! without one.

use std::time::Instant;

use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{
    Edge, Layer, NodeIndex, Snapshot, Stream, Topology, Traffic, Weights,
};
use thalweg_planner::planner::{Planner, Policy, Sink, plan_tree};

use super::rng::Rng;
use super::timed;
use crate::Settings;
use crate::report::{Figure, Report};
use crate::sample::{Summary, line, quantile};

pub(crate) const ID: &str = "PL-SCALE";
pub(crate) const METRICS: &[&str] = &[
    "plan_ms_10",
    "plan_ms_100",
    "plan_ms_1000",
    "plan_ms_10000",
    "plan_p99_ms_10",
    "plan_p99_ms_100",
    "plan_p99_ms_1000",
    "plan_p99_ms_10000",
    "plan_peak_mb_100",
    "plan_peak_mb_1000",
    "plan_peak_mb_10000",
    "growth_exponent",
    "tree_ms",
    "tree_cost_over_apart",
    "replan_over_plan",
    "ilp_ms",
    "ilp_unended",
    "ilp_over_exact_30",
    "ilp_whole_over_exact_30",
    "ilp_relaxation_over_exact_30",
];

/// Numbers of nodes.
const COUNTS: [usize; 4] = [10, 100, 1_000, 10_000];

pub(super) const KINDS: [&str; 2] = ["geometric", "scale_free"];

/// Returns pairs of nodes with their distances, 1 at most.
fn pairs(rng: &mut Rng, kind: &str, count: usize) -> Vec<(usize, usize, f64)> {
    if kind == "geometric" {
        return geometric(rng, count);
    }
    let mut ends = vec![0usize, 1, 0, 2, 1, 2];
    let mut pairs = vec![(0, 1, 0.5), (0, 2, 0.5), (1, 2, 0.5)];
    for node in 3..count {
        let mut near: Vec<usize> = Vec::new();
        while near.len() < 3 {
            let other = rng.pick(&ends);
            if !near.contains(&other) {
                near.push(other);
            }
        }
        for other in near {
            pairs.push((node, other, rng.unit()));
            ends.extend([node, other]);
        }
    }
    pairs
}

fn geometric(rng: &mut Rng, count: usize) -> Vec<(usize, usize, f64)> {
    let radius = (8.0 / (std::f64::consts::PI * count as f64)).sqrt();
    let mut points: Vec<(f64, f64)> = (0..count).map(|_| (rng.unit(), rng.unit())).collect();
    // Sorted by one coordinate, neighbours are within a window.
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut pairs = Vec::new();
    for (at, here) in points.iter().enumerate() {
        let within = points[at + 1..]
            .iter()
            .take_while(|there| there.0 - here.0 < radius);
        for (step, there) in within.enumerate() {
            let apart = (here.0 - there.0).hypot(here.1 - there.1) / radius;
            if apart < 1.0 {
                pairs.push((at, at + 1 + step, apart));
            }
        }
    }
    pairs
}

/// Returns a graph with a stream to this many sinks; `None` if the source reaches too few.
pub(super) fn world(
    seed: u64,
    kind: &str,
    count: usize,
    sinks: usize,
) -> anyhow::Result<Option<Snapshot>> {
    let mut rng = Rng::new(seed);
    let mut topology = Topology::default();
    for at in 0..count {
        let slots = 1 + rng.below(4) as u32;
        // With many sinks each must be reachable, or there is no tree to measure.
        let trusted = rng.chance(86) || sinks > 1;
        topology.add_node(format!("n{at}").parse()?, slots, trusted);
    }
    for (a, b, apart) in pairs(&mut rng, kind, count) {
        let ends = [a, b].map(|end| NodeIndex(end as u32));
        let slowest = if sinks > 1 { 1_000 } else { 150 };
        let kbps = rng.pick(&[slowest, 1_000, 2_000, 5_000, 10_000, 20_000]);
        let mut edge = Edge::new(ends, Bitrate::from_kbps(kbps));
        let micros = apart * 20_000.0 + rng.below(5_000) as f64;
        edge.delay = Duration::from_micros(micros as u64);
        edge.secure = rng.chance(80);
        topology.add_link(edge);
    }
    let from = rng.below(count);
    let hops = hops(&topology, from);
    let far = hops.iter().flatten().copied().max().unwrap_or(0).min(12);
    let mut there: Vec<usize> = (0..count)
        .filter(|node| hops[*node].is_some_and(|hops| hops > 0 && (hops >= far || sinks > 1)))
        .collect();
    let mut to = Vec::new();
    while to.len() < sinks && !there.is_empty() {
        let node = there.swap_remove(rng.below(there.len()));
        to.push(topology.nodes()[node].name.clone());
    }
    if to.len() < sinks {
        return Ok(None);
    }
    let layers = [(400, 0.5), (600, 0.3), (1_000, 0.2)].map(|(kbps, utility)| Layer {
        rate: Bitrate::from_kbps(kbps),
        utility,
    });
    let stream = Stream {
        name: "scale".parse()?,
        from: topology.nodes()[from].name.clone(),
        to,
        layers: layers.to_vec(),
        needs: Needs {
            confidential: true,
            ..Needs::default()
        },
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: None,
        seal_overhead: None,
        traffic: Traffic::default(),
    };
    Ok(Some(Snapshot::new(topology, Weights::default(), stream)))
}

/// Returns each node's distance from one in hops; `None` if unreachable.
fn hops(topology: &Topology, from: usize) -> Vec<Option<u32>> {
    let mut near = vec![Vec::new(); topology.nodes().len()];
    for edge in topology.links() {
        let [a, b] = edge.ends.map(|end| end.0 as usize);
        near[a].push(b);
        near[b].push(a);
    }
    let mut hops = vec![None; near.len()];
    hops[from] = Some(0);
    let mut queue = std::collections::VecDeque::from([(from, 0)]);
    while let Some((node, so_far)) = queue.pop_front() {
        for next in &near[node] {
            if hops[*next].is_none() {
                hops[*next] = Some(so_far + 1);
                queue.push_back((*next, so_far + 1));
            }
        }
    }
    hops
}

/// Measures plans by size, trees, and replanning.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let mut millis = [const { Vec::new() }; COUNTS.len()];
    for kind in KINDS {
        for late in [false, true] {
            let measured = by_size(settings, report, kind, late)?;
            for (all, some) in millis.iter_mut().zip(measured) {
                all.extend(some);
            }
        }
    }
    for (count, millis) in COUNTS.into_iter().zip(millis) {
        let p99 = Summary::exact(quantile(&millis, 0.99));
        let metric = format!("plan_p99_ms_{count}");
        report.add(&Figure::new(ID, metric, "ms", p99))?;
        let metric = format!("plan_ms_{count}");
        report.add(&Figure::new(ID, metric, "ms", Summary::of(millis)))?;
    }
    trees(settings, report)?;
    super::memory::run(settings, report)?;
    super::replan::run(settings, report)?;
    super::ilp::run(settings, report)
}

/// Measures graphs of one kind, and returns the times by size.
fn by_size(
    settings: &Settings,
    report: &mut Report,
    kind: &str,
    late: bool,
) -> anyhow::Result<Vec<Vec<f64>>> {
    let what = if late { "deadline" } else { "free" };
    let (mut points, mut all) = (Vec::new(), Vec::new());
    for count in COUNTS {
        let worlds = settings.samples.min(if count == 10_000 { 12 } else { 60 }) as u64;
        let mut millis = Vec::new();
        for seed in 0..worlds {
            let Some(mut snapshot) = world(seed, kind, count, 1)? else {
                continue;
            };
            let (plan, micros) = timed(&snapshot, Planner::Exact);
            if !plan.feasible {
                continue;
            }
            if !late {
                millis.push(micros / 1e3);
                continue;
            }
            let nanos = plan.delay.as_nanos() / 10 * 9;
            snapshot.stream.needs.deadline = Duration::from_nanos(nanos);
            let (plan, micros) = timed(&snapshot, Planner::Exact);
            if plan.feasible {
                millis.push(micros / 1e3);
            }
        }
        let summary = Summary::of(millis.clone());
        all.push(millis);
        points.push(((count as f64).ln(), summary.median.ln()));
        let metric = format!("plan_ms_{count}.{kind}.{what}");
        report.add(&Figure::new(ID, metric, "ms", summary))?;
    }
    let (_, slope) = line(&points);
    let metric = format!("growth_exponent.{kind}.{what}");
    report.add(&Figure::new(ID, metric, "1", Summary::exact(slope)))?;
    Ok(all)
}

/// Measures trees, and the saving of sharing against separate paths.
fn trees(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let cases = [(100, 10), (1_000, 10), (1_000, 100)];
    for (kind, (nodes, sinks)) in KINDS
        .into_iter()
        .flat_map(|kind| cases.map(|case| (kind, case)))
    {
        let (mut millis, mut ratios) = (Vec::new(), Vec::new());
        for seed in 0..settings.samples.min(5) as u64 {
            let Some(snapshot) = world(seed, kind, nodes, sinks)? else {
                continue;
            };
            let sinks = Sink::all_of(&snapshot.stream);
            let start = Instant::now();
            let (tree, _) = plan_tree(&snapshot, &sinks, &Policy::default());
            if tree.feasible {
                millis.push(start.elapsed().as_secs_f64() * 1e3);
                ratios.push(tree.cost / tree.apart);
            }
        }
        let metric = format!("tree_ms.{kind}.{nodes}_nodes.{sinks}_sinks");
        report.add(&Figure::new(ID, metric, "ms", Summary::of(millis)))?;
        let metric = format!("tree_cost_over_apart.{kind}.{nodes}_nodes.{sinks}_sinks");
        report.add(&Figure::new(ID, metric, "x", Summary::of(ratios)))?;
    }
    Ok(())
}
