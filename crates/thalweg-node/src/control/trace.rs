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

use super::mind::Mind;
use crate::input::{HopCost, TraceError, TraceEvent, TracedAdu};

/// The channels that receive the traces of each stream.
#[derive(Debug, Default)]
pub(super) struct Tracers(BTreeMap<StreamId, (StreamName, Vec<mpsc::Sender<TraceEvent>>)>);

impl Tracers {
    /// Starts or renews the trace of a stream; returns the name of its source.
    pub(super) fn trace(
        &mut self,
        name: &StreamName,
        every: Duration,
        events: mpsc::Sender<TraceEvent>,
        mind: &mut Mind,
    ) -> Result<String, TraceError> {
        self.sweep();
        let traced = mind.drive(|controller, now, keys| controller.trace(name, every, now, keys));
        let (stream, source) = traced.map_err(TraceError::Map)?;
        let row = self.0.entry(stream);
        let (_, receivers) = row.or_insert_with(|| (name.clone(), Vec::new()));
        if !receivers.iter().any(|other| other.same_channel(&events)) {
            receivers.push(events);
        }
        Ok(mind.name_of(source))
    }

    pub(super) fn notify(&self, stream: StreamId, answer: Result<u32, String>) {
        let event = match answer {
            Ok(sinks) => TraceEvent::Sinks(sinks),
            Err(reason) => TraceEvent::Refused(reason),
        };
        self.send(stream, &event);
    }

    pub(super) fn deliver(&self, traced: &Traced, mind: &Mind) {
        let Some((name, _)) = self.0.get(&traced.stream) else {
            return;
        };
        let hops = traced.path.iter().zip(&traced.stamps);
        let hops = hops.map(|(node, stamp)| HopCost {
            node: mind.name_of(*node),
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
                .map(|node| mind.name_of(*node))
                .unwrap_or_default(),
            epoch: traced.epoch.0,
            sequence: traced.sequence.0,
            budget_us: (!traced.budget.is_never()).then(|| traced.budget.as_micros()),
            sum_us: traced.sum().as_micros(),
            hops: hops.collect(),
        };
        self.send(traced.stream, &TraceEvent::Adu(adu));
    }

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
