//! The results of a world's streams, in the one format of simulator and testbed.
//!
//! A [`Tally`] is notified once when an ADU is sent and once when it ends, and makes a [`StreamReport`]
//! of it. Every ADU ends in exactly one of three ways:
//!
//! | way | meaning |
//! |---|---|
//! | delivered | given to the subscriber; in time if before its deadline |
//! | cancelled | dropped as not worth carrying on: expired, filtered, a dependant, no subscriber |
//! | lost | could not be carried on: no path, no room, bytes that do not fit |
//!
//! An ADU that has not ended when the report is made is `unaccounted`; in the simulator that is a violation.
//!
//! *Sources.* docs/concepts/simulator.md; the percentiles are nearest-rank.

mod tally;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_base::event::DropCause;

pub use tally::Tally;

/// The program that ran the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Player {
    /// Virtual time.
    Simulator,
    /// Real processes on this kernel.
    Testbed,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The world, by the name of its file.
    pub world: String,
    /// The program that ran it.
    pub by: Player,
    /// The seed of the random generators.
    pub seed: u64,
    /// How long the world ran, in world seconds.
    pub seconds: f64,
    /// The hash of a simulation's whole course, 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_hash: Option<String>,
    /// One entry per stream and sink, in the order of the world.
    pub streams: Vec<StreamReport>,
    /// Both directions of each link, in the order of the world.
    pub links: Vec<LinkReport>,
    /// What should never have happened, one sentence each.
    pub violations: Vec<String>,
}

/// The results of a stream at one sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// The stream.
    pub stream: String,
    /// The subscriber's node.
    pub sink: String,
    /// ADUs that the producer gave.
    pub sent: u64,
    /// ADUs that the subscriber received.
    pub delivered: u64,
    /// Of these, received before their deadlines.
    pub in_time: u64,
    /// Of these, kept until the subscriber came, and so late by design.
    #[serde(default)]
    pub replayed: u64,
    /// ADUs that were not worth carrying on.
    pub cancelled: u64,
    /// ADUs that could not be carried on.
    pub lost: u64,
    /// ADUs of unknown fate.
    pub unaccounted: u64,
    /// Payload bytes that were sent.
    pub bytes_sent: u64,
    /// Payload bytes that were delivered.
    pub bytes_delivered: u64,
    /// Cancelled and lost ADUs, by cause.
    pub by_cause: BTreeMap<String, u64>,
    /// The same by place: the node, or the link as `a->b`; empty where the place is unknown.
    pub by_hop: BTreeMap<String, BTreeMap<String, u64>>,
    /// By importance, highest first.
    pub by_importance: Vec<ImportanceReport>,
    /// From the moment an ADU was due at its producer to its delivery.
    pub latency_ms: Percentiles,
    /// The quality of the shown pictures, if the stream is video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psnr: Option<PsnrReport>,
}

/// The results of the ADUs of one importance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportanceReport {
    /// The importance.
    pub importance: u8,
    /// ADUs that the producer gave.
    pub sent: u64,
    /// ADUs that the subscriber received.
    pub delivered: u64,
    /// Of these, received before their deadlines.
    pub in_time: u64,
    /// Their latency.
    pub latency_ms: Percentiles,
}

/// The quality of the shown pictures over all frames sent; a late frame leaves the previous one on the
/// screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PsnrReport {
    /// Frames sent.
    pub frames: u64,
    /// Frames with a base layer in time.
    pub shown: u64,
    /// Luma, the mean of the frames' PSNR in dB.
    pub y_db: f64,
    /// Cb, likewise.
    pub cb_db: f64,
}

/// The traffic of one direction of a link, headers included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// The sending node.
    pub from: String,
    /// The receiving node.
    pub to: String,
    /// Packets that left the line.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets lost at random or because the link was down.
    pub lost: u64,
    /// Packets dropped because the queue was full.
    pub overflowed: u64,
}

/// Percentiles of latencies in milliseconds, nearest rank; `None` without samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// The median.
    pub p50: Option<f64>,
    /// Exceeded by one in ten.
    pub p90: Option<f64>,
    /// Exceeded by one in a hundred.
    pub p99: Option<f64>,
    /// Exceeded by one in a thousand.
    pub p999: Option<f64>,
    /// The maximum.
    pub max: Option<f64>,
}

impl StreamReport {
    /// Returns the share of the sent ADUs that were delivered; 1 if none was sent.
    pub fn delivered_share(&self) -> f64 {
        if self.sent == 0 {
            return 1.0;
        }
        self.delivered as f64 / self.sent as f64
    }
}

/// Returns whether this cause means that the ADU was not worth carrying on; otherwise it could not be
/// carried on.
pub const fn is_cancelled(cause: DropCause) -> bool {
    matches!(
        cause,
        DropCause::Expired
            | DropCause::Filtered
            | DropCause::Dependant
            | DropCause::Cancelled
            | DropCause::NoSubscriber
            | DropCause::Duplicate
    )
}
