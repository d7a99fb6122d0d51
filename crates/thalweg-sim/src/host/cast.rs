//! Grafted plans: copies each ADU of the base plan for them, and keeps ADUs for sinks that join late.
//!
//! *Sources.* `thalweg-node`, `forward/cast`.

use thalweg_base::adu::{Adu, Header};
use thalweg_base::id::{Epoch, Sequence, StreamId};
use thalweg_base::time::Instant;
use thalweg_control::session::Feed;

use super::Host;
use super::carry::Part;
use crate::fate::Copy;
use crate::reference::Step;
use crate::watch::Watch;

impl Host {
    /// Starts or stops copying the base's ADUs for a plan. A sink that begins with the kept group first
    /// gets that group; a stop may take effect from a sequence number on.
    pub(super) fn cast(
        &mut self,
        stream: StreamId,
        epoch: Epoch,
        feed: Feed,
        watch: &mut Watch<'_>,
    ) {
        let part = self.parts.get(&(stream, epoch));
        let base = part.and_then(|part| part.route.installation().base);
        match base.filter(|_| feed != Feed::Off) {
            Some(base) => {
                let branches = self.casts.entry((stream, base)).or_default();
                watch.fates.handle_cast(stream, epoch);
                let until = branches.get(&epoch).copied().flatten();
                let until = match feed {
                    Feed::Until(until) => Some(until),
                    Feed::Off | Feed::Live | Feed::Replay => until,
                };
                if branches.insert(epoch, until).is_none() && feed == Feed::Replay {
                    let group = self.replay.group((stream, base), self.now(watch));
                    for adu in group {
                        let mut header = adu.header;
                        header.epoch = epoch;
                        watch.fates.handle_replayed(&header);
                        self.process_copy(&adu, epoch, watch);
                    }
                }
            }
            None => self.casts.retain(|(of, _), branches| {
                if *of == stream && branches.remove(&epoch).is_some() {
                    watch.fates.handle_ceased(stream, epoch, watch.now);
                }
                !branches.is_empty()
            }),
        }
    }

    /// Returns the plans that get a copy of an ADU arriving for a base.
    pub(super) fn branches(&self, header: &Header) -> Vec<Epoch> {
        let branches = self.casts.get(&(header.stream, header.epoch));
        let is_given = |until: &Option<Sequence>| until.is_none_or(|until| header.sequence < until);
        let given = branches.into_iter().flatten();
        let given = given.filter(|(_, until)| is_given(until));
        given.map(|(epoch, _)| *epoch).collect()
    }

    /// Notes that an ADU begins to arrive; returns whether to keep it for sinks that join late.
    pub(super) fn may_keep(&mut self, header: &Header) -> bool {
        let plan = (header.stream, header.epoch);
        let part = self.parts.get(&plan);
        let is_shared = part.is_some_and(|part| !part.route.is_ordered());
        is_shared && self.replay.handle_begun(plan, header)
    }

    /// Passes a whole ADU through its own route and those of all branches.
    pub(super) fn process_all(
        &mut self,
        adu: Adu,
        copy: Option<Copy>,
        step: Step,
        branches: &[Epoch],
        watch: &mut Watch<'_>,
    ) {
        for epoch in branches {
            self.process_copy(&adu, *epoch, watch);
        }
        self.process(adu, copy, step, watch);
    }

    /// Returns whether an arriving ADU finds room. Where plans go at their own pace, one queue with
    /// room suffices; else the ADU before it must have gone.
    pub(super) fn has_room(&self, header: &Header, payload_bytes: usize) -> bool {
        let (stream, base) = (header.stream, header.epoch);
        let Some(part) = self.parts.get(&(stream, base)) else {
            return true;
        };
        if !part.route.is_repaired() || !self.casts.contains_key(&(stream, base)) {
            return !part.route.is_ordered() || !part.is_busy();
        }
        let branches = self.branches(header);
        let mut plans = branches.iter().chain([&base]);
        plans.any(|epoch| {
            let part = self.parts.get(&(stream, *epoch));
            part.is_none_or(|part| part.has_room(header, payload_bytes))
        })
    }

    /// Resumes receptions that waited until one of their queues had room.
    pub(super) fn release_held(&mut self, stream: StreamId, epoch: Epoch, now: Instant) {
        let base = self.casts.iter().find_map(|((of, base), branches)| {
            (*of == stream && branches.contains_key(&epoch)).then_some(*base)
        });
        let part = self.parts.get_mut(&(stream, base.unwrap_or(epoch)));
        let held = part.map(Part::take_held).unwrap_or_default();
        self.resume(held, now);
    }

    /// Passes a copy of an ADU through the route of a branch.
    pub(super) fn process_copy(&mut self, adu: &Adu, epoch: Epoch, watch: &mut Watch<'_>) {
        let now = self.now(watch);
        let mut adu = adu.clone();
        adu.header.epoch = epoch;
        if !self.parts.contains_key(&(adu.header.stream, epoch)) {
            return;
        }
        let copy = watch.fates.find(&adu.header);
        let step = watch.model.step(self.place, None, &adu.header);
        self.count_arrived(adu.header.mark(), &adu.header, now);
        self.count_copied(&adu.header, now);
        self.process(adu, copy, step, watch);
    }
}
