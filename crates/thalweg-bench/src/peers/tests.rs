//! Proves that versions and processor times are parsed, that missing programs are named with their
//! installation, and that a line carries, where `socat` is installed.

use std::process::Command;
use std::time::Duration;

use super::install::{Package, Program, version_in};
use super::line::{Line, Way};
use super::process::{Process, nanos_of_schedstat, ticks_of_stat};
use super::{PEERS, Peer, list, named, socat};

#[test]
fn version_is_parsed() {
    let said = [
        (
            "socat by Gerhard Rieger\nsocat version 1.7.4.4 on 06 Nov 2022",
            "1.7.4.4",
        ),
        (
            "SRT Library version: 1.5.1, clock type: GETTIME_MONOTONIC",
            "1.5.1",
        ),
        (
            "\u{1b}[2m2026-11-22T00:18:28.077364Z main zenohd v1.10.2 built with rustc 1.95.0",
            "1.10.2",
        ),
        ("moq-relay 0.17.10", "0.17.10"),
        ("v1.20.1-6-g3e09466c\n", "1.20.1-6-g3e09466c"),
        ("Python 3.11.7", "3.11.7"),
    ];
    for (text, version) in said {
        assert_eq!(version_in(text).as_deref(), Some(version), "{text}");
    }
    for text in ["", "no version", "1.2", "127.0.0", "a.b.c"] {
        let is_one = version_in(text).is_some();
        assert_eq!(is_one, text == "127.0.0", "{text}");
    }
}

#[test]
fn cpu_time_is_parsed_past_name() {
    let stat = "42 (a (b) c) S 1 42 42 0 -1 4194304 100 0 0 0 37 5 0 0 20 0 9 0 100 1 1";
    assert_eq!(ticks_of_stat(stat), Some(42));
    assert_eq!(ticks_of_stat("42 (cut) S 1"), None);
    assert_eq!(ticks_of_stat("no bracket"), None);
    assert_eq!(
        nanos_of_schedstat("234258889 197225562 106\n"),
        Some(234_258_889)
    );
    assert_eq!(nanos_of_schedstat(""), None);
}

static ABSENT: Peer = Peer {
    name: "absent",
    carries: "nothing",
    programs: &[
        Program {
            name: "thalweg-no-such-relay",
            package: Package::Crate {
                name: "no-such-relay",
                version: "1.2.3",
                flags: &["--locked"],
            },
            version_flag: "--version",
        },
        Program {
            name: "thalweg-no-such-client",
            package: Package::Unpackaged,
            version_flag: "--version",
        },
    ],
    piece_bytes: 1,
    start: Some(|_, _| anyhow::bail!("it is not there")),
    fans: &[],
    chain: None,
};

#[test]
fn missing_program_has_advice() {
    let missing = ABSENT.find().expect_err("there is no such program");
    assert_eq!(
        missing,
        "absent is missing: thalweg-no-such-relay (`cargo install no-such-relay --version 1.2.3 --locked`), \
         thalweg-no-such-client (no package: put `thalweg-no-such-client` on the PATH)"
    );
    assert!(list(&[&ABSENT]).contains("absent is missing"));
}

#[test]
fn unknown_peer_is_refused() {
    assert_eq!(named(&[]).expect("all").len(), PEERS.len());
    let one = named(&["zenohd".to_owned()]).expect("it is one");
    assert_eq!(one[0].name, "zenohd");
    let error = named(&["zenoh".to_owned()])
        .expect_err("it is none")
        .to_string();
    assert!(
        error.contains("`zenoh`") && error.contains("zenohd"),
        "{error}"
    );
}

#[test]
fn dropped_program_ends() {
    let mut failing = Command::new("sh");
    let mut failing =
        Process::start(failing.args(["-c", "echo the reason >&2; exit 7"])).expect("a shell");
    let error = loop {
        match failing.check() {
            Ok(()) => std::thread::yield_now(),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.starts_with("sh ended"), "{error}");

    let mut lasting = Command::new("sh");
    let mut lasting =
        Process::start(lasting.args(["-c", "echo $$; exec sleep 60"])).expect("a shell");
    let id = lasting.first_line().expect("it says its id");
    assert!(lasting.cpu().expect("it runs") < Duration::from_mins(1));
    let folder = std::path::PathBuf::from(format!("/proc/{id}"));
    assert!(folder.is_dir());
    drop(lasting);
    assert!(!folder.is_dir());
}

#[test]
fn socat_carries_end_to_end() {
    let peer = PEERS.iter().find(|peer| peer.name == socat::PEER.name);
    let ready = match peer.expect("it is in the table").find() {
        Ok(ready) => ready,
        Err(missing) => {
            eprintln!("not proved here: {missing}");
            return;
        }
    };
    for way in [Way::Direct, Way::Through] {
        let mut line: Line = ready.start(way).expect("it starts");
        let wait = Duration::from_millis(100);
        line.out.set_read_timeout(Some(wait)).expect("a timeout");
        let mut buffer = vec![0; 20_000];
        // It prints nothing when it is ready, so probe it with datagrams.
        let arrived = (0..100).find_map(|_| {
            line.check().expect("it still runs");
            let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
            sender
                .send_to(&[7; 10_000], line.into)
                .expect("loopback takes it");
            line.out.recv(&mut buffer).ok()
        });
        assert_eq!(arrived, Some(10_000), "{way:?}");
        let has_relay = line.relay_cpu().expect("it still runs").is_some();
        assert_eq!(has_relay, way == Way::Through);
    }
}

#[test]
fn certificate_is_pem() {
    let text = |bytes| super::zenoh::pem("X", bytes);
    assert_eq!(
        text(b"any carnal pleas"),
        "-----BEGIN X-----\nYW55IGNhcm5hbCBwbGVhcw==\n-----END X-----\n"
    );
    assert_eq!(
        text(b"any carnal pleasu"),
        "-----BEGIN X-----\nYW55IGNhcm5hbCBwbGVhc3U=\n-----END X-----\n"
    );
    assert_eq!(text(&[0; 49]).lines().nth(1).map(str::len), Some(64));
}

#[test]
fn resident_memory_is_in_bytes() {
    let status = "Name:\tx\nVmPeak:\t  900 kB\nVmRSS:\t   123 kB\nThreads:\t1\n";
    assert_eq!(super::process::resident_bytes(status), Some(123 << 10));
    assert_eq!(super::process::resident_bytes("Name:\tx\n"), None);
}
