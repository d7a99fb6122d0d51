//! The numbers of a link over TCP, in one table that both ends have.
//!
//! *The idea.* Windows are as over QUIC ([`crate::hop::settings`]), so that a stream behaves alike on both. They are part
//! of version 1 and not negotiated.
//!
//! *What it does not do.* It sets no socket option.

use crate::hop::settings;
use crate::outbox::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
use crate::time::Duration;

/// The version of the frames; a peer of another is refused in the greeting.
pub const VERSION: u8 = 1;

/// The longest encoded frame: a chunk, its stream, offset and length.
pub const FRAME_BYTES_MAX: usize = CHUNK_BYTES_MAX as usize + 32;

/// The largest datagram: what an ADU must fit to go by datagram over QUIC, so that the choice is the same.
pub const DATAGRAM_BYTES_MAX: usize = settings::MTU_BYTES_MIN as usize;

/// Datagrams that wait either way, each counted with [`DATAGRAM_OVERHEAD_BYTES`].
pub const DATAGRAM_BUFFER_BYTES: usize = settings::DATAGRAM_BUFFER_BYTES;

/// What a waiting datagram takes besides its bytes, about: so a flood of empty ones is bounded too.
pub const DATAGRAM_OVERHEAD_BYTES: usize = 64;

/// What one stream may have unread.
pub const STREAM_WINDOW_BYTES: u64 = settings::STREAM_WINDOW_BYTES as u64;

/// What all streams may have unread.
pub const SESSION_WINDOW_BYTES: u64 = settings::LINK_WINDOW_BYTES as u64;

/// What may be queued or unacknowledged at the sender.
pub const SEND_WINDOW_BYTES: u64 = settings::SEND_WINDOW_BYTES;

/// What one stream may have queued: one chunk of the largest size, for the outbox gives it chunk by chunk.
pub const QUEUE_BYTES_MAX: usize = CHUNK_BYTES_MAX as usize;

/// Streams that a peer may have open at once.
pub const STREAMS_MAX: u64 = settings::STREAMS_MAX as u64;

/// After so many bytes the receiver says what it has: two least chunks, as RFC 9000 §13.2.2 has two packets.
pub const TELL_BYTES: u64 = 2 * CHUNK_BYTES_MIN as u64;

/// After this long it says so anyway: well below the round trips of any line that blocks UDP.
pub const TELL_DELAY: Duration = Duration::from_millis(2);

/// The same for a sender that asks its kernel how much may go, and needs the word for no more than to let go of what it
/// keeps: a quarter of a millisecond's bytes at 2 Gbit/s.
pub const TELL_BYTES_SELDOM: u64 = 64 << 10;

/// The same; two or three pictures that are 33 ms apart share a word, and it is still well within [`STALL_MIN`].
pub const TELL_DELAY_SELDOM: Duration = Duration::from_millis(75);

/// What the peer asks for beyond is not done: it could not fill the windows.
pub const TELL_BYTES_MAX: u64 = SEND_WINDOW_BYTES / 4;

/// The same: a wait of this length would look like a stall to most.
pub const TELL_DELAY_MAX: Duration = Duration::from_millis(100);

/// Nothing more is handed to a kernel while the peer has not said for so long, and two round trips, that it has what it was given
/// before: the peer is too busy to read, and what waits where it does not look can neither be overtaken nor expire.
pub const UNREAD_MAX: Duration = Duration::from_millis(250);

/// How much queueing [`PaceA`](super::PaceA) allows itself beyond the least round trip: five wake-ups of a busy peer.
pub const TARGET: Duration = Duration::from_millis(10);

/// The least time without progress that counts as a stall: PL-13, and the least RTO of Linux.
pub const STALL_MIN: Duration = Duration::from_millis(200);

/// The same while the peer's kernel acknowledges what the peer says nothing of.
pub const STALL_ACKNOWLEDGED: Duration = Duration::from_secs(1);

/// The least time before a round trip was measured: the initial RTO of RFC 6298 §2.1.
pub const STALL_UNKNOWN: Duration = Duration::from_secs(1);

/// The least time between two fail-overs because of stalls: a new connection needs that long to leave slow start on any
/// line worth changing to; changing faster would be a way around congestion control.
pub const FAILOVER_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// The time between two after the fourth in a row.
pub const FAILOVER_INTERVAL_MAX: Duration = Duration::from_secs(16);

/// How long no connection is dialled to stand by after one was left whose peer was busy: as long as fail-overs are apart at most. A
/// handshake is much more work for a relay than a picture that it passes on, and who had no time for those has none for it.
pub const STANDBY_REST_MIN: Duration = FAILOVER_INTERVAL_MAX;

/// The same after the third in a row.
pub const STANDBY_REST_MAX: Duration = Duration::from_secs(128);

/// Connections that stand by, usually: one to take over, and the next is dialled when it has.
pub const STANDBYS: usize = 1;

/// How much longer than the active one a connection that stands by may be silent until it is asked whether it lives: no stream waits
/// for the answer, and a relay has as many that stand by as it has neighbours.
pub const STANDBY_PATIENCE: u64 = 2;

/// Carriers of a session that a peer may join: one active, some standing by, some of both on their way out.
pub const CARRIERS_MAX: usize = 8;

/// Stopped streams whose code is remembered for who still writes to them.
pub const STOPS_KEPT: usize = 1024;

const _: () = assert!(
    QUEUE_BYTES_MAX as u64 <= SEND_WINDOW_BYTES && SEND_WINDOW_BYTES <= SESSION_WINDOW_BYTES,
    "a queued chunk fits the send window, and that what the peer admits"
);
const _: () = assert!(
    TELL_BYTES_SELDOM <= TELL_BYTES_MAX
        && TELL_DELAY_SELDOM.as_nanos() <= TELL_DELAY_MAX.as_nanos()
        && 2 * TELL_DELAY_MAX.as_nanos() <= STALL_MIN.as_nanos()
        && STALL_MIN.as_nanos() < UNREAD_MAX.as_nanos(),
    "who is told seldom takes a peer that tells in time neither for stalled nor for busy"
);
const _: () = assert!(
    crate::limits::TEXT_BYTES_MAX + 32 <= FRAME_BYTES_MAX
        && DATAGRAM_BYTES_MAX + 32 <= FRAME_BYTES_MAX,
    "every frame is as long as the longest at most"
);
