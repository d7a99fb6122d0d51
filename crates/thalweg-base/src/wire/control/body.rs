//! The content of envelopes: messages between the ends of a stream and the nodes of its plans.
//!
//! *The idea.* A kind, the stream, and the rest; these bytes are signed as they are.
//!
//! *What it does not do.* It does not say which route an envelope takes ([`super::Routed`]).
//!
//! *Sources.* docs/reference/protocol.md §4.2.

use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZeroU8;

use super::epoch;
use crate::feed::Feed;
use crate::id::{Epoch, NodeId, Sequence, StreamId, StreamName};
use crate::limits::{ADAPTERS_PER_NODE_MAX, RENEWALS_MAX, SINKS_PER_STREAM_MAX, TEXT_BYTES_MAX};
use crate::needs::{Order, Reliability};
use crate::time::Duration;
use crate::trace::Traced;
use crate::wire::record::{flag, stream_name};
use crate::wire::{Reader, WireError, Write, trace, truncated};

/// Bytes of an adapter in a plan: `keep:15`, `pack:zstd`, with room for parameters.
const ADAPTER_BYTES_MAX: usize = 64;

/// Bytes of a sealed stream key: 32 of ephemeral key, 32 of key, 4 of key epoch, 16 of tag, with room.
const ENVELOPE_BYTES_MAX: usize = 256;

/// The longest interval between traced ADUs that can be requested, in milliseconds: an hour.
const EVERY_MS_MAX: u64 = 3_600_000;

/// The content of an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Requests the source's stream; repeated while the sink wants it, for a subscription has a lease.
    Subscribe {
        /// The stream.
        stream: StreamId,
        /// Whether the sink waited for the stream since before its announcement, and so starts with
        /// its first ADU.
        has_waited: bool,
    },
    /// Ends a subscription.
    Unsubscribe {
        /// The stream.
        stream: StreamId,
    },
    /// Installs the addressee's part of a plan; repeated until it is answered.
    Prepare(Prepare),
    /// Renews the leases of several parts on the addressee.
    Renew {
        /// The stream.
        stream: StreamId,
        /// The plans, [`RENEWALS_MAX`] at most.
        epochs: Vec<Epoch>,
    },
    /// Answers [`Body::Renew`] with the plans of which the sender has no part, if there are any.
    Lacking {
        /// The stream.
        stream: StreamId,
        /// The plans, [`RENEWALS_MAX`] at most.
        epochs: Vec<Epoch>,
    },
    /// The part is installed.
    Ready {
        /// The stream.
        stream: StreamId,
        /// The plan.
        epoch: Epoch,
    },
    /// The part cannot be installed, or the subscription cannot be served.
    Refuse {
        /// The stream.
        stream: StreamId,
        /// The plan; 0 for a subscription.
        epoch: Epoch,
        /// The reason, as a sentence for people.
        reason: String,
    },
    /// Removes the part of a plan.
    Release {
        /// The stream.
        stream: StreamId,
        /// The plan.
        epoch: Epoch,
    },
    /// Starts or stops copying ADUs that arrive on the addressee for the base to a plan that is
    /// grafted there, or stops from a sequence on.
    Cast {
        /// The stream.
        stream: StreamId,
        /// The plan.
        epoch: Epoch,
        /// Which ADUs are copied.
        feed: Feed,
    },
    /// The sender leaves: plans of the stream are to avoid it, and it is no longer a sink.
    Leave {
        /// The stream.
        stream: StreamId,
    },
    /// No missing ADU below a sequence will arrive any more: the source has dropped them.
    GivenUp {
        /// The stream.
        stream: StreamId,
        /// The first sequence that may still arrive.
        below: Sequence,
    },
    /// Confirms that copies are made from now on.
    Casting {
        /// The stream.
        stream: StreamId,
        /// The plan.
        epoch: Epoch,
    },
    /// Requests traces of the stream's ADUs; repeated while they are wanted.
    Trace {
        /// The stream.
        stream: StreamId,
        /// The interval between traced ADUs.
        every: Duration,
    },
    /// The source's answer to [`Body::Trace`].
    Tracing {
        /// The stream.
        stream: StreamId,
        /// The number of sinks of the stream.
        sinks: u32,
        /// Why it is not traced; empty if it is.
        reason: String,
    },
    /// The trace of one ADU: from its sink to the source, and from there to the node that requested it.
    Traced(Traced),
}

/// One node's part of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The stream's name; with the sender's key it determines the id.
    pub name: StreamName,
    /// The stream.
    pub stream: StreamId,
    /// The epoch of the plan.
    pub epoch: Epoch,
    /// The node that ADUs come from.
    pub previous: NodeId,
    /// The node that ADUs go to; `None` at the sink.
    pub next: Option<NodeId>,
    /// The adapters of this node, in order.
    pub adapters: Vec<String>,
    /// The treatment of lost and late ADUs.
    pub reliability: Reliability,
    /// The order in which ADUs leave.
    pub order: Order,
    /// Its weight on a full link.
    pub weight: NonZeroU8,
    /// Whether ADUs may arrive here unsealed; others are dropped and counted.
    pub plaintext: bool,
    /// For a plan grafted here: the base plan, of which it copies what arrives here; then
    /// `previous` is this node.
    pub base: Option<Epoch>,
    /// The stream's key, sealed for this node, if it has to seal or open payloads.
    pub envelope: Option<Vec<u8>>,
}

/// Returns the body in the form that is signed.
pub fn encode_body(body: &Body) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    let (kind, stream) = kind(body);
    out.push(kind);
    out.extend_from_slice(&stream.0.to_be_bytes());
    encode_rest(body, &mut out);
    out
}

/// Returns the number of a body's kind, and its stream.
const fn kind(body: &Body) -> (u8, &StreamId) {
    match body {
        Body::Subscribe {
            stream,
            has_waited: false,
        } => (0, stream),
        Body::Subscribe { stream, .. } => (17, stream),
        Body::Unsubscribe { stream } => (1, stream),
        Body::Prepare(prepare) if prepare.base.is_some() => (9, &prepare.stream),
        Body::Prepare(prepare) => (2, &prepare.stream),
        Body::Ready { stream, .. } => (3, stream),
        Body::Refuse { stream, .. } => (4, stream),
        Body::Release { stream, .. } => (5, stream),
        Body::Cast {
            stream,
            feed: Feed::Replay,
            ..
        } => (10, stream),
        Body::Cast {
            stream,
            feed: Feed::Until(_),
            ..
        } => (16, stream),
        Body::Cast { stream, .. } => (6, stream),
        Body::Casting { stream, .. } => (7, stream),
        Body::Leave { stream } => (8, stream),
        Body::Trace { stream, .. } => (11, stream),
        Body::Tracing { stream, .. } => (12, stream),
        Body::Traced(traced) => (13, &traced.stream),
        Body::Renew { stream, .. } => (14, stream),
        Body::Lacking { stream, .. } => (15, stream),
        Body::GivenUp { stream, .. } => (18, stream),
    }
}

/// Appends what follows the stream.
fn encode_rest(body: &Body, out: &mut Vec<u8>) {
    match body {
        Body::Subscribe { .. } | Body::Unsubscribe { .. } | Body::Leave { .. } => {}
        Body::Ready { epoch, .. } | Body::Release { epoch, .. } | Body::Casting { epoch, .. } => {
            out.varint(u64::from(epoch.0));
        }
        Body::Renew { epochs, .. } | Body::Lacking { epochs, .. } => {
            assert!(epochs.len() <= RENEWALS_MAX, "plans above the limit");
            out.varint(epochs.len() as u64);
            for epoch in epochs {
                out.varint(u64::from(epoch.0));
            }
        }
        Body::Cast { epoch, feed, .. } => {
            out.varint(u64::from(epoch.0));
            match feed {
                Feed::Off => out.push(0),
                Feed::Live => out.push(1),
                Feed::Replay => {}
                Feed::Until(sequence) => out.varint(sequence.0),
            }
        }
        Body::GivenUp { below, .. } => out.varint(below.0),
        Body::Trace { every, .. } => out.varint(every.as_millis().min(EVERY_MS_MAX)),
        Body::Tracing { sinks, reason, .. } => {
            out.varint(u64::from(*sinks));
            out.blob(truncated(reason).as_bytes());
        }
        Body::Traced(traced) => trace::encode_traced(traced, out),
        Body::Refuse { epoch, reason, .. } => {
            out.varint(u64::from(epoch.0));
            out.blob(truncated(reason).as_bytes());
        }
        Body::Prepare(prepare) => {
            // A grafted plan has a kind of its own, which writes the base first.
            let base = prepare.base.iter();
            base.for_each(|base| out.varint(u64::from(base.0)));
            encode_prepare(prepare, out);
        }
    }
}

fn encode_prepare(prepare: &Prepare, out: &mut Vec<u8>) {
    assert!(
        prepare.adapters.len() <= ADAPTERS_PER_NODE_MAX,
        "adapters above the limit"
    );
    out.varint(u64::from(prepare.epoch.0));
    out.blob(prepare.name.as_str().as_bytes());
    out.extend_from_slice(&prepare.previous.0);
    out.push(u8::from(prepare.next.is_some()));
    prepare
        .next
        .iter()
        .for_each(|next| out.extend_from_slice(&next.0));
    out.varint(prepare.adapters.len() as u64);
    prepare
        .adapters
        .iter()
        .for_each(|adapter| out.blob(adapter.as_bytes()));
    out.push(match prepare.reliability {
        Reliability::None => 0,
        Reliability::UntilDeadline => 1,
        Reliability::Full => 2,
        Reliability::Repaired => 3,
    });
    out.push(match prepare.order {
        Order::Importance => 0,
        Order::Sequence => 1,
    });
    out.push(prepare.weight.get());
    out.push(u8::from(prepare.plaintext));
    out.blob(prepare.envelope.as_deref().unwrap_or_default());
}

fn cast(reader: &mut Reader<'_>, kind: u8, stream: StreamId) -> Result<Body, WireError> {
    let epoch = epoch(reader)?;
    let feed = match kind {
        10 => Feed::Replay,
        16 => Feed::Until(Sequence(reader.varint("sequence")?)),
        _ if flag(reader, "on")? => Feed::Live,
        _ => Feed::Off,
    };
    Ok(Body::Cast {
        stream,
        epoch,
        feed,
    })
}

/// Reads the body of an envelope.
pub fn decode_body(bytes: &[u8]) -> Result<Body, WireError> {
    let mut reader = Reader::new(bytes);
    let kind = reader.byte("kind")?;
    let stream = StreamId(u64::from_be_bytes(reader.array("stream")?));
    let body = match kind {
        0 | 17 => Body::Subscribe {
            stream,
            has_waited: kind == 17,
        },
        1 => Body::Unsubscribe { stream },
        2 => Body::Prepare(prepare(&mut reader, stream)?),
        3 => Body::Ready {
            stream,
            epoch: epoch(&mut reader)?,
        },
        4 => Body::Refuse {
            stream,
            epoch: epoch(&mut reader)?,
            reason: reader.text("reason", TEXT_BYTES_MAX)?,
        },
        5 => Body::Release {
            stream,
            epoch: epoch(&mut reader)?,
        },
        6 | 10 | 16 => cast(&mut reader, kind, stream)?,
        7 => Body::Casting {
            stream,
            epoch: epoch(&mut reader)?,
        },
        8 => Body::Leave { stream },
        9 => {
            let base = Some(epoch(&mut reader)?);
            let prepare = prepare(&mut reader, stream)?;
            Body::Prepare(Prepare { base, ..prepare })
        }
        11 => Body::Trace {
            stream,
            every: Duration::from_millis(reader.bounded("interval", EVERY_MS_MAX)?),
        },
        12 => Body::Tracing {
            stream,
            sinks: reader.bounded("sinks", SINKS_PER_STREAM_MAX as u64)? as u32,
            reason: reader.text("reason", TEXT_BYTES_MAX)?,
        },
        13 => Body::Traced(trace::decode_traced(&mut reader, stream)?),
        14 => Body::Renew {
            stream,
            epochs: epochs(&mut reader)?,
        },
        15 => Body::Lacking {
            stream,
            epochs: epochs(&mut reader)?,
        },
        18 => Body::GivenUp {
            stream,
            below: Sequence(reader.varint("sequence")?),
        },
        kind => return Err(WireError::Kind(u64::from(kind))),
    };
    reader.finish()?;
    Ok(body)
}

fn prepare(reader: &mut Reader<'_>, stream: StreamId) -> Result<Prepare, WireError> {
    Ok(Prepare {
        stream,
        epoch: epoch(reader)?,
        name: stream_name(reader)?,
        previous: NodeId(reader.array("previous")?),
        next: if flag(reader, "next")? {
            Some(NodeId(reader.array("next")?))
        } else {
            None
        },
        adapters: adapters(reader)?,
        reliability: match reader.byte("reliability")? {
            0 => Reliability::None,
            1 => Reliability::UntilDeadline,
            2 => Reliability::Full,
            3 => Reliability::Repaired,
            _ => return Err(WireError::Malformed("reliability")),
        },
        order: match reader.byte("order")? {
            0 => Order::Importance,
            1 => Order::Sequence,
            _ => return Err(WireError::Malformed("order")),
        },
        weight: NonZeroU8::new(reader.byte("weight")?).ok_or(WireError::Malformed("weight"))?,
        plaintext: flag(reader, "plaintext")?,
        base: None,
        envelope: match reader.blob("envelope", ENVELOPE_BYTES_MAX)? {
            [] => None,
            sealed => Some(sealed.to_vec()),
        },
    })
}

fn epochs(reader: &mut Reader<'_>) -> Result<Vec<Epoch>, WireError> {
    let count = reader.count("plans", RENEWALS_MAX)?;
    (0..count).map(|_| epoch(reader)).collect()
}

fn adapters(reader: &mut Reader<'_>) -> Result<Vec<String>, WireError> {
    let count = reader.count("adapters", ADAPTERS_PER_NODE_MAX)?;
    (0..count)
        .map(|_| reader.text("adapter", ADAPTER_BYTES_MAX))
        .collect()
}
