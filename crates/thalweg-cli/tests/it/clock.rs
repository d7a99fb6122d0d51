//! Proves that data leaves its transport stream and comes back into it across nodes, and that streams of
//! one clock are given out together, with each gap in its place.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use thalweg_media::ts::{AccessUnit, Elementary, Programme, Reader, Unit, Writer};

use crate::ends::configure;
use crate::fabric::{Fabric, PATIENCE, interrupt};
use crate::program::{Run, run};

const VIDEO: u16 = 0x100;
const KLV: u16 = 0x1f0;

fn unit(pid: u16, time: u64, data: Vec<u8>) -> AccessUnit {
    let is_video = pid == VIDEO;
    AccessUnit {
        pid,
        stream_type: if is_video { 0x1b } else { 0x06 },
        stream_id: if is_video { 0xe0 } else { 0xbd },
        pts_90khz: Some(90_000 + time * 3_600),
        dts_90khz: None,
        random_access: is_video && time.is_multiple_of(25),
        aligned: true,
        damaged: false,
        options: Bytes::new(),
        data: data.into(),
    }
}

/// Two seconds of pictures, with KLV beside every fifth.
fn flight() -> Vec<u8> {
    let stream = |pid, stream_type, descriptors| Elementary {
        pid,
        stream_type,
        descriptors: Bytes::from_static(descriptors),
    };
    let mut writer = Writer::new();
    let mut clip = writer
        .write(&Unit::Programme(Programme {
            transport_stream_id: 1,
            network_pid: None,
            number: 1,
            table_pid: 0x1000,
            clock_pid: VIDEO,
            descriptors: Bytes::new(),
            streams: vec![stream(VIDEO, 0x1b, b""), stream(KLV, 0x06, b"\x05\x04KLVA")],
        }))
        .to_vec();
    for time in 0..50 {
        let mut picture = vec![0, 0, 0, 1, if time % 25 == 0 { 0x65 } else { 0x41 }];
        picture.resize(900, time as u8 | 1);
        clip.extend_from_slice(&writer.write(&Unit::Access(unit(VIDEO, time, picture))));
        if time % 5 == 0 {
            let message = format!("\x06\x0e+4 position {time}").into_bytes();
            clip.extend_from_slice(&writer.write(&Unit::Access(unit(KLV, time, message))));
        }
    }
    clip
}

/// Returns the units of a PID in a file, each with its time.
fn units(file: &Path, pid: u16) -> Vec<(Option<u64>, Bytes)> {
    let mut reader = Reader::new();
    reader.push(&std::fs::read(file).expect("it was written"));
    reader.finish();
    let units = std::iter::from_fn(|| reader.poll_unit());
    let units = units.filter_map(|unit| match unit {
        Unit::Access(unit) if unit.pid == pid => Some((unit.pts_90khz, unit.data)),
        _ => None,
    });
    units.collect()
}

fn ended(child: Child) -> Run {
    Run(child.wait_with_output().expect("it ends"))
}

/// Waits until a file has this many lines.
fn wait_for_lines(file: &Path, lines: usize) {
    let begun = Instant::now();
    let count = || {
        std::fs::read_to_string(file)
            .unwrap_or_default()
            .lines()
            .count()
    };
    while count() < lines {
        assert!(begun.elapsed() < PATIENCE, "{} lines", count());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn data_leaves_and_returns() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let flight = flight();
    std::fs::write(fabric.path().join("flight.ts"), &flight).expect("room");
    let whole = fabric.spawn(
        &[
            "subscribe",
            "drone/cam",
            "--with",
            "drone/cam/klv",
            "--to",
            "whole.ts",
        ],
        "viewer",
    );
    let alone = fabric.spawn(
        &[
            "subscribe",
            "drone/cam/klv",
            "--to",
            "alone.bin",
            "--format",
            "length",
        ],
        "viewer",
    );
    // Both must be known to the source's node, or the first message is sent before it has a way.
    std::thread::sleep(Duration::from_secs(1));
    let published = fabric.run(
        &[
            "publish",
            "drone/cam",
            "--from",
            "flight.ts",
            "--split-data",
            "--hold",
            "10 s",
        ],
        "camera",
    );
    let words = published.exits(0).err();
    assert!(
        words.contains("the data of PID 0x1f0 goes into the stream drone/cam/klv"),
        "{words}"
    );
    let words = ended(whole).exits(0).err();
    assert!(words.contains("drone/cam/klv 10 (missing 0)"), "{words}");
    ended(alone).exits(0);
    let [source, target] = ["flight.ts", "whole.ts"].map(|name| fabric.path().join(name));
    assert_eq!(units(&target, KLV), units(&source, KLV));
    assert_eq!(units(&target, VIDEO), units(&source, VIDEO));
    let alone = std::fs::read(fabric.path().join("alone.bin")).expect("it was written");
    let first = b"\x06\x0e+4 position 0";
    assert_eq!(alone[..4], (first.len() as u32).to_be_bytes());
    assert_eq!(&alone[4..4 + first.len()], first);
    fabric.stop();
}

#[test]
fn ingest_splits_data() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    std::fs::write(fabric.path().join("flight.ts"), flight()).expect("room");
    let whole = fabric.spawn(
        &[
            "subscribe",
            "drone/cam",
            "--with",
            "drone/cam/klv",
            "--to",
            "whole.ts",
        ],
        "viewer",
    );
    let ingest = "[[ingest]]\nstream = \"drone/cam\"\nfrom = \"flight.ts\"\nsplit_data = true\n\
                  needs = { hold = \"10 s\" }\n";
    configure(&fabric, "camera", ingest);
    let words = ended(whole).exits(0).err();
    assert!(words.contains("drone/cam 53 (missing 0)"), "{words}");
    assert!(words.contains("drone/cam/klv 10 (missing 0)"), "{words}");
    fabric.stop();
}

#[test]
fn streams_of_one_clock_leave_in_order() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let together = fabric.spawn(
        &[
            "subscribe",
            "arm/pose",
            "--with",
            "arm/force",
            "--to",
            "together.jsonl",
        ],
        "viewer",
    );
    let line =
        |name: &str, tenths: u32| format!("{{\"t\":{},\"{name}\":1}}\n", f64::from(tenths) / 10.0);
    let poses: String = (0..8).map(|n| line("pose", n * 2)).collect();
    let forces: String = (0..4).map(|n| line("force", n * 4 + 1)).collect();
    std::fs::write(fabric.path().join("pose"), poses).expect("room");
    std::fs::write(fabric.path().join("force"), forces).expect("room");
    let publish = |name: &str, file: &str| {
        let arguments = [
            "publish",
            name,
            "--from",
            file,
            "--format",
            "lines",
            "--time-from",
            ".t",
        ];
        fabric.spawn(&arguments, "camera")
    };
    let (pose, force) = (publish("arm/pose", "pose"), publish("arm/force", "force"));
    ended(pose).exits(0);
    ended(force).exits(0);
    let file = fabric.path().join("together.jsonl");
    wait_for_lines(&file, 12);
    interrupt(&together);
    ended(together).exits(0);
    let text = std::fs::read_to_string(&file).expect("it was written");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let lines: Vec<Value> = lines.filter(|line| line["silent"].is_null()).collect();
    assert_eq!(lines.len(), 12, "{text}");
    let on_time = lines.iter().filter(|line| line["late"].is_null());
    let times: Vec<u64> = on_time
        .map(|line| line["time_us"].as_u64().expect("a time"))
        .collect();
    assert!(times.is_sorted(), "{text}");
    fabric.stop();
}

#[test]
fn what_cannot_go_together_is_refused() {
    let folder = tempfile::tempdir().expect("room");
    let refused = |arguments: &[&str], part: &str| {
        run(folder.path(), arguments).exits(2).says(&[part]);
    };
    refused(
        &["subscribe", "a/*", "--with", "b", "--to", "x"],
        "--with goes with the name of one stream",
    );
    refused(
        &[
            "publish",
            "a",
            "--from",
            "x",
            "--format",
            "lines",
            "--split-data",
        ],
        "--split-data is for MPEG-TS",
    );
}
