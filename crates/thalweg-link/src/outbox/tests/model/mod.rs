//! Proves that the outbox equals a model that keeps one unsorted list, scans all of it each time,
//! and forgets nothing.
//!
//! Weights, sizes and bounds are small, so that every rule comes into play within a few dozen steps.

mod naive;

use alloc::vec::Vec;
use core::num::NonZeroU8;

use naive::{ADUS_MAX, Adu, BYTES_MAX, FLOWS, Model};
use proptest::collection::vec;
use proptest::prelude::*;
use thalweg_base::adu::Importance;
use thalweg_base::event::DropCause;
use thalweg_base::id::Sequence;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::super::{Chunk, Entry, FlowId, Outbox, Settings, Ticket};
use super::entry;

#[derive(Clone, Debug)]
enum Step {
    Push {
        flow: usize,
        sequence: u64,
        importance: u8,
        millis: u64,
        bytes: usize,
        available: usize,
        back: u64,
    },
    Available(usize, usize),
    Unsent(usize, usize),
    Blocked(usize, bool),
    Chunk(u64),
    Finish(usize),
    Cancel(usize),
    Importance(usize, u8),
    Deadline(usize, u64),
    Weight(usize, u8),
    Rate(u64),
    Time(u64),
}

/// The outbox, the model, and the tickets so far.
struct Pair {
    outbox: Outbox,
    flows: Vec<FlowId>,
    model: Model,
    tickets: Vec<Ticket>,
    now: Instant,
}

impl Pair {
    fn new() -> Self {
        let mut outbox = Outbox::new(Settings {
            adus_max: ADUS_MAX,
            bytes_max: DataSize::from_bytes(BYTES_MAX),
            flows_max: FLOWS.len(),
            seed: 3,
        });
        let open = |(weight, order): (u8, Order)| {
            let weight = NonZeroU8::new(weight).expect("it is not zero");
            outbox
                .open_flow(weight, order)
                .expect("so many are allowed")
        };
        Self {
            flows: FLOWS.map(open).into(),
            outbox,
            model: Model::new(),
            tickets: Vec::new(),
            now: Instant::ZERO + Duration::from_secs(1),
        }
    }

    fn ticket(&self, nth: usize) -> Option<Ticket> {
        let recent = self.tickets.len().saturating_sub(20);
        let recent = &self.tickets[recent..];
        (!recent.is_empty()).then(|| recent[nth % recent.len()])
    }

    fn push(&mut self, flow: usize, entry: Entry) {
        let refused = self.model.refuses(self.now, flow, &entry);
        let pushed = self.outbox.push(self.now, self.flows[flow], entry);
        match (refused, pushed) {
            (None, Ok(ticket)) => {
                self.model.push(flow, entry, ticket);
                self.tickets.push(ticket);
            }
            (Some(cause), Err(refused)) => {
                assert_eq!(refused.drop_cause(), cause);
                let is_here = self.model.adus.iter().any(|adu| {
                    adu.flow == flow && adu.known && adu.entry.sequence == entry.sequence
                });
                if !is_here {
                    self.model.mark_lost(flow, entry.sequence.0);
                }
            }
            (expected, got) => panic!("{expected:?} was due, not {got:?}"),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Push {
                flow,
                sequence,
                importance,
                millis,
                bytes,
                available,
                back,
            } => {
                let deadline = match millis {
                    0 => Instant::NEVER,
                    millis => self.now + Duration::from_millis(millis - 1),
                };
                let base = (back > 0).then(|| sequence.checked_sub(back)).flatten();
                let entry = Entry {
                    available_bytes: available.min(bytes),
                    depends_on: base.map(Sequence),
                    ..entry(sequence, importance, deadline, bytes)
                };
                self.push(flow, entry);
            }
            Step::Chunk(credit) => {
                let due = self.model.chunk(self.now, credit);
                let chunk = self
                    .outbox
                    .poll_chunk(self.now, DataSize::from_bytes(credit));
                let got = chunk.map(
                    |Chunk {
                         ticket,
                         range,
                         is_last,
                         ..
                     }| (ticket, range, is_last),
                );
                assert_eq!(got, due);
            }
            Step::Rate(kbps) => {
                let rate = (kbps > 0).then(|| Bitrate::from_kbps(kbps));
                self.outbox.set_rate(rate);
                self.outbox.set_ceiling(rate);
                self.model.rate = rate;
                let bytes = |rate: Bitrate| {
                    i64::from(((rate.as_bps() / 4_000) as u32).clamp(1_200, 65_536))
                };
                self.model.chunk = rate.map_or(16 << 10, bytes);
            }
            Step::Time(millis) => {
                self.now = Instant::ZERO + Duration::from_millis(500 + millis);
                self.outbox.handle_timeout(self.now);
                self.model.expire(self.now);
            }
            Step::Weight(flow, weight) => {
                let weight = NonZeroU8::new(weight).expect("it is not zero");
                assert!(self.outbox.set_weight(self.flows[flow], weight));
                self.model.flows[flow].weight = weight.get().into();
            }
            _ => self.step_one(step),
        }
    }

    /// Applies a step that concerns one ADU.
    fn step_one(&mut self, step: &Step) {
        let Some(ticket) = nth_of(step).and_then(|nth| self.ticket(nth)) else {
            return;
        };
        let version = self.model.next_stamp();
        let is_here = self.model.at(ticket).is_some();
        let is_ordered = |adu: &Adu| FLOWS[adu.flow].1 == Order::Importance;
        match *step {
            Step::Available(_, bytes) => {
                assert_eq!(self.outbox.handle_available(ticket, bytes), is_here);
                self.model.update_sendable(ticket, |adu| {
                    let bytes = bytes.min(adu.entry.bytes);
                    adu.entry.available_bytes = adu.entry.available_bytes.max(bytes);
                });
            }
            Step::Unsent(_, bytes) => {
                assert_eq!(self.outbox.handle_unsent(ticket, bytes), is_here);
                self.model.update_sendable(ticket, |adu| {
                    adu.sent -= bytes.min(adu.sent);
                    adu.departed &= adu.sent == adu.entry.bytes && adu.entry.bytes > 0;
                    adu.begun &= adu.entry.bytes > 0;
                });
            }
            Step::Blocked(_, blocked) => {
                assert_eq!(self.outbox.set_blocked(ticket, blocked), is_here);
                self.model.update_sendable(ticket, |adu| {
                    adu.blocked = if adu.departed { adu.blocked } else { blocked };
                });
            }
            Step::Finish(_) => {
                let departed = self.model.at(ticket).is_some_and(|adu| adu.departed);
                assert_eq!(self.outbox.finish(ticket), departed);
                self.model
                    .adus
                    .retain(|adu| adu.ticket != ticket || !departed);
            }
            Step::Cancel(_) => {
                assert_eq!(self.outbox.cancel(ticket, DropCause::Cancelled), is_here);
                self.model.discard(ticket, DropCause::Cancelled);
            }
            Step::Importance(_, importance) => {
                let importance = Importance(importance);
                assert_eq!(self.outbox.set_importance(ticket, importance), is_here);
                if let Some(adu) = self.model.at(ticket) {
                    adu.entry.importance = importance;
                    if is_ordered(adu) {
                        adu.version = version;
                    }
                }
            }
            Step::Deadline(_, millis) => {
                let deadline = self.now + Duration::from_millis(millis);
                assert_eq!(self.outbox.set_deadline(ticket, deadline), is_here);
                if let Some(adu) = self.model.at(ticket) {
                    (adu.entry.deadline, adu.postponed) = (deadline, false);
                    adu.deadline_version = version;
                    if is_ordered(adu) {
                        adu.version = version;
                    }
                }
            }
            _ => {}
        }
    }

    fn compare(&mut self) {
        let dropped = core::iter::from_fn(|| self.outbox.poll_drop());
        let mut dropped: Vec<_> = dropped
            .map(|dropped| (dropped.ticket, dropped.cause, dropped.has_begun))
            .collect();
        dropped.sort();
        let mut due = core::mem::take(&mut self.model.dropped);
        due.sort();
        assert_eq!(dropped, due);
        assert_eq!(self.outbox.len(), self.model.adus.len());
        assert_eq!(self.outbox.queued().as_bytes(), self.model.bytes() as u64);
        let deadlines = self.model.adus.iter().map(|adu| adu.entry.deadline);
        let first = deadlines.min().unwrap_or(Instant::NEVER);
        assert_eq!(self.outbox.poll_timeout(), first);
    }
}

/// Returns the ADU that a step concerns, if it concerns one.
const fn nth_of(step: &Step) -> Option<usize> {
    match *step {
        Step::Available(nth, _)
        | Step::Unsent(nth, _)
        | Step::Blocked(nth, _)
        | Step::Finish(nth)
        | Step::Cancel(nth)
        | Step::Importance(nth, _)
        | Step::Deadline(nth, _) => Some(nth),
        _ => None,
    }
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![0..4usize, 0..3_000usize, 2_000..25_000usize];
    let push = (
        0..4usize,
        0..40u64,
        0..4u8,
        0..60u64,
        bytes,
        0..30_000usize,
        0..4u64,
    );
    let push = push.prop_map(
        |(flow, sequence, importance, millis, bytes, available, back)| Step::Push {
            flow,
            sequence,
            importance,
            millis: if millis < 10 { 0 } else { millis },
            bytes,
            available,
            back,
        },
    );
    let nth = || 0..20usize;
    let of_one = prop_oneof![
        2 => (nth(), 0..25_000usize).prop_map(|(nth, bytes)| Step::Available(nth, bytes)),
        1 => (nth(), 0..3_000usize).prop_map(|(nth, bytes)| Step::Unsent(nth, bytes)),
        1 => (nth(), any::<bool>()).prop_map(|(nth, blocked)| Step::Blocked(nth, blocked)),
        2 => nth().prop_map(Step::Finish),
        1 => nth().prop_map(Step::Cancel),
        1 => (nth(), 0..4u8).prop_map(|(nth, importance)| Step::Importance(nth, importance)),
        1 => (nth(), 0..60u64).prop_map(|(nth, millis)| Step::Deadline(nth, millis)),
    ];
    prop_oneof![
        6 => push,
        6 => prop_oneof![0..1_300u64, Just(1 << 40)].prop_map(Step::Chunk),
        9 => of_one,
        1 => (0..4usize, 1..40u8).prop_map(|(flow, weight)| Step::Weight(flow, weight)),
        1 => prop_oneof![Just(0), 500..50_000u64].prop_map(Step::Rate),
        1 => (0..1_000u64).prop_map(Step::Time),
    ]
}

proptest! {
    #[test]
    fn outbox_does_what_the_model_does(steps in vec(step(), 1..120)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.step(step);
            pair.compare();
        }
    }
}
