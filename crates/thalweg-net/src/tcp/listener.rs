//! Accepts sessions over TCP, and the connections that join them.
//!
//! *The idea.* The TLS handshake proves a key, the admission decides, the greeting names the
//! session. A session belongs to the key that began it, so no other key can join it.
//!
//! *What it does not do.* It keeps no session alive: the caller that accepted it does.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use thalweg_base::id::NodeId;
use thalweg_base::limits::LINKS_MAX;
use thalweg_base::time::Duration;
use thalweg_link::hop::CloseCode;
use thalweg_link::hop::settings::GREETING_WAIT;
use thalweg_link::tcp_mux::{CarrierNumber, Frame, Session, SessionId};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::connection::{Connection, begin};
use super::dial::pacing;
use super::events::Events;
use super::line::{Line, LineError};
use super::refusal::refuse;
use super::shared::Shared;
use super::tls::Tls;
use super::{ALPN_DOOR, ALPN_PLAIN, Options, carrier, door, socket};
use crate::admission::Admission;
use crate::doorkeeper::{DOOR_BUSY, Door};
use crate::error::BindError;
use crate::lobby::{Host, Lobby};
use crate::task::Vital;

/// Maximum number of sessions: one per neighbour, and its successor while the old one is not yet
/// found dead.
const SESSIONS_MAX: usize = 2 * LINKS_MAX;

/// Sessions that wait for [`Listener::accept`]; further peers wait for their greeting.
const BACKLOG: usize = 16;

/// Pause after the system refused a connection for lack of descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts sessions of admitted peers. Dropping it stops accepting; existing sessions go on.
#[derive(Debug)]
pub struct Listener {
    addresses: Vec<SocketAddr>,
    sessions: Receiver<(Connection, Events)>,
    tasks: Vec<AbortHandle>,
}

/// A connection accepted by the kernel, and its far end.
type Accepted = (TcpStream, SocketAddr);

struct Gate {
    options: Options,
    admission: Admission,
    door: Option<Arc<Door>>,
    tls: Tls,
    sessions: Mutex<BTreeMap<(NodeId, SessionId), Weak<Shared>>>,
    lobby: Arc<Lobby<Accepted>>,
    accepted: Sender<(Connection, Events)>,
}

impl Listener {
    /// Listens on these addresses, any of which may receive a session's connections; port 0 takes a
    /// free one.
    ///
    /// Fails   if an address is in use or not ours, or the kernel lacks the congestion control
    pub async fn bind(
        options: Options,
        addresses: &[SocketAddr],
        admission: Admission,
    ) -> Result<Self, BindError> {
        Self::bind_with(options, addresses, admission, None, &Vital::default()).await
    }

    /// Like [`Listener::bind`], with a door for keys that are not admitted, and a reporter of
    /// failed tasks.
    #[expect(
        clippy::unused_async,
        reason = "its sockets and tasks are the runtime's, which a caller that awaits it has"
    )]
    pub(crate) async fn bind_with(
        options: Options,
        addresses: &[SocketAddr],
        admission: Admission,
        door: Option<Arc<Door>>,
        vital: &Vital,
    ) -> Result<Self, BindError> {
        let mut listeners = Vec::new();
        for address in addresses {
            let bound = bind(*address, options.congestion.as_deref());
            listeners.push(bound.map_err(|source| BindError::ListenTcp {
                address: *address,
                source,
            })?);
        }
        let plain = (!options.plain.is_empty()).then_some(ALPN_PLAIN);
        let at_door = door.as_ref().map(|_| ALPN_DOOR);
        let others: Vec<_> = plain.into_iter().chain(at_door).collect();
        let tls = Tls::new(&options.identity, &others);
        let tls = tls.map_err(|error| BindError::Endpoint(error.to_string()))?;
        let (accepted, sessions) = channel(BACKLOG);
        let gate = Arc::new(Gate {
            options,
            lobby: Lobby::new(admission.clone()),
            admission,
            door,
            tls,
            sessions: Mutex::default(),
            accepted,
        });
        let (addresses, listeners): (Vec<_>, Vec<_>) = listeners.into_iter().unzip();
        let tasks = listeners
            .into_iter()
            .map(|listener| {
                let accepting = run(listener, gate.clone());
                vital.spawn("the task that accepts TCP connections", accepting)
            })
            .collect();
        Ok(Self {
            addresses,
            sessions,
            tasks,
        })
    }

    /// Returns the addresses that are listened on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Waits for the next session.
    pub async fn accept(&mut self) -> Option<(Connection, Events)> {
        self.sessions.recv().await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Listens on an address; returns the bound one, since port 0 stands for any.
fn bind(address: SocketAddr, congestion: Option<&str>) -> io::Result<(SocketAddr, TcpListener)> {
    let listener = socket::listen(address)?;
    socket::set_options(&listener, congestion)?;
    Ok((listener.local_addr()?, listener))
}

async fn run(listener: TcpListener, gate: Arc<Gate>) {
    loop {
        let accepted = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::debug!(%error, "a tcp connection was not accepted");
                sleep(PAUSE.into()).await;
                continue;
            }
        };
        let (host, gate) = (Host::of(accepted.1.ip()), gate.clone());
        let lobby = gate.lobby.clone();
        lobby.arrive(host, accepted, move |accepted| {
            serve(gate.clone(), accepted)
        });
    }
}

async fn serve(gate: Arc<Gate>, (stream, from): Accepted) {
    match timeout(GREETING_WAIT.into(), gate.admit(stream)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%from, %error, "tcp connection not accepted"),
        Err(_) => tracing::debug!(%from, "tcp connection not accepted: timed out"),
    }
}

impl Gate {
    async fn admit(&self, stream: TcpStream) -> Result<(), LineError> {
        let (mut line, mut decoder) = Line::establish(stream, self.tls.server()?).await?;
        let peer = line.peer().ok_or(LineError::Greeting)?;
        if line.is_at_door() {
            let door = self.door.as_deref();
            let Some((door, _place)) = door.and_then(|door| Some((door, door.place()?))) else {
                return refuse(line, CloseCode::Overload, DOOR_BUSY.into()).await;
            };
            return door::serve(line, decoder, peer, door).await;
        }
        if !self.admission.admits(peer) {
            let reason = self.admission.refuse(self.options.identity.id(), peer);
            return refuse(line, CloseCode::NotAdmitted, reason).await;
        }
        if line.is_plain() && !self.options.plain.contains(&peer) {
            let (own, peer) = (self.options.identity.id().short(), peer.short());
            let reason = format!("node {own} has no unencrypted sessions with the key {peer}");
            return refuse(line, CloseCode::NotAdmitted, reason).await;
        }
        let hello = line.receive_frame(&mut decoder).await?;
        let Frame::Hello { session, carrier } = hello else {
            return Err(LineError::Greeting);
        };
        if carrier > 0 {
            let Some(shared) = self.session(peer, session) else {
                let reason = "the session is over".into();
                return refuse(line, CloseCode::Shutdown, reason).await;
            };
            line.send_frame(&hello).await?;
            carrier::join(&shared, CarrierNumber(carrier), line, decoder);
            return Ok(());
        }
        // Reserved before the greeting, so that a greeted peer is sure to be accepted.
        let Ok(place) = self.accepted.reserve().await else {
            return refuse(line, CloseCode::Shutdown, "the node shuts down".into()).await;
        };
        let pacing = pacing(self.options.pacing, &line);
        let clock = self.options.clock;
        // The dialling end keeps the standbys.
        let machine = Session::new(pacing, 0, clock.now());
        let clear = self.options.clear.clone().filter(|_| line.is_plain());
        let session_parts = begin(machine, peer, clock, clear);
        let (shared, connection, events) = session_parts;
        if !self.register(peer, session, &shared) {
            return refuse(line, CloseCode::Overload, "no room for a session".into()).await;
        }
        line.send_frame(&hello).await?;
        carrier::join(&shared, CarrierNumber(0), line, decoder);
        place.send((connection, events));
        Ok(())
    }

    fn session(&self, peer: NodeId, session: SessionId) -> Option<Arc<Shared>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = sessions.get(&(peer, session))?.upgrade()?;
        (!shared.is_over()).then_some(shared)
    }

    /// Registers a session, so that other connections may join it; returns false if it exists or
    /// there is no room.
    fn register(&self, peer: NodeId, session: SessionId, shared: &Arc<Shared>) -> bool {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, shared| shared.upgrade().is_some_and(|shared| !shared.is_over()));
        if sessions.len() >= SESSIONS_MAX || sessions.contains_key(&(peer, session)) {
            return false;
        }
        sessions.insert((peer, session), Arc::downgrade(shared));
        true
    }
}
