//! What became of a stream's ADUs on a node and on those behind it: the message that a node sends towards the source.
//!
//! *The idea.* Counters since the part was installed, not changes: so a report that is lost, or comes twice, or late, does
//! no harm. Only counters that have grown are written, each as a byte that says what is counted and a varint.
//!
//! *What it does not do.* It believes nothing: [`crate::ledger`] compares what is said with what was sent.
//!
//! *Sources.* docs/protocol.md §4.3.

use alloc::vec::Vec;

use super::{Reader, WireError, Write};
use crate::adu::Mark;
use crate::id::{Epoch, StreamId};
use crate::limits::{LEDGER_ENTRIES_MAX, PATH_NODES_MAX};
use crate::time::Instant;

/// In the byte of a distance: when the node began to count does not follow.
const SINCE_AS_BEFORE: u8 = 1 << 7;

/// Milliseconds of the clock of whoever says something, as far as they fit beside a mark: 14 bits, so they begin anew every 16 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made(u16);

/// What became of the ADUs of one plan, as the nodes from here to the sink say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Which stream.
    pub stream: StreamId,
    /// Which plan.
    pub epoch: Epoch,
    /// The mark that still comes at the sender, of which this says nothing; none if it tells of all.
    pub open: Mark,
    /// When this was said, on the sender's clock: so that one that QUIC had to repeat is not taken for new.
    pub made: Made,
    /// What nodes say, the sender first.
    pub statements: Vec<Statement>,
}

/// What one node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// How many hops it is behind the sender; 0 is the sender itself.
    pub distance: u8,
    /// When it began to count, above 0; whoever begins anew has a larger number, and counts from zero. `None` if it is as said
    /// on this link before.
    pub since: Option<u64>,
    /// Its counters that have grown, by rising `what`.
    pub entries: Vec<Entry>,
}

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What is counted; see [`crate::ledger::What`].
    pub what: u8,
    /// How many.
    pub count: u64,
}

impl Made {
    const BITS: u32 = 14;
    const MASK: u16 = (1 << Self::BITS) - 1;

    /// Returns what an instant is.
    pub const fn at(now: Instant) -> Self {
        Self::from_bits(((now.as_nanos() / 1_000_000) & Self::MASK as u64) as u16)
    }

    /// Returns what these bits say, without those above.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & Self::MASK)
    }

    /// Returns how far it is from another, as a time of its own.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self::from_bits(self.0.wrapping_sub(other.0))
    }

    /// Returns the stamp so many milliseconds later.
    #[must_use]
    pub const fn plus(self, millis: i16) -> Self {
        Self::from_bits(self.0.wrapping_add_signed(millis))
    }

    /// Returns by how many milliseconds it is than another; below zero if it is earlier, and always within 8.2 s.
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
