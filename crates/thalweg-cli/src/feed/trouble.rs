//! What was wrong with a source, in words and as JSON.
//!
//! *The idea.* Every count of the readers (packets, tables, units, RTP, datagrams) that means missing or
//! dropped input has a phrase, which is printed unless the count is zero. The JSON has all counts.

use serde_json::{Value, json};
use thalweg_media::rtp::PortCounts;
use thalweg_media::ts::Counts;

/// What was wrong with the source, over all passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Counts of the transport stream reader.
    pub counts: Counts,
    /// Counts of the UDP port, if the source is one.
    pub port: PortCounts,
    /// Programmes that the PAT lists and whose PMT never came: number and PID of the PMT.
    pub missing_pmts: Vec<(u16, u16)>,
    /// Units dropped because they came before any programme was known.
    pub early_units: u64,
    /// Units dropped because they came before the stream had a subscriber.
    pub unwanted_units: u64,
}

impl Trouble {
    /// Returns one sentence about all that was wrong, or `None`.
    pub fn sentence(&self) -> Option<String> {
        let mut parts: Vec<String> = (self.of_datagrams().into_iter())
            .chain(self.of_packets())
            .chain(self.of_units())
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if self.port.foreign > 0 {
            parts.push(format!(
                "{} RTP packets (payload type {}) carry no MPEG-TS",
                self.port.foreign,
                self.port.foreign_type.unwrap_or_default()
            ));
        }
        parts.extend(self.missing_pmts.iter().map(|(number, pid)| {
            format!("no stream table (PMT, PID {pid:#x}) came for programme {number}")
        }));
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn of_datagrams(&self) -> [(u64, &'static str); 5] {
        let rtp = self.port.rtp;
        [
            (self.port.unknown, "datagrams are neither MPEG-TS nor RTP"),
            (rtp.lost, "RTP packets are missing"),
            (rtp.late, "RTP packets came twice or too late"),
            (rtp.stray, "RTP packets of another source were dropped"),
            (rtp.restarts, "times another RTP source or sequence began"),
        ]
    }

    fn of_packets(&self) -> [(u64, &'static str); 9] {
        let counts = &self.counts;
        [
            (counts.skipped_bytes, "bytes belong to no transport packet"),
            (
                counts.truncated_bytes,
                "bytes after the last whole packet are cut off",
            ),
            (counts.sync_losses, "times packets lost their alignment"),
            (
                counts.continuity_errors + counts.damaged_packets,
                "packets are missing or damaged",
            ),
            (counts.duplicates, "packets came twice"),
            (
                counts.early_packets,
                "packets came before their tables, and were dropped",
            ),
            (
                counts.bad_pats,
                "programme tables (PAT) have a wrong CRC or form",
            ),
            (
                counts.bad_pmts,
                "stream tables (PMT) have a wrong CRC or form",
            ),
            (
                counts.unlisted_pmts,
                "stream tables (PMT) belong to no programme of the PAT",
            ),
        ]
    }

    fn of_units(&self) -> [(u64, &'static str); 6] {
        let counts = &self.counts;
        [
            (
                counts.bad_units,
                "units were dropped: their PES header cannot be read",
            ),
            (
                counts.damaged_units,
                "units are damaged, and were sent without the missing part",
            ),
            (
                counts.discarded_units,
                "units were dropped: an ADU holds at most 8 MiB",
            ),
            (
                counts.stray_times,
                "units have timestamps from another clock than their programme's",
            ),
            (
                self.early_units,
                "units came before any programme table, and were dropped",
            ),
            (
                self.unwanted_units,
                "units came before there was a subscriber, and were dropped",
            ),
        ]
    }

    /// Returns all counts as JSON.
    pub fn json(&self) -> Value {
        let mut all: serde_json::Map<String, Value> = self
            .counts
            .each()
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count.into()))
            .collect();
        all.insert("early_units".into(), self.early_units.into());
        all.insert("unwanted_units".into(), self.unwanted_units.into());
        let missing = self.missing_pmts.iter().map(|(number, _)| *number);
        all.insert("programmes_without_pmt".into(), missing.collect());
        if self.port.datagrams > 0 {
            let rtp = self.port.rtp;
            let port = json!({
                "datagrams": self.port.datagrams,
                "bytes": self.port.bytes,
                "foreign_rtp": self.port.foreign,
                "foreign_rtp_type": self.port.foreign_type,
                "unknown": self.port.unknown,
                "rtcp": self.port.control,
                "rtp": {
                    "packets": rtp.packets,
                    "lost": rtp.lost,
                    "reordered": rtp.reordered,
                    "late": rtp.late,
                    "stray": rtp.stray,
                    "restarts": rtp.restarts,
                },
            });
            all.insert("port".into(), port);
        }
        Value::Object(all)
    }
}
