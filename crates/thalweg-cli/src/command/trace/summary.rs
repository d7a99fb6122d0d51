//! Statistics of traced ADUs per path: median, 99th percentile and worst per hop.
//!
//! *The idea.* ADUs of one sink and one plan took the same path, so their costs are compared hop by hop.
//! Medians of parts do not add up to the median of the whole, so the whole has a row of its own.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;
use thalweg_base::id::StreamName;
use thalweg_node::{HopCost, TracedAdu};

use crate::table;
use crate::terminal::{Colour, Paint};

/// The longest node name that leaves room for the figures in 80 columns.
const NAME_CHARS_MAX: usize = 20;

/// Traced ADUs.
#[derive(Debug)]
pub struct Summary {
    count: usize,
    sinks: usize,
    adus: Vec<TracedAdu>,
    sequences: BTreeSet<u64>,
}

/// Costs of the ADUs of one path; times are in microseconds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Group {
    /// The last node of the path.
    pub sink: String,
    /// The plan's epoch.
    pub epoch: u32,
    /// How many ADUs were traced.
    pub adus: usize,
    /// How many of them exceeded their budget.
    pub late: usize,
    /// The smallest budget of any of them; `None` without a deadline.
    pub budget_us: Option<u64>,
    /// The whole path.
    pub all: Spread,
    /// Each node of the path, the source first.
    pub hops: Vec<HopSpread>,
}

/// Costs of one hop; times are in microseconds.
#[derive(Debug, PartialEq, Serialize)]
pub struct HopSpread {
    /// The node.
    pub node: String,
    /// The median time on the node, without modules and outbox.
    pub node_us: u64,
    /// The median time in modules.
    pub lift_us: u64,
    /// The median time in the outbox; at the sink, waiting for a mailbox.
    pub wait_us: u64,
    /// The median time on the link to the next node.
    pub link_us: u64,
    /// The whole hop.
    pub all: Spread,
}

/// Median, 99th percentile and worst of some times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[expect(
    clippy::struct_field_names,
    reason = "a number has its unit in its name, on the wire of programs too"
)]
pub struct Spread {
    /// The median.
    pub median_us: u64,
    /// The 99th percentile.
    pub p99_us: u64,
    /// The largest.
    pub worst_us: u64,
}

impl Summary {
    /// Makes an empty summary that is full after `count` ADUs.
    pub fn new(count: u32) -> Self {
        Self {
            count: count as usize,
            sinks: 1,
            adus: Vec::new(),
            sequences: BTreeSet::new(),
        }
    }

    /// Adds an ADU of a stream with `sinks` sinks; returns `false` if it is one more than `count`.
    pub fn add(&mut self, adu: TracedAdu, sinks: u32) -> bool {
        self.sinks = self.sinks.max(sinks as usize);
        if self.sequences.len() == self.count && !self.sequences.contains(&adu.sequence) {
            return false;
        }
        self.sequences.insert(adu.sequence);
        self.adus.push(adu);
        true
    }

    /// Returns whether every sink has reported all requested ADUs.
    pub fn is_full(&self) -> bool {
        self.sequences.len() == self.count && self.adus.len() >= self.count * self.sinks
    }

    pub fn is_empty(&self) -> bool {
        self.adus.is_empty()
    }

    /// Returns the costs by sink and plan.
    pub fn groups(&self) -> Vec<Group> {
        let ways = self.adus.iter().map(|adu| (&adu.sink, adu.epoch));
        let ways: BTreeSet<(&String, u32)> = ways.collect();
        let group = |(sink, epoch): (&String, u32)| {
            let of = |adu: &&TracedAdu| adu.sink == *sink && adu.epoch == epoch;
            Group::of(&self.adus.iter().filter(of).collect::<Vec<_>>())
        };
        ways.into_iter().filter_map(group).collect()
    }

    /// Returns one table per path.
    pub fn describe(&self, stream: &StreamName, colour: Colour) -> String {
        let groups = self.groups();
        let mut text = String::new();
        for group in &groups {
            if !text.is_empty() {
                text.push('\n');
            }
            group.describe(stream, colour, &mut text);
        }
        if groups.is_empty() {
            text.push_str("no ADU was traced\n");
        }
        text
    }
}

impl Group {
    /// Returns the costs of one path's ADUs; `None` without ADUs.
    fn of(adus: &[&TracedAdu]) -> Option<Self> {
        let first = adus.first()?;
        let late = |adu: &&&TracedAdu| adu.budget_us.is_some_and(|budget| adu.sum_us > budget);
        let hops = first.hops.iter().enumerate().map(|(at, hop)| {
            // An ADU reported by another sink of the same name may have fewer hops.
            let costs: Vec<&HopCost> = adus.iter().filter_map(|adu| adu.hops.get(at)).collect();
            let median = |part: fn(&HopCost) -> u64| {
                Spread::of(costs.iter().map(|cost| part(cost)).collect()).median_us
            };
            HopSpread {
                node: hop.node.clone(),
                node_us: median(|cost| cost.node_us),
                lift_us: median(|cost| cost.lift_us),
                wait_us: median(|cost| cost.wait_us),
                link_us: median(|cost| cost.link_us),
                all: Spread::of(costs.iter().map(|cost| sum(cost)).collect()),
            }
        });
        Some(Self {
            sink: first.sink.clone(),
            epoch: first.epoch,
            adus: adus.len(),
            late: adus.iter().filter(late).count(),
            budget_us: adus.iter().filter_map(|adu| adu.budget_us).min(),
            all: Spread::of(adus.iter().map(|adu| adu.sum_us).collect()),
            hops: hops.collect(),
        })
    }

    fn describe(&self, stream: &StreamName, colour: Colour, text: &mut String) {
        let head = format!("{stream} to {}", short(&self.sink));
        let _ = writeln!(
            text,
            "{}, plan {}: {} ADUs, times in ms",
            colour.paint(Paint::Bold, &head),
            self.epoch,
            self.adus
        );
        let titles = [
            "node", "in node", "lift", "wait", "link", "all", "p99", "worst",
        ];
        let mut rows = vec![titles.map(String::from)];
        for hop in &self.hops {
            let parts = [hop.node_us, hop.lift_us, hop.wait_us, hop.link_us];
            let [own, lift, wait, link] = parts.map(millis);
            let [all, p99, worst] = hop.all.cells();
            rows.push([short(&hop.node), own, lift, wait, link, all, p99, worst]);
        }
        let parts: [fn(&HopSpread) -> u64; 4] = [
            |hop| hop.node_us,
            |hop| hop.lift_us,
            |hop| hop.wait_us,
            |hop| hop.link_us,
        ];
        let [own, lift, wait, link] =
            parts.map(|part| millis(self.hops.iter().map(part).sum::<u64>()));
        let [all, p99, worst] = self.all.cells();
        rows.push(["all".into(), own, lift, wait, link, all, p99, worst]);
        text.push_str(&table::lay_out(&rows, colour));
        let Some(budget) = self.budget_us.filter(|budget| *budget > 0) else {
            return text.push_str("it has no deadline\n");
        };
        let share = |spent: u64| format!("{:.0} %", spent as f64 / budget as f64 * 100.0);
        let worst = share(self.all.worst_us);
        let paint = match self.all.worst_us * 2 / budget {
            0 => Paint::Green,
            1 => Paint::Yellow,
            _ => Paint::Red,
        };
        let _ = writeln!(
            text,
            "of the budget of {} ms: the median uses {}, the worst {}; {} late",
            millis(budget),
            share(self.all.median_us),
            colour.paint(paint, &worst),
            self.late
        );
    }
}

impl Spread {
    /// Returns the spread of some times, by nearest rank; zero for none.
    pub fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let rank = |percent: usize| {
            let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(at).copied().unwrap_or_default()
        };
        Self {
            median_us: rank(50),
            p99_us: rank(99),
            worst_us: rank(100),
        }
    }

    fn cells(self) -> [String; 3] {
        [self.median_us, self.p99_us, self.worst_us].map(millis)
    }
}

fn sum(cost: &HopCost) -> u64 {
    cost.node_us + cost.lift_us + cost.wait_us + cost.link_us
}

/// Formats a time with as many digits as are meaningful.
fn millis(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{:.2}", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{:.1}", micros as f64 / 1e3),
        _ => format!("{:.0}", micros as f64 / 1e3),
    }
}

/// Returns a node's name, cut to fit the table.
fn short(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS_MAX {
        return name.into();
    }
    let kept: String = name.chars().take(NAME_CHARS_MAX - 1).collect();
    kept + "…"
}
