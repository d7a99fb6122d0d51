//! BM-P1 and BM-P2: Panda's planner experiments on 1,000 random chains.
//!
//! A chain has 2 to 6 nodes with 0 to 8 slots each, uniformly; a link has 10 Mbit/s, 2 Mbit/s or 100
//! kbit/s and is secure or not, uniformly. The stream has a base of 160 kbit/s and a second layer of
//! 2.84 Mbit/s, packs to half and is confidential: so a link of 10 Mbit/s requires nothing, one of 2
//! Mbit/s packing, one of 100 kbit/s the filter and packing, an insecure one sealing, as in the thesis.
//! Adapters are counted before any optimisation, pairs as two.

use anyhow::ensure;
use thalweg_base::needs::Needs;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Edge, Layer, NodeName, Snapshot, Stream, Topology, Traffic, Weights};
use thalweg_planner::planner::Planner;

use super::rng::Rng;
use super::timed;
use crate::Settings;
use crate::report::{Figure, Report, short, table};
use crate::sample::Summary;

pub(crate) const ID: &str = "BM-P1";
pub(crate) const METRICS: &[&str] = &[
    "exact_missed",
    "heuristic_missed",
    "infeasible",
    "exact_us_p50_6_nodes",
    "exhaustive_over_exact",
    "heuristic_over_exact",
    "heuristic_us",
    "exhaustive_over_heuristic",
];
pub(crate) const ID_LOCAL: &str = "BM-P2";
pub(crate) const METRICS_LOCAL: &[&str] = &[
    "incremental_us_p50",
    "cost_incremental_over_exact",
    "incremental_us",
    "cost_over_exact",
];

/// Number of scenarios, as in the thesis.
const SCENARIOS: u64 = 1_000;

/// The planners' results on one chain, in the order of [`Planner::ALL`].
struct Scenario {
    nodes: usize,
    /// Adapters before any optimisation.
    adapters: usize,
    /// Cost, if the plan is feasible.
    costs: [Option<f64>; 4],
    micros: [f64; 4],
}

const EXACT: usize = 0;
const HEURISTIC: usize = 1;
const EXHAUSTIVE: usize = 2;
const INCREMENTAL: usize = 3;

fn name(at: usize) -> anyhow::Result<NodeName> {
    Ok(format!("n{at}").parse()?)
}

/// Returns a random chain and the number of adapters that its links require one by one.
fn chain(seed: u64) -> anyhow::Result<(Snapshot, usize)> {
    let mut rng = Rng::new(seed);
    let count = 2 + rng.below(5);
    let mut topology = Topology::default();
    let mut adapters = 0;
    for at in 0..count {
        topology.add_node(name(at)?, rng.below(9) as u32, true);
    }
    for at in 1..count {
        let ends = [at - 1, at].map(|end| thalweg_planner::model::NodeIndex(end as u32));
        let kbps = rng.pick(&[10_000, 2_000, 100]);
        let mut edge = Edge::new(ends, Bitrate::from_kbps(kbps));
        edge.secure = rng.chance(50);
        adapters += match kbps {
            10_000 => 0,
            2_000 => 2,
            _ => 3,
        };
        adapters += if edge.secure { 0 } else { 2 };
        topology.add_link(edge);
    }
    let layer = |kbps, utility| Layer {
        rate: Bitrate::from_kbps(kbps),
        utility,
    };
    let stream = Stream {
        name: "panda".parse()?,
        from: name(0)?,
        to: vec![name(count - 1)?],
        layers: vec![layer(160, 0.6), layer(2_840, 0.4)],
        needs: Needs {
            confidential: true,
            ..Needs::default()
        },
        importance: Stream::IMPORTANCE_DEFAULT,
        pack_ratio: Some(0.5),
        seal_overhead: None,
        traffic: Traffic::default(),
    };
    let snapshot = Snapshot::new(topology, Weights::default(), stream);
    Ok((snapshot, adapters))
}

/// Plans every scenario with every planner, the planners in turns, each several times; the median time
/// counts.
fn scenarios(settings: &Settings) -> anyhow::Result<Vec<Scenario>> {
    let rounds = settings.samples.clamp(3, 15);
    let mut scenarios = Vec::new();
    for seed in 0..SCENARIOS {
        let (snapshot, adapters) = chain(seed)?;
        let mut costs = [None; 4];
        let mut samples = [const { Vec::new() }; 4];
        for round in 0..rounds {
            for turn in 0..Planner::ALL.len() {
                let at = (turn + round) % Planner::ALL.len();
                let (plan, micros) = timed(&snapshot, Planner::ALL[at]);
                costs[at] = plan.feasible.then_some(plan.cost);
                samples[at].push(micros);
            }
        }
        scenarios.push(Scenario {
            nodes: snapshot.topology.nodes().len(),
            adapters,
            costs,
            micros: samples.map(|samples| Summary::of(samples).median),
        });
    }
    Ok(scenarios)
}

/// Returns how often a planner found no plan or a more expensive one than `against`.
fn missed(scenarios: &[Scenario], planner: usize, against: usize) -> f64 {
    let missed = scenarios.iter().filter(|scenario| {
        let found = scenario.costs[planner].unwrap_or(f64::INFINITY);
        scenario.costs[against].is_some_and(|best| found > best + 1e-9)
    });
    missed.count() as f64
}

fn micros(scenarios: &[Scenario], planner: usize, of: impl Fn(&Scenario) -> bool) -> Summary {
    let chosen = scenarios.iter().filter(|scenario| of(scenario));
    Summary::of(chosen.map(|scenario| scenario.micros[planner]).collect())
}

/// BM-P1: misses, feasibility and times of the exact and the heuristic planner against the exhaustive
/// baseline.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let scenarios = scenarios(settings)?;
    let exact_missed = missed(&scenarios, EXACT, EXHAUSTIVE);
    ensure!(exact_missed == 0.0, "exact missed {exact_missed} plans");
    let count = |value| Summary::exact(value);
    report.add(&Figure::new(
        ID,
        "exact_missed",
        "of 1,000",
        count(exact_missed),
    ))?;
    let heuristic = missed(&scenarios, HEURISTIC, EXHAUSTIVE);
    report.add(&Figure::new(
        ID,
        "heuristic_missed",
        "of 1,000",
        count(heuristic),
    ))?;
    let none = |planner: usize| {
        let none = scenarios
            .iter()
            .filter(|scenario| scenario.costs[planner].is_none());
        none.count() as f64
    };
    for (at, planner) in Planner::ALL.into_iter().enumerate() {
        let metric = format!("infeasible.{planner}");
        let figure = Figure::new(ID, metric, "of 1,000", count(none(at)));
        report.add(&figure.with_baseline("exhaustive", none(EXHAUSTIVE)))?;
    }
    let six = |scenario: &Scenario| scenario.nodes == 6;
    let exact = micros(&scenarios, EXACT, six);
    report.add(&Figure::new(ID, "exact_us_p50_6_nodes", "us", exact))?;
    for (metric, planner) in [
        ("exhaustive_over_exact", EXHAUSTIVE),
        ("heuristic_over_exact", HEURISTIC),
    ] {
        let chosen = scenarios.iter().filter(|scenario| six(scenario));
        let ratios = chosen.map(|scenario| scenario.micros[planner] / scenario.micros[EXACT]);
        let ratios = Summary::of(ratios.collect());
        report.add(&Figure::new(ID, metric, "x", ratios))?;
    }
    by_class(&scenarios, report)
}

/// Figures 6.1 to 6.3: times by nodes and by adapters before any optimisation.
fn by_class(scenarios: &[Scenario], report: &mut Report) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for nodes in 2..=6 {
        for adapters in 0..=25 {
            let of = |scenario: &Scenario| scenario.nodes == nodes && scenario.adapters == adapters;
            let heuristic = micros(scenarios, HEURISTIC, of);
            if heuristic.n < 5 {
                continue;
            }
            let exhaustive = micros(scenarios, EXHAUSTIVE, of);
            let exact = micros(scenarios, EXACT, of);
            let metric = format!("heuristic_us.nodes{nodes}.adapters{adapters}");
            let figure = Figure::new(ID, metric, "us", heuristic);
            report.add(&figure.with_baseline("exact", exact.median))?;
            let ratio = Summary::exact(exhaustive.median / heuristic.median);
            let metric = format!("exhaustive_over_heuristic.nodes{nodes}.adapters{adapters}");
            report.add(&Figure::new(ID, metric, "x", ratio))?;
            let cells = [exact.median, heuristic.median, exhaustive.median].map(short);
            let mut row = vec![format!("{nodes} nodes, {adapters} adapters")];
            row.extend(cells);
            rows.push(row);
        }
    }
    if !report.is_json() {
        let header = ["class", "exact us", "heuristic us", "exhaustive us"];
        table("Time by class (figures 6.1 to 6.3)", &header, &rows);
    }
    Ok(())
}

/// BM-P2: the local planner against the central one, time and cost (figures 6.4 and 6.5).
pub(crate) fn run_local(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let scenarios = scenarios(settings)?;
    let all = |_: &Scenario| true;
    let exact = micros(&scenarios, EXACT, all).median;
    let figure = Figure::new(
        ID_LOCAL,
        "incremental_us_p50",
        "us",
        micros(&scenarios, INCREMENTAL, all),
    );
    report.add(&figure.with_baseline("exact", exact))?;
    let ratios = |planner: usize, of: &dyn Fn(&Scenario) -> bool| {
        let chosen = scenarios.iter().filter(|scenario| of(scenario));
        let ratio = |scenario: &Scenario| Some(scenario.costs[planner]? / scenario.costs[EXACT]?);
        Summary::of(chosen.filter_map(ratio).collect())
    };
    let figure = Figure::new(
        ID_LOCAL,
        "cost_incremental_over_exact",
        "x",
        ratios(INCREMENTAL, &all),
    );
    report.add(&figure)?;
    for nodes in 2..=6 {
        let of = |scenario: &Scenario| scenario.nodes == nodes;
        let exact = micros(&scenarios, EXACT, of).median;
        let metric = format!("incremental_us.nodes{nodes}");
        let figure = Figure::new(ID_LOCAL, metric, "us", micros(&scenarios, INCREMENTAL, of));
        report.add(&figure.with_baseline("exact", exact))?;
        for (planner, word) in [(INCREMENTAL, "incremental"), (HEURISTIC, "heuristic")] {
            let metric = format!("cost_over_exact.{word}.nodes{nodes}");
            report.add(&Figure::new(ID_LOCAL, metric, "x", ratios(planner, &of)))?;
        }
    }
    Ok(())
}
