//! The roll: who has which rights now.
//!
//! *The idea.* Only what holds stands on it. A credential is checked once, when it comes; what may end it later (its
//! expiry, a warrant) takes it off again. So rights are a look into a table, at any time and without a clock.
//!
//! ```text
//! of two grants of one node   the owner's is kept; of two of one kind that with the larger serial
//! a warrant                   takes off every member whose chain has a grant that it reaches
//! ```

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Rights, UnixTime};
use crate::id::NodeId;
use crate::limits::{RECORDS_MAX, WARRANTS_MAX};
use crate::time::Rough;
use crate::wire::admission::{Credential, Grant, Revocation, Sign, Signed, Warrant};
use crate::wire::control::SIGNATURE_BYTES;

/// Says whether a node has signed a message.
pub type Verify<'a> = &'a dyn Fn(NodeId, &[u8], &[u8; SIGNATURE_BYTES]) -> bool;

/// The nodes that have lost all rights.
pub type Expelled = Vec<NodeId>;

/// What a credential or warrant meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It changes who may do what: pass it on.
    Changed,
    /// Nothing that is not known already: drop it.
    Known,
}

/// A credential or warrant does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// There are no grants where there is no owner.
    #[error("this node's fabric has no owner, so it takes no grants")]
    NoOwner,
    /// It is another fabric's.
    #[error("it is for the fabric {}, and this node belongs to {}", theirs.short(), ours.short())]
    OtherFabric {
        /// Whose.
        theirs: NodeId,
        /// This node's.
        ours: NodeId,
    },
    /// It is another node's.
    #[error("it was granted to {}, not to {}", granted.short(), shown_by.short())]
    OtherNode {
        /// Whose it is.
        granted: NodeId,
        /// Who shows it.
        shown_by: NodeId,
    },
    /// Its issuer has not signed it.
    #[error("it does not bear the signature of {}", issuer.short())]
    Forged {
        /// Who is said to have signed it.
        issuer: NodeId,
    },
    /// Its issuer is neither owner nor delegate.
    #[error("{} may not issue it: it is neither the owner nor enclosed as a delegate", issuer.short())]
    NotIssuer {
        /// Who has signed it.
        issuer: NodeId,
    },
    /// It holds more than its issuer may give.
    #[error("{} grants `{excess}`, which it may not give", issuer.short())]
    Beyond {
        /// Who has signed it.
        issuer: NodeId,
        /// What is too much.
        excess: Rights,
    },
    /// It is to hold for longer than its issuer may grant.
    #[error("{} grants for longer than its own grant holds", issuer.short())]
    Outlasts {
        /// Who has signed it.
        issuer: NodeId,
    },
    /// The owner needs no grant, and nobody revokes it.
    #[error("it is about the owner of the fabric, who has all rights by its key")]
    OfOwner,
    /// It does not hold yet.
    #[error("it does not hold for another {} by this node's clock", Rough(*seconds))]
    Early {
        /// How long not.
        seconds: u64,
    },
    /// It does not hold any more.
    #[error("it expired {} ago by this node's clock", Rough(*seconds))]
    Late {
        /// How long ago.
        seconds: u64,
    },
    /// It was revoked.
    #[error("the grant of {} was revoked", node.short())]
    Revoked {
        /// Whose grant.
        node: NodeId,
    },
    /// There is no room on the roll.
    #[error("there are {0} entries on the roll already, which is the limit")]
    Full(usize),
}

/// Who has which rights in a fabric.
#[derive(Clone, Debug)]
pub struct Roll {
    fabric: Option<NodeId>,
    members: BTreeMap<NodeId, Credential>,
    /// By whose grants are revoked, and by whom.
    warrants: BTreeMap<(NodeId, NodeId), Warrant>,
    /// Before this nobody's time is over; so members are looked through when it is, not each time somebody asks.
    ends: UnixTime,
}

impl Roll {
    /// Returns the roll of a fabric without an owner: everybody has all rights.
    pub const fn open() -> Self {
        Self {
            fabric: None,
            members: BTreeMap::new(),
            warrants: BTreeMap::new(),
            ends: UnixTime::NEVER,
        }
    }

    /// Returns the roll of the fabric that this key owns, on which only the owner stands.
    pub const fn of(owner: NodeId) -> Self {
        Self {
            fabric: Some(owner),
            members: BTreeMap::new(),
            warrants: BTreeMap::new(),
            ends: UnixTime::NEVER,
        }
    }

    /// Returns the owner's key, if there is an owner.
    pub const fn fabric(&self) -> Option<NodeId> {
        self.fabric
    }

    /// Returns what a node may do.
    pub fn rights(&self, node: NodeId) -> Rights {
        match self.fabric {
            None => Rights::ALL,
            Some(owner) if owner == node => Rights::ALL,
            Some(_) => self
                .credential(node)
                .map_or(Rights::NONE, |credential| credential.grant.content.rights),
        }
    }

    /// Returns whether a node has all of these rights.
    pub fn may(&self, node: NodeId, rights: Rights) -> bool {
        self.rights(node).contains(rights)
    }

    /// Returns whether a node belongs to the fabric, whatever it may do there.
    pub fn admits(&self, node: NodeId) -> bool {
        self.fabric.is_none_or(|owner| owner == node) || self.members.contains_key(&node)
    }

    /// Returns the members that are not the owner, in the order of their keys.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, &Credential)> {
        let members = self.members.iter();
        members.map(|(node, credential)| (*node, credential))
    }

    /// Returns a member's credential.
    pub fn credential(&self, node: NodeId) -> Option<&Credential> {
        self.members.get(&node)
    }

    /// Returns the warrants, in the order of whom they are about.
    pub fn warrants(&self) -> impl Iterator<Item = &Warrant> {
        self.warrants.values()
    }

    /// Returns the largest serial up to which somebody has revoked a node's grants.
    pub fn revoked_serial(&self, node: NodeId) -> Option<u64> {
        let of_node = (node, NodeId([0; 32]))..=(node, NodeId([0xff; 32]));
        let warrants = self.warrants.range(of_node);
        warrants
            .map(|(_, warrant)| warrant.revocation.content.serial)
            .max()
    }

    /// Says whether a credential holds, whoever is on the roll.
    ///
    /// Cost    two signatures at most, and only for what is sound otherwise
    pub fn check(
        &self,
        credential: &Credential,
        at: UnixTime,
        verify: Verify<'_>,
    ) -> Result<(), Unfit> {
        let grant = &credential.grant.content;
        let owner = self.owner_of(grant.fabric)?;
        if grant.node == owner {
            return Err(Unfit::OfOwner);
        }
        let allowed = issuer_rights(owner, grant.issuer, credential.delegation.as_ref())?;
        let excess = grant.rights.without(allowed);
        if excess != Rights::NONE {
            let issuer = grant.issuer;
            return Err(Unfit::Beyond { issuer, excess });
        }
        check_span(grant, credential.delegation.as_ref())?;
        for part in chain(credential.delegation.as_ref(), &credential.grant) {
            self.check_grant(part, at, verify)?;
        }
        Ok(())
    }

    /// Takes in a credential.
    ///
    /// Fails   what does not hold, and says why
    pub fn handle_credential(
        &mut self,
        credential: Credential,
        at: UnixTime,
        verify: Verify<'_>,
    ) -> Result<News, Unfit> {
        let grant = &credential.grant.content;
        let owner = self.owner_of(grant.fabric)?;
        let node = grant.node;
        let rank = |grant: &Grant| (grant.issuer == owner, grant.serial);
        if let Some(known) = self.members.get(&node)
            && rank(&known.grant.content) >= rank(grant)
        {
            return Ok(News::Known);
        }
        self.check(&credential, at, verify)?;
        if self.members.len() >= RECORDS_MAX && !self.members.contains_key(&node) {
            return Err(Unfit::Full(RECORDS_MAX));
        }
        // No grant of a delegate outlasts the delegate's own.
        self.ends = self.ends.min(grant.expiry);
        self.members.insert(node, credential);
        Ok(News::Changed)
    }

    /// Takes in a warrant; returns also whom it takes off the roll.
    ///
    /// Fails   what does not hold, and says why
    pub fn handle_warrant(
        &mut self,
        warrant: Warrant,
        at: UnixTime,
        verify: Verify<'_>,
    ) -> Result<(News, Expelled), Unfit> {
        let revocation = &warrant.revocation.content;
        let owner = self.owner_of(revocation.fabric)?;
        let Revocation {
            issuer,
            node,
            serial,
            ..
        } = *revocation;
        let key = (node, issuer);
        let known = self.warrants.get(&key);
        if known.is_some_and(|known| known.revocation.content.serial >= serial) {
            return Ok((News::Known, Vec::new()));
        }
        if node == owner {
            return Err(Unfit::OfOwner);
        }
        issuer_rights(owner, issuer, warrant.delegation.as_ref())?;
        if let Some(delegation) = &warrant.delegation {
            self.check_grant(delegation, at, verify)?;
        }
        if known.is_none() {
            self.has_room_for_warrant(owner, issuer)?;
        }
        if !verify(
            issuer,
            &revocation.signed_bytes(),
            &warrant.revocation.signature,
        ) {
            return Err(Unfit::Forged { issuer });
        }
        self.warrants.insert(key, warrant);
        Ok((News::Changed, self.expel_revoked()))
    }

    /// Takes off the roll whose time is over.
    pub fn handle_timeout(&mut self, at: UnixTime) -> Expelled {
        let expiry = |credential: &Credential| credential.grant.content.expiry;
        let is_over = |_: &NodeId, credential: &mut Credential| expiry(credential) <= at;
        let over = self.members.extract_if(.., is_over);
        let over = over.map(|(node, _)| node).collect();
        let expiries = self.members.values().map(expiry);
        self.ends = expiries.min().unwrap_or(UnixTime::NEVER);
        // What a delegate granted has ended with its own grant, so what it revoked says nothing more.
        self.warrants.retain(|_, warrant| {
            let delegation = warrant.delegation.as_ref();
            delegation.is_none_or(|grant| at < grant.content.expiry)
        });
        over
    }

    /// Returns when [`Roll::handle_timeout`] may have something to do.
    pub const fn poll_timeout(&self) -> UnixTime {
        self.ends
    }

    fn owner_of(&self, theirs: NodeId) -> Result<NodeId, Unfit> {
        match self.fabric {
            None => Err(Unfit::NoOwner),
            Some(ours) if ours != theirs => Err(Unfit::OtherFabric { theirs, ours }),
            Some(ours) => Ok(ours),
        }
    }

    fn check_grant(
        &self,
        signed: &Signed<Grant>,
        at: UnixTime,
        verify: Verify<'_>,
    ) -> Result<(), Unfit> {
        let grant = &signed.content;
        self.owner_of(grant.fabric)?;
        if at < grant.not_before {
            let seconds = grant.not_before.seconds() - at.seconds();
            return Err(Unfit::Early { seconds });
        }
        if at >= grant.expiry {
            let seconds = at.seconds() - grant.expiry.seconds();
            return Err(Unfit::Late { seconds });
        }
        if self.is_revoked(grant) {
            return Err(Unfit::Revoked { node: grant.node });
        }
        if verify(grant.issuer, &grant.signed_bytes(), &signed.signature) {
            Ok(())
        } else {
            let issuer = grant.issuer;
            Err(Unfit::Forged { issuer })
        }
    }

    /// The owner's word reaches every grant of a node, a delegate's only its own.
    fn is_revoked(&self, grant: &Grant) -> bool {
        let reaches = |issuer| {
            let warrant = self.warrants.get(&(grant.node, issuer));
            warrant.is_some_and(|warrant| warrant.revocation.content.serial >= grant.serial)
        };
        reaches(grant.fabric) || reaches(grant.issuer)
    }

    /// A delegate that goes wrong must not fill the roll for the owner.
    fn has_room_for_warrant(&self, owner: NodeId, issuer: NodeId) -> Result<(), Unfit> {
        let limit = if issuer == owner {
            WARRANTS_MAX
        } else {
            WARRANTS_MAX / 4
        };
        let of_delegates = self.warrants.keys().filter(|(_, by)| *by != owner).count();
        let count = if issuer == owner {
            self.warrants.len()
        } else {
            of_delegates
        };
        if count < limit {
            Ok(())
        } else {
            Err(Unfit::Full(limit))
        }
    }

    fn expel_revoked(&mut self) -> Expelled {
        let is_revoked = |credential: &Credential| {
            chain(credential.delegation.as_ref(), &credential.grant)
                .any(|part| self.is_revoked(&part.content))
        };
        let members = self.members.iter();
        let gone = members.filter(|(_, credential)| is_revoked(credential));
        let gone: Expelled = gone.map(|(node, _)| *node).collect();
        for node in &gone {
            self.members.remove(node);
        }
        gone
    }
}

/// Says whether a grant ends with that of its issuer at the latest.
///
/// A delegate's revocation is kept for as long as the delegation that it encloses, and so it outlives whatever it reaches,
/// also where the owner renews the delegation.
fn check_span(grant: &Grant, delegation: Option<&Signed<Grant>>) -> Result<(), Unfit> {
    let ends = delegation.map_or(UnixTime::NEVER, |delegation| delegation.content.expiry);
    if grant.expiry <= ends {
        Ok(())
    } else {
        let issuer = grant.issuer;
        Err(Unfit::Outlasts { issuer })
    }
}

/// Returns the grants of a chain, the owner's first.
fn chain<'a>(
    delegation: Option<&'a Signed<Grant>>,
    grant: &'a Signed<Grant>,
) -> impl Iterator<Item = &'a Signed<Grant>> {
    delegation.into_iter().chain([grant])
}

/// Returns what an issuer may grant, by the delegation that it encloses.
fn issuer_rights(
    owner: NodeId,
    issuer: NodeId,
    delegation: Option<&Signed<Grant>>,
) -> Result<Rights, Unfit> {
    let Some(delegation) = delegation.map(|signed| &signed.content) else {
        return if issuer == owner {
            Ok(Rights::ALL)
        } else {
            Err(Unfit::NotIssuer { issuer })
        };
    };
    let is_delegate = issuer != owner
        && delegation.issuer == owner
        && delegation.node == issuer
        && delegation.rights.contains(Rights::INVITE);
    if is_delegate {
        Ok(delegation.rights.without(Rights::INVITE))
    } else {
        Err(Unfit::NotIssuer { issuer })
    }
}
