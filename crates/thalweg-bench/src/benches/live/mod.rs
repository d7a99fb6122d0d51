//! BM-L1 to BM-L4: live data over an overloaded line, ours beside TCP, SRT and plain QUIC.
//!
//! Paceline's experiments. A sender and a receiver are processes in network namespaces with the
//! testbed's line between them: a rate, a delay and a drop-tail queue. A [`schedule::Schedule`] lists
//! which ADU is due when; a [`sides::Side`] carries it; the receiver records when each ADU was whole.
//! Both processes read the machine's one clock, so a latency is a subtraction: from the moment at which
//! the ADU was due, whatever delayed it, to the moment at which its last byte was handed over. All
//! other figures are computed from that recording.
//!
//! ```text
//!  ┌ namespace sender ─────┐   line: rate, delay, queue   ┌ namespace receiver ────┐
//!  │ schedule ─► side.send │═════════════════════════════►│ side.receive ─► arrivals │
//!  └───────────────────────┘◄═════════════════════════════└────────────────────────┘
//! ```
//!
//! | file | what it does |
//! |---|---|
//! | `threshold`, `importance`, `fairness`, `stall` | BM-L1, BM-L2, BM-L3, BM-L4 |
//! | `condition`, `schedule`, `videos` | the line; the ADUs; the eight videos and their quality |
//! | `play`, `process`, `recording` | one side over one line; its two processes; the arrivals |
//! | `recorded` | all sides over all lines, run once for both BM-L1 and BM-L2 |
//! | `end` | this program in those processes |
//! | `sides` | the transports, one file each |
//!
//! No side gets anything that an ordinary program would not have; `sides` documents each side's settings.
//!
//! *Sources.* spec §3(b), figures 5 and 6; PL-15 to PL-24; docs/guides/measure.md.

mod condition;
pub(crate) mod end;
pub(crate) mod fairness;
pub(crate) mod importance;
mod play;
mod process;
mod recorded;
mod recording;
mod schedule;
mod sides;
pub(crate) mod stall;
#[cfg(test)]
mod tests;
pub(crate) mod threshold;
mod videos;

pub(crate) use play::{build_network, prepare, wait_for_removal};
