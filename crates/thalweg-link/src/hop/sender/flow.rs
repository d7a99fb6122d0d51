//! The flows that share a link.
//!
//! *The idea.* A flow is opened by its first ADU and forgotten once it has been idle for long, so
//! the end of a stream or a plan needs no signal. At the maximum number of flows, idle ones make
//! room at once.
//!
//! *What it does not do.* It does not divide the link: the outbox does.

use core::num::NonZeroU8;

use thalweg_base::adu::Header;
use thalweg_base::needs::Order;
use thalweg_base::time::{Duration, Instant};

use super::Sender;
use super::transport::Transport;
use crate::hop::{Carriage, OrderedId};
use crate::outbox::FlowId;

/// How long a flow may be idle before it is forgotten: longer than a stream pauses between two frames.
const FLOW_IDLE_MAX: Duration = Duration::from_secs(10);

/// The ADUs of one stream under one plan are one flow; those in a lane are another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey {
    pub(super) id: OrderedId,
    pub(super) is_lane: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) id: FlowId,
    pub(super) weight: NonZeroU8,
    /// ADUs without an outcome.
    pub(super) pending: usize,
    pub(super) used_at: Instant,
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

impl<S: Copy, D> Sender<S, D> {
    /// Returns the flows, each with its stream and plan.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, OrderedId)> + '_ {
        self.flows.iter().map(|(key, flow)| (flow.id, key.id))
    }

    /// Changes a flow's weight on the link; returns whether the flow exists.
    pub fn set_weight(&mut self, id: OrderedId, weight: NonZeroU8) -> bool {
        let mut is_known = false;
        for (_, flow) in self.flows.range_mut(FlowKey::both(id)) {
            flow.weight = weight;
            is_known |= self.outbox.set_weight(flow.id, weight);
        }
        is_known
    }

    /// Forgets idle flows, and finishes the streams of their lanes.
    pub fn sweep(&mut self, now: Instant, transport: &mut impl Transport<Stream = S>) {
        let outbox = &mut self.outbox;
        self.flows.retain(|_, flow| {
            let is_idle = flow.pending == 0 && now.saturating_since(flow.used_at) >= FLOW_IDLE_MAX;
            if is_idle {
                outbox.close_flow(flow.id);
            }
            !is_idle
        });
        let flows = &self.flows;
        let is_used = |id| flows.contains_key(&FlowKey { id, is_lane: true });
        self.lanes.finish_idle(is_used, transport);
    }

    pub(super) fn flow_for(
        &mut self,
        now: Instant,
        key: FlowKey,
        order: Order,
        weight: NonZeroU8,
    ) -> Option<FlowId> {
        if let Some(flow) = self.flows.get_mut(&key) {
            if flow.weight != weight {
                flow.weight = weight;
                self.outbox.set_weight(flow.id, weight);
            }
            return Some(flow.id);
        }
        // At the bound, idle flows make room before their time.
        let opened = self.outbox.open_flow(weight, order).or_else(|| {
            self.sweep_all();
            self.outbox.open_flow(weight, order)
        });
        let id = opened?;
        let flow = Flow {
            id,
            weight,
            pending: 0,
            used_at: now,
        };
        self.flows.insert(key, flow);
        Some(id)
    }

    /// Forgets every flow without an ADU.
    fn sweep_all(&mut self) {
        let outbox = &mut self.outbox;
        self.flows.retain(|_, flow| {
            if flow.pending == 0 {
                outbox.close_flow(flow.id);
            }
            flow.pending > 0
        });
    }
}
