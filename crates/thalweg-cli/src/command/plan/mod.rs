//! `thalweg plan WORLD`: the plan of a stream, for people or as JSON.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Instant;

use clap::Args;
use thalweg_base::id::StreamName;
use thalweg_planner::model::{Snapshot, World};
use thalweg_planner::planner::report::Report;
use thalweg_planner::planner::{self, Planner, Policy};

use crate::exit::{Code, Failure, Outcome, fail};
use crate::input::{self, Offering, whole};
use crate::terminal::{self, Colour};

mod all;
mod budget;
mod compare;
mod nearest;
mod picture;
pub(super) mod prose;
mod tree;
mod view;

use picture::Drawn;

const EXAMPLES: &str = "\
Examples:
  thalweg plan worlds/demo.toml
  thalweg plan worlds/demo.toml --explain
  thalweg plan worlds/demo.toml --stream scene --json | jq .cost
  thalweg plan worlds/demo.toml --compare
  thalweg plan worlds/demo.toml --svg plan.svg
  thalweg plan worlds/demo.toml --strict
  thalweg plan worlds/rivals.toml --all
  thalweg plan worlds/demo.toml --budget 20

Exits 3 if no plan satisfies all needs, or with --all if a stream is refused. It then prints what would have to change,
and the best infeasible plan, marked as such; with --strict it prints no plan.";

/// Plan a stream of a world: its path, the adapters on each node and the load of every link.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct Arguments {
    /// The world (TOML, or JSON by a name that ends in .json).
    world: PathBuf,

    /// The stream; may be omitted if the world has only one.
    #[arg(long, value_name = "NAME")]
    stream: Option<StreamName>,

    /// The planner: exact, heuristic, exhaustive or incremental.
    #[arg(
        long,
        value_name = "PLANNER",
        default_value = "exact",
        value_parser = Offering::new(Planner::from_str, Planner::ALL.into_iter().map(Planner::name)),
        hide_possible_values = true
    )]
    planner: Planner,

    /// Plan all streams of the world together: the most important first, each on the capacity that is left.
    #[arg(long, conflicts_with_all = ["stream", "planner", "compare", "explain", "budget"])]
    all: bool,

    /// Print no infeasible plan: only what is missing.
    #[arg(long)]
    strict: bool,

    /// Stop after this many milliseconds; print the best plan so far and a lower bound of the cost.
    #[arg(long, value_name = "MS", value_parser = whole::<u64>(0..=u64::MAX), conflicts_with_all = ["planner", "compare", "explain"])]
    budget: Option<u64>,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Print the results of all planners for the stream, side by side.
    #[arg(long, conflicts_with_all = ["explain", "planner"])]
    compare: bool,

    /// Draw the network with the plan into this SVG file.
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    svg: Option<PathBuf>,

    /// Explain in words and numbers why the plan is what it is.
    #[arg(long, conflicts_with = "json")]
    explain: bool,
}

/// Plans and prints.
pub fn run(arguments: &Arguments) -> Outcome {
    let world = input::load_world(&arguments.world)?;
    let policy = Policy {
        planner: arguments.planner,
        strict: arguments.strict,
        ..Policy::default()
    };
    if arguments.all {
        return run_all(&world, policy, arguments);
    }
    let snapshot = choose(&world, arguments)?;
    if let Some(budget_ms) = arguments.budget {
        return run_budget(&snapshot, policy, arguments, budget_ms);
    }
    if arguments.compare {
        if snapshot.stream.to.len() > 1 {
            return one_sink_only("--compare", &snapshot);
        }
        return run_compare(&snapshot, policy, arguments.json);
    }
    if snapshot.stream.to.len() > 1 {
        return run_tree(&snapshot, policy, arguments);
    }
    let start = Instant::now();
    let (plan, shortfalls) = planner::plan(&snapshot, &policy);
    let report = Report::new(&plan, &shortfalls, start.elapsed().into());
    let text = if arguments.json {
        serde_json::to_string(&report)? + "\n"
    } else if arguments.explain {
        // The explanation itself states what is missing.
        let bare = Report::new(&plan, &[], start.elapsed().into());
        let mut text = view::describe(&snapshot, &plan, &bare, colour());
        text.push('\n');
        text + &prose::folded(&planner::explain(&snapshot, &plan))
    } else {
        view::describe(&snapshot, &plan, &report, colour())
    };
    terminal::print(&text)?;
    draw(arguments, &snapshot, &[Drawn::only(&plan)])?;
    Ok(code(report.feasible))
}

fn colour() -> Colour {
    Colour::of_stdout()
}

/// Returns the exit code: 0 if all needs are satisfied, 3 otherwise.
fn code(feasible: bool) -> Code {
    if feasible {
        Code::Done
    } else {
        Code::Infeasible
    }
}

/// Plans within a budget and prints the best plan found.
fn run_budget(
    snapshot: &Snapshot,
    policy: Policy,
    arguments: &Arguments,
    budget_ms: u64,
) -> Outcome {
    if snapshot.stream.to.len() > 1 {
        return one_sink_only("--budget", snapshot);
    }
    let planned = budget::plan(snapshot, policy, budget_ms);
    let text = if arguments.json {
        planned.json()?
    } else {
        let (plan, report) = (planned.plan(), planned.report());
        view::describe(snapshot, plan, report, colour()) + &planned.words()
    };
    terminal::print(&text)?;
    draw(arguments, snapshot, &[Drawn::only(planned.plan())])?;
    Ok(code(planned.report().feasible))
}

/// Plans a stream with several sinks and prints the tree.
fn run_tree(snapshot: &Snapshot, policy: Policy, arguments: &Arguments) -> Outcome {
    if policy.planner != Planner::Exact {
        return one_sink_only("--planner", snapshot);
    }
    let planned = tree::plan(snapshot, policy);
    let text = if arguments.json {
        planned.json()?
    } else {
        planned.text(snapshot, arguments.explain, colour())
    };
    terminal::print(&text)?;
    let paths: Vec<Drawn<'_>> = planned.paths().iter().map(Drawn::only).collect();
    draw(arguments, snapshot, &paths)?;
    Ok(code(planned.is_feasible()))
}

/// Fails: an option applies only to streams with one sink.
fn one_sink_only(option: &str, snapshot: &Snapshot) -> Outcome {
    let (name, sinks) = (&snapshot.stream.name, snapshot.stream.to.len());
    fail(
        Code::BadInput,
        format!(
            "{option} is for streams with one sink, and `{name}` has {sinks}: leave it out for a tree"
        ),
    )
}

/// Plans all streams of a world together.
fn run_all(world: &World, policy: Policy, arguments: &Arguments) -> Outcome {
    let planned = all::plan(world, policy);
    let Some(snapshot) = planned.first() else {
        let file = arguments.world.display();
        return fail(Code::BadInput, format!("{file} has no stream to plan"));
    };
    let text = if arguments.json {
        planned.json()?
    } else {
        planned.text(colour())
    };
    terminal::print(&text)?;
    draw(arguments, snapshot, &planned.drawn())?;
    Ok(code(planned.is_feasible()))
}

/// Writes the picture, if one was requested.
fn draw(arguments: &Arguments, snapshot: &Snapshot, plans: &[Drawn<'_>]) -> Result<(), Failure> {
    let Some(file) = &arguments.svg else {
        return Ok(());
    };
    match std::fs::write(file, picture::draw(snapshot, plans)) {
        Ok(()) => Ok(()),
        Err(error) => fail(
            Code::Failed,
            format!("cannot write {}: {error}", file.display()),
        ),
    }
}

/// Prints the results of every planner for a stream; the exit code is that of the exact planner.
fn run_compare(snapshot: &Snapshot, policy: Policy, as_json: bool) -> Outcome {
    let reports = compare::all(snapshot, policy);
    let text = if as_json {
        compare::json(&reports)?
    } else {
        compare::table(snapshot, &reports, colour())
    };
    terminal::print(&text)?;
    let exact = reports
        .iter()
        .find(|(planner, _)| *planner == Planner::Exact);
    Ok(match exact {
        Some((_, report)) if report.feasible => Code::Done,
        _ => Code::Infeasible,
    })
}

/// Returns the stream to plan: the named one, or the only one.
fn choose(world: &World, arguments: &Arguments) -> Result<Snapshot, Failure> {
    let file = arguments.world.display();
    let names = || world.streams.iter().map(|stream| stream.name.as_str());
    let name = match (&arguments.stream, &world.streams[..]) {
        (Some(name), _) => name,
        (None, [only]) => &only.name,
        (None, []) => return fail(Code::BadInput, format!("{file} has no stream to plan")),
        (None, _) => {
            let listed = view::some_of(names());
            return fail(
                Code::BadInput,
                format!(
                    "{file} has several streams: choose one with --stream ({listed}), or plan --all"
                ),
            );
        }
    };
    if let Some(snapshot) = world.snapshot(name) {
        return Ok(snapshot);
    }
    let near = nearest::nearest(name.as_str(), names());
    let instead = match (near.is_empty(), world.streams.is_empty()) {
        (_, true) => "it has none".to_owned(),
        (true, false) => format!("it has {}", view::some_of(names())),
        (false, false) => format!("did you mean {}?", near.join(", ")),
    };
    fail(
        Code::BadInput,
        format!("{file} has no stream `{name}`: {instead}"),
    )
}
