//! The results for many streams in words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::super::check::rate;
use super::super::product::Plan;
use super::{Admission, Concession, Shared, SharedLink};
use crate::model::{NodeName, Snapshot, Stream};

impl Shared {
    /// Returns in words the result of every stream, the shares of contested links, and the
    /// concessions.
    pub fn explain(&self, snapshots: &[Snapshot]) -> String {
        let mut text = String::new();
        for (snapshot, admission) in snapshots.iter().zip(&self.admissions) {
            let stream = &snapshot.stream;
            let _ = writeln!(
                text,
                "{} (importance {}): {}.",
                label(stream),
                stream.importance,
                fate(admission)
            );
        }
        for link in &self.links {
            let _ = writeln!(text, "{}", link.explain(snapshots));
        }
        for concession in &self.concessions {
            let _ = writeln!(text, "{}", concession.explain(snapshots));
        }
        let alone = self.admissions.iter().map(|admission| &admission.alone);
        let alone: f64 = alone
            .filter(|plan| plan.feasible)
            .map(|plan| plan.cost)
            .sum();
        let _ = write!(text, "In all they cost {}", units(self.cost));
        if self.concessions.is_empty() {
            text.push_str(", admitted by importance");
        } else {
            let by_importance = units(self.cost_by_importance);
            let _ = write!(text, "; by importance alone, {by_importance}");
        }
        let refused = self.admissions.iter().any(|one| !one.alone.feasible);
        let which = if refused {
            "those that can be planned"
        } else {
            "each"
        };
        let _ = writeln!(text, "; {which} as if alone, {}.", units(alone));
        text
    }
}

/// Returns a stream's label, unique among streams with one sink each.
fn label(stream: &Stream) -> String {
    let to: Vec<&str> = stream.to.iter().map(NodeName::as_str).collect();
    format!("{} to {}", stream.name, to.join(", "))
}

fn fate(admission: &Admission) -> String {
    let (plan, alone) = (&admission.plan, &admission.alone);
    let layers = layers(plan.layers);
    if !plan.feasible {
        let why: Vec<String> = admission
            .shortfalls
            .iter()
            .map(ToString::to_string)
            .collect();
        let beside = if alone.feasible {
            "beside the others "
        } else {
            ""
        };
        let why = if why.is_empty() {
            "there is no room for all streams".to_string()
        } else {
            why.join(", or ")
        };
        return format!("refused; {beside}{why}");
    }
    let (costs, alone_costs) = (units(plan.cost), units(alone.cost));
    if plan.layers < alone.layers {
        let all = alone.layers;
        return format!(
            "{layers}, where it would have {all} alone; cost {costs} instead of {alone_costs}"
        );
    }
    if plan.links == alone.links && plan.placements == alone.placements {
        return format!("{layers}, as if it were alone, at {costs}");
    }
    let (path, instead) = (names(plan), names(alone));
    if path == instead {
        return format!(
            "{layers} over {path}, with other adapters than alone; cost {costs} instead of {alone_costs}"
        );
    }
    format!("{layers} over {path} instead of {instead}; cost {costs} instead of {alone_costs}")
}

impl SharedLink {
    /// Returns in words each stream's share of the link, and the streams that found no room.
    pub fn explain(&self, snapshots: &[Snapshot]) -> String {
        let share = |(at, bps): &(usize, f64)| {
            let percent = bps / self.has_bps * 100.0;
            let stream = &snapshots[*at].stream;
            let importance = stream.importance;
            format!(
                "{} {} ({percent:.1} %, importance {importance})",
                stream.name,
                rate(*bps)
            )
        };
        let shares: Vec<String> = self.shares.iter().map(share).collect();
        let full = self.load_bps() / self.has_bps * 100.0;
        let (from, to, has) = (&self.from, &self.to, rate(self.has_bps));
        let mut text = format!(
            "Link {from} → {to} of {has} is {full:.0} % full: {}.",
            shares.join(", ")
        );
        for (at, bps) in &self.missed {
            let stream = &snapshots[*at].stream;
            let _ = write!(
                text,
                " {} (importance {}) would send {} here if it were alone.",
                stream.name,
                stream.importance,
                rate(*bps)
            );
        }
        text
    }
}

impl Concession {
    /// Returns in words the loss of one stream and the gain of the other.
    pub fn explain(&self, snapshots: &[Snapshot]) -> String {
        let change = |[before, after]: [f64; 2]| {
            let direction = if after > before { "rises" } else { "falls" };
            format!("{direction} from {} to {}", units(before), units(after))
        };
        format!(
            "{} made way for {}: its cost {}, the other's {}.",
            snapshots[self.by].stream.name,
            snapshots[self.to].stream.name,
            change(self.by_cost),
            change(self.to_cost)
        )
    }
}

fn layers(count: u8) -> String {
    format!("{count} layer{}", if count == 1 { "" } else { "s" })
}

/// Returns a cost with at most three decimals.
fn units(cost: f64) -> String {
    let text = format!("{cost:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

fn names(plan: &Plan) -> String {
    let names: Vec<_> = plan.path.iter().map(NodeName::as_str).collect();
    names.join(" → ")
}
