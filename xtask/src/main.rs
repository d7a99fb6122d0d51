//! The project's tasks: `cargo xtask COMMAND`.
//!
//! [`COMMANDS`] is the one table of commands, read by help, dispatch and the check of commands in
//! documents. CI runs the same tasks as developers. Nothing depends on this crate, and it depends on no
//! crate of the workspace; only its test, which replays the fuzz corpora, needs the decoders' crates.

mod debian;
mod dist;
mod figures;
mod fuzz;
mod instructions;
mod media;
mod oracle;
mod peers;
mod place;
mod recipes;
mod relay;
mod results;
mod scan;
mod soak;
mod steps;
mod testbed;
mod tidy;

use std::process::ExitCode;

/// One task, as shown in the help; documents may mention it.
pub struct Command {
    /// The word after `cargo xtask`.
    pub name: &'static str,
    /// The rest of the command line, for the help.
    pub arguments: &'static str,
    /// The flags that it accepts.
    pub flags: &'static [&'static str],
    /// One sentence on what it does.
    pub about: &'static str,
    run: fn(&[String]) -> Result<(), Failure>,
}

/// Every task.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "test",
        arguments: "[STEP…]",
        flags: &[],
        about: "Runs every check, or the named steps: room, tools, media, fmt, clippy, build, test, relay-only, recipes, oracle, simulate, testbed, fuzz, doc, instructions, tidy",
        run: steps::run,
    },
    Command {
        name: "tidy",
        arguments: "[--draw]",
        flags: &["--draw"],
        about: "Checks the repository itself: dependency directions, purity, ratchets, explained dependencies, documents",
        run: tidy::run,
    },
    Command {
        name: "media",
        arguments: "",
        flags: &[],
        about: "Sets up the real clip and the FFmpeg program that the real-process test uses, in the cache folder",
        run: media::run,
    },
    Command {
        name: "recipes",
        arguments: "[NAME…]",
        flags: &[],
        about: "Tries the recipes of docs/recipes with the real program, or the named ones",
        run: recipes::run,
    },
    Command {
        name: "relay",
        arguments: "",
        flags: &[],
        about: "Builds the relay that the test of nodes behind NATs uses, in the cache folder",
        run: relay::run,
    },
    Command {
        name: "peers",
        arguments: "[--install]",
        flags: &["--install"],
        about: "Lists the other projects' relays that benchmarks compare with; --install installs those that have a package",
        run: peers::run,
    },
    Command {
        name: "dist",
        arguments: "",
        flags: &[],
        about: "Builds `thalweg` as it is shipped: the profile `dist` with jemalloc, stripped",
        run: dist::run,
    },
    Command {
        name: "bench",
        arguments: "ID… [--json] [--quick] [--compare OLD.json]",
        flags: dist::BENCH_FLAGS,
        about: "Builds the benchmarks as the program is shipped and runs the named ones; --list names them",
        run: dist::bench,
    },
    Command {
        name: "testbed",
        arguments: "WORLD [--json] | WORLD --node NAME -- COMMAND… | --calibrate | --ladder FOLDER",
        flags: testbed::FLAGS,
        about: "Runs a world on the real kernel, with real nodes in network namespaces; needs root",
        run: testbed::run,
    },
    Command {
        name: "fuzz",
        arguments: "[TARGET…] [--seconds N] [--list]",
        flags: &["--seconds", "--list"],
        about: "Runs the named fuzz targets, or all, for N seconds each (default 60)",
        run: fuzz::run,
    },
    Command {
        name: "instructions",
        arguments: "[--write]",
        flags: &["--write"],
        about: "Counts the hot paths' instructions (needs valgrind) and fails if they grew beyond the committed counts, or writes those",
        run: instructions::run,
    },
    Command {
        name: "figures",
        arguments: "FILE… [--out FOLDER] [--note TEXT]",
        flags: &["--out", "--note"],
        about: "Draws SVG figures from the output of `thalweg-bench ID --json`, by default into docs/figures",
        run: figures::run,
    },
    Command {
        name: "results",
        arguments: "[FILE…] [--note TEXT]",
        flags: &["--note"],
        about: "Stores what `thalweg-bench ID --json` printed as the newest run, and renders docs/reference/benchmarks.md",
        run: results::run,
    },
    Command {
        name: "oracle",
        arguments: "[--worlds N] [--seed S] [--jobs N]",
        flags: &["--worlds", "--seed", "--jobs"],
        about: "Compares the exact planner with an integer program on generated worlds of 10 to 30 nodes (default 1,000)",
        run: oracle::run,
    },
    Command {
        name: "soak",
        arguments: "--minutes N [--from SEED] [--long]",
        flags: &["--minutes", "--from", "--long"],
        about: "Simulates generated worlds of seconds (--long: of a minute) for N minutes, and stops at the first violation",
        run: soak::run,
    },
];

/// Why a task failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line was wrong: exit code 2.
    Misuse(String),
    /// A check failed or a tool is missing: exit code 1.
    Broken(String),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Misuse(sentence)) => {
            eprintln!("xtask: {sentence}\nxtask: `cargo xtask --help` lists the commands");
            ExitCode::from(2)
        }
        Err(Failure::Broken(sentence)) => {
            eprintln!("xtask: {sentence}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), Failure> {
    let Some((name, rest)) = arguments.split_first() else {
        print!("{}", help());
        return Err(Failure::Misuse("a command is missing".into()));
    };
    // The testbed and the benchmarks have their own help, and the command after `--` may also take
    // `--help`.
    let is_own_help = !["testbed", "bench"].contains(&name.as_str())
        && rest.iter().any(|a| a == "--help" || a == "-h");
    if matches!(name.as_str(), "--help" | "-h" | "help") || is_own_help {
        print!("{}", help());
        return Ok(());
    }
    let command = COMMANDS.iter().find(|c| c.name == name);
    let command =
        command.ok_or_else(|| Failure::Misuse(format!("there is no command `{name}`")))?;
    (command.run)(rest)
}

fn help() -> String {
    let mut text =
        String::from("The project's tasks.\n\nUsage: cargo xtask COMMAND\n\nCommands:\n");
    for command in COMMANDS {
        text += &[
            "  ",
            command.name,
            " ",
            command.arguments,
            "\n      ",
            command.about,
            "\n",
        ]
        .concat();
    }
    text + "
Examples:
  cargo xtask test                       everything, as CI does
  cargo xtask test fmt clippy            two steps only
  cargo xtask tidy                       checks the repository; prints `file:line: fault, remedy`
  cargo xtask testbed worlds/demo.toml   the demo's world on the real kernel
  cargo xtask fuzz adu_header --seconds 600
  cargo xtask soak --minutes 60          an hour of generated worlds

Exit codes: 0 done, 1 a check failed or a tool is missing, 2 the command line was wrong.
"
}
