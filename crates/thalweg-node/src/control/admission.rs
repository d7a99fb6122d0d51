//! The driver's side of admission: tickets, grants, and which keys the network admits.
//!
//! *The idea.* The controller decides which nodes belong to the fabric, and this module applies it:
//! the network's set of admitted keys follows the membership; state that must survive a restart is
//! on disk before any other node learns of it; admission requests from other nodes are answered
//! here.

use std::path::PathBuf;

use bytes::Bytes;
use thalweg_base::id::NodeId;
use thalweg_base::limits::{TICKET_ADDRESSES_MAX, TICKET_RELAYS_MAX, TICKET_TCP_MAX};
use thalweg_base::wire::admission::{
    Answer, Credential, Knock, SECRET_BYTES, Sign as _, Signed, Ticket, decode_answer,
    decode_knock, encode_answer, encode_knock,
};
use thalweg_control::admission::{Invitation, Invitations, Unfit};
use thalweg_control::control::{AdmissionChange, NotIssued};
use thalweg_net::AtDoor;
use tracing::{debug, info, warn};

use super::Control;
use crate::fabric::state::{Contact, State};
use crate::fabric::{StateError, secret_digest, ticket};
use crate::input::{AdmissionError, InviteRequest};

/// The node's state file and the part of it that the controller does not hold.
pub(super) struct SavedState {
    pub(super) file: Option<PathBuf>,
    pub(super) invitations: Invitations,
    pub(super) contacts: Vec<Contact>,
}

impl Control {
    /// Applies the controller's membership changes to the network's admitted keys, and saves the
    /// state if needed.
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
                        "this node's own grant has expired or was revoked; other nodes close their links to it"
                    );
                }
                AdmissionChange::Keep => keep = true,
                _ => {}
            }
        }
        if keep && let Err(error) = self.save() {
            warn!(%error, "state not saved; it is lost at a restart");
        }
    }

    /// Handles one step of an admission exchange, as the answering or as the asking side.
    pub(super) fn handle_door(&mut self, event: AtDoor) {
        // The other end of a reply channel may be gone; then the reply is not needed.
        match event {
            AtDoor::Asked {
                caller,
                knock,
                answer,
            } => {
                let reply = self.answer_request(caller, &knock);
                // Admit the key before the answer leaves, since a welcomed node dials at once.
                self.drain_admission();
                let _ = answer.send(encode_answer(&reply).into());
            }
            AtDoor::Introduce { knock } => {
                let _ = knock.send(self.introduction());
            }
            AtDoor::Answered {
                keeper,
                answer,
                heeded,
            } => {
                let result = self.handle_answer(keeper, &answer);
                self.drain_admission();
                let _ = heeded.send(result);
            }
        }
    }

    /// Issues a ticket.
    pub(super) fn invite(&mut self, request: InviteRequest) -> Result<String, AdmissionError> {
        use thalweg_control::control::Keys as _;
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
        self.saved.invitations.insert(digest, invitation, now)?;
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
        info!(rights = %request.rights, uses = request.uses, "ticket issued");
        Ok(ticket::to_text(&Signed { content, signature }))
    }

    /// Revokes all grants of a node, given by name or key; returns a sentence for the operator.
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
                "{name} ({}) no longer belongs to the fabric: its links are closed as the revocation spreads",
                key.short()
            ));
        }
        // A serial is the time of day, so the revocation of a grant never seen covers grants up to
        // this clock's time only.
        Ok(format!(
            "this node knows of no grant to {name} ({}): grants to it up to now, by this node's clock, become void as the revocation \
             spreads; if `thalweg ls` shows it later, this node's clock is behind: set the clock, restart the node, and revoke again",
            key.short()
        ))
    }

    /// Returns the key of a node given by name or key.
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

    fn answer_request(&mut self, caller: NodeId, knock: &[u8]) -> Answer {
        let granted = match decode_knock(knock) {
            Ok(Knock::Present { fabric, credential }) => {
                self.admit(caller, fabric, credential).map(|()| None)
            }
            Ok(Knock::Redeem { fabric, secret }) => self.redeem(caller, fabric, &secret).map(Some),
            Err(error) => Err(error.to_string()),
        };
        match granted {
            Ok(granted) => {
                debug!(caller = %caller.short(), "admitted");
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
                self.refusals.count("admission", reason.clone());
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
        self.accept_credential(caller, credential)
    }

    /// Accepts the credential that a node shows as its own.
    fn accept_credential(
        &mut self,
        shown_by: NodeId,
        credential: Credential,
    ) -> Result<(), String> {
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
        let redeemed = self.saved.invitations.redeem(&digest, caller, serial, at);
        let redeemed = redeemed.map_err(|error| error.to_string())?;
        // On disk before the grant exists: a crash in between must not let the ticket be redeemed
        // once more.
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
            None => Err("its fabric has no owner, so grants and tickets do not apply".into()),
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

    fn handle_answer(&mut self, keeper: NodeId, answer: &[u8]) -> Result<(), String> {
        match decode_answer(answer) {
            Ok(Answer::Refused { reason }) => Err(reason),
            Ok(Answer::Welcome { credential, .. }) => match credential {
                Some(credential) => self.accept_credential(keeper, credential),
                None if self.controller.roll().fabric() == Some(keeper) => Ok(()),
                None => Err(format!("{} shows no grant", keeper.short())),
            },
            Err(error) => Err(format!(
                "{} sent an invalid answer: {error}",
                keeper.short()
            )),
        }
    }

    fn own_credential(&self) -> Option<Credential> {
        let roll = self.controller.roll();
        roll.credential(self.controller.id()).cloned()
    }

    fn save(&self) -> Result<(), StateError> {
        let Some(file) = &self.saved.file else {
            return Ok(());
        };
        let roll = self.controller.roll();
        let state = State {
            fabric: roll.fabric(),
            credential: self.own_credential(),
            contacts: self.saved.contacts.clone(),
            warrants: roll.warrants().cloned().collect(),
            invitations: self.saved.invitations.clone(),
        };
        state.save(file)
    }
}
