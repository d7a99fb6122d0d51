//! One node's part of one plan: which ADUs it admits, how it treats them, and how they go on.
//!
//! *The idea.* An ADU names its stream and its plan, and that pair selects a [`Route`]. A route
//! only applies the plan's decisions. The chain's needs determine the way of an ADU: with a chain
//! that reads only headers, the payload is forwarded while it arrives; a chain that changes
//! payloads gathers the payload first.
//!
//! ```text
//! from a link     admit(from, header) ─► Refusal | Way ─┐
//! from a producer way(header) ─► DropCause | Way ───────┤
//!                                      Through ─────────┼──────────────► next hop: carriage, order
//! Gather ─► carry(lift, packet) ──┘ or, at the sink, a mailbox: waits
//! ```
//!
//! A route is immutable, so it is shared without a lock; the [`Lift`] beside it, if the chain needs
//! one, is guarded by the driver.
//!
//! *What it does not do.* It sends nothing, queues nothing and counts nothing: the node's data path
//! does that with sockets, the simulator's with events.
//!
//! *Sources.* design.md, "Data path"; spec PA-29, PA-32, PA-33.

#[cfg(test)]
mod tests;
mod window;

use core::num::NonZeroU8;

use bytes::Bytes;
use thalweg_base::adu::{Adu, Flags, Header};
use thalweg_base::event::{DropCause, DropCounts};
use thalweg_base::id::NodeId;
use thalweg_base::needs::{Order, Reliability};
use thalweg_base::part::{Installation, Secrets};
use thalweg_base::time::Instant;

use crate::keys::{KeyEpoch, KeyRing, SealInstance, StreamKey};
use crate::lift::{Lift, Materials, SpecError};
use crate::module::Direction;
use crate::packet::{Packet, Pool};

pub use window::{
    LIVE_WINDOW_ADUS_MAX, LIVE_WINDOW_BYTES, WINDOW_ADUS_MAX, WINDOW_BYTES, has_room, window,
};

/// Maximum payload sent as a datagram: it surely fits one, as QUIC's smallest packet less its
/// headers and ours.
pub const DATAGRAM_BYTES_MAX: usize = 1_000;

/// One node's treatment of the ADUs of one plan, and where they go.
#[derive(Clone, Debug)]
pub struct Route {
    installation: Installation,
    chain: Chain,
}

/// The chain, by the part of an ADU that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Nothing.
    Pass,
    /// Only the header: layers from this number on are dropped.
    Keep(u8),
    /// The payload.
    Lift,
}

/// The way of an ADU through this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Unchanged: its payload may be forwarded while it arrives.
    Through,
    /// Through the lift, which needs the whole payload.
    Gather,
}

/// Why an ADU of a neighbour is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The plan does not lead from that neighbour to here, so the ADU is not this route's.
    Stranger,
    /// It is dropped here.
    Dropped(DropCause),
}

/// How an ADU is sent over the next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// In order, each one acknowledged and retransmitted until it arrives.
    Ordered,
    /// Once, in one packet, without retransmission.
    Datagram,
    /// On its own stream, retransmitted until its deadline.
    Stream,
}

/// The output of a lift for one packet.
#[derive(Debug)]
pub struct Carried {
    /// The packets that go on, in order.
    pub packets: Vec<Packet>,
    /// The packets that were dropped, by cause.
    pub dropped: DropCounts,
}

impl Route {
    /// Returns the route of an installation, with its lift if its chain needs one.
    ///
    /// Fails   if an adapter is unknown or a key is missing
    pub fn build(
        installation: Installation,
        secrets: Secrets,
        pool: Pool,
    ) -> Result<(Self, Option<Lift>), SpecError> {
        let chain = Chain::of(&installation.adapters);
        let lift = match chain {
            Chain::Pass | Chain::Keep(_) => None,
            Chain::Lift => {
                let mut materials = materials(&installation, secrets);
                let words = installation.adapters.iter().map(String::as_str);
                Some(Lift::from_spec(words, &mut materials, pool)?)
            }
        };
        let route = Self {
            installation,
            chain,
        };
        Ok((route, lift))
    }

    /// Returns the plan's part for this node.
    pub const fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Returns the chain.
    pub const fn chain(&self) -> Chain {
        self.chain
    }

    /// Decides on an ADU from a neighbour.
    pub fn admit(&self, from: NodeId, header: &Header) -> Result<Way, Refusal> {
        if self.installation.previous != from {
            return Err(Refusal::Stranger);
        }
        if !self.installation.plaintext && !header.flags.contains(Flags::SEALED) {
            return Err(Refusal::Dropped(DropCause::Exposed));
        }
        self.way(header).map_err(Refusal::Dropped)
    }

    /// Decides on an ADU from a neighbour that is also copied for branches here: it is gathered, even
    /// if this plan filters it out, since a branch may want it.
    pub fn admit_copied(
        &self,
        from: NodeId,
        header: &Header,
        is_copied: bool,
    ) -> Result<Way, Refusal> {
        match self.admit(from, header) {
            Ok(_) | Err(Refusal::Dropped(DropCause::Filtered)) if is_copied => Ok(Way::Gather),
            decided => decided,
        }
    }

    /// Decides on an ADU of a producer on this node, or of an admitted neighbour.
    pub const fn way(&self, header: &Header) -> Result<Way, DropCause> {
        self.chain.way(header)
    }

    /// Selects the carriage of an ADU over the next hop, by the stream's needs.
    pub const fn carriage(&self, header: &Header, payload_bytes: usize) -> Carriage {
        Carriage::of(self.installation.reliability, header, payload_bytes)
    }

    /// Returns the order of the stream's ADUs on a link.
    pub const fn order(&self) -> Order {
        self.installation.order
    }

    /// Returns the stream's share of a full link, relative to other streams.
    pub const fn weight(&self) -> NonZeroU8 {
        self.installation.weight
    }

    /// Returns whether an ADU is sent only when the one before it has gone; an ordered sequence
    /// gains nothing otherwise.
    pub const fn is_ordered(&self) -> bool {
        self.installation.reliability.is_ordered()
    }

    /// Returns whether sinks repair their losses, so that none waits for a slower one.
    pub fn is_repaired(&self) -> bool {
        self.installation.reliability == Reliability::Repaired
    }

    /// Returns until when an ADU waits for room in a mailbox before it is dropped.
    pub fn waits(&self, header: &Header) -> Instant {
        if self.is_ordered() {
            Instant::NEVER
        } else {
            header.deadline
        }
    }
}

impl Carriage {
    /// Selects the carriage of an ADU over the next hop, by what its stream asks for.
    pub const fn of(reliability: Reliability, header: &Header, payload_bytes: usize) -> Self {
        let is_end = header.flags.contains(Flags::END);
        match reliability {
            Reliability::Full | Reliability::Repaired => Self::Ordered,
            Reliability::None if !is_end && payload_bytes <= DATAGRAM_BYTES_MAX => Self::Datagram,
            Reliability::None | Reliability::UntilDeadline => Self::Stream,
        }
    }
}

impl Chain {
    /// Decides on an ADU of a producer on this node, or of an admitted neighbour.
    pub const fn way(self, header: &Header) -> Result<Way, DropCause> {
        match self {
            Self::Pass => Ok(Way::Through),
            Self::Keep(layers) if header.layer < layers => Ok(Way::Through),
            Self::Keep(_) => Err(DropCause::Filtered),
            Self::Lift => Ok(Way::Gather),
        }
    }

    /// Returns the chain of these adapters.
    pub fn of(adapters: &[String]) -> Self {
        let keep = |word: &str| word.strip_prefix("keep:")?.parse().ok();
        match adapters {
            [] => Self::Pass,
            [word] => keep(word).map_or(Self::Lift, Self::Keep),
            _ => Self::Lift,
        }
    }
}

fn materials(installation: &Installation, secrets: Secrets) -> Materials {
    let ring = |content: thalweg_base::part::KeyContent| {
        KeyRing::with_key(KeyEpoch(content.key_epoch), StreamKey::new(content.key))
    };
    Materials {
        stream: installation.stream,
        keys: secrets.key.map_or_else(KeyRing::new, ring),
        instance: SealInstance::from_random(secrets.instance),
    }
}

/// Passes a packet through a lift.
///
/// Cost    one list for the output
pub fn carry(lift: &mut Lift, packet: Packet, now: Instant) -> Carried {
    let before = drops(lift);
    let is_full = lift.handle_forward(packet, now).is_err();
    let packets = std::iter::from_fn(|| lift.poll_forward()).collect();
    let mut dropped = drops(lift);
    dropped.subtract(&before);
    if is_full {
        dropped.add(DropCause::Overflow);
    }
    Carried { packets, dropped }
}

/// Returns the drops of all modules of a lift in the forward direction.
fn drops(lift: &Lift) -> DropCounts {
    let mut all = DropCounts::ZERO;
    for (_, counters) in lift.counters(Direction::Forward) {
        all.merge(&counters.dropped);
    }
    all
}

/// Returns the ADU that ends a stream; its sequence number is the number of ADUs before it.
pub fn end(header: Header) -> Adu {
    end_marker(header, Flags::END)
}

/// Returns the ADU that tells subscribers that the producer left without ending the stream: nothing
/// follows.
pub fn cut_off(header: Header) -> Adu {
    end_marker(header, Flags::CUT_OFF)
}

fn end_marker(mut header: Header, flags: Flags) -> Adu {
    header.flags = flags;
    header.deadline = Instant::NEVER;
    Adu {
        header,
        payload: Bytes::new(),
    }
}
