//! Checks the exact planner against an integer program: `cargo xtask oracle [--worlds N] [--seed S]
//! [--jobs N]`.
//!
//! The planner is Rust; the oracle is Python with `HiGHS` (folder `oracle`). Between them is text: world
//! files and plan reports, one per line. `thalweg-bench` generates and plans the worlds, a pipe passes
//! them to the oracle, and the oracle prints verdicts. Each job is one such pair with its share of the
//! seeds. The oracle's packages are installed once, into an environment in the cache folder whose name
//! contains their versions.
//!
//! As a step of `cargo xtask test` it is skipped with a message where the environment cannot be
//! installed; in CI it then fails.

#[cfg(test)]
mod tests;
mod verdict;

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Instant;

use crate::{Failure, instructions, place};
use verdict::{Tally, Verdict};

/// Worlds per run and in `cargo xtask test`: two idle cores check as many in a minute.
const WORLDS: u64 = 1_000;

/// The packages, at tested versions.
const REQUIREMENTS: &str = include_str!("../../../oracle/requirements.txt");

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    worlds: u64,
    seed: u64,
    jobs: u64,
}

/// Checks as many worlds as the command line requests.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let options = parse(arguments)?;
    check_worlds(&environment()?, &options)
}

/// Checks the worlds of `cargo xtask test`; skips with a reason if the environment cannot be installed.
pub fn check() -> Result<(), Failure> {
    let environment = match environment() {
        Err(Failure::Broken(sentence)) if env::var_os("CI").is_none() => {
            println!("{sentence}\nthe oracle was NOT RUN: see above; run `cargo xtask oracle`");
            return Ok(());
        }
        environment => environment?,
    };
    check_worlds(&environment, &parse(&[])?)
}

fn parse(arguments: &[String]) -> Result<Options, Failure> {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
    let mut options = Options {
        worlds: WORLDS,
        seed: 0,
        jobs: cores,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let misuse = |sentence: &str| Failure::Misuse(format!("`{word}` {sentence}"));
        let slot = match word.as_str() {
            "--worlds" => &mut options.worlds,
            "--seed" => &mut options.seed,
            "--jobs" => &mut options.jobs,
            _ => {
                return Err(misuse(
                    "is not an option of oracle, which has --worlds, --seed and --jobs",
                ));
            }
        };
        let number = words.next().and_then(|number| number.parse().ok());
        *slot = number.ok_or_else(|| misuse("needs a whole number"))?;
    }
    if options.worlds == 0 || options.jobs == 0 {
        return Err(Failure::Misuse(
            "oracle needs at least one world and one job".into(),
        ));
    }
    options.jobs = options.jobs.min(options.worlds);
    Ok(options)
}

/// Returns the environment's folder; makes it if missing.
fn environment() -> Result<PathBuf, Failure> {
    let packages: Vec<&str> = REQUIREMENTS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    let name = packages.join("-").replace("==", "-");
    let folder = place::cache()?.join(format!("oracle-{name}"));
    if folder.join(READY).is_file() {
        return Ok(folder);
    }
    println!(
        "installing {} from PyPI for the oracle (about 80 MB), into {}",
        packages.join(" and "),
        folder.display()
    );
    // An environment cannot be moved, so a file written last marks it complete.
    install(&folder, &packages)?;
    Ok(folder)
}

/// The file that marks a complete environment.
const READY: &str = "ready";

fn install(folder: &Path, packages: &[&str]) -> Result<(), Failure> {
    let advise = |failure, advice: &str| match failure {
        Failure::Misuse(text) | Failure::Broken(text) => {
            Failure::Broken(format!("{text}\n{advice}"))
        }
    };
    let mut python = Command::new("python3");
    place::output(python.args(["-m", "venv", "--clear"]).arg(folder)).map_err(|failure| {
        advise(failure, "the oracle needs Python 3.11 or newer with venv; on Debian: apt-get install python3 python3-venv")
    })?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps"]);
    pip.args(["--disable-pip-version-check", "--only-binary=:all:"]);
    place::output(pip.args(packages)).map_err(|failure| {
        advise(
            failure,
            "the oracle's packages come from PyPI once; with a network, `cargo xtask oracle` fetches them",
        )
    })?;
    let ready = folder.join(READY);
    fs::write(&ready, "").map_err(|error| place::failed("cannot write", &ready, &error))
}

/// Two programs connected by a pipe: planner and oracle.
struct Job {
    planner: Child,
    oracle: Child,
}

impl Drop for Job {
    fn drop(&mut self) {
        // Either has already ended, or its output is no longer needed.
        for child in [&mut self.planner, &mut self.oracle] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(program: &Path, environment: &Path, options: &Options, at: u64) -> Result<Job, Failure> {
    let broken = |error| Failure::Broken(format!("the oracle did not start: {error}"));
    let (first, count) = (options.seed + at, options.worlds - at);
    let workload = format!("oracle:{first}:{count}:{}", options.jobs);
    let mut planner = Command::new(program)
        .args(["--workload", &workload])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(broken)?;
    let plans = planner.stdout.take().expect("piped above");
    let oracle = Command::new(environment.join("bin/python"))
        // No compiled files, which would be written to the clone.
        .arg("-B")
        .arg(place::root().join("oracle/main.py"))
        .arg("judge")
        .stdin(plans)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(broken)?;
    Ok(Job { planner, oracle })
}

/// Forwards the lines of a job's oracle.
fn forward_lines(job: &mut Job, to: &Sender<String>) {
    let output = job.oracle.stdout.take().expect("piped at the start");
    let to = to.clone();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                return;
            }
        }
    });
}

fn check_worlds(environment: &Path, options: &Options) -> Result<(), Failure> {
    let program = instructions::build()?;
    let (to, from) = channel();
    let mut jobs = Vec::new();
    for at in 0..options.jobs {
        let mut job = start(&program, environment, options, at)?;
        forward_lines(&mut job, &to);
        jobs.push(job);
    }
    drop(to);
    let start = Instant::now();
    let mut tally = Tally::default();
    for line in from {
        let verdict = Verdict::read(&line)
            .ok_or_else(|| Failure::Broken(format!("the oracle printed `{line}`")))?;
        if let Some(sentence) = verdict.sentence() {
            println!("{sentence}");
        }
        tally.add(verdict);
        if tally.worlds() % (options.worlds / 10).max(10) == 0 {
            let seconds = start.elapsed().as_secs();
            println!(
                "{} of {} worlds, {} differ, {seconds} s",
                tally.worlds(),
                options.worlds,
                tally.differing()
            );
        }
    }
    println!("{tally}");
    if tally.worlds() < options.worlds {
        let sentence = "not every world was checked: the oracle ended early, see above";
        return Err(Failure::Broken(sentence.into()));
    }
    if tally.differing() > 0 {
        let sentence = "the exact planner and the integer program differ: see above";
        return Err(Failure::Broken(sentence.into()));
    }
    Ok(())
}
