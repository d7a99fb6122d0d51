//! Proves that the command line is sound, that help and errors are right, and that worlds and
//! configurations are told apart.

use std::path::Path;

use clap::error::ErrorKind;

use thalweg_base::id::NodeId;
use thalweg_control::admission::Unfit;
use thalweg_node::fabric::JoinError;

use super::check::{Kind, guess};
use super::join::clean_up_key;
use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn command_line_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn redeemed_key_stays_and_other_goes() {
    let folder = tempfile::tempdir().expect("a directory for the test");
    let file = folder.path().join("node.key");
    let inviter = NodeId([7; 32]);
    let early = Unfit::Early { seconds: 600 };
    let clock = JoinError::Clock {
        inviter,
        error: early,
    };
    let reason = "the ticket was for 1 and has been used".to_string();
    let refused = JoinError::Refused { inviter, reason };
    assert!(clock.to_string().contains("set this machine's clock"));
    for (error, stays) in [(clock, true), (refused, false)] {
        std::fs::write(&file, "a key").expect("room");
        clean_up_key(&error, &file);
        assert_eq!(file.exists(), stays, "{error}");
    }
}

#[test]
fn every_command_has_examples() {
    for command in Cli::command().get_subcommands() {
        let help = command
            .get_after_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        let example = format!("thalweg {}", command.get_name());
        assert!(help.contains(&example), "{}: {help}", command.get_name());
    }
}

#[test]
fn prose_flows_and_indented_lines_stay() {
    let text = "Examples:\n  thalweg ls\n  thalweg top\n\nOne line\nand the next.\nTimes:\n  in ms\nAnd so\non.";
    assert_eq!(
        flowing(text),
        "Examples:\n  thalweg ls\n  thalweg top\n\nOne line and the next. Times:\n  in ms\nAnd so on."
    );
}

#[test]
fn arguments_are_checked_before_start() {
    for line in [
        "thalweg publish truck/cam1 --from clip.ts --speed max --deadline 2s --bitrate 2Mbit/s",
        "thalweg publish cam --from - --reliability full --confidential --node /run/t.sock",
        "thalweg subscribe cam --to rtp://[::1]:5004",
        "thalweg demo --headless --json --seconds 20 --port 9000",
        "thalweg plan w.toml --stream a/b --planner exact --json",
        "thalweg trace truck/cam1 --count 100 --every 100ms --wait 10s --json",
        "thalweg top --interval 500ms --once --json --node /run/t.sock",
    ] {
        assert!(
            parse(line).is_ok(),
            "{line}: {}",
            parse(line).expect_err("it failed")
        );
    }
    for line in [
        "thalweg publish a//b --from clip.ts",
        "thalweg publish a --from srt://h:1",
        "thalweg publish a --from clip.ts --deadline 300",
        "thalweg publish a --from clip.ts --speed 0",
        "thalweg demo --seconds 0",
        "thalweg plan w.toml --planner best",
        "thalweg trace cam --count 0",
        "thalweg trace cam --every 0s",
        "thalweg trace cam --wait 2h",
        "thalweg top --interval 2",
        "thalweg top --interval 99ms",
        "thalweg top --interval 2h",
    ] {
        let error = parse(line).expect_err(line);
        assert_eq!(error.kind(), ErrorKind::ValueValidation, "{line}");
    }
}

#[test]
fn former_options_name_their_successors() {
    for (line, former, now) in [
        ("thalweg invite --lasts 30d", "--lasts", "--rights-for"),
        ("thalweg invite --open-for 2h", "--open-for", "--valid-for"),
        (
            "thalweg --log info receive --no-modes",
            "--no-modes",
            "--no-preserve",
        ),
        ("thalweg send a b --block 4096", "--block", "--block-size"),
        (
            "thalweg send a --code --open-for=2h",
            "--open-for",
            "--valid-for",
        ),
    ] {
        let words = line.split_whitespace().map(str::to_owned);
        let error = Cli::parse_words(words).expect_err(line).to_string();
        let tip = format!("'{former}' has another name now: use '{now}'");
        assert!(error.contains(&tip), "{error}");
    }
    let words = "thalweg demo --rate 2".split_whitespace();
    let error = Cli::parse_words(words).expect_err("no such option");
    assert!(!error.to_string().contains("another name"), "{error}");
}

#[test]
fn planners_are_known_by_name() {
    for planner in ["exact", "heuristic", "exhaustive", "incremental"] {
        parse(&format!("thalweg plan w.toml --planner {planner}")).expect(planner);
    }
}

#[test]
fn worlds_differ_from_configurations() {
    let kind = |text, name: &str| guess(text, Path::new(name));
    assert_eq!(kind("[node.a]\nslots = 1\n", "w.toml"), Kind::World);
    assert_eq!(kind("  [[stream]]\n", "w.toml"), Kind::World);
    assert_eq!(kind("{}", "w.json"), Kind::World);
    assert_eq!(kind("name = \"a\"\n[[peer]]\n", "n.toml"), Kind::Config);
    assert_eq!(kind(thalweg_node::DEFAULT_CONFIG, "n.toml"), Kind::Config);
}
