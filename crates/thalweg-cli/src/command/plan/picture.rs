//! `thalweg plan WORLD --svg FILE`: the network and the plan on it, as a picture.
//!
//! *The idea.* Nodes stand in columns by their hops from the source, each near those that it is linked with in the
//! column before. What the plan uses is drawn strong: links as wide as their load, with what crosses them; nodes with
//! the adapters that they run.
//!
//! *What it does not do.* It moves no label out of another's way. Of a network of more than [`NODES_MAX`] nodes it shows
//! the plan's nodes and their neighbours only.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thalweg_core::model::{NodeIndex, Snapshot, Topology};
use thalweg_core::planner::{LinkUse, Plan};
use thalweg_core::units::Bitrate;

/// More nodes than this no one can tell apart in a picture.
const NODES_MAX: usize = 60;

const COLUMN: f64 = 260.0;
const ROW: f64 = 120.0;
const MARGIN: f64 = 90.0;

/// Returns the picture of plans of one stream, one a sink.
pub(super) fn draw(snapshot: &Snapshot, plans: &[Plan]) -> String {
    let topology = &snapshot.topology;
    let places = places(snapshot, plans);
    let columns = places.values().map(|(x, _)| *x).fold(0.0, f64::max);
    let rows = places.values().map(|(_, y)| *y).fold(0.0, f64::max);
    let (width, height) = (columns + 2.0 * MARGIN, rows + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
    );
    let title = &snapshot.stream.name;
    let _ = writeln!(
        svg,
        "<text x=\"16\" y=\"28\" font-size=\"16\" fill=\"#1f2937\">{}</text>",
        escaped(title.as_str())
    );
    draw_links(&mut svg, topology, plans, &places);
    for (node, at) in &places {
        draw_node(&mut svg, snapshot, plans, *node, *at);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns where each node that is shown stands.
fn places(snapshot: &Snapshot, plans: &[Plan]) -> BTreeMap<u32, (f64, f64)> {
    let topology = &snapshot.topology;
    let hops = hops_from_source(snapshot);
    let used: Vec<u32> = plans
        .iter()
        .flat_map(|plan| &plan.path)
        .filter_map(|name| topology.find(name).map(|index| index.0))
        .collect();
    let near = |node: u32| {
        used.contains(&node)
            || topology.links().iter().any(|edge| {
                let [a, b] = edge.ends.map(|end| end.0);
                a == node && used.contains(&b) || b == node && used.contains(&a)
            })
    };
    let all = topology.nodes().len() <= NODES_MAX;
    let mut columns: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (node, hops) in hops.iter().enumerate() {
        let node = node as u32;
        if all || near(node) {
            columns.entry(*hops).or_default().push(node);
        }
    }
    let tallest = columns.values().map(Vec::len).max().unwrap_or(1);
    let mut places: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (column, (_, mut nodes)) in columns.into_iter().enumerate() {
        // A node of the plan keeps its row, others stand near those that they are linked with.
        nodes.sort_by(|a, b| {
            height(topology, &places, *a).total_cmp(&height(topology, &places, *b))
        });
        let top = (tallest - nodes.len()) as f64 / 2.0;
        for (row, node) in nodes.into_iter().enumerate() {
            let x = MARGIN + column as f64 * COLUMN;
            places.insert(node, (x, MARGIN + (top + row as f64) * ROW));
        }
    }
    places
}

/// Returns the mean height of the neighbours that have a place.
fn height(topology: &Topology, places: &BTreeMap<u32, (f64, f64)>, node: u32) -> f64 {
    let neighbours = topology.links().iter().filter_map(|edge| {
        let index = NodeIndex(node);
        let far = edge.ends.contains(&index).then(|| edge.far_end(index).0)?;
        places.get(&far).map(|(_, y)| *y)
    });
    let heights: Vec<f64> = neighbours.collect();
    heights.iter().sum::<f64>() / heights.len().max(1) as f64
}

/// Returns each node's hops from the source over all links; what is out of reach comes last.
fn hops_from_source(snapshot: &Snapshot) -> Vec<u32> {
    let topology = &snapshot.topology;
    let count = topology.nodes().len() as u32;
    let mut hops = vec![count; count as usize];
    let Some(source) = topology.find(&snapshot.stream.from) else {
        return hops;
    };
    hops[source.0 as usize] = 0;
    let mut begun = vec![source];
    while !begun.is_empty() {
        let mut next = vec![];
        for node in begun {
            let joined = topology
                .links()
                .iter()
                .filter(|edge| edge.ends.contains(&node));
            for far in joined.map(|edge| edge.far_end(node)) {
                if hops[far.0 as usize] == count {
                    hops[far.0 as usize] = hops[node.0 as usize] + 1;
                    next.push(far);
                }
            }
        }
        begun = next;
    }
    hops
}

fn draw_links(
    svg: &mut String,
    topology: &Topology,
    plans: &[Plan],
    places: &BTreeMap<u32, (f64, f64)>,
) {
    let mut drawn: BTreeMap<[u32; 2], u32> = BTreeMap::new();
    for (at, edge) in topology.links().iter().enumerate() {
        let [a, b] = edge.ends.map(|end| end.0);
        let (Some(from), Some(to)) = (places.get(&a), places.get(&b)) else {
            continue;
        };
        // Parallel links bow apart.
        let parallel = drawn.entry([a.min(b), a.max(b)]).or_default();
        let bow = f64::from(*parallel) * 44.0;
        *parallel += 1;
        let middle = (
            f64::midpoint(from.0, to.0),
            f64::midpoint(from.1, to.1) + bow,
        );
        let mut links = plans.iter().flat_map(|plan| &plan.links);
        let used = links.find(|link| link.link.0 as usize == at);
        let load = used.map_or(0.0, |link| link.rate_bps / edge.rate.as_bps() as f64);
        let colour = match used {
            None => "#cbd5e1",
            Some(link) if link.sealed => "#1d4ed8",
            Some(_) => "#0f766e",
        };
        let wide = used.map_or(1.5, |_| 2.5 + 5.5 * load.min(1.0));
        let dash = if edge.secure {
            ""
        } else {
            " stroke-dasharray=\"9 5\""
        };
        let _ = writeln!(
            svg,
            "<path d=\"M{} {} Q{} {} {} {}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{wide:.1}\"{dash}/>",
            from.0,
            from.1,
            middle.0,
            middle.1 + bow,
            to.0,
            to.1
        );
        let words = match used {
            Some(link) => vec![
                format!(
                    "{} of {} ({:.0} %)",
                    rounded(link.rate_bps),
                    edge.rate,
                    load * 100.0
                ),
                form(link),
            ],
            None if edge.up => vec![edge.rate.to_string()],
            None => vec![format!("{}, down", edge.rate)],
        };
        for (line, word) in words.iter().enumerate() {
            let weight = if used.is_some() { "#1f2937" } else { "#94a3b8" };
            let y = middle.1 - 14.0 + 15.0 * line as f64 - 10.0 * (words.len() - 1) as f64;
            label(svg, middle.0, y, 12, weight, word);
        }
    }
}

fn draw_node(svg: &mut String, snapshot: &Snapshot, plans: &[Plan], node: u32, at: (f64, f64)) {
    let place = snapshot.topology.node(NodeIndex(node));
    let used = plans.iter().any(|plan| plan.path.contains(&place.name));
    let fill = match (used, place.trusted) {
        (true, true) => "#0f766e",
        (true, false) => "#b45309",
        (false, true) => "#94a3b8",
        (false, false) => "#d6b48a",
    };
    let (x, y) = at;
    let _ = writeln!(
        svg,
        "<circle cx=\"{x}\" cy=\"{y}\" r=\"13\" fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"2\"/>"
    );
    let trust = if place.trusted { "" } else { " (untrusted)" };
    label(
        svg,
        x,
        y + 30.0,
        13,
        "#111827",
        &format!("{}{trust}", place.name),
    );
    let mut chains: Vec<String> = Vec::new();
    for plan in plans {
        let chain: Vec<String> = plan
            .adapters_at(&place.name)
            .iter()
            .map(ToString::to_string)
            .collect();
        let chain = chain.join(" → ");
        if !chain.is_empty() && !chains.contains(&chain) {
            chains.push(chain);
        }
    }
    for (line, chain) in chains.iter().enumerate() {
        label(svg, x, y + 46.0 + 15.0 * line as f64, 12, "#b91c1c", chain);
    }
}

/// Adds centred text on a white edge, so that it can be read across a line.
fn label(svg: &mut String, x: f64, y: f64, size: u32, colour: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" font-size=\"{size}\" text-anchor=\"middle\" fill=\"{colour}\" stroke=\"#ffffff\" \
         stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
        escaped(text)
    );
}

fn form(link: &LinkUse) -> String {
    let layers = format!(
        "{} layer{}",
        link.layers,
        if link.layers == 1 { "" } else { "s" }
    );
    match (link.packed, link.sealed) {
        (true, true) => layers + ", packed, sealed",
        (true, false) => layers + ", packed",
        (false, true) => layers + ", sealed",
        (false, false) => layers,
    }
}

fn rounded(bps: f64) -> Bitrate {
    Bitrate::from_bps(bps.round() as u64)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
