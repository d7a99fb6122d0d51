//! From a wanted plan to its messages: planned, drafted, and one `Prepare` for each node.
//!
//! *The idea.* The session says for which sink it wants a plan. The plan comes from the planner,
//! from the publishing program, or from a fewest-hops search. Its parts go back to the session,
//! which deploys them, grafted on the plan of another sink where that is possible.
//!
//! *What it does not do.* It does not decide when to plan ([`crate::session`]) and solves nothing
//! ([`thalweg_planner::planner`]).
//!
//! *Sources.* docs/reference/protocol.md §5; docs/concepts/recast.md.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::{Epoch, NodeId, StreamId};
use thalweg_base::time::Instant;
use thalweg_base::wire::control::Prepare;
use thalweg_planner::planner::{Planner, Policy};

use super::avoid::Avoid;
use super::map::Map;
use super::part::needs_key;
use super::planning::{Planning, Solved, Words};
use super::{Controller, KeyContext, Keys, Note, Output, PlanState};
use crate::session::Part;

impl Controller {
    /// Handles the result of an [`Output::Plan`].
    pub fn handle_solved(&mut self, solved: Solved, now: Instant, keys: &mut dyn Keys) {
        let Planning {
            stream,
            sink,
            number,
            ..
        } = solved.planning;
        let plan = self.sources.get(&stream).and_then(|s| s.sinks.get(&sink));
        if plan.is_none_or(|plan| plan.plannings != number) {
            return;
        }
        let avoid = solved.planning.avoid;
        let drafted = solved
            .into_parts()
            .map(|(parts, words)| (parts, Some(words)));
        // A planning that avoids links which may be working retries with less before it reports a failure.
        if let (Err(_), Some(less)) = (&drafted, avoid.relaxed()) {
            self.plan_avoiding(stream, sink, less, now, keys);
            return self.settle(now, keys);
        }
        self.handle_draft(stream, sink, drafted, now, keys);
        self.settle(now, keys);
    }

    /// Plans for a sink, or requests a planning, avoiding silent nodes as far as possible.
    pub(super) fn plan(
        &mut self,
        stream: StreamId,
        sink: NodeId,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let avoid = self.strictest_avoid(sink, now);
        self.plan_avoiding(stream, sink, avoid, now, keys);
    }

    fn plan_avoiding(
        &mut self,
        stream: StreamId,
        sink: NodeId,
        avoid: Avoid,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let Some(plan) = source.sinks.get_mut(&sink) else {
            return;
        };
        plan.plannings += 1;
        let number = plan.plannings;
        let Some(source) = self.sources.get(&stream) else {
            return;
        };
        let unplanned = match (&source.fixed_plan, source.publication.planner) {
            (Some(parts), _) => self.fixed_plan(parts, sink),
            (None, Some(planner)) if sink != self.id() => {
                match Map::new(self, &source.publication, sink, avoid, now) {
                    Ok(map) => {
                        // A cautious planning does not prefer a path that is too slow to one that
                        // may be silent.
                        let is_served = source.session.is_served(sink, now);
                        let may_stretch = !is_served && !avoid.is_cautious();
                        let planning = Planning {
                            stream,
                            sink,
                            number,
                            map: map.into(),
                            policy: policy(planner),
                            avoid,
                            may_stretch,
                        };
                        return self.outputs.push_back(Output::Plan(planning));
                    }
                    Err(reason) => Err(reason),
                }
            }
            (None, _) => self.shortest(sink, avoid, now),
        };
        let drafted = unplanned.map(|parts| (parts, None));
        self.handle_draft(stream, sink, drafted, now, keys);
    }

    /// Hands the parts of a plan to the session, or records why there are none.
    fn handle_draft(
        &mut self,
        stream: StreamId,
        sink: NodeId,
        drafted: Result<(Vec<Part>, Option<Words>), String>,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        match drafted {
            Ok((parts, words)) => {
                let path: Vec<NodeId> = parts.iter().map(|part| part.node).collect();
                let layers = layers(&parts);
                let lack = words.as_ref().and_then(|words| words.lack.clone());
                let epoch = source.session.handle_plan(sink, parts, now);
                if let Some(epoch) = epoch {
                    source
                        .layers
                        .retain(|known, _| source.paths.contains_key(known));
                    source.layers.insert(epoch, layers);
                    source.paths.insert(epoch, path);
                    if let Some(graft) = source.session.graft(epoch) {
                        source.grafts.insert(epoch, graft.at);
                    }
                }
                if let (Some(epoch), Some(plan)) = (epoch, source.sinks.get_mut(&sink)) {
                    plan.deploying = Some((epoch, words));
                    if plan.state != PlanState::Active {
                        plan.state = PlanState::Deploying;
                    }
                    self.open_graft(stream, epoch, now);
                    if let Some(reason) = lack {
                        self.note(Note::TooSlow { sink, reason });
                    }
                } else {
                    source.handle_kept(sink, words);
                }
            }
            Err(reason) => {
                source.session.handle_no_plan(sink, now);
                let known = source
                    .sinks
                    .get(&sink)
                    .and_then(|plan| plan.reason.as_ref());
                let is_news = known != Some(&reason);
                self.fail(stream, sink, &reason, keys);
                // The sink of a held stream may be out of reach for hours: the reason is noted once.
                if is_news {
                    self.note(Note::NoPlan { sink, reason });
                }
            }
        }
    }

    /// Returns the plan that the program supplied; it leads to one sink.
    fn fixed_plan(&self, parts: &[Part], sink: NodeId) -> Result<Vec<Part>, String> {
        if parts.last().map(|part| part.node) != Some(sink) {
            let sink = self.name_of(sink);
            return Err(format!("the given plan does not end at {sink}"));
        }
        Ok(parts.to_vec())
    }

    /// Returns an unplanned path: the fewest hops, no adapters.
    fn shortest(&self, sink: NodeId, avoid: Avoid, now: Instant) -> Result<Vec<Part>, String> {
        let path = self.path_avoiding(sink, avoid, now);
        let path = path.ok_or_else(|| format!("no path to {}", self.name_of(sink)))?;
        let part = |node| Part {
            node,
            adapters: Vec::new(),
            plaintext: true,
        };
        Ok(path.into_iter().map(part).collect())
    }

    /// Returns the message that installs a part, with the stream's key if the part needs it.
    pub(super) fn prepare(
        &mut self,
        (stream, epoch): (StreamId, Epoch),
        route: &[NodeId],
        next: Option<NodeId>,
        part: Part,
        keys: &mut dyn Keys,
    ) -> Option<Prepare> {
        let node = part.node;
        let envelope = self.envelope((stream, epoch), &part, keys);
        let own = self.id();
        let source = self.sources.get_mut(&stream)?;
        let envelope = match envelope.transpose() {
            Ok(envelope) => {
                if envelope.is_some() {
                    source.keys.add_holder(node);
                }
                envelope
            }
            Err(error) => {
                self.outputs
                    .push_back(Output::Note(Note::KeyNotSealed { node, error }));
                None
            }
        };
        Some(Prepare {
            name: source.publication.name.clone(),
            stream,
            epoch,
            previous: route.iter().rev().nth(1).copied().unwrap_or(own),
            next,
            adapters: part.adapters,
            reliability: source.publication.needs.reliability,
            order: source.publication.needs.order,
            weight: source.publication.needs.weight,
            plaintext: part.plaintext,
            base: None,
            envelope,
        })
    }

    /// Returns the stream's key of a plan, sealed for the node of a part that needs it.
    fn envelope(
        &self,
        (stream, epoch): (StreamId, Epoch),
        part: &Part,
        keys: &mut dyn Keys,
    ) -> Option<Result<Vec<u8>, super::KeysError>> {
        let source = self.sources.get(&stream)?;
        let wanted = needs_key(&part.adapters).then_some(part.node)?;
        let record = self.directory.record(wanted)?;
        let context = KeyContext {
            source: self.id(),
            stream,
        };
        Some(keys.seal_key(source.keys.of(epoch), &record.box_key, context))
    }
}

fn policy(planner: Planner) -> Policy {
    Policy {
        planner,
        ..Policy::default()
    }
}

/// Returns how many layers pass all adapters of a plan.
fn layers(parts: &[Part]) -> u8 {
    let kept = |word: &String| word.strip_prefix("keep:")?.parse().ok();
    let words = parts.iter().flat_map(|part| &part.adapters);
    words.filter_map(kept).min().unwrap_or(u8::MAX)
}
