//! Collects the results of `cargo test`: counts, and each failed test with its output.
//!
//! A run prints thousands of lines, of which CI may keep only the last. The names of the failed tests
//! and the first lines of each are therefore repeated at the end. A test that failed in the full run
//! and passed alone is **unsteady**: it does not fail the run, since the machine may have been busy,
//! but it is a defect of the test or of the code, and is reported as one.

use std::collections::BTreeMap;
use std::fmt;

/// How many lines of a failure are repeated.
const WORDS_MAX: usize = 6;

/// Numbers of passed and failed tests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// Passed.
    pub passed: u64,
    /// Failed.
    pub failed: u64,
}

impl Counts {
    /// Adds the counts of a line such as `test result: ok. 3 passed; 0 failed; …`; ignores other lines.
    pub fn add(&mut self, line: &str) {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            return;
        };
        for part in counts.split(';') {
            match part.trim().split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// The results of a test run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// The final counts.
    pub counts: Counts,
    /// The failed tests by name, each with the first lines of its output.
    pub failures: BTreeMap<String, Vec<String>>,
    /// The tests that failed in the full run and passed alone.
    pub unsteady: BTreeMap<String, Vec<String>>,
    /// The test whose output is being read.
    open: Option<String>,
}

impl Results {
    /// Reads the next line.
    pub fn add(&mut self, line: &str) {
        self.counts.add(line);
        let failed = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"));
        let begun = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = failed {
            self.failures.entry(name.to_owned()).or_default();
        } else if let Some(name) = begun {
            self.open = Some(name.to_owned());
        } else if ["failures:", "stack backtrace:"].contains(&line) {
            self.open = None;
        } else if let Some(words) = self
            .open
            .as_ref()
            .and_then(|name| self.failures.get_mut(name))
            && words.len() < WORDS_MAX
            && !line.is_empty()
        {
            words.push(line.to_owned());
        }
    }

    /// Adds the results of the failed tests' second run, alone.
    pub fn add_second(&mut self, second: &Self) {
        let passed = |name: &str| !second.failures.contains_key(name);
        // A test that did not run again has not passed.
        if second.counts.passed + second.counts.failed < self.counts.failed {
            return;
        }
        let names: Vec<String> = self.failures.keys().cloned().collect();
        for name in names.into_iter().filter(|name| passed(name)) {
            if let Some(words) = self.failures.remove(&name) {
                self.unsteady.insert(name, words);
            }
        }
        self.counts.passed += self.counts.failed - second.counts.failed;
        self.counts.failed = second.counts.failed;
    }
}

impl fmt::Display for Results {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, tests) in [
            ("failed", &self.failures),
            (
                "UNSTEADY: failed in the full run, passed alone",
                &self.unsteady,
            ),
        ] {
            for (name, words) in tests {
                writeln!(f, "{name}: {what}")?;
                for line in words {
                    writeln!(f, "    {line}")?;
                }
            }
        }
        let Counts { passed, failed } = self.counts;
        write!(f, "{passed} passed, {failed} failed")?;
        match self.unsteady.len() {
            0 => Ok(()),
            unsteady => write!(f, ", {unsteady} of them unsteady"),
        }
    }
}
