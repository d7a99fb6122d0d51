//! Proves that a manifest is consistent: hashes match `blake3::hash`, blocks cover the files,
//! invalid ones are rejected.

use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::tests::{bytes, manifest_of};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn block_hashes_yield_blake3_hash(size in 0_usize..20_000, shift in 10_u32..13) {
        let file = bytes(size, 1);
        let manifest = manifest_of(&[("a", &file)], 1 << shift);
        prop_assert_eq!(manifest.files()[0].hash, *blake3::hash(&file).as_bytes());
        for block in 0..manifest.layout().blocks() {
            let place = manifest.layout().place(block).expect("in range");
            let there = &file[place.offset as usize..][..place.bytes];
            prop_assert!(manifest.is_block(block, there));
            let mut other = there.to_vec();
            other[0] ^= 1;
            prop_assert!(!manifest.is_block(block, &other));
        }
    }

    #[test]
    fn blocks_cover_files_once(sizes in prop::collection::vec(0_u64..9_000, 1..9)) {
        let layout = Layout::new(sizes.iter().copied(), 1024).expect("within limits");
        let mut covered = vec![0; sizes.len()];
        for block in 0..layout.blocks() {
            let place = layout.place(block).expect("in range");
            prop_assert_eq!(place.offset, covered[place.file]);
            covered[place.file] += place.bytes as u64;
            prop_assert!(layout.blocks_of(place.file).contains(&block));
        }
        prop_assert_eq!(covered, sizes);
        prop_assert_eq!(layout.place(layout.blocks()), None);
    }

    #[test]
    fn any_bytes_are_manifest_or_error(there in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(manifest) = Manifest::decode(&there) {
            let mut again = Vec::new();
            manifest.encode(&mut again);
            prop_assert_eq!(Manifest::decode(&again), Ok(manifest));
        }
    }
}

#[test]
fn manifest_round_trips_and_id_ignores_block() {
    let (a, b) = (bytes(10_000, 1), bytes(1, 2));
    let files: [(&str, &[u8]); 3] = [("a", &a), ("empty", b""), ("b", &b)];
    let small = manifest_of(&files, 1024);
    let mut out = Vec::new();
    small.encode(&mut out);
    assert_eq!(Manifest::decode(&out), Ok(small.clone()));
    assert_eq!(small.id(), manifest_of(&files, 4096).id());
    assert_ne!(small.id(), manifest_of(&files[..2], 1024).id());
}

#[test]
fn path_names_are_rejected() {
    for bad in [
        &b""[..],
        b".",
        b"..",
        b"a/b",
        b"../x",
        b"/etc/passwd",
        b"a\0",
        &[b'a'; 256],
    ] {
        assert!(FileName::new(bad).is_err(), "{bad:?}");
    }
    for byte in (1..=255).filter(|byte| *byte != b'/' && *byte != b'.') {
        assert!(FileName::new(&[byte]).is_ok(), "{byte}");
    }
    assert!(FileName::new(&[b'a'; 255]).is_ok() && FileName::new(b"...").is_ok());
}

#[test]
fn inconsistent_manifest_is_rejected() {
    let file = bytes(5_000, 1);
    let good = manifest_of(&[("a", &file)], 1024);
    let with = |files: Vec<File>, hashes| Manifest::new(files, 1024, hashes);
    let (files, mut hashes) = (good.files.clone(), good.hashes.clone());
    assert!(with(files.clone(), hashes.clone()).is_ok());
    let twice = [files.clone(), files.clone()].concat();
    let both = [hashes.clone(), hashes.clone()].concat();
    assert!(matches!(with(twice, both), Err(ManifestError::Twice(_))));
    hashes[2][0] ^= 1;
    assert!(matches!(
        with(files.clone(), hashes.clone()),
        Err(ManifestError::Tree(_))
    ));
    hashes.pop();
    assert!(matches!(
        with(files.clone(), hashes),
        Err(ManifestError::Hashes { .. })
    ));
    assert_eq!(with(Vec::new(), Vec::new()), Err(ManifestError::Files(0)));
    assert_eq!(
        Manifest::new(files, 1000, good.hashes),
        Err(ManifestError::Block(1000))
    );
    let most = Layout::new([1 << 40].into_iter(), TRANSFER_BLOCK_BYTES_MAX as u64);
    assert!(most.is_ok_and(|layout| layout.blocks() as usize == TRANSFER_BLOCKS_MAX));
    let more = Layout::new([u64::MAX, u64::MAX].into_iter(), 1024);
    assert!(matches!(more, Err(ManifestError::TooLarge { .. })));
}

#[test]
fn id_covers_mode_but_not_time() {
    let plain = manifest_of(&[("a", b"x")], 1024);
    let with = |change: fn(&mut File)| {
        let mut file = plain.files()[0].clone();
        change(&mut file);
        Manifest::new(vec![file], 1024, Vec::new()).expect("is valid")
    };
    let wider = with(|file| file.mode = Mode::of(0o755));
    let later = with(|file| file.changed = i64::MIN);
    assert_ne!(plain.id(), wider.id());
    assert_eq!(plain.id(), later.id());
    for manifest in [wider, later] {
        let mut out = Vec::new();
        manifest.encode(&mut out);
        assert_eq!(Manifest::decode(&out), Ok(manifest));
    }
}

#[test]
fn special_mode_bits_are_dropped_and_rejected() {
    assert_eq!(Mode::of(0o107_755).bits(), 0o755);
    let mut out = Vec::new();
    manifest_of(&[("a", b"x")], 1024).encode(&mut out);
    // Version, block size, number of files, the name with its length, the size.
    let at = 6;
    assert_eq!(out[at..at + 2], [1, 0o244]);
    out[at] = 0o4755_u16.to_be_bytes()[0];
    let refused = Manifest::decode(&out);
    assert!(
        matches!(
            refused,
            Err(ManifestError::Wire(WireError::TooLarge {
                what: "mode",
                ..
            }))
        ),
        "{refused:?}"
    );
}
