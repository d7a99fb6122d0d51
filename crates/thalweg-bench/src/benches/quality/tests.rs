//! Proves that every case's world is valid and treats the stream as its name says.

use thalweg_planner::planner::{Policy, plan};
use thalweg_world::{Format, load_str};

use super::worlds::{Case, RATES_KBPS, text};

fn adapters(case: Case, kbps: u32) -> Vec<String> {
    let world =
        load_str(&text(case, kbps, true), Format::Toml, case.name()).expect("a sound world");
    let stream = &world.streams[0];
    let snapshot = world.snapshot(&stream.name).expect("the stream is there");
    let policy = Policy {
        planner: stream.traffic.planner,
        ..Policy::default()
    };
    let (plan, shortfalls) = plan(&snapshot, &policy);
    assert!(plan.feasible, "{case:?} at {kbps}: {shortfalls:?}");
    let placements = plan.placements.iter();
    placements
        .flat_map(|placement| {
            let node = placement.node.as_str();
            placement
                .adapters
                .iter()
                .map(move |adapter| format!("{node} {adapter}"))
        })
        .collect()
}

#[test]
fn cases_match_their_names() {
    for kbps in RATES_KBPS {
        assert_eq!(adapters(Case::Nothing, kbps), Vec::<String>::new());
        let seal = adapters(Case::Seal, kbps);
        assert!(seal.iter().all(|word| !word.contains("keep")), "{seal:?}");
        assert_eq!(seal.first().map(String::as_str), Some("camera seal"));
    }
    assert_eq!(adapters(Case::Drop, 150), ["camera keep:2"]);
    assert_eq!(
        adapters(Case::DropSeal, 150)[..2],
        ["camera keep:2", "camera seal"]
    );
    let incremental = adapters(Case::Incremental, 150);
    assert_eq!(incremental.first().map(String::as_str), Some("camera seal"));
    assert!(
        incremental
            .iter()
            .any(|word| word.starts_with("relay keep")),
        "{incremental:?}"
    );
    assert_eq!(adapters(Case::Drop, 5_000), Vec::<String>::new());
}
