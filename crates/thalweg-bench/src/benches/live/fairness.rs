//! BM-L3: our share of a line beside TCP, the line's utilisation, and the overhead per ADU.
//!
//! Several connections of ours and of TCP send bulk through one drop-tail line, all from the same
//! moment. Two spans of a run are evaluated: the *early* one, in which flows still find their shares,
//! and the one after it, which is several times as long as CUBIC's interval between losses on these
//! lines (6 s at most), so that no partial interval biases it. In turns, a reference takes our place,
//! to separate our controller's effect from the rest. Against TCP's CUBIC the reference is our own
//! connection with CUBIC: its share shows the effect of QUIC, its pacing and its loss detection.
//! Against BBR, which is known not to share evenly with loss-based controllers, it is TCP's CUBIC: the
//! share that TCP itself would have there. Then as many flows of one kind run alone, for utilisation.
//! Finally ADUs of one length are sent one by one, and all traffic on the line is compared with their
//! payload.
//!
//! ```text
//! share_vs_fair  = mean goodput of a flow of ours / mean goodput of all flows
//! jain_index     = (Σ x)² / (n · Σ x²)          x goodput of a flow, n flows: 1 is even, 1/n all to one
//! utilisation    = Σ x / rate of the line
//! wire_overhead  = bytes on the line, both ways / payload − 1
//! ```
//!
//! Flows start together and have equal RTTs: late comers and unequal distances are not covered.
//!
//! *Sources.* spec PL-15 to PL-17, BM-L3; Jain, Chiu and Hawe 1984.

use thalweg_base::time::{Duration, Instant};
use thalweg_testbed::system::privilege;

use super::condition::{Condition, RATE};
use super::play::{self, Bulk, Play};
use super::recording::Arrival;
use super::schedule::{Due, Schedule};
use super::sides::{OURS, OURS_CUBIC, Side, TCP_BBR, TCP_CUBIC};
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-L3";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "share_vs_fair",
    "share_vs_fair_least",
    "share_vs_fair_most",
    "share_vs_fair_early",
    "share_vs_fair_early_least",
    "share_vs_fair_early_most",
    "utilisation_vs_tcp",
    "utilisation_vs_tcp_least",
    "jain_index",
    "utilisation",
    "wire_overhead",
];

/// Numbers of our flows and of TCP's.
const MIXES: [(u32, u32); 4] = [(1, 1), (1, 8), (8, 1), (8, 8)];

/// The same in a quick run.
const MIXES_QUICK: [(u32, u32); 2] = [(1, 1), (4, 4)];

/// Numbers of flows of one kind alone on the line.
const ALONE: [u32; 2] = [1, 8];

/// The lines in a full run; a quick run uses the first.
const CONDITIONS: [Condition; 2] = [Condition::new(50, 1), Condition::new(50, 5)];

/// The early span, also used for flows alone; in full and quick.
const EARLY: [Span; 2] = [Span::secs(3, 7), Span::secs(1, 2)];

/// The span of settled flows; in full and quick.
const SETTLED: [Span; 2] = [Span::secs(10, 30), Span::secs(3, 3)];

/// Rounds in a full run.
const ROUNDS: u64 = 2;

/// Payload lengths for the overhead.
const LENGTHS_BYTES: [usize; 3] = [100, 1_000, 10_000];

/// Payload rate for the overhead, bit/s: a fifth of the line, so that nothing queues or is resent.
const OVERHEAD_BPS: f64 = 2e6;

/// Duration of the overhead measurement.
const OVERHEAD_LASTING: Duration = Duration::from_secs(2);

/// Measures and reports BM-L3.
///
/// Fails   this user or machine cannot build the line, or a side carries nothing
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    play::prepare(privilege::TO_RUN)?;
    let quick = usize::from(settings.is_quick);
    let bench = Bench {
        rounds: if settings.is_quick { 1 } else { ROUNDS },
        early: EARLY[quick],
        settled: SETTLED[quick],
        conditions: if settings.is_quick {
            &CONDITIONS[..1]
        } else {
            &CONDITIONS
        },
        lengths_bytes: if settings.is_quick {
            &LENGTHS_BYTES[..1]
        } else {
            &LENGTHS_BYTES
        },
    };
    let mixes: &[(u32, u32)] = if settings.is_quick {
        &MIXES_QUICK
    } else {
        &MIXES
    };
    let alone = if settings.is_quick {
        &ALONE[..1]
    } else {
        &ALONE
    };
    bench.mixed(mixes, report)?;
    bench.alone(alone, report)?;
    bench.overhead(report)
}

/// A part of a run.
#[derive(Clone, Copy)]
struct Span {
    /// Time before it.
    before: Duration,
    counted: Duration,
}

impl Span {
    const fn secs(before: u64, counted: u64) -> Self {
        Self {
            before: Duration::from_secs(before),
            counted: Duration::from_secs(counted),
        }
    }
}

struct Bench {
    rounds: u64,
    early: Span,
    settled: Span,
    conditions: &'static [Condition],
    lengths_bytes: &'static [usize],
}

impl Bench {
    /// Measures mixes with TCP.
    fn mixed(&self, mixes: &[(u32, u32)], report: &mut Report) -> anyhow::Result<()> {
        let mut all = Vec::new();
        let mut all_early = Vec::new();
        for condition in self.conditions {
            for tcp in [TCP_CUBIC, TCP_BBR] {
                for (ours, theirs) in mixes {
                    let case = format!("{}.{}.{ours}_{theirs}", tcp.name(), condition.name());
                    progress::show(format_args!("{ID}: {case}"));
                    let mut mixed = Mixed::default();
                    for round in 0..self.rounds {
                        self.mix(*condition, (tcp, *ours, *theirs), round, &mut mixed)?;
                    }
                    all.extend_from_slice(&mixed.shares);
                    all_early.extend_from_slice(&mixed.early);
                    mixed.report(&case, report)?;
                }
            }
        }
        extremes(&METRICS[..3], &all, report)?;
        extremes(&METRICS[3..6], &all_early, report)
    }

    /// Runs once with our flows and once with the reference in their place, in alternating order.
    fn mix(
        &self,
        condition: Condition,
        (tcp, ours, theirs): (&'static dyn Side, u32, u32),
        round: u64,
        mixed: &mut Mixed,
    ) -> anyhow::Result<()> {
        let (other, name) = instead_of_ours(tcp);
        mixed.other = name;
        let mut places = [OURS, other];
        if round % 2 == 1 {
            places.reverse();
        }
        for side in places {
            let bulks = [
                Bulk { side, flows: ours },
                Bulk {
                    side: tcp,
                    flows: theirs,
                },
            ];
            let spans = [self.early, self.settled];
            let [early, goodput] = send_bulk(condition, &bulks, spans, round)?;
            if side.name() == OURS.name() {
                let flows = goodput.concat();
                mixed.early.push(share_vs_fair(&early));
                mixed.shares.push(share_vs_fair(&goodput));
                mixed.jains.push(jain(&flows));
                let used = flows.iter().sum::<f64>() / RATE.as_bps() as f64;
                mixed.used.push(used);
            } else {
                mixed.early_instead.push(share_vs_fair(&early));
                mixed.instead.push(share_vs_fair(&goodput));
            }
        }
        Ok(())
    }

    /// Measures flows of one kind alone, ours and TCP's in turns.
    fn alone(&self, alone: &[u32], report: &mut Report) -> anyhow::Result<()> {
        let mut all = Vec::new();
        for condition in self.conditions {
            for flows in alone {
                let mut sides = [OURS, TCP_CUBIC, TCP_BBR];
                let mut used = [const { Vec::new() }; 3];
                for round in 0..self.rounds {
                    for side in sides {
                        let (name, line) = (side.name(), condition.name());
                        progress::show(format_args!("{ID}: {flows} of {name} alone, {line}"));
                        let bulks = [Bulk {
                            side,
                            flows: *flows,
                        }];
                        let [goodput] = send_bulk(*condition, &bulks, [self.early], round)?;
                        let goodput = goodput.concat();
                        let place = if side.name() == OURS.name() {
                            0
                        } else {
                            1 + usize::from(side.name() == TCP_BBR.name())
                        };
                        used[place].push(goodput.iter().sum::<f64>() / RATE.as_bps() as f64);
                    }
                    sides.reverse();
                }
                let case = format!("{}.{flows}", condition.name());
                let ratios = used[0].iter().zip(&used[1]).map(|(our, tcp)| our / tcp);
                let ratios: Vec<f64> = ratios.collect();
                all.extend_from_slice(&ratios);
                let metric = format!("{}.{case}", METRICS[6]);
                report.add(&Figure::new(ID, metric, "1", Summary::of(ratios)))?;
                for (side, used) in [OURS, TCP_CUBIC, TCP_BBR].into_iter().zip(used) {
                    let metric = format!("{}.{}.{case}", METRICS[9], side.name());
                    report.add(&Figure::new(ID, metric, "1", Summary::of(used)))?;
                }
            }
        }
        extremes(&METRICS[6..8], &all, report)
    }

    /// Measures the overhead of an ADU of each length on the line.
    fn overhead(&self, report: &mut Report) -> anyhow::Result<()> {
        let sides: [&dyn Side; 2] = [OURS, TCP_CUBIC];
        for bytes in self.lengths_bytes.iter().copied() {
            let schedule = even(bytes);
            let mut overheads = [const { Vec::new() }; 2];
            for round in 0..self.rounds {
                for turn in 0..sides.len() {
                    // The order alternates between rounds, so that nothing is always first.
                    let at = (turn + round as usize) % sides.len();
                    progress::show(format_args!("{ID}: {bytes} bytes by {}", sides[at].name()));
                    let play = Play {
                        condition: self.conditions[0],
                        side: sides[at],
                        schedule: &schedule,
                        budget: Duration::from_secs(5),
                        lines: 1,
                        is_alone: false,
                        events: &[],
                        seed: round + 1,
                    };
                    let recording = play.record()?;
                    let passed: u64 = recording.passed.iter().map(|way| way.bytes).sum();
                    let payload = bytes * schedule.dues().len();
                    overheads[at].push(passed as f64 / payload as f64 - 1.0);
                }
            }
            let [ours, theirs] = overheads.map(Summary::of);
            let metric = format!("{}.bytes_{bytes}", METRICS[10]);
            let figure = Figure::new(ID, metric, "1", ours);
            report.add(&figure.with_baseline(TCP_CUBIC.name(), theirs.median))?;
        }
        Ok(())
    }
}

/// Returns the reference that takes our place against a kind of TCP, and its label.
fn instead_of_ours(tcp: &'static dyn Side) -> (&'static dyn Side, &'static str) {
    if tcp.name() == TCP_BBR.name() {
        (TCP_CUBIC, "tcp_fifo_cubic in our place")
    } else {
        (OURS_CUBIC, "thalweg_cubic in our place")
    }
}

/// Sends bulk until the last of these spans is over.
///
/// Returns for each span the goodput of each flow in bit/s, in the order of `bulks`.
fn send_bulk<const SPANS: usize>(
    condition: Condition,
    bulks: &[Bulk<'_>],
    spans: [Span; SPANS],
    round: u64,
) -> anyhow::Result<[Vec<Vec<f64>>; SPANS]> {
    let ends = spans.iter().map(|span| span.before + span.counted);
    let lasting = ends.max().unwrap_or(Duration::ZERO);
    let (begin, arrivals) = play::send_bulk(condition, bulks, lasting, round + 1)?;
    Ok(spans.map(|span| {
        let each = bulks.iter().zip(&arrivals);
        each.map(|(bulk, came)| goodput_bps(bulk.flows, came, begin + span.before, span.counted))
            .collect()
    }))
}

/// The results of a mix, round by round.
#[derive(Default)]
struct Mixed {
    shares: Vec<f64>,
    early: Vec<f64>,
    jains: Vec<f64>,
    used: Vec<f64>,
    /// The label of the reference in our place, and its shares.
    other: &'static str,
    instead: Vec<f64>,
    early_instead: Vec<f64>,
}

impl Mixed {
    fn report(self, case: &str, report: &mut Report) -> anyhow::Result<()> {
        let figure = |metric: &str, values| {
            Figure::new(ID, format!("{metric}.{case}"), "1", Summary::of(values))
        };
        let shares = [
            (METRICS[0], self.shares, self.instead),
            (METRICS[3], self.early, self.early_instead),
        ];
        for (metric, ours, instead) in shares {
            let share = figure(metric, ours);
            report.add(&share.with_baseline(self.other, Summary::of(instead).median))?;
        }
        report.add(&figure(METRICS[8], self.jains))?;
        report.add(&figure(METRICS[9], self.used))
    }
}

/// Reports the median of all cases, the minimum, and the maximum if there is a name for it.
fn extremes(metrics: &[&str], all: &[f64], report: &mut Report) -> anyhow::Result<()> {
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let values = [
        Summary::of(all.to_vec()),
        Summary::exact(least),
        Summary::exact(most),
    ];
    for (metric, value) in metrics.iter().zip(values) {
        report.add(&Figure::new(ID, *metric, "1", value))?;
    }
    Ok(())
}

/// Returns evenly spaced ADUs of one length.
fn even(bytes: usize) -> Schedule {
    let apart = bytes as f64 * 8.0 / OVERHEAD_BPS;
    let count = (OVERHEAD_LASTING.as_secs_f64() / apart) as u32;
    let due = |frame| Due {
        at: Duration::from_secs_f64(f64::from(frame) * apart),
        stream: 0,
        frame,
        layer: 0,
        layers: 1,
        importance: u8::MAX,
        bytes,
    };
    Schedule::new((0..count).map(due).collect())
}

/// Returns the goodput of each flow within a span, in bit/s.
pub(super) fn goodput_bps(
    flows: u32,
    arrivals: &[Arrival],
    since: Instant,
    counted: Duration,
) -> Vec<f64> {
    let mut bits = vec![0.0; flows as usize];
    for arrival in arrivals {
        let is_counted = arrival.at >= since && arrival.at < since + counted;
        if let Some(bits) = bits.get_mut(arrival.number as usize).filter(|_| is_counted) {
            *bits += arrival.bytes as f64 * 8.0;
        }
    }
    for bits in &mut bits {
        *bits /= counted.as_secs_f64();
    }
    bits
}

/// Returns the mean of the first kind of flows over the mean of all.
pub(super) fn share_vs_fair(kinds: &[Vec<f64>]) -> f64 {
    let mean = |flows: &[f64]| flows.iter().sum::<f64>() / flows.len() as f64;
    mean(&kinds[0]) / mean(&kinds.concat())
}

/// Returns Jain's index.
///
/// ```text
/// (Σ x)² / (n · Σ x²)
/// ```
///
/// Fails   NaN if nothing arrived at all
pub(super) fn jain(flows: &[f64]) -> f64 {
    let sum: f64 = flows.iter().sum();
    let squares: f64 = flows.iter().map(|x| x * x).sum();
    sum * sum / (flows.len() as f64 * squares)
}
