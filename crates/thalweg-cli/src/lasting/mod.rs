//! A publisher that survives a restart of its node.
//!
//! *The idea.* A node that is killed or restarted loses what it had not yet sent. It reports how
//! many ADUs of the stream are settled; later ADUs are kept here, up to a bound, and given to the
//! node again when it is back. Meanwhile `send` waits, and so does its caller.
//!
//! ```text
//! send ─► kept ─► node … Settled: removed from kept
//!          └──── node gone ─► connect, publish ─► give kept ADUs again ─► continue
//! ```
//!
//! *What it does not do.* It does not cover a killed publisher: what the publisher had kept is lost
//! with it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use thalweg_node::local::{Client, LocalError, LocalPublisher};
use thalweg_node::{Outgoing, Publication};
use tokio::time::Instant;

use crate::terminal;

#[cfg(test)]
mod tests;

/// Bound of the kept payload: as much as a node lets a publisher have in flight, and some.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// The first and the longest pause between attempts to reconnect.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(2);

/// How long to wait for a stream name that another program uses, or used a moment ago.
const TAKEN_MAX: Duration = Duration::from_secs(5);

/// The pause before the next attempt: doubles from [`RETRY_FIRST`] to [`RETRY_LAST`].
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

/// ADUs that may have to be given to the node again.
#[derive(Debug, Default)]
struct Kept {
    /// Number, in the present stream, of the first kept ADU.
    first: u64,
    adus: VecDeque<Outgoing>,
    bytes: usize,
    /// ADUs dropped for lack of room before they were settled.
    dropped: u64,
}

/// All that is needed to publish the stream again.
struct Origin {
    socket: PathBuf,
    publication: Publication,
    kept: Kept,
    /// Whether the node is gone now.
    is_gone: Arc<AtomicBool>,
    /// Whether giving ADUs again waits for a subscriber.
    waits: bool,
}

/// A publisher that continues when its node is back.
pub struct LastingPublisher {
    origin: Origin,
    publisher: LocalPublisher,
    reconnects: bool,
}

/// The option of the commands that continue when their node is back.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Lasting {
    /// Exit when the node goes away, for scripts. Without it the program waits until the node is
    /// back and continues.
    #[arg(long)]
    pub no_reconnect: bool,
}

impl Backoff {
    /// Starts with the shortest pause.
    pub const fn new() -> Self {
        Self { next: RETRY_FIRST }
    }

    /// Waits until the next attempt.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(RETRY_LAST);
    }
}

/// Returns whether an error means that the node is gone and may come back.
pub const fn is_gone(error: &LocalError) -> bool {
    matches!(error, LocalError::Gone(_) | LocalError::Connect { .. })
}

/// Reports that the node is gone and that attempts to reconnect begin.
pub fn report_gone(socket: &Path, notify: impl Fn(&str)) {
    notify(&format!(
        "the node at {} is gone; reconnecting until it is back (--no-reconnect exits instead)",
        socket.display()
    ));
}

/// Reports that the node is back.
pub fn report_back(socket: &Path, notify: impl Fn(&str)) {
    notify(&format!("the node at {} is back", socket.display()));
}

/// Reports that ADUs are lost with the node that had them.
fn report_lost(adus: usize) {
    if adus > 0 {
        terminal::print_notice(&format!(
            "{adus} ADUs that the node may not have sent on are lost with it"
        ));
    }
}

impl LastingPublisher {
    /// Publishes a stream; waits up to [`TAKEN_MAX`] for a name that is in use. `waits`: after a
    /// restart of the node, wait for a subscriber before giving ADUs again.
    pub async fn publish(
        socket: PathBuf,
        publication: Publication,
        lasting: Lasting,
        waits: bool,
    ) -> Result<Self, LocalError> {
        let publisher = publish(&socket, &publication).await?;
        let origin = Origin {
            socket,
            publication,
            kept: Kept::default(),
            is_gone: Arc::default(),
            waits,
        };
        Ok(Self {
            origin,
            publisher,
            reconnects: !lasting.no_reconnect,
        })
    }

    /// Returns whether the stream has a subscriber now.
    pub fn is_wanted(&self) -> bool {
        self.publisher.is_wanted()
    }

    /// Waits until the stream has a subscriber, across restarts of the node.
    pub async fn wanted(&mut self) -> Result<(), LocalError> {
        while let Err(error) = self.publisher.wanted().await {
            self.reconnect_after(error).await?;
        }
        Ok(())
    }

    /// Waits until the node is gone or accepts no more; returns why.
    pub async fn gone(&mut self) -> LocalError {
        self.publisher.gone().await
    }

    /// Gives an ADU to the node, across restarts of the node.
    pub async fn send(&mut self, outgoing: Outgoing) -> Result<(), LocalError> {
        let kept = &mut self.origin.kept;
        kept.settle(self.publisher.settled());
        let outgoing = kept.push(outgoing);
        match self.publisher.send(outgoing).await {
            Ok(_) => Ok(()),
            Err(error) => self.reconnect_after(error).await,
        }
    }

    /// Returns whether the node is gone, as it changes.
    pub fn node_gone_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.origin.is_gone)
    }

    /// Stops waiting for a node that is gone: its user wants to end.
    pub const fn stop_reconnecting(&mut self) {
        self.reconnects = false;
    }

    /// Ends the stream, across restarts of the node, and returns the node's summary; after a
    /// restart it covers the time since then.
    pub async fn finish(mut self) -> Result<Value, LocalError> {
        loop {
            self.origin.kept.settle(self.publisher.settled());
            match self.publisher.finish().await {
                Err(error) if is_gone(&error) && self.reconnects => {}
                Err(error) if is_gone(&error) => {
                    report_lost(self.origin.kept.adus.len());
                    return Err(error);
                }
                finished => return finished,
            }
            self.publisher = self.origin.reconnect().await?;
        }
    }

    /// Reconnects and continues after the node was lost; returns any other error.
    pub async fn reconnect_after(&mut self, error: LocalError) -> Result<(), LocalError> {
        if !is_gone(&error) || !self.reconnects {
            return Err(error);
        }
        self.origin.kept.settle(self.publisher.settled());
        self.publisher = self.origin.reconnect().await?;
        Ok(())
    }
}

impl Origin {
    /// Publishes again when the node is back, and gives it the kept ADUs.
    async fn reconnect(&mut self) -> Result<LocalPublisher, LocalError> {
        report_gone(&self.socket, terminal::print_notice);
        self.is_gone.store(true, Ordering::Relaxed);
        let mut backoff = Backoff::new();
        loop {
            backoff.wait().await;
            match self.try_reconnect().await {
                Ok(publisher) => return Ok(publisher),
                Err(error) if is_gone(&error) => tracing::debug!(%error, "not back"),
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_reconnect(&mut self) -> Result<LocalPublisher, LocalError> {
        let mut publisher = publish(&self.socket, &self.publication).await?;
        let (adus, dropped) = (self.kept.adus.len(), self.kept.dropped);
        report_back(&self.socket, terminal::print_notice);
        self.is_gone.store(false, Ordering::Relaxed);
        if adus > 0 {
            terminal::print_notice(&format!(
                "sending {adus} ADUs again that it may not have sent on"
            ));
        }
        if dropped > 0 {
            terminal::print_notice(&format!(
                "{dropped} more are lost: there was no room to keep them"
            ));
        }
        if self.waits {
            publisher.wanted().await?;
        }
        for outgoing in self.kept.renumber() {
            publisher.send(outgoing).await?;
        }
        Ok(publisher)
    }
}

impl Kept {
    /// Keeps the next ADU; returns it as it is to be sent in the present stream.
    fn push(&mut self, outgoing: Outgoing) -> Outgoing {
        let outgoing = renumbered(outgoing, self.first + self.adus.len() as u64);
        self.bytes += outgoing.payload.len();
        self.adus.push_back(outgoing.clone());
        while self.bytes > KEPT_BYTES_MAX && self.adus.len() > 1 {
            self.dropped += 1;
            self.pop();
        }
        outgoing
    }

    /// Removes the ADUs below number `settled` of the present stream.
    fn settle(&mut self, settled: u64) {
        while self.first < settled && !self.adus.is_empty() {
            self.pop();
        }
        // An ADU that was dropped but settled later is not lost.
        self.dropped = self.dropped.min(self.first.saturating_sub(settled));
    }

    /// Renumbers the kept ADUs as the first of a new stream, and returns them.
    fn renumber(&mut self) -> Vec<Outgoing> {
        (self.first, self.dropped) = (0, 0);
        for (number, outgoing) in self.adus.iter_mut().enumerate() {
            *outgoing = renumbered(outgoing.clone(), number as u64);
        }
        self.adus.iter().cloned().collect()
    }

    fn pop(&mut self) {
        if let Some(outgoing) = self.adus.pop_front() {
            self.bytes -= outgoing.payload.len();
            self.first += 1;
        }
    }
}

/// Returns an ADU with number `number`, without a dependency on an ADU of the previous stream,
/// which is over.
fn renumbered(mut outgoing: Outgoing, number: u64) -> Outgoing {
    if u64::from(outgoing.depends_on) > number {
        outgoing.depends_on = 0;
    }
    outgoing
}

/// Publishes; waits for a name in use, since its program may be about to exit.
async fn publish(socket: &Path, publication: &Publication) -> Result<LocalPublisher, LocalError> {
    let (begun, mut is_reported) = (Instant::now(), false);
    loop {
        let client = Client::connect(socket).await?;
        match client.publish(publication.clone()).await {
            Err(LocalError::Taken(reason)) if begun.elapsed() < TAKEN_MAX => {
                if !std::mem::replace(&mut is_reported, true) {
                    let seconds = TAKEN_MAX.as_secs();
                    terminal::print_notice(&format!(
                        "{reason}; waiting {seconds} s in case that program is about to exit"
                    ));
                }
                tokio::time::sleep(RETRY_FIRST).await;
            }
            other => return other,
        }
    }
}
