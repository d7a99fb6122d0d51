//! The options of an endpoint.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_link::congestion::Algorithm;
use thalweg_link::hop::settings;
use thalweg_link::tcp_mux::Pacing;
use thalweg_link::tcp_mux::settings::STANDBYS;

use crate::address::Relay;
use crate::admission::Admission;
use crate::clock::Clock;
use crate::doorkeeper::Doorkeeper;
use crate::error::BindError;
use crate::identity::Identity;
use crate::link::gather;
use crate::task::Vital;
use crate::tcp::{self, ClearLoop};
use crate::transport::HEAD_START;

/// Interval of retries over QUIC: a few packets a minute cost little, and networks change no faster
/// than people move.
const RETRY: Duration = Duration::from_secs(60);

/// The options of an endpoint.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's key.
    pub identity: Identity,
    /// UDP addresses to listen on; port 0 takes a free one. None: any address, any port.
    ///
    /// The first of a family is the one from which peers are dialled.
    pub listen: Vec<SocketAddr>,
    /// The keys that may connect.
    pub admission: Admission,
    /// Handles the requests of nodes that may not connect yet; `None`: the door is closed.
    pub doorkeeper: Option<Doorkeeper>,
    /// Where packets may go.
    pub reach: Reach,
    /// Whether to announce this node by mDNS and to find kept peers that way.
    pub mdns: bool,
    /// The relays through which this node can be reached and may reach others; none by default.
    pub relays: Vec<Relay>,
    /// A PEM file of certificate authorities for the relays, besides the usual web roots.
    pub relay_ca: Option<PathBuf>,
    /// A peer that sends nothing for this long is considered dead.
    pub idle_timeout: Duration,
    /// The congestion control of QUIC connections.
    pub congestion: Algorithm,
    /// How TCP is used for peers that QUIC does not reach.
    pub tcp: TcpOptions,
    /// The UDP address of the engine, which carries links with peers that are reached directly;
    /// `None`: there is none. Port 0 takes a free port.
    pub engine: Option<SocketAddr>,
    /// Starts the tasks that the endpoint cannot run without, and reports their failures.
    pub vital: Vital,
}

/// How an endpoint uses TCP: docs/concepts/tcp.md.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// Addresses to listen on; port 0 takes a free one. None: peers cannot dial this node over TCP.
    pub listen: Vec<SocketAddr>,
    /// The source of credit for a connection.
    pub pacing: Pacing,
    /// The kernel's congestion control, `cubic` or `bbr`; `None` for the system's default.
    pub congestion: Option<String>,
    /// Number of standby connections; the dialling node decides.
    pub standbys: usize,
    /// Peers with which everything after the handshake is sent unencrypted, if they are configured
    /// alike.
    pub plain: BTreeSet<NodeId>,
    /// Whether one thread's loop runs the connections in the clear, in place of a task for each.
    pub clear_loop: bool,
    /// How long a peer with addresses of both transports is tried over QUIC alone.
    pub head_start: Duration,
    /// Interval at which a peer linked over TCP is retried over QUIC.
    pub retry: Duration,
}

/// Where an endpoint's packets may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// Anywhere: iroh searches for better paths by itself, through NATs too.
    #[default]
    Anywhere,
    /// Only to addresses that are dialled, and back to the sources of packets.
    ///
    /// iroh searches for no other path, and sends the peer no address.
    Configured,
    /// Only to the IP address that the endpoint itself listens on.
    ///
    /// For several nodes on one machine: each listens on a loopback address of its own (127.0.0.1,
    /// 127.0.0.2 …) and reaches the others only through a [`Shaper`](crate::shaper::Shaper), which
    /// has a port on both. With another reach, iroh would find its way around the shaper.
    OwnAddress,
}

impl Options {
    /// Returns options that listen on any port, with no lookup, no relay and no multicast.
    pub fn new(identity: Identity, admission: Admission) -> Self {
        Self {
            identity,
            listen: Vec::new(),
            admission,
            doorkeeper: None,
            reach: Reach::Anywhere,
            mdns: false,
            relays: Vec::new(),
            relay_ca: None,
            idle_timeout: settings::IDLE_TIMEOUT,
            congestion: Algorithm::default(),
            tcp: TcpOptions::default(),
            engine: None,
            vital: Vital::default(),
        }
    }
}

impl Default for TcpOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            pacing: Pacing::default(),
            congestion: None,
            standbys: STANDBYS,
            plain: BTreeSet::new(),
            clear_loop: false,
            head_start: HEAD_START,
            retry: RETRY,
        }
    }
}

impl TcpOptions {
    /// Returns the options of a session over TCP; starts the loop of those in the clear, if one is asked
    /// for and there can be such a session.
    ///
    /// Fails   if the loop does not start; where the system has none, there is none
    pub(super) fn session(
        &self,
        identity: &Identity,
        clock: Clock,
    ) -> Result<tcp::Options, BindError> {
        let is_wanted = self.clear_loop && !self.plain.is_empty();
        let clear = match is_wanted.then(|| ClearLoop::start_with(|turn| gather(turn))) {
            None => None,
            Some(Ok(clear)) => Some(Arc::new(clear)),
            Some(Err(error)) if error.kind() == io::ErrorKind::Unsupported => {
                tracing::warn!(
                    "there is no loop for links in the clear on this system; each is a task"
                );
                None
            }
            Some(Err(error)) => return Err(BindError::Endpoint(error.to_string())),
        };
        Ok(tcp::Options {
            identity: identity.clone(),
            pacing: self.pacing,
            congestion: self.congestion.clone(),
            standbys: self.standbys,
            plain: self.plain.clone(),
            clear,
            segments: tcp::Segments::Path,
            clock,
        })
    }
}
