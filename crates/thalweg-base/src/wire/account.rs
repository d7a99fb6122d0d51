//! A node's report of what became of a stream's ADUs, on the node and behind it; sent towards the
//! source.
//!
//! *The idea.* Counters since the part was installed, and no differences: so a report that is lost,
//! duplicated or late does no harm. Only counters that have grown are encoded, each as a byte that
//! says what is counted and a varint.
//!
//! *What it does not do.* It trusts nothing: `thalweg_control::ledger` compares reports with what was sent.
//!
//! *Sources.* docs/reference/protocol.md §4.3.

use alloc::vec::Vec;

use super::{Reader, WireError, Write};
use crate::adu::Mark;
use crate::id::{Epoch, StreamId};
use crate::limits::{LEDGER_ENTRIES_MAX, PATH_NODES_MAX};
use crate::time::Instant;

/// Bit in the byte of a distance: `since` is as before and omitted.
const SINCE_AS_BEFORE: u8 = 1 << 7;

/// Milliseconds of the sender's clock, as many bits as fit beside a mark: 14, so they wrap every 16 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made(u16);

/// What became of the ADUs of one plan, as reported by the nodes from here to the sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The stream.
    pub stream: StreamId,
    /// The epoch of the plan.
    pub epoch: Epoch,
    /// The mark still arriving at the sender, of which this reports nothing; none if it reports all.
    pub open: Mark,
    /// When the report was made, on the sender's clock, so that a report that QUIC retransmitted is
    /// not taken for new.
    pub made: Made,
    /// The nodes' statements, the sender's first.
    pub statements: Vec<Statement>,
}

/// The statement of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Hops behind the sender; 0 is the sender itself.
    pub distance: u8,
    /// When the node began to count, above 0. A node that restarts counts from zero with a larger
    /// number. `None` if it is the same as in the last report on this link.
    pub since: Option<u64>,
    /// The node's counters that have grown, in ascending order of `what`.
    pub entries: Vec<Entry>,
}

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is counted; see `thalweg_control::ledger::What`.
    pub what: u8,
    /// The count.
    pub count: u64,
}

impl Made {
    const BITS: u32 = 14;
    const MASK: u16 = (1 << Self::BITS) - 1;

    /// Returns the stamp of an instant.
    pub const fn at(now: Instant) -> Self {
        Self::from_bits(((now.as_nanos() / 1_000_000) & Self::MASK as u64) as u16)
    }

    /// Returns the stamp of these bits; higher bits are ignored.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & Self::MASK)
    }

    /// Returns the difference to another stamp, modulo 16 s.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self::from_bits(self.0.wrapping_sub(other.0))
    }

    /// Returns the stamp this many milliseconds later.
    #[must_use]
    pub const fn plus(self, millis: i16) -> Self {
        Self::from_bits(self.0.wrapping_add_signed(millis))
    }

    /// Returns how many milliseconds it is after another; negative if it is earlier, and always
    /// within 8.2 s.
    pub const fn since(self, other: Self) -> i16 {
        let ahead = self.less(other).0;
        // The upper half of the circle lies before.
        let shift = u16::BITS - Self::BITS;
        (ahead << shift).cast_signed() >> shift
    }
}

pub(super) fn encode(report: &Report, out: &mut Vec<u8>) {
    assert!(
        report.statements.len() < PATH_NODES_MAX,
        "statements above the limit"
    );
    out.extend_from_slice(&report.stream.0.to_be_bytes());
    out.varint(u64::from(report.epoch.0));
    // The mark takes the two bits above the time.
    let open = (report.open.index() as u16) << Made::BITS;
    out.extend_from_slice(&(open | report.made.0).to_be_bytes());
    out.varint(report.statements.len() as u64);
    for statement in &report.statements {
        match statement.since {
            Some(since) => {
                out.push(statement.distance);
                out.varint(since);
            }
            None => out.push(statement.distance | SINCE_AS_BEFORE),
        }
        out.varint(statement.entries.len() as u64);
        for entry in &statement.entries {
            out.push(entry.what);
            out.varint(entry.count);
        }
    }
}

pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Report, WireError> {
    let stream = StreamId(u64::from_be_bytes(reader.array("stream")?));
    let epoch = Epoch(reader.bounded("epoch", u64::from(u32::MAX))? as u32);
    let said = u16::from_be_bytes(reader.array("stamp")?);
    let count = reader.count("statements", PATH_NODES_MAX - 1)?;
    let mut statements: Vec<Statement> = Vec::with_capacity(count);
    for _ in 0..count {
        let statement = statement(reader)?;
        let is_behind = |before: &Statement| before.distance >= statement.distance;
        if statements.last().is_some_and(is_behind) {
            return Err(WireError::Malformed("distance"));
        }
        statements.push(statement);
    }
    Ok(Report {
        stream,
        epoch,
        open: Mark::from_index((said >> Made::BITS) as u8),
        made: Made::from_bits(said),
        statements,
    })
}

fn statement(reader: &mut Reader<'_>) -> Result<Statement, WireError> {
    let first = reader.byte("distance")?;
    let distance = first & !SINCE_AS_BEFORE;
    if usize::from(distance) >= PATH_NODES_MAX - 1 {
        return Err(WireError::Malformed("distance"));
    }
    let since = match first & SINCE_AS_BEFORE {
        0 => Some(reader.varint("since")?),
        _ => None,
    };
    if since == Some(0) {
        return Err(WireError::Malformed("since"));
    }
    let count = reader.count("entries", LEDGER_ENTRIES_MAX)?;
    let mut entries: Vec<Entry> = Vec::with_capacity(count);
    for _ in 0..count {
        let what = reader.byte("what")?;
        if entries.last().is_some_and(|before| before.what >= what) {
            return Err(WireError::Malformed("what"));
        }
        let count = reader.varint("count")?;
        entries.push(Entry { what, count });
    }
    Ok(Statement {
        distance,
        since,
        entries,
    })
}
