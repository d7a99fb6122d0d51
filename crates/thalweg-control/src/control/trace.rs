//! Tracing: programs ask what each hop costs a stream's ADUs, and its sinks report.
//!
//! *The idea.* A node that wants traces asks the stream's source, and repeats this while it does. The
//! source marks some ADUs; a marked one collects a stamp at each node. Its sink sends the stamps to the
//! source. Only the source knows the nodes of the plan, so it adds them and passes the trace on.
//!
//! ```text
//! asker ── Trace ──► source ── marked ADU ──► … ──► sink
//!       ◄─ Tracing ─┘  ▲                             │
//!       ◄─ Traced ─────┴───────── Traced ────────────┘
//! ```
//!
//! *What it does not do.* It marks and stamps nothing: the data path does. It keeps no statistics.
//!
//! *Sources.* docs/concepts/trace.md; docs/reference/protocol.md §4.7.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{NodeId, StreamId, StreamName};
use thalweg_base::limits::{STREAMS_PER_NODE_MAX, TRACERS_MAX};
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::{LEASE, Marking, Traced};
use thalweg_base::wire::control::Body;

use super::admission::no_right;
use super::routed::reversed;
use super::{Controller, Keys, Note, Output};
use crate::admission::Rights;

/// The traces that this node serves, and those that it asked for.
#[derive(Debug, Default)]
pub(super) struct Traces {
    /// At a source: the nodes that asked, by stream.
    tracers: BTreeMap<(StreamId, NodeId), Tracer>,
    /// Streams that local programs trace: their sources, and until when.
    asked: BTreeMap<StreamId, (NodeId, Instant)>,
}

#[derive(Debug)]
struct Tracer {
    route_back: Vec<NodeId>,
    every: Duration,
    until: Instant,
}

impl Controller {
    /// Asks a stream's source to trace an ADU each `every`, for the duration of [`LEASE`]; returns
    /// the stream and its source.
    ///
    /// Results arrive as [`Output::Tracing`] and [`Output::Traced`]. To be repeated every
    /// [`thalweg_base::trace::RENEW`] for as long as traces are wanted.
    ///
    /// Fails   a sentence, if no node publishes the stream or its source is unreachable
    pub fn trace(
        &mut self,
        name: &StreamName,
        every: Duration,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<(StreamId, NodeId), String> {
        let own = self.sources.values().find(|source| {
            let publication = source.publication();
            source.is_open() && publication.name == *name
        });
        let own = own.map(|source| (self.id(), source.stream()));
        let found = own.or_else(|| {
            let published = self.directory.publisher(name);
            published.map(|(node, announced)| (node, announced.id))
        });
        let Some((source, stream)) = found else {
            return Err(format!("no node publishes `{name}`"));
        };
        let Some(route_back) = self.directory.path(self.id(), source) else {
            let source = self.name_of(source);
            return Err(format!("no path to {source}, which publishes `{name}`"));
        };
        let asked = &mut self.traces.asked;
        asked.retain(|_, (_, until)| *until > now);
        if asked.len() >= STREAMS_PER_NODE_MAX && !asked.contains_key(&stream) {
            return Err(format!(
                "this node already traces {STREAMS_PER_NODE_MAX} streams, the maximum"
            ));
        }
        asked.insert(stream, (source, now + LEASE));
        self.send_routed(route_back, Body::Trace { stream, every }, keys);
        self.settle(now, keys);
        Ok((stream, source))
    }

    /// Sends the stamps of a delivered ADU, of a plan that ends here, to the stream's source.
    pub fn handle_stamped(&mut self, traced: Traced, now: Instant, keys: &mut dyn Keys) {
        let part = self.parts.get(&(traced.stream, traced.epoch));
        let Some(source) = part.map(|part| part.installation().source) else {
            return;
        };
        if let Some(route_back) = self.directory.path(self.id(), source) {
            self.send_routed(route_back, Body::Traced(traced), keys);
        }
        self.settle(now, keys);
    }

    /// Starts or continues to trace a published stream.
    pub(super) fn handle_trace(
        &mut self,
        from: NodeId,
        route: &[NodeId],
        (stream, every): (StreamId, Duration),
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let route_back = reversed(route);
        let (sinks, reason) = match self.admit_tracer(from, stream, now) {
            Ok(sinks) => (sinks, String::new()),
            Err(reason) => (0, reason),
        };
        if reason.is_empty() {
            let tracer = Tracer {
                route_back: route_back.clone(),
                every,
                until: now + LEASE,
            };
            let tracers = &mut self.traces.tracers;
            tracers.insert((stream, from), tracer);
            let of_stream = tracers.iter().filter(|((of, _), _)| *of == stream);
            let every = of_stream.map(|(_, tracer)| tracer.every).min();
            let marking = Marking::new(every.unwrap_or(LEASE), sinks, now);
            self.outputs.push_back(Output::Trace { stream, marking });
        }
        let answer = Body::Tracing {
            stream,
            sinks: sinks as u32,
            reason,
        };
        self.send_routed(route_back, answer, keys);
    }

    /// Returns how many sinks a stream has, if the node may trace it.
    ///
    /// Fails   the reason, as a sentence
    fn admit_tracer(
        &mut self,
        from: NodeId,
        stream: StreamId,
        now: Instant,
    ) -> Result<usize, String> {
        if from != self.id() && !self.roll.may(from, Rights::SUBSCRIBE) {
            return Err(no_right(&self.name_of(from), Rights::SUBSCRIBE));
        }
        let source = self.sources.get(&stream).filter(|source| source.is_open());
        let Some(source) = source else {
            return Err("this node does not publish the stream (any more)".into());
        };
        let tracers = &mut self.traces.tracers;
        tracers.retain(|_, tracer| tracer.until > now);
        let others = tracers
            .keys()
            .filter(|(of, who)| *of == stream && *who != from);
        if others.count() >= TRACERS_MAX {
            return Err(format!("{TRACERS_MAX} nodes trace the stream already"));
        }
        Ok(source.sinks().count())
    }

    /// Handles a source's answer to this node's request.
    pub(super) fn handle_tracing(
        &mut self,
        from: NodeId,
        stream: StreamId,
        sinks: u32,
        reason: String,
    ) {
        if !self.has_asked(from, stream) {
            return self.note(Note::TraceAstray { from });
        }
        let answer = if reason.is_empty() {
            Ok(sinks)
        } else {
            Err(reason)
        };
        self.outputs.push_back(Output::Tracing { stream, answer });
    }

    /// Handles stamps: a sink's for a stream of this node, or a source's with the path.
    pub(super) fn handle_traced(
        &mut self,
        from: NodeId,
        mut traced: Traced,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let stream = traced.stream;
        if !traced.path.is_empty() {
            return if self.has_asked(from, stream) {
                self.outputs.push_back(Output::Traced(traced));
            } else {
                self.note(Note::TraceAstray { from });
            };
        }
        let source = self.sources.get(&stream);
        let path = source.and_then(|source| source.paths.get(&traced.epoch));
        let is_of =
            |path: &&Vec<NodeId>| path.last() == Some(&from) && path.len() == traced.stamps.len();
        let Some(path) = path.filter(is_of) else {
            return self.note(Note::TraceAstray { from });
        };
        traced.path.clone_from(path);
        let tracers = self.traces.tracers.iter();
        let wants = tracers.filter(|((of, _), tracer)| *of == stream && tracer.until > now);
        let routes: Vec<Vec<NodeId>> = wants.map(|(_, tracer)| tracer.route_back.clone()).collect();
        for route_back in routes {
            self.send_routed(route_back, Body::Traced(traced.clone()), keys);
        }
    }

    /// Returns whether a local program traces the stream, and the node is its source.
    fn has_asked(&self, source: NodeId, stream: StreamId) -> bool {
        let asked = self.traces.asked.get(&stream);
        asked.is_some_and(|(of, _)| *of == source)
    }
}
