//! The engine of an endpoint, and the links over iroh that stand by for it.
//!
//! *The idea.* A link over the engine replaces one over iroh, as any better link does (`engage`);
//! but the old connection stays: it *stands by*, without ADUs, until the engine's link fails, and
//! then takes over without a handshake.
//!
//! ```text
//! link over iroh ── both ports told ── direct path? ──► dial ──► link over the engine
//!        ▲                                                         │ lost, or nothing heard
//!        └───────────────── stands by, takes over ◄────────────────┘
//! ```
//!
//! *What it does not do.* It moves no ADU: those without an outcome end as lost with their link, and
//! the node sends them again, as after any loss.
//!
//! *Sources.* docs/decisions/0040; docs/reference/protocol.md §2.7.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::id::NodeId;

use super::Endpoint;
use super::options::Options;
use super::registry::{ConnectionChoice, Verdict};
use crate::clock::Clock;
use crate::close::CloseCode;
use crate::engine::{self, Engine};
use crate::error::BindError;
use crate::link::{self, DownCause, Link, LinkEvent, Transport};
use crate::task;

/// The engine, if there is one, and the links that stand by.
#[derive(Default)]
pub(super) struct Direct {
    engine: Option<Arc<Engine>>,
    standbys: Mutex<BTreeMap<NodeId, Link>>,
}

impl Direct {
    /// Starts the engine, if the options ask for one.
    ///
    /// Fails   if the port cannot be bound; where the system has no engine, there is none
    pub(super) fn start(options: &Options, clock: Clock) -> Result<Self, BindError> {
        let Some(address) = options.engine else {
            return Ok(Self::default());
        };
        let identity = options.identity.clone();
        let mut own = engine::Options::new(identity, options.admission.clone(), address, clock);
        own.idle_timeout = options.idle_timeout;
        own.congestion = options.congestion;
        own.around = |turn| link::gather(turn);
        match Engine::start(own) {
            Ok(engine) => Ok(Self {
                engine: Some(Arc::new(engine)),
                standbys: Mutex::default(),
            }),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                tracing::warn!("there is no engine on this system; links stay as they are");
                Ok(Self::default())
            }
            Err(source) => Err(BindError::Listen { address, source }),
        }
    }

    pub(super) fn engine(&self) -> Option<&Arc<Engine>> {
        self.engine.as_ref()
    }

    /// Closes what stands by, and ends the engine.
    pub(super) async fn shutdown(&self) {
        for link in std::mem::take(&mut *self.standbys()).into_values() {
            link.close(CloseCode::Shutdown, "the node shuts down");
        }
        if let Some(engine) = &self.engine {
            engine.shutdown().await;
        }
    }

    /// Returns the link that stands by for a peer, if there is one.
    pub(super) fn standby(&self, peer: NodeId) -> Option<Link> {
        let standbys = self.standbys();
        let standby = standbys.get(&peer).filter(|standby| !standby.is_over());
        standby.cloned()
    }

    fn standbys(&self) -> MutexGuard<'_, BTreeMap<NodeId, Link>> {
        // No code that can panic runs under this lock.
        self.standbys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a replaced link stands by rather than being closed.
pub(super) fn stands_by(old: &Link, new: &Link) -> bool {
    old.transport() == Transport::Quic && new.transport() == Transport::Engine
}

/// Keeps a link that the new one replaces, if it can stand by; returns whether it is kept.
pub(super) fn keep(endpoint: &Endpoint, loser: &Link, new: &Link) -> bool {
    let is_kept = stands_by(loser, new);
    let mut standbys = endpoint.0.direct.standbys();
    let other = match (is_kept, new.transport()) {
        (true, _) => standbys.insert(loser.peer(), loser.clone()),
        // A link of another kind has come after the engine's: what stood by is out of date.
        (false, Transport::Quic | Transport::Tcp) => standbys.remove(&loser.peer()),
        (false, Transport::Engine) => None,
    };
    drop(standbys);
    if let Some(other) = other.filter(|other| !other.is_same(loser) && !other.is_same(new)) {
        other.close(CloseCode::Duplicate, "another connection stands by");
    }
    if is_kept {
        let (resting, new) = (loser.clone(), new.clone());
        tokio::spawn(task::alone(async move {
            resting.rest().await;
            new.moves().forget_predecessor();
        }));
    }
    is_kept
}

/// Has a connection that was made for it stand by, while the link with its peer goes over the engine;
/// returns whether it does, or one that is preferred. Called under the lock of announcements.
pub(super) fn stand_by(endpoint: &Endpoint, link: &Link) -> bool {
    let peer = link.peer();
    let present = endpoint.link(peer);
    if !present.is_some_and(|present| present.transport() == Transport::Engine) {
        return false;
    }
    link.end();
    let mut standbys = endpoint.0.direct.standbys();
    let other = standbys.get(&peer).filter(|other| !other.is_over());
    let contest = other.map(|other| ConnectionChoice {
        own_is_smaller: endpoint.id() < peer,
        old_is_dialled: other.is_dialled(),
        new_is_dialled: link.is_dialled(),
        apart: link.since().saturating_since(other.since()),
    });
    let loser = if contest.is_none_or(ConnectionChoice::keeps_new) {
        standbys.insert(peer, link.clone())
    } else {
        Some(link.clone())
    };
    drop(standbys);
    if let Some(loser) = loser {
        loser.close(CloseCode::Duplicate, "another connection stands by");
    }
    tracing::debug!(peer = %peer.short(), "a connection over iroh stands by");
    true
}

/// Lets the link that stands by take over from one that has ended; called while the end is
/// announced.
pub(super) fn take_over(endpoint: &Endpoint, peer: NodeId, cause: &DownCause) {
    let Some(standby) = endpoint.0.direct.standbys().remove(&peer) else {
        return;
    };
    if endpoint.is_shutting_down() || !endpoint.admission().admits(peer) || is_meant(cause) {
        return standby.close(CloseCode::Shutdown, "the link has ended");
    }
    if standby.is_over() {
        return;
    }
    standby.resume();
    if let Verdict::Kept { .. } = endpoint.0.registry.offer(endpoint.id(), &standby) {
        tracing::info!(peer = %peer.short(), "link up: the one that stood by");
        endpoint.emit(LinkEvent::Up(standby));
    }
}

/// Returns whether the peer meant to end the link, and not one of its connections.
fn is_meant(cause: &DownCause) -> bool {
    let of_connection = [CloseCode::Duplicate, CloseCode::Fault];
    matches!(cause, DownCause::ByPeer { code, .. } if !of_connection.contains(code))
}

/// Forgets a link that has ended while it stood by.
pub(super) fn forget(endpoint: &Endpoint, link: &Link) {
    let mut standbys = endpoint.0.direct.standbys();
    if standbys
        .get(&link.peer())
        .is_some_and(|standby| standby.is_same(link))
    {
        standbys.remove(&link.peer());
    }
}
