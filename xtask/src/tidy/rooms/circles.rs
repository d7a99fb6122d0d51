//! Circles of a graph, and the floors of what has none.

use std::collections::{BTreeMap, BTreeSet};

/// From each node to those that it names.
pub type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns the sets of nodes that reach each other, those of one node left out.
///
/// Cost    nodes times arrows: crates have hundreds of files
pub fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<String>> = graph
        .keys()
        .map(|from| (from, reached(graph, from)))
        .collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for from in graph.keys() {
        if found.iter().any(|circle| circle.contains(from)) {
            continue;
        }
        let is_mutual = |to: &&String| reach.get(to).is_some_and(|back| back.contains(from));
        let circle: BTreeSet<String> = reach[from].iter().filter(is_mutual).cloned().collect();
        if circle.len() > 1 {
            found.push(circle);
        }
    }
    found
}

fn reached(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(node) = next.pop() {
        for to in graph.get(node).into_iter().flatten() {
            if seen.insert(to.clone()) {
                next.push(to);
            }
        }
    }
    seen
}

/// Returns the floor of each node: one above the highest that it names. Nodes of a circle share one.
pub fn floors(graph: &Graph) -> BTreeMap<String, usize> {
    let circles = circles(graph);
    let mut floors: BTreeMap<String, usize> = graph.keys().map(|node| (node.clone(), 1)).collect();
    // Without circles a floor is final after as many rounds as there are floors.
    for _ in 0..graph.len() {
        for (node, names) in graph {
            let is_apart = |to: &&String| {
                let mut both = circles.iter().filter(|circle| circle.contains(node));
                !both.any(|circle| circle.contains(*to))
            };
            let below = names.iter().filter(is_apart).map(|to| floors[to]).max();
            let floor = below.map_or(1, |below| below + 1);
            let own = floors[node].max(floor);
            let same = circles.iter().find(|circle| circle.contains(node));
            for one in same.into_iter().flatten().chain([node]) {
                let higher = floors[one].max(own);
                floors.insert(one.clone(), higher);
            }
        }
    }
    floors
}
