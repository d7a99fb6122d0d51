//! How QUIC is set up, and why so.
//!
//! *The idea.* The defaults suit bulk transfer on good networks. Here an urgent frame competes with a bulky one on a
//! line of 150 kbit/s: so whatever matters more goes first at any time (see `thalweg_core::hop::rank`), buffers are bounded, and
//! nothing large is probed at the start.
//!
//! `thalweg-sim`'s `transport/config.rs` is the twin of this file: who changes one changes both.
//!
//! *What it does not do.* It paces nothing: CUBIC does, which is noq's default (its `BBRv3` does not pace flows that
//! send less than they may).
//!
//! *Sources.* RFC 9000, RFC 9002, RFC 8899; noq 1.4 `config/transport.rs`.

use iroh::endpoint::{IdleTimeout, MtuDiscoveryConfig, QuicTransportConfig, VarInt};
use thalweg_core::limits::ADUS_IN_FLIGHT_MAX;
use thalweg_core::time::Duration;

use crate::link::LANES_MAX;

/// After this long without a word a peer is taken for dead: a dead peer is found in 10 s even if the last word was on
/// its way, and three keep-alives may be lost before.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(8);

/// Streams that a peer may have open: its ADUs in flight, its ordered sequences, its control stream.
const STREAMS_MAX: u32 = ADUS_IN_FLIGHT_MAX + LANES_MAX as u32 + 1;

/// What one stream may have unread: 100 Mbit/s over 100 ms, which is noq's own default; the rest of a larger ADU waits at
/// its sender until this is read.
///
/// On loopback 2 MiB carries a third less than this, and 4 MiB ends the connection: noq keeps at most 2,048 pieces of a
/// stream unread and takes more for an attack.
const STREAM_WINDOW_BYTES: u32 = 1_250_000;

/// What all streams of a link may have unread: 1 Gbit/s over 130 ms; also what one peer can make us hold.
const LINK_WINDOW_BYTES: u32 = 16 << 20;

/// What may be unacknowledged: 1 Gbit/s over 32 ms. Less would cap fast links; more would only queue where nothing can
/// be cancelled any more.
const SEND_WINDOW_BYTES: u64 = 4 << 20;

/// Datagrams waiting either way: 30 ms at 1 Gbit/s.
const DATAGRAM_BUFFER_BYTES: usize = 4 << 20;

/// The largest UDP payload on Ethernet with IPv6 and room for one tunnel's header.
const MTU_BYTES_MAX: u16 = 1452;

/// Every path must carry this much (RFC 9000 §14).
const MTU_BYTES_MIN: u16 = 1200;

/// A gain below this is not worth a probe. With 252 bytes between least and most, exactly one probe is sent: 77 ms on a
/// line of 150 kbit/s, once.
const MTU_GAIN_BYTES: u16 = 200;

pub(crate) fn config(idle_timeout: Duration) -> QuicTransportConfig {
    let mut mtu = MtuDiscoveryConfig::default();
    mtu.upper_bound(MTU_BYTES_MAX)
        .minimum_change(MTU_GAIN_BYTES);
    let idle_ms = u32::try_from(idle_timeout.as_millis()).unwrap_or(u32::MAX);
    let idle: std::time::Duration = Duration::from_millis(u64::from(idle_ms)).into();
    // A third, so that two may be lost.
    let keep_alive = idle / 3;
    QuicTransportConfig::builder()
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(LINK_WINDOW_BYTES))
        .send_window(SEND_WINDOW_BYTES)
        // The other mode never interrupts a stream that it has begun, whatever waits.
        .send_fairness(true)
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER_BYTES))
        .datagram_send_buffer_size(DATAGRAM_BUFFER_BYTES)
        .initial_mtu(MTU_BYTES_MIN)
        .min_mtu(MTU_BYTES_MIN)
        .mtu_discovery_config(Some(mtu))
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(idle_ms))))
        .keep_alive_interval(keep_alive)
        // iroh refuses more than these two and says so in the log.
        .default_path_max_idle_timeout(idle.min(PATH_IDLE_MAX))
        .default_path_keep_alive_interval(keep_alive.min(PATH_KEEP_ALIVE_MAX))
        .build()
}

/// iroh's upper bound of a path's idle time.
const PATH_IDLE_MAX: std::time::Duration = std::time::Duration::from_secs(15);

/// iroh's upper bound of the interval between a path's keep-alives.
const PATH_KEEP_ALIVE_MAX: std::time::Duration = std::time::Duration::from_secs(5);

const _: () = assert!(
    STREAM_WINDOW_BYTES < 2_048 * (MTU_BYTES_MIN as u32 - 100),
    "a stream that nobody reads stays below noq's bound on pieces, in the smallest packets less their headers"
);

const _: () = assert!(
    MTU_BYTES_MAX - MTU_BYTES_MIN >= MTU_GAIN_BYTES
        && (MTU_BYTES_MAX - MTU_BYTES_MIN) / 2 < MTU_GAIN_BYTES,
    "the search for the MTU is one probe at its upper bound"
);
