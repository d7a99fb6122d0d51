//! `cargo xtask test`: every check, step by step, each with its time and the command that repeats it.
//!
//! Developers and CI run the same steps. All steps run even if one fails, so that one run shows every
//! fault; only a step that needs a failed step's result is left out, and reported as such. The last
//! lines name the failed tests and give the counts.
//!
//! It installs only the test media ([`crate::media`]), a relay ([`crate::relay`]), the oracle's packages
//! ([`crate::oracle`]) and, as root, programs that measure ([`crate::debian`]). For any other missing
//! tool it prints the command that installs it.

mod cargo;
mod results;
mod room;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::{Failure, fuzz, instructions, media, oracle, recipes, relay, soak, testbed, tidy};
use cargo::Shared;

/// A check, by its name in `cargo xtask test NAME`.
struct Step {
    name: &'static str,
    about: &'static str,
    /// A step that must have passed before this one can run.
    needs: Option<&'static str>,
    run: fn(&mut Shared) -> Result<(), Failure>,
}

const STEPS: &[Step] = &[
    Step {
        name: "room",
        about: "the disk has space for what the steps build",
        needs: None,
        run: room::check,
    },
    Step {
        name: "tools",
        about: "rustfmt, clippy, a C compiler and make are installed",
        needs: Some("room"),
        run: cargo::tools,
    },
    Step {
        name: "media",
        about: "FFmpeg and a real clip, in the cache folder",
        needs: Some("room"),
        run: set_up_media,
    },
    Step {
        name: "relay",
        about: "a relay for nodes behind NATs, in the cache folder",
        needs: Some("tools"),
        run: set_up_relay,
    },
    Step {
        name: "fmt",
        about: "the code is formatted by rustfmt",
        needs: Some("tools"),
        run: cargo::format,
    },
    Step {
        name: "clippy",
        about: "no warning in any target",
        needs: Some("tools"),
        run: cargo::clippy,
    },
    Step {
        name: "build",
        about: "every library, program and test builds",
        needs: Some("tools"),
        run: cargo::build,
    },
    Step {
        name: "test",
        about: "unit, integration, property and doc tests",
        needs: Some("build"),
        run: cargo::test,
    },
    Step {
        name: "relay-only",
        about: "a build without inputs and outputs has no warnings, and carries all streams",
        needs: Some("test"),
        run: cargo::relay_only,
    },
    Step {
        name: "recipes",
        about: "the recipes do what they say, with real programs at both ends",
        needs: Some("build"),
        run: |_| recipes::run(&[]),
    },
    Step {
        name: "oracle",
        about: "the exact planner agrees with an integer program on a thousand worlds of 10 to 30 nodes",
        needs: Some("tools"),
        run: |_| oracle::check(),
    },
    Step {
        name: "simulate",
        about: "a thousand generated worlds of seconds and sixty of a minute have no violations",
        needs: Some("tools"),
        run: |_| soak::check(),
    },
    Step {
        name: "testbed",
        about: "the testbed's links match their world, and a stream survives its relay's death; needs root",
        needs: Some("build"),
        run: |_| testbed::check(),
    },
    Step {
        name: "fuzz",
        about: "every decoder is fuzzed for a few seconds; only in CI, because it rebuilds them all",
        needs: Some("tools"),
        run: |_| fuzz_in_ci(),
    },
    Step {
        name: "doc",
        about: "the documentation builds without warnings",
        needs: Some("tools"),
        run: cargo::document,
    },
    Step {
        name: "instructions",
        about: "no hot path takes more instructions than committed",
        needs: Some("tools"),
        run: |_| instructions::run(&[]),
    },
    Step {
        name: "tidy",
        about: "the repository follows its own rules",
        needs: Some("build"),
        run: |_| tidy::run(&[]),
    },
];

fn set_up_media(shared: &mut Shared) -> Result<(), Failure> {
    shared.media = Some(media::folder()?);
    Ok(())
}

fn set_up_relay(shared: &mut Shared) -> Result<(), Failure> {
    shared.relay = Some(relay::program()?);
    Ok(())
}

/// How a step ended.
#[derive(Debug, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    /// Left out, because a step that it needs failed.
    LeftOut,
}

/// Runs the named steps, or all.
pub fn run(names: &[String]) -> Result<(), Failure> {
    if let Some(name) = names
        .iter()
        .find(|name| !STEPS.iter().any(|step| step.name == **name))
    {
        let known: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(Failure::Misuse(format!(
            "there is no step `{name}`: there are {}",
            known.join(", ")
        )));
    }
    let chosen = STEPS
        .iter()
        .filter(|step| names.is_empty() || names.iter().any(|name| name == step.name));
    let mut shared = Shared::default();
    let mut ends: Vec<(&Step, Outcome, Duration)> = Vec::new();
    for step in chosen {
        let failed = |name: &str| {
            ends.iter()
                .any(|(step, end, _)| step.name == name && *end != Outcome::Passed)
        };
        let end = match step.needs.filter(|name| failed(name)) {
            Some(name) => {
                println!("\n== {}: left out, because {name} failed", step.name);
                (step, Outcome::LeftOut, Duration::ZERO)
            }
            None => timed(step, &mut shared),
        };
        ends.push(end);
    }
    let result = conclude(&ends);
    if let Some(results) = &shared.results {
        println!("{results}");
    }
    result
}

fn timed<'a>(step: &'a Step, shared: &mut Shared) -> (&'a Step, Outcome, Duration) {
    println!("\n== {}: {}", step.name, step.about);
    let start = Instant::now();
    let outcome = match (step.run)(shared) {
        Ok(()) => Outcome::Passed,
        Err(Failure::Misuse(sentence) | Failure::Broken(sentence)) => {
            println!("{sentence}");
            Outcome::Failed
        }
    };
    let took = start.elapsed();
    let word = if outcome == Outcome::Passed {
        "passed"
    } else {
        "FAILED"
    };
    println!("== {} {word} in {:.1} s", step.name, took.as_secs_f64());
    (step, outcome, took)
}

/// Prints the table of steps, and the commands that repeat failed ones.
fn conclude(ends: &[(&Step, Outcome, Duration)]) -> Result<(), Failure> {
    println!("\n== all steps");
    for (step, outcome, took) in ends {
        println!(
            "{:>8.1} s  {:<7} {outcome:?}",
            took.as_secs_f64(),
            step.name
        );
    }
    let failed: Vec<&str> = ends
        .iter()
        .filter(|end| end.1 == Outcome::Failed)
        .map(|end| end.0.name)
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    let commands: Vec<String> = failed
        .iter()
        .map(|name| format!("`cargo xtask test {name}`"))
        .collect();
    Err(Failure::Broken(format!(
        "failed: {}; to repeat: {}",
        failed.join(", "),
        commands.join(", ")
    )))
}

/// Seconds per target in CI. A fault from a new change shows within seconds, or takes hours to find.
const FUZZ_SECONDS: &str = "5";

/// Runs every fuzz target for a few seconds if `CI` is set; otherwise says that it was not run.
fn fuzz_in_ci() -> Result<(), Failure> {
    if std::env::var_os("CI").is_none() {
        println!("fuzzing was NOT RUN, because this is not CI: run `cargo xtask fuzz`");
        return Ok(());
    }
    fuzz::run(&["--seconds".into(), FUZZ_SECONDS.into()])
}
