//! Proves `thalweg ls --watch` on real nodes: on a terminal, which it restores, and as one object a line.

use std::io::{BufRead as _, BufReader};

use serde_json::Value;
use tempfile::tempdir;

use crate::fabric::{Fabric, terminate};
use crate::program::run;
use crate::terminal::Terminal;

#[test]
fn listing_survives_a_node_restart() {
    let mut fabric = Fabric::start();
    fabric.wait_for_links("relay", 2);
    let options = ["ls", "--watch", "--node", "relay.sock"];
    let mut terminal = Terminal::start(fabric.path(), &options, &[("NO_COLOR", "1")]);
    terminal.wait_for("(here)");
    fabric.restart("relay", || terminal.wait_for("has not answered for"));
    terminal.wait_for("(here)");
    terminate(terminal.child());
    let (status, text) = terminal.end();
    assert_eq!(status.code(), Some(0), "{text}");
    for restores in ["\x1b[?1049l", "\x1b[?25h", "\x1b[?7h"] {
        assert!(text.contains(restores), "{text:?}");
    }
    fabric.stop();
}

#[test]
fn piped_watch_prints_json_lines() {
    let fabric = Fabric::start();
    let mut watch = fabric.spawn(&["ls", "--watch", "--json"], "viewer");
    let mut out = BufReader::new(watch.stdout.take().expect("it is piped"));
    let mut uptime = || -> f64 {
        let mut line = String::new();
        out.read_line(&mut line).expect("text");
        let status: Value = serde_json::from_str(&line).expect("one JSON object a line");
        status["uptime_seconds"].as_f64().expect("a number")
    };
    let first = uptime();
    assert!(uptime() > first);
    terminate(&watch);
    assert_eq!(watch.wait().expect("it ends").code(), Some(0));
    fabric.stop();
}

#[test]
fn missing_terminal_or_node_is_reported() {
    let folder = tempdir().expect("a directory");
    run(folder.path(), &["ls", "--watch", "--node", "x.sock"])
        .exits(2)
        .says(&["not a terminal", "--watch --json"]);
    run(
        folder.path(),
        &["ls", "--watch", "--json", "--node", "x.sock"],
    )
    .exits(4)
    .says(&["no node listens on x.sock"]);
    let options = ["ls", "--watch", "--node", "x.sock"];
    let (status, text) = Terminal::start(folder.path(), &options, &[]).end();
    assert_eq!(status.code(), Some(4), "{text}");
}

#[test]
fn dumb_terminal_is_not_drawn_on() {
    let fabric = Fabric::start();
    let dumb = [("TERM", "dumb")];
    for options in [
        &["ls", "--watch", "--node", "relay.sock"][..],
        &["top", "--node", "relay.sock"],
    ] {
        let (status, text) = Terminal::start(fabric.path(), options, &dumb).end();
        assert_eq!(status.code(), Some(2), "{text}");
        assert!(
            text.contains("not a terminal with cursor control"),
            "{text}"
        );
        assert!(!text.contains('\x1b'), "{text:?}");
    }
    let options = ["ls", "--node", "relay.sock"];
    let (status, text) = Terminal::start(fabric.path(), &options, &dumb).end();
    assert_eq!(status.code(), Some(0), "{text}");
    assert!(
        text.contains("(here)") && !text.contains('\x1b'),
        "{text:?}"
    );
    fabric.stop();
}
