//! Membership: grants and revocations are checked, entered on the roll and flooded.
//!
//! *The idea.* Grants and warrants are flooded like records, and are sent before them on every new link, so
//! a record never arrives before the grant of its node. A node that is removed from the roll is forgotten
//! at once: its record, parts and subscriptions ([`Effect::RightsChanged`]). [`Membership::poll_change`]
//! reports to the driver which nodes may connect, which links to cut, and when to save the roll.
//!
//! *What it does not do.* It refuses no message for lack of a right: each owner does, by the roll.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::VARINT_MAX;
use thalweg_base::wire::admission::{Credential, Grant, Revocation, Sign, Signed, Warrant};
use thalweg_base::wire::control::Message;

use crate::admission::{News, Rights, Roll, Unfit, UnixTime};
use crate::effect::{Effect, Note, Turn};
use crate::facts::{Keys, Settings};

/// How far before the present a grant begins, so that a node with a slow clock accepts it.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);

/// A change of admission for the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AdmissionChange {
    /// The node may connect.
    Enrolled(NodeId),
    /// The node may no longer connect: cut its link.
    Expelled(NodeId),
    /// This node's own grant or the revocations changed: save them for a restart.
    Keep,
}

/// A grant or revocation cannot be issued here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotIssued {
    /// The fabric has no owner.
    #[error(
        "this node's fabric has no owner: set `owner` under [fabric], or join one with a ticket"
    )]
    NoOwner,
    /// This node may not grant at all.
    #[error(
        "this node may not invite or revoke: it is not the owner, and its grant does not include `invite`"
    )]
    NotIssuer,
    /// This node may not grant these rights.
    #[error("this node may not grant `{excess}`: its own grant does not include that right")]
    Beyond {
        /// The rights in excess.
        excess: Rights,
    },
    /// The node has no grant of this node's.
    #[error("{name} has no grant that this node may revoke: {why}")]
    Nothing {
        /// The node, for display.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// This node itself refuses what it made.
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

/// The roll of members, and its changes.
#[derive(Debug)]
pub struct Membership {
    /// This node.
    id: NodeId,
    since_1970: Duration,
    roll: Roll,
    changes: VecDeque<AdmissionChange>,
}

impl Membership {
    /// Returns the membership of a node with these members, who may connect.
    pub(crate) fn new(settings: &Settings, roll: Roll) -> Self {
        let members = roll.members().map(|(node, _)| node).chain(roll.fabric());
        Self {
            id: settings.id,
            since_1970: settings.since_1970,
            changes: members.map(AdmissionChange::Enrolled).collect(),
            roll,
        }
    }

    /// Returns the roll of members.
    pub const fn roll(&self) -> &Roll {
        &self.roll
    }

    /// Returns the time of day, by the clock that this node started with.
    pub fn unix_time(&self, now: Instant) -> UnixTime {
        UnixTime::since_1970(self.since_1970(now))
    }

    fn since_1970(&self, now: Instant) -> Duration {
        let running = now.saturating_since(Instant::ZERO).as_nanos();
        Duration::from_nanos(self.since_1970.as_nanos().saturating_add(running))
    }

    /// Returns the next change of admission for the driver.
    pub(crate) fn poll_change(&mut self) -> Option<AdmissionChange> {
        self.changes.pop_front()
    }

    /// Returns the rights that this node may grant.
    pub fn grantable(&self) -> Rights {
        let own = self.roll.rights(self.id);
        if self.roll.fabric() == Some(self.id) {
            own
        } else if self.own_delegation().is_some() {
            own.without(Rights::INVITE)
        } else {
            Rights::NONE
        }
    }

    /// Returns the serial of the next grant of a node: above its last grant and revocation, and
    /// growing with the time of day.
    pub fn next_serial(&self, node: NodeId, now: Instant) -> u64 {
        let micros = self.since_1970(now).as_micros();
        let revoked = self.roll.revoked_serial(node);
        let granted = self.roll.credential(node);
        let granted = granted.map(|credential| credential.grant.content.serial);
        let above = revoked
            .max(granted)
            .map_or(0, |serial| serial.saturating_add(1));
        micros.max(above).min(VARINT_MAX)
    }

    /// Checks that this node may grant these rights.
    pub fn check_grantable(&self, rights: Rights) -> Result<(), NotIssued> {
        let owner = self.roll.fabric().ok_or(NotIssued::NoOwner)?;
        if owner != self.id && self.own_delegation().is_none() {
            return Err(NotIssued::NotIssuer);
        }
        match rights.without(self.grantable()) {
            Rights::NONE => Ok(()),
            excess => Err(NotIssued::Beyond { excess }),
        }
    }

    /// Makes a grant, applies and floods it.
    pub(crate) fn grant(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        (rights, lasts, serial): (Rights, Duration, u64),
        keys: &mut dyn Keys,
    ) -> Result<Credential, NotIssued> {
        self.check_grantable(rights)?;
        let (fabric, delegation) = (self.roll.fabric(), self.own_delegation().cloned());
        let at = self.unix_time(turn.now);
        // A delegate's grants end with its own grant at the latest.
        let ends = delegation.as_ref().map(|own| own.content.expiry);
        let content = Grant {
            fabric: fabric.ok_or(NotIssued::NoOwner)?,
            issuer: self.id,
            node,
            rights,
            serial,
            not_before: at.before(CLOCK_TOLERANCE),
            expiry: at.after(lasts).min(ends.unwrap_or(UnixTime::NEVER)),
        };
        let credential = Credential {
            grant: sign(content, keys),
            delegation,
        };
        // A ticket that is redeemed again finds a grant of the same serial: that one is returned.
        self.roll.check(&credential, at, &verify(keys))?;
        self.handle_credential(turn, None, credential.clone(), keys)?;
        let kept = self.roll.credential(node).filter(|kept| {
            let (kept, made) = (&kept.grant.content, &credential.grant.content);
            (kept.issuer, kept.serial) == (made.issuer, made.serial)
        });
        Ok(kept.cloned().unwrap_or(credential))
    }

    /// Revokes all grants of a node that this node may revoke, and floods the revocation.
    pub(crate) fn revoke(
        &mut self,
        turn: &mut Turn<'_>,
        node: NodeId,
        name: &str,
        keys: &mut dyn Keys,
    ) -> Result<(), NotIssued> {
        self.check_grantable(Rights::NONE)?;
        let owner = self.roll.fabric().ok_or(NotIssued::NoOwner)?;
        let nothing = |why| NotIssued::Nothing {
            name: name.into(),
            why,
        };
        if node == owner {
            return Err(nothing("the owner has all rights by its key"));
        }
        let granted = self.roll.credential(node).map(|c| &c.grant.content);
        if self.id != owner && granted.is_none_or(|grant| grant.issuer != self.id) {
            return Err(nothing(
                "a delegate can revoke only the grants that it issued",
            ));
        }
        let serial = self.next_serial(node, turn.now);
        let serial = granted.map_or(serial, |grant| serial.max(grant.serial));
        let content = Revocation {
            fabric: owner,
            issuer: self.id,
            node,
            serial,
        };
        let warrant = Warrant {
            delegation: self.own_delegation().cloned(),
            revocation: sign(content, keys),
        };
        self.apply_warrant(turn, None, warrant, keys)?;
        Ok(())
    }

    /// Handles a credential from a neighbour.
    pub(crate) fn handle_grant_frame(
        &mut self,
        turn: &mut Turn<'_>,
        from: NodeId,
        credential: Credential,
        keys: &dyn Keys,
    ) {
        let node = credential.grant.content.node;
        if let Err(error) = self.handle_credential(turn, Some(from), credential, keys) {
            turn.note(Note::GrantRefused { from, node, error });
        }
    }

    /// Handles a warrant from a neighbour.
    pub(crate) fn handle_revocation_frame(
        &mut self,
        turn: &mut Turn<'_>,
        from: NodeId,
        warrant: Warrant,
        keys: &dyn Keys,
    ) {
        let node = warrant.revocation.content.node;
        if let Err(error) = self.apply_warrant(turn, Some(from), warrant, keys) {
            turn.note(Note::RevocationRefused { from, node, error });
        }
    }

    /// Sends a new neighbour all revocations and grants, before any record.
    pub(crate) fn send_all(&self, turn: &mut Turn<'_>, peer: NodeId) {
        let warrants = self.roll.warrants().cloned().map(Message::Revocation);
        let credentials = self.roll.members().map(|(_, c)| Message::Grant(c.clone()));
        for message in warrants.chain(credentials) {
            turn.send(peer, message);
        }
    }

    /// Expels members with expired grants.
    pub(crate) fn handle_timeout(&mut self, turn: &mut Turn<'_>) {
        if self.poll_timeout() > turn.now {
            return;
        }
        let expelled = self.roll.handle_timeout(self.unix_time(turn.now));
        self.expel(turn, expelled);
    }

    /// Returns when the first grant expires.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let expiry = self.roll.poll_timeout();
        if expiry == UnixTime::NEVER {
            return Instant::NEVER;
        }
        // An expiry is a whole second; this is its first nanosecond.
        let nanos = expiry.seconds().saturating_mul(1_000_000_000);
        let since_start = nanos.saturating_sub(self.since_1970.as_nanos());
        Instant::from_nanos(since_start.min(Instant::NEVER.as_nanos() - 1))
    }

    /// Handles a credential, from a neighbour or by other means.
    ///
    /// Fails   an invalid credential, with the reason
    pub(crate) fn handle_credential(
        &mut self,
        turn: &mut Turn<'_>,
        from: Option<NodeId>,
        credential: Credential,
        keys: &dyn Keys,
    ) -> Result<(), Unfit> {
        let (node, at) = (credential.grant.content.node, self.unix_time(turn.now));
        let before = self.roll.rights(node);
        let taken = self
            .roll
            .handle_credential(credential.clone(), at, &verify(keys))?;
        if taken == News::Known {
            return Ok(());
        }
        turn.push(Effect::Broadcast(Message::Grant(credential), from));
        self.changes.push_back(AdmissionChange::Enrolled(node));
        if node == self.id {
            self.changes.push_back(AdmissionChange::Keep);
        }
        turn.note(Note::Enrolled {
            node,
            rights: self.roll.rights(node),
        });
        if before != self.roll.rights(node) {
            turn.push(Effect::RightsChanged(node));
        }
        Ok(())
    }

    fn apply_warrant(
        &mut self,
        turn: &mut Turn<'_>,
        from: Option<NodeId>,
        warrant: Warrant,
        keys: &dyn Keys,
    ) -> Result<(), Unfit> {
        let at = self.unix_time(turn.now);
        let message = Message::Revocation(warrant.clone());
        let (news, expelled) = self.roll.handle_warrant(warrant, at, &verify(keys))?;
        if news == News::Changed {
            turn.push(Effect::Broadcast(message, from));
            self.changes.push_back(AdmissionChange::Keep);
            self.expel(turn, expelled);
        }
        Ok(())
    }

    fn expel(&mut self, turn: &mut Turn<'_>, expelled: Vec<NodeId>) {
        for node in expelled {
            self.changes.push_back(AdmissionChange::Expelled(node));
            turn.note(Note::Expelled { node });
            turn.push(Effect::RightsChanged(node));
        }
    }

    /// Returns the grant that makes this node a delegate.
    fn own_delegation(&self) -> Option<&Signed<Grant>> {
        let own = self.roll.credential(self.id)?;
        let is_delegate =
            own.delegation.is_none() && own.grant.content.rights.contains(Rights::INVITE);
        is_delegate.then_some(&own.grant)
    }
}

fn sign<T: Sign>(content: T, keys: &mut dyn Keys) -> Signed<T> {
    let signature = keys.sign(&content.signed_bytes());
    Signed { content, signature }
}

fn verify(keys: &dyn Keys) -> impl Fn(NodeId, &[u8], &[u8; 64]) -> bool + '_ {
    move |signer, message, signature| keys.verify(signer, message, signature)
}
