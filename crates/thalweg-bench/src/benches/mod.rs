//! The benchmarks: one file or folder per id.
//!
//! *To add one*, write its file, name it below and put a row into [`BENCHES`]: an id, a group, a
//! sentence, its metrics, and a function that measures and reports. Sides of a ratio alternate
//! ([`crate::sample::alternate`], or a loop that does the same), long benchmarks show progress
//! ([`crate::progress::show`]), and each figure is reported as soon as it is known
//! ([`crate::report::Report::add`]). Benchmarks that need nodes or sockets are behind the feature
//! `nodes`, so that instructions can be counted by a program that builds in a minute.

use anyhow::bail;

use crate::Settings;
use crate::report::Report;

#[cfg(feature = "nodes")]
mod continuity;
#[cfg(feature = "nodes")]
mod delivery;
#[cfg(feature = "nodes")]
mod fan_out;
#[cfg(feature = "nodes")]
mod files;
mod instructions;
mod lift_cost;
#[cfg(feature = "nodes")]
pub(crate) mod live;
#[cfg(feature = "map")]
mod map;
mod modules;
mod outbox_cost;
mod planning;
#[cfg(feature = "nodes")]
mod quality;
#[cfg(feature = "nodes")]
mod recast;
#[cfg(feature = "nodes")]
mod relay;
#[cfg(test)]
mod tests;
mod trace_cost;

/// The benchmark of `--instructions` without an id.
pub(crate) const INSTRUCTIONS: &str = instructions::ID;

/// A benchmark.
pub(crate) struct Bench {
    /// Its id, as in the specification of the systems.
    pub(crate) id: &'static str,
    /// The group with which it can be run.
    pub(crate) group: &'static str,
    /// What it measures, in a line.
    pub(crate) about: &'static str,
    /// Its metrics' names up to the first dot; the rest of a name is the case.
    pub(crate) metrics: &'static [&'static str],
    /// Measures and reports.
    pub(crate) run: fn(&Settings, &mut Report) -> anyhow::Result<()>,
}

/// All benchmarks, in the order in which they run.
pub(crate) const BENCHES: &[Bench] = &[
    Bench {
        id: lift_cost::ID,
        group: "lift",
        about: "cost of the lift per ADU and per module, by modules and by size",
        metrics: lift_cost::METRICS,
        run: lift_cost::run,
    },
    Bench {
        id: modules::ID,
        group: "lift",
        about: "cost of each module at 1,000 B, and a cost model that predicts chains, with measurements of the chains",
        metrics: modules::METRICS,
        run: modules::run,
    },
    Bench {
        id: outbox_cost::ID,
        group: "outbox",
        about: "cost of the outbox per ADU with 10 to 100,000 waiting, against a BinaryHeap",
        metrics: outbox_cost::METRICS,
        run: outbox_cost::run,
    },
    Bench {
        id: trace_cost::ID,
        group: "outbox",
        about: "cost of an ADU in a relay's sender with a trace's stamps, against untraced",
        metrics: trace_cost::METRICS,
        run: trace_cost::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: delivery::ID,
        group: "delivery",
        about: "latency and throughput over 1 to 4 nodes, against plain QUIC and UDP",
        metrics: delivery::METRICS,
        run: delivery::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: delivery::loss::ID,
        group: "delivery",
        about: "loss by cause and throughput by size over 4 nodes, against plain QUIC and UDP",
        metrics: delivery::loss::METRICS,
        run: delivery::loss::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: quality::ID,
        group: "quality",
        about: "what a viewer sees over a slow link, by adaptation of the stream; runs on the testbed, needs root",
        metrics: quality::METRICS,
        run: quality::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: live::threshold::ID,
        group: "live",
        about: "eight videos into a third of their rate: frames/s and quality by allowed latency, against TCP, SRT and QUIC streams; needs root",
        metrics: live::threshold::METRICS,
        run: live::threshold::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: live::importance::ID,
        group: "live",
        about: "the same recording: latency by importance; needs root",
        metrics: live::importance::METRICS,
        run: live::importance::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: live::fairness::ID,
        group: "live",
        about: "1 to 8 of our flows against 1 to 8 TCP flows on one line: shares, utilisation, overhead; needs root",
        metrics: live::fairness::METRICS,
        run: live::fairness::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: live::stall::ID,
        group: "live",
        about: "worst latency when the line fails temporarily, without fail-over; needs root",
        metrics: live::stall::METRICS,
        run: live::stall::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: relay::ID,
        group: "relay",
        about: "latency and CPU time that a relay adds, against socat, srt-live-transmit, zenohd, moq-relay and mediamtx",
        metrics: relay::METRICS,
        run: relay::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: fan_out::ID,
        group: "relay",
        about: "what one core of a relay forwards to 50 and more sinks, and what they receive when it is saturated, against moq-relay, zenohd and nats-server",
        metrics: fan_out::METRICS,
        run: fan_out::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: fan_out::come_up::ID,
        group: "relay",
        about: "how long until 800 sinks over QUIC and 2,000 in the clear have their first ADU from one relay",
        metrics: fan_out::come_up::METRICS,
        run: fan_out::come_up::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: files::ID,
        group: "files",
        about: "files of 100 KiB and 10 MiB over 1 to 3 hops of 2 Mbit/s, by block length, against the bound measured by iperf3; needs root",
        metrics: files::METRICS,
        run: files::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: continuity::ID,
        group: "continuity",
        about: "the path of a video of 25 frames/s is cut: ADUs lost, duplicated and late, and the time until another path is used; needs root",
        metrics: continuity::METRICS,
        run: continuity::run,
    },
    #[cfg(feature = "nodes")]
    Bench {
        id: recast::ID,
        group: "continuity",
        about: "a stream with two sinks, one behind the other: copies on the line to the first, and the gap at the second when the first leaves, against moq-relay and zenohd; needs root",
        metrics: recast::METRICS,
        run: recast::run,
    },
    #[cfg(feature = "map")]
    Bench {
        id: map::ID_CONTROL,
        group: "map",
        about: "control bytes per node and second, idle and under noise, at 10 to 10,000 nodes, against plain flooding",
        metrics: map::METRICS_CONTROL,
        run: map::run_control,
    },
    #[cfg(feature = "map")]
    Bench {
        id: map::ID_CONVERGE,
        group: "map",
        about: "time until a stream has another path and until all nodes know of a change, and memory, at 10 to 10,000 nodes, against light alone",
        metrics: map::METRICS_CONVERGE,
        run: map::run_converge,
    },
    Bench {
        id: planning::chains::ID,
        group: "planning",
        about: "planners on 1,000 random chains: misses, feasibility, time by nodes and adapters",
        metrics: planning::chains::METRICS,
        run: planning::chains::run,
    },
    Bench {
        id: planning::chains::ID_LOCAL,
        group: "planning",
        about: "the local planner against the exact one, time and cost by nodes",
        metrics: planning::chains::METRICS_LOCAL,
        run: planning::chains::run_local,
    },
    Bench {
        id: planning::scale::ID,
        group: "planning",
        about: "the exact planner on graphs of 10 to 10,000 nodes, trees of 10 and 100 sinks, memory, replanning; compared with an integer program",
        metrics: planning::scale::METRICS,
        run: planning::scale::run,
    },
    Bench {
        id: instructions::ID,
        group: "instructions",
        about: "instructions of each hot path, counted by callgrind; `cargo xtask instructions` limits their growth",
        metrics: instructions::METRICS,
        run: instructions::run,
    },
];

impl Bench {
    /// Returns whether a word on the command line means this benchmark.
    pub(crate) fn is_named_by(&self, word: &str) -> bool {
        word == "all" || word.eq_ignore_ascii_case(self.id) || word == self.group
    }
}

/// Returns a line for each benchmark: id, group, what it measures, and its metrics.
pub(crate) fn list() -> String {
    let line = |bench: &Bench| {
        let metrics = bench.metrics.join(" ");
        format!(
            "{:<8} {:<13} {}: {metrics}\n",
            bench.id, bench.group, bench.about
        )
    };
    BENCHES.iter().map(line).collect()
}

/// Runs a hidden workload. For `callgrind`: `lift:MODULES:ADUS` or `hot:PATH:ROUNDS`. For a profiler:
/// `delivery:SIDE:HOPS:BYTES:MILLISECONDS`. One length of BM-P3: `hop:BYTES:ROUNDS`. In a separate
/// process: `plan-memory:KIND:NODES:SEED`, `map-memory:NODES`. Worlds and plans for the oracle:
/// `oracle:FIRST:COUNT:STEP`. The relay of the comparison: `relay-node`. Parts of a tree:
/// `fan-relay:OVER:SINKS`, `fan-source:OVER:SINKS:PORT`, `fan-sinks:OVER:SINKS:PORT`,
/// `nats-source:PORT`, `nats-sinks:SINKS:PORT`.
pub(crate) fn run_workload(workload: &str) -> anyhow::Result<()> {
    match workload.split(':').collect::<Vec<_>>()[..] {
        ["lift", modules, adus] => lift_cost::workload(modules.parse()?, adus.parse()?),
        ["plan-memory", kind, nodes, seed] => {
            planning::memory::workload(kind, nodes.parse()?, seed.parse()?)
        }
        #[cfg(feature = "map")]
        ["map-memory", nodes] => map::wide::workload(nodes.parse()?),
        ["hot", path, rounds] => instructions::workload(path, rounds.parse()?),
        ["oracle", first, count, step] => {
            planning::ilp::workload(first.parse()?, count.parse()?, step.parse()?)
        }
        #[cfg(feature = "nodes")]
        ["hop", bytes, rounds] => delivery::hop(bytes.parse()?, rounds.parse()?),
        #[cfg(feature = "nodes")]
        ["delivery", side, hops, bytes, millis] => {
            delivery::workload(side, hops.parse()?, bytes.parse()?, millis.parse()?)
        }
        #[cfg(feature = "nodes")]
        [relay::thalweg::RELAY] => relay::thalweg::relay(),
        #[cfg(feature = "nodes")]
        [fan_out::thalweg::RELAY, over, sinks] => {
            fan_out::thalweg::relay(over.parse()?, sinks.parse()?)
        }
        #[cfg(feature = "nodes")]
        [fan_out::thalweg::SOURCE, over, sinks, port, pace] => {
            let (sinks, port) = (sinks.parse()?, port.parse()?);
            fan_out::thalweg::source(over.parse()?, sinks, port, pace.parse()?)
        }
        #[cfg(feature = "nodes")]
        [fan_out::thalweg::SINKS, over, sinks, port, at_once] => {
            let (sinks, port) = (sinks.parse()?, port.parse()?);
            fan_out::thalweg::sinks(over.parse()?, sinks, port, at_once.parse()?)
        }
        #[cfg(feature = "nodes")]
        [fan_out::bare::RELAY, bare] => fan_out::bare::relay(bare.parse()?),
        #[cfg(feature = "nodes")]
        [fan_out::bare::SOURCE, bare, port] => fan_out::bare::source(bare.parse()?, port.parse()?),
        #[cfg(feature = "nodes")]
        [fan_out::bare::SINKS, bare, sinks, port] => {
            fan_out::bare::sinks(bare.parse()?, sinks.parse()?, port.parse()?)
        }
        #[cfg(feature = "nodes")]
        [crate::peers::nats::SOURCE, port] => fan_out::nats::source(port.parse()?),
        #[cfg(feature = "nodes")]
        [crate::peers::nats::SINKS, sinks, port] => {
            fan_out::nats::sinks(sinks.parse()?, port.parse()?)
        }
        _ => bail!("there is no workload `{workload}`"),
    }
}
