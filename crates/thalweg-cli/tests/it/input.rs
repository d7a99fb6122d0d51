//! Proves that bad input ends in a sentence and exit code 2, with nothing started.

use std::io::Write as _;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use tempfile::{TempDir, tempdir};

use crate::program::{Run, run, thalweg};

const WORLD: &str = "\
[node.a]
slots = 2
[node.b]
slots = 2
[[link]]
ends = [\"a\", \"b\"]
rate = \"1 Mbit/s\"
[[stream]]
name = \"cam\"
from = \"a\"
to = [\"b\"]
layers = [{ rate = \"100 kbit/s\", utility = 1.0 }]
";

fn folder_with(name: &str, text: &str) -> TempDir {
    let folder = tempdir().expect("a directory");
    std::fs::write(folder.path().join(name), text).expect("room");
    folder
}

fn key(folder: &Path, file: &str) -> String {
    let out = run(folder, &["id", "--key", file]).exits(0).out();
    out.trim().to_owned()
}

#[test]
fn good_files_pass_the_check() {
    let folder = folder_with("w.toml", WORLD);
    let out = run(folder.path(), &["check", "w.toml"]).exits(0).out();
    assert!(out.contains("2 nodes, 1 link, 1 stream"), "{out}");
    let default = run(folder.path(), &["config"]).exits(0).out();
    let folder = folder_with("node.toml", &default);
    let out = run(folder.path(), &["check", "node.toml"]).exits(0).out();
    assert!(out.contains("configuration of node `camera`"), "{out}");
}

#[test]
fn bad_named_file_is_reported() {
    let text = "name = \"a\"\nkey_file = \"a.key\"\n[reach]\nrelay_ca = \"ca.pem\"\n\
                [fabric]\nstate_file = \"fabric.json\"\n";
    let folder = folder_with("node.toml", text);
    let refused = |file: &str, why: &str| {
        let said = run(folder.path(), &["check", "node.toml"]).exits(2).err();
        assert!(said.contains(file) && said.contains(why), "{said}");
    };
    refused("ca.pem", "No such file");
    let begin = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n";
    std::fs::write(folder.path().join("ca.pem"), begin).expect("room");
    refused("ca.pem", "number 1 in it is invalid");
    let without = text.replace("relay_ca", "# relay_ca");
    std::fs::write(folder.path().join("node.toml"), without).expect("room");
    run(folder.path(), &["check", "node.toml"]).exits(0);
    // Nothing was created.
    assert!(!folder.path().join("a.key").exists());
    std::fs::write(folder.path().join("fabric.json"), "a note\n").expect("room");
    refused("fabric.json", "");
    std::fs::remove_file(folder.path().join("fabric.json")).expect("it is there");
    std::fs::write(folder.path().join("a.key"), "a note\n").expect("room");
    refused("a.key", "");
}

#[test]
fn world_mistakes_name_line_and_key() {
    for (good, bad, parts) in [
        (
            "1 Mbit/s",
            "1 Mbit",
            &["w.toml:7:", "link[0].rate", "is not"][..],
        ),
        (
            "ends = [\"a\", \"b\"]",
            "ends = [\"a\", \"c\"]",
            &["w.toml:6:", "`c`"],
        ),
        (
            "utility = 1.0",
            "utility = 0.5",
            &["w.toml:12:", "sum to 0.5"],
        ),
        (
            "slots = 2\n[node.b]",
            "slot = 2\n[node.b]",
            &["w.toml:2:", "slot"],
        ),
        ("[node.b]", "[node.a]", &["w.toml:3:", "duplicate"]),
    ] {
        let folder = folder_with("w.toml", &WORLD.replacen(good, bad, 1));
        for command in ["check", "plan"] {
            run(folder.path(), &[command, "w.toml"]).exits(2);
        }
        let err = run(folder.path(), &["check", "w.toml"]).err();
        assert!(parts.iter().all(|part| err.contains(part)), "{bad}: {err}");
    }
}

#[test]
fn config_mistakes_name_line_and_key() {
    for (text, parts) in [
        (
            "name = \"a\"\ncolour = 3\n",
            &["node.toml:2:", "colour"][..],
        ),
        (
            "name = \"a\"\nlisten = [\"here\"]\n",
            &["node.toml:2:", "listen"],
        ),
        ("slots = 3\n", &["node.toml", "name"]),
        (
            "name = \"a\"\n[api]\nlisten = \"localhost:7481\"\n",
            &["node.toml:3: api.listen: ", "\"127.0.0.1:7481\""],
        ),
    ] {
        let folder = folder_with("node.toml", text);
        for command in [
            &["check", "node.toml"][..],
            &["node", "--config", "node.toml"],
        ] {
            run(folder.path(), command).exits(2).says(parts);
        }
    }
}

#[test]
fn missing_files_exit_2() {
    let folder = tempdir().expect("a directory");
    for command in [
        &["check", "gone.toml"][..],
        &["plan", "gone.toml"],
        &["node", "--config", "gone.toml"],
        &["demo", "--headless", "--world", "gone.toml"],
        &["demo", "--headless", "--video", "gone.y4m"],
        &["publish", "cam", "--from", "gone.ts", "--node", "x.sock"],
    ] {
        run(folder.path(), command).exits(2).says(&["gone."]);
    }
}

#[test]
fn key_is_made_once_and_private() {
    let folder = tempdir().expect("a directory");
    let first = run(folder.path(), &["id"]).exits(0);
    assert!(first.err().contains("with a new key"), "{}", first.err());
    let second = run(folder.path(), &["id"]).exits(0);
    assert_eq!(first.out(), second.out());
    assert_eq!(second.err(), "");
    let file = folder.path().join("node.key");
    let mode = std::fs::metadata(&file)
        .expect("it was made")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("ours");
    run(folder.path(), &["id"])
        .exits(2)
        .says(&["node.key", "644"]);
}

#[test]
fn port_in_use_is_reported() {
    let holder = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let address = holder.local_addr().expect("bound");
    let config = format!(
        "name = \"a\"\nsocket = \"a.sock\"\nlisten = [\"{address}\"]\n[api]\nenabled = false\n"
    );
    let folder = folder_with("node.toml", &config);
    run(folder.path(), &["node", "--config", "node.toml"])
        .exits(1)
        .says(&["node `a` cannot start", &address.to_string()]);
}

#[test]
fn two_peers_with_one_name_are_refused() {
    let folder = tempdir().expect("a directory");
    let key = key(folder.path(), "b.key");
    let peer = format!("[[peer]]\nname = \"b\"\nkey = \"{key}\"\n");
    let folder = folder_with("node.toml", &format!("name = \"a\"\n{peer}{peer}"));
    run(folder.path(), &["check", "node.toml"])
        .exits(2)
        .says(&["node.toml:6:", "`b`"]);
}

#[test]
fn no_running_node_exits_4() {
    let folder = folder_with("clip.ts", "");
    for command in [
        &["ls", "--node", "gone.sock"][..],
        &["subscribe", "cam", "--to", "out.ts", "--node", "gone.sock"],
    ] {
        run(folder.path(), command)
            .exits(4)
            .says(&["gone.sock", "thalweg node --config"]);
    }
    assert!(!folder.path().join("out.ts").exists());
    run(folder.path(), &["ls"])
        .exits(4)
        .says(&["THALWEG_SOCKET"]);
}

#[test]
fn garbage_fails_before_connecting() {
    let folder = folder_with("clip.ts", &"no transport stream ".repeat(500));
    run(
        folder.path(),
        &["publish", "cam", "--from", "clip.ts", "--node", "gone.sock"],
    )
    .exits(1)
    .says(&["clip.ts holds no MPEG-TS", "belong to no transport packet"]);
    let folder = folder_with("clip.ts", "");
    run(
        folder.path(),
        &["publish", "cam", "--from", "clip.ts", "--node", "gone.sock"],
    )
    .exits(1)
    .says(&["it is empty"]);
}

#[test]
fn own_peer_names_line_and_key() {
    let folder = tempdir().expect("a directory");
    let (own, other) = (key(folder.path(), "node.key"), key(folder.path(), "b.key"));
    let peer = |name: &str, key: &str| format!("[[peer]]\nname = \"{name}\"\nkey = \"{key}\"\n");
    let file = folder.path().join("node.toml");
    let good = format!("name = \"a\"\n{}", peer("b", &other));
    std::fs::write(&file, &good).expect("room");
    run(folder.path(), &["check", "node.toml"]).exits(0);
    std::fs::write(&file, good + &peer("c", &own)).expect("room");
    for command in [
        &["check", "node.toml"][..],
        &["node", "--config", "node.toml"],
    ] {
        run(folder.path(), command).exits(2).says(&[
            "node.toml:7: peer[1].key: this is the node's own key",
            "`thalweg id`",
        ]);
    }
}

#[test]
fn pipe_for_a_file_fails_at_once() {
    let pipe = |name: &str, text: &str| {
        let folder = folder_with("node.toml", text);
        let mut made = std::process::Command::new("mkfifo");
        made.current_dir(folder.path()).args(["-m", "600", name]);
        assert!(made.status().expect("mkfifo is everywhere").success());
        folder
    };
    // Without the check the command would wait for a writer for ever.
    let assert_says = |folder: &TempDir, command: &[&str], parts: &[&str]| {
        let output = std::process::Command::new("timeout")
            .current_dir(folder.path())
            .args(["30", env!("CARGO_BIN_EXE_thalweg")])
            .args(command)
            .output();
        Run(output.expect("timeout is everywhere"))
            .exits(2)
            .says(parts);
    };
    let key = pipe("a.key", "name = \"a\"\nkey_file = \"a.key\"\n");
    for command in [
        &["check", "node.toml"][..],
        &["node", "--config", "node.toml"],
        &["id", "--config", "node.toml"],
    ] {
        assert_says(
            &key,
            command,
            &["the key file a.key is not a regular file", "`key_file`"],
        );
    }
    let state = pipe(
        "a.json",
        "name = \"a\"\n[fabric]\nstate_file = \"a.json\"\n",
    );
    assert_says(
        &state,
        &["check", "node.toml"],
        &["a.json is not a regular file", "`state_file`"],
    );
    let relays = "name = \"a\"\n[reach]\nrelay_ca = \"ca.pem\"\n";
    assert_says(
        &pipe("ca.pem", relays),
        &["check", "node.toml"],
        &["ca.pem", "it is not a regular file"],
    );
}

#[test]
#[cfg(target_os = "linux")]
fn piped_text_is_checked_like_a_file() {
    let folder = tempdir().expect("a directory");
    for (text, code, says) in [
        (WORLD, 0, "/dev/stdin: good: a world of 2 nodes"),
        ("name = \"a\"\n", 0, "/dev/stdin: good: the configuration"),
        ("name = \"a\"\nslotz = 1\n", 2, "/dev/stdin:2: slotz"),
    ] {
        let mut check = thalweg(folder.path());
        check.args(["check", "/dev/stdin"]).stdin(Stdio::piped());
        check.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut check = check.spawn().expect("the program was built");
        let mut pipe = check.stdin.take().expect("it is piped");
        pipe.write_all(text.as_bytes()).expect("it is read");
        drop(pipe);
        let run = Run(check.wait_with_output().expect("it ends")).exits(code);
        let said = run.out() + &run.err();
        assert!(said.contains(says), "{said}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn endless_file_hits_the_size_limit() {
    let folder = folder_with("node.toml", "name = \"a\"\n");
    for (command, why) in [
        ("check /dev/zero", "/dev/zero: it has more than 16777216"),
        ("check --as world /dev/zero", "more than 16777216 bytes"),
        ("plan /dev/zero", "more than 16777216 bytes"),
        ("compare /dev/zero /dev/zero", "more than 16777216 bytes"),
        (
            "node --config /dev/zero",
            "/dev/zero has more than 16777216",
        ),
        ("id --config /dev/zero", "/dev/zero has more than 16777216"),
    ] {
        // An unbounded read hits the limit instead of exhausting the machine's memory.
        let line = format!(
            "ulimit -v 4000000; exec timeout 60 {} {command}",
            env!("CARGO_BIN_EXE_thalweg")
        );
        let output = std::process::Command::new("sh")
            .current_dir(folder.path())
            .args(["-c", &line])
            .output();
        Run(output.expect("there is a shell")).exits(2).says(&[why]);
    }
}
