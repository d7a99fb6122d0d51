//! Proves help, completions, and that a closed pipe is a graceful end.

use std::io::Read as _;
use std::process::Stdio;

use tempfile::tempdir;

use crate::program::{run, thalweg};

#[test]
fn help_lists_the_commands_and_the_exit_codes() {
    let folder = tempdir().expect("a directory");
    let help = run(folder.path(), &["--help"]).exits(0).out();
    for word in [
        "demo",
        "plan",
        "node",
        "ls",
        "publish",
        "subscribe",
        "check",
        "id",
        "Exit codes",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let help = run(folder.path(), &["publish", "--help"]).exits(0).out();
    assert!(
        help.contains("Examples:") && help.contains("THALWEG_SOCKET"),
        "{help}"
    );
}

#[test]
fn nothing_is_painted_into_a_pipe() {
    let folder = tempdir().expect("a directory");
    for arguments in [&["--help"][..], &["config"], &["plan", "nowhere.toml"]] {
        let run = run(folder.path(), arguments);
        assert!(!(run.out() + &run.err()).contains('\x1b'), "{arguments:?}");
    }
}

#[test]
fn bad_usage_exits_2_and_names_what_is_wrong() {
    let folder = tempdir().expect("a directory");
    let err = run(folder.path(), &["fly"]).exits(2).err();
    assert!(err.contains("fly"), "{err}");
    let err = run(folder.path(), &["publish", "a//b", "--from", "x.ts"])
        .exits(2)
        .err();
    assert!(err.contains("is not a stream name"), "{err}");
    let filter = ["--log", "thalweg=[", "config"];
    run(folder.path(), &filter)
        .exits(2)
        .says(&["is not a log filter"]);
}

#[test]
fn completions_name_every_command() {
    let folder = tempdir().expect("a directory");
    for shell in ["bash", "zsh", "fish"] {
        let script = run(folder.path(), &["completions", shell]).exits(0).out();
        assert!(
            script.contains("subscribe") && script.contains("trace"),
            "{shell}"
        );
    }
}

#[test]
fn a_closed_pipe_is_a_graceful_end() {
    let folder = tempdir().expect("a directory");
    let mut command = thalweg(folder.path());
    command
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program was built");
    drop(child.stdout.take());
    let mut err = String::new();
    let mut pipe = child.stderr.take().expect("it is piped");
    pipe.read_to_string(&mut err).expect("text");
    assert_eq!(child.wait().expect("it ends").code(), Some(0), "{err}");
    assert_eq!(err, "");
}
