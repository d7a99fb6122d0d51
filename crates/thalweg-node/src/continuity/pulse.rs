//! Listens whether neighbours answer, while something is sent to them.
//!
//! *The idea.* One task asks every link over QUIC each 25 ms, and when a doubt or a silence is due, what has come and what is in
//! flight, and tells the control task when a neighbour is doubted, falls silent or is heard again
//! ([`thalweg_core::routing::pulse`]). When no link has anything in flight it sleeps until an ADU or a control frame is sent, and
//! where there are none over QUIC until there is one; so an idle node asks nothing. A link over TCP finds out by itself.
//!
//! *What it does not do.* It concludes nothing from a silence.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_core::id::NodeId;
use thalweg_core::routing::pulse::{LOOK, Pulse, Sign};
use thalweg_core::time::Instant;
use thalweg_net::{Link, Transport};
use tokio::sync::{mpsc, watch};

use crate::control::Input;
use crate::forward::Forwarder;

/// A link and what is heard of it.
struct Listened {
    link: Link,
    pulse: Pulse,
}

impl Listened {
    /// Returns whether nothing is waited for; what was given to a link may leave it later.
    fn is_idle(&self) -> bool {
        self.pulse.poll_timeout().is_never() && self.link.in_flight() == 0
    }

    fn sign(&self) -> Sign {
        self.link.sign(self.pulse.is_silent())
    }
}

/// Listens until nobody takes what is heard.
pub(crate) async fn listen(forwarder: Arc<Forwarder>, inputs: mpsc::Sender<Input>) {
    let mut listened: BTreeMap<NodeId, Listened> = BTreeMap::new();
    let mut ways = forwarder.ways();
    ways.mark_changed();
    loop {
        if listened.is_empty() {
            if ways.changed().await.is_err() {
                return;
            }
            meet(&mut listened, &forwarder.links());
            continue;
        }
        if listened.values().all(Listened::is_idle) {
            forwarder.sending().await;
            listen_anew(&mut listened, &mut ways, &forwarder);
        }
        forwarder
            .clock
            .sleep_until(next_look(&listened, forwarder.clock.now()))
            .await;
        // Before the look, so that what is sent after it is told.
        forwarder.tell_sending();
        listen_anew(&mut listened, &mut ways, &forwarder);
        for (peer, heard) in &mut listened {
            let now = forwarder.clock.now();
            let Some(hearing) = heard.pulse.handle_look(heard.sign(), now) else {
                continue;
            };
            let peer = *peer;
            if inputs.send(Input::Hearing { peer, hearing }).await.is_err() {
                return;
            }
        }
    }
}

/// Returns when to look at all: with the first that is due, and no later than is usual.
fn next_look(listened: &BTreeMap<NodeId, Listened>, now: Instant) -> Instant {
    let due = listened.values().map(|heard| heard.pulse.poll_timeout());
    due.fold(now + LOOK, Instant::min)
}

/// Listens to the links that there are, and to no others.
fn listen_anew(
    listened: &mut BTreeMap<NodeId, Listened>,
    ways: &mut watch::Receiver<u64>,
    forwarder: &Forwarder,
) {
    // Its sender lives as long as the forwarder.
    if ways.has_changed().unwrap_or(true) {
        ways.mark_unchanged();
        meet(listened, &forwarder.links());
    }
    let now = forwarder.clock.now();
    for heard in listened.values_mut() {
        // One that was idle may have been sent something since: what came before then says nothing.
        heard.pulse.handle_sent(now);
    }
}

/// Takes these links, which are in the order of their peers, for all that there are; listens to those over QUIC.
fn meet(listened: &mut BTreeMap<NodeId, Listened>, links: &[Link]) {
    listened.retain(|peer, heard| {
        let place = links.binary_search_by_key(peer, Link::peer);
        place.is_ok_and(|at| links[at].is_same(&heard.link))
    });
    let of_quic = |link: &&Link| link.transport() == Transport::Quic;
    for link in links.iter().filter(of_quic) {
        listened.entry(link.peer()).or_insert_with(|| Listened {
            link: link.clone(),
            pulse: Pulse::default(),
        });
    }
}
