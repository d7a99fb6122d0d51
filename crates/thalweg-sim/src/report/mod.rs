//! What became of a world's streams: the one form in which simulator and testbed say it.
//!
//! *The idea.* A [`Tally`] is told of every ADU once when it is sent and once when it ends, and makes a [`StreamReport`]
//! of it. Every ADU ends in exactly one of three ways:
//!
//! | way | meaning |
//! |---|---|
//! | delivered | given to the subscriber; in time if before its deadline |
//! | cancelled | somebody decided that it is not worth carrying on: expired, filtered, a dependant, nobody wants it |
//! | lost | somebody wanted to carry it on and could not: no path, no room, bytes that do not fit |
//!
//! What has not ended when a report is made is `unaccounted`; in the simulator that is a violation.
//!
//! *What it does not do.* It judges nothing: oracles do.
//!
//! *Sources.* docs/simulator.md; the percentiles are nearest-rank.

mod tally;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_core::event::DropCause;

pub use tally::Tally;

/// Who played the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Player {
    /// Virtual time.
    Simulator,
    /// Real processes on this kernel.
    Testbed,
}

/// What became of a world that was played.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The world, as its file is called.
    pub world: String,
    /// By whom.
    pub by: Player,
    /// The seed of the dice.
    pub seed: u64,
    /// How long the world ran, in its own seconds.
    pub seconds: f64,
    /// What names the whole course of a simulation, 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_hash: Option<String>,
    /// One entry for each stream and sink, in the order of the world.
    pub streams: Vec<StreamReport>,
    /// Both directions of each link, in the order of the world.
    pub links: Vec<LinkReport>,
    /// What should never have happened, a sentence each.
    pub violations: Vec<String>,
}

/// What became of a stream on its way to one sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamReport {
    /// The stream.
    pub stream: String,
    /// The node of the subscriber.
    pub sink: String,
    /// ADUs that the producer gave.
    pub sent: u64,
    /// ADUs that the subscriber was given.
    pub delivered: u64,
    /// Of these, before their deadlines.
    pub in_time: u64,
    /// Of these, what was kept until the subscriber came, and is late by design.
    #[serde(default)]
    pub replayed: u64,
    /// ADUs that were not worth carrying on.
    pub cancelled: u64,
    /// ADUs that could not be carried on.
    pub lost: u64,
    /// ADUs whose end is not known.
    pub unaccounted: u64,
    /// Payload bytes that were sent.
    pub bytes_sent: u64,
    /// Payload bytes that were delivered.
    pub bytes_delivered: u64,
    /// Cancelled and lost ADUs, by cause.
    pub by_cause: BTreeMap<String, u64>,
    /// The same by place: the node, or the link as `a->b`; empty where the player cannot tell.
    pub by_hop: BTreeMap<String, BTreeMap<String, u64>>,
    /// By importance, highest first.
    pub by_importance: Vec<ImportanceReport>,
    /// From the moment an ADU was due at its producer to its delivery.
    pub latency_ms: Percentiles,
    /// The quality of what was shown, if the stream is video.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub psnr: Option<PsnrReport>,
}

/// What became of the ADUs of one importance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportanceReport {
    /// Which.
    pub importance: u8,
    /// ADUs that the producer gave.
    pub sent: u64,
    /// ADUs that the subscriber was given.
    pub delivered: u64,
    /// Of these, before their deadlines.
    pub in_time: u64,
    /// Their latency.
    pub latency_ms: Percentiles,
}

/// The quality of what a viewer saw, over all frames sent; a late frame leaves the one before it on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PsnrReport {
    /// Frames sent.
    pub frames: u64,
    /// Frames whose base layer was there in time.
    pub shown: u64,
    /// Luma, the mean of the frames' dB.
    pub y_db: f64,
    /// Cb, likewise.
    pub cb_db: f64,
}

/// What passed one direction of a link, all traffic, headers included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReport {
    /// From this node.
    pub from: String,
    /// To this one.
    pub to: String,
    /// Packets that came out.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets lost by chance or because the link was down.
    pub lost: u64,
    /// Packets that found the queue full.
    pub overflowed: u64,
}

/// Percentiles of latencies in milliseconds, nearest rank; nothing if there was no sample.
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
    /// The longest.
    pub max: Option<f64>,
}

impl StreamReport {
    /// Returns the share of the ADUs sent that were delivered; 1 of none.
    pub fn delivered_share(&self) -> f64 {
        if self.sent == 0 {
            return 1.0;
        }
        self.delivered as f64 / self.sent as f64
    }
}

/// Returns whether an ADU that ended so was not worth carrying on; else it could not be.
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
