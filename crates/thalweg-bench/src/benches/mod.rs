//! The benchmarks: one file one id.
//!
//! To add one, write its file and put it into [`BENCHES`].

use anyhow::bail;

use crate::Settings;
use crate::report::Report;

mod delivery;
mod lift_cost;
mod lift_modules;

/// A benchmark.
pub(crate) struct Bench {
    /// Its id, as the specification of the systems gives it.
    pub(crate) id: &'static str,
    /// What can be run with it by one word.
    pub(crate) group: &'static str,
    /// What it measures, in a line.
    pub(crate) about: &'static str,
    /// Measures.
    pub(crate) run: fn(&Settings, &mut Report) -> anyhow::Result<()>,
}

/// All benchmarks, in the order in which they run.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        id: lift_cost::ID,
        group: "lift",
        about: "cost of the lift per ADU and per module, and of each module at 1 kB",
        run: lift_cost::run,
    },
    Bench {
        id: delivery::ID,
        group: "delivery",
        about: "latency and throughput over 1 to 4 nodes, against plain QUIC and UDP",
        run: delivery::run,
    },
];

impl Bench {
    /// Returns whether a word on the command line means this benchmark.
    pub(crate) fn is_meant_by(&self, word: &str) -> bool {
        word == "all" || word.eq_ignore_ascii_case(self.id) || word == self.group
    }
}

/// Runs what `callgrind` counts, `lift:MODULES:ADUS`, or a profiler looks at, `delivery:SIDE:HOPS:BYTES:MILLISECONDS`.
pub(crate) fn run_workload(workload: &str) -> anyhow::Result<()> {
    match workload.split(':').collect::<Vec<_>>()[..] {
        ["lift", modules, adus] => lift_cost::workload(modules.parse()?, adus.parse()?),
        ["delivery", side, hops, bytes, millis] => {
            delivery::workload(side, hops.parse()?, bytes.parse()?, millis.parse()?)
        }
        _ => bail!("no workload is called `{workload}`"),
    }
}
