//! Violations: what must never happen, as sentences with time, node, stream and sequence number.
//!
//! A simulator that only shows averages finds nothing. Each check reports here what no seed may bring
//! about; the run goes on, so that the rest of the trace shows the consequences, and counts as failed.
//!
//! | law | where it is checked |
//! |---|---|
//! | nothing is delivered twice, or with other bytes than were sent | `fate` |
//! | a stream in sequence is delivered in sequence; an ordered hop keeps its order | `fate`, `reference` |
//! | each ADU is delivered or has a cause and a place | `fate`, at the end |
//! | the machine delivers what the simple model predicts, in that order | `reference` |
//! | no plaintext of a confidential stream on an insecure link or an untrusted node | [`Secrecy`] |
//! | a source's ledger is the true fate of its ADUs | [`ledger`], at the end |
//! | a link carries one copy of an ADU, where plans share their prefix | [`recast`], on request |
//! | queues and tables are within `limits` | `host` |
//! | clocks do not go backwards | `host` |

use std::fmt;

use thalweg_base::id::StreamName;
use thalweg_base::time::Instant;
use thalweg_planner::model::NodeName;

pub mod continuity;
pub mod ledger;
pub mod recast;
#[cfg(test)]
mod tests;

/// Violations that are kept; a broken run has thousands of the same.
const VIOLATIONS_MAX: usize = 64;

/// Bytes by which a piece of a payload is recognized; a chance match has probability 2⁻⁶⁴ per piece.
const PIECE_BYTES: usize = 8;

/// Something that must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// When, in world time.
    pub time: Instant,
    /// The node.
    pub node: NodeName,
    /// The stream, if any.
    pub stream: Option<StreamName>,
    /// The ADU's sequence number, if any.
    pub sequence: Option<u64>,
    /// What happened, as the end of a sentence.
    pub what: String,
}

/// The violations of a run.
#[derive(Clone, Debug, Default)]
pub struct Violations {
    kept: Vec<Violation>,
    total: u64,
}

/// Detects payloads in the clear.
#[derive(Clone, Copy, Debug)]
pub struct Secrecy;

impl Violations {
    /// Adds a violation.
    pub fn add(&mut self, violation: Violation) {
        self.total += 1;
        if self.kept.len() < VIOLATIONS_MAX {
            self.kept.push(violation);
        }
    }

    /// Returns how many there were.
    pub const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the first violations as sentences, and one about the rest.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self.kept.iter().map(ToString::to_string).collect();
        let more = self.total - self.kept.len() as u64;
        if more > 0 {
            sentences.push(format!("and {more} more violations"));
        }
        sentences
    }
}

impl Secrecy {
    /// Returns whether bytes on a link hold a piece of a payload that may not be seen.
    ///
    /// Searches the bytes for pieces from the start, the middle and the end of the payload.
    ///
    /// Cost    O(bytes)
    pub fn is_broken(payload: &[u8], bytes: &[u8]) -> bool {
        if payload.len() < PIECE_BYTES {
            // Too short to be distinguished from chance, unless the bytes are exactly the payload.
            return payload.len() >= PIECE_BYTES / 2 && bytes == payload;
        }
        let last = payload.len() - PIECE_BYTES;
        let pieces = [0, last / 2, last].map(|at| &payload[at..at + PIECE_BYTES]);
        bytes
            .windows(PIECE_BYTES)
            .any(|window| pieces.contains(&window))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "at {:.6} s on {}",
            self.time.as_nanos() as f64 / 1e9,
            self.node
        )?;
        if let Some(stream) = &self.stream {
            write!(f, ", stream `{stream}`")?;
        }
        if let Some(sequence) = self.sequence {
            write!(f, ", sequence {sequence}")?;
        }
        write!(f, ": {}", self.what)
    }
}
