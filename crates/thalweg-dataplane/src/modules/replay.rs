//! A replay window over a sealer's counters: each counter is accepted once, in nearly any order.
//!
//! *The idea.* A ring of bits, one per recent counter. Moving the window clears whole words, so the
//! cost of an ADU does not depend on the gap before it.
//!
//! *Sources.* RFC 6479.

use thalweg_base::limits::ADUS_IN_FLIGHT_MAX;

/// How far an ADU may arrive behind the newest ADU of its sealer, in ADUs.
///
/// When a path is lost, its unacknowledged ADUs are resent on another path, behind newer ones: a
/// source keeps those of 30 s, which at 2,000 ADUs a second are 60,000. And an ADU of low
/// importance without a deadline waits on a slow link while all others pass it.
pub const REPLAY_WINDOW_ADUS: u64 = (WORDS as u64 - 1) * 64;

const WORDS: usize = 1024;

/// The counters seen from one sealer; 8 KiB.
#[derive(Debug)]
pub(super) struct ReplayWindow {
    newest: u64,
    seen: Box<[u64]>,
}

impl ReplayWindow {
    pub(super) fn new() -> Self {
        Self {
            newest: 0,
            seen: vec![0; WORDS].into_boxed_slice(),
        }
    }

    /// Returns whether a counter has not been seen and is recent enough to tell.
    pub(super) fn is_fresh(&self, counter: u64) -> bool {
        if counter > self.newest {
            return true;
        }
        let (word, bit) = place(counter);
        self.newest - counter < REPLAY_WINDOW_ADUS && self.seen[word] & bit == 0
    }

    /// Records a fresh counter.
    pub(super) fn record(&mut self, counter: u64) {
        if counter > self.newest {
            let words = (counter / 64 - self.newest / 64).min(WORDS as u64);
            for step in 1..=words {
                self.seen[((self.newest / 64 + step) % WORDS as u64) as usize] = 0;
            }
            self.newest = counter;
        }
        let (word, bit) = place(counter);
        self.seen[word] |= bit;
    }
}

const fn place(counter: u64) -> (usize, u64) {
    ((counter / 64 % WORDS as u64) as usize, 1 << (counter % 64))
}

const _: () = assert!(
    REPLAY_WINDOW_ADUS >= ADUS_IN_FLIGHT_MAX as u64,
    "what is resent on a new path is not taken for a replay"
);
