//! The outbox: an ADU in and out, in pieces, and cancelled.

use std::hint::black_box;

use thalweg_base::adu::Importance;
use thalweg_base::event::DropCause;
use thalweg_base::id::Sequence;
use thalweg_base::time::Instant;
use thalweg_base::units::Bitrate;
use thalweg_link::outbox::{Entry, Ticket};

use crate::crowd::{Crowd, UNLIMITED};

/// Number of other ADUs in the queue.
const QUEUED: u64 = 1_000;

/// One ADU in, another out, by importance, among eight flows.
pub(super) fn pass(rounds: u64) {
    let mut crowd = Crowd::new(QUEUED);
    for _ in 0..rounds {
        crowd.pass();
    }
}

/// A chunk of an ADU that is too large for one.
pub(super) fn chunk(rounds: u64) {
    let mut crowd = Crowd::new(QUEUED);
    crowd.outbox.set_rate(Some(Bitrate::from_kbps(10_000)));
    push(&mut crowd, 0, 60 << 20);
    for _ in 0..rounds {
        black_box(crowd.outbox.poll_chunk(Instant::ZERO, UNLIMITED));
    }
}

/// A base with two dependants, cancelled while queued.
pub(super) fn cancel(rounds: u64) {
    let mut crowd = Crowd::new(QUEUED);
    for round in 0..rounds {
        let base = push(&mut crowd, 3 * round, 1_000);
        for place in 1..3 {
            push(&mut crowd, 3 * round + place, 1_000);
        }
        crowd.outbox.cancel(base, DropCause::Cancelled);
        while let Some(dropped) = crowd.outbox.poll_drop() {
            black_box(dropped);
        }
    }
}

/// Pushes an ADU of the highest importance; every third has no dependency, the others depend on the
/// previous one.
fn push(crowd: &mut Crowd, sequence: u64, bytes: usize) -> Ticket {
    let own = 1 << 40;
    let entry = Entry {
        importance: Importance::HIGHEST,
        deadline: Instant::NEVER,
        sequence: Sequence(own + sequence),
        bytes,
        available_bytes: bytes,
        depends_on: (!sequence.is_multiple_of(3)).then(|| Sequence(own + sequence - 1)),
    };
    let pushed = crowd.outbox.push(Instant::ZERO, crowd.flows[0], entry);
    pushed.expect("there is room, and nothing earlier is dropped")
}
