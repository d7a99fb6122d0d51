//! The example worlds load, say what their comments say, and plan as they promise.

use thalweg_core::model::World;
use thalweg_core::planner::{Plan, Policy, check, plan};
use thalweg_core::time::Duration;
use thalweg_world::{Format, load_str};

fn load(file: &str) -> World {
    let path = format!("{}/../../worlds/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the example is in the repository");
    load_str(&text, Format::of_file_name(file), file).expect("the example is sound")
}

fn plan_of(world: &World, stream: &str) -> Plan {
    let name = stream.parse().expect("a valid name");
    let snapshot = world.snapshot(&name).expect("the stream is in the world");
    let (plan, shortfalls) = plan(&snapshot, &Policy::default());
    assert_eq!(shortfalls, []);
    assert_eq!(check(&snapshot, &plan), []);
    plan
}

fn chain(plan: &Plan, node: &str) -> Vec<String> {
    let node = node.parse().expect("a valid name");
    plan.adapters_at(&node)
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn the_demo_drops_and_seals_at_the_camera_and_opens_at_the_base() {
    let plan = plan_of(&load("demo.toml"), "scene");
    assert_eq!(chain(&plan, "camera"), ["keep:2", "seal"]);
    assert!(chain(&plan, "relay").is_empty());
    assert_eq!(chain(&plan, "base"), ["open"]);
    assert!(plan.links[0].sealed && plan.links[1].sealed && !plan.links[2].sealed);
}

#[test]
fn the_textbook_case_filters_before_it_encrypts() {
    let plan = plan_of(&load("pa9.toml"), "video");
    assert_eq!(chain(&plan, "source"), ["keep:1", "seal"]);
    assert_eq!(chain(&plan, "next"), ["open"]);
}

#[test]
fn the_diamond_goes_by_the_town_unless_in_a_hurry_or_cut() {
    let world = load("diamond.toml");
    let by = |world: &World, stream| plan_of(world, stream).path[1].to_string();
    assert_eq!(by(&world, "survey/radar"), "town");
    assert_eq!(by(&world, "survey/alarm"), "hill");
    let cut = world.at(Duration::from_millis(10_000));
    assert_eq!(by(&cut, "survey/radar"), "hill");
}
