//! Proves that a stalled transfer delays no other transfer at its receiver, and is not lost.
//!
//! ```text
//! send ─► camera ─► relay ─► base (receive) ◄─ viewer ◄─ send
//! ```

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, iter, thread};

use crate::fabric::{Fabric, signal, terminate};
use crate::files::{end, folder, kill, ready, wait, wait_for_parts, write};

/// Starts to send a file from the camera, slowly; returns when a part of it has arrived.
fn half_sent(fabric: &Fabric, into: &Path) -> Child {
    let slow = ["send", "survey", "base", "--limit", "2 Mbit/s"];
    let sending = fabric.spawn(&slow, "camera");
    wait_for_parts(into, 100_000);
    sending
}

#[test]
fn stopped_sender_makes_room() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let survey = write(&fabric, "survey", 2_000_000);
    let note = write(&fabric, "note", 10_000);
    let stay = ["receive", "--to", "in", "--stay", "--json"];
    let mut stay = fabric.spawn(&stay, "base");
    let out = stay.stdout.take().expect("it is piped");
    let mut received = BufReader::new(out).lines();
    let mut next = || received.next().expect("one for each").expect("text");
    let sending = half_sent(&fabric, &into);
    terminate(&sending);
    end(sending, 1);
    fabric.run(&["send", "note", "base"], "viewer").exits(0);
    assert!(next().contains("in/note"));
    fabric.run(&["send", "survey", "base"], "camera").exits(0);
    assert!(next().contains("in/survey"));
    terminate(&stay);
    let said = end(stay, 0).err();
    for sentence in [
        "camera stopped sending",
        "receiving from viewer instead",
        "survey\" from camera",
        "were already here",
    ] {
        assert!(said.contains(sentence), "{said}");
    }
    assert!(fs::read(into.join("note")).expect("it is there") == note);
    assert!(fs::read(into.join("survey")).expect("it is there") == survey);
    fabric.stop();
}

#[test]
fn killed_node_makes_room() {
    let mut fabric = ready();
    let into = folder(&fabric, "in");
    write(&fabric, "survey", 2_000_000);
    let note = write(&fabric, "note", 10_000);
    let receiving = fabric.spawn(&["receive", "--to", "in"], "base");
    let sending = half_sent(&fabric, &into);
    fabric.crash_while("camera", |fabric| {
        fabric.run(&["send", "note", "base"], "viewer").exits(0);
    });
    end(receiving, 0);
    assert!(fs::read(into.join("note")).expect("it is there") == note);
    kill(sending);
    fabric.stop();
}

#[test]
fn staying_receiver_survives_a_refusal() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    write(&fabric, "taken", 10_000);
    fs::write(into.join("taken"), "mine").expect("room");
    let note = write(&fabric, "note", 20_000);
    let stay = fabric.spawn(&["receive", "--to", "in", "--stay"], "base");
    for _ in 0..2 {
        let sent = fabric.run(&["send", "taken", "base"], "camera").exits(1);
        assert!(sent.err().contains("another file"), "{}", sent.err());
    }
    fabric.run(&["send", "note", "base"], "viewer").exits(0);
    terminate(&stay);
    let said = end(stay, 0).err();
    let times = said.matches("in/taken exists and is another file");
    assert_eq!(times.count(), 2, "{said}");
    assert_eq!(fs::read(into.join("taken")).expect("it is there"), b"mine");
    assert!(fs::read(into.join("note")).expect("it is there") == note);
    fabric.stop();
}

#[test]
fn second_sender_resumes_the_file() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let survey = write(&fabric, "survey", 2_000_000);
    let receiving = fabric.spawn(&["receive", "--to", "in"], "base");
    let sending = half_sent(&fabric, &into);
    terminate(&sending);
    end(sending, 1);
    fabric.run(&["send", "survey", "base"], "viewer").exits(0);
    let said = end(receiving, 0).err();
    assert!(said.contains("survey\" from viewer"), "{said}");
    assert!(fs::read(into.join("survey")).expect("it is there") == survey);
    fabric.stop();
}

#[test]
fn either_sender_of_a_file_serves() {
    let fabric = ready();
    let survey = write(&fabric, "survey", 200_000);
    for from in ["camera", "viewer"] {
        let into = folder(&fabric, from);
        let sending = ["camera", "viewer"].map(|node| {
            let sending = fabric.spawn(&["send", "survey", "base"], node);
            wait("it is offered", || {
                let status = fabric.status("base");
                let mut streams = status["streams"].as_array().into_iter().flatten();
                streams.any(|stream| {
                    let name = stream["name"].as_str().unwrap_or_default();
                    stream["publisher"] == *node && name.starts_with("files/")
                })
            });
            sending
        });
        let receive = ["receive", "--to", from, "--from", from];
        let said = end(fabric.spawn(&receive, "base"), 0).err();
        assert!(said.contains(&format!("survey\" from {from}")), "{said}");
        // Both senders get the confirmation, not only the one that delivered the file.
        for sending in sending {
            end(sending, 0);
        }
        assert!(fs::read(into.join("survey")).expect("it is there") == survey);
    }
    fabric.stop();
}

#[test]
fn killed_sender_makes_room_for_one() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    write(&fabric, "survey", 2_000_000);
    let note = write(&fabric, "note", 10_000);
    let receiving = fabric.spawn(&["receive", "--to", "in"], "base");
    let sending = half_sent(&fabric, &into);
    kill(sending);
    fabric.run(&["send", "note", "base"], "viewer").exits(0);
    end(receiving, 0);
    assert!(fs::read(into.join("note")).expect("it is there") == note);
    wait_for_parts(&into, 100_000);
    fabric.stop();
}

/// Returns how many ADUs of transfers a node has delivered to its programs.
fn delivered(fabric: &Fabric, node: &str) -> u64 {
    let status = fabric.status(node);
    let streams = status["streams"].as_array().expect("a list");
    let files = streams.iter().filter(|stream| {
        let name = stream["name"].as_str().expect("text");
        name.starts_with("files/")
    });
    files
        .map(|stream| stream["counts"]["delivered"].as_u64().expect("a count"))
        .sum()
}

/// Waits until a node has delivered at least `least` ADUs of transfers and no more follow for a while.
fn wait_for_all(fabric: &Fabric, node: &str, least: u64) {
    let mut counts = Vec::new();
    wait("all is given", || {
        let count = delivered(fabric, node);
        counts.push(count);
        let same = counts.iter().rev().take_while(|before| **before == count);
        count >= least && same.count() >= 5
    });
}

#[test]
fn receiver_stopped_when_done_says_so() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let note = write(&fabric, "note", 40 * 1024);
    for more in [&[][..], &["--stay"]] {
        let receive = [&["receive", "--to", "in", "--json", "--force"], more].concat();
        let mut receiving = fabric.spawn(&receive, "base");
        let send = [
            "send",
            "note",
            "base",
            "--block-size",
            "1024",
            "--limit",
            "400 kbit/s",
        ];
        let mut sending = fabric.spawn(&send, "camera");
        // The receiver is frozen until everything that it needs waits for it, and its node is
        // frozen before it wakes; so its confirmation to the sender waits until it times out.
        wait_for_parts(&into, 1);
        signal(&receiving, "STOP");
        wait_for_all(&fabric, "base", 42);
        fabric.signal("base", "STOP");
        signal(&receiving, "CONT");
        wait("the file is there", || {
            fs::read(into.join("note")).is_ok_and(|came| came == note)
        });
        terminate(&receiving);
        let status = receiving.wait().expect("it ends");
        fabric.signal("base", "CONT");
        let said = end(receiving, status.code().unwrap_or(-1));
        assert_eq!(status.code(), Some(0), "{}", said.err());
        assert!(said.err().contains("note\" from camera"), "{}", said.err());
        assert!(said.out().contains("in/note"), "{}", said.out());
        // Whether the sender still got it depends on a second or two.
        terminate(&sending);
        sending.wait().expect("it ends");
        fs::remove_file(into.join("note")).expect("it is there");
    }
    fabric.stop();
}

#[test]
fn sender_stopped_when_done_says_so() {
    let fabric = ready();
    let (base, viewer) = (folder(&fabric, "base"), folder(&fabric, "viewer"));
    let note = write(&fabric, "note", 40 * 1024);
    let last = fabric.spawn(&["receive", "--to", "base"], "base");
    let first = fabric.spawn(&["receive", "--to", "viewer"], "viewer");
    let send = ["send", "note", "base", "--also", "viewer", "--json"];
    let slow = ["--block-size", "1024", "--limit", "400 kbit/s"];
    let mut sending = fabric.spawn(&[&send[..], &slow].concat(), "camera");
    // One receiver is frozen until the sender is; so the sender gets the last confirmation while
    // its node is frozen, and would wait for the end of the stream for ever.
    wait_for_parts(&base, 1);
    signal(&last, "STOP");
    end(first, 0);
    wait_for_all(&fabric, "base", 42);
    signal(&sending, "STOP");
    signal(&last, "CONT");
    end(last, 0);
    fabric.status("camera");
    fabric.signal("camera", "STOP");
    signal(&sending, "CONT");
    let err = sending.stderr.take().expect("it is piped");
    let (line_sender, lines_heard) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in BufReader::new(err).lines() {
            // The receiver of the lines may be gone.
            let _ = line_sender.send(line.expect("text"));
        }
    });
    let has_heard = || {
        let mut lines = iter::from_fn(|| lines_heard.recv_timeout(Duration::from_secs(1)).ok());
        lines.any(|line| line.contains("base has everything"))
    };
    // The frozen node sends its pending data whenever it wakes for a moment.
    let mut naps = 0;
    while !has_heard() {
        assert!(naps < 30, "it never hears that everybody has everything");
        fabric.signal("camera", "CONT");
        thread::sleep(Duration::from_millis(5));
        fabric.signal("camera", "STOP");
        naps += 1;
    }
    terminate(&sending);
    let status = sending.wait().expect("it ends");
    fabric.signal("camera", "CONT");
    reader.join().expect("what it reads is text");
    let said: Vec<String> = lines_heard.iter().collect();
    assert_eq!(status.code(), Some(0), "{said:?}");
    let is_sum = |line: &String| line.contains("sent 41.0 kB to ") && line.contains("base");
    assert!(said.iter().any(is_sum), "{said:?}");
    for folder in [base, viewer] {
        assert!(fs::read(folder.join("note")).expect("it is there") == note);
    }
    fabric.stop();
}
