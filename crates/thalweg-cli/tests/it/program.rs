//! Runs the program and checks its exit code and output.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Returns a command that runs the program in a folder, without inherited variables of ours.
pub fn thalweg(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_thalweg"));
    command
        .current_dir(folder)
        .env_remove("THALWEG_LOG")
        .env_remove("THALWEG_SOCKET")
        .env_remove("XDG_RUNTIME_DIR")
        .stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub fn run<S: AsRef<OsStr>>(folder: &Path, arguments: &[S]) -> Run {
    let output = thalweg(folder).args(arguments).output();
    Run(output.expect("the program was built"))
}

/// The output of a finished run.
pub struct Run(pub Output);

impl Run {
    /// Returns standard output.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.0.stdout).into_owned()
    }

    /// Returns standard error.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.0.stderr).into_owned()
    }

    /// Checks the exit code, and that nothing panicked.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        let err = self.err();
        assert_eq!(
            self.0.status.code(),
            Some(code),
            "stderr: {err}\nstdout: {}",
            self.out()
        );
        assert!(!err.contains("panicked"), "{err}");
        self
    }

    /// Checks that standard error is one sentence of ours with all these parts.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        let err = self.err();
        assert!(err.starts_with("thalweg: "), "{err}");
        assert_eq!(err.trim_end().lines().count(), 1, "{err}");
        for part in parts {
            assert!(err.contains(part), "`{part}` is not in: {err}");
        }
        self
    }
}
