//! Assembly: from a configuration to a running node, and back to nothing.
//!
//! *The idea.* What must happen in which order is written here and nowhere else: the key before the sockets, the
//! sockets before the dials, the local publishers' ends before the links are drained, the links before the sockets.
//!
//! *What it does not do.* It decides nothing that concerns a stream (`control`) and carries none (`forward`).

mod lock;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use thalweg_core::adu::Header;
use thalweg_core::id::NodeId;
use thalweg_core::time::Duration;
use thalweg_lift::packet::{POOL_BYTES_DEFAULT, Pool};
use thalweg_net::task::Ended;
use thalweg_net::{
    Admission, Arriving, AtDoor, BindError, Clock, Endpoint, Failure, Failures, Identity,
    IdentityError, Link, LinkEvent, Options, Outcome, Receiver, Relay, Samples, TcpOptions, Vital,
    check_relay_ca,
};
use thalweg_world::text::TextError;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{error, info, warn};

use self::lock::Lock;
use crate::config::{Config, Owner, Tcp};
use crate::control::{Control, INPUTS_MAX, Input};
use crate::envelope::BoxKey;
use crate::fabric::StateError;
use crate::fabric::state::State;
use crate::forward::{Forwarder, measure_lag};
use crate::handle::Handle;
use crate::program::panics;
use crate::{admin, continuity, local};

/// How long a node that stops waits for what it has sent to be acknowledged.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// How long a node that stops waits until plans lead around it: a round trip to each source and as long as an ADU may be on
/// its way, which for live streams is below this.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// How long a node that stops waits for local publishers to end their streams.
const PUBLISHERS_GRACE: Duration = Duration::from_secs(3);

/// How long a node that has failed takes leave of its programs and neighbours: it is to be gone within a second, so that it is
/// started again.
const FAILED_GRACE: Duration = Duration::from_millis(300);

/// Callers at the door that wait for the control task; the network hears no more at once.
const KNOCKS_MAX: usize = 16;

/// A node that has its key and its sockets.
pub struct Node {
    handle: Handle,
    endpoint: Endpoint,
    /// The tasks that run until the node has stopped.
    tasks: Vec<AbortHandle>,
    vital: Vital,
    failures: Failures,
    local: Option<local::Server>,
    admin: Option<admin::Server>,
    /// Given back when the node is no more.
    locks: Vec<Lock>,
}

/// What a node leaves behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// ADUs that were handed to links and whose arrival is not known.
    pub unacknowledged: u64,
}

/// A node cannot start, or not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Its key file cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Another node runs with its key.
    #[error(
        "another node runs with the key file {path}: stop it, or give this node another `key_file`, for two with one key are one \
         node to all others"
    )]
    KeyTaken {
        /// The key file.
        path: PathBuf,
    },
    /// Another node keeps its grant where this one would.
    #[error(
        "another node runs with {path}, where it keeps its grant: stop it, or give this node another `state` under [fabric]"
    )]
    StateTaken {
        /// The file.
        path: PathBuf,
    },
    /// Its sockets cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Its local socket cannot be had.
    #[error("cannot listen on the local socket {path}: {source}")]
    Socket {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another node has its local socket.
    #[error(
        "another node listens on the local socket {path}: stop it, or give this node another `socket`"
    )]
    SocketTaken {
        /// The socket's path.
        path: PathBuf,
    },
    /// Something else is where its local socket should be.
    #[error("there is something at {path} that is no socket, and it stays: name another `socket`")]
    NoSocket {
        /// The path.
        path: PathBuf,
    },
    /// The admin API's address cannot be had.
    #[error(
        "cannot listen on {address} (tcp) for the admin API: {source}; choose another [api] listen"
    )]
    Api {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Its configuration cannot be meant so.
    #[error(transparent)]
    Config(#[from] TextError),
    /// What it keeps of its fabric cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers, so no keys can be made")]
    Random,
    /// It ran, and a part of it that it cannot be without has failed.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl NodeError {
    /// Returns whether what it was given cannot be used, so that another start would fail as well; a port in use is the moment's.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Identity(error) => error.is_input(),
            Self::Config(_) | Self::State(_) | Self::NoSocket { .. } => true,
            Self::Bind(error) => {
                matches!(error, BindError::RelayCa { .. } | BindError::Unconfined(_))
            }
            _ => false,
        }
    }
}

impl Node {
    /// Assembles a node: reads or makes its key, binds its sockets, dials its peers.
    ///
    /// Fails   a key file that is exposed, damaged or another node's, an address or socket that is taken
    pub async fn load(config: Config) -> Result<Self, NodeError> {
        let identity = Identity::load_or_create(&config.key_file)?;
        let lock = Lock::key(&config.key_file)?;
        let mut node = Self::with_identity(config, identity).await?;
        node.locks.push(lock);
        Ok(node)
    }

    /// Looks into the files that a start would read: the key, who vouches for relays, what is kept of the fabric; and at what is where
    /// the local socket is to be. Makes none, takes no socket; a file that is not there yet, and would be made, is no mistake.
    ///
    /// Fails   as [`Node::load`] would for one of them
    pub fn check_files(config: &Config) -> Result<(), NodeError> {
        if let Some(path) = &config.reach.relay_ca {
            check_relay_ca(path)?;
        }
        if let Some(identity) = Identity::load(&config.key_file)? {
            belonging(config, identity.id())?;
        } else if let Some(path) = &config.fabric.state {
            State::load(path)?.check(None, path)?;
        }
        if let Some(path) = &config.socket {
            local::is_socket(path)?;
        }
        Ok(())
    }

    /// Assembles a node with a key that is kept in memory only, for tests and demos.
    pub async fn with_identity(config: Config, identity: Identity) -> Result<Self, NodeError> {
        let lock = Lock::state(&config.fabric)?;
        let state = belonging(&config, identity.id())?;
        let admission = admitted(&config, &state);
        let (door, knocks) = mpsc::channel(KNOCKS_MAX);
        let (vital, failures) = Vital::new();
        let clock = Clock::start();
        let pool = Pool::new(POOL_BYTES_DEFAULT);
        let forwarder = Arc::new(Forwarder::new(clock, pool));
        let (inputs, queue) = mpsc::channel(INPUTS_MAX);
        let (events, event_queue) = mpsc::unbounded_channel();
        let (given, given_queue) = mpsc::unbounded_channel();
        let inlet = Inlet {
            forwarder: Arc::clone(&forwarder),
            inputs: inputs.clone(),
            events,
            given,
        };
        let options = Options {
            doorkeeper: state.fabric.map(|_| door),
            vital: vital.clone(),
            ..options(&config, &state, Options::new(identity.clone(), admission))
        };
        let endpoint = Endpoint::bind(options, Arc::new(inlet), clock).await?;
        let handle = Handle {
            id: identity.id(),
            addresses: endpoint.listening(),
            tcp_addresses: endpoint.listening_tcp().to_vec(),
            forwarder: Arc::clone(&forwarder),
            inputs: inputs.clone(),
        };
        let (local, admin) = match doors(&config, &handle).await {
            Ok(doors) => doors,
            Err(error) => {
                // Nobody is connected yet.
                endpoint.shutdown(Duration::ZERO).await;
                return Err(error);
            }
        };
        let box_key = BoxKey::generate().map_err(|_| NodeError::Random)?;
        dial(&endpoint, &config, &state);
        let listening =
            continuity::monitor_neighbours(Arc::clone(&forwarder), given_queue, inputs.clone());
        let measuring = measure_lag(Arc::clone(&forwarder));
        let pumping = pump(event_queue, knocks, inputs);
        let control = Control::new(
            config,
            identity,
            box_key,
            state,
            endpoint.clone(),
            forwarder,
        );
        let tasks = vec![
            vital.spawn("the task that brings links to the control task", pumping),
            vital.spawn("the task that listens to neighbours", listening),
            vital.spawn("the task that measures how late the node is", measuring),
            vital.spawn("the control task", control.run(queue)),
        ];
        Ok(Self {
            handle,
            endpoint,
            tasks,
            vital,
            failures,
            local,
            admin,
            locks: lock.into_iter().collect(),
        })
    }

    /// Returns a way to use the node.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns where the admin API is served, if it is.
    pub fn api_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(admin::Server::address)
    }

    /// Runs until `shutdown` is ready; then ends streams, waits for what is under way, and closes.
    ///
    /// Fails   a task that the node cannot be without has ended; then it is gone within a second, and what it was waits for nobody.
    ///         Other things that go wrong while it runs are logged, counted and gone around
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<Report, NodeError> {
        let (stop, stopping) = watch::channel(false);
        let mut servers = JoinSet::new();
        if let Some(local) = self.local.take() {
            let serving = local.run(stopping.clone());
            servers.spawn(self.vital.watched("the local socket's task", serving));
        }
        if let Some(admin) = self.admin.take() {
            let serving = admin.run(stopping);
            servers.spawn(self.vital.watched("the admin API's task", serving));
        }
        let failure = tokio::select! {
            () = shutdown => None,
            failure = failed(&mut self.failures) => Some(failure),
        };
        if let Some(failure) = failure {
            error!(%failure, "the node ends");
            stop.send_replace(true);
            return Err(self.fail(servers, failure).await);
        }
        info!("stopping");
        // Sources plan around this node while its own programs end.
        let left = self.handle.leave();
        let left = tokio::time::timeout(LEAVE_MAX.into(), left);
        let left = tokio::spawn(left);
        stop.send_replace(true);
        let ended = async { while servers.join_next().await.is_some() {} };
        if tokio::time::timeout(PUBLISHERS_GRACE.into(), ended)
            .await
            .is_err()
        {
            warn!("local programs did not end in time; they are cut off");
            servers.abort_all();
        }
        if !matches!(left.await, Ok(Ok(()))) {
            info!("plans of others still lead through this node: there is no way around it");
        }
        self.endpoint.shutdown(SHUTDOWN_GRACE).await;
        let unacknowledged = self.handle.forwarder.ledger.under_way();
        if unacknowledged > 0 {
            warn!(unacknowledged, "ADUs were sent whose arrival is not known");
        }
        self.abort();
        info!(unacknowledged, "stopped");
        Ok(Report { unacknowledged })
    }

    /// Ends a node of which a part is gone: programs and neighbours are told if that takes no time, and nothing is waited for.
    async fn fail(self, mut servers: JoinSet<()>, failure: Failure) -> NodeError {
        let ended = async { while servers.join_next().await.is_some() {} };
        // Programs that do not hear it see their connection end.
        let _ = tokio::time::timeout(FAILED_GRACE.into(), ended).await;
        servers.shutdown().await;
        let closed = self.endpoint.shutdown(Duration::ZERO);
        // Neighbours that do not hear it find out by its silence.
        let _ = tokio::time::timeout(FAILED_GRACE.into(), closed).await;
        self.abort();
        failure.into()
    }

    fn abort(&self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Waits until the node cannot go on.
async fn failed(failures: &mut Failures) -> Failure {
    tokio::select! {
        biased;
        failure = failures.next() => failure,
        // A panic elsewhere in the program may have taken a part of the node with it that nobody watches.
        message = panics::panicked() => Failure {
            task: "a task of the program",
            how: Ended::Panicked(message),
        },
    }
}

/// Opens what programs of this machine come in by: the local socket and the admin API, as far as they are configured.
async fn doors(
    config: &Config,
    handle: &Handle,
) -> Result<(Option<local::Server>, Option<admin::Server>), NodeError> {
    let local = match &config.socket {
        Some(path) => Some(local::Server::bind(path, handle.clone()).await?),
        None => None,
    };
    let admin = match config.api {
        Some(address) => Some(admin::Server::bind(address, handle.clone()).await?),
        None => None,
    };
    Ok((local, admin))
}

/// Returns how links over TCP are used.
fn tcp(config: &Tcp) -> TcpOptions {
    TcpOptions {
        listen: config.listen.clone(),
        pacing: config.pace,
        standbys: config.connections.saturating_sub(1),
        plain: config.plain.iter().copied().collect(),
        ..TcpOptions::default()
    }
}

/// Returns what a configuration says of the endpoint, and the rest as it is given.
fn options(config: &Config, state: &State, rest: Options) -> Options {
    Options {
        listen: config.listen.clone(),
        reach: config.reach.packets,
        mdns: config.reach.mdns,
        relays: relays(config, state),
        relay_ca: config.reach.relay_ca.clone(),
        congestion: config.congestion,
        tcp: tcp(&config.tcp),
        ..rest
    }
}

/// Returns the relays to use: those that are configured, and those of whom this node's ticket came from.
fn relays(config: &Config, state: &State) -> Vec<Relay> {
    let of_contacts = state.contacts.iter().flat_map(|contact| &contact.relays);
    let mut relays: Vec<_> = config
        .reach
        .relays
        .iter()
        .chain(of_contacts)
        .cloned()
        .collect();
    relays.sort_unstable();
    relays.dedup();
    relays
}

/// Returns what the node knows of the fabric that it belongs to; none of its peers is itself.
fn belonging(config: &Config, own: NodeId) -> Result<State, NodeError> {
    if let Some(mistake) = config.own_peer(own) {
        return Err(mistake.into());
    }
    let file = config.fabric.state.as_deref();
    let mut state = file.map(State::load).transpose()?.unwrap_or_default();
    if let Some(path) = file {
        state.check(Some(own), path)?;
    }
    let configured = match config.fabric.owner {
        Owner::Kept => return Ok(state),
        Owner::Own => own,
        Owner::Key(key) => key,
    };
    let path = || file.map(PathBuf::from).unwrap_or_default();
    match state.fabric {
        Some(kept) if kept != configured => Err(StateError::OtherFabric {
            path: path(),
            kept,
            configured,
        }
        .into()),
        _ => {
            state.fabric = Some(configured);
            Ok(state)
        }
    }
}

/// Returns who may connect before anybody has shown a grant: the owner, or where there is none the configured peers.
fn admitted(config: &Config, state: &State) -> Admission {
    let connecting = config.peers.iter().filter(|peer| peer.connect);
    match state.fabric {
        None => Admission::of(connecting.map(|peer| peer.key)),
        Some(owner) => Admission::of([owner]),
    }
}

/// Dials the peers that have an address, and with mDNS those that have none; and those that were learnt by joining.
fn dial(endpoint: &Endpoint, config: &Config, state: &State) {
    let is_configured = |key| config.peers.iter().any(|peer| peer.key == key);
    for (seed, contact) in (1 << 32..).zip(&state.contacts) {
        if !is_configured(contact.key) {
            endpoint.keep_dialled(contact.key, contact.reach(), seed);
        }
    }
    for (seed, peer) in (0..).zip(&config.peers) {
        let addresses = peer.reach();
        if peer.connect && (config.reach.mdns || !addresses.is_empty()) {
            endpoint.keep_dialled(peer.key, addresses, seed);
        }
    }
}

/// Brings link events, which may not wait, and those at the door to the control task, which may be busy.
async fn pump(
    mut events: mpsc::UnboundedReceiver<LinkEvent>,
    mut knocks: mpsc::Receiver<AtDoor>,
    inputs: mpsc::Sender<Input>,
) {
    loop {
        let input = tokio::select! {
            Some(event) = events.recv() => Input::Link(event),
            Some(knock) = knocks.recv() => Input::Door(knock),
            else => return,
        };
        if inputs.send(input).await.is_err() {
            return;
        }
    }
}

/// Where what arrives from the network enters: ADUs to the data path, the rest to the control task.
struct Inlet {
    forwarder: Arc<Forwarder>,
    inputs: mpsc::Sender<Input>,
    /// Unbounded, for the network does not wait with an event; their number is that of links and dials.
    events: mpsc::UnboundedSender<LinkEvent>,
    /// Neighbours that were given something. Unbounded, for who gives does not wait; of each there is one until it is asked again.
    given: mpsc::UnboundedSender<NodeId>,
}

impl Receiver for Inlet {
    async fn handle_adu(&self, link: &Link, adu: Arriving) {
        self.forwarder.handle_adu(link, adu).await;
    }

    async fn handle_control(&self, link: &Link, frame: Bytes) {
        // A control task that has stopped takes nothing more, and the link is about to be closed.
        let _ = self
            .inputs
            .send(Input::Frame {
                from: link.peer(),
                frame,
            })
            .await;
    }

    fn handle_link(&self, event: LinkEvent) {
        let _ = self.events.send(event);
    }

    fn handle_outcome(&self, _link: &Link, header: &Header, outcome: Outcome) {
        self.forwarder.handle_outcome(header, outcome);
    }

    fn handle_measured(&self, samples: Samples) {
        // A control task that is behind takes the next, which say as much.
        let _ = self.inputs.try_send(Input::Measured(samples));
    }

    fn handle_given(&self, link: &Link) {
        // Who listens has ended only if the node does.
        let _ = self.given.send(link.peer());
    }
}
