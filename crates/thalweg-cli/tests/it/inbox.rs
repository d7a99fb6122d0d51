//! Proves that one transfer that does not go on holds up no other at its receiver, and is not lost by that.
//!
//! ```text
//! send ─► camera ─► relay ─► base (receive) ◄─ viewer ◄─ send
//! ```

use std::fs;
use std::io::{BufRead as _, BufReader};

use crate::fabric::terminate;
use crate::files::{end, folder, kill, ready, wait_for_parts, write};

#[test]
fn a_sender_that_has_stopped_makes_room_and_goes_on_when_it_is_back() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let survey = write(&fabric, "survey", 2_000_000);
    let note = write(&fabric, "note", 10_000);
    let slow = ["send", "survey", "base", "--limit", "2 Mbit/s"];
    let stay = ["receive", "--to", "in", "--stay", "--json"];
    let mut stay = fabric.spawn(&stay, "base");
    let out = stay.stdout.take().expect("it is piped");
    let mut received = BufReader::new(out).lines();
    let mut next = || received.next().expect("one for each").expect("text");
    let sending = fabric.spawn(&slow, "camera");
    wait_for_parts(&into, 100_000);
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
        "taking what viewer sends instead",
        "survey\" from camera",
        "were here before",
    ] {
        assert!(said.contains(sentence), "{said}");
    }
    assert!(fs::read(into.join("note")).expect("it is there") == note);
    assert!(fs::read(into.join("survey")).expect("it is there") == survey);
    fabric.stop();
}

#[test]
fn a_sender_that_was_killed_makes_room_where_one_transfer_is_waited_for() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    write(&fabric, "survey", 2_000_000);
    let note = write(&fabric, "note", 10_000);
    let receiving = fabric.spawn(&["receive", "--to", "in"], "base");
    let slow = ["send", "survey", "base", "--limit", "2 Mbit/s"];
    let sending = fabric.spawn(&slow, "camera");
    wait_for_parts(&into, 100_000);
    kill(sending);
    fabric.run(&["send", "note", "base"], "viewer").exits(0);
    end(receiving, 0);
    assert!(fs::read(into.join("note")).expect("it is there") == note);
    wait_for_parts(&into, 100_000);
    fabric.stop();
}
