//! The loss rate, and whether it is congestion or chance.
//!
//! *The idea.* Lines without a queue lose single packets; congestion loses a share of what is sent,
//! for a while. So the share is counted over many packets and over the round trip.
//!
//! *What it does not do.* It reacts to no loss: [`super::phase`] does.

/// Share of packets that may be lost by chance.
const LOSS_SHARE: f64 = 0.05;

/// Packets over which the share is taken.
const LOSS_PACKETS: u32 = 256;

/// Share and number of packets lost in one round that are a congestion, queue or not.
const LOSS_SHARE_ROUND: f64 = 0.15;
const LOSS_PACKETS_ROUND: u32 = 6;

/// Rounds after a loss in which nothing is probed.
const QUIET_ROUNDS: u32 = 8;

/// Counts of lost and acknowledged packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    packets: u32,
    lost: u32,
    share: f64,
    packets_round: u32,
    lost_round: u32,
    /// Packets lost in the round before.
    lost_before: u32,
    rounds_since: Option<u32>,
    /// Whether the round before lost many packets.
    was_heavy: bool,
}

impl Losses {
    pub(super) fn handle_ack(&mut self) {
        self.packets_round = self.packets_round.saturating_add(1);
        self.packets += 1;
        if self.packets >= LOSS_PACKETS {
            self.share = f64::from(self.lost) / f64::from(self.packets);
            self.packets = 0;
            self.lost = 0;
        }
    }

    pub(super) fn handle_lost(&mut self) {
        self.lost_round = self.lost_round.saturating_add(1);
        self.lost += 1;
        self.rounds_since = Some(0);
        // A lost packet counts among the packets, too.
        self.handle_ack();
    }

    pub(super) fn handle_round(&mut self) {
        self.was_heavy = self.is_heavy_round();
        self.packets_round = 0;
        self.lost_before = core::mem::take(&mut self.lost_round);
        self.rounds_since = self.rounds_since.map(|rounds| rounds.saturating_add(1));
    }

    /// Takes recent losses back, for their packets arrived late: transports declare a packet lost that
    /// is later than a round trip or two.
    pub(super) fn forgive(&mut self) {
        let forgiven = self.lost_round.saturating_add(self.lost_before);
        self.lost = self.lost.saturating_sub(forgiven);
        self.lost_round = 0;
        self.lost_before = 0;
        self.was_heavy = false;
    }

    pub(super) fn is_recent(&self) -> bool {
        self.rounds_since
            .is_some_and(|rounds| rounds < QUIET_ROUNDS)
    }

    /// Resets the counts, after a reduction that answered them.
    pub(super) fn reset(&mut self) {
        *self = Self {
            rounds_since: self.rounds_since,
            ..Self::default()
        };
    }

    /// Returns whether the losses are too many to be chance.
    pub(super) fn is_heavy(&self) -> bool {
        self.share > LOSS_SHARE || self.is_heavy_round()
    }

    /// Returns the same where the queue is seen empty: there a burst within one round trip is chance.
    pub(super) fn is_lasting(&self) -> bool {
        self.share > LOSS_SHARE || (self.was_heavy && self.is_heavy_round())
    }

    fn is_heavy_round(&self) -> bool {
        let share_round = f64::from(self.lost_round) / f64::from(self.packets_round.max(1));
        self.lost_round >= LOSS_PACKETS_ROUND && share_round > LOSS_SHARE_ROUND
    }
}
