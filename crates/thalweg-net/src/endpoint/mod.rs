//! The node on the network: one socket, one key, one link per neighbour.
//!
//! *The idea.* iroh connects to peers and proves their keys; the endpoint decides which connections
//! to keep. A connection becomes a link when each end has admitted the other. When two nodes dial
//! each other at once, both keep the same one of the two connections and drain the other. Kept
//! peers are redialled for ever, with growing pauses, and their state always has a reason to show.
//! If QUIC does not get through to a peer that also has a TCP address, the peer is dialled over
//! TCP, and retried over QUIC later.
//!
//! *What it does not do.* It contacts no server on the internet unless relays are configured, and a
//! relay finds only peers that list it among their addresses. Its only lookup service is mDNS, if
//! that is switched on.
//!
//! *Sources.* docs/guides/operate.md; iroh 1.4.

mod accept;
mod backoff;
mod builder;
mod dial;
mod direct;
mod discovery;
mod engage;
mod gate;
mod introduce;
mod keep;
mod narrow;
mod options;
mod registry;
mod roaming;
mod silence;
mod stall;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iroh::TransportAddr;
use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use self::builder::builder;
use self::direct::Direct;
use self::narrow::{Prober, SmallPaths};
use self::registry::Registry;
use self::roaming::Network;
use crate::address::Udp;
use crate::admission::Admission;
use crate::clock::Clock;
use crate::close::CloseCode;
use crate::confined::{self, Confined};
use crate::doorkeeper::Door;
use crate::engine::EngineCounters;
use crate::error::{BindError, Unreachable};
use crate::link::{Context, Link, LinkEvent, Receiver, Transport};
use crate::task::Vital;
use crate::tcp;

pub use self::options::{Options, Reach, TcpOptions};
pub use crate::address::{Addresses, NoRelay, Relay, TCP_PREFIX, check_relay_ca};
pub use crate::host::{Host, NoPlace, Place};
pub use crate::link::ALPN;

/// The state of a kept peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Being dialled for the first time, or again after a link was lost.
    Connecting,
    /// There is a link.
    Up,
    /// The last dial failed; the peer will be redialled.
    Unreachable(Unreachable),
}

/// A node's presence on the network; clones share one endpoint.
///
/// It lives until [`Endpoint::shutdown`].
#[derive(Clone)]
pub struct Endpoint(Arc<Shared>);

struct Shared {
    iroh: iroh::Endpoint,
    /// The sockets of a confined node; iroh has none then.
    confined: Option<Confined>,
    id: NodeId,
    admission: Admission,
    door: Option<Arc<Door>>,
    context: Context,
    vital: Vital,
    registry: Registry,
    network: Network,
    reach: Reach,
    prober: Prober,
    small_paths: SmallPaths,
    kept: Mutex<HashMap<NodeId, Kept>>,
    tcp: dial::Tcp,
    direct: Direct,
    relays: Vec<Relay>,
    /// Whether peers can be found without an address.
    has_lookup: bool,
    shutting_down: watch::Sender<bool>,
}

struct Kept {
    state: PeerState,
    task: AbortHandle,
}

impl Endpoint {
    /// Binds the sockets and starts to accept; arriving events and payloads go to `receiver`.
    ///
    /// Fails   if an address cannot be listened on
    pub async fn bind<R: Receiver>(
        options: Options,
        receiver: Arc<R>,
        clock: Clock,
    ) -> Result<Self, BindError> {
        let confined = match options.reach {
            Reach::Configured => Some(Confined::bind(&options.listen, clock)?),
            Reach::Anywhere | Reach::OwnAddress => None,
        };
        let mut builder = builder(&options, confined.as_ref())?;
        let session = options.tcp.session(&options.identity, clock)?;
        let direct = Direct::start(&options, clock)?;
        let door = options.doorkeeper.map(|keeper| Arc::new(Door::new(keeper)));
        let listener = match options.tcp.listen.as_slice() {
            [] => None,
            listen => {
                let admission = options.admission.clone();
                let (session, door) = (session.clone(), door.clone());
                let vital = &options.vital;
                Some(tcp::Listener::bind_with(session, listen, admission, door, vital).await?)
            }
        };
        let mdns = options.mdns.then(|| discovery::lookup(&options.identity));
        let mdns = mdns.transpose()?;
        if let Some(mdns) = &mdns {
            builder = builder.address_lookup(mdns.clone());
        }
        let iroh = builder
            .bind()
            .await
            .map_err(|error| BindError::find(&options.listen, &error))?;
        let endpoint = Self(Arc::new(Shared {
            iroh,
            confined,
            id: options.identity.id(),
            admission: options.admission,
            door,
            context: Context {
                clock,
                receiver,
                memories: Arc::default(),
            },
            vital: options.vital.clone(),
            registry: Registry::default(),
            network: Network::watch().await,
            reach: options.reach,
            prober: Prober::default(),
            small_paths: SmallPaths::default(),
            kept: Mutex::default(),
            tcp: dial::Tcp {
                session,
                listening: listener
                    .as_ref()
                    .map_or_else(Vec::new, |listener| listener.addresses().to_vec()),
                head_start: options.tcp.head_start,
                retry: options.tcp.retry,
            },
            direct,
            relays: options.relays,
            has_lookup: options.mdns,
            shutting_down: watch::Sender::new(false),
        }));
        let vital = &options.vital;
        accept::spawn_tasks(&endpoint, listener, vital);
        engage::spawn_tasks(&endpoint, vital);
        if let Some(mdns) = mdns {
            // Allowed to end: mDNS stops on a network without multicast, and the node goes on
            // without it.
            let discovering = discovery::run(endpoint.clone(), mdns);
            vital.spawn_finite("the task that listens to mDNS", discovering);
        }
        tracing::info!(id = %endpoint.id(), "listening");
        tracing::debug!(udp = ?endpoint.listening(), tcp = ?endpoint.listening_tcp(), "listening");
        Ok(endpoint)
    }

    /// Returns this node's key.
    pub fn id(&self) -> NodeId {
        self.0.id
    }

    /// Returns the addresses that UDP sockets are bound to.
    pub fn listening(&self) -> Vec<SocketAddr> {
        match &self.0.confined {
            Some(confined) => confined.listening(),
            None => self.0.iroh.bound_sockets(),
        }
    }

    /// Returns the TCP addresses that peers can dial.
    pub fn listening_tcp(&self) -> &[SocketAddr] {
        &self.0.tcp.listening
    }

    /// Returns the address that the engine's UDP port is bound to, if there is an engine.
    pub fn listening_engine(&self) -> Option<SocketAddr> {
        Some(self.0.direct.engine()?.listening())
    }

    /// Returns the engine's counters, if there is an engine.
    pub fn engine_counters(&self) -> Option<EngineCounters> {
        Some(self.0.direct.engine()?.counters())
    }

    /// Ends the engine's thread without telling its peers, as if its port were cut off; links go on
    /// over iroh.
    #[doc(hidden)]
    pub fn cut_engine(&self) {
        if let Some(engine) = self.0.direct.engine() {
            engine.abort();
        }
    }

    /// Returns whether a connection over iroh stands by for the link with a peer.
    #[doc(hidden)]
    pub fn has_standby(&self, peer: NodeId) -> bool {
        self.0.direct.standby(peer).is_some()
    }

    /// Returns the UDP addresses at which others may reach this node: the bound ones, and for an
    /// unspecified one those of the machine's interfaces, except under [`Reach::Configured`].
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let bound = self.listening();
        let mut addresses: Vec<_> = bound
            .iter()
            .copied()
            .filter(|address| !address.ip().is_unspecified())
            .collect();
        if addresses.len() < bound.len() {
            let found = self.0.iroh.addr();
            addresses.extend(found.ip_addrs().copied());
        }
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Returns the TCP addresses at which others may reach this node: the bound ones, and for an
    /// unspecified one this node's UDP addresses of that family, with the TCP port.
    pub fn tcp_addresses(&self) -> Vec<SocketAddr> {
        let own = self.addresses();
        let mut addresses = Vec::new();
        for listening in self.listening_tcp() {
            if !listening.ip().is_unspecified() {
                addresses.push(*listening);
                continue;
            }
            let of_family = own.iter().map(SocketAddr::ip);
            let of_family = of_family.filter(|ip| ip.is_ipv4() == listening.is_ipv4());
            addresses.extend(of_family.map(|ip| SocketAddr::new(ip, listening.port())));
        }
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// Returns the relays through which others may reach this node, its current home relay first,
    /// if there is one.
    pub fn relays(&self) -> Vec<Relay> {
        let mut relays = self.0.relays.clone();
        let own = self.0.iroh.addr();
        relays.sort_by_key(|relay| !own.relay_urls().any(|url| relay.is(url)));
        relays
    }

    /// Returns the clock of all deadlines.
    pub fn clock(&self) -> Clock {
        self.0.context.clock
    }

    /// Returns the set of admitted keys.
    pub fn admission(&self) -> &Admission {
        &self.0.admission
    }

    /// Returns the open link with a peer.
    pub fn link(&self, peer: NodeId) -> Option<Link> {
        self.0.registry.open(peer)
    }

    /// Returns whether a link is the open one with its peer.
    fn is_present(&self, link: &Link) -> bool {
        let present = self.link(link.peer());
        present.is_some_and(|present| present.is_same(link))
    }

    /// Returns all links.
    pub fn links(&self) -> Vec<Link> {
        self.0.registry.all()
    }

    /// Returns the kept peers with their states, in the order of their keys.
    pub fn peers(&self) -> Vec<(NodeId, PeerState)> {
        let kept = self.kept();
        let sorted: BTreeMap<_, _> = kept
            .iter()
            .map(|(peer, kept)| (*peer, kept.state.clone()))
            .collect();
        sorted.into_iter().collect()
    }

    /// Dials a peer once; returns the existing link if there is one.
    ///
    /// Without addresses the peer is looked up by mDNS, if that is switched on. With addresses of
    /// both transports, QUIC is tried alone at first, then TCP.
    ///
    /// Fails   with the reason as a sentence, after 10 s at the latest, or 14 s if both are tried
    pub async fn dial(
        &self,
        peer: NodeId,
        addresses: impl Into<Addresses>,
    ) -> Result<Link, Unreachable> {
        let addresses = addresses.into();
        let found = addresses.looked_up().await?;
        dial::once(self, peer, &found, Transport::Quic).await
    }

    /// Keeps a link with a peer: dials now, and again whenever the link is lost.
    ///
    /// A second call for a peer replaces its addresses. The seed spreads the redials of many nodes
    /// in time. A peer that was reached only over TCP is retried over QUIC while that link lasts.
    pub fn keep_dialled(&self, peer: NodeId, addresses: impl Into<Addresses>, seed: u64) {
        // Held until the task is entered, since the task sets its state first.
        let mut kept = self.kept();
        let keeping = keep::keep(self.clone(), peer, addresses.into(), seed);
        let entry = Kept {
            state: PeerState::Connecting,
            task: self.0.vital.spawn("the task that dials a peer", keeping),
        };
        if let Some(before) = kept.insert(peer, entry) {
            before.task.abort();
        }
    }

    /// Stops keeping a peer; an existing link stays.
    pub fn forget(&self, peer: NodeId) {
        if let Some(kept) = self.kept().remove(&peer) {
            kept.task.abort();
        }
    }

    /// Stops sending new ADUs, waits at most `grace` until everything sent is acknowledged, and
    /// closes all links.
    ///
    /// ADUs still unacknowledged then end as [`Outcome::LinkLost`](crate::link::Outcome::LinkLost).
    pub async fn shutdown(&self, grace: Duration) {
        self.0.shutting_down.send_replace(true);
        self.kept().retain(|_, kept| {
            kept.task.abort();
            false
        });
        let mut draining = JoinSet::new();
        for link in self.links() {
            draining.spawn(async move {
                link.drain(CloseCode::Shutdown, "the node shuts down", grace, false)
                    .await;
            });
        }
        draining.join_all().await;
        self.0.direct.shutdown().await;
        self.0.iroh.close().await;
        tracing::info!(id = %self.id().short(), "network closed");
    }

    /// Returns whether a peer is kept, by configuration or because it was found.
    pub(crate) fn is_kept(&self, peer: NodeId) -> bool {
        self.kept().contains_key(&peer)
    }

    /// Returns the settings for dialling over TCP.
    pub(crate) fn tcp(&self) -> &dial::Tcp {
        &self.0.tcp
    }

    /// Returns whether QUIC has any way to find the peer.
    pub(crate) fn may_try_quic(&self, addresses: &Addresses) -> bool {
        !addresses.udp.is_empty() || !addresses.relays.is_empty() || self.0.has_lookup
    }

    /// Returns the function that converts a UDP address to iroh's form of it.
    pub(crate) fn udp(&self) -> Udp {
        match self.0.confined {
            Some(_) => |address| TransportAddr::Custom(confined::wrapped(address)),
            None => TransportAddr::Ip,
        }
    }

    pub(crate) fn iroh(&self) -> &iroh::Endpoint {
        &self.0.iroh
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<NodeId, Kept>> {
        // No code that can panic runs under this lock.
        self.0.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_state(&self, peer: NodeId, state: PeerState) {
        if let Some(kept) = self.kept().get_mut(&peer) {
            kept.state = state;
        }
    }

    fn emit(&self, event: LinkEvent) {
        self.0.context.receiver.link(event);
    }

    fn is_shutting_down(&self) -> bool {
        *self.0.shutting_down.borrow()
    }

    pub(crate) async fn shutting_down(&self) {
        // The sender lives as long as `self`.
        let _ = self
            .0
            .shutting_down
            .subscribe()
            .wait_for(|shutting_down| *shutting_down)
            .await;
    }
}
