//! Runs a world on the real kernel, from its first packet to the report.
//!
//! The sequence is defined here alone, and is the simulator's: nodes start, producers publish and sinks
//! subscribe, and the world's time begins; links and nodes change at the world's events; at its end
//! producers end their streams, and what is in flight is waited for. All times are bounded.
//!
//! ```text
//! network ─► nodes listen ─► roles ready ─► world begins … events … world ends
//!         ─► streams end ─► nodes stop ─► report
//! ```
//!
//! The run does not wait for plans: ADUs given before the first plan are reported as `no-subscriber`,
//! as in the simulator. A world that is not about its first seconds starts its streams later.

mod ledger;
mod roles;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration as StdDuration;

use anyhow::Context as _;
use thalweg_base::time::{Duration, Instant};
use thalweg_netem::Impairment;
use thalweg_planner::model::{Change, Event, Link, NodeAction, NodeName, World};
use thalweg_sim::film::Film;
use thalweg_sim::report::{LinkReport, Player, Report};

use ledger::Ledger;
use roles::Roles;

use crate::fabric::Fabric;
use crate::network::Network;
use crate::score::{self, Score};
use crate::system::clock;

/// Interval between status polls, short enough to lose little when a node crashes or a stream ends.
const LOOK: StdDuration = StdDuration::from_millis(500);

/// How long after the world's end its streams may end: a publisher waits twice 30 s for ADUs without a
/// deadline.
const SETTLE_MAX: StdDuration = StdDuration::from_secs(70);

/// Time between the `begin` line and the world's beginning, so that all roles have read it.
const LEAD: Duration = Duration::from_millis(50);

/// How a world is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Determines the lines' random behaviour.
    pub seed: u64,
    /// The program `thalweg`.
    pub program: PathBuf,
    /// Folder for the nodes' logs and the roles' notes.
    pub logs: Option<PathBuf>,
}

/// The results of a run.
#[derive(Debug)]
pub struct Played {
    /// The report on its streams.
    pub report: Report,
    /// Remarks on the run for the report's reader, one sentence each.
    pub remarks: Vec<String>,
}

/// Films the video streams of a world.
///
/// Fails   a layer is too small for the codec
pub fn films(world: &World) -> anyhow::Result<Vec<Option<Arc<Film>>>> {
    let streams = world.streams.iter();
    let film = |video: bool, stream| video.then(|| Film::new(stream).map(Arc::new)).transpose();
    let films = streams.map(|stream| film(stream.traffic.video, stream));
    Ok(films.collect::<Result<_, _>>()?)
}

/// Runs a world.
///
/// Fails   the network cannot be built, a node does not start, or a role does not answer; everything is
///         removed then
pub async fn play(
    world: &World,
    name: &str,
    films: &[Option<Arc<Film>>],
    options: &Options,
) -> anyhow::Result<Played> {
    let network = Network::build(world, options.seed)?;
    let mut fabric = Fabric::lay_out(&network, &options.program)?;
    let played = run(&network, &mut fabric, name, films, options).await;
    fabric.stop_all().await;
    if let Some(logs) = &options.logs {
        fabric.copy_logs(logs)?;
        keep_notes(&network, logs)?;
    }
    drop(fabric);
    let played = played?;
    network.tear_down()?;
    Ok(played)
}

/// Copies the roles' notes: `STREAM.0.notes` of the producer, `STREAM.1.notes` of the first sink.
fn keep_notes(network: &Network, folder: &Path) -> anyhow::Result<()> {
    for (place, stream) in network.world().streams.iter().enumerate() {
        for number in 0..=stream.to.len() {
            let name = format!("{place}.{number}.notes");
            let notes = network.folder().join(&name);
            if notes.exists() {
                let kept = fs::copy(notes, folder.join(&name));
                kept.with_context(|| format!("cannot keep {name}"))?;
            }
        }
    }
    Ok(())
}

async fn run(
    network: &Network,
    fabric: &mut Fabric<'_>,
    name: &str,
    films: &[Option<Arc<Film>>],
    options: &Options,
) -> anyhow::Result<Played> {
    let world = network.world();
    fabric.start_all().await?;
    let mut roles = Roles::start(network, fabric)?;
    roles.ready().await?;
    let begin = clock::now() + LEAD;
    roles.begin(begin).await?;
    let mut ledger = Ledger::default();
    let mut remarks = initial_remarks(world);
    run_events(
        network,
        fabric,
        &mut roles,
        &mut ledger,
        &mut remarks,
        begin,
    )
    .await?;
    roles.settle().await;
    ledger.handle_status(&fabric.status().await);
    roles.end().await;
    for (node, stream, summary) in roles.summaries().await {
        ledger.handle_summary(&node, &stream, &summary);
    }
    let lateness = network.emulator().lateness();
    remarks.push(format!(
        "the emulator let 99 % of packets out within {:.2} ms of their moment, and all within {:.2} ms",
        lateness.within(0.99).as_millis_f64(),
        lateness.most().as_millis_f64(),
    ));
    let mut report = Report {
        world: name.to_owned(),
        by: Player::Testbed,
        seed: options.seed,
        seconds: world.length().as_secs_f64(),
        trace_hash: None,
        streams: Vec::new(),
        links: links(network),
        violations: ledger.exposures(world),
    };
    for (stream, film) in world.streams.iter().zip(films) {
        let sent = roles.given(stream)?;
        for sink in &stream.to {
            let received = roles.received(stream, sink)?;
            let drops = ledger.drops(stream.name.as_str());
            let Score { stream, violations } = score::score(
                stream,
                sink.as_str(),
                &sent,
                &received,
                &drops,
                film.clone(),
            )?;
            report.streams.push(stream);
            report.violations.extend(violations);
        }
    }
    Ok(Played { report, remarks })
}

/// Runs the world to its end, and its streams to theirs.
async fn run_events(
    network: &Network,
    fabric: &mut Fabric<'_>,
    roles: &mut Roles,
    ledger: &mut Ledger,
    remarks: &mut Vec<String>,
    begin: Instant,
) -> anyhow::Result<()> {
    let mut events = WorldEvents::new(network.world());
    let end = begin + network.world().length();
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let now = clock::now();
        let until = |moment: Instant| tokio::time::sleep(moment.saturating_since(now).into());
        let next = events.next().map_or(end, |time| begin + time);
        tokio::select! {
            biased;
            () = until(next), if next < end || now < end => {
                while let Some(event) = events.due(clock::now().saturating_since(begin)) {
                    change(network, fabric, ledger, &mut events, &event).await?;
                }
            }
            _ = look.tick() => {
                ledger.handle_status(&fabric.status().await);
                for (node, said) in fabric.unexpected_exits() {
                    remarks.push(format!("node `{node}` exited unexpectedly: {said}"));
                }
            }
            () = roles.producers_end(), if now >= end => return Ok(()),
            () = until(end + Duration::from(SETTLE_MAX)) => {
                remarks.push(format!("not every stream ended within {} s after the world", SETTLE_MAX.as_secs()));
                return Ok(());
            }
        }
    }
}

/// The current links, and the events to come.
struct WorldEvents {
    links: Vec<Link>,
    /// In reverse order: the last is the next.
    events: Vec<Event>,
}

impl WorldEvents {
    fn new(world: &World) -> Self {
        let mut events = world.events.clone();
        events.sort_by_key(|event| event.time);
        events.reverse();
        Self {
            links: world.links.clone(),
            events,
        }
    }

    fn next(&self) -> Option<Duration> {
        self.events.last().map(|event| event.time)
    }

    fn due(&mut self, since: Duration) -> Option<Event> {
        self.next().filter(|time| *time <= since)?;
        self.events.pop()
    }
}

async fn change(
    network: &Network,
    fabric: &mut Fabric<'_>,
    ledger: &mut Ledger,
    events: &mut WorldEvents,
    event: &Event,
) -> anyhow::Result<()> {
    match &event.change {
        Change::Link { ends, set } => {
            for (number, link) in events.links.iter_mut().enumerate() {
                if link.joins(ends) {
                    link.apply(set);
                    network.emulator().set(number, Impairment::from(&*link));
                }
            }
        }
        Change::Node { name, action } => {
            if *action != NodeAction::Start {
                ledger.handle_status(&fabric.status().await);
            }
            let acted = fabric.act(name, *action).await;
            if acted.with_context(|| format!("node `{name}`"))? {
                ledger.handle_restart(name);
            }
        }
    }
    Ok(())
}

fn initial_remarks(world: &World) -> Vec<String> {
    let named = |names: Vec<&NodeName>| {
        let names: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let skewed = world
        .nodes
        .iter()
        .filter(|(_, node)| node.clock_offset != Duration::ZERO || node.clock_drift_ppm != 0);
    let slow = world
        .nodes
        .iter()
        .filter(|(_, node)| node.copy_time > Duration::ZERO);
    let withholding = world.events.iter().filter_map(|event| match &event.change {
        Change::Node {
            name,
            action: NodeAction::Withhold(_),
        } => Some(name),
        _ => None,
    });
    let stalled = world.events.iter().filter_map(|event| match &event.change {
        Change::Node {
            name,
            action: NodeAction::Stall,
        } => Some(name),
        _ => None,
    });
    let republished = world.events.iter().filter_map(|event| match &event.change {
        Change::Node {
            name,
            action: NodeAction::Republish,
        } => Some(name),
        _ => None,
    });
    let publishing = named(republished.collect())
        .map(|of| format!("killed publishers, as on {of}, exist only in the simulator"));
    let reading = named(stalled.collect())
        .map(|of| format!("stalled consumers, as on {of}, exist only in the simulator"));
    let clocks = named(skewed.map(|(name, _)| name).collect())
        .map(|of| format!("skewed clocks, as of {of}, exist only in the simulator"));
    let slow = named(slow.map(|(name, _)| name).collect())
        .map(|of| format!("slow processors, as of {of}, exist only in the simulator"));
    let passing = named(withholding.collect())
        .map(|of| format!("withholding nodes, as {of}, exist only in the simulator"));
    clocks
        .into_iter()
        .chain(slow)
        .chain(passing)
        .chain(reading)
        .chain(publishing)
        .collect()
}

fn links(network: &Network) -> Vec<LinkReport> {
    let counters = network.emulator().counters();
    let links = network.world().links.iter().zip(counters);
    links
        .flat_map(|(link, counters)| {
            let [a, b] = &link.ends;
            [(a, b), (b, a)].into_iter().zip(counters)
        })
        .map(|((from, to), counters)| LinkReport {
            from: from.to_string(),
            to: to.to_string(),
            packets: counters.packets,
            bytes: counters.bytes,
            lost: counters.lost + counters.cut,
            overflowed: counters.overflowed,
        })
        .collect()
}
