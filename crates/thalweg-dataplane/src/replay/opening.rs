//! The opening of a stream: its first seconds, kept completely for sinks that wait for it.
//!
//! *The idea.* A waiting sink learns of a stream when its producer announces it, subscribes, and a
//! plan is made: some round trips, while the producer already sends. So everything from the first
//! [`OPENING_MAX`] is kept, and each sink with its first plan in force within that time gets all of
//! it that is still of use. After that, ADUs that no sink got are lost for lack of a subscriber,
//! and later sinks start with the newest group ([`Replay`](super::Replay)).
//!
//! ```text
//! first ADU ── Subscribe ── plan in force: all since the first ADU ── another's: the same ── 5 s: no more
//! ```
//!
//! *What it does not do.* It sends nothing and reads no clock.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem;

use thalweg_base::adu::{Adu, Header};
use thalweg_base::id::NodeId;
use thalweg_base::limits::{OPENING_MAX, REPLAY_ADUS_MAX, REPLAY_BYTES_MAX};
use thalweg_base::time::Instant;

/// The ADUs of a stream since its first.
#[derive(Debug, Default)]
pub struct Opening {
    /// When it is over; unknown before the first ADU.
    until: Option<Instant>,
    /// Each ADU, and whether a plan carried it when it came.
    adus: VecDeque<(Adu, bool)>,
    bytes: u64,
    /// The sinks that got it: one that returns has it already.
    served: BTreeSet<NodeId>,
    is_over: bool,
    /// ADUs that no sink got or will get.
    lost: Vec<Header>,
}

impl Opening {
    /// Handles an ADU of the producer, sent by a plan or by none; returns whether it is kept.
    /// Beyond the bounds, the oldest is dropped.
    pub fn handle_given(&mut self, adu: &Adu, has_plan: bool, now: Instant) -> bool {
        let until = *self.until.get_or_insert(now + OPENING_MAX);
        if now >= until {
            self.close();
        }
        if self.is_over {
            return false;
        }
        self.bytes += adu.payload.len() as u64;
        self.adus.push_back((adu.clone(), has_plan));
        while self.bytes > REPLAY_BYTES_MAX.as_bytes() || self.adus.len() > REPLAY_ADUS_MAX {
            let Some((oldest, is_given)) = self.adus.pop_front() else {
                break;
            };
            self.bytes -= oldest.payload.len() as u64;
            if self.served.is_empty() && !is_given {
                self.lost.push(oldest.header);
            }
        }
        true
    }

    /// Returns what a sink with a first plan in force starts with, in sequence: the ADUs before
    /// their deadlines, and nothing if it got the opening before.
    pub fn replay(&mut self, sink: NodeId, now: Instant) -> Vec<Adu> {
        if self.until.is_some_and(|until| now >= until) {
            self.close();
        }
        if self.is_over || !self.served.insert(sink) {
            return Vec::new();
        }
        let adus = self.adus.iter().map(|(adu, _)| adu);
        let of_use = adus.filter(|adu| adu.header.deadline > now);
        of_use.cloned().collect()
    }

    /// Ends the opening; ADUs that no sink got are lost.
    pub fn close(&mut self) {
        self.is_over = true;
        self.bytes = 0;
        let adus = mem::take(&mut self.adus);
        if self.served.is_empty() {
            let lost = adus.iter().filter(|(_, is_given)| !is_given);
            self.lost.extend(lost.map(|(adu, _)| adu.header));
        }
    }

    /// Returns the lost ADUs since the last call.
    pub fn take_lost(&mut self) -> Vec<Header> {
        mem::take(&mut self.lost)
    }

    /// Returns the number of kept ADUs that no sink got.
    pub fn awaited(&self) -> usize {
        if !self.served.is_empty() {
            return 0;
        }
        let awaited = self.adus.iter().filter(|(_, is_given)| !is_given);
        awaited.count()
    }
}

#[cfg(test)]
mod tests {
    //! Proves that each sink that comes in time gets the whole opening, within its bounds, and that
    //! losses are reported at most once.

    use alloc::vec;

    use bytes::Bytes;
    use thalweg_base::id::{Sequence, StreamId};
    use thalweg_base::time::Duration;

    use super::*;

    const START: Instant = Instant::from_nanos(1_000_000_000);

    fn adu(sequence: u64, bytes: usize) -> Adu {
        Adu {
            header: Header::new(StreamId(7), Sequence(sequence)),
            payload: Bytes::from(vec![0; bytes]),
        }
    }

    fn sequences<'a>(headers: impl IntoIterator<Item = &'a Header>) -> Vec<u64> {
        headers.into_iter().map(|one| one.sequence.0).collect()
    }

    fn replayed(opening: &mut Opening, sink: u8, now: Instant) -> Vec<u64> {
        let adus = opening.replay(NodeId([sink; 32]), now);
        sequences(adus.iter().map(|adu| &adu.header))
    }

    #[test]
    fn each_timely_sink_gets_all() {
        let mut opening = Opening::default();
        for sequence in 0..3 {
            assert!(opening.handle_given(&adu(sequence, 10), false, START));
        }
        assert_eq!(opening.awaited(), 3);
        assert_eq!(replayed(&mut opening, 1, START), [0, 1, 2]);
        assert_eq!(opening.awaited(), 0);
        assert!(opening.handle_given(&adu(3, 10), false, START));
        assert_eq!(replayed(&mut opening, 2, START), [0, 1, 2, 3], "another");
        assert_eq!(replayed(&mut opening, 1, START), [0; 0], "it has returned");
        assert!(!opening.handle_given(&adu(4, 10), false, START + OPENING_MAX));
        assert_eq!(replayed(&mut opening, 3, START + OPENING_MAX), [0; 0]);
        assert!(opening.take_lost().is_empty(), "a sink has them");
    }

    #[test]
    fn unclaimed_adus_are_lost_once() {
        let mut opening = Opening::default();
        for sequence in 0..3 {
            opening.handle_given(&adu(sequence, 10), false, START);
        }
        assert!(opening.take_lost().is_empty(), "a sink may come");
        opening.close();
        assert_eq!(sequences(&opening.take_lost()), [0, 1, 2]);
        opening.close();
        assert_eq!((opening.take_lost().len(), opening.awaited()), (0, 0));
        assert_eq!(replayed(&mut opening, 1, START), [0; 0]);
    }

    #[test]
    fn carried_adu_is_not_lost() {
        let mut opening = Opening::default();
        opening.handle_given(&adu(0, 10), false, START);
        // A sink that has not waited starts.
        opening.handle_given(&adu(1, 10), true, START);
        assert_eq!(opening.awaited(), 1);
        opening.close();
        assert_eq!(sequences(&opening.take_lost()), [0]);
    }

    #[test]
    fn size_is_bounded() {
        let mut opening = Opening::default();
        let third = REPLAY_BYTES_MAX.as_bytes() as usize / 3;
        for sequence in 0..5 {
            opening.handle_given(&adu(sequence, third), false, START);
        }
        assert_eq!(sequences(&opening.take_lost()), [0, 1]);
        assert_eq!(replayed(&mut opening, 1, START), [2, 3, 4]);
        let mut opening = Opening::default();
        for sequence in 0..=REPLAY_ADUS_MAX as u64 {
            opening.handle_given(&adu(sequence, 0), false, START);
        }
        assert_eq!(sequences(&opening.take_lost()), [0]);
    }

    #[test]
    fn expired_adus_are_left_out() {
        let mut opening = Opening::default();
        for sequence in 0..2 {
            let mut adu = adu(sequence, 10);
            adu.header.deadline = START + Duration::from_secs(1 + sequence);
            opening.handle_given(&adu, false, START);
        }
        let now = START + Duration::from_millis(1_500);
        assert_eq!(replayed(&mut opening, 1, now), [1]);
    }
}
