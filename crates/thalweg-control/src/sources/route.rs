//! The path that a stream would take over the present map, the reason, and what the alternatives cost.
//!
//! *The idea.* The map and planner that serve streams are queried for two given nodes, and again
//! with each link of the answer removed in turn. So each alternative is the best path that is left
//! if that link fails.
//!
//! *What it does not do.* It changes nothing. The stream itself may take another path: its source plans
//! with its full needs and its own configuration, of which only the announcement is known here.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use serde::Serialize;
use thalweg_base::id::{NodeId, StreamName};
use thalweg_base::limits::STREAM_NAME_BYTES_MAX;
use thalweg_base::needs::Needs;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_base::wire::record::Announced;
use thalweg_planner::model::{Layer, NodeName, Snapshot};
use thalweg_planner::planner::report::Report;
use thalweg_planner::planner::{self, Plan, Planner, Policy};

use super::{Sources, View};
use crate::facts::Facts;
use crate::planning::{Map, Publication};

/// The rate that is assumed if no stream is named: ordinary video.
const RATE_ASSUMED: Bitrate = Bitrate::from_kbps(1_000);

/// The name of the assumed stream.
const NAME_ASSUMED: &str = "any";

const _: () = assert!(NAME_ASSUMED.len() <= STREAM_NAME_BYTES_MAX, "it is a name");

/// Paths between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paths {
    /// The first node.
    pub from: NodeName,
    /// The last node.
    pub to: NodeName,
    /// The stream that they were planned for; if none, a stream of `rate_bps` that is not confidential.
    pub stream: Option<StreamName>,
    /// Its rate in bit/s, all layers together.
    pub rate_bps: u64,
    /// Whether it is confidential.
    pub confidential: bool,
    /// The best path.
    pub best: Report,
    /// The links of the best path, with their present values.
    pub hops: Vec<HopState>,
    /// The best path in words.
    pub explanation: String,
    /// The best paths without each link of the best, cheapest first.
    pub alternatives: Vec<Alternative>,
}

/// A link as the map shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopState {
    /// One end.
    pub from: NodeName,
    /// The other.
    pub to: NodeName,
    /// One-way delay in ms: half of the round trip.
    pub delay_ms: f64,
    /// The share of packets lost, 0 to 1.
    pub loss: f64,
    /// Its rate in bit/s, as the planner assumes it.
    pub rate_bps: u64,
    /// Its rate from `from` to `to` in bit/s, as `from` announces it (measured or configured), if it does.
    pub there_bps: Option<u64>,
    /// Its rate from `to` to `from` in bit/s, as `to` announces it, if it does.
    pub back_bps: Option<u64>,
    /// Its rate in bit/s in this node's configuration; nothing for links of other nodes.
    pub configured_bps: Option<u64>,
    /// Whether it is safe from eavesdroppers.
    pub secure: bool,
}

/// A path that avoids one link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alternative {
    /// The links (pairs of ends) without each of which this is the best path.
    pub without: Vec<[NodeName; 2]>,
    /// The path.
    pub plan: Report,
}

/// Plans between two nodes of the map, for an announced stream or for an assumed one.
///
/// Cost    a plan for each link of the best path, and one explanation
/// Fails   a sentence that names a node that is not on the map, or a stream that is not announced
pub(crate) fn paths(
    view: &View<'_>,
    sources: &Sources,
    [from, to]: [NodeId; 2],
    stream: Option<&StreamName>,
) -> Result<Paths, String> {
    let facts = view.facts;
    if from == to {
        return Err(format!(
            "both ends are the same node, {}",
            facts.name_of(from)
        ));
    }
    let publication = match stream {
        Some(name) => announced(facts, sources, name)?,
        None => assumed(),
    };
    let was_silent = |ends| view.health.was_silent(ends);
    let mut map = Map::between(facts, &publication, [from, to], |_| true, was_silent)?;
    let policy = Policy::default();
    let (plan, shortfalls) = map.plan(policy);
    let hops = hops(facts, &map, &plan.path);
    let snapshot = map.snapshot;
    let explanation = if plan.feasible {
        planner::explain(&snapshot, &plan)
    } else {
        let reasons: Vec<String> = shortfalls.iter().map(ToString::to_string).collect();
        format!("no plan satisfies its needs: {}", reasons.join("; "))
    };
    let layers = publication.layers.iter();
    Ok(Paths {
        from: snapshot.stream.from.clone(),
        to: snapshot.stream.to[0].clone(),
        stream: stream.cloned(),
        rate_bps: layers.map(|layer| layer.rate).sum::<Bitrate>().as_bps(),
        confidential: publication.needs.confidential,
        alternatives: alternatives(&snapshot, &plan, policy),
        best: Report::new(&plan, &shortfalls, Duration::ZERO),
        hops,
        explanation,
    })
}

/// Returns what is known of a stream: everything if it is published here, else what its record says.
fn announced(
    facts: &Facts<'_>,
    sources: &Sources,
    name: &StreamName,
) -> Result<Publication, String> {
    let published = facts.directory.publisher(name);
    let (_, announced) = published.ok_or_else(|| format!("no node publishes `{name}`"))?;
    let own = sources.get(announced.id);
    Ok(own.map_or_else(|| described(announced), |own| own.publication().clone()))
}

fn hops(facts: &Facts<'_>, map: &Map, path: &[NodeName]) -> Vec<HopState> {
    let hop = |names: &[NodeName]| {
        let edge = &map.snapshot.topology.links()[place_of(&map.snapshot, names)?];
        let [near, far] = [map.key(&names[0])?, map.key(&names[1])?];
        Some(HopState {
            from: names[0].clone(),
            to: names[1].clone(),
            delay_ms: edge.delay.as_millis_f64(),
            loss: edge.loss.as_f64(),
            rate_bps: edge.rate.as_bps(),
            there_bps: announced_rate(facts, near, far),
            back_bps: announced_rate(facts, far, near),
            configured_bps: configured_rate(facts, [near, far]),
            secure: edge.secure,
        })
    };
    path.windows(2).filter_map(hop).collect()
}

/// Returns the rate that a node announces for its link to another, in bit/s.
fn announced_rate(facts: &Facts<'_>, from: NodeId, to: NodeId) -> Option<u64> {
    let rate = facts.directory.record(from)?.neighbour(to)?.rate;
    (rate > Bitrate::ZERO).then_some(rate.as_bps())
}

fn configured_rate(facts: &Facts<'_>, ends: [NodeId; 2]) -> Option<u64> {
    let other = match ends {
        [near, far] if near == facts.id() => far,
        [near, far] if far == facts.id() => near,
        _ => return None,
    };
    Some(facts.local.peers.get(&other)?.rate?.as_bps())
}

/// Returns the publication that an announcement describes; utilities are not announced, so they are equal.
fn described(announced: &Announced) -> Publication {
    let rates: &[Bitrate] = match &announced.layers[..] {
        [] => &[RATE_ASSUMED],
        rates => rates,
    };
    let layer = |rate: &Bitrate| Layer {
        rate: *rate,
        utility: 1.0 / rates.len() as f64,
    };
    Publication {
        needs: Needs {
            confidential: announced.confidential,
            ..Needs::default()
        },
        ..Publication::layered(announced.name.clone(), rates.iter().map(layer).collect())
    }
}

fn assumed() -> Publication {
    Publication {
        needs: Needs::default(),
        pack_ratio: Some(1.0),
        planner: Some(Planner::Exact),
        ..Publication::new(
            NAME_ASSUMED.parse().expect("letters are a name"),
            RATE_ASSUMED,
        )
    }
}

fn alternatives(snapshot: &Snapshot, best: &Plan, policy: Policy) -> Vec<Alternative> {
    let mut found: Vec<Alternative> = Vec::new();
    for ends in best.path.windows(2) {
        let Some(place) = place_of(snapshot, ends) else {
            continue;
        };
        let mut without = snapshot.clone();
        without.topology.links_mut()[place].up = false;
        let (plan, shortfalls) = planner::plan(&without, &policy);
        if !plan.feasible {
            continue;
        }
        let ends = [ends[0].clone(), ends[1].clone()];
        let same = found.iter_mut().find(|other| other.plan.path == plan.path);
        if let Some(same) = same {
            same.without.push(ends);
        } else {
            found.push(Alternative {
                without: vec![ends],
                plan: Report::new(&plan, &shortfalls, Duration::ZERO),
            });
        }
    }
    found.sort_by(|a, b| a.plan.cost.total_cmp(&b.plan.cost));
    found
}

/// Returns the index of the link between two neighbours.
fn place_of(snapshot: &Snapshot, ends: &[NodeName]) -> Option<usize> {
    let topology = &snapshot.topology;
    let ends = [topology.find(&ends[0])?, topology.find(&ends[1])?];
    let joins =
        |edge: &thalweg_planner::model::Edge| edge.ends == ends || edge.ends == [ends[1], ends[0]];
    topology.links().iter().position(joins)
}
