//! BM-P4: losses, their causes, and throughput, by the size of an ADU, over four nodes.
//!
//! For each size 20,000 ADUs cross three hops in ten batches, with alternating order of the sides; as
//! many messages cross three hops of a plain QUIC stream and of plain UDP. They are sent first as fast
//! as the path takes them (`full`), which measures throughput; then evenly at half the pace that the
//! slowest reliable side reached in the warm-up round (`paced`), as in the original. Missing ADUs are
//! looked up in all nodes' ledgers for their causes; those in no ledger count as `unnamed`. No link
//! here is lossy: every loss is a full queue's.
//!
//! *Sources.* spec §6.2, BM-P4; §1(b), figures 6.9 and 6.10; §1(c), loss up to 0.5 % with Panda and
//! none without.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::task::JoinSet;

use super::batch::{Batch, Load, Taken};
use super::figures::{QUIC, UDP, goodput_mbps, lost};
use super::{Cell, HOPS_MAX, LENGTHS_BYTES, Line, Side, Way, carry, on_two_cores, thalweg, way};
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-P4";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &["loss_share", "lost_adus", "throughput_mbps"];

const PUBLISHED: &str = "Panda 2001 published, at most";
/// "Never reaches more than 0.5 %".
const PUBLISHED_SHARE: f64 = 0.005;

const SIDES: [Side; 4] = [Side::UntilDeadline, Side::Full, Side::Quic, Side::Udp];

const BATCHES: usize = 10;
const ADUS_A_BATCH: u64 = 2_000;
/// Batches, and ADUs per batch, of a quick run.
const QUICK: (usize, u64) = (2, 500);

/// How long the ledgers may take to account for what is missing.
const LEDGER_MAX: Duration = Duration::from_secs(2);

/// The share of the warm-up pace that is used, which leaves room for the machine's other load.
const SHARE_OF_PACE: f64 = 0.5;

/// How ADUs are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pace {
    Full,
    Even,
}

/// The results of one side at one size and pace.
#[derive(Debug, Default)]
struct Sum {
    batches: Vec<Taken>,
    /// Dropped ADUs by cause, from the ledgers.
    causes: BTreeMap<&'static str, u64>,
}

type Measured = BTreeMap<(Cell, Pace), Sum>;

/// The paths of all sides.
struct Ways {
    ways: BTreeMap<Line, Way>,
    chain: thalweg::Chain,
}

/// Measures and reports BM-P4.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let (batches, adus) = if settings.is_quick {
        QUICK
    } else {
        (BATCHES, ADUS_A_BATCH)
    };
    // New nodes and paths for each size, so that a long run reports early.
    for length_bytes in LENGTHS_BYTES {
        let measured = on_two_cores(measure(length_bytes, batches, adus))?;
        self::report(&measured, report)?;
    }
    Ok(())
}

fn cell(length_bytes: usize, side: Side) -> Cell {
    let line = Line {
        hops: HOPS_MAX,
        adapters: 0,
        side,
    };
    Cell { length_bytes, line }
}

async fn measure(length_bytes: usize, batches: usize, adus: u64) -> anyhow::Result<Measured> {
    let mut tasks = JoinSet::new();
    let chain = thalweg::Chain::start(1 + HOPS_MAX, &mut tasks).await?;
    let mut ways = BTreeMap::new();
    for side in SIDES {
        let Cell { line, .. } = cell(length_bytes, side);
        ways.insert(line, way(line, &chain, &mut tasks).await?);
    }
    let mut ways = Ways { ways, chain };
    let mut measured = Measured::new();
    let every = ways.warm_up(length_bytes, adus).await?;
    for (pace, every) in [(Pace::Full, Duration::ZERO), (Pace::Even, every)] {
        let mut sides = SIDES;
        for batch in 1..=batches {
            let word = pace.word();
            progress::show(format_args!(
                "{ID}: {length_bytes} bytes, {word}, batch {batch} of {batches}"
            ));
            for side in sides {
                let cell = cell(length_bytes, side);
                let sum = measured.entry((cell, pace)).or_default();
                let load = Load::Counted { adus, every };
                ways.take(cell, load, sum).await?;
            }
            sides.reverse();
        }
    }
    drop(ways);
    tasks.shutdown().await;
    Ok(measured)
}

impl Ways {
    /// Sends an uncounted batch over each side, and returns the interval between two ADUs for the paced
    /// batches.
    async fn warm_up(&mut self, length_bytes: usize, adus: u64) -> anyhow::Result<Duration> {
        let mut slowest = Duration::ZERO;
        for side in SIDES {
            let every = Duration::ZERO;
            let mut sum = Sum::default();
            let load = Load::Counted { adus, every };
            self.take(cell(length_bytes, side), load, &mut sum).await?;
            let taken = &sum.batches[0];
            let each = taken.lasted.div_f64(taken.received.max(1) as f64);
            // Plain UDP resends nothing, so overload costs it no time.
            if side != Side::Udp {
                slowest = slowest.max(each);
            }
        }
        Ok(slowest.div_f64(SHARE_OF_PACE))
    }

    async fn take(&mut self, cell: Cell, load: Load, sum: &mut Sum) -> anyhow::Result<()> {
        let batch: Batch = cell.batch(load);
        let before = self.named(cell).await?;
        let taken = carry(&mut self.ways, cell, batch).await?;
        let missing = taken.sent - taken.received.min(taken.sent);
        if missing > 0 {
            self.look_up(cell, missing, &before, sum).await?;
        }
        sum.batches.push(taken);
        Ok(())
    }

    /// Waits until the ledgers account for all missing ADUs, and adds the causes that they name.
    async fn look_up(
        &self,
        cell: Cell,
        missing: u64,
        before: &BTreeMap<&'static str, u64>,
        sum: &mut Sum,
    ) -> anyhow::Result<()> {
        let until = tokio::time::Instant::now() + LEDGER_MAX;
        let news = loop {
            let mut news = self.named(cell).await?;
            for (cause, count) in &mut news {
                *count -= before.get(cause).copied().unwrap_or(0).min(*count);
            }
            let is_late = tokio::time::Instant::now() >= until;
            if cell.line.side.is_plain() || is_late || news.values().sum::<u64>() >= missing {
                break news;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let named: u64 = news.values().sum();
        let unnamed = ("unnamed", missing.saturating_sub(named));
        for (cause, count) in news.into_iter().chain([unnamed]) {
            if count > 0 {
                *sum.causes.entry(cause).or_default() += count;
            }
        }
        Ok(())
    }

    /// Returns the drops of a side's stream in all nodes' ledgers so far; empty for a plain side.
    async fn named(&self, cell: Cell) -> anyhow::Result<BTreeMap<&'static str, u64>> {
        let Some(shape) = cell.line.shape() else {
            return Ok(BTreeMap::new());
        };
        self.chain.dropped(shape).await
    }
}

fn report(measured: &Measured, report: &mut Report) -> anyhow::Result<()> {
    for ((cell, pace), sum) in measured {
        let Cell { length_bytes, line } = *cell;
        if line.side.is_plain() {
            continue;
        }
        let case = format!("{}.{}.bytes_{length_bytes}", line.side.word(), pace.word());
        let beside = [(QUIC, Side::Quic), (UDP, Side::Udp)]
            .map(|(name, side)| (name, &measured[&(self::cell(length_bytes, side), *pace)]));
        let loss = Figure::new(ID, format!("loss_share.{case}"), "share", sum.loss());
        report.add(&loss.clone().with_baseline(PUBLISHED, PUBLISHED_SHARE))?;
        for (name, other) in beside {
            report.add(&loss.clone().with_baseline(name, other.loss().median))?;
        }
        for (cause, count) in &sum.causes {
            let summary = Summary::exact(*count as f64);
            report.add(&Figure::new(
                ID,
                format!("lost_adus.{cause}.{case}"),
                "ADUs",
                summary,
            ))?;
        }
        let goodput = sum.goodput(length_bytes);
        let goodput = Figure::new(ID, format!("throughput_mbps.{case}"), "Mbit/s", goodput);
        for (name, other) in beside {
            report.add(
                &goodput
                    .clone()
                    .with_baseline(name, other.goodput(length_bytes).median),
            )?;
        }
    }
    Ok(())
}

impl Sum {
    /// Returns the share of all ADUs that was lost, with its spread over the batches, and the number of
    /// lost ADUs.
    fn loss(&self) -> Summary {
        let total = |of: fn(&Taken) -> u64| self.batches.iter().map(of).sum::<u64>();
        let (sent, received) = (total(|taken| taken.sent), total(|taken| taken.received));
        Summary {
            median: 1.0 - received as f64 / sent as f64,
            spread: Summary::of(self.batches.iter().map(lost).collect()).spread,
            n: sent as usize,
        }
    }

    fn goodput(&self, length_bytes: usize) -> Summary {
        let each = self.batches.iter();
        Summary::of(
            each.map(|taken| goodput_mbps(length_bytes, taken))
                .collect(),
        )
    }
}

impl Pace {
    fn word(self) -> &'static str {
        match self {
            Self::Full => "full_speed",
            Self::Even => "paced",
        }
    }
}
