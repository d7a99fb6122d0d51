//! Proves the command line's promises: lists, clear refusals, and figures with the agreed keys.

use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg-bench"))
        .args(arguments)
        .output()
        .expect("the program was built for this test")
}

#[test]
fn list_names_every_id() {
    let output = run(&["--list"]);
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for word in ["BM-D1", "lift_ns_per_adu"] {
        assert!(said.contains(word), "{said}");
    }
    for word in ["BM-P3", "hop_added_p50_us"] {
        assert_eq!(said.contains(word), cfg!(feature = "nodes"), "{said}");
    }
}

#[test]
fn closed_stdout_ends_run_cleanly() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_thalweg-bench"))
        .args(["BM-D1", "--quick"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built for this test");
    // As `| head` does once it has enough.
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends by itself");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
}

#[test]
fn unknown_id_is_refused() {
    for arguments in [&["BM-X9"][..], &[], &["BM-D1", "nothing"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("--list shows them"), "{said}");
    }
}

#[test]
fn unknown_id_suggests_nearest() {
    let said = String::from_utf8(run(&["BM-D8"]).stderr).expect("sentences are UTF-8");
    assert!(said.contains("nearest: `BM-D1`, `BM-D2`"), "{said}");
}

#[test]
fn worse_metric_sets_exit_code() {
    let file = |name: &str, value: f64| {
        let path = std::env::temp_dir().join(format!("thalweg-{}-{name}", std::process::id()));
        let line = format!(
            r#"{{"id":"BM-D1","metric":"lift_ns_per_adu","value":{value},"unit":"ns","baseline":null,"baseline_value":null,"ratio":null,"n":9,"spread":1.0}}"#
        );
        std::fs::write(&path, line).expect("the folder for temporary files can be written");
        path
    };
    let (old, new) = (file("old.jsonl", 50.0), file("new.jsonl", 60.0));
    let [old, new] = [&old, &new].map(|path| path.to_str().expect("the path is UTF-8"));
    for (before, after, code) in [
        (old, new, 3),
        (new, old, 0),
        (old, old, 0),
        (old, "none", 2),
    ] {
        let output = run(&["--compare", before, "--with", after]);
        assert_eq!(output.status.code(), Some(code), "{before} {after}");
    }
    let said = String::from_utf8(run(&["--compare", old, "--with", new]).stdout);
    let said = said.expect("tables are UTF-8");
    assert!(said.contains("+20.0 %  yes, WORSE"), "{said}");
    for path in [old, new] {
        std::fs::remove_file(path).expect("it was written above");
    }
}

#[test]
fn figures_have_agreed_keys() {
    let output = run(&["lift", "--json", "--quick"]);
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
        // The value may be slightly below 0: a fit or a difference near nothing, on a busy machine.
        assert!(figure["value"].is_number(), "{line}");
        assert!(
            figure["spread"]
                .as_f64()
                .is_some_and(|spread| spread >= 0.0)
        );
        assert!(figure["n"].as_u64().is_some_and(|n| n > 0), "{line}");
        let metric = figure["metric"].as_str().expect("a name");
        metrics.push(metric.to_owned());
    }
    let listed = String::from_utf8(run(&["--list"]).stdout).expect("the list is UTF-8");
    for metric in &metrics {
        let name = metric.split('.').next().expect("a split has a first part");
        assert!(
            listed.split_whitespace().any(|word| word == name),
            "{metric}"
        );
    }
    for metric in ["lift_ns_per_adu", "lift_ns_per_module"] {
        assert!(metrics.iter().any(|name| name == metric), "{metric}");
    }
    let is_counted = metrics
        .iter()
        .any(|name| name == "lift_instructions_per_module");
    assert!(is_counted || said.contains("needs valgrind"), "{said}");
}

#[cfg(feature = "nodes")]
#[test]
fn missing_peer_is_named() {
    let here = run(&["--list-peers", "--peers", "socat"]);
    let here = String::from_utf8_lossy(&here.stdout).into_owned();
    let output = run(&["relay", "--json", "--quick", "--peers", "socat"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let is_here = !here.contains("missing");
    if !is_here {
        assert!(said.contains("socat is missing"), "{said}");
        assert!(said.contains("apt-get install socat"), "{said}");
    }
    let text = String::from_utf8(output.stdout).expect("JSON is UTF-8");
    let mut metrics = Vec::new();
    for line in text.lines() {
        let figure: serde_json::Value = serde_json::from_str(line).expect("one object a line");
        let baseline = figure["baseline"].as_str();
        // It does not fan out, so there ours has only bare transports as baselines.
        let is_beside = is_here && figure["id"] == "RC";
        assert_eq!(baseline, is_beside.then_some("socat"), "{line}");
        assert!(figure["value"].is_f64(), "{line}");
        metrics.push(figure["metric"].as_str().expect("a name").to_owned());
    }
    for metric in [
        "relay_added_p50_us.bytes_1000",
        "relay_added_p99_us.bytes_10000",
        "relay_cpu_us_per_mbit.bytes_1000",
        "relay_loss.bytes_10000",
        "mbps_per_core.thalweg_quic.sinks_5",
        "quic_vs_bare.sinks_5",
        "plain_vs_bare.sinks_5",
        "delivered_share.bare_quic.sinks_5",
        "delivered_share.bare_tcp.sinks_5",
    ] {
        assert!(metrics.iter().any(|name| name == metric), "{metric}");
    }
}

#[cfg(feature = "nodes")]
#[test]
fn unknown_peer_lists_known_ones() {
    let output = run(&["relay", "--peers", "zenoh"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("`zenoh`") && said.contains("zenohd"),
        "{said}"
    );
}

/// Returns the network namespaces that a process has made.
#[cfg(feature = "nodes")]
fn namespaces_of(pid: u32) -> Vec<String> {
    let list = Command::new("ip").args(["netns", "list"]).output();
    let list = list.map(|list| list.stdout).unwrap_or_default();
    let list = String::from_utf8_lossy(&list).into_owned();
    let prefix = format!("thalweg-{pid}-");
    let names = list.lines().filter(|name| name.starts_with(&prefix));
    names.map(str::to_owned).collect()
}

#[cfg(feature = "nodes")]
#[test]
fn live_removes_namespaces_on_signal() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_thalweg-bench"))
        .args(["BM-L4", "--quick", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built for this test");
    let pid = child.id();
    while namespaces_of(pid).len() < 2 {
        if let Some(status) = child.try_wait().expect("it is a child") {
            // This user or machine cannot: one sentence says why, and nothing was built.
            assert_eq!(status.code(), Some(1));
            let output = child.wait_with_output().expect("it has ended");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(said.contains("cannot be built here"), "{said}");
            assert_eq!(output.stdout, b"");
            return;
        }
        std::thread::yield_now();
    }
    let asked = Command::new("kill").arg(pid.to_string()).status();
    assert!(asked.is_ok_and(|asked| asked.success()));
    let output = child.wait_with_output().expect("it ends by itself");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert_eq!(namespaces_of(pid), Vec::<String>::new());
}
