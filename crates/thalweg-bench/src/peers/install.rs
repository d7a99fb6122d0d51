//! Finds a peer's programs and their versions, and installs missing ones.
//!
//! Programs are built or downloaded into the cache folder, never the clone, so that it is done once. A
//! program there precedes one on the PATH, because its version is the tried one. Packages are fetched
//! by the registries' own clients. Nothing is installed unless requested; for every missing program the
//! advice names the command.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

/// A program, or a Python package that a script of ours imports.
#[derive(Debug)]
pub(crate) struct Program {
    /// Its name on the PATH, or for `pip`.
    pub(crate) name: &'static str,
    pub(crate) package: Package,
    /// The flag that makes it print its version.
    pub(crate) version_flag: &'static str,
}

/// Where a program comes from.
#[derive(Debug)]
pub(crate) enum Package {
    /// A package of Debian.
    Debian(&'static str),
    /// A crate with programs, at the tried version.
    Crate {
        name: &'static str,
        version: &'static str,
        flags: &'static [&'static str],
    },
    /// A Python package at the tried version, in a separate environment.
    Python { version: &'static str },
    /// A program in a Python package, at the tried version, in the same environment.
    Wheel {
        name: &'static str,
        version: &'static str,
    },
    /// No registry has it.
    Unpackaged,
}

/// An installed program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The program; for a Python package, the interpreter that has it.
    pub(crate) path: PathBuf,
    /// Its own statement of its version.
    pub(crate) version: String,
}

impl Program {
    /// Finds it, in the cache first; a program that does not run counts as missing.
    pub(crate) fn find(&self) -> Option<Found> {
        let cache = cache().ok();
        if let Package::Python { .. } = self.package {
            let path = python(&cache?);
            let code = format!(
                "import importlib.metadata as m; print(m.version('{}'))",
                self.name
            );
            let version = version(Command::new(&path).args(["-c", &code]))?;
            return Some(Found { path, version });
        }
        let cached = cache.map(|cache| match self.package {
            Package::Wheel { .. } => python(&cache).with_file_name(self.name),
            _ => cache.join("bin").join(self.name),
        });
        let cached = cached.filter(|path| path.is_file());
        let path = cached.or_else(|| on_path(self.name))?;
        let version = version(Command::new(&path).arg(self.version_flag))?;
        Some(Found { path, version })
    }

    /// Returns how to install it, for a sentence: a command between backticks, or a manual step.
    pub(crate) fn advice(&self) -> String {
        match &self.package {
            Package::Debian(name) => format!("`apt-get install {name}`"),
            Package::Crate {
                name,
                version,
                flags,
            } => {
                let words = ["cargo install", name, "--version", version];
                format!("`{}`", [&words, *flags].concat().join(" "))
            }
            Package::Python { version } => format!("`pip install {}=={version}`", self.name),
            Package::Wheel { name, version } => format!("`pip install {name}=={version}`"),
            Package::Unpackaged => format!("no package: put `{}` on the PATH", self.name),
        }
    }

    /// Installs it; this may take a quarter of an hour and prints its output.
    pub(crate) fn install(&self) -> anyhow::Result<()> {
        let advice = self.advice();
        match &self.package {
            Package::Debian(name) => {
                ensure!(
                    is_root(),
                    "{} needs root to be installed: {advice}",
                    self.name
                );
                eprintln!("thalweg-bench: {advice}");
                run(Command::new("apt-get").args(["install", "--yes", name]))
            }
            Package::Crate {
                name,
                version,
                flags,
            } => {
                let cache = cache()?;
                let folder = cache.display();
                eprintln!("thalweg-bench: {advice} (10 to 15 minutes, once, into {folder})");
                std::fs::create_dir_all(&cache)?;
                let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
                run(Command::new(cargo)
                    .args(["install", name, "--version", version])
                    .args(*flags)
                    .arg("--root")
                    .arg(&cache)
                    // Outside the workspace, so that none of its settings apply.
                    .current_dir(&cache)
                    .env("CARGO_TARGET_DIR", cache.join("build")))
            }
            Package::Python { version } => pip(self.name, version, &advice),
            Package::Wheel { name, version } => pip(name, version, &advice),
            Package::Unpackaged => bail!("{} cannot be installed: {advice}", self.name),
        }
    }
}

/// Installs a Python package into the environment, which is created if necessary.
fn pip(name: &str, version: &str, advice: &str) -> anyhow::Result<()> {
    let cache = cache()?;
    let python = python(&cache);
    if !python.is_file() {
        let folder = environment(&cache);
        eprintln!("thalweg-bench: python3 -m venv {}", folder.display());
        run(Command::new("python3").args(["-m", "venv"]).arg(folder))?;
    }
    eprintln!("thalweg-bench: {advice}");
    run(Command::new(python)
        .args(["-m", "pip", "install", "--quiet"])
        .args(["--disable-pip-version-check", "--only-binary=:all:"])
        .arg(format!("{name}=={version}")))
}

/// Returns the file of a program on the PATH.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
    files.find(|file| file.is_file())
}

/// Returns the first version in a program's output: three numbers or more with dots between.
pub(super) fn version_in(said: &str) -> Option<String> {
    let words = said.split_whitespace().map(|word| {
        let word = word.strip_prefix('v').unwrap_or(word);
        word.trim_end_matches([',', ';', ')'])
    });
    let is_version = |word: &&str| {
        let mut parts = word.split(['.', '+', '-']);
        let numbers = parts.by_ref().take(3).map(str::parse::<u32>);
        numbers.flatten().count() == 3
    };
    words.into_iter().find(is_version).map(str::to_owned)
}

fn version(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let said = [output.stdout, output.stderr].concat();
    version_in(&String::from_utf8_lossy(&said))
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = Path::new(command.get_program()).display().to_string();
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr());
    let status = status
        .status()
        .with_context(|| format!("`{name}` did not start"))?;
    ensure!(status.success(), "`{name}` failed ({status})");
    Ok(())
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Returns the folder of installed peers: `peers` in the cache folder that the repository's tasks use too.
fn cache() -> anyhow::Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))
        .context(
            "neither XDG_CACHE_HOME nor HOME is set: set one; it is where peers are installed",
        )?;
    Ok(base.join("thalweg").join("peers"))
}

fn environment(cache: &Path) -> PathBuf {
    cache.join("clients")
}

fn python(cache: &Path) -> PathBuf {
    environment(cache).join("bin").join("python")
}
