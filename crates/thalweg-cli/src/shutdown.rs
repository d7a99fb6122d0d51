//! Ctrl-C and SIGTERM: asked to end, and how a run ends then.
//!
//! *The idea.* A command listens before it starts anything, so that a request is never met by the system's own answer,
//! which would cut it off. The first request ends the run in good order; a second one does not kill a run that is
//! putting things away, which takes seconds at most.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears requests to end; one that comes while nobody waits is kept.
#[derive(Debug)]
pub struct Shutdown {
    interrupt: Signal,
    terminate: Signal,
}

impl Shutdown {
    /// Begins to listen.
    pub fn listen() -> anyhow::Result<Self> {
        let hear = |kind| signal(kind).context("the system does not let this program hear signals");
        Ok(Self {
            interrupt: hear(SignalKind::interrupt())?,
            terminate: hear(SignalKind::terminate())?,
        })
    }

    /// Waits until somebody asks this process to end.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
