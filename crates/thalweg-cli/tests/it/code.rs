//! Proves over real nodes that files sent by a phrase arrive only where the phrase is known: whole,
//! once and in time.
//!
//! ```text
//! send --code ─► camera ─► relay ─► base (receive PHRASE) ─► viewer (receive PHRASE)
//! ```

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Child;

use crate::fabric::{Fabric, make_clip, terminate};
use crate::files::{end, folder, kill, ready, wait, wait_for_parts, write};

/// Sends by a phrase; returns the phrase once it is printed.
fn send(fabric: &Fabric, arguments: &[&str]) -> (Child, String) {
    let arguments = [&["send", "--code"], arguments].concat();
    let mut child = fabric.spawn(&arguments, "camera");
    let mut line = String::new();
    let out = child.stdout.as_mut().expect("it is piped");
    BufReader::new(out).read_line(&mut line).expect("text");
    (child, line.trim().to_owned())
}

/// Returns a phrase with the same number and other words.
fn wrong(phrase: &str) -> String {
    let (number, _) = phrase.split_once('-').expect("a number and words");
    let other = ["zebra-zebra", "acorn-acorn"];
    let other = other.iter().find(|other| !phrase.ends_with(**other));
    format!("{number}-{}", other.expect("a phrase ends in one way"))
}

fn there(fabric: &Fabric, node: &str, name: &str) -> Vec<u8> {
    fs::read(fabric.path().join(format!("in-{node}")).join(name)).expect("it is there")
}

fn receive(fabric: &Fabric, node: &str, phrase: &str) -> Child {
    folder(fabric, &format!("in-{node}"));
    let to = format!("in-{node}");
    fabric.spawn(&["receive", "--to", &to, phrase], node)
}

#[test]
fn phrase_gives_the_files_once() {
    let fabric = ready();
    let bytes = write(&fabric, "survey.tif", 700_001);
    let (sending, phrase) = send(&fabric, &["survey.tif"]);
    // A receiver that waits for files addressed to its node must get none of these.
    let other = receive_any(&fabric, "viewer");
    let received = end(receive(&fabric, "viewer", &phrase.to_uppercase()), 0);
    assert!(received.err().contains("from camera"), "{}", received.err());
    end(sending, 0);
    assert!(there(&fabric, "viewer", "survey.tif") == bytes);
    wait("the number is on no map", || {
        let status = fabric.status("base");
        let streams = status["streams"].as_array().cloned().unwrap_or_default();
        let is_code = |name: &str| name.starts_with("codes/");
        !streams
            .iter()
            .any(|stream| stream["name"].as_str().is_some_and(is_code))
    });
    let late = end(receive(&fabric, "base", &phrase), 1);
    assert!(
        late.err().contains("nobody sends by the phrase"),
        "{}",
        late.err()
    );
    terminate(&other);
    end(other, 1);
    let taken = fs::read_dir(folder(&fabric, "any-viewer")).expect("a folder");
    assert_eq!(taken.count(), 0, "what has no phrase has nothing");
    fabric.stop();
}

/// Receives without a phrase, from any sender to that node.
fn receive_any(fabric: &Fabric, node: &str) -> Child {
    let to = format!("any-{node}");
    folder(fabric, &to);
    fabric.spawn(&["receive", "--to", &to], node)
}

#[test]
fn guessing_ends_a_phrase() {
    let fabric = ready();
    write(&fabric, "a", 1_000);
    let (sending, phrase) = send(&fabric, &["a"]);
    let sentences = [
        "wrong attempts left: 2",
        "wrong attempts left: 1",
        "the phrase is blocked",
    ];
    for sentence in sentences {
        let run = end(receive(&fabric, "base", &wrong(&phrase)), 1);
        assert!(run.err().contains(sentence), "{}", run.err());
    }
    let sent = end(sending, 1);
    assert!(sent.err().contains("by base, base, base"), "{}", sent.err());
    assert_eq!(
        fs::read_dir(folder(&fabric, "in-base"))
            .expect("a folder")
            .count(),
        0
    );
    let run = fabric.run(&["receive", "7-otter-lantren"], "base").exits(2);
    assert!(run.err().contains("is it `lantern`?"), "{}", run.err());
    fabric.stop();
}

#[test]
fn interrupted_receiver_reuses_phrase() {
    let fabric = ready();
    let bytes = write(&fabric, "survey.tif", 1_000_000);
    let (sending, phrase) = send(&fabric, &["survey.tif", "--limit", "2 Mbit/s"]);
    let receiving = receive(&fabric, "base", &phrase);
    let into = folder(&fabric, "in-base");
    wait_for_parts(&into, 100_000);
    kill(receiving);
    let other = end(receive(&fabric, "viewer", &phrase), 1);
    assert!(other.err().contains("used already"), "{}", other.err());
    let received = end(receive(&fabric, "base", &phrase), 0);
    assert!(
        received.err().contains("were already here"),
        "{}",
        received.err()
    );
    end(sending, 0);
    assert!(there(&fabric, "base", "survey.tif") == bytes);
    fabric.stop();
}

#[test]
fn phrase_has_limited_uses_and_time() {
    let fabric = ready();
    let bytes = write(&fabric, "map", 100_000);
    let (sending, phrase) = send(&fabric, &["map", "--uses", "2", "--confidential", "--json"]);
    let phrase: serde_json::Value = serde_json::from_str(&phrase).expect("JSON");
    let phrase = phrase["phrase"].as_str().expect("a phrase");
    let receiving = ["base", "viewer"].map(|node| receive(&fabric, node, phrase));
    for receiving in receiving {
        end(receiving, 0);
    }
    end(sending, 0);
    for node in ["base", "viewer"] {
        assert!(there(&fabric, node, "map") == bytes, "{node}");
    }
    let (sending, _) = send(&fabric, &["map", "--valid-for", "1s"]);
    let sent = end(sending, 1);
    assert!(sent.err().contains("before it expired"), "{}", sent.err());
    let run = fabric.run(&["send", "map"], "camera").exits(2);
    assert!(run.err().contains("--code"), "{}", run.err());
    fabric.stop();
}

#[test]
fn unused_phrase_ends_at_both_ends() {
    let fabric = ready();
    write(&fabric, "map", 1_000);
    let (sending, _) = send(&fabric, &["map"]);
    terminate(&sending);
    let said = end(sending, 1).err();
    assert!(said.contains("before any receiver used"), "{said}");
    assert!(!said.contains("is kept"), "{said}");

    // A receiver that never answers, and is stopped.
    make_clip(fabric.path());
    let status = fabric.status("camera");
    let key = status["node"]["key"].as_str().expect("it has one");
    let codes = format!("codes/7/{}", &key[..8]);
    let publish = ["publish", &codes, "--from", "clip.ts", "--loop"];
    let publishing = fabric.spawn(&publish, "camera");
    let receiving = receive(&fabric, "base", "7-otter-lantern");
    wait("it is asked, and listened to", || {
        let status = fabric.status("camera");
        let mut plans = status["plans"].as_array().into_iter().flatten();
        plans.any(|plan| plan["stream"] == *codes && plan["state"] == "active")
    });
    terminate(&publishing);
    end(publishing, 0);
    let said = end(receiving, 1).err();
    assert!(said.contains("the phrase ended while"), "{said}");
    fabric.stop();
}
