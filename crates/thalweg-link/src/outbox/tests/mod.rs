//! Proves the outbox: each rule at its edge from both sides (`rules`, `bounds`, `promise`), all
//! rules at once against a model that is too simple to be wrong (`model`), its results against a
//! scheduler that knows the future (`ideal`, `late`), its parts (`parts`), and its reports
//! (`census`, `crowd`).

mod bounds;
mod census;
mod crowd;
mod ideal;
mod late;
mod model;
mod parts;
mod promise;
mod rules;

use alloc::vec::Vec;

use thalweg_base::adu::Importance;
use thalweg_base::id::Sequence;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::DataSize;

use super::{Chunk, Dropped, Entry, FlowId, Outbox, Settings, Ticket, WEIGHT_USUAL};

/// More credit than any test has bytes.
const PLENTY: DataSize = DataSize::from_kib(1 << 20);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn outbox() -> Outbox {
    Outbox::new(Settings {
        seed: 7,
        ..Settings::default()
    })
}

/// An outbox with one flow by importance.
fn with_flow() -> (Outbox, FlowId) {
    let mut outbox = outbox();
    let flow = outbox.open_flow(WEIGHT_USUAL, Order::Importance);
    (outbox, flow.expect("it is the first"))
}

fn entry(sequence: u64, importance: u8, deadline: Instant, bytes: usize) -> Entry {
    Entry {
        importance: Importance(importance),
        deadline,
        sequence: Sequence(sequence),
        bytes,
        available_bytes: bytes,
        depends_on: None,
    }
}

fn push(outbox: &mut Outbox, flow: FlowId, entry: Entry) -> Ticket {
    let pushed = outbox.push(Instant::ZERO, flow, entry);
    pushed.expect("there is reason and room")
}

fn next(outbox: &mut Outbox, now: Instant) -> Option<Chunk> {
    outbox.poll_chunk(now, PLENTY)
}

/// Sends everything; returns the ADU of each chunk.
fn drain(outbox: &mut Outbox, now: Instant) -> Vec<Ticket> {
    let mut order = Vec::new();
    while let Some(chunk) = next(outbox, now) {
        order.push(chunk.ticket);
        if chunk.is_last {
            assert!(outbox.finish(chunk.ticket), "it has just departed");
        }
    }
    order
}

fn drops(outbox: &mut Outbox) -> Vec<Dropped> {
    core::iter::from_fn(|| outbox.poll_drop()).collect()
}
