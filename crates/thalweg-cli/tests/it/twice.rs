//! Proves that two nodes never run with one key or one `state_file`, and that reading these files needs no
//! lock.
//!
//! *How.* A node runs as a process; a second one is started with a configuration that names one of the
//! first one's files. The first is killed, and must leave nothing behind that keeps the next from starting.

use std::path::Path;

use tempfile::tempdir;

use crate::admission::{Running, start};
use crate::fabric::signal;
use crate::program::{Run, run};

/// Writes the configuration of a node that names these files.
fn write_config(folder: &Path, name: &str, [key, state]: [&str; 2], owner: &str) {
    let text = format!(
        "name = \"{name}\"\nkey_file = \"{key}\"\nlisten = [\"127.0.0.1:0\"]\nsocket = \"{name}.sock\"\n\
         [api]\nenabled = false\n[fabric]\nstate_file = \"{state}\"\n{owner}"
    );
    std::fs::write(folder.join(format!("{name}.toml")), text).expect("room");
}

fn try_start(folder: &Path, name: &str) -> Run {
    let file = format!("{name}.toml");
    // A node that starts by mistake would run for ever.
    let arguments = [
        "10",
        env!("CARGO_BIN_EXE_thalweg"),
        "node",
        "--config",
        &file,
    ];
    let output = std::process::Command::new("timeout")
        .current_dir(folder)
        .env_remove("THALWEG_LOG")
        .args(arguments)
        .output();
    Run(output.expect("timeout is everywhere"))
}

/// Kills a node and waits until it is gone.
fn kill(node: Running) {
    signal(&node.0, "KILL");
    drop(node);
}

#[test]
fn one_key_runs_one_node() {
    let folder = tempdir().expect("a directory");
    let folder = folder.path();
    write_config(folder, "one", ["same.key", "one.json"], "");
    write_config(folder, "two", ["./same.key", "two.json"], "");
    let one = start(folder, "one");
    for _ in 0..2 {
        try_start(folder, "two").exits(1).says(&[
            "node `two` cannot start",
            "another node runs with the key file ./same.key",
            "another `key_file`",
        ]);
    }
    run(folder, &["id", "--config", "two.toml"]).exits(0);
    run(folder, &["check", "two.toml"]).exits(0);
    kill(one);
    let two = start(folder, "two");
    try_start(folder, "one").exits(1);
    kill(two);
}

#[test]
fn one_state_runs_one_node() {
    let folder = tempdir().expect("a directory");
    let folder = folder.path();
    let own = "owner = \"self\"\n";
    write_config(folder, "one", ["one.key", "same.json"], own);
    write_config(folder, "two", ["two.key", "same.json"], own);
    let one = start(folder, "one");
    try_start(folder, "two").exits(1).says(&[
        "node `two` cannot start",
        "another node runs with same.json",
        "another `state_file` under [fabric]",
    ]);
    kill(one);
    kill(start(folder, "two"));
}

#[test]
fn nodes_without_fabric_share_a_state() {
    let folder = tempdir().expect("a directory");
    let folder = folder.path();
    for name in ["one", "two"] {
        write_config(folder, name, [&format!("{name}.key"), "same.json"], "");
    }
    let (one, two) = (start(folder, "one"), start(folder, "two"));
    let names = std::fs::read_dir(folder).expect("it is there");
    let names = names.map(|entry| entry.expect("readable").file_name());
    let kept: Vec<_> = names
        .filter(|name| name.to_string_lossy().contains("same.json"))
        .collect();
    assert!(kept.is_empty(), "{kept:?}");
    kill(one);
    kill(two);
}
