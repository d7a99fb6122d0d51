//! What would admit one more layer.
//!
//! *The idea.* More rate on one link changes the plan only when a state with one more layer begins
//! to fit it. Those rates are few, so each is tried by planning again, lowest first.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use thalweg_base::units::Bitrate;

use super::super::product::Plan;
use super::super::states::{States, fits};
use super::super::{Policy, plan as replan};
use super::declared::utility_on;
use super::{percent, rate, units};
use crate::model::Snapshot;

/// Returns the sentence about the next layer.
pub(super) fn next_layer(snapshot: &Snapshot, plan: &Plan) -> String {
    let all = snapshot.stream.layers.len();
    if !snapshot.catalogue.tables.is_empty() {
        return more_utility(snapshot, plan);
    }
    if usize::from(plan.layers) >= all {
        return "Next: nothing to gain; every layer is delivered.".to_string();
    }
    let next = plan.layers + 1;
    let best = least_widening(snapshot, plan, &rates_of(snapshot, next), |then| {
        then.layers > plan.layers
    });
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

/// Returns the sentence about the next utility, as layers of several tables cannot be counted
/// together.
fn more_utility(snapshot: &Snapshot, plan: &Plan) -> String {
    let states = States::new(snapshot, 1);
    let lacks = |state| states.quality(state).as_f64();
    let worth_more = |lacks: f64| lacks < plan.cost_parts.quality - 1e-9;
    let with = (0..states.count() as u16).filter(|state| worth_more(lacks(*state)));
    let mut rates: Vec<Bitrate> = with.map(|state| rate(states.rate_bps(state))).collect();
    if rates.is_empty() {
        return "Next: nothing to gain; the whole utility is delivered.".to_string();
    }
    rates.sort_unstable();
    rates.dedup();
    let better = |then: &Plan| worth_more(then.cost_parts.quality);
    match least_widening(snapshot, plan, &rates, better) {
        Some((extra, at, then)) => {
            let link = &plan.links[at];
            let utility = utility_on(snapshot, then.links.last(), then.layers);
            format!(
                "Next: {extra} more on {} → {} would deliver {} of the utility, at cost {}.",
                link.from,
                link.to,
                percent(utility),
                units(then.cost)
            )
        }
        None => {
            "Next: more rate on one link of this path would not by itself deliver more.".to_string()
        }
    }
}

/// Returns the smallest rate increase on one link that improves the plan, the link's index, and the
/// new plan.
fn least_widening(
    snapshot: &Snapshot,
    plan: &Plan,
    rates: &[Bitrate],
    is_better: impl Fn(&Plan) -> bool,
) -> Option<(Bitrate, usize, Plan)> {
    let mut best: Option<(Bitrate, usize, Plan)> = None;
    for (at, link) in plan.links.iter().enumerate() {
        let has = snapshot.topology.link(link.link).rate;
        for needs in rates.iter().copied() {
            let extra = needs - has;
            if needs <= has || best.as_ref().is_some_and(|(least, ..)| *least <= extra) {
                continue;
            }
            let mut wider = snapshot.clone();
            wider.topology.links_mut()[link.link.0 as usize].rate = needs;
            let (then, _) = replan(&wider, &Policy::default());
            if then.feasible && is_better(&then) {
                best = Some((extra, at, then));
                break;
            }
        }
    }
    best
}

/// Returns the rates of all states with `layers` layers, lowest first, rounded up.
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
