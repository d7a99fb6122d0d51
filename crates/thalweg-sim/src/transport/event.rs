//! A port's inputs and outputs: ids, payload sources, events, statistics.

use bytes::{Bytes, BytesMut};
use thalweg_base::adu::Header;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::trace::Trace;
use thalweg_base::units::{DataSize, Ratio};
use thalweg_link::hop::{BodyError, DownCause, OrderedId, Outcome};

/// Bytes of the IPv4 and UDP headers that a line carries with each payload.
const HEADER_BYTES: u64 = 28;

/// Identifies an ADU that a port was given to send; unique per port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(pub u64);

/// Identifies an ADU that arrives at a port; unique per port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecvId(pub u64);

/// The payload of an ADU to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// All of it.
    Whole(Bytes),
    /// This many bytes, given through [`Port::push_chunk`](super::Port::push_chunk); each chunk is sent
    /// at once (cut-through).
    Arriving(usize),
}

/// A UDP payload in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram(pub(super) BytesMut);

/// A port's event.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PortEvent {
    /// Both ends have greeted each other: the link carries control frames and ADUs.
    Up,
    /// The link is gone, or was not reached. Everything in flight has had its `Outcome` or `Failed`
    /// before this.
    Down {
        /// Why.
        cause: DownCause,
    },
    /// A whole control frame arrived; those of one link come in order.
    Control(Bytes),
    /// An ADU's header arrived; `payload_bytes` follow in [`PortEvent::Chunk`]s, then [`PortEvent::End`].
    Adu {
        /// Its id here.
        recv: RecvId,
        /// The public header; the deadline is on this node's clock.
        header: Header,
        /// The payload's length in bytes.
        payload_bytes: usize,
    },
    /// The stamps of a traced ADU from the nodes before, directly after its [`PortEvent::Adu`].
    Stamps {
        /// The ADU.
        recv: RecvId,
        /// The stamps.
        trace: Box<Trace>,
    },
    /// A part of a payload, in order; never empty.
    Chunk {
        /// The ADU.
        recv: RecvId,
        /// The next bytes.
        bytes: Bytes,
    },
    /// The payload is whole.
    End {
        /// The ADU.
        recv: RecvId,
    },
    /// The rest of the payload does not come.
    Failed {
        /// The ADU.
        recv: RecvId,
        /// Why.
        cause: BodyError,
    },
    /// The outcome of an ADU that was given to the port; exactly one for each [`SendId`].
    Outcome {
        /// The ADU.
        send: SendId,
        /// The outcome.
        outcome: Outcome,
    },
    /// An ordered sequence has ended: `Acknowledged` if the peer has all of it.
    OrderedEnded {
        /// The sequence.
        id: OrderedId,
        /// The outcome.
        outcome: Outcome,
    },
    /// The peer has ended its control stream: it sends nothing more.
    PeerDone,
}

/// Statistics of a port's current link; all zero without a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PortStats {
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The minimum round-trip time in the last ten to twenty seconds; zero if none was measured.
    pub rtt_min: Duration,
    /// The round-trip time of the last acknowledged packet, including the acknowledgement's delay; zero
    /// if none.
    pub rtt_latest: Duration,
    /// The share of packets declared lost since the link came up.
    pub loss: Ratio,
    /// The congestion window.
    pub congestion_window: DataSize,
    /// Packets sent.
    pub packets_sent: u64,
    /// Packets declared lost.
    pub packets_lost: u64,
    /// UDP payload bytes sent since the link came up.
    pub sent: DataSize,
    /// UDP payload bytes received since the link came up.
    pub received: DataSize,
    /// ADUs in flight by stream, and those of ordered sequences not yet handed to QUIC.
    pub in_flight: u32,
    /// Bytes in packets that are neither acknowledged nor lost.
    pub bytes_in_flight: DataSize,
    /// When the last acknowledgement came, or the first of those bytes was sent if later; `None` if unknown.
    pub waiting_since: Option<Instant>,
    /// Payload and header bytes queued in the port because QUIC takes no more; bytes queued in QUIC do
    /// not count.
    pub queued: DataSize,
    /// Whether the path is full, so that queued bytes wait for it rather than for payload that has yet
    /// to arrive.
    pub is_full: bool,
    /// Number of acknowledgements received from the peer.
    pub heard: u64,
}

/// A port's counters over all its links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortCounters {
    /// ADUs by outcome, in the order of [`Outcome::NAMES`].
    pub outcomes: [u64; Outcome::NAMES.len()],
    /// ADUs with a header that arrived.
    pub received: u64,
    /// ADUs that their sender gave up before their header was here.
    pub abandoned: u64,
    /// Streams and datagrams that violate docs/reference/protocol.md.
    pub malformed: u64,
    /// Streams of a kind that this version does not know.
    pub unknown_kinds: u64,
}

impl Datagram {
    /// Returns its size on a line: the payload, and IPv4 and UDP headers.
    pub fn line_size(&self) -> DataSize {
        DataSize::from_bytes(self.0.len() as u64 + HEADER_BYTES)
    }

    /// Returns its UDP payload.
    pub fn payload(&self) -> &[u8] {
        &self.0
    }
}
