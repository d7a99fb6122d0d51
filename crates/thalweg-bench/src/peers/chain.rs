//! A chain: a source at one relay, a sink behind two more, of which the middle one leaves while another
//! link exists.
//!
//! ```text
//! source ─► first ─► middle ─► last ─► sink      first ═══ last costs more; used without the middle
//! ```
//!
//! There are no slow links: everything is on loopback, where the kernel resets a killed program's TCP
//! connections at once, unlike those of a failed machine.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use super::process::Process;
use super::tree::{Record, listen};

/// Time for a relay to start before the next dials it.
pub(super) const LISTENING: Duration = Duration::from_millis(500);

/// Time for the relays to discover each other.
pub(super) const JOINED: Duration = Duration::from_millis(1_500);

/// Three running relays, a source and a sink.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Dropped first, so that no end reports a relay that is gone.
    ends: [Process; 2],
    middle: Process,
    outer: [Process; 2],
    records: Receiver<Record>,
}

impl Chain {
    /// Takes the started processes: the relays in order, the sink, the source.
    pub(super) fn of(
        [first, middle, last]: [Process; 3],
        mut sink: Process,
        source: Process,
    ) -> anyhow::Result<Self> {
        let records = listen(&mut sink)?;
        Ok(Self {
            ends: [sink, source],
            middle,
            outer: [first, last],
            records,
        })
    }

    /// Ends the middle relay: asked to end, or killed.
    pub(crate) fn stop_relay(&mut self, has_notice: bool) -> anyhow::Result<()> {
        let signal = if has_notice {
            Signal::TERM
        } else {
            Signal::KILL
        };
        let number = i32::try_from(self.middle.id()).ok().and_then(Pid::from_raw);
        kill_process(number.context("a process has a number")?, signal)?;
        Ok(())
    }

    /// Fails if one of the others has ended.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let mut all = self.ends.iter_mut().chain(&mut self.outer);
        all.try_for_each(Process::check)
    }

    /// Returns the new records since the last call.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        self.records.try_iter()
    }
}
