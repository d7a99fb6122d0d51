//! Proves that messages of every format come out of the fabric as they went in, and that a source or a
//! format that cannot be used is a sentence.

use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::tempdir;

use crate::fabric::{Fabric, PATIENCE};
use crate::program::{Run, run};

/// Starts a subscriber and waits until it waits for its stream.
fn subscribe(fabric: &Fabric, name: &str, to: &str, format: &str) -> Child {
    waiting(fabric, &["subscribe", name, "--to", to, "--format", format])
}

fn waiting(fabric: &Fabric, arguments: &[&str]) -> Child {
    let mut subscriber = fabric.spawn(arguments, "viewer");
    let mut err = BufReader::new(subscriber.stderr.take().expect("it is piped"));
    let mut line = String::new();
    err.read_line(&mut line).expect("text");
    assert!(line.contains("waiting"), "{line}");
    // Its later lines are read, so that it never waits for us.
    std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
    subscriber
}

fn publish(fabric: &Fabric, name: &str, from: &str, format: &str) -> Value {
    let arguments = [
        "publish", name, "--from", from, "--format", format, "--json",
    ];
    let published = fabric.run(&arguments, "camera").exits(0);
    serde_json::from_str(&published.out()).expect("one object")
}

fn ends(subscriber: Child) {
    Run(subscriber.wait_with_output().expect("it ends")).exits(0);
}

#[test]
fn messages_of_each_format_come_out_alike() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(fabric.path().join(name), bytes).expect("room");
    };
    file("lines", "{\"n\": 7}\r\n\n".repeat(150).as_bytes());
    file("length", b"\0\0\0\x03a\nb\0\0\0\0\0\0\0\x01\0");
    file("fixed:4", &[7; 4 * 50]);
    file("nmea", b"$NOSUM,1\r\n$NOSUM,2\r\n");
    for format in ["lines", "length", "fixed:4", "nmea"] {
        let out = format!("out.{format}");
        let subscriber = subscribe(&fabric, "sensor", &out, format);
        let summary = publish(&fabric, "sensor", format, format);
        assert_eq!(
            summary["source"]["faults"],
            serde_json::json!({}),
            "{summary}"
        );
        ends(subscriber);
        let read = |name: &str| std::fs::read(fabric.path().join(name)).expect("written");
        assert!(read(&out) == read(format), "{format}");
    }
    fabric.stop();
}

#[test]
fn encoding_chooses_how_sinks_write() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let file = |name: &str, bytes: &[u8]| {
        std::fs::write(fabric.path().join(name), bytes).expect("room");
    };
    file("in.json", b"{\"n\": 7}\n[8]\n");
    file("in.text", b"{ seven\n");
    file("in.nmea", b"$NOSUM,1\r\n");
    file("in.bytes", b"\0\0\0\x03a\nb");
    let formats = [
        ("json", "lines"),
        ("text", "lines"),
        ("nmea", "nmea"),
        ("bytes", "length"),
    ];
    for (encoding, format) in formats {
        let (from, to) = (format!("in.{encoding}"), format!("out.{encoding}"));
        let subscriber = waiting(&fabric, &["subscribe", "sensor", "--to", &to]);
        let arguments = [
            "publish",
            "sensor",
            "--from",
            &from,
            "--format",
            format,
            "--label",
            "kind=test",
            "--schema",
            "one",
            "--hold",
            "10 s",
        ];
        fabric.run(&arguments, "camera").exits(0);
        ends(subscriber);
        let read = |name: &str| std::fs::read(fabric.path().join(name)).expect("written");
        assert!(read(&to) == read(&from), "{encoding}");
    }
    fabric.stop();
}

#[test]
fn listing_and_sink_know_the_type() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let subscriber = fabric.spawn(&["subscribe", "arm/pose", "--to", "pose.bin"], "viewer");
    let mut arguments = vec!["publish", "arm/pose", "--from"];
    arguments.extend(["test://telemetry?rate=20", "--encoding", "protobuf"]);
    arguments.extend(["--schema", "arm.Pose", "--label", "kind=arm"]);
    let mut publisher = fabric.spawn(&arguments, "camera");
    let ended = Run(subscriber.wait_with_output().expect("it ends")).exits(2);
    let said = ended.err();
    assert!(said.contains("`arm/pose` carries protobuf"), "{said}");
    let status = fabric.run(&["ls", "--json"], "viewer").exits(0);
    let status: Value = serde_json::from_str(&status.out()).expect("one object");
    let stream = &status["streams"][0];
    assert_eq!(stream["encoding"], "protobuf", "{stream}");
    assert_eq!(stream["schema"], "arm.Pose", "{stream}");
    assert_eq!(stream["labels"]["kind"], "arm", "{stream}");
    let listing = fabric.run(&["ls"], "viewer").exits(0).out();
    for shown in ["protobuf arm.Pose", "kind=arm"] {
        assert!(listing.contains(shown), "{listing}");
    }
    publisher.kill().expect("it runs");
    publisher.wait().expect("it is dead");
    let refused = [
        ("--encoding", "JSON"),
        ("--label", "kind"),
        ("--schema", "\u{1b}[2J"),
    ];
    for (option, value) in refused {
        let arguments = ["publish", "x", "--from", "test://telemetry", option, value];
        fabric.run(&arguments, "camera").exits(2);
    }
    fabric.stop();
}

#[test]
fn programs_are_sources_and_sinks() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let subscriber = subscribe(&fabric, "log", "exec:cat > out", "lines");
    let summary = publish(&fabric, "log", "exec:echo one; echo two", "lines");
    assert_eq!(summary["source"]["messages"], 2, "{summary}");
    ends(subscriber);
    let out = std::fs::read_to_string(fabric.path().join("out")).expect("written");
    assert_eq!(out, "one\ntwo\n");
    fabric.stop();
}

#[test]
fn radar_packets_stay_whole() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let port = || {
        let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("bound")
    };
    let from = port();
    let sink = UdpSocket::bind("127.0.0.1:0").expect("a port");
    sink.set_read_timeout(Some(Duration::from_millis(200)))
        .expect("it can");
    let to = format!("udp://{}", sink.local_addr().expect("bound"));
    let mut subscriber = subscribe(&fabric, "radar", &to, "packets");
    let source = format!("udp://{from}");
    let arguments = ["publish", "radar", "--from", &source, "--format", "packets"];
    let mut publisher = fabric.spawn(&arguments, "camera");
    let radar = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let end = Instant::now() + PATIENCE;
    let mut received = vec![0; 65_535];
    let bytes = loop {
        assert!(Instant::now() < end, "nothing came");
        // Refused until the port is bound.
        let _ = radar.send_to(&[9; 12_386], from);
        if let Ok(bytes) = sink.recv(&mut received) {
            break bytes;
        }
    };
    assert_eq!(&received[..bytes], &[9; 12_386][..]);
    for child in [&mut publisher, &mut subscriber] {
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
    fabric.stop();
}

#[test]
fn fields_that_are_missing_are_counted() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let subscriber = subscribe(&fabric, "try", "out", "lines");
    let published = fabric.run(
        &[
            "publish",
            "try",
            "--from",
            "test://telemetry?rate=200&count=20",
            "--importance-from",
            ".severity",
            "--time-from",
            ".when",
            "--json",
        ],
        "camera",
    );
    let published = published.exits(0);
    let summary: Value = serde_json::from_str(&published.out()).expect("one object");
    let fields = summary["source"]["fields"].as_object().expect("an object");
    assert_eq!(fields.len(), 1, "{summary}");
    assert_eq!(fields["a message has no field .when"], 20, "{summary}");
    let said = published.err();
    assert_eq!(said.matches("no field .when").count(), 2, "{said}");
    ends(subscriber);
    let out = std::fs::read_to_string(fabric.path().join("out")).expect("written");
    assert_eq!(out.lines().count(), 20);
    fabric.stop();
}

#[test]
fn unusable_sources_and_formats_are_sentences() {
    let folder = tempdir().expect("a directory");
    std::fs::write(folder.path().join("empty"), b"").expect("room");
    let fails = |more: &[&str], code: i32, says: &[&str]| {
        let mut words = vec!["publish", "a", "--node", "gone.sock"];
        words.extend_from_slice(more);
        run(folder.path(), &words).exits(code).says(says);
    };
    fails(
        &[
            "--from",
            "exec:echo no camera >&2; exit 3",
            "--format",
            "lines",
        ],
        1,
        &["exit status: 3", "no camera"],
    );
    fails(
        &["--from", "exec:echo no camera >&2; exit 3"],
        1,
        &["exit status: 3", "no camera"],
    );
    fails(
        &["--from", "empty", "--format", "lines"],
        1,
        &["no message"],
    );
    fails(
        &["--from", "empty", "--format", "packets"],
        2,
        &["use udp://"],
    );
    fails(
        &["--from", "serial:///dev/null", "--format", "nmea"],
        1,
        &["serial:///dev/null", "is it a serial line"],
    );
    fails(
        &["--from", "empty", "--importance-from", ".severity"],
        2,
        &["give another --format"],
    );
    fails(
        &["--from", "unix://gone.sock", "--format", "lines"],
        1,
        &["does a program listen"],
    );
}
