//! Room on the disk for what the steps build, looked for before the first of them.
//!
//! *The idea.* A disk that becomes full in the middle fails one step after the other, each with words of its own. So what is
//! free is compared with what is needed first; where it is short, what only makes the next build quicker goes, and only then a person is asked.
//!
//! *What it does not do.* It looks for nothing outside the target folder and the cache folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cargo::Shared;
use crate::{Failure, place};

const GIB: u64 = 1 << 30;

/// What all steps write where nothing is built yet: 17 GB were seen after many runs, without what incremental builds keep.
const WHOLE: u64 = 20 * GIB;

/// What they may add where all is built already: mostly it is written over.
const NEEDED_AGAIN: u64 = 3 * GIB;

/// Fails if the disk lacks room for what the steps build, and nothing of theirs that may go makes it.
pub fn look(_: &mut Shared) -> Result<(), Failure> {
    let target = target()?;
    // A folder that is yet to be made lies on the disk of the nearest one that there is.
    let there = target.ancestors().find(|folder| folder.is_dir());
    let disk = there.unwrap_or(Path::new("/"));
    let built = size(&target) + size(&place::cache()?.join("fuzz/target"));
    let needed = WHOLE.saturating_sub(built).max(NEEDED_AGAIN);
    let mut free = free(disk)?;
    for folder in leftovers(&target)? {
        if free >= needed {
            break;
        }
        if folder.is_dir() {
            println!(
                "removing {}, for the disk is nearly full; it is built again when it is needed",
                folder.display()
            );
            fs::remove_dir_all(&folder)
                .map_err(|error| place::failed("cannot remove", &folder, &error))?;
            free = self::free(disk)?;
        }
    }
    let sentence = format!(
        "{} GiB are free where {} lies; what the steps build takes up to {}",
        free / GIB,
        target.display(),
        needed / GIB
    );
    if free < needed {
        return Err(Failure::Broken(format!(
            "{sentence}: make room there, or set CARGO_TARGET_DIR to a folder on another disk"
        )));
    }
    println!("{sentence}");
    Ok(())
}

/// What may go, the cheapest to build again first.
fn leftovers(target: &Path) -> Result<[PathBuf; 4], Failure> {
    Ok([
        target.join("debug/incremental"),
        target.join("release/incremental"),
        target.join("doc"),
        place::cache()?.join("fuzz/target"),
    ])
}

/// Returns the folder that cargo builds into.
fn target() -> Result<PathBuf, Failure> {
    let known = place::metadata()?;
    let folder = known["target_directory"].as_str().unwrap_or("target");
    Ok(PathBuf::from(folder))
}

/// Returns the bytes that a folder takes on its disk; none, if it is not there or nothing can be said of it.
fn size(folder: &Path) -> u64 {
    // What `du` may not read, or what goes while it looks, makes it fail, and the sum is good enough all the same.
    let said = Command::new("du").arg("-sk").arg(folder).output();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let kib = said
        .ok()
        .and_then(|said| said.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// Returns the bytes that are free on the disk of a folder.
fn free(folder: &Path) -> Result<u64, Failure> {
    let mut df = Command::new("df");
    let said = place::output(df.args(["-P", "-k"]).arg(folder))?;
    available(&said).ok_or_else(|| {
        Failure::Broken(format!(
            "`df -P -k {}` says nothing of what is free:\n{said}",
            folder.display()
        ))
    })
}

/// Reads the bytes that are free from what POSIX has `df -P -k` print: a heading, then a line of which the fourth word is KiB.
pub(super) fn available(said: &str) -> Option<u64> {
    let kib: u64 = said
        .lines()
        .nth(1)?
        .split_whitespace()
        .nth(3)?
        .parse()
        .ok()?;
    kib.checked_mul(1024)
}
