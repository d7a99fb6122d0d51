//! Delivers traces (what each hop costs a stream's ADUs) to the programs that ask for them.
//!
//! *The idea.* A program asks again and again while it wants traces, and brings the channel that
//! receives them. It gets no more once it has not asked for the length of the source's lease, or
//! has closed the channel. Node keys become names here.
//!
//! *Sources.* docs/concepts/trace.md.

use std::collections::BTreeMap;

use thalweg_base::id::{StreamId, StreamName};
use thalweg_base::time::Duration;
use thalweg_base::trace::Traced;
use tokio::sync::mpsc;

use super::Control;
use crate::input::{HopCost, TraceError, TraceEvent, TracedAdu};

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
            node_us: stamp.inside.as_micros(),
            lift_us: stamp.lift.as_micros(),
            wait_us: stamp.wait.as_micros(),
            link_us: stamp.line.as_micros(),
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
