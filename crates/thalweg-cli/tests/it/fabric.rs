//! Proves the whole system: four `thalweg node` processes, a real clip published at one end and
//! received at the other.
//!
//! ```text
//! publish ─► camera ─► relay ─► base ─► viewer ─► subscribe
//! ```
//!
//! The camera does not trust the relay, so the clip crosses the relay sealed. Links have ample
//! capacity: every access unit arrives, and ffmpeg decodes the output without a warning.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::program::{Run, run, thalweg};

/// How long to wait for something that takes a second or two on an idle machine.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The environment variable that names a relay-only build, which then is the node `relay`.
const RELAY_ONLY: &str = "THALWEG_TEST_RELAY_ONLY";

const NODES: [&str; 4] = ["camera", "relay", "base", "viewer"];

/// What the links between the nodes go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Udp,
    /// TCP in the clear, by one loop at each node.
    ClearTcp,
}

/// Four nodes on loopback, each a process.
pub struct Fabric {
    folder: TempDir,
    nodes: Vec<Child>,
}

impl Fabric {
    pub fn start() -> Self {
        Self::start_over(Way::Udp)
    }

    pub fn start_over(way: Way) -> Self {
        let folder = tempdir().expect("a directory");
        configure(folder.path(), way);
        let nodes = NODES
            .iter()
            .map(|name| start(folder.path(), name))
            .collect();
        Self { folder, nodes }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the process of a node.
    pub fn process(&self, node: &str) -> u32 {
        let at = NODES.iter().position(|name| *name == node);
        self.nodes[at.expect("it is one of the four")].id()
    }

    pub fn command(&self, arguments: &[&str], node: &str) -> Command {
        let mut command = thalweg(self.path());
        command
            .args(arguments)
            .arg("--node")
            .arg(format!("{node}.sock"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn spawn(&self, arguments: &[&str], node: &str) -> Child {
        self.command(arguments, node)
            .spawn()
            .expect("the program was built")
    }

    pub fn run(&self, arguments: &[&str], node: &str) -> Run {
        Run(self
            .command(arguments, node)
            .output()
            .expect("the program was built"))
    }

    pub fn status(&self, node: &str) -> Value {
        let out = self.run(&["ls", "--json"], node).exits(0).out();
        serde_json::from_str(&out).expect("one JSON object")
    }

    /// Waits until a node has this many links.
    pub fn wait_for_links(&self, node: &str, count: usize) {
        let begun = Instant::now();
        loop {
            let status = self.status(node);
            let links = status["links"].as_array().expect("a list");
            let up = links.iter().filter(|link| link["state"] == "up").count();
            if up == count {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{node}: {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Ends a node, calls `between`, and starts the node again.
    pub fn restart(&mut self, node: &str, between: impl FnOnce()) {
        let at = NODES.iter().position(|name| *name == node);
        let at = at.expect("it is one of the four");
        terminate(&self.nodes[at]);
        self.nodes[at].wait().expect("it ends");
        between();
        self.nodes[at] = start(self.path(), node);
    }

    /// Kills a node and starts it again.
    pub fn crash(&mut self, node: &str) {
        self.crash_while(node, |_| {});
    }

    /// Kills a node, calls `meanwhile`, and starts the node again.
    pub fn crash_while(&mut self, node: &str, meanwhile: impl FnOnce(&Self)) {
        let at = NODES.iter().position(|name| *name == node);
        let at = at.expect("it is one of the four");
        self.nodes[at].kill().expect("it runs");
        self.nodes[at].wait().expect("it ends");
        meanwhile(self);
        self.nodes[at] = start(self.path(), node);
    }

    /// Sends a signal, by name, to a node.
    pub fn signal(&self, node: &str, name: &str) {
        let at = NODES.iter().position(|name| *name == node);
        signal(&self.nodes[at.expect("it is one of the four")], name);
    }

    /// Ends every node, and checks that it ends in good order.
    pub fn stop(mut self) {
        self.nodes.iter().for_each(terminate);
        for (name, node) in NODES.iter().zip(std::mem::take(&mut self.nodes)) {
            let run = Run(node.wait_with_output().expect("it ends")).exits(0);
            assert!(
                run.err().contains("everything sent was acknowledged"),
                "{name}: {}",
                run.err()
            );
        }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            // Only after a failed test; a process that has ended cannot be killed.
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

pub fn interrupt(child: &Child) {
    signal(child, "INT");
}

pub fn terminate(child: &Child) {
    signal(child, "TERM");
}

/// A process that is killed at the end of the test, passed or failed.
pub struct Ending(pub Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // A process that has ended cannot be killed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal, by name, to a process.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status();
    assert!(sent.expect("kill is everywhere").success());
}

/// Returns a loopback address for this fabric alone, so that its ports are free.
fn own_address() -> Ipv4Addr {
    static FABRICS: AtomicU8 = AtomicU8::new(0);
    let [.., high, low] = std::process::id().to_be_bytes();
    let fabric = FABRICS.fetch_add(1, Ordering::Relaxed);
    Ipv4Addr::new(127, 100 + fabric, high, low.clamp(1, 254))
}

/// Writes the key and the configuration of each node.
fn configure(folder: &Path, way: Way) {
    let ip = own_address();
    let addresses = [7401, 7402, 7403, 7404].map(|port| SocketAddr::from((ip, port)));
    let keys = NODES.map(|name| {
        let file = format!("{name}.key");
        run(folder, &["id", "--key", &file])
            .exits(0)
            .out()
            .trim()
            .to_owned()
    });
    for (at, name) in NODES.iter().enumerate() {
        let is_near = |other: usize| at.abs_diff(other) == 1;
        let (mut listen, mut tcp) = (vec![addresses[at].to_string()], String::new());
        if way == Way::ClearTcp {
            listen.push(format!("tcp:{}", addresses[at]));
            let near = (0..NODES.len()).filter(|other| is_near(*other));
            let near: Vec<_> = near.map(|other| NODES[other]).collect();
            tcp = format!("[tcp]\ncleartext_loop = true\ncleartext_peers = {near:?}\n");
        }
        let mut text = format!(
            "name = \"{name}\"\nkey_file = \"{name}.key\"\nlisten = {listen:?}\nsocket = \"{name}.sock\"\n\
             [api]\nenabled = false\n[reach]\nconfined = true\n{tcp}",
        );
        for (other, peer) in NODES.iter().enumerate().filter(|(other, _)| *other != at) {
            let near = is_near(other);
            let about = format!(
                "[[peer]]\nname = \"{peer}\"\nkey = \"{}\"\ntrusted = {}\nconnect = {near}\n",
                keys[other],
                *peer != "relay"
            );
            text.push_str(&about);
            let prefix = match way {
                Way::Udp => "",
                Way::ClearTcp => {
                    text.push_str("secure = true\n");
                    "tcp:"
                }
            };
            // One end of each link dials.
            if near && other < at {
                let address = addresses[other];
                let way = format!("addresses = [\"{prefix}{address}\"]\nrate = \"50 Mbit/s\"\n");
                text.push_str(&way);
            }
        }
        std::fs::write(folder.join(format!("{name}.toml")), text).expect("room");
    }
}

/// Starts a node and waits until it listens.
fn start(folder: &Path, name: &str) -> Child {
    let mut command = match std::env::var_os(RELAY_ONLY).filter(|_| name == "relay") {
        Some(program) => {
            let mut command = Command::new(program);
            command.current_dir(folder).stdin(Stdio::null());
            command
        }
        None => thalweg(folder),
    };
    command.args(["node", "--config", &format!("{name}.toml")]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("the program was built");
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
    out.read_line(&mut line).expect("text");
    assert!(line.starts_with(&format!("{name} ")), "{name} said: {line}");
    child
}

/// The folder with `ffmpeg` and `bikes.mp4`.
fn media() -> PathBuf {
    let folder = std::env::var_os("THALWEG_TEST_MEDIA").map(PathBuf::from);
    folder.expect(
        "this test needs a clip and an ffmpeg: run `cargo xtask test`, or `cargo xtask media` and set THALWEG_TEST_MEDIA to the folder that it names",
    )
}

fn ffmpeg(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(media().join("ffmpeg"));
    command
        .current_dir(folder)
        .args(["-nostdin", "-v", "error"])
        .args(arguments);
    let output = command
        .output()
        .expect("the ffmpeg of the media folder runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && err.is_empty(),
        "ffmpeg {arguments:?}: {err}"
    );
    output
}

/// Makes `clip.ts` from the real clip.
pub fn make_clip(folder: &Path) {
    let clip = media().join("bikes.mp4");
    let clip = clip.to_str().expect("a path in UTF-8");
    ffmpeg(
        folder,
        &["-i", clip, "-c", "copy", "-f", "mpegts", "clip.ts"],
    );
}

/// Returns size and hash of every packet of a transport stream, as ffmpeg reads it.
fn packets(folder: &Path, file: &str) -> Vec<String> {
    let output = ffmpeg(
        folder,
        &["-i", file, "-map", "0", "-c", "copy", "-f", "framemd5", "-"],
    );
    let text = String::from_utf8(output.stdout).expect("text");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let columns: Vec<&str> = line.split(',').map(str::trim).collect();
            format!("{} {} {}", columns[0], columns[4], columns[5])
        })
        .collect()
}

#[test]
fn clip_crosses_four_processes_sealed() {
    let fabric = Fabric::start();
    make_clip(fabric.path());
    let subscribe = fabric.spawn(&["subscribe", "bikes", "--to", "out.ts"], "viewer");
    let publish = [
        "publish",
        "bikes",
        "--from",
        "clip.ts",
        "--speed",
        "4",
        "--confidential",
        "--json",
    ];
    let published = fabric.run(&publish, "camera").exits(0);
    let received = Run(subscribe.wait_with_output().expect("it ends")).exits(0);
    assert!(received.err().contains("missing 0"), "{}", received.err());
    assert!(
        published.err().contains("dropped: none"),
        "{}",
        published.err()
    );
    let summary: Value = serde_json::from_str(&published.out()).expect("one object");
    assert!(summary["sent"].as_u64() >= Some(250), "{summary}");
    assert_eq!(summary["dropped"], serde_json::json!({}), "{summary}");
    assert_eq!(
        summary["ledger"]["losses"],
        serde_json::json!([]),
        "{summary}"
    );

    let sent = packets(fabric.path(), "clip.ts");
    assert_eq!(sent.len(), 250, "the clip has 250 pictures");
    assert_eq!(packets(fabric.path(), "out.ts"), sent);
    ffmpeg(fabric.path(), &["-i", "out.ts", "-f", "null", "-"]);

    for node in ["camera", "relay"] {
        let status = fabric.status(node);
        let links = status["links"].as_array().expect("a list");
        let plain: u64 = links
            .iter()
            .filter_map(|link| link["adus"]["plain"].as_u64())
            .sum();
        let sealed: u64 = links
            .iter()
            .filter_map(|link| link["adus"]["sealed"].as_u64())
            .sum();
        assert!(
            plain == 0 && sealed > 250,
            "{node}: {plain} plain, {sealed} sealed"
        );
    }
    fabric.stop();
}

#[test]
fn subscriber_waits_for_its_stream() {
    let fabric = Fabric::start();
    let mut subscribe = fabric.spawn(&["subscribe", "nothing", "--to", "out.ts"], "viewer");
    let mut said = String::new();
    let mut err = BufReader::new(subscribe.stderr.take().expect("it is piped"));
    err.read_line(&mut said).expect("text");
    assert!(
        said.contains("`nothing`") && said.contains("wait"),
        "{said}"
    );
    terminate(&subscribe);
    assert_eq!(subscribe.wait().expect("it ends").code(), Some(0));
    fabric.stop();
}

#[test]
fn second_request_ends_waiting_publisher() {
    let fabric = Fabric::start();
    make_clip(fabric.path());
    let _subscribe = Ending(fabric.spawn(&["subscribe", "bikes", "--to", "out.ts"], "base"));
    let publish = ["publish", "bikes", "--from", "clip.ts", "--loop"];
    let mut publish = Ending(fabric.spawn(&publish, "camera"));
    let end = Instant::now() + PATIENCE;
    while std::fs::metadata(fabric.path().join("out.ts")).map_or(0, |file| file.len()) == 0 {
        assert!(Instant::now() < end, "nothing comes");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The sink's node is frozen, so no acknowledgement comes.
    fabric.signal("base", "STOP");
    while publish.0.try_wait().expect("it is ours").is_none() {
        terminate(&publish.0);
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut err = String::new();
    let mut said = publish.0.stderr.take().expect("it is piped");
    said.read_to_string(&mut err).expect("text");
    assert!(
        err.contains("the node continues with the data in flight"),
        "{err}"
    );
    fabric.signal("base", "CONT");
}

#[test]
fn full_disk_at_the_target_is_reported() {
    let fabric = Fabric::start();
    make_clip(fabric.path());
    let subscribe = fabric.spawn(&["subscribe", "bikes", "--to", "/dev/full"], "viewer");
    let publish = ["publish", "bikes", "--from", "clip.ts", "--speed", "max"];
    fabric.run(&publish, "camera").exits(0);
    let received = Run(subscribe.wait_with_output().expect("it ends")).exits(1);
    assert!(
        received.err().contains("cannot write /dev/full"),
        "{}",
        received.err()
    );
    fabric.stop();
}
