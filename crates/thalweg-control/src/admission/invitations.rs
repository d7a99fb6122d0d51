//! Tickets that were issued, and their remaining uses.
//!
//! *The idea.* An inviter stores a digest of each ticket's secret, never the secret: its memory or
//! file lets no reader redeem a ticket. A ticket admits as many nodes as it was made for. A node
//! that missed the answer asks again and gets the same serial, so that a repeated request does not
//! undo a revocation in between.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::limits::{INVITATION_USES_MAX, INVITATIONS_MAX};
use thalweg_base::time::{Duration, Rough};

use super::{Rights, UnixTime};

/// One ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// The rights granted to a node that redeems it.
    pub rights: Rights,
    /// When it expires.
    pub expiry: UnixTime,
    /// How many nodes may redeem it.
    pub uses: usize,
    /// How long the grant lasts after redemption; `NEVER` for no end.
    pub lasts: Duration,
    /// The nodes that have redeemed it, with the serials of their grants.
    pub taken: Vec<(NodeId, u64)>,
}

/// A redeemed ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redeemed {
    /// The rights to grant.
    pub rights: Rights,
    /// How long the grant lasts.
    pub lasts: Duration,
    /// The serial of the grant.
    pub serial: u64,
}

/// Why a ticket is not redeemed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRedeemed {
    /// Its secret is unknown.
    #[error("it knows no such ticket: another node issued it, or it was withdrawn")]
    Unknown,
    /// It has expired.
    #[error("the ticket expired {} ago by its clock", Rough(*seconds))]
    Late {
        /// How long ago, in s.
        seconds: u64,
    },
    /// It has no uses left.
    #[error("the ticket was for {uses} and has been used")]
    Used {
        /// How many nodes it was made for.
        uses: usize,
    },
    /// The maximum number of tickets is open.
    #[error("{INVITATIONS_MAX} tickets are open, the maximum: wait until some expire")]
    TooMany,
}

/// The open tickets of a node, by the digests of their secrets.
#[derive(Clone, Debug, Default)]
pub struct Invitations {
    open: BTreeMap<[u8; 32], Invitation>,
}

impl Invitations {
    /// Returns the open tickets with the digests of their secrets.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8; 32], &Invitation)> {
        self.open.iter()
    }

    /// Adds a ticket, with its uses clamped to the limit, and drops expired ones.
    pub fn insert(
        &mut self,
        digest: [u8; 32],
        mut invitation: Invitation,
        at: UnixTime,
    ) -> Result<(), NotRedeemed> {
        self.open.retain(|_, kept| at < kept.expiry);
        if self.open.len() >= INVITATIONS_MAX {
            return Err(NotRedeemed::TooMany);
        }
        invitation.uses = invitation.uses.clamp(1, INVITATION_USES_MAX);
        invitation.taken.truncate(invitation.uses);
        self.open.insert(digest, invitation);
        Ok(())
    }

    /// Redeems a ticket for a node; `serial` is for a new grant.
    pub fn redeem(
        &mut self,
        digest: &[u8; 32],
        node: NodeId,
        serial: u64,
        at: UnixTime,
    ) -> Result<Redeemed, NotRedeemed> {
        let invitation = self.open.get_mut(digest).ok_or(NotRedeemed::Unknown)?;
        if at >= invitation.expiry {
            let seconds = at.seconds() - invitation.expiry.seconds();
            return Err(NotRedeemed::Late { seconds });
        }
        let before = invitation.taken.iter().find(|(taker, _)| *taker == node);
        let serial = match before {
            Some((_, serial)) => *serial,
            None if invitation.taken.len() >= invitation.uses => {
                let uses = invitation.uses;
                return Err(NotRedeemed::Used { uses });
            }
            None => {
                invitation.taken.push((node, serial));
                serial
            }
        };
        Ok(Redeemed {
            rights: invitation.rights,
            lasts: invitation.lasts,
            serial,
        })
    }
}
