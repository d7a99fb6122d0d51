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

use crate::admission::Rights;
use crate::effect::{Note, Output, Turn, reversed};
use crate::facts::{Facts, no_right};
use crate::parts::Parts;
use crate::sources::{Source, Sources};

/// The owner of the traces that this node serves, and of those that it asked for.
#[derive(Debug, Default)]
pub(crate) struct Tracing {
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

impl Tracing {
    /// Asks a stream's source to trace an ADU each `every`, for the duration of [`LEASE`]; returns
    /// the stream and its source.
    ///
    /// Results arrive as [`Output::Tracing`] and [`Output::Traced`]. To be repeated every
    /// [`thalweg_base::trace::RENEW`] for as long as traces are wanted.
    ///
    /// Fails   a sentence, if no node publishes the stream or its source is unreachable
    pub(crate) fn trace(
        &mut self,
        turn: &mut Turn<'_>,
        (facts, sources): (&Facts<'_>, &Sources),
        name: &StreamName,
        every: Duration,
    ) -> Result<(StreamId, NodeId), String> {
        let own = sources.open(name);
        let own = own.map(|source| (facts.id(), source.stream()));
        let found = own.or_else(|| {
            let published = facts.directory.publisher(name);
            published.map(|(node, announced)| (node, announced.id))
        });
        let Some((source, stream)) = found else {
            return Err(format!("no node publishes `{name}`"));
        };
        let Some(route_back) = facts.path(source) else {
            let source = facts.name_of(source);
            return Err(format!("no path to {source}, which publishes `{name}`"));
        };
        let (asked, now) = (&mut self.asked, turn.now);
        asked.retain(|_, (_, until)| *until > now);
        if asked.len() >= STREAMS_PER_NODE_MAX && !asked.contains_key(&stream) {
            return Err(format!(
                "this node already traces {STREAMS_PER_NODE_MAX} streams, the maximum"
            ));
        }
        asked.insert(stream, (source, now + LEASE));
        turn.route(route_back, Body::Trace { stream, every });
        Ok((stream, source))
    }

    /// Starts or continues to trace a published stream.
    pub(crate) fn handle_trace(
        &mut self,
        turn: &mut Turn<'_>,
        (facts, sources): (&Facts<'_>, &Sources),
        (from, route): (NodeId, &[NodeId]),
        (stream, every): (StreamId, Duration),
    ) {
        let route_back = reversed(route);
        let now = turn.now;
        let (sinks, reason) = match self.admit(facts, from, sources.get(stream), now) {
            Ok(sinks) => (sinks, String::new()),
            Err(reason) => (0, reason),
        };
        if reason.is_empty() {
            let tracer = Tracer {
                route_back: route_back.clone(),
                every,
                until: now + LEASE,
            };
            let tracers = &mut self.tracers;
            tracers.insert((stream, from), tracer);
            let of_stream = tracers.iter().filter(|((of, _), _)| *of == stream);
            let every = of_stream.map(|(_, tracer)| tracer.every).min();
            let marking = Marking::new(every.unwrap_or(LEASE), sinks, now);
            turn.output(Output::Trace { stream, marking });
        }
        let answer = Body::Tracing {
            stream,
            sinks: sinks as u32,
            reason,
        };
        turn.route(route_back, answer);
    }

    /// Returns how many sinks a stream has, if the node may trace it.
    ///
    /// Fails   the reason, as a sentence
    fn admit(
        &mut self,
        facts: &Facts<'_>,
        from: NodeId,
        source: Option<&Source>,
        now: Instant,
    ) -> Result<usize, String> {
        if from != facts.id() && !facts.may(from, Rights::SUBSCRIBE) {
            return Err(no_right(&facts.name_of(from), Rights::SUBSCRIBE));
        }
        let Some(source) = source.filter(|source| source.is_open()) else {
            return Err("this node does not publish the stream (any more)".into());
        };
        let tracers = &mut self.tracers;
        tracers.retain(|_, tracer| tracer.until > now);
        let others = tracers
            .keys()
            .filter(|(of, who)| *of == source.stream() && *who != from);
        if others.count() >= TRACERS_MAX {
            return Err(format!("{TRACERS_MAX} nodes trace the stream already"));
        }
        Ok(source.sinks().count())
    }

    /// Handles a source's answer to this node's request.
    pub(crate) fn handle_answer(
        &self,
        turn: &mut Turn<'_>,
        from: NodeId,
        stream: StreamId,
        (sinks, reason): (u32, String),
    ) {
        if !self.has_asked(from, stream) {
            return turn.note(Note::TraceAstray { from });
        }
        let answer = if reason.is_empty() {
            Ok(sinks)
        } else {
            Err(reason)
        };
        turn.output(Output::Tracing { stream, answer });
    }

    /// Handles stamps: a sink's for a stream of this node, or a source's with the path.
    pub(crate) fn handle_traced(
        &self,
        turn: &mut Turn<'_>,
        sources: &Sources,
        from: NodeId,
        mut traced: Traced,
    ) {
        let stream = traced.stream;
        if !traced.path.is_empty() {
            return if self.has_asked(from, stream) {
                turn.output(Output::Traced(traced));
            } else {
                turn.note(Note::TraceAstray { from });
            };
        }
        let path = sources.path((stream, traced.epoch));
        let is_of =
            |path: &&[NodeId]| path.last() == Some(&from) && path.len() == traced.stamps.len();
        let Some(path) = path.filter(is_of) else {
            return turn.note(Note::TraceAstray { from });
        };
        traced.path = path.to_vec();
        let (tracers, now) = (self.tracers.iter(), turn.now);
        let wants = tracers.filter(|((of, _), tracer)| *of == stream && tracer.until > now);
        for (_, tracer) in wants {
            turn.route(tracer.route_back.clone(), Body::Traced(traced.clone()));
        }
    }

    /// Returns whether a local program traces the stream, and the node is its source.
    fn has_asked(&self, source: NodeId, stream: StreamId) -> bool {
        let asked = self.asked.get(&stream);
        asked.is_some_and(|(of, _)| *of == source)
    }
}

/// Sends the stamps of a delivered ADU, of a plan that ends here, to the stream's source; returns
/// whether the plan is known.
pub(crate) fn handle_stamped(
    turn: &mut Turn<'_>,
    (facts, parts): (&Facts<'_>, &Parts),
    traced: Traced,
) -> bool {
    let Some(part) = parts.get((traced.stream, traced.epoch)) else {
        return false;
    };
    if let Some(path) = facts.path(part.source) {
        turn.route(path, Body::Traced(traced));
    }
    true
}
