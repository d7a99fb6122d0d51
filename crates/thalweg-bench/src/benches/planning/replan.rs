//! PL-SCALE's replanning: the time to replan after one link has changed, over the time to plan from scratch.
//!
//! Networks of 1,000 nodes as in `scale`, with and without a deadline. The changes: a random link gets
//! half or twice its rate; a random link of the best path gets half its rate, fails, or gets twice its
//! rate; and each change is undone. Times are summed over a world's changes, so that each change weighs
//! by its time. The ratio of a mix has the first four equally often, and none undone, because that is the
//! cheapest of all.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{LinkIndex, Snapshot};
use thalweg_planner::planner::{Plan, Planner, Policy, Replanner};

use super::rng::Rng;
use super::scale::{ID, KINDS, world};
use super::timed;
use crate::Settings;
use crate::report::{Figure, Report};
use crate::sample::Summary;

const NODES: usize = 1_000;
/// How often each kind of change is made to a world.
const ROUNDS: usize = 5;

/// Repetitions of each planning, in turns; the fastest counts, because disturbances only slow a run down.
const REPEATS: usize = 3;

/// The kinds of changes of a link.
const CHANGES: [&str; 5] = ["random", "worsens", "fails", "improves", "undone"];
const RANDOM: usize = 0;
const FAILS: usize = 2;
const IMPROVES: usize = 3;
const UNDONE: usize = 4;

/// Microseconds of planning from scratch and of replanning, by kind of change.
#[derive(Clone, Copy, Default)]
struct Times {
    from_scratch: [f64; CHANGES.len()],
    replanned: [f64; CHANGES.len()],
}

impl Times {
    /// Returns the ratio over some kinds of change.
    fn ratio(&self, kinds: std::ops::Range<usize>) -> f64 {
        let sum = |times: &[f64; CHANGES.len()]| times[kinds.clone()].iter().sum::<f64>();
        sum(&self.replanned) / sum(&self.from_scratch)
    }
}

/// Measures every kind of network and of change.
pub(super) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for kind in KINDS {
        for (late, case) in [(false, "free"), (true, "deadline")] {
            let worlds =
                (0..settings.samples.min(12) as u64).map(|seed| of_world(seed, kind, late));
            let times: Vec<Times> = worlds
                .collect::<anyhow::Result<Vec<_>>>()?
                .into_iter()
                .flatten()
                .collect();
            let metric = format!("replan_over_plan.{kind}.{case}");
            report.add(&Figure::new(ID, metric, "x", of(&times, 0..UNDONE)))?;
            all.extend(times);
        }
    }
    for (at, change) in CHANGES.into_iter().enumerate() {
        let metric = format!("replan_over_plan.{change}");
        report.add(&Figure::new(ID, metric, "x", of(&all, at..at + 1)))?;
    }
    report.add(&Figure::new(
        ID,
        "replan_over_plan",
        "x",
        of(&all, 0..UNDONE),
    ))
}

fn of(times: &[Times], kinds: std::ops::Range<usize>) -> Summary {
    let ratios = times.iter().map(|times| times.ratio(kinds.clone()));
    Summary::of(ratios.collect())
}

/// Makes every change to a world; `None` if it has no plan.
fn of_world(seed: u64, kind: &str, late: bool) -> anyhow::Result<Option<Times>> {
    let Some(mut before) = world(seed, kind, NODES, 1)? else {
        return Ok(None);
    };
    let (mut best, _) = timed(&before, Planner::Exact);
    if late && best.feasible {
        let nanos = best.delay.as_nanos() / 10 * 9;
        before.stream.needs.deadline = Duration::from_nanos(nanos);
        best = timed(&before, Planner::Exact).0;
    }
    if !best.feasible {
        return Ok(None);
    }
    let mut rng = Rng::new(!seed);
    let mut replanner = Replanner::new(Policy::default());
    replanner.plan(&before);
    let mut times = Times::default();
    for turn in 0..ROUNDS * UNDONE {
        let change = turn % UNDONE;
        let after = changed(&before, &best, change, &mut rng)?;
        for (change, snapshot) in [(change, &after), (UNDONE, &before)] {
            let [mut from_scratch_us, mut replanned_us] = [f64::INFINITY; 2];
            let knows = replanner;
            replanner = knows.clone();
            for _ in 0..REPEATS {
                let (from_scratch, micros) = timed(snapshot, Planner::Exact);
                from_scratch_us = from_scratch_us.min(micros);
                replanner = knows.clone();
                let start = Instant::now();
                let (replanned, _) = black_box(replanner.plan(snapshot));
                replanned_us = replanned_us.min(start.elapsed().as_nanos() as f64 / 1e3);
                ensure!(
                    replanned == from_scratch,
                    "replanning gave a different plan"
                );
            }
            times.from_scratch[change] += from_scratch_us;
            times.replanned[change] += replanned_us;
        }
    }
    Ok(Some(times))
}

/// Returns the world with one link changed.
fn changed(
    before: &Snapshot,
    best: &Plan,
    change: usize,
    rng: &mut Rng,
) -> anyhow::Result<Snapshot> {
    let mut after = before.clone();
    let LinkIndex(at) = match change {
        RANDOM => LinkIndex(rng.below(before.topology.links().len()) as u32),
        _ => best.links[rng.below(best.links.len())].link,
    };
    let links = after.topology.links_mut();
    let link = links.get_mut(at as usize).context("a link of the path")?;
    let bps = link.rate.as_bps();
    let doubles = change == IMPROVES || change == RANDOM && rng.chance(50);
    match change {
        FAILS => link.up = false,
        _ if doubles => link.rate = Bitrate::from_bps(bps * 2),
        _ => link.rate = Bitrate::from_bps(bps / 2),
    }
    Ok(after)
}
