//! Proves that publishers and subscribers survive each other's death and that of their nodes.
//!
//! *How.* Real processes are killed. Progress shows in the subscriber's output file: it grows.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::fabric::{Ending, Fabric, PATIENCE, make_clip, terminate};
use crate::program::Run;

const PUBLISH: [&str; 5] = ["publish", "bikes", "--from", "clip.ts", "--loop"];
const SUBSCRIBE: [&str; 4] = ["subscribe", "bikes", "--to", "out.ts"];

/// A clip that is published at the camera and subscribed to at the relay.
struct Show {
    fabric: Fabric,
    publish: Ending,
    subscribe: Ending,
}

impl Show {
    fn start() -> Self {
        let fabric = Fabric::start();
        make_clip(fabric.path());
        let subscribe = Ending(fabric.spawn(&SUBSCRIBE, "relay"));
        let publish = Ending(fabric.spawn(&PUBLISH, "camera"));
        let show = Self {
            fabric,
            publish,
            subscribe,
        };
        show.wait_for_growth("it begins");
        show
    }

    fn written(&self) -> PathBuf {
        self.fabric.path().join("out.ts")
    }

    /// Waits until the output grows.
    fn wait_for_growth(&self, when: &str) {
        let before = length(&self.written());
        let begun = Instant::now();
        while length(&self.written()) <= before {
            assert!(begun.elapsed() < PATIENCE, "nothing comes: {when}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn kill_publisher(&mut self) {
        self.publish.0.kill().expect("it runs");
        self.publish.0.wait().expect("it ends");
    }
}

fn length(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |file| file.len())
}

/// Ends a process that must still run, and returns its output.
fn end(mut ending: Ending) -> Run {
    let is_there = ending.0.try_wait().expect("it is ours").is_none();
    if is_there {
        terminate(&ending.0);
    }
    let run = Run(output(&mut ending.0)).exits(0);
    assert!(is_there, "it has ended: {}", run.err());
    run
}

fn output(child: &mut Child) -> std::process::Output {
    use std::io::Read as _;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut err = child.stderr.take().expect("it is piped");
    err.read_to_end(&mut stderr).expect("readable");
    let mut out = child.stdout.take().expect("it is piped");
    out.read_to_end(&mut stdout).expect("readable");
    std::process::Output {
        status: child.wait().expect("it ends"),
        stdout,
        stderr,
    }
}

#[test]
fn programs_survive_node_restarts() {
    let mut show = Show::start();
    show.fabric.crash("camera");
    show.wait_for_growth("the publisher's node was killed");
    show.fabric.crash("relay");
    show.wait_for_growth("the subscriber's node was killed");
    show.fabric.restart("relay", || {});
    show.wait_for_growth("the subscriber's node was restarted");
    // Interrupting the publisher first would end the stream for the subscriber.
    let received = end(show.subscribe).err();
    let published = end(show.publish).err();
    for (who, said) in [("publish", &published), ("subscribe", &received)] {
        for word in ["is gone; reconnecting", "is back"] {
            assert!(said.contains(word), "{who}: {said}");
        }
    }
}

#[test]
fn killed_publisher_is_replaced_at_once() {
    let mut show = Show::start();
    show.kill_publisher();
    show.publish = Ending(show.fabric.spawn(&PUBLISH, "camera"));
    // The last ADUs of the killed publisher may still come, before those of its successor.
    for _ in 0..5 {
        show.wait_for_growth("the publisher was killed");
    }
    let received = end(show.subscribe).err();
    assert!(received.contains("died before it ended"), "{received}");
    end(show.publish);
}

#[test]
fn silent_sink_frees_the_name() {
    let mut show = Show::start();
    show.fabric.signal("relay", "STOP");
    show.kill_publisher();
    let again = [
        "publish",
        "bikes",
        "--from",
        "clip.ts",
        "--no-wait",
        "--speed",
        "max",
    ];
    let run = show.fabric.run(&again, "camera").exits(0);
    assert!(!run.err().contains("already"), "{}", run.err());
    show.fabric.signal("relay", "CONT");
}

#[test]
fn taken_name_is_waited_for() {
    let show = Show::start();
    let run = show.fabric.run(&PUBLISH, "camera").exits(1);
    for word in ["publishes `bikes` already", "waiting 5 s"] {
        assert!(run.err().contains(word), "{}", run.err());
    }
}

#[test]
fn scripts_end_with_their_node() {
    let mut show = Show::start();
    let script = |arguments: &[&str], node: &str| {
        let arguments = [arguments, &["--no-reconnect"]].concat();
        Ending(show.fabric.spawn(&arguments, node))
    };
    let mut waiting = [
        script(&["subscribe", "nothing", "--to", "none.ts"], "viewer"),
        script(&["publish", "other", "--from", "clip.ts"], "viewer"),
    ];
    // The map shows the second stream once both are admitted, since it is published after the first.
    let begun = Instant::now();
    while !show.fabric.status("viewer").to_string().contains("other") {
        assert!(begun.elapsed() < PATIENCE, "it is not published");
        std::thread::sleep(Duration::from_millis(20));
    }
    show.fabric.crash("viewer");
    for ending in &mut waiting {
        let run = Run(output(&mut ending.0)).exits(1);
        assert!(run.err().contains("the node went away"), "{}", run.err());
    }
}
