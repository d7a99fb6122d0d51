//! Replays the committed fuzz corpora, so that every ordinary test run covers what a fuzzer once found.

#[path = "../../../fuzz/src/lib.rs"]
mod bodies;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the fuzz crate. Cargo is asked at run time, because clones that share a target folder may share
/// this program.
fn fuzz() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs the tests");
    Path::new(&here).join("../fuzz")
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| entry.expect("the folder can be read on").path())
        .collect()
}

fn names(folder: &str) -> BTreeSet<String> {
    let paths = entries(&fuzz().join(folder)).into_iter();
    paths
        .map(|path| {
            path.file_stem()
                .expect("entries have names")
                .to_string_lossy()
                .into_owned()
        })
        .collect()
}

#[test]
fn corpus_files_decode_or_fail() {
    for (name, run) in bodies::TARGETS {
        let files = entries(&fuzz().join("corpus").join(name));
        assert!(
            !files.is_empty(),
            "fuzz/corpus/{name}/ is empty: put a few valid inputs there"
        );
        for path in files {
            // Shown only if the body panics, to name the input.
            println!("{}", path.display());
            run(&fs::read(&path).expect("a committed file can be read"));
        }
    }
}

#[test]
fn targets_are_complete() {
    let bodies: BTreeSet<String> = bodies::TARGETS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let manifest =
        fs::read_to_string(fuzz().join("Cargo.toml")).expect("the fuzz crate has a manifest");
    let bins = manifest.lines().filter_map(|line| {
        line.strip_prefix("path = \"fuzz_targets/")?
            .strip_suffix(".rs\"")
    });
    assert_eq!(
        names("fuzz_targets"),
        bodies,
        "fuzz/fuzz_targets against TARGETS of fuzz/src/lib.rs"
    );
    assert_eq!(
        bins.map(str::to_owned).collect::<BTreeSet<_>>(),
        bodies,
        "[[bin]] of fuzz/Cargo.toml against TARGETS"
    );
    assert_eq!(
        names("corpus"),
        bodies,
        "fuzz/corpus against TARGETS of fuzz/src/lib.rs"
    );
}
