//! Proves that inputs and outputs of a node's configuration run without a person: they carry messages
//! through a fabric, are restarted when they fail, and are stopped, started and changed meanwhile.

use std::io::Write as _;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fabric::{Fabric, PATIENCE};
use crate::program::run;

/// Adds text to the configuration of a node, which then reads it again.
pub fn configure(fabric: &Fabric, node: &str, text: &str) {
    let file = fabric.path().join(format!("{node}.toml"));
    let mut file = std::fs::File::options()
        .append(true)
        .open(file)
        .expect("it is there");
    file.write_all(text.as_bytes()).expect("room");
    drop(file);
    fabric.signal(node, "HUP");
}

/// Waits until an input or output is as it should be.
fn wait_for(fabric: &Fabric, node: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let status = fabric.status(node);
        let ends = status["ends"].as_array().expect("a list");
        let end = ends.iter().find(|end| end["name"] == name);
        match end.filter(|end| is_so(end)) {
            Some(end) => return end.clone(),
            None => assert!(begun.elapsed() < PATIENCE, "{name} at {node}: {ends:?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn is(state: &'static str) -> impl Fn(&Value) -> bool {
    move |end| end["state"] == state
}

fn bytes_of(fabric: &Fabric, file: &str) -> usize {
    std::fs::read(fabric.path().join(file)).map_or(0, |bytes| bytes.len())
}

/// Sends numbered packets until a file has so many more bytes; returns the file.
fn send_for(fabric: &Fabric, port: u16, file: &str, more: usize) -> Vec<u8> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let (begun, before) = (Instant::now(), bytes_of(fabric, file));
    for number in 0_u32.. {
        let mut packet = vec![0; 12_386];
        packet[..4].copy_from_slice(&number.to_be_bytes());
        // A port that nobody listens on is reported now and then.
        let _ = socket.send_to(&packet, (Ipv4Addr::LOCALHOST, port));
        std::thread::sleep(Duration::from_millis(10));
        if bytes_of(fabric, file) >= before + more {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{before} bytes, and no more");
    }
    std::fs::read(fabric.path().join(file)).expect("it is written")
}

#[test]
fn dying_program_is_restarted_and_named() {
    let fabric = Fabric::start();
    configure(
        &fabric,
        "camera",
        "[[ingest]]\nname = \"disk\"\nstream = \"farm/disk\"\nformat = \"lines\"\n\
         from = \"exec:echo no such disk >&2; echo >> runs; exit 3\"\n",
    );
    let has_failed = |end: &Value| end["restarts"].as_u64() >= Some(3);
    let end = wait_for(&fabric, "camera", "disk", has_failed);
    let reason = end["reason"].as_str().expect("a sentence");
    for part in ["exit status: 3", "no such disk"] {
        assert!(reason.contains(part), "{reason}");
    }
    // Each pause is twice the one before, so there are few.
    let runs = bytes_of(&fabric, "runs");
    assert!((3..8).contains(&runs), "{runs}");
    let listing = fabric.run(&["ls"], "camera").exits(0).out();
    for part in ["inputs and outputs", "no such disk"] {
        assert!(listing.contains(part), "{listing}");
    }
    let top = fabric.run(&["top", "--once"], "camera").exits(0).out();
    assert!(top.contains("input, output"), "{top}");
    let stopped = fabric.run(&["ingest", "stop", "disk"], "camera").exits(0);
    assert!(stopped.out().contains("is stopped"), "{}", stopped.out());
    wait_for(&fabric, "camera", "disk", is("stopped"));
    let unknown = fabric.run(&["egress", "stop", "disk"], "camera").exits(2);
    unknown.says(&["no egress", "`disk`"]);
    fabric.stop();
}

/// Most of the time passes in waits for subscriptions.
#[test]
fn packets_go_from_ingest_to_egress_file() {
    let mut fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    configure(
        &fabric,
        "viewer",
        "[[egress]]\nname = \"archive\"\nstream = \"survey/radar\"\nto = \"radar.bin\"\n",
    );
    let radar = format!(
        "[[ingest]]\nstream = \"survey/radar\"\nfrom = \"udp://127.0.0.1:{port}\"\n\
         format = \"packets\"\nlabels = {{ kind = \"radar\" }}\n"
    );
    configure(&fabric, "camera", &radar);
    wait_for(&fabric, "camera", "survey/radar", is("starting"));
    let packets = 10 * 12_390;
    let written = send_for(&fabric, port, "radar.bin", packets);
    // Its encoding is `bytes`, so the file has a length before each packet.
    assert_eq!(written[..4], 12_386_u32.to_be_bytes(), "a length");
    let status = fabric.status("viewer");
    assert_eq!(status["streams"][0]["labels"]["kind"], "radar", "{status}");
    assert_eq!(status["streams"][0]["encoding"], "bytes", "{status}");

    let switch = |action: &str| {
        let arguments = ["ingest", action, "survey/radar"];
        fabric.run(&arguments, "camera").exits(0);
    };
    switch("stop");
    wait_for(&fabric, "camera", "survey/radar", is("stopped"));
    switch("start");
    wait_for(&fabric, "camera", "survey/radar", is("starting"));
    send_for(&fabric, port, "radar.bin", packets);

    // The file is continued by a node that is started again.
    fabric.restart("viewer", || {});
    let written = send_for(&fabric, port, "radar.bin", packets);
    assert!(written.len() >= 3 * packets, "{}", written.len());

    // Without its entry the output ends.
    let file = fabric.path().join("viewer.toml");
    let text = std::fs::read_to_string(&file).expect("text");
    let (rest, _) = text.split_once("[[egress]]").expect("it has the entry");
    std::fs::write(&file, rest).expect("room");
    fabric.signal("viewer", "HUP");
    let begun = Instant::now();
    while fabric.status("viewer")["ends"] != Value::Array(Vec::new()) {
        assert!(begun.elapsed() < PATIENCE, "it is still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    fabric.stop();
}

#[test]
fn documented_entries_are_good() {
    let fabric = Fabric::start();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/sources.md");
    let guide = std::fs::read_to_string(guide).expect("it is there");
    let entries = guide.split("```toml\n").skip(1);
    let entries: Vec<&str> = entries
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(!entries.is_empty(), "the guide has entries");
    for entry in entries {
        let text = format!("name = \"a\"\n{entry}");
        std::fs::write(fabric.path().join("documented.toml"), text).expect("room");
        run(fabric.path(), &["check", "documented.toml"]).exits(0);
    }
    fabric.stop();
}

#[test]
fn faulty_entry_is_refused_with_its_line() {
    let fabric = Fabric::start();
    let ingest = |keys: &str| format!("[[ingest]]\nstream = \"a\"\n{keys}\n");
    let egress = |keys: &str| format!("[[egress]]\nstream = \"a\"\n{keys}\n");
    let entries = [
        (ingest("from = \"ftp://a\""), "from"),
        (ingest("from = \"-\""), "from"),
        (ingest("from = \"x\"\nformat = \"packets\""), "format"),
        (ingest("from = \"x\"\nimportance = 7"), "format"),
        (ingest("from = \"x\"\nencoding = \"A B\""), "encoding"),
        (
            ingest("from = \"x\"\nneeds = { hold = \"9 years\" }"),
            "needs.hold",
        ),
        (egress("to = \"test://telemetry\""), "to"),
        (
            egress("to = \"x\"") + &egress("to = \"y\""),
            "egress[1].stream",
        ),
    ];
    let whole = std::fs::read_to_string(fabric.path().join("base.toml")).expect("text");
    for (entry, key) in &entries {
        let text = format!("{whole}{entry}");
        std::fs::write(fabric.path().join("faulty.toml"), text).expect("room");
        let refused = run(fabric.path(), &["check", "faulty.toml"]).exits(2);
        refused.says(&["faulty.toml:", key]);
    }
    // A running node refuses it as well, and goes on.
    configure(&fabric, "base", &entries[0].0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(fabric.status("base")["ends"], Value::Array(Vec::new()));
    fabric.stop();
}
