//! Proves that the streams of a pattern are joined as they appear, each into a file of its own, and that one
//! that cannot be written disturbs no other.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::fabric::Fabric;
use crate::program::{Run, run};

/// A subscriber of a pattern; the test reads its sentences.
struct Many(Child, Lines<BufReader<ChildStderr>>);

impl Many {
    fn start(fabric: &Fabric, pattern: &str, more: &[&str]) -> Self {
        let mut arguments = vec!["subscribe", pattern, "--to", "got/", "--json"];
        arguments.extend_from_slice(more);
        let mut child = fabric.spawn(&arguments, "viewer");
        let err = BufReader::new(child.stderr.take().expect("it is piped"));
        Self(child, err.lines())
    }

    /// Reads up to a sentence with this part.
    fn hear(&mut self, part: &str) -> String {
        let mut before = String::new();
        for line in self.1.by_ref() {
            let line = line.expect("text");
            if line.contains(part) {
                return line;
            }
            before += &line;
        }
        panic!("it ended without `{part}`: {before}");
    }

    /// Stops it and returns its summary.
    fn stop(mut self, code: i32) -> Value {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::INT).expect("it runs");
        self.hear("received");
        let run = Run(self.0.wait_with_output().expect("it ends")).exits(code);
        serde_json::from_str(run.out().trim()).expect("one object")
    }
}

/// Publishes lines until they have been received.
fn publish(fabric: &Fabric, name: &str, lines: &str) {
    std::fs::write(fabric.path().join("in"), lines).expect("room");
    let arguments = ["publish", name, "--from", "in", "--format", "lines"];
    fabric.run(&arguments, "camera").exits(0);
}

/// Publishes a line that nobody may take.
fn offer(fabric: &Fabric, name: &str) -> Child {
    let arguments = [
        "publish",
        name,
        "--from",
        "exec:echo x",
        "--format",
        "lines",
    ];
    fabric.spawn(&arguments, "camera")
}

fn got(fabric: &Fabric, name: &str) -> String {
    std::fs::read_to_string(fabric.path().join("got").join(name)).unwrap_or_default()
}

#[test]
fn streams_of_pattern_are_joined() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let mut many = Many::start(&fabric, "survey/**", &[]);
    many.hear("no stream matches survey/** yet");
    publish(&fabric, "survey/gps", "a\n");
    let mut other = offer(&fabric, "other");
    publish(&fabric, "survey/deep/log", "b\nc\n");
    many.hear("survey/deep/log ended: 2 ADUs, 4 B in got/survey/deep/log.txt");
    // A stream of a name that was there before goes on in its file.
    publish(&fabric, "survey/gps", "d\n");
    many.hear("survey/gps ended: 2 ADUs");
    other.kill().expect("it waits for a subscriber");
    other.wait().expect("it ends");
    let summary = many.stop(0);
    let files: Vec<&str> = summary["streams"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|stream| stream["file"].as_str().expect("a path"))
        .collect();
    assert_eq!(
        files,
        ["got/survey/deep/log.txt", "got/survey/gps.txt"],
        "{summary}"
    );
    assert_eq!(got(&fabric, "survey/gps.txt"), "a\nd\n");
    assert_eq!(got(&fabric, "survey/deep/log.txt"), "b\nc\n");
    fabric.stop();
}

#[test]
fn one_bad_stream_disturbs_no_other() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    std::fs::create_dir_all(fabric.path().join("got/a.txt")).expect("room");
    std::fs::write(fabric.path().join("got/b.txt"), "of an earlier run\n").expect("room");
    std::fs::write(fabric.path().join("got/bad"), "no folder\n").expect("room");
    let mut many = Many::start(&fabric, "**", &["--at-most", "2"]);
    many.hear("no stream matches");
    let mut bad = offer(&fabric, "bad/name");
    many.hear("bad/name: cannot make got/bad");
    publish(&fabric, "b", "y\n");
    many.hear("b ended");
    bad.kill().expect("it waits for a subscriber");
    bad.wait().expect("it ends");
    let summary = many.stop(1);
    let [good, bad] = [0, 1].map(|at| &summary["streams"][at]);
    assert_eq!(good["file"], "got/b.2.txt", "{summary}");
    assert_eq!(bad["file"], Value::Null, "{summary}");
    assert_eq!(got(&fabric, "b.2.txt"), "y\n");
    assert_eq!(got(&fabric, "b.txt"), "of an earlier run\n");
    fabric.stop();
}

#[test]
fn pattern_needs_folder() {
    let folder = tempfile::tempdir().expect("room");
    for to in ["-", "udp://127.0.0.1:9", "exec:cat"] {
        run(folder.path(), &["subscribe", "a/*", "--to", to])
            .exits(2)
            .says(&["a/*", "give a folder"]);
    }
    run(folder.path(), &["subscribe", "a/**b", "--to", "x/"]).exits(2);
}
