//! Proves over real nodes that files arrive intact, whichever process is killed, and that failures
//! are one sentence.
//!
//! ```text
//! send ─► camera ─► relay ─► base (receive) ─► viewer (receive)
//! ```
//!
//! For events halfway through a transfer, a limit slows the transfer, and the test waits for the
//! first bytes in the folder of parts.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::fabric::{Fabric, PATIENCE, make_clip, signal, terminate};
use crate::program::Run;

/// Returns bytes without an early repetition.
fn content(count: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(next).collect()
}

pub fn write(fabric: &Fabric, name: &str, count: usize) -> Vec<u8> {
    let bytes = content(count);
    fs::write(fabric.path().join(name), &bytes).expect("room");
    bytes
}

pub fn folder(fabric: &Fabric, name: &str) -> PathBuf {
    let path = fabric.path().join(name);
    fs::create_dir_all(&path).expect("room");
    path
}

pub fn ready() -> Fabric {
    let fabric = Fabric::start();
    for (node, links) in [("camera", 1), ("relay", 2), ("base", 2), ("viewer", 1)] {
        fabric.wait_for_links(node, links);
    }
    wait("every node is on the map", || {
        fabric.status("camera")["nodes"].as_array().map(Vec::len) == Some(4)
    });
    fabric
}

/// Fails unless the folder has the files with these contents.
fn assert_files(folder: &Path, names: &[&str], contents: &[Vec<u8>]) {
    for (name, bytes) in names.iter().zip(contents) {
        let came = fs::read(folder.join(name)).expect("it is there");
        assert!(came == *bytes, "{name:?}");
    }
}

pub fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the first file in the folder of parts has this many bytes.
pub fn wait_for_parts(folder: &Path, bytes: u64) {
    wait("something has arrived", || {
        let parts = fs::read_dir(folder).expect("a folder").flatten();
        parts
            .map(|part| part.path().join("0"))
            .any(|path| fs::metadata(path).is_ok_and(|about| about.len() >= bytes))
    });
}

/// Waits for a command to end with this exit code; after the time limit it is killed, and has none.
pub fn end(child: Child, code: i32) -> Run {
    let id = child.id().to_string();
    let (ended, waits) = mpsc::channel::<()>();
    let guard = thread::spawn(move || {
        if waits.recv_timeout(3 * PATIENCE) == Err(RecvTimeoutError::Timeout) {
            // A process that has just ended cannot be killed.
            let _ = Command::new("kill").args(["-KILL", &id]).status();
        }
    });
    let run = Run(child.wait_with_output().expect("it ends"));
    drop(ended);
    guard.join().expect("it kills or does not");
    run.exits(code)
}

pub fn kill(mut child: Child) {
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn vanished_offer_delays_no_other() {
    let fabric = ready();
    make_clip(fabric.path());
    let sent = write(&fabric, "file", 100_000);
    let into = folder(&fabric, "in");
    let receive = fabric.spawn(&["receive", "--to", "in"], "base");
    let status = fabric.status("base");
    let key = status["node"]["key"].as_str().expect("it has one");
    // Announced as a transfer to this node, but without one.
    let name = format!("files/{}/{}", "0".repeat(32), &key[..8]);
    let publish = ["publish", &name, "--from", "clip.ts", "--speed", "max"];
    fabric.run(&publish, "camera").exits(0);
    let send = fabric.spawn(&["send", "file", "base"], "camera");
    let whole = || fs::read(into.join("file")).is_ok_and(|came| came == sent);
    wait("the file is there", whole);
    end(send, 0);
    end(receive, 0);
    fabric.stop();
}

#[test]
fn files_cross_two_hops_intact() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let names = ["large", "empty", "-odd name\n\u{1b}[2J\u{fc}", "one"];
    let sizes = [700_001, 0, 30_000, 1];
    let contents: Vec<_> = names
        .iter()
        .zip(sizes)
        .map(|(name, size)| write(&fabric, name, size))
        .collect();
    let receive = fabric.spawn(
        &["receive", "--to", "in", "--from", "camera", "--json"],
        "base",
    );
    let mut arguments = vec!["send", "--json", "--"];
    arguments.extend(names);
    arguments.push("base");
    let mut send = fabric.command(&arguments[..2], "camera");
    let sent = Run(send.args(&arguments[2..]).output().expect("it runs")).exits(0);
    let received = end(receive, 0);
    assert_files(&into, &names, &contents);
    assert_eq!(
        fs::read_dir(&into).expect("a folder").count(),
        names.len(),
        "no parts are left"
    );
    let sent: serde_json::Value = serde_json::from_str(&sent.out()).expect("JSON");
    assert_eq!(sent["bytes"], 730_002);
    assert_eq!(
        sent["bytes_sent"], sent["bytes"],
        "nothing goes twice on good links"
    );
    assert!(
        received.out().contains("\"corrupt\":0"),
        "{}",
        received.out()
    );
    fabric.stop();
}

#[test]
fn transfer_survives_each_kill() {
    let mut fabric = ready();
    let into = folder(&fabric, "in");
    let bytes = write(&fabric, "survey.tif", 3_000_000);
    let send = ["send", "survey.tif", "base", "--limit", "2 Mbit/s"];
    // The second sender cuts other blocks, as after a change of path.
    let again = [&send[..], &["--block-size", "4096"]].concat();
    let receive = ["receive", "--to", "in"];
    let sending = fabric.spawn(&send, "camera");
    let receiving = fabric.spawn(&receive, "base");
    wait_for_parts(&into, 100_000);
    kill(receiving);
    let receiving = fabric.spawn(&receive, "base");
    wait_for_parts(&into, 400_000);
    kill(sending);
    let sending = fabric.spawn(&again, "camera");
    wait_for_parts(&into, 800_000);
    fabric.crash("relay");
    // Kill the sender's node too: its program reconnects.
    wait_for_parts(&into, 1_200_000);
    fabric.crash("camera");
    end(sending, 0);
    let received = end(receiving, 0);
    assert!(
        received.err().contains("were already here"),
        "{}",
        received.err()
    );
    assert!(fs::read(into.join("survey.tif")).expect("it is there") == bytes);
}

#[test]
fn one_command_sends_to_many() {
    let fabric = ready();
    let bytes = write(&fabric, "map", 400_000);
    let receivers: Vec<Child> = ["relay", "base", "viewer"]
        .iter()
        .map(|node| {
            folder(&fabric, &format!("in-{node}"));
            fabric.spawn(&["receive", "--to", &format!("in-{node}")], node)
        })
        .collect();
    let send = ["send", "map", "relay", "--block-size", "4096"];
    let also = ["--also", "base", "--also", "viewer"];
    fabric.run(&[&send[..], &also].concat(), "camera").exits(0);
    // 98 blocks, the manifest, and an offer now and then: once, for three receivers behind one link.
    let status = fabric.status("camera");
    let adus = status["links"][0]["adus"]["plain"].as_u64();
    let adus = adus.expect("it has one link");
    assert!((99..150).contains(&adus), "{adus} ADUs");
    for (receiver, node) in receivers.into_iter().zip(["relay", "base", "viewer"]) {
        end(receiver, 0);
        let path = fabric.path().join(format!("in-{node}")).join("map");
        assert!(fs::read(path).expect("it is there") == bytes, "{node}");
    }
    fabric.stop();
}

#[test]
fn stopped_receiver_delays_no_other() {
    let fabric = ready();
    let bytes = write(&fabric, "map", 12_000_000);
    let mut receivers = ["base", "viewer"].map(|node| {
        let into = folder(&fabric, &format!("in-{node}"));
        let receive = fabric.spawn(&["receive", "--to", &format!("in-{node}")], node);
        (into, receive)
    });
    // Too many blocks for the queues on the path.
    let send = [
        "send",
        "map",
        "base",
        "--also",
        "viewer",
        "--block-size",
        "1024",
    ];
    let sending = fabric.spawn(&send, "camera");
    let [(at_base, base), (at_viewer, viewer)] = &mut receivers;
    wait_for_parts(at_viewer, 100_000);
    signal(viewer, "STOP");
    let whole = |into: &Path| fs::read(into.join("map")).is_ok_and(|came| came == bytes);
    wait("the other has everything", || whole(at_base));
    assert!(base.wait().expect("it ends").success());
    assert!(!whole(at_viewer));
    signal(viewer, "CONT");
    assert!(viewer.wait().expect("it ends").success());
    assert!(whole(at_viewer));
    end(sending, 0);
    fabric.stop();
}

#[test]
fn relay_death_loses_no_file() {
    let mut fabric = ready();
    let bytes = write(&fabric, "map", 2_000_000);
    let receivers = ["base", "viewer"].map(|node| {
        let into = folder(&fabric, &format!("in-{node}"));
        let receive = ["receive", "--to", &format!("in-{node}")];
        (fabric.spawn(&receive, node), into)
    });
    let send = [
        "send", "map", "base", "--also", "viewer", "--limit", "2 Mbit/s",
    ];
    let sending = fabric.spawn(&send, "camera");
    let [(_, at_base), (_, at_viewer)] = &receivers;
    wait_for_parts(at_viewer, 300_000);
    fabric.crash("relay");
    wait_for_parts(at_base, 1_000_000);
    // The receiver in the middle, which also relays the file.
    fabric.crash("base");
    end(sending, 0);
    for (receiver, into) in receivers {
        end(receiver, 0);
        assert!(fs::read(into.join("map")).expect("it is there") == bytes);
    }
    fabric.stop();
}

#[test]
fn staying_receiver_takes_each_once() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let contents = ["one", "two"].map(|name| write(&fabric, name, 20_000 + name.len()));
    let stay = ["receive", "--to", "in", "--stay", "--json"];
    let mut receiving = fabric.spawn(&stay, "base");
    let out = receiving.stdout.take().expect("it is piped");
    let mut lines = BufReader::new(out).lines();
    for name in ["one", "two"] {
        fabric.run(&["send", name, "base"], "camera").exits(0);
        let line = lines.next().expect("one for each").expect("text");
        assert!(line.contains(&format!("/{name}\"")), "{line}");
    }
    terminate(&receiving);
    end(receiving, 0);
    assert!(lines.next().is_none(), "each is told once");
    assert_files(&into, &["one", "two"], &contents);
    fabric.stop();
}

#[test]
fn unsendable_files_fail_at_once() {
    let fabric = ready();
    write(&fabric, "a", 10);
    let b = folder(&fabric, "b");
    let made = Command::new("mkfifo").arg(b.join("pipe")).status();
    assert!(made.expect("it is on every Unix").success());
    let cases: [(&[&str], &str); 8] = [
        (&["send", "b/pipe", "base"], "b/pipe is not a regular file"),
        (
            &["send", "/dev/null", "base"],
            "/dev/null is not a regular file",
        ),
        (&["send", "a", "base", "--limit", "0 bit/s"], "above 0"),
        (&["send", "a", "nowhere"], "no node `nowhere` is on the map"),
        (&["send", "missing", "base"], "cannot read missing"),
        (&["send", "b", "base"], "b is a folder"),
        (&["send", "a", "a", "base"], "two files are called `a`"),
        (&["send", "a", "camera"], "camera is this node"),
    ];
    for (arguments, sentence) in cases {
        let run = fabric.run(arguments, "camera").exits(2);
        assert!(run.err().contains(sentence), "{}", run.err());
    }
    let run = fabric.run(&["receive", "--from", "base"], "base").exits(2);
    assert!(run.err().contains("base is this node"), "{}", run.err());
    let run = fabric.run(&["receive", "--to", "missing"], "base").exits(2);
    assert!(
        run.err().contains("missing is not a folder"),
        "{}",
        run.err()
    );
    fabric.stop();
}

#[test]
fn taken_name_needs_force() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let bytes = write(&fabric, "a", 50_000);
    fs::write(into.join("a"), "mine").expect("room");
    let receiving = fabric.spawn(&["receive", "--to", "in"], "base");
    let sent = fabric.run(&["send", "a", "base"], "camera").exits(1);
    let received = end(receiving, 1);
    assert!(received.err().contains("--force"), "{}", received.err());
    assert!(
        sent.err().contains("base") && sent.err().contains("another file"),
        "{}",
        sent.err()
    );
    assert_eq!(fs::read(into.join("a")).expect("it is there"), b"mine");

    let receiving = fabric.spawn(&["receive", "--to", "in", "--force"], "base");
    fabric.run(&["send", "a", "base"], "camera").exits(0);
    end(receiving, 0);
    assert!(fs::read(into.join("a")).expect("it is there") == bytes);

    // A folder is never replaced.
    fs::remove_file(into.join("a")).expect("it is there");
    fs::create_dir(into.join("a")).expect("room");
    let receiving = fabric.spawn(&["receive", "--to", "in", "--force"], "base");
    let sent = fabric.run(&["send", "a", "base"], "camera").exits(1);
    let received = end(receiving, 1);
    for said in [sent.err(), received.err()] {
        assert!(
            said.contains("is a folder") && !said.contains("--force"),
            "{said}"
        );
    }
    fabric.stop();
}

#[test]
fn untrusted_receiver_gets_an_error() {
    let fabric = ready();
    write(&fabric, "secret", 1_000);
    folder(&fabric, "in");
    // The camera does not trust the relay.
    let run = |said: &str, arguments: &[&str], node| {
        let said = fs::File::create(fabric.path().join(said)).expect("room");
        let mut command = fabric.command(arguments, node);
        command.stderr(said).spawn().expect("the program was built")
    };
    let receiving = run("received", &["receive", "--to", "in"], "relay");
    let send = ["send", "secret", "relay", "--confidential"];
    let sending = run("sent", &send, "camera");
    for said in ["received", "sent"] {
        wait("both say why", || {
            let said = fs::read_to_string(fabric.path().join(said)).expect("text");
            said.contains("relay may not see plaintext")
        });
    }
    kill(sending);
    kill(receiving);
    fabric.stop();
}

#[test]
fn full_disk_pauses_a_transfer() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let contents = ["a", "b"].map(|name| write(&fabric, name, 50_000));
    let send = ["send", "a", "b", "base"];
    let sending = fabric.spawn(&send, "camera");
    let mut id = String::new();
    wait("the transfer is announced", || {
        let status = fabric.status("camera");
        let streams = status["streams"].as_array().cloned().unwrap_or_default();
        let names = streams.iter().filter_map(|stream| stream["name"].as_str());
        let found = names.filter_map(|name| name.strip_prefix("files/")?.split('/').next());
        id = found.map(str::to_owned).next().unwrap_or_default();
        !id.is_empty()
    });
    // The first file fits, the second does not.
    let parts = into.join(format!("thalweg-{id}.part"));
    fs::create_dir(&parts).expect("room");
    std::os::unix::fs::symlink("/dev/full", parts.join("1")).expect("room");
    let received = end(fabric.spawn(&["receive", "--to", "in"], "base"), 1);
    let sent = end(sending, 1);
    for run in [&received, &sent] {
        assert!(
            run.err().contains("No space left on device"),
            "{}",
            run.err()
        );
    }
    assert!(!into.join("a").exists() && !into.join("b").exists());

    fs::remove_file(parts.join("1")).expect("it is there");
    let receiving = fabric.spawn(&["receive", "--to", "in"], "base");
    fabric.run(&send, "camera").exits(0);
    let received = end(receiving, 0);
    assert!(
        received.err().contains("were already here"),
        "{}",
        received.err()
    );
    assert_files(&into, &["a", "b"], &contents);
    fabric.stop();
}

#[test]
fn json_lists_done_and_refused() {
    let fabric = ready();
    let into = ["base", "viewer"].map(|node| folder(&fabric, node));
    write(&fabric, "a", 50_000);
    fs::write(into[0].join("a"), "mine").expect("room");
    let receiving = ["base", "viewer"].map(|node| fabric.spawn(&["receive", "--to", node], node));
    let send = ["send", "a", "base", "--also", "viewer", "--json"];
    let sent = fabric.run(&send, "camera").exits(1);
    let [base, viewer] = receiving;
    end(base, 1);
    end(viewer, 0);
    let said: serde_json::Value = serde_json::from_str(&sent.out()).expect("one object");
    assert_eq!(said["complete"], serde_json::json!(["viewer"]));
    assert_eq!(said["refused"][0]["name"], "base");
    let reason = said["refused"][0]["reason"].as_str().expect("a sentence");
    assert!(reason.contains("another file"), "{reason}");
    assert!(said["refused"][1].is_null());
    fabric.stop();
}

#[test]
fn name_of_any_bytes_arrives() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let bytes: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
    let name = OsStr::from_bytes(&bytes);
    fs::write(fabric.path().join(name), "content").expect("room");
    let receiving = fabric.spawn(&["receive", "--to", "in", "--json"], "base");
    let mut send = fabric.command(&["send"], "camera");
    let sent = Run(send
        .arg("--")
        .arg(name)
        .arg("base")
        .output()
        .expect("it runs"))
    .exits(0);
    let received = end(receiving, 0);
    assert_eq!(fs::read(into.join(name)).expect("it is there"), b"content");
    let report: serde_json::Value = serde_json::from_str(&received.out()).expect("JSON");
    let path = Path::new("in").join(name);
    let hex = |byte: &u8| format!("{byte:02x}");
    let hex: String = path.as_os_str().as_bytes().iter().map(hex).collect();
    assert_eq!(report["files_hex"], serde_json::json!([hex]));
    for said in [sent.err(), received.err(), received.out()] {
        assert!(!said.contains('\u{1b}'), "no terminal acts on it");
    }
    fabric.stop();
}

#[test]
fn changed_file_ends_the_transfer() {
    let fabric = ready();
    let into = folder(&fabric, "in");
    let mut bytes = write(&fabric, "log", 1_000_000);
    let receiving = fabric.spawn(&["receive", "--to", "in"], "base");
    let sending = fabric.spawn(&["send", "log", "base", "--limit", "2 Mbit/s"], "camera");
    wait_for_parts(&into, 50_000);
    bytes.reverse();
    fs::write(fabric.path().join("log"), &bytes).expect("room");
    let sent = end(sending, 1);
    assert!(
        sent.err().contains("log changed while it was being sent"),
        "{}",
        sent.err()
    );
    terminate(&receiving);
    let received = end(receiving, 1);
    assert!(
        received.err().contains("run it again"),
        "{}",
        received.err()
    );
    assert!(!into.join("log").exists());
    fabric.stop();
}
