//! Tells the program by which profile it is built, for figures of another than `dist` are not to be reported.
//!
//! *Sources.* Cargo sets `PROFILE` to `debug` or `release` only; the profile's own name is that of
//! the folder in the target folder, and the output folder of this script lies in there.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::env::var("OUT_DIR").unwrap_or_default();
    // …/PROFILE/build/thalweg-bench-HASH/out
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    let name = folder.and_then(|name| name.to_str()).unwrap_or("unknown");
    println!("cargo::rustc-env=THALWEG_PROFILE={name}");
}
