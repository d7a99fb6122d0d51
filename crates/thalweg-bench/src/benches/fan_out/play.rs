//! One tree from its planting to its end.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::bail;
use thalweg_testbed::system::clock;

use super::hold::Hold;
use super::taken::Taken;
use super::{AGE_MAX, PACE};
use crate::peers::tree::{Record, Tree};
use crate::progress;

/// How long all sinks may take until each gets what is sent, and how much longer for each of them.
const READY_MAX: Duration = Duration::from_secs(20);
const READY_MAX_EACH: Duration = Duration::from_millis(100);

/// How old an ADU may be of which it counts that a sink got it.
const RECENT: Duration = Duration::from_secs(1);

/// Between two looks at who gets anything.
const LOOK: Duration = Duration::from_millis(100);

/// How long after a window its last ADUs are waited for.
const STRAGGLERS: Duration = AGE_MAX.saturating_add(Duration::from_millis(500));

/// The share of what a relay computed when free that it is then given.
const HELD_SHARE: f64 = 0.25;

/// How long the windows are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasting {
    /// Before a window, for what its beginning disturbs.
    settle: Duration,
    free_adus: u32,
    held_adus: u32,
}

/// What came of a tree.
#[derive(Clone, Debug)]
pub(super) struct Played {
    /// While the relay had all the processor it wanted.
    pub(super) free: Taken,
    /// While it had a quarter of what it took then, where the kernel can.
    pub(super) held: Option<Taken>,
    /// How far the relay had grown by then, for each sink.
    pub(super) bytes_per_sink: f64,
}

impl Lasting {
    pub(super) const FULL: Self = Self {
        settle: Duration::from_secs(1),
        free_adus: 150,
        held_adus: 90,
    };
    pub(super) const QUICK: Self = Self {
        settle: Duration::from_millis(200),
        free_adus: 20,
        held_adus: 20,
    };
}

/// Plays one tree.
///
/// Fails   a program that ends or does not start, sinks that get nothing
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
    // Where nothing can be held, that was said.
    let Some(hold) = Hold::on(tree.relay.id(), free.relay_cores * HELD_SHARE) else {
        return Ok(Played {
            free,
            held: None,
            bytes_per_sink,
        });
    };
    std::thread::sleep(lasting.settle);
    let held = window(&mut tree, sinks, lasting.held_adus);
    // The kernel keeps the place of who is held as long as he lives.
    drop(tree);
    drop(hold);
    if let Err(error) = &held {
        progress::clear();
        eprintln!("thalweg-bench: nothing is told of a relay that was held: {error:#}");
    }
    Ok(Played {
        free,
        held: held.ok(),
        bytes_per_sink,
    })
}

/// Waits until every sink gets what is sent.
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
            bail!("{reached} of {sinks} sinks get what is sent; of its relay: {said}");
        }
    }
}

/// Looks at so many ADUs.
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
