//! Proves that nodes with `cleartext_loop` carry a stream over TCP in the clear, each by one thread.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;

use crate::fabric::{Fabric, Way};
use crate::program::Run;

/// Returns the names of a process's threads, on Linux.
fn threads(process: u32) -> Vec<String> {
    let folder = PathBuf::from(format!("/proc/{process}/task"));
    let threads = std::fs::read_dir(folder).expect("it runs");
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok())
        .map(|name| name.trim().to_owned())
        .collect()
}

#[test]
fn lines_cross_four_processes_in_the_clear() {
    let fabric = Fabric::start_over(Way::ClearTcp);
    for (node, links) in [("camera", 1), ("relay", 2), ("base", 2), ("viewer", 1)] {
        fabric.wait_for_links(node, links);
        let status = fabric.status(node);
        let all = status["links"].as_array().expect("a list");
        let up = all.iter().filter(|link| link["state"] == "up");
        for link in up {
            let address = link["addresses"][0].as_str().expect("text");
            assert!(address.starts_with("tcp:"), "{link}");
        }
        // Elsewhere there is no loop, and each connection is a task.
        if cfg!(target_os = "linux") {
            let threads = threads(fabric.process(node));
            let loops = threads.iter().filter(|name| *name == "clear").count();
            assert_eq!(loops, 1, "{threads:?}");
        }
    }
    let lines = "{\"n\": 7}\n".repeat(500);
    std::fs::write(fabric.path().join("in"), &lines).expect("room");
    let arguments = ["subscribe", "sensor", "--to", "out", "--format", "lines"];
    let mut subscriber = fabric.command(&arguments, "viewer");
    let subscriber = subscriber.stdout(Stdio::null()).spawn();
    let subscriber = subscriber.expect("the program was built");
    let arguments = [
        "publish", "sensor", "--from", "in", "--format", "lines", "--hold", "30 s", "--json",
    ];
    let published = fabric.run(&arguments, "camera").exits(0);
    let summary: Value = serde_json::from_str(&published.out()).expect("one object");
    assert_eq!(summary["dropped"], serde_json::json!({}), "{summary}");
    Run(subscriber.wait_with_output().expect("it ends")).exits(0);
    let received = std::fs::read_to_string(fabric.path().join("out"));
    assert!(received.expect("written") == lines);
    fabric.stop();
}
