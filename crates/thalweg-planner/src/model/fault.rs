//! A mistake in a world, and the numbers that are checked everywhere in it.
//!
//! *The idea.* A fault names its key (`link[0].ends[1]`), so that a parser can add the line.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// One mistake in a world.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Fault {
    /// The key, such as `link[0].rate`.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// The faults found so far.
#[derive(Default)]
pub(super) struct Faults(pub(super) Vec<Fault>);

impl Faults {
    pub(super) fn add(&mut self, path: String, message: String) {
        self.0.push(Fault { path, message });
    }

    pub(super) fn check_positive(&mut self, path: String, value: f64) {
        if !(value > 0.0 && value.is_finite()) {
            self.add(path, format!("{value} is not a finite number above 0"));
        }
    }

    pub(super) fn check_not_negative(&mut self, path: String, value: f64) {
        if !(value >= 0.0 && value.is_finite()) {
            self.add(
                path,
                format!("{value} is not a finite number of 0 or above"),
            );
        }
    }
}
