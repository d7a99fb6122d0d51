//! A plan in words that a person understands.
//!
//! *The idea.* Every sentence is computed. Why an adapter runs on this node, and not earlier or
//! later, comes from the checker that verifies plans; why this path was chosen, and what the next
//! layer would take, comes from the planner.
//!
//! *What it does not do.* It costs tens of plans; nothing on the data path calls it.
//!
//! *Sources.* docs/concepts/planner.md §7.

mod declared;
mod place;
mod threshold;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use thalweg_base::units::Bitrate;

use super::check::rate;
use super::product::{LinkUse, Plan};
use super::{Policy, plan as replan};
use crate::model::{AdapterName, NodeName, Snapshot};

/// Returns a plan of this snapshot in words.
///
/// Cost    O(path · (states + adapters)) plans
pub fn explain(snapshot: &Snapshot, plan: &Plan) -> String {
    let mut text = String::new();
    headline(&mut text, snapshot, plan);
    if !plan.feasible {
        shortfalls(&mut text, snapshot);
    }
    if plan.path.is_empty() {
        return text;
    }
    path(&mut text, snapshot, plan);
    links(&mut text, snapshot, plan);
    adapters(&mut text, snapshot, plan);
    cost(&mut text, plan);
    if plan.feasible {
        line(&mut text, &threshold::next_layer(snapshot, plan));
    }
    text
}

/// Appends a line.
fn line(text: &mut String, sentence: &str) {
    text.push_str(sentence);
    text.push('\n');
}

/// Returns a share in percent with one decimal.
fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Returns a cost with at most three decimals.
fn units(cost: f64) -> String {
    let text = format!("{cost:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn headline(text: &mut String, snapshot: &Snapshot, plan: &Plan) {
    let stream = &snapshot.stream;
    let sinks = stream.to.iter().map(ToString::to_string);
    let sinks: Vec<_> = sinks.collect();
    let verdict = match (plan.feasible, plan.path.is_empty()) {
        (true, _) => "",
        (false, true) => ": there is no plan",
        (false, false) => ": no plan satisfies all needs; this is the least bad one",
    };
    let ends = format!(
        "Stream {} from {} to {}",
        stream.name,
        stream.from,
        sinks.join(", ")
    );
    line(text, &format!("{ends}{verdict}."));
    if plan.path.is_empty() {
        return;
    }
    let (made, all) = declared::layers_on(snapshot, plan.links.last());
    let utility = declared::utility_on(snapshot, plan.links.last(), plan.layers);
    let bps = all.iter().take(usize::from(plan.layers));
    let bps: Bitrate = bps.map(|layer| layer.rate).sum();
    let layers = match made {
        None => count(all.len(), "layer"),
        Some(name) => format!("{} that {name} makes", count(all.len(), "layer")),
    };
    let deadline = if stream.needs.deadline.is_never() {
        "without a deadline".to_string()
    } else {
        format!("of {} allowed", stream.needs.deadline)
    };
    line(
        text,
        &format!(
            "It delivers {} of {layers} ({} of the utility), {bps}, after {} {deadline}.",
            plan.layers,
            percent(utility),
            plan.delay,
        ),
    );
}

fn shortfalls(text: &mut String, snapshot: &Snapshot) {
    let (_, shortfalls) = replan(snapshot, &Policy::default());
    let heading = match shortfalls.len() {
        1 => "What is missing:",
        _ => "What is missing; any one of these would do:",
    };
    line(text, heading);
    for shortfall in shortfalls {
        let need = format!("{:?}", shortfall.need).to_lowercase();
        line(
            text,
            &format!("- {need}: {shortfall}. To mend it, {}.", shortfall.fix()),
        );
    }
}

/// Appends the path, and the best plan on any other path, or what such a path lacks.
fn path(text: &mut String, snapshot: &Snapshot, plan: &Plan) {
    line(text, &format!("Path: {}.", names(plan)));
    if !plan.feasible {
        return;
    }
    // Any other path lacks at least one link of this one, so removing each link in turn finds the
    // best.
    let mut second: Option<Plan> = None;
    let mut lacking: Option<String> = None;
    for link in &plan.links {
        let mut without = snapshot.clone();
        without.topology.links_mut()[link.link.0 as usize].up = false;
        let (other, shortfalls) = replan(&without, &Policy::default());
        if other.feasible {
            if second
                .as_ref()
                .is_none_or(|second| other.cost < second.cost)
            {
                second = Some(other);
            }
        } else if let (None, Some(lack), false) =
            (&lacking, shortfalls.first(), other.path.is_empty())
        {
            lacking = Some(format!("{} fails: {lack}", names(&other)));
        }
    }
    let sentence = match (second, lacking) {
        (Some(second), _) => compared(plan, &second),
        (None, Some(lacking)) => format!("No other path satisfies all needs; {lacking}."),
        (None, None) => "There is no other path.".to_string(),
    };
    line(text, &format!("  {sentence}"));
}

/// Returns the cost of the best plan on another path, and its differences by part.
fn compared(plan: &Plan, second: &Plan) -> String {
    let [now, then] = [plan, second].map(|plan| plan.cost_parts);
    let mut parts = Vec::new();
    for (what, more) in [
        ("adapters", then.adapters - now.adapters),
        ("links", then.links - now.links),
        ("quality", then.quality - now.quality),
    ] {
        if more.abs() >= 0.0005 {
            let sign = if more > 0.0 { "+" } else { "−" };
            parts.push(format!("{what} {sign}{}", units(more.abs())));
        }
    }
    let difference = if parts.is_empty() {
        "equal in every part; the tie-break decides".to_string()
    } else {
        parts.join(", ")
    };
    let cost = units(second.cost);
    let others = names(second);
    format!("The best other path, {others}, would cost {cost} ({difference}).")
}

fn names(plan: &Plan) -> String {
    let names: Vec<_> = plan.path.iter().map(NodeName::as_str).collect();
    names.join(" → ")
}

fn links(text: &mut String, snapshot: &Snapshot, plan: &Plan) {
    if !plan.links.is_empty() {
        line(text, "Links:");
    }
    for link in &plan.links {
        let edge = snapshot.topology.link(link.link);
        let LinkUse { from, to, .. } = link;
        let has = edge.rate;
        let load = link.rate_bps / has.as_bps() as f64;
        let over = if load > 1.0 + 1e-9 {
            ", more than it can carry"
        } else {
            ""
        };
        let form = form(link);
        let layers = count(usize::from(link.layers), "layer");
        let needs = rate(link.rate_bps);
        let load = percent(load);
        let _ = writeln!(
            text,
            "- {from} → {to}: {layers}, {form}, {needs} of {has} ({load}{over}), {}",
            edge.delay
        );
    }
}

/// Returns the form of the stream on a link.
fn form(link: &LinkUse) -> String {
    let form = match (link.packed, link.sealed) {
        (true, true) => "packed and sealed",
        (true, false) => "packed",
        (false, true) => "sealed",
        (false, false) => "plain",
    };
    match &link.transforms[..] {
        [] => form.to_string(),
        on => {
            let on: Vec<&str> = on.iter().map(AdapterName::as_str).collect();
            format!("{form} with {}", on.join(" and "))
        }
    }
}

fn adapters(text: &mut String, snapshot: &Snapshot, plan: &Plan) {
    if plan.placements.is_empty() {
        let why = "every link can carry the stream as it is";
        line(text, &format!("Adapters: none; {why}."));
        return;
    }
    line(text, "Adapters:");
    for placement in &plan.placements {
        for at in 0..placement.adapters.len() {
            line(text, &place::why(snapshot, plan, &placement.node, at));
        }
    }
}

fn cost(text: &mut String, plan: &Plan) {
    let parts = plan.cost_parts;
    let [run, links, quality] = [parts.adapters, parts.links, parts.quality].map(units);
    let sum = units(plan.cost);
    line(
        text,
        &format!("Cost: {sum} = adapters {run} + links {links} + quality {quality}."),
    );
}

/// Returns how much more rate a link needs, rounded up.
fn more(needs_bps: f64, has: Bitrate) -> Bitrate {
    rate(needs_bps) - has
}
