//! A chain: a source at one relay, a sink behind two more, of which the middle one leaves while another link is there.
//!
//! ```text
//! source ─► first ─► middle ─► last ─► sink          first ═══ last costs more, and is taken when the middle has gone
//! ```
//!
//! *What it does not do.* It has no slow links: all is on loopback, where a killed program's TCP connections are reset by
//! the kernel at once, as those of a machine that fails are not.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use super::process::Process;
use super::tree::{Record, listen};

/// How long a relay is given before the next dials it.
pub(super) const LISTENING: Duration = Duration::from_millis(500);

/// How long the relays are given until all know of each other.
pub(super) const JOINED: Duration = Duration::from_millis(1_500);

/// Three relays, a source and a sink that run.
#[derive(Debug)]
pub(crate) struct Chain {
    /// Ended first, so that nobody complains of a relay that has gone.
    ends: [Process; 2],
    middle: Process,
    outer: [Process; 2],
    records: Receiver<Record>,
}

impl Chain {
    /// Takes what has been started: the relays in their order, the sink, the source.
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

    /// Lets the middle relay leave: asked to end, or killed.
    pub(crate) fn leave(&mut self, has_notice: bool) -> anyhow::Result<()> {
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

    /// Returns what came since.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record> {
        self.records.try_iter()
    }
}
