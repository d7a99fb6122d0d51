//! Draws links, as wide as their load, around nodes in their way.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use thalweg_planner::model::{Edge, Topology};
use thalweg_planner::planner::LinkUse;

use super::labels::{Ink, Labels};
use super::places::Places;
use super::{Drawn, RADIUS};
use crate::command::plan::view::rounded;

/// Least distance of a line from the centre of a foreign node.
const CLEARANCE: f64 = RADIUS + 12.0;

/// How many idle parallel links are drawn.
const IDLE_PARALLEL_MAX: usize = 3;

/// Offsets of a curve's middle to either side, tried in this order.
const BOWS: [f64; 9] = [0.0, 48.0, -48.0, 80.0, -80.0, 120.0, -120.0, 170.0, -170.0];

/// Sample points per curve.
const STEPS: u32 = 24;

/// The load that plans put on one link.
#[derive(Default)]
struct Load<'a> {
    uses: Vec<(Option<&'a str>, &'a LinkUse)>,
}

/// A quadratic curve from one node to another.
struct Curve {
    from: [f64; 2],
    bend: [f64; 2],
    to: [f64; 2],
}

/// Draws all links with both ends shown; links in use are labelled first.
pub(super) fn draw(
    svg: &mut String,
    labels: &mut Labels,
    topology: &Topology,
    plans: &[Drawn<'_>],
    places: &Places,
) {
    let mut loads: BTreeMap<u32, Load<'_>> = BTreeMap::new();
    for drawn in plans {
        for link in &drawn.plan.links {
            let uses = &mut loads.entry(link.link.0).or_default().uses;
            // The paths of a tree share one copy of the stream.
            if drawn.name.is_some() || uses.is_empty() {
                uses.push((drawn.name, link));
            }
        }
    }
    let mut bows: BTreeMap<[u32; 2], usize> = BTreeMap::new();
    let mut idle: BTreeMap<[u32; 2], usize> = BTreeMap::new();
    let mut words: Vec<(Curve, Ink, Vec<String>)> = Vec::new();
    for (at, edge) in topology.links().iter().enumerate() {
        let mut pair = edge.ends.map(|end| end.0);
        let (Some(from), Some(to)) = (places.get(pair[0]), places.get(pair[1])) else {
            continue;
        };
        pair.sort_unstable();
        let load = loads.get(&(at as u32));
        if load.is_none() {
            let drawn = idle.entry(pair).or_default();
            *drawn += 1;
            if *drawn > IDLE_PARALLEL_MAX {
                continue;
            }
        }
        let curve = Curve::around(places, pair, [from, to], bows.entry(pair).or_default());
        draw_line(svg, edge, load, &curve);
        for step in 1..STEPS {
            labels.reserve(curve.at(f64::from(step) / f64::from(STEPS)), [6.0, 6.0]);
        }
        let (ink, lines) = match load {
            Some(load) => (Ink::Dark, load.words(edge)),
            None if edge.up => (Ink::Faint, vec![edge.rate.to_string()]),
            None => (Ink::Faint, vec![format!("{}, down", edge.rate)]),
        };
        words.push((curve, ink, lines));
    }
    words.sort_by_key(|(_, ink, _)| matches!(ink, Ink::Faint));
    for (curve, ink, lines) in words {
        labels.put_at_best(&curve.beside(lines.len()), 12, ink, &lines);
    }
}

fn draw_line(svg: &mut String, edge: &Edge, load: Option<&Load<'_>>, curve: &Curve) {
    let sealed = load.is_some_and(|load| load.uses.iter().any(|(_, link)| link.sealed));
    let colour = match (load, sealed) {
        (None, _) => "#cbd5e1",
        (Some(_), true) => "#1d4ed8",
        (Some(_), false) => "#0f766e",
    };
    let wide = load.map_or(1.5, |load| 2.5 + 5.5 * load.share(edge).min(1.0));
    let dash = if edge.secure {
        ""
    } else {
        " stroke-dasharray=\"9 5\""
    };
    let Curve { from, bend, to } = curve;
    let _ = writeln!(
        svg,
        "<path d=\"M{} {} Q{:.1} {:.1} {} {}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{wide:.1}\"{dash}/>",
        from[0], from[1], bend[0], bend[1], to[0], to[1]
    );
}

impl Load<'_> {
    /// Returns the share of the link's rate that the fuller direction uses.
    fn share(&self, edge: &Edge) -> f64 {
        let mut ways: BTreeMap<&str, f64> = BTreeMap::new();
        for (_, link) in &self.uses {
            *ways.entry(link.from.as_str()).or_default() += link.rate_bps;
        }
        ways.into_values().fold(0.0, f64::max) / edge.rate.as_bps() as f64
    }

    /// Returns the label: what each stream sends, and how full the link is.
    fn words(&self, edge: &Edge) -> Vec<String> {
        const SHOWN: usize = 3;
        let percent = self.share(edge) * 100.0;
        if let [(None, link)] = self.uses[..] {
            let rate = rounded(link.rate_bps);
            return vec![
                format!("{rate} of {} ({percent:.0} %)", edge.rate),
                form(link),
            ];
        }
        let share = |(name, link): &(Option<&str>, &LinkUse)| {
            format!("{} {}", name.unwrap_or_default(), rounded(link.rate_bps))
        };
        let mut words: Vec<String> = self.uses.iter().take(SHOWN).map(share).collect();
        let more = self.uses.len().saturating_sub(SHOWN);
        if more > 0 {
            words.push(format!("and {more} more"));
        }
        words.push(format!("of {} ({percent:.0} %)", edge.rate));
        words
    }
}

impl Curve {
    /// Returns the first free curve that avoids all other nodes.
    fn around(
        places: &Places,
        pair: [u32; 2],
        [from, to]: [[f64; 2]; 2],
        taken: &mut usize,
    ) -> Self {
        let bent = |bow: f64| {
            let middle = [f64::midpoint(from[0], to[0]), f64::midpoint(from[1], to[1])];
            // Perpendicular to the line. The control point is twice as far out as the curve's middle.
            let along = [to[0] - from[0], to[1] - from[1]];
            let length = along[0].hypot(along[1]).max(1.0);
            let bend = [
                middle[0] - 2.0 * bow * along[1] / length,
                middle[1] + 2.0 * bow * along[0] / length,
            ];
            Self { from, bend, to }
        };
        let clear = |curve: &Self| {
            let mut others = places.all().filter(|(node, _)| !pair.contains(node));
            others.all(|(_, at)| curve.distance(at) >= CLEARANCE)
        };
        let free = (*taken..BOWS.len()).find(|at| clear(&bent(BOWS[*at])));
        let at = free.unwrap_or(*taken);
        *taken = at + 1;
        let beyond = 48.0 * (at + 1).saturating_sub(BOWS.len()) as f64;
        bent(BOWS.get(at).copied().unwrap_or(170.0 + beyond))
    }

    /// Returns the point at parameter `t`, from 0 to 1.
    fn at(&self, t: f64) -> [f64; 2] {
        let (a, b, c) = ((1.0 - t) * (1.0 - t), 2.0 * t * (1.0 - t), t * t);
        [0, 1].map(|axis| a * self.from[axis] + b * self.bend[axis] + c * self.to[axis])
    }

    /// Returns the least distance between curve and point.
    fn distance(&self, [x, y]: [f64; 2]) -> f64 {
        let steps = (0..=STEPS).map(|step| self.at(f64::from(step) / f64::from(STEPS)));
        let distances = steps.map(|[px, py]| (px - x).hypot(py - y));
        distances.fold(f64::INFINITY, f64::min)
    }

    /// Returns places for a label of `lines` lines: above and below the curve, its middle first.
    fn beside(&self, lines: usize) -> Vec<[f64; 2]> {
        let above = 8.0 + 15.0 * (lines - 1) as f64;
        let along = [0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73];
        let sides = along.iter().flat_map(|t| {
            let [x, y] = self.at(*t);
            let [far, near] = [24.0, 10.0].map(|more| above + more);
            [
                [x, y - above],
                [x, y + 20.0],
                [x, y - near],
                [x, y + 30.0],
                [x, y - far],
                [x, y + 44.0],
            ]
        });
        sides.collect()
    }
}

/// Describes a stream's form on a link.
fn form(link: &LinkUse) -> String {
    let plural = if link.layers == 1 { "" } else { "s" };
    let mut form = format!("{} layer{plural}", link.layers);
    for (is, word) in [(link.packed, "packed"), (link.sealed, "sealed")] {
        if is {
            form = form + ", " + word;
        }
    }
    for transform in &link.transforms {
        form = form + ", " + transform.as_str();
    }
    form
}
