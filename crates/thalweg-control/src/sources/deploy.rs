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

use super::{PlanState, Sources, View};
use crate::effect::{Ask, Note, Output, PlanKey, Turn};
use crate::facts::{Facts, KeyContext, Keys, KeysError};
use crate::parts::needs_key;
use crate::planning::{Avoid, Map, Planning, Solved, Words};
use crate::session::Part;

impl Sources {
    /// Handles the result of an [`Output::Plan`]; returns whether it was still wanted.
    pub(crate) fn handle_solved(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        solved: Solved,
    ) -> bool {
        let Planning {
            stream,
            sink,
            number,
            ..
        } = solved.planning;
        let plan = self.get(stream).and_then(|s| s.sinks.get(&sink));
        if plan.is_none_or(|plan| plan.plannings != number) {
            return false;
        }
        let avoid = solved.planning.avoid;
        let drafted = solved
            .into_parts()
            .map(|(parts, words)| (parts, Some(words)));
        // A planning that avoids links which may be working retries with less before it reports a failure.
        if let (Err(_), Some(less)) = (&drafted, avoid.relaxed()) {
            self.plan_avoiding(turn, view, (stream, sink), less);
        } else {
            self.handle_draft(turn, (stream, sink), drafted);
        }
        true
    }

    /// Plans for a sink, or requests a planning, avoiding silent nodes as far as possible.
    pub(super) fn plan(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        (stream, sink): (StreamId, NodeId),
    ) {
        let avoid = view.health.strictest_avoid(view.facts, sink, turn.now);
        self.plan_avoiding(turn, view, (stream, sink), avoid);
    }

    fn plan_avoiding(
        &mut self,
        turn: &mut Turn<'_>,
        view: &View<'_>,
        (stream, sink): (StreamId, NodeId),
        avoid: Avoid,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let Some(plan) = source.sinks.get_mut(&sink) else {
            return;
        };
        plan.plannings += 1;
        let number = plan.plannings;
        let (id, now) = (view.facts.id(), turn.now);
        let unplanned = match (&source.fixed_plan, source.publication.planner) {
            (Some(parts), _) => fixed_plan(view.facts, parts, sink),
            (None, Some(planner)) if sink != id => {
                let is_usable = |ends| !view.health.is_avoided(ends, (sink, avoid), now);
                let was_silent = |ends| view.health.was_silent(ends);
                let ends = [id, sink];
                match Map::between(view.facts, &source.publication, ends, is_usable, was_silent) {
                    Ok(map) => {
                        // A cautious planning does not prefer a path that is too slow to one that
                        // may be silent.
                        let is_served = source.session.is_served(sink, now);
                        let may_stretch = !is_served && !avoid.is_cautious();
                        return turn.output(Output::Plan(Planning {
                            stream,
                            sink,
                            number,
                            map: map.into(),
                            policy: policy(planner),
                            avoid,
                            may_stretch,
                        }));
                    }
                    Err(reason) => Err(reason),
                }
            }
            (None, _) => shortest(view, sink, avoid, now),
        };
        let drafted = unplanned.map(|parts| (parts, None));
        self.handle_draft(turn, (stream, sink), drafted);
    }

    /// Hands the parts of a plan to the session, or records why there are none.
    fn handle_draft(
        &mut self,
        turn: &mut Turn<'_>,
        (stream, sink): (StreamId, NodeId),
        drafted: Result<(Vec<Part>, Option<Words>), String>,
    ) {
        match drafted {
            Ok((parts, words)) => self.handle_parts(turn, (stream, sink), parts, words),
            Err(reason) => self.handle_no_plan(turn, (stream, sink), reason),
        }
    }

    fn handle_parts(
        &mut self,
        turn: &mut Turn<'_>,
        (stream, sink): (StreamId, NodeId),
        parts: Vec<Part>,
        words: Option<Words>,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let path: Vec<NodeId> = parts.iter().map(|part| part.node).collect();
        let layers = layers(&parts);
        let lack = words.as_ref().and_then(|words| words.lack.clone());
        let epoch = source.session.handle_plan(sink, parts, turn.now);
        if let Some(epoch) = epoch {
            source.handle_deployed(epoch, path, layers);
        }
        if let (Some(epoch), Some(plan)) = (epoch, source.sinks.get_mut(&sink)) {
            plan.deploying = Some((epoch, words));
            if plan.state != PlanState::Active {
                plan.state = PlanState::Deploying;
            }
            if source.grafts.contains_key(&epoch) {
                let nodes = source.account_path(epoch).len();
                turn.ask(Ask::GraftMade((stream, epoch), nodes));
            }
            if let Some(reason) = lack {
                turn.note(Note::TooSlow { sink, reason });
            }
        } else {
            source.handle_kept(sink, words);
        }
    }

    fn handle_no_plan(
        &mut self,
        turn: &mut Turn<'_>,
        (stream, sink): (StreamId, NodeId),
        reason: String,
    ) {
        let Some(source) = self.sources.get_mut(&stream) else {
            return;
        };
        let has_ended = source.session.handle_no_plan(sink, turn.now);
        let plan = source.sinks.get(&sink);
        let known = plan.and_then(|plan| plan.reason.as_ref());
        let is_news = known != Some(&reason);
        if has_ended {
            self.handle_failed(turn, stream, sink, &reason);
        } else {
            // With hundreds of sinks without a path, each change of the map comes here for each of them:
            // what is in force is not computed again.
            self.handle_unserved(turn, stream, sink, &reason);
        }
        // The sink of a held stream may be out of reach for hours: the reason is noted once.
        if is_news {
            turn.note(Note::NoPlan { sink, reason });
        }
    }

    /// Returns the message that installs a part, with the stream's key if the part needs it.
    pub(super) fn prepare(
        &mut self,
        turn: &mut Turn<'_>,
        facts: &Facts<'_>,
        (stream, epoch): PlanKey,
        route: &[NodeId],
        (next, part): (Option<NodeId>, Part),
        keys: &mut dyn Keys,
    ) -> Option<Prepare> {
        let node = part.node;
        let envelope = self.envelope(facts, (stream, epoch), &part, keys);
        let source = self.sources.get_mut(&stream)?;
        let envelope = match envelope.transpose() {
            Ok(envelope) => {
                if envelope.is_some() {
                    source.keys.add_holder(node);
                }
                envelope
            }
            Err(error) => {
                turn.note(Note::KeyNotSealed { node, error });
                None
            }
        };
        Some(Prepare {
            name: source.publication.name.clone(),
            stream,
            epoch,
            previous: route.iter().rev().nth(1).copied().unwrap_or(facts.id()),
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
        facts: &Facts<'_>,
        (stream, epoch): PlanKey,
        part: &Part,
        keys: &mut dyn Keys,
    ) -> Option<Result<Vec<u8>, KeysError>> {
        let source = self.get(stream)?;
        let wanted = needs_key(&part.adapters).then_some(part.node)?;
        let record = facts.directory.record(wanted)?;
        let context = KeyContext {
            source: facts.id(),
            stream,
        };
        Some(keys.seal_key(source.keys.of(epoch), &record.box_key, context))
    }
}

/// Returns the plan that the program supplied; it leads to one sink.
fn fixed_plan(facts: &Facts<'_>, parts: &[Part], sink: NodeId) -> Result<Vec<Part>, String> {
    if parts.last().map(|part| part.node) != Some(sink) {
        let sink = facts.name_of(sink);
        return Err(format!("the given plan does not end at {sink}"));
    }
    Ok(parts.to_vec())
}

/// Returns an unplanned path: the fewest hops, no adapters.
fn shortest(
    view: &View<'_>,
    sink: NodeId,
    avoid: Avoid,
    now: Instant,
) -> Result<Vec<Part>, String> {
    let path = view.health.path_avoiding(view.facts, (sink, avoid), now);
    let path = path.ok_or_else(|| format!("no path to {}", view.facts.name_of(sink)))?;
    let part = |node| Part {
        node,
        adapters: Vec::new(),
        plaintext: true,
    };
    Ok(path.into_iter().map(part).collect())
}

/// Turns the message for the first node of a plan into that of a grafted plan, if there is a base.
pub(super) fn grafted(prepare: Prepare, route: &[NodeId], base: Option<Epoch>) -> Prepare {
    let here = route.last().copied().filter(|_| base.is_some());
    Prepare {
        previous: here.unwrap_or(prepare.previous),
        base,
        ..prepare
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
