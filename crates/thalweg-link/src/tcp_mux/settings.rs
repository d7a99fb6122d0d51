//! The settings of a link over TCP, in one table that both ends have.
//!
//! *The idea.* Windows are as over QUIC ([`crate::hop::settings`]), so that a stream behaves alike
//! on both. They are part of version 1 and not negotiated.
//!
//! *What it does not do.* It sets no socket option.

use thalweg_base::time::Duration;

use crate::hop::settings;
use crate::outbox::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};

/// The version of the frames; the greeting refuses a peer with another version.
pub const VERSION: u8 = 1;

/// The longest encoded frame: a chunk, with its stream, offset and length.
pub const FRAME_BYTES_MAX: usize = CHUNK_BYTES_MAX as usize + 32;

/// The largest datagram: the same as over QUIC, so that an ADU's carriage is the same.
pub const DATAGRAM_BYTES_MAX: usize = settings::MTU_BYTES_MIN as usize;

/// Datagrams queued in either direction, each counted with [`DATAGRAM_OVERHEAD_BYTES`].
pub const DATAGRAM_BUFFER_BYTES: usize = settings::DATAGRAM_BUFFER_BYTES;

/// Memory that a queued datagram takes besides its bytes, about: bounds a flood of empty datagrams too.
pub const DATAGRAM_OVERHEAD_BYTES: usize = 64;

/// Receive window of one stream.
pub const STREAM_WINDOW_BYTES: u64 = settings::STREAM_WINDOW_BYTES as u64;

/// Receive window of all streams together.
pub const SESSION_WINDOW_BYTES: u64 = settings::LINK_WINDOW_BYTES as u64;

/// Bytes that may be queued or unacknowledged at the sender.
pub const SEND_WINDOW_BYTES: u64 = settings::SEND_WINDOW_BYTES;

/// Bytes that one stream may have queued: one chunk of the largest size, for the outbox hands over
/// chunk by chunk.
pub const QUEUE_BYTES_MAX: usize = CHUNK_BYTES_MAX as usize;

/// Streams that a peer may have open at once.
pub const STREAMS_MAX: u64 = settings::STREAMS_MAX as u64;

/// Bytes after which the receiver reports its position: two smallest chunks, as two packets in RFC
/// 9000 §13.2.2.
pub const REPORT_BYTES: u64 = 2 * CHUNK_BYTES_MIN as u64;

/// Delay after which it reports anyway: well below the round trips of any line that blocks UDP.
pub const REPORT_DELAY: Duration = Duration::from_millis(2);

/// The same for a sender that asks its kernel for credit, and needs reports only to release its
/// copies: a quarter of a millisecond at 2 Gbit/s.
pub const RARE_REPORT_BYTES: u64 = 64 << 10;

/// The same: two or three video frames 33 ms apart share a report, and it is still well within
/// [`STALL_MIN`].
pub const RARE_REPORT_DELAY: Duration = Duration::from_millis(75);

/// Upper bound of what the peer may request: reports that are rarer could not fill the windows.
pub const REPORT_BYTES_MAX: u64 = SEND_WINDOW_BYTES / 4;

/// The same: most stall detectors would take a longer delay for a stall.
pub const REPORT_DELAY_MAX: Duration = Duration::from_millis(100);

/// The kernel gets no more bytes while the peer has not reported earlier ones for this long and two
/// round trips. Such a peer is too busy to read, and bytes in its socket can be neither overtaken
/// nor expired.
pub const UNREAD_MAX: Duration = Duration::from_millis(250);

/// Queueing delay that [`PaceA`](super::PaceA) allows itself beyond the least round trip: five
/// wake-ups of a busy peer.
pub const TARGET: Duration = Duration::from_millis(10);

/// Minimum time without progress that counts as a stall: PL-13, and Linux's minimum RTO.
pub const STALL_MIN: Duration = Duration::from_millis(200);

/// The same while the peer's kernel acknowledges bytes that the peer itself does not report.
pub const STALL_ACKNOWLEDGED: Duration = Duration::from_secs(1);

/// The same before the first round trip sample: the initial RTO of RFC 6298 §2.1.
pub const STALL_UNKNOWN: Duration = Duration::from_secs(1);

/// Minimum time between two fail-overs for stalls. A new connection needs that long to leave slow
/// start on any line worth changing to, and changing faster would bypass congestion control.
pub const FAILOVER_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The same after the fourth fail-over in a row.
pub const FAILOVER_INTERVAL_MAX: Duration = Duration::from_secs(16);

/// How long no standby is dialled after a fail-over from a busy peer: as long as fail-overs are
/// apart at most. A handshake is much more work for a relay than forwarding a video frame, and a
/// busy relay has no time for it.
pub const STANDBY_REST_MIN: Duration = FAILOVER_INTERVAL_MAX;

/// The same after the third in a row.
pub const STANDBY_REST_MAX: Duration = Duration::from_secs(128);

/// Usual number of standby connections: one to take over; the next is dialled when it has.
pub const STANDBYS: usize = 1;

/// Keep-alive interval of a standby over that of the active connection: no stream waits for the
/// answer, and a relay has as many standbys as neighbours.
pub const STANDBY_PATIENCE: u64 = 2;

/// Carriers that a session may have: one active, some standbys, and some of both on their way out.
pub const CARRIERS_MAX: usize = 8;

/// Stopped streams for which the code is kept, for a writer that still writes to them.
pub const STOPS_KEPT: usize = 1024;

const _: () = assert!(
    QUEUE_BYTES_MAX as u64 <= SEND_WINDOW_BYTES && SEND_WINDOW_BYTES <= SESSION_WINDOW_BYTES,
    "a queued chunk fits the send window, which fits what the peer admits"
);
const _: () = assert!(
    RARE_REPORT_BYTES <= REPORT_BYTES_MAX
        && RARE_REPORT_DELAY.as_nanos() <= REPORT_DELAY_MAX.as_nanos()
        && 2 * REPORT_DELAY_MAX.as_nanos() <= STALL_MIN.as_nanos()
        && STALL_MIN.as_nanos() < UNREAD_MAX.as_nanos(),
    "a peer with rare reports, all in time, looks neither stalled nor busy"
);
const _: () = assert!(
    thalweg_base::limits::TEXT_BYTES_MAX + 32 <= FRAME_BYTES_MAX
        && DATAGRAM_BYTES_MAX + 32 <= FRAME_BYTES_MAX,
    "no frame exceeds the longest"
);
