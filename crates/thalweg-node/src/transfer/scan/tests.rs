//! Proves that a file's reported length is checked, and that only regular files are sent.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

fn open(path: &Path) -> Result<Files, TransferError> {
    Files::open(&[path.to_path_buf()], |_| 1024, &mut |_| {})
}

fn refused(path: impl Into<PathBuf>) -> TransferError {
    open(&path.into()).expect_err("it cannot be sent")
}

#[test]
fn file_without_length_is_refused() {
    let error = refused("/proc/version");
    assert!(
        matches!(error, TransferError::Length { said: 0, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("send the copy"), "{error}");
}

#[test]
fn non_file_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = refused(folder.path());
    assert!(matches!(error, TransferError::Folder { .. }), "{error}");
    let error = refused("/dev/null");
    assert!(matches!(error, TransferError::NoFile { .. }), "{error}");
    let socket = folder.path().join("socket");
    drop(std::os::unix::net::UnixListener::bind(&socket).expect("room"));
    let error = refused(socket);
    assert!(matches!(error, TransferError::NoFile { .. }), "{error}");
    let error = refused(folder.path().join("nothing"));
    assert!(matches!(error, TransferError::File { .. }), "{error}");
}

#[test]
fn resized_file_has_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a");
    for length in [2047, 2049, 5 * 1024, 0] {
        fs::write(&path, [7; 2048]).expect("room");
        let opened = Opened::open(path.clone()).expect("it is a file");
        fs::write(&path, vec![7; length]).expect("room");
        let error = opened.hash(1024, &mut Vec::new(), &mut |_| {});
        let error = error.expect_err("it is another");
        assert!(matches!(error, TransferError::Changed { .. }), "{error}");
    }
}

#[test]
fn sparse_and_empty_files_are_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    for size in [0, 1, 1 << 20] {
        let path = folder.path().join("a");
        let file = File::create(&path).expect("room");
        file.set_len(size).expect("room");
        let files = open(&path).expect("it can be sent");
        assert_eq!(files.manifest.files()[0].size, size);
    }
}
