//! What the lanes of a node share: its links, its mailboxes, and the wake-up of the control task.
//!
//! *The idea.* A lane decides for one stream; where its ADUs go is the node's. The locks here are held
//! for a look or a change, and never while one is taken.
//!
//! *What it does not do.* It sends nothing.

use std::sync::{Arc, Weak};

use thalweg_base::id::NodeId;
use thalweg_net::{Clock, Link};
use tokio::sync::Notify;

use super::ledger::ExposureCounts;
use super::{LagMeter, Mailboxes, Table, Traces, read, write};

/// Where the ADUs of a node go.
pub(super) struct Ways {
    pub(super) clock: Clock,
    /// Mailboxes hold deliveries, and these their lane, which holds this: so the node alone holds the
    /// mailboxes.
    mailboxes: Weak<Mailboxes>,
    pub(super) traces: Arc<Traces>,
    pub(super) lag: LagMeter,
    links: Table<NodeId, Onward>,
    /// Notified when counts or arrivals must be reported at once.
    pub(super) urgent: Notify,
}

/// The link to a neighbour, and the counters of what is sent over it.
#[derive(Clone)]
pub(super) struct Onward {
    pub(super) link: Link,
    pub(super) exposure: Arc<ExposureCounts>,
}

impl Ways {
    pub(super) fn new(clock: Clock, mailboxes: &Arc<Mailboxes>, traces: Arc<Traces>) -> Self {
        Self {
            clock,
            mailboxes: Arc::downgrade(mailboxes),
            traces,
            lag: LagMeter::default(),
            links: Table::default(),
            urgent: Notify::new(),
        }
    }

    /// Returns the mailboxes, while the node has them.
    pub(super) fn mailboxes(&self) -> Option<Arc<Mailboxes>> {
        self.mailboxes.upgrade()
    }

    pub(super) fn link_up(&self, link: Link, exposure: Arc<ExposureCounts>) {
        write(&self.links).insert(link.peer(), Onward { link, exposure });
    }

    pub(super) fn link_down(&self, peer: NodeId) {
        write(&self.links).remove(&peer);
    }

    pub(super) fn onward(&self, peer: NodeId) -> Option<Onward> {
        read(&self.links).get(&peer).cloned()
    }

    pub(super) fn links(&self) -> Vec<Link> {
        let links = read(&self.links);
        let mut links: Vec<Link> = links.values().map(|onward| onward.link.clone()).collect();
        links.sort_by_key(Link::peer);
        links
    }
}
