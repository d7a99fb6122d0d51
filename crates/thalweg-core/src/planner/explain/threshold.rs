//! What would admit one more layer.
//!
//! *The idea.* With more rate on one link the plan can only change when some state with one more layer begins to fit
//! it; those rates are few, so each is tried, the least first, by planning anew.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::super::product::Plan;
use super::super::states::{States, fits};
use super::super::{Policy, plan as replan};
use super::{rate, units};
use crate::model::Snapshot;
use crate::units::Bitrate;

/// Returns the sentence about the next layer.
pub(super) fn next_layer(snapshot: &Snapshot, plan: &Plan) -> String {
    let all = snapshot.stream.layers.len();
    if usize::from(plan.layers) >= all {
        return "Next: nothing to gain; every layer is delivered.".to_string();
    }
    let next = plan.layers + 1;
    let mut best: Option<(Bitrate, usize, Plan)> = None;
    for (at, link) in plan.links.iter().enumerate() {
        let has = snapshot.topology.link(link.link).rate;
        for needs in rates_of(snapshot, next) {
            let extra = needs - has;
            if needs <= has || best.as_ref().is_some_and(|(least, ..)| *least <= extra) {
                continue;
            }
            let mut wider = snapshot.clone();
            wider.topology.links_mut()[link.link.0 as usize].rate = needs;
            let (then, _) = replan(&wider, &Policy::default());
            if then.feasible && then.layers > plan.layers {
                best = Some((extra, at, then));
                break;
            }
        }
    }
    match best {
        Some((extra, at, then)) => {
            let link = &plan.links[at];
            let cost = units(then.cost);
            format!(
                "Next: {extra} more on {} → {} would admit {} layers, at cost {cost}.",
                link.from, link.to, then.layers
            )
        }
        None => several(snapshot, plan, next),
    }
}

/// Returns the rates of all states with so many layers, least first, rounded up.
fn rates_of(snapshot: &Snapshot, layers: u8) -> Vec<Bitrate> {
    let states = States::new(snapshot, 1);
    let with = (0..states.count() as u16).filter(|state| states.layers_of(*state) == layers);
    let mut rates: Vec<Bitrate> = with.map(|state| rate(states.rate_bps(state))).collect();
    rates.sort_unstable();
    rates.dedup();
    rates
}

/// Tries to widen every link of the path that one more layer would overload.
fn several(snapshot: &Snapshot, plan: &Plan, next: u8) -> String {
    let stream = &snapshot.stream;
    let mut wider = snapshot.clone();
    let mut wanted = Vec::new();
    for link in &plan.links {
        let plain = stream.rate_of(usize::from(link.layers)).as_bps() as f64;
        let more = stream.rate_of(usize::from(next)).as_bps() as f64;
        let needs_bps = link.rate_bps * (more / plain);
        let edge = &mut wider.topology.links_mut()[link.link.0 as usize];
        if !fits(needs_bps, edge.rate) {
            let extra = rate(needs_bps) - edge.rate;
            wanted.push(format!("{extra} more on {} → {}", link.from, link.to));
            edge.rate = rate(needs_bps);
        }
    }
    let (then, _) = replan(&wider, &Policy::default());
    if wanted.len() > 1 && then.feasible && then.layers > plan.layers {
        let wanted = wanted.join(" and ");
        return format!("Next: {wanted} would admit {} layers.", then.layers);
    }
    "Next: more rate on this path would not by itself admit another layer.".to_string()
}
