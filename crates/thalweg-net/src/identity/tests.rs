//! Proves the rules of the key file: made once, private, whole; refused when exposed or malformed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use super::{Identity, verify};
use crate::error::IdentityError;

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it was made")
        .permissions()
        .mode()
        & 0o777
}

#[test]
fn second_start_finds_private_key() {
    let root = tempfile::tempdir().expect("a directory for the test");
    let path = root.path().join("made/for/node.key");
    let first = Identity::load_or_create(&path).expect("made");
    let second = Identity::load_or_create(&path).expect("found");
    assert_eq!(first.id(), second.id());
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().expect("has one")), 0o700);
    let left: Vec<_> = fs::read_dir(path.parent().expect("has one"))
        .expect("readable")
        .collect();
    assert_eq!(left.len(), 1, "nothing is left beside the key");
}

#[test]
fn exposed_key_is_refused() {
    let root = tempfile::tempdir().expect("a directory for the test");
    let path = root.path().join("node.key");
    Identity::load_or_create(&path).expect("made");
    for bits in [0o640, 0o604, 0o666] {
        fs::set_permissions(&path, fs::Permissions::from_mode(bits)).expect("ours");
        let error = Identity::load_or_create(&path).expect_err("exposed");
        assert!(matches!(error, IdentityError::Exposed { mode, .. } if mode == bits));
        assert!(
            error
                .to_string()
                .contains(&format!("chmod 600 {}", path.display()))
        );
    }
}

#[test]
fn garbage_is_refused_unquoted() {
    let root = tempfile::tempdir().expect("a directory for the test");
    let path = root.path().join("node.key");
    let nearly = "ab".repeat(31) + "a";
    let twice = format!("{0}\n{0}\n", "ab".repeat(32));
    for text in ["", "# only a comment\n", &nearly, &twice, "hello\n"] {
        fs::write(&path, text).expect("ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("ours");
        let error = Identity::load_or_create(&path).expect_err("garbage");
        assert!(matches!(error, IdentityError::Garbage { .. }), "{text:?}");
        assert!(!error.to_string().contains("abab"));
    }
    fs::write(&path, [0xff, 0xfe, 0x00]).expect("ours");
    assert!(matches!(
        Identity::load_or_create(&path),
        Err(IdentityError::Garbage { .. })
    ));
}

#[test]
fn special_file_is_refused_at_once() {
    let root = tempfile::tempdir().expect("a directory for the test");
    let (pipe, link) = (root.path().join("pipe"), root.path().join("link"));
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is everywhere").success());
    std::os::unix::fs::symlink(&pipe, &link).expect("it can be made");
    for path in [&pipe, &link, Path::new("/dev/zero"), root.path()] {
        // In a thread of its own: a start that waits for the pipe never returns.
        let (sender, message) = std::sync::mpsc::channel();
        let file = path.to_path_buf();
        std::thread::spawn(move || {
            let loaded = Identity::load_or_create(&file);
            sender.send(loaded.err().map(|error| error.to_string()))
        });
        let message = message.recv_timeout(Duration::from_secs(30));
        let message = message.expect("it does not wait").expect("it is refused");
        assert!(message.contains(&path.display().to_string()), "{message}");
        assert!(message.contains("another `key_file`"), "{message}");
    }
    // A link to a file serves as well as the file.
    let real = root.path().join("real");
    let first = Identity::load_or_create(&real).expect("made");
    let second = root.path().join("second");
    std::os::unix::fs::symlink(&real, &second).expect("it can be made");
    let again = Identity::load_or_create(&second).expect("found");
    assert_eq!(first.id(), again.id());
}

#[test]
fn signature_binds_key_and_message() {
    let (mine, other) = (Identity::from_seed([1; 32]), Identity::from_seed([2; 32]));
    let signature = mine.sign(b"message");
    assert!(verify(mine.id(), b"message", &signature));
    assert!(!verify(mine.id(), b"massage", &signature));
    assert!(!verify(other.id(), b"message", &signature));
}

#[test]
fn debug_never_prints_the_secret() {
    let identity = Identity::from_seed([0xab; 32]);
    assert!(!format!("{identity:?}").contains("abab"));
}
