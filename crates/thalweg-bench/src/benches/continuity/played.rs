//! A run of a world on the testbed, with its notes and logs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use tempfile::TempDir;
use thalweg_sim::report::Report;
use thalweg_testbed::role::note::{self, Note};

/// The testbed's program.
pub(in crate::benches) struct Testbed(PathBuf);

/// The results of a world with one stream.
pub(in crate::benches) struct Played {
    folder: TempDir,
    report: Report,
}

impl Testbed {
    /// Finds the program beside this one.
    pub(in crate::benches) fn find() -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("thalweg-testbed");
        if !program.is_file() {
            let path = program.display();
            bail!("{path} is missing: `cargo xtask bench` builds it");
        }
        Ok(Self(program))
    }

    /// Runs a world.
    pub(in crate::benches) fn play(&self, world: &str, seed: u64) -> anyhow::Result<Played> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("world.toml");
        std::fs::write(&file, world)?;
        let output = Command::new(&self.0)
            .arg(&file)
            .args(["--json", "--seed", &seed.to_string(), "--logs"])
            .arg(folder.path())
            .output()
            .with_context(|| format!("cannot start {}", self.0.display()))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            bail!(
                "the testbed exited with {}: {}",
                output.status,
                words.trim()
            );
        }
        let report = serde_json::from_slice(&output.stdout).context("the testbed's report")?;
        Ok(Played { folder, report })
    }
}

impl Played {
    /// Returns the testbed's report.
    pub(in crate::benches) const fn report(&self) -> &Report {
        &self.report
    }

    /// Returns the producer's notes.
    pub(in crate::benches) fn given(&self) -> anyhow::Result<Vec<Note>> {
        note::read(&self.folder.path().join("0.0.notes"))
    }

    /// Returns the notes of a sink, by its index in the world.
    pub(in crate::benches) fn received(&self, sink: usize) -> anyhow::Result<Vec<Note>> {
        let name = format!("0.{}.notes", sink + 1);
        note::read(&self.folder.path().join(name))
    }

    /// Returns the log of a node, by its index in the order of names.
    pub(in crate::benches) fn log(&self, node: usize) -> anyhow::Result<String> {
        let log = self.folder.path().join(format!("{node}.log"));
        std::fs::read_to_string(&log).with_context(|| format!("cannot read {}", log.display()))
    }
}
