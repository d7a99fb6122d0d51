//! QUIC's settings: the numbers of [`thalweg_link::hop::settings`], set through iroh.
//!
//! *The idea.* The most important waiting data is sent first at any time (see
//! `thalweg_link::hop::rank`), buffers are bounded, and the start probes no large packets.
//! `thalweg-sim`'s `transport/config.rs` gives the same numbers to noq-proto.
//!
//! *What it does not do.* It does no pacing: the congestion controller does (`thalweg-quic`).
//!
//! *Sources.* noq 1.4 `config/transport.rs`.

use std::time::Instant;

use iroh::endpoint::{IdleTimeout, MtuDiscoveryConfig, QuicTransportConfig, VarInt};
use thalweg_base::time::Duration;
use thalweg_link::congestion::Algorithm;
use thalweg_link::hop::settings::{
    DATAGRAM_BUFFER_BYTES, LINK_WINDOW_BYTES, MTU_BYTES_MAX, MTU_BYTES_MIN, MTU_GAIN_BYTES,
    Patience, SEND_WINDOW_BYTES, STREAM_WINDOW_BYTES, STREAMS_MAX,
};

/// How long QUIC is tried alone: its first packet is retransmitted after 1 s and after 3 s (RFC
/// 9002 §6.2.2), and the third copy may take another second for the round trip.
pub(crate) const HEAD_START: Duration = Duration::from_secs(4);

pub(crate) fn config(idle_timeout: Duration, algorithm: Algorithm) -> QuicTransportConfig {
    let patience = Patience::new(idle_timeout);
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(MTU_BYTES_MAX)
        .minimum_change(MTU_GAIN_BYTES);
    QuicTransportConfig::builder()
        .congestion_controller_factory(thalweg_quic::factory(algorithm, Some(Instant::now)))
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(LINK_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        // Without fairness noq finishes a stream it has begun, whatever more important data waits.
        .send_fairness(true)
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER_BYTES))
        .datagram_send_buffer_size(DATAGRAM_BUFFER_BYTES)
        .initial_mtu(MTU_BYTES_MIN)
        .min_mtu(MTU_BYTES_MIN)
        .mtu_discovery_config(Some(mtu))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(patience.idle_ms))))
        .keep_alive_interval(patience.keep_alive.into())
        .default_path_max_idle_timeout(patience.path_idle.into())
        .default_path_keep_alive_interval(patience.path_keep_alive.into())
        .build()
}
