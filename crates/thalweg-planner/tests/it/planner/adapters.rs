//! Adapters that worlds declare: the exact planner against enumeration, laws, and cases that can be
//! checked by hand.
//!
//! The generated worlds are extended by pairs, repairs, blurs, transcoders, held modules, CPU and
//! loss. Like `brute`, these tests read the declarations and not the planner's tables.

use std::collections::BTreeMap;

use proptest::prelude::*;
use thalweg_base::time::Duration;
use thalweg_base::units::{Bitrate, Ratio};
use thalweg_planner::model::{
    Adapter, AdapterName, Catalogue, Declaration, Layer, LinkIndex, NodeIndex, Snapshot,
};
use thalweg_planner::planner::{
    Need, Plan, Planner, Policy, Shortfall, Sink, Violation, check, check_tree, explain, plan,
    plan_tree,
};

use super::brute::{self, Declared};
use super::cases::{Net, chains, confidential, path};
use super::oracle::assert_same;
use super::worlds::{self, Rng};

/// Number of worlds with declared adapters that are compared.
const WORLDS: u64 = 3_000;

fn named(text: &str) -> AdapterName {
    text.parse().expect("a test's adapter name is valid")
}

fn ratio(value: f64) -> Ratio {
    Ratio::new(value).expect("a test's ratio is one")
}

fn solve(snapshot: &Snapshot) -> (Plan, Vec<Shortfall>) {
    plan(snapshot, &Policy::default())
}

/// Returns a world of up to four nodes with declared adapters, scarce CPU and modules, and loss.
fn random(seed: u64) -> (Snapshot, Declared) {
    let mut worlds = (0..).map(|step| worlds::random(seed.wrapping_mul(1_000).wrapping_add(step)));
    let small = worlds.find(|world| world.topology.nodes().len() <= 4);
    let mut snapshot = small.expect("one world in two is small");
    let mut rng = Rng::new(!seed);
    let declared = declarations(&mut rng);
    if rng.chance(70) {
        snapshot.stream.needs.loss_max = ratio(rng.pick(&[0.0, 0.01, 0.05]));
    }
    for link in snapshot.topology.links_mut() {
        link.loss = ratio(rng.pick(&[0.0, 0.0, 0.01, 0.03, 0.1]));
    }
    for node in 0..snapshot.topology.nodes().len() {
        let place = snapshot.topology.node_mut(NodeIndex(node as u32));
        if rng.chance(25) {
            place.cpu_cores = Some(rng.pick(&[0.0, 0.01, 0.02, 0.05, 0.1, 0.2]));
        }
        if rng.chance(30) {
            let kinds = AdapterName::STANDARD.iter().chain(declared.keys());
            let held: Vec<_> = kinds.copied().filter(|_| rng.chance(70)).collect();
            place.held = Some(held);
        }
    }
    let Snapshot {
        topology,
        weights,
        stream,
        ..
    } = snapshot;
    let snapshot = Snapshot::with_adapters(topology, weights, stream, &declared);
    (snapshot, declared)
}

/// Returns a few declarations: a repairing pair, another pair, a one-way adapter, a transcoder, a
/// standard adapter's CPU.
fn declarations(rng: &mut Rng) -> Declared {
    let mut declared = Declared::new();
    let taking = |rng: &mut Rng| Declaration {
        cost_per_mbps: rng.pick(&[None, Some(0.0), Some(0.2), Some(1.0)]),
        cpu_per_mbps: rng.pick(&[None, Some(0.02), Some(0.1), Some(0.5)]),
        delay: Duration::from_millis(rng.pick(&[0, 0, 5])),
        ..Declaration::default()
    };
    if rng.chance(70) {
        let protect = Declaration {
            rate_factor: rng.pick(&[Some(1.25), Some(2.0), None]),
            repairs: Some(ratio(rng.pick(&[0.02, 0.05, 0.2]))),
            order: rng.pick(&[None, None, Some(2), Some(0)]),
            pair: Some(named("recover")),
            ..taking(rng)
        };
        declared.insert(named("protect"), protect);
        declared.insert(named("recover"), taking(rng));
    }
    if rng.chance(30) {
        let thin = Declaration {
            rate_factor: rng.pick(&[Some(0.7), Some(0.4)]),
            hides: rng.pick(&[None, Some(true)]),
            needs_plaintext: rng.pick(&[None, Some(true)]),
            order: rng.pick(&[None, Some(1), Some(4)]),
            pair: Some(named("widen")),
            ..taking(rng)
        };
        declared.insert(named("thin"), thin);
        declared.insert(named("widen"), taking(rng));
    }
    if rng.chance(40) {
        let blur = Declaration {
            rate_factor: rng.pick(&[Some(0.5), Some(0.8)]),
            quality_factor: rng.pick(&[None, Some(0.9), Some(0.5)]),
            needs_plaintext: rng.pick(&[None, Some(false)]),
            order: rng.pick(&[None, Some(2)]),
            ..taking(rng)
        };
        declared.insert(named("blur"), blur);
    }
    for name in ["small", "tiny"] {
        if rng.chance(40) {
            let utilities: &[f64] = rng.pick(&[&[0.5][..], &[0.6, 0.2], &[0.3, 0.3], &[1.0]]);
            let layers = utilities.iter().map(|utility| Layer {
                rate: Bitrate::from_kbps(rng.pick(&[20, 40, 60, 100])),
                utility: *utility,
            });
            let layers = Some(layers.collect());
            let transcoder = Declaration {
                layers,
                ..taking(rng)
            };
            declared.insert(named(name), transcoder);
        }
    }
    for standard in AdapterName::STANDARD {
        if rng.chance(30) {
            let declaration = Declaration {
                cost_per_mbps: None,
                ..taking(rng)
            };
            declared.insert(standard, declaration);
        }
    }
    declared
}

#[test]
fn exact_equals_enumeration_with_adapters() {
    let (mut feasible, mut infeasible) = (0, 0);
    let mut using = BTreeMap::<String, u64>::new();
    for seed in 0..WORLDS {
        let (snapshot, declared) = random(seed);
        let (plan, shortfalls) = solve(&snapshot);
        if let Some(found) = brute::best_with(&snapshot, &declared) {
            assert!(
                plan.feasible,
                "seed {seed}: missed {found:#?}\n{declared:#?}"
            );
            assert_same(seed, &snapshot, &plan, &found);
            for adapter in plan.placements.iter().flat_map(|here| &here.adapters) {
                *using.entry(adapter.kind().to_string()).or_default() += 1;
            }
            feasible += 1;
        } else {
            assert!(!plan.feasible, "seed {seed}: {plan:#?}\n{declared:#?}");
            assert!(!shortfalls.is_empty(), "seed {seed}");
            infeasible += 1;
        }
    }
    // The generator is useful only if both outcomes are frequent and every adapter occurs.
    let often = feasible > WORLDS / 4 && infeasible > WORLDS / 10;
    assert!(often, "{feasible} and {infeasible}");
    for name in [
        "protect", "recover", "thin", "widen", "blur", "small", "tiny",
    ] {
        let times = using.get(name).copied().unwrap_or(0);
        assert!(times > WORLDS / 150, "{name}: {using:?}");
    }
}

#[test]
fn other_planners_keep_rules_with_adapters() {
    for seed in 0..500 {
        let (snapshot, _) = random(seed);
        let (exact, _) = solve(&snapshot);
        for planner in Planner::ALL {
            let policy = Policy {
                planner,
                ..Policy::default()
            };
            let (plan, _) = plan(&snapshot, &policy);
            if plan.feasible {
                assert_eq!(check(&snapshot, &plan), [], "seed {seed}: {plan:#?}");
                assert!(
                    exact.feasible && exact.cost <= plan.cost + 1e-9,
                    "seed {seed}"
                );
            }
        }
    }
}

#[test]
fn trees_keep_rules_with_adapters() {
    let mut feasible = 0;
    for seed in 0..500 {
        let (mut snapshot, _) = random(seed);
        let stream = &mut snapshot.stream;
        let mut nodes = snapshot.topology.nodes().iter();
        let other = nodes.find(|node| node.name != stream.from && node.name != stream.to[0]);
        let Some(other) = other else { continue };
        stream.to.push(other.name.clone());
        let sinks = Sink::all_of(&snapshot.stream);
        let (tree, _) = plan_tree(&snapshot, &sinks, &Policy::default());
        if tree.feasible {
            assert_eq!(
                check_tree(&snapshot, &sinks, &tree),
                [],
                "seed {seed}: {tree:#?}"
            );
            assert!(tree.bound <= tree.cost + 1e-9, "seed {seed}: {tree:#?}");
            feasible += 1;
        }
    }
    assert!(feasible > 50, "{feasible}");
}

#[test]
fn catalogue_without_declarations_is_standard() {
    let snapshot = worlds::random(7);
    let Snapshot {
        weights, stream, ..
    } = &snapshot;
    let declared = Catalogue::declared(weights, stream, &Declared::new());
    assert_eq!(declared, Catalogue::standard(weights, stream));
}

/// Raises one node's CPU, lets one node hold all adapters, or lets the stream tolerate more loss.
fn with_more(snapshot: &Snapshot, rng: &mut Rng) -> Snapshot {
    let mut after = snapshot.clone();
    let node = NodeIndex(rng.below(after.topology.nodes().len()) as u32);
    match rng.below(4) {
        0 => after.topology.node_mut(node).cpu_cores = None,
        1 => {
            let place = after.topology.node_mut(node);
            place.cpu_cores = place.cpu_cores.map(|cores| cores * 2.0 + 0.01);
        }
        2 => after.topology.node_mut(node).held = None,
        _ => after.stream.needs.loss_max = ratio(rng.pick(&[0.05, 0.1, 1.0])),
    }
    let bears = |snapshot: &Snapshot| snapshot.stream.needs.loss_max;
    if bears(&after) < bears(snapshot) {
        after.stream.needs.loss_max = bears(snapshot);
    }
    after
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn more_cpu_or_tolerance_never_costs_more(seed: u64) {
        let (before, _) = random(seed);
        let after = with_more(&before, &mut Rng::new(seed));
        let ((old, _), (new, _)) = (solve(&before), solve(&after));
        if old.feasible {
            prop_assert!(new.feasible, "{old:?}\n{new:?}");
            prop_assert!(new.cost <= old.cost + 1e-9, "{old:?}\n{new:?}");
        }
    }

    #[test]
    fn least_bad_plan_matches_checker(seed: u64) {
        let (snapshot, _) = random(seed);
        let (plan, shortfalls) = solve(&snapshot);
        prop_assert_eq!(plan.feasible, shortfalls.is_empty());
        prop_assert!(!explain(&snapshot, &plan).is_empty());
        for violation in if plan.path.is_empty() { vec![] } else { check(&snapshot, &plan) } {
            prop_assert!(!plan.feasible, "{violation}");
            let hard = matches!(
                violation,
                Violation::Misplaced { .. }
                    | Violation::OutOfOrder { .. }
                    | Violation::Misstated { .. }
                    | Violation::NotPlain { .. }
                    | Violation::PlainLink { .. }
                    | Violation::PlainNode { .. }
            );
            prop_assert!(!hard, "{violation}");
        }
    }
}

/// A pair that repairs 10 % loss for 25 % more rate.
fn repairing() -> Declared {
    let protect = Declaration {
        rate_factor: Some(1.25),
        repairs: Some(ratio(0.1)),
        cost_per_mbps: Some(0.2),
        cpu_per_mbps: Some(0.1),
        pair: Some(named("recover")),
        ..Declaration::default()
    };
    let recover = Declaration {
        cost_per_mbps: Some(0.2),
        delay: Duration::from_millis(20),
        ..Declaration::default()
    };
    Declared::from([(named("protect"), protect), (named("recover"), recover)])
}

/// `s`–`m`–`t`, where the second link loses 8 %.
fn lossy(declared: &Declared) -> Snapshot {
    let net = Net::default().node("s", 3).node("m", 3).node("t", 3);
    let net = net.link("s~m", 1_000, 1).link("m-t", 1_000, 1);
    let mut snapshot = net.stream(&[100, 100], confidential());
    snapshot.topology.links_mut()[1].loss = ratio(0.08);
    snapshot.stream.needs.loss_max = ratio(0.01);
    snapshot.stream.pack_ratio = Some(1.0);
    let Snapshot {
        topology,
        weights,
        stream,
        ..
    } = snapshot;
    Snapshot::with_adapters(topology, weights, stream, declared)
}

#[test]
fn lossy_link_is_repaired() {
    let mut snapshot = lossy(&repairing());
    let (plan, _) = solve(&snapshot);
    assert_eq!(chains(&plan), "s[seal] m[open protect] t[recover]");
    assert_eq!(check(&snapshot, &plan), []);
    assert_eq!(plan.links[1].transforms, [named("protect")]);
    assert_eq!(plan.delay, Duration::from_millis(22));
    let text = explain(&snapshot, &plan);
    for sentence in [
        "- protect at m: link m → t loses 8.0 %, the stream tolerates 1.0 %; this repairs up to 10.0 %.",
        "- recover at t: what protect did ends here.",
        "plain with protect",
    ] {
        assert!(text.contains(sentence), "`{sentence}` is not in\n{text}");
    }
    snapshot.stream.needs.loss_max = Ratio::ONE;
    assert_eq!(chains(&solve(&snapshot).0), "s[seal] m[open]");
}

#[test]
fn unrepairable_loss_is_reported() {
    let needs = |snapshot: &Snapshot| {
        let (_, shortfalls) = solve(snapshot);
        let needs: Vec<Need> = shortfalls.iter().map(|one| one.need).collect();
        (needs, shortfalls[0].to_string(), shortfalls[0].fix())
    };
    let (found, text, fix) = needs(&lossy(&Declared::new()));
    assert_eq!(found, [Need::Loss]);
    assert_eq!(text, "link m → t loses 8 %, the stream tolerates 1 %");
    assert!(fix.contains("tolerate a loss of 0.08"), "{fix}");

    let mut snapshot = lossy(&repairing());
    for node in 0..2 {
        let held = Some(AdapterName::STANDARD.to_vec());
        snapshot.topology.node_mut(NodeIndex(node)).held = held;
    }
    let (found, text, fix) = needs(&snapshot);
    assert_eq!(found, [Need::Loss, Need::Held]);
    assert_eq!(text, "link m → t loses 8 %, the stream tolerates 1 %");
    assert!(!fix.is_empty());
    let held = &solve(&snapshot).1[1];
    assert!(held.to_string().contains("does not hold protect"), "{held}");
    assert!(held.fix().contains("hold protect"), "{}", held.fix());

    let mut snapshot = lossy(&repairing());
    for node in 0..2 {
        snapshot.topology.node_mut(NodeIndex(node)).cpu_cores = Some(0.005);
    }
    let (found, ..) = needs(&snapshot);
    assert_eq!(found, [Need::Loss, Need::Cpu]);
    let cpu = solve(&snapshot).1.swap_remove(1);
    let [Violation::LittleCpu { needs_cores, .. }] = cpu.lacks[..] else {
        panic!("{cpu:?}");
    };
    // 0.1 cores per Mbit/s, of one layer of 100 kbit/s: less would not suffice.
    assert!((needs_cores - 0.01).abs() < 1e-9, "{cpu}");
}

#[test]
fn dearer_order_that_saves_cpu_is_kept() {
    // Packing costs nothing but CPU, so it is cheapest before the filter; then no CPU is left to
    // seal.
    let taking = Declaration {
        cpu_per_mbps: Some(0.1),
        ..Declaration::default()
    };
    let declared = Declared::from([
        (AdapterName::PACK, taking.clone()),
        (AdapterName::SEAL, taking),
    ]);
    let net = Net::default().node("s", 3).node("t", 3).link("s~t", 60, 0);
    let snapshot = net.stream(&[100, 100], confidential());
    let Snapshot {
        topology,
        mut weights,
        stream,
        ..
    } = snapshot;
    weights.pack = 0.0;
    let mut snapshot = Snapshot::with_adapters(topology, weights, stream, &declared);
    let placed = |snapshot: &Snapshot| chains(&solve(snapshot).0);
    assert_eq!(placed(&snapshot), "s[pack keep:1 seal] t[open unpack]");
    // Packing first takes 0.02 cores and sealing 0.005 more; packing only one layer takes 0.01.
    snapshot.topology.node_mut(NodeIndex(0)).cpu_cores = Some(0.022);
    assert_eq!(placed(&snapshot), "s[keep:1 pack seal] t[open unpack]");
}

#[test]
fn repair_goes_around_seal() {
    let mut snapshot = lossy(&repairing());
    snapshot.topology.links_mut()[0].loss = ratio(0.05);
    let (plan, _) = solve(&snapshot);
    assert_eq!(chains(&plan), "s[seal protect] t[recover open]");
    let mut wrong = plan.clone();
    wrong.placements[0].adapters.reverse();
    let beneath = Violation::OutOfOrder {
        node: worlds::name("s"),
        adapter: Adapter::Seal,
        above: named("protect"),
    };
    assert!(check(&snapshot, &wrong).contains(&beneath));
    assert_eq!(
        beneath.to_string(),
        "seal at s cannot work below protect, which is on"
    );
}

#[test]
fn transcoder_passes_where_no_layer_does() {
    let layers = [(60, 0.4), (30, 0.1)].map(|(kbps, utility)| Layer {
        rate: Bitrate::from_kbps(kbps),
        utility,
    });
    let small = Declaration {
        layers: Some(layers.to_vec()),
        cost_per_mbps: Some(2.0),
        cpu_per_mbps: Some(1.0),
        ..Declaration::default()
    };
    let declared = Declared::from([(named("small"), small)]);
    let net = Net::default().node("s", 2).node("m", 2).node("t", 2);
    let net = net.link("s-m", 1_000, 1).link("m-t", 70, 1);
    let plain = net.stream(&[200, 200], super::cases::within(50));
    let Snapshot {
        topology,
        weights,
        stream,
        ..
    } = plain;
    let stream = thalweg_planner::model::Stream {
        pack_ratio: Some(1.0),
        ..stream
    };
    let mut snapshot = Snapshot::with_adapters(topology, weights, stream, &declared);
    let (plan, _) = solve(&snapshot);
    assert_eq!(check(&snapshot, &plan), []);
    // One layer of two equals the table's 0.5, so the other need not be transcoded; then the link
    // has room for one.
    assert_eq!(chains(&plan), "s[keep:1 small] m[keep:1]");
    assert_eq!(plan.layers, 1, "{plan:#?}");
    assert!((plan.cost_parts.quality - 60.0).abs() < 1e-9);
    let text = explain(&snapshot, &plan);
    assert!(
        text.contains("It delivers 1 of 2 layers that small makes (40.0 % of the utility)"),
        "{text}"
    );
    // Two required layers have utility 1.0, which the table lacks.
    snapshot.stream.needs.least_layers = 2;
    assert!(!solve(&snapshot).0.feasible);
    snapshot.stream.needs.least_layers = 1;
    // An adapter that cannot run at the source runs where there is CPU.
    snapshot.topology.node_mut(NodeIndex(0)).cpu_cores = Some(0.1);
    assert_eq!(chains(&solve(&snapshot).0), "s[keep:1] m[small keep:1]");
}

#[test]
fn free_adapters_terminate() {
    let mut declared = repairing();
    for declaration in declared.values_mut() {
        (declaration.cost_per_mbps, declaration.rate_factor) = (None, declaration.rate_factor);
        declaration.delay = Duration::ZERO;
    }
    declared
        .entry(named("protect"))
        .and_modify(|it| it.rate_factor = None);
    let mut snapshot = lossy(&declared);
    let weights = &mut snapshot.weights;
    for weight in [
        &mut weights.quality,
        &mut weights.keep,
        &mut weights.pack,
        &mut weights.unpack,
        &mut weights.seal,
        &mut weights.open,
    ] {
        *weight = 0.0;
    }
    for deadline in [Duration::from_millis(2), Duration::NEVER] {
        snapshot.stream.needs.deadline = deadline;
        let Snapshot {
            topology,
            weights,
            stream,
            ..
        } = snapshot.clone();
        let free = Snapshot::with_adapters(topology, weights, stream, &declared);
        let (plan, shortfalls) = solve(&free);
        assert_eq!(shortfalls, []);
        assert_eq!(path(&plan), "s m t");
    }
}

#[test]
fn invalid_weights_terminate() {
    for weight in [f64::INFINITY, f64::NAN, -1.0, f64::MAX] {
        let mut snapshot = lossy(&repairing());
        snapshot.weights.quality = weight;
        snapshot.weights.seal = weight;
        for profile in &mut snapshot.catalogue.profiles {
            profile.cost_per_mbps = weight;
            profile.cpu_per_mbps = weight;
        }
        snapshot.topology.node_mut(NodeIndex(1)).cpu_cores = Some(weight);
        let (plan, shortfalls) = solve(&snapshot);
        assert_eq!(plan.feasible, shortfalls.is_empty(), "{weight}");
    }
}

#[test]
fn invalid_adapters_are_rejected_in_words() {
    let broken = |change: fn(&mut Catalogue)| {
        let mut snapshot = lossy(&repairing());
        change(&mut snapshot.catalogue);
        let (_, shortfalls) = solve(&snapshot);
        assert_eq!(shortfalls[0].need, Need::Input);
        shortfalls[0].to_string()
    };
    let text = broken(|catalogue| catalogue.transforms[2].rate_factor = f64::NAN);
    assert!(text.contains("the factors of protect are NaN"), "{text}");
    let text = broken(|catalogue| {
        let layer = Layer {
            rate: Bitrate::from_kbps(1),
            utility: 0.0,
        };
        for _ in 0..8 {
            let name = named("small");
            let layers = vec![layer; 16];
            (catalogue.tables).push(thalweg_planner::model::Table { name, layers });
        }
    });
    assert!(text.contains("states are more than 1024"), "{text}");
    let text = broken(|catalogue| {
        let (name, layers) = (named("none"), vec![]);
        (catalogue.tables).push(thalweg_planner::model::Table { name, layers });
    });
    assert!(text.contains("none makes 0 layers"), "{text}");
}

#[test]
fn link_with_too_much_loss_is_avoided() {
    let mut snapshot = lossy(&repairing());
    let ends = snapshot.topology.link(LinkIndex(1)).ends;
    let mut detour = *snapshot.topology.link(LinkIndex(1));
    (detour.ends, detour.loss, detour.rate) = (ends, Ratio::ZERO, Bitrate::from_kbps(300));
    snapshot.topology.add_link(detour);
    snapshot.topology.links_mut()[1].loss = ratio(0.2);
    let (plan, _) = solve(&snapshot);
    assert_eq!(plan.links[1].link, LinkIndex(2));
}
