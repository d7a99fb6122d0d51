//! The roll: the members of a fabric and their present rights.
//!
//! *The idea.* The roll holds valid credentials only. A credential is checked once, on arrival; its expiry
//! or a warrant removes it later. So a check of rights is a table lookup that needs no clock.
//!
//! ```text
//! two grants of one node   the owner's is kept; of the same kind of issuer, the one with the larger serial
//! a warrant                removes every member with a grant in its chain that the warrant reaches
//! ```

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::limits::{RECORDS_MAX, WARRANTS_MAX};
use thalweg_base::time::Rough;
use thalweg_base::wire::SIGNATURE_BYTES;
use thalweg_base::wire::admission::{Credential, Grant, Revocation, Sign, Signed, Warrant};

use super::{Rights, UnixTime};

/// Returns whether a node has signed a message.
pub type Verify<'a> = &'a dyn Fn(NodeId, &[u8], &[u8; SIGNATURE_BYTES]) -> bool;

/// The nodes that have lost all rights.
pub type Expelled = Vec<NodeId>;

/// The effect of a credential or warrant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It changes rights: forward it.
    Changed,
    /// It is known already: drop it.
    Known,
}

/// Why a credential or warrant is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unfit {
    /// Without an owner there are no grants.
    #[error("this node's fabric has no owner, so it takes no grants")]
    NoOwner,
    /// It is for another fabric.
    #[error("it is for the fabric {}, and this node belongs to {}", theirs.short(), ours.short())]
    OtherFabric {
        /// The fabric that it is for.
        theirs: NodeId,
        /// This node's fabric.
        ours: NodeId,
    },
    /// It is for another node.
    #[error("it was granted to {}, not to {}", granted.short(), shown_by.short())]
    OtherNode {
        /// The node that it is for.
        granted: NodeId,
        /// The node that presents it.
        shown_by: NodeId,
    },
    /// Its issuer has not signed it.
    #[error("it is not signed by {}", issuer.short())]
    Forged {
        /// The issuer that it names.
        issuer: NodeId,
    },
    /// Its issuer is neither owner nor delegate.
    #[error("{} may not issue it: it is neither the owner nor enclosed as a delegate", issuer.short())]
    NotIssuer {
        /// The issuer.
        issuer: NodeId,
    },
    /// It grants more than its issuer may grant.
    #[error("{} grants `{excess}`, which it may not grant", issuer.short())]
    Beyond {
        /// The issuer.
        issuer: NodeId,
        /// The rights in excess.
        excess: Rights,
    },
    /// It is valid for longer than its issuer may grant.
    #[error("{} grants for longer than its own grant lasts", issuer.short())]
    Outlasts {
        /// The issuer.
        issuer: NodeId,
    },
    /// The owner needs no grant, and cannot be revoked.
    #[error("it concerns the owner of the fabric, which has all rights by its key")]
    OfOwner,
    /// It is not valid yet.
    #[error("it becomes valid in {} by this node's clock", Rough(*seconds))]
    Early {
        /// For how long, in s.
        seconds: u64,
    },
    /// It has expired.
    #[error("it expired {} ago by this node's clock", Rough(*seconds))]
    Late {
        /// How long ago, in s.
        seconds: u64,
    },
    /// It was revoked.
    #[error("the grant of {} was revoked", node.short())]
    Revoked {
        /// The node with the revoked grant.
        node: NodeId,
    },
    /// The roll is full.
    #[error("the roll is full: {0} entries are the limit")]
    Full(usize),
}

/// The members of a fabric and their rights.
#[derive(Clone, Debug)]
pub struct Roll {
    fabric: Option<NodeId>,
    members: BTreeMap<NodeId, Credential>,
    /// By the node with revoked grants, and the issuer of the revocation.
    warrants: BTreeMap<(NodeId, NodeId), Warrant>,
    /// The earliest expiry of a member; until then, a timeout need not search the members.
    next_expiry: UnixTime,
}

impl Roll {
    /// Returns the roll of a fabric without an owner: every node has all rights.
    pub const fn open() -> Self {
        Self {
            fabric: None,
            members: BTreeMap::new(),
            warrants: BTreeMap::new(),
            next_expiry: UnixTime::NEVER,
        }
    }

    /// Returns the roll of a fabric with this owner, and no other member.
    pub const fn of(owner: NodeId) -> Self {
        Self {
            fabric: Some(owner),
            members: BTreeMap::new(),
            warrants: BTreeMap::new(),
            next_expiry: UnixTime::NEVER,
        }
    }

    /// Returns the owner's key, if there is an owner.
    pub const fn fabric(&self) -> Option<NodeId> {
        self.fabric
    }

    /// Returns the rights of a node.
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

    /// Returns whether a node belongs to the fabric, with whatever rights.
    pub fn admits(&self, node: NodeId) -> bool {
        self.fabric.is_none_or(|owner| owner == node) || self.members.contains_key(&node)
    }

    /// Returns the members other than the owner, ordered by key.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, &Credential)> {
        let members = self.members.iter();
        members.map(|(node, credential)| (*node, credential))
    }

    /// Returns a member's credential.
    pub fn credential(&self, node: NodeId) -> Option<&Credential> {
        self.members.get(&node)
    }

    /// Returns the warrants, ordered by the node that they revoke.
    pub fn warrants(&self) -> impl Iterator<Item = &Warrant> {
        self.warrants.values()
    }

    /// Returns the largest revoked serial of a node's grants.
    pub fn revoked_serial(&self, node: NodeId) -> Option<u64> {
        let of_node = (node, NodeId([0; 32]))..=(node, NodeId([0xff; 32]));
        let warrants = self.warrants.range(of_node);
        warrants
            .map(|(_, warrant)| warrant.revocation.content.serial)
            .max()
    }

    /// Checks a credential, independently of the present members.
    ///
    /// Cost    two signatures at most, verified last
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

    /// Handles a credential.
    ///
    /// Fails   an invalid credential, with the reason
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
        self.next_expiry = self.next_expiry.min(grant.expiry);
        self.members.insert(node, credential);
        Ok(News::Changed)
    }

    /// Handles a warrant; also returns the members that it removes.
    ///
    /// Fails   an invalid warrant, with the reason
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

    /// Removes the members with expired grants.
    pub fn handle_timeout(&mut self, at: UnixTime) -> Expelled {
        let expiry = |credential: &Credential| credential.grant.content.expiry;
        let is_over = |_: &NodeId, credential: &mut Credential| expiry(credential) <= at;
        let over = self.members.extract_if(.., is_over);
        let over = over.map(|(node, _)| node).collect();
        let expiries = self.members.values().map(expiry);
        self.next_expiry = expiries.min().unwrap_or(UnixTime::NEVER);
        // A delegate's grants have ended with its own, so its revocations no longer matter.
        self.warrants.retain(|_, warrant| {
            let delegation = warrant.delegation.as_ref();
            delegation.is_none_or(|grant| at < grant.content.expiry)
        });
        over
    }

    /// Returns when [`Roll::handle_timeout`] may have something to do.
    pub const fn poll_timeout(&self) -> UnixTime {
        self.next_expiry
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

    /// The owner's revocation reaches every grant of a node, a delegate's only its own grants.
    fn is_revoked(&self, grant: &Grant) -> bool {
        let reaches = |issuer| {
            let warrant = self.warrants.get(&(grant.node, issuer));
            warrant.is_some_and(|warrant| warrant.revocation.content.serial >= grant.serial)
        };
        reaches(grant.fabric) || reaches(grant.issuer)
    }

    /// A rogue delegate must not use up the owner's room.
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

/// Checks that a grant ends no later than that of its issuer.
///
/// A delegate's revocation is kept as long as the delegation that it encloses. So it outlives every
/// grant that it reaches, even if the owner renews the delegation.
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
