//! Proves what the command line promises: lists, refusals with a sentence, and figures with the agreed keys.

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg-bench"))
        .args(arguments)
        .output()
        .expect("the program was built for this test")
}

#[test]
fn the_list_names_every_id() {
    let output = run(&["--list"]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for id in ["BM-D1", "BM-P3"] {
        assert!(said.contains(id), "{said}");
    }
}

#[test]
fn an_unknown_id_is_refused_with_a_sentence() {
    for arguments in [&["BM-X9"][..], &[], &["BM-D1", "nothing"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("--list shows them"), "{said}");
    }
}

#[test]
fn every_figure_is_an_object_with_the_agreed_keys() {
    let output = run(&["BM-D1", "--json", "--quick"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let mut metrics = Vec::new();
    for line in text.lines() {
        let figure: serde_json::Value = serde_json::from_str(line).expect("one object a line");
        for key in [
            "id",
            "metric",
            "value",
            "unit",
            "baseline",
            "baseline_value",
            "ratio",
            "n",
            "spread",
        ] {
            assert!(figure.get(key).is_some(), "{key} is missing: {line}");
        }
        assert!(
            figure["value"].as_f64().is_some_and(|value| value > 0.0),
            "{line}"
        );
        metrics.push(figure["metric"].as_str().expect("a name").to_owned());
    }
    for metric in ["lift_ns_per_adu", "lift_ns_per_module"] {
        assert!(metrics.iter().any(|name| name == metric), "{metric}");
    }
    let is_counted = metrics
        .iter()
        .any(|name| name == "lift_instructions_per_module");
    assert!(
        is_counted || said.contains("valgrind is not installed"),
        "{said}"
    );
}
