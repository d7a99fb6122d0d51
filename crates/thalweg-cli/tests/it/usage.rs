//! Proves help and completions, and that a closed pipe is a graceful end.

use std::io::Read as _;
use std::process::Stdio;

use tempfile::tempdir;

use crate::program::{Run, run, thalweg};
use crate::terminal::Terminal;

#[test]
fn help_lists_commands_and_exit_codes() {
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
fn examples_wrap_at_the_terminal_width() {
    let folder = tempdir().expect("a directory");
    let list = run(folder.path(), &["--help"]).exits(0).out();
    let commands = list.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty() && *name != "help")
        .collect();
    assert_eq!(commands.len(), 23, "{list}");
    for name in commands {
        for columns in [70, 100] {
            let mut help = thalweg(folder.path());
            help.args([name, "--help"])
                .env("COLUMNS", columns.to_string());
            let help = Run(help.output().expect("the program was built"))
                .exits(0)
                .out();
            let mut text = help.lines().skip_while(|line| *line != "Examples:").skip(1);
            let mut before = text.next().expect("an example");
            for line in text {
                assert!(before.chars().count() <= columns, "{name}: {before}");
                let word = line.split(' ').next().unwrap_or_default();
                let is_prose = !word.is_empty() && !before.is_empty() && !before.starts_with(' ');
                let fits = before.chars().count() + 1 + word.chars().count() <= columns;
                assert!(!(is_prose && fits), "{name}: {before}\n{line}");
                before = line;
            }
        }
    }
}

#[test]
fn pipe_gets_no_colours() {
    let folder = tempdir().expect("a directory");
    for arguments in [&["--help"][..], &["config"], &["plan", "nowhere.toml"]] {
        let run = run(folder.path(), arguments);
        assert!(!(run.out() + &run.err()).contains('\x1b'), "{arguments:?}");
    }
}

#[test]
fn bad_usage_exits_2_with_its_reason() {
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
    let publish = ["publish", "a", "--from", "x.ts"];
    for (more, sentence) in [
        (&["--deadline", "0 ms"][..], "a time must be above 0"),
        (&["--bitrate", "0 bit/s"], "a rate must be above 0"),
        (
            &["--hold", "1 s", "--reliability", "none"],
            "that is sent once",
        ),
        (&["--hold", "25 h"], "exceeds the"),
        (&["--hold", "1 s", "--hold-size", "64 GiB"], "--hold-size"),
    ] {
        let said = run(folder.path(), &[&publish[..], more].concat()).exits(2);
        assert!(said.err().contains(sentence), "{more:?}: {}", said.err());
    }
    for address in ["0.0.0.0:7400", "tcp:[::]:443", "192.0.2.7:0"] {
        let said = run(folder.path(), &["invite", "--address", address]).exits(2);
        assert!(
            said.err().contains("other nodes cannot dial"),
            "{}",
            said.err()
        );
    }
}

#[test]
fn bad_values_name_the_expected_kind() {
    let folder = tempdir().expect("a directory");
    let byte = "not a whole number from 1 to 255";
    for (arguments, sentence) in [
        (
            &["trace", "a", "--count", "x"][..],
            "a whole number from 1 to 10000",
        ),
        (
            &["trace", "a", "--count", "0"],
            "a whole number from 1 to 10000",
        ),
        (
            &["demo", "--seconds", "1e3"],
            "a whole number from 1 to 86400",
        ),
        (
            &["demo", "--port", "65536"],
            "a whole number from 1 to 65535",
        ),
        (
            &["simulate", "w.toml", "--seconds", "x"],
            "a whole number from 1 to 86400",
        ),
        (
            &["simulate", "w.toml", "--seed", "x"],
            "not a whole number\n",
        ),
        (
            &["plan", "w.toml", "--budget", "1.5"],
            "not a whole number\n",
        ),
        (&["plan", "w.toml", "--planner", "x"], "`x`"),
        (
            &["send", "a", "b", "--block-size", "1k"],
            "not a whole number\n",
        ),
        (&["invite", "--rights", "publish,fly"], "`fly`"),
        (&["publish", "a", "--from", "x.ts", "--weight", "0"], byte),
        (&["publish", "a", "--from", "x.ts", "--weight", "256"], byte),
    ] {
        let said = run(folder.path(), arguments).exits(2).err();
        assert!(said.contains(sentence), "{arguments:?}: {said}");
    }
}

#[test]
fn control_characters_are_escaped() {
    let folder = tempdir().expect("a directory");
    std::fs::write(folder.path().join("w.toml"), "\"\\u001b[2Jx\" = 1\n").expect("room");
    let word = "\u{1b}[2J\u{7}x";
    for arguments in [
        &[word][..],
        &["check", word],
        &["check", "w.toml"],
        &["plan", "w.toml"],
        &["join", "t", "--name", word],
        &["publish", word, "--from", "x.ts"],
        &["publish", "a", "--from", "x.ts", "--deadline", word],
        &["send", word, "base", "--node", word],
        &["revoke", "a", "--node", word],
        &["config", "--log", &format!("thalweg=[{word}")],
    ] {
        // On a terminal escape sequences would act. `NO_COLOR` removes our own.
        let plain = [("NO_COLOR", "1")];
        let (status, text) = Terminal::start(folder.path(), arguments, &plain).end();
        assert!(
            matches!(status.code(), Some(2 | 4)),
            "{arguments:?}: {text}"
        );
        assert!(
            !text.contains(['\u{1b}', '\u{7}']),
            "{arguments:?}: {text:?}"
        );
        assert!(text.contains('x'), "{arguments:?}: {text:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn unwritable_output_is_reported() {
    let folder = tempdir().expect("a directory");
    for arguments in [&["config"][..], &["completions", "bash"], &["--help"]] {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut command = thalweg(folder.path());
        command.args(arguments).stdout(full.expect("Linux has it"));
        let ended = Run(command.output().expect("the program was built"));
        ended.exits(1).says(&["cannot write", "No space left"]);
    }
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
        let between = if shell == "fish" { "\\t''\n" } else { " " };
        for words in [
            &["heuristic", "exhaustive"][..],
            &["see-plaintext", "invite"],
        ] {
            assert!(script.contains(&words.join(between)), "{shell}: {words:?}");
        }
    }
}

#[test]
fn closed_pipe_is_a_graceful_end() {
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
