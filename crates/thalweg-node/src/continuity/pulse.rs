//! Listens whether neighbours answer, while something is sent to them.
//!
//! *The idea.* One task asks every link each 25 ms what has come and what is in flight, and tells the control task when a
//! neighbour falls silent or is heard again ([`thalweg_core::routing::pulse`]). When no link has anything in flight it sleeps
//! until an ADU or a control frame is sent; so an idle node asks nothing.
//!
//! *What it does not do.* It concludes nothing from a silence.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_core::id::NodeId;
use thalweg_core::routing::pulse::{LOOK, Pulse};
use thalweg_net::Link;
use tokio::sync::mpsc;

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
}

/// Listens until nobody takes what is heard.
pub(crate) async fn listen(forwarder: Arc<Forwarder>, inputs: mpsc::Sender<Input>) {
    let mut listened: BTreeMap<NodeId, Listened> = BTreeMap::new();
    loop {
        if listened.values().all(Listened::is_idle) {
            forwarder.sending().await;
            meet(&mut listened, &forwarder);
        }
        tokio::time::sleep(LOOK.into()).await;
        // Before the look, so that what is sent after it is told.
        forwarder.tell_sending();
        meet(&mut listened, &forwarder);
        for (peer, heard) in &mut listened {
            let now = forwarder.clock.now();
            let Some(is_silent) = heard.pulse.handle_look(heard.link.sign(), now) else {
                continue;
            };
            let peer = *peer;
            if inputs
                .send(Input::Silence { peer, is_silent })
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

/// Listens to the links that there are, and to no others.
fn meet(listened: &mut BTreeMap<NodeId, Listened>, forwarder: &Forwarder) {
    let links = forwarder.links();
    listened.retain(|_, heard| links.iter().any(|link| link.is_same(&heard.link)));
    let now = forwarder.clock.now();
    for link in links {
        let heard = listened.entry(link.peer()).or_insert_with(|| Listened {
            link,
            pulse: Pulse::default(),
        });
        // One that was idle may have been sent something since: what came before then says nothing.
        heard.pulse.handle_sent(now);
    }
}
