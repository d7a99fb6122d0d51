//! Proves `plan`: JSON for machines, a table and words for people, 3 for an infeasible world.

use std::path::{Path, PathBuf};

use tempfile::tempdir;

use crate::program::run;

fn demo_world() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../worlds/demo.toml")
}

fn plan(arguments: &[&str]) -> crate::program::Run {
    let folder = tempdir().expect("a directory");
    let world = demo_world().display().to_string();
    let arguments = [&["plan", world.as_str()], arguments].concat();
    run(folder.path(), &arguments)
}

#[test]
fn json_is_one_object_with_the_promised_keys() {
    let out = plan(&["--json"]).exits(0).out();
    let report: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(report["feasible"], true);
    for key in [
        "cost",
        "cost_parts",
        "path",
        "layers",
        "placements",
        "links",
        "delay_ms",
        "shortfalls",
        "elapsed_us",
    ] {
        assert!(!report[key].is_null(), "{key}: {out}");
    }
    assert!(
        report["elapsed_us"]
            .as_f64()
            .is_some_and(|elapsed| elapsed > 0.0)
    );
}

#[test]
fn people_get_a_table_and_words() {
    let table = plan(&[]).exits(0).out();
    for word in [
        "feasible", "adapters", "seal", "sealed", "cost", "camera", "viewer",
    ] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let explained = plan(&["--explain"]).exits(0).out();
    assert!(explained.len() > table.len(), "{explained}");
}

#[test]
fn each_planner_plans_and_all_stand_side_by_side() {
    let names = ["exact", "heuristic", "exhaustive", "incremental"];
    for planner in names {
        let out = plan(&["--planner", planner, "--json"]).exits(0).out();
        assert!(out.contains("\"feasible\":true"), "{planner}: {out}");
    }
    let table = plan(&["--compare"]).exits(0).out();
    let rows = table.lines().skip(1);
    let first = rows.filter_map(|row| row.split_whitespace().next());
    assert_eq!(first.collect::<Vec<_>>(), names);
    let out = plan(&["--compare", "--json"]).exits(0).out();
    let reports: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    let cost = |planner: &str| reports[planner]["cost"].as_f64().expect("a cost");
    assert!(
        names
            .iter()
            .all(|planner| cost("exact") <= cost(planner) + 1e-9)
    );
}

#[test]
fn unknown_planners_and_streams_exit_2() {
    let err = plan(&["--planner", "best"]).exits(2).err();
    assert!(err.contains("`best` is not a planner"), "{err}");
    plan(&["--stream", "nothing"])
        .exits(2)
        .says(&["no stream `nothing`", "scene"]);
}

#[test]
fn an_infeasible_world_exits_3_with_what_would_mend_it() {
    let folder = tempdir().expect("a directory");
    let world = std::fs::read_to_string(demo_world()).expect("the demo's world");
    let narrow = world.replace("rate = \"150 kbit/s\"", "rate = \"10 kbit/s\"");
    assert_ne!(narrow, world, "the demo's slow link has another rate now");
    std::fs::write(folder.path().join("narrow.toml"), narrow).expect("room");
    let out = run(folder.path(), &["plan", "narrow.toml", "--json"])
        .exits(3)
        .out();
    let report: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(report["feasible"], false);
    assert!(!report["shortfalls"].as_array().expect("a list").is_empty());
    let text = run(folder.path(), &["plan", "narrow.toml"]).exits(3).out();
    assert!(
        text.contains("infeasible") && text.contains("to mend it"),
        "{text}"
    );
    run(
        folder.path(),
        &["demo", "--headless", "--world", "narrow.toml"],
    )
    .exits(3)
    .says(&["no plan satisfies the needs of `scene`"]);
}

#[test]
fn several_sinks_make_a_tree_and_a_picture() {
    let folder = tempdir().expect("a directory");
    let world = r#"
        node.s = { slots = 4 }
        node.m = { slots = 1, trusted = false }
        node.t = { slots = 4 }
        node.u = { slots = 4 }
        link = [
            { ends = ["s", "m"], rate = "2 Mbit/s", delay = "5 ms", secure = false },
            { ends = ["m", "t"], rate = "2 Mbit/s", delay = "5 ms" },
            { ends = ["m", "u"], rate = "150 kbit/s", delay = "5 ms" },
        ]
        [[stream]]
        name = "cam"
        from = "s"
        to = ["t", "u"]
        layers = [{ rate = "100 kbit/s", utility = 0.6 }, { rate = "900 kbit/s", utility = 0.4 }]
        needs = { confidential = true }
        pack_ratio = 1.0
    "#;
    std::fs::write(folder.path().join("tree.toml"), world).expect("room");
    let arguments = ["plan", "tree.toml", "--json", "--svg", "tree.svg"];
    let out = run(folder.path(), &arguments).exits(0).out();
    let report: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(report["proven"], true, "{out}");
    assert_eq!(report["paths"][0]["layers"], 2);
    assert_eq!(report["paths"][1]["layers"], 1);
    let picture = std::fs::read_to_string(folder.path().join("tree.svg")).expect("a picture");
    for word in [
        "<svg",
        "m (untrusted)",
        "keep:1",
        "sealed",
        "102 kbit/s of 150 kbit/s (68 %)",
    ] {
        assert!(picture.contains(word), "{word}: {picture}");
    }
    let text = run(folder.path(), &["plan", "tree.toml"]).exits(0).out();
    assert!(text.contains("over 3 links, one copy each"), "{text}");
}
