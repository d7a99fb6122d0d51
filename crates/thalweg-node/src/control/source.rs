//! The streams that this node publishes: who wants them, by which plan, and its deployment.

use std::collections::BTreeMap;

use aws_lc_rs::rand;
use thalweg_core::id::{Epoch, NodeId, StreamId};
use thalweg_core::limits::{LAYERS_MAX, STREAMS_PER_NODE_MAX};
use thalweg_core::model::UTILITY_TOLERANCE;
use thalweg_core::planner::{self, Planner, Policy, report::Report};
use thalweg_core::session::{Output, Part, Session};
use thalweg_core::time::{Duration, Instant};
use thalweg_core::wire::control::{Body, Prepare};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::routed::reversed;
use super::snapshot::Map;
use super::{Control, Published};
use crate::envelope::{self, Content, Context};
use crate::handle::{Publication, PublishError};

/// A stream that this node publishes.
pub(super) struct Source {
    pub(super) stream: StreamId,
    pub(super) start: [u8; 8],
    pub(super) publication: Publication,
    /// The way to the one sink that is served, if its program has given one.
    given: Option<Vec<Part>>,
    pub(super) session: Session,
    pub(super) plans: BTreeMap<NodeId, Planned>,
    key: Content,
    active: watch::Sender<Vec<Epoch>>,
    open: bool,
}

/// What is known of the plan for one sink.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) epoch: Epoch,
    pub(super) state: &'static str,
    pub(super) reason: Option<String>,
    /// The plan in force, for people; none for an unplanned stream.
    pub(super) words: Option<Words>,
    /// The plan that is being deployed.
    deploying: Option<(Epoch, Option<Words>)>,
    /// The way on which the sink asked, reversed: on it the sink is told why it gets nothing.
    way: Vec<NodeId>,
}

/// What a plan comes to: the parts to deploy, and the plan for people.
struct Draft {
    parts: Vec<Part>,
    words: Option<Words>,
}

/// A plan as people read it.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) report: Report,
    pub(super) explanation: String,
}

impl Source {
    /// Returns whether its publisher is still there.
    pub(super) const fn is_open(&self) -> bool {
        self.open
    }

    fn is_over(&self) -> bool {
        !self.open && self.session.poll_timeout().is_never()
    }
}

impl Control {
    pub(super) async fn publish(
        &mut self,
        publication: Publication,
        given: Option<Vec<Part>>,
    ) -> Result<Published, PublishError> {
        self.check(&publication, given.as_deref())?;
        let random = || PublishError::Invalid {
            name: publication.name.clone(),
            why: "the system gives no random numbers".into(),
        };
        let mut key = [0; 32];
        let mut start = [0; 8];
        rand::fill(&mut key).map_err(|_| random())?;
        rand::fill(&mut start).map_err(|_| random())?;
        let stream = stream_id(self.id, publication.name.as_str(), start);
        let counts = self.forwarder.ledger.row(stream);
        let (active, watch) = watch::channel(Vec::new());
        let source = Source {
            stream,
            start,
            publication,
            given,
            session: Session::default(),
            plans: BTreeMap::new(),
            key: Content { key_epoch: 1, key },
            active,
            open: true,
        };
        info!(stream = %source.publication.name, "published");
        self.sources.insert(stream, source);
        self.announce().await;
        Ok(Published {
            stream,
            active: watch,
            counts,
        })
    }

    fn check(&self, publication: &Publication, given: Option<&[Part]>) -> Result<(), PublishError> {
        let open = || self.sources.values().filter(|source| source.open);
        if open().any(|source| source.publication.name == publication.name) {
            return Err(PublishError::Taken(publication.name.clone()));
        }
        if open().count() >= STREAMS_PER_NODE_MAX {
            return Err(PublishError::TooMany(STREAMS_PER_NODE_MAX));
        }
        let layers = publication.layers.len();
        let utility: f64 = publication.layers.iter().map(|layer| layer.utility).sum();
        let why = if layers == 0 || layers > LAYERS_MAX {
            format!("it has {layers} layers; a stream has 1 to {LAYERS_MAX}")
        } else if (utility - 1.0).abs() > UTILITY_TOLERANCE {
            format!("the utilities of its layers sum to {utility}, not to 1")
        } else if publication.needs.confidential && publication.planner.is_none() {
            "a confidential stream needs a planner, for without a plan nothing is sealed".into()
        } else if publication.needs.confidential && given.is_some() {
            "a confidential stream is planned here, for nobody checks that a given plan seals it"
                .into()
        } else if given.is_some_and(|parts| parts.first().map(|part| part.node) != Some(self.id)) {
            "the plan that is given does not begin at this node".into()
        } else {
            return Ok(());
        };
        Err(PublishError::Invalid {
            name: publication.name.clone(),
            why,
        })
    }

    pub(super) async fn unpublish(&mut self, stream: StreamId) {
        let now = self.now();
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        source.open = false;
        let sinks: Vec<NodeId> = source.session.sinks().collect();
        for sink in sinks {
            source.session.handle_unsubscribe(sink, now);
        }
        info!(stream = %source.publication.name, "unpublished");
        self.announce().await;
        self.handle_sources(now).await;
    }

    /// Withdraws the streams whose publishers were dropped without a word.
    pub(super) async fn close_abandoned(&mut self) {
        let abandoned = |source: &&Source| source.open && source.active.is_closed();
        let streams = self
            .sources
            .values()
            .filter(abandoned)
            .map(|source| source.stream);
        for stream in streams.collect::<Vec<_>>() {
            self.unpublish(stream).await;
        }
    }

    pub(super) async fn handle_subscribe(
        &mut self,
        sink: NodeId,
        route: Vec<NodeId>,
        stream: StreamId,
        now: Instant,
    ) {
        let way = reversed(&route);
        let Some(source) = self.sources.get_mut(&stream).filter(|source| source.open) else {
            let reason = "this node does not publish the stream (any more)".into();
            let refuse = Body::Refuse {
                stream,
                epoch: Epoch(0),
                reason,
            };
            // Boxed, for a node may subscribe to itself.
            return Box::pin(self.send_routed(way, &refuse)).await;
        };
        let waiting = || Planned {
            epoch: Epoch(0),
            state: "deploying",
            reason: None,
            words: None,
            deploying: None,
            way: Vec::new(),
        };
        source.plans.entry(sink).or_insert_with(waiting).way = way;
        source.session.handle_subscribe(sink, now);
    }

    /// Gives every session its time, and does what the sessions ask for.
    pub(super) async fn handle_sources(&mut self, now: Instant) {
        let streams: Vec<StreamId> = self.sources.keys().copied().collect();
        for stream in streams {
            if let Some(source) = self.sources.get_mut(&stream) {
                source.session.handle_timeout(now);
            }
            while let Some(output) = self
                .sources
                .get_mut(&stream)
                .and_then(|source| source.session.poll_output())
            {
                self.handle_output(stream, output, now).await;
            }
        }
        self.sources.retain(|_, source| !source.is_over());
    }

    async fn handle_output(&mut self, stream: StreamId, output: Output, now: Instant) {
        match output {
            Output::PlanWanted { sink } => self.plan(stream, sink, now).await,
            Output::Prepare {
                epoch,
                route,
                next,
                part,
            } => {
                if let Some(body) = self.prepare(stream, epoch, &route, next, part) {
                    Box::pin(self.send_routed(route, &body)).await;
                }
            }
            Output::Release { epoch, route } => {
                Box::pin(self.send_routed(route, &Body::Release { stream, epoch })).await;
            }
            Output::Switched { sink, epoch } => self.switched(stream, sink, epoch),
            Output::Failed {
                sink,
                epoch,
                reason,
            } => {
                warn!(sink = %self.name_of(sink), epoch = epoch.0, %reason, "deployment failed; planning again");
                self.note_failure(stream, sink, &reason).await;
            }
            Output::Gone { sink } => {
                info!(sink = %self.name_of(sink), "subscriber gone");
                let Some(source) = self.sources.get_mut(&stream) else {
                    return;
                };
                source.plans.remove(&sink);
                publish_active(source);
            }
        }
    }

    fn switched(&mut self, stream: StreamId, sink: NodeId, epoch: Epoch) {
        info!(sink = %self.name_of(sink), epoch = epoch.0, "plan in force");
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        if let Some(planned) = source.plans.get_mut(&sink) {
            planned.epoch = epoch;
            planned.state = "active";
            planned.reason = None;
            if let Some((_, words)) = planned.deploying.take_if(|(which, _)| *which == epoch) {
                planned.words = words;
            }
        }
        publish_active(source);
    }

    /// Plans for a sink, and gives the plan to the session.
    async fn plan(&mut self, stream: StreamId, sink: NodeId, now: Instant) {
        let Some(source) = self.sources.get(&stream) else {
            return;
        };
        let drafted = match (&source.given, source.publication.planner) {
            (Some(parts), _) => self.given(parts, sink),
            (None, None) => self.shortest(sink),
            (None, Some(planner)) => self.planned(source, sink, planner),
        };
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        match drafted {
            Ok(draft) => {
                let epoch = source.session.handle_plan(sink, draft.parts, now);
                if let (Some(epoch), Some(planned)) = (epoch, source.plans.get_mut(&sink)) {
                    planned.deploying = Some((epoch, draft.words));
                    if planned.state != "active" {
                        planned.state = "deploying";
                    }
                }
            }
            Err(reason) => {
                source.session.handle_no_plan(sink, now);
                debug!(sink = %self.name_of(sink), %reason, "no plan");
                self.note_failure(stream, sink, &reason).await;
            }
        }
    }

    /// Remembers why a sink is not served, and tells it so when that is new.
    async fn note_failure(&mut self, stream: StreamId, sink: NodeId, reason: &str) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        publish_active(source);
        let Some(planned) = source.plans.get_mut(&sink) else {
            return;
        };
        if planned.reason.as_deref() == Some(reason) {
            return;
        }
        planned.reason = Some(reason.to_string());
        planned.state = "failed";
        let refuse = Body::Refuse {
            stream,
            epoch: Epoch(0),
            reason: reason.to_string(),
        };
        let way = planned.way.clone();
        Box::pin(self.send_routed(way, &refuse)).await;
    }

    /// Returns the way that the program has given; it leads to one sink.
    fn given(&self, parts: &[Part], sink: NodeId) -> Result<Draft, String> {
        if parts.last().map(|part| part.node) != Some(sink) {
            let sink = self.name_of(sink);
            return Err(format!("the plan that was given does not end at {sink}"));
        }
        Ok(Draft {
            parts: parts.to_vec(),
            words: None,
        })
    }

    /// Returns the unplanned way: the fewest hops, nothing on the way.
    fn shortest(&self, sink: NodeId) -> Result<Draft, String> {
        let path = self.directory.path(self.id, sink);
        let path = path.ok_or_else(|| format!("no way to {}", self.name_of(sink)))?;
        let part = |node| Part {
            node,
            adapters: Vec::new(),
            plaintext: true,
        };
        Ok(Draft {
            parts: path.into_iter().map(part).collect(),
            words: None,
        })
    }

    fn planned(&self, source: &Source, sink: NodeId, planner: Planner) -> Result<Draft, String> {
        if sink == self.id {
            return self.shortest(sink);
        }
        let map = Map::new(self, &source.publication, sink)?;
        let policy = Policy {
            planner,
            ..Policy::default()
        };
        let begun = self.now();
        let (plan, shortfalls) = planner::plan(&map.snapshot, &policy);
        let elapsed: Duration = self.now().saturating_since(begun);
        if !plan.feasible {
            let ways: Vec<String> = shortfalls.iter().map(ToString::to_string).collect();
            return Err(format!("no plan satisfies its needs: {}", ways.join("; ")));
        }
        Ok(Draft {
            parts: map.parts(&plan, source.publication.needs.confidential)?,
            words: Some(Words {
                report: Report::new(&plan, &shortfalls, elapsed),
                explanation: planner::explain(&map.snapshot, &plan),
            }),
        })
    }

    /// Returns the message that installs a part, with the stream's key if the part needs it.
    fn prepare(
        &self,
        stream: StreamId,
        epoch: Epoch,
        route: &[NodeId],
        next: Option<NodeId>,
        part: Part,
    ) -> Option<Body> {
        let source = self.sources.get(&stream)?;
        let node = part.node;
        let needs_key = part
            .adapters
            .iter()
            .any(|word| crate::forward::needs_key(word));
        let envelope = match needs_key.then(|| self.directory.record(node)).flatten() {
            Some(record) => {
                let context = Context {
                    source: self.id,
                    stream,
                };
                let sealed = envelope::seal(&source.key, &record.box_key, context);
                sealed
                    .inspect_err(|error| warn!(node = %node.short(), %error, "key not sealed"))
                    .ok()
            }
            None => None,
        };
        Some(Body::Prepare(Prepare {
            name: source.publication.name.clone(),
            stream,
            epoch,
            previous: route.iter().rev().nth(1).copied().unwrap_or(self.id),
            next,
            adapters: part.adapters,
            reliability: source.publication.needs.reliability,
            order: source.publication.needs.order,
            plaintext: part.plaintext,
            envelope,
        }))
    }
}

/// Tells the publisher which plans are in force.
fn publish_active(source: &Source) {
    let epochs: Vec<Epoch> = source.session.active().map(|(_, epoch)| epoch).collect();
    source.active.send_if_modified(|before| {
        let changed = *before != epochs;
        *before = epochs;
        changed
    });
}

/// Returns the eight bytes of a stream on the wire.
///
/// They depend on the source's key, so no other node can announce, and so plan, a stream of this id.
pub(super) fn stream_id(node: NodeId, name: &str, start: [u8; 8]) -> StreamId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"thalweg stream v1");
    hasher.update(&node.0);
    hasher.update(&start);
    hasher.update(name.as_bytes());
    let mut id = [0; 8];
    hasher.finalize_xof().fill(&mut id);
    StreamId(u64::from_be_bytes(id))
}
