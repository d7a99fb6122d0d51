//! Monitors whether neighbours answer while something is in flight to them.
//!
//! *The idea.* One task checks each QUIC link with data in flight every 25 ms, and at the moment a
//! doubt or a silence becomes due. It notifies the control task when a neighbour becomes doubtful,
//! falls silent or is heard again ([`thalweg_link::pulse`]). A link with nothing in flight
//! sleeps until it is given an ADU or a control frame, so on a node with many neighbours only the
//! active links cost anything. TCP links detect silence by themselves.
//!
//! *What it does not do.* It draws no conclusion from silence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_base::id::NodeId;
use thalweg_base::time::Instant;
use thalweg_link::pulse::{Hearing, LOOK, Pulse};
use thalweg_net::{Clock, Link, Transport};
use tokio::sync::{mpsc, watch};

use crate::forward::Forwarder;

/// The QUIC links, and the ones that are checked at present.
#[derive(Default)]
struct Monitor {
    links: BTreeMap<NodeId, MonitoredLink>,
    awake: BTreeSet<NodeId>,
}

/// A link and the state of its pulse.
struct MonitoredLink {
    link: Link,
    pulse: Pulse,
}

/// News of a neighbour: it stopped answering, or answers again.
pub(crate) struct Heard {
    pub(crate) peer: NodeId,
    pub(crate) hearing: Hearing,
}

/// Monitors until the receiver of `inputs` is gone. `given` yields neighbours with a link that [has
/// reported](Link::tell_when_given) new data.
pub(crate) async fn monitor_neighbours<I: From<Heard>>(
    forwarder: Arc<Forwarder>,
    mut given: mpsc::UnboundedReceiver<NodeId>,
    inputs: mpsc::Sender<I>,
) {
    let mut monitor = Monitor::default();
    let mut path_changes = forwarder.watch_paths();
    path_changes.mark_changed();
    loop {
        if monitor.awake.is_empty() {
            tokio::select! {
                changed = path_changes.changed() => match changed {
                    Ok(()) => path_changes.mark_changed(),
                    Err(_) => return,
                },
                peer = given.recv() => match peer {
                    Some(peer) => monitor.wake(peer, forwarder.clock.now()),
                    None => return,
                },
            }
            monitor.update(&mut path_changes, &mut given, &forwarder);
        }
        let next = monitor.next_check(forwarder.clock.now());
        forwarder.clock.sleep_until(next).await;
        monitor.update(&mut path_changes, &mut given, &forwarder);
        for (peer, hearing) in monitor.check(&forwarder.clock) {
            let heard = Heard { peer, hearing };
            if inputs.send(heard.into()).await.is_err() {
                return;
            }
        }
    }
}

impl Monitor {
    /// Adds new links, and wakes those with new data.
    fn update(
        &mut self,
        path_changes: &mut watch::Receiver<u64>,
        given: &mut mpsc::UnboundedReceiver<NodeId>,
        forwarder: &Forwarder,
    ) {
        let now = forwarder.clock.now();
        // The sender lives as long as the forwarder.
        if path_changes.has_changed().unwrap_or(true) {
            path_changes.mark_unchanged();
            self.set_links(&forwarder.links(), now);
        }
        while let Ok(peer) = given.try_recv() {
            self.wake(peer, now);
        }
    }

    /// Replaces the set of links. `links` is sorted by peer.
    fn set_links(&mut self, links: &[Link], now: Instant) {
        self.links.retain(|peer, monitored| {
            let place = links.binary_search_by_key(peer, Link::peer);
            place.is_ok_and(|at| links[at].is_same(&monitored.link))
        });
        let of_quic = |link: &&Link| link.transport() != Transport::Tcp;
        for link in links.iter().filter(of_quic) {
            let monitored = self.links.entry(link.peer());
            monitored.or_insert_with(|| MonitoredLink::new(link.clone(), now));
        }
        let awake = self
            .links
            .iter()
            .filter(|(_, monitored)| monitored.is_awake());
        self.awake = awake.map(|(peer, _)| *peer).collect();
    }

    /// Wakes a link that was given data.
    fn wake(&mut self, peer: NodeId, now: Instant) {
        if let Some(monitored) = self.links.get_mut(&peer) {
            monitored.pulse.handle_sent(now);
            self.awake.insert(peer);
        }
    }

    /// Returns the time of the next check: when the first awake link is due, at the latest after
    /// the usual period.
    fn next_check(&self, now: Instant) -> Instant {
        let awake = self.awake.iter().filter_map(|peer| self.links.get(peer));
        let due = awake.map(|monitored| monitored.pulse.poll_timeout());
        due.fold(now + LOOK, Instant::min)
    }

    /// Checks all awake links; returns the neighbours with a changed state.
    fn check(&mut self, clock: &Clock) -> Vec<(NodeId, Hearing)> {
        let mut changes = Vec::new();
        self.awake.retain(|peer| {
            let Some(monitored) = self.links.get_mut(peer) else {
                return false;
            };
            let hearing = monitored.check(clock.now());
            changes.extend(hearing.map(|hearing| (*peer, hearing)));
            monitored.is_awake()
        });
        changes
    }
}

impl MonitoredLink {
    /// Starts awake, since data given to the link earlier is not reported.
    fn new(link: Link, now: Instant) -> Self {
        let mut pulse = Pulse::default();
        pulse.handle_sent(now);
        Self { link, pulse }
    }

    /// Checks the link; returns the neighbour's state if it has changed.
    fn check(&mut self, now: Instant) -> Option<Hearing> {
        // Set up before the check for data in flight, so that data given right after it is
        // reported.
        self.link.tell_when_given();
        let sign = self.link.sign(self.pulse.is_silent());
        let hearing = self.pulse.handle_look(sign, now);
        // Data given to a link may leave it later.
        if !self.is_awake() && !self.link.has_all_gone() {
            self.pulse.handle_sent(now);
        }
        hearing
    }

    /// Returns whether an answer is awaited.
    const fn is_awake(&self) -> bool {
        !self.pulse.poll_timeout().is_never()
    }
}
