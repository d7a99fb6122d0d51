//! The outbox does what a model does that keeps one unsorted list, looks through all of it each time, and forgets nothing.
//!
//! Weights, sizes and bounds are small, so that every rule comes into play within a few dozen steps.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use core::cmp::Reverse;
use core::num::NonZeroU8;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{Chunk, Entry, FlowId, Outbox, Settings, Ticket};
use super::entry;
use crate::adu::Importance;
use crate::event::DropCause;
use crate::id::Sequence;
use crate::needs::Order;
use crate::time::{Duration, Instant};
use crate::units::{Bitrate, DataSize};

const ADUS_MAX: usize = 12;
const BYTES_MAX: u64 = 20_000;
const FLOWS: [(u8, Order); 4] = [
    (16, Order::Importance),
    (40, Order::Importance),
    (3, Order::Importance),
    (16, Order::Sequence),
];

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
    Chunk(u64),
    Finish(usize),
    Cancel(usize),
    Importance(usize, u8),
    Deadline(usize, u64),
    Weight(usize, u8),
    Rate(u64),
    Time(u64),
}

/// One ADU of the model; `stamp` tells equals apart.
#[derive(Clone, Debug)]
struct Adu {
    ticket: Ticket,
    flow: usize,
    entry: Entry,
    sent: usize,
    begun: bool,
    departed: bool,
    known: bool,
    stamp: u64,
    /// Of those that are due at once, the least is told first.
    alarm: u64,
}

#[derive(Debug, Default)]
struct Flow {
    weight: i64,
    lost: BTreeSet<u64>,
    deficit: i64,
    round: i64,
    in_turn: bool,
}

#[derive(Debug)]
struct Model {
    adus: Vec<Adu>,
    flows: Vec<Flow>,
    ring: Vec<usize>,
    round: i64,
    chunk: i64,
    rate: Option<Bitrate>,
    stamp: u64,
    dropped: Vec<(Ticket, DropCause, bool)>,
}

impl Adu {
    fn sendable(&self) -> Option<usize> {
        let here = self.entry.available_bytes - self.sent;
        (!self.departed && (here > 0 || (self.entry.bytes == 0 && !self.begun))).then_some(here)
    }

    /// The least goes first.
    fn key(&self, stamp: u64) -> impl Ord + use<> {
        match FLOWS[self.flow].1 {
            Order::Importance => (
                Reverse(self.entry.importance.0),
                self.entry.deadline,
                self.entry.sequence,
                stamp,
            ),
            Order::Sequence => (Reverse(0), Instant::ZERO, Sequence(0), stamp),
        }
    }
}

impl Model {
    fn new() -> Self {
        let flow = |(weight, _): (u8, Order)| Flow {
            weight: weight.into(),
            ..Flow::default()
        };
        Self {
            adus: Vec::new(),
            flows: FLOWS.map(flow).into(),
            ring: Vec::new(),
            round: 0,
            chunk: 16 << 10,
            rate: None,
            stamp: 0,
            dropped: Vec::new(),
        }
    }

    fn next_stamp(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    fn queued(&self, flow: usize) -> impl Iterator<Item = &Adu> {
        self.adus
            .iter()
            .filter(move |adu| adu.flow == flow && !adu.departed)
    }

    /// The ADU that a flow would send now.
    fn first(&self, flow: usize) -> Option<Ticket> {
        let is_strict = FLOWS[flow].1 == Order::Sequence;
        self.queued(flow)
            .filter(|adu| is_strict || adu.sendable().is_some())
            .min_by_key(|adu| adu.key(adu.stamp))
            .filter(|adu| adu.sendable().is_some())
            .map(|adu| adu.ticket)
    }

    fn at(&mut self, ticket: Ticket) -> Option<&mut Adu> {
        self.adus.iter_mut().find(|adu| adu.ticket == ticket)
    }

    fn refill(&mut self, flow: usize) {
        let (round, chunk) = (self.round, self.chunk);
        let flow = &mut self.flows[flow];
        let quantum = (flow.weight * chunk / 16).max(1);
        let owing = flow.deficit.max(-(chunk + 64));
        flow.deficit = (owing + quantum * (round - flow.round)).min(quantum);
        flow.round = round;
    }

    fn join(&mut self, flow: usize) {
        if self.first(flow).is_none() || self.flows[flow].in_turn {
            return;
        }
        self.flows[flow].in_turn = true;
        self.refill(flow);
        let place = if self.flows[flow].deficit > 0 {
            0
        } else {
            self.ring.len()
        };
        self.ring.insert(place, flow);
    }

    fn discard(&mut self, ticket: Ticket, cause: DropCause) {
        let Some(place) = self.adus.iter().position(|adu| adu.ticket == ticket) else {
            return;
        };
        let adu = self.adus.remove(place);
        self.dropped.push((ticket, cause, adu.begun));
        if adu.known && !adu.departed {
            self.lose(adu.flow, adu.entry.sequence.0);
        }
        self.join(adu.flow);
    }

    fn lose(&mut self, flow: usize, sequence: u64) {
        self.flows[flow].lost.insert(sequence);
        let needs =
            |adu: &&Adu| adu.flow == flow && adu.entry.depends_on == Some(Sequence(sequence));
        while let Some(adu) = self.adus.iter().find(needs) {
            self.discard(adu.ticket, DropCause::Dependant);
        }
    }

    fn expire(&mut self, now: Instant) {
        let due = |adu: &&Adu| adu.entry.deadline <= now;
        while let Some(adu) = self
            .adus
            .iter()
            .filter(due)
            .min_by_key(|adu| (adu.entry.deadline, adu.alarm))
        {
            self.discard(adu.ticket, DropCause::Expired);
        }
    }

    fn bytes(&self) -> usize {
        let queued = self.adus.iter().filter(|adu| !adu.departed);
        queued.map(|adu| adu.entry.bytes).sum()
    }

    /// Returns why an ADU is refused, if it is; may drop others.
    fn refuses(&mut self, now: Instant, flow: usize, entry: &Entry) -> Option<DropCause> {
        let budget = entry.deadline.saturating_since(now);
        let needs_lost = |model: &Self| {
            entry
                .depends_on
                .is_some_and(|base| model.flows[flow].lost.contains(&base.0))
        };
        if entry.deadline <= now {
            return Some(DropCause::Expired);
        }
        let is_timed = !entry.deadline.is_never();
        if is_timed
            && self
                .rate
                .is_some_and(|rate| (rate * budget).as_bytes() < entry.bytes as u64)
        {
            return Some(DropCause::Oversized);
        }
        if needs_lost(self) {
            return Some(DropCause::Dependant);
        }
        if entry.bytes as u64 > BYTES_MAX {
            return Some(DropCause::Overflow);
        }
        loop {
            let is_full = self.adus.len() >= ADUS_MAX;
            if !is_full && (self.bytes() + entry.bytes) as u64 <= BYTES_MAX {
                return needs_lost(self).then_some(DropCause::Dependant);
            }
            let held = |index: usize| {
                let queued = self.queued(index);
                let held: usize = queued
                    .map(|adu| if is_full { 1 } else { adu.entry.bytes })
                    .sum();
                let comes = if is_full { 1 } else { entry.bytes };
                let all = held + if index == flow { comes } else { 0 };
                // A common multiple of all weights there are.
                all as u64 * 5_354_228_880 / self.flows[index].weight as u64
            };
            let greediest = (0..FLOWS.len())
                .max_by_key(|index| (held(*index), *index == flow, Reverse(*index)))
                .expect("there are flows");
            let last = self.queued(greediest).max_by_key(|adu| adu.key(adu.stamp));
            let Some(last) = last.cloned() else {
                return Some(DropCause::Overflow);
            };
            let new = Adu {
                ticket: last.ticket,
                flow,
                entry: *entry,
                ..last.clone()
            };
            if greediest == flow && last.key(0) <= new.key(0) {
                return Some(DropCause::Overflow);
            }
            self.discard(last.ticket, DropCause::Preempted);
        }
    }

    fn push(&mut self, flow: usize, entry: Entry, ticket: Ticket) {
        let known = !self
            .adus
            .iter()
            .any(|adu| adu.flow == flow && adu.known && adu.entry.sequence == entry.sequence);
        self.flows[flow].lost.remove(&entry.sequence.0);
        let stamp = self.next_stamp();
        self.adus.push(Adu {
            ticket,
            flow,
            entry,
            sent: 0,
            begun: false,
            departed: false,
            known,
            stamp,
            alarm: stamp,
        });
        self.join(flow);
    }

    fn chunk(
        &mut self,
        now: Instant,
        credit: u64,
    ) -> Option<(Ticket, core::ops::Range<usize>, bool)> {
        self.expire(now);
        let (flow, ticket) = loop {
            let flow = *self.ring.first()?;
            let Some(first) = self.first(flow) else {
                self.ring.remove(0);
                self.flows[flow].in_turn = false;
                continue;
            };
            if self.flows[flow].deficit > 0 {
                break (flow, first);
            }
            self.round += i64::from(self.flows[flow].round == self.round);
            self.refill(flow);
            if self.flows[flow].deficit <= 0 {
                self.ring.rotate_left(1);
            }
        };
        let (chunk, stamp) = (self.chunk as usize, self.next_stamp());
        let adu = self.at(ticket).expect("it was found above");
        let wanted = adu.sendable().expect("it is the first").min(chunk);
        if (credit as usize) < wanted.clamp(1, 1_200) {
            return None;
        }
        let bytes = wanted.min(credit as usize);
        let start = adu.sent;
        let overhead = if adu.begun { 0 } else { 64 };
        (adu.sent, adu.begun) = (start + bytes, true);
        adu.departed = adu.sent == adu.entry.bytes;
        if adu.sendable().is_none() && FLOWS[flow].1 == Order::Importance {
            adu.stamp = stamp;
        }
        let departed = adu.departed;
        self.flows[flow].deficit -= i64::try_from(bytes + overhead).expect("it is a chunk");
        if self.flows[flow].deficit <= 0 {
            self.ring.rotate_left(1);
        }
        Some((ticket, start..start + bytes, departed))
    }
}

/// Both, and the tickets that were given.
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
                    self.model.lose(flow, entry.sequence.0);
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

    /// Steps that concern one ADU.
    fn step_one(&mut self, step: &Step) {
        let (Step::Available(nth, _)
        | Step::Finish(nth)
        | Step::Cancel(nth)
        | Step::Importance(nth, _)
        | Step::Deadline(nth, _)) = *step
        else {
            return;
        };
        let Some(ticket) = self.ticket(nth) else {
            return;
        };
        let stamp = self.model.next_stamp();
        let is_here = self.model.at(ticket).is_some();
        let is_ordered = |adu: &Adu| FLOWS[adu.flow].1 == Order::Importance;
        match *step {
            Step::Available(_, bytes) => {
                assert_eq!(self.outbox.handle_available(ticket, bytes), is_here);
                if let Some(adu) = self.model.at(ticket)
                    && bytes.min(adu.entry.bytes) > adu.entry.available_bytes
                {
                    if adu.sendable().is_none() && is_ordered(adu) {
                        adu.stamp = stamp;
                    }
                    adu.entry.available_bytes = bytes.min(adu.entry.bytes);
                    let flow = adu.flow;
                    self.model.join(flow);
                }
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
                    adu.stamp = if is_ordered(adu) { stamp } else { adu.stamp };
                }
            }
            Step::Deadline(_, millis) => {
                let deadline = self.now + Duration::from_millis(millis);
                assert_eq!(self.outbox.set_deadline(ticket, deadline), is_here);
                if let Some(adu) = self.model.at(ticket) {
                    adu.entry.deadline = deadline;
                    adu.alarm = stamp;
                    adu.stamp = if is_ordered(adu) { stamp } else { adu.stamp };
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
    prop_oneof![
        6 => push,
        6 => prop_oneof![0..1_300u64, Just(1 << 40)].prop_map(Step::Chunk),
        2 => (0..20usize, 0..25_000usize).prop_map(|(nth, bytes)| Step::Available(nth, bytes)),
        2 => (0..20usize).prop_map(Step::Finish),
        1 => (0..20usize).prop_map(Step::Cancel),
        1 => (0..20usize, 0..4u8).prop_map(|(nth, importance)| Step::Importance(nth, importance)),
        1 => (0..20usize, 0..60u64).prop_map(|(nth, millis)| Step::Deadline(nth, millis)),
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
