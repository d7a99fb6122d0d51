//! A plan, and its shortfalls, as text.

use std::fmt::Write as _;

use thalweg_base::units::Bitrate;
use thalweg_planner::model::{AdapterName, NodeName, Snapshot, Topology};
use thalweg_planner::planner::report::{Lack, Report};
use thalweg_planner::planner::{LinkUse, Plan};

use super::prose::folded;
use crate::table;
use crate::terminal::{Colour, Paint};

/// Returns a plan as a heading, facts, a table of its hops, and its shortfalls.
pub(super) fn describe(
    snapshot: &Snapshot,
    plan: &Plan,
    report: &Report,
    colour: Colour,
) -> String {
    let mut text = heading(snapshot, report.feasible, colour);
    if !report.path.is_empty() {
        text.push_str(&facts(snapshot, report));
        text.push('\n');
        text.push_str(&hops(snapshot, plan, colour));
    }
    text.push_str(&shortfalls(&report.shortfalls, colour));
    text
}

/// Returns the heading: the stream, and whether all its needs are satisfied.
pub(super) fn heading(snapshot: &Snapshot, feasible: bool, colour: Colour) -> String {
    let stream = &snapshot.stream;
    let name = colour.paint(Paint::Bold, stream.name.as_str());
    let to = some_of(stream.to.iter().map(NodeName::as_str));
    format!(
        "{name}  {} → {to}  {}\n",
        stream.from,
        verdict(feasible, colour)
    )
}

/// Returns whether all needs are satisfied, in colour.
pub(super) fn verdict(feasible: bool, colour: Colour) -> String {
    if feasible {
        colour.paint(Paint::Green, "feasible")
    } else {
        colour.paint(Paint::Red, "infeasible")
    }
}

/// Lists a few names, and how many more there are.
pub(super) fn some_of<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 6;
    let more = names.len().saturating_sub(SHOWN);
    let shown: Vec<&str> = names.take(SHOWN).collect();
    match more {
        0 => shown.join(", "),
        _ => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Returns the shortfalls, each with its remedy.
pub(super) fn shortfalls(lacks: &[Lack], colour: Colour) -> String {
    let mut text = String::new();
    if lacks.len() > 1 {
        text.push_str("Any one of these would do:\n");
    }
    for lack in lacks {
        let sentence = folded(&format!(
            "           {}\n           Remedy: {}.",
            lack.message, lack.fix
        ));
        let mark = colour.paint(Paint::Yellow, "shortfall");
        let _ = write!(text, "{mark}{}", &sentence["shortfall".len()..]);
    }
    text
}

fn facts(snapshot: &Snapshot, report: &Report) -> String {
    let parts = report.cost_parts;
    let deadline = snapshot.stream.needs.deadline;
    let allowed = if deadline.is_never() {
        "no deadline".to_owned()
    } else {
        format!("{deadline} allowed")
    };
    format!(
        "layers  {} of {}\ndelay   {} ms, {allowed}\ncost    {:.4} = adapters {:.4} + links {:.4} + quality {:.4}\n",
        report.layers,
        snapshot.stream.layers.len(),
        report.delay_ms,
        report.cost,
        parts.adapters,
        parts.links,
        parts.quality,
    )
}

/// One row per node of the path, with its adapters and its outgoing link.
fn hops(snapshot: &Snapshot, plan: &Plan, colour: Colour) -> String {
    let mut rows = vec![HOP_HEADING.map(String::from)];
    for (at, node) in plan.path.iter().enumerate() {
        let adapters: Vec<String> = plan
            .adapters_at(node)
            .iter()
            .map(ToString::to_string)
            .collect();
        rows.push(hop(
            &snapshot.topology,
            node.to_string(),
            adapters.join(" "),
            plan.links.get(at),
        ));
    }
    table::lay_out(&rows, colour)
}

/// The headings of a table of hops.
pub(super) const HOP_HEADING: [&str; 7] =
    ["node", "adapters", "link", "rate", "of", "load", "form"];

/// Returns one row: a node, its adapters, and the load of its link.
pub(super) fn hop(
    topology: &Topology,
    node: String,
    adapters: String,
    link: Option<&LinkUse>,
) -> [String; 7] {
    let Some(link) = link else {
        let mut row = [const { String::new() }; 7];
        (row[0], row[1]) = (node, adapters);
        return row;
    };
    let has = topology.link(link.link).rate;
    let load = link.rate_bps / has.as_bps() as f64 * 100.0;
    [
        node,
        adapters,
        format!("→ {}", link.to),
        rounded(link.rate_bps),
        has.to_string(),
        format!("{load:.0} %"),
        form(link),
    ]
}

/// Formats a rate, rounded to whole bits.
pub(super) fn rounded(bps: f64) -> String {
    Bitrate::from_bps(bps.round() as u64).to_string()
}

/// Describes a stream's form on a link.
fn form(link: &LinkUse) -> String {
    let form = [(link.packed, "packed"), (link.sealed, "sealed")];
    let on = form.iter().filter(|(is, _)| *is).map(|(_, word)| *word);
    let form: Vec<&str> = on
        .chain(link.transforms.iter().map(AdapterName::as_str))
        .collect();
    if form.is_empty() {
        "plain".to_owned()
    } else {
        form.join(", ")
    }
}
