//! Computes the figures of BM-P3 from its samples.
//!
//! A figure is computed within a round where possible (the cost of a hop, a ratio), because a
//! disturbance hits both sides of a round; its value is the median over the rounds.

use std::iter::once;

use super::batch::Taken;
use super::{Cell, HOPS_MAX, ID, LENGTHS_BYTES, Line, Measured, Side, tables};
use crate::report::{Figure, Report};
use crate::sample::{Summary, line, quantile};

pub(super) const QUIC: &str = "plain QUIC stream";
pub(super) const UDP: &str = "plain UDP";
const NO_ADAPTER: &str = "no adapter";

/// The size at which a hop's cost has no suffix: the nearest to the original's 1 and 2 kB.
const LENGTH_BYTES_TYPICAL: usize = 1_000;
/// The size at which the throughput has no suffix.
const LENGTH_BYTES_BULK: usize = 60_000;

/// Reports everything: all figures for programs; the two headline figures and tables for people.
pub(super) fn report(measured: &Measured, report: &mut Report) -> anyhow::Result<()> {
    for figure in added(measured).into_iter().chain(ratios(measured)) {
        report.add(&figure)?;
    }
    if !report.is_json() {
        tables::print(measured);
        return Ok(());
    }
    for figure in latencies(measured)
        .into_iter()
        .chain(throughputs(measured))
        .chain(losses(measured))
    {
        report.add(&figure)?;
    }
    Ok(())
}

/// Returns the cost of each relay hop: the slope of a round's medians over its hops.
fn added(measured: &Measured) -> Vec<Figure> {
    let sides = [(Side::UntilDeadline, ""), (Side::Full, ".full")];
    let mut figures = Vec::new();
    for (side, suffix) in sides {
        for length_bytes in LENGTHS_BYTES {
            let ours = measured.added_us(side, length_bytes);
            let named = format!("hop_added_p50_us{suffix}.bytes_{length_bytes}");
            let is_typical = length_bytes == LENGTH_BYTES_TYPICAL && side == Side::UntilDeadline;
            let short = is_typical.then(|| "hop_added_p50_us".to_owned());
            for name in short.into_iter().chain(once(named)) {
                let figure = Figure::new(ID, name, "us", ours);
                for (baseline, side) in [(QUIC, Side::Quic), (UDP, Side::Udp)] {
                    let theirs = measured.added_us(side, length_bytes).median;
                    figures.push(figure.clone().with_baseline(baseline, theirs));
                }
            }
        }
    }
    figures
}

/// Returns our goodput over that of plain QUIC in the same rounds.
fn ratios(measured: &Measured) -> Vec<Figure> {
    let mut figures = Vec::new();
    for cell in measured.full.keys().filter(|cell| cell.is_like_quic()) {
        let ratio = Summary::of(measured.ratio_to_quic(*cell));
        let is_bulk = cell.length_bytes == LENGTH_BYTES_BULK && cell.line.hops == 1;
        let short = (is_bulk && cell.line.side == Side::UntilDeadline).then(String::new);
        for name in short.into_iter().chain(once(cell.name())) {
            let figure = Figure::new(ID, format!("throughput_vs_quic{name}"), "ratio", ratio);
            figures.push(figure.with_baseline(QUIC, 1.0));
        }
    }
    figures.sort_by_key(|figure| figure.metric.len() > "throughput_vs_quic".len());
    figures
}

fn latencies(measured: &Measured) -> Vec<Figure> {
    let mut figures = Vec::new();
    for cell in measured.paced.keys().filter(|cell| cell.is_ours()) {
        for (metric, share) in [("delivery_p50_us", 0.5), ("delivery_p99_us", 0.99)] {
            let ours = measured.latency_us(*cell, share);
            let figure = Figure::new(ID, format!("{metric}{}", cell.name()), "us", ours);
            let baselines: Vec<_> = baselines(*cell)
                .into_iter()
                .map(|(name, other)| (name, measured.latency_us(other, share).median))
                .collect();
            figures.extend(each_beside(&figure, &baselines));
        }
    }
    figures
}

fn throughputs(measured: &Measured) -> Vec<Figure> {
    type Of = fn(usize, &Taken) -> f64;
    let metrics: [(&str, &'static str, Of); 3] = [
        ("throughput_mbps", "Mbit/s", goodput_mbps),
        ("throughput_cpu_ns_per_byte", "ns/B", cpu_ns_per_byte),
        ("throughput_cores_busy", "cores", |_, taken| {
            cores_busy(taken)
        }),
    ];
    let mut figures = Vec::new();
    for cell in measured.full.keys().filter(|cell| cell.is_ours()) {
        for (metric, unit, of) in metrics {
            let ours = measured.full_by(*cell, of);
            let figure = Figure::new(
                ID,
                format!("{metric}{}", cell.name()),
                unit,
                Summary::of(ours),
            );
            let baselines: Vec<_> = baselines(*cell)
                .into_iter()
                .map(|(name, other)| (name, Summary::of(measured.full_by(other, of)).median))
                .collect();
            figures.extend(each_beside(&figure, &baselines));
        }
    }
    figures
}

fn losses(measured: &Measured) -> Vec<Figure> {
    let mut figures = Vec::new();
    let loads = [
        ("delivery_loss.paced", &measured.paced),
        ("delivery_loss.full", &measured.full),
    ];
    for (metric, taken) in loads {
        let of = |cell: &Cell| Summary::of(taken[cell].iter().map(lost).collect());
        for cell in taken
            .keys()
            .filter(|cell| cell.line.side == Side::Unreliable)
        {
            let figure = Figure::new(ID, format!("{metric}{}", cell.name()), "share", of(cell));
            figures.push(figure.with_baseline(UDP, of(&cell.of(Side::Udp)).median));
        }
    }
    figures
}

/// Returns the baselines of one of our cells.
pub(super) fn baselines(cell: Cell) -> Vec<(&'static str, Cell)> {
    match cell.line {
        Line { hops: 0, .. } => Vec::new(),
        Line { adapters: 0, .. } => vec![(QUIC, cell.of(Side::Quic)), (UDP, cell.of(Side::Udp))],
        _ => vec![(NO_ADAPTER, cell.of(cell.line.side))],
    }
}

fn each_beside(figure: &Figure, baselines: &[(&'static str, f64)]) -> Vec<Figure> {
    if baselines.is_empty() {
        return vec![figure.clone()];
    }
    let beside = |(name, value): &(&'static str, f64)| figure.clone().with_baseline(name, *value);
    baselines.iter().map(beside).collect()
}

impl Cell {
    /// Returns the cell of another side without adapters, else the same.
    pub(super) fn of(self, side: Side) -> Self {
        let line = Line {
            side,
            adapters: 0,
            ..self.line
        };
        Self { line, ..self }
    }

    fn is_ours(self) -> bool {
        !self.line.side.is_plain()
    }

    /// Returns whether it has a QUIC stream's guarantees, possibly except for the order.
    fn is_like_quic(self) -> bool {
        matches!(self.line.side, Side::UntilDeadline | Side::Full) && self.line.adapters == 0
    }
}

impl Measured {
    /// Returns a quantile of all latencies of a cell; its spread is over the rounds.
    pub(super) fn latency_us(&self, cell: Cell, share: f64) -> Summary {
        let rounds = &self.paced[&cell];
        let all: Vec<f64> = rounds
            .iter()
            .flat_map(|taken| taken.latencies_us.clone())
            .collect();
        let each = rounds
            .iter()
            .map(|taken| quantile(&taken.latencies_us, share));
        Summary {
            median: quantile(&all, share),
            spread: Summary::of(each.collect()).spread,
            n: all.len(),
        }
    }

    pub(super) fn added_us(&self, side: Side, length_bytes: usize) -> Summary {
        let cells: Vec<Cell> = (1..=HOPS_MAX)
            .map(|hops| Cell {
                length_bytes,
                line: Line {
                    hops,
                    adapters: 0,
                    side,
                },
            })
            .collect();
        let slope = |round: usize| {
            let point = |cell: &Cell| {
                let taken = &self.paced[cell][round];
                (cell.line.hops as f64, quantile(&taken.latencies_us, 0.5))
            };
            line(&cells.iter().map(point).collect::<Vec<_>>()).1
        };
        Summary::of((0..self.paced[&cells[0]].len()).map(slope).collect())
    }

    pub(super) fn ratio_to_quic(&self, cell: Cell) -> Vec<f64> {
        let ours = self.full_by(cell, goodput_mbps);
        let quic = self.full_by(cell.of(Side::Quic), goodput_mbps);
        ours.iter()
            .zip(quic)
            .map(|(ours, quic)| ours / quic)
            .collect()
    }

    /// Returns a quantity of each round's full batch, computed from the message length and the results.
    pub(super) fn full_by(&self, cell: Cell, of: fn(usize, &Taken) -> f64) -> Vec<f64> {
        let rounds = self.full[&cell].iter();
        rounds.map(|taken| of(cell.length_bytes, taken)).collect()
    }
}

pub(super) fn goodput_mbps(length_bytes: usize, taken: &Taken) -> f64 {
    received_bytes(length_bytes, taken) * 8.0 / taken.lasted.as_secs_f64() / 1e6
}

pub(super) fn cpu_ns_per_byte(length_bytes: usize, taken: &Taken) -> f64 {
    taken.computed.as_nanos() as f64 / received_bytes(length_bytes, taken)
}

pub(super) fn cores_busy(taken: &Taken) -> f64 {
    taken.computed.as_secs_f64() / taken.lasted.as_secs_f64()
}

fn received_bytes(length_bytes: usize, taken: &Taken) -> f64 {
    taken.received as f64 * length_bytes as f64
}

pub(super) fn lost(taken: &Taken) -> f64 {
    1.0 - taken.received as f64 / taken.sent as f64
}
