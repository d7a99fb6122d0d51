//! At most one link per neighbour.
//!
//! *The idea.* When two nodes dial each other at once, each sees both connections, in either order.
//! Both keep the one that the node with the smaller key dialled, which needs no exchange. A later
//! connection is no such crossing: a peer dials again only if it has lost the old connection (it
//! restarted), has another address, or receives nothing. Then the new connection is kept.
//!
//! *What it does not do.* It closes nothing: the caller drains the losing connection, so that
//! nothing in flight is lost.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use thalweg_base::id::NodeId;
use thalweg_base::limits::LINKS_MAX;
use thalweg_base::time::Duration;
use tokio::sync::watch;

use crate::link::Link;

/// Two dials cross if their handshakes end within this time: several satellite round trips with a
/// lost packet.
const CROSSING: Duration = Duration::from_secs(3);

/// The current links, by neighbour.
#[derive(Default)]
pub(crate) struct Registry {
    links: Mutex<HashMap<NodeId, Link>>,
    /// Held while a change is announced, so that events keep the order of the changes.
    pub(crate) announcing: Mutex<()>,
    /// The peers that someone waits for.
    changes: Mutex<HashMap<NodeId, watch::Sender<()>>>,
    /// Changes of any link, for the one task that moves links to the engine.
    any_change: watch::Sender<()>,
}

/// The decision about a new connection.
pub(crate) enum Verdict {
    /// It is the link now; `replaced` is the previous one.
    Kept { replaced: Option<Link> },
    /// An existing link is kept instead.
    Duplicate { kept: Link },
}

/// The inputs of the decision between two connections with one peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionChoice {
    pub(crate) own_is_smaller: bool,
    pub(crate) old_is_dialled: bool,
    pub(crate) new_is_dialled: bool,
    /// Time between the starts of the two.
    pub(crate) apart: Duration,
}

impl ConnectionChoice {
    /// Returns whether the new connection is kept.
    pub(crate) fn keeps_new(self) -> bool {
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
            let contest = ConnectionChoice {
                own_is_smaller: own < peer,
                old_is_dialled: kept.is_dialled(),
                new_is_dialled: link.is_dialled(),
                apart: link.since().saturating_since(kept.since()),
            };
            if !contest.keeps_new() {
                return Verdict::Duplicate { kept: kept.clone() };
            }
        }
        links.insert(peer, link.clone());
        drop(links);
        self.notify(peer);
        Verdict::Kept { replaced: old }
    }

    /// Removes a link; returns whether it was the current one.
    pub(crate) fn remove(&self, link: &Link) -> bool {
        let mut links = self.lock();
        let is_present = links
            .get(&link.peer())
            .is_some_and(|present| present.is_same(link));
        if is_present {
            links.remove(&link.peer());
            drop(links);
            self.notify(link.peer());
        }
        is_present
    }

    pub(crate) fn open(&self, peer: NodeId) -> Option<Link> {
        self.lock()
            .get(&peer)
            .filter(|link| !link.is_closed())
            .cloned()
    }

    /// Returns whether this is the current link with its peer, closed or not.
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

    /// Returns whether there are as many links as a node may have.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().len() >= LINKS_MAX
    }

    /// Returns the changes of the link with a peer. Each peer has its own: where hundreds of tasks keep
    /// a link each, one for all would wake each task for the link of every other.
    pub(crate) fn changes(&self, peer: NodeId) -> watch::Receiver<()> {
        let mut changes = self.lock_changes();
        changes.entry(peer).or_default().subscribe()
    }

    /// Returns the changes of all links, for a task that looks at each.
    pub(crate) fn all_changes(&self) -> watch::Receiver<()> {
        self.any_change.subscribe()
    }

    fn notify(&self, peer: NodeId) {
        self.any_change.send_replace(());
        let mut changes = self.lock_changes();
        let Some(change) = changes.get(&peer) else {
            return;
        };
        change.send_replace(());
        if change.receiver_count() == 0 {
            changes.remove(&peer);
        }
    }

    fn lock_changes(&self) -> MutexGuard<'_, HashMap<NodeId, watch::Sender<()>>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, Link>> {
        // No code that can panic runs under this lock.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
