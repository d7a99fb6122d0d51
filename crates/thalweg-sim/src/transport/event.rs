//! What goes into a port and what comes out of it: names, sources, events, figures.

use bytes::{Bytes, BytesMut};
use thalweg_core::adu::Header;
use thalweg_core::hop::{BodyError, DownCause, OrderedId, Outcome};
use thalweg_core::time::{Duration, Instant};
use thalweg_core::trace::Trace;
use thalweg_core::units::{DataSize, Ratio};

/// IPv4 and UDP headers, which a line carries with each payload.
const HEADER_BYTES: u64 = 28;

/// Names an ADU that a port was given to send; never used twice by one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(pub u64);

/// Names an ADU that arrives at a port; never used twice by one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecvId(pub u64);

/// The payload of an ADU that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// All of it.
    Whole(Bytes),
    /// So many bytes, which come by [`Port::push_chunk`](super::Port::push_chunk); each is sent on at once (cut-through).
    Arriving(usize),
}

/// A UDP payload on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram(pub(super) BytesMut);

/// What a port has to say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PortEvent {
    /// Both ends have greeted each other: the link carries control frames and ADUs.
    Up,
    /// The link is gone, or was not reached. Everything in flight has had its `Outcome` or `Failed` before this.
    Down {
        /// Why.
        cause: DownCause,
    },
    /// A control frame arrived, whole; those of one link come in order.
    Control(Bytes),
    /// An ADU's header arrived; `payload_bytes` follow in [`PortEvent::Chunk`]s, then [`PortEvent::End`].
    Adu {
        /// Its name here.
        recv: RecvId,
        /// What every node may read; the deadline is on this node's clock.
        header: Header,
        /// How long the payload is.
        payload_bytes: usize,
    },
    /// What the nodes before say of an ADU, right behind its [`PortEvent::Adu`], if it is traced.
    Stamps {
        /// Whose.
        recv: RecvId,
        /// What they say.
        trace: Box<Trace>,
    },
    /// A part of a payload, in order; never empty.
    Chunk {
        /// Whose.
        recv: RecvId,
        /// The next bytes.
        bytes: Bytes,
    },
    /// The payload is whole.
    End {
        /// Whose.
        recv: RecvId,
    },
    /// The rest of the payload does not come.
    Failed {
        /// Whose.
        recv: RecvId,
        /// Why.
        cause: BodyError,
    },
    /// What became of an ADU that was given to the port; exactly one for each [`SendId`].
    Outcome {
        /// Which.
        send: SendId,
        /// What.
        outcome: Outcome,
    },
    /// An ordered sequence that was finished: `Acknowledged` if the peer has all of it.
    OrderedEnded {
        /// Which.
        id: OrderedId,
        /// What became of it.
        outcome: Outcome,
    },
    /// The peer has ended its control stream: it sends nothing more.
    PeerDone,
}

/// Measurements of a port's present link; all zero if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PortStats {
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The shortest round trip in the last ten to twenty seconds; zero if none was measured.
    pub rtt_min: Duration,
    /// That of the last packet that was acknowledged, with what its acknowledgement was held back; zero if there was none.
    pub rtt_latest: Duration,
    /// The share of packets found lost since the link is up.
    pub loss: Ratio,
    /// How much may be unacknowledged.
    pub congestion_window: DataSize,
    /// Packets sent and found lost.
    pub packets_sent: u64,
    /// See `packets_sent`.
    pub packets_lost: u64,
    /// UDP payload bytes sent since the link is up.
    pub sent: DataSize,
    /// UDP payload bytes received since the link is up.
    pub received: DataSize,
    /// ADUs on their way by stream, and those of ordered sequences not yet handed to QUIC.
    pub in_flight: u32,
    /// Bytes in packets that are neither acknowledged nor lost.
    pub bytes_in_flight: DataSize,
    /// When the last acknowledgement came, or the first of those bytes was sent if that was later; none if that is not known.
    pub waiting_since: Option<Instant>,
    /// Payload and header bytes that wait in the port because QUIC takes no more; what waits in QUIC is not in it.
    pub queued: DataSize,
    /// Whether the path takes nothing more now; what is queued then waits for it, and not for what has yet to arrive.
    pub is_full: bool,
    /// How often the peer has acknowledged anything.
    pub heard: u64,
}

/// What a port has counted over all its links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortCounters {
    /// ADUs by what became of them, in the order of [`Outcome::NAMES`].
    pub outcomes: [u64; Outcome::NAMES.len()],
    /// ADUs whose header arrived.
    pub received: u64,
    /// ADUs that their sender gave up before their header was here.
    pub abandoned: u64,
    /// Streams and datagrams that were not what docs/protocol.md says.
    pub malformed: u64,
    /// Streams of a kind that this version does not know.
    pub unknown_kinds: u64,
}

impl Datagram {
    /// Returns what it weighs on a line: its payload, and IPv4 and UDP headers.
    pub fn line_size(&self) -> DataSize {
        DataSize::from_bytes(self.0.len() as u64 + HEADER_BYTES)
    }

    /// Returns its UDP payload.
    pub fn payload(&self) -> &[u8] {
        &self.0
    }
}
