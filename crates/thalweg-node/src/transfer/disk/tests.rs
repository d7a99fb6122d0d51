//! Proves the state of a receiver's disk before, during and after a transfer.

use std::fs;

use thalweg_transfer::manifest::Mode;
use thalweg_transfer::{File, FileName, Manifest, tree};

use super::*;

fn manifest(name: &str, bytes: &[u8]) -> Manifest {
    let blocks = bytes.chunks(1024).zip(0..);
    let hashes = blocks.map(|(block, at)| tree::block_hash(at * 1024, block));
    let file = File {
        name: FileName::new(name.as_bytes()).expect("a name"),
        size: bytes.len() as u64,
        mode: Mode::of(0o644),
        changed: 0,
        hash: tree::whole_hash(bytes),
    };
    Manifest::new(vec![file], 1024, hashes.collect()).expect("it fits")
}

fn write_all(disk: &Disk, manifest: &Manifest, bytes: &[u8]) {
    for block in 0..manifest.layout().blocks() {
        let place = manifest.layout().place(block).expect("it has one");
        let there = &bytes[place.offset as usize..][..place.bytes];
        disk.write(place, there).expect("room");
    }
}

/// Returns a disk that has received all of a file `a`, not moved into place yet.
fn received(folder: &Path, bytes: &[u8]) -> (Manifest, Disk) {
    let manifest = manifest("a", bytes);
    let mut disk = Disk::new(folder, manifest.id(), false, true);
    disk.open(&manifest, &mut |_| {}).expect("room");
    write_all(&disk, &manifest, bytes);
    (manifest, disk)
}

#[test]
fn parts_resume_and_move_when_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = vec![7; 5000];
    let manifest = manifest("a b\n\u{fe}", &bytes);
    let mut disk = Disk::new(folder.path(), manifest.id(), false, true);
    assert!(disk.load_manifest().is_none());
    assert_eq!(disk.open(&manifest, &mut |_| {}).expect("room").count(), 0);
    let place = manifest.layout().place(0).expect("it has one");
    disk.write(place, &bytes[..1024]).expect("room");

    let mut again = Disk::new(folder.path(), manifest.id(), false, true);
    assert_eq!(again.load_manifest(), Some(manifest.clone()));
    let have = again.open(&manifest, &mut |_| {}).expect("room");
    assert!(have.contains(0) && have.count() == 1);
    assert!(!folder.path().join("a b\n\u{fe}").exists());
    write_all(&again, &manifest, &bytes);
    again.finish(&manifest, &mut |_| {}).expect("room");
    assert_eq!(
        fs::read(folder.path().join("a b\n\u{fe}")).expect("it is there"),
        bytes
    );
    assert_eq!(
        fs::read_dir(folder.path()).expect("a folder").count(),
        1,
        "nothing else is left"
    );

    let mut third = Disk::new(folder.path(), manifest.id(), false, true);
    assert!(
        third
            .open(&manifest, &mut |_| {})
            .expect("it is there")
            .is_whole()
    );
}

#[test]
fn existing_file_needs_force() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = vec![7; 3000];
    let manifest = manifest("a", &bytes);
    fs::write(folder.path().join("a"), "mine").expect("room");
    let mut disk = Disk::new(folder.path(), manifest.id(), false, true);
    let error = disk.open(&manifest, &mut |_| {}).expect_err("it is taken");
    assert!(error.to_string().contains("--force"), "{error}");
    let mut disk = Disk::new(folder.path(), manifest.id(), true, true);
    disk.open(&manifest, &mut |_| {}).expect("room");
    write_all(&disk, &manifest, &bytes);
    disk.finish(&manifest, &mut |_| {}).expect("room");
    assert_eq!(
        fs::read(folder.path().join("a")).expect("it is there"),
        bytes
    );
}

#[test]
fn name_taken_meanwhile_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = vec![7; 3000];
    let (manifest, mut disk) = received(folder.path(), &bytes);
    fs::write(folder.path().join("a"), "mine").expect("room");
    let error = disk
        .finish(&manifest, &mut |_| {})
        .expect_err("it is taken")
        .to_string();
    assert!(
        error.contains("/a exists and is another file") && error.contains("--force"),
        "{error}"
    );
    assert_eq!(
        fs::read(folder.path().join("a")).expect("it is there"),
        b"mine"
    );
    // An identical file is as good as the received one.
    fs::write(folder.path().join("a"), &bytes).expect("room");
    disk.finish(&manifest, &mut |_| {}).expect("it is there");
}

#[test]
fn truncated_part_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = vec![7; 3000];
    let (manifest, mut disk) = received(folder.path(), &bytes);
    let part = disk.parts().join("0");
    let cut = OpenOptions::new().write(true).open(part);
    cut.and_then(|part| part.set_len(1024)).expect("room");
    let error = disk
        .finish(&manifest, &mut |_| {})
        .expect_err("it is cut")
        .to_string();
    assert!(error.contains("0 was truncated"), "{error}");
    assert!(!folder.path().join("a").exists());
    // Another run detects what is missing.
    let have = disk.open(&manifest, &mut |_| {}).expect("room");
    assert_eq!(have.count(), 1);
}

#[test]
fn damaged_part_is_received_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let bytes = vec![7; 5000];
    let manifest = manifest("a", &bytes);
    let mut disk = Disk::new(folder.path(), manifest.id(), false, true);
    disk.open(&manifest, &mut |_| {}).expect("room");
    write_all(&disk, &manifest, &bytes);
    let mut damaged = bytes.clone();
    damaged[1500] = 8;
    fs::write(disk.parts().join("0"), damaged).expect("room");
    let have = disk.open(&manifest, &mut |_| {}).expect("room");
    assert_eq!(
        have.missing(9).into_iter().flatten().collect::<Vec<_>>(),
        [1]
    );
}

/// Receives a file of this mode and time, and returns its path.
fn received_as(folder: &Path, mode: u32, changed: i64, keeps_modes: bool) -> PathBuf {
    let file = File {
        name: FileName::new(b"a").expect("a name"),
        size: 5,
        mode: Mode::of(mode),
        changed,
        hash: tree::whole_hash(b"bytes"),
    };
    let manifest = Manifest::new(vec![file], 1024, Vec::new()).expect("it fits");
    let mut disk = Disk::new(folder, manifest.id(), false, keeps_modes);
    disk.open(&manifest, &mut |_| {}).expect("room");
    let part = fs::metadata(disk.parts().join("0")).expect("it is there");
    assert_eq!(
        part.permissions().mode() & 0o077,
        0,
        "a part is its owner's"
    );
    write_all(&disk, &manifest, b"bytes");
    let mut notices = 0;
    let finished = disk.finish(&manifest, &mut |_| notices += 1);
    finished.expect("room");
    assert_eq!(notices, 0);
    folder.join("a")
}

#[test]
fn mode_is_kept_and_never_wider() {
    for (mode, changed) in [
        (0o755, 1_577_836_800_123_456_789),
        (0o600, -1),
        (0o777, 0),
        (0o444, 1),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = received_as(folder.path(), mode, changed, true);
        let about = fs::metadata(&path).expect("it is there");
        let there = about.permissions().mode() & 0o7777;
        assert_eq!(there & !mode, 0, "{there:o} is wider than {mode:o}");
        // The umask of a test takes nothing from the owner.
        assert_eq!(there & 0o700, mode & 0o700);
        let there = about.modified().expect("Linux has it");
        let there = match there.duration_since(UNIX_EPOCH) {
            Ok(after) => i128::try_from(after.as_nanos()).expect("it is of this age"),
            Err(before) => {
                -i128::try_from(before.duration().as_nanos()).expect("it is of this age")
            }
        };
        assert_eq!(there, changed.into());
    }
}

#[test]
fn file_without_modes_is_as_new() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = received_as(folder.path(), 0o700, 0, false);
    let new = folder.path().join("new");
    fs::write(&new, "").expect("room");
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
    };
    assert_eq!(mode(&path), mode(&new));
}
