//! Listens whether neighbours answer, while something is sent to them.
//!
//! *The idea.* One task asks every link over QUIC that has something in flight each 25 ms, and when a doubt or a silence is due, what
//! has come, and tells the control task when a neighbour is doubted, falls silent or is heard again
//! ([`thalweg_core::routing::pulse`]). A link of which nothing is in flight it lets sleep until it is given an ADU or a control frame,
//! so a node with many neighbours asks those alone to whom it has something to say. A link over TCP finds out by itself.
//!
//! *What it does not do.* It concludes nothing from a silence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_core::id::NodeId;
use thalweg_core::routing::pulse::{Hearing, LOOK, Pulse};
use thalweg_core::time::Instant;
use thalweg_net::{Clock, Link, Transport};
use tokio::sync::{mpsc, watch};

use crate::control::Input;
use crate::forward::Forwarder;

/// The links over QUIC, and which of them are listened to.
#[derive(Default)]
struct Listening {
    links: BTreeMap<NodeId, Listened>,
    awake: BTreeSet<NodeId>,
}

/// A link and what is heard of it.
struct Listened {
    link: Link,
    pulse: Pulse,
}

/// Listens until nobody takes what is heard; `given` are neighbours whose links [have told](Link::tell_when_given) that they were given
/// something.
pub(crate) async fn listen(
    forwarder: Arc<Forwarder>,
    mut given: mpsc::UnboundedReceiver<NodeId>,
    inputs: mpsc::Sender<Input>,
) {
    let mut listening = Listening::default();
    let mut ways = forwarder.ways();
    ways.mark_changed();
    loop {
        if listening.awake.is_empty() {
            tokio::select! {
                changed = ways.changed() => match changed {
                    Ok(()) => ways.mark_changed(),
                    Err(_) => return,
                },
                peer = given.recv() => match peer {
                    Some(peer) => listening.wake(peer, forwarder.clock.now()),
                    None => return,
                },
            }
            listening.rouse(&mut ways, &mut given, &forwarder);
        }
        let next = listening.next_look(forwarder.clock.now());
        forwarder.clock.sleep_until(next).await;
        listening.rouse(&mut ways, &mut given, &forwarder);
        for (peer, hearing) in listening.look(&forwarder.clock) {
            if inputs.send(Input::Hearing { peer, hearing }).await.is_err() {
                return;
            }
        }
    }
}

impl Listening {
    /// Looks whom there is to listen to: new links, and those that were given something.
    fn rouse(
        &mut self,
        ways: &mut watch::Receiver<u64>,
        given: &mut mpsc::UnboundedReceiver<NodeId>,
        forwarder: &Forwarder,
    ) {
        let now = forwarder.clock.now();
        // Its sender lives as long as the forwarder.
        if ways.has_changed().unwrap_or(true) {
            ways.mark_unchanged();
            self.meet(&forwarder.links(), now);
        }
        while let Ok(peer) = given.try_recv() {
            self.wake(peer, now);
        }
    }

    /// Takes these links, which are in the order of their peers, for all that there are.
    fn meet(&mut self, links: &[Link], now: Instant) {
        self.links.retain(|peer, heard| {
            let place = links.binary_search_by_key(peer, Link::peer);
            place.is_ok_and(|at| links[at].is_same(&heard.link))
        });
        let of_quic = |link: &&Link| link.transport() == Transport::Quic;
        for link in links.iter().filter(of_quic) {
            let heard = self.links.entry(link.peer());
            heard.or_insert_with(|| Listened::new(link.clone(), now));
        }
        let awake = self.links.iter().filter(|(_, heard)| heard.is_awake());
        self.awake = awake.map(|(peer, _)| *peer).collect();
    }

    /// Listens to a link that was given something.
    fn wake(&mut self, peer: NodeId, now: Instant) {
        if let Some(heard) = self.links.get_mut(&peer) {
            heard.pulse.handle_sent(now);
            self.awake.insert(peer);
        }
    }

    /// Returns when to look at all that are awake: with the first that is due, and no later than is usual.
    fn next_look(&self, now: Instant) -> Instant {
        let awake = self.awake.iter().filter_map(|peer| self.links.get(peer));
        let due = awake.map(|heard| heard.pulse.poll_timeout());
        due.fold(now + LOOK, Instant::min)
    }

    /// Looks at all that are awake; returns of whom something else is heard than before.
    fn look(&mut self, clock: &Clock) -> Vec<(NodeId, Hearing)> {
        let mut news = Vec::new();
        self.awake.retain(|peer| {
            let Some(heard) = self.links.get_mut(peer) else {
                return false;
            };
            let hearing = heard.look(clock.now());
            news.extend(hearing.map(|hearing| (*peer, hearing)));
            heard.is_awake()
        });
        news
    }
}

impl Listened {
    /// Begins to listen: what the link was given before is told of by nobody.
    fn new(link: Link, now: Instant) -> Self {
        let mut pulse = Pulse::default();
        pulse.handle_sent(now);
        Self { link, pulse }
    }

    /// Looks; returns what the neighbour is taken for, if that has changed.
    fn look(&mut self, now: Instant) -> Option<Hearing> {
        // Before it is seen that nothing is in flight, so that what comes after is told.
        self.link.tell_when_given();
        let sign = self.link.sign(self.pulse.is_silent());
        let hearing = self.pulse.handle_look(sign, now);
        // What was given to a link may leave it later.
        if !self.is_awake() && !self.link.has_all_gone() {
            self.pulse.handle_sent(now);
        }
        hearing
    }

    /// Returns whether something is waited for.
    const fn is_awake(&self) -> bool {
        !self.pulse.poll_timeout().is_never()
    }
}
