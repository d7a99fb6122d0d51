//! For how long nothing has come over a link of what should have.
//!
//! *The idea.* What has to be acknowledged, a keep-alive at least, is answered within a round trip, and sent again if that fails.
//! So a link is silent while something is in flight on it and nothing at all comes. Each look adds the time since the one
//! before, if something was waited for all that time, and the first byte ends it. A look that comes late says that this node was
//! away, so none adds more than the time that should be between two.
//!
//! Whether the peer has lost the connection, as one that was restarted has, or the line was cut, no silence says. But when another
//! connection has just been made with that peer, the line carries again: then a word that it must acknowledge has an answer, or
//! the peer knows nothing of this link.
//!
//! *What it does not do.* It dials nobody (`endpoint`, `silence` does). It is too coarse to say when a stream should take another
//! way: [`Pulse`] says that. A link over TCP is never silent here: it finds out by itself.

use std::sync::atomic::Ordering;

use iroh::endpoint::ConnectionError;
use thalweg_core::hop::narrow::Passage;
use thalweg_core::routing::gauge::SAMPLE_EVERY;
use thalweg_core::routing::pulse::Pulse;
use thalweg_core::time::{Duration, Instant};
use thalweg_core::units::DataSize;

use super::{DownCause, Link, OpenError};
use crate::close::CloseCode;

/// How often the peer is asked for a word before it is believed to know nothing of the link: two of them may be lost.
const ASKS: u32 = 3;

/// What is seen at looks that come four times a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    looked: Instant,
    /// All that had come by then.
    received: DataSize,
    /// For how long nothing has come; zero if the link is not silent.
    lasted: Duration,
}

impl Silence {
    /// Looks, given all that has come and since when something is waited for; returns whether the silence lasts for another time
    /// than before.
    pub(super) fn handle_look(
        &mut self,
        now: Instant,
        received: DataSize,
        waiting_since: Option<Instant>,
    ) -> bool {
        let looked = std::mem::replace(&mut self.looked, now);
        let before = self.lasted;
        if self.received != received {
            (self.received, self.lasted) = (received, Duration::ZERO);
        } else if waiting_since.is_some_and(|since| since <= looked) {
            self.lasted += now.saturating_since(looked).min(SAMPLE_EVERY);
        }
        self.lasted != before
    }

    /// Returns for how long nothing has come.
    pub(super) const fn lasted(&self) -> Duration {
        self.lasted
    }
}

impl Link {
    /// Looks whether anything has come of what is waited for.
    pub(super) fn listen(
        &self,
        now: Instant,
        received: DataSize,
        path: Option<thalweg_quic::Reading>,
    ) {
        let waiting = path.filter(|path| path.in_flight != DataSize::ZERO);
        let since = waiting.and_then(|path| path.waiting_since);
        let since = since.map(|since| self.0.context.clock.at(since));
        let waiting_since = waiting.map(|_| since.unwrap_or(Instant::ZERO));
        self.0
            .silence
            .send_if_modified(|silence| silence.handle_look(now, received, waiting_since));
        let passage = path.map_or(Passage::Open, |path| path.passage);
        let is_other = |known: &mut Passage| std::mem::replace(known, passage) != passage;
        self.0.passage.send_if_modified(is_other);
    }

    /// Waits until full packets seem to vanish on the path, and returns how sure that is.
    pub(crate) async fn narrows(&self) -> Passage {
        let is_doubted = |passage: &Passage| *passage != Passage::Open;
        let mut watch = self.0.passage.subscribe();
        // The sender lives as long as the link.
        let passage = watch.wait_for(is_doubted).await;
        passage.map_or(Passage::Open, |passage| *passage)
    }

    /// Closes a link whose path does not carry full packets, and says so.
    pub(crate) fn leave_narrow(&self) {
        self.0.is_narrow.store(true, Ordering::Relaxed);
        self.close(CloseCode::Narrow, &DownCause::Narrow.to_string());
    }

    /// Returns whether this end or the peer has closed the link because its path does not carry full packets.
    pub(crate) fn is_narrow(&self) -> bool {
        let by_peer = || match self.0.connection.end() {
            Some(OpenError::Quic(ConnectionError::ApplicationClosed(close))) => {
                CloseCode::from_number(close.error_code.into_inner()) == CloseCode::Narrow
            }
            _ => false,
        };
        self.0.is_narrow.load(Ordering::Relaxed) || by_peer()
    }

    /// Waits until the connection has ended, and says why as exactly as this end knows.
    pub(crate) async fn why_closed(&self) -> DownCause {
        match self.closed().await {
            DownCause::ByUs if self.is_narrow() => DownCause::Narrow,
            cause => cause,
        }
    }

    /// Returns whether nothing has come of what should have at the last look.
    pub(crate) fn is_silent(&self) -> bool {
        self.0.silence.borrow().lasted() > Duration::ZERO
    }

    /// Waits until the link has been silent for so long, and for long enough that the peer could have answered twice.
    pub(crate) async fn falls_silent(&self, patience: Duration) {
        let is_long = |silence: &Silence| {
            let lasted = silence.lasted();
            lasted >= patience && {
                let answer = Pulse::patience(self.rtt());
                lasted >= answer + answer
            }
        };
        // The sender lives as long as the link.
        let _ = self.0.silence.subscribe().wait_for(is_long).await;
    }

    /// Waits until something comes over a link that is silent.
    pub(crate) async fn is_heard(&self) {
        let is_heard = |silence: &Silence| silence.lasted() == Duration::ZERO;
        let _ = self.0.silence.subscribe().wait_for(is_heard).await;
    }

    /// Asks the peer of a silent link for a word, and waits as long as that may take; returns whether anything has come.
    pub(crate) async fn answers(&self) -> bool {
        let answer = Pulse::patience(self.rtt());
        for _ in 0..ASKS {
            if self.has_come() {
                return true;
            }
            self.0.outgoing.let_one_through(self.now());
            self.0.connection.ask();
            let pause = std::time::Duration::from(answer) / ASKS;
            let _ = tokio::time::timeout(pause, self.is_heard()).await;
        }
        self.has_come()
    }

    /// Returns whether anything has come since the last look that should not have been silent, which ends the silence.
    fn has_come(&self) -> bool {
        let received = self.0.connection.received();
        self.0.silence.send_if_modified(|silence| {
            silence.lasted() > Duration::ZERO && silence.handle_look(silence.looked, received, None)
        });
        !self.is_silent()
    }
}
