//! Rights in the control plane: grants and revocations are checked, applied and flooded; messages
//! without the right are refused.
//!
//! *The idea.* Grants and warrants are flooded like records, and are sent before them on every new link, so
//! a record never arrives before the grant of its node. A node that is removed from the roll is forgotten
//! at once: its record, parts and subscriptions. [`Controller::poll_admission`] reports to the driver which
//! nodes may connect, which links to cut, and when to save the roll for a restart.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use thalweg_base::id::NodeId;
use thalweg_base::limits::NODE_NAME_BYTES_MAX;
use thalweg_base::time::{Duration, Instant};
use thalweg_base::wire::VARINT_MAX;
use thalweg_base::wire::admission::{Credential, Grant, Revocation, Sign, Signed, Warrant};
use thalweg_base::wire::control::Message;
use thalweg_base::wire::record::Record;

use super::{Controller, Keys, Note, Notice, Settings};
use crate::admission::{News, Rights, Roll, Unfit, UnixTime};

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

impl Controller {
    /// Returns the control plane of a node of a fabric, with the members that it knows.
    pub fn in_fabric(settings: Settings, roll: Roll, now: Instant, keys: &mut dyn Keys) -> Self {
        let mut controller = Self::empty(settings);
        let owner = roll.fabric();
        let members = roll.members().map(|(node, _)| node).chain(owner);
        controller
            .admissions
            .extend(members.map(AdmissionChange::Enrolled));
        controller.roll = roll;
        controller.announce(now, keys);
        controller.settle(now, keys);
        controller
    }

    /// Returns the roll of members.
    pub const fn roll(&self) -> &Roll {
        &self.roll
    }

    /// Returns the time of day, by the clock that this node started with.
    pub fn unix_time(&self, now: Instant) -> UnixTime {
        UnixTime::since_1970(self.since_1970(now))
    }

    /// Returns the next change of admission for the driver.
    pub fn poll_admission(&mut self) -> Option<AdmissionChange> {
        self.admissions.pop_front()
    }

    /// Handles a credential that came by other means than a link.
    ///
    /// Fails   an invalid credential, with the reason
    pub fn handle_credential(
        &mut self,
        credential: Credential,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<(), Unfit> {
        self.enrol(None, credential, now, keys)?;
        self.settle(now, keys);
        Ok(())
    }

    /// Returns the rights that this node may grant.
    pub fn grantable(&self) -> Rights {
        let own = self.roll.rights(self.id());
        if self.roll.fabric() == Some(self.id()) {
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
        if owner != self.id() && self.own_delegation().is_none() {
            return Err(NotIssued::NotIssuer);
        }
        match rights.without(self.grantable()) {
            Rights::NONE => Ok(()),
            excess => Err(NotIssued::Beyond { excess }),
        }
    }

    /// Makes a grant, applies and floods it.
    pub fn grant(
        &mut self,
        node: NodeId,
        rights: Rights,
        lasts: Duration,
        serial: u64,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<Credential, NotIssued> {
        self.check_grantable(rights)?;
        let (fabric, delegation) = (self.roll.fabric(), self.own_delegation().cloned());
        let at = self.unix_time(now);
        // A delegate's grants end with its own grant at the latest.
        let ends = delegation.as_ref().map(|own| own.content.expiry);
        let content = Grant {
            fabric: fabric.ok_or(NotIssued::NoOwner)?,
            issuer: self.id(),
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
        self.handle_credential(credential.clone(), now, keys)?;
        let kept = self.roll.credential(node).filter(|kept| {
            let (kept, made) = (&kept.grant.content, &credential.grant.content);
            (kept.issuer, kept.serial) == (made.issuer, made.serial)
        });
        Ok(kept.cloned().unwrap_or(credential))
    }

    /// Revokes all grants of a node that this node may revoke, and floods the revocation.
    pub fn revoke(
        &mut self,
        node: NodeId,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<(), NotIssued> {
        self.check_grantable(Rights::NONE)?;
        let owner = self.roll.fabric().ok_or(NotIssued::NoOwner)?;
        let nothing = |why| NotIssued::Nothing {
            name: self.name_of(node),
            why,
        };
        if node == owner {
            return Err(nothing("the owner has all rights by its key"));
        }
        let granted = self.roll.credential(node).map(|c| &c.grant.content);
        if self.id() != owner && granted.is_none_or(|grant| grant.issuer != self.id()) {
            return Err(nothing(
                "a delegate can revoke only the grants that it issued",
            ));
        }
        let serial = self.next_serial(node, now);
        let serial = granted.map_or(serial, |grant| serial.max(grant.serial));
        let content = Revocation {
            fabric: owner,
            issuer: self.id(),
            node,
            serial,
        };
        let warrant = Warrant {
            delegation: self.own_delegation().cloned(),
            revocation: sign(content, keys),
        };
        self.apply_warrant(None, warrant, now, keys)?;
        self.settle(now, keys);
        Ok(())
    }

    /// Handles a credential from a neighbour.
    pub(super) fn handle_grant_frame(
        &mut self,
        from: NodeId,
        credential: Credential,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let node = credential.grant.content.node;
        if let Err(error) = self.enrol(Some(from), credential, now, keys) {
            self.note(Note::GrantRefused { from, node, error });
        }
    }

    /// Handles a warrant from a neighbour.
    pub(super) fn handle_revocation_frame(
        &mut self,
        from: NodeId,
        warrant: Warrant,
        now: Instant,
        keys: &mut dyn Keys,
    ) {
        let node = warrant.revocation.content.node;
        if let Err(error) = self.apply_warrant(Some(from), warrant, now, keys) {
            self.note(Note::RevocationRefused { from, node, error });
        }
    }

    /// Sends a new neighbour all revocations and grants, before any record.
    pub(super) fn send_membership(&mut self, peer: NodeId) {
        let warrants = self.roll.warrants().cloned().map(Message::Revocation);
        let credentials = self.roll.members().map(|(_, c)| Message::Grant(c.clone()));
        let messages: Vec<Message> = warrants.chain(credentials).collect();
        for message in messages {
            self.send(peer, &message);
        }
    }

    /// Returns why a signed record is refused, if it is.
    pub(super) fn check_record(&self, from: NodeId, record: &Record) -> Option<Note> {
        let node = record.node;
        if !self.roll.admits(node) {
            return Some(Note::RecordUngranted { from, node });
        }
        let announces = !record.streams.is_empty();
        (announces && !self.roll.may(node, Rights::PUBLISH))
            .then_some(Note::RecordExceeds { from, node })
    }

    /// Expels members with expired grants.
    pub(super) fn expire_grants(&mut self, now: Instant) {
        if self.grants_timeout() > now {
            return;
        }
        let expelled = self.roll.handle_timeout(self.unix_time(now));
        self.expel(expelled, now);
    }

    /// Returns when the first grant expires.
    pub(super) fn grants_timeout(&self) -> Instant {
        let expiry = self.roll.poll_timeout();
        if expiry == UnixTime::NEVER {
            return Instant::NEVER;
        }
        // An expiry is a whole second; this is its first nanosecond.
        let nanos = expiry.seconds().saturating_mul(1_000_000_000);
        let since_start = nanos.saturating_sub(self.settings.since_1970.as_nanos());
        Instant::from_nanos(since_start.min(Instant::NEVER.as_nanos() - 1))
    }

    fn enrol(
        &mut self,
        from: Option<NodeId>,
        credential: Credential,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<(), Unfit> {
        let (node, at) = (credential.grant.content.node, self.unix_time(now));
        let before = self.roll.rights(node);
        let taken = self
            .roll
            .handle_credential(credential.clone(), at, &verify(keys))?;
        if taken == News::Known {
            return Ok(());
        }
        self.broadcast(&Message::Grant(credential), from);
        self.admissions.push_back(AdmissionChange::Enrolled(node));
        if node == self.id() {
            self.admissions.push_back(AdmissionChange::Keep);
        }
        self.note(Note::Enrolled {
            node,
            rights: self.roll.rights(node),
        });
        if before != self.roll.rights(node) {
            self.handle_rights_change(node, now);
        }
        Ok(())
    }

    fn apply_warrant(
        &mut self,
        from: Option<NodeId>,
        warrant: Warrant,
        now: Instant,
        keys: &mut dyn Keys,
    ) -> Result<(), Unfit> {
        let at = self.unix_time(now);
        let message = Message::Revocation(warrant.clone());
        let (news, expelled) = self.roll.handle_warrant(warrant, at, &verify(keys))?;
        if news == News::Changed {
            self.broadcast(&message, from);
            self.admissions.push_back(AdmissionChange::Keep);
            self.expel(expelled, now);
        }
        Ok(())
    }

    fn broadcast(&mut self, message: &Message, except: Option<NodeId>) {
        let peers: Vec<NodeId> = self.links.keys().copied().collect();
        for peer in peers.into_iter().filter(|peer| Some(*peer) != except) {
            self.send(peer, message);
        }
    }

    fn expel(&mut self, expelled: Vec<NodeId>, now: Instant) {
        for node in expelled {
            self.admissions.push_back(AdmissionChange::Expelled(node));
            self.note(Note::Expelled { node });
            self.handle_rights_change(node, now);
        }
    }

    /// Removes what a node has here by rights that it no longer has.
    fn handle_rights_change(&mut self, node: NodeId, now: Instant) {
        self.is_changed = true;
        let rights = self.roll.rights(node);
        if node == self.id() {
            // The streams that it may announce depend on them.
            self.own_record.made = None;
            if !self.roll.admits(node) {
                self.notify_wanted(&Notice::Expelled);
            }
            return;
        }
        self.handle_key_exposure(node, now);
        if !rights.contains(Rights::PUBLISH) {
            let installed = self
                .parts
                .iter()
                .map(|(key, part)| (*key, part.installation()));
            let own = installed.filter(|(_, part)| part.source == node);
            let own: Vec<_> = own.map(|(key, _)| key).collect();
            for (stream, epoch) in own {
                self.handle_release(node, stream, epoch);
            }
        }
        if !rights.contains(Rights::SUBSCRIBE) {
            for source in self.sources.values_mut() {
                source.session.handle_unsubscribe(node, now);
            }
        }
        let announces = |record: &Record| !record.streams.is_empty();
        let exceeds =
            self.directory.record(node).is_some_and(announces) && !rights.contains(Rights::PUBLISH);
        if exceeds || !self.roll.admits(node) {
            self.directory.remove(node);
            self.flood.remove(node);
        }
    }

    /// Returns the grant that makes this node a delegate.
    fn own_delegation(&self) -> Option<&Signed<Grant>> {
        let own = self.roll.credential(self.id())?;
        let is_delegate =
            own.delegation.is_none() && own.grant.content.rights.contains(Rights::INVITE);
        is_delegate.then_some(&own.grant)
    }

    fn since_1970(&self, now: Instant) -> Duration {
        let running = now.saturating_since(Instant::ZERO).as_nanos();
        Duration::from_nanos(self.settings.since_1970.as_nanos().saturating_add(running))
    }
}

/// Returns the reason to refuse a node that lacks a right.
pub(super) fn no_right(name: &str, right: Rights) -> String {
    let short: String = name.chars().take(NODE_NAME_BYTES_MAX).collect();
    format!("the grant of {short} does not include `{right}`")
}

fn sign<T: Sign>(content: T, keys: &mut dyn Keys) -> Signed<T> {
    let signature = keys.sign(&content.signed_bytes());
    Signed { content, signature }
}

fn verify(keys: &dyn Keys) -> impl Fn(NodeId, &[u8], &[u8; 64]) -> bool + '_ {
    move |signer, message, signature| keys.verify(signer, message, signature)
}
