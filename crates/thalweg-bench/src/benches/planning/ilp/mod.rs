//! The exact planner against an integer programme: worlds for the oracle, and the speed of both.
//!
//! The programme is another formulation of the same problem (folder `oracle`), solved by `HiGHS`: a
//! network flow over nodes, slots and states, as tight as we know to write it, solved to no gap, with
//! the best settings found. Both sides alternate, world by world, each in a long-lived process, so that
//! neither pays for its start. Three times are reported, so that the Python model does not count
//! against the programme: solving alone, solving with building the model, and the relaxation alone, a
//! lower bound for any branch and bound on this model.
//!
//! Correctness is checked by `cargo xtask oracle`, with the worlds that [`workload`] prints. Without
//! the oracle's Python environment nothing is measured here, and the message says how to install it.

mod solver;
#[cfg(test)]
mod tests;
mod worlds;

use std::io::Write as _;

use anyhow::{Context as _, ensure};
use thalweg_base::time::Duration;
use thalweg_planner::model::Snapshot;
use thalweg_planner::planner::report::Report as PlanReport;
use thalweg_planner::planner::{Plan, Planner, Policy, plan};
use thalweg_world::{Format, load_str};

use super::timed;
use crate::Settings;
use crate::progress;
use crate::report::{Figure, Report};
use crate::sample::Summary;
use solver::{Solved, Solver};

/// Numbers of nodes, and the maximum number of worlds of each size.
const SIZES: [(usize, u64); 5] = [(10, 40), (20, 40), (30, 40), (50, 20), (100, 10)];

/// The size for which the ratios are reported.
const RATIO_NODES: usize = 30;

/// Time limit of the programme, s.
const SECONDS_MAX: u32 = 60;

/// Repetitions of the exact planner per sample: a single run is too short to be timed.
const REPEATS: usize = 5;

/// Returns a world as text, and the snapshot read from that text, so that both sides have the same numbers.
fn world(seed: u64, nodes: Option<usize>) -> anyhow::Result<(String, Snapshot)> {
    let text = serde_json::to_string(&worlds::world(seed, nodes)?)?;
    let world = load_str(&text, Format::Json, &format!("world {seed}"))?;
    let stream = world
        .streams
        .first()
        .context("a generated world has a stream")?;
    let snapshot = world.snapshot(&stream.name).context("it is its own")?;
    Ok((text, snapshot))
}

/// Prints worlds of every `step`-th of these seeds, each with the exact planner's report, one object
/// per line.
pub(crate) fn workload(first: u64, count: u64, step: u64) -> anyhow::Result<()> {
    ensure!(step > 0, "a step of 0 goes nowhere");
    let mut out = std::io::stdout().lock();
    for seed in (first..first.saturating_add(count)).step_by(usize::try_from(step)?) {
        let (text, snapshot) = world(seed, None)?;
        let start = std::time::Instant::now();
        let (plan, shortfalls) = plan(&snapshot, &Policy::default());
        let elapsed: Duration = start.elapsed().into();
        let report = serde_json::to_string(&PlanReport::new(&plan, &shortfalls, elapsed))?;
        writeln!(out, r#"{{"seed":{seed},"world":{text},"report":{report}}}"#)?;
    }
    Ok(())
}

/// The times of one world, in milliseconds.
struct Pair {
    exact: f64,
    solved: Solved,
}

/// Measures both sides by size, and their ratios.
pub(super) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let mut solver = match Solver::start(SECONDS_MAX) {
        Ok(solver) => solver,
        Err(missing) => {
            progress::clear();
            eprintln!("thalweg-bench: the integer program is not measured: {missing:#}");
            return Ok(());
        }
    };
    for (nodes, worlds) in SIZES {
        let worlds = if settings.is_quick { 3 } else { worlds };
        let pairs = pairs(&mut solver, nodes, worlds)?;
        by_size(report, nodes, &pairs)?;
        if nodes == RATIO_NODES {
            ratios(report, &pairs)?;
        }
    }
    Ok(())
}

/// Solves worlds that have a plan with both sides, in alternating order.
fn pairs(solver: &mut Solver, nodes: usize, worlds: u64) -> anyhow::Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    for seed in 0.. {
        if pairs.len() as u64 == worlds {
            break;
        }
        let (text, snapshot) = world(seed, Some(nodes))?;
        // Without a plan the exact planner searches for relaxations, which the programme does not.
        let (plan, _) = plan(&snapshot, &Policy::default());
        if !plan.feasible {
            continue;
        }
        progress::show(format_args!("{nodes} nodes, world {seed}"));
        let (exact, solved) = if seed % 2 == 0 {
            let exact = exact_millis(&snapshot);
            (exact, solver.solve(&text)?)
        } else {
            let solved = solver.solve(&text)?;
            (exact_millis(&snapshot), solved)
        };
        check(&plan, &solved).with_context(|| format!("world {seed} of {nodes} nodes"))?;
        pairs.push(Pair { exact, solved });
    }
    Ok(pairs)
}

fn exact_millis(snapshot: &Snapshot) -> f64 {
    let micros = (0..REPEATS).map(|_| timed(snapshot, Planner::Exact).1);
    Summary::of(micros.collect()).median / 1e3
}

/// Checks that both sides agree: times of different answers are incomparable.
fn check(plan: &Plan, solved: &Solved) -> anyhow::Result<()> {
    if let Some(cost) = solved.cost {
        let apart = (cost - plan.cost).abs();
        ensure!(
            apart <= 1e-6,
            "the plan costs {}, the integer program's {cost}",
            plan.cost
        );
    }
    ensure!(
        solved.cost.is_some() || !solved.ended,
        "the integer program finds no plan"
    );
    Ok(())
}

fn by_size(report: &mut Report, nodes: usize, pairs: &[Pair]) -> anyhow::Result<()> {
    let ended = || pairs.iter().filter(|pair| pair.solved.ended);
    let exact = Summary::of(ended().map(|pair| pair.exact).collect()).median;
    let mut add = |part: &str, millis: &dyn Fn(&Solved) -> f64| {
        let summary = Summary::of(ended().map(|pair| millis(&pair.solved)).collect());
        let metric = format!("ilp_ms.{nodes}_nodes.{part}");
        report.add(
            &Figure::new(super::scale::ID, metric, "ms", summary).with_baseline("exact", exact),
        )
    };
    add("solve", &|solved| solved.ilp_ms)?;
    add("whole", &|solved| solved.build_ms + solved.ilp_ms)?;
    add("relaxation", &|solved| solved.relaxation_ms)?;
    let unended = (pairs.len() - ended().count()) as f64;
    let metric = format!("ilp_unended.{nodes}_nodes");
    let unit = "of its worlds";
    report.add(&Figure::new(
        super::scale::ID,
        metric,
        unit,
        Summary::exact(unended),
    ))
}

/// Reports ratios world by world; a programme that was stopped counts with its time limit.
fn ratios(report: &mut Report, pairs: &[Pair]) -> anyhow::Result<()> {
    let mut add = |metric: &'static str, millis: &dyn Fn(&Solved) -> f64| {
        let ratio = |pair: &Pair| millis(&pair.solved) / pair.exact;
        let ratios = Summary::of(pairs.iter().map(ratio).collect());
        report.add(&Figure::new(super::scale::ID, metric, "x", ratios))
    };
    add("ilp_over_exact_30", &|solved| solved.ilp_ms)?;
    add("ilp_whole_over_exact_30", &|solved| {
        solved.build_ms + solved.ilp_ms
    })?;
    add("ilp_relaxation_over_exact_30", &|solved| {
        solved.relaxation_ms
    })
}
