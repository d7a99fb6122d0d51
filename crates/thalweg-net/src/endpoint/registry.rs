//! At most one link per neighbour.
//!
//! *The idea.* When two nodes dial each other at once, each sees both connections, in any order. Both keep the one that
//! the node with the smaller key dialled, without asking each other. A later connection is no such crossing: nobody
//! greets a peer that it has a good link with, so the peer has lost the old one (it was restarted), or its address, or hears nothing
//! over it, and the new one is kept.
//!
//! *What it does not do.* It closes nothing: who loses is drained by the caller, so that nothing in flight is lost.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_core::id::NodeId;
use thalweg_core::time::Duration;
use tokio::sync::watch;

use crate::link::Link;

/// Two dials cross if their handshakes end within this: several round trips of a satellite with a lost packet.
const CROSSING: Duration = Duration::from_secs(3);

/// The present links.
#[derive(Default)]
pub(crate) struct Registry {
    links: Mutex<HashMap<NodeId, Link>>,
    /// Held while a change is made known, so that events come in the order of the changes.
    pub(crate) announcing: Mutex<()>,
    changes: watch::Sender<()>,
}

/// What is to be done with a new connection.
pub(crate) enum Verdict {
    /// It is the link now, in the place of another perhaps.
    Kept { replaced: Option<Link> },
    /// Another is the link.
    Duplicate { kept: Link },
}

/// What decides between two connections with one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    pub(crate) own_is_smaller: bool,
    pub(crate) old_is_dialled: bool,
    pub(crate) new_is_dialled: bool,
    /// The time between the two.
    pub(crate) apart: Duration,
}

impl Contest {
    /// Returns whether the new connection is kept.
    pub(crate) fn is_new_kept(self) -> bool {
        let is_crossing = self.old_is_dialled != self.new_is_dialled && self.apart <= CROSSING;
        let new_is_by_smaller = self.new_is_dialled == self.own_is_smaller;
        !is_crossing || new_is_by_smaller
    }
}

impl Registry {
    pub(crate) fn offer(&self, own: NodeId, link: &Link) -> Verdict {
        let peer = link.peer();
        let mut links = self.lock();
        let old = links.get(&peer).filter(|old| !old.is_closed()).cloned();
        if let Some(kept) = old.as_ref() {
            let contest = Contest {
                own_is_smaller: own < peer,
                old_is_dialled: kept.is_dialled(),
                new_is_dialled: link.is_dialled(),
                apart: link.since().saturating_since(kept.since()),
            };
            if !contest.is_new_kept() {
                return Verdict::Duplicate { kept: kept.clone() };
            }
        }
        links.insert(peer, link.clone());
        drop(links);
        self.changes.send_replace(());
        Verdict::Kept { replaced: old }
    }

    /// Forgets a link; returns whether it was the present one.
    pub(crate) fn remove(&self, link: &Link) -> bool {
        let mut links = self.lock();
        let is_present = links
            .get(&link.peer())
            .is_some_and(|present| present.is_same(link));
        if is_present {
            links.remove(&link.peer());
            drop(links);
            self.changes.send_replace(());
        }
        is_present
    }

    pub(crate) fn open(&self, peer: NodeId) -> Option<Link> {
        self.lock()
            .get(&peer)
            .filter(|link| !link.is_closed())
            .cloned()
    }

    /// Returns whether a link is the present one with its peer, closed or not.
    pub(crate) fn has(&self, link: &Link) -> bool {
        let present = self.lock();
        present
            .get(&link.peer())
            .is_some_and(|present| present.is_same(link))
    }

    /// Returns all links, in the order of their peers' keys.
    pub(crate) fn all(&self) -> Vec<Link> {
        let mut links: Vec<_> = self.lock().values().cloned().collect();
        links.sort_by_key(Link::peer);
        links
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, Link>> {
        // No code that can panic runs under this lock.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
