//! Measures how long a link has been silent: waiting for an answer and receiving nothing.
//!
//! *The idea.* A peer acknowledges everything, at least a keep-alive, within a round trip, and lost
//! packets are retransmitted. So a link is silent while something is in flight and nothing arrives.
//! Each sample adds the time since the one before, if an answer was outstanding all that time; the
//! first received byte resets it. A late sample means that this node was busy, so each adds at most
//! the sampling interval.
//!
//! Silence does not tell whether the peer has lost the connection, by a restart, or the path was
//! cut. But if another connection with the peer has just been made, the path works: then a ping
//! over the silent link is answered, or the peer has lost that link.
//!
//! *What it does not do.* It does not redial (`endpoint::silence` does). It is too coarse for
//! rerouting streams: [`Pulse`] does that. A link over TCP is never silent here: the session
//! detects it by itself.

use std::sync::atomic::Ordering;

use iroh::endpoint::ConnectionError;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;
use thalweg_link::gauge::SAMPLE_EVERY;
use thalweg_link::hop::narrow::Passage;
use thalweg_link::pulse::Pulse;

use super::{DownCause, Link, OpenError};
use crate::close::CloseCode;

/// Pings before the peer is believed to have lost the link: two may be lost.
const PINGS: u32 = 3;

/// Interval at which a link with nothing in flight is checked for a stall.
const IDLE_LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// The silence as of the last sample, four times a second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    sampled: Instant,
    /// Total received by then.
    received: DataSize,
    /// Duration of the silence; zero if the link is not silent.
    lasted: Duration,
}

impl Silence {
    /// Records a sample: the total received and since when an answer has been outstanding; returns
    /// whether the silence's duration has changed.
    pub(super) fn handle_sample(
        &mut self,
        now: Instant,
        received: DataSize,
        waiting_since: Option<Instant>,
    ) -> bool {
        let sampled = std::mem::replace(&mut self.sampled, now);
        let before = self.lasted;
        if self.received != received {
            (self.received, self.lasted) = (received, Duration::ZERO);
        } else if waiting_since.is_some_and(|since| since <= sampled) {
            self.lasted += now.saturating_since(sampled).min(SAMPLE_EVERY);
        }
        self.lasted != before
    }

    /// Returns the duration of the silence.
    pub(super) const fn lasted(&self) -> Duration {
        self.lasted
    }
}

impl Link {
    /// Updates the silence and the passage of full packets from a sample.
    pub(super) fn check_silence(
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
            .send_if_modified(|silence| silence.handle_sample(now, received, waiting_since));
        let passage = path.map_or(Passage::Open, |path| path.passage);
        let is_other = |known: &mut Passage| std::mem::replace(known, passage) != passage;
        self.0.passage.send_if_modified(is_other);
    }

    /// Waits until full-sized packets seem to be dropped on the path; returns how certain that is.
    pub(crate) async fn wait_narrow(&self) -> Passage {
        let is_doubted = |passage: &Passage| *passage != Passage::Open;
        let mut watch = self.0.passage.subscribe();
        // The sender lives as long as the link.
        let passage = watch.wait_for(is_doubted).await;
        passage.map_or(Passage::Open, |passage| *passage)
    }

    /// Closes a link because its path drops full-sized packets, with that reason.
    pub(crate) fn close_narrow(&self) {
        self.0.is_narrow.store(true, Ordering::Relaxed);
        self.close(CloseCode::Narrow, &DownCause::Narrow.to_string());
    }

    /// Returns whether this end or the peer has closed the link because its path drops full-sized
    /// packets.
    pub(crate) fn is_narrow(&self) -> bool {
        let by_peer = || match self.0.connection.end() {
            Some(OpenError::Quic(ConnectionError::ApplicationClosed(close))) => {
                CloseCode::from_number(close.error_code.into_inner()) == CloseCode::Narrow
            }
            _ => false,
        };
        self.0.is_narrow.load(Ordering::Relaxed) || by_peer()
    }

    /// Waits until the connection has ended; returns the cause as precisely as this end knows it.
    pub(crate) async fn why_closed(&self) -> DownCause {
        match self.closed().await {
            DownCause::ByUs if self.is_narrow() => DownCause::Narrow,
            cause => cause,
        }
    }

    /// Returns whether the link was silent at the last sample.
    pub(crate) fn is_silent(&self) -> bool {
        self.0.silence.borrow().lasted() > Duration::ZERO
    }

    /// Waits until the link has been silent for `patience`, and long enough for the peer to answer
    /// twice.
    pub(crate) async fn wait_silent(&self, patience: Duration) {
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

    /// Waits until something is in flight and nothing has arrived for [`Pulse::patience`]; finer than
    /// [`Link::wait_silent`], for a link that can be left at once.
    pub(crate) async fn wait_stalled(&self) {
        let clock = &self.0.context.clock;
        let mut pulse = Pulse::default();
        loop {
            pulse.handle_sent(clock.now());
            pulse.handle_look(self.sign(false), clock.now());
            let next = pulse.poll_timeout();
            if pulse.is_silent() {
                return;
            }
            if next.is_never() {
                tokio::time::sleep(IDLE_LOOK).await;
            } else {
                clock.sleep_until(next).await;
            }
        }
    }

    /// Waits until something arrives over a silent link.
    pub(crate) async fn wait_heard(&self) {
        let is_heard = |silence: &Silence| silence.lasted() == Duration::ZERO;
        let _ = self.0.silence.subscribe().wait_for(is_heard).await;
    }

    /// Pings the peer of a silent link and waits as long as an answer may take; returns whether
    /// anything arrived.
    pub(crate) async fn answers_ping(&self) -> bool {
        let answer = Pulse::patience(self.rtt());
        for _ in 0..PINGS {
            if self.has_received() {
                return true;
            }
            self.ping();
            let pause = std::time::Duration::from(answer) / PINGS;
            let _ = tokio::time::timeout(pause, self.wait_heard()).await;
        }
        self.has_received()
    }

    /// Pings the peer, whatever the congestion window says.
    pub(crate) fn ping(&self) {
        self.0.outgoing.let_one_through(self.now());
        self.0.connection.ping();
    }

    /// Returns whether anything has arrived since the last sample, which ends the silence.
    fn has_received(&self) -> bool {
        let received = self.0.connection.received();
        self.0.silence.send_if_modified(|silence| {
            silence.lasted() > Duration::ZERO
                && silence.handle_sample(silence.sampled, received, None)
        });
        !self.is_silent()
    }
}
