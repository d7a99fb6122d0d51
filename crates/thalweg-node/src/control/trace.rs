//! Delivers traces (what each hop costs a stream's ADUs) to the programs that ask for them.
//!
//! *The idea.* A program asks again and again while it wants traces, and brings the channel that
//! receives them. It gets no more once it has not asked for the length of the source's lease, or
//! has closed the channel. Node keys become names here.
//!
//! *Sources.* docs/concepts/trace.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_base::id::{StreamId, StreamName};
use thalweg_base::time::Duration;
use thalweg_base::trace::Traced;
use tokio::sync::mpsc;

use super::Control;

/// An event for a program that traces a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceEvent {
    /// The source traces it, for this number of sinks.
    Sinks(u32),
    /// The source refused, with its reason.
    Refused(String),
    /// The costs of one ADU.
    Adu(TracedAdu),
}

/// The cost of each hop for one ADU; times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedAdu {
    /// The stream's name.
    pub stream: StreamName,
    /// The node where the ADU's path ended.
    pub sink: String,
    /// The plan that carried it.
    pub epoch: u32,
    /// The ADU's sequence number.
    pub sequence: u64,
    /// Time left to its deadline when the producer published it; `None` if it had no deadline.
    pub budget_us: Option<u64>,
    /// The sum of all costs below.
    pub sum_us: u64,
    /// One entry per node, the source first.
    pub hops: Vec<HopCost>,
}

/// What an ADU cost on one node and the link behind it; times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopCost {
    /// The node's name.
    pub node: String,
    /// Time on the node until it was queued, without the modules: waiting for its other parts and
    /// for a turn.
    pub inside_us: u64,
    /// Time in modules.
    pub lift_us: u64,
    /// Time in the outbox; at the sink, waiting for room in a mailbox.
    pub wait_us: u64,
    /// Time on the link to the next node: half of its recent minimum round trip.
    pub line_us: u64,
}

/// Why a stream is not traced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// No node publishes it, or no path leads to its source.
    #[error("{0}")]
    Map(String),
    /// Its source refused.
    #[error("{source_name} does not trace it: {reason}")]
    Refused {
        /// The source's name.
        source_name: String,
        /// The source's reason.
        reason: String,
    },
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

/// The channels that receive the traces of each stream.
#[derive(Debug, Default)]
pub(super) struct Tracers(BTreeMap<StreamId, (StreamName, Vec<mpsc::Sender<TraceEvent>>)>);

impl Control {
    /// Starts or renews the trace of a stream; returns the name of its source.
    pub(super) fn trace(
        &mut self,
        name: &StreamName,
        every: Duration,
        events: mpsc::Sender<TraceEvent>,
    ) -> Result<String, TraceError> {
        self.tracers.sweep();
        let now = self.now();
        let traced = self.controller.trace(name, every, now, &mut self.keys);
        let (stream, source) = traced.map_err(TraceError::Map)?;
        let row = self.tracers.0.entry(stream);
        let (_, receivers) = row.or_insert_with(|| (name.clone(), Vec::new()));
        if !receivers.iter().any(|other| other.same_channel(&events)) {
            receivers.push(events);
        }
        Ok(self.name_of(source))
    }

    /// Reports the traces of ADUs that ended here to the sources of their streams.
    pub(super) fn report_stamps(&mut self) {
        let now = self.now();
        for traced in self.forwarder.traces.take() {
            self.controller.handle_stamped(traced, now, &mut self.keys);
        }
    }

    pub(super) fn notify_tracing(&mut self, stream: StreamId, answer: Result<u32, String>) {
        let event = match answer {
            Ok(sinks) => TraceEvent::Sinks(sinks),
            Err(reason) => TraceEvent::Refused(reason),
        };
        self.tracers.send(stream, &event);
    }

    pub(super) fn deliver_trace(&mut self, traced: &Traced) {
        let Some((name, _)) = self.tracers.0.get(&traced.stream) else {
            return;
        };
        let hops = traced.path.iter().zip(&traced.stamps);
        let hops = hops.map(|(node, stamp)| HopCost {
            node: self.name_of(*node),
            inside_us: stamp.inside.as_micros(),
            lift_us: stamp.lift.as_micros(),
            wait_us: stamp.wait.as_micros(),
            line_us: stamp.line.as_micros(),
        });
        let adu = TracedAdu {
            stream: name.clone(),
            sink: traced
                .path
                .last()
                .map(|node| self.name_of(*node))
                .unwrap_or_default(),
            epoch: traced.epoch.0,
            sequence: traced.sequence.0,
            budget_us: (!traced.budget.is_never()).then(|| traced.budget.as_micros()),
            sum_us: traced.sum().as_micros(),
            hops: hops.collect(),
        };
        self.tracers.send(traced.stream, &TraceEvent::Adu(adu));
    }
}

impl Tracers {
    /// Removes closed channels.
    fn sweep(&mut self) {
        self.0.retain(|_, (_, receivers)| {
            receivers.retain(|events| !events.is_closed());
            !receivers.is_empty()
        });
    }

    fn send(&self, stream: StreamId, event: &TraceEvent) {
        for events in self
            .0
            .get(&stream)
            .iter()
            .flat_map(|(_, receivers)| receivers)
        {
            // A full channel misses samples; a trace needs samples, not every one.
            let _ = events.try_send(event.clone());
        }
    }
}
