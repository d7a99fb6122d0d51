//! Proves `simulate` and `compare`: equal results from equal seeds, errors with file, line and key,
//! and differences.

use std::path::{Path, PathBuf};

use tempfile::tempdir;

use crate::program::run;

/// Two nodes, a link with ample capacity, a stream of two layers, two seconds.
const WORLD: &str = r#"length = "2 s"
[node.a]
[node.b]
[[link]]
ends = ["a", "b"]
rate = "1 Mbit/s"
delay = "10 ms"
loss = 0.02
[[stream]]
name = "cam"
from = "a"
to = ["b"]
layers = [{ rate = "100 kbit/s", utility = 0.6 }, { rate = "100 kbit/s", utility = 0.4 }]
needs = { deadline = "300 ms" }
"#;

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("the folder can be written");
    path
}

#[test]
fn equal_seeds_give_equal_runs() {
    let folder = tempdir().expect("a directory");
    write(folder.path(), "world.toml", WORLD);
    let of = |seed: &str| {
        let arguments = ["simulate", "world.toml", "--json", "--seed", seed];
        let out = run(folder.path(), &arguments).exits(0).out();
        serde_json::from_str::<serde_json::Value>(&out).expect("one JSON object")
    };
    let (one, again, other) = (of("7"), of("7"), of("8"));
    assert_eq!(one, again);
    assert_ne!(one["trace_hash"], other["trace_hash"]);
    let stream = &one["streams"][0];
    let count = |key: &str| stream[key].as_u64().expect(key);
    assert_eq!(
        count("sent"),
        count("delivered") + count("cancelled") + count("lost"),
        "every ADU is accounted for: {stream}"
    );
    assert_eq!(
        count("sent"),
        100,
        "two layers, 25 frames a second, two seconds"
    );
}

#[test]
fn tables_fit_eighty_columns() {
    let folder = tempdir().expect("a directory");
    write(folder.path(), "world.toml", WORLD);
    let one = run(folder.path(), &["simulate", "world.toml"])
        .exits(0)
        .out();
    let many = ["simulate", "world.toml", "--seeds", "0..3"];
    let many = run(folder.path(), &many).exits(0).out();
    assert!(
        one.contains("no law was broken") && many.contains("3 seeds"),
        "{one}{many}"
    );
    for line in one.lines().chain(many.lines()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn world_without_streams_says_so() {
    let folder = tempdir().expect("a directory");
    write(folder.path(), "empty.toml", "length = \"1 s\"\n");
    let out = run(folder.path(), &["simulate", "empty.toml"])
        .exits(0)
        .out();
    assert!(out.contains("the world has no streams"), "{out}");
}

#[test]
fn bad_world_names_line_and_key() {
    let folder = tempdir().expect("a directory");
    for (from, to, says) in [
        (
            "rate = \"1 Mbit/s\"",
            "rate = \"-1 Mbit/s\"",
            "world.toml:6: link[0].rate",
        ),
        (
            "ends = [\"a\", \"b\"]",
            "ends = [\"a\", \"c\"]",
            "there is no node `c`",
        ),
        ("loss = 0.02", "loss = 1.5", "world.toml:8: link[0].loss"),
        (
            "length = \"2 s\"",
            "at = [{ time = \"-1 s\", node = \"a\", do = \"stop\" }]",
            "at[0].time",
        ),
        ("from = \"a\"", "from = \"z\"", "`z`"),
    ] {
        assert!(WORLD.contains(from), "{from}");
        let text = WORLD.replace(from, to);
        write(folder.path(), "world.toml", &text);
        run(folder.path(), &["simulate", "world.toml"])
            .exits(2)
            .says(&["world.toml", says]);
    }
    run(folder.path(), &["simulate", "nowhere.toml"])
        .exits(2)
        .says(&["nowhere.toml"]);
}

#[test]
fn hash_covers_the_trace() {
    let folder = tempdir().expect("a directory");
    write(folder.path(), "world.toml", WORLD);
    for trace in ["one.txt", "two.txt"] {
        run(folder.path(), &["simulate", "world.toml", "--trace", trace]).exits(0);
    }
    let [one, two] = ["one.txt", "two.txt"].map(|name| {
        std::fs::read_to_string(folder.path().join(name)).expect("the trace was written")
    });
    assert!(one.lines().count() > 100 && one == two);
}

#[test]
fn differing_reports_exit_5() {
    let folder = tempdir().expect("a directory");
    let slower = WORLD.replace("delay = \"10 ms\"", "delay = \"30 ms\"");
    for (name, world, file) in [
        ("a.json", WORLD, "world.toml"),
        ("b.json", &slower, "world.toml"),
        ("c.json", WORLD, "other.toml"),
    ] {
        write(folder.path(), file, world);
        let out = run(folder.path(), &["simulate", file, "--json"])
            .exits(0)
            .out();
        write(folder.path(), name, &out);
    }
    let compare = |second: &str| run(folder.path(), &["compare", "a.json", second]);
    let same = compare("a.json").exits(0).out();
    assert!(same.contains("agree"), "{same}");
    compare("b.json").exits(5);
    compare("c.json").exits(2).says(&["cannot be compared"]);
    compare("world.toml")
        .exits(2)
        .says(&["is not a report of a world"]);
}
