//! Counts of what is queued in an outbox, by flow and by importance.
//!
//! *The idea.* Counting costs nothing until it is requested: then all slots are scanned once, 0.3
//! ms with 100,000 queued. An [`OutboxReading`], as shown to people and machines, is that census
//! with what the driver knows besides.
//!
//! *What it does not do.* It knows no age: a slot does not store when it was filled. The first
//! deadline is [`Outbox::poll_timeout`](super::Outbox::poll_timeout).
//!
//! *Sources.* docs/concepts/outbox.md §5.

use alloc::vec::Vec;
use core::num::NonZeroU8;
use core::ops::AddAssign;

use thalweg_base::adu::Importance;
use thalweg_base::event::DropCounts;
use thalweg_base::histogram::Percentiles;
use thalweg_base::id::{Epoch, StreamId};
use thalweg_base::units::{Bitrate, DataSize};

use super::FlowId;
use super::flows::Flows;
use super::slab::{Slab, State};

/// Number of bands of importance.
pub const BANDS: usize = 8;

/// Importances per band.
pub const BAND_WIDTH: u8 = 32;

/// ADUs that are not handed over whole, and their remaining bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// The number of ADUs.
    pub adus: usize,
    /// Their bytes not handed over, including bytes still to arrive.
    pub bytes: DataSize,
}

/// What is queued in an outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// The total.
    pub waiting: Waiting,
    /// By importance: the first band has the importances 0 to 31, the last 224 to 255.
    pub by_importance: [Waiting; BANDS],
    /// By flow, including open flows with nothing queued.
    pub flows: Vec<FlowCensus>,
}

/// What is queued of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowCensus {
    /// The flow.
    pub flow: FlowId,
    /// Its present weight.
    pub weight: NonZeroU8,
    /// What is queued of it.
    pub waiting: Waiting,
}

/// The state of a link's outbox, with what its driver knows of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxReading {
    /// The estimated rate of the path, if there is one.
    pub sendable_rate: Option<Bitrate>,
    /// The total queued.
    pub waiting: Waiting,
    /// By importance, in bands of [`BAND_WIDTH`].
    pub by_importance: [Waiting; BANDS],
    /// Times from sending to acknowledgement of ADUs, over the last ten seconds; `None` without any.
    pub latency: Option<Percentiles>,
    /// ADUs that this link dropped or refused since it came up.
    pub drops: DropCounts,
    /// By flow.
    pub flows: Vec<FlowReading>,
}

/// The state of a flow: a stream under one plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowReading {
    /// Its stream.
    pub stream: StreamId,
    /// The epoch of its plan.
    pub epoch: Epoch,
    /// Its weight.
    pub weight: NonZeroU8,
    /// What is queued of it.
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

impl Census {
    /// Counts what is queued in these slots, of these flows.
    pub(super) fn of(slab: &Slab, flows: &Flows) -> Self {
        let mut census = Self::default();
        let mut by_flow = alloc::vec![Waiting::default(); flows.iter().count()];
        for index in slab.live() {
            let slot = &slab[index];
            // Departed ADUs wait for an acknowledgement, not for the path.
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
        let all = flows.iter().zip(by_flow).enumerate();
        let open = all.filter(|(_, (flow, _))| flow.is_open());
        census.flows = open
            .map(|(index, (flow, waiting))| FlowCensus {
                flow: flows.id(index as u32),
                weight: flow.weight,
                waiting,
            })
            .collect();
        census
    }
}

impl OutboxReading {
    /// Joins a census with what the driver knows: rate, latency, drops, and the stream and plan of
    /// each flow.
    ///
    /// A flow that the driver does not know (any more) is left out, but stays in the sums.
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
