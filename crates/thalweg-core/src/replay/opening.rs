//! The first seconds of a stream, kept whole for sinks that wait for it.
//!
//! *The idea.* A sink that waits hears of a stream when its producer announces it, asks for it, and a plan is
//! made: some round trips, while the producer already gives. So all that is given in the first
//! [`OPENING_MAX`] is kept, and each sink whose first plan comes into force within that time is given all of
//! it that is of use still. When the time is over what nobody was given is lost for want of a sink, and later
//! sinks begin with the newest group ([`Replay`](super::Replay)).
//!
//! ```text
//! first ADU ─────── Subscribe ── plan in force: all since the first ADU ── plan of another: the same ─── 5 s: nothing more is kept
//! ```
//!
//! *What it does not do.* It sends nothing and reads no clock.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use core::mem;

use crate::adu::{Adu, Header};
use crate::id::NodeId;
use crate::limits::{REPLAY_ADUS_MAX, REPLAY_BYTES_MAX};
use crate::time::{Duration, Instant};

/// For so long the opening of a stream is kept: a record, a subscription, a planning and a deployment over a
/// way of 600 ms, each of which may be lost once.
pub const OPENING_MAX: Duration = Duration::from_secs(5);

/// What was given since a stream's first ADU.
#[derive(Debug, Default)]
pub struct Opening {
    /// When it is over; unknown before the first ADU.
    until: Option<Instant>,
    /// Each with whether it was given by a plan when it came.
    adus: VecDeque<(Adu, bool)>,
    bytes: u64,
    /// The sinks that have been given it: one that comes back has had it.
    served: BTreeSet<NodeId>,
    is_over: bool,
    /// What nobody was given and nobody will be.
    lost: Vec<Header>,
}

impl Opening {
    /// Takes in an ADU that is given, by a plan or by none; returns whether it is kept. Of more than there is
    /// room for the oldest goes.
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

    /// Returns what a sink begins with whose plan is in force now, by sequence: what is not past its
    /// deadline, and nothing if it has been given it before.
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

    /// Keeps nothing any more; what nobody was given is lost.
    pub fn close(&mut self) {
        self.is_over = true;
        self.bytes = 0;
        let adus = mem::take(&mut self.adus);
        if self.served.is_empty() {
            let lost = adus.iter().filter(|(_, is_given)| !is_given);
            self.lost.extend(lost.map(|(adu, _)| adu.header));
        }
    }

    /// Returns what was lost since this was asked last.
    pub fn take_lost(&mut self) -> Vec<Header> {
        mem::take(&mut self.lost)
    }

    /// Returns how many ADUs are kept that nobody was given.
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
    //! Proves that the opening of a stream is whole for each sink that comes in time, within its bounds, and
    //! lost once or not at all.

    use alloc::vec;

    use bytes::Bytes;

    use super::*;
    use crate::id::{Sequence, StreamId};

    const BEGIN: Instant = Instant::from_nanos(1_000_000_000);

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
    fn opening_is_whole_for_each_sink_that_comes_in_time() {
        let mut opening = Opening::default();
        for sequence in 0..3 {
            assert!(opening.handle_given(&adu(sequence, 10), false, BEGIN));
        }
        assert_eq!(opening.awaited(), 3);
        assert_eq!(replayed(&mut opening, 1, BEGIN), [0, 1, 2]);
        assert_eq!(opening.awaited(), 0);
        assert!(opening.handle_given(&adu(3, 10), false, BEGIN));
        assert_eq!(replayed(&mut opening, 2, BEGIN), [0, 1, 2, 3], "another");
        assert_eq!(replayed(&mut opening, 1, BEGIN), [0; 0], "it is back");
        assert!(!opening.handle_given(&adu(4, 10), false, BEGIN + OPENING_MAX));
        assert_eq!(replayed(&mut opening, 3, BEGIN + OPENING_MAX), [0; 0]);
        assert!(opening.take_lost().is_empty(), "a sink has them");
    }

    #[test]
    fn opening_that_nobody_gets_is_lost_once() {
        let mut opening = Opening::default();
        for sequence in 0..3 {
            opening.handle_given(&adu(sequence, 10), false, BEGIN);
        }
        assert!(opening.take_lost().is_empty(), "a sink may come");
        opening.close();
        assert_eq!(sequences(&opening.take_lost()), [0, 1, 2]);
        opening.close();
        assert_eq!((opening.take_lost().len(), opening.awaited()), (0, 0));
        assert_eq!(replayed(&mut opening, 1, BEGIN), [0; 0]);
    }

    #[test]
    fn opening_that_a_plan_carried_is_no_loss() {
        let mut opening = Opening::default();
        opening.handle_given(&adu(0, 10), false, BEGIN);
        // A sink that has not waited begins.
        opening.handle_given(&adu(1, 10), true, BEGIN);
        assert_eq!(opening.awaited(), 1);
        opening.close();
        assert_eq!(sequences(&opening.take_lost()), [0]);
    }

    #[test]
    fn opening_keeps_no_more_than_its_bounds() {
        let mut opening = Opening::default();
        let third = REPLAY_BYTES_MAX.as_bytes() as usize / 3;
        for sequence in 0..5 {
            opening.handle_given(&adu(sequence, third), false, BEGIN);
        }
        assert_eq!(sequences(&opening.take_lost()), [0, 1]);
        assert_eq!(replayed(&mut opening, 1, BEGIN), [2, 3, 4]);
        let mut opening = Opening::default();
        for sequence in 0..=REPLAY_ADUS_MAX as u64 {
            opening.handle_given(&adu(sequence, 0), false, BEGIN);
        }
        assert_eq!(sequences(&opening.take_lost()), [0]);
    }

    #[test]
    fn opening_leaves_out_what_is_past_its_deadline() {
        let mut opening = Opening::default();
        for sequence in 0..2 {
            let mut adu = adu(sequence, 10);
            adu.header.deadline = BEGIN + Duration::from_secs(1 + sequence);
            opening.handle_given(&adu, false, BEGIN);
        }
        let now = BEGIN + Duration::from_millis(1_500);
        assert_eq!(replayed(&mut opening, 1, now), [1]);
    }
}
