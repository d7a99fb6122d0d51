//! 10,000 nodes with only their directories, each of which knows a few speaking nodes.
//!
//! If every node kept every record there would be 10^8, more than one machine holds. But floods of two
//! records do not interact, so a sample of nodes speaks, all others forward by the product's own
//! [`Directory`], and the result is scaled. The memory of one directory of 10,000 records is measured
//! in a separate process. Wires carry a record at once; at 3 Mbit/s it takes a millisecond.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::process::Command;

use anyhow::{Context as _, ensure};
use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_base::wire::record::{self, Neighbour, Record};
use thalweg_control::routing::{Directory, News, Signed, cadence};
use thalweg_sim::flood::Shape;

use super::network::{RATE, SLOW, distances, frames_of_flood};
use crate::benches::planning::memory::highest_kb;
use crate::report::{Figure, Report};
use crate::sample::Summary;

/// Number of nodes.
const NODES: usize = 10_000;

/// Number of nodes that speak.
const SPEAKERS: usize = 20;

/// Sizes of the directories for the memory measurement.
const WEIGHED: [usize; 4] = [10, 100, 1_000, 10_000];

/// Bytes of a frame beside its record: kind, lengths, signature.
const FRAME_BYTES: u64 = 64 + 8;

/// One flood.
struct Flooded {
    frames: f64,
    bytes: f64,
    took: Duration,
    light: Duration,
}

/// Reports the traffic of 10,000 nodes at rest.
pub(super) fn control(id: &'static str, report: &mut Report) -> anyhow::Result<()> {
    let shape = Shape::grown(NODES, RATE, 1);
    let records = records(&shape);
    let total: u64 = records.iter().map(|(_, signed)| size(signed)).sum();
    let interval = cadence::interval(DataSize::from_bytes(total)).as_secs_f64();
    let floods = floods(&shape, &records);
    let mean =
        |pick: &dyn Fn(&Flooded) -> f64| floods.iter().map(pick).sum::<f64>() / floods.len() as f64;
    // All nodes together send a record's flood once per interval, so this is also one node's part of
    // all floods.
    let plain = frames_of_flood(&shape) as f64 * total as f64 / NODES as f64 / 15.0;
    let bytes = Figure::new(
        id,
        format!("bytes_per_second_{NODES}"),
        "B/s",
        Summary::exact(mean(&|flood| flood.bytes) / interval),
    );
    report.add(&bytes.with_baseline("plain flooding each 15 s", plain))?;
    let messages = Figure::new(
        id,
        format!("messages_per_second.nodes_{NODES}"),
        "1/s",
        Summary::exact(mean(&|flood| flood.frames) / interval),
    );
    report.add(&messages.with_baseline(
        "plain flooding each 15 s",
        frames_of_flood(&shape) as f64 / 15.0,
    ))?;
    // No record crosses a link more than once each way.
    let share = total as f64 * 8.0 / interval / SLOW.as_bps() as f64;
    let metric = format!("link_share.nodes_{NODES}");
    let share = Figure::new(id, metric, "1", Summary::exact(share));
    report.add(&share.with_baseline("a hundredth", 0.01))
}

/// Reports how soon 10,000 nodes know of a change, and the memory of maps of several sizes.
pub(super) fn converge(id: &'static str, report: &mut Report) -> anyhow::Result<()> {
    let shape = Shape::grown(NODES, RATE, 2);
    let floods = floods(&shape, &records(&shape));
    let of = |pick: &dyn Fn(&Flooded) -> f64| Summary::of(floods.iter().map(pick).collect());
    let spread = Figure::new(
        id,
        format!("spread_ms.nodes_{NODES}"),
        "ms",
        of(&|flood| flood.took.as_millis_f64()),
    );
    let light = of(&|flood| flood.light.as_millis_f64()).median;
    report.add(&spread.with_baseline("light", light))?;
    let frames = Figure::new(
        id,
        format!("frames_per_change.nodes_{NODES}"),
        "1",
        of(&|flood| 2.0 * flood.frames),
    );
    report.add(&frames.with_baseline("two plain floods", 2.0 * frames_of_flood(&shape) as f64))?;
    for nodes in WEIGHED {
        let (megabytes, bytes) = weigh(nodes)?;
        let metric = format!("memory_mb_per_node.nodes_{nodes}");
        let figure = Figure::new(id, metric, "MB", Summary::exact(megabytes));
        report.add(&figure.with_baseline("the records' bytes", bytes / 1e6))?;
    }
    Ok(())
}

fn key(at: usize) -> NodeId {
    let mut bytes = [0; 32];
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bytes[..8].copy_from_slice(&mixed.to_be_bytes());
    bytes[24..].copy_from_slice(&(at as u64).to_be_bytes());
    NodeId(bytes)
}

fn size(signed: &Signed) -> u64 {
    signed.record.len() as u64 + FRAME_BYTES
}

/// Returns the record of every node.
fn records(shape: &Shape) -> Vec<(Record, Signed)> {
    let mut lists = vec![Vec::new(); shape.nodes];
    for wire in &shape.wires {
        let [a, b] = wire.ends;
        for (near, far) in [(a, b), (b, a)] {
            lists[near].push(Neighbour {
                node: key(far),
                rtt: wire.delay + wire.delay,
                loss_ppm: 0,
                rate: wire.rate,
                is_measured: false,
                secure: true,
            });
        }
    }
    let record = |(at, mut neighbours): (usize, Vec<Neighbour>)| {
        neighbours.sort_by_key(|there| there.node);
        let record = Record {
            node: key(at),
            // The magnitude of microseconds since 1970.
            sequence: 1_700_000_000_000_000,
            name: format!("n{at}"),
            slots: 4,
            box_key: [7; 32],
            neighbours,
            streams: Vec::new(),
        };
        let signed = Signed {
            record: record::encode(&record),
            signature: [0; 64],
        };
        (record, signed)
    };
    lists.into_iter().enumerate().map(record).collect()
}

/// Floods the records of a sample of nodes.
fn floods(shape: &Shape, records: &[(Record, Signed)]) -> Vec<Flooded> {
    let mut lists = vec![Vec::new(); shape.nodes];
    for wire in &shape.wires {
        let [a, b] = wire.ends;
        lists[a].push((b, wire.delay));
        lists[b].push((a, wire.delay));
    }
    let mut directories = vec![Directory::default(); shape.nodes];
    let speakers = (0..SPEAKERS).map(|at| at * shape.nodes / SPEAKERS);
    let flood = |from: usize| flood(shape, &lists, &mut directories, &records[from], from);
    speakers.map(flood).collect()
}

fn flood(
    shape: &Shape,
    lists: &[Vec<(usize, Duration)>],
    directories: &mut [Directory],
    (record, signed): &(Record, Signed),
    from: usize,
) -> Flooded {
    let mut queue = BinaryHeap::from([Reverse((Instant::ZERO, from, from))]);
    let (mut frames, mut last) = (0_u64, Instant::ZERO);
    while let Some(Reverse((now, at, before))) = queue.pop() {
        let news = directories[at].handle_record(record.clone(), signed.clone(), now);
        if news != News::Changed {
            continue;
        }
        last = now;
        for (to, delay) in lists[at]
            .iter()
            .filter(|(to, _)| *to != before || at == from)
        {
            frames += 1;
            queue.push(Reverse((now + *delay, *to, at)));
        }
    }
    let light = distances(shape, from, None).into_iter().flatten().max();
    Flooded {
        frames: frames as f64,
        bytes: (frames * size(signed)) as f64,
        took: last.saturating_since(Instant::ZERO),
        light: light.unwrap_or(Duration::ZERO),
    }
}

fn weigh(nodes: usize) -> anyhow::Result<(f64, f64)> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let workload = format!("map-memory:{nodes}");
    let output = Command::new(program)
        .args(["--workload", &workload])
        .output()
        .context("cannot run this program as a child")?;
    ensure!(output.status.success(), "{workload} failed");
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let mut number = || {
        numbers
            .next()
            .context("it prints two numbers")?
            .context("it prints numbers")
    };
    Ok((number()? * 1024.0 / 1e6, number()?))
}

/// Keeps a map of this many nodes; prints the growth of the process in kB, and the bytes of the records.
pub(crate) fn workload(nodes: usize) -> anyhow::Result<()> {
    let shape = Shape::grown(nodes, RATE, 1);
    let mut records = records(&shape).into_iter();
    // Memory freed here would be reused and hide the growth, so the records are kept in use.
    let frames: Vec<Vec<u8>> = records.by_ref().map(|(_, signed)| signed.record).collect();
    let bytes: usize = frames.iter().map(Vec::len).sum();
    std::fs::write("/proc/self/clear_refs", "5")
        .context("cannot reset the highest resident size")?;
    let before = highest_kb()?;
    let mut directory = Directory::default();
    for frame in &frames {
        let signed = Signed {
            record: frame.clone(),
            signature: [0; 64],
        };
        let news = directory.handle_record(record::decode(frame)?, signed, Instant::ZERO);
        ensure!(news == News::Changed, "the directory accepts it");
    }
    println!("{} {bytes}", highest_kb()?.saturating_sub(before));
    Ok(())
}
