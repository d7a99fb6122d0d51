//! Runs one tree from its start to its end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::bail;
use thalweg_testbed::system::clock;

use super::limit::CpuLimit;
use super::taken::Taken;
use super::{AGE_MAX, PACE};
use crate::peers::tree::{Record, Tree};
use crate::progress;

/// How long all sinks may take until each receives, and the addition per sink.
const READY_MAX: Duration = Duration::from_secs(20);
const READY_MAX_EACH: Duration = Duration::from_millis(100);

/// The maximum age of an ADU that proves that a sink receives.
const RECENT: Duration = Duration::from_secs(1);

/// Interval between two checks whether all sinks receive.
const LOOK: Duration = Duration::from_millis(100);

/// How long a window's last ADUs are waited for.
const STRAGGLERS: Duration = AGE_MAX.saturating_add(Duration::from_millis(500));

/// The share of its free processor time to which the relay is then limited.
const LIMITED_SHARE: f64 = 0.25;

/// The lengths of the windows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasting {
    /// Time before a window, so that start-up effects fade.
    settle: Duration,
    free_adus: u32,
    limited_adus: u32,
}

/// The results of a tree.
#[derive(Clone, Debug)]
pub(super) struct Played {
    /// With all the processor time that the relay wanted.
    pub(super) free: Taken,
    /// With a quarter of that, if the kernel can limit it.
    pub(super) limited: Option<Taken>,
    /// The relay's growth in memory per sink by then.
    pub(super) bytes_per_sink: f64,
}

impl Lasting {
    pub(super) const FULL: Self = Self {
        settle: Duration::from_secs(1),
        free_adus: 150,
        limited_adus: 90,
    };
    pub(super) const QUICK: Self = Self {
        settle: Duration::from_millis(200),
        free_adus: 20,
        limited_adus: 20,
    };
}

/// Runs one tree.
///
/// Fails   a program ends early or does not start; sinks receive nothing
pub(super) fn play(
    grow: impl FnOnce() -> anyhow::Result<Tree>,
    sinks: u32,
    lasting: Lasting,
) -> anyhow::Result<Played> {
    let mut tree = grow()?;
    wait(&mut tree, sinks)?;
    std::thread::sleep(lasting.settle);
    let free = window(&mut tree, sinks, lasting.free_adus)?;
    let bytes_per_sink = tree.grown_bytes()? / f64::from(sinks);
    // `CpuLimit::on` has printed why it cannot limit the relay.
    let Some(limit) = CpuLimit::on(tree.relay.id(), free.relay_cores * LIMITED_SHARE) else {
        return Ok(Played {
            free,
            limited: None,
            bytes_per_sink,
        });
    };
    std::thread::sleep(lasting.settle);
    let limited = window(&mut tree, sinks, lasting.limited_adus);
    // The cgroup can be removed only after the limited process has ended.
    drop(tree);
    drop(limit);
    if let Err(error) = &limited {
        progress::clear();
        eprintln!("thalweg-bench: the limited relay is not measured: {error:#}");
    }
    Ok(Played {
        free,
        limited: limited.ok(),
        bytes_per_sink,
    })
}

/// Waits until every sink receives.
fn wait(tree: &mut Tree, sinks: u32) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        std::thread::sleep(LOOK);
        tree.check()?;
        let recently = nanos() - RECENT.as_nanos() as u64;
        let is_recent = |record: &Record| record.due_nanos > recently;
        let reached: BTreeSet<u32> = tree
            .records()
            .filter(is_recent)
            .map(|record| record.sink)
            .collect();
        if reached.len() == sinks as usize {
            return Ok(());
        }
        if begun.elapsed() > READY_MAX + READY_MAX_EACH * sinks {
            let (reached, said) = (reached.len(), tree.relay.said());
            bail!("{reached} of {sinks} sinks receive ADUs; from the relay: {said}");
        }
    }
}

/// Measures over this many ADUs.
fn window(tree: &mut Tree, sinks: u32, adus: u32) -> anyhow::Result<Taken> {
    let lasting = PACE * adus;
    tree.records().for_each(drop);
    let before = tree.computed()?;
    let begun = nanos();
    std::thread::sleep(lasting);
    let passed = nanos() - begun;
    let after = tree.computed()?;
    std::thread::sleep(STRAGGLERS);
    tree.check()?;
    let records: Vec<Record> = tree.records().collect();
    let due = begun..begun + lasting.as_nanos() as u64;
    let [relay_cores, sinks_cores] = [0, 1].map(|of| {
        let computed = after[of].saturating_sub(before[of]);
        computed.as_nanos() as f64 / passed as f64
    });
    Ok(Taken::of(
        &records,
        &due,
        sinks,
        adus,
        [relay_cores, sinks_cores],
    ))
}

fn nanos() -> u64 {
    clock::now().as_nanos()
}
