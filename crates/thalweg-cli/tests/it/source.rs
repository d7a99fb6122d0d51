//! Proves that a source without usable data is reported and fails, and that a live source loses
//! nothing at its start.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tempfile::tempdir;
use thalweg_media::ts::{AccessUnit, Elementary, Programme, Unit, Writer};

use crate::fabric::{Fabric, PATIENCE, interrupt};
use crate::program::{Run, run, thalweg};

/// Ten seconds of pictures, every 25th of them a key picture.
fn clip() -> Vec<u8> {
    let mut writer = Writer::new();
    let stream = Elementary {
        pid: 0x100,
        stream_type: 0x1b,
        descriptors: Bytes::new(),
    };
    let mut clip = writer
        .write(&Unit::Programme(Programme {
            transport_stream_id: 1,
            network_pid: None,
            number: 1,
            table_pid: 0x1000,
            clock_pid: 0x100,
            descriptors: Bytes::new(),
            streams: vec![stream],
        }))
        .to_vec();
    for picture in 0..250_u64 {
        let is_key = picture.is_multiple_of(25);
        let mut data = vec![0, 0, 0, 1, if is_key { 0x65 } else { 0x41 }];
        data.resize(900, picture as u8 | 1);
        clip.extend_from_slice(&writer.write(&Unit::Access(AccessUnit {
            pid: 0x100,
            stream_type: 0x1b,
            stream_id: 0xe0,
            pts_90khz: Some(90_000 + picture * 3_600),
            dts_90khz: None,
            random_access: is_key,
            aligned: true,
            damaged: false,
            options: Bytes::new(),
            data: data.into(),
        })));
    }
    clip
}

/// Counts the PES packets of a PID in a file.
fn starts(file: &[u8], pid: u16) -> usize {
    let packets = file.chunks_exact(188);
    packets
        .filter(|raw| u16::from_be_bytes([raw[1] & 0x5f, raw[2]]) == 0x4000 | pid)
        .count()
}

#[test]
fn file_without_tables_fails_and_names_them() {
    let folder = tempdir().expect("a directory");
    let packets = clip();
    let packets = packets
        .chunks(188)
        .filter(|raw| raw[1] & 0x1f != 0 || raw[2] != 0);
    let bytes: Vec<u8> = packets.flatten().copied().collect();
    std::fs::write(folder.path().join("clip.ts"), bytes).expect("room");
    run(
        folder.path(),
        &[
            "publish",
            "cam",
            "--from",
            "clip.ts",
            "--loop",
            "--node",
            "gone.sock",
        ],
    )
    .exits(1)
    .says(&["clip.ts holds no MPEG-TS that can be sent", "PAT"]);
}

#[test]
fn endless_pipe_without_packets_fails() {
    let folder = tempdir().expect("a directory");
    let publish = [
        "publish",
        "cam",
        "--from",
        "/dev/zero",
        "--node",
        "gone.sock",
    ];
    let ended = run(folder.path(), &publish).exits(1);
    let said = ended.err();
    assert!(said.contains("/dev/zero holds no MPEG-TS"), "{said}");
    assert!(said.contains("begin with 00 00 00"), "{said}");
}

#[test]
fn port_without_mpeg_ts_is_reported() {
    let folder = tempdir().expect("a directory");
    let free = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let mut command = thalweg(folder.path());
    let from = format!("rtp://{address}");
    command.args(["publish", "cam", "--from", &from, "--node", "gone.sock"]);
    let mut publish = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    let mut err = BufReader::new(publish.stderr.take().expect("it is piped"));
    let mut line = String::new();
    err.read_line(&mut line).expect("text");
    assert!(line.contains("no data received from rtp://"), "{line}");
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
    for sequence in 0..20_u8 {
        let mut packet = vec![0x80, 96, 0, sequence, 0, 0, 0, 0, 0, 0, 0, 7];
        packet.extend_from_slice(&[0x65; 900]);
        socket.send_to(&packet, address).expect("loopback");
    }
    line.clear();
    err.read_line(&mut line).expect("text");
    assert!(line.contains("payload type 96"), "{line}");
    interrupt(&publish);
    let mut rest = String::new();
    err.read_to_string(&mut rest).expect("text");
    assert!(rest.contains("no MPEG-TS that can be sent"), "{rest}");
    assert_eq!(publish.wait().expect("it ends").code(), Some(1));
}

#[test]
fn pipe_without_a_writer_is_reported() {
    let folder = tempdir().expect("a directory");
    let mut made = std::process::Command::new("mkfifo");
    made.current_dir(folder.path()).arg("pipe");
    assert!(made.status().expect("mkfifo is everywhere").success());
    let mut command = thalweg(folder.path());
    command.args(["publish", "cam", "--from", "pipe", "--node", "gone.sock"]);
    let mut publish = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    let mut err = BufReader::new(publish.stderr.take().expect("it is piped"));
    let mut line = String::new();
    err.read_line(&mut line).expect("text");
    assert!(line.contains("no program writes to yet"), "{line}");
    interrupt(&publish);
    assert_eq!(publish.wait().expect("it ends").code(), Some(0));
}

#[test]
fn live_source_waits_for_its_subscriber() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let subscribe = ["subscribe", "cam", "--to", "out.ts", "--json"];
    let mut subscribe = fabric.spawn(&subscribe, "viewer");
    let mut err = BufReader::new(subscribe.stderr.take().expect("it is piped"));
    let mut line = String::new();
    err.read_line(&mut line).expect("text");
    assert!(line.contains("waiting"), "{line}");
    let port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = port.local_addr().expect("bound");
    drop(port);
    let from = format!("udp://{address}");
    let publish = fabric.spawn(&["publish", "cam", "--from", &from, "--json"], "camera");
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    socket.connect(address).expect("loopback");
    let end = Instant::now() + PATIENCE;
    // Until the port is bound the system refuses datagrams; those sent before the first answer are lost.
    while socket.send(&[0]).and_then(|_| socket.send(&[0])).is_err() {
        assert!(Instant::now() < end, "nobody listens");
        std::thread::sleep(Duration::from_millis(20));
    }
    let clip = clip();
    // Datagrams that do not end at packet boundaries, as ffmpeg sends them.
    for datagram in clip.chunks(1_472) {
        socket.send(datagram).expect("loopback");
        std::thread::sleep(Duration::from_millis(2));
    }
    let file = fabric.path().join("out.ts");
    let pictures = || starts(&std::fs::read(&file).unwrap_or_default(), 0x100);
    while pictures() < 249 {
        assert!(Instant::now() < end, "{} pictures", pictures());
        std::thread::sleep(Duration::from_millis(50));
    }
    interrupt(&publish);
    let published = Run(publish.wait_with_output().expect("it ends")).exits(0);
    let summary: serde_json::Value = serde_json::from_str(&published.out()).expect("one object");
    assert_eq!(summary["source"]["port"]["foreign_rtp"], 0, "{summary}");
    assert_eq!(summary["dropped"], serde_json::json!({}), "{summary}");
    let received = Run(subscribe.wait_with_output().expect("it ends")).exits(0);
    let report: serde_json::Value = serde_json::from_str(&received.out()).expect("one object");
    assert_eq!(report["missing"], 0, "{report}");
    assert_eq!(report["withheld"]["before_key"], 0, "{report}");
    fabric.stop();
}
