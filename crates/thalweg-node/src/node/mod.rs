//! Assembly and shutdown: from a configuration to a running node, and back.
//!
//! *The idea.* The order of all steps is defined here and nowhere else: the key before the sockets,
//! the sockets before the dials; at shutdown the local publishers end before the links are drained,
//! and the links before the sockets.
//!
//! *What it does not do.* It decides nothing about streams (`control`) and carries none
//! (`forward`).

mod lock;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use serde::Serialize;
use thalweg_base::adu::Header;
use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_dataplane::packet::{POOL_BYTES_DEFAULT, Pool};
use thalweg_net::task::Ended;
use thalweg_net::{
    Admission, Arriving, AtDoor, Clock, Endpoint, Failure, Failures, Identity, Link, LinkEvent,
    Options, Outcome, Receiver, Relay, Samples, TcpOptions, Vital, check_relay_ca,
};
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tracing::{error, info, warn};

use self::lock::Lock;
use crate::board::Board;
use crate::config::{Config, Owner, Tcp};
use crate::control::Control;
use crate::ends::{Ends, Supervisor};
use crate::envelope::BoxKey;
use crate::fabric::StateError;
use crate::fabric::state::State;
use crate::forward::{Forwarder, measure_lag};
use crate::handle::Handle;
use crate::input::{INPUTS_MAX, Input};
use crate::program::panics;
use crate::{admin, continuity, local};

pub use crate::error::NodeError;

/// How long a stopping node waits for acknowledgements of what it has sent.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// How long a stopping node waits for plans to route around it: a round trip to each source, and
/// the time of an ADU in flight, which is less than this for live streams.
const LEAVE_MAX: Duration = Duration::from_secs(2);

/// How long a stopping node waits for local publishers to end their streams.
const PUBLISHERS_GRACE: Duration = Duration::from_secs(3);

/// How long a failed node notifies its programs and neighbours. It must be gone within a second, so
/// that a supervisor restarts it.
const FAILED_GRACE: Duration = Duration::from_millis(300);

/// Admission requests that wait for the control task; beyond them the network gets backpressure.
const ADMISSION_REQUESTS_MAX: usize = 16;

/// A node with its key and its sockets.
pub struct Node {
    handle: Handle,
    endpoint: Endpoint,
    /// The tasks that run until the node has stopped.
    tasks: Vec<AbortHandle>,
    vital: Vital,
    failures: Failures,
    local: Option<local::Server>,
    admin: Option<admin::Server>,
    ends: Option<Box<Supervisor>>,
    /// Released when the node is dropped.
    locks: Vec<Lock>,
}

/// The result of a node's run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// ADUs handed to links without a known outcome.
    pub unacknowledged: u64,
}

impl Node {
    /// Assembles a node: reads or creates its key, binds its sockets, dials its peers.
    ///
    /// Fails   if the key file is exposed, damaged or in use, or an address or socket is taken
    pub async fn load(config: Config) -> Result<Self, NodeError> {
        Self::load_with(config, Ends::default()).await
    }

    /// Does the same with inputs and outputs, for the entries of the configuration that name them.
    ///
    /// Fails   also if nothing is registered for one, or it is wrong
    pub async fn load_with(config: Config, ends: Ends) -> Result<Self, NodeError> {
        ends.check(&config)?;
        let identity = Identity::load_or_create(&config.key_file)?;
        let lock = Lock::key(&config.key_file)?;
        let mut node = Box::pin(Self::assemble(config, identity, ends)).await?;
        node.locks.push(lock);
        Ok(node)
    }

    /// Checks the files that a start would read: the key, the relays' root certificates, the
    /// fabric's state; and what is at the local socket's path. Creates nothing. A missing file that
    /// a start would create is no mistake.
    ///
    /// Fails   as [`Node::load`] would for one of these files
    pub fn check_files(config: &Config) -> Result<(), NodeError> {
        if let Some(path) = &config.reach.relay_ca {
            check_relay_ca(path)?;
        }
        if let Some(identity) = Identity::load(&config.key_file)? {
            load_membership(config, identity.id())?;
        } else if let Some(path) = &config.fabric.state {
            State::load(path)?.check(None, path)?;
        }
        if let Some(path) = &config.socket {
            local::is_socket(path)?;
        }
        Ok(())
    }

    /// Assembles a node with a key in memory only, for tests and demos.
    pub async fn with_identity(config: Config, identity: Identity) -> Result<Self, NodeError> {
        Box::pin(Self::assemble(config, identity, Ends::default())).await
    }

    async fn assemble(config: Config, identity: Identity, ends: Ends) -> Result<Self, NodeError> {
        let lock = Lock::state(&config.fabric)?;
        let state = load_membership(&config, identity.id())?;
        let admission = initial_admission(&config, &state);
        let (door, admissions) = mpsc::channel(ADMISSION_REQUESTS_MAX);
        let (vital, failures) = Vital::new();
        let clock = Clock::start();
        let forwarder = Arc::new(Forwarder::new(clock, Pool::new(POOL_BYTES_DEFAULT)));
        let (inputs, queue) = mpsc::channel(INPUTS_MAX);
        let (board, orders) = Board::new();
        let (events, event_queue) = mpsc::unbounded_channel();
        let (active, active_queue) = mpsc::unbounded_channel();
        let receiver = NetworkReceiver {
            forwarder: Arc::clone(&forwarder),
            inputs: inputs.clone(),
            events,
            active,
        };
        let options = Options {
            doorkeeper: state.fabric.map(|_| door),
            vital: vital.clone(),
            ..options(&config, &state, Options::new(identity.clone(), admission))
        };
        let endpoint = Endpoint::bind(options, Arc::new(receiver), clock).await?;
        let handle = Handle {
            id: identity.id(),
            addresses: endpoint.listening(),
            tcp_addresses: endpoint.listening_tcp().to_vec(),
            forwarder: Arc::clone(&forwarder),
            inputs: inputs.clone(),
            board,
        };
        let ends = Supervisor::new(ends, handle.clone(), &config, orders);
        let (local, admin) = match open_local_servers(&config, &handle).await {
            Ok(servers) => servers,
            Err(error) => {
                // No link exists yet, so nothing needs a grace period.
                endpoint.shutdown(Duration::ZERO).await;
                return Err(error);
            }
        };
        let box_key = BoxKey::generate().map_err(|_| NodeError::Random)?;
        dial(&endpoint, &config, &state);
        let monitoring =
            continuity::monitor_neighbours(Arc::clone(&forwarder), active_queue, inputs.clone());
        let forwarding = forward_events(event_queue, admissions, inputs);
        let control = Control::new(
            config,
            identity,
            box_key,
            state,
            endpoint.clone(),
            Arc::clone(&forwarder),
        );
        Ok(Self {
            handle,
            endpoint,
            tasks: vec![
                vital.spawn("the link event task", forwarding),
                vital.spawn("the neighbour monitor", monitoring),
                vital.spawn("the lag meter", measure_lag(forwarder)),
                vital.spawn("the control task", control.run(queue)),
            ],
            vital,
            failures,
            local,
            admin,
            ends: Some(Box::new(ends)),
            locks: lock.into_iter().collect(),
        })
    }

    /// Returns a handle to the node.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the node's endpoint, for tests that cut it off.
    #[doc(hidden)]
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    /// Returns the admin API's address, if it is served.
    pub fn api_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(admin::Server::address)
    }

    /// Runs until `shutdown` is ready; then ends streams, drains what is under way, and closes.
    ///
    /// Fails   if a task has ended without which the node cannot run; the node is then gone within a
    ///         second and drains nothing. Other failures are logged and counted, and the node goes on
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<Report, NodeError> {
        let (stop, stopping) = watch::channel(false);
        let mut servers = JoinSet::new();
        if let Some(local) = self.local.take() {
            let serving = local.run(stopping.clone());
            servers.spawn(self.vital.watched("the local socket's task", serving));
        }
        if let Some(ends) = self.ends.take() {
            let supervising = ends.run(stopping.clone());
            servers.spawn(
                self.vital
                    .watched("the inputs' and outputs' task", supervising),
            );
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
            info!("plans of other sources still pass through this node: no path leads around it");
        }
        self.endpoint.shutdown(SHUTDOWN_GRACE).await;
        let unacknowledged = self.handle.forwarder.ledger.outstanding();
        if unacknowledged > 0 {
            warn!(
                unacknowledged,
                "some ADUs were sent without a known outcome"
            );
        }
        self.abort();
        info!(unacknowledged, "stopped");
        Ok(Report { unacknowledged })
    }

    /// Ends a node that has lost a task: notifies programs and neighbours as far as that takes no
    /// time, and drains nothing.
    async fn fail(self, mut servers: JoinSet<()>, failure: Failure) -> NodeError {
        let ended = async { while servers.join_next().await.is_some() {} };
        // Programs that miss the notice see their connection close.
        let _ = tokio::time::timeout(FAILED_GRACE.into(), ended).await;
        servers.shutdown().await;
        let closed = self.endpoint.shutdown(Duration::ZERO);
        // Neighbours that miss the notice detect the silence.
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

/// Waits for a failure that ends the node.
async fn failed(failures: &mut Failures) -> Failure {
    tokio::select! {
        biased;
        failure = failures.next() => failure,
        // A panic elsewhere in the program may have taken an unwatched part of the node with it.
        message = panics::panicked() => Failure {
            task: "a task of the program",
            how: Ended::Panicked(message),
        },
    }
}

/// Opens the entrances for programs on this machine, as configured: the local socket and the admin
/// API.
async fn open_local_servers(
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

/// Returns the endpoint's TCP options.
fn tcp(config: &Tcp) -> TcpOptions {
    TcpOptions {
        listen: config.listen.clone(),
        pacing: config.pace,
        standbys: config.connections.saturating_sub(1),
        plain: config.plain.iter().copied().collect(),
        ..TcpOptions::default()
    }
}

/// Returns the endpoint's options by the configuration; `rest` fills in the others.
fn options(config: &Config, state: &State, rest: Options) -> Options {
    Options {
        listen: config.listen.clone(),
        reach: config.reach.packets,
        mdns: config.reach.mdns,
        relays: relays(config, state),
        relay_ca: config.reach.relay_ca.clone(),
        congestion: config.congestion,
        tcp: tcp(&config.tcp),
        engine: config.engine,
        ..rest
    }
}

/// Returns the relays to use: the configured ones, and those of the nodes through which this node
/// joined.
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

/// Returns the node's state of its fabric; fails if a configured peer is the node itself.
fn load_membership(config: &Config, own: NodeId) -> Result<State, NodeError> {
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

/// Returns the keys admitted before any grant is shown: the owner's, or without an owner the
/// configured peers'.
fn initial_admission(config: &Config, state: &State) -> Admission {
    let connecting = config.peers.iter().filter(|peer| peer.connect);
    match state.fabric {
        None => Admission::of(connecting.map(|peer| peer.key)),
        Some(owner) => Admission::of([owner]),
    }
}

/// Dials the peers with an address, with mDNS all peers, and the nodes through which this node
/// joined.
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

/// Passes link events, which must not wait, and admission requests on to the control task, which
/// may be busy.
async fn forward_events(
    mut events: mpsc::UnboundedReceiver<LinkEvent>,
    mut admissions: mpsc::Receiver<AtDoor>,
    inputs: mpsc::Sender<Input>,
) {
    loop {
        let input = tokio::select! {
            Some(event) = events.recv() => Input::Link(event),
            Some(event) = admissions.recv() => Input::Door(event),
            else => return,
        };
        if inputs.send(input).await.is_err() {
            return;
        }
    }
}

/// Receives from the network: hands ADUs to the data path, everything else to the control task.
struct NetworkReceiver {
    forwarder: Arc<Forwarder>,
    inputs: mpsc::Sender<Input>,
    /// Unbounded, since the network does not wait with an event; links and dials bound their
    /// number.
    events: mpsc::UnboundedSender<LinkEvent>,
    /// Neighbours with new data in flight. Unbounded, since a sender does not wait; each neighbour
    /// has one entry until the monitor asks again.
    active: mpsc::UnboundedSender<NodeId>,
}

impl Receiver for NetworkReceiver {
    async fn handle_adu(&self, link: &Link, adu: Arriving) {
        self.forwarder.handle_adu(link, adu).await;
    }

    async fn handle_control(&self, link: &Link, frame: Bytes) {
        // If the control task has stopped, the link is about to be closed.
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

    fn handle_outcome(&self, link: &Link, header: &Header, token: u64, outcome: Outcome) {
        let peer = link.peer();
        self.forwarder.handle_outcome(peer, header, token, outcome);
    }

    fn handle_measured(&self, samples: Samples) {
        // If the control task is behind, it gets the next samples, which replace these.
        let _ = self.inputs.try_send(Input::Measured(samples));
    }

    fn handle_given(&self, link: &Link) {
        // The receiver ends only with the node.
        let _ = self.active.send(link.peer());
    }
}
