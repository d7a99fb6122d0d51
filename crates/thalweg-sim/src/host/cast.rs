//! Plans that are grafted here, each given a copy of every ADU that arrives for its base.
//!
//! *Sources.* `thalweg-node`, `forward/cast`.

use thalweg_core::adu::Adu;
use thalweg_core::id::{Epoch, StreamId};

use super::Host;
use crate::fate::Copy;
use crate::reference::Step;
use crate::watch::Watch;

impl Host {
    /// Begins or ceases to give a plan copies of what arrives for its base.
    pub(super) fn cast(&mut self, stream: StreamId, epoch: Epoch, is_on: bool) {
        let part = self.parts.get(&(stream, epoch));
        let base = part.and_then(|part| part.route.installation().base);
        match base.filter(|_| is_on) {
            Some(base) => {
                self.casts.entry((stream, base)).or_default().insert(epoch);
            }
            None => self.casts.retain(|(of, _), branches| {
                if *of == stream {
                    branches.remove(&epoch);
                }
                !branches.is_empty()
            }),
        }
    }

    /// Returns the plans that are given copies of what arrives for a base.
    pub(super) fn branches(&self, stream: StreamId, base: Epoch) -> Vec<Epoch> {
        let branches = self.casts.get(&(stream, base));
        branches.into_iter().flatten().copied().collect()
    }

    /// Takes an ADU that is here whole through its own route and those of all branches.
    pub(super) fn process_all(
        &mut self,
        adu: Adu,
        copy: Option<Copy>,
        step: Step,
        branches: &[Epoch],
        watch: &mut Watch<'_>,
    ) {
        let now = self.now(watch);
        for epoch in branches {
            let mut adu = adu.clone();
            adu.header.epoch = *epoch;
            if !self.parts.contains_key(&(adu.header.stream, *epoch)) {
                continue;
            }
            let copy = watch.fates.find(&adu.header);
            let step = watch.model.step(self.place, None, &adu.header);
            self.count_arrived(adu.header.mark(), &adu.header, now);
            self.process(adu, copy, step, watch);
        }
        self.process(adu, copy, step, watch);
    }
}
