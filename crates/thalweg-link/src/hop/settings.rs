//! The settings of a link: one table of numbers, which the real QUIC and the virtual one both read.
//!
//! *The idea.* The defaults of a QUIC library suit bulk transfer on good networks. Here an urgent
//! frame competes with a bulky one on a line of 150 kbit/s, so buffers are bounded, and nothing
//! large is probed at the start. A number that only one side had would make the simulator model
//! another network than the node's.
//!
//! *What it does not do.* It calls no setter: `thalweg-net` does for iroh, `thalweg-sim` for noq-proto.
//!
//! *Sources.* RFC 9000, RFC 9002, RFC 8899; noq 1.4 `config/transport.rs`; docs/reference/protocol.md §2.

use thalweg_base::limits::{ADUS_IN_FLIGHT_MAX, STREAMS_PER_NODE_MAX};
use thalweg_base::time::Duration;

/// Silence after which a peer counts as dead: a dead peer is detected within 10 s even if its last
/// packet was still in flight, and three keep-alives may be lost before.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(8);

/// How long establishing a connection may take, including the greeting: docs/reference/protocol.md §2.1.
pub const GREETING_WAIT: Duration = Duration::from_secs(10);

/// Ordered sequences at once: every stream of a node under two plans, the present and the next.
pub const LANES_MAX: usize = 2 * STREAMS_PER_NODE_MAX;

/// Streams that a peer may have open: its ADUs in flight, its ordered sequences, its control stream.
pub const STREAMS_MAX: u32 = ADUS_IN_FLIGHT_MAX + LANES_MAX as u32 + 1;

/// Control frames queued for writing: a burst of records on connect; further frames wait at the caller.
pub const FRAMES_QUEUED_MAX: usize = 64;

/// Characters kept of the reason that a closing peer gives: docs/reference/protocol.md §2.3.
pub const REASON_CHARS_MAX: usize = 200;

/// Receive window of one stream: 100 Mbit/s over 100 ms, noq's own default. The rest of a larger
/// ADU waits at its sender until this much is read.
///
/// On loopback 2 MiB is a third slower than this, and 4 MiB ends the connection: noq keeps at most
/// 2,048 unread pieces of a stream and takes more for an attack.
pub const STREAM_WINDOW_BYTES: u32 = 1_250_000;

/// Receive window of a link, over all streams: 1 Gbit/s over 130 ms; also the memory that one peer
/// can bind.
pub const LINK_WINDOW_BYTES: u32 = 16 << 20;

/// Unacknowledged bytes: 1 Gbit/s over 32 ms. Less would cap fast links; more would only queue
/// where an ADU can no longer be cancelled.
pub const SEND_WINDOW_BYTES: u64 = 4 << 20;

/// Datagrams queued in either direction: 30 ms at 1 Gbit/s.
pub const DATAGRAM_BUFFER_BYTES: usize = 4 << 20;

/// The largest UDP payload on Ethernet with IPv6 and room for one tunnel header.
pub const MTU_BYTES_MAX: u16 = 1452;

/// The UDP payload that every path must carry (RFC 9000 §14).
pub const MTU_BYTES_MIN: u16 = 1200;

/// A smaller MTU gain is not worth a probe. With 252 bytes between minimum and maximum exactly one
/// probe is sent: 77 ms on a line of 150 kbit/s, once.
pub const MTU_GAIN_BYTES: u16 = 200;

/// iroh's upper bound of a path's idle time; larger values are refused and logged.
const PATH_IDLE_MAX: Duration = Duration::from_secs(15);

/// iroh's upper bound of a path's keep-alive interval; larger values are refused and logged.
const PATH_KEEP_ALIVE_MAX: Duration = Duration::from_secs(5);

/// The timeouts that follow from how long a peer may be silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long the peer may be silent, in the whole milliseconds that go on the wire.
    pub idle_ms: u32,
    /// The keep-alive interval: a third of that, so that two may be lost.
    pub keep_alive: Duration,
    /// How long one path may be silent.
    pub path_idle: Duration,
    /// The keep-alive interval of one path.
    pub path_keep_alive: Duration,
}

impl Patience {
    /// Returns the timeouts for a peer that may be silent for this long.
    pub fn new(idle_timeout: Duration) -> Self {
        let idle_ms = u32::try_from(idle_timeout.as_millis()).unwrap_or(u32::MAX);
        let idle = Duration::from_millis(u64::from(idle_ms));
        let keep_alive = Duration::from_nanos(idle.as_nanos() / 3);
        Self {
            idle_ms,
            keep_alive,
            path_idle: idle.min(PATH_IDLE_MAX),
            path_keep_alive: keep_alive.min(PATH_KEEP_ALIVE_MAX),
        }
    }
}

const _: () = assert!(
    STREAM_WINDOW_BYTES < 2_048 * (MTU_BYTES_MIN as u32 - 100),
    "an unread stream stays below noq's bound on pieces, in the smallest packets less their headers"
);

const _: () = assert!(
    MTU_BYTES_MAX - MTU_BYTES_MIN >= MTU_GAIN_BYTES
        && (MTU_BYTES_MAX - MTU_BYTES_MIN) / 2 < MTU_GAIN_BYTES,
    "the search for the MTU is one probe at its upper bound"
);
