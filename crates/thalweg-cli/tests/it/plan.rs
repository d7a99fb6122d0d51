//! Proves `plan`: JSON for machines, a table and words for people, exit code 3 for an infeasible world.

use std::fmt::Write as _;
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
fn each_planner_plans_and_is_compared() {
    let names = ["exact", "heuristic", "exhaustive", "incremental"];
    for planner in names {
        let out = plan(&["--planner", planner, "--json"]).exits(0).out();
        assert!(out.contains("\"feasible\":true"), "{planner}: {out}");
    }
    let table = plan(&["--compare"]).exits(0).out();
    let rows = table.lines().skip(1);
    let first = rows.filter_map(|row| row.split_whitespace().next());
    assert_eq!(first.take(names.len()).collect::<Vec<_>>(), names);
    assert!(table.contains("camera → relay → base → viewer"), "{table}");
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
fn infeasible_world_exits_3_with_advice() {
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
        text.contains("infeasible") && text.contains("Remedy"),
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
fn several_sinks_make_a_tree() {
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
    assert!(text.contains("links   3, one copy each"), "{text}");
}

#[test]
fn strict_prints_no_infeasible_plan() {
    let folder = tempdir().expect("a directory");
    let world = std::fs::read_to_string(demo_world()).expect("the demo's world");
    let narrow = world.replace("rate = \"150 kbit/s\"", "rate = \"10 kbit/s\"");
    std::fs::write(folder.path().join("narrow.toml"), narrow).expect("room");
    let json = |arguments: &[&str]| -> serde_json::Value {
        let arguments = [&["plan", "narrow.toml", "--json"], arguments].concat();
        let out = run(folder.path(), &arguments).exits(3).out();
        serde_json::from_str(&out).expect("one JSON object")
    };
    let (least_bad, strict) = (json(&[]), json(&["--strict"]));
    assert_ne!(least_bad["path"], serde_json::json!([]));
    assert_eq!(strict["path"], serde_json::json!([]));
    assert_eq!(strict["shortfalls"], least_bad["shortfalls"]);
    plan(&["--strict", "--json"]).exits(0);
}

fn example(name: &str) -> String {
    let worlds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../worlds");
    worlds.join(name).display().to_string()
}

#[test]
fn all_streams_are_planned_together() {
    let folder = tempdir().expect("a directory");
    let world = example("rivals.toml");
    let arguments = ["plan", &world, "--all", "--json", "--svg", "all.svg"];
    let out = run(folder.path(), &arguments).exits(3).out();
    let report: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(report["streams"][1]["stream"], "steering");
    assert_eq!(report["streams"][1]["plan"]["feasible"], true);
    assert_eq!(report["streams"][2]["plan"]["feasible"], false);
    assert_eq!(report["made_way"][0]["stream"], "video");
    assert_eq!(report["made_way"][0]["for"], "steering");
    assert_eq!(report["links"][0]["shares"][0]["rate_bps"], 400_000.0);
    let picture = std::fs::read_to_string(folder.path().join("all.svg")).expect("a picture");
    assert!(picture.contains("video: seal"), "{picture}");
    let text = run(folder.path(), &["plan", &world, "--all"])
        .exits(3)
        .out();
    for words in [
        "video made way for steering",
        "refused beside the others",
        "lacks 700 kbit/s",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let strict = run(folder.path(), &["plan", &world, "--all", "--strict"])
        .exits(3)
        .out();
    assert!(
        !strict.contains("made way") && strict.contains("refused"),
        "{strict}"
    );
}

#[test]
fn meaningless_world_is_one_sentence() {
    let folder = tempdir().expect("a directory");
    let world = std::fs::read_to_string(example("rivals.toml")).expect("the example");
    let layer = "{ rate = \"1 kbit/s\", utility = 0.001 },".repeat(1_000);
    for (good, bad, says) in [
        (
            "from = \"camera\"",
            "from = \"kamera\"",
            "there is no node `kamera`",
        ),
        (
            "[node.camera]",
            "[weights]\nquality = -1\n[node.camera]",
            "weights.quality",
        ),
        (
            "[node.camera]",
            "[weights]\nkeep = inf\n[node.camera]",
            "weights.keep",
        ),
        (
            "[node.camera]",
            "[weights]\nseal = nan\n[node.camera]",
            "weights.seal",
        ),
        (
            "[node.camera]",
            "[weights]\npack_ratio = 0\n[node.camera]",
            "weights.pack_ratio",
        ),
        ("importance = 200", "importance = 300", "importance"),
        (
            "needs = { confidential = true }",
            "needs = { confidential = true, least_layers = 5 }",
            "least_layers is 5",
        ),
        (
            "{ rate = \"700 kbit/s\", utility = 1.0 }",
            layer.as_str(),
            "1 to 16 layers, this one 1000",
        ),
    ] {
        let changed = world.replacen(good, bad, 1);
        assert_ne!(changed, world, "{good}");
        std::fs::write(folder.path().join("w.toml"), changed).expect("room");
        for arguments in [&["plan", "w.toml", "--all"][..], &["plan", "w.toml"]] {
            let err = run(folder.path(), arguments).exits(2).err();
            assert!(
                err.contains(says) && err.contains("w.toml:"),
                "{bad:.40}: {err}"
            );
        }
    }
    let arguments = ["plan", &example("rivals.toml"), "--stream", "vidoe"];
    run(folder.path(), &arguments)
        .exits(2)
        .says(&["did you mean video?"]);
}

#[test]
fn thousand_parallel_links_have_a_plan() {
    let folder = tempdir().expect("a directory");
    let free = "[weights]\nquality = 0\nkeep = 0\npack = 0\nunpack = 0\nseal = 0\nopen = 0\n";
    let mut world = format!("{free}[node.a]\n[node.b]\n");
    for kbps in 100..1_100 {
        let link = format!("[[link]]\nends = [\"a\", \"b\"]\nrate = \"{kbps} kbit/s\"\n");
        world.push_str(&link);
    }
    let stream = "[[stream]]\nname = \"s\"\nfrom = \"a\"\nto = [\"b\"]\n\
                  layers = [{ rate = \"300 kbit/s\", utility = 1.0 }]\n\
                  needs = { confidential = true }\n";
    world.push_str(stream);
    std::fs::write(folder.path().join("w.toml"), world).expect("room");
    let arguments = ["plan", "w.toml", "--json", "--svg", "w.svg"];
    let out = run(folder.path(), &arguments).exits(0).out();
    assert!(out.contains("\"feasible\":true"), "{out}");
    run(folder.path(), &["plan", "w.toml", "--all"]).exits(0);
    run(folder.path(), &["plan", "w.toml", "--compare"]).exits(0);
}

#[test]
fn tree_leaves_out_unreachable_sinks() {
    let folder = tempdir().expect("a directory");
    let world = std::fs::read_to_string(example("rivals.toml")).expect("the example");
    let world = world.replacen("[node.base]", "[node.base]\n[node.island]", 1);
    let world = world.replacen("to = [\"base\"]", "to = [\"base\", \"island\"]", 1);
    std::fs::write(folder.path().join("w.toml"), world).expect("room");
    let plan = |more: &[&str]| {
        let arguments = [&["plan", "w.toml", "--stream", "video"], more].concat();
        run(folder.path(), &arguments).exits(3).out()
    };
    let report: serde_json::Value = serde_json::from_str(&plan(&["--json"])).expect("JSON");
    assert_eq!(report["left_out"][0]["sink"], "island");
    assert_eq!(report["left_out"][0]["shortfalls"][0]["need"], "path");
    assert_eq!(report["paths"][0]["layers"], 2);
    let text = plan(&["--explain"]);
    assert!(
        text.contains("left out  island") && text.contains("one copy"),
        "{text}"
    );
    assert!(!plan(&["--strict"]).contains("one copy"));
}

#[test]
fn budget_prints_what_is_proven() {
    let out = plan(&["--json", "--budget", "60000"]).exits(0).out();
    let report: serde_json::Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(report["proven"], true, "{out}");
    assert_eq!(report["bound"], report["cost"], "{out}");
    assert_eq!(report["feasible"], true, "{out}");
    let words = plan(&["--budget", "60000"]).exits(0).out();
    assert!(words.contains("no plan costs less"), "{words}");
    plan(&["--budget", "1", "--compare"]).exits(2);
}

#[test]
fn hundred_thousand_links_need_no_time() {
    let folder = tempdir().expect("a directory");
    let side = 224;
    let mut text = String::from("weights = {}\n");
    for at in 0..side * side {
        let _ = writeln!(text, "[node.n{at}]");
    }
    for at in 0..side * side {
        let right = (at % side + 1 < side).then_some(at + 1);
        let below = (at + side < side * side).then_some(at + side);
        for to in [right, below].into_iter().flatten() {
            let (mbps, ms) = (1 + (at * 7 + to) % 5, 1 + (at + to * 3) % 4);
            let _ = writeln!(
                text,
                "[[link]]\nends = [\"n{at}\", \"n{to}\"]\nrate = \"{mbps} Mbit/s\"\ndelay = \"{ms} ms\""
            );
        }
    }
    let _ = writeln!(
        text,
        "[[stream]]\nname = \"s\"\nfrom = \"n0\"\nto = [\"n3143\"]\nlayers = [{{ rate = \"1 Mbit/s\", utility = 1.0 }}]"
    );
    std::fs::write(folder.path().join("grid.toml"), text).expect("a file");
    let run = run(
        folder.path(),
        &["plan", "grid.toml", "--budget", "0", "--json"],
    );
    let report: serde_json::Value = serde_json::from_str(&run.out()).expect("one JSON object");
    assert_eq!(report["proven"], false, "{report}");
    assert!(report["bound"].is_number(), "{report}");
}
