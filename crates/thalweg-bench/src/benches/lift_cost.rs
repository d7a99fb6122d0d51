//! BM-D1: the lift's cost per ADU and per module, and its independence of the payload's size.
//!
//! One ADU is: take a packet from the pool, hand it to the lift, take it out, drop it. That is repeated
//! for 0 to 10 `null` modules; the straight line through the eleven points has the cost of an ADU as
//! its intercept and that of a module as its slope, one line per sample. The payload is not written, as
//! in the original experiment.
//!
//! *Baselines.* `Da CaPo++ 1999 published` is t = 9 µs + 0.4 µs·M (spec 5(c)), and 60 µs for the first
//! run. `malloc and boxed calls` is the simplest alternative, measured in turns with the lift in the
//! same run: a `Vec` of the payload's length from the system's allocator, and a loop over boxed trait
//! objects that each look at the header and return a verdict, without pool, counters, control or a
//! queue.

use std::hint::black_box;

use anyhow::Context as _;
use thalweg_base::adu::Header;
use thalweg_base::id::{Sequence, StreamId};
use thalweg_base::time::Instant;
use thalweg_dataplane::lift::Lift;
use thalweg_dataplane::module::Module;
use thalweg_dataplane::modules::Null;
use thalweg_dataplane::packet::{Packet, Pool};

use crate::report::{Figure, Report};
use crate::sample::{Summary, alternate, line, nanos_each};
use crate::{Settings, callgrind};

/// The benchmark's id.
pub(crate) const ID: &str = "BM-D1";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "lift_ns_per_adu",
    "lift_ns_per_module",
    "lift_first_adu_ns",
    "lift_instructions_per_adu",
    "lift_instructions_per_module",
];

const PUBLISHED: &str = "Da CaPo++ 1999 published";
const PLAIN: &str = "malloc and boxed calls";

/// t = 9 µs + 0.4 µs·M; the first run 60 µs more.
const PUBLISHED_ADU_NS: f64 = 9_000.0;
const PUBLISHED_MODULE_NS: f64 = 400.0;
const PUBLISHED_FIRST_NS: f64 = 60_000.0;

const MODULES_MAX: usize = 10;
const LENGTH_BYTES: usize = 1_000;
const LENGTHS_BYTES: [usize; 5] = [64, 1_000, 4_000, 16_000, 60_000];
/// A sample takes about 100 µs: long against the clock's 30 ns, short against a scheduler's time slice.
const ADUS_PER_SAMPLE: u64 = 2_000;
const ADUS_COUNTED: u64 = 10_000;

/// Measures and reports BM-D1.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    if !settings.instructions_only {
        modules(settings, report)?;
        lengths(settings, report)?;
        first(settings, report)?;
    }
    if callgrind::is_installed() {
        return instructions(report);
    }
    anyhow::ensure!(!settings.instructions_only, callgrind::MISSING);
    eprintln!("thalweg-bench: {}", callgrind::MISSING);
    Ok(())
}

/// Carries ADUs and nothing else, for `callgrind`.
pub(crate) fn workload(modules: usize, adus: u64) -> anyhow::Result<()> {
    let pool = Pool::default();
    let mut lift = lift_of(modules, &pool)?;
    carry(&mut lift, &pool, LENGTH_BYTES, adus);
    Ok(())
}

fn modules(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let pool = Pool::default();
    let counts = 0..=MODULES_MAX;
    let mut lifts = counts
        .clone()
        .map(|modules| lift_of(modules, &pool))
        .collect::<Result<Vec<_>, _>>()?;
    let mut plains: Vec<_> = counts.clone().map(plain_of).collect();
    let mut ours = vec![Vec::new(); lifts.len()];
    let mut theirs = ours.clone();
    let (mut lift_lines, mut plain_lines) = (Vec::new(), Vec::new());
    // One sample more than asked for: the first warms up and is not counted.
    for sample in 0..=settings.samples {
        let (mut lift_points, mut plain_points) = (Vec::new(), Vec::new());
        for modules in counts.clone() {
            let (lift, plain) = (&mut lifts[modules], &mut plains[modules]);
            let x = modules as f64;
            let mut time_lift = || {
                let ns = nanos_each(ADUS_PER_SAMPLE, |n| carry(lift, &pool, LENGTH_BYTES, n));
                lift_points.push((x, ns));
            };
            let mut time_plain = || {
                let ns = nanos_each(ADUS_PER_SAMPLE, |n| carry_plain(plain, LENGTH_BYTES, n));
                plain_points.push((x, ns));
            };
            // The first side finds the other's caches, so they alternate.
            if sample % 2 == 0 {
                time_lift();
                time_plain();
            } else {
                time_plain();
                time_lift();
            }
        }
        if sample > 0 {
            lift_lines.push(line(&lift_points));
            plain_lines.push(line(&plain_points));
            for modules in counts.clone() {
                ours[modules].push(lift_points[modules].1);
                theirs[modules].push(plain_points[modules].1);
            }
        }
    }
    report_lines(&lift_lines, &plain_lines, report)?;
    for (modules, (ours, theirs)) in ours.into_iter().zip(theirs).enumerate() {
        let metric = format!("lift_ns_per_adu.modules_{modules}");
        let published = PUBLISHED_ADU_NS + PUBLISHED_MODULE_NS * modules as f64;
        let figure = Figure::new(ID, metric, "ns", Summary::of(ours));
        report.add(&figure.clone().with_baseline(PUBLISHED, published))?;
        report.add(&figure.with_baseline(PLAIN, Summary::of(theirs).median))?;
    }
    Ok(())
}

fn report_lines(
    lift_lines: &[(f64, f64)],
    plain_lines: &[(f64, f64)],
    report: &mut Report,
) -> anyhow::Result<()> {
    let summary = |lines: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| {
        Summary::of(lines.iter().map(of).collect())
    };
    for (metric, of, published) in [
        (
            "lift_ns_per_adu",
            (|l| l.0) as fn(&(f64, f64)) -> f64,
            PUBLISHED_ADU_NS,
        ),
        ("lift_ns_per_module", |l| l.1, PUBLISHED_MODULE_NS),
    ] {
        let figure = Figure::new(ID, metric, "ns", summary(lift_lines, of));
        report.add(&figure.clone().with_baseline(PUBLISHED, published))?;
        report.add(&figure.with_baseline(PLAIN, summary(plain_lines, of).median))?;
    }
    Ok(())
}

fn lengths(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    const MODULES: usize = 5;
    let pool = Pool::default();
    let mut lift = lift_of(MODULES, &pool)?;
    let mut plain = plain_of(MODULES);
    for len in LENGTHS_BYTES {
        let our = || {
            Ok(nanos_each(ADUS_PER_SAMPLE, |n| {
                carry(&mut lift, &pool, len, n);
            }))
        };
        let their = || {
            Ok(nanos_each(ADUS_PER_SAMPLE, |n| {
                carry_plain(&mut plain, len, n);
            }))
        };
        let (ours, theirs) = alternate(settings.samples, our, their)?;
        let metric = format!("lift_ns_per_adu.modules_{MODULES}.bytes_{len}");
        let figure = Figure::new(ID, metric, "ns", Summary::of(ours));
        report.add(&figure.with_baseline(PLAIN, Summary::of(theirs).median))?;
    }
    Ok(())
}

/// Measures the first ADU of a new pool, which pays for its buffer.
fn first(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let mut samples = Vec::new();
    for _ in 0..settings.samples {
        let pool = Pool::default();
        let mut lift = lift_of(3, &pool)?;
        samples.push(nanos_each(1, |n| carry(&mut lift, &pool, 60_000, n)));
    }
    let figure = Figure::new(
        ID,
        "lift_first_adu_ns.bytes_60000",
        "ns",
        Summary::of(samples),
    );
    report.add(&figure.with_baseline(PUBLISHED, PUBLISHED_FIRST_NS))
}

fn instructions(report: &mut Report) -> anyhow::Result<()> {
    let none = callgrind::instructions_each("lift:0", ADUS_COUNTED)?;
    let all = callgrind::instructions_each(&format!("lift:{MODULES_MAX}"), ADUS_COUNTED)?;
    for (metric, value) in [
        ("lift_instructions_per_adu", none),
        (
            "lift_instructions_per_module",
            (all - none) / MODULES_MAX as f64,
        ),
    ] {
        report.add(&Figure::new(
            ID,
            metric,
            "instructions",
            Summary::exact(value),
        ))?;
    }
    Ok(())
}

fn lift_of(modules: usize, pool: &Pool) -> anyhow::Result<Lift> {
    let modules = (0..modules).map(|_| Box::new(Null) as Box<dyn Module>);
    Lift::new(modules.collect(), pool.clone()).context("building a lift of null modules")
}

fn carry(lift: &mut Lift, pool: &Pool, len_bytes: usize, adus: u64) {
    for sequence in 0..adus {
        let header = Header::new(StreamId(1), Sequence(sequence));
        let packet = Packet::uninit(black_box(header), len_bytes, pool)
            .expect("one packet at a time is within any pool");
        lift.handle_forward(packet, Instant::from_nanos(sequence))
            .expect("each packet is taken out before the next");
        drop(black_box(lift.poll_forward()));
    }
}

/// One stage of the plain baseline.
trait Stage {
    fn pass(&mut self, header: &mut Header, payload: &mut Vec<u8>) -> bool;
}

struct PlainNull;

impl Stage for PlainNull {
    fn pass(&mut self, header: &mut Header, _payload: &mut Vec<u8>) -> bool {
        header.layer < u8::MAX
    }
}

fn plain_of(stages: usize) -> Vec<Box<dyn Stage>> {
    (0..stages)
        .map(|_| black_box(Box::new(PlainNull) as Box<dyn Stage>))
        .collect()
}

fn carry_plain(stages: &mut [Box<dyn Stage>], len_bytes: usize, adus: u64) {
    for sequence in 0..adus {
        let mut header = black_box(Header::new(StreamId(1), Sequence(sequence)));
        let mut payload = Vec::<u8>::with_capacity(black_box(len_bytes));
        let passes = stages
            .iter_mut()
            .all(|stage| stage.pass(&mut header, &mut payload));
        black_box((passes, header, &payload));
    }
}
