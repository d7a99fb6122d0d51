//! Plays a range of seeds on all cores.
//!
//! *The idea.* Threads take the next seed from a counter and send their results to one collector,
//! which puts them in order; so the output does not depend on the number of cores. After the first
//! broken law no further seed is played.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use thalweg_sim::report::{Player, Report};

use super::{Arguments, Seeds, Timed, Worlds, describe, judge};
use crate::exit::{Code, Failure, Outcome};
use crate::terminal::{self, Colour, is_drawn_on};

/// Finished seeds per core that may wait for an earlier one: a slow seed delays this many.
const AHEAD_PER_CORE: usize = 256;

/// Plays all seeds.
pub(super) fn run(worlds: &Worlds<'_>, seeds: Seeds, arguments: &Arguments) -> Outcome {
    let start = Instant::now();
    let bar = progress(seeds);
    let (next, stop) = (AtomicU64::new(seeds.first), AtomicBool::new(false));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (results, arrived) = mpsc::sync_channel(AHEAD_PER_CORE * cores);
    let work = |results: mpsc::SyncSender<(u64, Result<Timed, Failure>)>| {
        while !stop.load(Relaxed) {
            let seed = next.fetch_add(1, Relaxed);
            // The collector is gone once a law was broken.
            if seed >= seeds.end || results.send((seed, play(worlds, seed, arguments))).is_err() {
                return;
            }
        }
    };
    let mut gathered = Gathered::default();
    let outcome = std::thread::scope(|scope| {
        for _ in 0..cores {
            let results = results.clone();
            scope.spawn(|| work(results));
        }
        drop(results);
        let outcome = gathered.gather(&arrived, seeds, &stop, arguments, &bar);
        // Frees the threads that wait for room to send.
        drop(arrived);
        outcome
    });
    bar.finish_and_clear();
    outcome?;
    conclude(&gathered, worlds, arguments, start)
}

fn conclude(
    gathered: &Gathered,
    worlds: &Worlds<'_>,
    arguments: &Arguments,
    start: Instant,
) -> Outcome {
    let count = gathered.reports.len();
    if !arguments.json {
        let mut text = describe::many(&gathered.reports, Colour::of_stdout());
        let seconds = start.elapsed().as_secs_f64();
        let virtual_seconds: f64 = gathered.reports.iter().map(|report| report.seconds).sum();
        let _ = writeln!(
            text,
            "{count} seeds, {virtual_seconds:.0} s of worlds, simulated in {seconds:.1} s"
        );
        if let Some(ms) = gathered.mean_ms() {
            let _ = writeln!(text, "{ms:.2} ms of one core for each simulated second");
        }
        terminal::print(&text)?;
    }
    let broken = gathered
        .reports
        .iter()
        .find(|report| !report.violations.is_empty());
    Ok(broken.map_or(Code::Done, |report| judge(report, worlds, arguments)))
}

fn play(worlds: &Worlds<'_>, seed: u64, arguments: &Arguments) -> Result<Timed, Failure> {
    let played = catch_unwind(AssertUnwindSafe(|| {
        worlds.play(seed, false, arguments.timing)
    }));
    match played {
        Ok(played) => played.map(|(timed, _)| timed),
        // The panic hook has printed the panic; the seed counts as a failure.
        Err(_) => Ok(Timed {
            report: Report {
                world: String::new(),
                by: Player::Simulator,
                seed,
                seconds: 0.0,
                trace_hash: None,
                streams: Vec::new(),
                links: Vec::new(),
                violations: vec!["it panicked, as printed above".into()],
            },
            cpu_ms_per_second: None,
        }),
    }
}

/// Results in the order of the seeds.
#[derive(Default)]
struct Gathered {
    reports: Vec<Report>,
    ms: Vec<f64>,
    early: BTreeMap<u64, Timed>,
}

impl Gathered {
    fn gather(
        &mut self,
        arrived: &mpsc::Receiver<(u64, Result<Timed, Failure>)>,
        seeds: Seeds,
        stop: &AtomicBool,
        arguments: &Arguments,
        bar: &ProgressBar,
    ) -> Result<(), Failure> {
        let mut next = seeds.first;
        for (seed, result) in arrived {
            bar.inc(1);
            let result = result.inspect_err(|_| stop.store(true, Relaxed))?;
            self.early.insert(seed, result);
            while let Some(timed) = self.early.remove(&next) {
                next += 1;
                if arguments.json {
                    let line = serde_json::to_string(&timed)? + "\n";
                    terminal::print(&line).inspect_err(|_| stop.store(true, Relaxed))?;
                }
                let is_broken = !timed.report.violations.is_empty();
                self.ms.extend(timed.cpu_ms_per_second);
                self.reports.push(timed.report);
                if is_broken {
                    stop.store(true, Relaxed);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn mean_ms(&self) -> Option<f64> {
        (!self.ms.is_empty()).then(|| self.ms.iter().sum::<f64>() / self.ms.len() as f64)
    }
}

fn progress(seeds: Seeds) -> ProgressBar {
    if !is_drawn_on(&std::io::stderr()) {
        return ProgressBar::hidden();
    }
    let target = ProgressDrawTarget::stderr_with_hz(5);
    let bar = ProgressBar::with_draw_target(Some(seeds.end - seeds.first), target);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} seeds  {per_sec}  {eta} left");
    bar.set_style(style.expect("the template is well formed"));
    bar
}
