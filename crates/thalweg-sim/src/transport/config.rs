//! QUIC's configuration: the numbers of [`thalweg_link::hop::settings`], through noq-proto's setters.
//!
//! The same setters as in `thalweg-net`'s `transport.rs`. Only machine-dependent inputs are
//! replaced: connection ids, keys and tokens come from the port's seed, and nothing depends on noq
//! features that other crates enable. There is no segmentation offload, as there is no system call to
//! save, and no second path.
//!
//! *Sources.* `thalweg-net` `transport.rs`; noq-proto 1.4 `config`.

use std::sync::Arc;

use noq_proto::{
    ClientConfig, ConnectionId, ConnectionIdGenerator, EndpointConfig, IdleTimeout,
    MtuDiscoveryConfig, NoneTokenLog, NoneTokenStore, ServerConfig, TransportConfig,
    ValidationTokenConfig, VarInt,
};
use thalweg_base::random::SplitMix;
use thalweg_base::time::Duration;
use thalweg_link::congestion::Algorithm;
use thalweg_link::hop::settings::{
    DATAGRAM_BUFFER_BYTES, IDLE_TIMEOUT, LINK_WINDOW_BYTES, MTU_BYTES_MAX, MTU_BYTES_MIN,
    MTU_GAIN_BYTES, Patience, SEND_WINDOW_BYTES, STREAM_WINDOW_BYTES, STREAMS_MAX,
};

use super::crypto::{Keyed, Plain};

/// The settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// The idle timeout, after which the peer is considered dead.
    pub idle_timeout: Duration,
    /// The congestion controller.
    pub congestion: Algorithm,
}

impl Default for PortSettings {
    /// The node's settings.
    fn default() -> Self {
        Self {
            idle_timeout: IDLE_TIMEOUT,
            congestion: Algorithm::default(),
        }
    }
}

/// Bytes of a connection id, as in noq's own generator.
const CID_BYTES: usize = 8;

fn transport(settings: PortSettings) -> TransportConfig {
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(MTU_BYTES_MAX)
        .minimum_change(MTU_GAIN_BYTES);
    let patience = Patience::new(settings.idle_timeout);
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(LINK_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        .send_fairness(true)
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER_BYTES))
        .datagram_send_buffer_size(DATAGRAM_BUFFER_BYTES)
        .initial_mtu(MTU_BYTES_MIN)
        .min_mtu(MTU_BYTES_MIN)
        .mtu_discovery_config(Some(mtu))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(patience.idle_ms))))
        .keep_alive_interval(Some(patience.keep_alive.into()))
        .default_path_max_idle_timeout(Some(patience.path_idle.into()))
        .default_path_keep_alive_interval(Some(patience.path_keep_alive.into()))
        .congestion_controller_factory(thalweg_quic::factory(settings.congestion, None))
        .enable_segmentation_offload(false);
    config
}

/// Returns the configuration of an endpoint, with all random choices from the generator.
pub(super) fn endpoint(random: &mut SplitMix) -> EndpointConfig {
    let mut seed = [0; 32];
    for eight in seed.chunks_exact_mut(8) {
        eight.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    let ids = random.next_u64();
    let mut config = EndpointConfig::new(Arc::new(Keyed::new(random.next_u64())));
    config
        .rng_seed(Some(seed))
        .cid_generator(Arc::new(move || Box::new(Ids(SplitMix::new(ids)))));
    config
}

/// Returns the configuration of a dialling connection; its first id is drawn from the generator.
pub(super) fn client(settings: PortSettings, random: &mut SplitMix) -> ClientConfig {
    let first = Ids(random.clone()).generate_cid();
    random.next_u64();
    let mut config = ClientConfig::new(Arc::new(Plain));
    config
        .initial_dst_cid_provider(Arc::new(move || first))
        .transport_config(Arc::new(transport(settings)))
        .token_store(Arc::new(NoneTokenStore));
    config
}

/// Returns the configuration of an accepting endpoint.
pub(super) fn server(settings: PortSettings, random: &mut SplitMix) -> ServerConfig {
    let mut config = ServerConfig::new(Arc::new(Plain), Arc::new(Keyed::new(random.next_u64())));
    let mut tokens = ValidationTokenConfig::default();
    // The default depends on noq's features, and iroh enables others than we do. Without tokens nothing
    // needs the time of day.
    tokens.sent(0).log(Arc::new(NoneTokenLog));
    config
        .transport_config(Arc::new(transport(settings)))
        .validation_token_config(tokens)
        .migration(false);
    config
}

/// Connection ids from a seed.
struct Ids(SplitMix);

impl ConnectionIdGenerator for Ids {
    fn generate_cid(&mut self) -> ConnectionId {
        ConnectionId::new(&self.0.next_u64().to_le_bytes())
    }

    fn cid_len(&self) -> usize {
        CID_BYTES
    }

    fn cid_lifetime(&self) -> Option<core::time::Duration> {
        None
    }
}
