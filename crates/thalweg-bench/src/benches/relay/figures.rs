//! Computes the figures of RC from its rounds.
//!
//! A relay's cost is computed within a round, because a disturbance hits both of its lines; the value
//! is the median over the rounds.

use std::collections::BTreeMap;

use super::load::Taken;
use super::side::Side;
use super::{ID, LENGTHS_BYTES};
use crate::peers::line::Way;
use crate::report::{Figure, Report, short, table};
use crate::sample::{Summary, quantile};

/// The metrics' names, without the size.
pub(super) const METRICS: &[&str] = &[
    "relay_added_p50_us",
    "relay_added_p99_us",
    "relay_cpu_us_per_mbit",
    "relay_loss",
    "relay_direct_p50_us",
    "relay_through_p50_us",
    "relay_through_p99_us",
];

/// The number of headline metrics; the others are their inputs, for programs and in the table.
const ANSWERS: usize = 3;

/// The results of one batch over one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    p50_us: f64,
    p99_us: f64,
    lost: f64,
    /// Of the relay; zero without one.
    cpu_us_per_mbit: f64,
}

type Cell = (&'static str, usize, Way);

/// Every batch of every line.
#[derive(Debug, Default)]
pub(super) struct Measured(BTreeMap<Cell, Vec<Round>>);

impl Round {
    pub(super) fn of(length_bytes: usize, taken: &Taken) -> Self {
        let arrived = taken.latencies_us.len() as f64;
        let mbit = arrived * length_bytes as f64 * 8.0 / 1e6;
        let cpu = taken.relay_cpu.map(|cpu| cpu.as_secs_f64() * 1e6 / mbit);
        Self {
            p50_us: quantile(&taken.latencies_us, 0.5),
            p99_us: quantile(&taken.latencies_us, 0.99),
            lost: 1.0 - arrived / f64::from(taken.due),
            cpu_us_per_mbit: cpu.unwrap_or(f64::NAN),
        }
    }
}

impl Measured {
    /// Adds a side's results of a round.
    pub(super) fn add(&mut self, side: &'static str, rounds: Vec<(usize, Way, Round)>) {
        for (length_bytes, way, round) in rounds {
            self.0
                .entry((side, length_bytes, way))
                .or_default()
                .push(round);
        }
    }

    /// Returns a metric of a side, by its index in [`METRICS`].
    fn metric(&self, side: &'static str, length_bytes: usize, metric: usize) -> Summary {
        let rounds = |way| {
            self.0
                .get(&(side, length_bytes, way))
                .map_or(&[][..], |r| r)
        };
        let (direct, through) = (rounds(Way::Direct), rounds(Way::Through));
        let added = |of: fn(&Round) -> f64| {
            let pairs = through.iter().zip(direct);
            pairs
                .map(|(through, direct)| of(through) - of(direct))
                .collect()
        };
        let each = |rounds: &[Round], of: fn(&Round) -> f64| rounds.iter().map(of).collect();
        Summary::of(match METRICS[metric] {
            "relay_added_p50_us" => added(|round| round.p50_us),
            "relay_added_p99_us" => added(|round| round.p99_us),
            "relay_cpu_us_per_mbit" => each(through, |round| round.cpu_us_per_mbit),
            "relay_loss" => each(through, |round| round.lost),
            "relay_direct_p50_us" => each(direct, |round| round.p50_us),
            "relay_through_p50_us" => each(through, |round| round.p50_us),
            "relay_through_p99_us" => each(through, |round| round.p99_us),
            other => unreachable!("{other} is not a metric"),
        })
    }
}

/// Reports everything, ours beside each peer: for people the headline metrics, and a table of all relays.
pub(super) fn report(
    measured: &Measured,
    sides: &[Side],
    report: &mut Report,
) -> anyhow::Result<()> {
    let Some((ours, peers)) = sides.split_first() else {
        return Ok(());
    };
    let shown = if report.is_json() {
        METRICS.len()
    } else {
        ANSWERS
    };
    for length_bytes in LENGTHS_BYTES {
        for (metric, name) in METRICS.iter().enumerate().take(shown) {
            let of = |side: &Side| measured.metric(side.named.name, length_bytes, metric);
            let name = format!("{name}.bytes_{length_bytes}");
            let figure = Figure::new(ID, name, unit(METRICS[metric]), of(ours));
            if peers.is_empty() {
                report.add(&figure)?;
            }
            for peer in peers {
                report.add(
                    &figure
                        .clone()
                        .with_baseline(peer.named.name, of(peer).median),
                )?;
            }
        }
    }
    if !report.is_json() {
        for length_bytes in LENGTHS_BYTES {
            print(measured, sides, length_bytes);
        }
        let of = |side: &Side| {
            let named = &side.named;
            format!("  {} {}: {}\n", named.name, named.version, named.carries)
        };
        let carried: String = sides.iter().map(of).collect();
        crate::report::print(&format!("\n{carried}"));
    }
    Ok(())
}

fn unit(metric: &str) -> &'static str {
    match metric {
        "relay_cpu_us_per_mbit" => "us/Mbit",
        "relay_loss" => "share",
        _ => "us",
    }
}

fn print(measured: &Measured, sides: &[Side], length_bytes: usize) {
    let row = |side: &Side| {
        let metric = |at| {
            let Summary { median, spread, .. } = measured.metric(side.named.name, length_bytes, at);
            format!("{} ± {}", short(median), short(spread))
        };
        let name = side.named.name.to_owned();
        std::iter::once(name)
            .chain((0..METRICS.len()).map(metric))
            .collect()
    };
    let rows: Vec<Vec<String>> = sides.iter().map(row).collect();
    let header = [
        "relay",
        "added p50 µs",
        "added p99 µs",
        "µs CPU/Mbit",
        "lost",
        "direct p50 µs",
        "through p50 µs",
        "through p99 µs",
    ];
    table(&format!("{length_bytes} bytes"), &header, &rows);
}

#[cfg(test)]
mod tests {
    //! Checks the arithmetic of a round and of a relay's cost by hand.

    use std::time::Duration;

    use super::super::load::Taken;
    use super::{METRICS, Measured, Round};
    use crate::peers::line::Way;

    fn round(latency_us: f64) -> Round {
        let taken = Taken {
            latencies_us: vec![latency_us; 3],
            due: 4,
            relay_cpu: Some(Duration::from_micros(48)),
        };
        Round::of(1_000, &taken)
    }

    #[test]
    fn cpu_time_is_per_arrived_megabit() {
        let round = round(7.0);
        assert_eq!((round.p50_us, round.p99_us, round.lost), (7.0, 7.0, 0.25));
        assert!((round.cpu_us_per_mbit - 2_000.0).abs() < 1e-6);
    }

    #[test]
    fn relay_cost_is_difference_in_round() {
        let mut measured = Measured::default();
        for (direct, through) in [(10.0, 15.0), (100.0, 104.0), (20.0, 26.0)] {
            let rounds = [(Way::Direct, direct), (Way::Through, through)];
            let rounds = rounds.map(|(way, latency)| (1_000, way, round(latency)));
            measured.add("a", rounds.to_vec());
        }
        let of = |metric| measured.metric("a", 1_000, metric);
        assert_eq!((of(0).median, of(0).n), (5.0, 3));
        for metric in 0..METRICS.len() {
            assert!(of(metric).median.is_finite());
            assert!(measured.metric("b", 1_000, metric).median.is_nan());
        }
    }
}
