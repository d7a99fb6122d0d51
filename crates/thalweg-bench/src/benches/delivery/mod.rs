//! BM-P3: latency and throughput of delivery over 1 to 4 nodes, by the size of an ADU and the number of
//! null adapters.
//!
//! Everything runs in one process on loopback: four nodes, and beside them the two simplest
//! alternatives, relayed over as many hops. In each round every path carries one paced batch, then
//! every path a full one. Compared paths follow each other, in alternating order, so that a noisy
//! neighbour on the machine disturbs both.
//!
//! | file | what it does |
//! |---|---|
//! | `way` | the two ends of a path, and the message that measures it |
//! | `batch` | one batch over one path |
//! | `thalweg`, `quic`, `udp` | the paths |
//! | `figures`, `tables` | figures from samples, and tables for people |
//! | `loss` | BM-P4, over the same paths |
//!
//! The result says nothing about real links: there is no delay, no loss and no bottleneck but the
//! cores, and all nodes of a path share the same two.
//!
//! *Sources.* spec §6.2, BM-P3 and BM-P4; §1(b), figures 6.7 to 6.10. docs/guides/measure.md explains how
//! to read it.

mod batch;
mod figures;
pub(crate) mod loss;
mod quic;
mod tables;
#[cfg(test)]
mod tests;
mod thalweg;
mod udp;
mod way;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use anyhow::Context as _;
use thalweg_base::needs::Reliability;
use tokio::task::JoinSet;

use self::batch::{Batch, Load, Loss, Taken};
use crate::report::Report;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-P3";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "hop_added_p50_us",
    "throughput_vs_quic",
    "delivery_p50_us",
    "delivery_p99_us",
    "throughput_mbps",
    "throughput_cpu_ns_per_byte",
    "throughput_cores_busy",
    "delivery_loss",
];

const LENGTHS_BYTES: [usize; 4] = [100, 1_000, 10_000, 60_000];
const HOPS_MAX: usize = 3;
const ADAPTERS_MAX: usize = 5;
/// Null adapters stand on the relay of a path of this many hops.
const HOPS_OF_ADAPTERS: usize = 2;
/// Larger ADUs go on a stream, reliable or not.
const DATAGRAM_BYTES_MAX: usize = 1_000;

const PACED: u64 = 40;
const LASTING: Duration = Duration::from_millis(100);
const ROUNDS_MIN: usize = 3;
/// Samples of the other benchmarks that take as long as one round here.
const SAMPLES_A_ROUND: usize = 16;

/// The kind of path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    UntilDeadline,
    Full,
    Unreliable,
    Quic,
    Udp,
}

/// One path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    hops: usize,
    adapters: usize,
    side: Side,
}

/// One path with messages of one length; compared cells are adjacent in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    length_bytes: usize,
    line: Line,
}

enum Way {
    Thalweg(Box<(thalweg::Sender, thalweg::Receiver)>),
    Quic(quic::Sender, quic::Receiver),
    Udp(udp::Sender, udp::Receiver),
}

/// All measurements: per cell, one entry per round.
#[derive(Debug, Default)]
struct Measured {
    paced: BTreeMap<Cell, Vec<Taken>>,
    full: BTreeMap<Cell, Vec<Taken>>,
}

/// Measures and reports BM-P3.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let rounds = (settings.samples / SAMPLES_A_ROUND).max(ROUNDS_MIN);
    figures::report(&on_two_cores(measure(rounds, cells().collect()))?, report)
}

/// Measures one length beside plain QUIC and prints the headline, in seconds instead of minutes: for
/// work on a hop.
pub(crate) fn hop(length_bytes: usize, rounds: usize) -> anyhow::Result<()> {
    let is_compared = |cell: &Cell| {
        let is_side = matches!(
            cell.line.side,
            Side::UntilDeadline | Side::Full | Side::Quic
        );
        is_side
            && cell.length_bytes == length_bytes
            && cell.line.hops > 0
            && cell.line.adapters == 0
    };
    let cells = cells().filter(is_compared).collect();
    let measured = on_two_cores(measure(rounds, cells))?;
    tables::print_hop(&measured, length_bytes);
    Ok(())
}

/// Fills one path for this long, for a profiler; `side` is as in [`Side::word`].
pub(crate) fn workload(
    side: &str,
    hops: usize,
    length_bytes: usize,
    millis: u64,
) -> anyhow::Result<()> {
    let mut cells = cells();
    let cell = cells.find(|cell| {
        cell.line.side.word() == side && cell.line.hops == hops && cell.length_bytes == length_bytes
    });
    let cell = cell.context("no such path")?;
    let taken = on_two_cores(async move {
        let mut tasks = JoinSet::new();
        let chain = thalweg::Chain::start(1 + hops, &mut tasks).await?;
        let way = way(cell.line, &chain, &mut tasks).await?;
        let load = Load::Full(Duration::from_millis(millis));
        let (taken, _way) = way.carry(cell.batch(load)).await?;
        tasks.shutdown().await;
        Ok(taken)
    })?;
    let goodput_mbps = figures::goodput_mbps(length_bytes, &taken);
    let ns_per_byte = figures::cpu_ns_per_byte(length_bytes, &taken);
    eprintln!("{side}: {goodput_mbps:.0} Mbit/s, {ns_per_byte:.2} ns of CPU per byte");
    Ok(())
}

fn on_two_cores<T: Send + 'static>(
    work: impl Future<Output = anyhow::Result<T>> + Send + 'static,
) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    // Run on a worker: the waiting thread would be a third.
    let done = runtime.block_on(async { tokio::spawn(work).await? });
    runtime.shutdown_timeout(Duration::from_secs(1));
    done
}

async fn measure(rounds: usize, mut cells: Vec<Cell>) -> anyhow::Result<Measured> {
    let mut tasks = JoinSet::new();
    let mut ways = ways(&cells, &mut tasks).await?;
    let mut measured = Measured::default();
    // One round more than asked for: the first warms up and is not counted.
    for round in 0..=rounds {
        progress::show(format_args!("{ID}: round {round} of {rounds}"));
        // All paced batches before the full ones, because a full batch leaves work behind.
        for cell in &cells {
            let taken = carry(&mut ways, *cell, cell.paced()).await?;
            if round > 0 {
                measured.paced.entry(*cell).or_default().push(taken);
            }
        }
        for cell in cells.iter().filter(|cell| cell.is_for_throughput()) {
            let taken = carry(&mut ways, *cell, cell.full()).await?;
            if round > 0 {
                measured.full.entry(*cell).or_default().push(taken);
            }
        }
        cells.reverse();
    }
    drop(ways);
    tasks.shutdown().await;
    Ok(measured)
}

async fn carry(ways: &mut BTreeMap<Line, Way>, cell: Cell, batch: Batch) -> anyhow::Result<Taken> {
    let way = ways.remove(&cell.line).context("every line has its path")?;
    let (taken, way) = way.carry(batch).await.with_context(|| cell.name())?;
    ways.insert(cell.line, way);
    Ok(taken)
}

async fn ways(cells: &[Cell], tasks: &mut JoinSet<()>) -> anyhow::Result<BTreeMap<Line, Way>> {
    let chain = thalweg::Chain::start(1 + HOPS_MAX, tasks).await?;
    let mut ways = BTreeMap::new();
    for Cell { line, .. } in cells {
        if let Entry::Vacant(place) = ways.entry(*line) {
            let way = way(*line, &chain, tasks).await;
            place.insert(way.with_context(|| format!("{line:?}"))?);
        }
    }
    Ok(ways)
}

async fn way(line: Line, chain: &thalweg::Chain, tasks: &mut JoinSet<()>) -> anyhow::Result<Way> {
    match (line.side, line.shape()) {
        (_, Some(shape)) => chain.way(shape).await.map(Way::thalweg),
        (Side::Udp, None) => udp::way(line.hops, tasks).await.map(Way::udp),
        (_, None) => quic::way(line.hops, tasks).await.map(Way::quic),
    }
}

/// Returns the cells to measure, in the order of sizes, hops, adapters and sides.
fn cells() -> impl Iterator<Item = Cell> {
    use Side::{Full, Quic, Udp, Unreliable, UntilDeadline};
    LENGTHS_BYTES.into_iter().flat_map(|length_bytes| {
        (0..=HOPS_MAX).flat_map(move |hops| {
            let adapters = if hops == HOPS_OF_ADAPTERS {
                ADAPTERS_MAX
            } else {
                0
            };
            let sides = [UntilDeadline, Full, Unreliable, Quic, Udp];
            let sides = sides.into_iter().filter(move |side| match side {
                UntilDeadline => true,
                Unreliable => hops > 0 && length_bytes <= DATAGRAM_BYTES_MAX,
                Full | Quic | Udp => hops > 0,
            });
            let plain = sides.map(move |side| Line {
                hops,
                adapters: 0,
                side,
            });
            let adapted = (1..=adapters).map(move |adapters| Line {
                hops,
                adapters,
                side: UntilDeadline,
            });
            plain
                .chain(adapted)
                .map(move |line| Cell { length_bytes, line })
        })
    })
}

impl Line {
    /// Returns the shape of a path over nodes; `None` for a plain side.
    fn shape(self) -> Option<thalweg::Shape> {
        let reliability = match self.side {
            Side::UntilDeadline => Reliability::UntilDeadline,
            Side::Full => Reliability::Full,
            Side::Unreliable => Reliability::None,
            Side::Quic | Side::Udp => return None,
        };
        Some(thalweg::Shape {
            hops: self.hops,
            adapters: self.adapters,
            reliability,
        })
    }
}

impl Side {
    /// Returns whether no node of ours carries it.
    fn is_plain(self) -> bool {
        matches!(self, Self::Quic | Self::Udp)
    }

    fn word(self) -> &'static str {
        match self {
            Self::UntilDeadline => "until_deadline",
            Self::Full => "full",
            Self::Unreliable => "unreliable",
            Self::Quic => "quic",
            Self::Udp => "udp",
        }
    }
}

impl Cell {
    /// Returns what may be lost. Beyond the first hop an until-deadline stream has no backpressure, so
    /// a relay may overflow.
    fn loss(self) -> Loss {
        match self.line.side {
            Side::Unreliable | Side::Udp => Loss::InOrder,
            Side::UntilDeadline if self.line.hops > 1 => Loss::AnyOrder,
            Side::UntilDeadline | Side::Full | Side::Quic => Loss::None,
        }
    }

    /// Returns whether throughput is measured: not for a path within one node, nor for each number of
    /// adapters.
    fn is_for_throughput(self) -> bool {
        self.line.hops > 0 && (self.line.adapters == 0 || self.line.adapters == ADAPTERS_MAX)
    }

    fn paced(self) -> Batch {
        self.batch(Load::Paced(PACED))
    }

    fn full(self) -> Batch {
        self.batch(Load::Full(LASTING))
    }

    fn batch(self, load: Load) -> Batch {
        Batch {
            length_bytes: self.length_bytes,
            loss: self.loss(),
            load,
        }
    }

    /// Returns the suffix of a metric's name.
    fn name(self) -> String {
        let Line {
            hops,
            adapters,
            side,
        } = self.line;
        let side = match side {
            Side::UntilDeadline => String::new(),
            other => format!(".{}", other.word()),
        };
        let adapters = match adapters {
            0 => String::new(),
            some => format!(".adapters_{some}"),
        };
        format!("{side}.hops_{hops}{adapters}.bytes_{}", self.length_bytes)
    }
}

impl Way {
    fn thalweg(ends: (thalweg::Sender, thalweg::Receiver)) -> Self {
        Self::Thalweg(Box::new(ends))
    }

    fn quic((sender, receiver): (quic::Sender, quic::Receiver)) -> Self {
        Self::Quic(sender, receiver)
    }

    fn udp((sender, receiver): (udp::Sender, udp::Receiver)) -> Self {
        Self::Udp(sender, receiver)
    }

    async fn carry(self, batch: Batch) -> anyhow::Result<(Taken, Self)> {
        match self {
            Self::Thalweg(ends) => {
                let (sender, receiver) = *ends;
                let (taken, sender, receiver) = batch::run(batch, sender, receiver).await?;
                Ok((taken, Self::thalweg((sender, receiver))))
            }
            Self::Quic(sender, receiver) => {
                let (taken, sender, receiver) = batch::run(batch, sender, receiver).await?;
                Ok((taken, Self::Quic(sender, receiver)))
            }
            Self::Udp(sender, receiver) => {
                let (taken, sender, receiver) = batch::run(batch, sender, receiver).await?;
                Ok((taken, Self::Udp(sender, receiver)))
            }
        }
    }
}
