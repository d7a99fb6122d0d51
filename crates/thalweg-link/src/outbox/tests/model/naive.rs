//! The model: one list that is scanned each time.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use thalweg_base::event::DropCause;
use thalweg_base::id::Sequence;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::units::{Bitrate, DataSize};

use super::super::super::{Entry, Ticket};

pub(super) const ADUS_MAX: usize = 12;
pub(super) const BYTES_MAX: u64 = 20_000;
pub(super) const FLOWS: [(u8, Order); 4] = [
    (16, Order::Importance),
    (40, Order::Importance),
    (3, Order::Importance),
    (16, Order::Sequence),
];

/// An ADU of the model; `version` tells equal ones apart.
#[expect(clippy::struct_excessive_bools, reason = "a model is plain, not small")]
#[derive(Clone, Debug)]
pub(super) struct Adu {
    pub(super) ticket: Ticket,
    pub(super) flow: usize,
    pub(super) entry: Entry,
    pub(super) sent: usize,
    pub(super) begun: bool,
    pub(super) departed: bool,
    pub(super) known: bool,
    pub(super) blocked: bool,
    /// Whether it would have been late at its flow's share when its turn came.
    pub(super) postponed: bool,
    pub(super) version: u64,
    /// Of ADUs due at once, the one with the least value is reported first.
    pub(super) deadline_version: u64,
}

#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) weight: i64,
    lost: BTreeSet<u64>,
    deficit: i64,
    round: i64,
    /// Whether it took this round's turn early.
    ahead: bool,
    /// The importance of the ADU that it sent last; zero before the first.
    sending: u8,
    in_turn: bool,
    begun: Option<Ticket>,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) adus: Vec<Adu>,
    pub(super) flows: Vec<Flow>,
    ring: Vec<usize>,
    round: i64,
    pub(super) chunk: i64,
    pub(super) rate: Option<Bitrate>,
    version: u64,
    pub(super) dropped: Vec<(Ticket, DropCause, bool)>,
}

impl Adu {
    pub(super) fn sendable(&self) -> Option<usize> {
        let here = self.entry.available_bytes - self.sent;
        (!self.departed && !self.blocked && (here > 0 || (self.entry.bytes == 0 && !self.begun)))
            .then_some(here)
    }

    /// Returns the sort key: the least goes first.
    fn key(&self, version: u64) -> impl Ord + use<> {
        match FLOWS[self.flow].1 {
            Order::Importance => (
                (Reverse(self.entry.importance.0), self.postponed),
                self.entry.deadline,
                self.entry.sequence,
                version,
            ),
            Order::Sequence => ((Reverse(0), false), Instant::ZERO, Sequence(0), version),
        }
    }
}

impl Model {
    pub(super) fn new() -> Self {
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
            version: 0,
            dropped: Vec::new(),
        }
    }

    pub(super) fn next_stamp(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn queued(&self, flow: usize) -> impl Iterator<Item = &Adu> {
        self.adus
            .iter()
            .filter(move |adu| adu.flow == flow && !adu.departed)
    }

    /// Returns the ADU that a flow would send now.
    fn first(&self, flow: usize) -> Option<Ticket> {
        let is_strict = FLOWS[flow].1 == Order::Sequence;
        self.queued(flow)
            .filter(|adu| is_strict || adu.sendable().is_some())
            .min_by_key(|adu| adu.key(adu.version))
            .filter(|adu| adu.sendable().is_some())
            .map(|adu| adu.ticket)
    }

    pub(super) fn at(&mut self, ticket: Ticket) -> Option<&mut Adu> {
        self.adus.iter_mut().find(|adu| adu.ticket == ticket)
    }

    fn matters(&self, flow: usize, ticket: Ticket) -> u8 {
        let adu = self.adus.iter().find(|adu| adu.ticket == ticket);
        match FLOWS[flow].1 {
            Order::Importance => adu.map_or(0, |adu| adu.entry.importance.0),
            Order::Sequence => u8::MAX,
        }
    }

    fn refill(&mut self, flow: usize, round: i64) {
        let chunk = self.chunk;
        let flow = &mut self.flows[flow];
        let quantum = (flow.weight * chunk / 16).max(1);
        let owing = flow.deficit.max(-(chunk + 64));
        flow.deficit = (owing + quantum * (round - flow.round).max(0)).min(quantum);
        flow.round = flow.round.max(round);
    }

    fn join(&mut self, flow: usize) {
        if self.first(flow).is_none() || self.flows[flow].in_turn {
            return;
        }
        self.flows[flow].in_turn = true;
        self.flows[flow].ahead &= self.flows[flow].round >= self.round;
        self.refill(flow, self.round);
        let place = if self.flows[flow].deficit > 0 {
            0
        } else {
            self.ring.len()
        };
        self.ring.insert(place, flow);
    }

    /// Takes the turn of this round, or else of the next, at once, if the first ADU is more
    /// important than the last sent.
    fn activate(&mut self, flow: usize) {
        self.join(flow);
        let first = self.first(flow);
        let is_rise = first.is_some_and(|t| self.matters(flow, t) > self.flows[flow].sending);
        let has_its_turn = self.flows[flow].deficit > 0 || self.ring.first() == Some(&flow);
        if !is_rise || has_its_turn || self.flows[flow].ahead {
            return;
        }
        self.flows[flow].ahead = self.flows[flow].round >= self.round;
        let next = self.flows[flow].round + 1;
        self.refill(flow, self.round.max(next));
        if self.flows[flow].deficit > 0 {
            self.ring.retain(|other| *other != flow);
            self.ring.insert(0, flow);
        }
    }

    pub(super) fn discard(&mut self, ticket: Ticket, cause: DropCause) {
        let Some(place) = self.adus.iter().position(|adu| adu.ticket == ticket) else {
            return;
        };
        let adu = self.adus.remove(place);
        self.dropped.push((ticket, cause, adu.begun));
        if adu.known && !adu.departed {
            self.mark_lost(adu.flow, adu.entry.sequence.0);
        }
        self.join(adu.flow);
    }

    pub(super) fn mark_lost(&mut self, flow: usize, sequence: u64) {
        self.flows[flow].lost.insert(sequence);
        let needs =
            |adu: &&Adu| adu.flow == flow && adu.entry.depends_on == Some(Sequence(sequence));
        while let Some(adu) = self.adus.iter().find(needs) {
            self.discard(adu.ticket, DropCause::Dependant);
        }
    }

    pub(super) fn expire(&mut self, now: Instant) {
        let due = |adu: &&Adu| adu.entry.deadline <= now;
        while let Some(adu) = self
            .adus
            .iter()
            .filter(due)
            .min_by_key(|adu| (adu.entry.deadline, adu.deadline_version))
        {
            self.discard(adu.ticket, DropCause::Expired);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let queued = self.adus.iter().filter(|adu| !adu.departed);
        queued.map(|adu| adu.entry.bytes).sum()
    }

    /// Returns why an ADU is refused, if it is; may drop others.
    pub(super) fn refuses(
        &mut self,
        now: Instant,
        flow: usize,
        entry: &Entry,
    ) -> Option<DropCause> {
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
                // A common multiple of all weights.
                all as u64 * 5_354_228_880 / self.flows[index].weight as u64
            };
            let largest_flow = (0..FLOWS.len())
                .max_by_key(|index| (held(*index), *index == flow, Reverse(*index)))
                .expect("there are flows");
            let last = self
                .queued(largest_flow)
                .max_by_key(|adu| adu.key(adu.version));
            let Some(last) = last.cloned() else {
                return Some(DropCause::Overflow);
            };
            let new = Adu {
                ticket: last.ticket,
                flow,
                entry: *entry,
                postponed: false,
                ..last.clone()
            };
            if largest_flow == flow && last.key(0) <= new.key(0) {
                return Some(DropCause::Overflow);
            }
            self.discard(last.ticket, DropCause::Preempted);
        }
    }

    /// Changes what can be sent of an ADU; an ADU that becomes sendable, or no longer is, becomes
    /// the latest of its equals.
    pub(super) fn update_sendable(&mut self, ticket: Ticket, change: impl FnOnce(&mut Adu)) {
        let version = self.next_stamp();
        let Some(adu) = self.at(ticket) else {
            return;
        };
        let before = (adu.sendable().is_some(), adu.departed);
        change(adu);
        let after = (adu.sendable().is_some(), adu.departed);
        if before != after && FLOWS[adu.flow].1 == Order::Importance {
            adu.version = version;
        }
        let flow = adu.flow;
        if !before.0 && after.0 {
            self.activate(flow);
        }
    }

    pub(super) fn push(&mut self, flow: usize, entry: Entry, ticket: Ticket) {
        let known = !self
            .adus
            .iter()
            .any(|adu| adu.flow == flow && adu.known && adu.entry.sequence == entry.sequence);
        self.flows[flow].lost.remove(&entry.sequence.0);
        let version = self.next_stamp();
        self.adus.push(Adu {
            ticket,
            flow,
            entry,
            sent: 0,
            begun: false,
            departed: false,
            known,
            blocked: false,
            postponed: false,
            version,
            deadline_version: version,
        });
        self.activate(flow);
    }

    /// Returns how long the rest of an ADU takes: its first chunk at full rate, the rest at its
    /// flow's share.
    fn time_to_send(&self, adu: &Adu, rate: Bitrate) -> Duration {
        let bytes = adu.entry.bytes - adu.sent;
        let chunk = bytes.min(self.chunk as usize);
        let weights: i64 = self.ring.iter().map(|flow| self.flows[*flow].weight).sum();
        let share = rate.as_bps() * self.flows[adu.flow].weight as u64 / weights as u64;
        let time = |rate: Bitrate, bytes: usize| rate.time_for(DataSize::from_bytes(bytes as u64));
        time(rate, chunk + 64) + time(Bitrate::from_bps(share), bytes - chunk)
    }

    /// Returns whether an ADU is postponed behind its equals instead of being begun, because it
    /// would be late.
    fn is_postponed_now(&self, now: Instant, ticket: Ticket) -> bool {
        let adu = self.adus.iter().find(|adu| adu.ticket == ticket);
        let (Some(adu), Some(rate)) = (adu, self.rate) else {
            return false;
        };
        FLOWS[adu.flow].1 == Order::Importance
            && !adu.begun
            && !adu.postponed
            && !adu.entry.deadline.is_never()
            && self.queued(adu.flow).count() > 1
            && now + self.time_to_send(adu, rate) > adu.entry.deadline
    }

    /// Returns the ADU of a flow that is begun, if it is to be finished before the first.
    fn choose(&self, now: Instant, flow: usize, first: Ticket) -> Option<Ticket> {
        let find = |ticket| self.adus.iter().find(|adu| adu.ticket == ticket);
        let (begun, other) = (find(self.flows[flow].begun?)?, find(first)?);
        let through = now + self.time_to_send(begun, self.rate?);
        let pressed = through + self.time_to_send(other, self.rate?);
        let is_preferred = FLOWS[flow].1 == Order::Importance
            && begun.sendable().is_some()
            && begun.entry.importance == other.entry.importance
            && through <= begun.entry.deadline
            && pressed > begun.entry.deadline;
        is_preferred.then_some(begun.ticket)
    }

    fn is_too_late(&mut self, now: Instant, ticket: Ticket) -> bool {
        let rate = self.rate;
        let adu = self.at(ticket).expect("it was found above");
        let (deadline, left) = (adu.entry.deadline, adu.entry.bytes - adu.sent);
        let time = deadline.saturating_since(now);
        !deadline.is_never() && rate.is_some_and(|rate| (rate * time).as_bytes() < left as u64)
    }

    pub(super) fn chunk(
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
                if self.is_too_late(now, first) {
                    self.discard(first, DropCause::Expired);
                } else if self.is_postponed_now(now, first) {
                    let version = self.next_stamp();
                    let adu = self.at(first).expect("it is the first");
                    (adu.postponed, adu.version) = (true, version);
                } else {
                    break (flow, self.choose(now, flow, first).unwrap_or(first));
                }
                continue;
            }
            if self.flows[flow].ahead {
                self.flows[flow].ahead = false;
            } else {
                self.round = self.round.max(self.flows[flow].round + 1);
                self.refill(flow, self.round);
            }
            if self.flows[flow].deficit <= 0 {
                self.ring.rotate_left(1);
            }
        };
        let matters = self.matters(flow, ticket);
        let (chunk, version) = (self.chunk as usize, self.next_stamp());
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
            adu.version = version;
        }
        let departed = adu.departed;
        if !departed {
            self.flows[flow].begun = Some(ticket);
        }
        self.flows[flow].sending = matters;
        self.flows[flow].deficit -= i64::try_from(bytes + overhead).expect("it is a chunk");
        if self.flows[flow].deficit <= 0 {
            self.ring.rotate_left(1);
        }
        Some((ticket, start..start + bytes, departed))
    }
}
