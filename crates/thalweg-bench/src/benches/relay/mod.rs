//! RC, the relay comparison: the latency and processor time that a relay adds per ADU, ours and peers'.
//!
//! A sender and a receiver run in this process, a relay in a separate one between them, everything on
//! loopback. Each transport has two lines, one through the relay and one without it; the relay's cost
//! is the difference of the two within a round, so the cost of the ends, including clients of the
//! peer's protocol, cancels out. In each round every side carries one batch directly and one through
//! its relay, in alternating order, so that a disturbance hits both.
//!
//! | file | what it does |
//! |---|---|
//! | `load` | a batch of ADUs at a fixed rate, and its results |
//! | `side` | one relay with both lines, ours or a peer's |
//! | `thalweg` | our lines |
//! | `figures` | figures from rounds, and a table for people |
//!
//! The result says nothing about real links: there is no delay, no loss and no bottleneck. Relays give
//! different guarantees for their cost; docs/guides/measure.md says which are comparable. A missing or
//! failing peer is named, and the others go on.

mod figures;
mod load;
mod side;
pub(crate) mod thalweg;

use std::time::Duration;

use anyhow::bail;
use tokio::runtime::Runtime;

use self::figures::{Measured, Round};
use self::load::Load;
use self::side::Side;
use crate::peers::line::Way;
use crate::peers::{Peer, Ready};
use crate::report::Report;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "RC";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = figures::METRICS;

const LENGTHS_BYTES: [usize; 2] = [1_000, 10_000];

/// Payload rates, full and quick: 1,250 ADUs of 1,000 bytes per second, which no client has trouble with.
const RATES_BPS: [f64; 2] = [10e6, 5e6];
const LASTING: [Duration; 2] = [Duration::from_secs(2), Duration::from_millis(300)];

const ROUNDS_MIN: usize = 3;
/// Samples of the other benchmarks that take as long as one round here.
const SAMPLES_A_ROUND: usize = 28;

/// Measures and reports RC.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if settings.instructions_only {
        return Ok(());
    }
    let runtime = runtime()?;
    let mut failed = Vec::new();
    let mut sides = vec![Side::thalweg(&runtime)?];
    for peer in settings.peers.iter().filter(|peer| peer.has_line()) {
        progress::show(format_args!("{ID}: starting {}", peer.name));
        let Some(ready) = find(peer) else { continue };
        match Side::peer(&ready) {
            Ok(side) => sides.push(side),
            Err(error) => failed.push(format!("{error:#}")),
        }
    }
    let mut measured = Measured::default();
    let rounds = (settings.samples / SAMPLES_A_ROUND).max(ROUNDS_MIN);
    // One round more than asked for: the first warms up and is not counted.
    for round in 0..=rounds {
        sides.retain_mut(|side| {
            progress::show(format_args!(
                "{ID}: {}, round {round} of {rounds}",
                side.named.name
            ));
            match carry(side, round, settings.is_quick) {
                Ok(_) if round == 0 => true,
                Ok(taken) => {
                    measured.add(side.named.name, taken);
                    true
                }
                Err(error) => {
                    failed.push(format!("{error:#}"));
                    false
                }
            }
        });
        sides.reverse();
    }
    sides.sort_by_key(|side| side.named.place);
    figures::report(&measured, &sides, report)?;
    drop(sides);
    runtime.shutdown_timeout(Duration::from_secs(1));
    if !failed.is_empty() {
        bail!("not everything was measured: {}", failed.join("; "));
    }
    Ok(())
}

/// Carries a batch of each length over both lines of a side.
fn carry(
    side: &mut Side,
    round: usize,
    is_quick: bool,
) -> anyhow::Result<Vec<(usize, Way, Round)>> {
    let mut ways = [Way::Direct, Way::Through];
    if round % 2 == 1 {
        ways.reverse();
    }
    let mut rounds = Vec::new();
    let quick = usize::from(is_quick);
    for length_bytes in LENGTHS_BYTES {
        for way in ways {
            let load = Load::of(
                length_bytes,
                side.named.piece_bytes,
                RATES_BPS[quick],
                LASTING[quick],
            );
            let taken = side.carry(way, load)?;
            rounds.push((length_bytes, way, Round::of(length_bytes, &taken)));
        }
    }
    Ok(rounds)
}

/// Finds a peer's programs, or prints what is missing.
pub(super) fn find(peer: &'static Peer) -> Option<Ready> {
    let found = peer.find();
    let print_missing = |missing| {
        progress::clear();
        eprintln!("thalweg-bench: {missing}; --install-peers installs what has a package");
    };
    found.map_err(print_missing).ok()
}

/// Returns the runtime of our nodes.
fn runtime() -> std::io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build()
}
