//! Proves that a slow subscriber loses only from its own mailbox, and what it chose to lose.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::tempdir;

use crate::fabric::{Ending, Fabric, PATIENCE, signal};
use crate::lone::Lone;
use crate::program::{Run, run};

/// Messages of the stream, each of 2 kB, so that neither a pipe nor a socket holds many.
const MESSAGES: usize = 1_500;

/// Prints messages that begin with their number.
const NUMBERS: &str =
    "exec:i=0; while [ $i -lt 1500 ]; do printf '%06d%2000s\\n' $i; i=$((i+1)); done";

/// Starts a subscriber and waits until it waits for its stream.
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

/// Returns the numbers of the messages in a file.
fn numbers(fabric: &Fabric, file: &str) -> Vec<usize> {
    let text = std::fs::read_to_string(fabric.path().join(file)).expect("written");
    let number = |line: &str| line[..6].parse().expect("a number");
    text.lines().map(number).collect()
}

fn ends(mut subscriber: Child) {
    let begun = Instant::now();
    while subscriber.try_wait().expect("it is ours").is_none() {
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
    Run(subscriber.wait_with_output().expect("it has ended")).exits(0);
}

#[test]
fn subscribers_lose_by_their_own_policies() {
    let fabric = Fabric::start();
    fabric.wait_for_links("viewer", 1);
    let subscribe = |to: &str, more: &[&str]| {
        let fixed = ["subscribe", "radar", "--format", "lines", "--to", to];
        waiting(&fabric, &[&fixed[..], more].concat())
    };
    let fast = subscribe("fast", &[]);
    let stopped = subscribe("stopped", &["--policy", "drop-old", "--depth", "10"]);
    let slow = "exec:while read line; do echo \"$line\" >> slow; sleep 0.05; done";
    let slow = subscribe(slow, &["--policy", "newest", "--priority", "200"]);
    signal(&stopped, "STOP");
    let publish = [
        "publish", "radar", "--from", NUMBERS, "--format", "lines", "--json",
    ];
    let published = fabric.run(&publish, "camera").exits(0).out();
    let published: Value = serde_json::from_str(&published).expect("one object");
    assert_eq!(published["source"]["messages"], MESSAGES, "{published}");
    // The stream promises every message, and the others cost the fast one nothing.
    ends(fast);
    let all: Vec<usize> = (0..MESSAGES).collect();
    assert!(numbers(&fabric, "fast") == all);
    let status = fabric.status("viewer");
    let subscribers = status["subscribers"].as_array().expect("a list").clone();
    let mailbox = |policy: &str| {
        let mut known = subscribers.iter().map(|one| &one["mailbox"]);
        let found = known.find(|mailbox| mailbox["policy"] == policy);
        found.unwrap_or_else(|| panic!("{status}")).clone()
    };
    assert_eq!(mailbox("drop-old")["depth"], 10);
    signal(&stopped, "CONT");
    ends(stopped);
    ends(slow);
    // What was on its way to it when it stopped, and the last ten, of which the end may be one.
    let stopped = numbers(&fabric, "stopped");
    assert!(stopped.len() <= 2 * 8 + 10, "{stopped:?}");
    assert_eq!(stopped[stopped.len() - 9..], all[MESSAGES - 9..]);
    let slow = numbers(&fabric, "slow");
    assert_eq!(slow.last(), all.last(), "the newest comes before the end");
    assert!(
        slow.len() < MESSAGES / 2 && slow.is_sorted(),
        "{}",
        slow.len()
    );
    fabric.stop();
}

#[test]
fn request_is_answered_by_the_newest() {
    let lone = Lone::start(|_| {});
    let arguments = [
        "publish",
        "arm/pose",
        "--from",
        "test://telemetry?rate=200",
        "--no-wait",
    ];
    let mut publisher = lone.command(&arguments);
    let publisher = publisher
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _publisher = Ending(publisher.expect("the program was built"));
    let arguments = [
        "subscribe",
        "arm/pose",
        "--policy",
        "newest",
        "--pull=stdin",
        "--to",
        "-",
    ];
    let mut subscriber = lone.command(&arguments);
    subscriber
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut subscriber = subscriber.spawn().expect("the program was built");
    let mut ask = subscriber.stdin.take().expect("it is piped");
    let mut lines = BufReader::new(subscriber.stdout.take().expect("it is piped")).lines();
    let mut last = None;
    for adus in [1, 2, 1] {
        writeln!(ask, "{adus}").expect("it reads");
        for _ in 0..adus {
            let line = lines.next().expect("a message").expect("text");
            let message: Value = serde_json::from_str(&line).expect("an object");
            assert!(
                last.replace(message.clone()) != Some(message),
                "one that was new"
            );
        }
        // Nothing comes that was not asked for.
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(ask);
    assert!(
        lines.next().is_none(),
        "more was written than was asked for"
    );
    ends(subscriber);
}

#[test]
fn contradictory_wishes_exit_2() {
    let folder = tempdir().expect("a directory");
    let cases: [(&[&str], &[&str]); 4] = [
        (&["--depth", "0"], &["--depth", "above 0"]),
        (&["--depth", "2 GB"], &["--depth", "16 MiB at most"]),
        (
            &["--policy", "latest"],
            &["latest", "newest", "by-importance"],
        ),
        (&["--pull=often"], &["often", "stdin"]),
    ];
    for (options, said) in cases {
        let arguments = [&["subscribe", "x", "--to", "out"], options].concat();
        let err = run(folder.path(), &arguments).exits(2).err();
        for part in said {
            assert!(err.contains(part), "`{part}` is not in: {err}");
        }
    }
    let cases: [(&str, &[&str], &[&str]); 3] = [
        (
            "x",
            &["--policy", "newest", "--depth", "3"],
            &["--depth", "leave the depth out"],
        ),
        (
            "x",
            &["--policy", "by-importance", "--depth", "2 s"],
            &["--depth", "ADUs or bytes"],
        ),
        ("x/*", &["--pull=stdin"], &["one stream"]),
    ];
    for (name, options, said) in cases {
        let arguments = [&["subscribe", name, "--to", "out", "--node", "s"], options].concat();
        run(folder.path(), &arguments).exits(2).says(said);
    }
}

#[test]
fn egress_has_the_same_keys() {
    let folder = tempdir().expect("a directory");
    let check = |keys: &str| {
        let text = format!(
            "name = \"n\"\n[[egress]]\nstream = \"survey/radar\"\nto = \"radar.bin\"\n{keys}\n"
        );
        std::fs::write(folder.path().join("n.toml"), text).expect("room");
        run(folder.path(), &["check", "n.toml"])
    };
    check("policy = \"drop-old\"\ndepth = \"2 s\"\npull = true\npriority = 200").exits(0);
    check("policy = \"by-importance\"\ndepth = 100").exits(0);
    let wrong = [
        ("policy = \"latest\"", "n.toml:5"),
        ("depth = \"0 s\"", "n.toml:5"),
        ("depth = 0", "n.toml:5"),
        ("priority = 256", "n.toml:5"),
        ("policy = \"newest\"\ndepth = 4", "n.toml:6"),
    ];
    for (keys, place) in wrong {
        let err = check(keys).exits(2).err();
        assert!(err.contains(place), "{keys}: {err}");
    }
}

/// Publishes telemetry at a node of its own until the test is over.
fn telemetry(lone: &Lone, rate: u32) -> Ending {
    let from = format!("test://telemetry?rate={rate}");
    let mut publisher = lone.command(&["publish", "arm/pose", "--from", &from]);
    let publisher = publisher.stdout(Stdio::null()).stderr(Stdio::null());
    Ending(publisher.spawn().expect("the program was built"))
}

#[test]
fn drops_are_written_with_place_and_cause() {
    let lone = Lone::start(|_| {});
    let slow = "exec:while read line; do sleep 0.1; done";
    let mut subscriber =
        lone.command(&["subscribe", "arm/pose", "--format", "lines", "--to", slow]);
    subscriber.args(["--policy", "drop-new", "--depth", "5", "--pull"]);
    subscriber.args(["--drops", "drops.jsonl"]);
    let subscriber = subscriber.stdout(Stdio::null()).stderr(Stdio::null());
    let _subscriber = Ending(subscriber.spawn().expect("the program was built"));
    // A pipe of 64 KiB is full after some hundreds of messages.
    let _publisher = telemetry(&lone, 5_000);
    let begun = Instant::now();
    let drops: Vec<Value> = loop {
        let text = std::fs::read_to_string(lone.path().join("drops.jsonl")).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let drops = whole
            .lines()
            .map(|line| serde_json::from_str(line).expect("an object"));
        let drops: Vec<Value> = drops.collect();
        if drops.len() >= 5 {
            break drops;
        }
        assert!(begun.elapsed() < PATIENCE, "{text}");
        std::thread::sleep(Duration::from_millis(100));
    };
    for (at, record) in drops.iter().enumerate() {
        assert_eq!(record["number"], at as u64 + 1, "{record}");
        assert_eq!(
            (&record["place"], &record["cause"]),
            (&"mailbox".into(), &"overflow".into())
        );
        let adus = record["adus"].as_u64().expect("a number");
        let [first, last] = [0, 1].map(|end| record["sequences"][end].as_u64().expect("a number"));
        assert!(adus > 0 && adus <= last - first + 1, "{record}");
        let pid = record["at"].as_str().expect("a program");
        assert!(pid.starts_with("pid "), "{record}");
    }
    let counts = lone.status()["streams"][0]["counts"].clone();
    assert!(
        counts["drops"]["mailbox"]["overflow"].as_u64() > Some(0),
        "{counts}"
    );
}

#[test]
fn timeline_draws_arrivals_and_drops() {
    let lone = Lone::start(|_| {});
    let mut slow = lone.command(&[
        "subscribe",
        "arm/pose",
        "--format",
        "lines",
        "--policy",
        "newest",
    ]);
    slow.args(["--pull", "--to", "exec:while read line; do sleep 0.1; done"]);
    let slow = slow.stdout(Stdio::null()).stderr(Stdio::null());
    let _slow = Ending(slow.spawn().expect("the program was built"));
    let _publisher = telemetry(&lone, 5_000);
    let arguments = ["timeline", "arm/pose", "--for", "4 s"];
    let said = lone.run(&arguments).exits(0).out();
    assert!(
        said.contains("travel time") && said.contains("in arm-pose.svg"),
        "{said}"
    );
    let svg = std::fs::read_to_string(lone.path().join("arm-pose.svg")).expect("drawn");
    for part in [
        "arrivals, ADUs/s",
        "interval, ms",
        "drops, ADUs/s",
        "prefers-color-scheme",
    ] {
        assert!(svg.contains(part), "{part}");
    }
    assert!(svg.contains("<circle") && svg.contains("class=\"mark\""));
    assert!(svg.contains("cancelled in the mailbox of pid"), "{said}");
    let nothing = lone.run(&["timeline", "no/stream", "--for", "200 ms"]);
    nothing.exits(1).out();
    assert!(!lone.path().join("no-stream.svg").exists());
}
