//! Where a peer's programs are, which version, and how one that is missing is installed.
//!
//! *The idea.* What is built or downloaded lies under the cache folder, never in the clone, so that it is done once. A
//! program there comes before one on the PATH, for its version is the one that was tried. Packages are named to the
//! clients of their registries, which know where those are.
//!
//! *What it does not do.* It installs nothing unless asked, and says for everything that is missing what would bring it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail, ensure};

/// A program, or a Python package that a script of ours imports.
#[derive(Debug)]
pub(crate) struct Program {
    /// What it is called on the PATH, or to `pip`.
    pub(crate) name: &'static str,
    pub(crate) package: Package,
    /// What makes it say its version.
    pub(crate) version_flag: &'static str,
}

/// Where a program comes from.
#[derive(Debug)]
pub(crate) enum Package {
    /// A package of Debian.
    Debian(&'static str),
    /// A crate with programs in it, at the version that was tried.
    Crate {
        name: &'static str,
        version: &'static str,
        flags: &'static [&'static str],
    },
    /// A Python package at the version that was tried, in an environment of its own.
    Python { version: &'static str },
    /// A program in a Python package, at the version that was tried, in the same environment.
    Wheel {
        name: &'static str,
        version: &'static str,
    },
    /// Nowhere that a client could fetch it from.
    Nowhere,
}

/// A program that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The program; of a Python package, the interpreter that has it.
    pub(crate) path: PathBuf,
    /// What it says its version is.
    pub(crate) version: String,
}

impl Program {
    /// Looks for it, in the cache first; one that does not run is not there.
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

    /// Returns what brings it, for a sentence: a command between backticks, or what a person would have to do.
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
            Package::Nowhere => format!("no package: put `{}` on the PATH", self.name),
        }
    }

    /// Installs it, as a step that may take a quarter of an hour and shows what it does.
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
                    // Elsewhere, so that no settings of this workspace apply.
                    .current_dir(&cache)
                    .env("CARGO_TARGET_DIR", cache.join("build")))
            }
            Package::Python { version } => pip(self.name, version, &advice),
            Package::Wheel { name, version } => pip(name, version, &advice),
            Package::Nowhere => bail!("{} cannot be installed: {advice}", self.name),
        }
    }
}

/// Installs a Python package into the environment, which is made if there is none.
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

/// Returns the first word of what a program says that is a version: three numbers or more with dots between.
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

/// Returns the folder of what is installed here: `peers` in the cache folder that the house's tasks use too.
fn cache() -> anyhow::Result<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(set("HOME")?).join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME is set: set one, for peers are kept there")?;
    Ok(base.join("thalweg").join("peers"))
}

fn environment(cache: &Path) -> PathBuf {
    cache.join("clients")
}

fn python(cache: &Path) -> PathBuf {
    environment(cache).join("bin").join("python")
}
