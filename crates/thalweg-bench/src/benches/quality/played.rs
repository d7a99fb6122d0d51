//! Runs the testbed's program on a world and reads its report.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use thalweg_sim::report::Report;

/// A viewer's quality.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quality {
    pub(super) y_db: f64,
    pub(super) cb_db: f64,
    /// The share of the sent frames that were shown in time.
    pub(super) in_time: f64,
}

/// The testbed's program.
pub(super) struct Testbed(PathBuf);

impl Testbed {
    /// Finds the program beside this one.
    pub(super) fn find() -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("thalweg-testbed");
        if !program.is_file() {
            bail!(
                "{} is missing: `cargo xtask bench` builds it",
                program.display()
            );
        }
        Ok(Self(program))
    }

    /// Runs a world and returns its viewer's quality.
    pub(super) fn play(&self, world: &str, seed: u64) -> anyhow::Result<Quality> {
        let file = tempfile::Builder::new().suffix(".toml").tempfile()?;
        std::fs::write(file.path(), world)?;
        let output = Command::new(&self.0)
            .arg(file.path())
            .args(["--json", "--seed", &seed.to_string()])
            .output()
            .with_context(|| format!("cannot start {}", self.0.display()))?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            bail!("the testbed ended with {}: {}", output.status, words.trim());
        }
        quality(&output.stdout)
    }
}

/// Reads the viewer's quality from the testbed's report.
pub(super) fn quality(json: &[u8]) -> anyhow::Result<Quality> {
    let report: Report = serde_json::from_slice(json).context("the testbed's report")?;
    let stream = report.streams.first().context("a report of no stream")?;
    let psnr = stream.psnr.context("a report without quality")?;
    Ok(Quality {
        y_db: psnr.y_db,
        cb_db: psnr.cb_db,
        in_time: psnr.shown as f64 / psnr.frames.max(1) as f64,
    })
}
