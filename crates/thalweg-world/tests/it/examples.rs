//! Proves that the example worlds load, match their comments, and are planned as promised.

use std::path::{Path, PathBuf};

use thalweg_base::time::Duration;
use thalweg_planner::model::World;
use thalweg_planner::planner::report::Report;
use thalweg_planner::planner::{Plan, Policy, check, explain, plan};
use thalweg_world::{Format, load_str};

/// Returns a path below the examples. With a shared target folder this program may be another
/// clone's, so the manifest folder comes from cargo at run time.
fn worlds(below: &str) -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&here).join("../../worlds").join(below)
}

fn load(file: &str) -> World {
    let text = std::fs::read_to_string(worlds(file)).expect("the example is in the repository");
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
fn demo_filters_and_seals_at_camera() {
    let plan = plan_of(&load("demo.toml"), "scene");
    assert_eq!(chain(&plan, "camera"), ["keep:2", "seal"]);
    assert!(chain(&plan, "relay").is_empty());
    assert_eq!(chain(&plan, "base"), ["open"]);
    assert!(plan.links[0].sealed && plan.links[1].sealed && !plan.links[2].sealed);
}

#[test]
fn textbook_filters_before_it_encrypts() {
    let plan = plan_of(&load("pa9.toml"), "video");
    assert_eq!(chain(&plan, "source"), ["keep:1", "seal"]);
    assert_eq!(chain(&plan, "next"), ["open"]);
}

#[test]
fn diamond_goes_by_town_unless_late_or_cut() {
    let world = load("diamond.toml");
    let by = |world: &World, stream| plan_of(world, stream).path[1].to_string();
    assert_eq!(by(&world, "survey/radar"), "town");
    assert_eq!(by(&world, "survey/alarm"), "hill");
    let cut = world.at(Duration::from_millis(10_000));
    assert_eq!(by(&cut, "survey/radar"), "hill");
}

#[test]
fn declared_adapters_repair_and_transcode() {
    let mut world = load("adapters.toml");
    let plan = plan_of(&world, "scout");
    assert_eq!(chain(&plan, "drone"), ["keep:1", "seal", "protect"]);
    assert_eq!(chain(&plan, "van"), ["recover", "open", "small", "seal"]);
    assert_eq!(chain(&plan, "mast"), [""; 0]);
    assert_eq!(chain(&plan, "desk"), ["open"]);
    let report = Report::new(&plan, &[], Duration::ZERO);
    let json = serde_json::to_value(&report).expect("a report can be written");
    assert_eq!(
        json["links"][0]["transforms"],
        serde_json::json!(["protect"])
    );
    assert_eq!(json["links"][1]["transforms"], serde_json::json!(["small"]));
    let name = "scout".parse().expect("a valid name");
    let snapshot = world.snapshot(&name).expect("the stream is in the world");
    let text = explain(&snapshot, &plan);
    for sentence in [
        "It delivers 2 of 2 layers that small makes (45.0 % of the utility), 60 kbit/s",
        "- drone → van: 1 layer, sealed with protect, 255 kbit/s of 600 kbit/s (42.5 %), 5 ms",
        "- keep:1 at drone: small makes the same of these layers as of all.",
        "- protect at drone: link drone → van loses 5.0 %, the stream tolerates 1.0 %; this repairs up to 7.0 %.",
        "- small at van: link van → mast has 64 kbit/s; 1 layer of the stream's own would need 204 kbit/s there. Not earlier, at drone: node drone does not hold small.",
        "Next: 140 kbit/s more on van → mast would deliver 50.0 % of the utility",
    ] {
        assert!(text.contains(sentence), "`{sentence}` is not in\n{text}");
    }
    // What the alternatives need: an encoder on board, a CPU for it.
    let drone = "drone".parse().expect("a valid name");
    let place = world.nodes.get_mut(&drone).expect("the drone is there");
    place.adapters = None;
    place.cpu_cores = Some(1.5);
    assert_eq!(
        chain(&plan_of(&world, "scout"), "drone"),
        ["keep:1", "small", "seal", "protect"]
    );
}

#[test]
fn ladder_carries_both_streams_on_every_rung() {
    let entries = std::fs::read_dir(worlds("ladder")).expect("the ladder is in the repository");
    let mut rungs: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().into_string())
        .map(|name| name.expect("names in UTF-8"))
        .collect();
    rungs.sort();
    let expected = [
        "4g.toml",
        "congested-wifi.toml",
        "geo.toml",
        "good-wifi.toml",
        "leo.toml",
        "office-lan.toml",
        "radio-150.toml",
        "weak-4g.toml",
    ];
    assert_eq!(rungs, expected);
    for rung in rungs {
        let world = load(&format!("ladder/{rung}"));
        assert_eq!(world.streams.len(), 2, "{rung}");
        for stream in &world.streams {
            let layers = plan_of(&world, stream.name.as_str()).layers;
            // The narrow radio has no room for the camera's third layer.
            let all = stream.layers.len()
                - usize::from(rung == "radio-150.toml" && stream.layers.len() > 1);
            assert_eq!(usize::from(layers), all, "{rung}: {}", stream.name);
        }
    }
}

#[test]
fn report_has_designed_keys() {
    let plan = plan_of(&load("pa9.toml"), "video");
    let report = Report::new(&plan, &[], Duration::from_micros(42));
    let expected = serde_json::json!({
        "feasible": true,
        "cost": plan.cost,
        "cost_parts": {
            "adapters": plan.cost_parts.adapters,
            "links": plan.cost_parts.links,
            "quality": plan.cost_parts.quality,
        },
        "path": ["source", "next", "sink"],
        "layers": 1,
        "placements": [
            {"node": "source", "adapters": ["keep:1", "seal"]},
            {"node": "next", "adapters": ["open"]},
        ],
        "links": [
            {"from": "source", "to": "next", "rate_bps": 102_000.0, "layers": 1, "packed": false, "sealed": true},
            {"from": "next", "to": "sink", "rate_bps": 100_000.0, "layers": 1, "packed": false, "sealed": false},
        ],
        "delay_ms": 20.0,
        "shortfalls": [],
        "elapsed_us": 42.0,
    });
    let json = serde_json::to_value(&report).expect("a report can be written");
    assert_eq!(json, expected);
    let read: Report = serde_json::from_value(json).expect("and read");
    assert_eq!(read, report);
}

#[test]
fn shortfall_has_place_amount_and_fix() {
    let mut world = load("demo.toml");
    world.links[1].rate = thalweg_base::units::Bitrate::from_kbps(50);
    let name = "scene".parse().expect("a valid name");
    let snapshot = world.snapshot(&name).expect("the stream is in the world");
    let (found, shortfalls) = plan(&snapshot, &Policy::default());
    let report = Report::new(&found, &shortfalls, Duration::ZERO);
    let json = serde_json::to_value(&report).expect("a report can be written");
    assert_eq!(json["feasible"], false);
    assert_eq!(
        json["shortfalls"],
        serde_json::json!([{
            "need": "rate",
            "message": "link relay → base has 50 kbit/s, the stream needs 57.12 kbit/s",
            "fix": "give relay → base 7.12 kbit/s more (57.12 kbit/s in all), or let the stream send less",
            "lacks": [{
                "kind": "slow-link",
                "from": "relay",
                "to": "base",
                "needs_bps": 57_120.0,
                "has_bps": 50_000.0,
            }],
        }])
    );
}

#[test]
fn diamond_explains_its_other_path() {
    let world = load("diamond.toml");
    for (stream, sentence) in [
        (
            "survey/radar",
            "The best other path, field → hill → desk, would cost 51.035 (adapters +0.491",
        ),
        (
            "survey/alarm",
            "field → town → desk fails: the path takes 180 ms, the deadline allows 100 ms.",
        ),
    ] {
        let name = stream.parse().expect("a valid name");
        let snapshot = world.snapshot(&name).expect("the stream is in the world");
        let text = explain(&snapshot, &plan_of(&world, stream));
        assert!(text.contains(sentence), "`{sentence}` is not in\n{text}");
    }
}

#[test]
fn demo_explains_itself() {
    let world = load("demo.toml");
    let name = "scene".parse().expect("a valid name");
    let snapshot = world.snapshot(&name).expect("the stream is in the world");
    let text = explain(&snapshot, &plan_of(&world, "scene"));
    for sentence in [
        "It delivers 2 of 8 layers (60.0 % of the utility), 120 kbit/s, after 55 ms of 500 ms allowed.",
        "- relay → base: 2 layers, sealed, 122.4 kbit/s of 150 kbit/s (81.6 %), 30 ms",
        "- keep:2 at camera: link relay → base has 150 kbit/s; 3 layers would need 204 kbit/s there, 54 kbit/s more.",
        "- seal at camera: link camera → relay is insecure.",
        "Next: 54 kbit/s more on relay → base would admit 3 layers",
    ] {
        assert!(text.contains(sentence), "`{sentence}` is not in\n{text}");
    }
}
