//! Links over the engine: with peers that iroh reaches directly.
//!
//! *The idea.* A link over iroh comes first. Over it each end tells the other its engine's port, and
//! the node with the smaller id dials that port at the address that the link uses, if no relay is
//! between. The new link replaces the old one, as any better link does; but the old connection
//! stays: it *stands by*, without ADUs, until the engine's link fails, and then takes over without a
//! handshake.
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
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_base::wire::port;
use tokio::time::sleep;

use super::registry::Verdict;
use super::{Endpoint, Options, accept};
use crate::address::Addresses;
use crate::clock::Clock;
use crate::close::CloseCode;
use crate::engine::{self, DialError, Engine};
use crate::error::{BindError, Unreachable};
use crate::link::{DownCause, Link, LinkEvent, NewConnection, Transport};
use crate::reason;
use crate::task::{self, Vital};

/// Interval between attempts after one that failed: behind a NAT the port is mostly closed.
const RETRY: std::time::Duration = std::time::Duration::from_mins(1);

/// Interval at which a link that goes through a relay is looked at: a direct path is found within
/// seconds, or not at all.
const PATH_LOOK: std::time::Duration = std::time::Duration::from_secs(2);

/// How long nothing may be heard over the engine while something is in flight.
const SILENT: Duration = Duration::from_millis(500);

/// The engine, if there is one, and the links that stand by.
#[derive(Default)]
pub(super) struct Direct {
    engine: Option<Arc<Engine>>,
    standbys: Mutex<BTreeMap<NodeId, Link>>,
}

type Watching = Pin<Box<dyn Future<Output = ()> + Send>>;

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

    fn standbys(&self) -> MutexGuard<'_, BTreeMap<NodeId, Link>> {
        // No code that can panic runs under this lock.
        self.standbys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the task that accepts links over the engine.
pub(super) fn spawn_tasks(endpoint: &Endpoint, vital: &Vital) {
    if let Some(engine) = endpoint.0.direct.engine() {
        let accepting = run(endpoint.clone(), engine.clone());
        vital.spawn_finite("the task that accepts links over the engine", accepting);
    }
}

async fn run(endpoint: Endpoint, engine: Arc<Engine>) {
    loop {
        let accepted = tokio::select! {
            accepted = engine.accept() => accepted,
            () = endpoint.shutting_down() => return,
        };
        let Some(connection) = accepted else {
            tracing::error!("the engine has ended; links go on over iroh");
            return;
        };
        let endpoint = endpoint.clone();
        tokio::spawn(task::alone(async move {
            let fresh = NewConnection::Engine(connection);
            if let Err(reason) = accept::establish(&endpoint, fresh, false).await {
                tracing::debug!(%reason, "link over the engine not accepted");
            }
        }));
    }
}

/// Starts what a new link needs: over iroh, a task that tries the engine; over the engine, one that
/// leaves it when it is silent.
pub(super) fn watch(endpoint: &Endpoint, link: &Link) {
    if endpoint.0.direct.engine().is_none() {
        return;
    }
    let (endpoint, link) = (endpoint.clone(), link.clone());
    // Boxed: a task that dials starts tasks of this kind.
    let watching: Watching = match link.transport() {
        Transport::Quic => Box::pin(async move {
            let closed = link.clone();
            tokio::select! {
                _ = closed.closed() => {}
                () = try_engine(&endpoint, &link) => {}
            }
        }),
        Transport::Engine => Box::pin(async move {
            let closed = link.clone();
            tokio::select! {
                _ = closed.closed() => {}
                () = leave_when_silent(&endpoint, &link) => {}
            }
        }),
        Transport::Tcp => return,
    };
    tokio::spawn(task::alone(watching));
}

/// Tells the peer this engine's port, and dials the peer's if that is this end's part.
async fn try_engine(endpoint: &Endpoint, link: &Link) {
    let Some(engine) = endpoint.0.direct.engine() else {
        return;
    };
    let frame = port::encode(engine.listening().port());
    if link.send_control(frame.into()).await.is_err() || endpoint.id() > link.peer() {
        return;
    }
    loop {
        let port = link.wait_engine_port().await;
        let remote = link.remote().filter(|_| endpoint.is_present(link));
        let Some(remote) = remote else {
            sleep(PATH_LOOK).await;
            continue;
        };
        let address = SocketAddr::new(remote.ip(), port);
        if let Err(reason) = dial(endpoint, engine, link.peer(), address).await {
            tracing::debug!(peer = %link.peer().short(), %reason, "no link over the engine");
        }
        sleep(RETRY).await;
    }
}

async fn dial(
    endpoint: &Endpoint,
    engine: &Engine,
    peer: NodeId,
    address: SocketAddr,
) -> Result<(), Unreachable> {
    let dialled = engine.dial(peer, address).await;
    let connection = dialled.map_err(|error| match error {
        DialError::Lost(error) => reason::of_end(error, peer, &Addresses::from(&[address][..])),
        DialError::NotAdmittedHere(peer) => Unreachable::NotAdmittedHere(peer),
        DialError::Stopped => Unreachable::ShuttingDown,
        error => Unreachable::Other {
            peer,
            reason: error.to_string(),
        },
    })?;
    let fresh = NewConnection::Engine(connection);
    accept::establish(endpoint, fresh, true).await.map(drop)
}

/// Closes a link over the engine when nothing is heard over it, if another stands by.
async fn leave_when_silent(endpoint: &Endpoint, link: &Link) {
    link.wait_silent(SILENT).await;
    let standby = endpoint.0.direct.standbys().get(&link.peer()).cloned();
    if standby.is_some_and(|standby| !standby.is_over()) {
        link.close(CloseCode::Duplicate, "nothing arrives over this connection");
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
            new.forget_predecessor();
        }));
    }
    is_kept
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
