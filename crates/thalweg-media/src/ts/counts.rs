//! The counters of a reader.
//!
//! The idea: every byte, packet, table and unit that is dropped is counted under its reason, and
//! [`Counts::each`] returns all counters by name, so that no caller can forget one.

/// The counters of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets read, null packets included.
    pub packets: u64,
    /// Bytes skipped in search of packets.
    pub skipped_bytes: u64,
    /// Bytes after the last whole packet.
    pub truncated_bytes: u64,
    /// Arrival times and error correction between packets of 192 and 204 bytes.
    pub framing_bytes: u64,
    /// Number of packets that did not begin where the one before it ended.
    pub sync_losses: u64,
    /// Packets out of sequence by their continuity counter.
    pub continuity_errors: u64,
    /// Packets sent twice.
    pub duplicates: u64,
    /// Packets marked as damaged, or with an impossible adaptation field.
    pub damaged_packets: u64,
    /// Packets without content.
    pub null_packets: u64,
    /// Packets of PIDs with unknown content so far, or in the middle of a unit.
    pub early_packets: u64,
    /// PATs with a wrong CRC or format.
    pub bad_pats: u64,
    /// PMTs with a wrong CRC or format, or that cannot be carried.
    pub bad_pmts: u64,
    /// PMTs of programmes that the PAT does not list.
    pub unlisted_pmts: u64,
    /// PES packets with an impossible header.
    pub bad_units: u64,
    /// Units with a part lost before it was read; they are passed on all the same.
    pub damaged_units: u64,
    /// Units dropped because too much was pending.
    pub discarded_units: u64,
    /// Units with times of another clock than their programme's; they are passed on all the same.
    pub stray_times: u64,
}

impl Counts {
    /// The sum of two.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        for ((_, count), (_, more)) in self.each_mut().into_iter().zip(other.each()) {
            *count += more;
        }
        self
    }

    /// All counts with their names.
    pub fn each(mut self) -> [(&'static str, u64); 17] {
        self.each_mut().map(|(name, count)| (name, *count))
    }

    fn each_mut(&mut self) -> [(&'static str, &mut u64); 17] {
        [
            ("packets", &mut self.packets),
            ("skipped_bytes", &mut self.skipped_bytes),
            ("truncated_bytes", &mut self.truncated_bytes),
            ("framing_bytes", &mut self.framing_bytes),
            ("sync_losses", &mut self.sync_losses),
            ("continuity_errors", &mut self.continuity_errors),
            ("duplicates", &mut self.duplicates),
            ("damaged_packets", &mut self.damaged_packets),
            ("null_packets", &mut self.null_packets),
            ("early_packets", &mut self.early_packets),
            ("bad_pats", &mut self.bad_pats),
            ("bad_pmts", &mut self.bad_pmts),
            ("unlisted_pmts", &mut self.unlisted_pmts),
            ("bad_units", &mut self.bad_units),
            ("damaged_units", &mut self.damaged_units),
            ("discarded_units", &mut self.discarded_units),
            ("stray_times", &mut self.stray_times),
        ]
    }
}
