//! QUIC's settings: the numbers of [`thalweg_link::hop::settings`], set through iroh and for the engine.
//!
//! *The idea.* The most important waiting data is sent first at any time (see
//! `thalweg_link::hop::rank`), buffers are bounded, and the start probes no large packets.
//! `thalweg-sim`'s `transport/config.rs` gives the same numbers to noq-proto.
//!
//! *What it does not do.* It does no pacing: the congestion controller does (`thalweg-quic`).
//!
//! *Sources.* noq 1.4 `config/transport.rs`.

use std::sync::Arc;
use std::time::Instant;

use iroh::endpoint::{IdleTimeout, MtuDiscoveryConfig, QuicTransportConfig, VarInt};
use noq_proto::TransportConfig;
use noq_proto::congestion::ControllerFactory;
use thalweg_base::time::Duration;
use thalweg_link::congestion::Algorithm;
use thalweg_link::hop::settings::{
    DATAGRAM_BUFFER_BYTES, LINK_WINDOW_BYTES, MTU_BYTES_MAX, MTU_BYTES_MIN, MTU_GAIN_BYTES,
    Patience, SEND_WINDOW_BYTES, STREAM_WINDOW_BYTES, STREAMS_MAX,
};

/// How long QUIC is tried alone: its first packet is retransmitted after 1 s and after 3 s (RFC
/// 9002 §6.2.2), and the third copy may take another second for the round trip.
pub(crate) const HEAD_START: Duration = Duration::from_secs(4);

/// Sets what iroh's builder and noq-proto's configuration call alike; the two have no type in common.
macro_rules! set {
    ($config:expr, $patience:expr, $controllers:expr) => {{
        let mut mtu = MtuDiscoveryConfig::default();
        mtu.upper_bound(MTU_BYTES_MAX)
            .minimum_change(MTU_GAIN_BYTES);
        $config
            .congestion_controller_factory($controllers)
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(VarInt::from_u32(STREAMS_MAX))
            .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
            .receive_window(VarInt::from_u32(LINK_WINDOW_BYTES))
            .send_window(SEND_WINDOW_BYTES)
            // Without fairness noq finishes a stream it has begun, whatever more important data
            // waits.
            .send_fairness(true)
            .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER_BYTES))
            .datagram_send_buffer_size(DATAGRAM_BUFFER_BYTES)
            .initial_mtu(MTU_BYTES_MIN)
            .min_mtu(MTU_BYTES_MIN)
            .mtu_discovery_config(Some(mtu))
            .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32($patience.idle_ms))))
    }};
}

/// Returns iroh's configuration.
pub(crate) fn config(idle_timeout: Duration, algorithm: Algorithm) -> QuicTransportConfig {
    let patience = Patience::new(idle_timeout);
    let controllers = thalweg_quic::factory(algorithm, Some(Instant::now));
    set!(QuicTransportConfig::builder(), patience, controllers)
        .keep_alive_interval(patience.keep_alive.into())
        .default_path_max_idle_timeout(patience.path_idle.into())
        .default_path_keep_alive_interval(patience.path_keep_alive.into())
        .build()
}

/// Returns that of the engine, which drives noq-proto itself.
pub(crate) fn of_engine(
    idle_timeout: Duration,
    controllers: Arc<dyn ControllerFactory + Send + Sync>,
) -> TransportConfig {
    let patience = Patience::new(idle_timeout);
    let mut config = TransportConfig::default();
    set!(config, patience, controllers)
        .keep_alive_interval(Some(patience.keep_alive.into()))
        .default_path_max_idle_timeout(Some(patience.path_idle.into()))
        .default_path_keep_alive_interval(Some(patience.path_keep_alive.into()));
    config
}
