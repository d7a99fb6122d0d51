//! One node's part of one plan, as the data path applies it: who may send here, what becomes of an ADU, how it goes on.
//!
//! *The idea.* An ADU names its stream and its plan, and that pair names a [`Route`]. Nothing is decided here that the
//! plan has not decided. What the chain needs of an ADU says how it travels: a chain that reads only headers lets the
//! payload pass while it still arrives, a chain that changes payloads gathers it first.
//!
//! ```text
//! from a link     admit(from, header) ─► Refusal | Way ─┐
//! from a producer way(header) ─► DropCause | Way ───────┤
//!                                      Through ─────────┼──────────────► next hop: carriage, order
//!                                      Gather ─► carry(lift, packet) ──┘ or, at the sink, a mailbox: waits
//! ```
//!
//! A route never changes, so it is shared without a lock; the [`Lift`] beside it, if the chain has one, is the
//! driver's to guard.
//!
//! *What it does not do.* It sends nothing, holds no queue and counts nothing: the node's data path does that with
//! sockets, the simulator's with events.
//!
//! *Sources.* design.md, "Data path"; spec PA-29, PA-32, PA-33.

#[cfg(test)]
mod tests;
mod window;

use core::num::NonZeroU8;

use bytes::Bytes;
use thalweg_core::adu::{Adu, Flags, Header};
use thalweg_core::control::{Installation, Secrets};
use thalweg_core::event::{DropCause, DropCounts};
use thalweg_core::id::NodeId;
use thalweg_core::needs::{Order, Reliability};
use thalweg_core::time::Instant;

use crate::keys::{KeyEpoch, KeyRing, SealInstance, StreamKey};
use crate::lift::{Lift, Materials, SpecError};
use crate::module::Direction;
use crate::packet::{Packet, Pool};

pub use window::{
    LIVE_WINDOW_ADUS_MAX, LIVE_WINDOW_BYTES, WINDOW_ADUS_MAX, WINDOW_BYTES, has_room, window,
};

/// A datagram is worth it only for what surely fits one: QUIC's smallest packet less its headers and ours.
pub const DATAGRAM_BYTES_MAX: usize = 1_000;

/// What happens on this node to the ADUs of a plan, and where they go.
#[derive(Clone, Debug)]
pub struct Route {
    installation: Installation,
    chain: Chain,
}

/// The chain, by what it needs of an ADU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Nothing.
    Pass,
    /// Only the header: layers from this one on go no further.
    Keep(u8),
    /// The payload.
    Lift,
}

/// How an ADU goes through this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it is: its payload may pass while it still arrives.
    Through,
    /// By way of the lift: its payload is needed whole.
    Gather,
}

/// Why an ADU is not taken from a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The plan does not lead from there to here: the ADU is not one of this route's.
    Stranger,
    /// It ends here.
    Dropped(DropCause),
}

/// How an ADU travels over the next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carriage {
    /// Behind the one before it, each acknowledged, all sent again until they arrive.
    Ordered,
    /// Once, in one packet.
    Datagram,
    /// On its own, sent again until its deadline.
    Stream,
}

/// What came out of a lift for one packet.
#[derive(Debug)]
pub struct Carried {
    /// What goes on, in order.
    pub packets: Vec<Packet>,
    /// What does not.
    pub dropped: DropCounts,
}

impl Route {
    /// Returns the route of a part, with its lift if its chain has one.
    ///
    /// Fails   an adapter that nobody knows, or a key that is missing
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

    /// Returns the part of the plan that this is.
    pub const fn installation(&self) -> &Installation {
        &self.installation
    }

    /// Returns what the chain needs of an ADU.
    pub const fn chain(&self) -> Chain {
        self.chain
    }

    /// Decides on an ADU that a neighbour sends.
    pub fn admit(&self, from: NodeId, header: &Header) -> Result<Way, Refusal> {
        if self.installation.previous != from {
            return Err(Refusal::Stranger);
        }
        if !self.installation.plaintext && !header.flags.contains(Flags::SEALED) {
            return Err(Refusal::Dropped(DropCause::Exposed));
        }
        self.way(header).map_err(Refusal::Dropped)
    }

    /// Decides on an ADU of a producer on this node, or of an admitted neighbour.
    pub const fn way(&self, header: &Header) -> Result<Way, DropCause> {
        match self.chain {
            Chain::Pass => Ok(Way::Through),
            Chain::Keep(layers) if header.layer < layers => Ok(Way::Through),
            Chain::Keep(_) => Err(DropCause::Filtered),
            Chain::Lift => Ok(Way::Gather),
        }
    }

    /// Chooses how an ADU travels over the next hop, from what the stream needs.
    pub const fn carriage(&self, header: &Header, payload_bytes: usize) -> Carriage {
        let is_end = header.flags.contains(Flags::END);
        match self.installation.reliability {
            Reliability::Full | Reliability::Repaired => Carriage::Ordered,
            Reliability::None if !is_end && payload_bytes <= DATAGRAM_BYTES_MAX => {
                Carriage::Datagram
            }
            Reliability::None | Reliability::UntilDeadline => Carriage::Stream,
        }
    }

    /// Returns in which order the ADUs of the stream go over a link.
    pub const fn order(&self) -> Order {
        self.installation.order
    }

    /// Returns how much of a full link the stream gets beside others.
    pub const fn weight(&self) -> NonZeroU8 {
        self.installation.weight
    }

    /// Returns whether an ADU is sent only when the one before it has gone: an ordered sequence gains nothing otherwise.
    pub const fn is_ordered(&self) -> bool {
        self.installation.reliability.is_ordered()
    }

    /// Returns whether sinks have repaired what they miss, so that none need wait for one that is slower.
    pub fn is_repaired(&self) -> bool {
        self.installation.reliability == Reliability::Repaired
    }

    /// Returns until when an ADU waits for room in a mailbox, rather than be dropped.
    pub fn waits(&self, header: &Header) -> Instant {
        if self.is_ordered() {
            Instant::NEVER
        } else {
            header.deadline
        }
    }
}

impl Chain {
    /// Returns what a chain of these adapters needs of an ADU.
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
    let ring = |content: thalweg_core::control::KeyContent| {
        KeyRing::with_key(KeyEpoch(content.key_epoch), StreamKey::new(content.key))
    };
    Materials {
        stream: installation.stream,
        keys: secrets.key.map_or_else(KeyRing::new, ring),
        instance: SealInstance::from_random(secrets.instance),
    }
}

/// Carries a packet through a lift.
///
/// Cost    one list for what comes out
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

/// Returns what all modules of a lift have dropped on the way forward.
fn drops(lift: &Lift) -> DropCounts {
    let mut all = DropCounts::ZERO;
    for (_, counters) in lift.counters(Direction::Forward) {
        all.merge(&counters.dropped);
    }
    all
}

/// Returns an ADU that says that a stream has ended; its sequence is the number of those before it.
pub fn end(header: Header) -> Adu {
    last(header, Flags::END)
}

/// Returns what tells the subscribers that the producer of a stream went away without ending it: nothing
/// follows.
pub fn cut_off(header: Header) -> Adu {
    last(header, Flags::CUT_OFF)
}

fn last(mut header: Header, flags: Flags) -> Adu {
    header.flags = flags;
    header.deadline = Instant::NEVER;
    Adu {
        header,
        payload: Bytes::new(),
    }
}
