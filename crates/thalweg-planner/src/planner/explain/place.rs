//! The reason for an adapter's position.
//!
//! *The idea.* Two questions with computed answers: what would break without the adapter, and what
//! would happen if it ran one node earlier or later. The checker executes the changed plan and
//! reports what breaks, or the cost.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::super::check::{assess, rate};
use super::super::product::{LinkUse, Placement, Plan};
use super::{declared, more, units};
use crate::model::{Adapter, NodeName, Snapshot};

/// Returns the line about one adapter of a node.
pub(super) fn why(snapshot: &Snapshot, plan: &Plan, node: &NodeName, at: usize) -> String {
    let adapter = plan.adapters_at(node)[at];
    let mut text = format!(
        "- {adapter} at {node}: {}.",
        reason(snapshot, plan, node, adapter)
    );
    let here = plan.path.iter().position(|name| name == node).unwrap_or(0);
    let neighbours = [
        ("earlier", here.checked_sub(1)),
        (
            "later",
            Some(here + 1).filter(|next| *next < plan.path.len()),
        ),
    ];
    for (when, neighbour) in neighbours {
        let Some(neighbour) = neighbour else { continue };
        let moved = moved(plan, node, at, neighbour);
        let to = &plan.path[neighbour];
        if let Some(fate) = fate(snapshot, plan, &moved) {
            let _ = write!(text, " Not {when}, at {to}: {fate}.");
        }
    }
    text
}

/// Returns the plan with one adapter moved to the neighbouring node: last in its chain if upstream,
/// first if downstream.
fn moved(plan: &Plan, node: &NodeName, at: usize, neighbour: usize) -> Plan {
    let mut chains: Vec<Vec<Adapter>> = plan
        .path
        .iter()
        .map(|name| plan.adapters_at(name).to_vec())
        .collect();
    let here = plan.path.iter().position(|name| name == node).unwrap_or(0);
    let adapter = chains[here].remove(at);
    let position = if neighbour < here {
        chains[neighbour].len()
    } else {
        0
    };
    chains[neighbour].insert(position, adapter);
    let placements = plan.path.iter().cloned().zip(chains);
    Plan {
        placements: placements
            .filter(|(_, adapters)| !adapters.is_empty())
            .map(|(node, adapters)| Placement { node, adapters })
            .collect(),
        ..plan.clone()
    }
}

/// Returns the first new violation of a changed plan, or its cost; violations of the original plan
/// do not count.
fn fate(snapshot: &Snapshot, plan: &Plan, changed: &Plan) -> Option<String> {
    let (_, anyway) = assess(snapshot, plan);
    let (cost, broken) = assess(snapshot, changed);
    if let Some(worst) = broken.iter().find(|violation| !anyway.contains(violation)) {
        return Some(worst.to_string());
    }
    let dearer = cost - plan.cost;
    if dearer > 1e-9 {
        return Some(format!("it would cost {} more", units_fine(dearer)));
    }
    plan.feasible
        .then(|| "it would cost the same, and the tie-break prefers this".to_string())
}

/// Returns a small cost such that it is not printed as zero.
fn units_fine(cost: f64) -> String {
    if cost < 0.0005 {
        return "less than 0.001".to_string();
    }
    units(cost)
}

/// Returns the reason for an adapter.
fn reason(snapshot: &Snapshot, plan: &Plan, node: &NodeName, adapter: Adapter) -> String {
    let here = plan.path.iter().position(|name| name == node).unwrap_or(0);
    let ahead = &plan.links[here.min(plan.links.len())..];
    match adapter {
        Adapter::Keep(layers) => why_keep(snapshot, ahead, layers),
        Adapter::Named(name) => declared::why(snapshot, ahead, name),
        Adapter::Pack => why_pack(snapshot, ahead),
        Adapter::Unpack => "the stream is packed up to here".to_string(),
        Adapter::Seal => why_seal(snapshot, ahead),
        Adapter::Open => match ahead.first() {
            None => "the subscriber needs it plain".to_string(),
            Some(_) => "from here on plaintext is allowed, and sealing adds rate".to_string(),
        },
    }
}

/// Finds the downstream link that one more layer would overload, in the form on that link.
fn why_keep(snapshot: &Snapshot, ahead: &[LinkUse], layers: u8) -> String {
    let (made, all) = declared::layers_on(snapshot, ahead.first());
    let rate_of = |layers: usize| {
        let layers = all.iter().take(layers);
        layers.fold(0.0, |bps, layer| bps + layer.rate.as_bps() as f64)
    };
    let kept = rate_of(usize::from(layers));
    let next = usize::from(layers) + 1;
    let more_bps = rate_of(next);
    let alike = |link: &&LinkUse| declared::layers_on(snapshot, Some(link)).0 == made;
    for link in ahead.iter().take_while(alike) {
        let needs_bps = link.rate_bps * (more_bps / kept);
        let edge = snapshot.topology.link(link.link);
        if link.layers == layers && needs_bps > edge.rate.as_bps() as f64 * (1.0 + 1e-9) {
            return format!(
                "link {} → {} has {}; {next} layers would need {} there, {} more",
                link.from,
                link.to,
                edge.rate,
                rate(needs_bps),
                more(needs_bps, edge.rate)
            );
        }
    }
    let remade = ahead
        .iter()
        .map(|link| declared::layers_on(snapshot, Some(link)).0);
    if let Some(name) = remade.flatten().find(|name| made != Some(*name)) {
        return format!("{name} makes the same of these layers as of all");
    }
    "the layers dropped are worth less than what carrying them would cost".to_string()
}

fn why_pack(snapshot: &Snapshot, ahead: &[LinkUse]) -> String {
    let ratio = snapshot.stream.pack_ratio(&snapshot.weights);
    for link in ahead.iter().take_while(|link| link.packed) {
        let needs_bps = link.rate_bps / ratio;
        let edge = snapshot.topology.link(link.link);
        if needs_bps > edge.rate.as_bps() as f64 * (1.0 + 1e-9) {
            return format!(
                "link {} → {} has {}; unpacked the stream would need {} there",
                link.from,
                link.to,
                edge.rate,
                rate(needs_bps)
            );
        }
    }
    "it costs less than the link load that it saves".to_string()
}

fn why_seal(snapshot: &Snapshot, ahead: &[LinkUse]) -> String {
    let topology = &snapshot.topology;
    for link in ahead.iter().take_while(|link| link.sealed) {
        let edge = topology.link(link.link);
        let LinkUse { from, to, .. } = link;
        if !edge.secure {
            return format!("link {from} → {to} is insecure");
        }
        let blind = edge.ends.iter().find(|end| !topology.node(**end).trusted);
        if let Some(blind) = blind {
            let blind = &topology.node(*blind).name;
            return format!("{blind} may not see plaintext, so link {from} → {to} must be sealed");
        }
    }
    "some link ahead may not carry plaintext".to_string()
}
