//! `thalweg plan WORLD --svg FILE`: draws the network and its plans.
//!
//! *The idea.* Nodes stand in columns by hops from the source, each near its neighbours in the
//! column before (`places`). What plans use is emphasized: links as wide as their load, with
//! labels; nodes with their adapters. A link bends around nodes in its way, and a label moves along
//! its link to a free place (`labels`).
//!
//! *What it does not do.* Of a network with more than [`places::NODES_MAX`] nodes it draws the
//! plans' nodes and some of their neighbours; of idle parallel links it draws a few.

mod labels;
mod links;
mod places;

use std::fmt::Write as _;

use thalweg_planner::model::{NodeIndex, NodeName, Snapshot};
use thalweg_planner::planner::Plan;

use labels::{Ink, Labels};
use places::Places;

/// The radius of a node.
const RADIUS: f64 = 13.0;

/// The margin around the picture.
const MARGIN: f64 = 24.0;

/// A plan, with the name of its stream if there are several.
pub(super) struct Drawn<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) plan: &'a Plan,
}

impl<'a> Drawn<'a> {
    /// Makes the plan of the only stream.
    pub(super) fn only(plan: &'a Plan) -> Self {
        Self { name: None, plan }
    }
}

/// Returns an SVG of plans on one network.
pub(super) fn draw(snapshot: &Snapshot, plans: &[Drawn<'_>]) -> String {
    let places = Places::of(snapshot, plans);
    let mut labels = Labels::default();
    for at in places.all() {
        let [x, y] = at.1;
        labels.reserve([x, y], [2.0 * RADIUS, 2.0 * RADIUS]);
    }
    let mut nodes = String::new();
    for (node, at) in places.all() {
        draw_node(&mut nodes, &mut labels, snapshot, plans, node, at);
    }
    let mut lines = String::new();
    links::draw(&mut lines, &mut labels, &snapshot.topology, plans, &places);
    let [left, top, right, bottom] = labels.extent();
    let (left, top) = (left - MARGIN, top - MARGIN - 44.0);
    let (width, height) = (right + MARGIN - left, bottom + MARGIN - top);
    let title = match plans {
        [Drawn { name: Some(_), .. }, _, ..] => format!("{} streams", plans.len()),
        _ => snapshot.stream.name.to_string(),
    };
    let (x, y) = (left + 16.0, top + 26.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"{left} {top} {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect x=\"{left}\" y=\"{top}\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n\
         <text x=\"{x}\" y=\"{y}\" font-size=\"16\" fill=\"#1f2937\">{}</text>\n\
         <text x=\"{x}\" y=\"{}\" font-size=\"11\" fill=\"#64748b\">{LEGEND}</text>\n\
         {lines}{nodes}{}</svg>\n",
        escaped(&title),
        y + 17.0,
        labels.svg()
    )
}

/// The meaning of the colours.
const LEGEND: &str =
    "blue: sealed · green: not sealed · dashed: insecure · brown: untrusted · red: adapters";

fn draw_node(
    svg: &mut String,
    labels: &mut Labels,
    snapshot: &Snapshot,
    plans: &[Drawn<'_>],
    node: u32,
    [x, y]: [f64; 2],
) {
    let place = snapshot.topology.node(NodeIndex(node));
    let used = plans
        .iter()
        .any(|drawn| drawn.plan.path.contains(&place.name));
    let fill = match (used, place.trusted) {
        (true, true) => "#0f766e",
        (true, false) => "#b45309",
        (false, true) => "#94a3b8",
        (false, false) => "#d6b48a",
    };
    let _ = writeln!(
        svg,
        "<circle cx=\"{x}\" cy=\"{y}\" r=\"{RADIUS}\" fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"2\"/>"
    );
    let trust = if place.trusted { "" } else { " (untrusted)" };
    let name = format!("{}{trust}", place.name);
    labels.put([x, y + 30.0], 13, Ink::Dark, &name);
    for (line, chain) in chains(plans, &place.name).iter().enumerate() {
        labels.put([x, y + 46.0 + 15.0 * line as f64], 12, Ink::Red, chain);
    }
}

/// Returns the chains of adapters on a node, each once.
fn chains(plans: &[Drawn<'_>], node: &NodeName) -> Vec<String> {
    const SHOWN: usize = 4;
    let mut chains: Vec<String> = Vec::new();
    for drawn in plans {
        let adapters = drawn.plan.adapters_at(node).iter();
        let chain: Vec<String> = adapters.map(ToString::to_string).collect();
        if chain.is_empty() {
            continue;
        }
        let whose = drawn.name.map(|name| format!("{name}: "));
        let chain = whose.unwrap_or_default() + &chain.join(" → ");
        if !chains.contains(&chain) {
            chains.push(chain);
        }
    }
    let more = chains.len().saturating_sub(SHOWN);
    if more > 0 {
        chains.truncate(SHOWN);
        chains.push(format!("and {more} more"));
    }
    chains
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
