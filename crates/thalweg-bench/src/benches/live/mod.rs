//! BM-L1 to BM-L4: live data over a line that carries less than all of it, ours beside TCP, SRT and plain QUIC.
//!
//! *The idea.* Paceline's experiments. A sender and a receiver, each a process in a network namespace of its own, and
//! between them the testbed's line: a rate, a delay and a drop-tail queue. A [`schedule::Schedule`] says which ADU is due
//! when; a [`sides::Side`] carries it in its way; the receiver writes down when each was whole. Both processes read the
//! machine's one clock, so what an ADU took is a subtraction: from the moment at which it was due, whatever held it up,
//! to the moment at which its last byte was handed over. Everything else is reckoned from that recording.
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
//! | `condition`, `schedule`, `videos` | the line; what is due when; the eight videos and how they look |
//! | `play`, `process`, `recording` | one side over one line; its two processes; what came when |
//! | `recorded` | all sides over all lines, played once for both BM-L1 and BM-L2 |
//! | `end` | what this program is in those processes |
//! | `sides` | who carries: one file a transport |
//!
//! *What it does not do.* It gives no side what an ordinary program would not have, and says in `sides` how each is set.
//!
//! *Sources.* spec §3(b), figures 5 and 6; PL-15 to PL-24; docs/benchmarks.md.

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

pub(crate) use play::{lay, outlast_taking_down, prepare};
