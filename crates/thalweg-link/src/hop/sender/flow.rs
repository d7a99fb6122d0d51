//! The flows that share a link.
//!
//! *The idea.* A flow is opened by its first ADU and forgotten once it has been idle for long, so
//! the end of a stream or a plan needs no signal. At the maximum number of flows, idle ones make
//! room at once.
//!
//! A flow keeps its place in a table while it has ADUs, so that only an ADU that is queued needs a
//! search.
//!
//! *What it does not do.* It does not divide the link: the outbox does.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::num::NonZeroU8;

use thalweg_base::adu::Header;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};

use crate::hop::{Carriage, OrderedId};
use crate::outbox::{FlowId, Outbox};

/// How long a flow may be idle before it is forgotten: longer than a stream pauses between two frames.
const FLOW_IDLE_MAX: Duration = Duration::from_secs(10);

/// The ADUs of one stream under one plan are one flow; those in a lane are another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey {
    pub(super) id: OrderedId,
    pub(super) is_lane: bool,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    id: FlowId,
    weight: NonZeroU8,
    /// ADUs without an outcome.
    pending: usize,
    used_at: Instant,
}

/// The place of a flow in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowPlace(u32);

/// The flows of one link.
#[derive(Debug, Default)]
pub(super) struct Flows {
    by_key: BTreeMap<FlowKey, FlowPlace>,
    /// Those of free places are out of date.
    table: Vec<Flow>,
    free: Vec<FlowPlace>,
}

impl FlowPlace {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

impl FlowKey {
    pub(super) fn of(header: &Header, carriage: Carriage) -> Self {
        match carriage {
            Carriage::Ordered(id) => Self { id, is_lane: true },
            Carriage::Stream | Carriage::Datagram => Self {
                id: OrderedId {
                    stream: header.stream,
                    epoch: header.epoch,
                },
                is_lane: false,
            },
        }
    }

    fn both(id: OrderedId) -> core::ops::RangeInclusive<Self> {
        let of = |is_lane| Self { id, is_lane };
        of(false)..=of(true)
    }
}

impl Flows {
    /// Returns them, each with its stream and plan.
    pub(super) fn iter(&self) -> impl Iterator<Item = (FlowId, OrderedId)> + '_ {
        let places = self.by_key.iter();
        places.map(|(key, place)| (self.table[place.index()].id, key.id))
    }

    /// Returns whether a sequence has a flow.
    pub(super) fn has_lane(&self, id: OrderedId) -> bool {
        self.by_key.contains_key(&FlowKey { id, is_lane: true })
    }

    /// Changes a flow's weight on the link; returns whether the flow exists.
    pub(super) fn set_weight(
        &mut self,
        id: OrderedId,
        weight: NonZeroU8,
        outbox: &mut Outbox,
    ) -> bool {
        let mut is_known = false;
        for (_, place) in self.by_key.range(FlowKey::both(id)) {
            let flow = &mut self.table[place.index()];
            flow.weight = weight;
            is_known |= outbox.set_weight(flow.id, weight);
        }
        is_known
    }

    /// Returns the flow of an ADU with its place, opened if need be; `None` if there are too many.
    pub(super) fn find_or_open(
        &mut self,
        now: Instant,
        key: FlowKey,
        (order, weight): (Order, NonZeroU8),
        outbox: &mut Outbox,
    ) -> Option<(FlowPlace, FlowId)> {
        if let Some(place) = self.by_key.get(&key) {
            let flow = &mut self.table[place.index()];
            if flow.weight != weight {
                flow.weight = weight;
                outbox.set_weight(flow.id, weight);
            }
            return Some((*place, flow.id));
        }
        // At the bound, idle flows make room before their time.
        let opened = outbox.open_flow(weight, order).or_else(|| {
            self.close_where(outbox, |_| true);
            outbox.open_flow(weight, order)
        });
        let id = opened?;
        let flow = Flow {
            id,
            weight,
            pending: 0,
            used_at: now,
        };
        let place = if let Some(place) = self.free.pop() {
            self.table[place.index()] = flow;
            place
        } else {
            self.table.push(flow);
            FlowPlace(self.table.len() as u32 - 1)
        };
        self.by_key.insert(key, place);
        Some((place, id))
    }

    /// Handles an ADU that was queued.
    pub(super) fn handle_queued(&mut self, now: Instant, place: FlowPlace) {
        let flow = &mut self.table[place.index()];
        flow.pending += 1;
        flow.used_at = now;
    }

    /// Handles the outcome of one; until then its flow was there.
    pub(super) fn handle_ended(&mut self, place: FlowPlace) {
        self.table[place.index()].pending -= 1;
    }

    /// Forgets idle flows.
    pub(super) fn sweep(&mut self, now: Instant, outbox: &mut Outbox) {
        let is_idle = |flow: &Flow| now.saturating_since(flow.used_at) >= FLOW_IDLE_MAX;
        self.close_where(outbox, is_idle);
    }

    /// Forgets every flow without an ADU of which this is true.
    fn close_where(&mut self, outbox: &mut Outbox, of: impl Fn(&Flow) -> bool) {
        let Self {
            by_key,
            table,
            free,
        } = self;
        by_key.retain(|_, place| {
            let flow = &table[place.index()];
            let is_over = flow.pending == 0 && of(flow);
            if is_over {
                outbox.close_flow(flow.id);
                free.push(*place);
            }
            !is_over
        });
    }
}
