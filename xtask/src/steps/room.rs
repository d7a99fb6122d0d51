//! Checks, before the first step, that the disk has space for what the steps build.
//!
//! A disk that fills up during a run makes step after step fail, with unrelated messages. If space is
//! short, build results that only make the next build faster are deleted; if that is not enough, the
//! user is asked to free some. Only the target folder and the cache folder are touched.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cargo::Shared;
use crate::{Failure, place};

const GIB: u64 = 1 << 30;

/// What all steps write if nothing is built yet: 17 GB was measured after many runs, without
/// incremental data.
const NEEDED_FOR_BUILD: u64 = 20 * GIB;

/// What they may add if everything is already built: most of it is overwritten.
const NEEDED_FOR_REBUILD: u64 = 3 * GIB;

/// Fails if the disk lacks the space, even after deleting what may be deleted.
pub fn check(_: &mut Shared) -> Result<(), Failure> {
    let target = target()?;
    // A folder that does not exist yet is on the disk of its nearest existing parent.
    let existing = target.ancestors().find(|folder| folder.is_dir());
    let disk = existing.unwrap_or(Path::new("/"));
    let built = size(&target) + size(&place::cache()?.join("fuzz/target"));
    let needed = NEEDED_FOR_BUILD
        .saturating_sub(built)
        .max(NEEDED_FOR_REBUILD);
    let mut free = free(disk)?;
    for folder in leftovers(&target)? {
        if free >= needed {
            break;
        }
        if folder.is_dir() {
            println!(
                "removing {}, because the disk is nearly full; it is rebuilt when needed",
                folder.display()
            );
            fs::remove_dir_all(&folder)
                .map_err(|error| place::failed("cannot remove", &folder, &error))?;
            free = self::free(disk)?;
        }
    }
    let sentence = format!(
        "{} GiB are free on the disk of {}; the steps need up to {}",
        free / GIB,
        target.display(),
        needed / GIB
    );
    if free < needed {
        return Err(Failure::Broken(format!(
            "{sentence}: free some space, or set CARGO_TARGET_DIR to a folder on another disk"
        )));
    }
    println!("{sentence}");
    Ok(())
}

/// What may be deleted, the cheapest to rebuild first.
fn leftovers(target: &Path) -> Result<[PathBuf; 4], Failure> {
    Ok([
        target.join("debug/incremental"),
        target.join("release/incremental"),
        target.join("doc"),
        place::cache()?.join("fuzz/target"),
    ])
}

/// Returns cargo's target folder.
fn target() -> Result<PathBuf, Failure> {
    let known = place::metadata()?;
    let folder = known["target_directory"].as_str().unwrap_or("target");
    Ok(PathBuf::from(folder))
}

/// Returns the disk usage of a folder; 0 if it is missing or cannot be read.
fn size(folder: &Path) -> u64 {
    // `du` fails for files it may not read or that disappear meanwhile; its sum is good enough.
    let output = Command::new("du").arg("-sk").arg(folder).output();
    let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let kib = output
        .ok()
        .and_then(|output| output.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Returns the free bytes on a folder's disk.
fn free(folder: &Path) -> Result<u64, Failure> {
    let mut df = Command::new("df");
    let output = place::output(df.args(["-P", "-k"]).arg(folder))?;
    available(&output).ok_or_else(|| {
        Failure::Broken(format!(
            "`df -P -k {}` does not give the free space:\n{output}",
            folder.display()
        ))
    })
}

/// Parses the free bytes from the output of `df -P -k` (POSIX): a heading, then a line with KiB as its
/// fourth word.
pub(super) fn available(output: &str) -> Option<u64> {
    let kib: u64 = output
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()?;
    kib.checked_mul(1024)
}
