//! What waits in an outbox now, counted: by flow and by importance.
//!
//! *The idea.* Nobody pays for counting but who asks: the slots are looked through once, 0.3 ms with 100,000 waiting.
//! What is read off a link for people and machines, an [`OutboxReading`], is that census with what its driver knows
//! besides.
//!
//! *What it does not do.* It knows no age: a slot does not remember when it was filled. The first deadline is
//! [`Outbox::poll_timeout`].
//!
//! *Sources.* docs/outbox.md §5.

use alloc::vec::Vec;
use core::num::NonZeroU8;
use core::ops::AddAssign;

use super::slab::State;
use super::{FlowId, Outbox};
use crate::adu::Importance;
use crate::event::DropCounts;
use crate::histogram::Percentiles;
use crate::id::{Epoch, StreamId};
use crate::units::{Bitrate, DataSize};

/// How many bands the importances are counted in.
pub const BANDS: usize = 8;

/// How many importances a band has.
pub const BAND_WIDTH: u8 = 32;

/// ADUs of which not all is handed over, and what of them is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub adus: usize,
    /// Their bytes that were not handed over; of an ADU that still arrives, those to come too.
    pub bytes: DataSize,
}

/// What waits in an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// All of it.
    pub waiting: Waiting,
    /// The same by importance: the first has the importances 0 to 31, the last 224 to 255.
    pub by_importance: [Waiting; BANDS],
    /// The same by flow; those that are open and have nothing are in it.
    pub flows: Vec<FlowCensus>,
}

/// What waits of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCensus {
    /// Which.
    pub flow: FlowId,
    /// Its weight now.
    pub weight: NonZeroU8,
    /// What waits of it.
    pub waiting: Waiting,
}

/// How the outbox of a link is at a moment, with what its driver knows of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxReading {
    /// The estimate of what the path can send, if there is one.
    pub sendable_rate: Option<Bitrate>,
    /// What waits.
    pub waiting: Waiting,
    /// The same by importance, in bands of [`BAND_WIDTH`].
    pub by_importance: [Waiting; BANDS],
    /// How long ADUs took from being sent to being acknowledged, over the last ten seconds; none if none was.
    pub latency: Option<Percentiles>,
    /// ADUs that this link gave up or refused since it is up.
    pub drops: DropCounts,
    /// What waits by flow.
    pub flows: Vec<FlowReading>,
}

/// How a flow is: a stream under one plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowReading {
    /// Its stream.
    pub stream: StreamId,
    /// The number of its plan.
    pub epoch: Epoch,
    /// Its weight.
    pub weight: NonZeroU8,
    /// What waits of it.
    pub waiting: Waiting,
}

/// Returns the band of an importance.
pub const fn band(importance: Importance) -> usize {
    (importance.0 / BAND_WIDTH) as usize
}

/// Returns the least importance of a band, 255 at most.
pub const fn band_start(band: usize) -> Importance {
    let start = band * BAND_WIDTH as usize;
    Importance(if start > 255 { 255 } else { start as u8 })
}

impl AddAssign for Waiting {
    fn add_assign(&mut self, other: Self) {
        self.adus += other.adus;
        self.bytes += other.bytes;
    }
}

impl Outbox {
    /// Returns what waits now.
    ///
    /// What was handed over and is not acknowledged does not wait: it is in [`Outbox::len`] still.
    ///
    /// Cost    O(slots) for as many as ever were in use at once, 3 ns each; two allocations for the flows
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        let mut by_flow = alloc::vec![Waiting::default(); self.flows.len()];
        for index in self.slab.live() {
            let slot = &self.slab[index];
            if slot.state != State::Queued {
                continue;
            }
            let waiting = Waiting {
                adus: 1,
                bytes: DataSize::from_bytes((slot.bytes - slot.sent).into()),
            };
            census.waiting += waiting;
            census.by_importance[band(Importance(slot.importance))] += waiting;
            by_flow[slot.flow as usize] += waiting;
        }
        let flows = self.flows.iter().zip(by_flow).enumerate();
        let open = flows.filter(|(_, (flow, _))| flow.is_open);
        census.flows = open
            .map(|(index, (flow, waiting))| FlowCensus {
                flow: self.flow_id(index as u32),
                weight: flow.weight,
                waiting,
            })
            .collect();
        census
    }
}

impl OutboxReading {
    /// Joins a census with what the driver knows: rate, latency, drops, and which stream and plan a flow is of.
    ///
    /// A flow that the driver does not know (any more) is left out, and stays in the sums.
    pub fn new(
        census: &Census,
        sendable_rate: Option<Bitrate>,
        latency: Option<Percentiles>,
        drops: DropCounts,
        mut name: impl FnMut(FlowId) -> Option<(StreamId, Epoch)>,
    ) -> Self {
        let flows = census.flows.iter().filter_map(|flow| {
            let (stream, epoch) = name(flow.flow)?;
            Some(FlowReading {
                stream,
                epoch,
                weight: flow.weight,
                waiting: flow.waiting,
            })
        });
        Self {
            sendable_rate,
            waiting: census.waiting,
            by_importance: census.by_importance,
            latency,
            drops,
            flows: flows.collect(),
        }
    }
}

const _: () = assert!(
    BANDS * BAND_WIDTH as usize == 256,
    "every importance has a band"
);
