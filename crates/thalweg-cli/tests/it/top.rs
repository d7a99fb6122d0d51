//! Proves `thalweg top` on real nodes: one frame as text, figures as JSON, and a live terminal,
//! which it restores.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;
use tempfile::tempdir;

use crate::fabric::{Fabric, terminate};
use crate::program::run;
use crate::terminal::Terminal;

/// Leaves the alternate screen.
const LEAVE: &str = "\x1b[?1049l";
const SHOW_CURSOR: &str = "\x1b[?25h";

#[test]
fn once_prints_text_or_json() {
    let fabric = Fabric::start();
    fabric.wait_for_links("relay", 2);
    let text = fabric.run(&["top", "--once"], "relay").exits(0).out();
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.starts_with("thalweg top  relay  up "), "{text}");
    for word in [
        "2 of 2 links up",
        "  camera ",
        "  base ",
        "queue to ",
        "knows of no published stream",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let options = ["top", "--once", "--json", "--interval", "200ms"];
    let json = fabric.run(&options, "relay").exits(0).out();
    assert_eq!(json.lines().count(), 1, "{json}");
    let view: Value = serde_json::from_str(&json).expect("one JSON object");
    assert_eq!(view["node"], "relay");
    assert!(
        view["seconds"]
            .as_f64()
            .is_some_and(|seconds| seconds > 0.0),
        "{view}"
    );
    let names: Vec<_> = view["links"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|link| &link["name"])
        .collect();
    assert_eq!(names.len(), 2, "{view}");
    assert!(view["links"][0]["rtt_ms"].is_number(), "{view}");
    fabric.stop();
}

#[test]
fn json_lines_survive_a_node_restart() {
    let mut fabric = Fabric::start();
    let mut top = fabric.spawn(&["top", "--json", "--interval", "100ms"], "viewer");
    let mut out = BufReader::new(top.stdout.take().expect("it is piped"));
    let mut err = BufReader::new(top.stderr.take().expect("it is piped"));
    let mut next = || -> Value {
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        serde_json::from_str(&line).expect("one JSON object a line")
    };
    let uptime = |view: &Value| view["uptime_seconds"].as_f64().expect("a number");
    let first = uptime(&next());
    assert!(uptime(&next()) > first);
    fabric.restart("viewer", || {
        let mut sentence = String::new();
        err.read_line(&mut sentence).expect("text");
        assert!(
            sentence.contains("has not answered, retrying: "),
            "{sentence}"
        );
    });
    // Lines from before may still be in the pipe; the first line of the new run has no rates.
    let restarted = std::iter::repeat_with(next).find(|view| view["seconds"].is_null());
    assert!(restarted.is_some(), "it goes on");
    terminate(&top);
    assert_eq!(top.wait().expect("it ends").code(), Some(0));
    fabric.stop();
}

#[test]
fn missing_terminal_or_node_is_reported() {
    let folder = tempdir().expect("a directory");
    run(folder.path(), &["top", "--node", "x.sock"])
        .exits(2)
        .says(&["not a terminal", "--once", "--json"]);
    for options in [
        &["top", "--once", "--node", "x.sock"][..],
        &["top", "--json", "--node", "x.sock"],
    ] {
        run(folder.path(), options)
            .exits(4)
            .says(&["no node listens on x.sock"]);
    }
    let terminal = Terminal::start(folder.path(), &["top", "--node", "x.sock"], &[]);
    let (status, text) = terminal.end();
    assert_eq!(status.code(), Some(4), "{text}");
}

#[test]
fn live_view_restores_the_terminal() {
    let mut fabric = Fabric::start();
    fabric.wait_for_links("relay", 2);
    let options = ["top", "--node", "relay.sock", "--interval", "200ms"];
    let mut terminal = Terminal::start(fabric.path(), &options, &[]);
    terminal.wait_for("camera");
    terminal.press("?");
    terminal.wait_for("acknowledgement");
    terminal.press(" ");
    terminal.wait_for("announced");
    fabric.restart("relay", || terminal.wait_for("answered"));
    terminal.press("q");
    let (status, text) = terminal.end();
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(
        text.contains(LEAVE) && text.contains(SHOW_CURSOR),
        "{text:?}"
    );
    fabric.stop();
}

#[test]
fn signal_ends_the_live_view() {
    let fabric = Fabric::start();
    fabric.wait_for_links("relay", 2);
    let options = ["top", "--node", "relay.sock"];
    let mut terminal = Terminal::start(fabric.path(), &options, &[("NO_COLOR", "1")]);
    terminal.wait_for("camera");
    terminate(terminal.child());
    let (status, text) = terminal.end();
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(
        text.contains(LEAVE) && text.contains(SHOW_CURSOR),
        "{text:?}"
    );
    assert!(
        !text.contains("\x1b[38;") && !text.contains("\x1b[48;"),
        "{text:?}"
    );
    fabric.stop();
}
