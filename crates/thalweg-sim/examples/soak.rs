//! Simulates thousands of generated worlds on all cores and stops at the first violation.
//!
//! ```text
//! soak [--long] [--seeds A..B] [--minutes N] [--trace SEED]
//! ```
//!
//! `cargo xtask test simulate` and `cargo xtask soak` run this program instead of `thalweg simulate`,
//! because it links neither sockets nor the node and builds quickly. It reads no world files; `thalweg
//! simulate` does.
#![expect(
    clippy::disallowed_methods,
    reason = "this program may use the clock and threads: it runs the pure crates on all cores for a set time"
)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use thalweg_sim::generate::{self, Length};
use thalweg_sim::play::{Options, Played, play};

/// The run stops after this many seeds with violations.
const FAILURES_MAX: usize = 1;

/// The parsed command line.
struct Asked {
    length: Length,
    first: u64,
    end: u64,
    until: Option<Duration>,
    failures_max: usize,
    trace: Option<u64>,
}

fn main() -> ExitCode {
    let asked = match parse(std::env::args().skip(1)) {
        Ok(asked) => asked,
        Err(sentence) => {
            eprintln!("soak: {sentence}");
            return ExitCode::from(2);
        }
    };
    if let Some(seed) = asked.trace {
        let played = run(seed, asked.length, true);
        print!("{}", played.text.unwrap_or_default());
        eprintln!("trace {}", played.report.trace_hash.unwrap_or_default());
        return ExitCode::SUCCESS;
    }
    soak(&asked)
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let mut asked = Asked {
        length: Length::Seconds,
        first: 0,
        end: 1_000,
        until: None,
        failures_max: FAILURES_MAX,
        trace: None,
    };
    while let Some(word) = words.next() {
        if word == "--long" {
            asked.length = Length::Minute;
            continue;
        }
        let value = words
            .next()
            .ok_or(format!("option `{word}` needs a value"))?;
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("`{text}` is not a number"))
        };
        match word.as_str() {
            "--seeds" => {
                let (first, end) = value.split_once("..").ok_or("write the seeds as A..B")?;
                asked.first = number(first)?;
                asked.end = if end.is_empty() {
                    u64::MAX
                } else {
                    number(end)?
                };
            }
            "--minutes" => asked.until = Some(Duration::from_secs(60 * number(&value)?)),
            "--failures" => asked.failures_max = number(&value)? as usize,
            "--trace" => asked.trace = Some(number(&value)?),
            _ => return Err(format!("unknown option `{word}`")),
        }
    }
    Ok(asked)
}

/// Simulates one generated world.
fn run(seed: u64, length: Length, is_text_wanted: bool) -> Played {
    let world = generate::world(seed, length);
    let options = Options {
        seed,
        is_text_wanted,
        ..Options::default()
    };
    let films = vec![None; world.streams.len()];
    play(&world, "generated", &films, options)
        .expect("without video there is no picture to compare")
}

fn soak(asked: &Asked) -> ExitCode {
    let start = Instant::now();
    let (next, stop) = (AtomicU64::new(asked.first), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    let played = AtomicU64::new(0);
    let work = || {
        // Cores take the next seed from a shared counter, so the set of worlds does not depend on the
        // number of cores.
        while !stop.load(Relaxed) && asked.until.is_none_or(|until| start.elapsed() < until) {
            let seed = next.fetch_add(1, Relaxed);
            if seed >= asked.end {
                return;
            }
            let outcome =
                std::panic::catch_unwind(|| run(seed, asked.length, false).report.violations);
            let sentences = outcome.unwrap_or_else(|_| vec!["it panicked".into()]);
            played.fetch_add(1, Relaxed);
            if !sentences.is_empty() {
                let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.push((seed, sentences));
                stop.store(failures.len() >= asked.failures_max, Relaxed);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    let count = played.load(Relaxed);
    let mut failures = failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    failures.sort_unstable();
    for (seed, sentences) in &failures {
        println!("seed {seed}:");
        for sentence in sentences.iter().take(5) {
            println!("  {sentence}");
        }
        let made = asked.length.words();
        println!("  to replay it: thalweg simulate {made} --seed {seed} --trace trace.txt");
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{count} worlds from seed {} simulated in {seconds:.1} s, {} with violations",
        asked.first,
        failures.len()
    );
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
