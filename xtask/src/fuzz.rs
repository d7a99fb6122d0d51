//! Runs the fuzz targets on the stable toolchain.
//!
//! `cargo-fuzz` is installed once into the cache folder. Coverage instrumentation is a nightly flag;
//! `RUSTC_BOOTSTRAP=1` allows it on stable, for the fuzz build alone. New inputs are stored in the
//! cache. The committed corpus in `fuzz/corpus/TARGET/` is only read, stays small, and is replayed by
//! an ordinary test. The fuzz crate uses the versions of the workspace's lock file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Failure, place};

const CARGO_FUZZ: &str = "cargo-fuzz";
const CARGO_FUZZ_VERSION: &str = "0.13.2";
const SECONDS: u64 = 60;

/// The parsed command line.
struct Options {
    targets: Vec<String>,
    seconds: u64,
    list: bool,
}

/// Runs the requested targets one after another.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let known = targets()?;
    let options = parse(arguments, &known)?;
    if options.list {
        println!("{}", known.join("\n"));
        return Ok(());
    }
    let tools = install()?;
    let lock = place::root().join("fuzz/Cargo.lock");
    fs::copy(place::root().join("Cargo.lock"), &lock)
        .map_err(|error| place::failed("cannot write", &lock, &error))?;
    for target in &options.targets {
        fuzz(target, options.seconds, &tools)?;
    }
    println!(
        "fuzz: {} target(s), {} s each, no failures",
        options.targets.len(),
        options.seconds
    );
    Ok(())
}

fn parse(arguments: &[String], known: &[String]) -> Result<Options, Failure> {
    let mut options = Options {
        targets: Vec::new(),
        seconds: SECONDS,
        list: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => options.list = true,
            "--seconds" => {
                let number = words
                    .next()
                    .and_then(|number| number.parse().ok())
                    .filter(|&number| number > 0);
                let misuse = || Failure::Misuse("`--seconds` needs a whole number above 0".into());
                options.seconds = number.ok_or_else(misuse)?;
            }
            name if known.iter().any(|target| target == name) => {
                options.targets.push(name.to_owned());
            }
            name => {
                let sentence = format!(
                    "there is no fuzz target `{name}`: there are {}",
                    known.join(", ")
                );
                return Err(Failure::Misuse(sentence));
            }
        }
    }
    if options.targets.is_empty() {
        options.targets = known.to_vec();
    }
    Ok(options)
}

/// Returns the names of the files in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>, Failure> {
    let folder = place::root().join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&folder).map_err(|error| place::failed("cannot read", &folder, &error))?;
    let stem = |path: PathBuf| {
        path.file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
    };
    let mut names: Vec<String> = entries
        .filter_map(|entry| stem(entry.ok()?.path()))
        .collect();
    names.sort();
    Ok(names)
}

/// Returns the folder of the cargo-fuzz program; installs it if missing.
fn install() -> Result<PathBuf, Failure> {
    let root = place::cache()?.join(format!("{CARGO_FUZZ}-{CARGO_FUZZ_VERSION}"));
    let program = root.join("bin").join(CARGO_FUZZ);
    if !program.is_file() {
        println!(
            "installing {CARGO_FUZZ} {CARGO_FUZZ_VERSION} into {}",
            root.display()
        );
        let mut cargo = place::cargo();
        cargo.args([
            "install",
            "--quiet",
            "--locked",
            CARGO_FUZZ,
            "--version",
            CARGO_FUZZ_VERSION,
            "--root",
        ]);
        place::output(cargo.arg(&root))?;
    }
    Ok(program)
}

fn fuzz(target: &str, seconds: u64, program: &Path) -> Result<(), Failure> {
    let cache = place::cache()?.join("fuzz");
    let (found, crashes) = (
        cache.join("corpus").join(target),
        cache.join("crashes").join(target),
    );
    for folder in [&found, &crashes] {
        fs::create_dir_all(folder).map_err(|error| place::failed("cannot make", folder, &error))?;
    }
    let mut command = Command::new(program);
    command
        .current_dir(place::root())
        .env("RUSTC_BOOTSTRAP", "1");
    command
        .args(["fuzz", "run", "--target-dir"])
        .arg(cache.join("target"))
        .arg(target);
    // libFuzzer writes new inputs to the first folder, and only reads the others.
    command
        .arg(&found)
        .arg(Path::new("fuzz/corpus").join(target))
        .arg("--");
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg("-print_final_stats=1")
        // Otherwise each input that it keeps prints a line, and there are thousands.
        .arg("-verbosity=0")
        .arg("-timeout=10");
    command.arg(format!("-artifact_prefix={}/", crashes.display()));
    println!("$ RUSTC_BOOTSTRAP=1 {}", place::show(&command));
    let status = command
        .status()
        .map_err(|error| place::failed("cannot run", program, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Broken(format!(
        "`{target}` failed ({status}): if libFuzzer named a file above, copy it to fuzz/corpus/{target}/ under a name that describes the fault; the replay test then covers it"
    )))
}
