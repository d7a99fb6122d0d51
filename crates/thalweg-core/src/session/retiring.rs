//! Plans that are no sink's any more and still lie on their nodes.
//!
//! *The idea.* What was given under a plan may be on its way, its nodes have to tell what became of it, and another may be grafted on
//! it: so it is released late, and after all that is fed by it; what something is grafted on is renewed like a plan in force.
//!
//! *What it does not do.* It does not say how long a plan lies: who retires it does.

use alloc::collections::BTreeMap;

use super::deployment::{Deployment, Renewals};
use super::{Feed, RENEW, Session};
use crate::id::Epoch;
use crate::time::Instant;

/// A plan that is not a sink's any more and still lies on its nodes.
#[derive(Debug)]
pub(super) struct Retiring {
    /// When its nodes are to forget it.
    pub(super) release: Instant,
    /// When the node where it is grafted is to cease to cast it.
    pub(super) cease: Instant,
    pub(super) deployment: Deployment,
}

impl Session {
    /// Gives up a plan at once. Its nodes keep it until they have told what became of ADUs that went by it, if any can have.
    pub(super) fn abandon(&mut self, deployment: Deployment, now: Instant) {
        let release = if deployment.has_carried {
            now + RENEW
        } else {
            now
        };
        self.retire(deployment, release, now);
    }

    /// Lets a plan lie on its nodes until then, and be cast until then.
    pub(super) fn retire(&mut self, deployment: Deployment, release: Instant, cease: Instant) {
        let cease = deployment.graft.map_or(Instant::NEVER, |_| cease);
        self.retiring.push(Retiring {
            release,
            cease,
            deployment,
        });
    }

    /// Releases what lay long enough and nothing is grafted on; what something is grafted on is renewed.
    pub(super) fn time_retiring(&mut self, now: Instant, renewals: &mut Renewals) {
        let bases = self.bases();
        // Whatever is grafted on another is younger, so it comes first, and the other after it.
        self.retiring
            .sort_by_key(|retiring| core::cmp::Reverse(retiring.deployment.epoch));
        let mut held: BTreeMap<Epoch, [Instant; 2]> = BTreeMap::new();
        for mut retiring in core::mem::take(&mut self.retiring) {
            let epoch = retiring.deployment.epoch;
            if let Some([release, cease]) = held.get(&epoch) {
                retiring.release = retiring.release.max(*release);
                retiring.cease = retiring.cease.max(*cease);
            }
            if let Some(graft) = retiring.deployment.graft {
                let [release, cease] = held.entry(graft.base).or_default();
                *release = (*release).max(retiring.release);
                let is_cast = !retiring.cease.is_never();
                *cease = (*cease).max(if is_cast { retiring.cease } else { now });
            }
            if bases.contains(&epoch) {
                let deployment = &mut retiring.deployment;
                deployment.send_due(now, &mut self.outputs, renewals);
            } else if retiring.release <= now {
                retiring.deployment.release(&mut self.outputs);
                continue;
            } else if retiring.cease <= now {
                retiring.cease = Instant::NEVER;
                retiring.deployment.cast(Feed::Off, &mut self.outputs);
            }
            self.retiring.push(retiring);
        }
    }
}
