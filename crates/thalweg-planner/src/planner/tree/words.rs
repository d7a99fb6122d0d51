//! A tree in words: what sharing saves, and the reason for each branch's adapters.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use super::super::check::rate;
use super::super::product::LinkUse;
use super::{Branch, Tree};
use crate::model::{Adapter, NodeName, Snapshot};

impl Tree {
    /// Returns in words what the tree does where paths diverge, and what sharing saves.
    ///
    /// Takes the snapshot that the tree was planned for.
    pub fn explain(&self, snapshot: &Snapshot) -> String {
        let mut text = String::new();
        let branches = self.branches();
        let links = self.links().len();
        let hops: usize = self.paths.iter().map(|path| path.links.len()).sum();
        let _ = writeln!(
            text,
            "Each of the {links} links of the tree carries one copy; separate paths would need {hops} copies."
        );
        let (cost, apart) = (units(self.cost), units(self.apart));
        let proof = if self.is_proven() {
            "no tree costs less".to_string()
        } else {
            format!(
                "no tree to these sinks costs less than {}",
                units(self.bound)
            )
        };
        let _ = writeln!(
            text,
            "It costs {cost}, separate paths would cost {apart}; {proof}."
        );
        let partings = branches.iter().filter(|branch| branch.parts > 1);
        if branches.iter().all(|branch| branch.parts == 1) && self.paths.len() > 1 {
            text.push_str("The paths branch nowhere.\n");
        }
        let mut last: Option<(usize, &NodeName)> = None;
        for branch in partings {
            let here = (branch.depth, &branch.node);
            if last != Some(here) {
                let _ = writeln!(text, "At {} the paths branch:", branch.node);
                last = Some(here);
            }
            let others = branches
                .iter()
                .filter(|other| (other.depth, &other.node) == here && other.sinks != branch.sinks);
            let others: Vec<&Branch> = others.collect();
            let _ = writeln!(text, "- {}", self.parting(snapshot, branch, &others));
        }
        text
    }

    /// Describes one branch: its sinks, the adapters that run for it alone and why, and its link's
    /// stream.
    fn parting(&self, snapshot: &Snapshot, branch: &Branch, others: &[&Branch]) -> String {
        let stream = &snapshot.stream;
        let sinks: Vec<&str> = branch
            .sinks
            .iter()
            .map(|sink| self.name_of(*sink))
            .collect();
        let Some(link) = &branch.link else {
            let delivered = layers(self.paths[branch.sinks[0]].layers);
            let mut text = format!("{} is here and takes {delivered}", sinks.join(", "));
            if let Some(own) = own(branch) {
                let _ = write!(text, " after {own}");
            }
            return text + ".";
        };
        let mut text = format!(
            "to {}: {}{} over {} → {}",
            sinks.join(", "),
            own(branch).map(|own| own + ", then ").unwrap_or_default(),
            carried(link),
            link.from,
            link.to
        );
        let filter = branch.adapters[branch.shared..].iter();
        let filters = filter.rev().find_map(|adapter| match adapter {
            Adapter::Keep(kept) => Some(*kept),
            _ => None,
        });
        if let Some(kept) = filters {
            let _ = write!(text, ". {}", self.why_here(snapshot, branch, kept, others));
        } else if link.layers == stream.layers.len() as u8 {
            text.push_str(", all there are");
        }
        text + "."
    }

    /// Explains why a branch drops layers, and not further upstream.
    fn why_here(
        &self,
        snapshot: &Snapshot,
        branch: &Branch,
        kept: u8,
        others: &[&Branch],
    ) -> String {
        let path = &self.paths[branch.sinks[0]];
        let stream = &snapshot.stream;
        // Estimates the rate with one more layer in the same form from the rate of the layers kept.
        let plain = |layers: u8| stream.rate_of(usize::from(layers)).as_bps() as f64;
        let behind = &path.links[branch.depth.min(path.links.len())..];
        let tight = behind.iter().find_map(|link| {
            let has = snapshot.topology.link(link.link).rate;
            let more_bps = link.rate_bps * plain(kept + 1) / plain(kept);
            let over = more_bps > has.as_bps() as f64 && link.layers == kept;
            over.then(|| {
                format!(
                    "{} → {} has {has}, {} would take {}",
                    link.from,
                    link.to,
                    layers(kept + 1),
                    rate(more_bps)
                )
            })
        });
        let why =
            tight.unwrap_or_else(|| "more layers would cost more than they are worth".to_string());
        let more = others.iter().filter_map(|other| {
            let sink = *other
                .sinks
                .iter()
                .max_by_key(|sink| self.paths[**sink].layers)?;
            let takes = self.paths[sink].layers;
            (takes > kept).then(|| {
                format!(
                    "{} takes {} of the same copy",
                    self.name_of(sink),
                    layers(takes)
                )
            })
        });
        match more.collect::<Vec<_>>().first() {
            Some(more) => format!("Why: {why}; not before {}, for {more}", branch.node),
            None => format!("Why: {why}"),
        }
    }

    fn name_of(&self, sink: usize) -> &str {
        self.paths[sink].path.last().map_or("", NodeName::as_str)
    }
}

/// Returns the adapters that run for a branch alone.
fn own(branch: &Branch) -> Option<String> {
    let own = branch.adapters[branch.shared..].iter();
    let own: Vec<String> = own.map(ToString::to_string).collect();
    (!own.is_empty()).then(|| own.join(", "))
}

fn carried(link: &LinkUse) -> String {
    let form = match (link.packed, link.sealed) {
        (true, true) => ", packed and sealed",
        (true, false) => ", packed",
        (false, true) => ", sealed",
        (false, false) => "",
    };
    format!("{}{form}, {}", layers(link.layers), rate(link.rate_bps))
}

fn layers(count: u8) -> String {
    format!("{count} layer{}", if count == 1 { "" } else { "s" })
}

/// Returns a cost with at most three decimals.
fn units(cost: f64) -> String {
    let text = format!("{cost:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}
