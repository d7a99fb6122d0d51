//! Proves that a run with full or closed standard error or output goes on, or ends with an exit code.

use std::process::Stdio;

use crate::lone::{Lone, closed, ended, full};

/// Returns outputs that a log cannot be written to.
fn dead_ends() -> [fn() -> Stdio; 2] {
    [full, closed]
}

#[test]
fn node_survives_a_full_log() {
    for dead_end in dead_ends() {
        let mut lone = Lone::start(|command| {
            command.stderr(dead_end()).env("THALWEG_LOG", "info");
        });
        let lost = |lone: &Lone| {
            let lost = lone.status()["log_lines_lost"].clone();
            lost.as_u64().expect("a number")
        };
        let before = lost(&lone);
        assert!(before > 0, "it has logged that it listens");
        let publish = lone.run(&["publish", "a", "--from", "nothing.ts", "--no-wait"]);
        publish.exits(2);
        let listing = lone.run(&["ls"]).exits(0).out();
        assert!(listing.contains("lines of the node's log"), "{listing}");
        assert!(lone.is_running());
        lone.signal("TERM");
        assert_eq!(lone.wait().code(), Some(0));
    }
}

#[test]
fn node_survives_a_closed_output() {
    for dead_end in dead_ends() {
        let lone = Lone::start(|command| {
            command.stdout(dead_end());
        });
        lone.run(&["ls"]).exits(0);
        lone.signal("TERM");
        assert_eq!(lone.wait().code(), Some(0));
    }
}

#[test]
fn mute_command_keeps_its_code() {
    let lone = Lone::start(|_| {});
    std::fs::write(lone.path().join("empty.ts"), "").expect("room");
    for dead_end in dead_ends() {
        for (arguments, code) in [
            (&["ls", "--watch"][..], 2),
            (&["publish", "a", "--from", "empty.ts"], 1),
            (&["send", "nothing", "lone"], 2),
            (&["route", "lone", "nobody"], 2),
        ] {
            let mut command = lone.command(arguments);
            command.stdout(Stdio::null()).stderr(dead_end());
            let mut child = command.spawn().expect("the program was built");
            assert_eq!(ended(&mut child).code(), Some(code), "{arguments:?}");
        }
    }
}

#[test]
fn few_files_are_named() {
    for files in [6, 7, 15] {
        let line = format!("ulimit -n {files} && exec \"$0\" ls --node nowhere");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line, env!("CARGO_BIN_EXE_thalweg")]);
        let output = command.output().expect("there is a shell");
        assert_eq!(output.status.code(), Some(1), "{files}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("ulimit -n"), "{files}: {said}");
    }
}

#[test]
fn subscriber_ends_with_its_reader() {
    let lone = Lone::start(|_| {});
    let mut command = lone.command(&["subscribe", "never", "--to", "-"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program was built");
    drop(child.stdout.take());
    assert_eq!(ended(&mut child).code(), Some(1));
    let said = std::io::read_to_string(child.stderr.take().expect("piped")).expect("text");
    assert!(said.contains("its reader is gone"), "{said}");
}

#[test]
fn mute_receivers_end_in_good_order() {
    let lone = Lone::start(|_| {});
    for dead_end in dead_ends() {
        for arguments in [&["subscribe", "a", "--to", "a.ts"][..], &["receive"]] {
            let mut command = lone.command(arguments);
            command.stdout(dead_end()).stderr(dead_end());
            let mut child = command.spawn().expect("the program was built");
            // It waits for a stream that never comes, until it is asked to end.
            let begun = std::time::Instant::now();
            while child.try_wait().expect("it is ours").is_none()
                && begun.elapsed() < std::time::Duration::from_millis(500)
            {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            crate::fabric::terminate(&child);
            assert!(ended(&mut child).code().is_some(), "{arguments:?}");
        }
    }
}
