//! Programs that want to know what hops cost a stream's ADUs.
//!
//! *The idea.* Each asks again and again while it wants to know, and brings where it is to be told. Who has not asked for as
//! long as a source's lease, or has gone, is told nothing more. Names are put in here.
//!
//! *Sources.* docs/trace.md.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thalweg_core::id::{StreamId, StreamName};
use thalweg_core::time::Duration;
use thalweg_core::trace::Traced;
use tokio::sync::mpsc;

use super::Control;

/// What a program that traces a stream is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceEvent {
    /// The source traces it, for so many sinks.
    Sinks(u32),
    /// The source does not, and why.
    Refused(String),
    /// What hops cost one ADU.
    Adu(TracedAdu),
}

/// What hops cost one ADU; times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedAdu {
    /// The stream's name.
    pub stream: StreamName,
    /// Where its way ended.
    pub sink: String,
    /// The plan under which it came there.
    pub epoch: u32,
    /// Which ADU.
    pub sequence: u64,
    /// What was left of its deadline when its producer gave it; none if it had none.
    pub budget_us: Option<u64>,
    /// All that follows together.
    pub sum_us: u64,
    /// One for each node, the source first.
    pub hops: Vec<HopCost>,
}

/// What an ADU cost on one node and the line behind it; times are in microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopCost {
    /// The node.
    pub node: String,
    /// Until it was queued, without the modules: waiting for the rest of it, for a turn.
    pub inside_us: u64,
    /// In modules.
    pub lift_us: u64,
    /// In the outbox; at the sink, for room in a mailbox.
    pub wait_us: u64,
    /// On the line to the next node: half of its shortest round trip of late.
    pub line_us: u64,
}

/// A stream is not traced, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Nobody publishes it, or no way leads there.
    #[error("{0}")]
    Map(String),
    /// Its source does not want to.
    #[error("{source_name} does not trace it: {reason}")]
    Refused {
        /// The source's name.
        source_name: String,
        /// Why.
        reason: String,
    },
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

/// Who is to be told of which stream.
#[derive(Debug, Default)]
pub(super) struct Tracers(BTreeMap<StreamId, (StreamName, Vec<mpsc::Sender<TraceEvent>>)>);

impl Control {
    /// Begins, or goes on, to trace a stream; returns the name of its source.
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
        let (_, told) = row.or_insert_with(|| (name.clone(), Vec::new()));
        if !told.iter().any(|other| other.same_channel(&events)) {
            told.push(events);
        }
        Ok(self.name_of(source))
    }

    /// Tells the sources of the streams that end here what their ADUs have gone through.
    pub(super) fn tell_stamped(&mut self) {
        let now = self.now();
        for traced in self.forwarder.traces.take() {
            self.controller.handle_stamped(traced, now, &mut self.keys);
        }
    }

    pub(super) fn tell_tracing(&mut self, stream: StreamId, answer: Result<u32, String>) {
        let event = match answer {
            Ok(sinks) => TraceEvent::Sinks(sinks),
            Err(reason) => TraceEvent::Refused(reason),
        };
        self.tracers.tell(stream, &event);
    }

    pub(super) fn tell_traced(&mut self, traced: &Traced) {
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
        self.tracers.tell(traced.stream, &TraceEvent::Adu(adu));
    }
}

impl Tracers {
    /// Forgets those who have gone.
    fn sweep(&mut self) {
        self.0.retain(|_, (_, told)| {
            told.retain(|events| !events.is_closed());
            !told.is_empty()
        });
    }

    fn tell(&self, stream: StreamId, event: &TraceEvent) {
        for events in self.0.get(&stream).iter().flat_map(|(_, told)| told) {
            // Who does not keep up misses some: it wants samples, not all.
            let _ = events.try_send(event.clone());
        }
    }
}
