//! One run of a side over a line, from building the network to the recorded arrivals.
//!
//! Every run has a new network, without queues, path metrics or ports of the previous run. What a run
//! builds carries the process's id, so that the next run finds what a killed one left; on a signal the
//! process removes its own.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, Once};

use anyhow::Context as _;
use thalweg_base::time::{Duration, Instant};
use thalweg_netem::{Impairment, LineCounters};
use thalweg_planner::model::{NodeName, World};
use thalweg_testbed::network::{Network, addresses_of};
use thalweg_testbed::system::owner::Owner;
use thalweg_testbed::system::{clock, inside, leftovers, privilege};
use tokio::signal::unix::{SignalKind, signal};

use super::condition::{self, Condition};
use super::end::{BEGIN, OVER, READY, TAIL, UP, WORD, sleep_until};
use super::process::Process;
use super::recording::{self, Arrival, Recording};
use super::schedule::Schedule;
use super::sides::Side;

/// How long an end may take to start, and the two to connect.
const START_MAX: std::time::Duration = std::time::Duration::from_secs(20);

/// Time from the `begin` line until time zero: both processes are asleep by then.
const LEAD: Duration = Duration::from_millis(100);

/// How much longer than its schedule a sender may take to finish.
const OVER_MAX: Duration = Duration::from_secs(15);

/// What to carry, by which side, over which line.
pub(super) struct Play<'a> {
    pub(super) condition: Condition,
    pub(super) side: &'a dyn Side,
    pub(super) schedule: &'a Schedule,
    /// How long an ADU is useful.
    pub(super) budget: Duration,
    /// Number of lines between the two ends.
    pub(super) lines: usize,
    /// Whether the side knows only the first line and uses one connection; otherwise it knows all.
    pub(super) is_alone: bool,
    /// Changes of a line during the run.
    pub(super) events: &'a [Event],
    /// Determines which packets are lost.
    pub(super) seed: u64,
}

/// A change of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    /// Time since the beginning.
    pub(super) at: Duration,
    /// Index of the line.
    pub(super) line: usize,
    /// Its impairment from then on.
    pub(super) impairment: Impairment,
}

/// Bulk senders.
#[derive(Clone, Copy)]
pub(super) struct Bulk<'a> {
    pub(super) side: &'a dyn Side,
    /// Number of connections.
    pub(super) flows: u32,
}

/// Checks that runs with these programs are possible here, and removes what killed runs left.
///
/// Fails   in one sentence with what is missing: root, a program and its package, a device
pub(crate) fn prepare(tools: &[privilege::Tool]) -> anyhow::Result<()> {
    static HEARS: Once = Once::new();
    privilege::check(tools)?;
    if let Some(sentence) = leftovers::remove_orphans()?.sentence() {
        eprintln!("thalweg-bench: {sentence}");
    }
    HEARS.call_once(|| {
        std::thread::spawn(remove_on_signal);
    });
    Ok(())
}

/// Held while building a network, and while removing what was built until the process ends.
static BUILDING: Mutex<()> = Mutex::new(());

/// Builds a network. A build that has begun completes before it can be removed.
///
/// Fails   the network cannot be built
pub(crate) fn build_network(world: &World, seed: u64) -> anyhow::Result<Network> {
    let _held = BUILDING.lock();
    Network::build(world, seed)
}

/// Waits, if the networks are being removed, until the process ends: a failure meanwhile is a
/// consequence of that.
pub(crate) fn wait_for_removal() {
    drop(BUILDING.lock());
}

/// Waits for a signal to end, removes the networks built by this process, and exits.
fn remove_on_signal() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    let asked = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
        std::io::Result::Ok(())
    });
    if asked.is_ok() {
        let _held = BUILDING.lock();
        let removed = leftovers::remove_of(Owner::this());
        crate::progress::clear();
        eprintln!("thalweg-bench: interrupted; the network has been removed");
        if let Err(error) = removed {
            eprintln!("thalweg-bench: not completely: {error:#}");
        }
        std::process::exit(1);
    }
}

impl Play<'_> {
    /// Runs and returns the recording.
    ///
    /// Fails   the network cannot be built, or an end fails, which prints its error on standard error
    pub(super) fn record(&self) -> anyhow::Result<Recording> {
        let mut stage = Stage::build(self.condition, self.lines, self.seed)?;
        stage.is_alone = self.is_alone;
        let schedule = stage.file("schedule");
        self.schedule.write(&schedule)?;
        let mut receiver = stage.receiver(self.side, "arrivals")?;
        let peer = receiver.read_line(READY, START_MAX)?;
        let mut sender = stage.sender(self.side, "send", &peer);
        sender.arg("--file").arg(&schedule);
        sender.args(["--millis", &self.budget.as_millis().to_string()]);
        let mut sender = Process::start(sender, format!("sender of {}", self.side.name()))?;
        receiver.read_line(UP, START_MAX)?;
        sender.read_line(READY, START_MAX)?;
        let before = stage.passed();
        let begin = clock::now() + LEAD;
        sender.send_line(&format!("{BEGIN} {}", begin.as_nanos()))?;
        for event in self.events {
            sleep_until(begin + event.at);
            stage.network.emulator().set(event.line, event.impairment);
        }
        sleep_until(begin + self.schedule.length());
        let [meanwhile, _] = since(stage.passed(), before);
        let most = TAIL + OVER_MAX;
        sender.read_line(OVER, most.into())?;
        let arrivals = finish(&mut receiver, &stage.file("arrivals"))?;
        let mut recording = Recording::new(self.schedule, begin, &arrivals);
        recording.passed = since(stage.passed(), before);
        recording.meanwhile = meanwhile;
        recording.late = stage.network.emulator().lateness().most();
        drop((sender, receiver));
        stage.network.tear_down()?;
        Ok(recording)
    }
}

/// Sends bulk with all of these over one line; returns the begin and the arrivals of each.
///
/// Fails   as [`Play::record`]
pub(super) fn send_bulk(
    condition: Condition,
    bulks: &[Bulk<'_>],
    length: Duration,
    seed: u64,
) -> anyhow::Result<(Instant, Vec<Vec<Arrival>>)> {
    let stage = Stage::build(condition, 1, seed)?;
    let mut ends = Vec::new();
    for (place, Bulk { side, flows }) in bulks.iter().enumerate() {
        let receiver = stage.receiver(*side, &format!("arrivals{place}"))?;
        let peer = receiver.read_line(READY, START_MAX)?;
        let mut sender = stage.sender(*side, "bulk", &peer);
        sender.args(["--file", "none", "--flows", &flows.to_string()]);
        sender.args(["--millis", &length.as_millis().to_string()]);
        let sender = Process::start(sender, format!("sender of {}", side.name()))?;
        receiver.read_line(UP, START_MAX)?;
        sender.read_line(READY, START_MAX)?;
        ends.push((sender, receiver));
    }
    let begin = clock::now() + LEAD;
    for (sender, _) in &mut ends {
        sender.send_line(&format!("{BEGIN} {}", begin.as_nanos()))?;
    }
    let most = length + TAIL + OVER_MAX;
    for (sender, _) in &ends {
        sender.read_line(OVER, most.into())?;
    }
    let arrivals = ends.iter_mut().enumerate().map(|(place, (_, receiver))| {
        let file = stage.file(&format!("arrivals{place}"));
        finish(receiver, &file)
    });
    let arrivals = arrivals.collect::<anyhow::Result<Vec<_>>>()?;
    drop(ends);
    stage.network.tear_down()?;
    Ok((begin, arrivals))
}

/// Makes a receiver write its arrivals, and reads them.
fn finish(receiver: &mut Process, file: &std::path::Path) -> anyhow::Result<Vec<Arrival>> {
    receiver.close();
    receiver.read_line(OVER, START_MAX)?;
    recording::read(file)
}

/// The two namespaces and the line between them.
struct Stage {
    network: Network,
    program: PathBuf,
    lines: usize,
    is_alone: bool,
}

impl Stage {
    fn build(condition: Condition, lines: usize, seed: u64) -> anyhow::Result<Self> {
        Ok(Self {
            network: build_network(&condition.world(lines), seed)
                .context("the line cannot be built")?,
            program: inside::this_program()?,
            lines,
            is_alone: false,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.network.folder().join(name)
    }

    /// Returns the counters of the first line, from the sender and back.
    fn passed(&self) -> [LineCounters; 2] {
        let counters = self.network.emulator().counters();
        counters.first().copied().unwrap_or_default()
    }

    fn receiver(&self, side: &dyn Side, file: &str) -> anyhow::Result<Process> {
        let mut command = self.end(&condition::receiver(), side, "receive", 1)?;
        command.arg("--file").arg(self.file(file));
        Process::start(command, format!("receiver of {}", side.name()))
    }

    fn sender(&self, side: &dyn Side, part: &str, peer: &str) -> Command {
        let command = self.end(&condition::sender(), side, part, 0);
        let mut command = command.expect("this program knew its own path before");
        command.args(["--peer", peer]);
        command
    }

    fn end(
        &self,
        node: &NodeName,
        side: &dyn Side,
        part: &str,
        place: usize,
    ) -> anyhow::Result<Command> {
        let program = self.program.to_string_lossy();
        let mut command = self.network.command(node, &program)?;
        command.arg(WORD);
        command.args(["--side", side.name(), "--part", part]);
        let told = if self.is_alone { 1 } else { self.lines };
        for line in 0..told {
            let own = addresses_of(line).ends[place].to_string();
            command.args(["--own", &own]);
        }
        if self.is_alone {
            command.arg("--alone");
        }
        Ok(command)
    }
}

/// Returns the difference of two counter readings.
fn since(after: [LineCounters; 2], before: [LineCounters; 2]) -> [LineCounters; 2] {
    [0, 1].map(|way| {
        let mut passed = after[way];
        passed.offered -= before[way].offered;
        passed.packets -= before[way].packets;
        passed.bytes -= before[way].bytes;
        passed.lost -= before[way].lost;
        passed.overflowed -= before[way].overflowed;
        passed.cut -= before[way].cut;
        passed
    })
}
