//! `thalweg plan WORLD`: the plan of a stream, for people or as JSON.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use thalweg_core::id::StreamName;
use thalweg_core::model::{AdapterName, NodeName, Snapshot, World};
use thalweg_core::planner::report::Report;
use thalweg_core::planner::{self, Planner, Policy};
use thalweg_core::units::Bitrate;

use crate::exit::{Code, Failure, Outcome, fail};
use crate::terminal::{self, Colour, Paint};
use crate::{input, table};

mod compare;
mod picture;
mod tree;

const EXAMPLES: &str = "\
Examples:
  thalweg plan worlds/demo.toml
  thalweg plan worlds/demo.toml --explain
  thalweg plan worlds/demo.toml --stream scene --json | jq .cost
  thalweg plan worlds/demo.toml --compare
  thalweg plan worlds/demo.toml --svg plan.svg

Exits 3 if no plan satisfies the stream's needs, and says what would have to change.";

/// Plan a stream of a world: its path, the adapters on each node and what every link carries.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The world (TOML, or JSON by a name that ends in .json).
    world: PathBuf,

    /// The stream; may be left out if the world has one only.
    #[arg(long, value_name = "NAME")]
    stream: Option<StreamName>,

    /// Which planner: exact, heuristic, exhaustive or incremental.
    #[arg(long, value_name = "PLANNER", default_value = "exact")]
    planner: Planner,

    /// Print one JSON object.
    #[arg(long)]
    json: bool,

    /// Print what all planners make of the stream, side by side.
    #[arg(long, conflicts_with_all = ["explain", "planner"])]
    compare: bool,

    /// Draw the network and the plan on it into a file.
    #[arg(long, value_name = "FILE", conflicts_with = "compare")]
    svg: Option<PathBuf>,

    /// Say in words and numbers why the plan is what it is.
    #[arg(long, conflicts_with = "json")]
    explain: bool,
}

/// Plans and prints.
pub fn run(arguments: &Arguments) -> Outcome {
    let world = input::load_world(&arguments.world)?;
    let snapshot = choose(&world, arguments)?;
    let policy = Policy {
        planner: arguments.planner,
        ..Policy::default()
    };
    if arguments.compare {
        return run_compare(&snapshot, policy, arguments.json);
    }
    if snapshot.stream.to.len() > 1 && policy.planner == Planner::Exact {
        return run_tree(&snapshot, policy, arguments);
    }
    let start = Instant::now();
    let (plan, shortfalls) = planner::plan(&snapshot, &policy);
    let report = Report::new(&plan, &shortfalls, start.elapsed().into());
    let text = if arguments.json {
        serde_json::to_string(&report)? + "\n"
    } else {
        let mut text = describe(&snapshot, &report, Colour::of_stdout());
        if arguments.explain {
            let _ = write!(text, "\n{}", planner::explain(&snapshot, &plan));
        }
        text
    };
    terminal::print(&text)?;
    draw(arguments, &snapshot, &[plan])?;
    Ok(if report.feasible {
        Code::Done
    } else {
        Code::Infeasible
    })
}

/// Plans a stream with several sinks and prints the tree.
fn run_tree(snapshot: &Snapshot, policy: Policy, arguments: &Arguments) -> Outcome {
    let planned = tree::plan(snapshot, policy);
    let text = if arguments.json {
        planned.json()?
    } else {
        planned.text(snapshot, arguments.explain, Colour::of_stdout())
    };
    terminal::print(&text)?;
    draw(arguments, snapshot, planned.paths())?;
    Ok(if planned.is_feasible() {
        Code::Done
    } else {
        Code::Infeasible
    })
}

/// Writes the picture, if one is wanted.
fn draw(
    arguments: &Arguments,
    snapshot: &Snapshot,
    plans: &[planner::Plan],
) -> Result<(), Failure> {
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

/// Prints what every planner makes of a stream; exits as the exact one would.
fn run_compare(snapshot: &Snapshot, policy: Policy, as_json: bool) -> Outcome {
    let reports = compare::all(snapshot, policy);
    let text = if as_json {
        compare::json(&reports)?
    } else {
        compare::table(snapshot, &reports, Colour::of_stdout())
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

/// Returns what there is to plan: the stream that was named, or the only one.
fn choose(world: &World, arguments: &Arguments) -> Result<Snapshot, Failure> {
    let file = arguments.world.display();
    let names: Vec<&str> = world.streams.iter().map(|s| s.name.as_str()).collect();
    let listed = names.join(", ");
    let name = match (&arguments.stream, &world.streams[..]) {
        (Some(name), _) => name,
        (None, [only]) => &only.name,
        (None, []) => return fail(Code::BadInput, format!("{file} has no stream to plan")),
        (None, _) => {
            return fail(
                Code::BadInput,
                format!("{file} has several streams: choose one with --stream ({listed})"),
            );
        }
    };
    match world.snapshot(name) {
        Some(snapshot) => Ok(snapshot),
        None => fail(
            Code::BadInput,
            format!("{file} has no stream `{name}`: it has {listed}"),
        ),
    }
}

/// Returns a plan as a table for people.
fn describe(snapshot: &Snapshot, report: &Report, colour: Colour) -> String {
    let stream = &snapshot.stream;
    let mut text = String::new();
    let verdict = if report.feasible {
        colour.paint(Paint::Green, "feasible")
    } else {
        colour.paint(Paint::Red, "infeasible")
    };
    let name = colour.paint(Paint::Bold, stream.name.as_str());
    let to: Vec<&str> = stream.to.iter().map(NodeName::as_str).collect();
    let _ = writeln!(
        text,
        "{name}  {} → {}  {verdict}",
        stream.from,
        to.join(", ")
    );
    if !report.path.is_empty() {
        text.push_str(&facts(snapshot, report));
        text.push('\n');
        text.push_str(&hops(snapshot, report, colour));
    }
    for lack in &report.shortfalls {
        let mark = colour.paint(Paint::Yellow, "shortfall");
        let _ = writeln!(
            text,
            "{mark}  {}\n           to mend it: {}",
            lack.message, lack.fix
        );
    }
    text
}

fn facts(snapshot: &Snapshot, report: &Report) -> String {
    let parts = report.cost_parts;
    format!(
        "layers  {} of {}\ndelay   {} ms of {}\ncost    {:.4} = adapters {:.4} + links {:.4} + quality {:.4}\n",
        report.layers,
        snapshot.stream.layers.len(),
        report.delay_ms,
        snapshot.stream.needs.deadline,
        report.cost,
        parts.adapters,
        parts.links,
        parts.quality,
    )
}

/// One row a node of the path, with its adapters and the link that leaves it.
fn hops(snapshot: &Snapshot, report: &Report, colour: Colour) -> String {
    let topology = &snapshot.topology;
    let mut rows =
        vec![["node", "adapters", "link", "rate", "of", "load", "form"].map(String::from)];
    for (at, node) in report.path.iter().enumerate() {
        let chain = report.placements.iter().find(|chain| chain.node == *node);
        let adapters: Vec<String> = chain
            .map(|chain| chain.adapters.iter().map(ToString::to_string).collect())
            .unwrap_or_default();
        let mut row = [node.to_string(), adapters.join(" ")].to_vec();
        match report.links.get(at) {
            Some(hop) => {
                let ends = [topology.find(&hop.from), topology.find(&hop.to)];
                let rate = topology
                    .links()
                    .iter()
                    .filter(|edge| edge.up)
                    .find_map(|edge| {
                        let joins = ends.contains(&Some(edge.ends[0]))
                            && ends.contains(&Some(edge.ends[1]));
                        joins.then_some(edge.rate)
                    });
                row.push(format!("→ {}", hop.to));
                row.push(Bitrate::from_bps(hop.rate_bps as u64).to_string());
                row.push(rate.map(|rate| rate.to_string()).unwrap_or_default());
                let load = rate.map(|rate| hop.rate_bps / rate.as_bps() as f64 * 100.0);
                row.push(load.map(|load| format!("{load:.0} %")).unwrap_or_default());
                let form = [(hop.packed, "packed"), (hop.sealed, "sealed")];
                let form = form.iter().filter(|(is, _)| *is).map(|(_, word)| *word);
                let declared = hop.transforms.iter().map(AdapterName::as_str);
                let form: Vec<&str> = form.chain(declared).collect();
                row.push(if form.is_empty() {
                    "plain".into()
                } else {
                    form.join(", ")
                });
            }
            None => row.resize(7, String::new()),
        }
        rows.push(row.try_into().expect("seven columns were filled"));
    }
    table::lay_out(&rows, colour)
}
