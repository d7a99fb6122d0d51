//! Tickets that were given out, and what is left of them.
//!
//! *The idea.* An inviter keeps a digest of each ticket's secret, never the secret: who reads its memory or its file can
//! redeem nothing. A ticket is taken by as many nodes as it was made for. A node that took it and did not hear the answer
//! asks again and gets the same serial, so that a revocation in between is not undone by asking.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Rights, UnixTime};
use crate::id::NodeId;
use crate::limits::{INVITATION_USES_MAX, INVITATIONS_MAX};
use crate::time::{Duration, Rough};

/// What one ticket is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// What is granted to who redeems it.
    pub rights: Rights,
    /// From this on it is not redeemed any more.
    pub expiry: UnixTime,
    /// How many nodes may redeem it.
    pub uses: usize,
    /// How long a grant lasts from when it is redeemed; `NEVER` for no end.
    pub lasts: Duration,
    /// Who has redeemed it, with the serials of their grants.
    pub taken: Vec<(NodeId, u64)>,
}

/// A ticket that was redeemed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redeemed {
    /// What is to be granted.
    pub rights: Rights,
    /// For how long.
    pub lasts: Duration,
    /// Under which serial.
    pub serial: u64,
}

/// A ticket is not redeemed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRedeemed {
    /// Its secret is not known.
    #[error("it knows no such ticket: another node gave it out, or it was withdrawn")]
    Unknown,
    /// Its time is over.
    #[error("the ticket expired {} ago by its clock", Rough(*seconds))]
    Late {
        /// How long ago.
        seconds: u64,
    },
    /// As many nodes as it was made for have redeemed it.
    #[error("the ticket was for {uses} and has been used")]
    Used {
        /// How many nodes it was made for.
        uses: usize,
    },
    /// There is no room for another.
    #[error("{INVITATIONS_MAX} tickets are open, which is the limit: wait until some expire")]
    TooMany,
}

/// The tickets that a node has given out, by the digests of their secrets.
#[derive(Clone, Debug, Default)]
pub struct Invitations {
    open: BTreeMap<[u8; 32], Invitation>,
}

impl Invitations {
    /// Returns the tickets that are kept, with the digests of their secrets.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8; 32], &Invitation)> {
        self.open.iter()
    }

    /// Keeps a ticket; its uses are cut to what a ticket may have. What has expired is forgotten.
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

    /// Redeems a ticket for a node; `serial` is that of a new grant.
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
