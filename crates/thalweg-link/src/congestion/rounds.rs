//! What limited the sender in the last round trips: the window, or the application.
//!
//! *The idea.* A window moves only in rounds in which it limited the sender, and a flow counts as
//! app-limited for a while after it was. So the last round of each is remembered, by its number.
//!
//! *What it does not do.* It does not detect either: the transport reports a full window, the
//! controller compares what is in flight with it.

/// Rounds after an app-limited round in which the flow still counts as app-limited.
const APP_LIMITED_ROUNDS: u64 = 24;

/// Slow-start rounds without being app-limited after which an earlier app-limited round is forgotten.
const START_ROUNDS: u64 = 4;

/// A flow that meets competing flows within this many rounds of its start is new among them.
const NEW_ROUNDS: u64 = 32;

/// One round trip in this many may be filled with probes.
const PROBE_ROUNDS: u64 = 4;

/// The round trips of a flow, counted.
#[derive(Clone, Debug, Default)]
pub(super) struct Rounds {
    count: u64,
    /// The last round in which the window limited the sender.
    cwnd_limited: Option<u64>,
    /// The last round in which the sender was app-limited.
    app_limited: Option<u64>,
    /// The round in which the start phase ended.
    started: u64,
    /// The peak of bytes in flight, in this round and the one before.
    peaks: [u64; 2],
}

impl Rounds {
    /// Handles the count of bytes in flight after a packet was sent.
    pub(super) fn handle_in_flight(&mut self, in_flight: u64) {
        self.peaks[0] = self.peaks[0].max(in_flight);
    }

    /// Handles that the window, and nothing else, keeps the sender from sending.
    pub(super) fn handle_full(&mut self) {
        self.cwnd_limited = Some(self.count);
    }

    /// Handles that the application left the window unused.
    pub(super) fn handle_app_limited(&mut self) {
        self.app_limited = Some(self.count);
    }

    /// Handles the end of the start phase.
    pub(super) fn handle_started(&mut self) {
        // A flow that was not app-limited during slow start has data enough.
        self.app_limited = self
            .app_limited
            .filter(|round| round.saturating_add(START_ROUNDS) > self.count);
        self.started = self.count;
    }

    /// Handles the end of a round trip, with this many bytes in flight.
    pub(super) fn handle_round(&mut self, in_flight: u64) {
        self.count += 1;
        self.peaks = [in_flight, self.peaks[0]];
    }

    /// Returns whether the sender was ever cwnd-limited.
    pub(super) fn was_full(&self) -> bool {
        self.cwnd_limited.is_some()
    }

    /// Returns whether the sender was cwnd-limited in this round or the last.
    pub(super) fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited
            .is_some_and(|round| round.saturating_add(1) >= self.count)
    }

    /// Returns whether the sender was app-limited in the last rounds.
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited
            .is_some_and(|round| round.saturating_add(APP_LIMITED_ROUNDS) > self.count)
    }

    /// Returns whether the sender was app-limited in this round.
    pub(super) fn is_app_limited_now(&self) -> bool {
        self.app_limited == Some(self.count)
    }

    /// Returns whether the flow is new among others, and was not app-limited since its start phase.
    pub(super) fn is_new(&self) -> bool {
        let has_paused = self.app_limited > Some(self.started);
        self.count - self.started <= NEW_ROUNDS && !has_paused
    }

    /// Returns whether this round may be filled with probes.
    pub(super) fn is_for_probes(&self) -> bool {
        self.count.is_multiple_of(PROBE_ROUNDS)
    }

    /// Returns the peak of bytes in flight over the last two rounds.
    pub(super) fn peak_in_flight(&self) -> f64 {
        self.peaks[0].max(self.peaks[1]) as f64
    }
}
