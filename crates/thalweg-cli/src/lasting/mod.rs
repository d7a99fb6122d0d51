//! A publisher that outlives its node: it goes on when the node is back.
//!
//! *The idea.* A node that is killed or restarted takes with it what it had not passed on. The node tells how
//! much of the stream need not be given again; what came after that is kept here, so much at most, and given
//! first when the node is back. Until then this waits, and whatever feeds it with it.
//!
//! ```text
//! give ─► kept ─► node … Settled: kept no more
//!          └──── the node is gone ─► connect, publish ─► what is kept, again ─► go on
//! ```
//!
//! *What it does not do.* It does not make up for a killed publisher: what that had kept is lost with it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use thalweg_node::local::{Client, LocalError, LocalPublisher};
use thalweg_node::{Outgoing, Publication};
use tokio::time::Instant;

use crate::terminal;

#[cfg(test)]
mod tests;

/// What is kept to be given again: as much payload as a node lets a publisher have under way, and some.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// How soon it is tried again, and how rarely at last.
const AGAIN_FIRST: Duration = Duration::from_millis(100);
const AGAIN_LAST: Duration = Duration::from_secs(2);

/// How long a name that another program has, or had until a moment ago, is waited for.
const TAKEN_MAX: Duration = Duration::from_secs(5);

/// When to try again: soon at first, and then less and less often.
#[derive(Debug)]
pub struct Backoff {
    next: Duration,
}

/// What was given and may have to be given again.
#[derive(Debug, Default)]
struct Kept {
    /// The first has this number in the present stream.
    first: u64,
    adus: VecDeque<Outgoing>,
    bytes: usize,
    /// What had to go though it was not settled.
    dropped: u64,
}

/// What a stream is published again from.
struct Origin {
    socket: PathBuf,
    publication: Publication,
    kept: Kept,
    /// Whether what is given again waits for a subscriber.
    waits: bool,
}

/// A publisher that goes on when its node is back.
pub struct LastingPublisher {
    origin: Origin,
    publisher: LocalPublisher,
    reconnects: bool,
}

/// The option of whatever goes on when its node is back.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Lasting {
    /// End when the node goes away, for scripts; unless given, the program waits until it is back and goes
    /// on.
    #[arg(long)]
    pub no_reconnect: bool,
}

impl Backoff {
    /// Begins soon.
    pub const fn new() -> Self {
        Self { next: AGAIN_FIRST }
    }

    /// Waits until it is time to try again.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(AGAIN_LAST);
    }
}

/// Returns whether an error means that the node is gone, and may be back.
pub const fn is_gone(error: &LocalError) -> bool {
    matches!(error, LocalError::Gone(_) | LocalError::Connect { .. })
}

/// Says once that a node is gone and is tried again.
pub fn tell_gone(socket: &Path, say: impl Fn(&str)) {
    say(&format!(
        "the node at {} is gone; trying again until it is back (--no-reconnect ends instead)",
        socket.display()
    ));
}

/// Says that a node is back.
pub fn tell_back(socket: &Path, say: impl Fn(&str)) {
    say(&format!("the node at {} is back", socket.display()));
}

impl LastingPublisher {
    /// Publishes; a name that another program has is waited for, for a moment. What is given again after its
    /// node was away waits for a subscriber, or does not.
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
            waits,
        };
        Ok(Self {
            origin,
            publisher,
            reconnects: !lasting.no_reconnect,
        })
    }

    /// Returns whether anybody receives the stream now.
    pub fn is_wanted(&self) -> bool {
        self.publisher.is_wanted()
    }

    /// Waits until somebody receives the stream, over whatever happens to the node.
    pub async fn wanted(&mut self) -> Result<(), LocalError> {
        while let Err(error) = self.publisher.wanted().await {
            self.go_on_after(error).await?;
        }
        Ok(())
    }

    /// Waits until the node has gone away, or takes no more; returns why.
    pub async fn gone(&mut self) -> LocalError {
        self.publisher.gone().await
    }

    /// Gives an ADU, over whatever happens to the node.
    pub async fn send(&mut self, outgoing: Outgoing) -> Result<(), LocalError> {
        let kept = &mut self.origin.kept;
        kept.settle(self.publisher.settled());
        let outgoing = kept.push(outgoing);
        match self.publisher.send(outgoing).await {
            Ok(_) => Ok(()),
            Err(error) => self.go_on_after(error).await,
        }
    }

    /// Ends the stream, over whatever happens to the node, and returns what became of it; where it was
    /// published again, since then.
    pub async fn finish(mut self) -> Result<Value, LocalError> {
        loop {
            self.origin.kept.settle(self.publisher.settled());
            match self.publisher.finish().await {
                Err(error) if is_gone(&error) && self.reconnects => {}
                finished => return finished,
            }
            self.publisher = self.origin.again().await?;
        }
    }

    /// Goes on when the node is back, if it was lost and that is wanted.
    pub async fn go_on_after(&mut self, error: LocalError) -> Result<(), LocalError> {
        if !is_gone(&error) || !self.reconnects {
            return Err(error);
        }
        self.origin.kept.settle(self.publisher.settled());
        self.publisher = self.origin.again().await?;
        Ok(())
    }
}

impl Origin {
    /// Publishes again when the node is back, and gives what is kept.
    async fn again(&mut self) -> Result<LocalPublisher, LocalError> {
        tell_gone(&self.socket, terminal::tell);
        let mut backoff = Backoff::new();
        loop {
            backoff.wait().await;
            match self.try_again().await {
                Ok(publisher) => return Ok(publisher),
                Err(error) if is_gone(&error) => tracing::debug!(%error, "not back"),
                Err(error) => return Err(error),
            }
        }
    }

    async fn try_again(&mut self) -> Result<LocalPublisher, LocalError> {
        let mut publisher = publish(&self.socket, &self.publication).await?;
        let (adus, dropped) = (self.kept.adus.len(), self.kept.dropped);
        tell_back(&self.socket, terminal::tell);
        if adus > 0 {
            terminal::tell(&format!(
                "giving {adus} ADUs again that it may not have passed on"
            ));
        }
        if dropped > 0 {
            terminal::tell(&format!(
                "{dropped} more are lost, for there was no room to keep them"
            ));
        }
        if self.waits {
            publisher.wanted().await?;
        }
        for outgoing in self.kept.begin_again() {
            publisher.send(outgoing).await?;
        }
        Ok(publisher)
    }
}

impl Kept {
    /// Keeps the ADU that follows; returns it as one of the present stream.
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

    /// Forgets what need not be given again: so many ADUs of the stream.
    fn settle(&mut self, settled: u64) {
        while self.first < settled && !self.adus.is_empty() {
            self.pop();
        }
        // What had to go and is settled is no loss.
        self.dropped = self.dropped.min(self.first.saturating_sub(settled));
    }

    /// Makes what is kept the first of another stream, and returns it.
    fn begin_again(&mut self) -> Vec<Outgoing> {
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

/// Returns an ADU as one of this number: what it depends on may be of the stream before, which is over.
fn renumbered(mut outgoing: Outgoing, number: u64) -> Outgoing {
    if u64::from(outgoing.depends_on) > number {
        outgoing.depends_on = 0;
    }
    outgoing
}

/// Publishes; a name that is taken is waited for, for it may be that of a program that ends.
async fn publish(socket: &Path, publication: &Publication) -> Result<LocalPublisher, LocalError> {
    let (begun, mut has_told) = (Instant::now(), false);
    loop {
        let client = Client::connect(socket).await?;
        match client.publish(publication.clone()).await {
            Err(LocalError::Taken(reason)) if begun.elapsed() < TAKEN_MAX => {
                if !std::mem::replace(&mut has_told, true) {
                    let seconds = TAKEN_MAX.as_secs();
                    terminal::tell(&format!(
                        "{reason}; waiting {seconds} s, for it may be about to end"
                    ));
                }
                tokio::time::sleep(AGAIN_FIRST).await;
            }
            other => return other,
        }
    }
}
