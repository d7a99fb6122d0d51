//! Laws of every plan in any world: more never costs more, names do not matter, a shortfall's fix
//! works.

use proptest::prelude::*;
use thalweg_base::time::Duration;
use thalweg_base::units::Bitrate;
use thalweg_planner::model::{Edge, NodeIndex, Place, Snapshot, Topology};
use thalweg_planner::planner::{Need, Plan, Policy, Shortfall, Violation, check, explain, plan};

use super::worlds::{self, Rng};

fn solve(snapshot: &Snapshot) -> (Plan, Vec<Shortfall>) {
    plan(snapshot, &Policy::default())
}

/// Returns the same topology with nodes and links changed; indices stay.
pub fn changed(
    topology: &Topology,
    mut node: impl FnMut(usize, &mut Place),
    mut link: impl FnMut(usize, &mut Edge),
) -> Topology {
    let mut new = Topology::default();
    for (at, place) in topology.nodes().iter().enumerate() {
        let mut place = place.clone();
        node(at, &mut place);
        new.add_node(place.name, u32::from(place.slots), place.trusted);
    }
    for (at, edge) in topology.links().iter().enumerate() {
        let mut edge = *edge;
        link(at, &mut edge);
        new.add_link(edge);
    }
    new
}

fn assert_no_dearer(before: &Snapshot, after: &Snapshot) -> Result<(), TestCaseError> {
    let ((old, _), (new, _)) = (solve(before), solve(after));
    if old.feasible {
        prop_assert!(new.feasible, "{old:?}\n{new:?}");
        prop_assert!(new.cost <= old.cost + 1e-9, "{old:?}\n{new:?}");
    }
    Ok(())
}

/// Raises one link's rate, one node's slots, or one node's or link's trust.
fn with_more(snapshot: &Snapshot, rng: &mut Rng) -> Snapshot {
    let topology = &snapshot.topology;
    let what = rng.below(4);
    let at_node = rng.below(topology.nodes().len());
    let at_link = rng.below(topology.links().len());
    let factor = 1 + rng.below(4) as u64;
    let topology = changed(
        topology,
        |at, place| match what {
            0 if at == at_node => place.slots += 1,
            1 if at == at_node => place.trusted = true,
            _ => {}
        },
        |at, edge| match what {
            2 if at == at_link => edge.secure = true,
            3 if at == at_link => edge.rate = Bitrate::from_bps(edge.rate.as_bps() * factor + 1),
            _ => {}
        },
    );
    Snapshot {
        topology,
        ..snapshot.clone()
    }
}

/// Fixes what a shortfall lists, and nothing else.
fn fixed(snapshot: &Snapshot, shortfall: &Shortfall) -> Snapshot {
    let mut after = snapshot.clone();
    for lack in &shortfall.lacks {
        let topology = after.topology.clone();
        let name = |index: NodeIndex| &topology.node(index).name;
        after.topology = changed(
            &topology,
            |_, place| match lack {
                Violation::FewSlots { node, needs, .. } if place.name == *node => {
                    place.slots = *needs as u8;
                }
                Violation::PlainNode { node } if place.name == *node => place.trusted = true,
                Violation::PlainLink { from, to } if [from, to].contains(&&place.name) => {
                    place.trusted = true;
                }
                _ => {}
            },
            |_, edge| {
                let ends = edge.ends.map(name);
                let joins = |from, to| ends == [from, to] || ends == [to, from];
                match lack {
                    Violation::SlowLink {
                        from,
                        to,
                        needs_bps,
                        ..
                    } if joins(from, to) => {
                        let needs = Bitrate::from_bps(*needs_bps as u64 + 1);
                        edge.rate = edge.rate.max(needs);
                    }
                    Violation::PlainLink { from, to } if joins(from, to) => edge.secure = true,
                    _ => {}
                }
            },
        );
        if let Violation::Late { takes_ms, .. } = lack {
            after.stream.needs.deadline = Duration::from_nanos((*takes_ms * 1e6 + 0.5) as u64);
        }
    }
    after
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn more_resources_never_cost_more(seed: u64) {
        let before = worlds::random(seed);
        let after = with_more(&before, &mut Rng::new(!seed));
        assert_no_dearer(&before, &after)?;
    }

    #[test]
    fn unused_link_does_not_matter(seed: u64) {
        let snapshot = worlds::random(seed);
        let (before, _) = solve(&snapshot);
        let used = |at| before.links.iter().any(|link| link.link.0 as usize == at);
        let topology = changed(&snapshot.topology, |_, _| {}, |at, edge| edge.up &= used(at));
        if before.feasible {
            let (after, _) = solve(&Snapshot { topology, ..snapshot });
            prop_assert_eq!(before, after);
        }
    }

    #[test]
    fn node_order_does_not_matter(seed: u64, shift in 1..6usize) {
        let before = worlds::random(seed);
        let nodes = before.topology.nodes();
        let mut topology = Topology::default();
        for at in 0..nodes.len() {
            let place = &nodes[(at + shift) % nodes.len()];
            topology.add_node(place.name.clone(), u32::from(place.slots), place.trusted);
        }
        for edge in before.topology.links() {
            let ends = edge.ends.map(|end| {
                let name = &before.topology.node(end).name;
                topology.find(name).expect("every node was added")
            });
            topology.add_link(Edge { ends, ..*edge });
        }
        let after = Snapshot { topology, ..before.clone() };
        prop_assert_eq!(solve(&before), solve(&after));
    }

    #[test]
    fn names_matter_to_ties_only(seed: u64) {
        let before = worlds::random(seed);
        let renamed = |name: &str| worlds::name(match name {
            "a" => "f", "b" => "e", "c" => "d", "d" => "c", "e" => "b", _ => "a",
        });
        let topology = changed(
            &before.topology,
            |_, place| place.name = renamed(place.name.as_str()),
            |_, _| {},
        );
        let mut after = Snapshot { topology, ..before.clone() };
        after.stream.from = renamed(before.stream.from.as_str());
        after.stream.to[0] = renamed(before.stream.to[0].as_str());
        let ((old, _), (new, _)) = (solve(&before), solve(&after));
        prop_assert_eq!(old.feasible, new.feasible);
        prop_assert!(!old.feasible || (old.cost - new.cost).abs() <= 1e-9);
        prop_assert!(!old.feasible || old.adapters() == new.adapters());
        prop_assert!(!old.feasible || old.path.len() == new.path.len());
    }

    #[test]
    fn fixed_shortfall_yields_plan(seed: u64) {
        let snapshot = worlds::random(seed);
        let (least_bad, shortfalls) = solve(&snapshot);
        prop_assert_eq!(least_bad.feasible, shortfalls.is_empty());
        for shortfall in shortfalls.iter().filter(|shortfall| shortfall.need != Need::Path) {
            let (after, left) = solve(&fixed(&snapshot, shortfall));
            prop_assert!(after.feasible, "{shortfall:?} leaves {left:?}");
        }
    }

    #[test]
    fn least_bad_plan_shows_no_plaintext(seed: u64) {
        let snapshot = worlds::random(seed);
        let (plan, _) = solve(&snapshot);
        if !plan.path.is_empty() {
            for violation in check(&snapshot, &plan) {
                let shown = matches!(violation, Violation::PlainLink { .. } | Violation::PlainNode { .. });
                prop_assert!(!shown, "{violation}");
                prop_assert!(!plan.feasible, "{violation}");
            }
        }
    }

    #[test]
    fn explanation_names_every_node_and_adapter(seed: u64) {
        let snapshot = worlds::random(seed);
        let (plan, _) = solve(&snapshot);
        let text = explain(&snapshot, &plan);
        prop_assert_eq!(&text, &explain(&snapshot, &plan));
        for link in &plan.links {
            let line = format!("- {} → {}: ", link.from, link.to);
            prop_assert!(text.contains(&line), "{}", text);
        }
        for placement in &plan.placements {
            for adapter in &placement.adapters {
                let line = format!("- {adapter} at {}: ", placement.node);
                prop_assert!(text.contains(&line), "{}", text);
            }
        }
    }
}
