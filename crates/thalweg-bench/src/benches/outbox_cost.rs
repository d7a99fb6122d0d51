//! OUT-COST: the outbox's cost per ADU, by the length of the queue.
//!
//! With 10, 1,000 and 100,000 ADUs queued, one goes in and one goes out, over and over, so that the
//! number stays. That covers all of the outbox's work for an ADU: its turn, its order, its deadline,
//! its dependants, its bounds.
//!
//! *Baseline.* A `BinaryHeap` of the standard library with the same order: importance, deadline,
//! sequence. It has no flows and no turns, and cannot cancel, expire or pre-empt; it is the minimum
//! cost of a queue by importance. The sides alternate.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;

use thalweg_base::adu::Importance;
use thalweg_base::id::Sequence;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};

use crate::Settings;
use crate::crowd::{Crowd, SortKeys};
use crate::report::{Figure, Report};
use crate::sample::{Summary, alternate, nanos_each};

/// The benchmark's id.
pub(crate) const ID: &str = "OUT-COST";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &["adus_per_second", "ns_per_adu"];

const HEAP: &str = "BinaryHeap";

const QUEUED: [u64; 3] = [10, 1_000, 100_000];

/// A sample takes less than a millisecond: short against a time slice, so most are not interrupted.
const ADUS_PER_SAMPLE: u64 = 2_000;

/// The baseline, with the state of its input generator.
struct Heap {
    waiting: BinaryHeap<(Importance, Reverse<(Instant, Sequence)>)>,
    random: SplitMix,
    sequence: u64,
    now: Instant,
}

/// Measures and reports.
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    for queued in QUEUED {
        let (mut crowd, mut heap) = (Crowd::new(queued), Heap::new(queued));
        let our = || {
            Ok(nanos_each(ADUS_PER_SAMPLE, |adus| {
                for _ in 0..adus {
                    black_box(crowd.pass());
                }
            }))
        };
        let their = || {
            Ok(nanos_each(ADUS_PER_SAMPLE, |adus| {
                for _ in 0..adus {
                    heap.pass();
                }
            }))
        };
        let (ours, theirs) = alternate(settings.samples, our, their)?;
        let a_second = |nanos: &Vec<f64>| Summary::of(nanos.iter().map(|ns| 1e9 / ns).collect());
        let rate = Figure::new(
            ID,
            format!("adus_per_second.queued_{queued}"),
            "1/s",
            a_second(&ours),
        );
        report.add(&rate.with_baseline(HEAP, a_second(&theirs).median))?;
        let cost = Figure::new(
            ID,
            format!("ns_per_adu.queued_{queued}"),
            "ns",
            Summary::of(ours),
        );
        report.add(&cost.with_baseline(HEAP, Summary::of(theirs).median))?;
    }
    Ok(())
}

impl Heap {
    fn new(queued: u64) -> Self {
        let mut heap = Self {
            waiting: BinaryHeap::new(),
            random: SplitMix::new(1),
            sequence: 0,
            now: Instant::ZERO,
        };
        for _ in 0..queued {
            heap.push();
        }
        heap
    }

    fn pass(&mut self) {
        self.now = self.now + Duration::from_nanos(10);
        self.push();
        black_box(self.waiting.pop());
    }

    fn push(&mut self) {
        self.sequence += 1;
        let worth = SortKeys::draw(&mut self.random, self.sequence, self.now);
        let order = Reverse((worth.deadline, worth.sequence));
        self.waiting.push((worth.importance, order));
    }
}
