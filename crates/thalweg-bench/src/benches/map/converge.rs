//! NET-CONV: how soon a stream takes another path, and every node's map is right, by the number of nodes.
//!
//! A stream between two random nodes takes the path of the fewest hops; the link in its middle fails,
//! which both its ends learn at once. `repath_ms` is the time until the source sends over another path
//! with all parts installed; `spread_ms` until all nodes know of the failure; `frames_per_change` is
//! the number of frames that all nodes sent for it. Under `churn` another random link fails or comes up
//! four times a second meanwhile.
//!
//! Baselines: the propagation delays alone, from the cut to the source, and from there to the sink and
//! back over the new path; from the cut to the farthest node; and two plain floods, one for the record
//! of each end. `memory_mb_per_node` is the growth of a process that keeps a map of that size; its
//! baseline is the records' bytes.

use anyhow::Context as _;
use thalweg_base::id::{NodeId, StreamName};
use thalweg_base::needs::Needs;
use thalweg_base::random::SplitMix;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::Bitrate;
use thalweg_control::control::Publication;
use thalweg_sim::flood::{Flood, Shape};

use super::network::{RATE, distances, frames_of_flood};
use super::{sizes, wide};
use crate::report::{Figure, Report};
use crate::sample::Summary;
use crate::{Settings, progress};

/// The benchmark's id.
pub(crate) const ID: &str = "NET-CONV";

/// Its metrics' names.
pub(crate) const METRICS: &[&str] = &[
    "repath_ms",
    "spread_ms",
    "frames_per_change",
    "memory_mb_per_node",
];

/// Changes per network in a full run.
const CHANGES: usize = 20;

/// The same in a quick run.
const CHANGES_QUICK: usize = 3;

/// How long a change may take.
const GIVEN: Duration = Duration::from_secs(10);

/// Interval between checks whether all nodes know.
const STEP: Duration = Duration::from_millis(1);

/// Interval between changes under churn.
const CHURN_EVERY: Duration = Duration::from_millis(250);

/// The times of one change; the first of each pair is measured, the second its lower bound.
struct Change {
    repath: [Duration; 2],
    spread: [Duration; 2],
    frames: f64,
}

/// Measures network by network.
///
/// Fails   a stream gets no path though there is one
pub(crate) fn run(settings: &Settings, report: &mut Report) -> anyhow::Result<()> {
    let changes = if settings.is_quick {
        CHANGES_QUICK
    } else {
        CHANGES
    };
    for nodes in sizes(settings.is_quick) {
        progress::show(format_args!("{ID}: {nodes} nodes"));
        let shape = Shape::grown(*nodes, RATE, 2);
        let mut lab = Lab::new(&shape);
        for (case, is_churning) in [("", false), (".churn", true)] {
            let found: Vec<Change> = (0..changes)
                .map(|_| lab.change(is_churning))
                .collect::<anyhow::Result<_>>()?;
            add(&shape, &found, case, report)?;
        }
    }
    wide::converge(ID, report)
}

fn add(shape: &Shape, found: &[Change], case: &str, report: &mut Report) -> anyhow::Result<()> {
    let nodes = shape.nodes;
    let of = |pick: &dyn Fn(&Change) -> f64| Summary::of(found.iter().map(pick).collect());
    let light = |pick: &dyn Fn(&Change) -> f64| of(pick).median;
    let metric = format!("repath_ms.nodes_{nodes}{case}");
    let figure = Figure::new(ID, metric, "ms", of(&|c| c.repath[0].as_millis_f64()));
    report.add(&figure.with_baseline("light", light(&|c| c.repath[1].as_millis_f64())))?;
    if !case.is_empty() {
        // Under churn some node is always behind.
        return Ok(());
    }
    let metric = format!("spread_ms.nodes_{nodes}");
    let figure = Figure::new(ID, metric, "ms", of(&|c| c.spread[0].as_millis_f64()));
    report.add(&figure.with_baseline("light", light(&|c| c.spread[1].as_millis_f64())))?;
    let metric = format!("frames_per_change.nodes_{nodes}");
    let figure = Figure::new(ID, metric, "1", of(&|c| c.frames));
    report.add(&figure.with_baseline("two plain floods", 2.0 * frames_of_flood(shape) as f64))
}

/// A network under change.
struct Lab<'s> {
    shape: &'s Shape,
    flood: Flood,
    rng: SplitMix,
    streams: u64,
}

impl<'s> Lab<'s> {
    fn new(shape: &'s Shape) -> Self {
        let mut flood = Flood::start(shape, 2);
        flood.pass(Duration::from_secs(120));
        Self {
            shape,
            flood,
            rng: SplitMix::new(2),
            streams: 0,
        }
    }

    /// Cuts a link under a stream, and restores everything afterwards.
    fn change(&mut self, is_churning: bool) -> anyhow::Result<Change> {
        self.streams += 1;
        let (source, sink, link) = self.draw();
        let name: StreamName = format!("stream{}", self.streams).parse()?;
        let publication = publication(name.clone());
        let published = self.flood.at(source, |control, now, keys| {
            control.publish(publication, None, now, keys)
        });
        let stream = published.context("nodes run")??;
        self.flood.subscribe(sink, &name);
        self.flood.pass(GIVEN);
        let (_, before) = self
            .flood
            .active(source, stream)
            .context("it is planned")?
            .clone();
        let frames = self.flood.traffic_of_all().frames;
        let cut = self.flood.now();
        self.flood.cut(link);
        let spread = self.until_known(link, is_churning)?;
        let frames = (self.flood.traffic_of_all().frames - frames) as f64;
        let (since, after) = self.until_moved(source, stream, &before)?;
        anyhow::ensure!(after != before, "the stream did not move");
        let light = self.light(source, sink, link)?;
        let change = Change {
            repath: [since.saturating_since(cut), light[0]],
            spread: [spread.saturating_since(cut), light[1]],
            frames,
        };
        self.flood.at(source, |control, now, keys| {
            control.unpublish(stream, now, keys);
        });
        (0..self.shape.wires.len()).for_each(|link| self.flood.heal(link));
        self.flood.pass(GIVEN);
        Ok(change)
    }

    /// Draws two nodes at least two hops apart, and the link in the middle of their path, if there is
    /// another path.
    fn draw(&mut self) -> (usize, usize, usize) {
        loop {
            let mut draw = || self.rng.next_below(self.shape.nodes as u64) as usize;
            let (source, sink) = (draw(), draw());
            let Some(way) = self.way(source, sink).filter(|way| way.len() > 2) else {
                continue;
            };
            let middle = &way[way.len() / 2 - 1..=way.len() / 2];
            let joins =
                |ends: [usize; 2]| ends.iter().all(|end| middle.contains(&self.flood.id(*end)));
            let link = self.shape.wires.iter().position(|wire| joins(wire.ends));
            if let Some(link) = link
                && distances(self.shape, source, Some(link))[sink].is_some()
            {
                return (source, sink, link);
            }
        }
    }

    fn way(&self, source: usize, sink: usize) -> Option<Vec<NodeId>> {
        let directory = self.flood.controller(source)?.directory();
        directory.path(self.flood.id(source), self.flood.id(sink))
    }

    /// Runs until no node has the link on its map; under churn for a second.
    fn until_known(&mut self, link: usize, is_churning: bool) -> anyhow::Result<Instant> {
        if is_churning {
            for _ in 0..4 {
                let other = self.rng.next_below(self.shape.wires.len() as u64) as usize;
                let is_up = self
                    .flood
                    .links()
                    .nth(other)
                    .is_some_and(|(_, is_up)| is_up);
                match is_up {
                    _ if other == link => {}
                    true => self.flood.cut(other),
                    false => self.flood.heal(other),
                }
                self.flood.pass(CHURN_EVERY);
            }
            return Ok(self.flood.now());
        }
        let [near, far] = self.shape.wires[link].ends.map(|end| self.flood.id(end));
        let give_up = self.flood.now() + GIVEN;
        while self.flood.now() < give_up {
            self.flood.pass(STEP);
            let mut controls = (0..self.shape.nodes).filter_map(|at| self.flood.controller(at));
            if controls.all(|control| {
                let directory = control.directory();
                let lists = |from, to| {
                    let record = directory.record(from);
                    record.is_none_or(|record| record.neighbour(to).is_some())
                };
                !lists(near, far) && !lists(far, near)
            }) {
                return Ok(self.flood.now());
            }
        }
        anyhow::bail!("not every node knows after {GIVEN}")
    }

    fn until_moved(
        &mut self,
        source: usize,
        stream: thalweg_base::id::StreamId,
        before: &[thalweg_base::id::Epoch],
    ) -> anyhow::Result<(Instant, Vec<thalweg_base::id::Epoch>)> {
        let give_up = self.flood.now() + GIVEN;
        loop {
            let active = self.flood.active(source, stream).context("it is planned")?;
            if active.1 != before && !active.1.is_empty() || self.flood.now() >= give_up {
                return Ok(active.clone());
            }
            self.flood.pass(STEP);
        }
    }

    /// Returns the lower bounds by propagation delay, for the stream to move and for all nodes to know.
    fn light(&self, source: usize, sink: usize, link: usize) -> anyhow::Result<[Duration; 2]> {
        let ends = self.shape.wires[link].ends;
        let from = ends.map(|end| distances(self.shape, end, Some(link)));
        let nearer = from.iter().filter_map(|all| all[source]).min();
        let there = distances(self.shape, source, Some(link))[sink].context("another way")?;
        let farthest = from.iter().flat_map(|all| all.iter().flatten()).max();
        let told = nearer.context("the source is near one end")?;
        Ok([told + there + there, *farthest.context("there are nodes")?])
    }
}

fn publication(name: StreamName) -> Publication {
    Publication {
        needs: Needs::default(),
        pack_ratio: None,
        planner: None,
        ..Publication::new(name, Bitrate::from_kbps(100))
    }
}
