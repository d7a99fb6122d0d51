//! The command line, and its dispatch to the library.

mod text;

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use thalweg_planner::model::{NodeName, World};
use thalweg_sim::oracle::continuity;
use thalweg_sim::report::Report;
use thalweg_testbed::calibrate;
use thalweg_testbed::exit::{self, Failure};
use thalweg_testbed::ladder::{self, Rung};
use thalweg_testbed::network::Network;
use thalweg_testbed::play::{self, Options};
use thalweg_testbed::role::{self, Part};
use thalweg_testbed::system::{inside, leftovers, privilege};
use thalweg_world::{Format, load_str};
use tokio::signal::unix::{SignalKind, signal};

const EXAMPLES: &str = "\
Examples:
  cargo xtask testbed worlds/demo.toml
  cargo xtask testbed worlds/demo.toml --json > demo.testbed.json
  cargo xtask testbed worlds/demo.toml --node camera -- ping -c 3 {relay}
  cargo xtask testbed worlds/continuity/mesh.toml --whole
  cargo xtask testbed --calibrate
  cargo xtask testbed --ladder ladder-results

In a command, {NAME} stands for the address of that node as the node of --node reaches it.
";

/// Run a world on the real kernel: a network namespace per node, a line per link, real node processes.
#[derive(Debug, Parser)]
#[command(
    name = "testbed",
    bin_name = "cargo xtask testbed",
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    after_help = format!("{EXAMPLES}\n{}", exit::HELP)
)]
pub struct Arguments {
    /// The world to run.
    world: Option<PathBuf>,

    /// Measure the instrument itself with ping and iperf3, and compare with what its links should be.
    #[arg(long, conflicts_with = "world")]
    calibrate: bool,

    /// Run every world of --worlds here and in the simulator, write both reports into this folder,
    /// print a table.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["world", "calibrate"])]
    ladder: Option<PathBuf>,

    /// The worlds of --ladder.
    #[arg(long, value_name = "FOLDER", default_value = "worlds/ladder")]
    worlds: PathBuf,

    /// How often the testbed runs each world of --ladder, each time with the next seed.
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,

    /// Fail unless every ADU given under a plan arrives in time, of every stream with a `reliability`
    /// other than none, whatever breaks in the world.
    #[arg(long, requires = "world", conflicts_with = "command")]
    whole: bool,

    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,

    /// Determines which packets are lost, late or reordered.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// The node inside which COMMAND runs.
    #[arg(long, value_name = "NAME", requires = "command")]
    node: Option<NodeName>,

    /// Run this inside a node's namespace instead of the world's nodes and streams.
    #[arg(last = true, value_name = "COMMAND", requires = "world")]
    command: Vec<String>,

    /// The program `thalweg`; by default the one beside this program.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// Keep the nodes' logs, and the notes of each producer and subscriber, in this folder.
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,

    #[command(subcommand)]
    pub role: Option<Role>,
}

/// The program's roles in its own child processes.
#[derive(Debug, Subcommand)]
pub enum Role {
    /// Runs the producer of a stream.
    #[command(hide = true)]
    Produce(Part),
    /// Runs a subscriber of a stream.
    #[command(hide = true)]
    Subscribe(Part),
    /// Becomes another program inside a namespace.
    #[command(hide = true)]
    Inside {
        #[arg(long)]
        namespace: PathBuf,
        #[arg(long)]
        parent: u32,
        #[arg(last = true)]
        words: Vec<String>,
    },
}

/// Runs what the command line asks for; returns the exit code.
pub fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let tools = if arguments.calibrate {
        privilege::TO_CALIBRATE
    } else {
        privilege::TO_RUN
    };
    let world = arguments.world.as_deref().map(load).transpose()?;
    if world.is_none() && !arguments.calibrate && arguments.ladder.is_none() {
        return Err(Failure::BadInput(
            "give a world, --calibrate or --ladder; see --help".into(),
        ));
    }
    privilege::check(tools)?;
    if let Some(sentence) = leftovers::remove_orphans()?.sentence() {
        eprintln!("testbed: {sentence}");
    }
    runtime()?.block_on(until_interrupted(async {
        match &world {
            None if arguments.ladder.is_some() => ladder(arguments).await,
            None => calibrate(arguments).await,
            Some(world) if !arguments.command.is_empty() => command(arguments, world).await,
            Some(world) => play(arguments, world).await,
        }
    }))
}

/// Runs a role to its end.
pub fn play_role(role: &Role) -> Result<u8, Failure> {
    let runtime = runtime()?;
    match role {
        Role::Produce(part) => runtime.block_on(role::produce(part))?,
        Role::Subscribe(part) => runtime.block_on(role::subscribe(part))?,
        Role::Inside {
            namespace,
            parent,
            words,
        } => return Err(inside::exec_program(namespace, *parent, words).into()),
    }
    Ok(0)
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build();
    Ok(runtime.context("cannot start the runtime")?)
}

/// Runs `work` until a signal asks the process to end; dropping `work` then removes what it built.
async fn until_interrupted(work: impl Future<Output = Result<u8, Failure>>) -> Result<u8, Failure> {
    let hear = |kind| signal(kind).context("cannot handle signals");
    let mut interrupt = hear(SignalKind::interrupt())?;
    let mut terminate = hear(SignalKind::terminate())?;
    let mut hangup = hear(SignalKind::hangup())?;
    let interrupted = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    };
    tokio::select! {
        done = work => done,
        () = interrupted => Err(anyhow::anyhow!("interrupted; the network has been removed").into()),
    }
}

fn load(path: &Path) -> Result<World, Failure> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path);
    let text =
        text.map_err(|error| Failure::BadInput(format!("cannot read the world {shown}: {error}")))?;
    let world = load_str(&text, Format::of_file_name(&shown), &shown);
    world.map_err(|error| Failure::BadInput(error.to_string()))
}

async fn calibrate(arguments: &Arguments) -> Result<u8, Failure> {
    let calibration = calibrate::run(arguments.seed).await?;
    if arguments.json {
        let json = serde_json::to_string(&calibration).context("figures are numbers")?;
        println!("{json}");
    } else {
        print!("{}", calibration.table());
    }
    if calibration.is_within() {
        return Ok(0);
    }
    Err(anyhow::anyhow!("a calibration figure is out of bounds; is the machine busy?").into())
}

async fn play(arguments: &Arguments, world: &World) -> Result<u8, Failure> {
    let path = arguments.world.as_deref().unwrap_or(Path::new(""));
    let report = played(arguments, world, path, arguments.seed).await?;
    if arguments.json {
        let json = serde_json::to_string(&report).context("a report is text and numbers")?;
        println!("{json}");
    } else {
        print!("{}", text::of(&report));
    }
    if arguments.whole {
        let broken = continuity::broken(world, &report);
        if !broken.is_empty() {
            return Err(
                anyhow::anyhow!("not everything arrived in time: {}", broken.join("; ")).into(),
            );
        }
    }
    check_violations(&report.violations)
}

/// Runs a world that was read from a path.
async fn played(
    arguments: &Arguments,
    world: &World,
    path: &Path,
    seed: u64,
) -> Result<Report, Failure> {
    let films = play::films(world).map_err(|error| Failure::BadInput(error.to_string()))?;
    let options = Options {
        seed,
        program: program(arguments)?,
        logs: arguments.logs.clone(),
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let played = play::play(world, &name, &films, &options).await?;
    for remark in &played.remarks {
        eprintln!("testbed: {remark}");
    }
    Ok(played.report)
}

async fn ladder(arguments: &Arguments) -> Result<u8, Failure> {
    let folder = arguments.ladder.as_deref().unwrap_or(Path::new(""));
    let shown = folder.display();
    let thalweg = program(arguments)?;
    let mut worlds = Vec::new();
    // Load all worlds first, so that a mistake in the last is reported before the first runs.
    for path in ladder::worlds(&arguments.worlds)
        .map_err(|error| Failure::BadInput(format!("{error:#}")))?
    {
        worlds.push((load(&path)?, path));
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {shown}"))?;
    let (mut rungs, mut violations) = (Vec::new(), Vec::new());
    for (world, path) in &worlds {
        eprintln!("testbed: running {}", path.display());
        let mut rung = Rung::default();
        for seed in (arguments.seed..).take(arguments.rounds) {
            rung.testbed
                .push(played(arguments, world, path, seed).await?);
        }
        rung.simulator = ladder::simulate(&thalweg, path, arguments.seed).await?;
        for report in rung.testbed.iter().chain(&rung.simulator) {
            ladder::keep(folder, report)?;
            violations.extend_from_slice(&report.violations);
        }
        rungs.push(rung);
    }
    println!("{}\n\n{}", ladder::machine(), ladder::table(&rungs));
    check_violations(&violations)
}

fn check_violations(violations: &[String]) -> Result<u8, Failure> {
    match violations {
        [] => Ok(0),
        [first, ..] => {
            let count = violations.len();
            Err(anyhow::anyhow!("{count} violation(s): {first}").into())
        }
    }
}

/// Returns the program `thalweg`: as given, else the one beside this program.
fn program(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let beside =
        || -> anyhow::Result<PathBuf> { Ok(inside::this_program()?.with_file_name("thalweg")) };
    let program = arguments.program.clone().map_or_else(beside, Ok)?;
    if program.is_file() {
        return Ok(program);
    }
    Err(Failure::BadInput(format!(
        "there is no program {}: build it with `cargo build -p thalweg-cli`, or name it with --program",
        program.display()
    )))
}

/// Runs one command inside a node's namespace, with the links as at the world's start.
async fn command(arguments: &Arguments, world: &World) -> Result<u8, Failure> {
    let names: Vec<_> = world.nodes.keys().map(NodeName::as_str).collect();
    let node = arguments
        .node
        .as_ref()
        .filter(|node| world.nodes.contains_key(*node));
    let node = node.ok_or_else(|| {
        let choice = names.join(", ");
        Failure::BadInput(format!(
            "a command needs a node: give --node and one of {choice}"
        ))
    })?;
    let words: Vec<String> = arguments
        .command
        .iter()
        .map(|word| with_addresses(word, world, node))
        .collect();
    let network = Network::build(world, arguments.seed)?;
    let (program, rest) = words.split_first().expect("it is not empty");
    let mut command = tokio::process::Command::from(network.command(node, program)?);
    command
        .args(rest)
        .stdin(Stdio::inherit())
        .kill_on_drop(true);
    let status = command.status().await.context("cannot start the command")?;
    network.tear_down()?;
    // Killed by a signal: the shell's convention for the code.
    let signal = std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or(0);
    Ok(status.code().unwrap_or(128 + signal) as u8)
}

/// Substitutes the address of each neighbour that is named in braces.
fn with_addresses(word: &str, world: &World, node: &NodeName) -> String {
    let mut word = word.to_owned();
    for (number, link) in world.links.iter().enumerate() {
        for (near, far) in [(0, 1), (1, 0)] {
            if link.ends[near] == *node {
                let address = thalweg_testbed::network::addresses_of(number).ends[far];
                word = word.replace(&format!("{{{}}}", link.ends[far]), &address.to_string());
            }
        }
    }
    word
}
