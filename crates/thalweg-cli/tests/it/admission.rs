//! Proves tickets with real processes: nodes that invite, join, run and are revoked, and the errors
//! without rights.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::tempdir;

use crate::fabric::{PATIENCE, terminate};
use crate::program::{Run, run, thalweg};

/// A node that is killed at the end of the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        terminate(&self.0);
        // The exit status does not matter here.
        let _ = self.0.wait();
    }
}

fn write_config(folder: &Path, name: &str, more: &str) {
    let text = format!(
        "name = \"{name}\"\nkey_file = \"{name}.key\"\nlisten = [\"127.0.0.1:0\"]\nsocket = \"{name}.sock\"\n\
         [api]\nenabled = false\n[fabric]\nstate_file = \"{name}.json\"\n{more}"
    );
    std::fs::write(folder.join(format!("{name}.toml")), text).expect("room");
}

/// Starts a node and waits until it listens.
pub fn start(folder: &Path, name: &str) -> Running {
    let mut command = thalweg(folder);
    command.args(["node", "--config", &format!("{name}.toml")]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("the program was built");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    out.read_line(&mut line).expect("text");
    assert!(line.starts_with(name), "{name} said: {line}");
    Running(child)
}

fn at(folder: &Path, node: &str, arguments: &[&str]) -> Run {
    let socket = format!("{node}.sock");
    run(folder, &[arguments, &["--node", &socket]].concat())
}

fn rights(folder: &Path, node: &str, of: &str) -> Option<Value> {
    let out = at(folder, node, &["ls", "--json"]).exits(0).out();
    let status: Value = serde_json::from_str(&out).expect("one JSON object");
    let nodes = status["nodes"].as_array().expect("a list");
    let there = nodes.iter().find(|known| known["name"] == of);
    there.map(|known| known["rights"].clone())
}

fn wait(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether a revoked node reports why it has no link: from a refusal by a peer, or from the
/// revocation itself if it arrived before the link was cut.
fn reports_reason(table: &str) -> bool {
    let heard = table.contains("does not let") && table.contains("revoked");
    table.contains("unreachable") && (heard || table.contains("has no grant that holds"))
}

#[test]
fn node_is_invited_joins_and_is_revoked() {
    let folder = tempdir().expect("a directory");
    let folder = folder.path();
    write_config(folder, "base", "owner = \"self\"\n");
    let _base = start(folder, "base");
    let invite = [
        "invite",
        "--rights",
        "publish,relay",
        "--rights-for",
        "7d",
        "--json",
    ];
    let out = at(folder, "base", &invite).exits(0).out();
    let said: Value = serde_json::from_str(&out).expect("one JSON object");
    assert_eq!(said["rights"], serde_json::json!(["publish", "relay"]));
    let ticket = said["ticket"].as_str().expect("text").to_string();
    write_config(folder, "camera", "");
    let (head, tail) = ticket.split_at(60);
    let joined = run(folder, &["join", head, tail, "--config", "camera.toml"]).exits(0);
    let out = joined.out();
    assert!(out.contains("may publish,relay, for 7 d"), "{out}");
    let _camera = start(folder, "camera");
    wait("the camera is on the map", || {
        rights(folder, "base", "camera") == Some(serde_json::json!(["publish", "relay"]))
    });
    let table = at(folder, "base", &["ls"]).exits(0).out();
    assert!(
        table.contains("rights") && table.contains("publish,relay"),
        "{table}"
    );
    let ways = at(folder, "base", &["route", "base", "camera"])
        .exits(0)
        .out();
    assert!(
        ways.contains("best") && ways.contains("base camera"),
        "{ways}"
    );
    assert!(
        ways.lines().all(|line| line.chars().count() <= 80),
        "{ways}"
    );
    assert!(ways.lines().count() <= 24, "{ways}");
    let json = at(folder, "camera", &["route", "base", "camera", "--json"]);
    let json: Value = serde_json::from_str(&json.exits(0).out()).expect("one JSON object");
    assert_eq!(json["best"]["path"], serde_json::json!(["base", "camera"]));
    assert_eq!(json["alternatives"], serde_json::json!([]));
    at(folder, "base", &["route", "base", "moon"])
        .exits(2)
        .says(&["`moon`"]);
    at(folder, "camera", &["invite"])
        .exits(1)
        .says(&["may not invite", "`invite`"]);
    run(folder, &["join", &ticket, "--config", "second.toml"])
        .exits(2)
        .says(&["does not let", "has been used"]);
    for file in ["second.toml", "node.key"] {
        assert!(!folder.join(file).exists(), "nothing is written: {file}");
    }
    at(folder, "base", &["revoke", "nobody"])
        .exits(2)
        .says(&["`nobody`"]);
    let done = at(folder, "base", &["revoke", "camera"]).exits(0).out();
    assert!(done.contains("camera"), "{done}");
    wait("the camera is off the map", || {
        rights(folder, "base", "camera").is_none()
    });
    // The ticket gave it the only address that it knows; it still learns that it is refused, and why.
    wait("the camera says why it has no link", || {
        reports_reason(&at(folder, "camera", &["ls"]).exits(0).out())
    });
}

#[test]
fn foreign_grant_is_left_alone() {
    let folder = tempdir().expect("a directory");
    let folder = folder.path();
    write_config(folder, "base", "owner = \"self\"\n");
    let _base = start(folder, "base");
    let invite = || at(folder, "base", &["invite"]).exits(0).out();
    write_config(folder, "camera", "");
    run(folder, &["join", &invite(), "--config", "camera.toml"]).exits(0);
    run(folder, &["check", "camera.toml"]).exits(0);
    let kept = std::fs::read(folder.join("camera.json")).expect("it joined");
    write_config(folder, "other", "");
    std::fs::write(folder.join("other.json"), &kept).expect("room");
    // Once without a key, and once with one.
    for (code, command) in [
        (2, &["check", "other.toml"][..]),
        (2, &["node", "--config", "other.toml"]),
        (2, &["check", "other.toml"]),
        (1, &["join", &invite(), "--config", "other.toml"]),
    ] {
        run(folder, command).exits(code).says(&[
            "other.json holds the grant of the node ",
            "another `state_file`",
        ]);
    }
    let left = std::fs::read(folder.join("other.json")).expect("it stays");
    assert_eq!(left, kept);
}

#[test]
fn ticket_of_another_fabric_is_refused() {
    let folder = tempdir().expect("a directory");
    let folder = folder.path();
    write_config(folder, "base", "owner = \"self\"\n");
    let _base = start(folder, "base");
    let ticket = at(folder, "base", &["invite"]).exits(0).out();
    let other = run(folder, &["id", "--key", "else.key"]).exits(0).out();
    let key = other.trim();
    let join = |ticket: &str| run(folder, &["join", ticket, "--config", "camera.toml"]);
    for owner in ["self", key] {
        write_config(folder, "camera", &format!("owner = \"{owner}\"\n"));
        join(&ticket)
            .exits(2)
            .says(&["is for the fabric ", "the configuration says `owner = "]);
        for file in ["camera.json", "camera.key"] {
            assert!(!folder.join(file).exists(), "nothing is written: {file}");
        }
    }
    // The ticket is unused, and the configuration may name its fabric.
    let base = run(folder, &["id", "--config", "base.toml"]).exits(0).out();
    let base = base.trim();
    write_config(folder, "camera", &format!("owner = \"{base}\"\n"));
    join(&ticket).exits(0);
    run(folder, &["check", "camera.toml"]).exits(0);
}

#[test]
#[cfg(target_os = "linux")]
fn unwritable_key_keeps_the_ticket() {
    let folder = tempdir().expect("a directory");
    let folder = folder.path();
    write_config(folder, "base", "owner = \"self\"\n");
    let _base = start(folder, "base");
    let ticket = at(folder, "base", &["invite"]).exits(0).out();
    // No file can be created there, as on a full disk.
    let text = "name = \"a\"\nkey_file = \"/proc/a.key\"\n[fabric]\nstate_file = \"a.json\"\n";
    std::fs::write(folder.join("a.toml"), text).expect("room");
    for command in [
        &["join", &ticket, "--config", "a.toml"][..],
        &["node", "--config", "a.toml"],
        &["id", "--config", "a.toml"],
    ] {
        run(folder, command)
            .exits(1)
            .says(&["cannot create the key file /proc/a.key"]);
    }
    assert!(!folder.join("a.json").exists());
}

#[test]
fn missing_rights_fail_at_once() {
    let folder = tempdir().expect("a directory");
    let folder = folder.path();
    write_config(folder, "base", "owner = \"self\"\n");
    let _base = start(folder, "base");
    std::fs::write(folder.join("notes"), "a few bytes").expect("room");
    for (name, right, missing) in [
        ("viewer", "subscribe", "does not include `publish`"),
        ("camera", "publish", "does not include `subscribe`"),
    ] {
        let invite = ["invite", "--rights", right, "--json"];
        let out = at(folder, "base", &invite).exits(0).out();
        let said: Value = serde_json::from_str(&out).expect("one JSON object");
        let ticket = said["ticket"].as_str().expect("text");
        write_config(folder, name, "");
        let file = format!("{name}.toml");
        run(folder, &["join", ticket, "--config", &file]).exits(0);
        let _node = start(folder, name);
        wait("the owner is on the map", || {
            rights(folder, name, "base").is_some()
        });
        for arguments in [
            &["send", "notes", "base"][..],
            &["send", "notes", "--code"],
            &["receive"],
            &["receive", "--stay"],
            &["receive", "7-otter-lantern"],
        ] {
            // Without the early error the command would wait for ever.
            let output = std::process::Command::new("timeout")
                .current_dir(folder)
                .args(["30", env!("CARGO_BIN_EXE_thalweg")])
                .args(arguments)
                .args(["--node", &format!("{name}.sock")])
                .output();
            let ended = Run(output.expect("timeout is everywhere"));
            let said = ended.exits(1).says(&[missing, "ticket for both"]).err();
            assert!(!said.contains("waiting"), "{arguments:?}: {said}");
        }
    }
}

#[test]
fn bad_ticket_and_no_node_exit_apart() {
    let folder = tempdir().expect("a directory");
    let folder = folder.path();
    run(folder, &["join", "hello"])
        .exits(2)
        .says(&["is not a ticket"]);
    run(folder, &["join", "thalwegaaaa"])
        .exits(2)
        .says(&["damaged"]);
    for command in [&["invite"][..], &["revoke", "camera"]] {
        at(folder, "none", command).exits(4).says(&["none.sock"]);
    }
    for bad in [
        &["invite", "--rights", "all"][..],
        &["invite", "--uses", "0"],
        &["invite", "--valid-for", "soon"],
        &["invite", "--rights-for", "99999999d"],
        &["join"],
        &["revoke"],
    ] {
        run(folder, bad).exits(2);
    }
    write_config(folder, "plain", "");
    let _plain = start(folder, "plain");
    at(folder, "plain", &["invite"])
        .exits(1)
        .says(&["has no owner"]);
    write_config(folder, "wrong", "owner = \"me\"\n");
    run(folder, &["check", "wrong.toml"])
        .exits(2)
        .says(&["wrong.toml:9", "owner", "self"]);
}
