//! The engine's options, and QUIC's configuration for it.
//!
//! *The idea.* The settings of links over iroh (`transport`), and TLS by the raw key that TCP uses too.
//! There is one path and no migration: a peer that moves is reached over iroh again.
//!
//! *Sources.* `transport.rs`; noq-proto 1.4 `config`; RFC 9001.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    ClientConfig, EndpointConfig, NoneTokenLog, NoneTokenStore, ServerConfig, TransportConfig,
    ValidationTokenConfig,
};
use rustls::SupportedCipherSuite;
use rustls::quic::Suite;
use thalweg_base::id::NodeId;
use thalweg_base::time::Duration;
use thalweg_link::congestion::Algorithm;
use thalweg_link::hop::settings::{GREETING_WAIT, IDLE_TIMEOUT};

use crate::admission::Admission;
use crate::clock::Clock;
use crate::identity::Identity;
use crate::raw_key::RawKey;
use crate::transport;

/// The protocol of links over the engine and its version, as the TLS handshake names it (ALPN).
pub(super) const ALPN: &str = "thalweg-engine/1";

/// First packets that wait for the loop to begin their handshake.
pub(super) const INCOMING_MAX: usize = 256;

/// Bytes buffered for one of them, and for all.
const INCOMING_BYTES: u64 = 16 << 10;
const INCOMING_BYTES_ALL: u64 = 1 << 20;

/// The options of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node's key.
    pub identity: Identity,
    /// The UDP address to bind; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The keys that may connect.
    pub admission: Admission,
    /// A peer that sends nothing, or acknowledges nothing, for this long is considered dead.
    pub idle_timeout: Duration,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// The congestion control.
    pub congestion: Algorithm,
    /// The node's clock.
    pub clock: Clock,
    /// The machine's monotonic clock.
    pub(crate) moment: fn() -> Instant,
    /// Called with each turn of the loop, which it makes.
    pub(crate) around: fn(&mut dyn FnMut()),
}

impl Options {
    /// Returns options with the timeouts and the congestion control of links over iroh.
    pub fn new(identity: Identity, admission: Admission, listen: SocketAddr, clock: Clock) -> Self {
        Self {
            identity,
            listen,
            admission,
            idle_timeout: IDLE_TIMEOUT,
            handshake_timeout: GREETING_WAIT,
            congestion: Algorithm::default(),
            clock,
            moment: Instant::now,
            around: |turn| turn(),
        }
    }
}

/// The configuration of every connection.
pub(super) struct Config {
    key: RawKey,
    suite: Suite,
    transport: Arc<TransportConfig>,
    server: Arc<ServerConfig>,
}

impl Config {
    /// Fails   if the crypto library does not offer TLS 1.3 for QUIC
    pub(super) fn new(options: &Options) -> Result<Self, rustls::Error> {
        let key = RawKey::new(&options.identity);
        let suite = initial_suite(&key).ok_or_else(|| no_tls("no cipher suite for QUIC"))?;
        let controllers = thalweg_quic::factory(options.congestion, Some(options.moment));
        let transport = Arc::new(transport::of_engine(options.idle_timeout, controllers));
        let tls = Arc::new(key.server([ALPN])?);
        let tls = QuicServerConfig::with_initial(tls, suite);
        let tls = tls.map_err(|_| no_tls("no cipher suite for QUIC's first packets"))?;
        let mut server = ServerConfig::with_crypto(Arc::new(tls));
        let mut tokens = ValidationTokenConfig::default();
        // Tokens would save returning peers one round trip, at the price of a table.
        tokens.sent(0).log(Arc::new(NoneTokenLog));
        server
            .transport_config(transport.clone())
            .validation_token_config(tokens)
            .migration(false)
            .max_incoming(INCOMING_MAX)
            .incoming_buffer_size(INCOMING_BYTES)
            .incoming_buffer_size_total(INCOMING_BYTES_ALL);
        Ok(Self {
            key,
            suite,
            transport,
            server: Arc::new(server),
        })
    }

    /// Returns the configuration of the accepting side.
    pub(super) fn server(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }

    /// Returns the configuration of a dial that accepts only this peer.
    ///
    /// Fails   like [`Config::new`]
    pub(super) fn client(&self, peer: NodeId) -> Result<ClientConfig, rustls::Error> {
        let tls = Arc::new(self.key.client(peer, ALPN)?);
        let tls = QuicClientConfig::with_initial(tls, self.suite);
        let tls = tls.map_err(|_| no_tls("no cipher suite for QUIC's first packets"))?;
        let mut client = ClientConfig::new(Arc::new(tls));
        client
            .transport_config(self.transport.clone())
            .token_store(Arc::new(NoneTokenStore));
        Ok(client)
    }
}

/// Returns the configuration of the endpoint.
pub(super) fn endpoint() -> EndpointConfig {
    EndpointConfig::default()
}

fn no_tls(fault: &str) -> rustls::Error {
    rustls::Error::General(fault.into())
}

/// Returns the cipher suite of QUIC's first packets (RFC 9001 §5.2).
fn initial_suite(key: &RawKey) -> Option<Suite> {
    let suites = key.provider().cipher_suites.iter();
    let mut of_tls13 = suites.filter_map(SupportedCipherSuite::tls13);
    let is_initial = |suite: &&rustls::Tls13CipherSuite| suite.common.suite == INITIAL_SUITE;
    of_tls13.find(is_initial)?.quic_suite()
}

const INITIAL_SUITE: rustls::CipherSuite = rustls::CipherSuite::TLS13_AES_128_GCM_SHA256;
