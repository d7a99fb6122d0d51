//! The driver's side of admission: the door, tickets, and whom the network lets in.
//!
//! *The idea.* Core's controller decides who belongs to the fabric; here that is done: the network's set of keys follows
//! the roll, what must survive a restart is in the node's file before anybody hears of it, and whoever knocks is answered.

use std::net::SocketAddr;
use std::path::PathBuf;

use bytes::Bytes;
use thalweg_core::admission::{Invitation, Invitations, Rights, Unfit};
use thalweg_core::control::{AdmissionChange, KeysError, NotIssued};
use thalweg_core::id::NodeId;
use thalweg_core::limits::{TICKET_ADDRESSES_MAX, TICKET_RELAYS_MAX, TICKET_TCP_MAX};
use thalweg_core::time::Duration;
use thalweg_core::wire::admission::{
    Answer, Credential, Knock, SECRET_BYTES, Sign as _, Signed, Ticket, decode_answer,
    decode_knock, encode_answer, encode_knock,
};
use thalweg_net::AtDoor;
use tracing::{debug, info, warn};

use super::Control;
use crate::fabric::state::{Contact, State};
use crate::fabric::{StateError, secret_digest, ticket};

/// What a ticket is to be good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InviteRequest {
    /// What is granted to who redeems it.
    pub rights: Rights,
    /// How many nodes may redeem it.
    pub uses: usize,
    /// For how long it may be redeemed.
    pub open_for: Duration,
    /// How long a grant lasts from when it is redeemed; `NEVER` for no end.
    pub lasts: Duration,
    /// Where this node can be dialled, if it is not where it thinks; empty, and the next too: its own addresses.
    pub addresses: Vec<SocketAddr>,
    /// The same over TCP.
    pub tcp_addresses: Vec<SocketAddr>,
}

/// A ticket is not given out, or a node not revoked, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// This node may not.
    #[error(transparent)]
    NotIssued(#[from] NotIssued),
    /// There is no room for another ticket.
    #[error(transparent)]
    NoRoom(#[from] thalweg_core::admission::NotRedeemed),
    /// It cannot be kept over a restart.
    #[error(transparent)]
    NotKept(#[from] StateError),
    /// No secret can be drawn.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// Nobody has this name.
    #[error(
        "no node is called `{0}`; `thalweg ls` lists them, and a key names one that is not there now"
    )]
    Unknown(String),
    /// Several have it.
    #[error(
        "{count} nodes are called `{name}`: give the digits of the key that `thalweg ls` shows"
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// How many.
        count: usize,
    },
    /// A ticket would lead nowhere.
    #[error(
        "this node knows no address at which others reach it, for it listens on all of them, and is confined or the machine has none of that family, so the ticket would name none: say with --address where it is reached"
    )]
    NoAddress,
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

impl AdmissionError {
    /// Returns whether no node is called as was said, or several are.
    pub const fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown(_) | Self::Ambiguous { .. })
    }
}

/// What this node keeps of its fabric, and where.
pub(super) struct Kept {
    pub(super) file: Option<PathBuf>,
    pub(super) invitations: Invitations,
    pub(super) contacts: Vec<Contact>,
}

impl Control {
    /// Lets in and throws out whom the controller says, and keeps what must be kept.
    pub(super) fn drain_admission(&mut self) {
        let mut keep = false;
        while let Some(change) = self.controller.poll_admission() {
            match change {
                AdmissionChange::Enrolled(node) if node != self.controller.id() => {
                    self.admission.admit(node);
                }
                AdmissionChange::Expelled(node) if node != self.controller.id() => {
                    self.admission.revoke(node);
                }
                AdmissionChange::Expelled(_) => {
                    warn!(
                        "this node's own grant has expired or was revoked; the others cut their links"
                    );
                }
                AdmissionChange::Keep => keep = true,
                _ => {}
            }
        }
        if keep && let Err(error) = self.save() {
            warn!(%error, "not kept over a restart");
        }
    }

    /// Answers at the door, or says what is to be said at another's.
    pub(super) fn handle_door(&mut self, event: AtDoor) {
        // Whoever asked may have gone meanwhile: then nobody hears the answer.
        match event {
            AtDoor::Asked {
                caller,
                knock,
                answer,
            } => {
                let said = self.answer(caller, &knock);
                // Before the answer: who is welcome dials at once.
                self.drain_admission();
                let _ = answer.send(encode_answer(&said).into());
            }
            AtDoor::Introduce { knock } => {
                let _ = knock.send(self.introduction());
            }
            AtDoor::Answered {
                keeper,
                answer,
                heeded,
            } => {
                let result = self.heed(keeper, &answer);
                self.drain_admission();
                let _ = heeded.send(result);
            }
        }
    }

    /// Gives out a ticket.
    pub(super) fn invite(&mut self, request: InviteRequest) -> Result<String, AdmissionError> {
        use thalweg_core::control::Keys as _;
        self.controller.check_grantable(request.rights)?;
        let fabric = self.controller.roll().fabric().ok_or(NotIssued::NoOwner)?;
        let mut addresses = request.addresses;
        let mut tcp_addresses = request.tcp_addresses;
        if addresses.is_empty() && tcp_addresses.is_empty() {
            addresses = self.endpoint.addresses();
            tcp_addresses = self.endpoint.tcp_addresses();
        }
        addresses.truncate(TICKET_ADDRESSES_MAX);
        tcp_addresses.truncate(TICKET_TCP_MAX);
        let relays = self.endpoint.relays();
        if addresses.is_empty() && tcp_addresses.is_empty() && relays.is_empty() {
            return Err(AdmissionError::NoAddress);
        }
        let now = self.controller.unix_time(self.now());
        let mut secret = [0; SECRET_BYTES];
        self.keys.random(&mut secret)?;
        let expiry = now.after(request.open_for);
        let invitation = Invitation {
            rights: request.rights,
            expiry,
            uses: request.uses,
            lasts: request.lasts,
            taken: Vec::new(),
        };
        let digest = secret_digest(&secret);
        self.kept.invitations.insert(digest, invitation, now)?;
        self.save()?;
        let relays = relays.iter().take(TICKET_RELAYS_MAX);
        let content = Ticket {
            fabric,
            inviter: self.controller.id(),
            addresses,
            tcp_addresses,
            relays: relays.map(ToString::to_string).collect(),
            secret,
            rights: request.rights,
            expiry,
        };
        let signature = self.keys.sign(&content.signed_bytes());
        info!(rights = %request.rights, uses = request.uses, "ticket given out");
        Ok(ticket::to_text(&Signed { content, signature }))
    }

    /// Revokes the grants of a node that is said by name or key; returns what was done, for people.
    pub(super) fn revoke(&mut self, node: &str) -> Result<String, AdmissionError> {
        let key = self.find(node)?;
        let name = self.name_of(key);
        let now = self.now();
        let is_known = self.controller.roll().credential(key).is_some();
        self.controller.revoke(key, now, &mut self.keys)?;
        self.drain_admission();
        self.save()?;
        if is_known {
            return Ok(format!(
                "{name} ({}) belongs to the fabric no more: its links are cut as the word gets round",
                key.short()
            ));
        }
        // A serial is the time of day, so one for a grant that was never seen reaches no further than this clock.
        Ok(format!(
            "this node knows of no grant to {name} ({}): what was granted to it until now, by this node's clock, is void as the word gets \
             round; if `thalweg ls` shows it later, this node's clock is behind: set it, restart the node, and revoke once more",
            key.short()
        ))
    }

    /// Returns the key of a node that is said by name or key.
    pub(super) fn find(&self, node: &str) -> Result<NodeId, AdmissionError> {
        if let Ok(key) = node.parse() {
            return Ok(key);
        }
        let records = self
            .controller
            .directory()
            .records()
            .map(|record| record.node);
        let members = self.controller.roll().members().map(|(key, _)| key);
        let known = records.chain(members);
        let named = NodeId::meant(node, known.map(|key| (key, self.name_of(key))));
        match named[..] {
            [key] => Ok(key),
            [] => Err(AdmissionError::Unknown(node.chars().take(80).collect())),
            _ => Err(AdmissionError::Ambiguous {
                name: node.chars().take(80).collect(),
                count: named.len(),
            }),
        }
    }

    fn answer(&mut self, caller: NodeId, knock: &[u8]) -> Answer {
        let granted = match decode_knock(knock) {
            Ok(Knock::Present { fabric, credential }) => {
                self.admit(caller, fabric, credential).map(|()| None)
            }
            Ok(Knock::Redeem { fabric, secret }) => self.redeem(caller, fabric, &secret).map(Some),
            Err(error) => Err(error.to_string()),
        };
        match granted {
            Ok(granted) => {
                debug!(caller = %caller.short(), "let in at the door");
                Answer::Welcome {
                    credential: self.own_credential(),
                    granted,
                }
            }
            Err(why) => {
                let own = self.controller.id();
                let reason = format!(
                    "{} ({}) does not let {} in: {why}",
                    self.name_of(own),
                    own.short(),
                    caller.short()
                );
                self.refusals.count("door", reason.clone());
                Answer::Refused { reason }
            }
        }
    }

    fn admit(
        &mut self,
        caller: NodeId,
        fabric: NodeId,
        credential: Option<Credential>,
    ) -> Result<(), String> {
        self.same_fabric(fabric)?;
        if fabric == caller {
            return Ok(());
        }
        let credential = credential.ok_or("it shows no grant")?;
        self.take_shown(caller, credential)
    }

    /// Takes in what a node shows as its own grant.
    fn take_shown(&mut self, shown_by: NodeId, credential: Credential) -> Result<(), String> {
        let granted = credential.grant.content.node;
        if granted != shown_by {
            return Err(Unfit::OtherNode { granted, shown_by }.to_string());
        }
        let now = self.now();
        self.controller
            .handle_credential(credential, now, &mut self.keys)
            .map_err(|error| error.to_string())
    }

    fn redeem(
        &mut self,
        caller: NodeId,
        fabric: NodeId,
        secret: &[u8; SECRET_BYTES],
    ) -> Result<Credential, String> {
        self.same_fabric(fabric)?;
        let now = self.now();
        let (at, serial) = (
            self.controller.unix_time(now),
            self.controller.next_serial(caller, now),
        );
        let digest = secret_digest(secret);
        let redeemed = self.kept.invitations.redeem(&digest, caller, serial, at);
        let redeemed = redeemed.map_err(|error| error.to_string())?;
        // On disk before it is used: a ticket is not good twice because the machine failed in between.
        self.save().map_err(|error| error.to_string())?;
        self.controller
            .grant(
                caller,
                redeemed.rights,
                redeemed.lasts,
                redeemed.serial,
                now,
                &mut self.keys,
            )
            .map_err(|error| error.to_string())
    }

    fn same_fabric(&self, theirs: NodeId) -> Result<(), String> {
        match self.controller.roll().fabric() {
            None => Err("its fabric has no owner, and takes no grants and tickets".into()),
            Some(ours) if ours != theirs => Err(Unfit::OtherFabric { theirs, ours }.to_string()),
            Some(_) => Ok(()),
        }
    }

    fn introduction(&self) -> Option<Bytes> {
        let fabric = self.controller.roll().fabric()?;
        let credential = self.own_credential();
        if credential.is_none() && fabric != self.controller.id() {
            return None;
        }
        Some(encode_knock(&Knock::Present { fabric, credential }).into())
    }

    fn heed(&mut self, keeper: NodeId, answer: &[u8]) -> Result<(), String> {
        match decode_answer(answer) {
            Ok(Answer::Refused { reason }) => Err(reason),
            Ok(Answer::Welcome { credential, .. }) => match credential {
                Some(credential) => self.take_shown(keeper, credential),
                None if self.controller.roll().fabric() == Some(keeper) => Ok(()),
                None => Err(format!("{} shows no grant", keeper.short())),
            },
            Err(error) => Err(format!(
                "{} answers what is no answer: {error}",
                keeper.short()
            )),
        }
    }

    fn own_credential(&self) -> Option<Credential> {
        let roll = self.controller.roll();
        roll.credential(self.controller.id()).cloned()
    }

    fn save(&self) -> Result<(), StateError> {
        let Some(file) = &self.kept.file else {
            return Ok(());
        };
        let roll = self.controller.roll();
        let state = State {
            fabric: roll.fabric(),
            credential: self.own_credential(),
            contacts: self.kept.contacts.clone(),
            warrants: roll.warrants().cloned().collect(),
            invitations: self.kept.invitations.clone(),
        };
        state.save(file)
    }
}
