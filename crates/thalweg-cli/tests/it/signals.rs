//! Proves that signals end a run in good order or not at all, and that a node reloads its
//! configuration on request.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::Instant;

use crate::fabric::{PATIENCE, signal};
use crate::lone::{Lone, ended, write_config};

/// Signals that mean nothing to the program and would kill it by default.
const NOTHING: [&str; 8] = [
    "USR1", "USR2", "ALRM", "VTALRM", "PROF", "IO", "XFSZ", "RTMIN",
];

/// Waits until a file contains a text.
fn wait_for(file: &std::path::Path, text: &str) -> String {
    let begun = Instant::now();
    loop {
        let log = std::fs::read_to_string(file).unwrap_or_default();
        if log.contains(text) {
            return log;
        }
        assert!(begun.elapsed() < PATIENCE, "`{text}` is not in: {log}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn start() -> Lone {
    Lone::start(|command| {
        let folder = command.get_current_dir().expect("it has one");
        let log = File::create(folder.join("log")).expect("room");
        command.stderr(log).env("THALWEG_LOG", "thalweg=info");
    })
}

/// Starts a subscriber for a stream that never comes, and waits until the node knows it.
fn subscribe(lone: &Lone) -> Child {
    let mut command = lone.command(&["subscribe", "a", "--to", "a.ts"]);
    command.stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program was built");
    let mut first = [0];
    let said = child.stderr.as_mut().expect("it is piped").read(&mut first);
    assert_eq!(said.expect("text"), 1, "it says that it waits");
    child
}

#[test]
fn meaningless_signals_end_nothing() {
    let mut lone = start();
    let mut subscriber = subscribe(&lone);
    for name in NOTHING {
        lone.signal(name);
        signal(&subscriber, name);
    }
    lone.status();
    assert!(lone.is_running());
    assert!(subscriber.try_wait().expect("it is ours").is_none());
    for name in ["TERM", "INT"] {
        signal(&subscriber, name);
    }
    assert_eq!(ended(&mut subscriber).code(), Some(0));
    lone.signal("QUIT");
    assert_eq!(lone.wait().code(), Some(0));
}

#[test]
fn hangup_ends_a_command_in_order() {
    let lone = start();
    for name in ["HUP", "QUIT", "XCPU", "INT", "TERM"] {
        let mut subscriber = subscribe(&lone);
        signal(&subscriber, name);
        assert_eq!(ended(&mut subscriber).code(), Some(0), "{name}");
    }
}

#[test]
fn hangup_under_nohup_ends_nothing() {
    let lone = start();
    let mut command = std::process::Command::new("nohup");
    command
        .current_dir(lone.path())
        .arg(env!("CARGO_BIN_EXE_thalweg"))
        .args(["subscribe", "a", "--to", "a.ts", "--node", "s"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut subscriber = command.spawn().expect("nohup is everywhere");
    let mut first = [0];
    let said = subscriber
        .stderr
        .as_mut()
        .expect("it is piped")
        .read(&mut first);
    assert_eq!(said.expect("text"), 1);
    signal(&subscriber, "HUP");
    lone.status();
    assert!(subscriber.try_wait().expect("it is ours").is_none());
    signal(&subscriber, "TERM");
    assert_eq!(ended(&mut subscriber).code(), Some(0));
}

#[test]
fn hangup_reloads_peers() {
    let mut lone = start();
    let log = lone.path().join("log");
    let peer = |name: &str, seed: u8, more: &str| {
        let key = thalweg_net::Identity::from_seed([seed; 32]).id();
        format!("[[peer]]\nname = \"{name}\"\nkey = \"{key}\"\n{more}")
    };
    write_config(
        lone.path(),
        &(peer("one", 1, "") + &peer("two", 2, "addresses = [\"127.0.0.1:9\"]\n")),
    );
    lone.signal("HUP");
    wait_for(&log, "applied: peer `one` added, peer `two` added");
    let names = |lone: &Lone| -> Vec<String> {
        let status = lone.status();
        let links = status["links"].as_array().expect("a list");
        let name = |link: &serde_json::Value| link["name"].as_str().expect("text").to_owned();
        links.iter().map(name).collect()
    };
    assert_eq!(names(&lone).len(), 2);
    write_config(
        lone.path(),
        &peer(
            "one",
            1,
            "rate = \"2 Mbit/s\"\ntrusted = true\naddresses = [\"127.0.0.1:9\"]\n",
        ),
    );
    lone.signal("HUP");
    wait_for(
        &log,
        "applied: peer `two` removed, `rate` of peer `one`, `addresses` of peer `one`",
    );
    wait_for(
        &log,
        "these changes need a restart of the node: `trusted` of peer `one`",
    );
    assert_eq!(names(&lone), ["one"]);
    assert_eq!(lone.status()["links"][0]["rate_bps"], 2_000_000);
    write_config(lone.path(), "slotz = 3\n");
    lone.signal("HUP");
    let said = wait_for(&log, "stays in force");
    assert!(said.contains("node.toml:6: api.slotz"), "{said}");
    assert_eq!(names(&lone), ["one"]);
    assert!(lone.is_running());
}
